//! Labels the files of the host that a container sees: binds and volumes with `z` or `Z`, and the engine's own files.
//!
//! Files are reached by descriptors, never through links, and mounts below a source are left alone.

use crate::error::{Error, Result};
use crate::kernel::path::openat2;
use crate::kernel::tree;
use crate::kernel::walk::{Mounts, Order, Step, Walk};
use crate::walls::Wall;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The attribute that holds a label.
pub(crate) const KEY: &str = "security.selinux";

/// Directories that the host needs with the labels of its policy: they themselves, not their content.
const SYSTEM: &[&str] = &[
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/efi",
    "/etc",
    "/etc/group",
    "/etc/passwd",
    "/etc/pki",
    "/etc/selinux",
    "/etc/shadow",
    "/etc/ssh",
    "/etc/ssl",
    "/etc/sudoers",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/media",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/log",
    "/var/run",
    "/var/spool",
    "/var/tmp",
];

/// File systems of the kernel, whose files nobody may relabel.
const KERNELS: &[&str] = &["/dev", "/proc", "/sys"];

/// Opens the source of a bind for relabelling. `kept`: directories of the engine: they, their content and their parents
/// are not relabelled. Errors: the path goes through a link, or belongs to the system or to the engine.
pub(crate) fn open_source(path: &Path, kept: &[&Path]) -> Result<OwnedFd> {
    let root = tree::open_dir(Path::new("/"))?;
    let links = if Wall::RelabelTargets.stands() { libc::RESOLVE_NO_SYMLINKS } else { 0 };
    let flags = libc::O_PATH | if Wall::RelabelTargets.stands() { libc::O_NOFOLLOW } else { 0 };
    let refused = |why: &str| Error::invalid(format!("SELinux relabeling of {} is not allowed: {why}", path.display()));
    let linked = || refused("the path goes through a symbolic link: name the link's target");
    let source = match openat2(root.as_fd(), path.as_os_str().as_bytes(), flags, 0, links) {
        Err(error) if error.is(libc::ELOOP) => return Err(linked()),
        opened => opened?,
    };
    if !Wall::RelabelTargets.stands() {
        return Ok(source);
    }
    let stat = tree::stat_fd(source.as_fd())?;
    if stat.mode & libc::S_IFMT == libc::S_IFLNK {
        return Err(linked());
    }
    // The path in the kernel's words: the requested one may have `..` in it.
    let place = PathBuf::from(OsString::from_vec(tree::path_of(source.as_fd())?));
    // Another mount of a directory is the same directory.
    let is_same = |other: &Path| std::fs::metadata(other).is_ok_and(|it| (it.dev(), it.ino()) == (stat.dev, stat.ino));
    let is_kernels =
        KERNELS.iter().map(Path::new).any(|dir| place.starts_with(dir) || lies_in_file_system(dir, stat.dev));
    if is_kernels || SYSTEM.iter().any(|dir| is_same(Path::new(dir))) {
        return Err(refused("it belongs to the system"));
    }
    for dir in kept {
        let dir = dir.canonicalize().map_err(|e| Error::io(format_args!("find {}", dir.display()), &e))?;
        if place.starts_with(&dir) || dir.ancestors().any(is_same) {
            return Err(refused("the engine's own files lie there"));
        }
    }
    Ok(source)
}

/// Whether a device number is that of the file system mounted at `dir`, wherever else it is mounted. False for a
/// directory that is not a mount point.
fn lies_in_file_system(dir: &Path, device: u64) -> bool {
    let device_of = |path: &Path| std::fs::metadata(path).map(|it| it.dev()).ok();
    device_of(dir) == Some(device) && device_of(Path::new("/")) != Some(device)
}

/// Labels a file, or a directory with its content. `whole`: also enters directories that have the label already. A file
/// system without labels is left alone.
pub(crate) fn tree(source: BorrowedFd<'_>, label: &str, whole: bool) -> Result<()> {
    if !whole && has(source, label)? {
        return Ok(());
    }
    if tree::stat_fd(source)?.is_dir() {
        below(source, label)?;
    }
    // Last, so that the label of a directory means that its content is labelled.
    one(source, label)
}

fn below(source: BorrowedFd<'_>, label: &str) -> Result<()> {
    let mut walk = Walk::new(source, Order::AsRead, Mounts::Kept)?;
    while let Some(step) = walk.next()? {
        if step == Step::Left {
            continue;
        }
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let resolve = libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_XDEV;
        match openat2(walk.dir()?, walk.name(), flags, 0, resolve) {
            // The file was removed, or is a mount point now.
            Err(error) if tree::is_elsewhere(&error) || error.is(libc::EXDEV) => continue,
            opened => one(opened?.as_fd(), label)?,
        }
        if walk.is_dir() {
            match walk.open() {
                Ok(Some(dir)) => walk.enter(dir)?,
                Ok(None) => {}
                Err(error) if error.is(libc::EXDEV) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Labels one file, unless it has the label.
fn one(file: BorrowedFd<'_>, label: &str) -> Result<()> {
    if has(file, label)? {
        return Ok(());
    }
    match tree::set_xattr_of(file, KEY, label.as_bytes()) {
        Err(error) if error.is(libc::EOPNOTSUPP) => Ok(()),
        set => set,
    }
}

/// Whether a file has a label. Labels from the kernel end with a NUL.
pub(crate) fn has(file: BorrowedFd<'_>, label: &str) -> Result<bool> {
    let value = tree::get_xattr_of(file, KEY)?;
    Ok(value.is_some_and(|value| value.strip_suffix(b"\0").unwrap_or(&value) == label.as_bytes()))
}

/// Opens a file of the engine's own, which a container can write, but not replace.
pub(crate) fn open_own(path: &Path) -> Result<OwnedFd> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::internal(format!("{} is not a file", path.display())));
    };
    let dir = tree::open_dir(dir)?;
    openat2(dir.as_fd(), name.as_bytes(), libc::O_PATH | libc::O_NOFOLLOW, 0, libc::RESOLVE_NO_SYMLINKS)
}
