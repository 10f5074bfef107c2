//! The disk of a root: its health, leftovers, copies of a root, the content of a dockerd.

use crate::answer::{Answer, Outs};
use crate::arg::{self, Out};
use crate::call::call;
use crate::failure::Failure;
use crate::registry::with_credentials;
use crate::root::{Access, with_root};
use crate::types::*;
use crate::using::Using;
use crate::work::{Work, work};
use engine::model::{CopyRoot, ImportDocker, VerifyImages};
use libc::c_char;

/// Verifies every layer and configuration of the store, and repairs damage if the caller asks for it.
///
/// query_json: NULL, or an object with any of "repair" (default false) and "auths" (an object of registry to
/// credentials as for coracle_image_pull). *out_json: an object with "Layers" and "Images" (how many) and "Damage": a list
/// of objects with "Part" (layer, image, database), "Id", "Images", "Reason", "Repaired", "Unrepaired"; free it with
/// coracle_free. A call that finds damage succeeds, too. Progress records go to op.
///
/// Schemas: query_json root-verify-query, out_json root-verify.
///
/// Errors: EINVALID (query_json), ECALLBACK, ECANCELLED, ETIMEOUT (op).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until all was read, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_root_verify(
    c: *mut coracle,
    query_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let request = with_credentials(query_json, "query_json", root.lenient(), |one: &VerifyImages| &one.auths)?;
        let engine = root.engine().clone();
        let verify = move |using: &Using| {
            let result = engine.verify(&request, &mut |record| using.progress(&record), using.op());
            Answer::document(&using.done(result)?)
        };
        work(verify).map(Work::long)
    })
}

/// Lists the files that removals through this engine, and its open, could not remove: an immutable file, a mount in the way.
///
/// *out_json: an array of {"Path": ..., "Reason": ...}; free it with coracle_free. The container,
/// volume or layer that had the files is gone. Every open tries again, and so does coracle_root_sweep.
///
/// Schemas: out_json leftovers.
///
/// Errors: none but those of every function.
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_root_leftovers(
    c: *mut coracle,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        out.give_json(&root.engine().leftovers())?;
        Ok(CORACLE_OK)
    })
}

/// Removes the files that programs left in the root when they ended, and that removals left, as each open does.
///
/// *out_json: the files that stay, as of coracle_root_leftovers; free it with coracle_free.
///
/// Schemas: out_json leftovers.
///
/// Errors: ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_root_sweep(
    c: *mut coracle,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let engine = root.engine().clone();
        work(move |using| Answer::document(&using.done(engine.sweep())?))
    })
}

/// Copies the whole root, while containers run, into a directory that is absent or empty: a root of its own, in which no
/// container runs.
///
/// dir: path, any bytes. query_json: NULL, or an object with "pause" (default false: each file is copied in the state in
/// which the copy finds it; true: each container is frozen while its files are copied). *out_json: an object with
/// "Images", "Layers", "Files", "Bytes" (copied), "Shared" (bytes that both share), "Volumes" (names), "Containers" (a list of
/// {"Id", "Name", "Ran"}), and "Left": a list of {"Kind", "Name", "Reason"} of the parts that the copy does not have; free it
/// with coracle_free. Progress records go to op. A copy that fails leaves nothing; one whose program is killed leaves a
/// directory that no open takes for a root.
///
/// Schemas: query_json root-copy-query, out_json root-copy.
///
/// Errors: EINVALID (query_json; the directory lies in the root), ECONFLICT (the directory holds something), ECALLBACK,
/// ECANCELLED, ETIMEOUT, EIO (disk full).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until all is copied, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_root_copy(
    c: *mut coracle,
    dir: *const c_char,
    query_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let dir = arg::optional_path(dir).filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.ok_or_else(|| Failure::invalid("dir is NULL or empty"))?.to_owned();
        let how: CopyRoot = arg::object_or_default(query_json, "query_json", root.lenient())?;
        let engine = root.engine().clone();
        let copy = move |using: &Using| {
            let result = engine.snapshot_root(&dir, how, &mut |record| using.progress(&record), using.op());
            Answer::document(&using.done(result)?)
        };
        work(copy).map(Work::long)
    })
}

/// Imports the content of a dockerd, images, volumes of the driver local and stopped containers: out of its directory, while
/// no dockerd runs on it, or by its socket.
///
/// query_json: NULL, or an object with any of "directory" (default /var/lib/docker), "socket" (a path, in place of a
/// directory), "names" (a list of names and ids; default all). *out_json: an object with "Taken", a list of {"Kind",
/// "Name", "Id", "WasHere"}, and "Left", a list of {"Kind", "Name", "Reason"} of objects that were not taken, or in a part;
/// free it with coracle_free. Progress records go to op. Ids of images stay; objects that are in the root already stay as they
/// are.
///
/// Schemas: query_json docker-import-query, out_json docker-import.
///
/// Errors: EINVALID (query_json), ENOT_FOUND (no such directory, a name without an object), ECONFLICT (a dockerd runs
/// on the directory), ECALLBACK, ECANCELLED, ETIMEOUT (op), EIO (no such socket).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until all is taken, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_root_import_docker(
    c: *mut coracle,
    query_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let how: ImportDocker = arg::object_or_default(query_json, "query_json", root.lenient())?;
        let engine = root.engine().clone();
        let import = move |using: &Using| {
            let result = engine.import_docker(&how, &mut |record| using.progress(&record), using.op());
            Answer::document(&using.done(result)?)
        };
        work(import).map(Work::long)
    })
}
