//! An operation while a call uses it.

use crate::failure::{Failure, Outcome};
use crate::text::c_text;
use crate::types::*;
use engine::{Error, ErrorKind, Op};
use libc::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// The caller's progress function.
pub(crate) struct Watcher {
    call: unsafe extern "C" fn(*mut c_void, *const libc::c_char) -> i32,
    user: *mut c_void,
    drop: coracle_drop_fn,
    every: Option<Duration>,
    /// The callback's answer, if it was other than 0 since the call began.
    refused: AtomicI64,
}

// SAFETY: `user` is the caller's; it is handed to the caller's functions only, on the thread that is inside a call.
unsafe impl Send for Watcher {}
// SAFETY: as above.
unsafe impl Sync for Watcher {}

impl Watcher {
    /// A function of the caller, and how often it gets a heartbeat.
    pub(crate) fn new(
        call: unsafe extern "C" fn(*mut c_void, *const libc::c_char) -> i32,
        user: *mut c_void,
        drop: coracle_drop_fn,
        every: Option<Duration>,
    ) -> Watcher {
        Watcher { call, user, drop, every, refused: AtomicI64::new(0) }
    }

    fn notify(&self, record: *const libc::c_char) -> engine::Result<()> {
        // SAFETY: the header's contract for progress functions; the record lives over the call.
        match unsafe { (self.call)(self.user, record) } {
            0 => Ok(()),
            number => {
                self.refused.store(number.into(), Ordering::SeqCst);
                Err(Error::new(ErrorKind::Callback, "the progress callback refused to go on"))
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the caller gave both for this call, which comes once.
            unsafe { drop(self.user) };
        }
    }
}

/// An operation while a call uses it: the heartbeat beats on this thread until this is dropped.
pub(crate) struct Using {
    op: Option<Op>,
    nonblocking: bool,
    watcher: Option<Arc<Watcher>>,
}

impl Using {
    /// No operation.
    pub(crate) fn none() -> Using {
        Using { op: None, nonblocking: false, watcher: None }
    }

    /// The caller's operation.
    pub(crate) fn new(op: Op, nonblocking: bool, watcher: Option<Arc<Watcher>>) -> Using {
        if let (Some(watcher), false) = (&watcher, nonblocking) {
            watcher.refused.store(0, Ordering::SeqCst);
            if let Some(every) = watcher.every {
                let beating = watcher.clone();
                op.set_heartbeat(Some((every, Box::new(move || beating.notify(std::ptr::null())))));
            }
        }
        Using { op: Some(op), nonblocking, watcher }
    }

    /// An operation on a thread of the library.
    pub(crate) fn of(op: &Op) -> Using {
        Using { op: Some(op.clone()), nonblocking: true, watcher: None }
    }

    /// The engine's operation.
    pub(crate) fn op(&self) -> Option<&Op> {
        self.op.as_ref()
    }

    /// The error that ends the operation, if there is one.
    pub(crate) fn check(&self) -> engine::Result<()> {
        self.op.as_ref().map_or(Ok(()), Op::check)
    }

    /// Whether the call is on a thread of the library, or is to be begun there.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.nonblocking
    }

    /// Refuses a progress function for a call that is to be begun.
    pub(crate) fn check_unwatched(&self) -> Outcome<()> {
        match self.watcher.is_some() {
            true => Err(Failure::misuse("op has a progress callback, which may only come on the caller's thread")),
            false => Ok(()),
        }
    }

    /// Hands a progress record to the caller.
    pub(crate) fn progress(&self, record: &engine::model::Progress) -> engine::Result<()> {
        let Some(watcher) = &self.watcher else { return Ok(()) };
        let text = serde_json::to_string(record).map_err(|e| Error::internal(format!("writing JSON: {e}")))?;
        watcher.notify(c_text(&text).as_ptr())
    }

    /// The engine's answer, with the number of a callback that refused in place of the engine's error.
    pub(crate) fn done<T>(&self, result: engine::Result<T>) -> Outcome<T> {
        result.map_err(|error| match self.watcher.as_ref().map_or(0, |w| w.refused.load(Ordering::SeqCst)) {
            0 => error.into(),
            number => Failure::callback("progress", number),
        })
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        if let (Some(op), Some(watcher), false) = (&self.op, &self.watcher, self.nonblocking)
            && watcher.every.is_some()
        {
            op.set_heartbeat(None);
        }
    }
}
