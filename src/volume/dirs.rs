//! The directories of volumes, and those that are staged in `tmp/`.

use crate::error::Result;
use crate::kernel::copy::TreeCopy;
use crate::kernel::remove::remove_tree;
use crate::kernel::staging;
use crate::kernel::tree::{self, Lock};
use crate::store::{Durability, Leftovers};
use crate::walls::Wall;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The directory of a volume's files, in the volume's own directory.
pub(super) const DATA: &str = "_data";
/// How the names of staging directories begin.
pub(super) const PREFIX: &str = "volume-";

/// The directories of one engine root that volumes use.
pub(crate) struct VolumeDirs {
    root: PathBuf,
    pub(super) volumes: OwnedFd,
    pub(super) tmp: OwnedFd,
    pub(super) durability: Durability,
    /// Staging directories that could not be removed.
    pub(crate) leftovers: Leftovers,
}

/// A directory of ours in `tmp/`; removed with what is left in it when dropped.
pub(super) struct Staging<'a> {
    dirs: &'a VolumeDirs,
    pub(super) name: String,
    pub(super) dir: OwnedFd,
}

impl Staging<'_> {
    pub(super) fn clear(&self) -> Result<()> {
        let removed = remove_tree(self.dirs.tmp.as_fd(), &self.name);
        self.dirs.leftovers.note(self.dirs.staged_at(&self.name), removed)
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        // Files that cannot be removed now are noted, and the next open sweeps them.
        let _ = self.clear();
    }
}

/// The mode of directories that only the engine enters: mounts show the data directories below them.
pub(super) fn own_mode() -> u32 {
    if Wall::RootModes.stands() { 0o700 } else { 0o701 }
}

impl VolumeDirs {
    /// Opens the directories of the existing directory `root`, making what is missing.
    pub(super) fn open(root: &Path, durability: Durability) -> Result<VolumeDirs> {
        let open = |name: &str| {
            let dir = tree::make_dir(&root.join(name), own_mode())?;
            // Directories of older releases could be passed through.
            tree::chmod_fd(dir.as_fd(), own_mode()).map(|()| dir)
        };
        let (volumes, tmp, leftovers) = (open("volumes")?, open("tmp")?, Leftovers::default());
        Ok(VolumeDirs { root: root.to_owned(), volumes, tmp, durability, leftovers })
    }

    /// The lock under which a volume is filled or mounted.
    pub(crate) fn lock(&self, name: &str) -> Result<OwnedFd> {
        let volume = tree::open_dir_at(self.volumes.as_fd(), name)?;
        tree::lock(volume.as_fd(), Lock::Exclusive, format_args!("volume {name}"))?;
        Ok(volume)
    }

    /// Where a volume's data lies.
    pub(crate) fn mountpoint(&self, name: &str) -> PathBuf {
        self.root.join("volumes").join(name).join(DATA)
    }

    /// Moves a staged volume to its place. Data that stands there already, of a volume without a row, is nobody's to
    /// throw away: it becomes the volume's. Answers the directory in that case.
    pub(super) fn publish(&self, name: &str, staging: Option<&Staging<'_>>) -> Result<Option<OwnedFd>> {
        if let Some(staging) = staging {
            match tree::rename_at(staging.dir.as_fd(), name, self.volumes.as_fd(), name) {
                Err(error) if error.is(libc::EEXIST) => {}
                other => {
                    other?;
                    return self.flush().map(|()| None);
                }
            }
        }
        match tree::mkdir_at(self.volumes.as_fd(), name, own_mode()) {
            Err(error) if error.is(libc::EEXIST) => {}
            other => other?,
        }
        let volume = tree::open_dir_at(self.volumes.as_fd(), name)?;
        if tree::stat_at(volume.as_fd(), DATA)?.is_none() {
            self.make_data(&volume)?;
        }
        self.flush().map(|()| Some(volume))
    }

    pub(super) fn make_data(&self, volume: &OwnedFd) -> Result<()> {
        tree::mkdir_at(volume.as_fd(), DATA, 0o755)?;
        // Whatever the caller's umask is.
        tree::chmod_fd(tree::open_dir_at(volume.as_fd(), DATA)?.as_fd(), 0o755)
    }

    pub(super) fn flush(&self) -> Result<()> {
        match self.durability {
            Durability::Full => tree::sync_fd(self.volumes.as_fd()),
            _ => Ok(()),
        }
    }

    /// A new staging directory of ours.
    pub(super) fn stage(&self) -> Result<Staging<'_>> {
        let (name, dir) = staging::make(self.tmp.as_fd(), &self.gate()?, PREFIX)?;
        Ok(Staging { dirs: self, name, dir })
    }

    pub(super) fn staged_at(&self, name: &str) -> PathBuf {
        self.root.join("tmp").join(name)
    }

    /// The lock of `tmp/`: held shared while a staging directory is made, exclusively by a sweeper.
    pub(super) fn gate(&self) -> Result<OwnedFd> {
        tree::open_dir(&self.root.join("tmp"))
    }

    /// Copies a volume's directory into `to`; answers whether it is there still.
    pub(crate) fn copy_to(&self, name: &str, to: BorrowedFd<'_>, copy: &mut TreeCopy<'_>) -> Result<bool> {
        let volume = match tree::open_dir_at(self.volumes.as_fd(), name) {
            Err(error) if error.is(libc::ENOENT) => return Ok(false),
            volume => volume?,
        };
        tree::mkdir_at(to, name, own_mode())?;
        let made = tree::open_dir_at(to, name)?;
        let data = match tree::open_dir_at(volume.as_fd(), DATA) {
            Err(error) if error.is(libc::ENOENT) => return Ok(true),
            data => data?,
        };
        tree::mkdir_at(made.as_fd(), DATA, 0o755)?;
        let place = tree::open_dir_at(made.as_fd(), DATA)?;
        copy.all(data.as_fd(), place.as_fd()).map_err(|error| error.context(format_args!("volume {name}")))?;
        Ok(true)
    }
}
