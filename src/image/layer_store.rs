//! The directory of layers: staging, making visible, removing.
//!
//! `root/layers/<64 hex of the diff id>/` holds a layer once and for all images: its unpacked tree `diff/`, its
//! `recipe`, maybe `replaced/`. A layer counts when the database has its row, and only then: a directory without one
//! comes from a program that ended in between, is never used, and is swept. Layers in the making stand in
//! `root/tmp/image-…`, locked by its maker; a directory there whose lock is free is swept by the next opener.
//!
//! Two locks (flock on the directories themselves): `tmp/` is held shared while a staging directory is made and locked,
//! exclusively by the sweeper (parts of downloads have locks of their own); `layers/` is held exclusively while
//! directories move in or out, which is short.

use super::decompress::Gate;
use super::digest::Digest;
use super::layer::{Room, Stage, recipe};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::remove::remove_tree;
use crate::kernel::staging;
use crate::kernel::tree::{self, Lock};
use crate::store::{Durability, Leftovers};
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const LAYERS: &str = "layers";
const TMP: &str = "tmp";
const PREFIX: &str = "image-";

/// The layers of one engine root.
pub(crate) struct LayerStore {
    root: PathBuf,
    layers: OwnedFd,
    tmp: OwnedFd,
    durability: Durability,
    pub(super) room: Room,
    /// Staging directories that could not be removed.
    pub(crate) leftovers: Leftovers,
}

/// The exclusive right to move layers in and out. Ends when dropped.
pub(crate) struct Moving<'a> {
    layers: &'a LayerStore,
    /// A descriptor of its own: flock belongs to the open file.
    _lock: OwnedFd,
}

impl LayerStore {
    /// Opens the layers of the existing directory `root`, making what is missing (mode 0700).
    pub(crate) fn open(root: &Path, durability: Durability, room: Room) -> Result<LayerStore> {
        let open = |name: &str| tree::make_dir(&root.join(name), 0o700);
        let (layers, tmp, leftovers) = (open(LAYERS)?, open(TMP)?, Leftovers::default());
        Ok(LayerStore { root: root.to_owned(), layers, tmp, durability, room, leftovers })
    }

    /// The unpacked tree of a layer, for an overlay mount.
    pub(crate) fn diff_path(&self, diff_id: &Digest) -> PathBuf {
        self.root.join(LAYERS).join(diff_id.hex()).join(recipe::DIFF)
    }

