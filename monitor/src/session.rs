//! The streams that a client brings, and the order of their descriptors.

use crate::wire::{SESSION_DIRECT, SESSION_STDIN};

/// Standard input, output and error of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    mask: u32,
}

impl Session {
    /// Of a mask of `SESSION_*`.
    pub fn new(mask: u32) -> Session {
        Session { mask }
    }

    /// Whether the client brings this stream.
    pub fn has(self, stream: usize) -> bool {
        self.mask & SESSION_STDIN << stream != 0
    }

    /// Whether the stream is a descriptor of the caller's own, which the process gets as it is.
    pub fn is_direct(self, stream: usize) -> bool {
        self.mask & SESSION_STDIN << stream << SESSION_DIRECT != 0
    }

    /// How many descriptors the client brings.
    pub fn count(self) -> usize {
        (0..3).filter(|&stream| self.has(stream)).count()
    }

    /// The place of a stream's descriptor among those of the client.
    pub fn place(self, stream: usize) -> Option<usize> {
        self.has(stream).then(|| (0..stream).filter(|&before| self.has(before)).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{SESSION_STDERR, SESSION_STDOUT};

    #[test]
    fn descriptors_come_in_the_order_of_the_streams() {
        let all = Session::new(SESSION_STDIN | SESSION_STDOUT | SESSION_STDERR);
        assert_eq!([0, 1, 2].map(|stream| all.place(stream)), [Some(0), Some(1), Some(2)]);
        let some = Session::new(SESSION_STDIN | SESSION_STDERR);
        assert_eq!([0, 1, 2].map(|stream| some.place(stream)), [Some(0), None, Some(1)]);
        assert_eq!((all.count(), some.count(), Session::new(0).count()), (3, 2, 0));
    }

    #[test]
    fn a_direct_stream_is_marked_beside_its_own_bit() {
        let session = Session::new(SESSION_STDOUT | SESSION_STDOUT << SESSION_DIRECT | SESSION_STDIN);
        assert_eq!([0, 1, 2].map(|stream| session.is_direct(stream)), [false, true, false]);
        assert_eq!([0, 1, 2].map(|stream| session.has(stream)), [true, true, false]);
        assert_eq!(session.count(), 2, "the marks bring no descriptors");
    }
}
