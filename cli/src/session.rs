//! A container's streams on this process's standard streams: raw terminal, resize, signals, detach keys.

use crate::Failure;
use crate::args::Parsed;
use crate::terminal::{self, Raw};
use coracle::model::DetachKeys;
use coracle::{Channel, Engine, Op, Session, SessionRead};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// How a foreground command uses its streams.
pub struct Foreground<'a> {
    pub engine: &'a Engine,
    /// The container that signals go to; `None`: they end this process, not the one inside (exec).
    pub signals_to: Option<&'a str>,
    /// Whether standard input goes in.
    pub stdin: bool,
    /// Whether its end is the process's.
    pub ends_stdin: bool,
    pub detach_keys: DetachKeys,
}

/// How a foreground command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The process ended, with this code.
    Exited(u8),
    /// The user left; the process runs on.
    Detached,
    /// A signal ended this command, with this code; the process runs on.
    Left(u8),
}

impl Ended {
    /// The command's own exit code.
    pub fn code(self) -> u8 {
        match self {
            Ended::Exited(code) | Ended::Left(code) => code,
            Ended::Detached => 0,
        }
    }
}

/// How many of SIGINT and SIGTERM end a command that passes them on to a container, as in docker.
const PATIENCE: u32 = 3;

/// Blocks the signals that a foreground command takes itself. To be called before any thread is started.
pub struct Signals(SigSet);

impl Signals {
    /// `proxy`: with those that docker passes on, too; without it, only with those that end this command, so that the
    /// terminal is put back before.
    pub fn block(proxy: bool) -> Result<Signals, Failure> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGWINCH, Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
            set.add(signal);
        }
        if proxy {
            set.add(Signal::SIGUSR1);
            set.add(Signal::SIGUSR2);
        }
        set.thread_block().map_err(|e| Failure::Here(format!("signals: {e}")))?;
        Ok(Signals(set))
    }
}

/// Whether the flags let a command pass signals on to the container: `--no-sig-proxy`, or docker's `--sig-proxy=false`.
pub fn passes_signals_on(parsed: &Parsed) -> bool {
    !parsed.has("no-sig-proxy") && parsed.last("sig-proxy") != Some("false")
}

/// Refuses a terminal inside that no terminal here would feed: the process would wait for input that never ends.
///
/// Errors: a sentence for the user. Commands with the flag `--tty` call it a wrong command line.
pub fn terminal_is_needed(tty: bool, stdin: bool) -> Result<(), String> {
    if tty && stdin && !terminal::stdin_is_one() {
        return Err("standard input is not a terminal: leave out --tty (-t)".into());
    }
    Ok(())
}

