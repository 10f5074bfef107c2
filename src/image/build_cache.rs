//! The steps that a build need not do again: of its own images, of the store's, or of images that the build names.

use super::catalog::{Catalog, no_such};
use super::config::{History, ImageConfig};
use super::digest::Digest;
use super::publish::NewImage;
use super::stored_digest;
use crate::error::Result;
use crate::model::ContainerConfig;
use crate::store::images as rows;

/// The images that a build sees: those that it made, and those of the store.
pub(super) struct Visible<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) made: &'a [NewImage],
}

/// An image to take steps from.
pub(super) struct Sourced {
    pub(super) id: String,
    pub(super) config: ImageConfig,
    pub(super) layers: Vec<Digest>,
}

/// The facts of an image that follow from its step and from what the step stands on.
pub(super) struct Made {
    pub(super) architecture: Option<String>,
    /// Nanoseconds since 1970.
    pub(super) created: i64,
    pub(super) history: Vec<History>,
    pub(super) layers: Vec<Digest>,
    /// The build made it; else it is another's, which it found.
    pub(super) here: bool,
}

/// A step as a source has it.
pub(super) enum SourceStep {
    /// The source itself.
    Last,
    /// One of the steps before, and its author.
    Earlier(String, Made),
}

impl Sourced {
    /// The step that this image has after the steps and the layers `below`, if `text` made it.
    pub(super) fn step_after(&self, below: &ImageConfig, below_layers: &[Digest], text: &str) -> Option<SourceStep> {
        let before: Vec<&History> = below.steps().collect();
        let steps: Vec<&History> = self.config.steps().collect();
        let same = |a: &History, b: &History| {
            (&a.created, &a.created_by, a.empty_layer) == (&b.created, &b.created_by, b.empty_layer)
        };
        let step = steps.get(before.len())?;
        let fits = steps.iter().zip(&before).all(|(a, b)| same(a, b))
            && self.layers.starts_with(below_layers)
            && step.created_by.as_deref() == Some(text);
        if !fits {
            return None;
        }
        if steps.len() == before.len() + 1 {
            return Some(SourceStep::Last);
        }
        let mut layers = below_layers.to_vec();
        if step.empty_layer != Some(true) {
            layers.push(*self.layers.get(layers.len())?);
        }
        let created = step.created.as_deref().and_then(|text| crate::time::parse_rfc3339(text.as_bytes()));
        let made = Made {
            architecture: self.config.architecture.clone(),
            created: created.unwrap_or_default(),
            history: steps[..=before.len()].iter().map(|step| (*step).clone()).collect(),
            layers,
            // Another's content: later builds that do not name its image do not take it.
            here: false,
        };
        Some(SourceStep::Earlier(step.author.clone().unwrap_or_default(), made))
    }
}

impl Visible<'_> {
    pub(super) fn local(&self, parent: Option<&str>, wanted: &ContainerConfig) -> Result<Option<String>> {
        // A configuration that cannot be read never matches.
        let looks_it = |config: &[u8]| {
            ImageConfig::parse(config)
                .ok()
                .filter(|have| have.container_config.as_ref().is_some_and(|have| is_same(have, wanted)))
        };
        for image in self.made.iter().rev() {
            if image.parent.map(|id| id.to_string()).as_deref() == parent
                && let Some(config) = looks_it(&image.config)
                && self.is_next(parent, &config, &image.layers)?
            {
                return Ok(Some(image.id.to_string()));
            }
        }
        for row in self.catalog.db.read(|tx| rows::children(tx, parent))? {
            let Some(config) = looks_it(&row.config) else { continue };
            let layers = self.catalog.db.read(|tx| rows::layers(tx, &row.id))?;
            let layers = layers.iter().map(|id| stored_digest(id)).collect::<Result<Vec<_>>>()?;
            if self.is_next(parent, &config, &layers)? {
                return Ok(Some(row.id));
            }
        }
        Ok(None)
    }

    /// Whether an image is one step on `parent`. One that came from elsewhere has no parent here, and is any number of
    /// steps on nothing.
    fn is_next(&self, parent: Option<&str>, config: &ImageConfig, layers: &[Digest]) -> Result<bool> {
        let (below, below_layers) = self.below(parent)?;
        Ok(config.steps().count() == below.steps().count() + 1
            && layers.starts_with(&below_layers)
            && layers.len() <= below_layers.len() + 1)
    }

    /// Whether an image is one of `sources`, or one of them is made of it.
    pub(super) fn leads_to(&self, sources: &[Sourced], id: &str) -> Result<bool> {
        self.catalog.db.read(|tx| {
            for source in sources {
                let mut at = Some(source.id.clone());
                while let Some(image) = at {
                    if image == id {
                        return Ok(true);
                    }
                    at = rows::get(tx, &image)?.and_then(|row| row.parent);
                }
            }
            Ok(false)
        })
    }

    /// The configuration and the layers that a step stands on.
    pub(super) fn below(&self, parent: Option<&str>) -> Result<(ImageConfig, Vec<Digest>)> {
        parent.map_or_else(|| Ok(Default::default()), |parent| self.read(parent))
    }

    pub(super) fn read(&self, id: &str) -> Result<(ImageConfig, Vec<Digest>)> {
        if let Some(image) = self.made.iter().find(|image| image.id.to_string() == id) {
            return Ok((ImageConfig::parse(&image.config)?, image.layers.clone()));
        }
        let (row, layers) = self.catalog.db.read(|tx| {
            let row = rows::any(tx, id)?.ok_or_else(|| no_such(id))?;
            Ok((row, rows::layers(tx, id)?))
        })?;
        let layers = layers.iter().map(|id| stored_digest(id)).collect::<Result<_>>()?;
        Ok((ImageConfig::parse(&row.config)?, layers))
    }
}

/// Whether what was run is what would be run: what dockerd compares.
fn is_same(a: &ContainerConfig, b: &ContainerConfig) -> bool {
    let words = |words: &Option<Vec<String>>| words.clone().unwrap_or_default();
    let volumes = |config: &ContainerConfig| config.volumes.clone().unwrap_or_default();
    !a.open_stdin
        && !b.open_stdin
        && (a.attach_stdout, a.attach_stderr, a.tty, &a.user) == (b.attach_stdout, b.attach_stderr, b.tty, &b.user)
        && words(&a.cmd) == words(&b.cmd)
        && words(&a.env) == words(&b.env)
        && words(&a.entrypoint) == words(&b.entrypoint)
        && a.labels == b.labels
        && a.exposed_ports == b.exposed_ports
        && a.healthcheck == b.healthcheck
        && words(&a.on_build) == words(&b.on_build)
        && volumes(a) == volumes(b)
}
