//! Netlink messages in one buffer: header, family header, attributes, nests.

use crate::walls::Wall;

/// Asks for an answer.
pub(crate) const REQUEST: u16 = 1;
/// Asks for an acknowledgement.
pub(crate) const ACK: u16 = 4;
/// Makes an object that is not there.
pub(crate) const CREATE: u16 = 0x400;
/// Fails when the object is there.
pub(crate) const EXCLUSIVE: u16 = 0x200;
/// Replaces an object that is there.
pub(crate) const REPLACE: u16 = 0x100;
/// Asks for all of a list.
pub(crate) const DUMP: u16 = 0x300;
/// Appends the object to those that are there.
pub(crate) const APPEND: u16 = 0x800;

const NESTED: u16 = 0x8000;

/// Messages being written. Their sequence numbers are their places, from 1.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
    open: Option<usize>,
    count: u32,
    acks: u32,
}

impl Messages {
    pub(crate) fn new() -> Messages {
        Messages::default()
    }

    /// Begins a message; `head` is its family's header. Attributes follow.
    pub(crate) fn begin(&mut self, kind: u16, flags: u16, head: &[u8]) -> &mut Messages {
        self.close();
        self.count += 1;
        self.acks += u32::from(flags & ACK != 0);
        self.open = Some(self.bytes.len());
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        self.bytes.extend_from_slice(&self.count.to_ne_bytes());
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(head);
        self.pad();
        self
    }

    fn close(&mut self) {
        if let Some(at) = self.open.take() {
            let length = (self.bytes.len() - at) as u32;
            self.bytes[at..at + 4].copy_from_slice(&length.to_ne_bytes());
        }
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// An attribute; answers where its payload stands in the finished buffer.
    pub(crate) fn place(&mut self, kind: u16, payload: &[u8]) -> usize {
        self.bytes.extend_from_slice(&length(payload.len() + 4).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        let at = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.pad();
        at
    }

    /// An attribute.
    pub(crate) fn attr(&mut self, kind: u16, payload: &[u8]) -> &mut Messages {
        self.place(kind, payload);
        self
    }

    /// A text with its NUL.
    pub(crate) fn text(&mut self, kind: u16, text: &str) -> &mut Messages {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.attr(kind, &bytes)
    }

    /// A number in the machine's order.
    pub(crate) fn u32(&mut self, kind: u16, value: u32) -> &mut Messages {
        self.attr(kind, &value.to_ne_bytes())
    }

    /// A number in the network's order, as nf_tables has all its numbers.
    pub(crate) fn be32(&mut self, kind: u16, value: u32) -> &mut Messages {
        self.attr(kind, &value.to_be_bytes())
    }

    /// Attributes in an attribute.
    pub(crate) fn nest(&mut self, kind: u16, inside: impl FnOnce(&mut Messages)) -> &mut Messages {
        self.nest_as(kind | NESTED, inside)
    }

    /// Nests without the bit that says so, for the few old attributes that are compared bit by bit.
    pub(crate) fn nest_as(&mut self, kind: u16, inside: impl FnOnce(&mut Messages)) -> &mut Messages {
        let at = self.bytes.len();
        self.attr(kind, &[]);
        inside(self);
        let length = length(self.bytes.len() - at);
        self.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// Bytes inside a nest that have no head of an attribute.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Messages {
        self.bytes.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// The length of the buffer, if it were finished now.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The number of acknowledgements that come.
    pub(crate) fn acks(&self) -> u32 {
        self.acks
    }

    /// The finished buffer.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.close();
        self.bytes
    }
}

/// An attribute's length; 0 if the attribute is too long. The kernel refuses that message, because an attribute is never
/// shorter than its head; so it takes no part of a long attribute for another one.
fn length(bytes: usize) -> u16 {
    match u16::try_from(bytes) {
        Err(_) if !Wall::NetlinkLengths.stands() => bytes as u16,
        length => length.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_padding() {
        let mut m = Messages::new();
        m.begin(16, ACK, &[1, 2, 3, 4]).attr(3, b"abc").nest(4, |m| {
            m.u32(1, 7);
        });
        m.begin(17, 0, &[]);
        assert_eq!(m.acks(), 1);
        let bytes = m.finish();
        assert_eq!(bytes.len(), 16 + 4 + 8 + 12 + 16);
        assert_eq!(bytes[..4], 40u32.to_ne_bytes());
        assert_eq!(bytes[8..12], 1u32.to_ne_bytes());
        assert_eq!(bytes[20..28], [7, 0, 3, 0, b'a', b'b', b'c', 0]);
        assert_eq!(bytes[28..40], [12, 0, 4, 0x80, 8, 0, 1, 0, 7, 0, 0, 0]);
        assert_eq!(bytes[40 + 8..40 + 12], 2u32.to_ne_bytes());
    }
}
