//! Connections to monitors, and waiting until a monitor has gone.

use super::start::HANDOVER;
use super::stop::{RECORDED, is_gone};
use super::{Places, Register, Snapshot, dirs, not_running};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::process;
use crate::launch::monitor::Control;
use crate::op::{Ready, wait_fd};
use coracle_monitor::call::{Call, Until};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an unreachable monitor may take until its end is recorded.
const PARTING: Duration = Duration::from_secs(2);

/// The way to the monitors of running containers.
pub(crate) struct Monitors {
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
}

impl Monitors {
    /// The lock that a monitor holds while it lives. Waits for a monitor that is about to end.
    pub(super) fn lock_alive(&self, found: &Snapshot) -> Result<OwnedFd> {
        let until = Instant::now() + HANDOVER;
        let mut pause = Duration::from_micros(20);
        loop {
            if let Some(lock) = self.register.states.lock_alive(found.row.slot)? {
                return Ok(lock);
            }
            if Instant::now() > until {
                return Err(Error::conflict(format!("the monitor of container {} does not end", found.row.id)));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }

    /// Waits until the monitor of the previous run has released the root file system: it reports its end earlier (see
    /// `monitor/program/life.rs`), and an overlay must not share its directories. Only the state of the kernel's mounts
    /// depends on this.
    pub(super) fn let_go_of_root(&self, found: &Snapshot) -> Result<()> {
        let pid = found.now.state.monitor_pid;
        if pid == 0 || found.now.rebooted {
            return Ok(());
        }
        // The number may belong to another process by now.
        if let Some(monitor) = process::monitor(pid) {
            wait_fd(monitor.as_fd(), Ready::Read, Some(HANDOVER), None)?;
        }
        Ok(())
    }

    /// The connection to a live monitor, or `None` if it ended meanwhile.
    pub(super) fn live_control(&self, found: &Snapshot) -> Result<Option<Control>> {
        match self.control(found) {
            Ok(control) => Ok(Some(control)),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A connection on which a live container's end will be reported, or `None` if it ended meanwhile.
    pub(super) fn waiter(&self, found: &Snapshot) -> Result<Option<Control>> {
        let Some(control) = self.live_control(found)? else { return Ok(None) };
        match control.ask_later(Call::Wait(Until::Over)) {
            Ok(()) => Ok(Some(control)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the run of a container that was live is over, or about to be.
    pub(super) fn has_ended(&self, found: &Snapshot) -> Result<bool> {
        let until = Instant::now() + RECORDED;
        loop {
            let now = self.register.states.now(found.row.slot, &found.row.id)?;
            let (then, present) = (&found.now.state, &now.state);
            let another = present.monitor_pid != then.monitor_pid || then.pid != 0 && present.pid != then.pid;
            if another || !now.is_live() {
                return Ok(true);
            }
            if Instant::now() > until {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A connection to the container's monitor. Errors: the container does not run.
    pub(super) fn control(&self, found: &Snapshot) -> Result<Control> {
        // If the directory is missing, the container was removed, or not started since the boot: it is not made here.
        let connected = dirs::open(&self.places.run_dir(&found.row.id)).and_then(|dir| Control::connect(dir.as_fd()));
        connected.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::ECONNREFUSED) => self.unheard(found),
            _ => error,
        })
    }

    /// Why no monitor listens at the container's socket: the monitor has ended, or it cannot be reached.
    fn unheard(&self, found: &Snapshot) -> Error {
        let until = Instant::now() + PARTING;
        loop {
            match self.register.states.now(found.row.slot, &found.row.id) {
                Ok(now) if now.is_live() && Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                Ok(now) if now.is_live() => return self.out_of_reach(found),
                Ok(_) => return not_running(&found.row.id),
                Err(error) => return error,
            }
        }
    }

    /// Whether the name of the monitor's socket is gone.
    pub(super) fn is_out_of_reach(&self, found: &Snapshot) -> bool {
        std::fs::symlink_metadata(self.places.run_dir(&found.row.id).join("ctl")).is_err()
    }

    pub(super) fn out_of_reach(&self, found: &Snapshot) -> Error {
        let text = format!(
            "container {} runs, but its monitor cannot be reached: nobody listens at {}/ctl any more; the removal of the \
             container by force ends it",
            found.row.id,
            self.places.run_dir(&found.row.id).display()
        );
        Error::internal(text).in_area("launch")
    }
}
