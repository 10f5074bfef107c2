//! A client for dockerd's API at a Unix socket. It only reads: it changes nothing in dockerd.

use crate::error::{Error, ErrorKind, Result};
use crate::image::check_values;
use crate::model::json_words;
use crate::op::{Op, Ready, wait_fd};
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The greatest size of a document, and of an answer's head.
const MAX_DOCUMENT: u64 = 32 << 20;
const MAX_HEAD: u64 = 64 << 10;
/// The API versions that are tried: every dockerd since 1.12 knows the first, except the newest ones, which require the
/// second.
const VERSIONS: [&str; 2] = ["/v1.24", "/v1.44"];
/// How long dockerd may send nothing: before it answers with an archive of an image it copies all of its layers.
const SILENCE: Duration = Duration::from_secs(600);
/// The zero bytes at the end of a complete tar.
const END: usize = 1024;

pub(super) struct Api<'a> {
    socket: &'a Path,
    version: &'static str,
    most_values: usize,
    op: Option<&'a Op>,
}

impl<'a> Api<'a> {
    /// Errors: the socket has no dockerd.
    pub(super) fn of(socket: &'a Path, most_values: usize, op: Option<&'a Op>) -> Result<Api<'a>> {
        let mut refused = None;
        for version in VERSIONS {
            let api = Api { socket, version, most_values, op };
            match api.get("/info") {
                Ok(_) => return Ok(api),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| Error::internal("no version was asked for")))
    }

    pub(super) fn document<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let mut body = Vec::new();
        self.get(path)?.take(MAX_DOCUMENT).read_to_end(&mut body).map_err(|e| self.failed(&e))?;
        check_values(&body, self.most_values).map_err(|error| error.context(path))?;
        crate::document::read(&body)
            .map_err(|e| Error::invalid(format!("dockerd's answer to {path}: {}", json_words(&e))))
    }

    /// Gives a tar to `take`. Errors: the tar ends too early, which the end of the connection alone does not show.
    pub(super) fn archive<T>(&self, path: &str, take: impl FnOnce(&mut dyn Read) -> Result<T>) -> Result<T> {
        let mut whole = Whole { archive: self.get(path)?, zeroes: 0 };
        let taken = take(&mut whole)?;
        io::copy(&mut whole, &mut io::sink()).map_err(|e| self.failed(&e))?;
        match whole.zeroes >= END {
            true => Ok(taken),
            false => Err(Error::new(ErrorKind::Unavailable, "dockerd ended before the archive was whole")),
        }
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::io(format_args!("ask dockerd at {}", self.socket.display()), error)
    }

    /// The body of a successful answer. In HTTP 1.0 the connection's end is the body's end.
    fn get(&self, path: &str) -> Result<BufReader<Answer<'_>>> {
        let mut stream = UnixStream::connect(self.socket).map_err(|e| self.failed(&e))?;
        let request = format!("GET {}{path} HTTP/1.0\r\nHost: docker\r\n\r\n", self.version);
        stream.write_all(request.as_bytes()).map_err(|e| self.failed(&e))?;
        let mut answer = BufReader::with_capacity(256 << 10, Answer { stream, op: self.op });
        let mut head = Vec::new();
        let mut bounded = answer.by_ref().take(MAX_HEAD);
        while !head.ends_with(b"\r\n\r\n") {
            if bounded.read_until(b'\n', &mut head).map_err(|e| self.failed(&e))? == 0 {
                return Err(Error::invalid(format!("{} does not answer as dockerd does", self.socket.display())));
            }
        }
        let line = String::from_utf8_lossy(head.split(|&byte| byte == b'\r').next().unwrap_or_default()).into_owned();
        match line.split(' ').nth(1) {
            Some("200") => Ok(answer),
            _ => {
                let mut said = String::new();
                let _ = answer.take(1 << 10).read_to_string(&mut said);
                Err(Error::internal(format!("dockerd's answer to {path}: {line}: {}", said.trim())))
            }
        }
    }
}

/// The bytes of an answer, with a time limit for each.
struct Answer<'a> {
    stream: UnixStream,
    op: Option<&'a Op>,
}

impl Read for Answer<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match wait_fd(self.stream.as_fd(), Ready::Read, Some(SILENCE), self.op) {
            Ok(true) => self.stream.read(out),
            Ok(false) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("it says nothing for {SILENCE:?}"))),
            Err(ended) => Err(io::Error::other(ended.message().to_owned())),
        }
    }
}

/// Counts the zero bytes at the end of an archive.
struct Whole<R> {
    archive: R,
    zeroes: usize,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let got = self.archive.read(out)?;
        let last = out[..got].iter().rev().take_while(|&&byte| byte == 0).count();
        self.zeroes = if last == got { self.zeroes.saturating_add(got) } else { last };
        Ok(got)
    }
}

/// A percent-encoded value of a query.
pub(super) fn escaped(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' | b':' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_archive_is_told_from_a_broken_connection() {
        let count = |bytes: &[u8]| {
            let mut whole = Whole { archive: bytes, zeroes: 0 };
            let mut one = [0; 7];
            while whole.read(&mut one).unwrap() > 0 {}
            whole.zeroes
        };
        let whole = [vec![1; 512], vec![0; END]].concat();
        assert_eq!(count(&whole), END);
        assert!(count(&whole[..whole.len() - 1]) < END);
        assert_eq!((count(b""), count(&[vec![0; 2000], vec![7]].concat())), (0, 0));
        assert_eq!(escaped("a b/c:d&e"), "a%20b/c:d%26e");
    }
}
