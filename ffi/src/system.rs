//! The engine as a whole: information, settings, version.

use crate::answer::{Answer, Outs};
use crate::arg::{self, Out};
use crate::call::call;
use crate::failure::{Failure, Outcome};
use crate::query::Query;
use crate::root::{Access, with_root};
use crate::types::*;
use crate::using::Using;
use crate::work::{Work, work};
use engine::model::{DiskUsageQuery, StringMap};
use libc::c_char;

/// Describes the engine and the host, as `docker info` does: counts, drivers, kernel, warnings.
///
/// *out_json: the document of GET /info; free it with coracle_free.
///
/// Schemas: out_json info.
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

/// Counts the bytes that images, containers and volumes take.
///
/// query_json: NULL, or an object with "type": a list of the kinds to count ("container", "image", "volume"); without it all.
/// *out_json: an object with "LayersSize" (bytes of all layers, each counted once), "Images", "Containers", "Volumes" and
/// "BuildCache": the documents of their lists with sizes; free it with coracle_free.
///
/// Schemas: query_json disk-usage-query, out_json disk-usage.
///
/// Errors: EINVALID (query_json), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: for volumes as long as a walk through their files takes, or until op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_engine_disk_usage(
    c: *mut coracle,
    query_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Read, op, Outs::none().json(out_json), err, &mut |root| {
        let query = usage_query(&Query::new(query_json, "query_json", &["type"], root.lenient())?.texts("type")?)?;
        let engine = root.engine().clone();
        let count = move |using: &Using| Answer::document(&using.done(engine.disk_usage(query, using.op()))?);
        work(count).map(Work::long)
    })
}

fn usage_query(kinds: &[String]) -> Outcome<DiskUsageQuery> {
    if kinds.is_empty() {
        return Ok(DiskUsageQuery::ALL);
    }
    let mut query = DiskUsageQuery::default();
    for kind in kinds {
        *match kind.as_str() {
            "container" => &mut query.containers,
            "image" => &mut query.images,
            "volume" => &mut query.volumes,
            "build-cache" => &mut query.build_cache,
            _ => return Err(Failure::invalid("query_json: \"type\" has container, image, volume and build-cache")),
        } = true;
    }
    Ok(query)
}

/// Gets the versions of the library, the API and the kernel.
///
/// *out_json: the document of GET /version; free it with coracle_free.
///
/// Schemas: out_json version.
///
/// Errors: none but those of every function.
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

/// Replaces the labels of this engine, and reports to all followers of the root's events that settings were read again: the
/// event "daemon", "reload", with the labels, and the other settings that the host has read.
///
/// labels_json: an array of texts, "key=value", in place of the labels before. settings_json: NULL, or an object of strings.
///
/// Schemas: labels_json strings, settings_json string-map.
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
