//! The reading side of a connection: what has arrived, and the body of the request that is being answered.

use super::request_head::{self, Bad, Framing, Head};
use crate::lock;
use crate::socket::Socket;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The reading side. A body is read by the handler while the connection waits, so both hold it.
pub(super) struct Inbound {
    socket: Arc<Socket>,
    /// `bytes[at..]` has arrived and is not used yet.
    bytes: Vec<u8>,
    at: usize,
    body: BodyState,
    /// The client waits for `100 Continue` before it sends the body.
    owes_continue: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyState {
    /// So many bytes are to come.
    Rest(u64),
    /// So many bytes of a chunk are to come, then CR LF.
    Chunk(u64),
    /// A chunk's length line comes next.
    ChunkHead,
    /// All is read.
    Done,
    /// The body is malformed or cut: nothing behind it can be understood.
    Broken,
}

/// Longest line inside a chunked body, and the bound of all its trailers.
const MAX_LINE: usize = 8 << 10;
const MAX_TRAILERS: usize = 64 << 10;

/// Why no request came.
pub(super) enum NoRequest {
    /// The client closed, or was silent too long between requests.
    Closed,
    Bad(Bad),
}

impl Inbound {
    pub(super) fn new(socket: Arc<Socket>) -> Inbound {
        Inbound { socket, bytes: Vec::new(), at: 0, body: BodyState::Done, owes_continue: false }
    }

    /// Reads the next request's head. It may come `idle` from now, and must be whole `deadline` after its first byte.
    pub(super) fn head(&mut self, idle: Duration, deadline: Duration, max: usize) -> Result<Head, NoRequest> {
        self.bytes.drain(..self.at);
        self.at = 0;
        let mut until = Instant::now() + if self.bytes.is_empty() { idle } else { deadline };
        let mut seen = 0;
        loop {
            self.skip_empty_lines(&mut seen);
            if let Some(length) = request_head::end(&self.bytes, seen).map_err(NoRequest::Bad)? {
                let head = request_head::parse(&self.bytes[..length]).map_err(NoRequest::Bad)?;
                self.at = length;
                self.body = match head.framing {
                    Framing::Length(0) => BodyState::Done,
                    Framing::Length(length) => BodyState::Rest(length),
                    Framing::Chunked => BodyState::ChunkHead,
                };
                self.owes_continue = head.expects_continue && self.body != BodyState::Done;
                return Ok(head);
            }
            seen = self.bytes.len();
            if seen >= max {
                return Err(NoRequest::Bad(Bad { status: 431, reason: "the request's head is too large" }));
            }
            let first = self.bytes.is_empty();
            match self.more(Some(until)) {
                Ok(0) => return Err(NoRequest::Closed),
                Ok(_) if first => until = Instant::now() + deadline,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut && !first => {
                    return Err(NoRequest::Bad(Bad { status: 408, reason: "the request's head took too long" }));
                }
                Err(_) => return Err(NoRequest::Closed),
            }
        }
    }

    /// A few empty lines before a request are passed over: old clients send one after a body.
    fn skip_empty_lines(&mut self, seen: &mut usize) {
        for _ in 0..4 {
            if self.bytes.starts_with(b"\r\n") {
                self.bytes.drain(..2);
                *seen = 0;
            }
        }
    }

    fn more(&mut self, deadline: Option<Instant>) -> io::Result<usize> {
        if self.at == self.bytes.len() {
            self.bytes.clear();
            self.at = 0;
        }
        let mut buffer = [0; 16 << 10];
        let got = self.socket.recv(&mut buffer, deadline)?;
        self.bytes.extend_from_slice(&buffer[..got]);
        Ok(got)
    }

    /// The bytes that arrived behind the request: the beginning of the stream that takes the connection over. The
    /// request's body does not belong to the stream (dockerode sends the query of an attach once more as a body). The end
    /// of a body in chunks may never come, so the bytes of it that arrived are left out, as dockerd does.
    pub(super) fn early(&mut self, most: usize, deadline: Instant) -> Vec<u8> {
        match self.body {
            BodyState::Rest(_) => drop(self.finish(most, deadline)),
            BodyState::Done | BodyState::Broken => {}
            BodyState::Chunk(_) | BodyState::ChunkHead => self.at = self.bytes.len(),
        }
        self.bytes.split_off(self.at)
    }

