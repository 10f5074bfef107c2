//! One connection: request after request, until it closes or is taken over.

use super::Limits;
use super::inbound::{BodyReader, Inbound, NoRequest};
use super::outbound::{self, Chunks, Manner, Pieces};
use super::request_head::{Bad, Framing, Head};
use crate::lock;
use crate::message::{Body, BodyOut, Client, Duplex, Headers, Produce, Request, Response, WriteDocument};
use crate::router::Router;
use crate::socket::Socket;
use crate::user::User;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The questions of a connection to the door that it came through.
pub(super) trait Door {
    /// Notes that the connection now answers (or waits for) a request; false: it must close.
    fn busy(&self, busy: bool) -> bool;
    /// Notes that the answer is whole and is being sent, after which the connection waits for a request.
    fn ends_answer(&self) {}
    /// Notes what is asked.
    fn asked(&self, method: &str, target: &str);
    /// The user of the connection, if one is known.
    fn user(&self) -> Option<User>;
    /// Why requests with these fields are not served here, if they are not.
    fn objection(&self, headers: &Headers) -> Option<&'static str>;
}

pub(super) struct Connection<'a> {
    router: Router,
    socket: Arc<Socket>,
    inbound: Arc<Mutex<Inbound>>,
    limits: &'a Limits,
    door: &'a dyn Door,
}

/// The next step of the connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Another request may follow.
    Again,
    /// The connection closes after all sent bytes have arrived.
    Close,
    /// The connection is broken off, so that the client sees that the answer is not whole.
    Break,
}

/// How long an answer waits for the rest of a body that nobody needs, and a closing connection for its client to take
/// what was sent.
const DRAIN: Duration = Duration::from_secs(2);
/// How long a closing connection waits for a client to send the body that it has begun.
const LINGER: Duration = Duration::from_secs(10);

