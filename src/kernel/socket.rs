//! Unix sockets of the control protocol: packets with descriptors.

use super::fd::{cstr, errno};
use crate::error::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The most descriptors in one packet.
const MAX_FDS: usize = 16;

/// A buffer of control messages for [`MAX_FDS`] descriptors, aligned as the kernel requires.
#[repr(C, align(8))]
struct Control([u8; 16 + 4 * MAX_FDS]);

/// A pair of connected packet sockets.
pub(crate) fn packet_pair() -> Result<(OwnedFd, OwnedFd)> {
    pair(libc::SOCK_SEQPACKET)
}

/// A pair of connected stream sockets.
pub(crate) fn stream_pair() -> Result<(OwnedFd, OwnedFd)> {
    pair(libc::SOCK_STREAM)
}

fn pair(kind: i32) -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the array has room for the two descriptors that the kernel gives.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr()) } < 0 {
        return Err(Error::os("socketpair", errno()));
    }
    // SAFETY: the kernel just gave us both.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Bytes, including the kernel's overhead, that were sent on a stream socket and not read yet (Unix sockets), or not
/// acknowledged yet (TCP). For the engine's own programs.
///
/// # Errors
/// The descriptor is another kind of socket, or none.
pub fn unread(socket: BorrowedFd<'_>) -> std::io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: the number lives over the call.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(usize::try_from(count).unwrap_or_default())
}

/// Takes over the sockets that the parent of this process left open, as `LISTEN_FDS` counts them from descriptor 3 on.
/// They become close-on-exec. For the engine's own programs.
///
/// # Errors
/// The sockets were taken already; a descriptor is closed or not a socket.
pub fn inherited(count: usize) -> Result<Vec<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    const FIRST: RawFd = 3;
    if TAKEN.swap(true, Relaxed) {
        return Err(Error::conflict("the inherited sockets were taken already"));
    }
    let numbers = FIRST..RawFd::try_from(count).unwrap_or(RawFd::MAX).saturating_add(FIRST);
    for fd in numbers.clone() {
        // SAFETY: the structure is plain, and lives over the call.
        let is_socket = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            libc::fstat(fd, &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK
        };
        // SAFETY: no pointers are passed.
        if !is_socket || unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(Error::invalid(format!("the inherited descriptor {fd} is not a socket")));
        }
    }
    // SAFETY: each is open, and left to this process to own; the flag above gives them out once.
    Ok(numbers.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect())
}

/// The size of an output pipe, if the kernel permits it: it saves switches between writer and slow reader.
const OUTPUT_PIPE: i32 = 1 << 20;

/// A pipe: (read end, write end); the write end never blocks.
pub(crate) fn output_pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the array has room for the two descriptors that the kernel gives.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(Error::os("pipe", errno()));
    }
    // SAFETY: the kernel just gave us both; the flag is set on the write end's own description.
    unsafe {
        libc::fcntl(fds[1], libc::F_SETFL, libc::O_NONBLOCK);
        libc::fcntl(fds[1], libc::F_SETPIPE_SZ, OUTPUT_PIPE);
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// A socket address below a directory: `/proc/self/fd/N/name`, so that the length of the directory's path does not
/// matter.
fn address(dir: BorrowedFd<'_>, name: &str) -> Result<(libc::sockaddr_un, libc::socklen_t)> {
    let path = cstr(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))?;
    let bytes = path.as_bytes_with_nul();
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if bytes.len() > address.sun_path.len() {
        return Err(Error::invalid(format!("socket name {name} is too long")));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok((address, (std::mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len()) as libc::socklen_t))
}

fn packet_socket() -> Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(Error::os("socket", errno()));
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Connects to the packet socket `name` in `dir`. Errors: EAGAIN, here and in each send, if the other side accepts
/// nothing for `limit`.
pub(crate) fn connect(dir: BorrowedFd<'_>, name: &str, limit: Duration) -> Result<OwnedFd> {
    let socket = packet_socket()?;
    let (address, length) = address(dir, name)?;
    let time = libc::timeval { tv_sec: limit.as_secs() as libc::time_t, tv_usec: limit.subsec_micros().into() };
    let (pointer, size) = ((&raw const time).cast(), size_of::<libc::timeval>() as libc::socklen_t);
    // SAFETY: the value lives over the call and has that size.
    if unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDTIMEO, pointer, size) } < 0 {
        return Err(Error::os("bound the waiting of a socket", errno()));
    }
    // SAFETY: the address lives over the call and has that length.
    if unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) } < 0 {
        return Err(Error::os(format_args!("connect to {name}"), errno()));
    }
    Ok(socket)
}

