//! Requests and answers as the router sees them, whatever door they come through.

use crate::user::User;
use crate::watch::Registration;
use coracle::{Op, Result};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// Header fields in order; names compare without case.
///
/// ```
/// use coracle_http::Headers;
///
/// let mut headers = Headers::new();
/// headers.add("Content-Type", "application/json");
/// assert_eq!(headers.get("content-type"), Some("application/json"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// No fields.
    pub fn new() -> Headers {
        Headers::default()
    }
    /// The first field of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
    /// Every field of that name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
    /// Adds a field. Control characters, which could end the field early and begin another, become spaces.
    pub fn add(&mut self, name: impl Into<String>, value: impl AsRef<str>) {
        let clean = |c: char| if c.is_control() && c != '\t' { ' ' } else { c };
        self.0.push((name.into(), value.as_ref().chars().map(clean).collect()));
    }
    /// Replaces every field of that name by this one.
    pub fn set(&mut self, name: &str, value: impl AsRef<str>) {
        self.0.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.add(name, value);
    }
    /// Name and value of each field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
    pub(crate) fn sort(&mut self) {
        self.0.sort_by(|a, b| a.0.cmp(&b.0));
    }
}

/// A request's body: bytes to read and, where it is known, how many.
///
/// ```
/// use coracle_http::Body;
/// use std::io::Read;
///
/// let mut text = String::new();
/// Body::bytes(b"{}".to_vec()).read_to_string(&mut text)?;
/// assert_eq!(text, "{}");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Body {
    reader: Box<dyn Read + Send>,
    length: Option<u64>,
}

impl Body {
    /// No body.
    pub fn empty() -> Body {
        Body { reader: Box::new(io::empty()), length: Some(0) }
    }
    /// A body in memory.
    pub fn bytes(bytes: Vec<u8>) -> Body {
        Body { length: Some(bytes.len() as u64), reader: Box::new(io::Cursor::new(bytes)) }
    }
    /// A body that is read as the handler needs it; `length` absent: not known before its end.
    pub fn stream(reader: impl Read + Send + 'static, length: Option<u64>) -> Body {
        Body { reader: Box::new(reader), length }
    }
    /// The length of the body in bytes, where known.
    pub fn length(&self) -> Option<u64> {
        self.length
    }
    /// Whether it is known to be empty.
    pub fn is_empty(&self) -> bool {
        self.length == Some(0)
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

/// The client of a request: long calls end when the client goes away.
///
/// ```
/// use coracle_http::Client;
///
/// let op = coracle::Op::new()?;
/// let client = Client::with_op(op.clone());
/// op.cancel();
/// assert!(client.op()?.is_some_and(|op| op.check().is_err()));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Client {
    source: Source,
    user: Option<User>,
}

#[derive(Clone, Default)]
enum Source {
    #[default]
    Patient,
    Operation(Op),
    Socket(Arc<dyn Fn() -> Result<Registration> + Send + Sync>, Arc<Mutex<Option<Registration>>>),
}

impl Client {
    /// A client that never goes away.
    pub fn patient() -> Client {
        Client::default()
    }
    /// A client that goes away by cancelling `op` (or by its deadline).
    pub fn with_op(op: Op) -> Client {
        Client { source: Source::Operation(op), user: None }
    }
    /// A client whose going is watched from the first call of [`Client::op`] on, by what `register` starts.
    pub(crate) fn watched(register: impl Fn() -> Result<Registration> + Send + Sync + 'static) -> Client {
        Client { source: Source::Socket(Arc::new(register), Arc::default()), user: None }
    }
    /// This client, of a user that is known: authorization plugins are told.
    #[must_use]
    pub fn with_user(self, user: User) -> Client {
        Client { user: Some(user), ..self }
    }
    /// The user, if one is known.
    pub fn user(&self) -> Option<&User> {
        self.user.as_ref()
    }
    /// The operation that ends when the client has gone; absent: it waits for ever. Watching costs two system calls, so
    /// only calls that may block for long ask.
    pub fn op(&self) -> Result<Option<Op>> {
        match &self.source {
            Source::Patient => Ok(None),
            Source::Operation(op) => Ok(Some(op.clone())),
            Source::Socket(register, slot) => {
                let mut slot = crate::lock(slot);
                if slot.is_none() {
                    *slot = Some(register()?);
                }
                Ok(slot.as_ref().map(|r| r.op().clone()))
            }
        }
    }
}

/// One request.
///
/// ```no_run
/// let router = coracle_http::Router::new(coracle::Engine::open("/var/lib/app")?);
/// use coracle_http::{Body, Client, Headers, Request};
///
/// let request = Request {
///     method: "GET".into(),
///     target: "/v1.24/containers/json?all=1".into(),
///     headers: Headers::new(),
///     body: Body::empty(),
///     client: Client::patient(),
/// };
/// println!("{}", router.handle(request).status);
/// # Ok::<(), coracle::Error>(())
/// ```
pub struct Request {
    /// The method, as sent (`GET`).
    pub method: String,
    /// Path and query, percent-encoded as sent: `/v1.24/containers/json?all=1`.
    pub target: String,
    /// Header fields.
    pub headers: Headers,
    /// Body.
    pub body: Body,
    /// The client of the request.
    pub client: Client,
}

/// One answer.
///
/// ```
/// use coracle_http::Response;
///
/// let answer = Response::new(404, b"no such page".to_vec()).with("Content-Type", "text/plain");
/// assert_eq!((answer.status, answer.headers.get("Content-Type")), (404, Some("text/plain")));
/// ```
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Status text where it is not the usual one (`UPGRADED`).
    pub reason: Option<&'static str>,
    /// Header fields, without those that frame the message (`Content-Length`, `Transfer-Encoding`, `Date`).
    pub headers: Headers,
    /// Body.
    pub body: BodyOut,
}

