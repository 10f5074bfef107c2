//! Storage limits of containers (`StorageOpt: size`).

use super::Places;
use super::spec::{self, Spec};
use crate::error::Result;
use crate::kernel::probe::release;
use crate::kernel::quota;
use std::path::Path;
use std::sync::Arc;

/// Limits the root file systems of containers by project quotas.
pub(crate) struct Storage {
    pub(super) places: Arc<Places>,
}

impl Storage {
    /// Limits the container's root file system, if its spec asks for that. Errors: the file system of the root has no
    /// project quotas.
    pub(super) fn bound_storage(&self, id: &str, spec: &Spec) -> Result<()> {
        let Some(size) = spec::storage_size(&spec.host_config)? else { return Ok(()) };
        let dir = self.places.dir(id);
        if !quota::has_projects(&dir)? {
            let place = self.places.root.display();
            return Err(crate::Error::unsupported(match release() < quota::SINCE {
                true => {
                    "StorageOpt: size needs project quotas, and their call quotactl_fd(2) needs Linux 5.14".to_owned()
                }
                false => format!(
                    "StorageOpt: size needs project quotas, and the file system of {place} is not mounted with them (ext4: \
                     prjquota, xfs: pquota)"
                ),
            }));
        }
        let project = free_project(&dir, id)?;
        quota::set_limit(&dir, project, size)?;
        quota::set_project(&dir.join("upper"), project)?;
        quota::set_project(&dir.join("work"), project)
    }

    /// Changes the limit of a stopped container. Errors: as [`Self::bound_storage`]; the container had no limit, and
    /// has written files already, which would not count.
    pub(super) fn rebound_storage(&self, id: &str, old: &Spec, new: &Spec) -> Result<()> {
        let size = spec::storage_size(&new.host_config)?;
        if size == spec::storage_size(&old.host_config)? {
            return Ok(());
        }
        let upper = self.places.dir(id).join("upper");
        match (quota::project_of(&upper), size) {
            (Ok(project), _) if project != 0 => quota::set_limit(&upper, project, size.unwrap_or(0)),
            (_, None) => Ok(()),
            (_, Some(_)) => {
                let written = std::fs::read_dir(&upper).map(|mut entries| entries.next().is_some());
                if written.map_err(|e| crate::Error::io(format_args!("list {}", upper.display()), &e))? {
                    return Err(crate::Error::unsupported(
                        "StorageOpt: a container that has written files already cannot be bounded",
                    ));
                }
                self.bound_storage(id, new)
            }
        }
    }

    /// The project that limits a container; to be freed when its files are gone.
    pub(super) fn storage_project(&self, id: &str, spec: &Spec) -> Option<u32> {
        spec::storage_size(&spec.host_config).ok().flatten()?;
        quota::project_of(&self.places.dir(id).join("upper")).ok().filter(|project| *project != 0)
    }

    /// Frees a container's project: remaining files of the container limit nobody.
    pub(super) fn free_storage(&self, project: Option<u32>) {
        if let Some(project) = project {
            // Best effort: numbers with a limit are not given away.
            let _ = quota::set_limit(&self.places.root, project, 0);
        }
    }
}

/// A project for a container's files: a number derived from its id, in the upper half (administrators use low ones),
/// that nothing else on the file system has, including other roots.
pub(super) fn free_project(dir: &Path, id: &str) -> Result<u32> {
    for part in 0..8 {
        let digits = id.get(part * 8..part * 8 + 8).unwrap_or_default();
        let project = u32::from_str_radix(digits, 16).unwrap_or_default() | 1 << 31;
        if quota::is_free(dir, project)? {
            return Ok(project);
        }
    }
    Err(crate::Error::internal("StorageOpt: no project number is free"))
}
