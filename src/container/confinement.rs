//! The identity and the rights of a container's processes: user namespace, capabilities, filter, profile, label.

use super::labels::Labelling;
use super::spec::{self, Seccomp, Spec, Users};
use crate::error::Result;
use crate::launch::capability;
use crate::launch::plan::{self, Rights};
use crate::launch::seccomp::{self, DefaultFilters, Machine};
use crate::options::Options;
use crate::walls::Wall;
use std::sync::Arc;

/// The identity and the rights of containers' processes.
pub(crate) struct Confinement {
    /// Seccomp filters that are compiled already.
    pub(super) filters: DefaultFilters,
    pub(super) labels: Arc<Labelling>,
    pub(super) options: Arc<Options>,
}

impl Confinement {
    /// The user namespace of a container by its spec; none: the host's.
    pub(super) fn users(&self, spec: &Spec) -> Option<plan::Users> {
        match spec.users {
            // An older version made this container and recorded no decision: the options of this root decide.
            Users::Undecided => Users::of(spec.host_config.modes().userns, self.options.userns_remap).of_plan(),
            decided => decided.of_plan(),
        }
    }

    /// The identity and the rights of the container's first process.
    pub(super) fn rights(&self, spec: &Spec) -> Result<Rights> {
        let host = &spec.host_config;
        let list = |names: &Option<Vec<String>>| names.clone().unwrap_or_default();
        let bounding = capability::host_bounding()?;
        let capabilities =
            capability::effective(host.privileged, &list(&host.cap_add), &list(&host.cap_drop), bounding)?;
        let security = spec::security(host)?;
        let seccomp = match (&security.seccomp, host.privileged) {
            (Seccomp::Unconfined, _) | (Seccomp::Default, true) => Arc::from([]),
            (Seccomp::Default, false) if !Wall::SeccompDefault.stands() => Arc::from([]),
            (Seccomp::Default, false) => self.filters.get(capabilities, Machine::of(&spec.architecture))?,
            (Seccomp::Profile(json), _) => seccomp::profile_filter(json, capabilities)?.unwrap_or_default().into(),
        };
        Ok(Rights {
            user: spec.config.user.clone(),
            groups: list(&host.group_add),
            capabilities,
            inheritable: 0,
            ambient: 0,
            no_new_privs: security.no_new_privs,
            apparmor: spec.apparmor.clone(),
            label: spec.process_label.clone(),
            mount_label: self.labels.mount_label(spec).to_owned(),
            seccomp,
        })
    }
}
