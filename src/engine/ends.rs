//! Ends for programs that poll for many things at once: of a stop, of an exec instance, of a session.

use super::Engine;
use super::metrics::Work;
use crate::container::{Containers, PendingStop, StopStep};
use crate::error::{ErrorKind, Result};
use crate::event::EventStream;
use crate::kernel::fd::readable;
use crate::model::{EventQuery, StopContainer};
use crate::op::{Changed, Op};
use crate::store::slot_locks::HeldEnd;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A stop that was begun: see [`Engine::container_stop_begin`] and [`Engine::container_kill_begin`].
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::BegunStop;
///
/// if let BegunStop::Pending(mut stop) = engine.container_stop_begin("clock", Some(10_000), None)? {
///     // A program polls for `stop.fd()` and `stop.due()` beside others, and then asks:
///     while stop.try_stop()?.is_none() {}
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
pub enum BegunStop {
    /// The stop is over.
    Over(Changed),
    /// The signal was sent, and the container runs.
    Pending(ContainerStop),
}

/// A stop in progress.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::BegunStop;
///
/// if let BegunStop::Pending(mut stop) = engine.container_stop_begin("clock", Some(10_000), None)? {
///     // A program polls for `stop.fd()` and `stop.due()` beside others, and then asks:
///     while stop.try_stop()?.is_none() {}
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
pub struct ContainerStop {
    all: Arc<Containers>,
    stop: Box<PendingStop>,
}

impl Engine {
    /// Begins a stop for a program that polls: sends the stop signal, and does not wait for the end.
    ///
    /// Errors: as [`Engine::container_stop`].
    pub fn container_stop_begin(&self, id: &str, grace_ms: Option<i64>, op: Option<&Op>) -> Result<BegunStop> {
        self.container_stop_begin_with(id, &StopContainer { grace_ms, ..StopContainer::default() }, op)
    }

    /// Begins a stop for a program that polls, with a signal and a time of its own.
    ///
    /// Errors: as [`Engine::container_stop_with`].
    pub fn container_stop_begin_with(&self, id: &str, how: &StopContainer, op: Option<&Op>) -> Result<BegunStop> {
        let all = &self.0.containers;
        all.stopper.begin(id, how, op).map(|step| self.begun(step))
    }

    /// Sends a signal for a program that polls: does not wait for the end of a container that gets SIGKILL.
    ///
    /// Errors: as [`Engine::container_kill`].
    pub fn container_kill_begin(&self, id: &str, signal: Option<&str>, op: Option<&Op>) -> Result<BegunStop> {
        let stopper = &self.0.containers.stopper;
        let step = self.0.counters.count(Work::Kill, Some(id), || stopper.begin_kill(id, signal, op))?;
        Ok(self.begun(step))
    }

    fn begun(&self, step: StopStep) -> BegunStop {
        match step {
            StopStep::Over(changed) => BegunStop::Over(changed),
            StopStep::Pending(stop) => BegunStop::Pending(ContainerStop { all: self.0.containers.clone(), stop }),
        }
    }

    /// Begins a wait for the end of an exec instance.
    ///
    /// Errors: no such exec instance.
    pub fn exec_wait_begin(&self, id: &str) -> Result<ExecWait> {
        let container = self.exec_inspect(id)?.container_id;
        let events = ["exec_die", "die", "destroy"].map(str::to_owned).to_vec();
        let filters = [("container".to_owned(), vec![container]), ("event".to_owned(), events)].into();
        let events = self.events(&EventQuery { filters, ..EventQuery::default() })?;
        Ok(ExecWait {
            engine: self.clone(),
            id: id.to_owned(),
            events: Box::new(events),
            ready: readable()?,
            looked: false,
        })
    }
}

/// The end of a container that a restart begins with: see [`Engine::container_restart_begin`].
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StopContainer;
///
/// let mut restart = engine.container_restart_begin("clock", &StopContainer::default(), None)?;
/// // A program polls for `restart.fd()` and `restart.due()` beside others, and then asks:
/// while !restart.try_end()? {}
/// restart.finish(None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
pub struct ContainerRestart {
    engine: Engine,
    id: String,
    how: StopContainer,
    /// `None`: the container does not run.
    stop: Option<ContainerStop>,
    /// A container with AutoRemove stays although it ends.
    held: Option<HeldEnd>,
}

