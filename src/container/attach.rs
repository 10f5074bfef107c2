//! Attaching: pairs of stream ends, one for the caller and one for the monitor, also before the container runs.

use super::spec::{LogDriver, Spec};
use super::state::{Verb, Way, decide};
use super::stop::{gone_is_not_running, is_gone};
use super::{Beginning, Finder, Monitors, Places, Register, Snapshot, dirs};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::socket;
use crate::launch::monitor::Streams;
use crate::model::AttachStreams;
use crate::op::{Op, Ready, wait_fd};
use coracle_monitor::call::Call;
use coracle_monitor::wire::*;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The standard streams of a session. The engine makes absent members: stdin as a socket pair, outputs as pipes.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::Io;
/// use std::fs::File;
///
/// // Output into a file, errors to the session.
/// let file = File::create("clock.out")?;
/// let io = Io { stdout: Some(file.into()), ..Default::default() };
/// let session = engine.container_start("clock", Some(io), None)?.session;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Io {
    /// The end from which the process reads.
    pub stdin: Option<OwnedFd>,
    /// The end for the process's stdout; for all output of a process with a terminal.
    pub stdout: Option<OwnedFd>,
    /// The end for the process's stderr.
    pub stderr: Option<OwnedFd>,
    /// Lines of the terminal, if the process has one; 0: unchanged.
    pub rows: u16,
    /// Columns of the terminal; 0: unchanged.
    pub cols: u16,
    /// The process itself gets the given descriptors: nothing is copied, and no other process sees their data. Only for
    /// starts and execs without a terminal; a container's output then has no log (log driver `none`).
    pub direct: bool,
}

impl Io {
    /// Whether the process gets descriptors of the caller directly.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct && (self.stdin.is_some() || self.stdout.is_some() || self.stderr.is_some())
    }
}

/// Whether a container's process can get the caller's own descriptors.
pub(crate) fn check_direct(spec: &Spec) -> Result<()> {
    let logs = *spec.host_config.log() != LogDriver::None;
    match (spec.config.tty, logs) {
        (true, _) => Err(no_terminal()),
        (_, true) => Err(Error::invalid(
            "io.direct: what goes straight to the caller's descriptors cannot be logged: the container needs the log driver none",
        )),
        _ => Ok(()),
    }
}

pub(crate) fn no_terminal() -> Error {
    Error::invalid("io.direct: a process with a terminal has no streams of its own")
}

/// File names of waiting attaches in a container's run directory begin like this.
const PARKED: &str = "a-";
/// How long a start waits for one of them to hand over its streams. A program that takes longer is stuck.
const HANDOVER: Duration = Duration::from_secs(2);

/// The pause after streams could not be handed over, and how often that is tried again: a start asks anew, and waits for
/// [`HANDOVER`].
const REFUSED: Duration = Duration::from_millis(20);
const REFUSALS: u32 = 500;

/// Both sides of a process's streams.
pub(crate) struct Ends {
    /// The caller's ends; absent if the caller gave its own descriptor, or wants none.
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    /// The other side.
    pub streams: Streams,
}

impl Ends {
    /// Makes the streams that are wanted and not given. Stdin is a socket, because a write to a closed one must not
    /// raise SIGPIPE in the caller. Outputs are pipes, because the caller only reads and pipes are faster. A terminal
    /// has no stderr of its own.
    pub(crate) fn new(io: Io, want: AttachStreams, tty: bool) -> Result<Ends> {
        let mut ends = Ends { stdin: None, stdout: None, stderr: None, streams: Streams { mask: 0, fds: Vec::new() } };
        let given = [io.stdin.is_some(), io.stdout.is_some(), io.stderr.is_some()];
        if want.stdin {
            let theirs = match io.stdin {
                Some(fd) => fd,
                None => {
                    let (ours, theirs) = socket::stream_pair()?;
                    ends.stdin = Some(ours);
                    theirs
                }
            };
            ends.give(SESSION_STDIN, theirs);
        }
        if want.stdout {
            let (ours, theirs) = output(io.stdout)?;
            ends.stdout = ours;
            ends.give(SESSION_STDOUT, theirs);
        }
        if want.stderr && !tty {
            let (ours, theirs) = output(io.stderr)?;
            ends.stderr = ours;
            ends.give(SESSION_STDERR, theirs);
        }
        if io.direct {
            let bits = given.iter().enumerate().filter(|(_, given)| **given).map(|(stream, _)| SESSION_STDIN << stream);
            let given = bits.fold(0, |mask, bit| mask | bit) & ends.streams.mask;
            ends.streams.mask |= given << SESSION_DIRECT;
        }
        Ok(ends)
    }