/// An answer's body.
///
/// ```
/// use coracle_http::{BodyOut, Response};
///
/// // A server of the program's own writes the answer in its way.
/// match Response::new(200, b"OK".to_vec()).body {
///     BodyOut::Bytes(bytes) => assert_eq!(bytes, b"OK"),
///     _ => unreachable!("an answer with bytes"),
/// }
/// ```
pub enum BodyOut {
    /// All of it.
    Bytes(Vec<u8>),
    /// Bytes whose end is the end of the connection, with no other framing (a refused attach).
    Raw(Vec<u8>),
    /// A document that is large: the door calls the function with where it goes, and need not hold it whole.
    Document(WriteDocument),
    /// Made piece by piece: the door calls the function with a [`Sink`].
    Stream(Produce),
    /// The connection is taken over after the head: the door calls the function with the socket.
    Hijack(Takeover),
}

/// Writes a large document, in many small pieces.
///
/// ```
/// use coracle_http::WriteDocument;
///
/// let write: WriteDocument = Box::new(|out| out.write_all(b"{}"));
/// let mut text = Vec::new();
/// write(&mut text)?;
/// assert_eq!(text, b"{}");
/// # Ok::<(), std::io::Error>(())
/// ```
pub type WriteDocument = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// Makes a streamed body. The head goes out with [`Sink::start`] or with the first byte, so until then another answer
/// may be given instead (`Err(Some(..))`). `Err(None)`: the stream broke off, the door leaves the message visibly cut.
///
/// ```
/// use coracle_http::{Produce, Sink};
///
/// // Two pieces, each of which reaches the client at once.
/// let produce: Produce = Box::new(|sink: &mut dyn Sink| {
///     sink.write_all(b"one").and_then(|()| sink.write_all(b"two")).map_err(|_| None)
/// });
/// # drop(produce);
/// ```
pub type Produce = Box<dyn FnOnce(&mut dyn Sink) -> std::result::Result<(), Option<Box<Response>>> + Send>;

/// Speaks on a connection that was taken over, until the conversation ends.
///
/// ```
/// use coracle_http::{Duplex, Takeover};
/// use std::io::Write;
///
/// let take: Takeover = Box::new(|Duplex { socket, early }| {
///     println!("{} bytes came before", early.len());
///     std::os::unix::net::UnixStream::from(socket).write_all(b"hello").ok();
/// });
/// let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
/// take(Duplex { socket: ours.into(), early: Vec::new() });
/// # drop(theirs);
/// # Ok::<(), std::io::Error>(())
/// ```
pub type Takeover = Box<dyn FnOnce(Duplex) + Send>;

/// Where a streamed body goes: each write reaches the client at once, as one chunk.
///
/// ```
/// use coracle_http::Sink;
/// use std::io::{self, Write};
///
/// /// A door that keeps what it is given.
/// struct Kept(Vec<u8>, bool);
///
/// impl Write for Kept {
///     fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
///         self.1 = true;
///         self.0.write(bytes)
///     }
///     fn flush(&mut self) -> io::Result<()> {
///         Ok(())
///     }
/// }
///
/// impl Sink for Kept {
///     fn start(&mut self) -> io::Result<()> {
///         self.1 = true;
///         Ok(())
///     }
///     fn started(&self) -> bool {
///         self.1
///     }
/// }
///
/// let mut kept = Kept(Vec::new(), false);
/// kept.write_all(b"piece")?;
/// assert!(kept.started());
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Sink: Write {
    /// Sends the head now, before there are bytes.
    fn start(&mut self) -> io::Result<()>;
    /// Whether the head is on its way: the status can no longer change.
    fn started(&self) -> bool;
}

/// A connection that was taken over.
///
/// ```
/// use coracle_http::Duplex;
///
/// let (socket, _client) = std::os::unix::net::UnixStream::pair()?;
/// let connection = Duplex { socket: socket.into(), early: b"first bytes".to_vec() };
/// assert_eq!(connection.early.len(), 11);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Duplex {
    /// The socket (stream), in blocking mode.
    pub socket: OwnedFd,
    /// Bytes that the client sent after its request, and that the door had already read.
    pub early: Vec<u8>,
}

impl Response {
    /// An answer with a body of bytes and no header fields.
    pub fn new(status: u16, body: Vec<u8>) -> Response {
        Response { status, reason: None, headers: Headers::new(), body: BodyOut::Bytes(body) }
    }
    /// Answers this response with one more header field.
    pub fn with(mut self, name: &str, value: impl AsRef<str>) -> Response {
        self.headers.set(name, value);
        self
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Response").field("status", &self.status).field("headers", &self.headers).finish_non_exhaustive()
    }
}
