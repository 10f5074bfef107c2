//! TLS in front of connections over TCP: clients are known by certificates of the server's own authorities.
//!
//! The rest of the server speaks to sockets. So each such connection has a thread that carries bytes between the client,
//! enciphered, and one end of a socket pair, plain; the other end is served as any connection is, also where it is taken
//! over (attach, exec) and where one direction ends before the other.

use crate::socket::{Socket, recv_now, send_now, wait_many};
use crate::user::User;
use coracle::walls::Wall;
use coracle::{Error, Result};
use nix::poll::PollFlags;
use nix::sys::socket::{AddressFamily, Shutdown, SockFlag, SockType, shutdown, socketpair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a server proves who it is, and which clients it takes. TLS 1.2 and 1.3.
///
/// ```no_run
/// use coracle_http::{Router, Server, ServerOptions, Tls};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let file = |name: &str| std::fs::read(format!("/etc/app/tls/{name}.pem"));
/// let tls = Tls::mutual(&file("clients-ca")?, &file("server")?, &file("server-key")?)?;
/// let options = ServerOptions { tls: Some(tls), ..ServerOptions::default() };
///
/// let router = Router::new(coracle::Engine::open("/var/lib/app")?);
/// Server::bind(router, &["tcp://192.0.2.7:2376".parse()?], options)?.run();
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// From PEM texts: clients must have a certificate that one of `authorities` made (the machine's own are not asked);
    /// `chain` and `key` are the server's.
    ///
    /// Errors: one of them holds nothing of the kind, or they do not fit together.
    pub fn mutual(authorities: &[u8], chain: &[u8], key: &[u8]) -> Result<Tls> {
        let certificates = |pem: &[u8], what: &str| match CertificateDer::pem_slice_iter(pem).collect() {
            Ok::<Vec<_>, _>(found) if !found.is_empty() => Ok(found),
            _ => Err(Error::invalid(format!("TLS: {what} cannot be read: PEM with certificates is needed"))),
        };
        let wrong = |what: &str, why: &dyn std::fmt::Display| Error::invalid(format!("TLS: {what}: {why}"));
        let mut roots = RootCertStore::empty();
        for authority in certificates(authorities, "the authorities of clients")? {
            roots.add(authority).map_err(|e| wrong("an authority of clients", &e))?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let verifier = match Wall::ClientCertificates.stands() {
            true => verifier,
            false => verifier.allow_unauthenticated(),
        };
        let verifier = verifier.build().map_err(|e| wrong("the authorities of clients", &e))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| Error::invalid("TLS: the server's key cannot be read: PEM with a private key is needed"))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong("versions", &e))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(chain, "the server's certificate")?, key)
            .map_err(|e| wrong("the server's certificate and key", &e))?;
        // Every connection proves anew who it is.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Tls(Arc::new(config)))
    }

    /// Waits until the client has proven who it is. Errors: it could not, or took longer than `deadline`.
    pub(super) fn handshake(&self, client: &Arc<Socket>, deadline: Instant) -> io::Result<Tunnel> {
        let mut tls = ServerConnection::new(self.0.clone()).map_err(io::Error::other)?;
        // At most a piece is written at a time.
        tls.set_buffer_limit(None);
        let mut wire = Wire(client.as_fd());
        while tls.is_handshaking() || tls.wants_write() {
            flush(&mut tls, &mut wire)?;
            if !tls.is_handshaking() {
                wait_many(&[(client.as_fd(), PollFlags::POLLOUT)], Some(deadline))?;
                continue;
            }
            let write = if tls.wants_write() { PollFlags::POLLOUT } else { PollFlags::empty() };
            wait_many(&[(client.as_fd(), PollFlags::POLLIN | write)], Some(deadline))?;
            match tls.read_tls(&mut wire) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            if let Err(error) = tls.process_new_packets() {
                // The client learns why.
                let _ = flush(&mut tls, &mut wire);
                client.linger(LINGER, LINGER_BYTES);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        Ok(Tunnel { tls, client: client.clone() })
    }
}

/// A client that has proven who it is.
pub(super) struct Tunnel {
    tls: ServerConnection,
    client: Arc<Socket>,
}

impl Tunnel {
    /// The user that the client's certificates name. Absent: the client has none.
    pub(super) fn user(&self) -> Option<User> {
        let chain = self.tls.peer_certificates().filter(|chain| !chain.is_empty())?;
        Some(User::of_certificates(chain.iter().map(|certificate| certificate.to_vec()).collect()))
    }

    /// Begins to carry, on a thread that holds `guard` until its end; answers the plain end. `patience`: how long a client
    /// may take to read what was said to it before the connection was closed.
    pub(super) fn open<G: Send + 'static>(self, guard: G, patience: Duration) -> io::Result<OwnedFd> {
        let (near, far) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?;
        let carrier = Carrier {
            tls: self.tls,
            client: self.client,
            near,
            plain: Vec::new(),
            client_said_all: false,
            near_said_all: false,
            near_told: false,
            client_told: false,
            until: None,
            patience,
        };
        crate::thread::spawn("coracle-tls", move || {
            let _guard = guard;
            carrier.run();
        })?;
        Ok(far)
    }
}

