//! The lines of git's protocol: four hex digits of length, then as many bytes, the digits among them.

use crate::error::{Cause, Error, Result};
use std::io::Read;

/// Longest line, with its length.
const LONGEST: usize = 65520;

/// A line of a server, or one of the marks between lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Data(&'a [u8]),
    /// Ends an answer.
    Flush,
    /// Ends a part of an answer.
    Delimiter,
}

/// Reads lines, and no byte behind the last.
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Lines<R> {
        Lines { input, buffer: Vec::new() }
    }

    /// The next line. Errors: the input is malformed or ends early, or the server reports an error.
    pub(super) fn next(&mut self) -> Result<Line<'_>> {
        let mut head = [0; 4];
        self.fill(&mut head)?;
        let digits = std::str::from_utf8(&head).ok().filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let length = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
        match length {
            Some(0) => Ok(Line::Flush),
            Some(1) => Ok(Line::Delimiter),
            Some(length @ 4..=LONGEST) => {
                let mut buffer = std::mem::take(&mut self.buffer);
                buffer.resize(length - 4, 0);
                self.fill(&mut buffer)?;
                self.buffer = buffer;
                match self.buffer.strip_prefix(b"ERR ") {
                    Some(error) => Err(reported(error)),
                    None => Ok(Line::Data(&self.buffer)),
                }
            }
            _ => Err(Error::internal("the server does not answer in git's protocol")),
        }
    }

    /// The last line with data.
    pub(super) fn last(&self) -> &[u8] {
        &self.buffer
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.input.read_exact(buffer).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::internal("the server ended its answer early"),
            _ => Error::io("read the server's answer", &error),
        })
    }
}

/// The error that a server reports. The protocol has no codes: git's own words say that an object does not exist.
pub(super) fn reported(text: &[u8]) -> Error {
    let text = String::from_utf8_lossy(&text[..text.len().min(500)]);
    let text: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let error = Error::internal(format!("the server says: {text}"));
    if text.contains("not our ref") { error.caused_by(Cause::CommitUnknown) } else { error }
}

/// A request of lines.
#[derive(Default)]
pub(super) struct Request(Vec<u8>);

impl Request {
    /// Adds a line, which is short.
    pub(super) fn line(mut self, text: impl AsRef<[u8]>) -> Request {
        let text = text.as_ref();
        debug_assert!(text.len() + 4 <= LONGEST);
        self.0.extend(format!("{:04x}", text.len() + 4).into_bytes());
        self.0.extend(text);
        self
    }

    /// Adds a line for each of some texts.
    pub(super) fn lines<T: AsRef<[u8]>>(self, texts: impl IntoIterator<Item = T>) -> Request {
        texts.into_iter().fold(self, Request::line)
    }

    pub(super) fn delimiter(mut self) -> Request {
        self.0.extend(b"0001");
        self
    }

    /// The bytes of the request, with its end.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.extend(b"0000");
        self.0
    }
}

/// Lines read the same when they are written again.
#[cfg(any(test, fuzzing))]
pub(super) fn fuzz(data: &[u8]) {
    let (mut lines, mut again) = (Lines::new(data), Request::default());
    let mut count = 0;
    loop {
        again = match lines.next() {
            Ok(Line::Data(text)) => again.line(text),
            Ok(Line::Delimiter) => again.delimiter(),
            Ok(Line::Flush) => {
                break assert!(data[..].to_ascii_lowercase().starts_with(&again.end().to_ascii_lowercase()));
            }
            Err(_) => break,
        };
        count += 1;
        assert!(count <= data.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_are_written() {
        let sent = Request::default().line("one\n").delimiter().lines(["two", ""]).end();
        assert_eq!(sent, b"0008one\n00010007two00040000");
        let mut lines = Lines::new(&sent[..]);
        assert_eq!(lines.next().unwrap(), Line::Data(b"one\n"));
        assert_eq!(lines.next().unwrap(), Line::Delimiter);
        assert_eq!(lines.next().unwrap(), Line::Data(b"two"));
        assert_eq!(lines.next().unwrap(), Line::Data(b""));
        assert_eq!(lines.next().unwrap(), Line::Flush);
        assert!(lines.next().unwrap_err().message().contains("early"));
    }

    #[test]
    fn a_commit_that_the_server_lacks_is_the_cause() {
        assert_eq!(reported(b"upload-pack: not our ref aa").cause(), Some(Cause::CommitUnknown));
        assert_eq!(reported(b"access denied").cause(), None);
    }

    #[test]
    fn bad_lines_are_errors() {
        for (text, why) in [
            ("0003", "git's protocol"),
            ("+00a", "git's protocol"),
            ("fff5", "git's protocol"),
            ("<htm", "git's protocol"),
            ("0009abc", "early"),
            ("000cERR a\x1b[b", "the server says: a [b"),
        ] {
            let error = Lines::new(text.as_bytes()).next().map(|_| ()).unwrap_err();
            assert!(error.message().contains(why), "{text}: {error}");
        }
    }
}
