//! Operations: the one nullable argument of every call that may block.

use crate::answer::Answer;
use crate::arg::{self, Out};
use crate::begun::Begun;
use crate::entry::{Area, enter, enter_number, enter_void};
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Object};
use crate::root::Root;
use crate::types::*;
use crate::using::{Using, Watcher};
use crate::work::Work;
use engine::Op;
use libc::c_void;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The object behind a `coracle_op *`.
pub(crate) struct OpObject {
    op: Op,
    watcher: Mutex<Option<Arc<Watcher>>>,
    /// Of an operation that does not block.
    begun: Option<Arc<Begun>>,
}

impl Object for OpObject {
    type Opaque = coracle_op;
    const KIND: u64 = 3;
    const NAME: &'static str = "operation";
}

impl OpObject {
    fn begun(&self) -> Outcome<&Arc<Begun>> {
        self.begun.as_ref().ok_or_else(|| Failure::misuse("op was made without CORACLE_OP_NONBLOCK"))
    }
}

impl Drop for OpObject {
    fn drop(&mut self) {
        if let Some(begun) = &self.begun {
            begun.give_up();
        }
    }
}

/// The operation that the caller passed; NULL: there is not one.
pub(crate) fn using(op: *const coracle_op) -> Outcome<Using> {
    if op.is_null() {
        return Ok(Using::none());
    }
    let object = handle::get::<OpObject>(op, "op")?;
    let watcher = lock(&object.watcher).clone();
    Ok(Using::new(object.op.clone(), object.begun.is_some(), watcher))
}

/// The operation of a call that cannot be begun: one that does not block is misuse, as the caller polls for the
/// descriptor of the session, stream or events.
pub(crate) fn blocking(op: *const coracle_op) -> Outcome<Using> {
    let using = using(op)?;
    match using.is_nonblocking() {
        true => Err(Failure::misuse("op has CORACLE_OP_NONBLOCK: poll the descriptor, and call without op")),
        false => Ok(using),
    }
}

/// Begins a call with an operation that does not block.
pub(crate) fn begin(op: *const coracle_op, area: Area, root: Option<Root>, work: Work) -> Outcome<()> {
    handle::get::<OpObject>(op, "op")?.begun()?.begin(area, root, work)
}

/// Makes an operation: not cancelled, with no deadline and no progress function.
///
/// flags: 0, or CORACLE_OP_NONBLOCK. *out: free the operation with coracle_op_free. Pass an operation to one call after
/// another, not to two at once.
///
/// Errors: EINVALID (flags), EIO (no descriptor is left).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_new(
    flags: u64,
    out: *mut *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out);
    enter(err, || {
        out.check("out")?;
        let flags = arg::flags(flags, CORACLE_OP_NONBLOCK, "flags")?;
        let op = Op::new()?;
        let begun = match flags & CORACLE_OP_NONBLOCK != 0 {
            true => Some(Arc::new(Begun::new(op.clone())?)),
            false => None,
        };
        out.set(handle::give(OpObject { op, watcher: Mutex::new(None), begun }));
        Ok(CORACLE_OK)
    })
}

/// Frees an operation. A call that was begun with it and is not over is cancelled, and an answer that was not taken is
/// dropped. NULL is fine.
///
/// Threads: any, and last. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_free(op: *mut coracle_op) {
    enter_void(|| handle::free::<OpObject>(op));
}

/// Ends the call that uses the operation: it returns CORACLE_ECANCELLED, and so does every later one with it.
///
/// NULL, freed handles and forked children are left alone. errno is kept.
///
/// Threads: any, and signal handlers (async-signal-safe while the operation is not being freed). Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_cancel(op: *mut coracle_op) {
    // No `enter`: it may allocate. This calls a look-up in atomics, an atomic store and a write.
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
            let timeout = u64::try_from(ms).ok().map(Duration::from_millis);
            object.op.set_timeout(timeout);
            if let Some(begun) = &object.begun {
                begun.set_timeout(timeout);
            }
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
        let watcher = r#fn.map(|call| Arc::new(Watcher::new(call, user, drop, every)));
        if let Ok(object) = handle::get::<OpObject>(op, "op") {
            let old = std::mem::replace(&mut *lock(&object.watcher), watcher);
            // Outside the lock: its drop calls the caller.
            std::mem::drop(old);
        }
    });
}

/// Gets the descriptor of an operation with CORACLE_OP_NONBLOCK, for poll, epoll and select (level-triggered): when it is
/// readable, call coracle_op_result.
///
/// The descriptor is the same as long as the operation lives. It is borrowed: valid until coracle_op_free; the caller must not
/// read or close it. Returns a code below 0 on failure: CORACLE_EMISUSE for an operation without CORACLE_OP_NONBLOCK.
///
/// Errors: EMISUSE (op was made without CORACLE_OP_NONBLOCK).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_fd(op: *mut coracle_op) -> i32 {
    enter_number(|| Ok(handle::get::<OpObject>(op, "op")?.begun()?.fd()))
}

/// Takes the answer of the call that was begun with an operation.
///
/// *out: a coracle_result with its size set; it gets whatever the call gives. Returns CORACLE_AGAIN if there is no answer yet
/// (a wait goes on in this function, so call it whenever the descriptor is readable), else the call's own status. After any
/// other status than CORACLE_AGAIN the operation takes the next call.
///
/// Errors: those of the call, EMISUSE (no call was begun, or its answer was taken; op was made without CORACLE_OP_NONBLOCK),
/// EINVALID (out).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_op_result(
    op: *mut coracle_op,
    out: *mut coracle_result,
    err: *mut *mut coracle_error,
) -> coracle_status {
    enter(err, || {
        // SAFETY: coracle_result is a sized struct of integers and pointers.
        let given = unsafe { arg::sized(out, "out") }?;
        if given.size < size_of::<coracle_result>() {
            return Err(Failure::invalid("out.size is too small"));
        }
        // The first version of the struct is the smallest: the rest of a longer one stays zero.
        let out = Out::new(out, Answer::done().into_result(given.size));
        let object = handle::get::<OpObject>(op, "op")?;
        let Some(answer) = object.begun()?.result()? else { return Ok(CORACLE_AGAIN) };
        let status = answer.status;
        out.set(answer.into_result(given.size));
        Ok(status)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
