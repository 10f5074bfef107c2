//! Finds out how much of an answer a TCP client on this host has read, as the kernel says of the client's own socket
//! (`sock_diag`). Of a client elsewhere (another host, another network namespace, behind an address translation) nothing is
//! known but that its kernel has it; nor where the kernel does not answer (no rights, not built in).

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, getpeername, getsockname, recv, send,
    socket,
};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// A request: the head of a netlink message, `inet_diag_req_v2`.
const REQUEST: usize = 16 + 56;
/// Where a request has the two ports of the socket that it asks for.
const ASKED: usize = 16 + 8;
/// Where an answer (the head, `inet_diag_msg`, attributes) has the socket's state, its two ports, the bytes that it has not
/// given out, and those that were not acknowledged to it.
const STATE: usize = 16 + 1;
const PORTS: usize = 16 + 4;
const UNREAD: usize = 16 + 4 + 48 + 4;
const UNACKNOWLEDGED: usize = UNREAD + 4;
const ATTRIBUTES: usize = 16 + 72;
/// Where `tcp_info` counts the bytes that went through the socket.
const ACKNOWLEDGED: usize = 120;
const RECEIVED: usize = 128;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const INET_DIAG_INFO: u16 = 2;
const LISTENS: u8 = 10;

/// The client's end of a TCP connection, which is a socket of this network namespace. It holds nothing open.
pub(crate) struct Peer {
    theirs: [u8; REQUEST],
    ours: [u8; REQUEST],
}

/// The kernel's answer about one end of a connection.
struct End(Vec<u8>);

impl Peer {
    /// The other end of a connection; `None`: it is elsewhere, or no TCP.
    pub(crate) fn of(connection: BorrowedFd<'_>) -> Option<Peer> {
        let ours = address(&getsockname(connection.as_raw_fd()).ok()?)?;
        let theirs = address(&getpeername(connection.as_raw_fd()).ok()?)?;
        let peer = Peer { theirs: request(theirs, ours), ours: request(ours, theirs) };
        peer.unread().map(|_| peer)
    }

    /// How many of the bytes that have arrived the client has not read; `None`: its socket is not there, or not any more.
    pub(crate) fn unread(&self) -> Option<u32> {
        End::ask(&self.theirs)?.number(UNREAD)
    }

    /// Whether all that was sent is in the client's socket. Acknowledgements show that too, but kernels put them off (40 ms).
    pub(crate) fn has_arrived(&self) -> Option<bool> {
        let ours = End::ask(&self.ours)?;
        // An acknowledgement between the two counts is counted twice: it has not arrived, then, and the next look sees it.
        let sent = ours.count(ACKNOWLEDGED)? + u64::from(ours.number(UNACKNOWLEDGED)?);
        Some(End::ask(&self.theirs)?.count(RECEIVED)? >= sent)
    }
}

impl End {
    fn ask(request: &[u8; REQUEST]) -> Option<End> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let kind = SockType::Datagram;
        let netlink = socket(AddressFamily::Netlink, kind, flags, SockProtocol::NetlinkSockDiag).ok()?;
        send(netlink.as_raw_fd(), request, MsgFlags::empty()).ok()?;
        let mut answer = vec![0; 2048];
        // The kernel answers before `send` returns.
        let count = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty()).ok()?;
        answer.truncate(count);
        let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
        // A socket that listens at the port is answered for a connection that is not there.
        let is_it = *answer.get(STATE)? != LISTENS && answer.get(PORTS..PORTS + 4)? == request.get(ASKED..ASKED + 4)?;
        (kind == SOCK_DIAG_BY_FAMILY && is_it).then_some(End(answer))
    }

    fn number(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }

    /// A count of `tcp_info`.
    fn count(&self, at: usize) -> Option<u64> {
        let mut rest = self.0.get(ATTRIBUTES..)?;
        loop {
            let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
            if u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) == INET_DIAG_INFO {
                return Some(u64::from_ne_bytes(rest.get(4..length)?.get(at..at + 8)?.try_into().ok()?));
            }
            rest = rest.get(length.max(4).next_multiple_of(4)..)?;
        }
    }
}

/// An address; one of IPv4 in IPv6's clothes is one of IPv4.
fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|a| SocketAddr::from((a.ip(), a.port())));
    v4.or_else(|| storage.as_sockaddr_in6().map(|a| SocketAddr::from((a.ip().to_canonical(), a.port()))))
}

/// Asks for the socket at `local` that is connected to `remote`.
fn request(local: SocketAddr, remote: SocketAddr) -> [u8; REQUEST] {
    let mut all = Vec::with_capacity(REQUEST);
    all.extend((REQUEST as u32).to_ne_bytes());
    all.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    all.extend(NLM_F_REQUEST.to_ne_bytes());
    all.extend([0; 8]);
    let family = if local.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    all.extend([family as u8, SockProtocol::Tcp as u8, 1 << (INET_DIAG_INFO - 1), 0]);
    all.extend(u32::MAX.to_ne_bytes());
    for at in [local, remote] {
        all.extend(at.port().to_be_bytes());
    }
    for at in [local, remote] {
        let mut place = [0; 16];
        match at.ip() {
            IpAddr::V4(ip) => place[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => place = ip.octets(),
        }
        all.extend(place);
    }
    // Any interface, and no cookie.
    all.extend([0; 4]);
    all.extend([0xff; 8]);
    let mut bytes = [0; REQUEST];
    bytes.copy_from_slice(&all);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    fn becomes(what: &str, is: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is() {
            assert!(begun.elapsed() < Duration::from_secs(300), "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_client_on_this_host_tells_what_it_has_read() {
        for (place, mapped) in [("127.0.0.1:0", false), ("[::1]:0", false), ("[::]:0", true)] {
            let listener = TcpListener::bind(place).unwrap();
            let mut at = listener.local_addr().unwrap();
            if mapped {
                at.set_ip([127, 0, 0, 1].into());
            }
            let mut client = TcpStream::connect(at).unwrap();
            let (mut served, _) = listener.accept().unwrap();
            let peer = Peer::of(served.as_fd()).expect("its client is here");
            // Many exchanges: from then on kernels put acknowledgements off.
            for _ in 0..20 {
                client.write_all(b"request").unwrap();
                served.read_exact(&mut [0; 7]).unwrap();
                served.write_all(b"head").unwrap();
                becomes("it arrives", || peer.has_arrived() == Some(true));
                assert_eq!(peer.unread(), Some(4));
                client.read_exact(&mut [0; 4]).unwrap();
                assert_eq!(peer.unread(), Some(0));
            }
            drop(client);
            becomes("it is gone", || peer.unread().unwrap_or(0) == 0);
        }
    }

    /// A client elsewhere has the address of a port that somebody here listens at, or of none.
    #[test]
    fn a_client_that_is_not_here_is_not_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let there = SocketAddr::from(([127, 0, 0, 9], 9));
        assert!(End::ask(&request(here, there)).is_none());
        assert!(End::ask(&request(there, here)).is_none());
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Peer::of(one.as_fd()).is_none());
    }
}
