//! Waiting for the end of a container, and its exit code.

use super::stop::{RECORDED, is_gone};
use super::{Beginning, Finder, Monitors, Register, Run, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventStream;
use crate::kernel::process;
use crate::launch::monitor::{Control, accepted};
use crate::model::EventQuery;
use crate::op::Op;
use coracle_monitor::call::{Call, Until};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The text about a session whose end cannot be told from the ends of other runs.
const END_DROPPED: &str = "the exit code of the session's run is not known: the container has run again since, and the journal of events has \
     dropped the place at which the session began";

/// The end of a run.
pub(crate) enum Stop {
    /// The container does not run; its exit code.
    Over(i32),
    /// The monitor will report the end on this connection.
    Awaited(Control),
}

/// Waits for the ends of containers.
pub(crate) struct Waits {
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) finder: Arc<Finder>,
}

impl Waits {
    /// A connection on which the end of a started container will be reported. `None`: it has ended.
    pub(crate) fn follow_end(&self, found: &Snapshot) -> Result<Option<Control>> {
        self.monitors.waiter(found)
    }

    /// Where a session of a container that runs begins: the end of its run comes in the journal behind this place.
    pub(crate) fn beginning(&self, found: &Snapshot) -> Beginning {
        // The place is known before the state is read: the end of a run that goes on comes behind the place. A started container is
        // not lost for a journal that cannot be read: its record has the code of its last run.
        let position = self.register.journal.end().unwrap_or(u64::MAX);
        let run = self.recorded_run(found);
        Beginning { position, started_ns: found.now.state.started_ns, waits_from: None, run }
    }

    /// The last run of a container that the container's record tells of; also of a container that was removed, as long as no other one
    /// has its slot. The answer is `None` if no record is left, or if the container did not run.
    pub(crate) fn recorded_run(&self, found: &Snapshot) -> Option<Run> {
        self.register.states.now(found.row.slot, &found.row.id).ok().as_ref().and_then(Run::of)
    }

    /// The error about a run whose end no event tells, and after which another one began.
    pub(crate) fn untold(&self) -> Error {
        Error::new(ErrorKind::Unavailable, END_DROPPED).in_area("container")
    }

    /// The error about a run whose monitor was killed, and whose end no program could record.
    pub(crate) fn unrecorded(&self, found: &Snapshot) -> Error {
        self.monitors.out_of_reach(found)
    }

    /// The exit code in the first "die" event of a container behind a beginning. `None`: there is none.
    ///
    /// Errors: the journal has dropped the place: the first end that it still has may be another run's.
    pub(crate) fn first_end(&self, beginning: &Beginning, found: &Snapshot) -> Result<Option<i32>> {
        let dropped = |error: Error| match error.kind() {
            ErrorKind::Unavailable => self.untold(),
            _ => error,
        };
        let mut stream = self.events_since(beginning, found)?;
        while let Some((_, event)) = stream.next(Some(Duration::ZERO), None).map_err(dropped)? {
            if event.action == "die" && !beginning.is_of_before(&event, found) {
                return Ok(event.exit_code());
            }
        }
        Ok(None)
    }

    /// The events of a container behind a beginning, then those that come.
    pub(crate) fn events_since(&self, beginning: &Beginning, found: &Snapshot) -> Result<EventStream> {
        let filters = [("container", &*found.row.id), ("type", "container")];
        let filters = filters.map(|(key, value)| (key.to_owned(), vec![value.to_owned()])).into();
        let after = Some(beginning.position);
        EventStream::open(self.register.journal.clone(), &EventQuery { after, filters, ..EventQuery::default() })
    }

    /// The exit code of a container that was removed meanwhile: its record stays until another container gets its slot,
    /// and the journal has its end. `None`: neither is left.
    pub(crate) fn code_of_gone(&self, slot: u32, id: &str) -> Option<i32> {
        let recorded = self.register.states.recorded(slot, id).ok().flatten();
        let now = recorded.and_then(|_| self.register.states.now(slot, id).ok());
        now.filter(|now| !now.is_live()).map(|now| now.state.exit_code).or_else(|| self.code_told(id))
    }

