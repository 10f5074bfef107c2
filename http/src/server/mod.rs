//! A small blocking HTTP/1.1 server: a thread per connection, everything bounded.

mod connection;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod inbound;
mod listen;
mod outbound;
mod peer;
mod request_head;
#[cfg(feature = "tls")]
mod tls;

pub use listen::Address;
pub use peer::{Credentials, LoggedRequest, Peer, RequestLog};
#[cfg(feature = "tls")]
pub use tls::Tls;

/// TLS is not in this build: see the feature `tls`.
#[cfg(not(feature = "tls"))]
#[derive(Debug, Clone)]
pub enum Tls {}

use crate::router::Router;
use crate::socket::{Socket, wait_many};
use crate::user::User;
use crate::{lock, message::Response};
use connection::{Connection, Door};
use coracle::walls::Wall;
use coracle::{Error, Result};
use listen::Listener;
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::eventfd::{EfdFlags, EventFd};
use outbound::Manner;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Bounds of a server.
///
/// ```
/// use coracle_http::Limits;
/// use std::time::Duration;
///
/// let limits = Limits { connections: 64, idle_time: Duration::from_secs(60), ..Limits::default() };
/// assert_eq!(limits.connections, 64);
/// ```
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at the same time. Above it the longest idle one is closed; where none is idle, the new one gets a 503.
    pub connections: usize,
    /// Bytes of a request's head; more is a 431.
    pub head_bytes: usize,
    /// Time from the first byte of a head to its last; more is a 408.
    pub head_time: Duration,
    /// Time that a connection may be silent between requests.
    pub idle_time: Duration,
    /// Silence inside the body of a document.
    pub body_silence: Duration,
    /// Time within which an answer that is not a stream must have been sent.
    pub answer_time: Duration,
    /// TLS handshakes at the same time. Above it the oldest one is broken off: a client needs a moment for its own.
    pub handshakes: usize,
    /// Time that a TLS handshake may take.
    pub handshake_time: Duration,
    /// Bytes of a body that nobody asked for which are read away, before the answer and once more after it: many clients
    /// look for the answer only when all of their body was taken.
    pub drain_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            head_bytes: 64 << 10,
            head_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(300),
            body_silence: Duration::from_secs(60),
            answer_time: Duration::from_secs(60),
            handshakes: 64,
            handshake_time: Duration::from_secs(10),
            drain_bytes: 8 << 20,
        }
    }
}

/// How a server serves.
///
/// ```no_run
/// use coracle_http::{Limits, RequestLog, ServerOptions};
///
/// let options = ServerOptions {
///     limits: Limits { connections: 64, ..Limits::default() },
///     log: Some(RequestLog::new(|request| eprintln!("{request}"))),
///     ..ServerOptions::default()
/// };
/// # drop(options);
/// ```
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// Bounds.
    pub limits: Limits,
    /// Serve TCP without TLS, also on loopback. Nothing authenticates the clients (every user and, with the host's
    /// network, every container of this machine reaches its loopback), and a client of the engine can become root here.
    pub insecure_tcp: bool,
    /// Serve TCP with TLS.
    pub tls: Option<Tls>,
    /// Called with each request, before it is answered.
    pub log: Option<RequestLog>,
    /// Names that requests over TCP may give as `Host`, besides IP addresses and `localhost`. Others are refused, so that
    /// no web page can reach the engine by a name that it points here.
    pub host_names: Vec<String>,
}

/// A server: bound, and serving once [`Server::run`] is called.
///
/// ```no_run
/// use coracle_http::{Router, Server, ServerOptions};
/// use std::time::Duration;
///
/// # fn main() -> coracle::Result<()> {
/// let router = Router::new(coracle::Engine::open("/var/lib/app")?);
/// let server = Server::bind(router, &["unix:///run/app.sock".parse()?], ServerOptions::default())?;
/// let handle = server.handle();
/// let serving = std::thread::spawn(move || server.run());
/// // At the end of the program: answers under way have ten seconds.
/// handle.shutdown(Duration::from_secs(10));
/// # drop(serving);
/// # Ok(())
/// # }
/// ```
pub struct Server {
    listeners: Vec<Listener>,
    shared: Arc<Shared>,
}

/// Ends a server from another thread. Clones end the same one.
///
/// ```no_run
/// let router = coracle_http::Router::new(coracle::Engine::open("/var/lib/app")?);
/// let server = coracle_http::Server::bind(router, &["unix:///run/app.sock".parse()?], Default::default())?;
/// let handle = server.handle();
/// let serving = std::thread::spawn(move || server.run());
/// handle.shutdown(std::time::Duration::from_secs(10));
/// serving.join().expect("the server's thread");
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Clone)]
pub struct ServerHandle(Arc<Shared>);

