//! Confined walks: openat2 from a directory descriptor, never a path by string concatenation.

use super::fd::{cstr, errno};
use crate::error::{Error, Result};
use crate::walls::Wall;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// How [`openat2`] resolves: links inside the directory, none leaving it, no magic links.
pub(crate) const IN_ROOT: u64 = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
/// How often a path is walked again if directories above it are renamed meanwhile, and the pause after some of these
/// walks.
const RENAMES: u32 = 10_000;
const RENAMING: std::time::Duration = std::time::Duration::from_micros(200);

/// No symbolic link anywhere, and never above the directory.
pub(crate) const BENEATH_NO_LINKS: u64 =
    libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;

/// A path with `.`, `..`, empty parts and a trailing slash resolved by its text alone; the answer is absolute.
pub(crate) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

/// openat2(2); always close-on-exec. `mode` counts only with `O_CREAT` or `O_TMPFILE`.
pub(crate) fn openat2(
    dir: BorrowedFd<'_>,
    path: impl AsRef<[u8]>,
    flags: i32,
    mode: u32,
    resolve: u64,
) -> Result<OwnedFd> {
    let path = cstr(if Wall::ResolveInRoot.stands() { path.as_ref() } else { below(path.as_ref()) })?;
    // SAFETY: open_how is plain data for which all zeroes is valid.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC) as u64;
    how.mode = u64::from(mode);
    how.resolve = if Wall::ResolveInRoot.stands() { resolve } else { resolve & !IN_ROOT };
    let mut tries = 0u32;
    loop {
        // SAFETY: path and how live over the call; size is that of how.
        let fd = unsafe {
            libc::syscall(libc::SYS_openat2, dir.as_raw_fd(), path.as_ptr(), &raw mut how, size_of::<libc::open_how>())
        };
        if fd >= 0 {
            // SAFETY: the kernel just gave us this descriptor.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) });
        }
        match errno() {
            libc::EINTR => {}
            // A rename raced with the walk; the kernel asks to try again. The number of tries is limited, because
            // somebody may rename for ever.
            libc::EAGAIN if tries < RENAMES => {
                tries += 1;
                if tries.is_multiple_of(16) {
                    std::thread::sleep(RENAMING);
                }
            }
            libc::EAGAIN => {
                let what =
                    format_args!("open {} while directories above it are renamed all the time", path.to_string_lossy());
                return Err(Error::os(what, libc::EAGAIN));
            }
            error => return Err(Error::os(format_args!("open {}", path.to_string_lossy()), error)),
        }
    }
}

/// A path without leading slashes. If a test switches the wall off, links lead out of a directory; the path itself
/// still does not, which protects the machine.
fn below(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|&byte| byte != b'/').unwrap_or(path.len());
    if start == path.len() { b"." } else { &path[start..] }
}
