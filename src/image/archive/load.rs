//! Loading: archive in, images visible.

use super::intake::Intake;
use super::loading::Loading;
use super::{docker, legacy, oci};
use crate::error::{Error, Result};
use crate::image::catalog::Catalog;
use crate::image::layer_store::LayerStore;
use crate::image::publish::{NewImage, Publisher, StagedLayers};
use crate::image::{Emit, OnProgress, labels, progress};
use crate::model::{Event, Progress};
use crate::op::Op;
use std::io::Read;
use std::sync::Arc;

/// Loads archives of images.
pub(crate) struct Loader {
    pub(in crate::image) layers: Arc<LayerStore>,
    pub(in crate::image) catalog: Arc<Catalog>,
    pub(in crate::image) publisher: Arc<Publisher>,
}

impl Loader {
    /// Loads every image of an archive. Answers their names, or ids where they have none.
    pub(crate) fn load(
        &self,
        archive: &mut dyn Read,
        on_progress: OnProgress<'_>,
        emit: Emit<'_>,
        op: Option<&Op>,
    ) -> Result<Vec<String>> {
        let staging = self.layers.stage()?;
        let mut intake = Intake::read(&self.layers, &self.catalog, &staging, archive, op)?;
        let mut loading = Loading::default();
        let mut images = docker::images(&mut intake, &mut loading)?;
        if images.is_none() {
            images = oci::images(&mut intake, &mut loading)?;
        }
        if images.is_none() {
            images = legacy::images(&mut intake, &mut loading)?;
        }
        let Some(images) = images else {
            return Err(Error::invalid(
                "the archive holds no images: neither manifest.json nor index.json nor repositories",
            ));
        };
        self.emit_layers(&images, &loading.staged, on_progress)?;
        let done = self.publisher.publish(&staging, &loading.staged, &images)?;
        for image in &images {
            let id = image.id.to_string();
            emit(Event::image("load", &id, &id, &labels(&image.config)));
        }
        let line = |text: String| Progress { stream: text + "\n", ..Progress::default() };
        for (name, old) in &done.renamed {
            let text = format!("The image {name} already exists, renaming the old one with ID {old} to empty string");
            on_progress(line(text))?;
        }
        let mut answers = Vec::new();
        for image in &images {
            for name in &image.names {
                on_progress(line(format!("Loaded image: {name}")))?;
                answers.push(name.to_string());
            }
            if image.names.is_empty() && !is_parent(image, &images) {
                on_progress(line(format!("Loaded image ID: {}", image.id)))?;
                answers.push(image.id.to_string());
            }
        }
        Ok(answers)
    }

    /// Says which layers are new.
    fn emit_layers(&self, images: &[NewImage], staged: &StagedLayers, on_progress: OnProgress<'_>) -> Result<()> {
        let mut reported = Vec::new();
        for diff_id in images.iter().flat_map(|image| &image.layers) {
            let Some((_, layer)) = staged.get(diff_id) else { continue };
            if reported.contains(diff_id) || self.catalog.has_layer(diff_id)? {
                continue;
            }
            reported.push(*diff_id);
            on_progress(progress::loaded(diff_id, layer.size))?;
        }
        Ok(())
    }
}

fn is_parent(image: &NewImage, images: &[NewImage]) -> bool {
    images.iter().any(|other| other.parent == Some(image.id))
}
