//! Extracting an archive into a container.
//!
//! The directory of each entry is found anew from the root of the container's file system (or its descriptor was kept),
//! so links that the container swaps meanwhile lead nowhere else. Each entry is made by a single name in an open
//! directory.

use super::Files;
use super::get::{explain, volume_events};
use super::owner;
use super::view::Access;
use super::walk::Wanted;
use crate::error::{Error, ErrorKind, Result};
use crate::image::archive_reader::{Entry, Kind, Later, LaterDir, Room, TarReader, decompressed};
use crate::kernel::path::{BENEATH_NO_LINKS, IN_ROOT, openat2};
use crate::kernel::remove::remove_tree;
use crate::kernel::walk::{Mounts, Order, Step, Walk};
use crate::kernel::{mount, thread, tree};
use crate::model::PutArchive;
use crate::op::Op;
use crate::walls::Wall;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

impl Files {
    /// Extracts a tar, plain or compressed, into a directory of a container.
    pub(crate) fn archive_put(
        &self,
        reference: &str,
        path: &str,
        archive: &mut dyn Read,
        how: PutArchive,
        op: Option<&Op>,
    ) -> Result<()> {
        let wanted = Wanted::parse(path)?;
        let (found, view) = self.view(reference, Access::Write, op)?;
        // A link at the end is followed, unlike in a get: files go to the directory to which the link points.
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let place = openat2(view.root.as_fd(), wanted.path(), flags, 0, IN_ROOT).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::ENOTDIR) => Error::invalid("not a directory"),
                _ => explain(error, path, &found),
            }
        })?;
        if mount::is_read_only(place.as_fd())? {
            let own = mount::mount_id(place.as_fd())? == mount::mount_id(view.root.as_fd())?;
            let text = if own { "container rootfs is marked read-only" } else { "mounted volume is marked read-only" };
            return Err(Error::new(ErrorKind::Forbidden, text));
        }
        volume_events(&self.register, &found, "mount")?;
        let first = view.owner.unwrap_or_default();
        let user = Some(found.spec.config.user.as_str()).filter(|user| how.copy_uid_gid && !user.is_empty());
        let owner = user.map(|user| owner::ids(&view.root, user)).transpose()?;
        let spool = || self.images.layers.unnamed_file();
        let unpack = |archive: &mut dyn Read| {
            let root = &view.root;
            let room = Room::of(&self.options);
            let dirs = Later::new(&spool);
            let owners = Owners { first, all: owner };
            Put { root, owners, base: wanted.path(), how, op, room, last: None, dirs, only: None }.all(archive)
        };
        let done = match view.owner {
            None => unpack(archive),
            Some(owner) => as_owner(owner, archive, unpack),
        };
        let done = done.map_err(|error| match error.raw_os_error() {
            Some(libc::EROFS) => error.with_kind(ErrorKind::Forbidden),
            _ => error,
        });
        if done.is_ok() {
            self.register.event(&found, "extract-to-dir", &[])?;
        }
        volume_events(&self.register, &found, "unmount")?;
        done
    }
}

/// Extracts in a thread whose files belong to the root of a user namespace; the archive goes there through a pipe.
fn as_owner(
    (uid, gid): (u32, u32),
    archive: &mut dyn Read,
    extract: impl FnOnce(&mut dyn Read) -> Result<()> + Send,
) -> Result<()> {
    let (mut from, mut to) = std::io::pipe().map_err(|e| Error::io("make a pipe", &e))?;
    std::thread::scope(|scope| {
        let worker = thread::spawn(scope, "coracle-archive", move || {
            thread::make_for(uid, gid)?;
            extract(&mut from)
        })?;
        // If the worker gave up, its error says why.
        let sent = std::io::copy(archive, &mut to);
        drop(to);
        let done = worker.join().map_err(|_| Error::internal("a worker thread of an archive failed"))?;
        done?;
        match sent {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("read the archive", &error)),
            _ => Ok(()),
        }
    })
}

