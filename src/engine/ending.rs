//! The end of the run that a session of a container is for.

use crate::container::{Beginning, Containers, RECORDED, Run, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventStream;
use crate::kernel::fd::{duplicate, readable};
use crate::launch::monitor::Control;
use crate::op::{Op, Ready, wait_fd};
use parking_lot::Mutex;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The end of a session's run: that in which the session began, or the next one after an attach that waited for a start. It stays
/// the end of that run, also if the container was started again before the first wait.
pub(super) struct Ending {
    /// The container as it was when the session began.
    found: Snapshot,
    beginning: Beginning,
    /// When the run began (`started_ns` of its record); absent: it has not begun yet.
    begun: OnceLock<i64>,
    /// The connection on which the container's monitor reports the end.
    awaited: Mutex<Option<Arc<Control>>>,
    code: OnceLock<i32>,
    /// The events by which a program that polls hears of the start. They stay open after the start: the program may still have their
    /// descriptor in its loop.
    events: Mutex<Option<EventStream>>,
}

/// An end at one moment.
enum Look {
    /// The run is over: its exit code.
    Over(i32),
    /// The monitor will report the end on the connection.
    Awaited(Arc<Control>),
    /// The monitor was killed, and the record does not show the end yet.
    Unrecorded,
    /// The run has not begun.
    NotBegun,
}

impl Ending {
    /// The end of the run that `beginning` tells of, or of the next one.
    pub(super) fn new(all: &Containers, found: Snapshot, beginning: Beginning) -> Ending {
        let (begun, code) = (OnceLock::new(), OnceLock::new());
        if let Some(Run { started_ns, code: ended }) = beginning.run {
            let _ = (begun.set(started_ns), ended.map(|ended| code.set(ended)));
        }
        let (awaited, events) = (Mutex::new(None), Mutex::new(None));
        let ending = Ending { found, beginning, begun, awaited, code, events };
        if ending.found.spec.host_config.auto_remove {
            // Before another program can remove the container: the holder of the session must learn its exit code.
            let _ = ending.look(all);
        }
        ending
    }

    /// Waits for the start, if the run has not begun, and for the end; returns the exit code.
    pub(super) fn wait(&self, all: &Containers, op: Option<&Op>) -> Result<i32> {
        let (mut events, mut until) = (None, None);
        loop {
            match self.look(all)? {
                Look::Over(code) => return Ok(self.over(all, code)),
                Look::Awaited(control) => match all.waits.reported(&control, op)? {
                    Some(code) => return Ok(self.over(all, code)),
                    None => self.forget(&control),
                },
                Look::Unrecorded => {
                    op.map_or(Ok(()), Op::check)?;
                    if Instant::now() > *until.get_or_insert_with(|| Instant::now() + RECORDED) {
                        return Err(all.waits.unrecorded(&self.found));
                    }
                    std::thread::sleep(Duration::from_millis(1));
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
            Look::Awaited(control) if wait_fd(control.fd(), Ready::Read, Some(Duration::ZERO), None)? => {
                let code = all.waits.reported(&control, None)?;
                if code.is_none() {
                    self.forget(&control);
                }
                Ok(code.map(|code| self.over(all, code)))
            }
            _ => Ok(None),
        }
    }

    /// A descriptor that is readable when [`Ending::try_wait`] may have the code.
    pub(super) fn fd(&self, all: &Containers) -> Result<OwnedFd> {
        match self.look(all)? {
            // An end that is not recorded yet will be soon.
            Look::Over(_) | Look::Unrecorded => readable(),
            Look::Awaited(control) => duplicate(control.fd()),
            Look::NotBegun => duplicate(self.following(all, &mut self.events.lock())?.fd()),
        }
    }

    /// The events of the container behind the beginning, opened at the first call with a place. Their descriptor asks for a look from
    /// time to time, too.
    fn following<'a>(&self, all: &Containers, place: &'a mut Option<EventStream>) -> Result<&'a mut EventStream> {
        match place {
            Some(events) => Ok(events),
            none => {
                let mut events = all.waits.events_since(&self.beginning, &self.found)?;
                events.beat(LOOK)?;
                Ok(none.insert(events))
            }
        }
    }

    /// Where the end is now.
    fn look(&self, all: &Containers) -> Result<Look> {
        if let Some(code) = self.code.get() {
            return Ok(Look::Over(*code));
        }
        if let Some(control) = &*self.awaited.lock() {
            return Ok(Look::Awaited(Arc::clone(control)));
        }
        let now = match all.finder.find(&self.found.row.id) {
            Ok(now) => now,
            Err(error) if error.kind() == ErrorKind::NotFound => return self.of_gone(all, error),
            Err(error) => return Err(error),
        };
        let started = now.now.state.started_ns;
        let begun = match self.begun.get() {
            Some(begun) => *begun,
            // The state was read first: if the run that it has is another one, the journal has the end of the session's. A start that
            // failed has an end, too.
            None => match self.told(all)? {
                Some(code) => return Ok(Look::Over(code)),
                None if started == self.beginning.started_ns => return Ok(Look::NotBegun),
                None => *self.begun.get_or_init(|| started),
            },
        };
        if started != begun {
            return self.told(all)?.map(Look::Over).ok_or_else(|| all.waits.untold());
        }
        if now.now.run_is_over() {
            return Ok(Look::Over(now.now.state.exit_code));
        }
        let Some(control) = all.waits.ask_end(&now)? else { return Ok(Look::Unrecorded) };
        Ok(Look::Awaited(Arc::clone(self.awaited.lock().get_or_insert_with(|| Arc::new(control)))))
    }

    /// The exit code of the session's run, if the journal has its end.
    fn told(&self, all: &Containers) -> Result<Option<i32>> {
        all.waits.first_end(&self.beginning, &self.found)
    }

    /// The end of a container that was removed meanwhile: `error` tells so.
    fn of_gone(&self, all: &Containers, error: Error) -> Result<Look> {
        let (slot, id) = (self.found.row.slot, &self.found.row.id);
        match self.told(all) {
            Ok(Some(code)) => Ok(Look::Over(code)),
            Ok(None) => all.waits.code_of_gone(slot, id).map(Look::Over).ok_or(error),
            // The record stays until another container gets the slot.
            Err(dropped) => {
                let run = all.waits.recorded_run(&self.found);
                let code = run.filter(|run| Some(&run.started_ns) == self.begun.get()).and_then(|run| run.code);
                code.map(Look::Over).ok_or(dropped)
            }
        }
    }

    /// Gives up the connection to a monitor that was killed: the record has the end.
    fn forget(&self, control: &Arc<Control>) {
        self.awaited.lock().take_if(|awaited| Arc::ptr_eq(awaited, control));
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
