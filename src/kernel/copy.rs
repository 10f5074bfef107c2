//! Copies trees: hard links, devices, holes, attributes and times included; uses the walk over trees of any depth
//! ([`super::walk`]).
//!
//! The kernel copies the content: by sharing it if the file system can (`FICLONE`), else by copy_file_range(2), else by
//! sendfile(2). Files that are removed meanwhile are left out, and a file that a program writes is copied in whatever
//! state it is.

use super::fd::errno;
use super::path::{BENEATH_NO_LINKS, openat2};
use super::tree::{self, Stat};
use super::walk::{Chain, Mounts, Order, Step, Walk, shown};
use crate::error::{Error, Result};
use crate::op::Op;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The most bytes that the kernel copies in one call: a cancelled copy ends after one of these.
const CHUNK: u64 = 16 << 20;

/// Attributes by which overlayfs notes where a file came from, by numbers of its file system: useless in a copy
/// elsewhere.
const OF_ITS_PLACE: [&str; 2] = ["trusted.overlay.origin", "trusted.overlay.uuid"];

/// The extended attributes that a copy gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// All that have a meaning elsewhere; if a file system does not take one, the copy fails.
    All,
    /// The attributes that a container sees, if the file system takes them: neither `trusted.*` nor labels of SELinux.
    Seen,
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Number of names: of files, directories, links, devices.
    pub(crate) names: u64,
    /// Bytes of content that were copied, holes left out.
    pub(crate) bytes: u64,
    /// Bytes of content that original and copy share.
    pub(crate) shared: u64,
}

/// The first name of a file with several.
struct Linked {
    path: Vec<u8>,
    /// The time at which the file was made: distinguishes it from a later file with the same number.
    born: Option<(i64, u32)>,
}

/// Copies of trees, one after the other.
pub(crate) struct TreeCopy<'a> {
    attributes: Attributes,
    op: Option<&'a Op>,
    pub(crate) copied: Copied,
    /// The device whose files cannot be shared with the copy, if that was tried.
    unshared: Option<u64>,
    /// copy_file_range(2) does not work between these file systems.
    plain: bool,
    /// The first names of files with several in the present tree, by device and inode.
    linked: HashMap<(u64, u64), Linked>,
}

