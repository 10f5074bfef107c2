//! Committing: an image of one more layer, made from a container's changes.

use super::archive::stage_stream;
use super::config::{History, ImageConfig, RootFs};
use super::digest::Digest;
use super::import::head;
use super::reference::Reference;
use super::{Images, NewImage, StagedLayers, host_architecture, no_such, stored_digest};
use crate::error::{Error, Result};
use crate::model::{ContainerConfig, Event};
use crate::op::Op;
use crate::store::images as rows;
use crate::time::{now_ns, rfc3339_nano};
use serde::Serialize;
use std::io::Read;

/// Digest of the tar with nothing in it, as this library and docker write it: no layer is made of it.
const EMPTY_TAR: &str = "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef";

/// What is committed.
pub(crate) struct Commit<'a> {
    /// Id of the container's image.
    pub(crate) parent: &'a str,
    pub(crate) container: &'a str,
    pub(crate) container_config: &'a ContainerConfig,
    /// What containers of the new image are made from.
    pub(crate) config: &'a ContainerConfig,
    pub(crate) author: &'a str,
    pub(crate) comment: &'a str,
    pub(crate) name: Option<&'a Reference>,
}

/// The configuration as written.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    pub(super) architecture: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) author: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) comment: &'a str,
    #[serde(serialize_with = "as_image")]
    pub(super) config: &'a ContainerConfig,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) container: &'a str,
    #[serde(serialize_with = "as_image")]
    pub(super) container_config: &'a ContainerConfig,
    pub(super) created: String,
    pub(super) docker_version: &'a str,
    pub(super) history: Vec<History>,
    pub(super) os: &'a str,
    pub(super) rootfs: RootFs,
}

fn as_image<S: serde::Serializer>(config: &ContainerConfig, to: S) -> std::result::Result<S::Ok, S::Error> {
    crate::model::of_image(&Some(config.clone()), to)
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
    Ok(Some(match tag {
        "" => reference.or_latest(),
        tag => reference.with_tag(tag)?,
    }))
}

impl Images {
    /// Makes an image of `commit` with the tar of a layer; answers its id and the event of its name.
    pub(crate) fn commit_container(
        &self,
        commit: &Commit<'_>,
        layer: &mut dyn Read,
        op: Option<&Op>,
    ) -> Result<(String, Option<Event>)> {
        let parent = self.db.read(|tx| rows::any(tx, commit.parent)?.ok_or_else(|| no_such(commit.parent)))?;
        let below = ImageConfig::parse(&parent.config)?;
        let mut layers = self.db.read(|tx| rows::layers(tx, commit.parent))?;

        let staging = self.layers.stage()?;
        let start = head(layer)?;
        let (directory, staged) = stage_stream(&staging, layer, &start, op)?;
        let is_empty = staged.diff_id.to_string() == EMPTY_TAR;
        if !is_empty {
            layers.push(staged.diff_id.to_string());
        }
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let created_ns = now_ns();
        let created = rfc3339_nano(created_ns);
        let mut history: Vec<History> = below.steps().cloned().collect();
        history.push(History {
            created: Some(created.clone()),
            author: some(commit.author),
            created_by: some(&commit.container_config.cmd.clone().unwrap_or_default().join(" ")),
            comment: some(commit.comment),
            empty_layer: is_empty.then_some(true),
        });
        let document = Document {
            architecture: below.architecture.filter(|a| !a.is_empty()).unwrap_or_else(|| host_architecture().into()),
            author: commit.author,
            comment: commit.comment,
            config: commit.config,
            container: commit.container,
            container_config: commit.container_config,
            created,
            docker_version: env!("CARGO_PKG_VERSION"),
            history,
            os: "linux",
            rootfs: RootFs { kind: "layers".into(), diff_ids: Some(layers.clone()) },
        };
        let bytes = serde_json::to_vec(&document).map_err(|e| Error::internal(format!("image configuration: {e}")))?;
        let image = NewImage {
            id: Digest::of(&bytes),
            config: bytes,
            created: created_ns,
            layers: layers.iter().map(|id| stored_digest(id)).collect::<Result<_>>()?,
            parent: Some(stored_digest(commit.parent)?),
            names: commit.name.cloned().into_iter().collect(),
        };
        let mut all = StagedLayers::new();
        if !is_empty {
            all.insert(staged.diff_id, (directory, staged));
        }
        self.commit(&staging, &all, std::slice::from_ref(&image))?;
        let id = image.id.to_string();
        let tag = commit.name.map(|name| Event::image("tag", &id, &name.to_string(), &commit.config.labels));
        Ok((id, tag))
    }
}
