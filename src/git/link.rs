//! The two ways to a server: HTTP, a request for each question, and `git daemon`, one connection for all of them.

use super::address::Place;
use super::lines::Request;
use crate::error::{Error, Result};
use crate::registry::{Service, Transport};
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

const CONNECT: Duration = Duration::from_secs(20);
/// How often a silent connection looks whether it was stopped.
const LOOK: Duration = Duration::from_millis(200);

/// A server that greeted.
pub(super) struct Link<'a> {
    way: Way<'a>,
    /// The greeting over HTTP.
    first: Box<dyn Read + Send>,
}

enum Way<'a> {
    Http(Service<'a>),
    Daemon(BufReader<Socket<'a>>),
}

impl<'a> Link<'a> {
    pub(super) fn open(place: &Place, transport: &'a Transport) -> Result<Link<'a>> {
        match place {
            Place::Http(url) => {
                let (service, first) = Service::open(url, transport)?;
                Ok(Link { way: Way::Http(service), first })
            }
            Place::Daemon { host, port, path } => {
                let mut socket = Socket::connect(host, *port, transport)?;
                let asked = format!("git-upload-pack {path}\0host={host}:{port}\0\0version=2\0");
                if asked.len() > 4096 {
                    return Err(Error::invalid("the path is too long"));
                }
                // One line, without the end of a request.
                let request = Request::default().line(asked).end();
                socket.send(&request[..request.len() - 4])?;
                Ok(Link { way: Way::Daemon(BufReader::new(socket)), first: Box::new(std::io::empty()) })
            }
        }
    }

    /// The server's abilities.
    pub(super) fn greeting(&mut self) -> &mut dyn Read {
        match &mut self.way {
            Way::Http(_) => &mut self.first,
            Way::Daemon(socket) => socket,
        }
    }

    /// Sends a question; answers what the server says to it.
    pub(super) fn ask(&mut self, request: &[u8]) -> Result<Box<dyn Read + '_>> {
        match &mut self.way {
            Way::Http(service) => Ok(Box::new(BufReader::new(service.ask(request)?))),
            Way::Daemon(socket) => {
                socket.get_mut().send(request)?;
                Ok(Box::new(socket))
            }
        }
    }
}

/// A connection that ends when its transport is stopped, or when the server says nothing for the transport's silence.
struct Socket<'a> {
    stream: TcpStream,
    transport: &'a Transport,
}

impl<'a> Socket<'a> {
    fn connect(host: &str, port: u16, transport: &'a Transport) -> Result<Socket<'a>> {
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let limit = CONNECT.min(transport.silence());
        let stream = transport.apart("git-connect", move || reach(&name, port, limit))?;
        let stream = stream.map_err(|e| Error::internal(format!("connect to {host}:{port}: {e}")))?;
        let set = stream.set_read_timeout(Some(LOOK)).and(stream.set_write_timeout(Some(LOOK)));
        set.map_err(|e| Error::io("set up a connection", &e))?;
        Ok(Socket { stream, transport })
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let sent = self.patient(|stream| stream.write(bytes)).map_err(|e| Error::io("ask the server", &e))?;
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    fn patient(&mut self, mut act: impl FnMut(&mut TcpStream) -> std::io::Result<usize>) -> std::io::Result<usize> {
        let begun = Instant::now();
        loop {
            let stopped = |_| std::io::Error::other("the operation was cancelled");
            self.transport.check().map_err(stopped)?;
            match act(&mut self.stream) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if begun.elapsed() >= self.transport.silence() {
                        let seconds = self.transport.silence().as_secs();
                        return Err(std::io::Error::other(format!("the server says nothing for {seconds}s")));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.patient(|stream| stream.read(buffer))
    }
}

/// Connects to the first address of a name that can be reached, each within `limit`.
fn reach(name: &str, port: u16, limit: Duration) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::other("it has no address");
    for address in (name, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
