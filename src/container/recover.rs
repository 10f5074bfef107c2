//! After crashes and reboots: what they left is put right by the next open, or by whoever meets it first.

use super::{Containers, Found, dirs};
use crate::error::Result;
use crate::kernel::process;
use crate::launch::cgroup::Live;
use crate::store::containers as table;
use crate::store::states::Now;
use coracle_monitor::wire::*;
use std::os::fd::AsFd;

/// What is told of a container whose monitor was killed.
pub(super) const LOST: &str = "the container's monitor was killed, and the container with it";

impl Containers {
    /// Every open looks: containers whose monitors are gone are buried, leftovers are swept.
    pub(super) fn recover(&self) -> Result<()> {
        self.sweep()?;
        let rows = self.db.read(table::all)?;
        let mut after_boot = Vec::new();
        for row in rows {
            let now = self.states.now(row.slot, &row.id)?;
            if now.lost || now.rebooted {
                let (_busy, found) = match self.take(&row.id, None) {
                    Ok(taken) => taken,
                    Err(_) => continue,
                };
                if found.now.rebooted {
                    self.states.write(found.row.slot, State { finished_ns: super::now_ns(), ..found.now.state })?;
                    after_boot.push(found.clone());
                }
            }
        }
        if self.options.restart_containers {
            self.start_after_boot(&after_boot);
        }
        Ok(())
    }

    /// Starts the containers that ran when the machine went down and whose policy asks for it. One that does not start
    /// keeps the reason in its record, and does not keep the others from starting.
    fn start_after_boot(&self, found: &[Found]) {
        for found in found {
            let policy = found.spec.host_config.restart_policy.name.as_str();
            let manual = found.now.state.flags & STATE_MANUAL != 0;
            let wanted = policy == "always" || policy == "on-failure" || policy == "unless-stopped" && !manual;
            if wanted {
                let _ = self.start(&found.row.id, None, (0, 0), None);
            }
        }
    }

    /// Removes directories that belong to nobody: of creations that were cut short, and of removals.
    fn sweep(&self) -> Result<()> {
        for parent in [self.root.join("containers"), self.run.join("c")] {
            for id in dirs::names(&parent)? {
                if self.is_nobodys(&id)? {
                    dirs::remove(&parent.join(&id))?;
                }
            }
        }
        Ok(())
    }

    /// Whether there is neither a row nor somebody at work on one. A maker locks, makes the directories, adds the row
    /// and unlocks: not locked and then no row means that there is none to come.
    fn is_nobodys(&self, id: &str) -> Result<bool> {
        let known = |id: &str| self.db.read(|tx| table::by_id(tx, id)).map(|row| row.is_some());
        Ok(super::names::is_id(id) && !known(id)? && !self.states.is_being_made(id)? && !known(id)?)
    }

    /// The file whose closing may mean that a monitor ended.
    pub(crate) fn alive_path(&self) -> &std::path::Path {
        self.states.alive_path()
    }

    /// Buries every container whose monitor was killed. What cannot be buried now is by the next who meets it.
    pub(crate) fn bury_lost(&self) {
        for head in self.states.lost().unwrap_or_default() {
            let _ = self.take(&head, None);
        }
    }

    /// A monitor was killed: its container's processes are ended if any are left, and the end is recorded.
    pub(super) fn bury(&self, found: &Found) -> Result<()> {
        let row = &found.row;
        let before = self.states.recorded(row.slot, &row.id)?;
        if let Some(state) = before
            && state.pid > 0
            && process::start_time(state.pid) == Some(state.pid_start)
            && let Ok(pidfd) = process::pidfd(state.pid)
            && process::start_time(state.pid) == Some(state.pid_start)
        {
            let _ = process::pidfd_signal(pidfd.as_fd(), libc::SIGKILL);
        }
        if let Ok(live) = Live::locate(&self.hierarchies, &found.spec.cgroup_parent, &row.id) {
            let _ = live.kill_all();
            let _ = live.remove();
        }
        let Now { state, .. } = found.now;
        self.states.write(row.slot, State { finished_ns: super::now_ns(), ..state })?;
        self.set_error(found, LOST)?;
        self.event(found, "die", &[("exitCode", &state.exit_code.to_string())])
    }
}
