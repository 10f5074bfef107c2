//! The followers of one engine share the journal's watch, and the search for killed monitors.

use super::journal::Journal;
use crate::error::Result;
use crate::kernel::shared_watch::{Member, SharedWatch};
use crate::kernel::watch::Watch;
use nix::sys::inotify::AddWatchFlags;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The bit of the shared watch for the file that monitors hold open; the journal is the other one.
const ALIVE: u32 = 2;

/// The delays after which a closed file leads to a search: the lock of an ending process is released a moment later.
pub(super) const LOOKS: [Duration; 2] = [Duration::from_millis(500), Duration::from_millis(20)];

/// Appends the event of every killed monitor: a killed monitor writes none, so followers of events search.
pub(crate) type Look = Box<dyn Fn() + Send + Sync>;

/// The followers of one engine.
pub(crate) struct Hub {
    watch: Arc<SharedWatch>,
    look: Look,
    /// The searches that remain for the last change.
    left: Mutex<usize>,
}

impl Hub {
    /// The hub of an engine, made for its first follower. `None`: the kernel has no inotify instance left.
    pub(super) fn of(journal: &Journal, alive: &Path, look: &dyn Fn() -> Look) -> Result<Option<Arc<Hub>>> {
        let mut place = journal.hub.lock();
        if let Some(hub) = place.upgrade() {
            return Ok(Some(hub));
        }
        let paths: [(&Path, _); 2] =
            [(&journal.watch_path(), AddWatchFlags::IN_MODIFY), (alive, AddWatchFlags::IN_CLOSE_WRITE)];
        let Some(watch) = SharedWatch::new(&paths)? else { return Ok(None) };
        let hub = Arc::new(Hub { watch: Arc::new(watch), look: look(), left: Mutex::new(0) });
        *place = Arc::downgrade(&hub);
        Ok(Some(hub))
    }

    pub(super) fn join(self: Arc<Hub>, watch: &Watch) -> Result<Follower> {
        Ok(Follower { member: self.watch.join(watch)?, hub: self })
    }
}

/// A follower's part in its hub.
pub(super) struct Follower {
    member: Member,
    hub: Arc<Hub>,
}

impl Follower {
    /// Reads the changes, and searches for killed monitors if one may have died.
    pub(super) fn drain(&self) -> Result<()> {
        let seen = self.member.drain();
        let left = {
            let mut left = self.hub.left.lock();
            *left = match (seen.paths & ALIVE != 0, seen.timer) {
                (true, _) => LOOKS.len(),
                (false, true) => left.saturating_sub(1),
                (false, false) => return Ok(()),
            };
            *left
        };
        (self.hub.look)();
        match left {
            0 => Ok(()),
            left => self.hub.watch.once(LOOKS[left - 1]),
        }
    }
}
