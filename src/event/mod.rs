//! The event journal: an append-only file that engines and monitors write and anyone can follow.

use crate::error::{Error, Result};
use crate::model::Event;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A position in the journal: the events after it, past and future.
pub struct EventStream {}

impl EventStream {
    /// A descriptor that is readable while an event may be waiting (level-triggered).
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// The next event with its sequence number; waits at most `timeout` (absent: for ever) and answers `None` when it
    /// passed or when the query's end is reached (see [`EventStream::ended`]).
    pub fn next(&mut self, timeout: Option<Duration>, op: Option<&crate::Op>) -> Result<Option<(u64, Event)>> {
        let _ = (timeout, op);
        Err(Error::unsupported("not built"))
    }
    /// Whether the query's `until` is reached: no event will come any more.
    pub fn ended(&self) -> bool {
        true
    }
}