/// Carries between an enciphered client and the plain end of a socket pair.
struct Carrier {
    tls: ServerConnection,
    client: Arc<Socket>,
    near: OwnedFd,
    /// Deciphered, on its way to the plain end. Nothing is read of the client before it is gone.
    plain: Vec<u8>,
    client_said_all: bool,
    near_said_all: bool,
    /// The plain end knows that the client says no more; the client that the plain end does not.
    near_told: bool,
    client_told: bool,
    /// Once nothing more is to be said: when it is over, whatever the client does.
    until: Option<Instant>,
    patience: Duration,
}

/// The most that is deciphered or enciphered at a time.
const PIECE: usize = 16 << 10;
/// How long a client has to close once all was said to it.
const LINGER: Duration = Duration::from_secs(2);
/// And so many bytes.
const LINGER_BYTES: usize = 256 << 10;

impl Carrier {
    fn run(mut self) {
        // An error of either side is the end of both.
        while let Ok(true) = self.turn() {}
        if !(self.client_told && self.client_said_all) {
            self.client.cut();
        }
    }

    /// Does all that can be done without waiting, and waits for more. False: all is said.
    fn turn(&mut self) -> io::Result<bool> {
        self.write_near()?;
        self.write_client()?;
        if self.client_told && self.client_said_all {
            return Ok(false);
        }
        let mut of_client = PollFlags::empty();
        of_client.set(PollFlags::POLLIN, !self.client_said_all && self.plain.is_empty());
        of_client.set(PollFlags::POLLOUT, self.tls.wants_write());
        let mut of_near = PollFlags::empty();
        of_near.set(PollFlags::POLLIN, !self.near_said_all && !self.tls.wants_write());
        of_near.set(PollFlags::POLLOUT, !self.plain.is_empty());
        let mut set = vec![(self.client.as_fd(), of_client)];
        if !of_near.is_empty() {
            set.push((self.near.as_fd(), of_near));
        }
        let ready = wait_many(&set, self.until)?;
        let (client, near) = (ready[0], ready.get(1).copied().unwrap_or(PollFlags::empty()));
        if client.intersects(PollFlags::POLLIN) && of_client.contains(PollFlags::POLLIN) {
            self.read_client()?;
        } else if client.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if !near.is_empty() && of_near.contains(PollFlags::POLLIN) {
            self.read_near()?;
        }
        Ok(true)
    }

    fn read_client(&mut self) -> io::Result<()> {
        match self.tls.read_tls(&mut Wire(self.client.as_fd())) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        if let Err(error) = self.tls.process_new_packets() {
            let _ = flush(&mut self.tls, &mut Wire(self.client.as_fd()));
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(())
    }

    /// Passes on what was deciphered, and the end of it.
    fn write_near(&mut self) -> io::Result<()> {
        loop {
            while !self.plain.is_empty() {
                match send_now(self.near.as_fd(), &self.plain, false) {
                    Ok(sent) => drop(self.plain.drain(..sent)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    // Nobody reads there any more: the rest of the client's bytes is dropped.
                    Err(_) => self.plain.clear(),
                }
            }
            if self.client_said_all {
                break;
            }
            let mut piece = [0; PIECE];
            match self.tls.reader().read(&mut piece) {
                Ok(0) => self.client_said_all = true,
                Ok(count) => self.plain.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The client closed without the alert that ends TLS. HTTP detects a request that is cut.
                Err(_) => self.client_said_all = true,
            }
        }
        if self.client_said_all && !self.near_told {
            self.near_told = true;
            let _ = shutdown(self.near.as_raw_fd(), Shutdown::Write);
        }
        Ok(())
    }

    fn read_near(&mut self) -> io::Result<()> {
        let mut piece = [0; PIECE];
        match recv_now(self.near.as_fd(), &mut piece) {
            Ok(0) => {
                self.near_said_all = true;
                self.tls.send_close_notify();
                self.until = Some(Instant::now() + self.patience);
            }
            Ok(count) => self.tls.writer().write_all(&piece[..count])?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Sends what was enciphered, and the end of it.
    fn write_client(&mut self) -> io::Result<()> {
        flush(&mut self.tls, &mut Wire(self.client.as_fd()))?;
        if self.near_said_all && !self.client_told && !self.tls.wants_write() {
            self.client_told = true;
            self.until = Some(Instant::now() + LINGER);
            shutdown(self.client.as_fd().as_raw_fd(), Shutdown::Write)?;
        }
        Ok(())
    }
}

/// Sends what is enciphered already, as far as it goes without waiting.
fn flush(tls: &mut ServerConnection, wire: &mut Wire<'_>) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(wire) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            other => drop(other?),
        }
    }
    Ok(())
}

/// A socket that never waits and never raises SIGPIPE.
struct Wire<'a>(BorrowedFd<'a>);

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        recv_now(self.0, buffer)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send_now(self.0, bytes, false)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
