//! A connection to a resolver: a question, then its answer, each behind its length.

use super::QUERY;
use super::pending::Pending;
use crate::fd::Fd;
use crate::framed::{First, Frames, frame};
use crate::sys::{self, *};

pub const MAX_UPSTREAM: usize = 4;
/// The longest answer that is passed on over TCP, in bytes.
const LONG_ANSWER: usize = 32 << 10;

/// Zero at the beginning.
pub struct Upstream {
    pub fd: Fd,
    pub pending: usize,
    sent: bool,
    frames: Frames<{ LONG_ANSWER + 2 }>,
}

impl Upstream {
    /// A connection for a question.
    pub fn begin(&mut self, fd: i32, pending: usize) {
        self.fd.set(fd);
        (self.pending, self.sent) = (pending, false);
        self.frames.clear();
    }

    pub fn is_sent(&self) -> bool {
        self.sent
    }

    /// Sends the question.
    pub fn send(&mut self, pending: &Pending) -> Result<()> {
        let mut framed = [0u8; QUERY + 2];
        let mut asked = [0; QUERY];
        let length = pending.asked(&mut asked);
        let length = frame(&mut framed, &asked[..length]);
        if sys::send(self.fd.raw(), &framed[..length])? != length {
            return Err(EIO);
        }
        self.sent = true;
        Ok(())
    }

    /// Reads more of the answer: its length, once all of it is there, else EAGAIN.
    pub fn receive(&mut self) -> Result<usize> {
        match sys::read(self.fd.raw(), self.frames.room())? {
            0 => return Err(EIO),
            length => self.frames.add(length),
        }
        match self.frames.first() {
            First::Whole(length) => Ok(length),
            First::Incomplete => Err(EAGAIN),
            First::TooLong => Err(EIO),
        }
    }

    /// The answer, of this length.
    pub fn answer(&mut self, length: usize) -> &mut [u8] {
        self.frames.message(length)
    }

    /// The answer, of this length, behind its length.
    pub fn framed(&self, length: usize) -> &[u8] {
        self.frames.framed(length)
    }
}
