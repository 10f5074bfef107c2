//! A request to the program, and its answer: HTTP 1.0, where a connection has one of each, and the answer's length is told.

use crate::error::{Error, ErrorKind, Result};
use crate::plugin::connect_own;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The time limit of a connection; the socket is this machine's.
const CONNECT: Duration = Duration::from_secs(5);
/// The time limit of each part of an answer. The program itself gives up after 20 s, and after 60 s when it begins a swarm.
const ANSWER: Duration = Duration::from_secs(90);
/// The greatest size of an answer's head, in bytes.
const LONGEST_HEAD: u64 = 64 << 10;

/// A request of the swarm's part of the API ([`crate::Engine::swarm_request`]).
///
/// ```
/// use coracle::SwarmRequest;
///
/// let list = SwarmRequest { method: "GET", target: "/v1.24/services", registry_auth: None, body: &[], enters: false };
/// assert!(!list.enters, "a list starts no program");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SwarmRequest<'a> {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'a str,
    /// The path with the version, and the query, percent-encoded: `/v1.24/services?filters=%7B%7D`.
    pub target: &'a str,
    /// `X-Registry-Auth`: the login for the registry of a service's image.
    pub registry_auth: Option<&'a str>,
    /// A JSON document, or nothing.
    pub body: &'a [u8],
    /// Whether the request begins or joins a swarm: the program is started for it, if the options name the program.
    pub enters: bool,
}

