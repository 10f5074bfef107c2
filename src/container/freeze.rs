//! Freezing and thawing containers.

use super::state::{Verb, decide};
use super::stop::{gone_is_not_running, is_gone};
use super::{Finder, Monitors, Register, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::launch::monitor::{APPEARANCE_LIMIT_S, Control};
use crate::store::states::Status;
use coracle_monitor::call::{Call, Freeze};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a pause waits for processes that are being started in the container.
const LAUNCHING: Duration = Duration::from_secs(APPEARANCE_LIMIT_S as u64 + 5);

/// Freezes and thaws containers.
pub(crate) struct Freezer {
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) finder: Arc<Finder>,
}

impl Freezer {
    /// Freezes a container.
    pub(crate) fn pause(&self, reference: &str) -> Result<()> {
        self.pause_until(reference, Freeze::On).map(drop)
    }

    /// Freezes a running container as long as the returned connection lives, also if this program is killed; `None`:
    /// nothing runs any more.
    pub(super) fn hold_still(&self, id: &str) -> Result<Option<Control>> {
        match self.pause_until(id, Freeze::Held) {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
            held => held.map(Some),
        }
    }

    /// Thaws a container that [`Freezer::hold_still`] froze, unless it ended or another call thawed it.
    pub(super) fn let_go_on(&self, id: &str, held: &Control) -> Result<()> {
        let (_busy, found) = match self.finder.lock(id, None) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            taken => taken?,
        };
        if found.now.state.status() != Status::Paused {
            return Ok(());
        }
        match held.ask(Call::Unpause, None) {
            Err(error) if is_gone(&error) || error.is(libc::ESRCH) => Ok(()),
            answer => answer.and_then(|_| self.register.event(&found, "unpause", &[])),
        }
    }

    fn pause_until(&self, reference: &str, until: Freeze) -> Result<Control> {
        let (_busy, found) = self.finder.lock(reference, None)?;
        let id = &found.row.id;
        decide(Verb::Pause, &found)?;
        let control = self.freeze(&found, until).map_err(|error| gone_is_not_running(error, id))?;
        self.register.event(&found, "pause", &[])?;
        Ok(control)
    }

    /// The monitor freezes nothing while a process is entering the container, which takes a moment.
    pub(super) fn freeze(&self, found: &Snapshot, how: Freeze) -> Result<Control> {
        let control = self.monitors.control(found)?;
        let until = Instant::now() + LAUNCHING;
        loop {
            match control.ask(Call::Pause(how), None) {
                Err(error) if error.is(libc::EAGAIN) => {
                    if Instant::now() > until {
                        let text = format!(
                            "Cannot pause container {}: a process that is being started in it did not come to its program \
                             within {LAUNCHING:?}",
                            found.row.id
                        );
                        return Err(Error::new(ErrorKind::Timeout, text));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                answer => return answer.map(|_| control),
            }
        }
    }

    /// Thaws a container.
    pub(crate) fn unpause(&self, reference: &str) -> Result<()> {
        let (_busy, found) = self.finder.lock(reference, None)?;
        let id = &found.row.id;
        decide(Verb::Unpause, &found)?;
        self.monitors.control(&found)?.ask(Call::Unpause, None).map_err(|error| gone_is_not_running(error, id))?;
        self.register.event(&found, "unpause", &[])
    }
}
