//! Streams out of the engine: bytes (an archive, an answer's body) or records (a log).

use crate::arg::{self, Out};
use crate::entry::{Failure, Outcome, enter, enter_count, enter_number};
use crate::handle::{self, Object};
use crate::op::Using;
use crate::types::*;
use coracle_http::StreamEnd;
use engine::{Channel, ErrorKind, LogFormat, LogStream, Op, StatsStream};
use libc::c_void;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The object behind a `coracle_stream *`.
pub(crate) struct Stream {
    fd: Option<i32>,
    reader: Mutex<Reader>,
}

impl Object for Stream {
    type Opaque = coracle_stream;
    const KIND: u64 = 5;
    const NAME: &'static str = "stream";
}

/// The one reader's place in a stream.
struct Reader {
    source: Source,
    /// The bytes of the records that were fetched, one after the other, and how much of them was given out.
    data: Vec<u8>,
    given: usize,
    /// These records; the first one not given out is `next`, whose bytes may be given in part.
    records: Vec<Record>,
    next: usize,
}

/// A record among those that were fetched: up to where its bytes reach.
struct Record {
    end: usize,
    channel: Channel,
    time_ns: i64,
}

enum Source {
    Log(Box<LogStream>, LogFormat),
    Stats(Box<StatsStream>),
    Bytes(OwnedFd, Ending),
    /// Bytes that are all here, and a descriptor that is always readable.
    Memory {
        bytes: Vec<u8>,
        _ready: OwnedFd,
    },
}

/// How the maker of a stream's bytes ended; known before it closes its end.
#[derive(Clone)]
pub(crate) enum Ending {
    /// The end of a connection is the end of its bytes.
    Plain,
    /// The failure, if there was one.
    Own(Arc<Mutex<Option<Failure>>>),
    /// Whether the router sent all of it.
    Http(StreamEnd),
}

impl Ending {
    pub(crate) fn own() -> Ending {
        Ending::Own(Arc::default())
    }

    pub(crate) fn fail(&self, failure: Failure) {
        if let Ending::Own(slot) = self {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        }
    }

    fn result(&self) -> Outcome<()> {
        match self {
            Ending::Plain => Ok(()),
            Ending::Own(slot) => slot.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err),
            Ending::Http(end) if end.complete() == Some(true) => Ok(()),
            Ending::Http(_) => Err(Failure::new(ErrorKind::Internal, "the body broke off before its end")),
        }
    }
}

/// A record, or what is left of one.
struct Piece<'a> {
    channel: Channel,
    time_ns: i64,
    data: &'a [u8],
}

impl Stream {
    /// The records of a log, with what is to stand before each.
    pub(crate) fn log(log: LogStream, form: LogFormat) -> Stream {
        let fd = log.fd().map(|fd| fd.as_raw_fd());
        Stream::new(fd, Source::Log(Box::new(log), form))
    }

    /// Samples of the resources that a container uses, as documents.
    pub(crate) fn stats(stats: StatsStream) -> Stream {
        Stream::new(Some(stats.fd().as_raw_fd()), Source::Stats(Box::new(stats)))
    }

    /// Bytes that come out of a descriptor; `ending` tells, at its end, whether they are all.
    pub(crate) fn bytes(fd: OwnedFd, ending: Ending) -> Stream {
        Stream::new(Some(fd.as_raw_fd()), Source::Bytes(fd, ending))
    }

    /// Bytes that are all here.
    pub(crate) fn memory(bytes: Vec<u8>) -> Outcome<Stream> {
        let fd = eventfd(1)?;
        Ok(Stream::new(Some(fd.as_raw_fd()), Source::Memory { bytes, _ready: fd }))
    }

    fn new(fd: Option<i32>, source: Source) -> Stream {
        let reader = Reader { source, data: Vec::new(), given: 0, records: Vec::new(), next: 0 };
        Stream { fd, reader: Mutex::new(reader) }
    }

    fn reader(&self) -> Outcome<MutexGuard<'_, Reader>> {
        only_one(&self.reader, "the stream")
    }
}

/// The lock of a part that one thread at a time may use: held is misuse, not a reason to wait.
pub(crate) fn only_one<'a, T>(lock: &'a Mutex<T>, what: &str) -> Outcome<MutexGuard<'a, T>> {
    match lock.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Failure::misuse(format!("another thread is using {what}"))),
    }
}

