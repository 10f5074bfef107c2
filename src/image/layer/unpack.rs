//! Writing a layer's entries as an overlayfs layer, confined to one directory.
//!
//! Each object is made by descriptor of its parent and one single name. A parent is opened with openat2, beneath the
//! root and through no link; where the layer itself has a link on the way, as hand-made tars do, the kernel resolves it
//! inside the root. Nobody else knows the directory yet, so nothing can be exchanged between two steps.
//!
//! Whiteouts become overlayfs's own: `.wh.NAME` a character device 0/0, `.wh..wh..opq` the attribute
//! `trusted.overlay.opaque`. As the OCI specification has it, they hide what lies below and never what the same layer
//! brings, in whichever order the entries come.

use super::entry::{Entry, Extent, Kind, TarReader, clean, show};
use super::later::{Later, LaterDir};
use super::recorder::Recorder;
use crate::error::{Cause, Error, Result};
use crate::kernel::path::{BENEATH_NO_LINKS, IN_ROOT, openat2};
use crate::kernel::tree::{self, Stat};
use crate::walls::Wall;
use std::collections::VecDeque;
use std::fs::File;
use std::io::BufRead;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const META: &[u8] = b".wh..wh.";
const OPAQUE_XATTR: &str = "trusted.overlay.opaque";
/// Parents kept open.
const PARENTS: usize = 16;
/// `O_PATH` descriptors of directories.
const PARENT: i32 = libc::O_PATH | libc::O_DIRECTORY;

/// Bytes of a file that wait when the kernel is asked to write them to the disk: while more bytes come, and at the
/// file's end. So the disk works beside the digest, and the flush at the end has little to do.
const EARLY: u64 = 4 << 20;
const EARLY_END: u64 = 512 << 10;

/// Most bytes of the paths at which something was replaced: writing the tar again keeps all of them in memory.
const MAX_REPLACED: usize = 4 << 20;

/// The result of an unpacking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// Bytes of the files, with their holes.
    pub(crate) size: u64,
}

/// Unpacks the tar `input` into the empty directory `root`; `replaced` takes what later entries replace.
///
/// The calling thread must have umask 0. `recorder` hears every byte of the tar. `flushed`: a flush will follow.
pub(crate) fn unpack(
    input: impl BufRead,
    root: OwnedFd,
    flushed: bool,
    replaced: &dyn Fn() -> Result<OwnedFd>,
    recorder: &mut dyn Recorder,
) -> Result<Unpacked> {
    let stat = tree::stat_fd(root.as_fd())?;
    let root = Rc::new(root);
    let top = root.clone();
    let spool = || tree::unnamed_file(top.as_fd());
    let mut unpacker = Unpacker {
        root_path: tree::path_of(root.as_fd())?,
        root,
        owner: (stat.uid, stat.gid),
        flushed,
        parents: VecDeque::new(),
        dirs: Later::new(&spool),
        replaced,
        replaced_dir: None,
        replaced_count: 0,
        replaced_bytes: 0,
        done: Unpacked::default(),
    };
    let mut tar = TarReader::new(input, recorder);
    while let Some(entry) = tar.next()? {
        unpacker.entry(&mut tar, &entry).map_err(|error| name_entry(error, &entry))?;
    }
    tar.rest()?;
    unpacker.finish()
}

fn name_entry(error: Error, entry: &Entry) -> Error {
    match error.cause() {
        Some(Cause::NamedEntry) => error,
        _ => error.context(format_args!("unpack {}", entry.shown())),
    }
}

/// A directory of the tree, open, with its real path in it.
#[derive(Clone)]
struct Parent {
    fd: Rc<OwnedFd>,
    path: Rc<[u8]>,
}

impl Parent {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
    fn child(&self, name: &[u8]) -> Vec<u8> {
        if self.path.is_empty() { name.to_vec() } else { [&self.path, &b"/"[..], name].concat() }
    }
}

struct Unpacker<'a> {
    root: Rc<OwnedFd>,
    root_path: Vec<u8>,
    /// The owner that new files have by themselves.
    owner: (u32, u32),
    flushed: bool,
    /// Recently used parents by the name that an entry called them.
    parents: VecDeque<(Vec<u8>, Parent)>,
    dirs: Later<'a>,
    replaced: &'a dyn Fn() -> Result<OwnedFd>,
    replaced_dir: Option<OwnedFd>,
    replaced_count: u64,
    replaced_bytes: usize,
    done: Unpacked,
}

