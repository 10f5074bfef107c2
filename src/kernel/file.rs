//! Whole-file operations: creation in one step, locks that belong to a descriptor, holes.

use super::turn;
use crate::error::{Error, Result};
use crate::hex::random_bytes;
use nix::fcntl::{FallocateFlags, FcntlArg, fallocate, fcntl};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The text of a file that the kernel generates when it is read. Such a file has no size, and a reader that begins with
/// a small buffer would need one system call for each doubling.
pub(crate) fn read_text(path: impl AsRef<Path>) -> std::io::Result<String> {
    read_again(&File::open(path)?)
}

/// Like [`read_text`], for bytes that need not be text.
pub(crate) fn read_bytes(path: impl AsRef<Path>) -> std::io::Result<Vec<u8>> {
    read_all(&File::open(path)?)
}

/// The text of such a file from its beginning, even if it was read before.
pub(crate) fn read_again(file: &File) -> std::io::Result<String> {
    String::from_utf8(read_all(file)?).map_err(|e| std::io::Error::new(ErrorKind::InvalidData, e))
}

/// Reads such a file from its beginning into `buffer`, which grows as needed; returns the length. Takes one system call
/// if the buffer is larger than the text. Only for files that the kernel generates in one piece (those of control
/// groups): a read that does not fill the buffer has all of the text.
pub(crate) fn read_piece(file: &File, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    const ROOM: usize = 4096;
    buffer.resize(buffer.len().max(ROOM), 0);
    loop {
        match file.read_at(buffer, 0) {
            Ok(count) if count < buffer.len() => return Ok(count),
            Ok(count) => buffer.resize(2 * count, 0),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// A whole file from its beginning.
pub(crate) fn read_all(file: &File) -> std::io::Result<Vec<u8>> {
    const ROOM: usize = 4096;
    let mut bytes = vec![0; ROOM];
    let mut filled = 0;
    loop {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if filled == bytes.len() {
            bytes.resize(2 * filled, 0);
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// A whole file of at most `most` bytes; `None`: it does not exist. Errors: it is longer, or not a regular file.
pub(crate) fn read_bounded(path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
    let failed = |e: &std::io::Error| Error::io(format_args!("read {}", path.display()), e);
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = match opened {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| failed(&e))?,
    };
    let wrong = |what: &str| Error::invalid(format!("{}: {what}", path.display()));
    if !file.metadata().map_err(|e| failed(&e))?.is_file() {
        return Err(wrong("no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(|e| failed(&e))?;
    if bytes.len() as u64 > most { Err(wrong("it is too long")) } else { Ok(Some(bytes)) }
}

/// Makes a file (mode 0600) with its content, whole or not at all, and durably if `sync`. A file that exists, or that
/// another program makes meanwhile, is left alone.
pub(crate) fn make_once(path: &Path, content: &[u8], sync: bool) -> Result<()> {
    let failed = |e: &std::io::Error| Error::io(format_args!("make {}", path.display()), e);
    let random = random_bytes()?;
    let dir = path.parent().unwrap_or(Path::new("."));
    let staged = dir.join(format!(".new-{:016x}", u64::from_ne_bytes(random)));
    let made = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged)?;
        file.write_all(content)?;
        if sync {
            file.sync_all()?;
        }
        std::fs::hard_link(&staged, path)
    })();
    let _ = std::fs::remove_file(&staged);
    match made {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(()),
        other => other.map_err(|e| failed(&e))?,
    }
    if sync {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(|e| failed(&e))?;
    }
    Ok(())
}

/// Tries to take the exclusive lock on the first `length` bytes of `file`, owned by its open file description. Returns
/// false if another one holds a lock there.
pub(crate) fn try_lock(file: impl AsFd, length: i64) -> Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_WRLCK, length))) {
        Ok(_) => Ok(true),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(false),
        Err(errno) => Err(Error::os("lock", errno as i32)),
    }
}

/// Releases the lock of [`try_lock`].
pub(crate) fn unlock(file: impl AsFd, length: i64) -> Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK, length)))
        .map(|_| ())
        .map_err(|errno| Error::os("unlock", errno as i32))
}

/// Tries to take the exclusive lock on byte `at` of `file`, owned by its open file description. Returns false if
/// another one has a lock on it.
pub(crate) fn try_lock_byte(file: impl AsFd, at: u64) -> Result<bool> {
    try_byte(file.as_fd(), at, libc::F_WRLCK)
}

/// Takes that lock, waiting for other holders. Errors: they hold it too long; the error names it `what`.
pub(crate) fn lock_byte(file: impl AsFd, at: u64, what: impl std::fmt::Display) -> Result<()> {
    let file = file.as_fd();
    turn::wait_for(what, turn::LONGEST, None, || Ok(try_byte(file, at, libc::F_WRLCK)?.then_some(())))
}

fn try_byte(file: BorrowedFd<'_>, at: u64, kind: i32) -> Result<bool> {
    let lock = libc::flock { l_start: at as i64, ..range(kind, 1) };
    loop {
        match fcntl(file, FcntlArg::F_OFD_SETLK(&lock)) {
            Ok(_) => return Ok(true),
            Err(nix::errno::Errno::EINTR) => {}
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => return Ok(false),
            Err(errno) => return Err(Error::os("lock", errno as i32)),
        }
    }
}

/// Releases the lock of [`lock_byte`].
pub(crate) fn unlock_byte(file: impl AsFd, at: u64) -> Result<()> {
    let lock = libc::flock { l_start: at as i64, ..range(libc::F_UNLCK, 1) };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).map(|_| ()).map_err(|errno| Error::os("unlock", errno as i32))
}

/// Whether another open file description holds byte `at` locked.
pub(crate) fn byte_is_locked(file: impl AsFd, at: u64) -> Result<bool> {
    others_hold(file, at, 1)
}

/// Whether another open file description holds a byte of `bytes` locked.
pub(crate) fn range_is_locked(file: impl AsFd, bytes: std::ops::Range<u64>) -> Result<bool> {
    Ok(!bytes.is_empty() && others_hold(file, bytes.start, bytes.end - bytes.start)?)
}

/// Whether another open file description holds any byte of `file` locked.
pub(crate) fn is_locked(file: impl AsFd) -> Result<bool> {
    others_hold(file, 0, 0)
}

/// To the kernel a length of 0 means all bytes that follow.
fn others_hold(file: impl AsFd, at: u64, length: u64) -> Result<bool> {
    let mut lock = libc::flock { l_start: at as i64, ..range(libc::F_WRLCK, length as i64) };
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock)).map_err(|errno| Error::os("test a lock", errno as i32))?;
    Ok(lock.l_type != libc::F_UNLCK as i16)
}

/// Takes a shared lock on byte `at`, which only an exclusive lock prevents. Errors: another holds an exclusive one too
/// long; the error names it `what`.
pub(crate) fn share_byte(file: impl AsFd, at: u64, what: impl std::fmt::Display) -> Result<()> {
    let file = file.as_fd();
    turn::wait_for(what, turn::LONGEST, None, || Ok(try_byte(file, at, libc::F_RDLCK)?.then_some(())))
}

fn range(kind: i32, length: i64) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: 0, l_len: length, l_pid: 0 }
}

/// Frees the storage of `length` bytes at `offset`: they read as zeros, and the file keeps its size.
pub(crate) fn punch_hole(file: impl AsFd, offset: u64, length: u64) -> Result<()> {
    let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(file, how, offset as i64, length as i64).map_err(|errno| Error::os("punch a hole", errno as i32))
}