impl Engine {
    /// Begins a restart for a program that polls: sends the stop signal to a container that runs, and does not wait for the
    /// end. A container with AutoRemove is not removed meanwhile; if the restart is dropped, the next look at the container
    /// removes it.
    ///
    /// Errors: as [`Engine::container_restart_with`], but for those of the start.
    pub fn container_restart_begin(&self, id: &str, how: &StopContainer, op: Option<&Op>) -> Result<ContainerRestart> {
        let held = self.0.containers.stopper.hold_end(id)?;
        let stop = match self.container_stop_begin_with(id, how, op)? {
            BegunStop::Pending(stop) => Some(stop),
            BegunStop::Over(_) => None,
        };
        Ok(ContainerRestart { engine: self.clone(), id: id.to_owned(), how: how.clone(), stop, held })
    }
}

impl ContainerRestart {
    /// A descriptor that is readable (level-triggered) when [`ContainerRestart::try_end`] has something to look at; `None`:
    /// nothing runs, and the restart can be finished.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stop.as_ref().map(ContainerStop::fd)
    }

    /// When [`ContainerRestart::try_end`] is to be called even if nothing is readable: it sends SIGKILL then.
    pub fn due(&self) -> Option<Instant> {
        self.stop.as_ref().and_then(ContainerStop::due)
    }

    /// Whether the container has ended; does not wait.
    ///
    /// Errors: the container did not end within 30 seconds of SIGKILL.
    pub fn try_end(&mut self) -> Result<bool> {
        self.stop.as_mut().map_or(Ok(true), |stop| stop.try_stop().map(|stopped| stopped.is_some()))
    }

    /// Starts the container; stops it first if it has not ended.
    ///
    /// Errors: as [`Engine::container_restart_with`].
    pub fn finish(self, op: Option<&Op>) -> Result<()> {
        let done = self.engine.container_restart_with(&self.id, &self.how, op);
        if self.held.is_some() && done.is_err() {
            drop(self.held);
            // The next look removes the container otherwise.
            let _ = self.engine.0.containers.finder.reap_ended_soon(&self.id);
        }
        done
    }
}

impl ContainerStop {
    /// A descriptor that is readable (level-triggered) when [`ContainerStop::try_stop`] has something to look at.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stop.fd()
    }

    /// When [`ContainerStop::try_stop`] is to be called even if nothing is readable: it sends SIGKILL then.
    pub fn due(&self) -> Option<Instant> {
        self.stop.due()
    }

    /// Whether the stop is over; does not wait. `None`: not yet.
    ///
    /// Errors: the container did not end within 30 seconds of SIGKILL.
    pub fn try_stop(&mut self) -> Result<Option<Changed>> {
        self.all.stopper.go_on(&mut self.stop)
    }
}

/// A wait for the end of an exec instance.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// # let id = String::new();
/// let mut wait = engine.exec_wait_begin(&id)?;
/// // A program polls for `wait.fd()` beside others, and then asks:
/// if let Some(code) = wait.try_wait()? {
///     println!("exit code {code}");
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
pub struct ExecWait {
    engine: Engine,
    id: String,
    events: Box<EventStream>,
    /// Readable: it is until the first look.
    ready: OwnedFd,
    looked: bool,
}

impl ExecWait {
    /// A descriptor that is readable (level-triggered) when [`ExecWait::try_wait`] has something to look at.
    pub fn fd(&self) -> BorrowedFd<'_> {
        if self.looked { self.events.fd() } else { self.ready.as_fd() }
    }

    /// The exit code if the process has ended, 137 if it ended with its container; does not wait. `None`: it has not ended,
    /// or was not started.
    pub fn try_wait(&mut self) -> Result<Option<i32>> {
        let mut look = !self.looked;
        self.looked = true;
        loop {
            match self.events.next(Some(Duration::ZERO), None) {
                Ok(Some((_, event))) => {
                    if event.actor.attributes.get("execID").is_some_and(|id| *id == self.id)
                        && let Some(code) = event.exit_code()
                    {
                        return Ok(Some(code));
                    }
                    look |= event.action != "exec_die";
                }
                Ok(None) => break,
                // Some were given up before they were read here: its end may be among them.
                Err(error) if error.kind() == ErrorKind::Unavailable => look = true,
                Err(error) => return Err(error),
            }
        }
        if !look {
            return Ok(None);
        }
        match self.engine.exec_inspect(&self.id) {
            Ok(detail) => Ok(detail.exit_code.filter(|_| !detail.running)),
            // The exec instance went with its container.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Some(super::session::KILLED)),
            Err(error) => Err(error),
        }
    }
}
