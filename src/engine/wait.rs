//! Waiting for containers.

use super::Engine;
use crate::container::{Containers, Snapshot, Stop};
use crate::error::{ErrorKind, Result};
use crate::event::EventStream;
use crate::kernel::fd::readable;
use crate::launch::monitor::Control;
use crate::model::{ContainerWaited, Event, EventQuery, WaitCondition, WaitError};
use crate::op::{Op, Ready, wait_fd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// A wait in progress: it notices everything since its beginning, however late [`ContainerWait::wait`] is called.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::WaitCondition;
///
/// // The wait begins before the start, so that the end of a short run is not missed.
/// let wait = engine.container_wait_begin("clock", WaitCondition::NextExit)?;
/// engine.container_start("clock", None, None)?;
/// println!("exit code {}", wait.wait(None)?.status_code);
/// # Ok::<(), coracle::Error>(())
/// ```
pub struct ContainerWait {
    all: Arc<Containers>,
    found: Snapshot,
    until: Until,
    /// The exit code that the wait returns: that of the previous end, until another end is reported.
    code: i32,
}

enum Until {
    /// The wait is over: the result, and a descriptor that is readable from the beginning.
    Over(ContainerWaited, OwnedFd),
    /// The monitor will report the end on this connection.
    Stop(Control),
    /// The events of the container from here on; whether the wait is for its removal.
    Events(Box<EventStream>, bool),
}

impl Until {
    fn over(result: ContainerWaited) -> Result<Until> {
        Ok(Until::Over(result, readable()?))
    }
}

/// The result of a wait for an exit code.
fn waited(code: i32) -> ContainerWaited {
    ContainerWaited { status_code: code, error: None }
}

impl Engine {
    /// Waits until a container does not run; returns its exit code.
    pub fn container_wait(&self, id: &str, op: Option<&Op>) -> Result<i32> {
        self.0.containers.waits.wait(id, op)
    }

    /// Waits for the event that `condition` names; see [`Engine::container_wait_begin`].
    pub fn container_wait_for(&self, id: &str, condition: WaitCondition, op: Option<&Op>) -> Result<ContainerWaited> {
        self.container_wait_begin(id, condition)?.wait(op)
    }

    /// Begins a wait. A caller that begins it before it starts the container misses no end, however short the run is; then
    /// it calls [`ContainerWait::wait`].
    ///
    /// Errors: no such container, also if it has ended and has `HostConfig.AutoRemove`.
    pub fn container_wait_begin(&self, id: &str, condition: WaitCondition) -> Result<ContainerWait> {
        let all = Arc::clone(&self.0.containers);
        let found = all.finder.find(id)?;
        if condition == WaitCondition::NotRunning {
            let until = match all.waits.stop_of(&found)? {
                Stop::Over(code) => Until::over(waited(code))?,
                Stop::Awaited(control) => Until::Stop(control),
            };
            return Ok(ContainerWait { all, found, until, code: 0 });
        }
        let filters = [("container", vec![found.row.id.clone()]), ("event", vec!["die".into(), "destroy".into()])];
        let filters = filters.map(|(key, values)| (key.to_owned(), values)).into();
        let events = Box::new(self.events(&EventQuery { filters, ..EventQuery::default() })?);
        // The earlier state counts as long as no event has come, so it is read after the stream is open.
        let found = all.finder.find(&found.row.id)?;
        let code = found.now.state.exit_code;
        Ok(ContainerWait { all, found, until: Until::Events(events, condition == WaitCondition::Removed), code })
    }
}

impl ContainerWait {
    /// Waits, and returns the exit code of the container's last run; 0 if the container never ran.
    ///
    /// Errors: `op` ended.
    pub fn wait(mut self, op: Option<&Op>) -> Result<ContainerWaited> {
        loop {
            if let Some(result) = self.step(None, op)? {
                return Ok(result);
            }
        }
    }

    /// A descriptor for programs that wait for several things at once, with poll or a similar call: it is readable
    /// (level-triggered) when [`ContainerWait::try_wait`] may have a result. It stays readable when the wait is over.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.until {
            Until::Over(_, ready) => ready.as_fd(),
            Until::Stop(control) => control.fd(),
            Until::Events(events, _) => events.fd(),
        }
    }

    /// The result if the wait is over; does not wait. `None`: not yet, poll again.
    pub fn try_wait(&mut self) -> Result<Option<ContainerWaited>> {
        let result = self.step(Some(Duration::ZERO), None)?;
        if let (Some(result), false) = (&result, matches!(self.until, Until::Over(..))) {
            self.until = Until::over(result.clone())?;
        }
        Ok(result)
    }

    /// Waits at most `timeout` for the end; `None`: it has not come yet.
    fn step(&mut self, timeout: Option<Duration>, op: Option<&Op>) -> Result<Option<ContainerWaited>> {
        match &mut self.until {
            Until::Over(result, _) => Ok(Some(result.clone())),
            Until::Stop(control) => {
                if !wait_fd(control.fd(), Ready::Read, timeout, op)? {
                    return Ok(None);
                }
                self.all.waits.stopped(&self.found, control, op).map(|code| Some(waited(code)))
            }
            Until::Events(events, removed) => {
                let (next, removed) = (events.next(timeout, op), *removed);
                self.hear(next, removed)
            }
        }
    }

    /// Handles an event of the container, which may be the end of the wait.
    fn hear(&mut self, next: Result<Option<(u64, Event)>>, removed: bool) -> Result<Option<ContainerWaited>> {
        let id = &self.found.row.id;
        match next {
            Ok(Some((_, event))) if event.action == "destroy" => Ok(Some(waited(self.code))),
            Ok(Some((_, event))) => {
                self.code = event.exit_code().unwrap_or(self.code);
                if !removed {
                    return Ok(Some(waited(self.code)));
                }
                if self.found.spec.host_config.auto_remove
                    && let Err(error) = self.all.finder.reap_ended_soon(id)
                {
                    let error = Some(WaitError { message: error.message().to_owned() });
                    return Ok(Some(ContainerWaited { status_code: self.code, error }));
                }
                Ok(None)
            }
            Ok(None) => Ok(None),
            // Events were dropped before they were read here, perhaps the container's end.
            Err(error) if error.kind() == ErrorKind::Unavailable => match self.all.finder.find(id) {
                Err(gone) if gone.kind() == ErrorKind::NotFound => {
                    let code = self.all.waits.code_of_gone(self.found.row.slot, id);
                    Ok(Some(waited(code.unwrap_or(self.code))))
                }
                Ok(now) if !removed && now.now.state.finished_ns > self.found.now.state.finished_ns => {
                    Ok(Some(waited(now.now.state.exit_code)))
                }
                _ => Ok(None),
            },
            Err(error) => Err(error),
        }
    }
}
