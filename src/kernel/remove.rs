//! Removing a tree: whatever a container made of it, as far as the kernel lets it.
//!
//! Trees of any depth go with few descriptors ([`super::walk`]). What is mounted in a tree is never removed with it. A
//! file or directory that its flags keep (immutable, append only) loses them. What cannot be removed keeps nothing else:
//! all the rest goes, and the first error is answered at the end.

use super::tree::{self, rmdir_at, unlink_at};
use super::walk::{Mounts, Order, Step, Walk, shown};
use crate::error::{Error, Result};
use crate::walls::Wall;
use std::os::fd::{AsFd, BorrowedFd};

/// How often a directory is gone into again in which others made something meanwhile, in one removal.
const AGAIN: u32 = 64;

/// Removes `name` of `dir` with everything below it; not there is no error. Links are removed, not followed.
///
/// Errors: something could not be removed. All that could is gone.
pub(crate) fn remove_tree(dir: BorrowedFd<'_>, name: impl AsRef<[u8]>) -> Result<()> {
    let name = name.as_ref();
    match unlink(dir, name) {
        Ok(()) => return Ok(()),
        // The answer of unlink to a directory: EISDIR on Linux, EPERM where the file system follows POSIX.
        Err(error) if error.raw_os_error() == Some(libc::EISDIR) => {}
        Err(error) if error.raw_os_error() == Some(libc::EPERM) && is_dir(dir, name) => {}
        Err(error) => return Err(error),
    }
    let mut left = AGAIN;
    loop {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let how = libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV;
        let top = match super::path::openat2(dir, name, flags, 0, how) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
            other => other.map_err(|error| in_the_way(error, name))?,
        };
        Removal { left: &mut left, failed: None }.all(top.as_fd())?;
        match rmdir(dir, name, Some(top.as_fd())) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTEMPTY) && left > 0 => left -= 1,
            other => return other,
        }
    }
}

struct Removal<'a> {
    /// See [`AGAIN`].
    left: &'a mut u32,
    /// The first failure. The directories that hold the file stay, which is no error of their own.
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
                // It has become one meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::EISDIR) => {}
                done => return done,
            }
        }
        match walk.open()? {
            Some(dir) => walk.enter(dir),
            None => unlink(walk.dir()?, walk.name()),
        }
    }

    fn left(&mut self, walk: &mut Walk<'_>) -> Result<()> {
        // Its parents could not be found again: they are gone, or whoever looks at them again finds it.
        let Ok(dir) = walk.dir() else { return Ok(()) };
        match rmdir(dir, walk.name(), walk.left()) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTEMPTY) => {
                if self.failed.is_some() {
                    return Ok(());
                }
                // A monitor that has ended may still be compressing its log, for as long as it finds the directory.
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

/// unlinkat of what is no directory; gone already is no error.
fn unlink(dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    gone(unlink_at(dir, name).or_else(|error| match error.raw_os_error() {
        Some(libc::EPERM) if !is_dir(dir, name) && unfreeze(dir, name)? => unlink_at(dir, name),
        _ => Err(error),
    }))
}

/// unlinkat of an empty directory; gone already is no error.
fn rmdir(dir: BorrowedFd<'_>, name: &[u8], itself: Option<BorrowedFd<'_>>) -> Result<()> {
    gone(rmdir_at(dir, name).or_else(|error| {
        let frozen = |fd: BorrowedFd<'_>| Wall::FlagsLifted.stands() && tree::unfreeze(fd).unwrap_or(false);
        match error.raw_os_error() {
            Some(libc::EPERM) if itself.is_some_and(frozen) | frozen(dir) => rmdir_at(dir, name),
            _ => Err(error),
        }
    }))
}

/// Takes the flags away that keep `name`, or anything, in `dir`. Answers whether there were any.
fn unfreeze(dir: BorrowedFd<'_>, name: &[u8]) -> Result<bool> {
    if !Wall::FlagsLifted.stands() {
        return Ok(false);
    }
    let above = tree::unfreeze(dir).unwrap_or(false);
    // Only what cannot act when it is opened; nothing else can have such flags.
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
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

/// The error of something that stays.
fn in_the_way(error: Error, path: &[u8]) -> Error {
    match error.raw_os_error() {
        Some(libc::EXDEV | libc::EBUSY) => Error::os(format_args!("remove {}: a mount", shown(path)), libc::EBUSY),
        Some(errno) => Error::os(format_args!("remove {}", shown(path)), errno),
        None => error,
    }
}

#[cfg(test)]
mod tests;
