//! Reserved ports of the host: bound sockets that nobody reads, kept open without a process of ours.

use super::fd::errno;
use super::socket;
use crate::error::{Error, Result};
use coracle_monitor::wire::RELAY_KEY;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The most descriptors in one packet here.
const PACKET: usize = 16;

/// The most connections that wait at a port with a reader.
const BACKLOG: i32 = 4096;

/// Takes a port of the host: a listening (TCP) or bound (UDP, SCTP) socket, for a reader (`read`) or to keep others
/// out. Errors have the kernel's number.
pub(crate) fn reserve(protocol: i32, ip: IpAddr, port: u16, read: bool) -> Result<OwnedFd> {
    // A reader of datagrams sees addresses of one form.
    let ip = match ip {
        IpAddr::V4(ip) if read && protocol == libc::IPPROTO_UDP && has_v6() => IpAddr::V6(ip.to_ipv6_mapped()),
        ip => ip,
    };
    let family = if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = match protocol {
        libc::IPPROTO_UDP => libc::SOCK_DGRAM,
        _ => libc::SOCK_STREAM,
    };
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(Error::os("socket", errno()));
    }
    // SAFETY: the kernel just gave us this descriptor.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    if family == libc::AF_INET6 {
        let is_mapped = matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, i32::from(!is_mapped));
    }
    if protocol == libc::IPPROTO_TCP {
        // Connections that ended a moment ago do not block the port; a listening socket still keeps every other program
        // out.
        set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1);
    }
    if read && protocol == libc::IPPROTO_UDP {
        // Answers come from the address that was asked.
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1);
    }
    let address = nix::sys::socket::SockaddrStorage::from(SocketAddr::new(ip, port));
    nix::sys::socket::bind(socket.as_raw_fd(), &address).map_err(|e| Error::os("bind", e as i32))?;
    let backlog = if read { BACKLOG } else { 0 };
    // SAFETY: no pointers.
    if protocol == libc::IPPROTO_TCP && unsafe { libc::listen(fd, backlog) } < 0 {
        return Err(Error::os("listen", errno()));
    }
    Ok(socket)
}

/// The most descriptors of a monitor that is started from here.
pub(crate) fn descriptors() -> Result<u64> {
    use nix::sys::resource::{Resource, getrlimit};
    getrlimit(Resource::RLIMIT_NOFILE).map(|(_, hard)| hard).map_err(|e| Error::os("getrlimit", e as i32))
}

fn has_v6() -> bool {
    std::path::Path::new("/proc/sys/net/ipv6").exists()
}

fn set(socket: &OwnedFd, level: i32, option: i32, value: i32) {
    let (pointer, length) = ((&raw const value).cast(), size_of::<i32>() as libc::socklen_t);
    // SAFETY: the value lives over the call. A kernel that does not know the option makes a stricter socket.
    unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, pointer, length) };
}

/// Any number of descriptors as one: they lie in its queue, open until it is closed. Each has a key for the reader.
pub(crate) struct Bundle {
    sender: OwnedFd,
    queue: OwnedFd,
    next: Vec<OwnedFd>,
    keys: Vec<u8>,
}

impl Bundle {
    pub(crate) fn new() -> Result<Bundle> {
        let (sender, queue) = socket::packet_pair()?;
        set(&sender, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 8 << 20);
        Ok(Bundle { sender, queue, next: Vec::new(), keys: Vec::new() })
    }

    /// Adds a descriptor; few are open at a time, however many the bundle gets.
    pub(crate) fn push(&mut self, fd: OwnedFd, key: &[u8; RELAY_KEY]) -> Result<()> {
        self.next.push(fd);
        self.keys.extend_from_slice(key);
        if self.next.len() == PACKET { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<()> {
        let raw: Vec<RawFd> = self.next.iter().map(AsRawFd::as_raw_fd).collect();
        socket::send_now(self.sender.as_fd(), &self.keys, &raw)?;
        self.next.clear();
        self.keys.clear();
        Ok(())
    }

    /// The descriptor that stands for all.
    pub(crate) fn finish(mut self) -> Result<OwnedFd> {
        if !self.next.is_empty() {
            self.send()?;
        }
        Ok(self.queue)
    }
}
