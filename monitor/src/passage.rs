//! Published ports that are passed on: where each leads, and from whom and to whom a datagram comes.

use crate::addresses::socket_address;
use crate::ops::{List, RelayPort};
use crate::wire::RELAY_KEY;

/// The address in the container: `sockaddr_in` or `sockaddr_in6`, and its length.
#[derive(Debug, PartialEq, Eq)]
pub struct Target {
    pub address: [u8; 28],
    pub length: usize,
}

/// Where the port of this key leads, by the plan's [`crate::ops::Relay`].
pub fn find(ports: List<'_, RelayPort<'_>>, key: &[u8; RELAY_KEY]) -> Option<Target> {
    for port in ports.iter() {
        if port.key == key {
            return Some(target(port.ip, port.port as u16));
        }
    }
    None
}

fn target(ip: &[u8; 16], port: u16) -> Target {
    let (address, length) = socket_address(ip, port, 0);
    Target { address, length }
}

/// Compares port, address and interface; the flow label may change.
pub fn same_peer(a: &[u8; 28], b: &[u8; 28]) -> bool {
    a[2..4] == b[2..4] && a[8..] == b[8..]
}

/// The control message for an answer, from that of a question (`in6_pktinfo`): the answer leaves from the address that
/// was asked. The routes choose the interface, except for link-local addresses.
pub fn own_address(mut asked: [u8; 40]) -> [u8; 40] {
    const ADDRESS: usize = 16;
    const INTERFACE: usize = 32;
    if asked[ADDRESS..ADDRESS + 2] != [0xfe, 0x80] {
        asked[INTERFACE..INTERFACE + 4].fill(0);
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::mapped;
    use crate::encode::Items;

    #[test]
    fn a_port_leads_to_the_address_of_its_key() {
        let (v4, v6) = (mapped([172, 17, 0, 2]), [7; 16]);
        let ports = Items::of([
            RelayPort { key: &[1; RELAY_KEY], ip: &v4, port: 80 },
            RelayPort { key: &[2; RELAY_KEY], ip: &v6, port: 0x1_0050 },
        ]);
        let of = |key: u8| find(ports.list(), &[key; RELAY_KEY]);
        let first = of(1).expect("the first port");
        assert_eq!(first.address[..first.length], [2, 0, 0, 80, 172, 17, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        let second = of(2).expect("the second port");
        assert_eq!((second.length, &second.address[..4], &second.address[8..24]), (28, &[10, 0, 0, 80][..], &v6[..]));
        assert_eq!(of(3), None);
    }

    #[test]
    fn a_client_is_told_by_address_and_port() {
        let (a, _) = socket_address(&[7; 16], 4000, 2);
        let mut b = a;
        b[4..8].fill(9);
        assert!(same_peer(&a, &b), "the flow label may change");
        for at in [2, 8, 27] {
            let mut other = a;
            other[at] ^= 1;
            assert!(!same_peer(&a, &other), "byte {at}");
        }
    }

    #[test]
    fn an_answer_leaves_over_the_interface_of_a_link_local_address_alone() {
        let mut asked = [5; 40];
        let plain = own_address(asked);
        assert_eq!((&plain[..32], &plain[32..36], &plain[36..]), (&asked[..32], &[0; 4][..], &asked[36..]));
        (asked[16], asked[17]) = (0xfe, 0x80);
        assert_eq!(own_address(asked), asked);
    }
}
