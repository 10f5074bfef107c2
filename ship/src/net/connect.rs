//! Sockets of every kind of address.

use super::{PATIENCE, Problem, wait};
use crate::cursor::Fault;
use crate::options::Address;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open as open_file};
use nix::poll::PollFlags;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrLike, SockaddrStorage, UnixAddr, connect, setsockopt, socket, sockopt,
};
use nix::sys::stat::{Mode, fstat};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, mpsc};

/// The usual sockets of the host's own syslog.
const SYSLOG: [&str; 3] = ["/dev/log", "/var/run/syslog", "/var/run/log"];
/// A connection on which nothing is sent is checked after so many seconds, and then so often.
const IDLE: u32 = 60;
const PROBES: u32 = 15;

fn failed(errno: Errno) -> Problem {
    Problem::Failed(Fault::Connect, errno as i32)
}

/// Opens a connected socket that blocks no call.
pub(super) fn open(address: &Address, stop: BorrowedFd<'_>) -> Result<OwnedFd, Problem> {
    match address {
        Address::Udp(host, port) => to_host(host, *port, SockType::Datagram, stop),
        Address::Tcp(host, port) | Address::Tls(host, port) => {
            let socket = to_host(host, *port, SockType::Stream, stop)?;
            watch_peer(&socket).map_err(failed)?;
            Ok(socket)
        }
        Address::Unix(path) => unix(path, SockType::Stream, stop),
        Address::Own(path) => own(path, stop),
        Address::UnixDatagram(path) => unix(path, SockType::Datagram, stop),
        // A plugin has a FIFO.
        Address::Plugin(_) => Err(failed(Errno::EAFNOSUPPORT)),
        Address::LocalSyslog => {
            let opened = SYSLOG.iter().map(|path| unix(path, SockType::Datagram, stop));
            let mut opened = opened.collect::<Vec<_>>();
            let there = opened.iter().position(Result::is_ok).unwrap_or(0);
            opened.swap_remove(there)
        }
    }
}

/// Tries the addresses of a name in turn. The name is looked up for each connection.
fn to_host(host: &str, port: u16, kind: SockType, stop: BorrowedFd<'_>) -> Result<OwnedFd, Problem> {
    let found = look_up(host, port, stop)?;
    let mut last = Problem::Failed(Fault::Resolve, 0);
    for address in found {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        match connected(family, kind, &storage(address), stop) {
            Ok(socket) => return Ok(socket),
            Err(Problem::Stopped) => return Err(Problem::Stopped),
            Err(problem) => last = problem,
        }
    }
    Err(last)
}

/// The C library's look-up blocks for as long as a name server does not answer.
fn look_up(host: &str, port: u16, stop: BorrowedFd<'_>) -> Result<Vec<SocketAddr>, Problem> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let name = (host.to_owned(), port);
    let found = aside(move || name.to_socket_addrs().map(Vec::from_iter), stop)?;
    found.map_err(|error| Problem::Failed(Fault::Resolve, error.raw_os_error().unwrap_or(0)))
}

/// Does work that blocks on a thread of its own. If the shipper is to end, this does not wait for the work, which ends
/// by itself.
fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static, stop: BorrowedFd<'_>) -> Result<T, Problem> {
    let failed = |errno: Errno| Problem::Failed(Fault::Resolve, errno as i32);
    let done = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map_err(failed)?);
    let (theirs, (give, take)) = (Arc::clone(&done), mpsc::channel());
    // The thread has the signal mask of this one.
    let started = std::thread::Builder::new().name("coracle-resolver".into()).spawn(move || {
        let _ = give.send(work());
        let _ = theirs.write(1);
    });
    started.map_err(|error| failed(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EAGAIN))))?;
    while !wait(done.as_fd(), PollFlags::POLLIN, PATIENCE, stop)? {}
    take.try_recv().map_err(|_| failed(Errno::EIO))
}

fn storage(address: SocketAddr) -> SockaddrStorage {
    SockaddrStorage::from(address)
}

fn unix(path: &str, kind: SockType, stop: BorrowedFd<'_>) -> Result<OwnedFd, Problem> {
    let address = UnixAddr::new(path).map_err(failed)?;
    connected(AddressFamily::Unix, kind, &address, stop)
}

/// A socket in a directory that the one who listens may write into. A link in its place may lead to any socket of the host: it is
/// refused.
fn own(path: &str, stop: BorrowedFd<'_>) -> Result<OwnedFd, Problem> {
    let file = open_file(path, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty()).map_err(failed)?;
    match fstat(&file).map_err(failed)?.st_mode & libc::S_IFMT {
        // By the descriptor: nobody can exchange the file that was looked at.
        libc::S_IFSOCK => unix(&format!("/proc/self/fd/{}", file.as_raw_fd()), SockType::Stream, stop),
        _ => Err(failed(Errno::ENOTSOCK)),
    }
}

fn connected(
    family: AddressFamily,
    kind: SockType,
    address: &dyn SockaddrLike,
    stop: BorrowedFd<'_>,
) -> Result<OwnedFd, Problem> {
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None).map_err(failed)?;
    match connect(socket.as_raw_fd(), address) {
        Ok(()) => return Ok(socket),
        Err(Errno::EINPROGRESS | Errno::EINTR) => {}
        Err(errno) => return Err(failed(errno)),
    }
    if !wait(socket.as_fd(), PollFlags::POLLOUT, PATIENCE, stop)? {
        return Err(failed(Errno::ETIMEDOUT));
    }
    match nix::sys::socket::getsockopt(&socket, sockopt::SocketError) {
        Ok(0) => Ok(socket),
        Ok(errno) => Err(failed(Errno::from_raw(errno))),
        Err(errno) => Err(failed(errno)),
    }
}

/// A peer that vanished is noticed, also while nothing is sent. `TCP_USER_TIMEOUT` would also end the connection of a
/// receiver that only reads nothing: each new one would take more lines into the receiver's kernel.
fn watch_peer(socket: &OwnedFd) -> nix::Result<()> {
    setsockopt(socket, sockopt::KeepAlive, &true)?;
    setsockopt(socket, sockopt::TcpKeepIdle, &IDLE)?;
    setsockopt(socket, sockopt::TcpKeepInterval, &PROBES)?;
    setsockopt(socket, sockopt::TcpNoDelay, &true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_an_own_socket_is_refused() {
        let dir = std::env::temp_dir().join(format!("coracle-own-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (socket, link) = (dir.join("a.sock"), dir.join("b.sock"));
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        let connect = |path: &std::path::Path, own: bool| {
            let path = path.to_str().unwrap().to_owned();
            let address = if own { Address::Own(path) } else { Address::Unix(path) };
            open(&address, stop.as_fd()).map(drop)
        };
        assert_eq!(connect(&link, false), Ok(()));
        assert_eq!(connect(&link, true), Err(failed(Errno::ENOTSOCK)));
        assert_eq!(connect(&socket, true), Ok(()));
        drop(listener);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_look_up_that_blocks_does_not_hold_the_end_up() {
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC).unwrap();
        assert_eq!(aside(|| 5, stop.as_fd()), Ok(5));
        let named = look_up("localhost", 7, stop.as_fd()).unwrap();
        assert!(!named.is_empty() && named.iter().all(|address| address.port() == 7), "{named:?}");
        stop.write(1).unwrap();
        let (go, blocked) = mpsc::channel::<()>();
        assert_eq!(aside(move || blocked.recv().is_ok(), stop.as_fd()), Err(Problem::Stopped));
        drop(go);
    }
}
