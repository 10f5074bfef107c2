//! Volumes.

use crate::arg::{self, Out};
use crate::query::Query;
use crate::root::{Access, with_root};
use crate::types::*;
use coracle_http::Document;
use engine::model::{CreateVolume, ListVolumes};
use libc::c_char;

/// Lists volumes by name.
///
/// query_json: NULL, or an object with "filters" (as in GET /volumes). *out_json: its document; free it with
/// coracle_free.
///
/// Errors: EINVALID (a filter).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_volume_list(
    c: *mut coracle,
    query_json: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let query =
            ListVolumes { filters: Query::new(query_json, "query_json", &["filters"], root.lenient())?.filters()? };
        out.give_json(&root.engine().volume_list(&query)?)?;
        Ok(CORACLE_OK)
    })
}

/// Creates a volume; one of that name that is there already is answered as it is.
///
/// body_json: NULL, or the body of POST /volumes/create: any of "Name", "Driver", "DriverOpts", "Labels". *out_json: the
/// volume; free it with coracle_free.
///
/// Errors: EINVALID (name, options), ENOT_FOUND (driver).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_volume_create(
    c: *mut coracle,
    body_json: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let body: CreateVolume = arg::document_or_default(body_json, "body_json", Document::Volume, root.lenient())?;
        out.give_json(&root.engine().volume_create(&body)?)?;
        Ok(CORACLE_OK)
    })
}

/// Everything about one volume.
///
/// *out_json: the document of GET /volumes/{name}; free it with coracle_free.
///
/// Errors: ENOT_FOUND.
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_volume_inspect(
    c: *mut coracle,
    name: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        out.give_json(&root.engine().volume_inspect(arg::text(name, "name")?)?)?;
        Ok(CORACLE_OK)
    })
}

/// Removes a volume and what is in it.
///
/// Errors: ENOT_FOUND, ECONFLICT (a container, running or not, uses it).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_volume_remove(
    c: *mut coracle,
    name: *const c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        root.engine().volume_remove(arg::text(name, "name")?)?;
        Ok(CORACLE_OK)
    })
}
