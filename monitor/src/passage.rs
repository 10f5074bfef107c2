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
