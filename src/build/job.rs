//! The parts of a build that every step uses.

use super::Workshop;
use super::files::{ROOT, make_dirs, resolve, stat};
use super::output::Output;
use super::state::State;
use crate::error::{Error, Result};
use crate::image::{self, Digest, SharedBuilding};
use crate::kernel::remove::remove_tree;
use crate::model::{BuildImage, ContainerConfig};
use crate::op::Op;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// A build's request, its images, its output, and the parts of the engine that it uses.
pub(super) struct Job<'a> {
    pub(super) shop: Workshop<'a>,
    pub(super) request: &'a BuildImage,
    pub(super) building: Arc<SharedBuilding<'a>>,
    pub(super) out: Output<'a>,
    pub(super) op: Option<&'a Op>,
}

impl Job<'_> {
    /// Whether the step is here already; then it is done.
    pub(super) fn probe(&mut self, state: &mut State<'_>, config: &ContainerConfig) -> Result<bool> {
        let known = match state.anew || self.request.nocache {
            true => None,
            false => self.building.cached(state.image.as_deref(), config, &state.config)?,
        };
        match known {
            Some(id) => {
                self.out.cached()?;
                state.image = Some(id);
                Ok(true)
            }
            None => {
                state.anew = true;
                // From here on the build stands on it.
                state.image.as_deref().map_or(Ok(()), |image| self.building.hold(image))?;
                Ok(false)
            }
        }
    }

    /// The step becomes an image.
    pub(super) fn commit(
        &mut self,
        state: &mut State<'_>,
        container_config: ContainerConfig,
        container: &str,
        layer: Option<Digest>,
    ) -> Result<()> {
        let step = image::Step {
            parent: state.image.as_deref(),
            config: &state.config,
            container_config: &container_config,
            container,
            author: &state.author,
        };
        state.image = Some(self.building.image(&step, layer)?);
        Ok(())
    }

    /// The directory of WORKDIR, where the image does not have it.
    pub(super) fn directory(&mut self, image: Option<&str>, path: &str) -> Result<Option<Digest>> {
        let root = self.shop.containers.build_steps.build_root(image)?;
        let real = resolve(&root, path)?;
        match stat(&root, &real)? {
            Some(there) if there.is_dir() => return Ok(None),
            Some(_) => return Err(Error::internal(format!("Cannot mkdir: {path} is not a directory"))),
            None => drop(root),
        }
        self.write(image, |root| make_dirs(root, &real, ROOT).map(drop))
    }

    /// Errors: a volume is to be where the image has a file.
    pub(super) fn volumes_fit(&self, state: &State<'_>) -> Result<()> {
        let Some(volumes) = state.config.volumes.as_ref().filter(|volumes| !volumes.is_empty()) else { return Ok(()) };
        let root = self.shop.containers.build_steps.build_root(state.image.as_deref())?;
        for path in volumes.keys() {
            let is_dir = stat(&root, &resolve(&root, path)?)?.is_none_or(|there| there.is_dir());
            if !is_dir {
                let text = format!("cannot mount volume over existing file, file exists {path}");
                return Err(Error::internal(text));
            }
        }
        Ok(())
    }

    /// Lets `work` write into an image's tree; answers the layer of the written files.
    pub(super) fn write(
        &mut self,
        image: Option<&str>,
        work: impl FnOnce(&OwnedFd) -> Result<()>,
    ) -> Result<Option<Digest>> {
        let (name, stage) = self.building.directory()?;
        let root =
            self.shop.containers.build_steps.build_overlay(image, &stage, &self.building.place().0.join(&name))?;
        let done = work(&root);
        // The mount goes with its last descriptor, and only then the directory is a layer's.
        drop(root);
        remove_tree(stage.dir.as_fd(), "work")?;
        if let Err(error) = done {
            self.building.discard(&name)?;
            return Err(error);
        }
        self.building.layer(&name, self.op)
    }
}