    /// Opens a layer's directory.
    pub(crate) fn open_layer(&self, diff_id: &Digest) -> Result<OwnedFd> {
        tree::open_dir_at(self.layers.as_fd(), diff_id.hex()).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT) => lost(diff_id),
            _ => error.context(format_args!("layer {diff_id}")),
        })
    }

    /// The inode of a layer's directory: a repair puts another one in its place. `None`: the directory is missing.
    pub(super) fn identity(&self, diff_id: &Digest) -> Result<Option<u64>> {
        Ok(tree::stat_at(self.layers.as_fd(), diff_id.hex())?.map(|stat| stat.ino))
    }

    /// The unpacked tree of a layer that has to be there. A row without its directory is what a damaged file system or
    /// a foreign hand leaves.
    pub(crate) fn present(&self, diff_id: &Digest) -> Result<PathBuf> {
        match tree::stat_at(self.layers.as_fd(), diff_id.hex())? {
            Some(stat) if stat.is_dir() => Ok(self.diff_path(diff_id)),
            _ => Err(lost(diff_id)),
        }
    }

    /// The directory for what is not whole yet.
    pub(super) fn tmp(&self) -> BorrowedFd<'_> {
        self.tmp.as_fd()
    }

    /// A file without a name, for what an operation must remember.
    pub(crate) fn unnamed_file(&self) -> Result<OwnedFd> {
        tree::unnamed_file(self.tmp())
    }

    /// How many values a document from outside may have.
    pub(crate) fn most_values(&self) -> usize {
        self.room.values
    }

    /// A new staging directory of ours.
    pub(crate) fn stage(&self) -> Result<Staging<'_>> {
        #[cfg(feature = "attacks")]
        if !crate::walls::Wall::OwnTemporary.stands() {
            std::fs::write(std::env::temp_dir().join("coracle-stage"), "")?;
        }
        let (name, dir) = staging::make(self.tmp(), &self.reopen(TMP)?, PREFIX)?;
        Ok(Staging { layers: self, name, dir, count: AtomicU64::new(0), gate: Arc::new(Gate::new()) })
    }

    /// Whether somebody is at work in a staging directory of that name. One that is there and nobody's could not be
    /// removed.
    pub(crate) fn is_staging(&self, name: &str) -> bool {
        staging::is_in_use(self.tmp(), self.reopen(TMP), name)
    }

    /// Takes the exclusive right to move layers.
    pub(crate) fn moving(&self) -> Result<Moving<'_>> {
        let lock = self.reopen(LAYERS)?;
        tree::lock(lock.as_fd(), Lock::Exclusive, "the directory layers of the root")?;
        Ok(Moving { layers: self, _lock: lock })
    }

    /// The damage of a layer, as far as one look at its directory shows: no file in it is read.
    pub(super) fn look(&self, diff_id: &Digest) -> Option<&'static str> {
        let Ok(layer) = tree::open_dir_at(self.layers.as_fd(), diff_id.hex()) else {
            return Some("its directory is missing");
        };
        let stat = |name: &str| tree::stat_at(layer.as_fd(), name).ok().flatten();
        match (stat(recipe::FILE), stat(recipe::DIFF)) {
            (Some(recipe), _) if recipe.size == 0 => Some("its recipe is empty"),
            (Some(_), Some(diff)) if diff.is_dir() => None,
            (None, _) => Some("its recipe is missing"),
            _ => Some("its tree is missing"),
        }
    }

    /// Removes what programs that ended left: their staging directories, and layers that `known` does not have.
    /// Does nothing where another program is just at it. Parts of downloads may have `parts_limit` bytes. Directories
    /// that cannot be removed now are noted.
    pub(crate) fn sweep(&self, known: impl FnOnce() -> Result<HashSet<Digest>>, parts_limit: u64) -> Result<()> {
        let gate = self.reopen(TMP)?;
        if tree::try_lock(gate.as_fd(), Lock::Exclusive)? {
            let names = tree::names(self.tmp.as_fd())?;
            for name in names.iter().filter(|name| name.starts_with(PREFIX.as_bytes())) {
                let place = self.staged_at(&String::from_utf8_lossy(name));
                let swept = staging::sweep(self.tmp(), name, |_| Ok(()));
                self.leftovers.note(place, swept.map(drop))?;
            }
            self.sweep_parts(names, parts_limit)?;
        }
        drop(gate);
        let lock = self.reopen(LAYERS)?;
        if tree::try_lock(lock.as_fd(), Lock::Exclusive)? {
            // Asked for under the lock: what others add they add under it.
            let (known, mut orphans) = (known()?, Vec::new());
            for name in tree::names(self.layers.as_fd())? {
                let digest = std::str::from_utf8(&name).ok().and_then(Digest::from_hex);
                orphans.extend(digest.filter(|digest| !known.contains(digest)));
            }
            let moving = Moving { layers: self, _lock: lock };
            moving.remove(&orphans)?;
        }
        Ok(())
    }

    fn staged_at(&self, name: &str) -> PathBuf {
        self.root.join(TMP).join(name)
    }

    fn reopen(&self, name: &str) -> Result<OwnedFd> {
        tree::open_dir(&self.root.join(name))
    }
}

