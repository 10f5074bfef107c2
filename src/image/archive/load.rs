//! Loading: archive in, images visible.

use super::intake::{FoundLayer, Intake};
use super::{docker, legacy, oci};
use crate::error::{Error, Result};
use crate::image::digest::Digest;
use crate::image::{Emit, Images, NewImage, StagedLayers, Tell, labels, progress};
use crate::model::{Event, Progress};
use crate::op::Op;
use crate::walls::Wall;
use std::io::Read;

/// The layers that the images of an archive need.
#[derive(Default)]
pub(super) struct Loading {
    staged: StagedLayers,
    /// Bytes of the images' configurations: documents of an archive can name one again and again.
    documents: usize,
}

impl Loading {
    /// Counts an image that is taken.
    pub(super) fn image(&mut self, intake: &Intake<'_>, image: &NewImage) -> Result<()> {
        self.documents += image.config.len() + size_of_val(image.layers.as_slice()) + size_of::<NewImage>();
        let most = intake.room().documents;
        match self.documents > most && Wall::ArchiveDocuments.stands() {
            true => {
                Err(Error::invalid(format!("archive: the configurations of its images take more than {most} bytes")))
            }
            false => Ok(()),
        }
    }

    /// Checks that layer number `i`, found at `path` or not, is the one expected, and keeps it for the commit.
    pub(super) fn layer(
        &mut self,
        intake: &Intake<'_>,
        i: usize,
        path: &str,
        found: Option<FoundLayer>,
        expected: &Digest,
    ) -> Result<()> {
        match found {
            Some(found) if found.diff_id != *expected => Err(Error::invalid(format!(
                "invalid diffID for layer {i}: expected \"{expected}\", got \"{}\"",
                found.diff_id
            ))),
            Some(FoundLayer { staged: Some(staged), .. }) => {
                self.staged.entry(*expected).or_insert(staged);
                Ok(())
            }
            Some(_) => Ok(()),
            // An archive may leave out what the store has.
            None if intake.images().has_layer(expected)? => Ok(()),
            None => Err(Error::invalid(format!("archive: the layer {path:?} is missing"))),
        }
    }
}

impl Images {
    /// Loads every image of an archive. Answers their names, or ids where they have none.
    pub(crate) fn load(
        &self,
        archive: &mut dyn Read,
        tell: Tell<'_>,
        emit: Emit<'_>,
        op: Option<&Op>,
    ) -> Result<Vec<String>> {
        let staging = self.layers.stage()?;
        let mut intake = Intake::read(self, &staging, archive, op)?;
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
        self.tell_layers(&images, &loading.staged, tell)?;
        let done = self.commit(&staging, &loading.staged, &images)?;
        for image in &images {
            let id = image.id.to_string();
            emit(Event::image("load", &id, &id, &labels(&image.config)));
        }
        let line = |text: String| Progress { stream: text + "\n", ..Progress::default() };
        for (name, old) in &done.renamed {
            let text = format!("The image {name} already exists, renaming the old one with ID {old} to empty string");
            tell(line(text))?;
        }
        let mut answers = Vec::new();
        for image in &images {
            for name in &image.names {
                tell(line(format!("Loaded image: {name}")))?;
                answers.push(name.to_string());
            }
            if image.names.is_empty() && !is_parent(image, &images) {
                tell(line(format!("Loaded image ID: {}", image.id)))?;
                answers.push(image.id.to_string());
            }
        }
        Ok(answers)
    }

    /// Says which layers are new.
    fn tell_layers(&self, images: &[NewImage], staged: &StagedLayers, tell: Tell<'_>) -> Result<()> {
        let mut told = Vec::new();
        for diff_id in images.iter().flat_map(|image| &image.layers) {
            let Some((_, layer)) = staged.get(diff_id) else { continue };
            if told.contains(diff_id) || self.has_layer(diff_id)? {
                continue;
            }
            told.push(*diff_id);
            tell(progress::loaded(diff_id, layer.size))?;
        }
        Ok(())
    }
}

fn is_parent(image: &NewImage, images: &[NewImage]) -> bool {
    images.iter().any(|other| other.parent == Some(image.id))
}
