//! Cancelling, deadlines: the one argument of every call that may block.

use crate::error::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A running operation as its caller holds it: cancel it from any thread, bound it by a deadline.
///
/// `None` in place of an `Op` means: wait for ever. Clones are the same operation.
#[derive(Clone)]
pub struct Op(Arc<Inner>);

struct Inner {
    cancelled: AtomicBool,
    event: OwnedFd,
    deadline: Mutex<Option<Instant>>,
}

impl Op {
    /// A new operation: not cancelled, without a deadline. Errors: no descriptor left.
    pub fn new() -> Result<Op> {
        let event = crate::kernel::fd::eventfd()?;
        Ok(Op(Arc::new(Inner { cancelled: AtomicBool::new(false), event, deadline: Mutex::new(None) })))
    }

    /// Ends the operation: the blocked call returns [`ErrorKind::Cancelled`]. Async-signal-safe.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        crate::kernel::fd::eventfd_signal(self.0.event.as_fd());
    }

    /// Bounds the operation: after `timeout` from now the blocked call returns [`ErrorKind::Timeout`]; `None`: no bound.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        *self.0.deadline.lock() = timeout.map(|t| Instant::now() + t);
    }

    /// A descriptor that is readable once the operation is cancelled.
    pub fn cancel_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }

    /// The error that ends the operation now, if one does.
    pub fn check(&self) -> Result<()> {
        if self.0.cancelled.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Cancelled, "the operation was cancelled"));
        }
        match *self.0.deadline.lock() {
            Some(deadline) if Instant::now() >= deadline => {
                Err(Error::new(ErrorKind::Timeout, "the operation's deadline passed"))
            }
            _ => Ok(()),
        }
    }

    fn remaining(&self) -> Option<Duration> {
        self.0.deadline.lock().map(|d| d.saturating_duration_since(Instant::now()))
    }
}

/// What [`wait_fd`] waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    Read,
    Write,
}

/// Waits until `fd` is ready, `limit` has passed (answers false) or `op` ends (an error).
pub(crate) fn wait_fd(fd: BorrowedFd<'_>, ready: Ready, limit: Option<Duration>, op: Option<&Op>) -> Result<bool> {
    let until = limit.map(|l| Instant::now() + l);
    loop {
        if let Some(op) = op {
            op.check()?;
        }
        let own = until.map(|u| u.saturating_duration_since(Instant::now()));
        let wait = [own, op.and_then(Op::remaining)].into_iter().flatten().min();
        let millis = wait.map_or(-1, |w| w.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32);
        let events = if ready == Ready::Read { libc::POLLIN } else { libc::POLLOUT };
        let mut set = vec![(fd.as_raw_fd(), events)];
        if let Some(op) = op {
            set.push((op.cancel_fd().as_raw_fd(), libc::POLLIN));
        }
        let got = crate::kernel::fd::poll(&set, millis)?;
        if got[0] != 0 {
            return Ok(true);
        }
        if let Some(op) = op {
            op.check()?;
        }
        if until.is_some_and(|u| Instant::now() >= u) {
            return Ok(false);
        }
    }
}
