//! The end of the run that a session of a container is for.

use crate::container::{Beginning, Containers, Snapshot, Stop};
use crate::error::{ErrorKind, Result};
use crate::event::EventStream;
use crate::kernel::fd::{duplicate, readable};
use crate::launch::monitor::Control;
use crate::op::{Op, Ready, wait_fd};
use parking_lot::Mutex;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::Duration;

/// The end of a session's run: that in which the session began, or the next one after an attach that waited for a start. It stays
/// the end of that run, also if the container was started again before the first wait.
pub(super) struct Ending {
    /// The container as it was when the session began.
    found: Snapshot,
    beginning: Beginning,
    /// When the run began (`started_ns` of its record); absent: it has not begun yet.
    begun: OnceLock<i64>,
    /// The running container, and the connection on which its monitor reports the end.
    awaited: OnceLock<(Snapshot, Control)>,
    code: OnceLock<i32>,
    /// The events by which a program that polls hears of the start.
    events: Mutex<Option<EventStream>>,
}

/// An end at one moment.
enum Look<'a> {
    /// The run is over: its exit code.
    Over(i32),
    /// The monitor will report the end of this container on the connection.
    Awaited(&'a Snapshot, &'a Control),
    /// The run has not begun.
    NotBegun,
}

impl Ending {
    /// The end of the present run of a container that was started, or attached to, just now.
    pub(super) fn of_present(all: &Containers, found: &Snapshot) -> Ending {
        // The place in the journal is known before the state is read: the end of a run that goes on comes behind the place.
        let ending = Ending::of_next(found.clone(), all.waits.beginning(found));
        match all.waits.run_at(found) {
            Some((begun, None)) => drop(ending.begun.set(begun)),
            Some((begun, Some(code))) => {
                let _ = (ending.begun.set(begun), ending.code.set(code));
            }
            // The container was removed at its end.
            None => drop(all.waits.code_of_gone(found.row.slot, &found.row.id).map(|code| ending.code.set(code))),
        }
        if found.spec.host_config.auto_remove {
            // Before another program can remove the container: the holder of the session must learn its exit code.
            let _ = ending.look(all);
        }
        ending
    }

    /// The end of the next run of a container, whose start an attach waits for.
    pub(super) fn of_next(found: Snapshot, beginning: Beginning) -> Ending {
        let (begun, awaited, code) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ending { found, beginning, begun, awaited, code, events: Mutex::new(None) }
    }

    /// Waits for the start, if the run has not begun, and for the end; returns the exit code.
    pub(super) fn wait(&self, all: &Containers, op: Option<&Op>) -> Result<i32> {
        let mut events = None;
        loop {
            match self.look(all)? {
                Look::Over(code) => return Ok(self.over(all, code)),
                Look::Awaited(found, control) => {
                    let code = all.waits.stopped(found, control, op)?;
                    return Ok(self.over(all, code));
                }
                Look::NotBegun => hear(self.following(all, &mut events)?, LOOK, op)?,
            }
        }
    }

    /// The exit code if the run is over; does not wait.
    pub(super) fn try_wait(&self, all: &Containers) -> Result<Option<i32>> {
        if let Some(events) = self.events.lock().as_mut() {
            hear(events, Duration::ZERO, None)?;
        }
        match self.look(all)? {
            Look::Over(code) => Ok(Some(self.over(all, code))),
            Look::Awaited(found, control) if wait_fd(control.fd(), Ready::Read, Some(Duration::ZERO), None)? => {
                let code = all.waits.stopped(found, control, None)?;
                Ok(Some(self.over(all, code)))
            }
            _ => Ok(None),
        }
    }

    /// A descriptor that is readable when [`Ending::try_wait`] may have the code.
    pub(super) fn fd(&self, all: &Containers) -> Result<OwnedFd> {
        match self.look(all)? {
            Look::Over(_) => readable(),
            Look::Awaited(_, control) => duplicate(control.fd()),
            Look::NotBegun => duplicate(self.following(all, &mut self.events.lock())?.fd()),
        }
    }

    /// The events of the container behind the beginning, opened at the first call with a place.
    fn following<'a>(&self, all: &Containers, place: &'a mut Option<EventStream>) -> Result<&'a mut EventStream> {
        match place {
            Some(events) => Ok(events),
            none => Ok(none.insert(all.waits.events_since(&self.beginning, &self.found)?)),
        }
    }

    /// Where the end is now.
    fn look(&self, all: &Containers) -> Result<Look<'_>> {
        if let Some(code) = self.code.get() {
            return Ok(Look::Over(*code));
        }
        if let Some((found, control)) = self.awaited.get() {
            return Ok(Look::Awaited(found, control));
        }
        let (slot, id) = (self.found.row.slot, &self.found.row.id);
        let told = || all.waits.first_end(&self.beginning, &self.found);
        let now = match all.finder.find(id) {
            Ok(now) => now,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return told().or_else(|| all.waits.code_of_gone(slot, id)).map(Look::Over).ok_or(error);
            }
            Err(error) => return Err(error),
        };
        let started = now.now.state.started_ns;
        let begun = match self.begun.get() {
            Some(begun) => *begun,
            // The state was read first: if the run that it has is another one, the journal has the end of the session's. A start that
            // failed has an end, too.
            None => match told() {
                Some(code) => return Ok(Look::Over(code)),
                None if started == self.beginning.started_ns => return Ok(Look::NotBegun),
                None => *self.begun.get_or_init(|| started),
            },
        };
        if started != begun {
            return Ok(Look::Over(told().unwrap_or(now.now.state.exit_code)));
        }
        Ok(match all.waits.stop_of(&now)? {
            Stop::Over(code) => Look::Over(code),
            Stop::Awaited(control) => {
                let (found, control) = self.awaited.get_or_init(|| (now, control));
                Look::Awaited(found, control)
            }
        })
    }

    /// Keeps the code, which each later wait gets.
    fn over(&self, all: &Containers, code: i32) -> i32 {
        if self.found.spec.host_config.auto_remove && self.code.get().is_none() {
            // The next look removes the container otherwise.
            let _ = all.finder.reap_ended_soon(&self.found.row.id);
        }
        *self.code.get_or_init(|| code)
    }
}

/// How long a wait for a start goes without a look: the program that would report the start may have been killed.
const LOOK: Duration = Duration::from_secs(1);

/// Waits for an event of the container, at most for `timeout`; the state tells the rest.
fn hear(events: &mut EventStream, timeout: Duration, op: Option<&Op>) -> Result<()> {
    match events.next(Some(timeout), op) {
        Ok(_) => Ok(()),
        // Events were dropped before they were read here.
        Err(error) if error.kind() == ErrorKind::Unavailable => Ok(()),
        Err(error) => Err(error),
    }
}
