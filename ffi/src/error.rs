//! Errors as objects.

use crate::error_object::ErrorObject;
use crate::handle;
use crate::types::*;
use libc::c_char;
use std::ffi::CStr;

fn read<T>(e: *const coracle_error, absent: T, what: impl FnOnce(&ErrorObject) -> T) -> T {
    handle::get::<ErrorObject>(e, "error").map_or(absent, |error| what(&error))
}

/// Gets the error's code: CORACLE_E...
///
/// Returns CORACLE_OK for NULL.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_code(e: *const coracle_error) -> coracle_status {
    read(e, CORACLE_OK, |error| error.failure.code)
}

/// Gets the HTTP status of the error, such as 404.
///
/// Returns 0 for NULL.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_http_status(e: *const coracle_error) -> i32 {
    read(e, 0, |error| error.failure.http_status)
}

/// Gets the kernel's error number if the kernel refused something, else 0.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_errno(e: *const coracle_error) -> i32 {
    read(e, 0, |error| error.failure.errno)
}

/// Gets the part of the engine that failed: "launch", "network", "store", ..., or the object of the function that was called:
/// "container", "image", "root", ...; never empty, never NULL.
///
/// The text is the error's: valid until coracle_error_free.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_area(e: *const coracle_error) -> *const c_char {
    read(e, EMPTY.as_ptr(), |error| error.area.as_ptr())
}

/// Gets one line of text for a person: the message of the HTTP answer; never NULL.
///
/// The text is the error's: valid until coracle_error_free.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_error_message(e: *const coracle_error) -> *const c_char {
    read(e, EMPTY.as_ptr(), |error| error.message.as_ptr())
}

/// Gets a JSON object with further facts for programs: "argument" (the name of an argument that is wrong), "field" (the path of a
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
