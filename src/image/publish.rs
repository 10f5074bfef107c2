//! Making images visible: their layers by one rename each, then images and names by one transaction.

use super::catalog::Catalog;
use super::digest::Digest;
use super::layer::Staged;
use super::layer_store::{LayerStore, Staging};
use super::reference::Reference;
use super::{name_row, signed};
use crate::error::{Error, Result};
use crate::store::images::{self as rows, ImageRow};
use crate::store::plugins::{self, PluginRow};
use crate::store::{Db, Flush};
use crate::time::now_ns;
use rusqlite::Transaction;
use std::collections::HashMap;
use std::sync::Arc;

/// Makes images visible.
pub(crate) struct Publisher {
    pub(super) db: Arc<Db>,
    pub(super) layers: Arc<LayerStore>,
    pub(super) catalog: Arc<Catalog>,
}

/// Staged layers by diff id: name of the directory in the staging, and what it holds.
pub(super) type StagedLayers = HashMap<Digest, (String, Staged)>;

/// An image about to become visible.
#[derive(Debug)]
pub(super) struct NewImage {
    pub(super) id: Digest,
    pub(super) config: Vec<u8>,
    pub(super) created: i64,
    pub(super) layers: Vec<Digest>,
    pub(super) parent: Option<Digest>,
    pub(super) names: Vec<Reference>,
    /// Whether this engine made the image: then its history is trusted, and builds may use it as a cached step.
    pub(super) made_here: bool,
    /// The plugin whose files the image has: it is installed, or gets another image, with it.
    pub(super) plugin: Option<NewPlugin>,
}

/// A plugin that becomes visible together with its image, which stays hidden.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "registry"), expect(dead_code, reason = "plugins come from registries"))]
pub(crate) enum NewPlugin {
    Installed(PluginRow),
    /// The id of one that is there, and its new document.
    Upgraded(String, String),
}

impl NewPlugin {
    /// Gives the plugin its image.
    fn publish(&self, tx: &Transaction<'_>, image_id: &str) -> Result<()> {
        match self {
            NewPlugin::Installed(plugin) => plugins::insert(tx, plugin)?,
            NewPlugin::Upgraded(id, document) => plugins::replace(tx, id, image_id, document)?,
        }
        rows::hide(tx, image_id)
    }
}

/// The changes that [`Publisher::publish`] made beside those that it was asked for.
#[derive(Debug, Default)]
pub(super) struct Committed {
    /// Names that other images had, and their ids.
    pub(super) renamed: Vec<(String, String)>,
}

impl Publisher {
    /// Makes images and their layers visible, all or nothing.
    pub(super) fn publish(
        &self,
        staging: &Staging<'_>,
        staged: &StagedLayers,
        images: &[NewImage],
    ) -> Result<Committed> {
        if !staged.is_empty() {
            staging.flush()?;
        }
        let moving = self.layers.moving()?;
        let now = now_ns();
        let mut moved = Vec::new();
        let result = self.db.write(Flush::Durable, |tx| {
            let mut done = Committed::default();
            for image in images {
                for diff_id in &image.layers {
                    let text = diff_id.to_string();
                    if rows::has_layer(tx, &text)? {
                        continue;
                    }
                    let (name, layer) = staged.get(diff_id).ok_or_else(|| {
                        Error::internal(format!("layer {diff_id} was removed by another program, try again"))
                    })?;
                    moving.publish(staging, name, diff_id)?;
                    moved.push(*diff_id);
                    rows::insert_layer(tx, &text, signed(layer.size), signed(layer.tar))?;
                }
                let layers: Vec<String> = image.layers.iter().map(Digest::to_string).collect();
                let row = ImageRow {
                    id: image.id.to_string(),
                    config: image.config.clone(),
                    created: image.created,
                    parent: image.parent.map(|id| id.to_string()),
                };
                rows::insert(tx, &row, &layers)?;
                if image.made_here {
                    rows::made_here(tx, &row.id)?;
                }
                image.plugin.as_ref().map_or(Ok(()), |plugin| plugin.publish(tx, &row.id))?;
                for name in &image.names {
                    if let Some(old) = rows::set_name(tx, &name_row(name, &row.id), now)? {
                        done.renamed.push((name.to_string(), old));
                    }
                }
            }
            if !moved.is_empty() {
                moving.sync()?;
            }
            Ok(done)
        });
        if result.is_err() {
            for diff_id in &moved {
                // Only what surely has no row: a commit may fail late. The rest is the sweep's.
                if matches!(self.catalog.has_layer(diff_id), Ok(false)) {
                    let _ = moving.take_back(staging, diff_id);
                }
            }
        }
        result
    }
}
