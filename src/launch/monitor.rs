//! The library's side of the monitor: starting a monitor, and calling a running one.

use super::plan::Plan;
use super::step::Step;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::process::{self, Words};
use crate::kernel::socket;
use crate::kernel::switches::Switches;
use crate::op::{Op, Ready, wait_fd};
use coracle_monitor::PROGRAM;
use coracle_monitor::call::Call;
use coracle_monitor::wire::*;
pub(crate) use coracle_monitor::wire::{APPEARANCE_LIMIT_S, Answer, Failure, STEP_LOST};
use parking_lot::Mutex;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// The monitor program as a sealed memfd, made at the first start of an engine.
#[derive(Default)]
pub(crate) struct MonitorProgram {
    memfd: Mutex<Option<OwnedFd>>,
    switches: Switches,
}

impl MonitorProgram {
    /// A program whose monitors get the switches of a test build.
    pub(crate) fn with_switches(switches: Switches) -> MonitorProgram {
        MonitorProgram { memfd: Mutex::default(), switches }
    }

    fn with<T>(&self, work: impl FnOnce(BorrowedFd<'_>) -> Result<T>) -> Result<T> {
        let mut program = self.memfd.lock();
        let memfd = match program.take() {
            Some(memfd) => memfd,
            None => process::sealed_memfd("coracle-monitor", PROGRAM, process::Sealed::Program)?,
        };
        let own = memfd.try_clone().map_err(|e| Error::io("duplicate a descriptor", &e))?;
        *program = Some(memfd);
        drop(program);
        work(own.as_fd())
    }
}

/// Streams for a process in the monitor's form: a mask of `SESSION_*` and a descriptor for each bit.
pub(crate) struct Streams {
    pub mask: u32,
    pub fds: Vec<OwnedFd>,
}

impl Streams {
    fn raw(&self) -> Vec<RawFd> {
        self.fds.iter().map(AsRawFd::as_raw_fd).collect()
    }
}

/// The data that a monitor gets at its start.
pub(crate) struct Boot<'a> {
    pub run_dir: BorrowedFd<'a>,
    pub container_dir: BorrowedFd<'a>,
    pub events: BorrowedFd<'a>,
    pub run_states: BorrowedFd<'a>,
    pub root_states: BorrowedFd<'a>,
    /// The only descriptor of a file description that holds the slot's lock; the lock passes to the monitor with it.
    pub lock: OwnedFd,
    pub namespaces: Vec<OwnedFd>,
    /// Mount namespaces of volumes, in the order of their indices.
    pub volumes: Vec<&'a OwnedFd>,
    /// The reading end of the container's lease.
    pub lease: Option<OwnedFd>,
    /// Sessions to attach before the process runs.
    pub sessions: Vec<Streams>,
    pub boot_id: [u8; 16],
}

/// Why a start failed.
#[derive(Debug)]
pub(crate) enum StartError {
    /// The library failed before the monitor's part.
    Engine(Error),
    /// A step of the launch failed: its number and error, and the step.
    Step(Failure, Step),
    /// The monitor did not answer within [`START_LIMIT`].
    Late,
    /// The monitor has begun, but its answer could not be received: its record has the outcome of the start.
    Unheard(Error),
}

impl From<Error> for StartError {
    fn from(error: Error) -> StartError {
        StartError::Engine(error)
    }
}

/// The time limit of a start: longer than the monitor's own limit for one step.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(STEP_LIMIT_S as u64 + 10);

/// The error of a start that is given up after [`START_LIMIT`].
pub(crate) fn late() -> Error {
    Error::new(ErrorKind::Timeout, "the container's start takes too long").in_area("launch")
}

/// A monitor that waits for its plan. Dropped without one, it ends.
pub(crate) struct Waiting(OwnedFd);

/// Starts a monitor, which prepares itself while the plan is made. `new_network`: the plan will need a new network
/// namespace that belongs to the host's user namespace.
pub(crate) fn spawn(program: &MonitorProgram, new_network: bool) -> Result<Waiting> {
    let (ours, theirs) = socket::packet_pair()?;
    if new_network {
        socket::send(ours.as_fd(), &Call::NewNetwork.request().to_bytes(), &[])?;
    }
    let name = [c"coracle-monitor".to_owned()].into_iter();
    let words = Words { line: name.chain(program.switches.argv()).collect(), environment: Vec::new() };
    program.with(|memfd| process::start_detached(memfd, theirs.as_fd(), &words))?;
    Ok(Waiting(ours))
}

