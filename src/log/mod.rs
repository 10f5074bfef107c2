//! Container logs: reading what the monitor wrote.

use crate::error::{Error, Result};
use crate::model::StringMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Channel {
    Stdin = 0,
    Stdout = 1,
    Stderr = 2,
}

/// One record of a log: a line with its newline, or a part of a line longer than 16 KiB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    pub channel: Channel,
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    pub data: Vec<u8>,
    /// Extra attributes (`labels`, `env` options of the driver).
    pub attrs: StringMap,
}

/// A log being read.
pub struct LogStream {}

impl LogStream {
    /// A descriptor that is readable while a line may be waiting.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// The next line; waits at most `timeout` (absent: for ever). `None`: the timeout passed, or the end
    /// (see [`LogStream::ended`]).
    pub fn next(&mut self, timeout: Option<Duration>, op: Option<&crate::Op>) -> Result<Option<LogLine>> {
        let _ = (timeout, op);
        Err(Error::unsupported("not built"))
    }
    /// Whether the log is read to its end (never while it is followed and its container runs).
    pub fn ended(&self) -> bool {
        true
    }
}
