//! Copying files into an image's tree, as COPY and ADD do: by directory descriptors, below their roots, whatever links
//! say.

use super::mode::Mode;
use super::selection::Selection;
use crate::buildfile::Patterns;
use crate::container::Wanted;
use crate::error::{Error, Result};
use crate::kernel::path::{BENEATH_NO_LINKS, IN_ROOT, openat2};
use crate::kernel::remove::remove_tree;
use crate::kernel::tree::{self, Stat, Time};
use crate::kernel::walk::{Chain, Mounts, Order, Step, Walk, check_path};
use crate::op::Op;
use crate::walls::Wall;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Files are copied in pieces of so many bytes.
const PIECE: u64 = 64 << 20;

/// An owner: user and group.
pub(super) type Owner = (u32, u32);

/// The owner of directories for which none is named.
pub(super) const ROOT: Owner = (0, 0);

/// Where a path leads in a tree: absolute, without links. Parts of the path that do not exist are kept as written.
pub(super) fn resolve(root: &OwnedFd, path: &str) -> Result<String> {
    if !Wall::BuildPaths.stands() {
        return Ok(format!("/{path}"));
    }
    Wanted::parse(&format!("/{path}"))?.target(root)
}

/// The facts of the file at a path that [`resolve`] answered.
pub(super) fn stat(root: &OwnedFd, path: &str) -> Result<Option<Stat>> {
    match openat2(root.as_fd(), inside(path), libc::O_PATH | libc::O_NOFOLLOW, 0, IN_ROOT) {
        Ok(fd) => tree::stat_fd(fd.as_fd()).map(Some),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Opens a file for reading; nothing that would block or act.
pub(super) fn open_file(root: &OwnedFd, path: &str) -> Result<File> {
    let not_a_file = || Error::invalid(format!("{path}: not a regular file"));
    // Before it is opened: to open a device may act already.
    let there = openat2(root.as_fd(), inside(path), libc::O_PATH, 0, IN_ROOT)?;
    if !tree::stat_fd(there.as_fd())?.is_file() {
        return Err(not_a_file());
    }
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::from(openat2(root.as_fd(), inside(path), flags, 0, IN_ROOT)?);
    match tree::stat_fd(file.as_fd())?.is_file() {
        true => Ok(file),
        false => Err(not_a_file()),
    }
}

pub(super) fn open_dir(root: &OwnedFd, path: &str) -> Result<OwnedFd> {
    let confined = if Wall::BuildPaths.stands() { IN_ROOT } else { 0 };
    openat2(root.as_fd(), inside(path), libc::O_RDONLY | libc::O_DIRECTORY, 0, confined)
}

/// Relative to the root's descriptor.
fn inside(path: &str) -> &str {
    match path.trim_start_matches('/') {
        "" => ".",
        path => path,
    }
}

/// The directory that holds a path, and the path's name in it.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path))
}

/// Opens a directory of an image, made with those above it where it is missing (mode 0755, of `owner`).
pub(super) fn make_dirs(root: &OwnedFd, path: &str, owner: Owner) -> Result<OwnedFd> {
    make_way_of(root, path, owner, 0o755)
}

fn make_way_of(root: &OwnedFd, path: &str, owner: Owner, mode: u32) -> Result<OwnedFd> {
    // How much of the path is there.
    let mut end = path.trim_end_matches('/').len();
    let mut dir = loop {
        match open_dir(root, &path[..end]) {
            Err(error) if error.is(libc::ENOENT) && end > 0 => {
                end = path[..end].rfind('/').map_or(0, |at| path[..at].trim_end_matches('/').len());
            }
            other => break other?,
        }
    };
    for name in path[end..].split('/').filter(|name| !name.is_empty()) {
        tree::mkdir_at(dir.as_fd(), name, 0o755)?;
        dir = tree::open_dir_at(dir.as_fd(), name)?;
        tree::chown_fd(dir.as_fd(), owner.0, owner.1)?;
        // Whatever the caller's umask is.
        tree::chmod_fd(dir.as_fd(), mode)?;
    }
    Ok(dir)
}

/// How files are copied.
pub(super) struct Copier<'a> {
    /// Whose the copies are; absent: whose the originals are.
    pub(super) owner: Option<Owner>,
    /// Permissions of the copies; absent: those of the originals.
    pub(super) mode: Option<Mode>,
    /// Files of a directory that are left out.
    pub(super) excluded: &'a Patterns,
    pub(super) op: Option<&'a Op>,
}

/// Files with several names that were copied: the place of the first name.
type Linked = HashMap<(u64, u64), Vec<u8>>;