impl<'a> TreeCopy<'a> {
    pub(crate) fn new(attributes: Attributes, op: Option<&'a Op>) -> TreeCopy<'a> {
        let (copied, linked) = (Copied::default(), HashMap::new());
        TreeCopy { attributes, op, copied, unshared: None, plain: false, linked }
    }

    /// Copies everything in the directory `from` into the empty directory `to`, and gives `to` its owner, mode and times.
    ///
    /// Both must be opened for reading. Links are not followed.
    pub(crate) fn all(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<()> {
        self.linked.clear();
        let mut walk = Walk::new(from, Order::AsRead, Mounts::Crossed)?;
        let mut made = Chain::new(to, Mounts::Crossed);
        while let Some(step) = walk.next()? {
            let done = match step {
                Step::Left => self.left(&walk, &mut made),
                Step::Entry => self.entry(&mut walk, &mut made, to),
            };
            done.map_err(|error| error.context(shown(walk.path())))?;
        }
        self.like(from, to, &tree::stat_fd(from)?)
    }

    fn left(&mut self, walk: &Walk<'_>, made: &mut Chain<'_>) -> Result<()> {
        match (made.leave()?, walk.left()) {
            (Some(copy), Some(original)) => self.like(original, copy.as_fd(), &tree::stat_fd(original)?),
            _ => Ok(()),
        }
    }

    fn entry(&mut self, walk: &mut Walk<'_>, made: &mut Chain<'_>, root: BorrowedFd<'_>) -> Result<()> {
        self.op.map_or(Ok(()), Op::check)?;
        // A file that was removed meanwhile is not copied.
        let Some(stat) = walk.stat()? else { return Ok(()) };
        if stat.is_dir() {
            let Some(source) = walk.open()? else { return Ok(()) };
            tree::mkdir_at(made.here()?, walk.name(), 0o700)?;
            let dir = tree::open_dir_at(made.here()?, walk.name())?;
            made.enter(walk.name(), dir)?;
            self.copied.names += 1;
            return walk.enter(source);
        }
        let (from, to, name) = (walk.dir()?, made.here()?, walk.name());
        if stat.links > 1 && self.link(walk, &stat, to, root)? {
            return Ok(());
        }
        self.one(from, to, name, &stat)
    }

    /// Makes another name in `to` for the walk's file, if the file was copied below `root` under its first name;
    /// returns whether it was.
    fn link(&mut self, walk: &Walk<'_>, stat: &Stat, to: BorrowedFd<'_>, root: BorrowedFd<'_>) -> Result<bool> {
        let name = walk.name();
        let born = tree::born_at(walk.dir()?, name)?;
        if let Some(first) = self.linked.get(&(stat.dev, stat.ino)).filter(|first| first.born == born) {
            let (above, old) = match first.path.iter().rposition(|&byte| byte == b'/') {
                Some(at) => (&first.path[..at], &first.path[at + 1..]),
                None => (&b"."[..], &first.path[..]),
            };
            let dir = openat2(root, above, libc::O_PATH | libc::O_DIRECTORY, 0, BENEATH_NO_LINKS)?;
            // A file that was removed before it was copied has no first name.
            if tree::stat_at(dir.as_fd(), old)?.is_some() {
                tree::link_at(dir.as_fd(), old, to, name)?;
                self.copied.names += 1;
                return Ok(true);
            }
        }
        self.linked.insert((stat.dev, stat.ino), Linked { path: walk.path().to_vec(), born });
        Ok(false)
    }

    /// Copies `name` of `from`, which is not a directory, to the same name in `to`.
    pub(crate) fn one(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> Result<()> {
        match stat.mode & libc::S_IFMT {
            libc::S_IFREG => return self.file(from, to, name),
            libc::S_IFLNK => match tree::read_link_at(from, name) {
                // The file was removed or replaced meanwhile.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => return Ok(()),
                target => tree::symlink_at(target?, to, name)?,
            },
            _ => tree::mknod_at(to, name, stat.mode, (libc::major(stat.rdev), libc::minor(stat.rdev)))?,
        }
        tree::chown_at(to, name, stat.uid, stat.gid)?;
        if stat.mode & libc::S_IFMT != libc::S_IFLNK {
            tree::chmod_at(to, name, stat.mode & 0o7777)?;
        }
        for key in tree::xattrs_at(from, name)?.iter().filter(|key| self.takes(key)) {
            if let Some(value) = tree::get_xattr_at(from, name, key)? {
                self.set(key, tree::set_xattr_at(to, name, key, &value))?;
            }
        }
        self.copied.names += 1;
        tree::utime_at(to, name, stat.mtime)
    }

    fn file(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        let source = match tree::open_at(from, name, libc::O_RDONLY | libc::O_NONBLOCK, 0) {
            Err(error) if tree::is_elsewhere(&error) => return Ok(()),
            source => source?,
        };
        let stat = tree::stat_fd(source.as_fd())?;
        if !stat.is_file() {
            return Ok(());
        }
        let made = tree::open_at(to, name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, 0o600)?;
        self.content(source.as_fd(), made.as_fd(), &stat)?;
        self.copied.names += 1;
        self.like(source.as_fd(), made.as_fd(), &stat)
    }

    fn content(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, stat: &Stat) -> Result<()> {
        if stat.size == 0 {
            return Ok(());
        }
        if self.unshared != Some(stat.dev) {
            // SAFETY: no pointers; the third word is a descriptor.
            if unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE as _, from.as_raw_fd()) } == 0 {
                self.copied.shared += stat.size;
                return Ok(());
            }
            // The copy below reports any other error of this file or of the disk.
            if matches!(errno(), libc::EOPNOTSUPP | libc::EXDEV | libc::ENOTTY | libc::ENOSYS) {
                self.unshared = Some(stat.dev);
            }
        }
        let mut at = 0;
        while at < stat.size {
            let Some(begin) = seek(from, at, libc::SEEK_DATA)?.filter(|begin| *begin < stat.size) else { break };
            let end = seek(from, begin, libc::SEEK_HOLE)?.unwrap_or(stat.size).min(stat.size);
            if !self.range(from, to, begin, end)? {
                break;
            }
            at = end;
        }
        // A file that was cut meanwhile has its present length.
        let size = stat.size.min(tree::stat_fd(from)?.size);
        tree::truncate_fd(to, i64::try_from(size).unwrap_or(i64::MAX))
    }

    /// Copies a range of a file to the same offset; returns whether all of it was copied.
    fn range(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, mut at: u64, end: u64) -> Result<bool> {
        while at < end {
            self.op.map_or(Ok(()), Op::check)?;
            let most = (end - at).min(CHUNK) as usize;
            let got = if self.plain { send(from, to, at, most) } else { copy_range(from, to, at, most) };
            match got {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    at += count as u64;
                    self.copied.bytes += count as u64;
                }
                Err(libc::EINTR) => {}
                Err(libc::EXDEV | libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::EPERM) if !self.plain => {
                    self.plain = true;
                }
                Err(error) => return Err(Error::os("copy a file", error)),
            }
        }
        Ok(true)
    }

