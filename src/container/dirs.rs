//! Making, opening, writing and removing the directories and the files that the engine keeps of containers; the base layer.

use super::Snapshot;
use crate::error::{Error, Result};
use crate::kernel::remove::remove_tree;
use crate::kernel::tree;
use crate::walls::Wall;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Makes a directory (mode 0700) and those above it, if missing.
pub(super) fn make(dir: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| Error::io(format_args!("make directory {}", dir.display()), &e))
}

/// Removes a tree as [`remove`] does. `files` and `dirs` are what is likely to be in it, the directories empty: to remove
/// them without looking takes a third of the system calls.
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

/// Removes a tree; one that is not there is removed already, and so is what another program removes at the same time.
pub(super) fn remove(dir: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(Error::internal(format!("{} cannot be removed", dir.display())));
    };
    match tree::open_dir(parent) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        parent => remove_tree(parent?.as_fd(), name.as_bytes()),
    }
}

/// The names in a directory; none where the directory is not there. Names that are no text are none of ours.
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

/// Opens a directory by a path of the engine's own.
pub(super) fn open(dir: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(dir)
        .map_err(|e| Error::io(format_args!("open {}", dir.display()), &e))
}

/// Writes a small file, if its content differs. The container has it bound, and may have written anything into it: of
/// what is there no more is read than what is to be there.
pub(super) fn write(path: &Path, content: &str) -> Result<()> {
    let write = || {
        let mut file = open_bound(path)?;
        let (wanted, length) = (content.len() as u64, file.metadata()?.len());
        let most = if Wall::BoundFiles.stands() { wanted + 1 } else { u64::MAX };
        let mut old = Vec::new();
        file.by_ref().take(most).read_to_end(&mut old)?;
        if length == wanted && old == content.as_bytes() {
            return Ok(());
        }
        // In place, and never empty in between: a container may be reading it.
        file.write_all_at(content.as_bytes(), 0)?;
        // A change of length costs the file system more than the rest.
        if length > wanted { file.set_len(wanted) } else { Ok(()) }
    };
    write().map_err(|e| Error::io(format_args!("write {}", path.display()), &e))
}

/// Opens a file that a container has bound for writing, whatever flags the container gave it.
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

/// Writes a program that anyone may run, if its content differs.
pub(super) fn write_program(path: &Path, content: &[u8]) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    // No more is read than what it should be.
    let read = || -> std::io::Result<Vec<u8>> {
        let mut old = Vec::with_capacity(content.len() + 1);
        std::fs::File::open(path)?.take(content.len() as u64 + 1).read_to_end(&mut old)?;
        Ok(old)
    };
    if read().is_ok_and(|old| old == content) {
        return Ok(());
    }
    // Another container's first process may be running the one that stands there: it is not written into.
    let part = path.with_extension("part");
    let write = || {
        std::fs::write(&part, content)?;
        std::fs::set_permissions(&part, std::fs::Permissions::from_mode(0o755))?;
        std::fs::rename(&part, path)
    };
    write().map_err(|e| Error::io(format_args!("write {}", path.display()), &e))
}

/// Where the engine mounts something in every container, and what programs look for in one: those above before those
/// below.
const BASE: [(&str, Kind); 9] = [
    ("proc", Kind::Directory),
    ("dev", Kind::Directory),
    ("sys", Kind::Directory),
    ("etc", Kind::Directory),
    ("etc/hosts", Kind::File(0o644)),
    ("etc/hostname", Kind::File(0o644)),
    ("etc/resolv.conf", Kind::File(0o644)),
    // By it programs know that they are in a container.
    (".dockerenv", Kind::File(0o755)),
    ("etc/mtab", Kind::Link("/proc/mounts")),
];

/// The places that are made in the base layer.
#[derive(Clone, Copy)]
enum Kind {
    Directory,
    File(u32),
    Link(&'static str),
}

/// Makes (where it is not there) the layer that lies below every image's: what an image lacks of mount points is seen
/// from here, and the container's own layer stays as the container left it. It also saves each container from making and
/// removing them (1 ms).
pub(super) fn base_layer(root: &Path) -> Result<PathBuf> {
    let base = root.join("base");
    let failed = |path: &Path, e: std::io::Error| Error::io(format_args!("make {}", path.display()), &e);
    // The last one is made last.
    if base.join(BASE[BASE.len() - 1].0).symlink_metadata().is_ok() {
        return Ok(base);
    }
    let dir = |path: &Path| DirBuilder::new().recursive(true).mode(0o755).create(path);
    dir(&base).map_err(|e| failed(&base, e))?;
    for (name, kind) in BASE {
        let path = base.join(name);
        // Whatever the host program's umask is.
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

/// Name of the log's file in the durable directory.
pub(super) fn log_name(found: &Snapshot) -> String {
    match found.spec.host_config.log_config.kind.as_str() {
        "local" => "local.log".into(),
        _ => format!("{}-json.log", found.row.id),
    }
}