/// Extracts a tar, plain or compressed, into the directory `base` (absolute) of the tree `root`; links are resolved
/// inside the tree. Data that must be kept until the end, and may be large, is stored on the file system of `beside`.
pub(crate) fn extract(
    root: &OwnedFd,
    base: &str,
    archive: &mut dyn Read,
    beside: BorrowedFd<'_>,
    room: Room,
    op: Option<&Op>,
) -> Result<()> {
    let (how, spool) = (PutArchive::default(), || tree::unnamed_file(beside));
    let (owners, dirs) = (Owners::default(), Later::new(&spool));
    Put { root, owners, base, how, op, room, last: None, dirs, only: None }.all(archive)
}

/// The files of its image that a container of another engine changed, by their paths as in an archive: without a slash at the
/// beginning.
#[derive(Default)]
pub(crate) struct Differences {
    pub gone: Vec<Vec<u8>>,
    /// Paths that were made or changed. The extraction removes from this set each path that it finds in the archive.
    pub come: BTreeSet<Vec<u8>>,
}

impl Files {
    /// Gives a new container the changes of another one, whose whole file system is in `archive`. `changed.come` keeps
    /// the paths that the archive did not have.
    pub(crate) fn take_changes(
        &self,
        reference: &str,
        changed: &mut Differences,
        archive: &mut dyn Read,
        op: Option<&Op>,
    ) -> Result<()> {
        let (_busy, root, upper) = self.empty_root(reference, op)?;
        for path in &changed.gone {
            op.map_or(Ok(()), Op::check)?;
            let (above, name) = split(path);
            // If the directory itself is gone, there is nothing to remove.
            match openat2(
                root.as_fd(),
                [b"./", above].concat(),
                libc::O_RDONLY | libc::O_DIRECTORY,
                0,
                BENEATH_NO_LINKS,
            ) {
                Err(error) if error.is(libc::ENOENT) => {}
                parent => remove_tree(parent?.as_fd(), name)?,
            }
        }
        let spool = || self.images.layers.unnamed_file();
        let (how, dirs, room) = (PutArchive::default(), Later::new(&spool), Room::of(&self.options));
        let only = Some(&mut changed.come);
        let owners = Owners::default();
        Put { root: &root, owners, base: "/", how, op, room, last: None, dirs, only }.all(archive)?;
        tree::sync_fs(upper.as_fd())
    }
}

/// Whose the extracted files are.
#[derive(Clone, Copy, Default)]
struct Owners {
    /// The ids of the host that stand for the first user and group in the archive.
    first: (u32, u32),
    /// The ids of all files, in place of those that the archive names.
    all: Option<(u32, u32)>,
}

impl Owners {
    fn of(self, entry: &Entry) -> (u32, u32) {
        let (uid, gid) = self.all.unwrap_or((entry.uid, entry.gid));
        (self.first.0.saturating_add(uid), self.first.1.saturating_add(gid))
    }
}

struct Put<'a> {
    root: &'a OwnedFd,
    owners: Owners,
    /// The directory that receives the files; absolute.
    base: &'a str,
    how: PutArchive,
    op: Option<&'a Op>,
    /// The memory that a compressed archive's decoder may take.
    room: Room,
    /// The directory of the last entry, with its path in the archive.
    last: Option<(Vec<u8>, Rc<OwnedFd>)>,
    /// Directories get their times last, because every file made in a directory changes its time.
    dirs: Later<'a>,
    /// The entries to extract; absent: all.
    only: Option<&'a mut BTreeSet<Vec<u8>>>,
}

