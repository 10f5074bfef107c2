//! Descriptors: opening, polling, passing. Everything is made close-on-exec.

use crate::error::{Error, Result};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The last system call's errno.
pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// A path or name as a C string. Errors: the text has a NUL.
pub(crate) fn cstr(text: impl AsRef<[u8]>) -> Result<CString> {
    CString::new(text.as_ref()).map_err(|_| Error::invalid("a name holds a NUL byte"))
}

fn owned(fd: i64, what: impl std::fmt::Display) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(Error::os(what, errno()));
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Occupies those of the descriptors 0 to 2 that are closed, for as long as the returned descriptors live.
///
/// A host without standard output may print all the same: its text must not go into a file of ours that got the number.
/// The descriptor that stands there now takes no bytes (`O_PATH`), so such a host gets the same error as before. SQLite
/// would put a descriptor there too, for the same reason, but one that is inherited and stays.
pub(crate) fn occupy_standard_places() -> Result<Vec<OwnedFd>> {
    let mut held = Vec::new();
    // SAFETY: no pointers are passed.
    while held.len() < 3 && (0..3).any(|fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0) {
        // SAFETY: the path is NUL-terminated.
        let fd = owned(unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) }.into(), "open /")?;
        if fd.as_raw_fd() > 2 {
            break;
        }
        held.push(fd);
    }
    Ok(held)
}

/// A new eventfd, not signalled.
pub(crate) fn eventfd() -> Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) } as i64, "eventfd")
}

/// Makes an eventfd readable. Async-signal-safe.
pub(crate) fn eventfd_signal(fd: BorrowedFd<'_>) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: the buffer lives over the call. A full counter is readable already, so the result does not matter.
    unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// A descriptor that is readable from its beginning, for a program that polls for something that has happened already.
pub(crate) fn readable() -> Result<OwnedFd> {
    let ready = eventfd()?;
    eventfd_signal(ready.as_fd());
    Ok(ready)
}

/// Another descriptor of the same file.
pub(crate) fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    fd.try_clone_to_owned().map_err(|error| Error::io("duplicate a descriptor", &error))
}

/// poll(2) over (descriptor, events); returns the events in the same order, all 0 for an interrupted call.
pub(crate) fn poll(set: &[(RawFd, i16)], millis: i32) -> Result<Vec<i16>> {
    let mut fds: Vec<libc::pollfd> = set.iter().map(|&(fd, events)| libc::pollfd { fd, events, revents: 0 }).collect();
    // SAFETY: the vector is valid for its length over the call.
    let got = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) };
    if got < 0 && errno() != libc::EINTR {
        return Err(Error::os("poll", errno()));
    }
    Ok(fds.iter().map(|fd| if got < 0 { 0 } else { fd.revents }).collect())
}