impl Reader {
    fn read(&mut self, buffer: &mut [u8], op: Option<&Op>) -> engine::Result<Outcome<usize>> {
        if let Source::Bytes(fd, ending) = &self.source {
            let count = read_fd(fd, buffer, op)?;
            return Ok(if count == 0 && !buffer.is_empty() { ending.result().map(|()| 0) } else { Ok(count) });
        }
        while self.given >= self.data.len() {
            if buffer.is_empty() || !self.fetch(op)? {
                return Ok(Ok(0));
            }
        }
        let rest = &self.data[self.given..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(Ok(count))
    }

    /// Gets the next record, where it was not read in part what is left of it; `None` at the end.
    fn next(&mut self, op: Option<&Op>) -> engine::Result<Outcome<Option<Piece<'_>>>> {
        if let Source::Bytes(fd, ending) = &self.source {
            self.data.resize(64 * 1024, 0);
            let count = read_fd(fd, &mut self.data, op)?;
            self.data.truncate(count);
            return Ok(match count {
                0 => ending.result().map(|()| None),
                _ => Ok(Some(Piece { channel: Channel::Stdin, time_ns: 0, data: &self.data })),
            });
        }
        // Passes those whose bytes were read.
        while self.records.get(self.next).is_some_and(|record| record.end <= self.given && record.end > 0) {
            self.next += 1;
        }
        if self.next == self.records.len() && !self.fetch(op)? {
            return Ok(Ok(None));
        }
        let Some(record) = self.records.get(self.next) else { return Ok(Ok(None)) };
        let from = std::mem::replace(&mut self.given, record.end);
        self.next += 1;
        let data = &self.data[from..record.end];
        Ok(Ok(Some(Piece { channel: record.channel, time_ns: record.time_ns, data })))
    }

    /// Fetches records, when all were given out; false at the end.
    fn fetch(&mut self, op: Option<&Op>) -> engine::Result<bool> {
        let Reader { source, data, given, records, next } = self;
        data.clear();
        records.clear();
        (*given, *next) = (0, 0);
        let (log, form) = match source {
            Source::Log(log, form) => (log, *form),
            Source::Stats(stats) => {
                if let Some(sample) = stats.next(op)? {
                    serde_json::to_writer(&mut *data, &sample)
                        .map_err(|e| engine::Error::internal(format!("writing JSON: {e}")))?;
                    data.push(b'\n');
                }
                return Ok(self.is_one());
            }
            // One record, then the end.
            Source::Memory { bytes, .. } => {
                *data = std::mem::take(bytes);
                return Ok(self.is_one());
            }
            Source::Bytes(..) => return Ok(false),
        };
        loop {
            log.next_batch(None, op, &mut |line| {
                form.append(line, data);
                records.push(Record { end: data.len(), channel: line.channel, time_ns: line.time_ns });
                Ok(())
            })?;
            if !records.is_empty() || log.ended() {
                return Ok(!records.is_empty());
            }
        }
    }

    /// Makes one record of the bytes, unless there are none.
    fn is_one(&mut self) -> bool {
        let end = self.data.len();
        self.records.extend((end > 0).then_some(Record { end, channel: Channel::Stdin, time_ns: 0 }));
        end > 0
    }
}

fn read_fd(fd: &OwnedFd, buffer: &mut [u8], op: Option<&Op>) -> engine::Result<usize> {
    loop {
        Op::wait_readable(op, fd.as_fd(), None)?;
        // SAFETY: the buffer is writable for its length over the call.
        let count = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
        match usize::try_from(count) {
            Ok(count) => return Ok(count),
            Err(_) => match std::io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINTR) => continue,
                error if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                error => return Err(engine::Error::io("read a stream", &error)),
            },
        }
    }
}

/// A descriptor that is readable while something may be there to read; for poll and its kin (level-triggered).
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
/// Returns how many bytes, 0 at the end, a code below 0 on failure. A stream whose maker failed gives that error in
/// place of its end.
///
/// Errors: ECANCELLED, ETIMEOUT, ECALLBACK (op), EMISUSE (another thread reads), EINVALID, those of the maker.
///
/// Threads: one reader at a time. Blocks: until there is something, the end, or op ends it. Since: 0.1.
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
        let using = Using::blocking(op)?;
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
/// Threads: one reader at a time. Blocks: until there is a record, the end, or op ends it. Since: 0.1.
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
        let using = Using::blocking(op)?;
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

/// How many lines of a log this stream missed so far: its bounds (max-size, max-file) deleted them before they were read.
/// 0 of other streams. A stream that follows a log and is read more slowly than the container writes loses lines, as a
/// container never waits for its readers.
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
        let reader = stream.reader()?;
        Ok(match &reader.source {
            Source::Log(log, _) => usize::try_from(log.lost()).unwrap_or(usize::MAX),
            _ => 0,
        })
    })
}

/// Ends a stream, read to its end or not. NULL is fine.
///
/// Threads: any, and last. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_stream_free(s: *mut coracle_stream) {
    crate::entry::enter_void(|| handle::free::<Stream>(s));
}

/// A new eventfd with that count: above 0 it is readable.
pub(crate) fn eventfd(count: u32) -> Outcome<OwnedFd> {
    // SAFETY: no pointers.
    match unsafe { libc::eventfd(count, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) } {
        // SAFETY: the kernel just made it for us.
        fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(engine::Error::io("eventfd", &std::io::Error::last_os_error()).into()),
    }
}
