//! The signals by which the program is told to end. They are held back, and read from a descriptor, so that the end is in
//! order: log plugins are told to leave.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// SIGTERM and SIGINT.
fn to_end() -> SigSet {
    [Signal::SIGTERM, Signal::SIGINT].into_iter().collect()
}

/// From now on these signals, and those of children that end, wait until they are read.
pub(super) fn hold_back() -> io::Result<()> {
    let mut all = to_end();
    all.add(Signal::SIGCHLD);
    Ok(all.thread_block()?)
}

/// Readable when this process, a worker, is to end; nobody reads it.
pub(super) fn of_worker() -> io::Result<OwnedFd> {
    let signals = SignalFd::with_flags(&to_end(), SfdFlags::SFD_CLOEXEC)?;
    signals.as_fd().try_clone_to_owned()
}

/// The signals of the keeper.
pub(super) struct Orders {
    children: SignalFd,
    end: SignalFd,
}

impl Orders {
    pub(super) fn of_keeper() -> io::Result<Orders> {
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let children = SignalFd::with_flags(&SigSet::from(Signal::SIGCHLD), flags)?;
        Ok(Orders { children, end: SignalFd::with_flags(&to_end(), flags)? })
    }

    /// Waits until a child ends or an order to end comes.
    pub(super) fn wait(&self) {
        let mut set = [&self.children, &self.end].map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN));
        // After an error the caller looks, and waits again.
        let _ = poll(&mut set, PollTimeout::NONE);
        while let Ok(Some(_)) = self.children.read_signal() {}
    }

    /// Whether an order to end comes within a time.
    pub(super) fn comes_within(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now()).as_millis();
            let mut set = [PollFd::new(self.end.as_fd(), PollFlags::POLLIN)];
            match poll(&mut set, PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX))) {
                Err(Errno::EINTR) => {}
                ready => return ready.is_ok_and(|ready| ready > 0),
            }
        }
    }

    /// Whether an order to end came since the last question.
    pub(super) fn is_told_to_end(&self) -> bool {
        let mut is_told = false;
        while let Ok(Some(_)) = self.end.read_signal() {
            is_told = true;
        }
        is_told
    }
}