    /// Reads away what is left of the body, so that the next request can follow; answers whether it can.
    pub(super) fn finish(&mut self, most: usize, deadline: Instant) -> bool {
        if self.owes_continue {
            // The client holds the body back and may or may not send it now.
            return false;
        }
        let mut buffer = [0; 8 << 10];
        let mut rest = most;
        while self.body != BodyState::Done {
            match self.read_body(&mut buffer, Some(deadline)) {
                Ok(0) | Err(_) => return self.body == BodyState::Done,
                Ok(n) if n >= rest => return false,
                Ok(n) => rest -= n,
            }
        }
        true
    }

    /// Whether the end of the body was not seen.
    pub(super) fn is_unread(&self) -> bool {
        self.body != BodyState::Done
    }

    fn read_body(&mut self, buffer: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        if self.owes_continue {
            self.owes_continue = false;
            self.socket.send(b"HTTP/1.1 100 Continue\r\n\r\n", false, deadline)?;
        }
        let result = self.read_framed(buffer, deadline);
        if result.is_err() {
            self.body = BodyState::Broken;
        }
        result
    }

    fn read_framed(&mut self, buffer: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        loop {
            match self.body {
                BodyState::Done => return Ok(0),
                BodyState::Broken => return Err(malformed("the body is broken")),
                BodyState::ChunkHead => self.chunk_head(deadline)?,
                BodyState::Rest(rest) | BodyState::Chunk(rest) => {
                    if buffer.is_empty() {
                        return Ok(0);
                    }
                    let most = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
                    let got = self.take(&mut buffer[..most], deadline)?;
                    let rest = rest - got as u64;
                    self.body = match self.body {
                        BodyState::Chunk(_) if rest == 0 => {
                            if !self.line(MAX_LINE, deadline)?.is_empty() {
                                return Err(malformed("a chunk is longer than its length"));
                            }
                            BodyState::ChunkHead
                        }
                        BodyState::Chunk(_) => BodyState::Chunk(rest),
                        _ if rest == 0 => BodyState::Done,
                        _ => BodyState::Rest(rest),
                    };
                    return Ok(got);
                }
            }
        }
    }

    fn take(&mut self, buffer: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        let held = &self.bytes[self.at..];
        if held.is_empty() {
            // Large bodies go straight to their reader.
            return match self.socket.recv(buffer, deadline)? {
                0 => Err(cut()),
                got => Ok(got),
            };
        }
        let count = held.len().min(buffer.len());
        buffer[..count].copy_from_slice(&held[..count]);
        self.at += count;
        Ok(count)
    }

    fn chunk_head(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        let line = self.line(MAX_LINE, deadline)?;
        let digits = line.split(|b| *b == b';').next().unwrap_or_default().trim_ascii_end();
        let valid = (1..=16).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
        let length = std::str::from_utf8(digits).ok().filter(|_| valid).and_then(|d| u64::from_str_radix(d, 16).ok());
        match length {
            None => return Err(malformed("bad chunk length")),
            Some(length) if length > i64::MAX as u64 => return Err(malformed("bad chunk length")),
            Some(0) => {
                let mut rest = MAX_TRAILERS;
                loop {
                    let line = self.line(rest, deadline)?;
                    if line.is_empty() {
                        break;
                    }
                    rest = rest.checked_sub(line.len() + 2).ok_or_else(|| malformed("the trailers are too long"))?;
                }
                self.body = BodyState::Done;
            }
            Some(length) => self.body = BodyState::Chunk(length),
        }
        Ok(())
    }

    /// A line of the chunked framing, without its CR LF.
    fn line(&mut self, most: usize, deadline: Option<Instant>) -> io::Result<Vec<u8>> {
        let mut seen = 0;
        loop {
            let held = &self.bytes[self.at..];
            if let Some(found) = held[seen..].iter().position(|b| *b == b'\n') {
                let end = seen + found;
                if end == 0 || held[end - 1] != b'\r' {
                    return Err(malformed("a line ends without CR"));
                }
                let line = held[..end - 1].to_vec();
                self.at += end + 1;
                return Ok(line);
            }
            seen = held.len();
            if seen > most {
                return Err(malformed("a line is too long"));
            }
            // The held bytes stay at the same distance from `at`, also where it moves to the front.
            if self.more(deadline)? == 0 {
                return Err(cut());
            }
        }
    }
}

fn malformed(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "unexpected EOF")
}

/// A request's body as the handler reads it.
pub(super) struct BodyReader {
    pub(super) inbound: Arc<Mutex<Inbound>>,
    /// Silence that ends the body; absent: an archive may come as slowly as its source makes it.
    pub(super) patience: Option<Duration>,
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let deadline = self.patience.map(|p| Instant::now() + p);
        lock(&self.inbound).read_body(buffer, deadline)
    }
}