struct Shared {
    router: Router,
    options: ServerOptions,
    wake: EventFd,
    open: Mutex<Open>,
    /// Notified when there is a connection less, and when an answer is over.
    fewer: Condvar,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Seen>,
    /// The connections whose TLS handshake is not done, the oldest first.
    handshakes: BTreeMap<u64, Arc<Socket>>,
    over: bool,
}

/// An open connection as the server sees it.
struct Seen {
    socket: Arc<Socket>,
    doing: Doing,
}

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// The connection has waited for a request since then.
    Waits(Instant),
    Answers,
    /// The answer is whole and goes to the client: it waits for the next request in a moment. A client may have read the
    /// answer before the server notes that it was sent.
    EndsAnswer,
}

impl Seen {
    fn idle_since(&self) -> Option<Instant> {
        match self.doing {
            Doing::Waits(since) => Some(since),
            Doing::Answers | Doing::EndsAnswer => None,
        }
    }
}

impl Open {
    /// The connection that waits for a request the longest.
    fn idlest(&self) -> Option<u64> {
        let idle = self.connections.iter().filter_map(|(key, seen)| Some((seen.idle_since()?, *key)));
        idle.min().map(|(_, key)| key)
    }

    /// Whether none waits for a request, and one is about to.
    fn is_about_to_have_room(&self, most: usize) -> bool {
        let ends = |seen: &Seen| seen.doing == Doing::EndsAnswer;
        self.connections.len() >= most && self.idlest().is_none() && self.connections.values().any(ends)
    }
}

impl Server {
    /// Binds every address. A Unix socket is made with mode 0660; one that a dead server left is replaced.
    ///
    /// Errors: a server listens there already, a TCP address with neither TLS nor the option that does without, a port in
    /// use.
    pub fn bind(router: Router, addresses: &[Address], options: ServerOptions) -> Result<Server> {
        Server::bind_and_adopt(router, addresses, Vec::new(), options)
    }

    /// Binds as [`Server::bind`] does, and listens on `sockets`, too, which another program made and listens on (systemd, for one): Unix and TCP.
    ///
    /// Errors: as of [`Server::bind`], and a socket that does not listen.
    pub fn bind_and_adopt(
        router: Router,
        addresses: &[Address],
        sockets: Vec<OwnedFd>,
        options: ServerOptions,
    ) -> Result<Server> {
        if addresses.is_empty() && sockets.is_empty() {
            return Err(Error::invalid("a server needs an address"));
        }
        let tcp = options.tls.is_some() || options.insecure_tcp || !Wall::TcpAuthenticated.stands();
        let given = sockets.into_iter().map(|socket| Listener::adopt(socket, tcp));
        let listeners = given.chain(addresses.iter().map(|a| Listener::bind(a, tcp))).collect::<Result<_>>()?;
        let wake = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|errno| Error::os("make an eventfd", errno as i32))?;
        let shared = Shared { router, options, wake, open: Mutex::default(), fewer: Condvar::new() };
        Ok(Server { listeners, shared: Arc::new(shared) })
    }

    /// Where it listens, with the ports that were chosen.
    pub fn addresses(&self) -> Result<Vec<Address>> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// A handle that ends the server.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle(self.shared.clone())
    }

    /// Serves until the handle ends it. Connections that are open then go on until [`ServerHandle::shutdown`] has waited
    /// for them.
    pub fn run(self) {
        while self.wait() {
            for listener in &self.listeners {
                self.accept(listener);
            }
        }
    }

    /// Waits for connections; false: the server is over.
    fn wait(&self) -> bool {
        let mut set = vec![(self.shared.wake.as_fd(), PollFlags::POLLIN)];
        set.extend(self.listeners.iter().map(|l| (l.as_fd(), PollFlags::POLLIN)));
        if wait_many(&set, None).is_err() {
            std::thread::sleep(PAUSE);
        }
        !lock(&self.shared.open).over
    }

    fn accept(&self, listener: &Listener) {
        match listener.accept() {
            Ok((socket, peer)) => self.shared.serve(socket, peer),
            // Nothing can be accepted until something is closed; the waiting connection stays in the queue.
            Err(error) if exhausted(&error) => std::thread::sleep(PAUSE),
            // Nobody waits any more, or the client gave up: the next wait reports it.
            Err(_) => {}
        }
    }
}

/// Whether the system has nothing left to accept with.
fn exhausted(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM))
}