impl Moving<'_> {
    /// Makes a staged layer the layer `diff_id`. A directory that stands there already changes places with it in
    /// one step: a row never stands without its directory, whichever program is killed in between.
    pub(crate) fn publish(&self, staging: &Staging<'_>, name: &str, diff_id: &Digest) -> Result<()> {
        let (layers, hex) = (&self.layers.layers, diff_id.hex());
        match tree::rename_at(staging.dir.as_fd(), name, layers.as_fd(), &hex) {
            Err(error) if error.is(libc::EEXIST) => tree::exchange_at(staging.dir.as_fd(), name, layers.as_fd(), &hex),
            other => other,
        }
    }

    /// Puts a staged layer in the place of the damaged one, which goes with the staging.
    pub(crate) fn replace(&self, staging: &Staging<'_>, name: &str, diff_id: &Digest) -> Result<()> {
        staging.flush()?;
        self.publish(staging, name, diff_id)?;
        self.sync()
    }

    /// Takes a layer that was just published back, to go with the staging.
    pub(crate) fn take_back(&self, staging: &Staging<'_>, diff_id: &Digest) -> Result<()> {
        tree::rename_at(self.layers.layers.as_fd(), diff_id.hex(), staging.dir.as_fd(), staging.next())
    }

    /// Makes the moves durable, as far as the engine's durability asks.
    pub(crate) fn sync(&self) -> Result<()> {
        match self.layers.durability {
            Durability::Full => tree::sync_fd(self.layers.layers.as_fd()),
            _ => Ok(()),
        }
    }

    /// Takes layers away; deleting their files happens after the lock is given back.
    pub(crate) fn remove(self, gone: &[Digest]) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let staging = self.layers.stage()?;
        for digest in gone {
            match tree::rename_at(self.layers.layers.as_fd(), digest.hex(), staging.dir.as_fd(), staging.next()) {
                Err(error) if error.is(libc::ENOENT) => {}
                other => other?,
            }
        }
        drop(self);
        staging.clear()
    }
}

fn lost(diff_id: &Digest) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("layer {diff_id}: its directory is missing; `coracle verify --repair` may bring it back"),
    )
}

/// A directory of ours for what is not visible yet; removed with what is left in it when dropped.
pub(crate) struct Staging<'a> {
    layers: &'a LayerStore,
    name: String,
    dir: OwnedFd,
    count: AtomicU64,
    gate: Arc<Gate>,
}

impl Staging<'_> {
    /// A new, empty directory in it, and its name.
    pub(crate) fn layer(&self) -> Result<(String, Stage)> {
        let name = self.next();
        tree::mkdir_at(self.dir.as_fd(), &name, 0o700)?;
        let dir = tree::open_dir_at(self.dir.as_fd(), &name)?;
        let flushed = self.layers.durability == Durability::Full;
        Ok((name, Stage { dir, room: self.layers.room, gate: self.gate.clone(), flushed }))
    }

    /// A layer that was staged.
    pub(crate) fn open(&self, name: &str) -> Result<OwnedFd> {
        tree::open_dir_at(self.dir.as_fd(), name)
    }

    /// The name of the directory in `tmp/`. If no such directory exists, its maker is gone.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> PathBuf {
        self.layers.staged_at(&self.name)
    }

    /// Removes a directory of [`Staging::layer`] that is not needed any more.
    pub(crate) fn discard(&self, name: &str) -> Result<()> {
        remove_tree(self.dir.as_fd(), name)
    }

    /// Everything staged so far is on disk, as far as the engine's durability asks.
    pub(crate) fn flush(&self) -> Result<()> {
        match self.layers.durability {
            Durability::Full => tree::sync_fs(self.dir.as_fd()),
            _ => Ok(()),
        }
    }

    fn next(&self) -> String {
        (self.count.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    }

    fn clear(&self) -> Result<()> {
        let removed = remove_tree(self.layers.tmp.as_fd(), &self.name);
        self.layers.leftovers.note(self.path(), removed)
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        // Files that cannot be removed now are noted, and the next open sweeps them.
        let _ = self.clear();
    }
}