impl Foreground<'_> {
    /// Carries the streams until the process ends or the user detaches.
    pub fn carry(&self, session: Session, signals: &Signals) -> Result<Ended, Failure> {
        let session = Arc::new(session);
        let raw = if session.tty() && self.stdin { Raw::enter() } else { None };
        let op = Op::new()?;
        let detached = Arc::new(AtomicBool::new(false));
        let left = Arc::new(AtomicU8::new(0));
        self.listen(&session, signals, op.clone(), Arc::clone(&left))?;
        if self.stdin {
            let keys = raw.is_some().then(|| self.detach_keys.clone());
            feed(Arc::clone(&session), keys, op.clone(), Arc::clone(&detached), self.ends_stdin)?;
        }
        let result = show(&session, &op);
        drop(raw);
        if detached.load(Ordering::SeqCst) {
            return Ok(Ended::Detached);
        }
        let ended = result.and_then(|()| session.wait(Some(&op)).map_err(Failure::from));
        match left.load(Ordering::SeqCst) {
            0 => Ok(Ended::Exited(ended?.clamp(0, 255) as u8)),
            code => Ok(Ended::Left(code)),
        }
    }

    /// A thread that passes signals on and sets the size, for as long as this process lives. A signal that ends the command
    /// leaves the command's exit code in `left`, and cancels `op`.
    fn listen(&self, session: &Arc<Session>, signals: &Signals, op: Op, left: Arc<AtomicU8>) -> Result<(), Failure> {
        let fd = SignalFd::new(&signals.0).map_err(|e| Failure::Here(format!("signals: {e}")))?;
        let session = Arc::clone(session);
        let engine = self.engine.clone();
        let container = self.signals_to.map(str::to_owned);
        let thread = std::thread::Builder::new();
        let passes = move || {
            let mut asked_to_end = 0;
            let leave = |code: u8| {
                left.store(code, Ordering::SeqCst);
                op.cancel();
            };
            while let Ok(Some(info)) = fd.read_signal() {
                match (Signal::try_from(info.ssi_signo as i32), &container) {
                    (Ok(Signal::SIGWINCH), _) if session.tty() => {
                        let (rows, cols) = terminal::size();
                        // The process may have ended meanwhile.
                        let _ = session.resize(rows, cols);
                    }
                    (Ok(Signal::SIGWINCH) | Err(_), _) => {}
                    (Ok(signal), Some(container)) => {
                        if matches!(signal, Signal::SIGINT | Signal::SIGTERM) {
                            asked_to_end += 1;
                        }
                        if asked_to_end == PATIENCE {
                            complain!(
                                "coracle: {PATIENCE} signals to end: the container {container} is left to itself; to end it: \
                                 coracle kill {container}"
                            );
                            leave(1);
                        }
                        // The process may have ended meanwhile.
                        let _ = engine.container_kill(container, Some(signal.as_str()), None);
                    }
                    (Ok(signal), None) => leave(128 + signal as u8),
                }
            }
        };
        thread.spawn(passes).map_err(no_thread)?;
        Ok(())
    }
}

/// Writes the output of a session to standard output and error until both ended.
fn show(session: &Session, op: &Op) -> Result<(), Failure> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (channel, n) = match session.read(&mut buffer, Some(op)) {
            Ok(SessionRead::Data(channel, n)) => (channel, n),
            Ok(SessionRead::End) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let written = match channel {
            Channel::Stderr => std::io::stderr().write_all(&buffer[..n]),
            _ => {
                let mut out = std::io::stdout().lock();
                out.write_all(&buffer[..n]).and_then(|()| out.flush())
            }
        };
        if let Err(error) = written {
            return Err(match error.kind() {
                std::io::ErrorKind::BrokenPipe => Failure::Exit(141),
                _ => Failure::Here(format!("output: {error}")),
            });
        }
    }
}

/// A thread that writes standard input to the session; it ends with this process at the latest.
fn feed(
    session: Arc<Session>,
    mut keys: Option<DetachKeys>,
    op: Op,
    detached: Arc<AtomicBool>,
    ends: bool,
) -> Result<(), Failure> {
    let work = move || {
        let mut buffer = vec![0; 64 << 10];
        let mut kept = Vec::new();
        loop {
            let n = match std::io::stdin().read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            kept.clear();
            let (data, found) = match &mut keys {
                None => (&buffer[..n], false),
                Some(keys) => {
                    let found = keys.feed(&buffer[..n], &mut kept);
                    (&kept[..], found)
                }
            };
            if write_all(&session, data).is_err() {
                return;
            }
            if found {
                detached.store(true, Ordering::SeqCst);
                op.cancel();
                return;
            }
        }
        // The process may have closed its end already.
        if ends {
            let _ = session.close_stdin();
        }
    };
    std::thread::Builder::new().spawn(work).map(|_| ()).map_err(no_thread)
}

/// Why there is no thread for something.
pub fn no_thread(error: std::io::Error) -> Failure {
    Failure::Here(format!("make a thread: {error}"))
}

fn write_all(session: &Session, mut data: &[u8]) -> coracle::Result<()> {
    while !data.is_empty() {
        let n = session.write(data, None)?;
        data = &data[n..];
    }
    Ok(())
}