impl Unpacker<'_> {
    fn entry<R: BufRead>(&mut self, tar: &mut TarReader<'_, R>, entry: &Entry) -> Result<()> {
        if entry.path.is_empty() {
            let root = tree::stat_fd(self.root.as_fd())?;
            self.dirs.push(&later(entry, Vec::new(), &root))?;
            return tar.content(entry, None);
        }
        let (parent, name) = split(&entry.path);
        if name.starts_with(WHITEOUT) {
            self.whiteout(parent, name)?;
            return tar.content(entry, None);
        }
        let parent = self.parent(parent)?;
        let path = parent.child(name);
        match &entry.kind {
            Kind::File => return self.file(tar, entry, &parent, name, &path),
            Kind::Dir => self.directory(tar.recorder(), entry, &parent, name, path)?,
            Kind::Link(target) => self.link(tar.recorder(), target, &parent, name, &path)?,
            Kind::Symlink(target) => {
                self.make(tar.recorder(), &parent, name, &path, || tree::symlink_at(target, parent.fd(), name))?;
                self.attributes_at(entry, &parent, name)?;
            }
            Kind::Char(..) | Kind::Block(..) | Kind::Fifo => self.node(tar, entry, &parent, name)?,
        }
        tar.content(entry, None)
    }

    fn file<R: BufRead>(
        &mut self,
        tar: &mut TarReader<'_, R>,
        entry: &Entry,
        parent: &Parent,
        name: &[u8],
        path: &[u8],
    ) -> Result<()> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let fd = self
            .make(tar.recorder(), parent, name, path, || tree::open_at(parent.fd(), name, flags, entry.mode & 0o777))?;
        let file = File::from(fd);
        let (mut written, mut begun) = (0, 0);
        let early = |written: u64, begun: &mut u64, least: u64| {
            if self.flushed && written.saturating_sub(*begun) >= least {
                tree::begin_writing(file.as_fd(), *begun, written);
                *begun = written;
            }
        };
        let mut write = |offset: u64, bytes: &[u8]| {
            file.write_all_at(bytes, offset).map_err(|e| Error::io("write", &e))?;
            written = offset + bytes.len() as u64;
            early(written, &mut begun, EARLY);
            Ok(())
        };
        tar.content(entry, Some((path, &mut write)))?;
        early(written, &mut begun, EARLY_END);
        // A map may end in an empty piece that only says where the file ends.
        let written = entry.extents.iter().rev().find(|extent| extent.length > 0);
        if entry.sparse && written.is_none_or(|Extent { offset, length }| offset + length < entry.size) {
            let size = i64::try_from(entry.size).map_err(|_| Error::invalid("the file is too large"))?;
            tree::truncate_fd(file.as_fd(), size)?;
        }
        self.done.size = self.done.size.saturating_add(entry.size);
        let fd = file.as_fd();
        if (entry.uid, entry.gid) != self.owner {
            tree::chown_fd(fd, entry.uid, entry.gid)?;
        }
        // Writing and chown take setuid and setgid away, so these come last.
        if entry.mode & 0o7000 != 0 {
            tree::chmod_fd(fd, entry.mode)?;
        }
        for (key, value) in &entry.xattrs {
            set_xattr(key, |key| tree::set_xattr_fd(fd, key, value))?;
        }
        tree::utime_fd(fd, entry.mtime)
    }

    fn directory(
        &mut self,
        recorder: &mut dyn Recorder,
        entry: &Entry,
        parent: &Parent,
        name: &[u8],
        path: Vec<u8>,
    ) -> Result<()> {
        match tree::mkdir_at(parent.fd(), name, 0o755) {
            Err(error) if error.is(libc::EEXIST) => {
                let there = tree::stat_at(parent.fd(), name)?;
                if !there.is_some_and(|s| s.is_dir()) {
                    // A directory in the place of a whiteout hides what lies below, as the whiteout did.
                    let opaque = there.is_some_and(|s| is_whiteout(&s));
                    self.put_aside(recorder, parent, name, &path)?;
                    tree::mkdir_at(parent.fd(), name, 0o755)?;
                    if opaque {
                        set_opaque(&tree::open_dir_at(parent.fd(), name)?)?;
                    }
                }
            }
            other => other?,
        }
        let made = tree::stat_at(parent.fd(), name)?.ok_or_else(|| Error::os("find a new directory", libc::ENOENT))?;
        self.dirs.push(&later(entry, path, &made))
    }

    fn link(
        &mut self,
        recorder: &mut dyn Recorder,
        target: &[u8],
        parent: &Parent,
        name: &[u8],
        path: &[u8],
    ) -> Result<()> {
        if target.is_empty() {
            return Err(Error::invalid("a hard link to the root"));
        }
        let (target_parent, target_name) = split(target);
        let missing = |error: Error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP) => {
                Error::invalid(format!("the target {} of the hard link is not in the layer", show(target)))
            }
            Some(libc::EPERM) => Error::invalid(format!("the target {} of the hard link is not a file", show(target))),
            _ => error.context(format_args!("hard link to {}", show(target))),
        };
        let from = self.existing(target_parent).map_err(missing)?;
        if from.child(target_name) == path {
            let there = tree::stat_at(parent.fd(), name)?;
            return there.map(drop).ok_or_else(|| missing(Error::os("link", libc::ENOENT)));
        }
        // Looked at first: what is in the way must not go for a link that cannot be made.
        if tree::stat_at(from.fd(), target_name)?.is_none() {
            return Err(missing(Error::os("link", libc::ENOENT)));
        }
        self.make(recorder, parent, name, path, || tree::link_at(from.fd(), target_name, parent.fd(), name))
            .map_err(missing)
    }

    /// Makes a device or a fifo.
    fn node<R: BufRead>(
        &mut self,
        tar: &mut TarReader<'_, R>,
        entry: &Entry,
        parent: &Parent,
        name: &[u8],
    ) -> Result<()> {
        let (kind, device) = match entry.kind {
            Kind::Char(major, minor) => (libc::S_IFCHR, (major, minor)),
            Kind::Block(major, minor) => (libc::S_IFBLK, (major, minor)),
            _ => (libc::S_IFIFO, (0, 0)),
        };
        let path = parent.child(name);
        let mode = kind | entry.mode;
        self.make(tar.recorder(), parent, name, &path, || tree::mknod_at(parent.fd(), name, mode, device))?;
        self.attributes_at(entry, parent, name)
    }

    /// Sets owner, attributes and time of an object that cannot be opened: a link, device or fifo.
    fn attributes_at(&self, entry: &Entry, parent: &Parent, name: &[u8]) -> Result<()> {
        if (entry.uid, entry.gid) != self.owner {
            tree::chown_at(parent.fd(), name, entry.uid, entry.gid)?;
        }
        for (key, value) in &entry.xattrs {
            set_xattr(key, |key| tree::set_xattr_at(parent.fd(), name, key, value))?;
        }
        tree::utime_at(parent.fd(), name, entry.mtime)
    }

    fn whiteout(&mut self, parent: &[u8], name: &[u8]) -> Result<()> {
        if name == OPAQUE {
            let parent = self.parent(parent)?;
            return set_opaque(&open_real(parent.fd())?);
        }
        // Notes of older storage drivers to themselves.
        if name.starts_with(META) {
            return Ok(());
        }
        let hidden = &name[WHITEOUT.len()..];
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(Error::invalid("a whiteout of no name"));
        }
        let parent = self.parent(parent)?;
        match tree::mknod_at(parent.fd(), hidden, libc::S_IFCHR, (0, 0)) {
            Err(error) if error.is(libc::EEXIST) => match tree::stat_at(parent.fd(), hidden)? {
                Some(stat) if stat.is_dir() => set_opaque(&tree::open_dir_at(parent.fd(), hidden)?),
                _ => Ok(()),
            },
            other => other,
        }
    }

    /// Makes an object, putting aside what is in its way.
    fn make<T>(
        &mut self,
        recorder: &mut dyn Recorder,
        parent: &Parent,
        name: &[u8],
        path: &[u8],
        make: impl Fn() -> Result<T>,
    ) -> Result<T> {
        match make() {
            Err(error) if error.is(libc::EEXIST) => {
                self.put_aside(recorder, parent, name, path)?;
                make()
            }
            other => other,
        }
    }

    /// Takes an object out of the tree. Files and directories are kept beside it, for the recipe.
    fn put_aside(&mut self, recorder: &mut dyn Recorder, parent: &Parent, name: &[u8], path: &[u8]) -> Result<()> {
        let Some(stat) = tree::stat_at(parent.fd(), name)? else { return Ok(()) };
        if !stat.is_dir() && !stat.is_file() {
            self.parents.clear();
            return tree::unlink_at(parent.fd(), name);
        }
        let aside = match self.replaced_dir.take() {
            Some(dir) => dir,
            None => (self.replaced)()?,
        };
        tree::rename_at(parent.fd(), name, aside.as_fd(), self.replaced_count.to_string())?;
        self.replaced_dir = Some(aside);
        self.replaced_count += 1;
        self.replaced_bytes += path.len() + size_of::<Vec<u8>>();
        if self.replaced_bytes > MAX_REPLACED {
            return Err(Error::invalid("tar: too many of its entries replace earlier ones"));
        }
        recorder.replaced(path)?;
        if stat.is_dir() {
            self.parents.clear();
        }
        Ok(())
    }

    /// The directory at `path`, made with its parents where missing.
    fn parent(&mut self, path: &[u8]) -> Result<Parent> {
        // How much of the path is there.
        let mut end = path.len();
        loop {
            match self.existing(&path[..end]) {
                Ok(found) if end == path.len() => return Ok(found),
                Ok(_) => break,
                Err(error) if end > 0 && matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => {
                    end = split(&path[..end]).0.len();
                }
                Err(error) => return Err(error),
            }
        }
        while end < path.len() {
            let parent = self.existing(&path[..end])?;
            let begin = if end == 0 { 0 } else { end + 1 };
            end = path[begin..].iter().position(|&byte| byte == b'/').map_or(path.len(), |at| begin + at);
            match tree::mkdir_at(parent.fd(), &path[begin..end], 0o755) {
                Ok(()) => {}
                // A whiteout where a directory is needed gives way; anything else is an error.
                Err(error) if error.is(libc::EEXIST) => {
                    self.reveal(&parent, &path[begin..end])?;
                }
                Err(error) => return Err(error),
            }
        }
        self.existing(path)
    }

    /// Puts an opaque directory in the place of a whiteout.
    fn reveal(&mut self, parent: &Parent, name: &[u8]) -> Result<()> {
        let shown = show(&parent.child(name));
        match tree::stat_at(parent.fd(), name)? {
            Some(stat) if is_whiteout(&stat) => {
                tree::unlink_at(parent.fd(), name)?;
                tree::mkdir_at(parent.fd(), name, 0o755)?;
                set_opaque(&tree::open_dir_at(parent.fd(), name)?)
            }
            _ => Err(Error::invalid(format!("{shown} is not a directory"))),
        }
    }

    /// The directory at `path`, which must be there.
    fn existing(&mut self, path: &[u8]) -> Result<Parent> {
        if path.is_empty() {
            return Ok(Parent { fd: self.root.clone(), path: Rc::from(&[][..]) });
        }
        if let Some(at) = self.parents.iter().position(|(have, _)| have == path) {
            if at > 0 {
                self.parents.swap(0, at);
            }
            return Ok(self.parents[0].1.clone());
        }
        let confined = if Wall::ArchiveConfined.stands() { BENEATH_NO_LINKS } else { 0 };
        let parent = match openat2(self.root.as_fd(), path, PARENT, 0, confined) {
            Ok(fd) => Parent { fd: Rc::new(fd), path: Rc::from(path) },
            Err(error) if error.is(libc::ELOOP) => {
                let fd = openat2(self.root.as_fd(), path, PARENT, 0, IN_ROOT)?;
                let real = self.real_path(&fd)?;
                Parent { fd: Rc::new(fd), path: Rc::from(real) }
            }
            Err(error) => return Err(error),
        };
        self.parents.truncate(PARENTS - 1);
        self.parents.push_front((path.to_vec(), parent.clone()));
        Ok(parent)
    }

    /// Where a directory that was reached through a link really lies, relative to the root.
    fn real_path(&self, fd: &OwnedFd) -> Result<Vec<u8>> {
        let path = tree::path_of(fd.as_fd())?;
        match path.strip_prefix(self.root_path.as_slice()) {
            Some([]) => Ok(Vec::new()),
            Some([b'/', rest @ ..]) => clean(rest),
            _ => Err(Error::internal("a directory lies outside of the layer")),
        }
    }

    /// Gives directories what would have changed, or hindered, while their content was made.
    fn finish(self) -> Result<Unpacked> {
        let root = self.root;
        self.dirs.each(&mut |dir| {
            finish_dir(root.as_fd(), &dir).map_err(|error| error.context(format_args!("unpack {}", show(&dir.path))))
        })?;
        Ok(self.done)
    }
}

