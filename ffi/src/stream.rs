//! Streams out of the engine: bytes (an archive, an answer's body) or records (a log).

use crate::arg::{self, Out};
use crate::entry::{enter, enter_count, enter_number};
use crate::failure::Failure;
use crate::handle;
use crate::op;
use crate::reader::Stream;
use crate::types::*;
use engine::ErrorKind;
use libc::c_void;

/// Gets a descriptor that is readable while there may be something to read; for poll, epoll and select (level-triggered).
///
/// Borrowed: valid until coracle_stream_free. The bytes themselves come by coracle_stream_read or coracle_stream_next.
/// Returns a code below 0 on failure.
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_stream_fd(s: *mut coracle_stream) -> i32 {
    enter_number(|| {
        let stream = handle::get::<Stream>(s, "stream")?;
        stream.fd.ok_or_else(|| Failure::new(ErrorKind::Unsupported, "the stream has no descriptor"))
    })
}

/// Reads up to `len` bytes: of an archive or a body as they are, of a log its lines with both channels in one.
///
/// Returns how many bytes, 0 at the end, a code below 0 on failure. If the operation that writes the stream
/// failed, its error comes in place of the end.
///
/// Errors: ECANCELLED, ETIMEOUT, ECALLBACK (op), EMISUSE (another thread reads), EINVALID, those of the operation that writes
/// the stream.
///
/// Threads: one reader at a time. Blocks: until there is something, the end, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_stream_read(
    s: *mut coracle_stream,
    buf: *mut c_void,
    len: usize,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> i64 {
    enter_count(err, || {
        let stream = handle::get::<Stream>(s, "stream")?;
        let buffer = arg::buffer(buf, len, "buf")?;
        let using = op::blocking(op)?;
        let mut reader = stream.reader()?;
        using.done(reader.read(buffer, using.op()))?
    })
}

/// Gets the next record: a line of a log with its channel and time, or a piece of a body.
///
/// out: a coracle_frame with its size set. Returns CORACLE_OK with *out filled, CORACLE_DONE at the end.
///
/// Errors: as coracle_stream_read.
///
/// Threads: one reader at a time. Blocks: until there is a record, the end, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_stream_next(
    s: *mut coracle_stream,
    op: *mut coracle_op,
    out: *mut coracle_frame,
    err: *mut *mut coracle_error,
) -> coracle_status {
    enter(err, || {
        let stream = handle::get::<Stream>(s, "stream")?;
        // SAFETY: coracle_frame is a sized struct of integers and pointers.
        let given = unsafe { arg::sized(out, "out") }?;
        if given.size < size_of::<coracle_frame>() {
            return Err(Failure::invalid("out.size is too small"));
        }
        // The first version of the struct is the smallest: what a longer one has beyond it stays zero.
        let out = Out::new(out, coracle_frame { channel: 0, time_ns: 0, data: std::ptr::null(), len: 0, ..given });
        let using = op::blocking(op)?;
        let mut reader = stream.reader()?;
        let Some(piece) = using.done(reader.next(using.op()))?? else { return Ok(CORACLE_DONE) };
        out.set(coracle_frame {
            size: given.size,
            channel: piece.channel as i32,
            time_ns: piece.time_ns,
            data: piece.data.as_ptr(),
            len: piece.data.len(),
        });
        Ok(CORACLE_OK)
    })
}

/// Counts the lines of a log that this stream missed so far: its bounds (max-size, max-file) deleted them before they were
/// read. Other streams answer 0. A stream that follows a log and is read more slowly than the container writes loses lines, as
/// a container never waits for its readers.
///
/// Returns a code below 0 on failure.
///
/// Errors: EMISUSE (another thread reads).
///
/// Threads: one reader at a time. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_stream_lost(s: *mut coracle_stream) -> i64 {
    enter_count(std::ptr::null_mut(), || {
        let stream = handle::get::<Stream>(s, "stream")?;
        Ok(stream.reader()?.lost())
    })
}

/// Ends a stream, read to its end or not. NULL is fine.
///
/// Threads: any, and last. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_stream_free(s: *mut coracle_stream) {
    crate::entry::enter_void(|| handle::free::<Stream>(s));
}
