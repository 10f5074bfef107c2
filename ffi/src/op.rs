//! Operations: the one nullable argument of every call that may block.

use crate::arg::Out;
use crate::entry::{Failure, Outcome, enter, enter_number, enter_void};
use crate::error::c_text;
use crate::handle::{self, Object, Ref};
use crate::stream::{Stream, eventfd};
use crate::types::*;
use engine::{Error, ErrorKind, Op};
use libc::c_void;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The object behind a `coracle_op *`.
pub(crate) struct OpObject {
    op: Op,
    watcher: Mutex<Option<Arc<Watcher>>>,
    submitted: Arc<Submitted>,
}

impl Object for OpObject {
    type Opaque = coracle_op;
    const KIND: u64 = 3;
    const NAME: &'static str = "operation";
}

/// A request on its way, and its answer.
pub(crate) struct Submitted {
    /// Readable while there is an answer.
    ready: OwnedFd,
    busy: AtomicBool,
    answer: Mutex<Option<Answer>>,
}

/// The answer to a submitted request: HTTP status and body.
pub(crate) type Answer = Outcome<(u16, Stream)>;

/// The caller's progress function.
struct Watcher {
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
    fn tell(&self, record: *const libc::c_char) -> engine::Result<()> {
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
    object: Option<Ref<OpObject>>,
    watcher: Option<Arc<Watcher>>,
}

impl Using {
    /// The operation that the caller passed; NULL is none.
    pub(crate) fn new(op: *const coracle_op) -> Outcome<Using> {
        if op.is_null() {
            return Ok(Using { object: None, watcher: None });
        }
        let object = handle::get::<OpObject>(op, "op")?;
        let watcher = lock(&object.watcher).clone();
        if let Some(watcher) = &watcher {
            watcher.refused.store(0, Ordering::SeqCst);
            if let Some(every) = watcher.every {
                let beating = watcher.clone();
                object.op.set_heartbeat(Some((every, Box::new(move || beating.tell(std::ptr::null())))));
            }
        }
        Ok(Using { object: Some(object), watcher })
    }

    /// The engine's operation.
    pub(crate) fn op(&self) -> Option<&Op> {
        self.object.as_ref().map(|object| &object.op)
    }

    /// Hands a progress record to the caller.
    pub(crate) fn progress(&self, record: &engine::model::Progress) -> engine::Result<()> {
        let Some(watcher) = &self.watcher else { return Ok(()) };
        let text = serde_json::to_string(record).map_err(|e| Error::internal(format!("writing JSON: {e}")))?;
        watcher.tell(c_text(&text).as_ptr())
    }

    /// The engine's answer, with the number of a callback that refused in place of what the engine made of it.
    pub(crate) fn done<T>(&self, result: engine::Result<T>) -> Outcome<T> {
        result.map_err(|error| match self.watcher.as_ref().map_or(0, |w| w.refused.load(Ordering::SeqCst)) {
            0 => error.into(),
            number => Failure::callback("progress", number),
        })
    }