/// A listening packet socket `name` in `dir`.
pub(crate) fn listen(dir: BorrowedFd<'_>, name: &str) -> Result<OwnedFd> {
    let socket = packet_socket()?;
    let (address, length) = address(dir, name)?;
    // SAFETY: the address lives over the call and has that length; listen takes no pointers.
    let bound = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) == 0
            && libc::listen(socket.as_raw_fd(), 8) == 0
    };
    if bound { Ok(socket) } else { Err(Error::os(format_args!("listen at {name}"), errno())) }
}

/// Accepts one waiting connection.
pub(crate) fn accept(socket: BorrowedFd<'_>) -> Result<OwnedFd> {
    // SAFETY: null addresses are allowed.
    let fd =
        unsafe { libc::accept4(socket.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC) };
    if fd < 0 {
        return Err(Error::os("accept", errno()));
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends one packet with descriptors; never raises SIGPIPE.
pub(crate) fn send(socket: BorrowedFd<'_>, data: &[u8], fds: &[RawFd]) -> Result<()> {
    send_with(socket, data, fds, 0)
}

/// Sends like [`send`], but returns an error instead of waiting.
pub(crate) fn send_now(socket: BorrowedFd<'_>, data: &[u8], fds: &[RawFd]) -> Result<()> {
    send_with(socket, data, fds, libc::MSG_DONTWAIT)
}

fn send_with(socket: BorrowedFd<'_>, data: &[u8], fds: &[RawFd], flags: i32) -> Result<()> {
    assert!(fds.len() <= MAX_FDS, "a packet takes {MAX_FDS} descriptors");
    let mut control = Control([0; 16 + 4 * MAX_FDS]);
    let length = 16 + 4 * fds.len();
    control.0[..8].copy_from_slice(&length.to_ne_bytes());
    control.0[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    control.0[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
    for (at, fd) in fds.iter().enumerate() {
        control.0[16 + 4 * at..20 + 4 * at].copy_from_slice(&fd.to_ne_bytes());
    }
    let mut iov = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: all zeroes is a valid header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    if !fds.is_empty() {
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = length.next_multiple_of(8);
    }
    loop {
        // SAFETY: header, data and control live over the call.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | flags) };
        if sent >= 0 {
            return Ok(());
        }
        if errno() != libc::EINTR {
            return Err(Error::os("send a packet", errno()));
        }
    }
}

/// Receives one packet (blocking) with its descriptors; 0 bytes are the end.
pub(crate) fn receive(socket: BorrowedFd<'_>, data: &mut [u8]) -> Result<(usize, Vec<OwnedFd>)> {
    receive_with(socket, data, 0)
}

/// Receives like [`receive`], but leaves the packet in the socket: the next call gets the packet, too.
pub(crate) fn peek(socket: BorrowedFd<'_>, data: &mut [u8]) -> Result<(usize, Vec<OwnedFd>)> {
    receive_with(socket, data, libc::MSG_PEEK)
}

fn receive_with(socket: BorrowedFd<'_>, data: &mut [u8], flags: i32) -> Result<(usize, Vec<OwnedFd>)> {
    let mut control = Control([0; 16 + 4 * MAX_FDS]);
    let mut iov = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: all zeroes is a valid header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iov;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    let got = loop {
        // SAFETY: header, data and control live over the call.
        let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC | flags) };
        if got >= 0 {
            break got as usize;
        }
        if errno() != libc::EINTR {
            return Err(Error::os("receive a packet", errno()));
        }
    };
    let mut fds = Vec::new();
    if message.msg_controllen >= 16 {
        let mut word = [0u8; 8];
        word.copy_from_slice(&control.0[..8]);
        let end = usize::from_ne_bytes(word).clamp(16, control.0.len());
        for bytes in control.0[16..end].chunks_exact(4) {
            let fd = i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            // SAFETY: the kernel installed this descriptor for us with the packet.
            fds.push(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    Ok((got, fds))
}

/// Sends as much as fits now on a stream socket, without SIGPIPE; `None`: nothing fits.
pub(crate) fn send_some(socket: BorrowedFd<'_>, data: &[u8]) -> Result<Option<usize>> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the slice is valid for its length.
    let sent = unsafe { libc::send(socket.as_raw_fd(), data.as_ptr().cast(), data.len(), flags) };
    match (sent, errno()) {
        (0.., _) => Ok(Some(sent as usize)),
        (_, libc::EAGAIN | libc::EINTR) => Ok(None),
        (_, error) => Err(Error::os("write input", error)),
    }
}

/// Ends the writing side of a stream socket.
pub(crate) fn shut_write(socket: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: no pointers.
    let shut = unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) };
    if shut == 0 || errno() == libc::ENOTCONN { Ok(()) } else { Err(Error::os("end the input", errno())) }
}
