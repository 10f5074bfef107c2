//! Makes, opens, writes and removes the directories and files that the engine keeps for containers; makes the base
//! layer.

use super::Snapshot;
use super::spec::LogDriver;
use crate::error::{Error, Result};
use crate::kernel::remove::remove_tree;
use crate::kernel::tree;
use crate::walls::Wall;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Makes a directory (mode 0700) and those above it, if missing.
pub(super) fn make(dir: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| Error::io(format_args!("make directory {}", dir.display()), &e))
}

/// Removes a tree like [`remove`]. `files` and `dirs` are its likely entries, the directories empty: removing them
/// without a listing takes a third of the system calls.
pub(super) fn remove_known(dir: &Path, files: &[&str], dirs: &[&str]) -> Result<()> {
    for name in files {
        let _ = std::fs::remove_file(dir.join(name));
    }
    for name in dirs {
        let _ = std::fs::remove_dir(dir.join(name));
    }
    match std::fs::remove_dir(dir) {
        Ok(()) => Ok(()),
        Err(_) => remove(dir),
    }
}

/// Removes a tree. A missing tree, or files that another program removes meanwhile, are not errors.
pub(super) fn remove(dir: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(Error::internal(format!("{} cannot be removed", dir.display())));
    };
    match tree::open_dir(parent) {
        Err(error) if error.is(libc::ENOENT) => Ok(()),
        parent => remove_tree(parent?.as_fd(), name.as_bytes()),
    }
}

/// The names in a directory; none if the directory does not exist. Names that are not UTF-8 are left out: the engine
/// makes no such names.
pub(super) fn names(dir: &Path) -> Result<Vec<String>> {
    let failed = |e: std::io::Error| Error::io(format_args!("read {}", dir.display()), &e);
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}

/// A file that forgets all that is written to it.
pub(super) fn nowhere() -> Result<File> {
    OpenOptions::new().append(true).open("/dev/null").map_err(|e| Error::io("open /dev/null", &e))
}

/// Opens a directory by a path of the engine's own.
pub(super) fn open(dir: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(dir)
        .map_err(|e| Error::io(format_args!("open {}", dir.display()), &e))
}

/// Writes a small file, if its content differs. The container has a bind of the file and may have written anything into
/// it, so no more is read than the length of the new content.
pub(super) fn write(path: &Path, content: &str) -> Result<()> {
    let write = || {
        let mut file = open_bound(path)?;
        let (wanted, length) = (content.len() as u64, file.metadata()?.len());
        let most = if Wall::BoundFiles.stands() { wanted + 1 } else { u64::MAX };
        let mut old = Vec::new();
        Read::by_ref(&mut file).take(most).read_to_end(&mut old)?;
        if length == wanted && old == content.as_bytes() {
            return Ok(());
        }
        // In place, and never empty in between, because the container may be reading the file.
        file.write_all_at(content.as_bytes(), 0)?;
        // A change of length costs the file system more than the rest.
        if length > wanted { file.set_len(wanted) } else { Ok(()) }
    };
    write().map_err(|e| Error::io(format_args!("write {}", path.display()), &e))
}

/// Opens for writing a file that a container has as a bind, whatever flags (chattr) the container set on it.
fn open_bound(path: &Path) -> std::io::Result<File> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(false).mode(0o644).custom_flags(libc::O_NOFOLLOW);
    match how.open(path) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let frozen = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
            match tree::unfreeze(frozen.as_fd()) {
                Ok(true) => how.open(path),
                _ => Err(error),
            }
        }
        opened => opened,
    }
}

/// Puts a file of this content and mode in the place of another one, if the content differs.
pub(super) fn replace(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    // Reads no more than the expected length.
    let read = || -> std::io::Result<Vec<u8>> {
        let mut old = Vec::with_capacity(content.len() + 1);
        std::fs::File::open(path)?.take(content.len() as u64 + 1).read_to_end(&mut old)?;
        Ok(old)
    };
    if read().is_ok_and(|old| old == content) {
        return Ok(());
    }
    // Another process may be executing the file, or have it mapped, so it is replaced, not written into.
    let part = path.with_extension("part");
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(content)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        std::fs::rename(&part, path)
    };
    write().map_err(|e| Error::io(format_args!("write {}", path.display()), &e))
}

/// The mount points of the engine in every container, and the files by which programs recognise a container; parents
/// before children.
const BASE: [(&str, Kind); 9] = [
    ("proc", Kind::Directory),
    ("dev", Kind::Directory),
    ("sys", Kind::Directory),
    ("etc", Kind::Directory),
    ("etc/hosts", Kind::File(0o644)),
    ("etc/hostname", Kind::File(0o644)),
    ("etc/resolv.conf", Kind::File(0o644)),
    // Programs recognise by this file that they run in a container.
    (".dockerenv", Kind::File(0o755)),
    ("etc/mtab", Kind::Link("/proc/mounts")),
];

/// The kinds of places in the base layer.
#[derive(Clone, Copy)]
enum Kind {
    Directory,
    File(u32),
    Link(&'static str),
}

/// Makes the layer below every image, if it is missing. The layer has the mount points that an image may lack, so the
/// container's own layer stays as the container left it. It also saves each container the making and removing of these
/// directories (1 ms).
pub(super) fn base_layer(root: &Path) -> Result<PathBuf> {
    let base = root.join("base");
    let failed = |path: &Path, e: std::io::Error| Error::io(format_args!("make {}", path.display()), &e);
    // The last entry exists only if all the others do.
    if base.join(BASE[BASE.len() - 1].0).symlink_metadata().is_ok() {
        return Ok(base);
    }
    let dir = |path: &Path| DirBuilder::new().recursive(true).mode(0o755).create(path);
    dir(&base).map_err(|e| failed(&base, e))?;
    for (name, kind) in BASE {
        let path = base.join(name);
        // The mode must not depend on the host program's umask.
        let mode = |mode| std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode));
        let made = match kind {
            Kind::Directory => dir(&path).and_then(|()| mode(0o755)),
            Kind::File(bits) => {
                let made = OpenOptions::new().write(true).create(true).truncate(false).mode(bits).open(&path);
                made.and_then(|_| mode(bits))
            }
            Kind::Link(to) => match std::os::unix::fs::symlink(to, &path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
                made => made,
            },
        };
        made.map_err(|e| failed(&path, e))?;
    }
    Ok(base)
}

/// Name of the log file in the durable directory.
pub(super) fn log_name(found: &Snapshot) -> String {
    match found.spec.host_config.log() {
        LogDriver::Local { .. } => "local.log".into(),
        _ => format!("{}-json.log", found.row.id),
    }
}