    fn give(&mut self, bit: u32, fd: OwnedFd) {
        self.streams.mask |= bit;
        self.streams.fds.push(fd);
    }
}

fn output(given: Option<OwnedFd>) -> Result<(Option<OwnedFd>, OwnedFd)> {
    match given {
        Some(fd) => Ok((None, fd)),
        None => socket::output_pipe().map(|(ours, theirs)| (Some(ours), theirs)),
    }
}

/// How an attach was made.
pub(crate) enum Connected {
    /// The monitor has the streams.
    Now,
    /// The container does not run: the next start takes the streams from here. The container as it is, and where the session begins.
    Parked(Parked, Box<Snapshot>, Beginning),
    /// The container does not run, and the caller does not wait for its start.
    Stopped,
}

/// Streams that wait for a start: a socket in the run directory hands them to the program that starts the container.
pub(crate) struct Parked {
    listener: OwnedFd,
    path: PathBuf,
    streams: Streams,
}

impl Parked {
    /// Serves until a start has taken the streams, `given_up` becomes readable, or no start can find them any more:
    /// then the streams end. Blocks; it needs a thread of its own.
    pub(crate) fn serve(self, given_up: &OwnedFd) {
        let mut left = REFUSALS;
        let set = [(self.listener.as_raw_fd(), libc::POLLIN), (given_up.as_raw_fd(), libc::POLLIN)];
        loop {
            match crate::kernel::fd::poll(&set, -1) {
                Ok(ready) if ready[1] != 0 => return,
                Ok(ready) if ready[0] != 0 => {
                    let fds: Vec<i32> = self.streams.fds.iter().map(AsRawFd::as_raw_fd).collect();
                    let message = Call::Attach { streams: self.streams.mask }.request().to_bytes();
                    let handed = socket::accept(self.listener.as_fd())
                        .and_then(|connection| socket::send(connection.as_fd(), &message, &fds));
                    if handed.is_ok() {
                        return;
                    }
                    // The asking process is gone, or no descriptor is free: wait for the next one. An asking process
                    // that has taken these streams ends the wait.
                    left = left.saturating_sub(1);
                    if left == 0 || std::fs::symlink_metadata(&self.path).is_err() {
                        return;
                    }
                    std::thread::sleep(REFUSED);
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Attaches streams to containers, and sets the sizes of their terminals.
pub(crate) struct Attach {
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) finder: Arc<Finder>,
}

impl Attach {
    /// Attaches streams to a container; `wait` also before it runs.
    pub(crate) fn attach(&self, found: &Snapshot, streams: Streams, wait: bool, op: Option<&Op>) -> Result<Connected> {
        let way = decide(Verb::Attach, found)?;
        self.register.event(found, "attach", &[])?;
        if way == Way::Do {
            return self.attach_now(found, streams, op);
        }
        if !wait {
            return Ok(Connected::Stopped);
        }
        // The container is locked: a start either finds the waiting streams or is over, and streams never wait in a
        // removed directory.
        let (busy, again) = self.finder.lock(&found.row.id, op)?;
        if again.now.is_live() {
            drop(busy);
            return self.attach_now(&again, streams, op);
        }
        let beginning = Beginning::of_next(&self.register.journal, &again)?;
        Ok(Connected::Parked(self.park(&again, streams)?, Box::new(again), beginning))
    }

    fn attach_now(&self, found: &Snapshot, streams: Streams, op: Option<&Op>) -> Result<Connected> {
        let control = match self.monitors.control(found) {
            Ok(control) => control,
            Err(error) if error.kind() == ErrorKind::Conflict => return Ok(Connected::Stopped),
            Err(error) => return Err(error),
        };
        let asked = control.send_streams(Call::Attach { streams: streams.mask }, "", &[], streams);
        match asked.and_then(|()| control.reply(op)) {
            Ok(answer) if answer.errno == libc::EBUSY => {
                Err(Error::new(ErrorKind::Unavailable, "too many clients are attached to this container"))
            }
            Ok(_) => Ok(Connected::Now),
            // The container ended meanwhile: the streams end, as they would have a moment later.
            Err(error) if is_gone(&error) => Ok(Connected::Now),
            Err(error) => Err(error),
        }
    }

    /// Records that a user typed the detach keys.
    pub(crate) fn detached(&self, id: &str) -> Result<()> {
        self.register.event(&self.finder.find(id)?, "detach", &[])
    }

    fn park(&self, found: &Snapshot, streams: Streams) -> Result<Parked> {
        let dir = self.places.open_run_dir(&found.row.id)?;
        let name = format!("{PARKED}{}", &super::names::new_id()?[..16]);
        let listener = socket::listen(dir.as_fd(), &name)?;
        Ok(Parked { listener, path: self.places.run_dir(&found.row.id).join(name), streams })
    }

    /// Ends the container's input when the clients that are attached now end theirs.
    pub(crate) fn end_input(&self, id: &str) -> Result<()> {
        let found = match self.finder.find(id) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        if !found.now.is_live() || found.spec.config.stdin_once {
            return Ok(());
        }
        let asked = self.monitors.control(&found).and_then(|control| control.ask(Call::EndInput, None));
        match asked {
            // The container has ended, or its older monitor ends the input by StdinOnce alone.
            Err(error) if is_gone(&error) || error.kind() == ErrorKind::Conflict => Ok(()),
            Err(error) if error.is(libc::ENOSYS) => Ok(()),
            asked => asked.map(drop),
        }
    }

    /// Sets the terminal's size.
    pub(crate) fn resize(&self, reference: &str, rows: u16, cols: u16) -> Result<()> {
        let found = self.finder.find(reference)?;
        decide(Verb::Resize, &found)?;
        let size = Call::Resize { rows, cols, process: None };
        self.monitors.control(&found)?.ask(size, None).map_err(|error| gone_is_not_running(error, &found.row.id))?;
        self.register.event(&found, "resize", &[("height", &rows.to_string()), ("width", &cols.to_string())])
    }
}

/// The streams that wait for this start. Streams whose program ended are dropped.
pub(super) fn parked_sessions(places: &Places, id: &str) -> Result<Vec<Streams>> {
    let path = places.run_dir(id);
    let dir = dirs::open(&path)?;
    let mut sessions = Vec::new();
    let entries = std::fs::read_dir(&path).map_err(|e| Error::io(format_args!("list {}", path.display()), &e))?;
    for entry in entries.flatten() {
        let Some(name) = entry.file_name().to_str().filter(|name| name.starts_with(PARKED)).map(str::to_owned) else {
            continue;
        };
        match take_parked(&dir, &name) {
            Some(streams) => sessions.push(streams),
            None => {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
    Ok(sessions)
}

fn take_parked(dir: &File, name: &str) -> Option<Streams> {
    let socket = socket::connect(dir.as_fd(), name, HANDOVER).ok()?;
    if !wait_fd(socket.as_fd(), Ready::Read, Some(HANDOVER), None).ok()? {
        return None;
    }
    let mut bytes = [0; REQUEST_LEN];
    let (got, fds) = socket::receive(socket.as_fd(), &mut bytes).ok()?;
    let request = Request::from_bytes(&bytes[..got])?;
    (fds.len() == request.a.count_ones() as usize).then_some(Streams { mask: request.a, fds })
}