    /// The exit code in the last "die" event of a container.
    fn code_told(&self, id: &str) -> Option<i32> {
        let filters = [("container", id), ("event", "die"), ("type", "container")];
        let filters = filters.map(|(key, value)| (key.to_owned(), vec![value.to_owned()])).into();
        let query = EventQuery { since_ns: Some(0), until_ns: Some(super::now_ns()), after: None, filters };
        let mut stream = EventStream::open(self.register.journal.clone(), &query).ok()?;
        let (mut code, mut left) = (None, super::removal::GIVEN_UP);
        loop {
            match stream.next(None, None) {
                Ok(Some((_, event))) => code = event.exit_code(),
                Ok(None) => return code,
                // The oldest events were dropped meanwhile.
                Err(error) if error.kind() == ErrorKind::Unavailable && left > 0 => left -= 1,
                Err(_) => return code,
            }
        }
    }

    /// A pidfd of the first process. Errors: the container does not run.
    pub(crate) fn pidfd(&self, reference: &str) -> Result<OwnedFd> {
        let found = self.finder.find(reference)?;
        let state = found.now.state;
        if !found.now.is_live() || state.pid == 0 {
            return Err(super::not_running(&found.row.id));
        }
        let pidfd = match process::pidfd(state.pid) {
            // The process has ended, and its end is not in the record yet.
            Err(error) if error.is(libc::ESRCH) => return Err(super::not_running(&found.row.id)),
            other => other?,
        };
        // Checked after the open: from here on the number cannot belong to another process.
        match process::start_time(state.pid) == Some(state.pid_start) {
            true => Ok(pidfd),
            false => Err(super::not_running(&found.row.id)),
        }
    }

    /// Waits until a container does not run; returns its exit code.
    pub(crate) fn wait(&self, reference: &str, op: Option<&Op>) -> Result<i32> {
        let found = self.finder.find(reference)?;
        self.wait_found(&found, op)
    }

    fn wait_found(&self, found: &Snapshot, op: Option<&Op>) -> Result<i32> {
        match self.stop_of(found)? {
            Stop::Over(code) => Ok(code),
            Stop::Awaited(control) => self.stopped(found, &control, op),
        }
    }

    /// Asks for a report when a container does not run.
    pub(crate) fn stop_of(&self, found: &Snapshot) -> Result<Stop> {
        if !found.now.is_live() {
            return Ok(Stop::Over(found.now.state.exit_code));
        }
        match self.ask_end(found)? {
            Some(control) => Ok(Stop::Awaited(control)),
            // The monitor ended between the two calls, or was killed: the record has the outcome.
            None => self.code_after(found).map(Stop::Over),
        }
    }

    /// Asks the monitor of a container that runs for a report when the container does not run. `None`: the monitor has ended.
    pub(crate) fn ask_end(&self, found: &Snapshot) -> Result<Option<Control>> {
        let Some(control) = self.monitors.live_control(found)? else { return Ok(None) };
        match control.ask_later(Call::Wait(Until::Stopped)) {
            Ok(()) => Ok(Some(control)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the report that [`Waits::ask_end`] asked for; returns the exit code. `None`: the monitor was killed.
    pub(crate) fn reported(&self, control: &Control, op: Option<&Op>) -> Result<Option<i32>> {
        match control.end(op) {
            Ok(answer) => Ok(Some(accepted(answer)?.value)),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the report that [`Waits::stop_of`] asked for; returns the exit code.
    pub(crate) fn stopped(&self, found: &Snapshot, control: &Control, op: Option<&Op>) -> Result<i32> {
        match self.reported(control, op)? {
            Some(code) => Ok(code),
            None => self.code_after(found),
        }
    }

    /// The exit code in a container's record after its monitor is gone.
    fn code_after(&self, found: &Snapshot) -> Result<i32> {
        let (slot, id) = (found.row.slot, &found.row.id);
        let until = Instant::now() + RECORDED;
        loop {
            let now = match self.finder.find(id) {
                Ok(now) => now.now,
                // The container was removed at its end.
                Err(error) if error.kind() == ErrorKind::NotFound => return self.code_of_gone(slot, id).ok_or(error),
                Err(error) => return Err(error),
            };
            // A container that was started again meanwhile has the code of its last end.
            if !now.is_live() || now.state.monitor_pid != found.now.state.monitor_pid {
                return Ok(now.state.exit_code);
            }
            if Instant::now() > until {
                return Err(self.unrecorded(found));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
