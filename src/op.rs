//! Cancelling and deadlines: the one argument of every call that may block.

use crate::error::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// The caller's handle of a running operation: any thread can cancel the operation, or set its deadline.
///
/// `None` in place of an `Op` means: wait for ever. Clones are the same operation.
///
/// ```
/// use coracle::{ErrorKind, Op};
/// use std::time::Duration;
///
/// let op = Op::new()?;
/// op.set_timeout(Some(Duration::from_secs(30)));
/// let other = op.clone();
/// std::thread::spawn(move || other.cancel()).join().unwrap();
/// // Every call with the operation ends so, at once where it blocks.
/// assert_eq!(op.check().unwrap_err().kind(), ErrorKind::Cancelled);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Clone)]
pub struct Op(Arc<Inner>);

struct Inner {
    cancelled: AtomicBool,
    event: OwnedFd,
    deadline: Mutex<Option<Instant>>,
    heartbeat: Mutex<Option<Heartbeat>>,
}

/// The settings of [`Op::set_heartbeat`].
struct Heartbeat {
    every: Duration,
    next: Instant,
    thread: ThreadId,
    beat: Beat,
}

/// Called while an operation blocks; an error ends the operation with that error.
///
/// ```
/// use coracle::{Beat, Error, ErrorKind, Op};
/// use std::time::Duration;
///
/// // A program whose user may press Ctrl-C asks ten times a second.
/// let pressed = std::sync::atomic::AtomicBool::new(false);
/// let beat: Beat = Box::new(move || match pressed.load(std::sync::atomic::Ordering::Relaxed) {
///     true => Err(Error::new(ErrorKind::Cancelled, "Ctrl-C")),
///     false => Ok(()),
/// });
/// Op::new()?.set_heartbeat(Some((Duration::from_millis(100), beat)));
/// # Ok::<(), coracle::Error>(())
/// ```
pub type Beat = Box<dyn FnMut() -> Result<()> + Send>;

impl Op {
    /// A new operation: not cancelled, without a deadline. Errors: no descriptor left.
    pub fn new() -> Result<Op> {
        let event = crate::kernel::fd::eventfd()?;
        let (deadline, heartbeat) = (Mutex::new(None), Mutex::new(None));
        Ok(Op(Arc::new(Inner { cancelled: AtomicBool::new(false), event, deadline, heartbeat })))
    }

    /// Ends the operation: the blocked call returns [`ErrorKind::Cancelled`]. Async-signal-safe.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        crate::kernel::fd::eventfd_signal(self.0.event.as_fd());
    }

    /// Sets a deadline: after `timeout` from now the blocked call returns [`ErrorKind::Timeout`]; `None`: no deadline.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        *self.0.deadline.lock() = timeout.map(|t| Instant::now() + t);
    }

    /// Calls `beat` about every `every` while a call with this operation blocks or works, only on the thread that set
    /// it: a binding can notice Ctrl-C this way. `None` ends the calls.
    pub fn set_heartbeat(&self, heartbeat: Option<(Duration, Beat)>) {
        let heartbeat = heartbeat.map(|(every, beat)| Heartbeat {
            every,
            next: Instant::now() + every,
            thread: std::thread::current().id(),
            beat,
        });
        *self.0.heartbeat.lock() = heartbeat;
    }

    /// Waits until `fd` is readable or at its end; returns false if `limit` (absent: none) has passed. An `op` that is
    /// cancelled or past its deadline is an error.
    pub fn wait_readable(op: Option<&Op>, fd: BorrowedFd<'_>, limit: Option<Duration>) -> Result<bool> {
        wait_fd(fd, Ready::Read, limit, op)
    }

    /// A descriptor that is readable once the operation is cancelled.
    pub fn cancel_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }

    /// The error that ends the operation now, if there is one. Long work calls this from time to time.
    pub fn check(&self) -> Result<()> {
        self.beat()?;
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

    /// Calls the heartbeat if it is due. No lock is held meanwhile, because the heartbeat may use this operation
    /// itself.
    fn beat(&self) -> Result<()> {
        let mut slot = self.0.heartbeat.lock();
        let due = |h: &mut Heartbeat| h.thread == std::thread::current().id() && Instant::now() >= h.next;
        let Some(mut heartbeat) = slot.take_if(due) else { return Ok(()) };
        drop(slot);
        let result = (heartbeat.beat)();
        heartbeat.next = Instant::now() + heartbeat.every;
        self.0.heartbeat.lock().get_or_insert(heartbeat);
        result
    }

    /// How long a wait may last before the deadline or the heartbeat is due.
    fn remaining(&self) -> Option<Duration> {
        let now = Instant::now();
        let deadline = self.0.deadline.lock().map(|d| d.saturating_duration_since(now));
        let beat = self
            .0
            .heartbeat
            .lock()
            .as_ref()
            .and_then(|h| (h.thread == std::thread::current().id()).then(|| h.next.saturating_duration_since(now)));
        [deadline, beat].into_iter().flatten().min()
    }
}

/// The condition that [`wait_fd`] waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    Read,
    Write,
}

/// Waits until `fd` is ready, `limit` has passed (returns false) or `op` ends (an error).
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

/// Whether a call changed something (HTTP 204) or found it done (HTTP 304).
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::Changed;
///
/// if engine.container_stop("clock", None, None)? == Changed::No {
///     println!("it did not run");
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The call made the change.
    Yes,
    /// The state was as requested before the call.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::sync::atomic::AtomicUsize;

    fn never_ready() -> OwnedFd {
        crate::kernel::fd::eventfd().unwrap()
    }

    #[test]
    fn a_deadline_and_a_cancel_end_a_wait() {
        let (op, fd) = (Op::new().unwrap(), never_ready());
        op.set_timeout(Some(Duration::from_millis(20)));
        let error = wait_fd(fd.as_fd(), Ready::Read, None, Some(&op)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        op.set_timeout(None);
        op.cancel();
        let error = wait_fd(fd.as_fd(), Ready::Read, None, Some(&op)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn the_heartbeat_runs_on_its_own_thread_only_and_can_end_the_wait() {
        let (op, fd) = (Op::new().unwrap(), never_ready());
        let beats = Arc::new(AtomicUsize::new(0));
        let (count, same) = (beats.clone(), op.clone());
        op.set_heartbeat(Some((
            Duration::from_millis(5),
            Box::new(move || {
                same.check()?;
                match count.fetch_add(1, Ordering::SeqCst) {
                    3 => Err(Error::new(ErrorKind::Callback, "enough")),
                    _ => Ok(()),
                }
            }),
        )));
        let limit = Some(Duration::from_millis(30));
        std::thread::scope(|s| {
            let other = s.spawn(|| wait_fd(fd.as_fd(), Ready::Read, limit, Some(&op)));
            assert!(!other.join().unwrap().unwrap());
        });
        assert_eq!(beats.load(Ordering::SeqCst), 0);
        let error = wait_fd(fd.as_fd(), Ready::Read, None, Some(&op)).unwrap_err();
        assert_eq!((error.kind(), beats.load(Ordering::SeqCst)), (ErrorKind::Callback, 4));
    }
}
