//! The writing side of a connection: heads, whole bodies, chunks.

use crate::message::{Headers, Sink};
use crate::socket::Socket;
use crate::time::http_now;
use std::io::{self, Write};
use std::time::Instant;

/// The facts on which the answer's framing depends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// The request was HTTP/1.0.
    pub(super) old: bool,
    /// The request was HEAD: no body goes out.
    pub(super) head_only: bool,
    /// The connection stays open afterwards.
    pub(super) keep_alive: bool,
}

/// Sends an answer whose body is at hand.
pub(super) fn whole(
    socket: &Socket,
    (status, reason): (u16, Option<&str>),
    headers: &Headers,
    body: &[u8],
    manner: Manner,
    deadline: Instant,
) -> io::Result<()> {
    let mut out = start(status, reason, headers, manner);
    push(&mut out, "Date", &http_now());
    if !bodiless(status) {
        push(&mut out, "Content-Length", &body.len().to_string());
    }
    connection(&mut out, headers, manner);
    out.extend_from_slice(b"\r\n");
    if !manner.head_only && !bodiless(status) {
        out.extend_from_slice(body);
    }
    socket.send(&out, false, Some(deadline))
}

/// Sends a head with only its own fields, and bytes behind it that end with the connection.
pub(super) fn raw(
    socket: &Socket,
    (status, reason): (u16, Option<&str>),
    headers: &Headers,
    body: &[u8],
    manner: Manner,
    deadline: Instant,
) -> io::Result<()> {
    let mut out = start(status, reason, headers, Manner { old: false, ..manner });
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    socket.send(&out, false, Some(deadline))
}

/// A streamed answer: each write is one chunk and goes out at once. Clients of HTTP/1.0 get the bytes as they are.
pub(super) struct Chunks<'a> {
    socket: &'a Socket,
    /// The head, until it is sent.
    head: Option<Vec<u8>>,
    manner: Manner,
    /// When all must be sent; absent: the client may take its time.
    deadline: Option<Instant>,
}

impl<'a> Chunks<'a> {
    pub(super) fn new(
        socket: &'a Socket,
        (status, reason): (u16, Option<&str>),
        headers: &Headers,
        manner: Manner,
    ) -> Chunks<'a> {
        let mut head = start(status, reason, headers, manner);
        push(&mut head, "Date", &http_now());
        if !manner.old {
            push(&mut head, "Transfer-Encoding", "chunked");
        }
        connection(&mut head, headers, manner);
        head.extend_from_slice(b"\r\n");
        Chunks { socket, head: Some(head), manner, deadline: None }
    }
    /// An answer that breaks off where the client has not taken it by then.
    pub(super) fn until(self, deadline: Instant) -> Chunks<'a> {
        Chunks { deadline: Some(deadline), ..self }
    }
    /// Ends the body as whole. Without this call the client sees that it is cut.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.start()?;
        if self.manner.old || self.manner.head_only {
            return Ok(());
        }
        self.socket.send(b"0\r\n\r\n", false, self.deadline)
    }
}

impl Sink for Chunks<'_> {
    fn start(&mut self) -> io::Result<()> {
        match self.head.take() {
            Some(head) => self.socket.send(&head, false, self.deadline),
            None => Ok(()),
        }
    }
    fn started(&self) -> bool {
        self.head.is_none()
    }
}

/// Pieces up to this are copied behind their length, to go out in one packet.
const COPIED: usize = 16 << 10;

impl Write for Chunks<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = self.head.take().unwrap_or_default();
        if bytes.is_empty() || self.manner.head_only {
            self.socket.send(&out, false, self.deadline)?;
            return Ok(bytes.len());
        }
        if !self.manner.old {
            out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
        }
        let end: &[u8] = if self.manner.old { b"" } else { b"\r\n" };
        if bytes.len() <= COPIED {
            out.extend_from_slice(bytes);
            out.extend_from_slice(end);
            self.socket.send(&out, false, self.deadline)?;
        } else {
            self.socket.send(&out, true, self.deadline)?;
            self.socket.send(bytes, !end.is_empty(), self.deadline)?;
            self.socket.send(end, false, self.deadline)?;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gathers the small pieces of a document into chunks.
pub(super) struct Pieces<'a> {
    chunks: Chunks<'a>,
    piece: Vec<u8>,
}

/// Bytes of a chunk of a document.
const PIECE: usize = 32 << 10;

impl<'a> Pieces<'a> {
    pub(super) fn new(chunks: Chunks<'a>) -> Pieces<'a> {
        Pieces { chunks, piece: Vec::with_capacity(PIECE) }
    }
    /// Ends the document as whole.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.chunks.finish()
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&bytes[..count]);
        if self.piece.len() == PIECE {
            self.flush()?;
        }
        Ok(count)
    }
    fn flush(&mut self) -> io::Result<()> {
        if !self.piece.is_empty() {
            self.chunks.write_all(&self.piece)?;
            self.piece.clear();
        }
        Ok(())
    }
}

fn start(status: u16, reason: Option<&str>, headers: &Headers, manner: Manner) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let version = if manner.old { "1.0" } else { "1.1" };
    out.extend_from_slice(
        format!("HTTP/{version} {status} {}\r\n", reason.unwrap_or_else(|| usual(status))).as_bytes(),
    );
    for (name, value) in headers.iter() {
        push(&mut out, name, value);
    }
    out
}

fn push(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn connection(out: &mut Vec<u8>, headers: &Headers, manner: Manner) {
    if headers.get("connection").is_some() {
        return;
    }
    match (manner.old, manner.keep_alive) {
        (false, false) => push(out, "Connection", "close"),
        (true, true) => push(out, "Connection", "keep-alive"),
        _ => {}
    }
}

fn bodiless(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

fn usual(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        301 => "Moved Permanently",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Request Entity Too Large",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
