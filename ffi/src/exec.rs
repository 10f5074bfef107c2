//! Exec: a second process in a running container.

use crate::arg::{self, Out};
use crate::entry::Failure;
use crate::handle;
use crate::op::Using;
use crate::root::{Access, with_root};
use crate::session::{SessionObject, io};
use crate::types::*;
use coracle_http::Document;
use libc::c_char;

/// Prepares a process in a running container.
///
/// container: name or id. body_json: the body of POST /containers/{id}/exec ("Cmd", "AttachStdout", "Tty", ...).
/// *out_id: the exec instance's id; free it with coracle_free.
///
/// Errors: ENOT_FOUND (container), ECONFLICT (it is not running, or paused), EINVALID (no command).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_exec_create(
    c: *mut coracle,
    container: *const c_char,
    body_json: *const c_char,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_id, "out_id")?;
        let container = arg::text(container, "container")?;
        let (config, _) = arg::document(body_json, "body_json", Document::Exec, root.lenient())?;
        out.give_text(&root.engine().exec_create(container, &config)?)?;
        Ok(CORACLE_OK)
    })
}

/// Starts a prepared process.
///
/// io: NULL runs it detached (then out may be NULL, and *out is NULL); else its streams, of those that its body names.
/// *out: the session; end it with coracle_session_free.
///
/// Errors: ENOT_FOUND (exec instance), ECONFLICT (started already; the container is not running, or paused), EINVALID.
///
/// Threads: any. Blocks: until the process runs. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_exec_start(
    c: *mut coracle,
    exec_id: *const c_char,
    io: *const coracle_io,
    op: *mut coracle_op,
    out: *mut *mut coracle_session,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::optional(out, std::ptr::null_mut());
        let id = arg::text(exec_id, "exec_id")?;
        let io = self::io(io)?;
        if io.is_some() && out.is_null() {
            return Err(Failure::invalid("out is NULL: with io there is a session to give out"));
        }
        let using = Using::new(op)?;
        let session = using.done(root.engine().exec_start(id, io, using.op()))?;
        if let Some(session) = session {
            out.set(handle::give(SessionObject::new(session)));
        }
        Ok(CORACLE_OK)
    })
}

/// Everything about an exec instance.
///
/// *out_json: the document of GET /exec/{id}/json; free it with coracle_free.
///
/// Errors: ENOT_FOUND.
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_exec_inspect(
    c: *mut coracle,
    exec_id: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        out.give_json(&root.engine().exec_inspect(arg::text(exec_id, "exec_id")?)?)?;
        Ok(CORACLE_OK)
    })
}
