//! Containers that go when they have ended (`HostConfig.AutoRemove`). The engine that follows the end removes such a
//! container; where none does, whoever looks at it next: an open, a list, an inspect, a wait, a look-up by name. A monitor
//! never does: it opens no database.

use super::{Finder, Snapshot};
use crate::error::Result;
use crate::store::containers::{self as table, ContainerRow};
use coracle_monitor::wire::Failure;
use std::time::{Duration, Instant};

/// How long a look waits for somebody else who works on a container that has ended, and is most likely removing it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The fate of a container that was found to have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is there no more.
    Gone,
    /// It stays: it runs again, or it is not to be removed.
    Stays,
    /// A restart or a stop is under way, and who does that removes it.
    Held,
    /// Somebody works on it.
    Busy,
}

/// Whether a container is to be removed: it has ended, and it ran at least once or its start failed.
pub(super) fn is_over(found: &Snapshot) -> bool {
    let state = &found.now.state;
    let begun = state.started_ns != 0 || state.exit_code != 0 || state.failure != Failure::default();
    found.spec.host_config.auto_remove && begun && !found.now.is_live()
}

impl Finder {
    /// Removes a container if it has ended and is to go then. Never waits for a lock.
    fn reap(&self, row: &ContainerRow) -> Result<Fate> {
        let Some(busy) = self.register.states.try_busy(row.slot)? else { return Ok(Fate::Busy) };
        let stored = self.register.db.read(|tx| table::by_id(tx, &row.id, &mut self.register.stored()))?;
        let Some(stored) = stored else { return Ok(Fate::Gone) };
        let mut found = self.register.found(stored)?;
        if self.register.is_arriving(&found)? {
            return Ok(Fate::Busy);
        }
        if found.now.lost {
            self.crashes.record_crash(&found)?;
            found = self.register.again(found)?;
        }
        // Read under the lock: nobody can start it from here on.
        if !is_over(&found) {
            return Ok(Fate::Stays);
        }
        if self.register.states.is_end_held(found.row.slot)? {
            return Ok(Fate::Held);
        }
        self.removals.remove_taken(busy, &found, true).map(|()| Fate::Gone)
    }

    /// The same; whoever works on the container is waited for, within reason.
    pub(super) fn reap_soon(&self, row: &ContainerRow) -> Result<Fate> {
        let until = Instant::now() + PATIENCE;
        let mut pause = Duration::from_micros(200);
        loop {
            match self.reap(row)? {
                Fate::Busy if Instant::now() < until => std::thread::sleep(pause),
                fate => return Ok(fate),
            }
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    /// Removes a container that has ended, by its id, for a caller that was told of its end. Never waits for a lock.
    pub(crate) fn reap_ended(&self, id: &str) -> Result<Fate> {
        match self.register.db.read(|tx| table::bare(tx, id))? {
            Some(row) => self.reap(&row),
            None => Ok(Fate::Gone),
        }
    }

    /// The same; whoever works on the container is waited for, within reason.
    pub(crate) fn reap_ended_soon(&self, id: &str) -> Result<Fate> {
        match self.register.db.read(|tx| table::bare(tx, id))? {
            Some(row) => self.reap_soon(&row),
            None => Ok(Fate::Gone),
        }
    }

    /// Whether a look at a container finds it gone, because it had ended. A removal that fails is no failure of the look.
    pub(super) fn is_gone_by_now(&self, found: &Snapshot) -> bool {
        is_over(found) && matches!(self.reap_soon(&found.row), Ok(Fate::Gone))
    }

    /// Of the containers of a list, those that are there: what has ended and is to go is removed before. One on which
    /// somebody works at this moment is being removed, or will be by who works on it.
    pub(super) fn without_the_ended(&self, mut found: Vec<Snapshot>) -> Vec<Snapshot> {
        found.retain(|found| !is_over(found) || !matches!(self.reap(&found.row), Ok(Fate::Gone | Fate::Busy)));
        found
    }

    /// Removes every container that has ended and is to go then; answers those that run. What cannot be removed
    /// now is by the next look.
    pub(crate) fn reap_all(&self) -> Result<Vec<Snapshot>> {
        let mut live = Vec::new();
        for id in self.register.db.read(table::auto_removed)? {
            let stored = self.register.db.read(|tx| table::by_id(tx, &id, &mut self.register.stored()))?;
            let Some(stored) = stored else { continue };
            let found = self.register.found(stored)?;
            if found.now.is_live() {
                live.extend(found.spec.host_config.auto_remove.then_some(found));
            } else {
                let _ = self.reap(&found.row);
            }
        }
        Ok(live)
    }

    /// Does something that ends a container, which is not removed before that is over. Then it is, if it has ended.
    pub(super) fn holding_the_end<T>(&self, found: &Snapshot, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if !found.spec.host_config.auto_remove {
            return work();
        }
        let held = self.register.states.hold_end(found.row.slot)?;
        let done = work();
        drop(held);
        // Else by the next look.
        let _ = self.reap_soon(&found.row);
        done
    }
}
