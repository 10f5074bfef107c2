//! Waits that a program polls for beside others.

use crate::arg::{self, Out};
use crate::entry::{enter, enter_number};
use crate::handle::{self, Object};
use crate::root::{Access, with_root};
use crate::stream::only_one;
use crate::types::*;
use engine::ContainerWait;
use engine::model::WaitCondition;
use libc::c_char;
use std::os::fd::AsRawFd;
use std::sync::Mutex;

/// The object behind a `coracle_wait *`.
pub(crate) struct WaitObject(Mutex<ContainerWait>);

impl Object for WaitObject {
    type Opaque = coracle_wait;
    const KIND: u64 = 8;
    const NAME: &'static str = "wait";
}

/// Begins a wait that takes no thread: the program polls for its end, beside others.
///
/// condition: as in coracle_container_wait_for. *out: end it with coracle_wait_free. The wait misses no end after this call,
/// so a program begins a wait for "next-exit", starts the container, and then polls.
///
/// Errors: ENOT_FOUND (also after the end of a container with AutoRemove), EINVALID (condition).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_wait_begin(
    c: *mut coracle,
    id: *const c_char,
    condition: *const c_char,
    out: *mut *mut coracle_wait,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out, "out")?;
        let id = arg::text(id, "id")?;
        let condition = WaitCondition::parse(arg::optional_text(condition, "condition")?.unwrap_or_default())?;
        let wait = root.engine().container_wait_begin(id, condition)?;
        out.set(handle::give(WaitObject(Mutex::new(wait))));
        Ok(CORACLE_OK)
    })
}

/// A descriptor for poll and its kin (level-triggered): when it is readable, call coracle_wait_result.
///
/// Valid until the next coracle_wait_result or coracle_wait_free; not to be read or closed. So ask for the descriptor before each
/// poll. Returns a code below 0 on failure.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_wait_fd(w: *mut coracle_wait) -> i32 {
    enter_number(|| {
        let object = handle::get::<WaitObject>(w, "wait")?;
        Ok(only_one(&object.0, "the wait")?.fd().as_raw_fd())
    })
}

/// Looks whether a wait is over.
///
/// *out_json: as of coracle_container_wait_for; free it with coracle_free. Returns CORACLE_OK, or CORACLE_AGAIN if the wait is not
/// over. A wait that is over answers the same again.
///
/// Errors: EMISUSE (another thread uses the wait).
///
/// Threads: one at a time. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_wait_result(
    w: *mut coracle_wait,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    enter(err, || {
        let out = Out::null(out_json, "out_json")?;
        let object = handle::get::<WaitObject>(w, "wait")?;
        let Some(result) = only_one(&object.0, "the wait")?.try_wait()? else { return Ok(CORACLE_AGAIN) };
        out.give_json(&result)?;
        Ok(CORACLE_OK)
    })
}

/// Ends a wait. NULL is fine.
///
/// Threads: any, and last. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_wait_free(w: *mut coracle_wait) {
    crate::entry::enter_void(|| handle::free::<WaitObject>(w));
}
