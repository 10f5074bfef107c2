//! Where a server listens: addresses, and sockets bound so that nobody gets in who may not.

use super::Peer;
use coracle::walls::Wall;
use coracle::{Error, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockname, getsockopt, listen, socket,
    sockopt,
};
use std::fmt;
use std::fs::{self, File, Permissions};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where a server listens.
///
/// ```
/// use coracle_http::Address;
///
/// let address: Address = "unix:///run/app.sock".parse()?;
/// assert_eq!(address.to_string(), "unix:///run/app.sock");
/// assert!("ftp://host".parse::<Address>().is_err());
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket: `unix:///path`.
    Unix(PathBuf),
    /// A TCP port: `tcp://127.0.0.1:2375`; port 0 takes a free one.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = Error;
    fn from_str(text: &str) -> Result<Address> {
        if let Some(path) = text.strip_prefix("unix://") {
            if !path.starts_with('/') {
                return Err(Error::invalid(format!("address {text}: the path of a Unix socket must be absolute")));
            }
            return Ok(Address::Unix(path.into()));
        }
        if let Some(rest) = text.strip_prefix("tcp://") {
            let rest = rest.strip_suffix('/').unwrap_or(rest).replace("localhost:", "127.0.0.1:");
            let wrong = || Error::invalid(format!("address {text}: an IP address and a port are needed"));
            return rest.parse().map(Address::Tcp).map_err(|_| wrong());
        }
        Err(Error::invalid(format!("address {text}: it begins with unix:// or tcp://")))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix://{}", path.display()),
            Address::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

/// A bound socket. A Unix socket's file goes away with it.
pub(super) enum Listener {
    Unix {
        socket: UnixListener,
        path: PathBuf,
        inode: (u64, u64),
    },
    Tcp(TcpListener),
    /// A Unix socket that another program made, and keeps.
    Given {
        socket: UnixListener,
        path: PathBuf,
    },
}

impl Listener {
    /// Binds; `tcp`: clients over TCP are authenticated, or the host allowed clients that are not.
    pub(super) fn bind(address: &Address, tcp: bool) -> Result<Listener> {
        match address {
            Address::Unix(path) => bind_unix(path),
            Address::Tcp(address) if tcp => {
                let failed = |e: &std::io::Error| Error::io(format_args!("listen on tcp://{address}"), e);
                let socket = TcpListener::bind(address).map_err(|e| failed(&e))?;
                socket.set_nonblocking(true).map_err(|e| failed(&e))?;
                Ok(Listener::Tcp(socket))
            }
            Address::Tcp(address) => Err(open_to_all(address)),
        }
    }

    /// Takes a listening socket that another program made; `tcp` as in [`Listener::bind`]. That program decides which
    /// users may connect to a Unix socket.
    pub(super) fn adopt(socket: OwnedFd, tcp: bool) -> Result<Listener> {
        let unusable = || Error::invalid("an inherited socket is not a Unix or TCP socket that listens for streams");
        let kind = getsockopt(&socket, sockopt::SockType).map_err(|_| unusable())?;
        if kind != SockType::Stream || !getsockopt(&socket, sockopt::AcceptConn).unwrap_or(false) {
            return Err(unusable());
        }
        let io = |error: std::io::Error| Error::io("take an inherited socket", &error);
        if let Ok(address) = getsockname::<UnixAddr>(socket.as_raw_fd()) {
            let path = address.path().map(Path::to_owned).unwrap_or_default();
            let socket = UnixListener::from(socket);
            socket.set_nonblocking(true).map_err(io)?;
            return Ok(Listener::Given { socket, path });
        }
        let socket = TcpListener::from(socket);
        let address = socket.local_addr().map_err(|_| unusable())?;
        if !tcp {
            return Err(open_to_all(&address));
        }
        socket.set_nonblocking(true).map_err(io)?;
        Ok(Listener::Tcp(socket))
    }

    pub(super) fn address(&self) -> Result<Address> {
        match self {
            Listener::Unix { path, .. } | Listener::Given { path, .. } => Ok(Address::Unix(path.clone())),
            Listener::Tcp(socket) => {
                socket.local_addr().map(Address::Tcp).map_err(|e| Error::io("look up a socket's address", &e))
            }
        }
    }

    /// Accepts one connection, if one waits.
    pub(super) fn accept(&self) -> std::io::Result<(OwnedFd, Peer)> {
        match self {
            Listener::Unix { socket, .. } | Listener::Given { socket, .. } => {
                let (stream, _) = socket.accept()?;
                let peer = Peer::of(&stream);
                Ok((stream.into(), peer))
            }
            Listener::Tcp(socket) => {
                let (stream, address) = socket.accept()?;
                // Frames are small and wanted at once. A socket that refuses is served all the same.
                let _ = stream.set_nodelay(true);
                let _ = nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::KeepAlive, &true);
                Ok((stream.into(), Peer::Tcp(address)))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix { socket, .. } | Listener::Given { socket, .. } => socket.as_fd(),
            Listener::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path, inode, .. } = self
            && fs::symlink_metadata(&*path).is_ok_and(|m| (m.dev(), m.ino()) == *inode)
        {
            let _ = fs::remove_file(path);
        }
    }
}

fn open_to_all(address: &SocketAddr) -> Error {
    Error::invalid(format!(
        "tcp://{address}: whoever reaches the engine is root here, and over TCP, loopback too, nothing says who that is: \
         serve it with TLS to clients with certificates (--tlsverify with --tlscacert, --tlscert and --tlskey), or without \
         any check (--insecure-tcp)"
    ))
}

/// The file's mode decides which users may connect, so it must be right from the first moment: the mode that the kernel gives the file
/// at bind is the socket's own, set before, less the umask; what the umask took is given back afterwards.
const MODE: u32 = 0o660;

fn bind_unix(path: &Path) -> Result<Listener> {
    let what = || format!("listen on unix://{}", path.display());
    let os = |errno: Errno| Error::os(what(), errno as i32);
    let io = |error: std::io::Error| Error::io(what(), &error);
    let parent = path.parent().unwrap_or(Path::new("/"));
    // Two servers that find the same dead socket must not both replace it.
    let directory = File::open(parent).map_err(io)?;
    let lock = Flock::lock(directory, FlockArg::LockExclusive).map_err(|(_, errno)| os(errno))?;
    clear_stale(path)?;
    let fd = stream_socket().map_err(os)?;
    let file = File::from(fd);
    file.set_permissions(Permissions::from_mode(MODE)).map_err(io)?;
    let fd = OwnedFd::from(file);
    bind(fd.as_raw_fd(), &UnixAddr::new(path).map_err(os)?).map_err(os)?;
    let mode = if Wall::SocketMode.stands() { MODE } else { 0o666 };
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(io)?;
    let meta = fs::symlink_metadata(path).map_err(io)?;
    listen(&fd, Backlog::MAXCONN).map_err(os)?;
    drop(lock);
    let socket = UnixListener::from(fd);
    socket.set_nonblocking(true).map_err(io)?;
    Ok(Listener::Unix { socket, path: path.to_owned(), inode: (meta.dev(), meta.ino()) })
}

fn stream_socket() -> nix::Result<OwnedFd> {
    socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
}

/// Removes the socket file of a server that is gone. Errors: a server listens there, or it is not a socket.
fn clear_stale(path: &Path) -> Result<()> {
    let shown = path.display();
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|e| Error::io(format_args!("look at {shown}"), &e))?,
    };
    if !meta.file_type().is_socket() {
        return Err(Error::conflict(format!("{shown} exists and is not a socket")));
    }
    let os = |errno: Errno| Error::os(format_args!("connect to {shown}"), errno as i32);
    let probe = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)
        .map_err(os)?;
    match connect(probe.as_raw_fd(), &UnixAddr::new(path).map_err(os)?) {
        Err(Errno::ECONNREFUSED) => {
            fs::remove_file(path).map_err(|e| Error::io(format_args!("remove the dead socket {shown}"), &e))
        }
        Err(Errno::ENOENT) => Ok(()),
        _ => Err(Error::conflict(format!("a server listens on unix://{shown} already"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!("unix:///a/b".parse::<Address>().unwrap(), Address::Unix("/a/b".into()));
        let tcp = "tcp://localhost:80".parse::<Address>().unwrap();
        assert_eq!(tcp.to_string(), "tcp://127.0.0.1:80");
        for text in ["unix://a", "tcp://x:1", "tcp://1.2.3.4", "http://x", ""] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
