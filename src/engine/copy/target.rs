//! The directory that receives a copy of a root: marked from beginning to end, and emptied if the copy fails.

use crate::error::{Error, Result};
use crate::kernel::remove::remove_tree;
use crate::kernel::tree;
use crate::store::unfinished::{self, MARKER, Marker};
use crate::store::{Db, identity, states};
use std::fs::DirBuilder;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The database's name until the rest of the copy is on disk.
const DATABASE: &str = "unfinished-copy.db";

/// The entries of a copy, in the order in which a failed copy removes them.
const MADE: [&str; 9] =
    [Db::NAME, identity::NAME, DATABASE, identity::SHOWN_ID, states::NAME, "containers", "volumes", "layers", MARKER];

/// The directory of a copy. Dropped before [`Target::finish`], it is as it was before.
pub(super) struct Target {
    path: PathBuf,
    dir: OwnedFd,
    /// The directory did not exist before.
    is_new: bool,
    /// `None`: the copy is complete.
    marker: Option<Marker>,
}

impl Target {
    /// Claims the directory `dir` for a copy of `root`. Errors: the directory is not empty, or lies in the root.
    pub(super) fn begin(dir: &Path, root: &Path) -> Result<Target> {
        let failed = |e: &std::io::Error| Error::io(format_args!("make directory {}", dir.display()), e);
        let is_new = match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => true,
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(e) => return Err(failed(&e)),
        };
        let begun = dir.canonicalize().map_err(|e| failed(&e)).and_then(|path| Target::mark(path, is_new, root));
        if begun.is_err() && is_new {
            // Only an empty directory is removed.
            let _ = std::fs::remove_dir(dir);
        }
        begun
    }

    fn mark(path: PathBuf, is_new: bool, root: &Path) -> Result<Target> {
        if path.starts_with(root) {
            let text = format!("{} lies in the engine root {}, which is to be copied", path.display(), root.display());
            return Err(Error::invalid(text).in_area("root"));
        }
        unfinished::refusal(&path).map_or(Ok(()), Err)?;
        let dir = tree::open_dir(&path)?;
        is_empty(&path, &dir)?;
        super::super::dirs::narrow(&path, 0o700)?;
        let marker = Marker::set(&path, root)?;
        // A program that has opened the directory as a new root meanwhile keeps it.
        if let Err(error) = is_empty(&path, &dir) {
            marker.take()?;
            return Err(error);
        }
        Ok(Target { path, dir, is_new, marker: Some(marker) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path at which the database is written.
    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Opens a subdirectory, made if missing.
    pub(super) fn make(&self, name: &str) -> Result<OwnedFd> {
        match tree::mkdir_at(self.dir.as_fd(), name, 0o700) {
            Err(error) if error.is(libc::EEXIST) => {}
            made => made?,
        }
        tree::open_dir_at(self.dir.as_fd(), name)
    }

    /// Completes the copy of the root `of`. By its identity the first open knows that it is a copy.
    pub(super) fn finish(mut self, of: &Path, flush: bool) -> Result<()> {
        for name in [identity::SHOWN_ID, identity::NAME] {
            if name == identity::NAME {
                if flush {
                    tree::sync_fs(self.dir.as_fd())?;
                }
                tree::rename_at(self.dir.as_fd(), DATABASE, self.dir.as_fd(), Db::NAME)?;
            }
            self.take_file(of, name)?;
        }
        if flush {
            tree::sync_fs(self.dir.as_fd())?;
        }
        self.marker.take().map_or(Ok(()), Marker::take)?;
        if flush { tree::sync_fd(self.dir.as_fd()) } else { Ok(()) }
    }

    /// Copies a small file of the root, if the root has it.
    fn take_file(&self, of: &Path, name: &str) -> Result<()> {
        match std::fs::read(of.join(name)) {
            Ok(bytes) => crate::kernel::file::make_once(&self.path.join(name), &bytes, false),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Error::io(format_args!("read {}", of.join(name).display()), &e)),
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.marker.is_none() {
            return;
        }
        // Files that stay are marked, as long as one stays.
        let removed = MADE.iter().try_for_each(|name| remove_tree(self.dir.as_fd(), name));
        if removed.is_ok() && self.is_new {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// Errors: the directory has other entries than a marker of ours and those of an empty file system.
fn is_empty(path: &Path, dir: &OwnedFd) -> Result<()> {
    let names = tree::names(dir.as_fd())?;
    let strange = names.iter().find(|name| !matches!(name.as_slice(), b"lost+found") && *name != MARKER.as_bytes());
    strange.map_or(Ok(()), |name| {
        let name = String::from_utf8_lossy(name);
        let text = format!("{} is not empty (it holds {name}): name an empty directory, or none", path.display());
        Err(Error::conflict(text).in_area("root"))
    })
}
