//! Loading: archive in, images visible.

use super::intake::{FoundLayer, Intake};
use super::{docker, legacy, oci};
use crate::error::{Error, Result};
use crate::image::digest::Digest;
use crate::image::{Emit, Images, NewImage, StagedLayers, Tell, labels};
use crate::model::{Event, Progress, ProgressDetail};
use crate::op::Op;
use std::io::Read;

/// The layers that the images of an archive need.
#[derive(Default)]
pub(super) struct Loading {
    staged: StagedLayers,
}

impl Loading {
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
            let size = i64::try_from(layer.size).unwrap_or(i64::MAX);
            tell(Progress {
                status: "Loading layer".into(),
                progress_detail: Some(ProgressDetail { current: size, total: size }),
                progress: full_bar(layer.size),
                id: diff_id.short(),
                ..Progress::default()
            })?;
        }
        Ok(())
    }
}

fn is_parent(image: &NewImage, images: &[NewImage]) -> bool {
    images.iter().any(|other| other.parent == Some(image.id))
}

/// docker's bar at its end.
fn full_bar(size: u64) -> String {
    let size = human_size(size);
    format!("[{}>] {size:>8}/{size}", "=".repeat(50))
}

/// Four significant digits, decimal units.
fn human_size(size: u64) -> String {
    let (mut value, mut unit) = (size as f64, 0);
    while value >= 1000.0 && unit < 6 {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match value {
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{}", ["B", "kB", "MB", "GB", "TB", "PB", "EB"][unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_docker_writes_them() {
        for (size, want) in [(0, "0B"), (512, "512B"), (1000, "1kB"), (1_578_496, "1.578MB"), (99_990_000, "99.99MB")] {
            assert_eq!(human_size(size), want);
        }
        assert!(full_bar(1024).ends_with(">]  1.024kB/1.024kB"));
    }
}
