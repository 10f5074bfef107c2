//! Importing: an image of one layer from a root file system tar.

use super::archive::stage_stream;
use super::changes;
use super::config::{History, RootFs};
use super::digest::Digest;
use super::layer_store::LayerStore;
use super::publish::{NewImage, Publisher, StagedLayers};
use super::reference::Reference;
use super::{Emit, OnProgress, host_architecture};
use crate::error::{Error, Result};
use crate::model::{ContainerConfig, Event, ImportImage, Progress};
use crate::op::Op;
use crate::time::{now_ns, rfc3339_nano};
use serde::Serialize;
use std::io::Read;
use std::sync::Arc;

/// The configuration as written.
#[derive(Serialize)]
struct Document<'a> {
    architecture: &'a str,
    comment: &'a str,
    config: &'a ContainerConfig,
    created: &'a str,
    history: [History; 1],
    os: &'a str,
    rootfs: RootFs,
}

/// Makes images of root file systems.
pub(crate) struct Importer {
    pub(super) layers: Arc<LayerStore>,
    pub(super) publisher: Arc<Publisher>,
}

impl Importer {
    /// Makes an image of a tar (plain or compressed). Answers its id.
    pub(crate) fn import(
        &self,
        rootfs: &mut dyn Read,
        how: &ImportImage,
        on_progress: OnProgress<'_>,
        emit: Emit<'_>,
        op: Option<&Op>,
    ) -> Result<String> {
        let name = name(how)?;
        let mut config = ContainerConfig::default();
        changes::apply(&mut config, &how.changes)?;

        let staging = self.layers.stage()?;
        let head = head(rootfs)?;
        let (directory, layer) = stage_stream(&staging, rootfs, &head, op)?;

        let source = if how.source.is_empty() { "-" } else { &how.source };
        let comment = match how.message.as_str() {
            "" => format!("Imported from {source}"),
            message => message.to_owned(),
        };
        let created_ns = now_ns();
        let created = rfc3339_nano(created_ns);
        let step = History { created: Some(created.clone()), comment: Some(comment.clone()), ..History::default() };
        let document = Document {
            architecture: host_architecture(),
            comment: &comment,
            config: &config,
            created: &created,
            history: [step],
            os: "linux",
            rootfs: RootFs { kind: "layers".into(), diff_ids: Some(vec![layer.diff_id.to_string()]) },
        };
        let bytes = serde_json::to_vec(&document).map_err(|e| Error::internal(format!("image configuration: {e}")))?;
        let image = NewImage {
            id: Digest::of(&bytes),
            config: bytes,
            created: created_ns,
            layers: vec![layer.diff_id],
            parent: None,
            names: name.into_iter().collect(),
            made_here: false,
            plugin: None,
        };
        let staged = StagedLayers::from([(layer.diff_id, (directory, layer))]);
        let id = image.id.to_string();
        self.publisher.publish(&staging, &staged, std::slice::from_ref(&image))?;
        for name in &image.names {
            emit(Event::image("tag", &id, &name.to_string(), &config.labels));
        }
        emit(Event::image("import", &id, &id, &config.labels));
        on_progress(Progress { status: id.clone(), ..Progress::default() })?;
        Ok(id)
    }
}

fn name(how: &ImportImage) -> Result<Option<Reference>> {
    if how.repo.is_empty() {
        return Ok(None);
    }
    let reference = Reference::parse(&how.repo)?;
    if reference.digest().is_some() {
        return Err(Error::invalid("cannot import digest reference"));
    }
    Ok(Some(match how.tag.as_str() {
        "" => reference.or_latest(),
        tag => reference.with_tag(tag)?,
    }))
}

/// The first bytes, by which the compression is known.
pub(super) fn head(input: &mut dyn Read) -> Result<Vec<u8>> {
    let mut head = Vec::with_capacity(512);
    input.take(512).read_to_end(&mut head)?;
    if head.is_empty() {
        return Err(Error::invalid("the archive is empty"));
    }
    Ok(head)
}
