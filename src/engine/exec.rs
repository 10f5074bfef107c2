//! Exec: a second process in a running container.

use super::metrics::Work;
use super::session::{Process, local};
use super::{Engine, Io, Session};
use crate::container::{Ends, no_terminal, window};
use crate::error::Result;
use crate::model::*;
use crate::op::Op;

impl Engine {
    /// Creates an exec instance; returns its id.
    ///
    /// Errors: no such container, no command, the container does not run or is paused.
    pub fn exec_create(&self, container: &str, config: &ExecConfig) -> Result<String> {
        self.0.containers.execs.exec_create(container, config)
    }

    /// Starts the exec instance. With `io` the caller is attached to the streams that the configuration names; without it the
    /// process has no streams, and the answer has no session.
    ///
    /// Errors: the instance was started before, the container does not run, the program cannot be executed.
    pub fn exec_start(&self, id: &str, io: Option<Io>, op: Option<&Op>) -> Result<Option<Session>> {
        let all = &self.0.containers;
        let config = all.exec_records.exec_config(id)?;
        let attached = io.is_some();
        let io = io.unwrap_or_default();
        let size = window((io.rows, io.cols), config.console_size.unwrap_or_default());
        let want = AttachStreams {
            stdin: attached && config.attach_stdin,
            stdout: attached && config.attach_stdout,
            stderr: attached && config.attach_stderr,
        };
        if io.is_direct() && config.tty {
            return Err(no_terminal());
        }
        let mut ends = Ends::new(io, want, config.tty)?;
        let ours = local(&mut ends);
        let begin = || all.execs.exec_start(id, ends.streams, size, op);
        let running = self.0.counters.count(Work::Exec, None, begin)?;
        let process = Process::Exec { all: all.clone(), id: id.into(), running };
        Ok(attached.then(|| Session::new(ours, config.tty, process, None)))
    }

    /// Everything about an exec instance.
    pub fn exec_inspect(&self, id: &str) -> Result<ExecDetail> {
        self.0.containers.execs.exec_inspect(id)
    }

    /// Sets the size of the process's terminal.
    pub fn exec_resize(&self, id: &str, rows: u16, cols: u16) -> Result<()> {
        self.0.containers.execs.exec_resize(id, rows, cols)
    }
}
