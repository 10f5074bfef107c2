//! The engine as a whole: information, settings, version.

use crate::answer::{Answer, Outs};
use crate::arg::{self, Out};
use crate::call::{call, work};
use crate::root::{Access, with_root};
use crate::types::*;
use engine::model::StringMap;
use libc::c_char;

/// Describes the engine and the host, as `docker info` does: counts, drivers, kernel, warnings.
///
/// *out_json: the document of GET /info; free it with coracle_free.
///
/// Errors: ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_engine_info(
    c: *mut coracle,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Read, op, Outs::none().json(out_json), err, &mut |root| {
        let engine = root.engine().clone();
        work(move |using| Answer::document(&using.done(engine.info())?))
    })
}

/// Gets the versions of the library, the API and the kernel.
///
/// *out_json: the document of GET /version; free it with coracle_free.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_engine_version(
    c: *mut coracle,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        out.give_json(&root.engine().version()?)?;
        Ok(CORACLE_OK)
    })
}

/// Replaces the labels of this engine, and tells all followers of the root's events that settings were read again: the event
/// "daemon", "reload", with the labels, and the other settings that the host has read.
///
/// labels_json: an array of texts, "key=value", in place of the labels before. settings_json: NULL, or an object of strings.
///
/// Errors: EINVALID (a document), EIO (the journal cannot be written).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_engine_reload(
    c: *mut coracle,
    labels_json: *const c_char,
    settings_json: *const c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let labels: Vec<String> = arg::json(labels_json, "labels_json")?;
        let settings: StringMap = arg::json_or_default(settings_json, "settings_json")?;
        root.engine().reload(labels, &settings)?;
        Ok(CORACLE_OK)
    })
}
