//! Follows the program that delivers logs, while a root is open, and starts it again when it was killed.
//!
//! The lock's file names the program's processes. One thread waits for their end, as long as there is a program to follow.

use super::{NAME, Parts};
use crate::error::Result;
use crate::kernel::fd::{eventfd, eventfd_signal, poll};
use crate::kernel::process::{pidfd, pidfd_signal};
use crate::kernel::thread;
use crate::notes::{LogLevel, note};
use coracle_ship::holder::Holder;
use parking_lot::Mutex;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The pause before a program takes the place of one that was killed; it doubles up to the second one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// A program that lived so long did not die of its start.
const SETTLED: Duration = Duration::from_secs(60);
/// So often the lock is tried while nobody that can be followed holds it: a program that has just begun, a killed process that
/// has not let go of it yet, or the threads of another program.
const TRIES: u32 = 8;

/// The thread that follows, if there is one.
#[derive(Default)]
pub(super) struct Guard(Mutex<State>);

#[derive(Default)]
struct State {
    /// The thread ends when this descriptor becomes readable. Without a thread the field is `None`.
    stop: Option<Arc<OwnedFd>>,
    /// A start came since the thread looked last.
    again: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(stop) = &self.0.get_mut().stop {
            eventfd_signal(stop.as_fd());
        }
    }
}

impl Guard {
    /// Follows the program, if no thread does.
    pub(super) fn follow(parts: &Arc<Parts>) -> Result<()> {
        let mut state = parts.guard.0.lock();
        if state.stop.is_some() {
            state.again = true;
            return Ok(());
        }
        let stop = Arc::new(eventfd()?);
        // A weak reference: the thread must not keep the engine open.
        let (held, parts) = (Arc::clone(&stop), Arc::downgrade(parts));
        thread::spawn_detached("coracle-guard", move || while guard(&parts, &held).is_some() {})?;
        state.stop = Some(stop);
        Ok(())
    }

    /// Whether the thread may end: no start came meanwhile.
    fn ends(&self) -> bool {
        let mut state = self.0.lock();
        let ends = !std::mem::take(&mut state.again);
        if ends {
            state.stop = None;
        }
        ends
    }
}

/// Follows programs until none is needed. `None`: the thread is to end.
fn guard(parts: &Weak<Parts>, stop: &OwnedFd) -> Option<()> {
    let (mut pause, mut tries) = (Pause(PAUSES.0), 0);
    while tries < TRIES {
        let followed = parts.upgrade()?.followed();
        let Some(followed) = followed else { break };
        let began = Instant::now();
        await_ends(&followed, stop)?;
        rest(pause.after(began.elapsed()), stop)?;
        let parts = parts.upgrade()?;
        // Read again: the program may have been told to end while this thread waited.
        if parts.followed().is_none() || !parts.is_needed() {
            break;
        }
        let started = parts.start_if_none_lives();
        if let Err(error) = &started {
            note(LogLevel::Error, "log", None, || format!("no program delivers logs: {error}"));
        }
        let is_held = matches!(started, Ok(false));
        tries = if is_held && followed.is_empty() { tries + 1 } else { 0 };
    }
    (!parts.upgrade()?.guard.ends()).then_some(())
}

/// Waits until all of the processes have ended. `None`: the thread is to end.
fn await_ends(processes: &[OwnedFd], stop: &OwnedFd) -> Option<()> {
    for process in processes {
        while ready(&[stop, process], -1)? == 0 {}
    }
    Some(())
}

/// Waits for a time. `None`: the thread is to end.
fn rest(time: Duration, stop: &OwnedFd) -> Option<()> {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Some(());
        }
        ready(&[stop], i32::try_from(left.as_millis()).unwrap_or(i32::MAX).max(1))?;
    }
}

/// How many descriptors are ready. `None`: the first one is, or the kernel answers an error.
fn ready(set: &[&OwnedFd], millis: i32) -> Option<usize> {
    let set: Vec<_> = set.iter().map(|fd| (fd.as_raw_fd(), libc::POLLIN)).collect();
    let events = poll(&set, millis).ok()?;
    (events.first() == Some(&0)).then(|| events.iter().filter(|events| **events != 0).count())
}

/// How long the guard waits before it starts a program.
struct Pause(Duration);

impl Pause {
    /// The pause after a program that lived so long.
    fn after(&mut self, life: Duration) -> Duration {
        let now = if life >= SETTLED { PAUSES.0 } else { self.0 };
        self.0 = (now * 2).min(PAUSES.1);
        now
    }
}

/// The processes of a program that live.
pub(super) fn processes(holder: &Holder, root: &Path) -> Vec<OwnedFd> {
    let open = |pid: i32| {
        let process = pidfd(pid).ok()?;
        // The number may be that of another process by now. Once it is open, it stays that of this one.
        is_shipper(pid, root).then_some(process)
    };
    [holder.keeper, holder.worker].into_iter().filter(|pid| *pid > 0).filter_map(open).collect()
}

/// Whether a process is the shipper of a root, by its command line. A process that has ended has none.
fn is_shipper(pid: i32, root: &Path) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    words.next() == Some(NAME.as_bytes()) && words.next() == Some(root.as_os_str().as_encoded_bytes())
}

/// Tells a program to end, in order.
pub(super) fn dismiss(holder: &Holder, root: &Path) {
    for process in processes(holder, root) {
        // A process that has ended meanwhile needs no signal.
        let _ = pidfd_signal(process.as_fd(), libc::SIGTERM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_programs_die_early() {
        let mut pause = Pause(PAUSES.0);
        let taken: Vec<u128> = (0..10).map(|_| pause.after(Duration::ZERO).as_millis()).collect();
        assert_eq!(taken, [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(pause.after(SETTLED), PAUSES.0);
        assert_eq!(pause.after(Duration::ZERO), PAUSES.0 * 2);
    }

    #[test]
    fn a_process_of_another_kind_is_not_followed() {
        let own = std::process::id() as i32;
        let holder = Holder { keeper: own, worker: 0, ..Holder::default() };
        assert!(processes(&holder, Path::new("/nowhere")).is_empty());
    }
}