impl<'a> Connection<'a> {
    pub(super) fn new(router: Router, socket: Arc<Socket>, limits: &'a Limits, door: &'a dyn Door) -> Connection<'a> {
        let inbound = Arc::new(Mutex::new(Inbound::new(socket.clone())));
        Connection { router, socket, inbound, limits, door }
    }

    pub(super) fn run(self) {
        let end = loop {
            if !self.door.busy(false) {
                break Next::Break;
            }
            let limits = self.limits;
            let head = lock(&self.inbound).head(limits.idle_time, limits.head_time, limits.head_bytes);
            let next = match head {
                Err(NoRequest::Closed) => Next::Break,
                Err(NoRequest::Bad(bad)) => self.refuse(&bad),
                Ok(_) if !self.door.busy(true) => Next::Break,
                Ok(head) => self.answer(head),
            };
            if next != Next::Again {
                break next;
            }
        };
        if end == Next::Close {
            let unread = lock(&self.inbound).is_unread();
            self.socket.linger(if unread { LINGER } else { DRAIN }, self.limits.drain_bytes);
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.limits.answer_time
    }

    /// Answers bytes that are not a request.
    fn refuse(&self, bad: &Bad) -> Next {
        let mut headers = Headers::new();
        headers.add("Content-Type", "text/plain; charset=utf-8");
        let manner = Manner { old: false, head_only: false, keep_alive: false };
        let body = format!("{}\n", bad.reason);
        let _ = outbound::whole(&self.socket, (bad.status, None), &headers, body.as_bytes(), manner, self.deadline());
        Next::Close
    }

    fn answer(&self, head: Head) -> Next {
        self.door.asked(&head.method, &head.target);
        if let Some(objection) = self.door.objection(&head.headers) {
            return self.refuse(&Bad { status: 403, reason: objection });
        }
        let manner = Manner { old: head.old, head_only: head.method == "HEAD", keep_alive: head.keep_alive };
        let request = self.request(head);
        let router = &self.router;
        // A defect in one handler is one request's failure.
        let answer = catch_unwind(AssertUnwindSafe(|| router.handle(request)));
        match answer {
            Ok(answer) => self.deliver(answer, manner),
            Err(_) => self.refuse(&Bad { status: 500, reason: "the request met a defect of the engine" }),
        }
    }

    fn request(&self, head: Head) -> Request {
        let length = match head.framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked => None,
        };
        // An archive comes as slowly as its source makes it; a document does not.
        let document = head.headers.get("content-type").is_some_and(|kind| kind.contains("json"));
        let patience = document.then_some(self.limits.body_silence);
        let body = match length {
            Some(0) => Body::empty(),
            _ => Body::stream(BodyReader { inbound: self.inbound.clone(), patience }, length),
        };
        let (router, socket) = (self.router.clone(), self.socket.clone());
        let client = Client::watched(move || router.context().watch().register(&socket));
        let client = match self.door.user() {
            Some(user) => client.with_user(user),
            None => client,
        };
        Request { method: head.method, target: head.target, headers: head.headers, body, client }
    }

    fn deliver(&self, answer: Response, manner: Manner) -> Next {
        let Response { status, reason, headers, body } = answer;
        let status = (status, reason);
        match body {
            BodyOut::Bytes(body) => self.whole(status, &headers, &body, manner),
            BodyOut::Raw(body) => {
                let _ = outbound::raw(&self.socket, status, &headers, &body, manner, self.deadline());
                Next::Close
            }
            BodyOut::Document(write) => self.document(status, &headers, write, manner),
            BodyOut::Stream(produce) => self.stream(status, &headers, produce, manner),
            BodyOut::Hijack(take) => {
                let sent = outbound::raw(&self.socket, status, &headers, b"", manner, self.deadline());
                let Ok(socket) = self.socket.as_fd().try_clone_to_owned() else { return Next::Break };
                if sent.is_ok() {
                    let early = lock(&self.inbound).early(self.limits.drain_bytes, Instant::now() + DRAIN);
                    let _ = catch_unwind(AssertUnwindSafe(|| take(Duplex { socket, early })));
                }
                Next::Close
            }
        }
    }

    fn whole(&self, status: (u16, Option<&str>), headers: &Headers, body: &[u8], manner: Manner) -> Next {
        let closing = headers.get("connection").is_some_and(|c| c.eq_ignore_ascii_case("close"));
        // A body that is still to come is read away before the answer, which may promise to go on or may close.
        let keep = self.drain() && manner.keep_alive && !closing;
        let manner = Manner { keep_alive: keep, ..manner };
        if keep {
            self.door.ends_answer();
        }
        match outbound::whole(&self.socket, status, headers, body, manner, self.deadline()) {
            Ok(()) if keep => Next::Again,
            Ok(()) => Next::Close,
            Err(_) => Next::Break,
        }
    }

    /// Sends a large document while it is written, within the time that an answer may take.
    fn document(&self, status: (u16, Option<&str>), headers: &Headers, write: WriteDocument, manner: Manner) -> Next {
        let keep = self.drain() && manner.keep_alive && !manner.old;
        let manner = Manner { keep_alive: keep, ..manner };
        if keep {
            self.door.ends_answer();
        }
        let chunks = Chunks::new(&self.socket, status, headers, manner).until(self.deadline());
        let mut pieces = Pieces::new(chunks);
        match catch_unwind(AssertUnwindSafe(|| write(&mut pieces))) {
            Ok(Ok(())) if pieces.finish().is_ok() => {
                if keep {
                    Next::Again
                } else {
                    Next::Close
                }
            }
            _ => Next::Break,
        }
    }

    fn drain(&self) -> bool {
        lock(&self.inbound).finish(self.limits.drain_bytes, Instant::now() + DRAIN)
    }

    fn stream(&self, status: (u16, Option<&str>), headers: &Headers, produce: Produce, manner: Manner) -> Next {
        let manner = Manner { keep_alive: manner.keep_alive && !manner.old, ..manner };
        let mut chunks = Chunks::new(&self.socket, status, headers, manner);
        match catch_unwind(AssertUnwindSafe(|| produce(&mut chunks))) {
            Ok(Ok(())) => match chunks.finish() {
                Ok(()) if manner.keep_alive && self.drain() => Next::Again,
                Ok(()) => Next::Close,
                Err(_) => Next::Break,
            },
            Ok(Err(Some(instead))) => {
                drop(chunks);
                match instead.body {
                    BodyOut::Bytes(body) => {
                        self.whole((instead.status, instead.reason), &instead.headers, &body, manner)
                    }
                    _ => Next::Break,
                }
            }
            Ok(Err(None)) | Err(_) => Next::Break,
        }
    }
}
