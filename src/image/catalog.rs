//! Finding images by their names, and what containers are made from.

use super::config::{ImageConfig, ImageConfigView};
use super::digest::Digest;
use super::layer_store::LayerStore;
use super::reference::Reference;
use super::{Emit, labels, name_row, stored_digest};
use crate::error::{Error, ErrorKind, Result};
use crate::hex::{is_hex, is_hex_id};
use crate::model::Event;
use crate::store::images as rows;
use crate::store::{Db, Flush};
use crate::time::now_ns;
use parking_lot::Mutex;
use rusqlite::Transaction;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// The images that have a row, and those that a build of this program has made.
pub(crate) struct Catalog {
    pub(super) db: Arc<Db>,
    pub(super) layers: Arc<LayerStore>,
    /// The images that builds of this program have made and nobody else sees yet, by id.
    pub(super) pending: Mutex<HashMap<String, Pending>>,
}

/// An image of a build that is not over.
#[derive(Clone)]
pub(super) struct Pending {
    pub(super) config: Vec<u8>,
    /// The directories of its unpacked layers, bottom first.
    pub(super) layers: Vec<PathBuf>,
}

impl Catalog {
    /// The id (`sha256:...`) of the image that `name` means: an id, a reference, or the beginning of an id.
    pub(crate) fn resolve(&self, name: &str) -> Result<String> {
        self.db.read(|tx| find(tx, name)).map(|found| found.id)
    }

    /// The id of the image that `name` means, and what a container of it is made from.
    pub(crate) fn config(&self, name: &str) -> Result<(String, ImageConfigView)> {
        if let Some(pending) = self.pending.lock().get(name) {
            return Ok((name.to_owned(), ImageConfig::parse(&pending.config)?.into()));
        }
        let row = self.db.read(|tx| {
            let id = find(tx, name)?.id;
            rows::get(tx, &id)?.ok_or_else(|| no_such(name))
        })?;
        Ok((row.id, ImageConfig::parse(&row.config)?.into()))
    }

    /// Whether an image's configuration asks for all rights, and is heard: never.
    #[cfg(feature = "attacks")]
    pub(crate) fn asks_for_rights(&self, id: &str) -> Result<bool> {
        if crate::walls::Wall::ImageRights.stands() {
            return Ok(false);
        }
        let config = self.db.read(|tx| Ok(rows::any(tx, id)?.map(|row| row.config).unwrap_or_default()))?;
        let config: serde_json::Value = crate::document::read(&config).unwrap_or_default();
        Ok(config["config"]["HostConfig"]["Privileged"] == true)
    }

    /// The unpacked layers of an image by its whole id, topmost first: overlayfs's order of lower directories.
    ///
    /// Works too for an image that was removed by force while a container still needs it, and for none: it has no
    /// layers.
    pub(crate) fn rootfs(&self, image_id: &str) -> Result<Vec<PathBuf>> {
        self.db.read(|tx| self.rootfs_in(tx, image_id))
    }

    /// As [`Catalog::rootfs`], within a transaction.
    pub(crate) fn rootfs_in(&self, tx: &Transaction<'_>, image_id: &str) -> Result<Vec<PathBuf>> {
        if image_id.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(pending) = self.pending.lock().get(image_id) {
            return Ok(topmost_first(pending.layers.clone()));
        }
        let layers = match rows::any(tx, image_id)? {
            Some(_) => rows::layers(tx, image_id)?,
            None => return Err(no_such(image_id)),
        };
        let paths = layers.iter().map(|diff_id| self.layers.present(&stored_digest(diff_id)?));
        Ok(topmost_first(paths.collect::<Result<_>>()?))
    }

    /// Whether a container may be made of an image, by its whole id: asked in the transaction that makes it.
    pub(crate) fn is_there(&self, tx: &Transaction<'_>, image_id: &str) -> Result<bool> {
        Ok(self.pending.lock().contains_key(image_id) || rows::get(tx, image_id)?.is_some())
    }

