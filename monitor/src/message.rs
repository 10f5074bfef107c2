//! Messages between the launcher and the worker: of fixed size, with descriptors. An order goes to the worker; a
//! request and a notice go to the launcher.

use crate::wire::{MAX_FDS, RELAY_KEY};

/// One message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The order, request or notice; in an answer an error number, or 0.
    pub code: u32,
    pub a: u32,
    pub b: u64,
    pub c: u64,
}

/// Bytes of a message.
pub const MESSAGE: usize = 24;
/// Bytes of the longest order: the keys of published ports stand behind the message.
pub const ORDER: usize = MESSAGE + MAX_FDS * RELAY_KEY;

impl Message {
    pub fn to_bytes(self) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        bytes[..4].copy_from_slice(&self.code.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.a.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.b.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.c.to_ne_bytes());
        bytes
    }

    /// The message at the beginning of some bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Message> {
        let b: &[u8; MESSAGE] = bytes.first_chunk()?;
        Some(Message {
            code: u32::from_ne_bytes([b[0], b[1], b[2], b[3]]),
            a: u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
            b: u64::from_ne_bytes([b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]]),
            c: u64::from_ne_bytes([b[16], b[17], b[18], b[19], b[20], b[21], b[22], b[23]]),
        })
    }

    /// The answer to an order or a request: a number, or an error number.
    pub fn answer(result: Result<u64, i32>) -> Message {
        match result {
            Ok(b) => Message { b, ..Message::default() },
            Err(errno) => Message { code: errno as u32, ..Message::default() },
        }
    }

    /// The number of an answer, or its error number.
    pub fn answered(self) -> Result<u64, i32> {
        if self.code == 0 { Ok(self.b) } else { Err(self.code as i32) }
    }
}

// Orders. `a` is the owner of streams, if nothing else is said.

/// a: mask of streams, b: whether the launcher waits for an answer; descriptors: those of the mask.
pub const ATTACH: u32 = 1;
/// b: index of the stream plus one (0 means any), c: whether it is logged; descriptors: the source, perhaps a client's.
/// Answered, unless it is a stream of the container's own.
pub const OUTPUT: u32 = 2;
/// Descriptor: the process's end of its input.
pub const TARGET: u32 = 3;
/// b: whether its end is the end of the process's input; descriptor: a client's.
pub const INPUT: u32 = 4;
/// Reads clients' input from now on.
pub const ENABLE: u32 = 5;
/// Reads the rest of the container's output. Answered.
pub const STOP: u32 = 6;
/// The process takes no input any more.
pub const DROP: u32 = 7;
/// The health check has ended; the answer's b: how much the check wrote. Answered.
pub const CHECKED: u32 = 8;
/// b: place; descriptor: the file for the output of the last check. Answered.
pub const KEEP_CHECK: u32 = 9;
/// a: which one; descriptor: a socket of the resolver.
pub const DNS_SOCKET: u32 = 10;
/// Closes the resolver's sockets.
pub const END_DNS: u32 = 11;
/// Descriptor: the plan from now on.
pub const PLAN: u32 = 12;
/// Keys follow; descriptors: sockets of relayed ports.
pub const PORTS: u32 = 13;
/// Closes the sockets of relayed ports. Answered.
pub const END_PORTS: u32 = 14;
/// Gives clients the rest of the output, for so many milliseconds (b). Answered.
pub const LINGER: u32 = 15;
/// The end of input of the clients that are attached now is the end of the process's input. Answered.
pub const END_INPUT: u32 = 16;

// Requests.

/// b: records, c: bytes of the log's file; the answer brings the next file.
pub const ROTATE: u32 = 32;
/// a: 1 for TCP, b: 1 for IPv6; the answer brings a socket in the container's network.
pub const SOCKET: u32 = 33;

// Notices.

/// b: how many records could not be written so far; of the worker, with a ring: how many had no room there.
pub const LOST: u32 = 34;
/// The container's input is closed.
pub const CLOSED: u32 = 35;
/// The first message of every worker. b: 0 when its rights are given up, else the error number of the reason.
pub const CONFINED: u32 = 36;
/// The ring of the log is empty.
pub const WRITTEN: u32 = 37;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let message = Message { code: ROTATE, a: u32::MAX, b: 1 << 63, c: 7 };
        assert_eq!(Message::from_bytes(&message.to_bytes()), Some(message));
        let longer = [&message.to_bytes()[..], b"keys"].concat();
        assert_eq!(Message::from_bytes(&longer), Some(message), "keys may follow");
        assert_eq!(Message::from_bytes(&message.to_bytes()[..MESSAGE - 1]), None);
    }

    #[test]
    fn an_answer_is_a_number_or_an_error() {
        assert_eq!(
            [Ok(0), Ok(u64::MAX), Err(5)].map(|result| Message::answer(result).answered()),
            [Ok(0), Ok(u64::MAX), Err(5)]
        );
    }
}
