//! The key sequence that leaves a terminal without ending its process.

use super::ExecDetail;
use super::base64::{from_base64, to_base64};
use crate::error::{Error, Result};

/// Looks for the sequence in typed text.
///
/// ```
/// use coracle::model::DetachKeys;
///
/// let mut keys = DetachKeys::parse("ctrl-p,ctrl-q")?;
/// let mut for_the_process = Vec::new();
/// assert!(!keys.feed(b"ls\n", &mut for_the_process));
/// assert!(keys.feed(&[0x10, 0x11], &mut for_the_process), "the user wants to leave");
/// assert_eq!(for_the_process, b"ls\n");
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachKeys {
    keys: Vec<u8>,
    matched: usize,
}

impl DetachKeys {
    /// `text`: keys joined by commas, each one ASCII character or `ctrl-` with one of `a-z @ [ \ ] ^ _` or a comma; empty:
    /// `ctrl-p,ctrl-q`. Errors: anything else.
    pub fn parse(text: &str) -> Result<DetachKeys> {
        let text = if text.is_empty() { "ctrl-p,ctrl-q" } else { text };
        let keys: Option<Vec<u8>> = words(text).into_iter().map(key).collect();
        match keys {
            Some(keys) => Ok(DetachKeys { keys, matched: 0 }),
            None => Err(Error::invalid(format!("Invalid detach keys ({text}) provided"))),
        }
    }

    /// The sequence given at the creation of an exec instance.
    pub fn of_exec(exec: &ExecDetail) -> DetachKeys {
        // Absent: created without a sequence.
        let keys = from_base64(&exec.detach_keys).unwrap_or_else(|| vec![0x10, 0x11]);
        DetachKeys { keys, matched: 0 }
    }

    /// The sequence in the form of an exec instance's detail.
    pub(crate) fn encoded(&self) -> String {
        to_base64(&self.keys)
    }

    /// Appends the part of `typed` that goes to the process to `out`; true: the sequence is complete, the rest is
    /// dropped. A begun sequence is held back until it is complete or broken.
    pub fn feed(&mut self, typed: &[u8], out: &mut Vec<u8>) -> bool {
        for &byte in typed {
            if byte != self.keys[self.matched] {
                out.extend_from_slice(&self.keys[..self.matched]);
                self.matched = 0;
                if byte != self.keys[0] {
                    out.push(byte);
                    continue;
                }
            }
            self.matched += 1;
            if self.matched == self.keys.len() {
                return true;
            }
        }
        false
    }
}

/// The keys of a list. A comma after `ctrl-` does not end a key.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let from = if text.starts_with("ctrl-,") { "ctrl-,".len() } else { 0 };
        let end = text[from..].find(',').map(|comma| from + comma);
        words.push(&text[..end.unwrap_or(text.len())]);
        rest = end.map(|comma| &text[comma + 1..]);
    }
    words
}

fn key(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Some(*byte),
        [b'c', b't', b'r', b'l', b'-', byte @ b'a'..=b'z'] => Some(byte - b'a' + 1),
        [b'c', b't', b'r', b'l', b'-', byte @ (b'@' | b'['..=b'_')] => Some(byte - b'@'),
        // A control character is the low five bits of its key.
        [b'c', b't', b'r', b'l', b'-', b','] => Some(b',' & 0x1f),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_bytes() {
        assert_eq!(DetachKeys::parse("").unwrap().keys, [16, 17]);
        assert_eq!(DetachKeys::parse("a,ctrl-z,ctrl-@,ctrl-_,ctrl-\\").unwrap().keys, [b'a', 26, 0, 31, 28]);
        assert_eq!(DetachKeys::parse("foo").unwrap_err().message(), "Invalid detach keys (foo) provided");
        assert_eq!(DetachKeys::parse("ctrl-,").unwrap().keys, [12]);
        assert_eq!(DetachKeys::parse("a,ctrl-,,ctrl-,,q").unwrap().keys, [b'a', 12, 12, b'q']);
        for bad in ["ctrl-,q", "ctrl-", "a,", ",", "ctrl-,,"] {
            assert!(DetachKeys::parse(bad).is_err(), "{bad}");
        }
        let exec =
            ExecDetail { detach_keys: DetachKeys::parse("x,ctrl-a").unwrap().encoded(), ..ExecDetail::default() };
        assert_eq!((exec.detach_keys.as_str(), DetachKeys::of_exec(&exec).keys), ("eAE=", vec![b'x', 1]));
        assert_eq!(DetachKeys::of_exec(&ExecDetail::default()).keys, [16, 17]);
        assert!(DetachKeys::parse("ctrl-A").is_err());
    }

    #[test]
    fn sequence_is_found_across_reads_and_else_passed_on() {
        let mut keys = DetachKeys::parse("a,b").unwrap();
        let mut out = Vec::new();
        assert!(!keys.feed(b"xaya", &mut out));
        assert_eq!(out, b"xay");
        assert!(!keys.feed(b"a", &mut out));
        assert_eq!(out, b"xaya");
        assert!(keys.feed(b"brest", &mut out));
        assert_eq!(out, b"xaya");
    }
}
