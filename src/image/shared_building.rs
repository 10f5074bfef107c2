//! The images of a build whose stages run side by side: one call at a time, except for the reading of a layer's files.

use super::building::{Building, Step};
use super::digest::Digest;
use super::layer::{Stage, describe, recipe};
use super::reference::Reference;
use crate::error::Result;
use crate::kernel::tree;
use crate::model::{ContainerConfig, Event};
use crate::op::Op;
use parking_lot::Mutex;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// A [`Building`] that several threads use.
pub(crate) struct SharedBuilding<'a> {
    path: PathBuf,
    name: String,
    building: Mutex<Building<'a>>,
}

impl<'a> SharedBuilding<'a> {
    pub(crate) fn new(building: Building<'a>) -> SharedBuilding<'a> {
        let (path, name) = building.place();
        let name = name.to_owned();
        SharedBuilding { path, name, building: Mutex::new(building) }
    }

    /// The build's own directory, and its name: it is there as long as the build lives.
    pub(crate) fn place(&self) -> (&Path, &str) {
        (&self.path, &self.name)
    }

    /// As [`Building::hold`].
    pub(crate) fn hold(&self, id: &str) -> Result<()> {
        self.building.lock().hold(id)
    }

    /// As [`Building::directory`].
    pub(crate) fn directory(&self) -> Result<(String, Stage)> {
        self.building.lock().directory()
    }

    /// As [`Building::discard`].
    pub(crate) fn discard(&self, name: &str) -> Result<()> {
        self.building.lock().discard(name)
    }

    /// The directory `name`, in which a writable directory of overlayfs lies as `diff`, becomes a layer. `None`:
    /// nothing was written. Other stages work on meanwhile.
    pub(crate) fn layer(&self, name: &str, op: Option<&Op>) -> Result<Option<Digest>> {
        let dir = tree::open_dir(&self.path.join(name))?;
        let staged = describe(&dir, op)?;
        self.building.lock().described(name, staged)
    }

    /// Makes a layer of a directory that lies elsewhere on this file system, and is moved.
    pub(crate) fn layer_of(&self, dir: impl AsFd, name: &str, op: Option<&Op>) -> Result<Option<Digest>> {
        let (own, stage) = self.directory()?;
        tree::rename_at(dir.as_fd(), name, stage.dir.as_fd(), recipe::DIFF)?;
        self.layer(&own, op)
    }

    /// As [`Building::layer_of_tar`].
    pub(crate) fn layer_of_tar(&self, write: &mut dyn FnMut(&mut dyn Write) -> Result<()>) -> Result<Option<Digest>> {
        self.building.lock().layer_of_tar(write)
    }

    /// As [`Building::layer_of_tar_or_nothing`].
    pub(crate) fn layer_of_tar_or_nothing(
        &self,
        write: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
    ) -> Result<Digest> {
        self.building.lock().layer_of_tar_or_nothing(write)
    }

    /// As [`Building::layers_above`].
    pub(crate) fn layers_above(&self, image: &str, base: Option<&str>) -> Result<Vec<Digest>> {
        self.building.lock().layers_above(image, base)
    }

    /// As [`Building::squashed`].
    pub(crate) fn squashed(&self, image: &str, base: Option<&str>, layer: Digest) -> Result<String> {
        self.building.lock().squashed(image, base, layer)
    }

    /// As [`Building::image`].
    pub(crate) fn image(&self, step: &Step<'_>, layer: Option<Digest>) -> Result<String> {
        self.building.lock().image(step, layer)
    }

    /// As [`Building::cached`].
    pub(crate) fn cached(
        &self,
        parent: Option<&str>,
        wanted: &ContainerConfig,
        config: &ContainerConfig,
    ) -> Result<Option<String>> {
        self.building.lock().cached(parent, wanted, config)
    }

    /// As [`Building::finish`].
    pub(crate) fn finish(&self, image: Option<&str>, names: &[Reference]) -> Result<Vec<Event>> {
        self.building.lock().finish(image, names)
    }
}
