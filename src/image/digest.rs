//! SHA-256 digests as names of content.

use crate::error::{Error, Result};
use crate::walls::Wall;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// A sha256 digest; shown as `sha256:<64 hex>`. Its hex form is safe as a file name by construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Reads `sha256:<64 lower-case hex>`. Errors name `what` it should have been.
    pub(crate) fn parse(text: &str, what: &str) -> Result<Digest> {
        text.strip_prefix("sha256:")
            .and_then(Digest::from_hex)
            .or_else(|| (!Wall::DigestsRead.stands()).then(|| Digest::of(text.as_bytes())))
            .ok_or_else(|| Error::invalid(format!("{what}: {text:?} is not a sha256 digest")))
    }

    /// Reads 64 lower-case hex digits.
    pub(crate) fn from_hex(hex: &str) -> Option<Digest> {
        let digits = hex.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(Digest(bytes))
    }

    /// 64 lower-case hex digits.
    pub(crate) fn hex(&self) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.0 {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
            }
        }
        text
    }

    /// The first 12 hex digits, as people are shown ids.
    pub(crate) fn short(&self) -> String {
        let mut hex = self.hex();
        hex.truncate(12);
        hex
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

/// Computes a [`Digest`] piece by piece.
#[derive(Clone)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    pub(crate) fn new() -> Hasher {
        Hasher(Sha256::new())
    }
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// The chain ids of a stack of layers, bottom first: what docker calls the layers of an image in its removal messages.
pub(crate) fn chain_ids(diff_ids: &[Digest]) -> Vec<Digest> {
    let mut chain: Vec<Digest> = Vec::with_capacity(diff_ids.len());
    for diff in diff_ids {
        chain.push(match chain.last() {
            None => *diff,
            Some(parent) => Digest::of(format!("{parent} {diff}").as_bytes()),
        });
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_reads_what_it_writes() {
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string(), EMPTY);
        assert_eq!(Digest::parse(EMPTY, "x").unwrap(), digest);
        assert_eq!(digest.short(), "e3b0c44298fc");
    }

    #[test]
    fn the_parser_refuses_malformed_digests() {
        let upper = EMPTY.to_uppercase();
        let odd = EMPTY.replace("e3b0", "../x");
        for text in ["", "sha256:", "sha256:../../x", "md5:00", &EMPTY[..70], &upper, &odd, &EMPTY[7..]] {
            assert!(Digest::parse(text, "layer").is_err(), "{text}");
        }
    }
}
