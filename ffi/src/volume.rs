//! Volumes.

use crate::answer::{Answer, Outs};
use crate::arg::{self, Out};
use crate::call::call;
use crate::query::Query;
use crate::root::{Access, with_root};
use crate::types::*;
use crate::work::work;
use coracle_http::Document;
use engine::model::{CreateVolume, ListVolumes};
use libc::c_char;

/// Lists volumes by name.
///
/// query_json: NULL, or an object with "filters" (as in GET /volumes). *out_json: its document; free it with
/// coracle_free.
///
/// Schemas: query_json volume-list-query, out_json volume-list.
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
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        let query =
            ListVolumes { filters: Query::new(query_json, "query_json", &["filters"], root.lenient())?.filters()? };
        out.give_json(&root.engine().volume_list(&query)?)?;
        Ok(CORACLE_OK)
    })
}

/// Creates a volume. If a volume of that name is there already, the call gives that one as it is.
///
/// body_json: NULL, or the body of POST /volumes/create: any of "Name", "Driver", "DriverOpts", "Labels". *out_id: the
/// volume's name; free it with coracle_free. *out_json (may be NULL): the volume; free it with coracle_free.
///
/// Schemas: body_json volume-create, out_json volume.
///
/// Errors: EINVALID (name, options), ENOT_FOUND (driver), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk; until the driver's plugin answers. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_volume_create(
    c: *mut coracle,
    body_json: *const c_char,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let outs = Outs::none().id(out_id).optional_json(out_json);
    call(c, Access::Change, op, outs, err, &mut |root| {
        let body: CreateVolume = arg::document_or_default(body_json, "body_json", Document::Volume, root.lenient())?;
        let engine = root.engine().clone();
        work(move |using| {
            let volume = using.done(engine.volume_create(&body))?;
            Answer::id(&volume.name)?.and_document(&volume)
        })
    })
}

/// Describes one volume in full.
///
/// *out_json: the document of GET /volumes/{name}; free it with coracle_free.
///
/// Schemas: out_json volume.
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
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        out.give_json(&root.engine().volume_inspect(arg::text(name, "name")?)?)?;
        Ok(CORACLE_OK)
    })
}

/// Removes a volume and its content.
///
/// Errors: ENOT_FOUND, ECONFLICT (a container, running or not, uses it), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk; until the driver's plugin answers. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_volume_remove(
    c: *mut coracle,
    name: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, name) = (root.engine().clone(), arg::owned(name, "name")?);
        work(move |using| using.done(engine.volume_remove(&name)).map(|()| Answer::done()))
    })
}

/// Removes volumes that no container uses.
///
/// filters_json: NULL: the volumes that nobody named (their names are 64 hexadecimal digits); or an object of lists:
/// "all":["true"] also those with a name, "label" and "label!". *out_json: an object with "VolumesDeleted" (a list of names)
/// and "SpaceReclaimed" in bytes; free it with coracle_free.
///
/// Schemas: filters_json filters, out_json volume-prune.
///
/// Errors: EINVALID (a filter), ECANCELLED, ETIMEOUT (op). Objects that were removed before an error stay removed.
///
/// Threads: any. Blocks: until all volumes were looked at, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_volume_prune(
    c: *mut coracle,
    filters_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let filters = Query::filters_of(filters_json, "filters_json")?;
        let engine = root.engine().clone();
        work(move |using| Answer::document(&using.done(engine.volumes_prune(&filters, using.op()))?))
    })
}
