//! Sessions: a process's standard streams in the caller's hands.

use crate::answer::{Answer, Outs, Wait};
use crate::arg::{self, Out};
use crate::attached::SessionObject;
use crate::call::call_without_root;
use crate::entry::{enter, enter_count, enter_number};
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Ref};
use crate::op;
use crate::reader::only_one;
use crate::types::*;
use crate::work::{wait, work};
use engine::{Channel, Io, SessionRead};
use libc::c_void;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

/// The caller's wishes for a process's streams; `None` for NULL.
pub(crate) fn io(pointer: *const coracle_io) -> Outcome<Option<Io>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: coracle_io is a sized struct of integers.
    let given = unsafe { arg::sized(pointer, "io") }?;
    arg::flags(given.flags, CORACLE_IO_DIRECT, "io.flags")?;
    Ok(Some(Io {
        stdin: arg::duplicate(given.fd_in, "io.fd_in")?,
        stdout: arg::duplicate(given.fd_out, "io.fd_out")?,
        stderr: arg::duplicate(given.fd_err, "io.fd_err")?,
        rows: given.rows,
        cols: given.cols,
        direct: given.flags & CORACLE_IO_DIRECT != 0,
    }))
}

fn channel(number: i32) -> Outcome<Channel> {
    match number {
        CORACLE_STDIN => Ok(Channel::Stdin),
        CORACLE_STDOUT => Ok(Channel::Stdout),
        CORACLE_STDERR => Ok(Channel::Stderr),
        _ => Err(Failure::invalid("channel is not one of CORACLE_STDIN, CORACLE_STDOUT, CORACLE_STDERR")),
    }
}

fn absent() -> Failure {
    Failure::new(engine::ErrorKind::NotFound, "the session does not have that stream")
}

/// Gets the session's end of a stream, for poll, epoll and select, or to be read or written directly: stdin is a socket (send
/// with MSG_NOSIGNAL), stdout and stderr are pipes.
///
/// Borrowed: valid until it is taken or the session freed. Returns a code below 0 where the session does not have it
/// (not attached, taken, the caller's own descriptor, or stderr of a terminal).
///
/// Errors: EINVALID (channel), ENOT_FOUND (the session does not have it).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_session_fd(s: *mut coracle_session, channel: i32) -> i32 {
    enter_number(|| {
        let object = handle::get::<SessionObject>(s, "session")?;
        let session = object.session();
        session.fd(self::channel(channel)?).map(|fd| fd.as_raw_fd()).ok_or_else(absent)
    })
}

/// Transfers a stream's descriptor to the caller, who must close the descriptor. The session no longer has that stream.
///
/// Returns the descriptor (close-on-exec), or a code below 0: CORACLE_ENOT_FOUND where the session does not have it,
/// CORACLE_EMISUSE while another thread uses the session.
///
/// Errors: EINVALID (channel), ENOT_FOUND (the session does not have it).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_session_take_fd(s: *mut coracle_session, channel: i32) -> i32 {
    enter_number(|| {
        let object = handle::get::<SessionObject>(s, "session")?;
        let channel = self::channel(channel)?;
        let busy = |_| Failure::misuse("another thread is using the session");
        let mut session = object.session.try_write().map_err(busy)?;
        session.take_fd(channel).map(IntoRawFd::into_raw_fd).ok_or_else(absent)
    })
}

/// Reads output of the process, whichever stream has some.
///
/// *out_channel (may be NULL): CORACLE_STDOUT or CORACLE_STDERR. Returns how many bytes, 0 when every stream has ended, a
/// code below 0 on failure.
///
/// Errors: ECANCELLED, ETIMEOUT, ECALLBACK (op), EMISUSE (another thread reads), EINVALID.
///
/// Threads: one reader at a time, beside one writer. Blocks: until there is output, its end, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_session_read(
    s: *mut coracle_session,
    buf: *mut c_void,
    len: usize,
    op: *mut coracle_op,
    out_channel: *mut i32,
    err: *mut *mut coracle_error,
) -> i64 {
    let channel = Out::new(out_channel, 0);
    enter_count(err, || {
        let object = handle::get::<SessionObject>(s, "session")?;
        let buffer = arg::buffer(buf, len, "buf")?;
        if buffer.is_empty() {
            return Err(Failure::invalid("len is 0, which would look like the end"));
        }
        let using = op::blocking(op)?;
        let _only = only_one(&object.reading, "the session's output")?;
        match using.done(object.session().read(buffer, using.op()))? {
            SessionRead::Data(from, count) => {
                channel.set(from as i32);
                Ok(count)
            }
            SessionRead::End => Ok(0),
        }
    })
}

