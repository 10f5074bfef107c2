//! Volumes: list, create, inspect, remove.

use super::Engine;
use crate::error::Result;
use crate::model::*;

impl Engine {
    /// Lists volumes by name. Errors: an unknown filter, a value of `dangling` that is not a boolean.
    pub fn volume_list(&self, query: &ListVolumes) -> Result<VolumeList> {
        self.0.volumes.register.list(query)
    }
    /// Creates a volume; if one with that name exists, returns it unchanged.
    ///
    /// Errors: an invalid name, an option that the driver does not know, an unknown driver.
    pub fn volume_create(&self, body: &CreateVolume) -> Result<Volume> {
        self.0.volumes.creator.create(body)
    }
    /// Everything about one volume.
    pub fn volume_inspect(&self, name: &str) -> Result<Volume> {
        self.0.volumes.register.inspect(name)
    }
    /// Removes a volume with its content. Errors: a container, running or not, uses it.
    pub fn volume_remove(&self, name: &str) -> Result<()> {
        self.0.volumes.remover.remove(name, false)
    }
    /// As [`Engine::volume_remove`], also if the volume's plugin fails or is gone: the plugin may keep its volume.
    pub fn volume_remove_by_force(&self, name: &str) -> Result<()> {
        self.0.volumes.remover.remove(name, true)
    }
}
