//! Ports of the host that are kept from other programs: bound sockets that nobody reads, held without a process of ours.

use super::fd::errno;
use super::socket;
use crate::error::{Error, Result};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// How many descriptors travel in one packet here.
const PACKET: usize = 16;

/// Takes a port of the host: a listening (TCP, SCTP) or bound (UDP) socket. Errors carry the kernel's number.
pub(crate) fn reserve(protocol: i32, ip: IpAddr, port: u16) -> Result<OwnedFd> {
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
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1);
    }
    if protocol != libc::IPPROTO_UDP {
        // Connections that ended a moment ago do not count; a listening socket keeps everybody else out all the same.
        set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1);
    }
    let address = nix::sys::socket::SockaddrStorage::from(SocketAddr::new(ip, port));
    nix::sys::socket::bind(socket.as_raw_fd(), &address).map_err(|e| Error::os("bind", e as i32))?;
    // SAFETY: no pointers.
    if protocol != libc::IPPROTO_UDP && unsafe { libc::listen(fd, 0) } < 0 {
        return Err(Error::os("listen", errno()));
    }
    Ok(socket)
}

fn set(socket: &OwnedFd, level: i32, option: i32, value: i32) {
    let (pointer, length) = ((&raw const value).cast(), size_of::<i32>() as libc::socklen_t);
    // SAFETY: the value lives over the call. A kernel that does not know the option makes a stricter socket.
    unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, pointer, length) };
}

/// Any number of descriptors as one: they lie in its queue, open until it is closed.
pub(crate) fn bundle(fds: &[OwnedFd]) -> Result<OwnedFd> {
    let (sender, queue) = socket::packet_pair()?;
    set(&sender, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 8 << 20);
    for part in fds.chunks(PACKET) {
        let raw: Vec<RawFd> = part.iter().map(AsRawFd::as_raw_fd).collect();
        socket::send_now(sender.as_fd(), b"hold", &raw)?;
    }
    Ok(queue)
}
