//! Committing: an image of one more layer, made from a container's changes.

use super::archive::stage_written;
use super::catalog::no_such;
use super::config::{ImageConfig, MAX_CONFIG};
use super::document::{self, Document, Next};
use super::layer_store::LayerStore;
use super::publish::{NewImage, Publisher, StagedLayers};
use super::reference::Reference;
use super::stored_digest;
use crate::error::{Error, Result};
use crate::model::{ContainerConfig, Event};
use crate::store::Db;
use crate::store::images as rows;
use crate::time::now_ns;
use std::io::Write;
use std::sync::Arc;

/// The facts of a commit.
pub(crate) struct Commit<'a> {
    /// Id of the container's image; empty: it has none.
    pub(crate) parent: &'a str,
    pub(crate) container: &'a str,
    pub(crate) container_config: &'a ContainerConfig,
    /// The configuration that containers of the new image are made from.
    pub(crate) config: &'a ContainerConfig,
    pub(crate) author: &'a str,
    pub(crate) comment: &'a str,
    pub(crate) name: Option<&'a Reference>,
}

/// The name of a commit, if it is to have one.
pub(crate) fn check_commit_name(repo: &str, tag: &str) -> Result<Option<Reference>> {
    if repo.is_empty() {
        return Ok(None);
    }
    let reference = Reference::parse(repo)?;
    if reference.digest().is_some() {
        return Err(Error::invalid("cannot commit to a digest reference"));
    }
    reference.check_ambiguity()?;
    Ok(Some(match tag {
        "" => reference.or_latest(),
        tag => reference.with_tag(tag)?,
    }))
}

/// Makes images of containers.
pub(crate) struct Committer {
    pub(super) db: Arc<Db>,
    pub(super) layers: Arc<LayerStore>,
    pub(super) publisher: Arc<Publisher>,
}

impl Committer {
    /// The configuration and the layers of a container's image, also of one that was removed by force: what a container
    /// needs of it stays. Without an image there is nothing below.
    fn below(&self, image: &str) -> Result<(ImageConfig, Vec<String>)> {
        if image.is_empty() {
            return Ok((ImageConfig::default(), Vec::new()));
        }
        self.db.read(|tx| {
            let row = rows::any(tx, image)?.ok_or_else(|| no_such(image))?;
            Ok((ImageConfig::parse(&row.config)?, rows::layers(tx, image)?))
        })
    }

    /// Makes an image of `commit` with the layer whose tar `write` writes; answers its id and the event of its name.
    pub(crate) fn commit(
        &self,
        commit: &Commit<'_>,
        write: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
    ) -> Result<(String, Option<Event>)> {
        let (below, layers) = self.below(commit.parent)?;
        let staging = self.layers.stage()?;
        let (directory, staged) = stage_written(&staging, write)?;
        let mut layers = layers.iter().map(|id| stored_digest(id)).collect::<Result<Vec<_>>>()?;
        let has_layer = !staged.is_empty();
        layers.extend(has_layer.then_some(staged.diff_id));
        let created = now_ns();
        let (author, comment, container_config) = (commit.author, commit.comment, commit.container_config);
        let history = document::history(&below, &Next { author, comment, container_config, created, has_layer });
        let document = Document {
            architecture: below.architecture,
            author,
            comment,
            config: commit.config,
            container: commit.container,
            container_config,
            created,
            history,
            layers: &layers,
        };
        let (id, config) = document.write()?;
        if config.len() > MAX_CONFIG {
            return Err(Error::invalid(format!("an image configuration of more than {MAX_CONFIG} bytes")));
        }
        let image = NewImage {
            id,
            config,
            created,
            layers,
            parent: (!commit.parent.is_empty()).then(|| stored_digest(commit.parent)).transpose()?,
            names: commit.name.cloned().into_iter().collect(),
            made_here: true,
            plugin: None,
        };
        let mut all = StagedLayers::new();
        if has_layer {
            all.insert(staged.diff_id, (directory, staged));
        }
        self.publisher.publish(&staging, &all, std::slice::from_ref(&image))?;
        let id = image.id.to_string();
        let tag = commit.name.map(|name| Event::image("tag", &id, &name.to_string(), &commit.config.labels));
        Ok((id, tag))
    }
}
