//! The end of a container whose monitor was killed, recorded by whoever meets it first.

use super::{Groups, Register, Snapshot};
use crate::error::Result;
use crate::kernel::process;
use crate::network::Networks;
use crate::store::states::Now;
use coracle_monitor::wire::State;
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
    /// Best effort: ends what is left in a container's cgroups, and removes them.
    pub(super) fn end_groups(&self, found: &Snapshot) {
        if self.groups.group_name(found).is_some()
            && let Ok(live) = self.groups.live_groups(found)
        {
            let _ = live.kill_all();
            let _ = live.remove();
        }
    }

    /// A monitor was killed: its container's processes are ended if any are left, and the end is recorded.
    pub(super) fn record_crash(&self, found: &Snapshot) -> Result<()> {
        let row = &found.row;
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
        // Its ports lead nowhere any more; a firewall that cannot be asked now is made anew by the next who needs it.
        let _ = self.networks.bury(&row.id);
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
