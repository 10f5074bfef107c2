//! The log sink: the one thing in the library that is the process's.

use crate::text::c_text;
use crate::types::*;
use libc::c_void;
use std::sync::{Arc, Mutex, PoisonError};

static SINK: Mutex<Option<Arc<Sink>>> = Mutex::new(None);

struct Sink {
    level: i32,
    call: unsafe extern "C" fn(*mut c_void, i32, *const libc::c_char, *const libc::c_char),
    user: *mut c_void,
    drop: coracle_drop_fn,
    pid: u32,
}

// SAFETY: the header says that a sink is called from any thread; the library itself never follows `user`.
unsafe impl Send for Sink {}
// SAFETY: as above.
unsafe impl Sync for Sink {}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the caller gave both for this call, which comes once.
            unsafe { drop(self.user) };
        }
    }
}

/// Sets or, with no function, removes the sink.
pub(crate) fn set(level: i32, function: coracle_log_fn, user: *mut c_void, drop: coracle_drop_fn) {
    let sink = function.map(|call| Arc::new(Sink { level, call, user, drop, pid: std::process::id() }));
    let heard = sink.is_some().then(|| Arc::new(heard) as engine::LogSink);
    engine::set_log(level_of(level), heard);
    let old = std::mem::replace(&mut *SINK.lock().unwrap_or_else(PoisonError::into_inner), sink);
    // Outside the lock: its drop calls the caller.
    std::mem::drop(old);
}

fn level_of(level: i32) -> engine::LogLevel {
    match level {
        CORACLE_LOG_ERROR => engine::LogLevel::Error,
        CORACLE_LOG_WARN => engine::LogLevel::Warn,
        CORACLE_LOG_INFO => engine::LogLevel::Info,
        _ => engine::LogLevel::Debug,
    }
}

/// A note of the engine's.
fn heard(note: &engine::LogNote<'_>) {
    emit(note.level as i32, note.area, &note.to_string());
}

/// Passes a message to the sink, if there is one that wants it.
pub(crate) fn emit(level: i32, target: &str, message: &str) {
    // `try_lock`: in a forked child another thread's lock may never open.
    let Ok(sink) = SINK.try_lock().map(|sink| sink.clone()) else { return };
    let Some(sink) = sink.filter(|sink| level <= sink.level && sink.pid == std::process::id()) else { return };
    let (target, message) = (c_text(target), c_text(message));
    // SAFETY: the header's contract for log functions; both texts live over the call.
    unsafe { (sink.call)(sink.user, level, target.as_ptr(), message.as_ptr()) };
}
