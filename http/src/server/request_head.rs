//! A request's head: from bytes to method, target, fields and the framing of the body.
//!
//! A head that two readers could understand differently is refused: two lengths, a length and chunks, unknown codings, lines
//! that end in a bare LF.

use crate::message::Headers;
use coracle::walls::Wall;

/// Bounds of a request's head.
pub(super) const MAX_FIELDS: usize = 100;

/// A request's head, read.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Headers,
    /// HTTP/1.0 has no chunks and closes after each answer unless asked not to.
    pub(super) old: bool,
    pub(super) framing: Framing,
    pub(super) keep_alive: bool,
    pub(super) expects_continue: bool,
}

/// How a request's body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

/// A request that cannot be read: the status and reason, after which the connection closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bad {
    pub(super) status: u16,
    pub(super) reason: &'static str,
}

const fn bad(reason: &'static str) -> Bad {
    Bad { status: 400, reason }
}

/// Looks for the end of a head in `bytes`, of which `seen` were looked at before; answers the head's length.
pub(super) fn end(bytes: &[u8], seen: usize) -> Result<Option<usize>, Bad> {
    for at in seen..bytes.len() {
        if bytes[at] != b'\n' {
            continue;
        }
        if at == 0 || bytes[at - 1] != b'\r' {
            return Err(bad("a line ends without CR"));
        }
        if at >= 3 && bytes[at - 3] == b'\r' && bytes[at - 2] == b'\n' {
            return Ok(Some(at + 1));
        }
    }
    Ok(None)
}

/// Reads a whole head.
pub(super) fn parse(bytes: &[u8]) -> Result<Head, Bad> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Ok(_) => return Err(bad("malformed request")),
        Err(httparse::Error::TooManyHeaders) => return Err(Bad { status: 431, reason: "too many header fields" }),
        Err(httparse::Error::Version) if !Wall::HttpVersions.stands() => {
            return parse(b"GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        Err(httparse::Error::Version) => return Err(bad("only HTTP/1.0 and 1.1 are spoken")),
        Err(_) => return Err(bad("malformed request")),
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(bad("malformed request"));
    };
    if !target.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(bad("the target holds characters that must be percent-encoded"));
    }
    let mut headers = Headers::new();
    for field in request.headers.iter() {
        headers.add(field.name, String::from_utf8_lossy(field.value));
    }
    let old = minor == 0;
    check_target(method, target)?;
    check_host(&headers, old)?;
    let framing = framing(&headers, old)?;
    let connection = |word: &str| {
        headers.all("connection").any(|value| value.split(',').any(|token| token.trim().eq_ignore_ascii_case(word)))
    };
    let keep_alive = if old { connection("keep-alive") } else { !connection("close") };
    let expects_continue = match headers.get("expect") {
        None => false,
        Some(expect) if expect.eq_ignore_ascii_case("100-continue") => !old,
        Some(_) => return Err(Bad { status: 417, reason: "unknown expectation" }),
    };
    Ok(Head { method: method.into(), target: target.into(), old, framing, keep_alive, expects_continue, headers })
}

fn check_target(method: &str, target: &str) -> Result<(), Bad> {
    let whole = ["http://", "https://"].iter().any(|scheme| target.starts_with(scheme));
    match target {
        "*" if method == "OPTIONS" => Ok(()),
        _ if target.starts_with('/') || whole => Ok(()),
        _ => Err(bad("the target is not a path")),
    }
}

fn check_host(headers: &Headers, old: bool) -> Result<(), Bad> {
    match headers.all("host").count() {
        1 => Ok(()),
        0 if old => Ok(()),
        0 => Err(bad("missing required Host header")),
        _ => Err(bad("too many Host headers")),
    }
}

fn framing(headers: &Headers, old: bool) -> Result<Framing, Bad> {
    let lengths: Vec<&str> = headers.all("content-length").collect();
    let codings: Vec<&str> = headers.all("transfer-encoding").collect();
    match (lengths.as_slice(), codings.as_slice()) {
        ([length, ..], _) if !Wall::StrictFraming.stands() => length_of(length).map(Framing::Length),
        ([], []) => Ok(Framing::Length(0)),
        ([length], []) => length_of(length).map(Framing::Length),
        ([], [coding]) if !old && coding.trim().eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
        ([], _) => Err(bad("unsupported transfer encoding")),
        (_, []) => Err(bad("more than one Content-Length")),
        _ => Err(bad("both Content-Length and Transfer-Encoding")),
    }
}

fn length_of(text: &str) -> Result<u64, Bad> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(length) if digits && length <= i64::MAX as u64 => Ok(length),
        _ => Err(bad("bad Content-Length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> u16 {
        match end(text.as_bytes(), 0) {
            Ok(Some(length)) if length == text.len() => parse(text.as_bytes()).map_or_else(|b| b.status, |_| 200),
            Ok(_) => 0,
            Err(bad) => bad.status,
        }
    }
    fn with(fields: &str) -> u16 {
        status(&format!("POST /a HTTP/1.1\r\nHost: x\r\n{fields}\r\n"))
    }

    #[test]
    fn well_formed() {
        for fields in ["", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: Chunked \r\n"]
        {
            assert_eq!(with(fields), 200, "{fields}");
        }
        assert_eq!(status("GET / HTTP/1.0\r\n\r\n"), 200);
        assert_eq!(status("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
        assert_eq!(end(b"GET / HTTP/1.1\r\n", 0), Ok(None));
    }

    #[test]
    fn ambiguous_lengths() {
        for fields in [
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: 0x10\r\n",
            "Content-Length: \r\n",
            "Content-Length: 18446744073709551616\r\n",
            "Content-Length: 9223372036854775808\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Transfer-Encoding:\u{b}chunked\r\n",
        ] {
            assert_eq!(with(fields), 400, "{fields:?}");
        }
        assert_eq!(status("POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    }

    #[test]
    fn malformed() {
        for text in [
            "GET / HTTP/1.1\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\n\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\na: b\rc\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\na: b\0c\r\n\r\n",
            "GET a HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /\u{e9} HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /  HTTP/1.1\r\nHost: x\r\n\r\n",
            "GE T / HTTP/1.1\r\nHost: x\r\n\r\n",
            "\u{16}\u{3}\u{1} / HTTP/1.1\r\nHost: x\r\n\r\n",
        ] {
            assert_eq!(status(text), 400, "{text:?}");
        }
        assert_eq!(status("PRI * HTTP/2.0\r\n\r\n"), 400);
        assert_eq!(with("Expect: magic\r\n"), 417);
        assert_eq!(with(&"a: b\r\n".repeat(200)), 431);
    }
}
