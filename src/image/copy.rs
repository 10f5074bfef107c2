//! Layers for a copy of the root: images are kept as long as the copy is made, whoever removes them meanwhile.

use super::collect::Collector;
use super::layer::recipe;
use super::layer_store::{LayerStore, Staging};
use super::stored_digest;
use crate::error::{Error, Result};
use crate::kernel::copy::TreeCopy;
use crate::kernel::tree;
use crate::store::images as rows;
use crate::store::{Db, Flush};
use rusqlite::Transaction;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// How often a layer that a repair replaces meanwhile is copied anew.
const AGAIN: u32 = 4;

/// Begins copies of the root's images.
pub(crate) struct Copies {
    pub(super) db: Arc<Db>,
    pub(super) layers: Arc<LayerStore>,
    pub(super) collector: Arc<Collector>,
}

/// The images of a root that is copied; they are kept until this is dropped.
pub(crate) struct CopiedImages<'a> {
    copies: &'a Copies,
    /// The staging's name is the holder of the copy's leases. If the program is killed, nobody holds the staging any
    /// more.
    staging: Staging<'a>,
}

impl Copies {
    /// Begins a copy.
    pub(crate) fn begin(&self) -> Result<CopiedImages<'_>> {
        Ok(CopiedImages { copies: self, staging: self.layers.stage()? })
    }
}

impl CopiedImages<'_> {
    /// Keeps all images of this moment.
    pub(crate) fn hold_all(&self, tx: &Transaction<'_>) -> Result<()> {
        rows::lease_all(tx, self.staging.name())
    }

    /// Copies a layer into the directory `to`.
    pub(crate) fn layer(&self, diff_id: &str, to: BorrowedFd<'_>, tree_copy: &mut TreeCopy<'_>) -> Result<()> {
        let digest = stored_digest(diff_id)?;
        let mut left = AGAIN;
        loop {
            let layer = self.copies.layers.open_layer(&digest)?;
            tree::mkdir_at(to, digest.hex(), 0o700)?;
            let made = tree::open_dir_at(to, digest.hex())?;
            tree_copy.all(layer.as_fd(), made.as_fd()).map_err(|e| e.context(format_args!("layer {diff_id}")))?;
            let (was, is) = (tree::stat_fd(layer.as_fd())?, self.copies.layers.open_layer(&digest)?);
            let is = tree::stat_fd(is.as_fd())?;
            if (was.dev, was.ino) == (is.dev, is.ino) && tree::stat_at(made.as_fd(), recipe::FILE)?.is_some() {
                return Ok(());
            }
            // A repair put another tree there, and removes this one.
            crate::kernel::remove::remove_tree(to, digest.hex())?;
            left = left.checked_sub(1).ok_or_else(|| {
                Error::corrupt(format!("layer {diff_id}: it was replaced again and again, or has no recipe"))
            })?;
        }
    }
}

impl Drop for CopiedImages<'_> {
    fn drop(&mut self) {
        // The next open does the work that fails here.
        let builder = self.staging.name();
        let ended = self.copies.db.write(Flush::Lazy, |tx| rows::end_leases(tx, builder));
        let _ = ended.and_then(|()| self.copies.collector.collect());
    }
}