/// Gives a directory what its entry says, unless a later entry put it aside.
fn finish_dir(root: BorrowedFd<'_>, dir: &LaterDir) -> Result<()> {
    let found = match dir.path.is_empty() {
        true => open_real(root),
        false => openat2(root, &dir.path, libc::O_RDONLY | libc::O_DIRECTORY, 0, BENEATH_NO_LINKS),
    };
    let fd = match found {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP)) => return Ok(()),
        other => other?,
    };
    if tree::stat_fd(fd.as_fd())?.ino != dir.inode {
        return Ok(());
    }
    tree::chown_fd(fd.as_fd(), dir.uid, dir.gid)?;
    tree::chmod_fd(fd.as_fd(), dir.mode)?;
    for (key, value) in &dir.xattrs {
        set_xattr(key, |key| tree::set_xattr_fd(fd.as_fd(), key, value))?;
    }
    tree::utime_fd(fd.as_fd(), dir.mtime)
}

fn later(entry: &Entry, path: Vec<u8>, made: &Stat) -> LaterDir {
    LaterDir {
        path,
        inode: made.ino,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        mtime: entry.mtime,
        xattrs: entry.xattrs.clone(),
    }
}

/// Sets one extended attribute of an entry. overlayfs's own are left out: an image must not steer the file system that
/// it is mounted by. Attributes that this file system cannot hold are left out as well, but never a capability.
fn set_xattr(key: &str, set: impl FnOnce(&str) -> Result<()>) -> Result<()> {
    if key.starts_with("trusted.overlay.") || key.starts_with("user.overlay.") {
        return Ok(());
    }
    match set(key) {
        Err(error) => match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) if key != "security.capability" => Ok(()),
            // Links and devices have no user attributes.
            Some(libc::EPERM) if key.starts_with("user.") => Ok(()),
            _ => Err(error),
        },
        done => done,
    }
}

