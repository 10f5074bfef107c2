//! Walking a tree of directories, however deep: no recursion, a few bytes of the heap for a level, few descriptors.
//!
//! A [`Walk`] tells every name of a tree, and after the last name of a directory that the directory is left. Of the
//! directories on the way from the base to the place of the walk, the [`OPEN`] deepest are open. Whoever comes back to a
//! closed one opens it again as `..` of the one below it, and looks whether that is the directory that it was. Where it is
//! not, because a container renamed directories meanwhile, the way is gone again from the base, name by name and through
//! no link, so the walk never leaves the tree. What cannot be found again is left out, as what went away is.

use super::path::openat2;
use super::tree::{self, Stat};
use crate::error::{Error, Result};
use crate::walls::Wall;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How many directories of one chain are open at the most. A walk over two trees has two chains, and each reads a file
/// or a directory beside.
const OPEN: usize = 8;

/// The longest path that a program can name, as the kernel counts (with the NUL at its end).
pub(crate) const LONGEST_PATH: usize = libc::PATH_MAX as usize - 1;

/// To be asked before a path of a tree is told to somebody. Errors: nobody could use a path of that length.
pub(crate) fn check_path(path: &[u8]) -> Result<()> {
    if path.len() <= LONGEST_PATH {
        return Ok(());
    }
    Err(Error::invalid(format!("{}: the path is longer than {LONGEST_PATH} bytes", shown(path))))
}

/// A path for people, its beginning where it is long.
pub(crate) fn shown(path: &[u8]) -> String {
    const MOST: usize = 120;
    let text = String::from_utf8_lossy(&path[..path.len().min(MOST)]).into_owned();
    if path.len() > MOST { text + "..." } else { text }
}

/// Whether directories on which something is mounted are gone into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounts {
    Crossed,
    /// To open one is the error EXDEV.
    Kept,
}

impl Mounts {
    /// Opens a directory by one name for reading, through no link.
    fn open(self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
        let stays = if self == Mounts::Kept { libc::RESOLVE_NO_XDEV } else { 0 };
        openat2(dir, name, libc::O_RDONLY | libc::O_DIRECTORY, 0, libc::RESOLVE_NO_SYMLINKS | stays)
    }
}

/// Directories in one another, from a base down to where one is.
pub(crate) struct Chain<'a> {
    base: BorrowedFd<'a>,
    mounts: Mounts,
    /// The names from the base on, with slashes between them.
    path: Vec<u8>,
    levels: Vec<Level>,
    /// The deepest directories that can be found, the deepest last.
    open: VecDeque<OwnedFd>,
    /// So many levels at the end could not be found again: they have no descriptor.
    lost: usize,
}

struct Level {
    /// Where the path ended above it.
    above: usize,
    /// Device and inode of the directory when it was closed.
    was: (u64, u64),
}

impl<'a> Chain<'a> {
    pub(crate) fn new(base: BorrowedFd<'a>, mounts: Mounts) -> Chain<'a> {
        Chain { base, mounts, path: Vec::new(), levels: Vec::new(), open: VecDeque::new(), lost: 0 }
    }

    /// The directory where one is. Errors: it cannot be found any more.
    pub(crate) fn here(&self) -> Result<BorrowedFd<'_>> {
        if self.lost > 0 {
            return Err(Error::os(format_args!("open {}", shown(&self.path)), libc::ENOENT));
        }
        Ok(self.open.back().map_or(self.base, AsFd::as_fd))
    }

    /// How many directories below the base one is.
    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Goes down into `fd`, the directory `name` of where one is. It must be open for reading.
    pub(crate) fn enter(&mut self, name: &[u8], fd: OwnedFd) -> Result<()> {
        let above = self.path.len();
        if above > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
        self.levels.push(Level { above, was: (0, 0) });
        self.keep(fd, self.levels.len() - 1)
    }

    /// Goes up; answers the directory that was left, unless it could not be found again.
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

    /// Goes the way down anew, as far as it is there. `end`: where the path of the last directory ends.
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

    /// Keeps the descriptor of the level `index`, and closes the one that is one too many.
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

/// In which order the names of a directory are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    AsRead,
    ByName,
}

/// Where a walk has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A name in a directory. It is for the caller to [`Walk::enter`] it.
    Entry,
    /// All of a directory that was entered has been told.
    Left,
}

