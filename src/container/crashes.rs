//! Records the end of a container whose monitor was killed. The first call that finds such a container does it.

use super::{Groups, Register, Snapshot};
use crate::error::Result;
use crate::kernel::process;
use crate::network::Networks;
use crate::notes::{LogLevel, note};
use crate::store::states::{Now, State};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The text about a container whose monitor was killed.
pub(super) const LOST: &str = "the container's monitor was killed, and the container with it";

/// Records the ends of containers whose monitors were killed.
pub(crate) struct Crashes {
    pub(super) register: Arc<Register>,
    pub(super) groups: Arc<Groups>,
    pub(super) networks: Arc<Networks>,
}

impl Crashes {
    /// Ends the processes that are left in a container's cgroups, and removes the cgroups; best effort.
    pub(super) fn end_groups(&self, found: &Snapshot) {
        if self.groups.group_name(found).is_some()
            && let Ok(live) = self.groups.live_groups(found)
        {
            let _ = live.kill_all();
            let _ = live.remove();
        }
    }

    /// The monitor was killed: ends the container's remaining processes, and records the end.
    pub(super) fn record_crash(&self, found: &Snapshot) -> Result<()> {
        let row = &found.row;
        note(LogLevel::Warn, "container", Some(&row.id), || LOST.into());
        let before = self.register.states.recorded(row.slot, &row.id)?;
        if let Some(state) = before
            && state.pid > 0
            && process::start_time(state.pid) == Some(state.pid_start)
            && let Ok(pidfd) = process::pidfd(state.pid)
            && process::start_time(state.pid) == Some(state.pid_start)
        {
            let _ = process::pidfd_signal(pidfd.as_fd(), libc::SIGKILL);
        }
        self.end_groups(found);
        // Removes the container's port mappings. If the firewall cannot be reached now, the next call that needs it
        // rebuilds it.
        let _ = self.networks.ports.reap_crashed(&row.id);
        let Now { state, .. } = found.now;
        self.register.states.write(row.slot, State { finished_ns: super::now_ns(), ..state })?;
        self.register.set_error(found, LOST)?;
        self.register.event(found, "die", &[("exitCode", &state.exit_code.to_string())])?;
        for mount in super::volumes::volumes(&found.spec) {
            self.register.journal.append(&super::volumes::volume_event(mount, "unmount", &row.id))?;
        }
        Ok(())
    }
}
