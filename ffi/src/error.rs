//! Errors as objects.

use crate::entry::Failure;
use crate::handle::{self, Object};
use crate::types::*;
use libc::c_char;
use std::ffi::{CStr, CString};

/// A failure with its texts in C's form.
pub(crate) struct ErrorObject {
    failure: Failure,
    area: CString,
    pub(crate) message: CString,
    pub(crate) detail: CString,
}

impl Object for ErrorObject {
    type Opaque = coracle_error;
    const KIND: u64 = 2;
    const NAME: &'static str = "error";
    const SURVIVES_FORK: bool = true;
}

impl ErrorObject {
    pub(crate) fn new(failure: Failure) -> ErrorObject {
        let (area, message, detail) = (c_text(failure.area), c_text(&failure.message), c_text(&failure.detail));
        ErrorObject { failure, area, message, detail }
    }
}

/// The text without NULs, which no message of ours has and a foreign name in it may.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

fn read<T>(e: *const coracle_error, absent: T, what: impl FnOnce(&ErrorObject) -> T) -> T {
    handle::get::<ErrorObject>(e, "error").map_or(absent, |error| what(&error))
}

/// The error's code: CORACLE_E...
///
/// Returns CORACLE_OK for NULL.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_code(e: *const coracle_error) -> coracle_status {
    read(e, CORACLE_OK, |error| error.failure.code)
}

/// The HTTP status that the error has on the wire, such as 404.
///
/// Returns 0 for NULL.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_http_status(e: *const coracle_error) -> i32 {
    read(e, 0, |error| error.failure.http_status)
}

/// The kernel's error number, where the kernel said no; else 0.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_errno(e: *const coracle_error) -> i32 {
    read(e, 0, |error| error.failure.errno)
}

/// The part of the engine that failed: "launch", "network", "store", ..., or the object of the function that was called:
/// "container", "image", "root", ...; never empty, never NULL.
///
/// The text is the error's: valid until coracle_error_free.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_area(e: *const coracle_error) -> *const c_char {
    read(e, EMPTY.as_ptr(), |error| error.area.as_ptr())
}

/// One line for a person, the same that an HTTP answer carries; never NULL.
///
/// The text is the error's: valid until coracle_error_free.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_message(e: *const coracle_error) -> *const c_char {
    read(e, EMPTY.as_ptr(), |error| error.message.as_ptr())
}

/// A JSON object with further facts for programs: "argument" (the name of an argument that is wrong), "field" (the path of a
/// member of that document, such as "HostConfig.Binds[1]"), "limit" (the bound that a value is beyond), "id" (of the object that
/// is in the way), "callback" (the number that a callback returned), "exitCode" (of a command of a build), "place" (of a defect).
/// "{}" if there are none.
///
/// The text is the error's: valid until coracle_error_free.
///
/// Schemas: answer error-detail.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_detail(e: *const coracle_error) -> *const c_char {
    read(e, NOTHING.as_ptr(), |error| error.detail.as_ptr())
}

/// Frees an error. NULL is fine.
///
/// Threads: any, and last. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_free(e: *mut coracle_error) {
    crate::entry::enter_void(|| handle::free::<ErrorObject>(e));
}

const EMPTY: &CStr = c"";
const NOTHING: &CStr = c"{}";
