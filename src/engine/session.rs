//! A process's standard streams in the caller's hands.

use super::ending::Ending;
use crate::container::{Containers, Ends, RunningExec};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{fd, socket};
use crate::launch::monitor::accepted;
use crate::log::Channel;
use crate::op::{Op, Ready, wait_fd};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The exit code of a process that ended with its container.
pub(super) const KILLED: i32 = 137;

/// The result of [`Session::read`].
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::{Channel, Io, SessionRead};
///
/// let Some(session) = engine.container_start("clock", Some(Io::default()), None)?.session else { return Ok(()) };
/// let mut piece = [0; 4096];
/// match session.read(&mut piece, None)? {
///     SessionRead::Data(Channel::Stderr, length) => println!("{length} bytes of errors"),
///     SessionRead::Data(_, length) => println!("{length} bytes of output"),
///     SessionRead::End => println!("no more output"),
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRead {
    /// This many bytes of that channel.
    Data(Channel, usize),
    /// Every output stream has ended.
    End,
}

/// An attached process: its streams, its end, its terminal.
///
/// One thread may read while another writes, resizes or waits.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::{Channel, Io, SessionRead};
///
/// let Some(session) = engine.container_start("sorter", Some(Io::default()), None)?.session else { return Ok(()) };
/// session.write(b"pear\napple\n", None)?;
/// session.close_stdin()?;
/// let mut piece = [0; 4096];
/// while let SessionRead::Data(channel, length) = session.read(&mut piece, None)? {
///     let text = String::from_utf8_lossy(&piece[..length]);
///     if channel == Channel::Stdout { print!("{text}") } else { eprint!("{text}") }
/// }
/// println!("exit code {}", session.wait(None)?);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    stdin: Option<OwnedFd>,
    /// The session has stdin, or had one that was taken.
    has_stdin: bool,
    stdout: Output,
    stderr: Output,
    tty: bool,
    process: Process,
    /// Dropped with the session, which cancels a waiting attach.
    _waiting: Option<OwnedFd>,
}

#[derive(Debug)]
struct Output {
    fd: Option<OwnedFd>,
    ended: AtomicBool,
}

/// The owner of the streams.
pub(super) enum Process {
    Container { all: Arc<Containers>, id: String, end: Box<Ending> },
    Exec { all: Arc<Containers>, id: String, running: RunningExec },
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Process::Container { id, .. } => write!(f, "container {id}"),
            Process::Exec { id, .. } => write!(f, "exec instance {id}"),
        }
    }
}

impl Session {
    pub(super) fn new(
        ends: (Option<OwnedFd>, Option<OwnedFd>, Option<OwnedFd>),
        tty: bool,
        process: Process,
        waiting: Option<OwnedFd>,
    ) -> Session {
        let output = |fd| Output { fd, ended: AtomicBool::new(false) };
        let (stdin, stdout, stderr) = ends;
        let has_stdin = stdin.is_some();
        Session { stdin, has_stdin, stdout: output(stdout), stderr: output(stderr), tty, process, _waiting: waiting }
    }

    /// Whether the process has a terminal (then all output is on stdout, raw).
    pub fn tty(&self) -> bool {
        self.tty
    }

