//! Internet addresses, as the kernel takes and gives them (`sockaddr_in`, `sockaddr_in6`).

/// The first 12 bytes of an IPv6 address that stands for an IPv4 address.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

const INET: u8 = 2;
const INET6: u8 = 10;
/// Bytes of a `sockaddr_in`, and of a `sockaddr_in6`.
const LENGTH: usize = 16;
const LENGTH6: usize = 28;

/// A `sockaddr_in` or a `sockaddr_in6`, and its length.
pub type SocketAddress = ([u8; LENGTH6], usize);

/// The IPv6 address that stands for an IPv4 address.
pub fn mapped(ip: [u8; 4]) -> [u8; 16] {
    let mut all = [0; 16];
    all[..12].copy_from_slice(&MAPPED);
    all[12..].copy_from_slice(&ip);
    all
}

/// Whether an address stands for itself, not for an IPv4 address.
pub fn is_v6(ip: &[u8; 16]) -> bool {
    ip[..12] != MAPPED
}

/// An address, IPv4 ones mapped, with a port; `scope`: the interface of an IPv6 address that counts on one link alone.
pub fn socket_address(ip: &[u8; 16], port: u16, scope: u32) -> SocketAddress {
    let mut bytes = [0; LENGTH6];
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    if is_v6(ip) {
        bytes[0] = INET6;
        bytes[8..24].copy_from_slice(ip);
        bytes[24..28].copy_from_slice(&scope.to_ne_bytes());
        (bytes, LENGTH6)
    } else {
        bytes[0] = INET;
        bytes[4..8].copy_from_slice(&ip[12..]);
        (bytes, LENGTH)
    }
}

/// Whether a datagram that came from `from` was sent at `address`: by family, port and IP address.
pub fn is_from(address: &SocketAddress, from: &[u8; LENGTH6]) -> bool {
    let (address, length) = address;
    let ip = if *length == LENGTH6 { 8..24 } else { 4..8 };
    from[..4] == address[..4] && from[ip.clone()] == address[ip]
}

/// An IPv4 address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    ip: [u8; 4],
    port: u16,
}

impl Peer {
    pub const NOBODY: Peer = Peer { ip: [0; 4], port: 0 };

    /// Reads a `sockaddr_in`.
    pub fn of(address: &[u8; LENGTH]) -> Peer {
        let [_, _, high, low, a, b, c, d, ..] = *address;
        Peer { ip: [a, b, c, d], port: u16::from_be_bytes([high, low]) }
    }

    /// The `sockaddr_in`.
    pub fn address(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = INET;
        bytes[2..4].copy_from_slice(&self.port.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.ip);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];

    #[test]
    fn addresses_are_laid_out_as_the_kernel_has_them() {
        let (bytes, length) = socket_address(&mapped([10, 1, 2, 3]), 53, 7);
        assert_eq!(bytes[..length], [2, 0, 0, 53, 10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0]);
        let (bytes, length) = socket_address(&V6, 0x1234, 7);
        assert_eq!((length, &bytes[..8]), (28, &[10, 0, 0x12, 0x34, 0, 0, 0, 0][..]));
        assert_eq!((&bytes[8..24], &bytes[24..]), (&V6[..], &7u32.to_ne_bytes()[..]));
        assert!(is_v6(&V6) && !is_v6(&mapped([0; 4])));
    }

    #[test]
    fn a_datagram_is_from_an_address_of_one_family_port_and_ip() {
        for ip in [mapped([127, 0, 0, 1]), V6] {
            let asked = socket_address(&ip, 53, 3);
            assert!(is_from(&asked, &socket_address(&ip, 53, 4).0), "the interface does not count");
            assert!(!is_from(&asked, &socket_address(&ip, 54, 3).0));
            assert!(!is_from(&asked, &socket_address(&mapped([127, 0, 0, 2]), 53, 3).0));
        }
        assert!(!is_from(&socket_address(&V6, 53, 3), &socket_address(&mapped([0; 4]), 53, 0).0));
    }

    #[test]
    fn a_peer_is_read_as_it_is_written() {
        let address = [2, 0, 0x12, 0x34, 172, 17, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Peer::of(&address).address(), address);
        assert_eq!(Peer::of(&Peer::NOBODY.address()), Peer::NOBODY);
    }
}
