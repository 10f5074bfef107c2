//! WebSocket (RFC 6455) as far as attach needs it: the handshake's answer, frames in both directions.

use coracle::model::to_base64;
use sha1::{Digest, Sha1};

/// The handshake's answer to a client's key.
pub(crate) fn accept(key: &str) -> String {
    const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    to_base64(&Sha1::digest(format!("{}{GUID}", key.trim())))
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// The longest message part that is taken from a client.
const LONGEST: u64 = 1 << 20;

/// How output becomes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// As text where the bytes are text: clients before 1.28 expect it.
    Text,
    Binary,
}

/// Appends `data` as one message.
pub(crate) fn push(out: &mut Vec<u8>, data: &[u8], message: Message) {
    let is_text = message == Message::Text && std::str::from_utf8(data).is_ok();
    push_frame(out, if is_text { TEXT } else { BINARY }, data);
}

/// The frame that ends a conversation well.
pub(crate) fn close() -> Vec<u8> {
    let mut out = Vec::new();
    push_frame(&mut out, CLOSE, &1000u16.to_be_bytes());
    out
}

fn push_frame(out: &mut Vec<u8>, kind: u8, data: &[u8]) {
    const LAST: u8 = 0x80;
    out.push(LAST | kind);
    match data.len() {
        0..=125 => out.push(data.len() as u8),
        126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        }
        length => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(data);
}

/// Reads a client's frames.
#[derive(Default)]
pub(crate) struct Reader {
    /// The part of a frame that has come so far.
    bytes: Vec<u8>,
}

/// The result of reading some bytes of a client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    /// Content of messages.
    pub(crate) data: Vec<u8>,
    /// Frames to send back.
    pub(crate) reply: Vec<u8>,
    /// The client ended the conversation, or broke its rules.
    pub(crate) closed: bool,
}

impl Reader {
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Read {
        self.bytes.extend_from_slice(bytes);
        let mut read = Read::default();
        while !read.closed {
            match self.frame() {
                Ok(Some((TEXT | BINARY | 0, data))) => read.data.extend(data),
                Ok(Some((PING, data))) => push_frame(&mut read.reply, PONG, &data),
                Ok(Some((PONG, _))) => {}
                Ok(None) => break,
                // A close, or nothing that is known.
                Ok(Some(_)) | Err(Broken) => {
                    read.reply.extend(close());
                    read.closed = true;
                }
            }
        }
        read
    }

    /// Takes one whole frame.
    fn frame(&mut self) -> Result<Option<(u8, Vec<u8>)>, Broken> {
        let [first, second, ..] = self.bytes[..] else { return Ok(None) };
        // Clients must mask.
        if second & 0x80 == 0 || first & 0x70 != 0 {
            return Err(Broken);
        }
        let (length, at) = match second & 0x7f {
            126 => match self.bytes.get(2..4) {
                Some(bytes) => (u64::from(u16::from_be_bytes([bytes[0], bytes[1]])), 4),
                None => return Ok(None),
            },
            127 => match self.bytes.get(2..10).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()) {
                Some(bytes) => (u64::from_be_bytes(bytes), 10),
                None => return Ok(None),
            },
            short => (u64::from(short), 2),
        };
        // Control frames are short and whole.
        let control = first & 0x08 != 0;
        if length > LONGEST || control && (length > 125 || first & 0x80 == 0) {
            return Err(Broken);
        }
        let end = at + 4 + length as usize;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let mask = [self.bytes[at], self.bytes[at + 1], self.bytes[at + 2], self.bytes[at + 3]];
        let data = self.bytes[at + 4..end].iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        self.bytes.drain(..end);
        Ok(Some((first & 0x0f, data)))
    }
}

/// The client broke the protocol's rules.
#[derive(Debug)]
struct Broken;

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(first: u8, data: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match data.len() {
            0..=125 => frame.push(0x80 | data.len() as u8),
            length => {
                frame.push(0x80 | 126);
                frame.extend((length as u16).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend(mask);
        frame.extend(data.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    #[test]
    fn the_handshake_of_the_standard() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn frames_come_in_any_pieces() {
        let mut bytes = masked(0x81, b"hello ");
        bytes.extend(masked(0x02, &[b'x'; 300]));
        bytes.extend(masked(0x80, b"end"));
        let mut reader = Reader::default();
        let mut data = Vec::new();
        for byte in bytes {
            let read = reader.feed(&[byte]);
            assert!(!read.closed && read.reply.is_empty());
            data.extend(read.data);
        }
        assert_eq!(data, [b"hello ".to_vec(), vec![b'x'; 300], b"end".to_vec()].concat());
    }

    #[test]
    fn pings_are_answered_and_a_close_closes() {
        let mut reader = Reader::default();
        assert_eq!(reader.feed(&masked(0x89, b"hi")).reply, b"\x8a\x02hi");
        let read = reader.feed(&masked(0x88, &[3, 232]));
        assert!(read.closed && read.reply == b"\x88\x02\x03\xe8");
        // Unmasked, reserved bits, too long; a ping that is too long, one in parts.
        let long_ping = masked(0x89, &[b'x'; 126]);
        for bad in [
            &long_ping[..],
            b"\x09\x80\0\0\0\0",
            b"\x81\x02hi",
            b"\xf1\x80\0\0\0\0",
            b"\x82\xff\0\0\0\x01\0\0\0\0\0\0\0\0",
        ] {
            assert!(Reader::default().feed(bad).closed, "{bad:?}");
        }
    }

    #[test]
    fn text_is_text_and_the_rest_binary() {
        let of = |data: &[u8]| {
            let mut out = Vec::new();
            push(&mut out, data, Message::Text);
            out
        };
        assert_eq!(of(b"ok"), b"\x81\x02ok");
        assert_eq!(of(&[0xff]), b"\x82\x01\xff");
        assert_eq!(of(&[b'a'; 200])[..4], [0x81, 126, 0, 200]);
        assert_eq!(of(&vec![b'a'; 70_000])[..10], [0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]);
    }
}