    /// The descriptor of a stream (stdin: for writing), while the session has it.
    pub fn fd(&self, channel: Channel) -> Option<BorrowedFd<'_>> {
        match channel {
            Channel::Stdin => self.stdin.as_ref(),
            Channel::Stdout => self.stdout.fd.as_ref(),
            Channel::Stderr => self.stderr.fd.as_ref(),
        }
        .map(AsFd::as_fd)
    }

    /// Takes the descriptor of a stream out of the session.
    pub fn take_fd(&mut self, channel: Channel) -> Option<OwnedFd> {
        match channel {
            Channel::Stdin => self.stdin.take(),
            Channel::Stdout => self.stdout.fd.take(),
            Channel::Stderr => self.stderr.fd.take(),
        }
    }

    /// Reads output of any stream that has some; waits until there is some.
    pub fn read(&self, buffer: &mut [u8], op: Option<&Op>) -> Result<SessionRead> {
        if buffer.is_empty() {
            return Err(Error::invalid("the buffer is empty"));
        }
        loop {
            let open: Vec<(Channel, &Output)> = [(Channel::Stdout, &self.stdout), (Channel::Stderr, &self.stderr)]
                .into_iter()
                .filter(|(_, output)| output.fd.is_some() && !output.ended.load(Ordering::Acquire))
                .collect();
            if open.is_empty() {
                return Ok(SessionRead::End);
            }
            for index in ready(&open, op)? {
                let (channel, output) = open[index];
                let Some(fd) = &output.fd else { continue };
                match nix::unistd::read(fd, buffer) {
                    Ok(0) => output.ended.store(true, Ordering::Release),
                    Ok(length) => return Ok(SessionRead::Data(channel, length)),
                    Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => {}
                    Err(errno) => return Err(Error::os("read output", errno as i32)),
                }
            }
        }
    }

    /// Writes to the process's stdin; returns the number of bytes that were written.
    pub fn write(&self, data: &[u8], op: Option<&Op>) -> Result<usize> {
        let stdin = self.stdin.as_ref().ok_or_else(|| Error::new(ErrorKind::Misuse, "the session has no stdin"))?;
        loop {
            if let Some(sent) = socket::send_some(stdin.as_fd(), data)? {
                return Ok(sent);
            }
            wait_fd(stdin.as_fd(), Ready::Write, None, op)?;
        }
    }

    /// Ends the process's stdin after the process has read everything written, even if `StdinOnce` is off. (If the
    /// session is dropped, or its program ends, stdin stays open with `StdinOnce` off.) A terminal has no end of input.
    /// Before the container runs `StdinOnce` decides. If you took the descriptor, close it after this call.
    pub fn close_stdin(&self) -> Result<()> {
        if let Process::Container { all, id, .. } = &self.process
            && self.has_stdin
        {
            all.attach.end_input(id)?;
        }
        self.stdin.as_ref().map_or(Ok(()), |stdin| socket::shut_write(stdin.as_fd()))
    }

    /// Sets the size of the process's terminal.
    pub fn resize(&self, rows: u16, cols: u16) -> Result<()> {
        match &self.process {
            Process::Container { all, id, .. } => all.attach.resize(id, rows, cols),
            Process::Exec { all, id, .. } => all.execs.exec_resize(id, rows, cols),
        }
    }

    /// Leaves the process running, as after the detach keys: sends the event `detach` (`exec_detach`).
    pub fn detach(self) -> Result<()> {
        match &self.process {
            Process::Container { all, id, .. } => all.attach.detached(id),
            Process::Exec { all, id, .. } => all.execs.exec_detached(id),
        }
    }

    /// A descriptor that is readable (level-triggered) once the process has ended: [`Session::try_wait`] has the code then. While an
    /// attach waits for a start, the descriptor is readable at each event of the container, too; ask for another one after the start.
    ///
    /// Errors: no descriptor is left, the monitor cannot be asked.
    pub fn end_fd(&self) -> Result<OwnedFd> {
        match &self.process {
            Process::Exec { running, .. } => fd::duplicate(running.control.fd()),
            Process::Container { all, end, .. } => end.fd(all),
        }
    }

    /// The exit code if the process has ended; does not wait. `None`: not yet.
    pub fn try_wait(&self) -> Result<Option<i32>> {
        match &self.process {
            Process::Container { all, end, .. } => end.try_wait(all),
            Process::Exec { running, .. } => {
                match wait_fd(running.control.fd(), Ready::Read, Some(Duration::ZERO), None)? {
                    true => self.wait(None).map(Some),
                    false => Ok(None),
                }
            }
        }
    }

    /// Waits for the process's end; returns its exit code (128 + signal for a killed one). Each wait gets the code: many may
    /// wait at once, and after the end. The waits are for the run in which the session began, also if the container starts
    /// again; after an attach that waits for a start, for the next run.
    pub fn wait(&self, op: Option<&Op>) -> Result<i32> {
        match &self.process {
            Process::Container { all, end, .. } => end.wait(all, op),
            Process::Exec { all, id, running } => match running.control.end(op) {
                Ok(answer) => accepted(answer).map(|answer| answer.value),
                // The container ended with the process in it: the state file has the code.
                Err(error) if error.kind() == ErrorKind::Unavailable => match all.execs.exec_inspect(id) {
                    Ok(detail) => Ok(detail.exit_code.unwrap_or(KILLED)),
                    // The process ended with its container, which was then removed.
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(KILLED),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            },
        }
    }
}

/// The caller's ends of the streams, for a session.
pub(super) fn local(ends: &mut Ends) -> (Option<OwnedFd>, Option<OwnedFd>, Option<OwnedFd>) {
    (ends.stdin.take(), ends.stdout.take(), ends.stderr.take())
}

/// Waits until one of the streams has output; returns all that have some.
fn ready(open: &[(Channel, &Output)], op: Option<&Op>) -> Result<Vec<usize>> {
    loop {
        op.map_or(Ok(()), Op::check)?;
        let mut set: Vec<(i32, i16)> =
            open.iter().filter_map(|(_, output)| output.fd.as_ref()).map(|fd| (fd.as_raw_fd(), libc::POLLIN)).collect();
        let streams = set.len();
        if let Some(op) = op {
            set.push((op.cancel_fd().as_raw_fd(), libc::POLLIN));
        }
        // An op may have a deadline or a heartbeat, so it is checked from time to time.
        let limit = op.map_or(-1, |_| Duration::from_millis(100).as_millis() as i32);
        let got = fd::poll(&set, limit)?;
        let found: Vec<usize> = (0..streams).filter(|&index| got[index] != 0).collect();
        if !found.is_empty() {
            return Ok(found);
        }
    }
}
