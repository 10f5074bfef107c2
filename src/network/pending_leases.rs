//! The addresses that plugins gave and that no row has yet.
//!
//! Each program that asks a plugin notes the answer at once in a file of its own, which is locked as long as the program
//! lives. If a program is killed before its rows are written, the next open of the root gives its addresses back.

use crate::error::{Error, Result};
use crate::kernel::file::{lock_byte, try_lock_byte};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The directory of the files, below the run directory.
const DIR: &str = "net/loans";

/// A pool, or an address of it.
#[derive(Serialize, Deserialize)]
pub(super) struct PendingLease {
    pub plugin: String,
    pub pool: String,
    /// Empty: the pool itself.
    pub address: String,
}

/// The addresses that were given for one operation. The file is removed when this value is dropped: the addresses have rows
/// then, or were given back.
pub(super) struct PendingLeases {
    dir: PathBuf,
    file: Option<(File, PathBuf)>,
}

impl PendingLeases {
    /// No addresses yet; `run` is the root's run directory.
    pub(super) fn new(run: &Path) -> PendingLeases {
        PendingLeases { dir: run.join(DIR), file: None }
    }

    /// Notes the answer of a plugin.
    pub(super) fn note(&mut self, plugin: &str, pool: &str, address: &str) -> Result<()> {
        let lease = PendingLease { plugin: plugin.into(), pool: pool.into(), address: address.into() };
        let mut line = serde_json::to_vec(&lease).map_err(|e| Error::internal(format!("write a lease: {e}")))?;
        line.push(b'\n');
        if self.file.is_none() {
            self.file = Some(self.open()?);
        }
        let failed = |e: &std::io::Error| Error::io("note the lease of a plugin", e);
        self.file.as_mut().map_or(Ok(()), |(file, _)| file.write_all(&line)).map_err(|e| failed(&e))
    }

    /// Makes the file. It gets its name once it is locked: if it is found unlocked, its writer is dead.
    fn open(&self) -> Result<(File, PathBuf)> {
        let failed = |e: &std::io::Error| Error::io(format_args!("write {}", self.dir.display()), e);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(|e| failed(&e))?;
        let name = crate::hex::random_id()?;
        let (staged, path) = (self.dir.join(format!(".{name}")), self.dir.join(&name));
        let file = File::options().append(true).create_new(true).mode(0o600).open(&staged).map_err(|e| failed(&e))?;
        lock_byte(&file, 0, staged.display())?;
        std::fs::rename(&staged, &path).map_err(|e| failed(&e))?;
        Ok((file, path))
    }
}

impl Drop for PendingLeases {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.file {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Calls `give_back` with the leases of each program that was killed, and removes its file where the answer is true.
pub(super) fn of_killed(run: &Path, mut give_back: impl FnMut(&[PendingLease]) -> Result<bool>) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(run.join(DIR)) else { return Ok(()) };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let opened = File::options().read(true).write(true).open(&path);
        let Some(file) = opened.ok().filter(|_| !name.starts_with('.')) else { continue };
        if !try_lock_byte(&file, 0)? {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let leases: Vec<PendingLease> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if give_back(&leases)? {
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}
