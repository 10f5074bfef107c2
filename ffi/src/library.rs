//! The library itself: version, features, names of codes, memory, log sink.

use crate::entry::enter;
use crate::failure::Failure;
use crate::features::FEATURES;
use crate::types::*;
use crate::{arg, log};
use libc::{c_char, c_void};
use std::ffi::CStr;

/// Gets the library's version: major * 65536 + minor * 256 + patch.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_version() -> u32 {
    number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
        | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
        | number(env!("CARGO_PKG_VERSION_PATCH"))
}

/// Gets the library's version as text, such as "0.1.0". Borrowed, valid for ever.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_version_string() -> *const c_char {
    static_text(concat!(env!("CARGO_PKG_VERSION"), "\0"))
}

/// Describes how the library was built: a JSON object with "version", "os", "arch", "debug". Borrowed, valid for ever.
///
/// Schemas: answer build-info.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_build_info() -> *const c_char {
    #[cfg(target_arch = "x86_64")]
    macro_rules! arch {
        () => {
            "amd64"
        };
    }
    #[cfg(target_arch = "aarch64")]
    macro_rules! arch {
        () => {
            "arm64"
        };
    }
    #[cfg(debug_assertions)]
    macro_rules! debug {
        () => {
            "true"
        };
    }
    #[cfg(not(debug_assertions))]
    macro_rules! debug {
        () => {
            "false"
        };
    }
    static_text(concat!(
        "{\"version\":\"",
        env!("CARGO_PKG_VERSION"),
        "\",\"os\":\"linux\",\"arch\":\"",
        arch!(),
        "\",\"debug\":",
        debug!(),
        "}\0"
    ))
}

/// Returns whether this library has a feature: 1 or 0.
///
/// The names of 0.1:
/// @FEATURES@.
/// NULL and other names answer 0. A name stays as long as the feature.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_has_feature(name: *const c_char) -> i32 {
    let known =
        arg::optional_text(name, "name").ok().flatten().is_some_and(|name| FEATURES.contains(&name) && is_built(name));
    known.into()
}

/// The features that cargo's features leave out, and whether this build has them.
const BUILT: &[(&str, bool)] = &[
    ("build", cfg!(feature = "build")),
    ("http", cfg!(feature = "http")),
    ("http-serve", cfg!(feature = "http")),
    ("git", cfg!(feature = "git")),
    ("log-delivery", cfg!(feature = "ship")),
    ("network-drivers", cfg!(feature = "networks")),
    ("plugins", cfg!(feature = "plugins")),
    ("registry", cfg!(feature = "registry")),
    ("tls", cfg!(feature = "registry")),
];

fn is_built(name: &str) -> bool {
    BUILT.iter().all(|(feature, is_here)| *feature != name || *is_here)
}

/// Gets a code's name, such as "NOT_FOUND" for CORACLE_ENOT_FOUND; "UNKNOWN" for a foreign number. Borrowed, valid for ever.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_status_name(s: coracle_status) -> *const c_char {
    let name = match s {
        CORACLE_OK => c"OK",
        CORACLE_DONE => c"DONE",
        CORACLE_AGAIN => c"AGAIN",
        CORACLE_UNCHANGED => c"UNCHANGED",
        CORACLE_EINVALID => c"INVALID",
        CORACLE_EUNAUTHORIZED => c"UNAUTHORIZED",
        CORACLE_EFORBIDDEN => c"FORBIDDEN",
        CORACLE_ENOT_FOUND => c"NOT_FOUND",
        CORACLE_ECONFLICT => c"CONFLICT",
        CORACLE_EINTERNAL => c"INTERNAL",
        CORACLE_EUNSUPPORTED => c"UNSUPPORTED",
        CORACLE_EUNAVAILABLE => c"UNAVAILABLE",
        CORACLE_EIO => c"IO",
        CORACLE_ENOMEM => c"NOMEM",
        CORACLE_ETIMEOUT => c"TIMEOUT",
        CORACLE_ECANCELLED => c"CANCELLED",
        CORACLE_ECALLBACK => c"CALLBACK",
        CORACLE_EFORKED => c"FORKED",
        CORACLE_EPANIC => c"PANIC",
        CORACLE_EMISUSE => c"MISUSE",
        CORACLE_ECORRUPT => c"CORRUPT",
        CORACLE_ENOT_ACCEPTABLE => c"NOT_ACCEPTABLE",
        _ => c"UNKNOWN",
    };
    name.as_ptr()
}

/// Frees a string that the library gave (every `char **out_...`). NULL is fine.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_free(p: *mut c_void) {
    // SAFETY: by the header a string that the library made with malloc, or NULL.
    unsafe { libc::free(p) };
}

/// Sets the process's log sink: `fn` is called for messages of `level` (CORACLE_LOG_...) and graver.
///
/// The library never prints; without a sink its messages are lost. Error: defects that it caught. Warn: what was put right or
/// given up (killed monitors, locks that another call holds too long). Info: opens, starts, stops, pulls, builds, sweeps, each
/// with its duration, a container's with " container=ID"; further attempts at a registry, with the reason. Debug: the step and
/// the error number of a failing start, the networks of a start. The target is the part of the engine. `fn` NULL removes the
/// sink. `drop`, where given, is called with `user` once, when the sink was replaced and no call of it is left. This is the only
/// state that engines share, and the only callback that comes on other threads than the caller's.
///
/// Errors: EINVALID (level).
///
/// Threads: any; `fn` is called from any thread. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_set_log(
    level: i32,
    r#fn: coracle_log_fn,
    user: *mut c_void,
    drop: coracle_drop_fn,
    err: *mut *mut coracle_error,
) -> coracle_status {
    enter(err, || {
        if !(CORACLE_LOG_ERROR..=CORACLE_LOG_DEBUG).contains(&level) {
            return Err(Failure::invalid("level is not one of CORACLE_LOG_..."));
        }
        log::set(level, r#fn, user, drop);
        Ok(CORACLE_OK)
    })
}

const fn number(text: &str) -> u32 {
    let (bytes, mut value, mut i) = (text.as_bytes(), 0, 0);
    while i < bytes.len() {
        value = value * 10 + (bytes[i] - b'0') as u32;
        i += 1;
    }
    value
}

fn static_text(text: &'static str) -> *const c_char {
    CStr::from_bytes_until_nul(text.as_bytes()).unwrap_or(c"").as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn has(name: &str) -> i32 {
        let name = CString::new(name).expect("a name");
        // SAFETY: a text with an end that lives over the call.
        unsafe { coracle_has_feature(name.as_ptr()) }
    }

    #[test]
    fn each_name_of_the_header_is_a_feature() {
        let header = include_str!("../../include/coracle.h");
        let (_, after) = header.split_once("The names of 0.1:").expect("the list of names");
        let (list, _) = after.split_once("NULL and other names").expect("its end");
        let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(names, FEATURES, "the header is not current");
        assert!(names.is_sorted() && names.iter().all(|name| has(name) == i32::from(is_built(name))), "{names:?}");
        for name in ["ephemeral", "leases", "explain", "host-report", "metrics"] {
            assert_eq!(has(name), 1, "{name}");
        }
        assert_eq!(has("nosuch"), 0);
    }
}