/// Gives a monitor its plan, and waits until the container's process runs; returns its pid.
pub(crate) fn start(Waiting(ours): Waiting, plan: &Plan, boot: Boot<'_>) -> std::result::Result<i32, StartError> {
    let memfd = process::sealed_memfd("plan", &plan.bytes, process::Sealed::Data)?;
    let mut fds: Vec<RawFd> = vec![0; BOOT_FDS];
    fds[BOOT_RUN_DIR] = boot.run_dir.as_raw_fd();
    fds[BOOT_CONTAINER_DIR] = boot.container_dir.as_raw_fd();
    fds[BOOT_PLAN] = memfd.as_raw_fd();
    fds[BOOT_EVENTS] = boot.events.as_raw_fd();
    fds[BOOT_RUN_STATES] = boot.run_states.as_raw_fd();
    fds[BOOT_ROOT_STATES] = boot.root_states.as_raw_fd();
    fds[BOOT_LOCK] = boot.lock.as_raw_fd();
    fds.extend(boot.namespaces.iter().map(AsRawFd::as_raw_fd));
    let hand = |request: Request, fds: &[RawFd]| match socket::send(ours.as_fd(), &request.to_bytes(), fds) {
        Err(error) if is_broken(&error) => Err(last_words(ours.as_fd(), plan)),
        sent => sent.map_err(StartError::Engine),
    };
    hand(Request { boot: boot.boot_id, ..Call::Hello.request() }, &fds)?;
    drop(boot.lock);
    for (index, volume) in boot.volumes.iter().enumerate() {
        hand(Call::Volume { index: index as u32 }.request(), &[volume.as_raw_fd()])?;
    }
    if let Some(lease) = &boot.lease {
        hand(Call::Lease.request(), &[lease.as_raw_fd()])?;
    }
    for session in &boot.sessions {
        hand(Call::Attach { streams: session.mask }.request(), &session.raw())?;
    }
    // Our copies must be closed before the process can end: otherwise its readers would never see the end.
    drop(boot.sessions);
    hand(Call::Go.request(), &[])?;
    let answer = started(ours.as_fd())?;
    if answer.errno == 0 {
        return Ok(answer.value);
    }
    Err(failed(answer, plan))
}

fn failed(answer: Answer, plan: &Plan) -> StartError {
    StartError::Step(answer.failure, plan.step(answer.failure.step))
}

/// The reason why a monitor ended before it had its whole plan: it reports a failure before it ends.
fn last_words(ours: BorrowedFd<'_>, plan: &Plan) -> StartError {
    match read_answer(ours) {
        Ok(answer) if answer.errno != 0 => failed(answer, plan),
        _ => StartError::Engine(killed("took the container's plan")),
    }
}

/// The error of a monitor that ended without a report, in a step of a start.
fn killed(step: &str) -> Error {
    let text = format!("the container's monitor ended (something killed it) while it {step}");
    Error::new(ErrorKind::Unavailable, text).in_area("launch")
}

/// The monitor's answer about the start.
fn started(ours: BorrowedFd<'_>) -> std::result::Result<Answer, StartError> {
    if !wait_fd(ours, Ready::Read, Some(START_LIMIT), None).map_err(StartError::Unheard)? {
        return Err(StartError::Late);
    }
    read_answer(ours).map_err(|error| match error.kind() {
        ErrorKind::Unavailable => StartError::Engine(killed("made the container's process")),
        // The container may run by now: a lack of memory here does not mean that the start failed.
        _ => StartError::Unheard(error),
    })
}

/// A connection to a running monitor.
pub(crate) struct Control(OwnedFd);

impl AsRawFd for Control {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Control {
    /// Connects to the monitor of the container with this run directory. Errors: no monitor listens.
    pub(crate) fn connect(run_dir: BorrowedFd<'_>) -> Result<Control> {
        socket::connect(run_dir, "ctl", START_LIMIT).map(Control).map_err(hung_up)
    }

    /// Sends a call and waits for its answer; an answer with an error number is an error here.
    pub(crate) fn ask(&self, call: Call, op: Option<&Op>) -> Result<Answer> {
        self.send(call, b"", &[])?;
        accepted(self.reply(op)?)
    }

    /// Sends a call whose answer is read later.
    pub(crate) fn ask_later(&self, call: Call) -> Result<()> {
        self.send(call, b"", &[])
    }

    /// Sends a call with a text.
    pub(crate) fn ask_with_text(&self, call: Call, text: &[u8]) -> Result<Answer> {
        self.send(call, text, &[])?;
        accepted(self.reply(None)?)
    }

    /// Asks for the mount namespace of a volume. Errors: the container has no such volume (ENOENT), the monitor is too
    /// old (ENOSYS), or it is gone.
    pub(crate) fn volume(&self, name: &str) -> Result<OwnedFd> {
        self.send(Call::Volume { index: 0 }, name.as_bytes(), &[])?;
        if !wait_fd(self.0.as_fd(), Ready::Read, Some(START_LIMIT), None)? {
            return Err(silent());
        }
        let (answer, fds) = read_answer_with(self.0.as_fd())?;
        accepted(answer)?;
        fds.into_iter().next().ok_or_else(gone)
    }

