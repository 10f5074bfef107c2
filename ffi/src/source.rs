//! Archives that the caller gives: by a function of its own, or by a descriptor.

use crate::failure::{Failure, Outcome};
use crate::types::*;
use crate::using::Using;
use libc::c_void;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};

/// Reads from a descriptor: a coracle_read_fn for functions of this library that take an archive.
///
/// user: the descriptor, as (void *)(intptr_t)fd. A function that gets this function reads the descriptor itself, by a
/// duplicate, and so may be called with CORACLE_OP_NONBLOCK. Returns how many bytes, 0 at the end, -errno on failure.
///
/// Threads: any. Blocks: as read(2) of the descriptor. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_read_fd(user: *mut c_void, buf: *mut c_void, len: usize) -> i64 {
    loop {
        // SAFETY: by the header the buffer is writable for its length.
        match unsafe { libc::read(descriptor(user), buf, len) } {
            count @ 0.. => return count as i64,
            _ => match io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) {
                libc::EINTR => {}
                errno => return -i64::from(errno),
            },
        }
    }
}

fn descriptor(user: *mut c_void) -> i32 {
    i32::try_from(user as isize).unwrap_or(-1)
}

/// An archive of the caller's.
pub(crate) struct Input {
    from: From,
    argument: &'static str,
}

enum From {
    Callback(unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> i64, *mut c_void),
    Descriptor(OwnedFd),
}

// SAFETY: the caller's function and its argument are used on the calling thread alone: `Input::source` refuses them for
// an operation that does not block.
unsafe impl Send for Input {}

impl Input {
    /// The archive that the arguments name; there must be one.
    pub(crate) fn new(function: coracle_read_fn, user: *mut c_void, argument: &'static str) -> Outcome<Input> {
        let call = function.ok_or_else(|| Failure::invalid(format!("{argument} is NULL")))?;
        let from = if call as usize == coracle_read_fd as *const () as usize {
            let missing = || Failure::invalid(format!("{argument}: user is not a descriptor"));
            From::Descriptor(crate::arg::duplicate(descriptor(user), argument)?.ok_or_else(missing)?)
        } else {
            From::Callback(call, user)
        };
        Ok(Input { from, argument })
    }

    /// The archive as a reader.
    pub(crate) fn source<'a>(&'a self, using: &'a Using) -> Outcome<Source<'a>> {
        if using.is_nonblocking() && matches!(self.from, From::Callback(..)) {
            let message = format!("{}: with CORACLE_OP_NONBLOCK it must be coracle_read_fd", self.argument);
            return Err(Failure::misuse(message));
        }
        Ok(Source { input: self, using, ended: None })
    }
}

/// The reader. Its operation is asked before each call: a slow source ends as soon as it gave something.
pub(crate) struct Source<'a> {
    input: &'a Input,
    using: &'a Using,
    ended: Option<Ended>,
}

/// Why nothing more is read.
enum Ended {
    Refused(i64),
    Engine(engine::Error),
}

impl Source<'_> {
    /// The outcome, with the reason for the end of the reading in place of the engine's error.
    pub(crate) fn done<T>(self, result: engine::Result<T>) -> Outcome<T> {
        match (result, self.ended) {
            (Err(_), Some(Ended::Refused(number))) => Err(Failure::callback(self.input.argument, number)),
            (Err(_), Some(Ended::Engine(error))) => self.using.done(Err(error)),
            (result, _) => self.using.done(result),
        }
    }

    fn fill(&self, buffer: &mut [u8]) -> Result<usize, Ended> {
        self.using.check().map_err(Ended::Engine)?;
        let count = match &self.input.from {
            // SAFETY: the header's contract for read functions; the buffer is writable for its length over the call.
            From::Callback(call, user) => unsafe { call(*user, buffer.as_mut_ptr().cast(), buffer.len()) },
            From::Descriptor(fd) => return self.read(fd, buffer).map_err(Ended::Engine),
        };
        usize::try_from(count).ok().filter(|&count| count <= buffer.len()).ok_or(Ended::Refused(count))
    }

    /// Reads a descriptor, which may be a pipe or a socket that gives nothing for long.
    fn read(&self, fd: &OwnedFd, buffer: &mut [u8]) -> engine::Result<usize> {
        use std::os::fd::AsFd;
        engine::Op::wait_readable(self.using.op(), fd.as_fd(), None)?;
        // SAFETY: the buffer is writable for its length over the call.
        let user = fd.as_raw_fd() as isize as *mut c_void;
        match unsafe { coracle_read_fd(user, buffer.as_mut_ptr().cast(), buffer.len()) } {
            count @ 0.. => Ok(count as usize),
            errno => Err(engine::Error::os("read the archive", i32::try_from(-errno).unwrap_or(libc::EIO))),
        }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ended_error = || io::Error::other("the source was ended");
        if self.ended.is_some() {
            return Err(ended_error());
        }
        self.fill(buffer).map_err(|ended| {
            self.ended = Some(ended);
            ended_error()
        })
    }
}
