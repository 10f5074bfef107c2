//! Messages over a connection, each behind its length in two bytes, as DNS has them over TCP.

/// Bytes that came over a connection, at most `N`: a message with its length, and perhaps the beginning of the next.
pub struct Frames<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

/// The first message of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum First {
    /// All of it is there: so many bytes, without its length.
    Whole(usize),
    Incomplete,
    /// There is no room for it.
    TooLong,
}

impl<const N: usize> Frames<N> {
    #[cfg(any(test, fuzzing))]
    pub const NONE: Frames<N> = Frames { bytes: [0; N], length: 0 };

    /// For another connection.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// The room for more bytes.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.length..]
    }

    /// So many bytes were put into the room.
    pub fn add(&mut self, count: usize) {
        self.length += count;
    }

    pub fn first(&self) -> First {
        let Some(length) = self.bytes[..self.length].first_chunk() else {
            return First::Incomplete;
        };
        match usize::from(u16::from_be_bytes(*length)) {
            length if length + 2 > N => First::TooLong,
            length if length + 2 > self.length => First::Incomplete,
            length => First::Whole(length),
        }
    }

    /// The first message, of this length.
    pub fn message(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[2..2 + length]
    }

    /// The first message, of this length, behind its length.
    pub fn framed(&self, length: usize) -> &[u8] {
        &self.bytes[..2 + length]
    }

    /// The first message, of this length, goes; the next one is the first.
    pub fn remove(&mut self, length: usize) {
        self.bytes.copy_within(2 + length..self.length, 0);
        self.length -= 2 + length;
    }
}

/// Writes a message behind its length; answers how many bytes both have. `out` has room for both.
pub fn frame(out: &mut [u8], message: &[u8]) -> usize {
    out[..2].copy_from_slice(&(message.len() as u16).to_be_bytes());
    out[2..2 + message.len()].copy_from_slice(message);
    2 + message.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take<const N: usize>(frames: &mut Frames<N>, bytes: &[u8]) {
        frames.room()[..bytes.len()].copy_from_slice(bytes);
        frames.add(bytes.len());
    }

    #[test]
    fn a_message_is_there_when_its_last_byte_is() {
        let mut frames = Frames::<8>::NONE;
        for byte in [0, 3, b'a', b'b'] {
            assert_eq!(frames.first(), First::Incomplete);
            take(&mut frames, &[byte]);
        }
        assert_eq!(frames.first(), First::Incomplete);
        take(&mut frames, b"c");
        assert_eq!(frames.first(), First::Whole(3));
        assert_eq!(frames.message(3), b"abc");
        assert_eq!(frames.framed(3), b"\0\x03abc");
    }

    #[test]
    fn the_next_message_follows_the_one_that_was_taken() {
        let mut frames = Frames::<8>::NONE;
        take(&mut frames, b"\0\x01a\0\x02bc");
        frames.remove(1);
        assert_eq!(frames.first(), First::Whole(2));
        assert_eq!(frames.message(2), b"bc");
        frames.remove(2);
        assert_eq!((frames.first(), frames.room().len()), (First::Incomplete, 8));
        take(&mut frames, b"\0\0");
        assert_eq!(frames.first(), First::Whole(0));
        frames.clear();
        assert_eq!(frames.first(), First::Incomplete);
    }

    #[test]
    fn a_message_without_room_is_too_long() {
        let mut frames = Frames::<8>::NONE;
        take(&mut frames, b"\0\x06");
        assert_eq!(frames.first(), First::Incomplete);
        frames.clear();
        take(&mut frames, b"\0\x07");
        assert_eq!(frames.first(), First::TooLong);
        frames.clear();
        take(&mut frames, b"\xff\xff");
        assert_eq!(frames.first(), First::TooLong);
    }

    #[test]
    fn a_message_is_framed_as_it_is_read() {
        let mut out = [0; 8];
        assert_eq!(frame(&mut out, b"abcd"), 6);
        let mut frames = Frames::<8>::NONE;
        take(&mut frames, &out[..6]);
        assert_eq!(frames.first(), First::Whole(4));
    }
}