/// A walk over all that is below a base.
pub(crate) struct Walk<'a> {
    chain: Chain<'a>,
    order: Order,
    /// The path of the name that was told last; that of its directory alone where none was.
    path: Vec<u8>,
    /// Where its name begins in the path.
    name_at: usize,
    is_dir: bool,
    /// Names of the directories on the way that are read and not yet answered, one behind the other.
    bytes: Vec<u8>,
    names: Vec<Name>,
    /// Where the names of each directory begin, the base's first; and which one is next.
    told: Vec<Told>,
    left: Option<OwnedFd>,
    buffer: Vec<u8>,
}

struct Name {
    at: usize,
    length: u16,
    is_dir: Option<bool>,
}

struct Told {
    bytes: usize,
    names: usize,
    next: usize,
    /// Where the path of the directory ends.
    path: usize,
}

impl<'a> Walk<'a> {
    /// A walk over what is in `base`, any descriptor of a directory.
    pub(crate) fn new(base: BorrowedFd<'a>, order: Order, mounts: Mounts) -> Result<Walk<'a>> {
        let mut walk = Walk {
            chain: Chain::new(base, mounts),
            order,
            path: Vec::new(),
            name_at: 0,
            is_dir: false,
            bytes: Vec::new(),
            names: Vec::new(),
            told: Vec::new(),
            left: None,
            buffer: Vec::new(),
        };
        // Another open file than the caller's, whose reading position is the caller's.
        let own = Mounts::Crossed.open(base, b".")?;
        walk.read(own.as_fd())?;
        Ok(walk)
    }

    /// The next step; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Step>> {
        self.left = None;
        let Some(told) = self.told.last_mut() else { return Ok(None) };
        // Of a directory that cannot be found again, nothing more is told.
        if self.chain.lost == 0 && told.next < self.names.len() {
            let name = &self.names[told.next];
            told.next += 1;
            self.path.truncate(told.path);
            if told.path > 0 {
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
        self.bytes.truncate(told.bytes);
        self.names.truncate(told.names);
        self.path.truncate(told.path);
        self.told.pop();
        if self.told.is_empty() {
            return Ok(None);
        }
        self.left = self.chain.leave()?;
        self.is_dir = true;
        let above = self.chain.path.len();
        self.name_at = if above > 0 { above + 1 } else { 0 };
        Ok(Some(Step::Left))
    }

    /// The directory that holds the name that was told. Errors: it cannot be found any more.
    pub(crate) fn dir(&self) -> Result<BorrowedFd<'_>> {
        self.chain.here()
    }

    /// The name.
    pub(crate) fn name(&self) -> &[u8] {
        &self.path[self.name_at..]
    }

    /// The path of it, from the base on.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Whether it was a directory when it was read.
    pub(crate) fn is_dir(&self) -> bool {
        self.is_dir
    }

    /// How many directories below the base the name stands.
    pub(crate) fn depth(&self) -> usize {
        self.chain.depth()
    }

    /// The facts that lstat gives of it now.
    pub(crate) fn stat(&self) -> Result<Option<Stat>> {
        tree::stat_at(self.dir()?, self.name())
    }

    /// Opens it as a directory. `None`: it is none any more.
    pub(crate) fn open(&self) -> Result<Option<OwnedFd>> {
        match self.chain.mounts.open(self.dir()?, self.name()) {
            Err(error) if tree::is_elsewhere(&error) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Goes on with what is in it, which [`Walk::open`] answered.
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
            Told { bytes: self.bytes.len(), names: self.names.len(), next: self.names.len(), path: self.path.len() };
        tree::each_name(dir, &mut self.buffer, &mut |name, is_dir| {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(name);
            // The kernel's names have 255 bytes at the most.
            self.names.push(Name { at, length: u16::try_from(name.len()).unwrap_or(u16::MAX), is_dir });
            true
        })?;
        if self.order == Order::ByName {
            let bytes = &self.bytes;
            let text = |name: &Name| &bytes[name.at..name.at + usize::from(name.length)];
            self.names[from.names..].sort_unstable_by(|a, b| text(a).cmp(text(b)));
        }
        self.told.push(from);
        Ok(())
    }
}

#[cfg(test)]
pub(in crate::kernel) mod tests;