/// The answer to a [`SwarmRequest`].
///
/// ```no_run
/// # use coracle::{Engine, SwarmRequest};
/// # let engine = Engine::open("/var/lib/coracle")?;
/// let list = SwarmRequest { method: "GET", target: "/v1.24/services", registry_auth: None, body: &[], enters: false };
/// match engine.swarm_request(&list)? {
///     Some(answer) if answer.status == 200 => println!("{}", std::io::read_to_string(answer.body).unwrap_or_default()),
///     Some(answer) => println!("refused with {}", answer.status),
///     None => println!("the root is in no swarm"),
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
pub struct SwarmAnswer {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`; `None`: the answer has no body.
    pub content_type: Option<String>,
    /// The body, to its end. A read fails where the body is cut off.
    pub body: Box<dyn Read + Send>,
}

pub(super) fn connect(socket: &Path) -> Result<UnixStream> {
    let failed = |error: std::io::Error| Error::io(format_args!("connect to {}", socket.display()), &error);
    let stream = connect_own(socket, CONNECT).map_err(failed)?;
    stream.set_read_timeout(Some(ANSWER)).map_err(failed)?;
    stream.set_write_timeout(Some(ANSWER)).map_err(failed)?;
    Ok(stream)
}

pub(super) fn send(mut stream: UnixStream, request: &SwarmRequest<'_>) -> Result<SwarmAnswer> {
    stream.write_all(&written(request)?).map_err(failed)?;
    let mut reader = BufReader::new(stream);
    let head = head(&mut reader)?;
    let body = Exactly { left: head.length, reader };
    Ok(SwarmAnswer { status: head.status, content_type: head.content_type, body: Box::new(body) })
}

fn failed(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            let text = format!("coracle-swarm does not answer for {}s", ANSWER.as_secs());
            Error::new(ErrorKind::Timeout, text)
        }
        _ => Error::io("talk to coracle-swarm", &error).with_kind(ErrorKind::Unavailable),
    }
}

/// The bytes of a request. Errors: a part of it would begin another line of the head.
fn written(request: &SwarmRequest<'_>) -> Result<Vec<u8>> {
    let SwarmRequest { method, target, registry_auth, body, .. } = request;
    let is_odd = |text: &str| text.bytes().any(|byte| byte.is_ascii_control());
    if is_odd(method) || target.bytes().any(|byte| byte <= b' ') || registry_auth.is_some_and(is_odd) {
        return Err(Error::invalid("a request to coracle-swarm has a control character in its head"));
    }
    let mut head = format!("{method} {target} HTTP/1.0\r\nHost: swarm\r\nContent-Length: {}\r\n", body.len());
    if !body.is_empty() {
        head += "Content-Type: application/json\r\n";
    }
    if let Some(login) = registry_auth {
        head += &format!("X-Registry-Auth: {login}\r\n");
    }
    Ok([head.as_bytes(), b"\r\n", body].concat())
}

struct Head {
    status: u16,
    content_type: Option<String>,
    length: u64,
}

fn head(reader: &mut impl BufRead) -> Result<Head> {
    let malformed = || Error::internal("the answer of coracle-swarm is not HTTP");
    let mut lines = Vec::new();
    let mut bounded = reader.take(LONGEST_HEAD);
    loop {
        let mut line = Vec::new();
        bounded.read_until(b'\n', &mut line).map_err(failed)?;
        let line = String::from_utf8(line).map_err(|_| malformed())?;
        match line.strip_suffix('\n') {
            None => return Err(Error::new(ErrorKind::Unavailable, "coracle-swarm ended before its answer")),
            Some("" | "\r") => break,
            Some(line) => lines.push(line.trim_end().to_owned()),
        }
    }
    let status = lines.first().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or_else(malformed)?;
    let field = |wanted: &str| {
        let mut fields = lines.iter().skip(1).filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim().to_owned())
    };
    // The program tells the length of every answer.
    let length = field("Content-Length").and_then(|text| text.parse().ok()).ok_or_else(malformed)?;
    Ok(Head { status, content_type: field("Content-Type"), length })
}

/// A body of a known length.
struct Exactly<R> {
    reader: R,
    left: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let room = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let got = self.reader.read(&mut buffer[..room])?;
        if got == 0 && room > 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= got as u64;
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Sends a request to a program that gives `answer`: the bytes that the program got, and the answer that came.
    fn exchange(request: &SwarmRequest<'_>, answer: &'static [u8]) -> (String, Result<SwarmAnswer>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let program = thread::spawn(move || {
            let mut got = vec![0; 4096];
            let length = theirs.read(&mut got).unwrap();
            theirs.write_all(answer).unwrap();
            String::from_utf8(got[..length].to_vec()).unwrap()
        });
        let answer = send(ours, request);
        (program.join().unwrap(), answer)
    }

    const REQUEST: SwarmRequest<'_> = SwarmRequest {
        method: "POST",
        target: "/v1.24/services/create",
        registry_auth: Some("e30="),
        body: b"{}",
        enters: false,
    };

    #[test]
    fn a_request_has_its_length_and_an_answer_ends_with_its_own() {
        let answer = b"HTTP/1.0 201 Created\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nnullmore";
        let (asked, got) = exchange(&REQUEST, answer);
        let expected = "POST /v1.24/services/create HTTP/1.0\r\nHost: swarm\r\nContent-Length: 2\r\nContent-Type: \
                        application/json\r\nX-Registry-Auth: e30=\r\n\r\n{}";
        assert_eq!(asked, expected);
        let mut got = got.unwrap();
        let mut text = String::new();
        got.body.read_to_string(&mut text).unwrap();
        assert_eq!((got.status, got.content_type.as_deref(), text.as_str()), (201, Some("application/json"), "null"));
    }

    #[test]
    fn an_answer_that_is_cut_off_is_an_error() {
        let (_, got) = exchange(&REQUEST, b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nshort");
        let mut text = Vec::new();
        let error = got.unwrap().body.read_to_end(&mut text).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
        for (cut, kind) in [
            (&b"HTTP/1.0 200 OK\r\nContent-Le"[..], ErrorKind::Unavailable),
            (b"HTTP/1.0 200 OK\r\n\r\n", ErrorKind::Internal),
            (b"nothing\r\n\r\n", ErrorKind::Internal),
        ] {
            let (_, got) = exchange(&REQUEST, cut);
            assert_eq!(got.err().map(|error| error.kind()), Some(kind), "{}", String::from_utf8_lossy(cut));
        }
    }

    #[test]
    fn a_request_cannot_have_a_line_of_its_own() {
        for (target, login) in [("/v1.24/a b", None), ("/v1.24/a\r\nX: y", None), ("/v1.24/a", Some("x\r\nX: y"))] {
            let request = SwarmRequest { target, registry_auth: login, ..REQUEST };
            assert_eq!(written(&request).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
}