    /// Copies the attributes of an open file or directory to another: the owner first, because its change clears setuid
    /// bits and capabilities.
    fn like(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, stat: &Stat) -> Result<()> {
        tree::chown_fd(to, stat.uid, stat.gid)?;
        tree::chmod_fd(to, stat.mode & 0o7777)?;
        for key in tree::xattrs_fd(from)?.iter().filter(|key| self.takes(key)) {
            if let Some(value) = tree::get_xattr_fd(from, key)? {
                self.set(key, tree::set_xattr_fd(to, key, &value))?;
            }
        }
        tree::utime_fd(to, stat.mtime)
    }

    fn takes(&self, key: &str) -> bool {
        match self.attributes {
            Attributes::All => !OF_ITS_PLACE.contains(&key),
            Attributes::Seen => !key.starts_with("trusted.") && !key.starts_with("security.selinux"),
        }
    }

    fn set(&self, key: &str, set: Result<()>) -> Result<()> {
        match (set, self.attributes) {
            // The file system of the copy does not support this attribute.
            (Err(error), Attributes::Seen) if error.is(libc::EOPNOTSUPP) => Ok(()),
            (Err(error), Attributes::All) if error.is(libc::EOPNOTSUPP) => {
                Err(error.context(format_args!("the file system of the copy takes no attribute {key}")))
            }
            (set, _) => set,
        }
    }
}

/// The offset of the next data or the next hole of a file; `None`: there is none after `at`.
fn seek(file: BorrowedFd<'_>, at: u64, what: i32) -> Result<Option<u64>> {
    // SAFETY: no pointers.
    let got = unsafe { libc::lseek(file.as_raw_fd(), at as libc::off_t, what) };
    match (u64::try_from(got), errno()) {
        (Ok(place), _) => Ok(Some(place)),
        (Err(_), libc::ENXIO) => Ok(None),
        // A file system without holes: all of the file is data.
        (Err(_), libc::EINVAL | libc::EOPNOTSUPP) => Ok((what == libc::SEEK_DATA).then_some(at)),
        (Err(_), error) => Err(Error::os("look for holes in a file", error)),
    }
}

