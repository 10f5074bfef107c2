//! Exec: a second process in a running container.

use crate::answer::{Answer, Outs, Wait};
use crate::arg::{self, Out};
use crate::call::call;
use crate::failure::Outcome;
use crate::root::{Access, with_root};
use crate::session::io;
use crate::text::Text;
use crate::types::*;
use crate::work::{wait, work};
use coracle_http::Document;
use engine::ExecWait;
use libc::c_char;
use std::os::fd::{AsRawFd, RawFd};

/// Prepares a process in a running container.
///
/// id: that of the container. body_json: the body of POST /containers/{id}/exec ("Cmd", "AttachStdout", "Tty", ...).
/// *out_id: the exec instance's id; free it with coracle_free.
///
/// Schemas: body_json exec-create.
///
/// Errors: ENOT_FOUND (container), ECONFLICT (the container is not running, or is paused), EINVALID (no command).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_exec_create(
    c: *mut coracle,
    id: *const c_char,
    body_json: *const c_char,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_id);
    with_root(c, Access::Change, err, |root| {
        out.check("out_id")?;
        let container = arg::text(id, "id")?;
        let (config, _) = arg::document(body_json, "body_json", Document::Exec, root.lenient())?;
        out.give(Text::new(&root.engine().exec_create(container, &config)?)?);
        Ok(CORACLE_OK)
    })
}

/// Starts a prepared process.
///
/// io: NULL runs it detached (then out may be NULL, and *out is NULL); else its streams, of those that its body names.
/// *out: the session; end it with coracle_session_free.
///
/// Errors: ENOT_FOUND (exec instance), ECONFLICT (started already; the container is not running, or paused), EINVALID
/// (its command is not there, or cannot run), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: until the process runs. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_exec_start(
    c: *mut coracle,
    id: *const c_char,
    io: *const coracle_io,
    op: *mut coracle_op,
    out: *mut *mut coracle_session,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let outs = Outs::none().session(out, !io.is_null());
    call(c, Access::Change, op, outs, err, &mut |root| {
        let (id, io) = (arg::owned(id, "id")?, self::io(io)?);
        let engine = root.engine().clone();
        work(move |using| {
            let session = using.done(engine.exec_start(&id, io, using.op()))?;
            Ok(Answer::done().and_session(session))
        })
    })
}

/// Waits for the end of an exec instance.
///
/// *out_code: its exit code: 0 to 255; 128 + n if signal n ended it; 137 if it ended with its container. The exec instance may
/// be started after a wait began.
///
/// Errors: ENOT_FOUND, ECANCELLED, ETIMEOUT, ECALLBACK (op).
///
/// Threads: any. Blocks: until the process has ended, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_exec_wait(
    c: *mut coracle,
    id: *const c_char,
    op: *mut coracle_op,
    out_code: *mut i32,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Read, op, Outs::none().code(out_code), err, &mut |root| {
        wait(EndOfExec(root.engine().exec_wait_begin(arg::text(id, "id")?)?))
    })
}

/// The end of an exec instance.
struct EndOfExec(ExecWait);

impl Wait for EndOfExec {
    fn fd(&self) -> RawFd {
        self.0.fd().as_raw_fd()
    }

    fn step(&mut self) -> Outcome<Option<Answer>> {
        Ok(self.0.try_wait()?.map(Answer::code))
    }
}

/// Describes an exec instance in full.
///
/// *out_json: the document of GET /exec/{id}/json; free it with coracle_free.
///
/// Schemas: out_json exec.
///
/// Errors: ENOT_FOUND.
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_exec_inspect(
    c: *mut coracle,
    id: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        out.give_json(&root.engine().exec_inspect(arg::text(id, "id")?)?)?;
        Ok(CORACLE_OK)
    })
}