fn set_opaque(dir: &OwnedFd) -> Result<()> {
    tree::set_xattr_fd(dir.as_fd(), OPAQUE_XATTR, b"y")
}

/// Opens a directory again, for reading: an `O_PATH` descriptor takes no attributes.
fn open_real(dir: BorrowedFd<'_>) -> Result<OwnedFd> {
    openat2(dir, ".", libc::O_RDONLY | libc::O_DIRECTORY, 0, BENEATH_NO_LINKS)
}

fn is_whiteout(stat: &Stat) -> bool {
    stat.mode & libc::S_IFMT == libc::S_IFCHR && stat.rdev == 0
}

/// (parent, last component).
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&b| b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::archive_reader::Unrecorded;
    use std::fs;

    fn tar_of(kind: tar::EntryType, content: &[u8]) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let mut tar = tar::Builder::new(Vec::new());
        header.set_link_name("elsewhere").unwrap();
        tar.append_data(&mut header, "a/file", content).unwrap();
        tar.into_inner().unwrap()
    }

    /// The name of the entry comes once, also where the error has it already.
    #[test]
    fn an_error_names_its_entry_once() {
        let dir = std::env::temp_dir().join(format!("coracle-unpack-{}", std::process::id()));
        let message = |tar: &[u8]| {
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir_all(&dir).unwrap();
            let root = tree::open_dir(&dir).unwrap();
            let error = unpack(tar, root, false, &|| Err(Error::internal("nothing is replaced")), &mut Unrecorded);
            error.unwrap_err().message().to_owned()
        };
        let cut = tar_of(tar::EntryType::Regular, &[1; 1000]);
        assert_eq!(message(&cut[..600]), "\"a/file\": tar: unexpected end of the archive");
        let link = tar_of(tar::EntryType::Link, b"");
        let text = "unpack \"a/file\": the target \"elsewhere\" of the hard link is not in the layer";
        assert_eq!(message(&link), text);
        fs::remove_dir_all(&dir).unwrap();
    }
}