    /// Sends a call with a descriptor.
    pub(crate) fn hand(&self, call: Call, fd: BorrowedFd<'_>) -> Result<Answer> {
        self.send(call, b"", &[fd.as_raw_fd()])?;
        accepted(self.reply(None)?)
    }

    /// Sends a call with a text and descriptors; the descriptors of the streams are closed here. [`Control::reply`]
    /// reads the answer.
    pub(crate) fn send_streams(
        &self,
        call: Call,
        text: &str,
        first: &[BorrowedFd<'_>],
        streams: Streams,
    ) -> Result<()> {
        let mut fds: Vec<RawFd> = first.iter().map(AsRawFd::as_raw_fd).collect();
        fds.extend(streams.raw());
        self.send(call, text.as_bytes(), &fds)
    }

    fn send(&self, call: Call, text: &[u8], fds: &[RawFd]) -> Result<()> {
        let mut message = call.request().to_bytes().to_vec();
        message.extend_from_slice(text);
        socket::send(self.0.as_fd(), &message, fds).map_err(hung_up)
    }

    /// The answer to a call: each step of a monitor has a time limit. Errors: none came within [`START_LIMIT`], the
    /// operation ended, or the monitor is gone ([`ErrorKind::Unavailable`]).
    pub(crate) fn reply(&self, op: Option<&Op>) -> Result<Answer> {
        match wait_fd(self.0.as_fd(), Ready::Read, Some(START_LIMIT), op)? {
            true => read_answer(self.0.as_fd()),
            false => Err(silent()),
        }
    }

    /// Readable if an answer has come, or if the monitor is gone.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Waits without limit for the end that an earlier call asked for. The report stays in the connection, which has
    /// nothing else to say: each wait hears it, one beside another or after it. Errors: the operation ended, or the monitor
    /// is gone ([`ErrorKind::Unavailable`]).
    pub(crate) fn end(&self, op: Option<&Op>) -> Result<Answer> {
        wait_fd(self.0.as_fd(), Ready::Read, None, op)?;
        read_answer_by(self.0.as_fd(), socket::peek).map(|(answer, _)| answer)
    }

    /// Waits for an answer until `deadline`; `None`: it has passed.
    pub(crate) fn answer_until(&self, deadline: Option<Instant>, op: Option<&Op>) -> Result<Option<Answer>> {
        let limit = deadline.map(|d| d.saturating_duration_since(Instant::now()));
        if !wait_fd(self.0.as_fd(), Ready::Read, limit, op)? {
            return Ok(None);
        }
        read_answer(self.0.as_fd()).map(Some)
    }
}

/// Converts an answer with an error number to an error.
pub(crate) fn accepted(answer: Answer) -> Result<Answer> {
    if answer.errno == 0 { Ok(answer) } else { Err(Error::os("ask the container's monitor", answer.errno)) }
}

fn read_answer(socket: BorrowedFd<'_>) -> Result<Answer> {
    read_answer_with(socket).map(|(answer, _)| answer)
}

/// The answer with its descriptors.
fn read_answer_with(socket: BorrowedFd<'_>) -> Result<(Answer, Vec<OwnedFd>)> {
    read_answer_by(socket, socket::receive)
}

/// A function that gets a packet and its descriptors.
type Receive = fn(BorrowedFd<'_>, &mut [u8]) -> Result<(usize, Vec<OwnedFd>)>;

fn read_answer_by(socket: BorrowedFd<'_>, receive: Receive) -> Result<(Answer, Vec<OwnedFd>)> {
    let mut bytes = [0u8; ANSWER_LEN];
    let received = match receive(socket, &mut bytes) {
        // The monitor ended without reading all requests: the kernel reports this once, before the last answer.
        Err(error) if error.is(libc::ECONNRESET) => receive(socket, &mut bytes),
        received => received,
    };
    let (got, fds) = received.map_err(hung_up)?;
    match Answer::from_bytes(&bytes) {
        Some(answer) if got == ANSWER_LEN => Ok((answer, fds)),
        _ => Err(gone()),
    }
}

/// A broken connection means that the monitor is gone; one that accepts nothing means that it hangs.
fn hung_up(error: Error) -> Error {
    match error.raw_os_error() {
        _ if is_broken(&error) => gone(),
        Some(libc::EAGAIN) => silent(),
        _ => error,
    }
}

fn is_broken(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET))
}

fn silent() -> Error {
    let text = format!("the container's monitor does not answer for {START_LIMIT:?}");
    Error::new(ErrorKind::Timeout, text).in_area("launch")
}

fn gone() -> Error {
    Error::new(ErrorKind::Unavailable, "the container's monitor is gone").in_area("launch")
}
