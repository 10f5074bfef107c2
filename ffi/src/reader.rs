//! The object behind a stream: where its bytes or records come from, and the one reader's place among them.

use crate::failure::{Failure, Outcome};
use crate::handle::Object;
use crate::types::*;
use coracle_http::StreamEnd;
use engine::{Channel, ErrorKind, LogFormat, LogStream, Op, StatsStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The object behind a `coracle_stream *`.
pub(crate) struct Stream {
    pub(crate) fd: Option<i32>,
    reader: Mutex<Reader>,
}

impl Object for Stream {
    type Opaque = coracle_stream;
    const KIND: u64 = 5;
    const NAME: &'static str = "stream";
}

/// The one reader's place in a stream.
pub(crate) struct Reader {
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
pub(crate) struct Piece<'a> {
    pub(crate) channel: Channel,
    pub(crate) time_ns: i64,
    pub(crate) data: &'a [u8],
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

    /// Bytes that come out of a descriptor; `ending` says, at its end, whether they are all.
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

    pub(crate) fn reader(&self) -> Outcome<MutexGuard<'_, Reader>> {
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
    /// Reads bytes; 0 at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8], op: Option<&Op>) -> engine::Result<Outcome<usize>> {
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
    pub(crate) fn next(&mut self, op: Option<&Op>) -> engine::Result<Outcome<Option<Piece<'_>>>> {
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

    /// How many lines of a log were deleted before they were read.
    pub(crate) fn lost(&self) -> usize {
        match &self.source {
            Source::Log(log, _) => usize::try_from(log.lost()).unwrap_or(usize::MAX),
            _ => 0,
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

/// A new eventfd with that count: above 0 it is readable.
pub(crate) fn eventfd(count: u32) -> Outcome<OwnedFd> {
    // SAFETY: no pointers.
    match unsafe { libc::eventfd(count, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) } {
        // SAFETY: the kernel just made it for us.
        fd @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(engine::Error::io("eventfd", &std::io::Error::last_os_error()).into()),
    }
}
