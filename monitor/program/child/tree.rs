//! Directories, files, nodes and links below the container's root.
//!
//! openat2 resolves each target from the root's descriptor, so that nothing in an image leads out of the root.

use super::attributes::{Change, Way};
use crate::devices;
use crate::fault::{Outcome, Step, detailed, errno, os};
use crate::ops;
use crate::paths::{Name, Path, last_of, relative};
use crate::sys::{self, *};
use crate::walls::Wall;
use crate::wire::*;

/// As many links as the kernel follows in one path.
const MAX_LINKS: u32 = 40;

const PROC_MAGIC: u64 = 0x9fa0;

/// How a path is resolved that an image may have a say in: links lead to places inside the root.
pub const IN_ROOT: u64 = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
/// How a path is resolved that has no links.
pub const FIXED: u64 = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

pub struct Tree {
    /// The root's descriptor.
    pub root: i32,
    /// See [`SPECIAL_PLACE`]; also the working directory. Below 0 if there is none.
    pub place: i32,
}

/// The directory and the name of something that is made.
struct Spot {
    parent: i32,
    name: Name,
    /// The descriptor of the directory is open for this alone.
    opened: bool,
}

impl Drop for Spot {
    fn drop(&mut self) {
        if self.opened {
            sys::close(self.parent);
        }
    }
}

impl Tree {
    pub const NONE: Tree = Tree { root: -1, place: -1 };

    /// The root of this process's mount namespace becomes the root here.
    pub fn open_root(&mut self) -> Step {
        self.root = os(sys::openat(AT_FDCWD, b"/\0", O_PATH | O_DIRECTORY, 0))?;
        Ok(())
    }

    /// Whether a target is a name in the place.
    pub fn is_here(&self, target: &[u8]) -> bool {
        self.place >= 0 && !target.contains(&b'/')
    }

    /// Makes the place the working directory again, or the root where there is no place.
    pub fn return_to_place(&self) -> Step {
        os(sys::fchdir(if self.place >= 0 { self.place } else { self.root }))
    }

    /// Opens a path that has no links; none if it is not there.
    pub fn find(&self, path: &[u8]) -> Outcome<Option<i32>> {
        match sys::openat2(self.root, relative(path), O_PATH, 0, FIXED) {
            Err(ENOENT | ENOTDIR) => Ok(None),
            other => os(other).map(Some),
        }
    }

    /// Opens a directory, making what is missing.
    pub fn dirs(&self, path: &[u8], mode: u32, resolve: u64) -> Outcome<i32> {
        make_dirs(self.root, path, mode, resolve)
    }

