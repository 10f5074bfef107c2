//! The document in a request's body, read whole: what one may be, and what all together.

use coracle::{Error, ErrorKind, Result};
use std::io::Read;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of a document: a larger body is refused. The largest document is a create that binds every port at an address.
pub(crate) const MAX: usize = 8 << 20;
/// Room for the largest, and a byte that it must not have.
const FULL: usize = MAX + 1;
/// So much of one is read whatever the others are.
const SMALL: usize = 64 << 10;
/// The bound of all larger documents together: one is small beside a host's memory, a crowd of them is not.
const ALL_LARGE: usize = 2 * FULL;

/// The part of [`ALL_LARGE`] that is taken.
#[derive(Debug, Default, Clone)]
pub(crate) struct Documents(Arc<AtomicUsize>);

impl Documents {
    /// Reads one to its end. Errors: it is too large, or too many large ones are there.
    pub(crate) fn read(&self, body: &mut impl Read, failed: impl Fn(&std::io::Error) -> Error) -> Result<Document> {
        let mut document = Document { bytes: Vec::new(), taken: 0, of: self.clone() };
        loop {
            document.grow()?;
            let bytes = &mut document.bytes;
            let room = bytes.capacity() - bytes.len();
            let got = body.take(room as u64).read_to_end(bytes).map_err(|error| failed(&error))?;
            if bytes.len() > MAX {
                return Err(Error::invalid(format!("the request body is larger than {MAX} bytes")));
            }
            if got < room {
                return Ok(document);
            }
        }
    }
}

/// A document's bytes. When the document is dropped, its share of [`ALL_LARGE`] is free again.
#[derive(Debug)]
pub(crate) struct Document {
    bytes: Vec<u8>,
    taken: usize,
    of: Documents,
}

impl Document {
    /// Makes room for as much again.
    fn grow(&mut self) -> Result<()> {
        let size = match 2 * self.bytes.len() {
            MAX.. => FULL,
            size => size.max(4 << 10),
        };
        if size > SMALL {
            let more = size - self.taken;
            let free = |taken: usize| taken.checked_add(more).filter(|taken| *taken <= ALL_LARGE);
            self.of.0.fetch_update(Relaxed, Relaxed, free).map_err(|_| {
                Error::new(ErrorKind::Unavailable, "the request body is large, and so are too many others just now")
            })?;
            self.taken = size;
        }
        self.bytes.reserve_exact(size - self.bytes.len());
        Ok(())
    }
}

impl Deref for Document {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Document {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.taken, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_bounded_each_and_together() {
        let documents = Documents::default();
        let read = |length: usize| {
            let mut body = std::io::repeat(b' ').take(length as u64);
            documents.read(&mut body, |error| Error::internal(error.to_string()))
        };
        for length in [0, 1, (4 << 10) - 1, 4 << 10, SMALL, SMALL + 1, MAX] {
            assert_eq!(read(length).unwrap().len(), length);
        }
        assert_eq!(read(MAX + 1).unwrap_err().kind(), ErrorKind::Invalid);
        let mut large = Vec::new();
        let refused = loop {
            match read(MAX / 4 + 1) {
                Ok(document) => large.push(document),
                Err(error) => break error,
            }
        };
        assert_eq!((large.len(), refused.kind()), (4, ErrorKind::Unavailable));
        assert_eq!(read(SMALL - 1).unwrap().len(), SMALL - 1, "small ones go on");
        large.truncate(2);
        large.push(read(MAX).expect("room was given back"));
    }
}
