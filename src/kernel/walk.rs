//! Walks a directory tree of any depth: no recursion, a few bytes of the heap for each level, few descriptors.
//!
//! A [`Walk`] visits every name of a tree, and reports the end of each directory after its last name. Of the
//! directories from the base to the present place, the [`OPEN`] deepest are open. To return to a closed one, the walk
//! opens `..` of the directory below it, and checks that this is the same directory as before. If it is another one,
//! because a container renamed directories meanwhile, the walk goes down from the base again, name by name and through
//! no link, so it never leaves the tree. Directories that cannot be found again are left out like removed ones.

use super::path::openat2;
use super::tree::{self, Stat};
use crate::error::{Error, Result};
use crate::walls::Wall;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most open directories of one chain. A walk over two trees has two chains, and each also reads a file or a
/// directory.
const OPEN: usize = 8;

/// The longest path that a program can use, as the kernel counts (with the NUL at its end).
pub(crate) const LONGEST_PATH: usize = libc::PATH_MAX as usize - 1;

/// Checks a path of a tree before it is handed out. Errors: a path of that length cannot be used.
pub(crate) fn check_path(path: &[u8]) -> Result<()> {
    if path.len() <= LONGEST_PATH {
        return Ok(());
    }
    Err(Error::invalid(format!("{}: the path is longer than {LONGEST_PATH} bytes", shown(path))))
}

/// A path for people, cut to its beginning if it is long.
pub(crate) fn shown(path: &[u8]) -> String {
    const MOST: usize = 120;
    let text = String::from_utf8_lossy(&path[..path.len().min(MOST)]).into_owned();
    if path.len() > MOST { text + "..." } else { text }
}

/// Whether the walk enters directories that are mount points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounts {
    Crossed,
    /// Opening a mount point gives the error EXDEV.
    Kept,
}

impl Mounts {
    /// Opens a directory by one name for reading, not through a link.
    fn open(self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
        let stays = if self == Mounts::Kept { libc::RESOLVE_NO_XDEV } else { 0 };
        openat2(dir, name, libc::O_RDONLY | libc::O_DIRECTORY, 0, libc::RESOLVE_NO_SYMLINKS | stays)
    }
}

/// Nested directories, from a base down to the present one.
pub(crate) struct Chain<'a> {
    base: BorrowedFd<'a>,
    mounts: Mounts,
    /// The names from the base on, separated by slashes.
    path: Vec<u8>,
    levels: Vec<Level>,
    /// The deepest directories that can be found, the deepest last.
    open: VecDeque<OwnedFd>,
    /// The number of levels at the end that could not be found again: they have no descriptor.
    lost: usize,
}

struct Level {
    /// The length of the path above it.
    above: usize,
    /// Device and inode of the directory when it was closed.
    was: (u64, u64),
}

impl<'a> Chain<'a> {
    pub(crate) fn new(base: BorrowedFd<'a>, mounts: Mounts) -> Chain<'a> {
        Chain { base, mounts, path: Vec::new(), levels: Vec::new(), open: VecDeque::new(), lost: 0 }
    }

    /// The present directory. Errors: it cannot be found any more.
    pub(crate) fn here(&self) -> Result<BorrowedFd<'_>> {
        if self.lost > 0 {
            return Err(Error::os(format_args!("open {}", shown(&self.path)), libc::ENOENT));
        }
        Ok(self.open.back().map_or(self.base, AsFd::as_fd))
    }

    /// The number of directories below the base.
    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Goes down into `fd`, the subdirectory `name`, which must be open for reading.
    pub(crate) fn enter(&mut self, name: &[u8], fd: OwnedFd) -> Result<()> {
        let above = self.path.len();
        if above > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
        self.levels.push(Level { above, was: (0, 0) });
        self.keep(fd, self.levels.len() - 1)
    }

    /// Goes up; returns the directory that was left, unless it could not be found again.
    pub(crate) fn leave(&mut self) -> Result<Option<OwnedFd>> {
        let Some(level) = self.levels.pop() else { return Err(Error::internal("a walk left its base")) };
        if self.lost > 0 {
            self.lost -= 1;
            self.path.truncate(level.above);
            return Ok(None);
        }
        let left = self.open.pop_back();
        if let (Some(left), true, Some(parent)) = (&left, self.open.is_empty(), self.levels.last()) {
            match self.mounts.open(left.as_fd(), b"..") {
                Ok(up) if tree::stat_fd(up.as_fd()).is_ok_and(|stat| (stat.dev, stat.ino) == parent.was) => {
                    self.open.push_back(up);
                }
                _ => self.find_again(level.above)?,
            }
        }
        self.path.truncate(level.above);
        Ok(left)
    }

