//! The names and the places of containers' control groups.

use super::{Places, Snapshot};
use crate::error::Result;
use crate::launch::cgroup::{Hierarchies, Live};
use std::path::PathBuf;
use std::sync::Arc;

/// The control groups of containers.
pub(crate) struct Groups {
    pub(super) hierarchies: Hierarchies,
    pub(super) places: Arc<Places>,
    /// The directories of specifications of devices: what a container may open is a limit of its group.
    pub(super) cdi_dirs: Vec<PathBuf>,
}

impl Groups {
    /// The name of a container's control group; `None`: the container never ran in this root, because the root is a
    /// copy.
    pub(super) fn group_name(&self, found: &Snapshot) -> Option<String> {
        let (engine, id) = (found.spec.engine.as_str(), &found.row.id);
        match engine {
            // The version that made the container named groups by the container's id; a copy of the root must not use
            // these names.
            "" => self.places.claim.is_first.then(|| id.clone()),
            _ => (engine == self.places.engine()).then(|| format!("{engine}-{id}")),
        }
    }

    /// The control groups of a container that runs.
    pub(super) fn live_groups(&self, found: &Snapshot) -> Result<Live> {
        Live::locate(&self.hierarchies, &found.spec.cgroup_parent, &self.group(found))
    }

    /// The name of the control group that a container has, or will get.
    pub(super) fn group(&self, found: &Snapshot) -> String {
        self.group_name(found).unwrap_or_else(|| format!("{}-{}", self.places.engine(), found.row.id))
    }
}
