//! Waiting for containers.

use super::Engine;
use crate::container::{Containers, Snapshot, Stop};
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventStream;
use crate::model::{ContainerWaited, EventQuery, WaitCondition, WaitError};
use crate::op::Op;
use std::sync::{Arc, OnceLock};

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
}

enum Until {
    Stop(Stop),
    /// The events of the container from here on; whether its removal is waited for.
    Told(Box<EventStream>, bool),
}

impl Engine {
    /// Waits until a container does not run; answers its exit code.
    pub fn container_wait(&self, id: &str, op: Option<&Op>) -> Result<i32> {
        self.0.containers.waits.wait(id, op)
    }

    /// Waits for what `condition` names; see [`Engine::container_wait_begin`].
    pub fn container_wait_for(&self, id: &str, condition: WaitCondition, op: Option<&Op>) -> Result<ContainerWaited> {
        self.container_wait_begin(id, condition)?.wait(op)
    }

    /// Begins a wait, so that the caller misses no end: begin, start the container, then call [`ContainerWait::wait`].
    ///
    /// Errors: no such container, also if it has ended and has `HostConfig.AutoRemove`.
    pub fn container_wait_begin(&self, id: &str, condition: WaitCondition) -> Result<ContainerWait> {
        let all = Arc::clone(&self.0.containers);
        let found = all.finder.find(id)?;
        if condition == WaitCondition::NotRunning {
            let until = Until::Stop(all.waits.stop_of(&found)?);
            return Ok(ContainerWait { all, found, until });
        }
        let filters = [("container", vec![found.row.id.clone()]), ("event", vec!["die".into(), "destroy".into()])];
        let filters = filters.map(|(key, values)| (key.to_owned(), values)).into();
        let told = Box::new(self.events(&EventQuery { filters, ..EventQuery::default() })?);
        // The earlier state counts as long as no event came, so it is read after the stream has its place.
        let found = all.finder.find(&found.row.id)?;
        Ok(ContainerWait { all, found, until: Until::Told(told, condition == WaitCondition::Removed) })
    }
}

impl ContainerWait {
    /// Waits; answers the exit code of the end that ended the wait, or of the last end before the removal; 0 if the
    /// container never ran.
    ///
    /// Errors: `op` ended.
    pub fn wait(self, op: Option<&Op>) -> Result<ContainerWaited> {
        let (all, found) = (self.all, self.found);
        let waited = |code| ContainerWaited { status_code: code, error: None };
        let (mut told, removed) = match self.until {
            Until::Stop(Stop::Over(code)) => return Ok(waited(code)),
            Until::Stop(Stop::Awaited(control)) => return all.waits.stopped(&found, &control, op).map(waited),
            Until::Told(told, removed) => (told, removed),
        };
        let mut code = found.now.state.exit_code;
        loop {
            match told.next(None, op) {
                Ok(Some((_, event))) if event.action == "destroy" => return Ok(waited(code)),
                Ok(Some((_, event))) => {
                    code = event.actor.attributes.get("exitCode").and_then(|code| code.parse().ok()).unwrap_or(code);
                    if !removed {
                        return Ok(waited(code));
                    }
                    if found.spec.host_config.auto_remove
                        && let Err(error) = all.finder.reap_ended_soon(&found.row.id)
                    {
                        let error = Some(WaitError { message: error.message().to_owned() });
                        return Ok(ContainerWaited { status_code: code, error });
                    }
                }
                Ok(None) => return Err(Error::internal("the events of a container ended")),
                // Some were given up before they were read here: its end may be among them.
                Err(error) if error.kind() == ErrorKind::Unavailable => match all.finder.find(&found.row.id) {
                    Err(gone) if gone.kind() == ErrorKind::NotFound => {
                        return Ok(waited(all.waits.code_of_gone(found.row.slot, &found.row.id).unwrap_or(code)));
                    }
                    Ok(now) if !removed && now.now.state.finished_ns > found.now.state.finished_ns => {
                        return Ok(waited(now.now.state.exit_code));
                    }
                    _ => {}
                },
                Err(error) => return Err(error),
            }
        }
    }
}

/// The end of a container that goes then, for who has a session of it: the code is known when nothing is left of it.
pub(super) struct Ending {
    found: Snapshot,
    /// Where the end is told; absent: the session was there before the start.
    stop: Option<Stop>,
    code: OnceLock<i32>,
}

impl Ending {
    /// Absent: the container stays, and can be asked.
    pub(super) fn of(all: &Containers, found: &Snapshot) -> Option<Ending> {
        if !found.spec.host_config.auto_remove {
            return None;
        }
        let (found, stop) = match all.waits.run_of(found) {
            Some((found, stop)) => (found, Some(stop)),
            None => (found.clone(), None),
        };
        Some(Ending { found, stop, code: OnceLock::new() })
    }

    /// Waits for it, and for the removal as far as that is this engine's.
    pub(super) fn wait(&self, all: &Containers, op: Option<&Op>) -> Result<i32> {
        if let Some(code) = self.code.get() {
            return Ok(*code);
        }
        let (slot, id) = (self.found.row.slot, &self.found.row.id);
        let code = match &self.stop {
            Some(Stop::Over(code)) => *code,
            Some(Stop::Awaited(control)) => all.waits.stopped(&self.found, control, op)?,
            None => match all.waits.wait(id, op) {
                Err(error) if error.kind() == ErrorKind::NotFound => all.waits.code_of_gone(slot, id).ok_or(error)?,
                other => other?,
            },
        };
        let _ = self.code.set(code);
        // Else by the next look.
        let _ = all.finder.reap_ended_soon(id);
        Ok(code)
    }
}
