//! Removes trees, in any state in which a container left them, as far as the kernel permits.
//!
//! Trees of any depth need few descriptors ([`super::walk`]). The content of mounts in a tree is never removed. Flags
//! that protect a file or directory (immutable, append only) are cleared. If something cannot be removed, all the rest
//! is removed, and the first error is returned at the end.

use super::tree::{self, rmdir_at, unlink_at};
use super::walk::{Mounts, Order, Step, Walk, shown};
use crate::error::{Error, Result};
use crate::walls::Wall;
use std::os::fd::{AsFd, BorrowedFd};

/// How often one removal enters a directory again in which others made files meanwhile.
const AGAIN: u32 = 64;

/// Removes `name` of `dir` with everything below it; a missing name is not an error. Links are removed, not followed.
///
/// Errors: something could not be removed. Everything else was.
pub(crate) fn remove_tree(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>) -> Result<()> {
    let name = name.as_ref();
    match unlink(dir, name) {
        Ok(()) => return Ok(()),
        // The error of unlink for a directory: EISDIR on Linux, EPERM on file systems that follow POSIX.
        Err(error) if error.is(libc::EISDIR) => {}
        Err(error) if error.is(libc::EPERM) && is_dir(dir, name) => {}
        Err(error) => return Err(error),
    }
    let mut left = AGAIN;
    loop {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let how = libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV;
        let top = match super::path::openat2(dir, name, flags, 0, how) {
            Err(error) if error.is(libc::ENOENT) => return Ok(()),
            other => other.map_err(|error| in_the_way(error, name))?,
        };
        Removal { left: &mut left, failed: None }.all(top.as_fd())?;
        match rmdir(dir, name, Some(top.as_fd())) {
            Err(error) if error.is(libc::ENOTEMPTY) && left > 0 => left -= 1,
            other => return other,
        }
    }
}

struct Removal<'a> {
    /// See [`AGAIN`].
    left: &'a mut u32,
    /// The first error. Directories that stay because they hold the file add no error.
    failed: Option<Error>,
}

impl Removal<'_> {
    fn all(mut self, top: BorrowedFd<'_>) -> Result<()> {
        let mut walk = Walk::new(top, Order::AsRead, Mounts::Kept)?;
        while let Some(step) = walk.next()? {
            let done = match step {
                Step::Entry => self.entry(&mut walk),
                Step::Left => self.left(&mut walk),
            };
            if let Err(error) = done {
                self.failed.get_or_insert_with(|| in_the_way(error, walk.path()));
            }
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn entry(&mut self, walk: &mut Walk<'_>) -> Result<()> {
        if !walk.is_dir() {
            match unlink(walk.dir()?, walk.name()) {
                // The name has become a directory meanwhile.
                Err(error) if error.is(libc::EISDIR) => {}
                done => return done,
            }
        }
        match walk.open()? {
            Some(dir) => walk.enter(dir),
            None => unlink(walk.dir()?, walk.name()),
        }
    }

    fn left(&mut self, walk: &mut Walk<'_>) -> Result<()> {
        // The parents could not be found again: they are gone, or the next look finds the rest.
        let Ok(dir) = walk.dir() else { return Ok(()) };
        match rmdir(dir, walk.name(), walk.left()) {
            Err(error) if error.is(libc::ENOTEMPTY) => {
                if self.failed.is_some() {
                    return Ok(());
                }
                // A monitor that has ended may still be compressing its log, as long as it finds the directory.
                match walk.open()? {
                    Some(again) if *self.left > 0 => {
                        *self.left -= 1;
                        walk.enter(again)
                    }
                    Some(_) => Err(error),
                    None => Ok(()),
                }
            }
            done => done,
        }
    }
}

/// unlinkat of a name that is not a directory; a missing name is not an error.
fn unlink(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    gone(unlink_at(dir, name).or_else(|error| match error.raw_os_error() {
        Some(libc::EPERM) if !is_dir(dir, name) && unfreeze(dir, name)? => unlink_at(dir, name),
        _ => Err(error),
    }))
}

/// unlinkat of an empty directory; a missing name is not an error.
fn rmdir(dir: BorrowedFd<'_>, name: &[u8], itself: Option<BorrowedFd<'_>>) -> Result<()> {
    gone(rmdir_at(dir, name).or_else(|error| {
        let frozen = |fd: BorrowedFd<'_>| Wall::FlagsLifted.stands() && tree::unfreeze(fd).unwrap_or(false);
        match error.raw_os_error() {
            Some(libc::EPERM) if itself.is_some_and(frozen) | frozen(dir) => rmdir_at(dir, name),
            _ => Err(error),
        }
    }))
}

/// Clears the flags that protect `name`, or all names, in `dir`. Returns whether there were any.
fn unfreeze(dir: BorrowedFd<'_>, name: &[u8]) -> Result<bool> {
    if !Wall::FlagsLifted.stands() {
        return Ok(false);
    }
    let above = tree::unfreeze(dir).unwrap_or(false);
    // Only a regular file is opened: opening others may have effects, and others cannot have such flags.
    if !tree::stat_at(dir, name)?.is_some_and(|stat| stat.is_file()) {
        return Ok(above);
    }
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
    let itself = tree::open_at(dir, name, flags, 0).and_then(|file| tree::unfreeze(file.as_fd()));
    Ok(itself.unwrap_or(false) || above)
}

fn is_dir(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    tree::stat_at(dir, name).is_ok_and(|stat| stat.is_some_and(|stat| stat.is_dir()))
}

fn gone(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if error.is(libc::ENOENT) => Ok(()),
        other => other,
    }
}

/// The error about something that stays.
fn in_the_way(error: Error, path: &[u8]) -> Error {
    match error.raw_os_error() {
        Some(libc::EXDEV | libc::EBUSY) => Error::os(format_args!("remove {}: a mount", shown(path)), libc::EBUSY),
        Some(errno) => Error::os(format_args!("remove {}", shown(path)), errno),
        None => error,
    }
}

#[cfg(test)]
mod tests;