/// If all connections are taken, a new one waits so long for connections whose answers are complete and being sent.
const LAST_BYTES: Duration = Duration::from_secs(1);
/// How long the server rests when the system has nothing left to accept with.
const PAUSE: Duration = Duration::from_millis(20);

impl Shared {
    fn serve(self: &Arc<Shared>, socket: OwnedFd, peer: Peer) {
        let socket = Arc::new(Socket::new(socket));
        let tls = self.options.tls.clone().filter(|_| matches!(peer, Peer::Tcp(_)));
        let Some(key) = self.admit(&socket) else {
            // A client that speaks TLS does not read plain text.
            if tls.is_none() {
                refuse(&socket);
            }
            return;
        };
        if tls.is_some() {
            self.begin_handshake(key, &socket);
        }
        let (shared, served) = (self.clone(), socket.clone());
        let thread = crate::thread::spawn("coracle-http", move || {
            let entry = Arc::new(Entry { shared: shared.clone(), key });
            let with_tls = tls.is_some();
            let Some((plain, user)) = shared.deciphered(tls, served, &entry) else { return };
            let door = ServerDoor { shared: shared.clone(), key, peer, tls: with_tls, user };
            Connection::new(shared.router.clone(), plain, &shared.options.limits, &door).run();
        });
        if thread.is_err() {
            self.forget(key);
            refuse(&socket);
        }
    }

    /// Enters a connection, closing the longest idle one where the room is full.
    fn admit(&self, socket: &Arc<Socket>) -> Option<u64> {
        let most = self.options.limits.connections;
        let soon = self.fewer.wait_timeout_while(lock(&self.open), LAST_BYTES, |open| open.is_about_to_have_room(most));
        let mut open = soon.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        if open.connections.len() >= most {
            let idlest = open.idlest()?;
            open.connections.remove(&idlest)?.socket.cut();
        }
        open.next += 1;
        let key = open.next;
        open.connections.insert(key, Seen { socket: socket.clone(), doing: Doing::Waits(Instant::now()) });
        Some(key)
    }

    /// Enters a handshake, and breaks the oldest one off where there are too many: clients that never end theirs keep
    /// nobody out.
    fn begin_handshake(&self, key: u64, socket: &Arc<Socket>) {
        let mut open = lock(&self.open);
        open.handshakes.insert(key, socket.clone());
        if open.handshakes.len() > self.options.limits.handshakes
            && Wall::Handshakes.stands()
            && let Some((_, oldest)) = open.handshakes.pop_first()
        {
            oldest.cut();
        }
    }

    /// The socket on which HTTP is spoken, and its user. None: the client could not prove its identity.
    #[cfg(feature = "tls")]
    fn deciphered(
        &self,
        tls: Option<Tls>,
        socket: Arc<Socket>,
        entry: &Arc<Entry>,
    ) -> Option<(Arc<Socket>, Option<User>)> {
        let Some(tls) = tls else { return Some((socket, None)) };
        let limits = &self.options.limits;
        let bound = if Wall::Handshakes.stands() { limits.handshake_time } else { limits.handshake_time * 1000 };
        let tunnel = tls.handshake(&socket, Instant::now() + bound);
        lock(&self.open).handshakes.remove(&entry.key);
        let tunnel = tunnel.ok()?;
        let user = tunnel.user();
        let plain = tunnel.open(entry.clone(), limits.answer_time).ok()?;
        Some((Arc::new(Socket::new(plain)), user))
    }

    #[cfg(not(feature = "tls"))]
    fn deciphered(&self, tls: Option<Tls>, socket: Arc<Socket>, _: &Arc<Entry>) -> Option<(Arc<Socket>, Option<User>)> {
        match tls {
            None => Some((socket, None)),
            Some(never) => match never {},
        }
    }

    fn forget(&self, key: u64) {
        let mut open = lock(&self.open);
        open.connections.remove(&key);
        open.handshakes.remove(&key);
        drop(open);
        self.fewer.notify_all();
    }
}

/// A connection's place in the list; given back on every way out.
struct Entry {
    shared: Arc<Shared>,
    key: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.forget(self.key);
    }
}

struct ServerDoor {
    shared: Arc<Shared>,
    key: u64,
    peer: Peer,
    /// The client is known by its certificate.
    tls: bool,
    user: Option<User>,
}

