//! Whole-file operations: locks that belong to a descriptor, holes.

use crate::error::{Error, Result};
use nix::fcntl::{FallocateFlags, FcntlArg, fallocate, fcntl};
use std::os::fd::AsFd;

/// Tries to take the exclusive lock on the first `length` bytes of `file`, owned by its open file description.
/// Answers false when another holds it.
pub(crate) fn try_lock(file: impl AsFd, length: i64) -> Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_WRLCK, length))) {
        Ok(_) => Ok(true),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(false),
        Err(errno) => Err(Error::os("lock", errno as i32)),
    }
}

/// Gives back what [`try_lock`] took.
pub(crate) fn unlock(file: impl AsFd, length: i64) -> Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK, length)))
        .map(|_| ())
        .map_err(|errno| Error::os("unlock", errno as i32))
}

fn range(kind: i32, length: i64) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: length, l_pid: 0 }
}

/// Gives the storage of `length` bytes at `offset` back; they read as zeros, the file keeps its size.
pub(crate) fn punch_hole(file: impl AsFd, offset: u64, length: u64) -> Result<()> {
    let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(file, how, offset as i64, length as i64).map_err(|errno| Error::os("punch a hole", errno as i32))
}
