//! One inotify instance and one timer for any number of watchers of this process: the kernel allows a user 128
//! instances.
//!
//! There is no thread. Every member's descriptor is readable when something has changed; the first member that looks
//! reads the events for all, and notifies the others by their eventfds.

use super::fd::{eventfd, eventfd_signal};
use super::watch::Watch;
use crate::error::{Error, Result};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use parking_lot::Mutex;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The state that the members share.
pub(crate) struct SharedWatch {
    inotify: Inotify,
    paths: Vec<WatchDescriptor>,
    timer: TimerFd,
    members: Mutex<Vec<Arc<OwnedFd>>>,
}

/// The result of a look.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Bits of the paths that changed, in the order in which they were given.
    pub paths: u32,
    /// The timer has fired.
    pub timer: bool,
}

impl SharedWatch {
    /// Watches these paths. `None`: the kernel has no instance or watch left.
    pub(crate) fn new(paths: &[(&Path, AddWatchFlags)]) -> Result<Option<SharedWatch>> {
        let inotify = match Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK) {
            Ok(inotify) => inotify,
            Err(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM) => return Ok(None),
            Err(errno) => return Err(Error::os("inotify_init1", errno as i32)),
        };
        let mut watched = Vec::with_capacity(paths.len());
        for (path, mask) in paths {
            match inotify.add_watch(*path, *mask) {
                Ok(descriptor) => watched.push(descriptor),
                Err(Errno::ENOSPC | Errno::ENOMEM) => return Ok(None),
                Err(errno) => return Err(Error::os(format_args!("watch {}", path.display()), errno as i32)),
            }
        }
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)
            .map_err(|e| Error::os("timerfd_create", e as i32))?;
        Ok(Some(SharedWatch { inotify, paths: watched, timer, members: Mutex::default() }))
    }

    /// Makes `watch` readable with every change from now on.
    pub(crate) fn join(self: &Arc<SharedWatch>, watch: &Watch) -> Result<Member> {
        let turn = Arc::new(eventfd()?);
        for fd in [self.inotify.as_fd(), self.timer.as_fd(), turn.as_fd()] {
            watch.include(fd)?;
        }
        self.members.lock().push(turn.clone());
        Ok(Member { shared: self.clone(), turn })
    }

    /// Starts the timer for one shot.
    pub(crate) fn once(&self, delay: Duration) -> Result<()> {
        let at = Expiration::OneShot(TimeSpec::from_duration(delay.max(Duration::from_millis(1))));
        self.timer.set(at, TimerSetTimeFlags::empty()).map_err(|e| Error::os("set a timer", e as i32))
    }
}

/// One of the watchers.
pub(crate) struct Member {
    shared: Arc<SharedWatch>,
    turn: Arc<OwnedFd>,
}

impl Member {
    /// Reads the changes so far, for all members; returns those that are new to this one.
    pub(crate) fn drain(&self) -> Seen {
        let shared = &self.shared;
        let mut seen = Seen::default();
        let members = shared.members.lock();
        // Anything but data leaves the descriptor as it is; the next look reads it again.
        while let Ok(events) = shared.inotify.read_events() {
            for event in &events {
                let path = shared.paths.iter().position(|path| *path == event.wd);
                // A queue overflow (no path): anything may have changed.
                seen.paths |= path.map_or(u32::MAX, |path| 1 << path);
            }
        }
        let mut count = [0u8; 8];
        seen.timer = nix::unistd::read(&shared.timer, &mut count).is_ok();
        if seen.paths != 0 {
            members.iter().for_each(|member| eventfd_signal(member.as_fd()));
        }
        drop(members);
        let _ = nix::unistd::read(&*self.turn, &mut count);
        seen
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.shared.members.lock().retain(|member| !Arc::ptr_eq(member, &self.turn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Ready, wait_fd};

    #[test]
    fn the_first_looker_tells_the_others() {
        let path = std::env::temp_dir().join(format!("coracle-shared-watch-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let shared = Arc::new(SharedWatch::new(&[(&path, AddWatchFlags::IN_MODIFY)]).unwrap().unwrap());
        let watches: Vec<Watch> = (0..3).map(|_| Watch::new().unwrap()).collect();
        let mut members: Vec<Member> = watches.iter().map(|watch| shared.join(watch).unwrap()).collect();
        let mut watches = watches;
        watches.iter_mut().for_each(|watch| watch.set_pending(false));
        let readable = |watch: &Watch| wait_fd(watch.fd(), Ready::Read, Some(Duration::ZERO), None).unwrap();
        assert!(!watches.iter().any(readable));
        std::fs::write(&path, "x").unwrap();
        assert!(watches.iter().all(readable));
        assert_eq!(members[0].drain(), Seen { paths: 1, timer: false });
        assert_eq!(watches.iter().map(readable).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!((members[1].drain(), members[2].drain()), (Seen::default(), Seen::default()));
        assert!(!watches.iter().any(readable));
        // A member that is gone is not notified; a timer concerns the first member that looks.
        members.remove(1);
        assert_eq!(shared.members.lock().len(), 2);
        shared.once(Duration::from_millis(1)).unwrap();
        assert!(wait_fd(watches[2].fd(), Ready::Read, Some(Duration::from_secs(300)), None).unwrap());
        assert!(members[1].drain().timer && !members[0].drain().timer);
        std::fs::remove_file(&path).unwrap();
    }
}