    /// Gives the image `name` another name, moving it where another image has it.
    pub(crate) fn tag(&self, name: &str, reference: &str, emit: Emit<'_>) -> Result<()> {
        let reference = Reference::parse_tag(reference)?;
        let row = self.db.write(Flush::Durable, |tx| {
            let id = find(tx, name)?.id;
            rows::set_name(tx, &name_row(&reference, &id), now_ns())?;
            rows::get(tx, &id)?.ok_or_else(|| no_such(name))
        })?;
        emit(Event::image("tag", &row.id, &reference.to_string(), &labels(&row.config)));
        Ok(())
    }

    /// The ids of the image that `name` means and of all images made from it here; none where there is no such image.
    pub(crate) fn descendants(&self, name: &str) -> Result<BTreeSet<String>> {
        let id = match self.resolve(name) {
            Ok(id) => id,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(error),
        };
        let all = self.db.read(rows::all)?;
        let mut family = BTreeSet::from([id]);
        loop {
            let before = family.len();
            let children = all.iter().filter(|row| row.parent.as_ref().is_some_and(|parent| family.contains(parent)));
            let found: Vec<String> = children.map(|row| row.id.clone()).collect();
            family.extend(found);
            if family.len() == before {
                return Ok(family);
            }
        }
    }

    /// Bytes of an image's layers, unpacked.
    pub(crate) fn size(&self, image_id: &str) -> Result<i64> {
        self.db.read(|tx| rows::layer_sizes(tx, image_id)).map(|sizes| sizes.iter().sum())
    }

    /// The diff ids of all layers that have a row.
    pub(super) fn layer_ids(&self) -> Result<Vec<Digest>> {
        self.db.read(rows::all_layers)?.iter().map(|id| stored_digest(id)).collect()
    }

    /// Whether the store has a layer.
    pub(super) fn has_layer(&self, diff_id: &Digest) -> Result<bool> {
        self.db.read(|tx| rows::has_layer(tx, &diff_id.to_string()))
    }
}

/// The layers of an overlay: one that comes twice hides its lower self, and overlayfs takes no directory twice.
fn topmost_first(layers: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut paths = Vec::with_capacity(layers.len());
    for path in layers.into_iter().rev() {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// How a name led to an image.
pub(super) struct ImageMatch {
    pub(super) id: String,
    /// The reference, where the name was one (not an id).
    pub(super) reference: Option<Reference>,
}

/// Looks an image up: whole id; exact reference; `repository:<beginning of an id>`; beginning of an id.
pub(super) fn find(tx: &Transaction<'_>, name: &str) -> Result<ImageMatch> {
    let by_id = |id: String| ImageMatch { id, reference: None };
    let hex = name.strip_prefix("sha256:").unwrap_or(name);
    if is_hex_id(hex) {
        let id = format!("sha256:{hex}");
        return rows::get(tx, &id)?.map(|row| by_id(row.id)).ok_or_else(|| no_such(&id));
    }
    let reference = Reference::parse(name)?.or_latest();
    if let Some(id) = rows::named(tx, &reference.to_string())? {
        return Ok(ImageMatch { id, reference: Some(reference) });
    }
    if let Some(prefix) = reference.tag().filter(|tag| is_hex(tag) && !name.starts_with("sha256:")) {
        let repository = reference.repository();
        let mut fits = Vec::new();
        for id in rows::by_prefix(tx, prefix, 32)? {
            if rows::names(tx, &id)?.iter().any(|n| n.repository == repository) {
                fits.push(id);
            }
        }
        if let [id] = fits.as_slice() {
            return Ok(by_id(id.clone()));
        }
    }
    if is_hex(hex) {
        match rows::by_prefix(tx, hex, 2)?.as_slice() {
            [] => {}
            [id] => return Ok(by_id(id.clone())),
            _ => {
                let message = format!("No such image: {reference} (several image ids begin with {hex})");
                return Err(Error::not_found(message));
            }
        }
    }
    Err(Error::not_found(format!("No such image: {reference}")))
}

/// dockerd's error for a name that means no image.
pub(super) fn no_such(name: &str) -> Error {
    Error::not_found(format!("No such image: {name}"))
}
