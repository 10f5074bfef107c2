//! The frame of every entry point: it catches panics, writes the error argument, and answers a status.

use crate::error_object::ErrorObject;
use crate::failure::{Failure, Outcome};
use crate::handle;
use crate::types::*;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Once;

/// The part of the engine that an entry point belongs to: an error that names none has this one. The entry points of an object
/// stand in one file.
#[derive(Clone, Copy)]
pub(crate) struct Area(&'static str);

impl Area {
    /// The area of the function that called.
    #[track_caller]
    pub(crate) fn of_caller() -> Area {
        Area::of_file(Location::caller().file())
    }

    #[inline(never)]
    fn of_file(file: &'static str) -> Area {
        let file = file.rsplit('/').next().unwrap_or(file);
        Area(match file.split('.').next().unwrap_or(file) {
            "archive" => "container",
            "disk" | "root" => "root",
            "library" => "library",
            "metrics" => "engine",
            "report" => "host",
            "op" => "operation",
            "server" => "http",
            "source" => "image",
            "system" => "engine",
            stem => stem,
        })
    }

    /// A failure of this area, unless it has one.
    pub(crate) fn mark(self, mut failure: Failure) -> Failure {
        if failure.area.is_empty() {
            failure.area = self.0;
        }
        failure
    }
}

/// Runs an entry point that answers a status.
#[track_caller]
pub(crate) fn enter(err: *mut *mut coracle_error, body: impl FnOnce() -> Outcome<coracle_status>) -> coracle_status {
    enter_in(Area::of_caller(), err, body)
}

/// Runs an entry point of an area.
pub(crate) fn enter_in(
    area: Area,
    err: *mut *mut coracle_error,
    body: impl FnOnce() -> Outcome<coracle_status>,
) -> coracle_status {
    guard(area, err, body).unwrap_or_else(|code| code)
}

/// Runs an entry point that answers a number of bytes, or a status below 0.
#[track_caller]
pub(crate) fn enter_count(err: *mut *mut coracle_error, body: impl FnOnce() -> Outcome<usize>) -> i64 {
    guard(Area::of_caller(), err, body).map_or_else(i64::from, |count| i64::try_from(count).unwrap_or(i64::MAX))
}

/// Runs an entry point that answers a descriptor or another small number, or a status below 0; it has no error argument.
#[track_caller]
pub(crate) fn enter_number(body: impl FnOnce() -> Outcome<i32>) -> i32 {
    guard(Area::of_caller(), std::ptr::null_mut(), body).unwrap_or_else(|code| code)
}

/// Runs an entry point that cannot fail.
pub(crate) fn enter_void(body: impl FnOnce()) {
    let _ = catch(|| {
        body();
        Ok(())
    });
}

/// Runs `body`; a panic in it becomes a failure and a line for the log sink.
pub(crate) fn catch<T>(body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    quiet_panics();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| Err(panicked(payload)))
}

// This function and `failed` are not part of the generic ones, which are compiled for every entry point.
#[cold]
#[inline(never)]
fn panicked(payload: Box<dyn Any + Send>) -> Failure {
    let failure = Failure::panic(payload.as_ref(), PLACE.with(|place| place.take()));
    // A payload whose own drop panics must not get out either.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    crate::log::emit(CORACLE_LOG_ERROR, "panic", &format!("{} {}", failure.message, failure.detail));
    failure
}

fn guard<T>(area: Area, err: *mut *mut coracle_error, body: impl FnOnce() -> Outcome<T>) -> Result<T, coracle_status> {
    write_error(err, std::ptr::null_mut());
    catch(body).map_err(|failure| failed(area, err, failure))
}

#[cold]
#[inline(never)]
fn failed(area: Area, err: *mut *mut coracle_error, failure: Failure) -> coracle_status {
    let failure = area.mark(failure);
    let code = failure.code;
    if !err.is_null() {
        write_error(err, handle::give(ErrorObject::new(failure)));
    }
    code
}

fn write_error(err: *mut *mut coracle_error, value: *mut coracle_error) {
    if !err.is_null() {
        // SAFETY: by the header, `err` is NULL or a place for a pointer.
        unsafe { err.write(value) };
    }
}

thread_local! {
    /// Where this thread panicked last.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics print nothing to the host's stderr. The standard library in here is our own copy (this crate is only ever a C
/// library), so its hook is ours to set; a Rust program that links the engine's crate keeps its hook.
fn quiet_panics() {
    static ONCE: Once = Once::new();
    if cfg!(test) {
        return;
    }
    ONCE.call_once(set_quiet_hook);
}

fn set_quiet_hook() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|l| format!("{}:{}", l.file(), l.line()));
        let _ = PLACE.try_with(|p| *p.borrow_mut() = place);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_object() {
        let mut err = std::ptr::null_mut();
        assert_eq!(enter(&mut err, || panic!("on purpose")), CORACLE_EPANIC);
        let object = handle::get::<ErrorObject>(err, "err").unwrap();
        assert!(object.message.to_str().unwrap().contains("on purpose"));
        handle::free::<ErrorObject>(err);
    }

    #[test]
    fn a_panic_prints_nothing() {
        let program = std::env::current_exe().unwrap();
        let name = "entry::tests::panics_with_the_hook_of_the_libraries";
        let output = std::process::Command::new(program).args(["--exact", name, "--ignored", "--nocapture"]).output();
        let output = output.unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
        assert!(!out.contains("on purpose") && err.is_empty(), "{out}{err}");
    }

    #[test]
    #[ignore = "run in a process of its own, by the test above"]
    fn panics_with_the_hook_of_the_libraries() {
        set_quiet_hook();
        let mut err = std::ptr::null_mut();
        assert_eq!(enter(&mut err, || panic!("on purpose")), CORACLE_EPANIC);
        let object = handle::get::<ErrorObject>(err, "err").unwrap();
        assert!(object.detail.to_str().unwrap().contains("entry.rs:"));
    }

    #[test]
    fn success_clears_the_error_argument() {
        let mut err = std::ptr::dangling_mut();
        assert_eq!(enter(&mut err, || Ok(CORACLE_UNCHANGED)), CORACLE_UNCHANGED);
        assert!(err.is_null());
        assert_eq!(enter_count(&mut err, || Ok(7)), 7);
        assert_eq!(enter_count(&mut err, || Err(Failure::callback("read", -5))), i64::from(CORACLE_ECALLBACK));
        let detail = handle::get::<ErrorObject>(err, "err").unwrap().detail.clone();
        assert_eq!(detail.to_str(), Ok("{\"callback\":-5}"));
        handle::free::<ErrorObject>(err);
    }
}