impl Put<'_> {
    fn all(mut self, archive: &mut dyn Read) -> Result<()> {
        let input = BufReader::with_capacity(256 << 10, archive);
        let mut plain = BufReader::with_capacity(256 << 10, decompressed(input, self.room)?);
        let mut ignore = crate::image::archive_reader::Unrecorded;
        let mut tar = TarReader::new(&mut plain, &mut ignore);
        while let Some(entry) = tar.next()? {
            self.op.map_or(Ok(()), Op::check)?;
            if self.only.as_mut().is_some_and(|only| !only.remove(&entry.path)) {
                tar.content(&entry, None)?;
                continue;
            }
            self.entry(&mut tar, &entry).map_err(|error| error.context(entry.shown()))?;
        }
        tar.rest()?;
        let (root, base) = (self.root, self.base);
        // A directory that another entry replaced, or the container removed, needs no time.
        self.dirs.each(&mut |LaterDir { path, mtime, .. }| match open(root, base, &path) {
            Ok(dir) => tree::utime_fd(dir.as_fd(), mtime),
            Err(_) => Ok(()),
        })
    }

    fn entry<R: std::io::BufRead>(&mut self, tar: &mut TarReader<'_, R>, entry: &Entry) -> Result<()> {
        if entry.path.is_empty() {
            // The directory itself is there already; it only gets the attributes that the archive gives for it.
            let dir = self.open(b"")?;
            like(self.owners, dir.as_fd(), entry)?;
            return self.dirs.push(&LaterDir { mtime: entry.mtime, ..LaterDir::default() });
        }
        let (above, name) = split(&entry.path);
        let parent = self.parent(above)?;
        self.make_way(parent.as_fd(), name, entry)?;
        match &entry.kind {
            Kind::Dir => {
                match tree::mkdir_at(parent.as_fd(), name, 0o700) {
                    Err(error) if error.is(libc::EEXIST) => {}
                    other => other?,
                }
                like(self.owners, tree::open_dir_at(parent.as_fd(), name)?.as_fd(), entry)?;
                self.dirs.push(&LaterDir { path: entry.path.clone(), mtime: entry.mtime, ..LaterDir::default() })
            }
            Kind::File => {
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
                let file = File::from(tree::open_at(parent.as_fd(), name, flags, 0o600)?);
                let mut write = |offset: u64, bytes: &[u8]| -> Result<()> {
                    file.write_all_at(bytes, offset).map_err(|e| Error::io("write", &e))
                };
                tar.content(entry, Some((&entry.path, &mut write)))?;
                if entry.sparse {
                    tree::truncate_fd(file.as_fd(), i64::try_from(entry.size).unwrap_or(i64::MAX))?;
                }
                like(self.owners, file.as_fd(), entry)?;
                tree::utime_fd(file.as_fd(), entry.mtime)
            }
            Kind::Symlink(target) => {
                tree::symlink_at(target, parent.as_fd(), name)?;
                self.own(parent.as_fd(), name, entry)?;
                tree::utime_at(parent.as_fd(), name, entry.mtime)
            }
            Kind::Link(target) => {
                let (above, old) = split(target);
                let from = self.open(above)?;
                tree::link_at(from.as_fd(), old, parent.as_fd(), name)
            }
            Kind::Char(..) | Kind::Block(..) | Kind::Fifo => {
                let (kind, device) = match entry.kind {
                    Kind::Char(major, minor) => (libc::S_IFCHR, (major, minor)),
                    Kind::Block(major, minor) => (libc::S_IFBLK, (major, minor)),
                    _ => (libc::S_IFIFO, (0, 0)),
                };
                tree::mknod_at(parent.as_fd(), name, kind | 0o600, device)?;
                self.own(parent.as_fd(), name, entry)?;
                tree::chmod_at(parent.as_fd(), name, entry.mode)?;
                tree::utime_at(parent.as_fd(), name, entry.mtime)
            }
        }
    }

    /// Sets the owner of an entry that cannot be opened.
    fn own(&self, parent: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> Result<()> {
        let (uid, gid) = self.owners.of(entry);
        tree::chown_at(parent, name, uid, gid)
    }

    /// Removes the file at the place of an entry. A directory stays if the entry is a directory, too.
    fn make_way(&mut self, parent: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> Result<()> {
        let Some(there) = tree::stat_at(parent, name)? else { return Ok(()) };
        match (there.is_dir(), entry.kind == Kind::Dir) {
            (true, true) => return Ok(()),
            (true, false) if self.how.no_overwrite_dir_non_dir => {
                return Err(Error::invalid("unable to overwrite existing directory with non-directory"));
            }
            (false, true) if self.how.no_overwrite_dir_non_dir => {
                return Err(Error::invalid("unable to overwrite existing non-directory with directory"));
            }
            _ => {}
        }
        // An archive must not remove a mount. In a namespace that the caller is not in the kernel would allow it.
        if holds_mount(parent, name, mount::mount_id(parent)?)? {
            return Err(Error::os("replace a mount", libc::EBUSY));
        }
        if there.is_dir() {
            // Directories that are kept open may lie in the removed tree.
            self.last = None;
        }
        remove_tree(parent, name)
    }

    /// The directory of the path `path` in the archive; missing directories are made.
    fn parent(&mut self, path: &[u8]) -> Result<Rc<OwnedFd>> {
        if let Some((last, dir)) = &self.last
            && last == path
        {
            return Ok(dir.clone());
        }
        // The length of the part of the path that exists.
        let mut end = path.len();
        let mut dir = loop {
            match self.open(&path[..end]) {
                Err(error) if error.is(libc::ENOENT) && end > 0 => end = split(&path[..end]).0.len(),
                // A file stands where the entry's path has a directory.
                Err(error) if error.is(libc::ENOTDIR) && self.how.no_overwrite_dir_non_dir => {
                    return Err(Error::invalid("unable to overwrite existing non-directory with directory"));
                }
                other => break other?,
            }
        };
        for name in path[end..].split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            match tree::mkdir_at(dir.as_fd(), name, 0o755) {
                Err(error) if error.is(libc::EEXIST) => {}
                other => other?,
            }
            dir = tree::open_dir_at(dir.as_fd(), name)?;
            // The mode must not depend on the caller's umask.
            tree::chmod_fd(dir.as_fd(), 0o755)?;
        }
        let dir = Rc::new(dir);
        self.last = Some((path.to_vec(), dir.clone()));
        Ok(dir)
    }

    fn open(&self, path: &[u8]) -> Result<OwnedFd> {
        open(self.root, self.base, path)
    }
}

