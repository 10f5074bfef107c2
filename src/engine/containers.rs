//! Containers: create, life, streams, inspection.

use super::{AttachOptions, Changed, Engine, Io, Session, Started};
use crate::error::{Error, Result};
use crate::log::LogStream;
use crate::model::*;
use crate::op::Op;
use std::os::fd::OwnedFd;

fn not_built<T>() -> Result<T> {
    Err(Error::unsupported("not built"))
}

#[allow(unused_variables)]
impl Engine {
    /// Lists containers, newest first.
    pub fn container_list(&self, query: &ListContainers) -> Result<Vec<ContainerSummary>> {
        not_built()
    }
    /// Creates a container from a local image; `name` absent: one is made up.
    pub fn container_create(&self, name: Option<&str>, body: &CreateBody) -> Result<Created> {
        not_built()
    }
    /// Everything about one container; `size`: with the sizes of its writable layer and of all layers.
    pub fn container_inspect(&self, id: &str, size: bool) -> Result<ContainerDetail> {
        not_built()
    }
    /// Replaces the host configuration of a container that does not run, as starts of API versions before 1.24 do.
    pub fn container_set_host_config(&self, id: &str, host_config: &HostConfig) -> Result<()> {
        not_built()
    }
    /// Starts a container; with `io` it is attached before its process runs.
    pub fn container_start(&self, id: &str, io: Option<Io>, op: Option<&Op>) -> Result<Started> {
        not_built()
    }
    /// Stops it: its stop signal, then after `grace_ms` SIGKILL. Absent: 10 s; negative: wait for ever.
    pub fn container_stop(&self, id: &str, grace_ms: Option<i64>, op: Option<&Op>) -> Result<Changed> {
        not_built()
    }
    /// Stops it if it runs, and starts it.
    pub fn container_restart(&self, id: &str, grace_ms: Option<i64>, op: Option<&Op>) -> Result<()> {
        not_built()
    }
    /// Sends a signal (name with or without `SIG`, or number; default SIGKILL, which waits for the end).
    pub fn container_kill(&self, id: &str, signal: Option<&str>, op: Option<&Op>) -> Result<()> {
        not_built()
    }
    /// Freezes it.
    pub fn container_pause(&self, id: &str) -> Result<()> {
        not_built()
    }
    /// Thaws it.
    pub fn container_unpause(&self, id: &str) -> Result<()> {
        not_built()
    }
    /// Waits until it does not run; answers its exit code.
    pub fn container_wait(&self, id: &str, op: Option<&Op>) -> Result<i32> {
        not_built()
    }
    /// A pidfd of its first process, for the caller's own event loop.
    pub fn container_pidfd(&self, id: &str) -> Result<OwnedFd> {
        not_built()
    }
    /// Removes it.
    pub fn container_remove(&self, id: &str, how: RemoveContainer, op: Option<&Op>) -> Result<()> {
        not_built()
    }
    /// Renames it.
    pub fn container_rename(&self, id: &str, name: &str) -> Result<()> {
        not_built()
    }
    /// Its processes as `ps` shows them on the host; `ps_args` default `-ef`.
    pub fn container_top(&self, id: &str, ps_args: &str) -> Result<Top> {
        not_built()
    }
    /// Reads its log.
    pub fn container_logs(&self, id: &str, query: &LogQuery, op: Option<&Op>) -> Result<LogStream> {
        not_built()
    }
    /// Attaches to its standard streams.
    pub fn container_attach(&self, id: &str, io: Io, how: AttachOptions, op: Option<&Op>) -> Result<Session> {
        not_built()
    }
    /// Sets its terminal's size.
    pub fn container_resize(&self, id: &str, rows: u16, cols: u16) -> Result<()> {
        not_built()
    }
}
