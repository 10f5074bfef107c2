//! Prunes, and the space that everything takes.

use super::Engine;
use crate::error::Result;
use crate::model::*;
use crate::op::Op;

impl Engine {
    /// Removes the containers that do not run. `filters`: those of a list, and `until` (Unix seconds, RFC 3339 or a
    /// duration before now: containers that are younger stay) and `label!`.
    pub fn containers_prune(&self, filters: &Filters, op: Option<&Op>) -> Result<PrunedContainers> {
        let pruned = self.0.containers.remover.prune(filters, op)?;
        self.pruned("container", pruned.space_reclaimed)?;
        Ok(pruned)
    }

    /// Removes unused images: those without a name, or with the filter `dangling=false` all without a container. Other
    /// filters: `until` (as of containers), `label`, `label!`. If `op` ends before the last image, none is removed.
    pub fn images_prune(&self, filters: &Filters, op: Option<&Op>) -> Result<PrunedImages> {
        let usage = |image_id: &str| self.0.containers.register.of_image(image_id);
        let pruned = self.with_events(|emit| self.0.images.pruner.prune(filters, &usage, emit, op))?;
        self.pruned("image", pruned.space_reclaimed)?;
        Ok(pruned)
    }

    /// Removes volumes that no container uses: those that nobody named (their names are 64 hexadecimal digits), or with
    /// the filter `all=true` all. Other filters: `label`, `label!`.
    pub fn volumes_prune(&self, filters: &Filters, op: Option<&Op>) -> Result<PrunedVolumes> {
        let pruned = self.0.volumes.pruner.prune(filters, op)?;
        self.pruned("volume", pruned.space_reclaimed)?;
        Ok(pruned)
    }

    /// Removes networks that no running container is on, except for the predefined ones. Filters: `until` (as of
    /// containers), `label`, `label!`. Networks that were removed before `op` ends stay removed.
    pub fn networks_prune(&self, filters: &Filters, op: Option<&Op>) -> Result<PrunedNetworks> {
        let pruned = self.0.containers.networks.creator.prune(filters, op)?;
        self.pruned("network", 0)?;
        Ok(pruned)
    }

    /// Removes the caches of builds (`RUN --mount=type=cache`) that no step uses. Filters: `id`, `type`
    /// (`exec.cachemount`), and `until` or `unused-for` (as `until` of containers): caches that were used later stay.
    /// Three more are bounds in bytes: the caches that were used last stay, no more than `max-used-space`, so few that the
    /// file system has `min-free-space` free, and `reserved-space` in any case.
    /// Caches that were removed before `op` ends stay removed. The steps of builds are images: a prune of images removes
    /// them.
    pub fn build_prune(&self, filters: &Filters, op: Option<&Op>) -> Result<PrunedBuilds> {
        let pruned = crate::build::prune::prune(self.0.containers.places.root(), filters, op)?;
        self.pruned("builder", pruned.space_reclaimed)?;
        Ok(pruned)
    }

    /// The objects of the requested kinds with their sizes.
    pub fn disk_usage(&self, query: DiskUsageQuery, op: Option<&Op>) -> Result<DiskUsage> {
        let mut usage = DiskUsage::default();
        if query.images {
            usage.layers_size = self.0.images.views.layers_size()?;
            let users = |image_id: &str| self.0.containers.register.of_image(image_id).map(|users| users.len());
            usage.images = self.0.images.views.list_with_usage(&ListImages::default(), &users)?;
        }
        if query.containers {
            let all = ListContainers { all: true, size: true, ..ListContainers::default() };
            self.container_list_each(&all, |container| {
                op.map_or(Ok(()), Op::check)?;
                usage.containers.push(container);
                Ok(())
            })?;
        }
        if query.volumes {
            usage.volumes = self.0.volumes.pruner.list_with_usage(op)?;
        }
        if query.build_cache {
            usage.build_cache = crate::build::prune::list(self.0.containers.places.root(), op)?;
        }
        Ok(usage)
    }

    /// Sends the event `prune` of a kind of objects.
    fn pruned(&self, kind: &str, reclaimed: u64) -> Result<()> {
        self.0.journal.append(&Event::prune(kind, reclaimed)).map(drop)
    }
}