    /// Goes down from the base again, as far as the path still exists. `end`: the length of the last directory's path.
    fn find_again(&mut self, end: usize) -> Result<()> {
        for index in 0..self.levels.len() {
            let to = self.levels.get(index + 1).map_or(end, |below| below.above);
            let name = &self.path[self.levels[index].above..to];
            let name = name.strip_prefix(b"/").unwrap_or(name);
            match self.mounts.open(self.open.back().map_or(self.base, AsFd::as_fd), name) {
                Ok(fd) => self.keep(fd, index)?,
                Err(error) if tree::is_elsewhere(&error) => {
                    self.lost = self.levels.len() - index;
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Keeps the descriptor of the level `index`, and closes the one beyond the limit.
    fn keep(&mut self, fd: OwnedFd, index: usize) -> Result<()> {
        self.open.push_back(fd);
        if self.open.len() > OPEN
            && Wall::FewDescriptors.stands()
            && let Some(closed) = self.open.pop_front()
        {
            let stat = tree::stat_fd(closed.as_fd())?;
            self.levels[index - OPEN].was = (stat.dev, stat.ino);
        }
        Ok(())
    }
}

/// The order in which the names of a directory are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    AsRead,
    ByName,
}

/// A step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A name in a directory. The caller may [`Walk::enter`] it.
    Entry,
    /// The end of a directory that was entered.
    Left,
}

/// A walk over everything below a base.
pub(crate) struct Walk<'a> {
    chain: Chain<'a>,
    order: Order,
    /// The path of the last visited name; without one, that of its directory.
    path: Vec<u8>,
    /// The offset of the last name in the path.
    name_at: usize,
    is_dir: bool,
    /// The names that are read and not visited yet, of all directories on the way, one after the other.
    bytes: Vec<u8>,
    names: Vec<Name>,
    /// The offset of each directory's names, the base's first, and the index of the next one.
    listings: Vec<Listing>,
    left: Option<OwnedFd>,
    buffer: Vec<u8>,
}

struct Name {
    at: usize,
    length: u16,
    is_dir: Option<bool>,
}

struct Listing {
    bytes: usize,
    names: usize,
    next: usize,
    /// The length of the directory's path.
    path: usize,
}

impl<'a> Walk<'a> {
    /// A walk over the content of `base`, any descriptor of a directory.
    pub(crate) fn new(base: BorrowedFd<'a>, order: Order, mounts: Mounts) -> Result<Walk<'a>> {
        let mut walk = Walk {
            chain: Chain::new(base, mounts),
            order,
            path: Vec::new(),
            name_at: 0,
            is_dir: false,
            bytes: Vec::new(),
            names: Vec::new(),
            listings: Vec::new(),
            left: None,
            buffer: Vec::new(),
        };
        // Opened again, because the read position of the caller's descriptor belongs to the caller.
        let own = Mounts::Crossed.open(base, b".")?;
        walk.read(own.as_fd())?;
        Ok(walk)
    }

    /// The next step; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Step>> {
        self.left = None;
        let Some(listing) = self.listings.last_mut() else { return Ok(None) };
        // Of a directory that cannot be found again, no more names are visited.
        if self.chain.lost == 0 && listing.next < self.names.len() {
            let name = &self.names[listing.next];
            listing.next += 1;
            self.path.truncate(listing.path);
            if listing.path > 0 {
                self.path.push(b'/');
            }
            self.name_at = self.path.len();
            let bytes = &self.bytes[name.at..name.at + usize::from(name.length)];
            self.path.extend_from_slice(bytes);
            self.is_dir = match name.is_dir {
                Some(is_dir) => is_dir,
                None => tree::stat_at(self.chain.here()?, bytes)?.is_some_and(|stat| stat.is_dir()),
            };
            return Ok(Some(Step::Entry));
        }
        self.bytes.truncate(listing.bytes);
        self.names.truncate(listing.names);
        self.path.truncate(listing.path);
        self.listings.pop();
        if self.listings.is_empty() {
            return Ok(None);
        }
        self.left = self.chain.leave()?;
        self.is_dir = true;
        let above = self.chain.path.len();
        self.name_at = if above > 0 { above + 1 } else { 0 };
        Ok(Some(Step::Left))
    }

    /// The directory that holds the visited name. Errors: it cannot be found any more.
    pub(crate) fn dir(&self) -> Result<BorrowedFd<'_>> {
        self.chain.here()
    }

    /// The name.
    pub(crate) fn name(&self) -> &[u8] {
        &self.path[self.name_at..]
    }

    /// The path of the visited name, from the base on.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Whether the name was a directory when it was read.
    pub(crate) fn is_dir(&self) -> bool {
        self.is_dir
    }

    /// The number of directories between base and name.
    pub(crate) fn depth(&self) -> usize {
        self.chain.depth()
    }

    /// The result of lstat for the name now.
    pub(crate) fn stat(&self) -> Result<Option<Stat>> {
        tree::stat_at(self.dir()?, self.name())
    }

    /// Opens the name as a directory. `None`: it is not a directory any more.
    pub(crate) fn open(&self) -> Result<Option<OwnedFd>> {
        match self.chain.mounts.open(self.dir()?, self.name()) {
            Err(error) if tree::is_elsewhere(&error) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Continues with the content of the directory that [`Walk::open`] returned.
    pub(crate) fn enter(&mut self, fd: OwnedFd) -> Result<()> {
        self.read(fd.as_fd())?;
        self.chain.enter(&self.path[self.name_at..], fd)
    }

    /// The directory that was just left. `None`: the walk did not find it again.
    pub(crate) fn left(&self) -> Option<BorrowedFd<'_>> {
        self.left.as_ref().map(AsFd::as_fd)
    }

    fn read(&mut self, dir: BorrowedFd<'_>) -> Result<()> {
        let from =
            Listing { bytes: self.bytes.len(), names: self.names.len(), next: self.names.len(), path: self.path.len() };
        tree::each_name(dir, &mut self.buffer, &mut |name, is_dir| {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(name);
            // Names have at most 255 bytes in the kernel.
            self.names.push(Name { at, length: u16::try_from(name.len()).unwrap_or(u16::MAX), is_dir });
            true
        })?;
        if self.order == Order::ByName {
            let bytes = &self.bytes;
            let text = |name: &Name| &bytes[name.at..name.at + usize::from(name.length)];
            self.names[from.names..].sort_unstable_by(|a, b| text(a).cmp(text(b)));
        }
        self.listings.push(from);
        Ok(())
    }
}

#[cfg(test)]
pub(in crate::kernel) mod tests;
