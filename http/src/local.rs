//! The doors without a server: one request in process, and one end of a private socket that speaks the API.

use crate::message::{Body, BodyOut, Client, Duplex, Headers, Produce, Request, Response, Sink};
use crate::router::Router;
use crate::server::serve_private;
use crate::socket::Socket;
use coracle::{Error, ErrorKind, Op, Result};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// The answer to [`Router::request`].
///
/// ```no_run
/// let router = coracle_http::Router::new(coracle::Engine::open("/var/lib/app")?);
/// let reply = router.request("GET", "/v1.24/info", &[], Vec::new(), None)?;
/// println!("{} {:?}", reply.status, reply.headers.get("Content-Type"));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Header fields.
    pub headers: Headers,
    /// Body.
    pub body: ReplyBody,
}

/// A reply's body.
///
/// ```no_run
/// let router = coracle_http::Router::new(coracle::Engine::open("/var/lib/app")?);
/// use coracle_http::ReplyBody;
///
/// let reply = router.request("GET", "/v1.24/info", &[], Vec::new(), None)?;
/// if let ReplyBody::Bytes(document) = reply.body {
///     println!("{}", String::from_utf8_lossy(&document));
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug)]
pub enum ReplyBody {
    /// All of it.
    Bytes(Vec<u8>),
    /// A socket to read it from as it is made; closing it ends the work. [`StreamEnd`] says, once the socket is at its
    /// end, whether the body is whole.
    Stream(OwnedFd, StreamEnd),
    /// A socket that is the process's streams (attach, exec): shut its writing side down to end stdin.
    Duplex(OwnedFd),
}

/// How a streamed body ended.
///
/// ```no_run
/// let router = coracle_http::Router::new(coracle::Engine::open("/var/lib/app")?);
/// use coracle_http::ReplyBody;
/// use std::io::Read;
///
/// let reply = router.request("GET", "/v1.24/containers/clock/logs?stdout=1", &[], Vec::new(), None)?;
/// if let ReplyBody::Stream(socket, end) = reply.body {
///     let mut bytes = Vec::new();
///     std::os::unix::net::UnixStream::from(socket).read_to_end(&mut bytes).ok();
///     println!("{} bytes, whole: {:?}", bytes.len(), end.complete());
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct StreamEnd(Arc<Mutex<Option<bool>>>);

impl StreamEnd {
    /// Whether all of the body was sent; absent: it still runs.
    pub fn complete(&self) -> Option<bool> {
        *crate::lock(&self.0)
    }
}

impl Router {
    /// Answers one request in process. `target` is path and query (`/v1.24/containers/json?all=1`). Cancelling `op` ends
    /// every wait of the request, and its streams.
    ///
    /// A streamed or taken-over answer comes as a descriptor, filled by a thread of its own. Errors: no descriptor or
    /// thread left; every other failure is a reply.
    pub fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
        op: Option<&Op>,
    ) -> Result<Reply> {
        self.request_with(method, target, headers, Body::bytes(body), op)
    }

    /// Answers a request whose body is read as it is needed (an image archive).
    pub fn request_with(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Body,
        op: Option<&Op>,
    ) -> Result<Reply> {
        let mut fields = Headers::new();
        for (name, value) in headers {
            fields.add(*name, value);
        }
        let (ours, theirs) = UnixStream::pair().map_err(|e| Error::io("make a socket pair", &e))?;
        let socket = Arc::new(Socket::new(ours.into()));
        let client = match op {
            Some(op) => Client::with_op(op.clone()),
            None => {
                let (watched, router) = (socket.clone(), self.clone());
                Client::watched(move || router.context().watch().register(&watched))
            }
        };
        let request = Request { method: method.into(), target: target.into(), headers: fields, body, client };
        self.deliver(self.handle(request), socket, theirs.into())
    }

    fn deliver(&self, answer: Response, socket: Arc<Socket>, theirs: OwnedFd) -> Result<Reply> {
        let Response { status, headers, body, .. } = answer;
        let body = match body {
            BodyOut::Bytes(bytes) | BodyOut::Raw(bytes) => ReplyBody::Bytes(bytes),
            BodyOut::Document(write) => {
                let mut bytes = Vec::new();
                write(&mut bytes).map_err(|e| Error::io("write the answer", &e))?;
                ReplyBody::Bytes(bytes)
            }
            BodyOut::Stream(produce) => {
                let end = StreamEnd::default();
                if let Some(instead) = self.produce(produce, socket, end.clone())? {
                    let Response { status, headers, body, .. } = *instead;
                    let bytes = if let BodyOut::Bytes(bytes) = body { bytes } else { Vec::new() };
                    return Ok(Reply { status, headers, body: ReplyBody::Bytes(bytes) });
                }
                ReplyBody::Stream(theirs, end)
            }
            BodyOut::Hijack(take) => {
                let socket = duplicate(&socket)?;
                spawn(move || take(Duplex { socket, early: Vec::new() }))?;
                ReplyBody::Duplex(theirs)
            }
        };
        Ok(Reply { status, headers, body })
    }

    /// Runs the stream on a thread until its status is sure; answers what takes its place, if something does.
    fn produce(&self, produce: Produce, socket: Arc<Socket>, end: StreamEnd) -> Result<Option<Box<Response>>> {
        let (decided, decision) = sync_channel(1);
        spawn(move || {
            let mut sink = LocalSink { socket, decided: Some(decided) };
            let result = produce(&mut sink);
            *crate::lock(&end.0) = Some(result.is_ok());
            if let Some(decided) = sink.decided.take() {
                let _ = decided.send(match result {
                    Err(Some(instead)) => Some(instead),
                    _ => None,
                });
            }
        })?;
        // The thread is gone without a word only if it panicked.
        decision.recv().map_err(|_| Error::new(ErrorKind::Panic, "the request's thread panicked"))
    }

    /// One end of a private socket that speaks HTTP to this router, as if it were connected to a server. It lives as long
    /// as the caller keeps it open.
    ///
    /// Errors: no descriptor or thread left.
    pub fn connect(&self) -> Result<OwnedFd> {
        let (ours, theirs) = UnixStream::pair().map_err(|e| Error::io("make a socket pair", &e))?;
        let router = self.clone();
        spawn(move || serve_private(router, ours.into()))?;
        Ok(theirs.into())
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<()> {
    crate::thread::spawn("coracle-http", work).map_err(|e| Error::io("start a thread", &e))
}

fn duplicate(socket: &Socket) -> Result<OwnedFd> {
    use std::os::fd::AsFd;
    socket.as_fd().try_clone_to_owned().map_err(|e| Error::io("duplicate a descriptor", &e))
}

struct LocalSink {
    socket: Arc<Socket>,
    decided: Option<SyncSender<Option<Box<Response>>>>,
}

impl Sink for LocalSink {
    fn start(&mut self) -> io::Result<()> {
        if let Some(decided) = self.decided.take() {
            let _ = decided.send(None);
        }
        Ok(())
    }
    fn started(&self) -> bool {
        self.decided.is_none()
    }
}

impl Write for LocalSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.start()?;
        self.socket.send(bytes, false, None)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