fn copy_range(from: BorrowedFd<'_>, to: BorrowedFd<'_>, at: u64, most: usize) -> std::result::Result<usize, i32> {
    let (mut read, mut write) = (at as libc::loff_t, at as libc::loff_t);
    // SAFETY: both offsets live over the call.
    let got = unsafe {
        let (from, to) = (from.as_raw_fd(), to.as_raw_fd());
        libc::syscall(libc::SYS_copy_file_range, from, &raw mut read, to, &raw mut write, most, 0)
    };
    usize::try_from(got).map_err(|_| errno())
}

fn send(from: BorrowedFd<'_>, to: BorrowedFd<'_>, at: u64, most: usize) -> std::result::Result<usize, i32> {
    let mut read = at as libc::off_t;
    // SAFETY: no pointers.
    if unsafe { libc::lseek(to.as_raw_fd(), read, libc::SEEK_SET) } < 0 {
        return Err(errno());
    }
    // SAFETY: the offset lives over the call.
    let got = unsafe { libc::sendfile(to.as_raw_fd(), from.as_raw_fd(), &raw mut read, most) };
    usize::try_from(got).map_err(|_| errno())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn holes_links_sockets_times_and_attributes_are_copied() {
        let dir = std::env::temp_dir().join(format!("coracle-copy-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let (from, to) = (dir.join("from"), dir.join("to"));
        std::fs::create_dir_all(from.join("deep/er")).unwrap();
        std::fs::create_dir(&to).unwrap();
        let holes = File::create(from.join("holes")).unwrap();
        holes.write_all_at(b"end", 64 << 20).unwrap();
        holes.write_all_at(b"middle", 8 << 20).unwrap();
        holes.set_len(80 << 20).unwrap();
        std::fs::hard_link(from.join("holes"), from.join("deep/er/again")).unwrap();
        std::os::unix::fs::symlink("nowhere", from.join("deep/link")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap());
        let open = |path: &std::path::Path| tree::open_dir(path).unwrap();
        tree::utime_fd(open(&from.join("deep")).as_fd(), tree::Time { seconds: 5, nanos: 7 }).unwrap();

        for plain in [false, true] {
            let to = to.join(plain.to_string());
            std::fs::create_dir(&to).unwrap();
            let mut copy = TreeCopy::new(Attributes::Seen, None);
            (copy.plain, copy.unshared) = (plain, Some(std::fs::metadata(&from).unwrap().dev()));
            copy.all(open(&from).as_fd(), open(&to).as_fd()).unwrap();
            let look = |path: &str| std::fs::symlink_metadata(to.join(path)).unwrap();
            let (first, again) = (look("holes"), look("deep/er/again"));
            assert_eq!((first.ino(), first.nlink(), first.len()), (again.ino(), 2, 80 << 20));
            assert!(first.blocks() * 512 < 1 << 20, "{} blocks", first.blocks());
            let mut bytes = [0; 6];
            File::open(to.join("holes")).unwrap().read_exact_at(&mut bytes, 8 << 20).unwrap();
            assert_eq!(&bytes, b"middle");
            assert_eq!(std::fs::read_link(to.join("deep/link")).unwrap(), std::path::Path::new("nowhere"));
            assert_eq!(look("socket").mode() & libc::S_IFMT, libc::S_IFSOCK);
            assert_eq!((look("deep").mtime(), look("deep").mtime_nsec()), (5, 7));
            assert_eq!((copy.copied.names, copy.copied.bytes < 1 << 20), (6, true), "{:?}", copy.copied);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_cancelled_copy_ends() {
        let dir = std::env::temp_dir().join(format!("coracle-copy-ended-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("from/in")).unwrap();
        std::fs::create_dir_all(dir.join("to")).unwrap();
        let op = Op::new().unwrap();
        op.cancel();
        let (from, to) = (tree::open_dir(&dir.join("from")).unwrap(), tree::open_dir(&dir.join("to")).unwrap());
        let error = TreeCopy::new(Attributes::All, Some(&op)).all(from.as_fd(), to.as_fd()).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Cancelled);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
