//! Mounts that hide paths of the container or make them read-only.

use super::attributes::{Change, Way};
use super::tree::{Tree, is_directory};
use crate::fault::{Outcome, Step, errno, os};
use crate::sys::{self, *};
use crate::walls::Wall;

/// The files that are mounted over others, once they are open; below 0 if they are not.
pub struct Covers {
    /// The host's `/dev/null`.
    null: i32,
    /// An empty mount that hides a directory; more are copies of it.
    empty: i32,
}

impl Covers {
    pub const NONE: Covers = Covers { null: -1, empty: -1 };

    /// Hides a path: an empty read-only tmpfs over a directory, the host's `/dev/null` over anything else.
    pub fn mask(&mut self, way: Way, tree: &Tree, path: &[u8], label: &[u8]) -> Step {
        let Some(at) = tree.find(path)? else { return Ok(()) };
        let is_directory = is_directory(at)?;
        let cover = if is_directory { self.empty_dir(label)? } else { self.null_file()? };
        // A directory's cover was made read-only.
        let change = if is_directory { Change::NONE } else { Change::READ_ONLY };
        way.attach(cover, &[change], || os(sys::move_mount(cover, at)))?;
        if cover != self.empty {
            sys::close(cover);
        }
        sys::close(at);
        Ok(())
    }

    /// An empty read-only directory: one file system for all directories that are hidden.
    fn empty_dir(&mut self, label: &[u8]) -> Outcome<i32> {
        if self.empty >= 0 {
            // A copy of the first one, which stands in this mount namespace by now.
            return os(sys::open_tree(self.empty, b"\0", AT_EMPTY_PATH | 1));
        }
        self.empty = new_empty(label)?;
        Ok(self.empty)
    }

    /// A mount of the host's `/dev/null`, which is checked before it is trusted.
    fn null_file(&mut self) -> Outcome<i32> {
        if self.null < 0 {
            self.null = os(sys::openat(AT_FDCWD, b"/dev/null\0", O_PATH | O_NOFOLLOW, 0))?;
            is_null(self.null)?;
        }
        os(sys::open_tree(self.null, b"\0", AT_EMPTY_PATH | 1))
    }
}

/// A detached mount of an empty read-only directory.
pub fn new_empty(label: &[u8]) -> Outcome<i32> {
    let fs = os(sys::fsopen(b"tmpfs\0"))?;
    os(sys::fsconfig(fs, b"size\0", b"0\0"))?;
    if label.len() > 1 {
        os(sys::fsconfig(fs, b"context\0", label))?;
    }
    os(sys::fs_create(fs))?;
    let attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    let empty = os(sys::fsmount(fs, attributes as u32))?;
    sys::close(fs);
    Ok(empty)
}

/// Whether a descriptor is of the null device. Errors: it is of another file.
pub fn is_null(fd: i32) -> Step {
    let stat = os(sys::fstat(fd))?;
    match (stat.mode & S_IFMT, stat.rdev_major, stat.rdev_minor) == (S_IFCHR, 1, 3) || !Wall::NullDevice.stands() {
        true => Ok(()),
        false => Err(errno(EINVAL)),
    }
}
