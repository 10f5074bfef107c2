//! The kernel tells a courier of changed logs. Where it gives no watch, the courier looks by itself.

use crate::drivers::Destination;
use crate::options::Address;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A user has 128 instances of inotify, for all programs. Each container with a log plugin has a courier of its own: so many
/// of them have an instance, and the further ones look once a second.
const FEW: usize = 16;
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// One of the few instances for couriers of plugins.
struct Share;

impl Share {
    fn take() -> Option<Share> {
        let one_more = |taken| (taken < FEW).then_some(taken + 1);
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        TAKEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The watch of a courier's logs.
#[derive(Default)]
pub(super) struct Watch {
    inotify: Option<Inotify>,
    watched: Vec<(WatchDescriptor, u64)>,
    _share: Option<Share>,
}

impl Watch {
    pub(super) fn new(to: &Destination) -> Watch {
        let share = match to.address {
            Address::Plugin(_) => match Share::take() {
                None => return Watch::default(),
                share => share,
            },
            _ => None,
        };
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        Watch { inotify, watched: Vec::new(), _share: share }
    }

    /// Watches the directory of a log, if the kernel lets it.
    pub(super) fn add(&mut self, dir: &Path, number: u64) {
        let what = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVE;
        let added = self.inotify.as_ref().map(|inotify| inotify.add_watch(dir, what | AddWatchFlags::IN_DELETE_SELF));
        self.watched.extend(added.and_then(Result::ok).map(|watch| (watch, number)));
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.watched.retain(|(_, of)| *of != number);
    }

    /// Whether each of so many logs is watched.
    pub(super) fn has_all(&self, logs: usize) -> bool {
        self.watched.len() >= logs
    }

    /// Readable when a log has changed.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// The logs that have changed.
    pub(super) fn changed(&self) -> Vec<u64> {
        let events = self.inotify.as_ref().and_then(|inotify| inotify.read_events().ok()).unwrap_or_default();
        let overflown = events.iter().any(|event| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW));
        let is_in = |watch: &WatchDescriptor| overflown || events.iter().any(|event| event.wd == *watch);
        self.watched.iter().filter(|(watch, _)| is_in(watch)).map(|(_, number)| *number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::{Manner, TlsFiles};

    fn watch(address: Address) -> Watch {
        let manner = Manner::Stream;
        Watch::new(&Destination { address, tls: TlsFiles::default(), manner, account: String::new() })
    }

    #[test]
    fn couriers_of_plugins_have_few_instances() {
        let dir = std::env::temp_dir();
        let plugin = || watch(Address::Plugin("/none".into()));
        let mut many: Vec<Watch> = (0..FEW + 3).map(|_| plugin()).collect();
        many.iter_mut().for_each(|watch| watch.add(&dir, 0));
        assert_eq!(many.iter().filter(|watch| watch.fd().is_some()).count(), FEW);
        // The couriers without an instance look at their logs.
        assert!(many.iter().all(|watch| watch.has_all(1) == watch.fd().is_some()));
        assert!(watch(Address::Tcp("localhost".into(), 1)).fd().is_some());
        many.remove(0);
        assert!(plugin().fd().is_some());
    }
}
