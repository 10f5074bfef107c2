//! The names and the places of containers' control groups.

use super::{Places, Snapshot, dirs};
use crate::error::{Error, Result};
use crate::kernel::file::read_bounded;
use crate::launch::cdi;
use crate::launch::cgroup::{Hierarchies, Live};
use std::path::PathBuf;
use std::sync::Arc;

/// The file in a container's directory with the edits of its devices, and its length at most.
const DEVICES: &str = "devices.json";
const DEVICES_BYTES: u64 = 64 << 20;

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

    /// The edits of the devices that a container starts with, which are kept until the next start.
    pub(super) fn begin_devices(&self, found: &Snapshot) -> Result<cdi::Edits> {
        let requests = &found.spec.host_config.resources.device_requests;
        let edits = cdi::resolve(requests, &self.cdi_dirs)?;
        if !requests.is_empty() {
            let text = serde_json::to_string(&edits).map_err(|e| Error::internal(format!("write edits: {e}")))?;
            dirs::write(&self.devices_file(found), &text)?;
        }
        Ok(edits)
    }

    /// The edits of the devices that a container was started with last, whatever became of their specifications since then;
    /// before its first start those of now.
    pub(super) fn devices_of_start(&self, found: &Snapshot) -> Result<cdi::Edits> {
        let requests = &found.spec.host_config.resources.device_requests;
        if requests.is_empty() {
            return Ok(cdi::Edits::default());
        }
        let path = self.devices_file(found);
        match read_bounded(&path, DEVICES_BYTES)? {
            Some(text) => crate::document::read(&text).map_err(|e| Error::corrupt(format!("{}: {e}", path.display()))),
            None => cdi::resolve(requests, &self.cdi_dirs),
        }
    }

    fn devices_file(&self, found: &Snapshot) -> PathBuf {
        self.places.dir(&found.row.id).join(DEVICES)
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