impl Copier<'_> {
    /// Opens a directory of an image, made with those above it where it is missing.
    pub(super) fn make_dirs(&self, root: &OwnedFd, path: &str, owner: Owner) -> Result<OwnedFd> {
        make_way_of(root, path, owner, self.mode.as_ref().map_or(0o755, Mode::of_way))
    }

    /// Copies what is in the directory `from` into the directory `to`.
    pub(super) fn content(&self, from: &OwnedFd, to: &OwnedFd) -> Result<()> {
        self.content_at("", from, to)
    }

    /// Copies it where the directory lies at `place` for the excluded patterns.
    pub(super) fn content_at(&self, place: &str, from: &OwnedFd, to: &OwnedFd) -> Result<()> {
        let mut selection = Selection::of_tree(from.as_fd(), self.excluded, place, self.op)?;
        let mut linked = Linked::new();
        let mut walk = Walk::new(from.as_fd(), Order::ByName, Mounts::Crossed)?;
        let mut made = Chain::new(to.as_fd(), Mounts::Crossed);
        let mut stats = Vec::new();
        while let Some(step) = walk.next()? {
            if step == Step::Left {
                selection.leave();
                if let (Some(copy), Some(original), Some(stat)) = (made.leave()?, walk.left(), stats.pop()) {
                    self.finish(copy.as_fd(), original, &stat)?;
                }
                continue;
            }
            let Some(stat) = walk.stat()? else { continue };
            let (name, place) = (walk.name(), made.here()?);
            check_path(walk.path())?;
            if !selection.takes(walk.path()) {
                continue;
            }
            if stat.is_dir() {
                let Some(inner) = walk.open()? else { continue };
                make_way(place, name, true)?;
                match tree::mkdir_at(place, name, 0o700) {
                    Err(error) if error.is(libc::EEXIST) => {}
                    other => other?,
                }
                let copy = tree::open_dir_at(place, name)?;
                made.enter(name, copy)?;
                stats.push(stat);
                selection.enter();
                walk.enter(inner)?;
            } else if let Some(first) = linked.get(&(stat.dev, stat.ino)) {
                make_way(place, name, false)?;
                link(to, first, place, name)?;
            } else {
                self.one(walk.dir()?, name, place, name, &stat)?;
                if stat.links > 1 {
                    linked.insert((stat.dev, stat.ino), walk.path().to_vec());
                }
            }
        }
        Ok(())
    }

    /// Copies one object that is not a directory.
    pub(super) fn one(
        &self,
        from: BorrowedFd<'_>,
        name: &[u8],
        to: BorrowedFd<'_>,
        new: &[u8],
        stat: &Stat,
    ) -> Result<()> {
        self.op.map_or(Ok(()), Op::check)?;
        make_way(to, new, false)?;
        match stat.mode & libc::S_IFMT {
            libc::S_IFREG => {
                let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
                let mut original = File::from(tree::open_at(from, name, flags, 0)?);
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
                let mut copy = File::from(tree::open_at(to, new, flags, 0o600)?);
                self.bytes(&mut original, &mut copy)?;
                self.finish(copy.as_fd(), original.as_fd(), stat)
            }
            libc::S_IFLNK => {
                tree::symlink_at(tree::read_link_at(from, name)?, to, new)?;
                let (user, group) = self.owner.unwrap_or((stat.uid, stat.gid));
                tree::chown_at(to, new, user, group)?;
                tree::utime_at(to, new, seconds(stat))
            }
            // A socket is what somebody listens on, not what is there.
            libc::S_IFSOCK => Ok(()),
            _ => {
                let device = (libc::major(stat.rdev), libc::minor(stat.rdev));
                tree::mknod_at(to, new, stat.mode & libc::S_IFMT | 0o600, device)?;
                let (user, group) = self.owner.unwrap_or((stat.uid, stat.gid));
                tree::chown_at(to, new, user, group)?;
                tree::chmod_at(to, new, self.mode.as_ref().map_or(stat.mode & 0o7777, |mode| mode.of(stat.mode)))?;
                tree::utime_at(to, new, seconds(stat))
            }
        }
    }

    /// A piece at a time: a large file does not keep the operation from ending.
    fn bytes(&self, from: &mut File, to: &mut File) -> Result<()> {
        loop {
            self.op.map_or(Ok(()), Op::check)?;
            match std::io::copy(&mut from.take(PIECE), to).map_err(|e| Error::io("copy a file", &e))? {
                0 => return Ok(()),
                _ => continue,
            }
        }
    }

    /// Gives a copy what its original has. Where the owner is another's, rights of programs are lost as a chown loses
    /// them: nobody gets a program that runs as another user by copying it.
    pub(super) fn finish(&self, copy: BorrowedFd<'_>, original: BorrowedFd<'_>, stat: &Stat) -> Result<()> {
        if self.owner.is_none() {
            tree::chown_fd(copy, stat.uid, stat.gid)?;
        }
        tree::chmod_fd(copy, stat.mode & 0o7777)?;
        for (key, value) in attributes(original)? {
            tree::set_xattr_fd(copy, &key, &value)?;
        }
        if let Some((user, group)) = self.owner {
            tree::chown_fd(copy, user, group)?;
        }
        // After the owner, which would take the rights of programs from it: these were asked for.
        if let Some(mode) = &self.mode {
            tree::chmod_fd(copy, mode.of(stat.mode))?;
        }
        tree::utime_fd(copy, seconds(stat))
    }
}

/// The attributes of a file or directory that its copy gets.
pub(super) fn attributes(fd: BorrowedFd<'_>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    for key in tree::xattrs_fd(fd)? {
        if (key == "security.capability" || key.starts_with("user."))
            && let Some(value) = tree::get_xattr_fd(fd, &key)?
        {
            all.push((key, value));
        }
    }
    Ok(all)
}

/// Archives in which files go from place to place have whole seconds.
fn seconds(stat: &Stat) -> Time {
    Time { seconds: stat.mtime.seconds, nanos: 0 }
}

/// Removes what stands in the way. A directory stays for a directory.
pub(super) fn make_way(dir: BorrowedFd<'_>, name: &[u8], for_dir: bool) -> Result<()> {
    match tree::stat_at(dir, name)? {
        None => Ok(()),
        Some(there) if there.is_dir() && for_dir => Ok(()),
        Some(_) => remove_tree(dir, name),
    }
}

fn link(root: &OwnedFd, first: &[u8], to: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let (above, old): (&[u8], &[u8]) = match first.iter().rposition(|&b| b == b'/') {
        Some(at) => (&first[..at], &first[at + 1..]),
        None => (b".", first),
    };
    let dir = openat2(root.as_fd(), above, libc::O_PATH | libc::O_DIRECTORY, 0, BENEATH_NO_LINKS)?;
    tree::link_at(dir.as_fd(), old, to, name)
}
