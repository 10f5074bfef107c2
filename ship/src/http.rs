//! HTTP as drivers speak it: URLs, requests with a body, and answers.

use crate::options::{Address, host_port};

/// The longest head and the longest body of an answer.
const HEAD: usize = 16 << 10;
const BODY: usize = 1 << 20;
/// The most bytes of an answer that is not complete: answers before it, the heads of its chunks and its trailers included.
const LONGEST: usize = HEAD + 2 * BODY;

/// A receiver's URL without the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) address: Address,
    /// As the header `Host` names it.
    pub(crate) host: String,
}

impl Site {
    /// Reads `http://host:port/path`; returns the path, too. `None`: another form.
    pub(crate) fn parse(url: &str) -> Option<(Site, &str)> {
        let (is_secure, rest) = match url.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, url.strip_prefix("http://")?),
        };
        let (named, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // A user's name in a URL is not for receivers of logs.
        if rest.contains(|c: char| c.is_control() || c.is_whitespace()) || named.contains('@') {
            return None;
        }
        let (host, port) = host_port(named, Some(if is_secure { 443 } else { 80 }))?;
        let address = if is_secure { Address::Tls(host, port) } else { Address::Tcp(host, port) };
        Some((Site { address, host: named.to_owned() }, path))
    }
}

/// Appends a request with a body.
pub(crate) fn push_request(out: &mut Vec<u8>, line: &str, headers: &[(&str, &str)], body: &[u8]) {
    out.extend_from_slice(format!("{line} HTTP/1.1\r\n").as_bytes());
    let length = body.len().to_string();
    for (key, value) in headers.iter().copied().chain([("Content-Length", &*length), ("User-Agent", "coracle")]) {
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(b": ");
        // A value comes from an option. A line of its own would be another header.
        out.extend(value.bytes().filter(|byte| !byte.is_ascii_control()));
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
}

/// A text whose octets may stand as `%2C`; `None`: a wrong one, or one with control characters.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[2..];
        } else {
            out.push(first);
        }
    }
    String::from_utf8(out).ok().filter(|text| !text.contains(char::is_control))
}

/// A receiver's answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
    /// The connection takes no other request.
    pub ends: bool,
}