/// Writes to the process's stdin.
///
/// Returns how many bytes went, which may be fewer than `len`, or a code below 0 on failure.
///
/// Input that a process did not read before it closed its stdin is dropped.
///
/// Errors: EIO with errno EPIPE (the process ended; no signal is raised), EMISUSE (the session has no stdin, or another
/// thread writes), ECANCELLED, ETIMEOUT, ECALLBACK (op), EINVALID.
///
/// Threads: one writer at a time, beside one reader. Blocks: until the process took something, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_session_write(
    s: *mut coracle_session,
    buf: *const c_void,
    len: usize,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> i64 {
    enter_count(err, || {
        let object = handle::get::<SessionObject>(s, "session")?;
        let data = arg::bytes(buf, len, "buf")?;
        let using = op::blocking(op)?;
        let _only = only_one(&object.writing, "the session's stdin")?;
        if data.is_empty() {
            return Ok(0);
        }
        using.done(object.session().write(data, using.op()))
    })
}

/// Ends the process's stdin: the process reads the bytes that were written, then the end, whatever "StdinOnce" says. A caller
/// that took the descriptor (coracle_session_take_fd) closes it after this call. If a session is freed, the stdin of a process
/// without "StdinOnce" stays open.
///
/// Errors: none but those of every function.
///
/// Threads: any; the writer. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_session_close_stdin(
    s: *mut coracle_session,
    err: *mut *mut coracle_error,
) -> coracle_status {
    enter(err, || {
        let object = handle::get::<SessionObject>(s, "session")?;
        object.session().close_stdin()?;
        Ok(CORACLE_OK)
    })
}

/// Sets the size of the process's terminal; does nothing where it has none.
///
/// Errors: ECONFLICT (the process has ended).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_session_resize(
    s: *mut coracle_session,
    rows: u16,
    cols: u16,
    err: *mut *mut coracle_error,
) -> coracle_status {
    enter(err, || {
        let object = handle::get::<SessionObject>(s, "session")?;
        object.session().resize(rows, cols)?;
        Ok(CORACLE_OK)
    })
}

/// Waits for the process's end.
///
/// The wait is for the run in which the session began, also if the container was started again before the wait; after an attach
/// that waits for a start, for the next run. Each of several waits gets the code, at once and later.
///
/// *out_code: 0 to 255; 128 + n for a process that signal n ended.
///
/// Errors: ECANCELLED, ETIMEOUT, ECALLBACK (op).
///
/// Threads: any. Blocks: until the process ends, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_session_wait(
    s: *mut coracle_session,
    op: *mut coracle_op,
    out_code: *mut i32,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call_without_root(op, Outs::none().code(out_code), err, &mut |using| {
        let object = handle::get::<SessionObject>(s, "session")?;
        if using.is_nonblocking() {
            let fd = object.session().end_fd()?;
            return wait(EndOfSession { object, fd, before: None });
        }
        work(move |using| Ok(Answer::code(using.done(object.session().wait(using.op()))?)))
    })
}

/// The end of a session's process, for a program that polls for it.
struct EndOfSession {
    object: Ref<SessionObject>,
    fd: OwnedFd,
    /// The descriptor of the last step, which the poll set has until the step is over.
    before: Option<OwnedFd>,
}

impl Wait for EndOfSession {
    fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    fn step(&mut self) -> Outcome<Option<Answer>> {
        let code = self.object.session().try_wait()?;
        if code.is_none() {
            // The run may have begun, and its end has another descriptor then.
            let fd = self.object.session().end_fd()?;
            self.before = Some(std::mem::replace(&mut self.fd, fd));
        }
        Ok(code.map(Answer::code))
    }
}

/// Ends a session: detaches from the process, which runs on. NULL is fine.
///
/// Threads: any, and last. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_session_free(s: *mut coracle_session) {
    crate::entry::enter_void(|| handle::free::<SessionObject>(s));
}