impl Door for ServerDoor {
    fn busy(&self, busy: bool) -> bool {
        let mut open = lock(&self.shared.open);
        if open.over && !busy {
            return false;
        }
        match open.connections.get_mut(&self.key) {
            Some(seen) => seen.doing = if busy { Doing::Answers } else { Doing::Waits(Instant::now()) },
            None => return false,
        }
        drop(open);
        if !busy {
            self.shared.fewer.notify_all();
        }
        true
    }
    fn ends_answer(&self) {
        if let Some(seen) = lock(&self.shared.open).connections.get_mut(&self.key) {
            seen.doing = Doing::EndsAnswer;
        }
    }
    fn asked(&self, method: &str, target: &str) {
        if let Some(log) = &self.shared.options.log {
            // A query may hold secrets (arguments of builds).
            let path = match Wall::LogWithoutSecrets.stands() {
                true => target.split(['?', '#']).next().unwrap_or_default(),
                false => target,
            };
            log.emit(&LoggedRequest { method, path, peer: &self.peer, tls: self.tls });
        }
    }
    fn user(&self) -> Option<User> {
        self.user.clone()
    }
    fn objection(&self, headers: &crate::message::Headers) -> Option<&'static str> {
        if matches!(self.peer, Peer::Unix(_)) {
            return None;
        }
        // Where TLS proves the name, nobody else's name leads here.
        let named =
            self.tls || headers.get("host").is_none_or(|host| allowed_host(host, &self.shared.options.host_names));
        if !named {
            return Some("the Host header names a host that is not served");
        }
        if headers.get("origin").is_some() && !self.shared.router.context().cors() {
            return Some("requests of web pages are not served");
        }
        None
    }
}

/// Whether `Host` is an IP address, `localhost` or one of `names`, whatever the port.
fn allowed_host(host: &str, names: &[String]) -> bool {
    if host.parse::<std::net::SocketAddr>().is_ok() || host.parse::<std::net::IpAddr>().is_ok() {
        return true;
    }
    let bare = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bracketed = bare.strip_prefix('[').and_then(|b| b.strip_suffix(']'));
    bracketed.is_some_and(|b| b.parse::<std::net::Ipv6Addr>().is_ok())
        || bare.is_empty()
        || bare.eq_ignore_ascii_case("localhost")
        || names.iter().any(|name| name.eq_ignore_ascii_case(bare))
}

/// Answers a client that there is no room.
fn refuse(socket: &Socket) {
    let answer = Response::new(503, Vec::new()).with("Content-Type", "application/json");
    let manner = Manner { old: false, head_only: false, keep_alive: false };
    let body = b"{\"message\":\"too many connections\"}\n";
    // The refused client must not keep the server: bytes that do not fit into the socket at once are not sent.
    let _ = outbound::whole(socket, (503, None), &answer.headers, body, manner, Instant::now());
}

impl ServerHandle {
    /// Ends the server: nothing is accepted any more, idle connections are closed, answers under way have `grace` to
    /// finish, then what is left (streams, attached terminals) is cut. Returns when all connections are closed.
    pub fn shutdown(&self, grace: Duration) {
        let mut open = lock(&self.0.open);
        open.over = true;
        let _ = self.0.wake.write(1);
        for seen in open.connections.values().filter(|c| c.idle_since().is_some()) {
            seen.socket.cut();
        }
        for (limit, cut) in [(grace, true), (CUT_GRACE, false)] {
            let waited = self.0.fewer.wait_timeout_while(open, limit, |o| !o.connections.is_empty());
            open = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            if cut {
                open.connections.values().for_each(|seen| seen.socket.cut());
            }
        }
    }
}

/// How long connections that were cut may take to notice.
const CUT_GRACE: Duration = Duration::from_secs(5);

/// Serves one private connection until its other end closes.
pub(crate) fn serve_private(router: Router, socket: OwnedFd) {
    struct Private;
    impl Door for Private {
        fn busy(&self, _: bool) -> bool {
            true
        }
        fn asked(&self, _: &str, _: &str) {}
        fn user(&self) -> Option<User> {
            None
        }
        fn objection(&self, _: &crate::message::Headers) -> Option<&'static str> {
            None
        }
    }
    let limits = Limits { idle_time: Duration::from_secs(u32::MAX as u64), ..Limits::default() };
    Connection::new(router, Arc::new(Socket::new(socket)), &limits, &Private).run();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let names = ["Engine.local".to_owned()];
        for good in
            ["127.0.0.1", "127.0.0.1:80", "[::1]:80", "[::1]", "localhost:1", "engine.LOCAL:5", "10.1.1.1:2", ""]
        {
            assert!(allowed_host(good, &names), "{good}");
        }
        for bad in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil:80"] {
            assert!(!allowed_host(bad, &names), "{bad}");
        }
    }
}
