//! A container's directories: `root/containers/<id>` (durable) and `run/c/<id>` (until the reboot).

use super::{Containers, Found};
use crate::error::{Error, Result};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Makes a directory (mode 0700) and those above it, if missing.
pub(super) fn make(dir: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|e| Error::io(format_args!("make directory {}", dir.display()), &e))
}

/// Removes a tree; one that is not there is removed already, and so is what another program removes at the same time.
pub(super) fn remove(dir: &Path) -> Result<()> {
    loop {
        match std::fs::remove_dir_all(dir) {
            Ok(()) => return Ok(()),
            // Of the tree itself or of something in it.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && !dir.exists() => return Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(format_args!("remove {}", dir.display()), &e)),
        }
    }
}

/// What is in a directory; nothing where it is not there. Names that are no text are none of ours.
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

/// Writes a small file, if its content differs.
pub(super) fn write(path: &Path, content: &str) -> Result<()> {
    if std::fs::read(path).is_ok_and(|old| old == content.as_bytes()) {
        return Ok(());
    }
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(path)?;
        std::io::Write::write_all(&mut file, content.as_bytes())
    };
    write().map_err(|e| Error::io(format_args!("write {}", path.display()), &e))
}

impl Containers {
    /// The durable directory.
    pub(super) fn dir(&self, id: &str) -> PathBuf {
        self.root.join("containers").join(id)
    }

    /// The run directory.
    pub(super) fn run_dir(&self, id: &str) -> PathBuf {
        self.run.join("c").join(id)
    }

    /// Opens the run directory, making it if a reboot took it.
    pub(super) fn open_run_dir(&self, id: &str) -> Result<File> {
        let path = self.run_dir(id);
        open(&path).or_else(|_| {
            make(&path)?;
            open(&path)
        })
    }

    /// The json-file log.
    pub(super) fn log_path(&self, found: &Found) -> PathBuf {
        self.dir(&found.row.id).join(log_name(&found.row.id))
    }
}

/// File name of the json-file log in the durable directory.
pub(super) fn log_name(id: &str) -> String {
    format!("{id}-json.log")
}
