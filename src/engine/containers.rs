//! Containers: create, life, streams, inspection.

use super::ending::Ending;
use super::metrics::Work;
use super::session::{Process, local};
use super::{AttachOptions, Changed, Engine, Io, Session, Started};
use crate::container::{Connected, Ends, Launched, Parked, StatsStream, check_direct};
use crate::error::{Error, Result};
use crate::log::LogStream;
use crate::model::*;
use crate::op::Op;
use std::os::fd::OwnedFd;

impl Engine {
    /// Lists containers, newest first.
    pub fn container_list(&self, query: &ListContainers) -> Result<Vec<ContainerSummary>> {
        self.0.containers.views.list(query)
    }
    /// Lists containers one by one: a long list takes no memory except for what `visit` keeps. Ends with the first
    /// error of `visit`.
    pub fn container_list_each(
        &self,
        query: &ListContainers,
        mut visit: impl FnMut(ContainerSummary) -> Result<()>,
    ) -> Result<()> {
        self.0.containers.views.list_each(query, &mut visit)
    }
    /// Creates a container from a local image; `name` absent: one is made up.
    pub fn container_create(&self, name: Option<&str>, body: &CreateBody) -> Result<Created> {
        self.0.containers.creator.create(name, body)
    }
    /// The complete document of one container; with `size` also the sizes of its writable layer and of all layers.
    pub fn container_inspect(&self, id: &str, size: bool) -> Result<ContainerDetail> {
        self.0.containers.views.inspect(id, size)
    }
    /// Replaces the host configuration of a container that does not run, as starts of API versions before 1.24 do.
    pub fn container_set_host_config(&self, id: &str, host_config: &HostConfig) -> Result<()> {
        self.0.containers.creator.set_host_config(id, host_config)
    }
    /// Starts a container; with `io` it is attached before its process runs.
    ///
    /// Errors, beside those of every start: [`Io::direct`] with a terminal or a log.
    pub fn container_start(&self, id: &str, io: Option<Io>, op: Option<&Op>) -> Result<Started> {
        let all = &self.0.containers;
        let (session, mut ours, size, tty) = match io {
            None => (None, None, (0, 0), false),
            Some(io) => {
                let spec = all.finder.find(id)?.spec;
                let direct = io.is_direct();
                if direct {
                    check_direct(&spec)?;
                }
                let (size, tty) = ((io.rows, io.cols), spec.config.tty);
                let stdin = spec.config.open_stdin || direct && io.stdin.is_some();
                let mut ends = Ends::new(io, AttachStreams { stdin, stdout: true, stderr: true }, tty)?;
                let ours = local(&mut ends);
                (Some(ends.streams), Some(ours), size, tty)
            }
        };
        let Launched { changed, found, beginning } =
            self.0.counters.count(Work::Start, Some(id), || all.starter.start(id, session, size, op))?;
        let end = beginning.map(|beginning| Ending::new(all, found.clone(), beginning));
        if changed == Changed::Yes && found.spec.host_config.auto_remove {
            self.0.reaper.follow(all, &found);
        }
        let session = end.map(|end| {
            let process = Process::Container { all: all.clone(), id: found.row.id.clone(), end: Box::new(end) };
            Session::new(ours.take().unwrap_or_default(), tty, process, None)
        });
        Ok(Started { changed, session })
    }
    /// Stops the container: sends its stop signal, then after `grace_ms` SIGKILL. Absent: the container's
    /// `StopTimeout`, or 10 s; negative: wait for ever.
    pub fn container_stop(&self, id: &str, grace_ms: Option<i64>, op: Option<&Op>) -> Result<Changed> {
        self.container_stop_with(id, &StopContainer { grace_ms, ..StopContainer::default() }, op)
    }
    /// Stops the container, with the signal and the time of `how`. Errors: there is no such signal.
    pub fn container_stop_with(&self, id: &str, how: &StopContainer, op: Option<&Op>) -> Result<Changed> {
        self.0.counters.count(Work::Stop, Some(id), || self.0.containers.stopper.stop(id, how, op))
    }
    /// Stops the container if it runs, and starts it.
    pub fn container_restart(&self, id: &str, grace_ms: Option<i64>, op: Option<&Op>) -> Result<()> {
        self.container_restart_with(id, &StopContainer { grace_ms, ..StopContainer::default() }, op)
    }
    /// Stops the container if it runs, with the signal and the time of `how`, and starts it. Errors: there is no such signal.
    pub fn container_restart_with(&self, id: &str, how: &StopContainer, op: Option<&Op>) -> Result<()> {
        let all = &self.0.containers;
        let found = self.0.counters.count(Work::Restart, Some(id), || all.stopper.restart(id, how, op))?;
        if found.spec.host_config.auto_remove {
            self.0.reaper.follow(all, &found);
        }
        Ok(())
    }
    /// Sends a signal (name with or without `SIG`, or number; default SIGKILL, which waits for the end).
    pub fn container_kill(&self, id: &str, signal: Option<&str>, op: Option<&Op>) -> Result<()> {
        self.0.counters.count(Work::Kill, Some(id), || self.0.containers.stopper.kill(id, signal, op))
    }
    /// Freezes the container's processes.
    pub fn container_pause(&self, id: &str) -> Result<()> {
        self.0.containers.freezer.pause(id)
    }
    /// Thaws the container's processes.
    pub fn container_unpause(&self, id: &str) -> Result<()> {
        self.0.containers.freezer.unpause(id)
    }
    /// A pidfd of the container's first process, for the caller's own event loop.
    pub fn container_pidfd(&self, id: &str) -> Result<OwnedFd> {
        self.0.containers.waits.pidfd(id)
    }
    /// Removes the container.
    pub fn container_remove(&self, id: &str, how: RemoveContainer, op: Option<&Op>) -> Result<()> {
        self.0.counters.count(Work::Remove, Some(id), || self.0.containers.remover.remove(id, how, op))
    }
    /// Renames the container.
    pub fn container_rename(&self, id: &str, name: &str) -> Result<()> {
        self.0.containers.remover.rename(id, name)
    }
    /// The container's launch in words, one line a step, with the kernel's answer to the step at which the last start failed.
    ///
    /// Errors: another container whose namespaces it shares does not run.
    pub fn container_explain(&self, id: &str) -> Result<LaunchPlan> {
        self.0.containers.explainer.explain(id)
    }
    /// The container's processes as `ps` shows them on the host; `ps_args` default `-ef`.
    pub fn container_top(&self, id: &str, ps_args: &str) -> Result<Top> {
        self.0.containers.views.top(id, ps_args)
    }
    /// Changes the container's limits, at once if it runs, and its restart policy.
    ///
    /// Errors: a value is out of range, or the kernel refuses it (less memory than is in use); nothing is changed then.
    pub fn container_update(&self, id: &str, body: &UpdateContainer) -> Result<Updated> {
        self.0.containers.updater.update(id, body)
    }
    /// Samples the container's resource usage: CPU, memory, block devices, network, processes.
    pub fn container_stats(&self, id: &str, query: StatsQuery) -> Result<StatsStream> {
        self.0.containers.sampler.stats(id, query)
    }
    /// Reads the container's log.
    pub fn container_logs(&self, id: &str, query: &LogQuery, op: Option<&Op>) -> Result<LogStream> {
        op.map_or(Ok(()), Op::check)?;
        self.0.containers.views.logs(id, query)
    }
    /// Attaches to the container's standard streams.
    pub fn container_attach(&self, id: &str, io: Io, how: AttachOptions, op: Option<&Op>) -> Result<Session> {
        let all = &self.0.containers;
        let found = all.finder.find(id)?;
        if io.is_direct() {
            return Err(Error::invalid("io.direct: a process gets its streams when it is started"));
        }
        let tty = found.spec.config.tty;
        let streams = AttachStreams { stdin: how.streams.stdin && found.spec.config.open_stdin, ..how.streams };
        let mut ends = Ends::new(io, streams, tty)?;
        let ours = local(&mut ends);
        let (waiting, end) = match all.attach.attach(&found, ends.streams, how.wait_for_start, op)? {
            Connected::Now | Connected::Stopped => {
                let beginning = all.waits.beginning(&found);
                (None, Ending::new(all, found.clone(), beginning))
            }
            Connected::Parked(parked, before, beginning) => {
                (Some(wait_for_start(parked)?), Ending::new(all, *before, beginning))
            }
        };
        let process = Process::Container { all: all.clone(), id: found.row.id.clone(), end: Box::new(end) };
        Ok(Session::new(ours, tty, process, waiting))
    }
    /// Sets the size of the container's terminal.
    pub fn container_resize(&self, id: &str, rows: u16, cols: u16) -> Result<()> {
        self.0.containers.attach.resize(id, rows, cols)
    }
}

/// Hands the streams of a waiting attach to the program that starts the container. A thread does this until then, or
/// until the session is dropped: the returned descriptor is the session's end of the connection.
fn wait_for_start(parked: Parked) -> Result<OwnedFd> {
    let (ours, theirs) = crate::kernel::socket::stream_pair()?;
    crate::kernel::thread::spawn_detached("coracle-attach", move || parked.serve(&theirs))?;
    Ok(ours)
}
