//! A container of an engine as a value: the calls about one container, without its id each time.

use super::{Engine, Io, Session};
use crate::container::StatsStream;
use crate::error::Result;
use crate::log::LogStream;
use crate::model::*;
use std::time::Duration;

/// A container, named by its id or its name.
///
/// The value is a name together with the engine: it holds nothing of the container open, and the container stays when the value is
/// dropped. [`Engine`] has the same calls with an [`crate::Op`], and further ones.
///
/// ```no_run
/// use coracle::model::{CreateBody, LogQuery};
///
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let request = CreateBody::of("busybox").cmd(["sh", "-c", "echo output; exit 3"]).env("TZ", "UTC");
/// let container = engine.create(Some("job"), &request)?;
/// container.start()?;
/// assert_eq!(container.wait()?, 3);
/// for line in container.logs(&LogQuery::default())? {
///     print!("{}", String::from_utf8_lossy(&line?.data));
/// }
/// container.remove()?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Clone)]
pub struct Container {
    engine: Engine,
    id: String,
}

impl Engine {
    /// Creates a container and answers it as a value. Warnings are those of [`Engine::container_create`], which has them.
    pub fn create(&self, name: Option<&str>, request: &CreateBody) -> Result<Container> {
        self.container_create(name, request).map(|created| self.container(created.id))
    }

    /// The container of an id or a name, as a value. Whether there is such a container, its calls say.
    pub fn container(&self, id: impl Into<String>) -> Container {
        Container { engine: self.clone(), id: id.into() }
    }
}

impl Container {
    /// The id, or the name by which it was asked for.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The engine that the container belongs to.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Everything about it, as of [`Engine::container_inspect`].
    pub fn inspect(&self) -> Result<ContainerDetail> {
        self.engine.container_inspect(&self.id, false)
    }

    /// Starts it. One that runs already stays as it is.
    pub fn start(&self) -> Result<()> {
        self.engine.container_start(&self.id, None, None).map(drop)
    }

    /// Starts it with its streams; no byte is missed. `None`: it ran already.
    pub fn start_attached(&self, io: Io) -> Result<Option<Session>> {
        self.engine.container_start(&self.id, Some(io), None).map(|started| started.session)
    }

    /// Waits until it does not run; answers its exit code.
    pub fn wait(&self) -> Result<i32> {
        self.engine.container_wait(&self.id, None)
    }

    /// Asks its program to end, and kills the program after `grace` (absent: the container's own time).
    pub fn stop(&self, grace: Option<Duration>) -> Result<()> {
        self.engine.container_stop(&self.id, milliseconds(grace), None).map(drop)
    }

    /// Stops it as [`Container::stop`] does, and starts it.
    pub fn restart(&self, grace: Option<Duration>) -> Result<()> {
        self.engine.container_restart(&self.id, milliseconds(grace), None)
    }

    /// Sends a signal, such as `SIGHUP`, to its first process.
    pub fn kill(&self, signal: &str) -> Result<()> {
        self.engine.container_kill(&self.id, Some(signal), None)
    }

    /// Freezes all its processes.
    pub fn pause(&self) -> Result<()> {
        self.engine.container_pause(&self.id)
    }

    /// Lets its processes go on.
    pub fn unpause(&self) -> Result<()> {
        self.engine.container_unpause(&self.id)
    }

    /// Changes its limits and its restart policy.
    pub fn update(&self, body: &UpdateContainer) -> Result<Updated> {
        self.engine.container_update(&self.id, body)
    }

    /// The log of the container, line by line.
    pub fn logs(&self, query: &LogQuery) -> Result<LogStream> {
        self.engine.container_logs(&self.id, query, None)
    }

    /// Samples of its use of processors, memory, disks and networks.
    pub fn stats(&self, query: StatsQuery) -> Result<StatsStream> {
        self.engine.container_stats(&self.id, query)
    }

    /// Runs a program in it, and answers the program's streams; [`Session::wait`] has the exit code.
    pub fn exec(&self, config: &ExecConfig, io: Io) -> Result<Session> {
        let id = self.engine.exec_create(&self.id, config)?;
        let session = self.engine.exec_start(&id, Some(io), None)?;
        session.ok_or_else(|| crate::Error::internal("an exec instance without its session"))
    }

    /// Removes it. Errors: it runs ([`crate::ErrorKind::Conflict`]).
    pub fn remove(&self) -> Result<()> {
        self.engine.container_remove(&self.id, RemoveContainer::default(), None)
    }

    /// Kills it if it runs, and removes it with its anonymous volumes.
    pub fn remove_by_force(&self) -> Result<()> {
        let how = RemoveContainer { force: true, volumes: true, ..RemoveContainer::default() };
        self.engine.container_remove(&self.id, how, None)
    }
}

fn milliseconds(grace: Option<Duration>) -> Option<i64> {
    grace.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}
