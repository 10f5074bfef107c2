//! Waiting for changes of files: one descriptor that is readable while its reader has something to look at.

use super::fd::eventfd;
use crate::error::{Error, Result};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// The interval of polling if the kernel has no inotify instance or watch left.
const TICK: Duration = Duration::from_millis(50);

/// A set of watched paths, an optional end time and an optional beat behind one epoll descriptor, which can be polled
/// (level-triggered).
///
/// A reader calls [`Watch::drain`], looks at the files, and when nothing is left calls [`Watch::set_pending`]`(false)`
/// and waits for [`Watch::fd`]. A change after the drain makes the descriptor readable again, so the reader misses
/// none.
pub(crate) struct Watch {
    epoll: Epoll,
    /// Signalled while the reader has read more than it has handed out, so that the descriptor stays readable.
    pending: OwnedFd,
    is_pending: bool,
    inotify: Option<Inotify>,
    beat: Option<TimerFd>,
    /// inotify is exhausted: the beat replaces it and must not be slowed down.
    polling: bool,
    end: Option<TimerFd>,
}

impl Watch {
    /// A watch without paths, pending (its reader has not looked yet).
    pub(crate) fn new() -> Result<Watch> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| Error::os("epoll_create1", e as i32))?;
        let pending = eventfd()?;
        let mut watch =
            Watch { epoll, pending, is_pending: false, inotify: None, beat: None, polling: false, end: None };
        watch.include(watch.pending.as_fd())?;
        watch.set_pending(true);
        Ok(watch)
    }

    /// Watches `path` for changes (`mask` says which). If the kernel's inotify limits are reached, a beat of 50 ms
    /// replaces the watch.
    pub(crate) fn path(&mut self, path: &Path, mask: AddWatchFlags) -> Result<()> {
        use nix::errno::Errno;
        match self.add_inotify(path, mask) {
            Ok(()) => Ok(()),
            Err(Errno::EMFILE | Errno::ENFILE | Errno::ENOSPC | Errno::ENOMEM) => self.poll_instead(),
            Err(errno) => Err(Error::os(format_args!("watch {}", path.display()), errno as i32)),
        }
    }

    fn poll_instead(&mut self) -> Result<()> {
        self.beat(TICK)?;
        self.polling = true;
        Ok(())
    }

    fn add_inotify(&mut self, path: &Path, mask: AddWatchFlags) -> nix::Result<()> {
        if self.inotify.is_none() {
            let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
            self.epoll.add(inotify.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
            self.inotify = Some(inotify);
        }
        match &self.inotify {
            Some(inotify) => inotify.add_watch(path, mask).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Makes the descriptor readable every `period` from now on, for changes that no file shows.
    pub(crate) fn beat(&mut self, period: Duration) -> Result<()> {
        if self.polling {
            return Ok(());
        }
        if self.beat.is_none() {
            let timer = timer(ClockId::CLOCK_MONOTONIC)?;
            self.include(timer.as_fd())?;
            self.beat = Some(timer);
        }
        let period = Expiration::Interval(TimeSpec::from_duration(period.max(Duration::from_millis(1))));
        match &self.beat {
            Some(timer) => {
                timer.set(period, TimerSetTimeFlags::empty()).map_err(|e| Error::os("set a timer", e as i32))
            }
            None => Ok(()),
        }
    }

    /// Makes the descriptor readable once after `delay`, in place of the beat.
    pub(crate) fn once(&mut self, delay: Duration) -> Result<()> {
        self.beat(delay)?;
        let at = Expiration::OneShot(TimeSpec::from_duration(delay.max(Duration::from_millis(1))));
        match &self.beat {
            Some(timer) if !self.polling => {
                timer.set(at, TimerSetTimeFlags::empty()).map_err(|e| Error::os("set a timer", e as i32))
            }
            _ => Ok(()),
        }
    }

    /// Makes this descriptor readable while another watch's is.
    pub(crate) fn nest(&self, inner: &Watch) -> Result<()> {
        self.include(inner.fd())
    }

    /// Whether the descriptor is readable now.
    pub(crate) fn is_ready(&self) -> bool {
        super::fd::poll(&[(std::os::fd::AsRawFd::as_raw_fd(&self.fd()), libc::POLLIN)], 0).is_ok_and(|got| got[0] != 0)
    }

    /// Makes the descriptor readable for good at a time (nanoseconds since 1970).
    pub(crate) fn end_at(&mut self, time_ns: i64) -> Result<()> {
        let timer = timer(ClockId::CLOCK_REALTIME)?;
        // A timer set to zero is disarmed.
        let at = TimeSpec::from_duration(Duration::from_nanos(time_ns.max(1) as u64));
        timer
            .set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            .map_err(|e| Error::os("set a timer", e as i32))?;
        self.include(timer.as_fd())?;
        self.end = Some(timer);
        Ok(())
    }

    /// Reads the changes so far; returns whether inotify reported any.
    pub(crate) fn drain(&mut self) -> bool {
        let mut buffer = [0u8; 4096];
        // Anything but data (EAGAIN, an interruption) leaves the descriptor as it is; the next look reads it again.
        let mut take = |fd: BorrowedFd<'_>| nix::unistd::read(fd, &mut buffer).unwrap_or(0);
        if let Some(beat) = &self.beat {
            take(beat.as_fd());
        }
        let mut changed = false;
        while let Some(inotify) = &self.inotify
            && take(inotify.as_fd()) > 0
        {
            changed = true;
        }
        changed
    }

    /// Sets whether the reader still holds data that it has not handed out.
    pub(crate) fn set_pending(&mut self, pending: bool) {
        if pending == self.is_pending {
            return;
        }
        self.is_pending = pending;
        if pending {
            super::fd::eventfd_signal(self.pending.as_fd());
        } else {
            let _ = nix::unistd::read(&self.pending, &mut [0u8; 8]);
        }
    }

    /// The descriptor to wait for.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Makes the descriptor readable while this one is.
    pub(crate) fn include(&self, fd: BorrowedFd<'_>) -> Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, 0);
        self.epoll.add(fd, event).map_err(|e| Error::os("epoll_ctl", e as i32))
    }
}

fn timer(clock: ClockId) -> Result<TimerFd> {
    TimerFd::new(clock, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)
        .map_err(|e| Error::os("timerfd_create", e as i32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Ready, wait_fd};

    fn readable(watch: &Watch, millis: u64) -> bool {
        wait_fd(watch.fd(), Ready::Read, Some(Duration::from_millis(millis)), None).unwrap()
    }

    fn looked(watch: &mut Watch) -> bool {
        let changed = watch.drain();
        watch.set_pending(false);
        changed
    }

    #[test]
    fn a_watch_is_readable_at_first_and_after_each_change() {
        let path = std::env::temp_dir().join(format!("coracle-watch-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let mut watch = Watch::new().unwrap();
        watch.path(&path, AddWatchFlags::IN_MODIFY).unwrap();
        assert!(readable(&watch, 0));
        assert!(!looked(&mut watch) && !readable(&watch, 0));
        std::fs::write(&path, "x").unwrap();
        assert!(readable(&watch, 300_000) && looked(&mut watch) && !readable(&watch, 0));
        watch.set_pending(true);
        assert!(readable(&watch, 0) && readable(&watch, 0));
        std::fs::remove_file(&path).unwrap();
        assert!(watch.path(&path, AddWatchFlags::IN_MODIFY).is_err());
    }

    #[test]
    fn without_inotify_a_beat_wakes_the_reader() {
        let mut watch = Watch::new().unwrap();
        watch.poll_instead().unwrap();
        watch.beat(Duration::from_secs(3600)).unwrap();
        for _ in 0..3 {
            looked(&mut watch);
            assert!(readable(&watch, 300_000));
        }
    }

    #[test]
    fn an_end_makes_it_readable_for_good() {
        let mut watch = Watch::new().unwrap();
        watch.end_at(-5).unwrap();
        looked(&mut watch);
        assert!(readable(&watch, 300_000) && !looked(&mut watch) && readable(&watch, 0));
        let mut later = Watch::new().unwrap();
        later.end_at(i64::MAX).unwrap();
        looked(&mut later);
        assert!(!readable(&later, 0));
    }
}