/// Opens a directory of the archive; links in it are resolved as in the container.
fn open(root: &OwnedFd, base: &str, path: &[u8]) -> Result<OwnedFd> {
    let mut whole = base.as_bytes().to_vec();
    whole.push(b'/');
    whole.extend_from_slice(path);
    if !Wall::ArchiveConfined.stands() {
        return openat2(root.as_fd(), [b"./", &whole[..]].concat(), libc::O_RDONLY | libc::O_DIRECTORY, 0, 0);
    }
    openat2(root.as_fd(), whole, libc::O_RDONLY | libc::O_DIRECTORY, 0, IN_ROOT)
}

/// Whether something is mounted on `name` of `dir` or below it; `id` is the mount of `dir`.
fn holds_mount(dir: BorrowedFd<'_>, name: &[u8], id: u64) -> Result<bool> {
    let place = tree::open_at(dir, name, libc::O_PATH, 0)?;
    if mount::mount_id(place.as_fd())? != id {
        return Ok(true);
    }
    if !tree::stat_fd(place.as_fd())?.is_dir() {
        return Ok(false);
    }
    let top = tree::open_dir_at(dir, name)?;
    let mut walk = Walk::new(top.as_fd(), Order::AsRead, Mounts::Kept)?;
    while let Some(step) = walk.next()? {
        if step == Step::Left {
            continue;
        }
        if walk.is_dir() {
            match walk.open() {
                Err(error) if error.is(libc::EXDEV) => return Ok(true),
                Err(error) => return Err(error),
                Ok(Some(opened)) => walk.enter(opened)?,
                Ok(None) => {}
            }
            continue;
        }
        match tree::open_at(walk.dir()?, walk.name(), libc::O_PATH, 0) {
            Err(error) if error.is(libc::ENOENT) => {}
            Err(error) => return Err(error),
            Ok(place) if mount::mount_id(place.as_fd())? != id => return Ok(true),
            Ok(_) => {}
        }
    }
    Ok(false)
}

/// Sets owner, mode and attributes as in the archive, in the order that keeps setuid bits and capabilities.
fn like(owners: Owners, fd: BorrowedFd<'_>, entry: &Entry) -> Result<()> {
    let (uid, gid) = owners.of(entry);
    tree::chown_fd(fd, uid, gid)?;
    tree::chmod_fd(fd, entry.mode)?;
    for (key, value) in &entry.xattrs {
        // An archive must not set the attributes by which overlayfs shows a directory.
        if key.starts_with("trusted.") || key.starts_with("user.overlay.") {
            continue;
        }
        match tree::set_xattr_fd(fd, key, value) {
            Err(error) if error.is(libc::EOPNOTSUPP) && key != "security.capability" => {}
            other => other?,
        }
    }
    Ok(())
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}
