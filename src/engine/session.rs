//! A process's standard streams in the caller's hands.

use crate::error::{Error, Result};
use crate::log::Channel;
use crate::op::Op;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Where the standard streams of a session come from: absent members are made by the engine as socket pairs.
#[derive(Debug, Default)]
pub struct Io {
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    /// Terminal size, where the process has a terminal; 0 leaves it.
    pub rows: u16,
    pub cols: u16,
}

/// What [`Session::read`] brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRead {
    /// So many bytes of that channel.
    Data(Channel, usize),
    /// Every output stream has ended.
    End,
}

/// An attached process: its streams as sockets, its end, its terminal.
///
/// One thread may read while another writes, resizes or waits.
#[derive(Debug)]
pub struct Session {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) tty: bool,
}

impl Session {
    /// Whether the process has a terminal (then all output is on stdout, raw).
    pub fn tty(&self) -> bool {
        self.tty
    }
    /// The descriptor of a stream (stdin: for writing), while the session has it.
    pub fn fd(&self, channel: Channel) -> Option<BorrowedFd<'_>> {
        let _ = channel;
        None
    }
    /// Takes the descriptor of a stream out of the session.
    pub fn take_fd(&mut self, channel: Channel) -> Option<OwnedFd> {
        let _ = channel;
        None
    }
    /// Reads output of either stream, whichever has some; waits until there is some.
    pub fn read(&self, buffer: &mut [u8], op: Option<&Op>) -> Result<SessionRead> {
        let _ = (buffer, op);
        Err(Error::unsupported("not built"))
    }
    /// Writes to the process's stdin; answers how many bytes went.
    pub fn write(&self, data: &[u8], op: Option<&Op>) -> Result<usize> {
        let _ = (data, op);
        Err(Error::unsupported("not built"))
    }
    /// Ends the process's stdin.
    pub fn close_stdin(&self) -> Result<()> {
        Err(Error::unsupported("not built"))
    }
    /// Sets the terminal's size.
    pub fn resize(&self, rows: u16, cols: u16) -> Result<()> {
        let _ = (rows, cols);
        Err(Error::unsupported("not built"))
    }
    /// Leaves the process running, as someone who typed the detach keys: the event `detach` (`exec_detach`) is told.
    pub fn detach(self) -> Result<()> {
        Err(Error::unsupported("not built"))
    }
    /// Waits for the process's end; answers its exit code (128 + signal for a killed one).
    pub fn wait(&self, op: Option<&Op>) -> Result<i32> {
        let _ = op;
        Err(Error::unsupported("not built"))
    }
}