    /// Takes the operation for a request that runs on a thread of the library.
    pub(crate) fn submit(&self) -> Outcome<(Op, Arc<Submitted>)> {
        let object = self.object.as_ref().ok_or_else(|| Failure::invalid("op is NULL"))?;
        if self.watcher.is_some() {
            return Err(Failure::misuse("op has a progress callback, which may only come on the caller's thread"));
        }
        if object.submitted.busy.swap(true, Ordering::SeqCst) {
            return Err(Failure::misuse("op has a request already, or its answer was not taken"));
        }
        Ok((object.op.clone(), object.submitted.clone()))
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        if let (Some(object), Some(watcher)) = (&self.object, &self.watcher)
            && watcher.every.is_some()
        {
            object.op.set_heartbeat(None);
        }
    }
}

impl Submitted {
    /// Leaves the answer and makes the descriptor readable.
    pub(crate) fn answer(&self, answer: Answer) {
        *lock(&self.answer) = Some(answer);
        let one = 1u64.to_ne_bytes();
        // SAFETY: the buffer lives over the call. A counter that is full is readable too.
        unsafe { libc::write(self.ready.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// The request did not get on its way.
    pub(crate) fn give_up(&self) {
        self.busy.store(false, Ordering::SeqCst);
    }

    fn take(&self) -> Option<Answer> {
        let answer = lock(&self.answer).take()?;
        let mut count = [0u8; 8];
        // SAFETY: the buffer lives over the call. The descriptor does not block.
        unsafe { libc::read(self.ready.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        self.busy.store(false, Ordering::SeqCst);
        Some(answer)
    }
}

/// Makes an operation: not cancelled, with no deadline and no progress function.
///
/// Pass it to one call after another, not to two at once. *out: free it with coracle_op_free.
///
/// Errors: EIO (no descriptor left), EINVALID.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_new(out: *mut *mut coracle_op) -> coracle_status {
    enter(std::ptr::null_mut(), || {
        let out = Out::null(out, "out")?;
        let submitted = Submitted { ready: eventfd(0)?, busy: AtomicBool::new(false), answer: Mutex::new(None) };
        let object = OpObject { op: Op::new()?, watcher: Mutex::new(None), submitted: Arc::new(submitted) };
        out.set(handle::give(object));
        Ok(CORACLE_OK)
    })
}

/// Frees an operation. A submitted request that is on its way is cancelled. NULL is fine.
///
/// Threads: any, and last. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_free(op: *mut coracle_op) {
    enter_void(|| {
        if let Ok(object) = handle::get::<OpObject>(op, "op")
            && object.submitted.busy.load(Ordering::SeqCst)
        {
            object.op.cancel();
        }
        handle::free::<OpObject>(op);
    });
}

/// Ends the call that uses the operation: it returns CORACLE_ECANCELLED, and so does every later one with it.
///
/// NULL, freed handles and forked children are left alone. errno is kept.
///
/// Threads: any, and signal handlers (async-signal-safe while the operation is not being freed). Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_cancel(op: *mut coracle_op) {
    // No `enter`: it may allocate. What is called here is a look-up in atomics, an atomic store and a write.
    // SAFETY: errno is a plain place of this thread.
    let saved = unsafe { *libc::__errno_location() };
    if !op.is_null()
        && let Some(object) = handle::get_quiet::<OpObject>(op)
    {
        object.op.cancel();
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = saved };
}

/// Bounds the operation: `ms` from now its call returns CORACLE_ETIMEOUT; below 0: no bound.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_set_timeout(op: *mut coracle_op, ms: i64) {
    enter_void(|| {
        if let Ok(object) = handle::get::<OpObject>(op, "op") {
            object.op.set_timeout(u64::try_from(ms).ok().map(Duration::from_millis));
        }
    });
}

/// Sets the function that gets the progress records of load, import and their like, and heartbeats.
///
/// heartbeat_ms: above 0, the function is also called with NULL about that often while a call blocks, so that a caller
/// can look at its own world (Ctrl-C); other than 0 from it ends the call. fn NULL: none. drop, where given, is called
/// with `user` once when the function is not needed any more.
///
/// Threads: any, not while a call uses the operation; `fn` comes on the thread inside that call only. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_set_progress(
    op: *mut coracle_op,
    r#fn: coracle_progress_fn,
    user: *mut c_void,
    drop: coracle_drop_fn,
    heartbeat_ms: i32,
) {
    enter_void(|| {
        let every = u64::try_from(heartbeat_ms).ok().filter(|&ms| ms > 0).map(Duration::from_millis);
        let refused = AtomicI64::new(0);
        let watcher = r#fn.map(|call| Arc::new(Watcher { call, user, drop, every, refused }));
        if let Ok(object) = handle::get::<OpObject>(op, "op") {
            let old = std::mem::replace(&mut *lock(&object.watcher), watcher);
            // Outside the lock: its drop calls the caller.
            std::mem::drop(old);
        }
    });
}

/// A descriptor that is readable while the answer of coracle_submit waits to be taken; for poll and its kin.
///
/// Borrowed: valid until coracle_op_free; not to be read or closed. Returns a code below 0 on failure.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_fd(op: *mut coracle_op) -> i32 {
    enter_number(|| Ok(handle::get::<OpObject>(op, "op")?.submitted.ready.as_raw_fd()))
}

/// Takes the answer of coracle_submit.
///
/// *http_status (may be NULL) and *out_body as in coracle_request. Returns CORACLE_AGAIN while there is none yet, and
/// the request's own error where it failed.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_result(
    op: *mut coracle_op,
    http_status: *mut i32,
    out_body: *mut *mut coracle_stream,
    err: *mut *mut coracle_error,
) -> coracle_status {
    enter(err, || {
        let http_status = Out::optional(http_status, 0);
        let out_body = Out::null(out_body, "out_body")?;
        let object = handle::get::<OpObject>(op, "op")?;
        let Some(answer) = object.submitted.take() else { return Ok(CORACLE_AGAIN) };
        let (status, body) = answer?;
        http_status.set(status.into());
        out_body.set(handle::give(body));
        Ok(CORACLE_OK)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
