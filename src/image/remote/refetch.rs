//! Fetching again what is damaged here: from the repositories that its images came from or went to.

use super::manifest::{ACCEPT, Manifest, Wanted, listed};
use super::pull::{Described, Layer, Pull, Puller};
use super::{ProgressSender, beside};
use crate::error::{Error, ErrorKind, Result};
use crate::image::config::{ImageConfig, ImageConfigView};
use crate::image::digest::Digest;
use crate::image::layer_store::{LayerStore, Staging};
use crate::image::reference::Reference;
use crate::image::repair::Repair;
use crate::image::stored_digest;
use crate::model::ImagePlatform;
use crate::registry::{Client, Transport, auth_for};
use crate::store::Db;
use crate::store::images as rows;
use std::sync::Arc;

/// The most entries of a list that a repair looks through: each takes a request.
const MOST_LISTED: usize = 200;

/// Fetches the content of damaged layers and configurations again.
pub(crate) struct Refetcher {
    pub(in crate::image) db: Arc<Db>,
    pub(in crate::image) layers: Arc<LayerStore>,
    pub(in crate::image) puller: Arc<Puller>,
}

impl Refetcher {
    /// Stages a layer of the store anew, and has `place` put what has that name in the staging in its place. Nothing is
    /// left to do where the layer's directory is not the one that was `seen` damaged any more.
    pub(in crate::image) fn layer(
        &self,
        repair: &Repair<'_>,
        staging: &Staging<'_>,
        diff_id: &Digest,
        seen: Option<u64>,
        place: impl FnOnce(&str) -> Result<()>,
    ) -> Result<()> {
        let images = self.db.read(|tx| rows::images_of_layer(tx, &diff_id.to_string()))?;
        let fetched = self.with_sources(repair, &images, |pull, image, manifest| {
            let layers = self.db.read(|tx| rows::layers(tx, image))?;
            let place = layers.iter().position(|id| *id == diff_id.to_string());
            let blob = place.and_then(|place| manifest.layers.get(place));
            let blob = blob.ok_or_else(|| Error::not_found("its manifest does not say which blob it is"))?;
            let layer = Layer { digest: blob.digest()?, size: blob.size, diff_id: Some(*diff_id) };
            let limit = repair.options.parts_limit;
            let mut part = self.layers.part(pull.transport, &layer.digest, layer.size, limit)?;
            // The repair that held the lock before may have put the layer in its place.
            if self.layers.identity(diff_id)? != seen {
                return Ok(None);
            }
            let (_, name, _) = pull.layer(staging, &layer, &mut part)?;
            Ok(Some((name, part)))
        })?;
        let Some((name, mut part)) = fetched else { return Ok(()) };
        // Before the flush: content that nobody needs any more need not go to the disk. The part stays locked until the
        // layer is in its place: a repair that waits for the part would download the layer again.
        part.reset();
        place(&name)
    }

    /// The configuration of an image of the store.
    pub(in crate::image) fn config(&self, repair: &Repair<'_>, id: &Digest) -> Result<Vec<u8>> {
        self.with_sources(repair, &[id.to_string()], |pull, _, manifest| pull.config(manifest))
    }

    /// The platform of an image of the store, as its configuration names it; absent: its configuration cannot be read.
    fn platform(&self, image: &str) -> Result<Option<ImagePlatform>> {
        let row = self.db.read(|tx| rows::get(tx, image))?;
        let config = row.and_then(|row| ImageConfig::parse(&row.config).ok());
        Ok(config.map(|config| ImageConfigView::from(config).platform()))
    }

    /// Tries every repository that is known to have one of the images, until one gives what is wanted.
    fn with_sources<T: Send>(
        &self,
        repair: &Repair<'_>,
        images: &[String],
        get: impl Fn(&Pull<'_>, &str, &Manifest) -> Result<T> + Sync,
    ) -> Result<T> {
        let mut failure = Error::not_found("no registry is known to have it: load or pull one of its images again");
        for image in images {
            let id = stored_digest(image)?;
            let platform = self.platform(image)?;
            for name in self.db.read(|tx| rows::names(tx, image))?.iter().filter(|name| name.is_digest) {
                let reference = Reference::parse(&name.name)?;
                let auth = auth_for(&repair.request.auths, reference.domain());
                let transport = Transport::new(repair.options.clone());
                let result = beside(&transport, &mut |_| Ok(()), repair.op, |sender: ProgressSender| {
                    let client = Client::connect(&transport, reference.domain(), auth)?;
                    let repository = client.repository(reference.path(), false);
                    let parts_limit = repair.options.parts_limit;
                    let pull = Pull {
                        wanted: Wanted::Image(platform.as_ref()),
                        puller: &self.puller,
                        transport: &transport,
                        repository: &repository,
                        sender: &sender,
                        parts_limit,
                    };
                    get(&pull, image, &manifest_of(&pull, &reference, &id)?)
                });
                match result {
                    Err(error) if !matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Timeout) => {
                        failure = error.context(&name.name);
                    }
                    other => return other,
                }
            }
        }
        Err(failure)
    }
}

/// The manifest that names the configuration `id`: the one for the wanted platform, or another one of the list. The stored
/// configuration, which tells the wanted platform, may be damaged, and may name another platform than the list does.
/// The list itself is not checked: each manifest must have the digest that it is asked for by, and name the configuration.
fn manifest_of(pull: &Pull<'_>, reference: &Reference, id: &Digest) -> Result<Manifest> {
    let first = match fitting(pull, reference, id) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => error,
        other => return other,
    };
    let Some(list) = reference.digest() else { return Err(first) };
    let list = pull.repository.manifest(list, ACCEPT)?;
    for digest in listed(&list.bytes, MOST_LISTED)? {
        let one = reference.clone().with_digest(&digest.to_string())?;
        match fitting(pull, &one, id) {
            // Of an entry that is not an image, or not in this repository, the next ones know nothing.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => {}
            other => return other,
        }
    }
    Err(first)
}

/// The manifest of a reference, if it names the configuration `id`.
fn fitting(pull: &Pull<'_>, reference: &Reference, id: &Digest) -> Result<Manifest> {
    match pull.manifest(reference)?.1 {
        Described::Image(manifest) if manifest.config.digest()? == *id => Ok(manifest),
        Described::Image(_) => Err(Error::not_found("its manifest names another configuration")),
        Described::Old(_) => Err(Error::not_found("its manifest does not say which blob it is")),
    }
}
