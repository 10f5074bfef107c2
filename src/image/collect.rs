//! Freeing what nothing needs any more, and what programs that ended left half done.

use super::catalog::Catalog;
use super::layer_store::LayerStore;
use super::stored_digest;
use crate::error::Result;
use crate::model::Leftover;
use crate::options::Options;
use crate::store::images as rows;
use crate::store::{Db, Flush};
use std::sync::Arc;

/// Frees images, layers and staging directories that nothing needs.
pub(crate) struct Collector {
    pub(super) db: Arc<Db>,
    pub(super) layers: Arc<LayerStore>,
    pub(super) catalog: Arc<Catalog>,
}

impl Collector {
    /// Removes what programs that ended left half done, as far as it can be.
    pub(crate) fn sweep(&self, options: &Options) -> Result<()> {
        let known = || self.catalog.layer_ids().map(|ids| ids.into_iter().collect());
        self.layers.sweep(known, options.registry.parts_limit)
    }

    /// The directories that could not be removed.
    pub(crate) fn leftovers(&self) -> Vec<Leftover> {
        self.layers.leftovers.all()
    }

    /// Frees what only containers that are gone had needed. To be called after a container was removed, and cheap.
    pub(crate) fn collect(&self) -> Result<()> {
        if !self.db.read(rows::any_hidden)? {
            return Ok(());
        }
        let gone = self.db.write_to_free(Flush::Lazy, |tx| match rows::remove_unheld(tx)? {
            true => rows::drop_unused_layers(tx),
            false => Ok(Vec::new()),
        })?;
        self.free(&gone)
    }

    /// Ends the leases of builds whose program was killed: nobody is at work in their directories.
    pub(super) fn end_lost_leases(&self) -> Result<()> {
        let holders = self.db.read(rows::lease_holders)?;
        let lost: Vec<String> = holders.into_iter().filter(|builder| !self.layers.is_staging(builder)).collect();
        if lost.is_empty() {
            return Ok(());
        }
        self.db.write(Flush::Lazy, |tx| lost.iter().try_for_each(|builder| rows::end_leases(tx, builder)))?;
        self.collect()
    }

    /// Removes the files of layers whose rows are gone, unless they came back.
    pub(super) fn free(&self, gone: &[String]) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let moving = self.layers.moving()?;
        let gone = self.db.read(|tx| {
            let mut free = Vec::new();
            for diff_id in gone {
                if !rows::has_layer(tx, diff_id)? {
                    free.push(stored_digest(diff_id)?);
                }
            }
            Ok(free)
        })?;
        moving.remove(&gone)?;
        self.db.restock();
        Ok(())
    }
}
