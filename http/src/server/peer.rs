//! The peer of a request, and the log of requests.

use nix::sys::socket::{getsockopt, sockopt};
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The other end of a connection.
///
/// ```
/// use coracle_http::{Credentials, Peer};
///
/// let root = |peer: &Peer| matches!(peer, Peer::Unix(Some(Credentials { uid: 0, .. })));
/// assert!(root(&Peer::Unix(Some(Credentials { pid: 1, uid: 0, gid: 0 }))));
/// assert!(!root(&Peer::Unix(None)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, as the kernel knew it when it connected. Absent: the kernel does not say.
    Unix(Option<Credentials>),
    /// An address.
    Tcp(SocketAddr),
}

/// A process and its user.
///
/// ```
/// use coracle_http::{Credentials, Peer};
///
/// let peer = Peer::Unix(Some(Credentials { pid: 12, uid: 1000, gid: 1000 }));
/// let Peer::Unix(Some(process)) = peer else { unreachable!("a process") };
/// assert_eq!(process.uid, 1000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// The process's number; 0: the process is outside of this PID namespace.
    pub pid: i32,
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
}

impl Peer {
    pub(super) fn of(stream: &UnixStream) -> Peer {
        let known = getsockopt(stream, sockopt::PeerCredentials).ok();
        Peer::Unix(known.map(|them| Credentials { pid: them.pid(), uid: them.uid(), gid: them.gid() }))
    }
}

/// A request, as it is logged.
///
/// ```
/// use coracle_http::{LoggedRequest, Peer};
///
/// let request = LoggedRequest { method: "GET", path: "/info", peer: &Peer::Unix(None), tls: false };
/// assert_eq!(request.to_string(), "GET /info by a process of this machine");
/// ```
#[derive(Debug)]
pub struct LoggedRequest<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// The path without its query, which may hold secrets.
    pub path: &'a str,
    /// The peer of the request.
    pub peer: &'a Peer,
    /// The client is known by its certificate.
    pub tls: bool,
}

/// `GET /info by pid 12 uid 0 gid 0`, without control characters.
impl fmt::Display for LoggedRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: String = self.path.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        write!(f, "{} {path} by ", self.method)?;
        match self.peer {
            Peer::Unix(Some(Credentials { pid, uid, gid })) => write!(f, "pid {pid} uid {uid} gid {gid}"),
            Peer::Unix(None) => write!(f, "a process of this machine"),
            Peer::Tcp(address) if self.tls => write!(f, "{address} (TLS)"),
            Peer::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// The caller's log of requests. The function is called on the connection's thread.
///
/// ```
/// use coracle_http::{RequestLog, ServerOptions};
///
/// let log = RequestLog::new(|request| eprintln!("{request}"));
/// let options = ServerOptions { log: Some(log), ..ServerOptions::default() };
/// assert!(options.log.is_some());
/// ```
#[derive(Clone)]
pub struct RequestLog(Arc<dyn Fn(&LoggedRequest<'_>) + Send + Sync>);

impl RequestLog {
    /// Calls `log` with each request.
    pub fn new(log: impl Fn(&LoggedRequest<'_>) + Send + Sync + 'static) -> RequestLog {
        RequestLog(Arc::new(log))
    }
    pub(super) fn emit(&self, request: &LoggedRequest<'_>) {
        (self.0)(request);
    }
}

impl fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestLog")
    }
}