impl Answer {
    /// Whether the status says that all went well.
    pub fn is_well(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// How the end of a body is known.
enum Length {
    Known(usize),
    Chunks,
    Close,
}

/// The answer at the start of `bytes`, and its length; `None`: more bytes are needed. `is_over`: no more will come.
/// Errors: something else came, or it is too long.
pub(crate) fn answer(bytes: &[u8], is_over: bool) -> Result<Option<(Answer, usize)>, ()> {
    let mut from = 0;
    loop {
        let Some(end) = memchr::memmem::find(&bytes[from..], b"\r\n\r\n") else {
            return if bytes.len() - from > HEAD || bytes.len() > LONGEST || is_over { Err(()) } else { Ok(None) };
        };
        let head = std::str::from_utf8(&bytes[from..from + end]).map_err(|_| ())?;
        from += end + 4;
        let (status, length, ends) = read_head(head)?;
        // An answer before the answer.
        if (100..200).contains(&status) {
            continue;
        }
        let rest = &bytes[from..];
        let found = match length {
            Length::Known(length) if length > BODY => return Err(()),
            Length::Known(length) => rest.get(..length).map(|body| (body.to_vec(), length)),
            Length::Chunks => chunks(rest)?,
            Length::Close if rest.len() > BODY => return Err(()),
            Length::Close => is_over.then(|| (rest.to_vec(), rest.len())),
        };
        return match found {
            Some((body, length)) => Ok(Some((Answer { status, body, ends }, from + length))),
            None if is_over || bytes.len() > LONGEST => Err(()),
            None => Ok(None),
        };
    }
}

/// The status, how the body ends, and whether the connection ends behind it.
fn read_head(head: &str) -> Result<(u16, Length, bool), ()> {
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let (version, rest) = first.strip_prefix("HTTP/1.").and_then(|rest| rest.split_once(' ')).ok_or(())?;
    let status: u16 = rest.get(..3).and_then(|digits| digits.parse().ok()).ok_or(())?;
    let (mut length, mut ends) = (Length::Close, version == "0");
    for line in lines {
        let (key, value) = line.split_once(':').ok_or(())?;
        let value = value.trim();
        match key.to_ascii_lowercase().as_str() {
            "content-length" if !matches!(length, Length::Chunks) => {
                length = Length::Known(value.parse().map_err(|_| ())?);
            }
            "transfer-encoding" if value.to_ascii_lowercase().ends_with("chunked") => length = Length::Chunks,
            "connection" if value.eq_ignore_ascii_case("close") => ends = true,
            _ => {}
        }
    }
    if matches!(status, 100..200 | 204 | 304) {
        length = Length::Known(0);
    }
    let ends = ends || matches!(length, Length::Close);
    Ok((status, length, ends))
}

/// A body in chunks, and its length with their heads; `None`: it is not complete.
fn chunks(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, ()> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Some(end) = memchr::memmem::find(&bytes[at..], b"\r\n") else { return Ok(None) };
        let line = std::str::from_utf8(&bytes[at..at + end]).map_err(|_| ())?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let length = usize::from_str_radix(digits, 16).map_err(|_| ())?;
        at += end + 2;
        if length == 0 {
            // Trailers, and an empty line behind them.
            let rest = &bytes[at..];
            let end = if rest.starts_with(b"\r\n") {
                Some(2)
            } else {
                memchr::memmem::find(rest, b"\r\n\r\n").map(|end| end + 4)
            };
            return Ok(end.map(|end| (body, at + end)));
        }
        if length > BODY || body.len() + length > BODY {
            return Err(());
        }
        let Some(chunk) = bytes.get(at..at + length + 2) else { return Ok(None) };
        body.extend_from_slice(&chunk[..length]);
        at += length + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_site() {
        let of = |url| Site::parse(url).map(|(site, path)| (site.address, path.to_owned()));
        assert_eq!(of("http://a:8088/x"), Some((Address::Tcp("a".into(), 8088), "/x".into())));
        assert_eq!(of("https://[::1]"), Some((Address::Tls("::1".into(), 443), String::new())));
        assert_eq!(of("http://a?b"), Some((Address::Tcp("a".into(), 80), "?b".into())));
        for bad in ["a:1", "ftp://a", "http://", "http://u@a", "http://a b", "http://a:x", "http://a\r\nb"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn requests_have_no_header_that_an_option_smuggles() {
        let mut out = Vec::new();
        push_request(&mut out, "POST /a", &[("Host", "b\r\nX: y")], b"body");
        let wanted = "POST /a HTTP/1.1\r\nHost: bX: y\r\nContent-Length: 4\r\nUser-Agent: coracle\r\n\r\nbody";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }

    #[test]
    fn an_answer_that_never_ends_is_an_error() {
        let heads = "HTTP/1.1 100 Continue\r\n\r\n".repeat(LONGEST / 20);
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let extension = format!("{chunked}1;{}", "x".repeat(LONGEST));
        let trailers = format!("{chunked}0\r\n{}", "a: b\r\n".repeat(LONGEST / 5));
        for endless in [heads, extension, trailers] {
            assert!(answer(endless.as_bytes(), false).is_err(), "{}", &endless[..40]);
        }
    }

    #[test]
    fn answers_are_read_whatever_piece_of_them_is_there() {
        for (text, status, body, ends) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\ncontent-length:0\r\nConnection: close\r\n\r\n",
                503,
                "",
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1;x\r\n!\r\n0\r\n\r\n",
                200,
                "ok!",
                false,
            ),
            ("HTTP/1.1 204 None\r\n\r\n", 204, "", false),
        ] {
            let whole = Answer { status, body: body.into(), ends };
            for end in 0..text.len() {
                assert_eq!(answer(&text.as_bytes()[..end], false), Ok(None), "{text} {end}");
            }
            assert_eq!(answer(text.as_bytes(), false), Ok(Some((whole, text.len()))), "{text}");
        }
        let open = b"HTTP/1.0 200 OK\r\n\r\nab";
        assert_eq!(answer(open, false), Ok(None));
        assert!(
            answer(open, true).is_ok_and(|found| found.is_some_and(|(answer, _)| answer.body == b"ab" && answer.ends))
        );
    }

    #[test]
    fn an_answer_of_another_protocol_is_refused() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD));
        for (text, is_over) in [
            ("SSH-2.0-x\r\n\r\n", false),
            ("HTTP/1.1 abc\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", true),
            (&long, false),
        ] {
            assert_eq!(answer(text.as_bytes(), is_over), Err(()), "{text:.60}");
        }
    }
}