    /// Opens something that is not a directory, to mount on: a new empty file if nothing is there. A link that leads to
    /// nothing yet is followed inside the root, because in images `/etc/resolv.conf` is such a link.
    pub fn file(&self, path: &[u8]) -> Outcome<i32> {
        let mut path = new_path(path)?;
        for _ in 0..MAX_LINKS {
            match sys::openat2(self.root, path.cstr(), O_PATH, 0, IN_ROOT) {
                Err(ENOENT) => {}
                other => return os(other),
            }
            let spot = self.spot_below_root(path.text())?;
            match sys::openat(spot.parent, spot.name.cstr(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o644) {
                Ok(made) => {
                    sys::close(made);
                    return os(sys::openat(spot.parent, spot.name.cstr(), O_PATH | O_NOFOLLOW, 0));
                }
                Err(EEXIST) => {
                    let at = last_of(path.text())..path.text().len();
                    follow(&mut path, spot.parent, &spot.name, at)?;
                }
                Err(error) => return Err(errno(error)),
            }
        }
        Err(errno(ELOOP))
    }

    /// Where a target is made: in the place, or below the root.
    fn spot(&self, target: &[u8]) -> Outcome<Spot> {
        if !self.is_here(target) {
            return self.spot_below_root(target);
        }
        let name = Name::new(target.strip_suffix(b"\0").unwrap_or(target)).ok_or_else(|| errno(EINVAL))?;
        Ok(Spot { parent: self.place, name, opened: false })
    }

    fn spot_below_root(&self, path: &[u8]) -> Outcome<Spot> {
        let path = new_path(path)?;
        let (parent, name) = path.text().split_at(last_of(path.text()));
        let name = Name::new(name).ok_or_else(|| errno(EINVAL))?;
        Ok(Spot { parent: self.dirs(parent, 0o755, IN_ROOT)?, name, opened: true })
    }

    pub fn node(&self, op: ops::Node) -> Step {
        let ops::Node { mode, uid, gid, .. } = op;
        let spot = self.spot(op.target.cstr())?;
        let (parent, name) = (spot.parent, spot.name.cstr());
        let device = devices::number(op.major, op.minor);
        let make = || with_mode(parent, name, mode & 0o7777, || sys::mknodat(parent, name, mode, device));
        if let Err(error) = make() {
            if error != EEXIST {
                return Err(errno(error));
            }
            os(sys::unlinkat(parent, name, 0))?;
            os(make())?;
        }
        if uid | gid != 0 {
            os(sys::fchownat(parent, name, uid, gid, AT_SYMLINK_NOFOLLOW))?;
        }
        Ok(())
    }

    pub fn symlink(&self, op: ops::Symlink) -> Step {
        let spot = self.spot(op.target.cstr())?;
        match sys::symlinkat(op.text.cstr(), spot.parent, spot.name.cstr()) {
            Err(EEXIST) => Ok(()),
            other => os(other),
        }
    }

    pub fn attributes(&self, way: Way, op: ops::Attr) -> Step {
        let at = os(sys::openat2(self.root, relative(op.path.cstr()), O_PATH, 0, FIXED))?;
        way.change(at, Change { set: op.set, propagation: op.propagation, ..Change::NONE })?;
        sys::close(at);
        Ok(())
    }

    /// The root becomes "/" of this process.
    pub fn pivot(&self, way: Way, ops::Pivot { attributes, propagation }: ops::Pivot) -> Step {
        way.change(self.root, Change { set: attributes, ..Change::NONE })?;
        os(sys::fchdir(self.root))?;
        os(sys::pivot_root(b".\0", b".\0"))?;
        os(sys::umount_detach(b".\0"))?;
        if propagation != 0 {
            // Not before: a shared mount cannot be pivoted to.
            os(sys::mount_propagation(b"/\0", propagation))?;
        }
        // The root's descriptor names the tree that is "/" now.
        os(sys::fchdir(self.root))
    }

    /// Makes a path the working directory, making what is missing.
    pub fn workdir(&self, path: &[u8]) -> Step {
        enter(self.dirs(path, 0o755, IN_ROOT)?)
    }

    /// Makes a path the working directory.
    pub fn chdir(&self, path: &[u8]) -> Step {
        enter(os(sys::openat2(self.root, path, O_PATH | O_DIRECTORY, 0, IN_ROOT))?)
    }
}

/// Makes a directory the working directory, and closes it.
fn enter(at: i32) -> Step {
    os(sys::fchdir(at))?;
    sys::close(at);
    Ok(())
}

fn new_path(path: &[u8]) -> Outcome<Path> {
    Path::new(path).ok_or_else(|| errno(ENAMETOOLONG))
}

/// Opens a directory below `root`, making what is missing: the longest part that is there is resolved as a whole, then
/// one component after the other is made. A link that leads to nothing yet is followed where links are.
pub fn make_dirs(root: i32, path: &[u8], mode: u32, resolve: u64) -> Outcome<i32> {
    let mut path = new_path(path)?;
    for _ in 0..MAX_LINKS {
        if let Some(at) = try_dirs(root, &mut path, mode, resolve)? {
            return Ok(at);
        }
    }
    Err(errno(ELOOP))
}

/// One try of [`make_dirs`]; none if a link was met, and `path` leads through the link now.
fn try_dirs(root: i32, path: &mut Path, mode: u32, resolve: u64) -> Outcome<Option<i32>> {
    let (mut at, mut start) = longest(root, path, resolve)?;
    let whole = path.text().len();
    while start < whole {
        let end = path.text()[start..].iter().position(|&b| b == b'/').map_or(whole, |slash| start + slash);
        let part = &path.text()[start..end];
        if part.is_empty() || part == b"." {
            start = end + 1;
            continue;
        }
        let name = Name::new(part).ok_or_else(|| errno(EINVAL))?;
        match with_mode(at, name.cstr(), mode, || sys::mkdirat(at, name.cstr(), mode)) {
            Ok(()) | Err(EEXIST) => {}
            Err(error) => return Err(errno(error)),
        }
        match sys::openat(at, name.cstr(), O_PATH | O_DIRECTORY | O_NOFOLLOW, 0) {
            Ok(next) => {
                sys::close(at);
                at = next;
            }
            Err(ENOTDIR) if resolve == IN_ROOT => {
                follow(path, at, &name, start..end)?;
                sys::close(at);
                return Ok(None);
            }
            Err(error) => return Err(errno(error)),
        }
        start = end + 1;
    }
    Ok(Some(at))
}

/// The longest part of a path that is there, as a descriptor, and where that part ends.
fn longest(root: i32, path: &Path, resolve: u64) -> Outcome<(i32, usize)> {
    let mut end = path.text().len();
    loop {
        let part = new_path(if end == 0 { b"." } else { &path.text()[..end] })?;
        match sys::openat2(root, part.cstr(), O_PATH | O_DIRECTORY, 0, resolve) {
            Ok(fd) => return Ok((fd, end)),
            Err(ENOENT) if end > 0 => {
                end = path.text()[..end].iter().rposition(|&b| b == b'/').unwrap_or(0);
            }
            Err(ENOTDIR) => return Err(detailed(ENOTDIR, DETAIL_NOT_DIR)),
            Err(error) => return Err(errno(error)),
        }
    }
}

/// Leads a path through the link that its name at `at` is. Errors: the name is not a link.
fn follow(path: &mut Path, dir: i32, name: &Name, at: core::ops::Range<usize>) -> Step {
    let mut link = [0; 4096];
    // Links of procfs show descriptors; their texts are not paths of the container.
    if Wall::ResolveInRoot.stands() && is_procfs(dir)? {
        return Err(errno(ELOOP));
    }
    let length = match sys::readlinkat(dir, name.cstr(), &mut link) {
        Err(EINVAL) => return Err(errno(EEXIST)),
        other => os(other)?,
    };
    path.follow(&link[..length], at).ok_or_else(|| errno(ENAMETOOLONG))
}

pub fn is_procfs(fd: i32) -> Outcome<bool> {
    Ok(os(sys::fs_magic(fd))? == PROC_MAGIC)
}

pub fn is_directory(fd: i32) -> Outcome<bool> {
    Ok(os(sys::fstat(fd))?.mode & S_IFMT == S_IFDIR)
}

/// Makes something below `parent` with exactly the mode `mode`: no bit is masked. Setting missing bits afterwards, by
/// the name, could reach another file, because the name may be a link by then. The mask of this process is 022 before
/// and after.
fn with_mode(parent: i32, name: &[u8], mode: u32, make: impl FnOnce() -> sys::Result<()>) -> sys::Result<()> {
    #[cfg(feature = "attacks")]
    if !Wall::ModesAtBirth.stands() {
        return make().and_then(|()| sys::fchmodat(parent, name, mode));
    }
    let _ = (parent, name);
    sys::umask(if mode & 0o022 == 0 { 0o022 } else { 0 });
    let made = make();
    sys::umask(0o022);
    made
}
