//! Containers that are removed when they have ended (`HostConfig.AutoRemove`). The engine that follows the end removes
//! such a container. If no engine does, the next call that looks at it removes it: an open, a list, an inspect, a wait
//! or a look-up by name. A monitor never removes one, because it opens no database.

use super::{Finder, Leases, Snapshot};
use crate::error::Result;
use crate::launch::monitor::Failure;
use crate::store::containers::{self as table, ContainerRow};
use std::time::{Duration, Instant};

/// How long a look waits for another program that holds the lock of an ended container, most likely to remove it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The fate of a container that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The container is gone.
    Gone,
    /// The container stays: it runs again, or it is not marked for removal.
    Stays,
    /// A restart or a stop is under way; that call removes the container.
    Held,
    /// Another call holds the container's lock.
    Busy,
}

/// Whether a container must be removed now: it has ended, and it ran at least once, its start failed, or nobody holds its
/// lease.
fn is_over(found: &Snapshot, leases: &Leases) -> bool {
    if found.now.is_live() {
        return false;
    }
    let state = &found.now.state;
    let begun = state.started_ns != 0 || state.exit_code != 0 || state.failure != Failure::default();
    found.spec.host_config.auto_remove && begun || leases.has_ended(found.spec.lease.as_ref())
}

impl Finder {
    /// Whether a container must be removed now.
    pub(super) fn is_over(&self, found: &Snapshot) -> bool {
        is_over(found, &self.register.leases)
    }

    /// Removes a container if it has ended and is marked for removal. Never waits for a lock.
    fn reap(&self, row: &ContainerRow) -> Result<Fate> {
        let Some(busy) = self.register.states.locks.try_busy(row.slot)? else { return Ok(Fate::Busy) };
        let stored = self.register.db.read(|tx| table::by_id(tx, &row.id, &mut self.register.stored()))?;
        let Some(stored) = stored else { return Ok(Fate::Gone) };
        let mut found = self.register.snapshot(stored)?;
        if self.register.is_arriving(&found)? {
            return Ok(Fate::Busy);
        }
        if found.now.lost {
            self.crashes.record_crash(&found)?;
            found = self.register.refresh(found)?;
        }
        // The state is read under the lock: no start can come from here on.
        if !self.is_over(&found) {
            return Ok(Fate::Stays);
        }
        if self.register.states.locks.is_end_held(found.row.slot)? {
            return Ok(Fate::Held);
        }
        self.removals.remove_taken(busy, &found, true).map(|()| Fate::Gone)
    }

    /// As [`Self::reap`], but waits up to [`PATIENCE`] for a call that holds the lock.
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

    /// Removes a container that has ended, by its id, for a caller that was notified of the end. Never waits for a
    /// lock.
    pub(crate) fn reap_ended(&self, id: &str) -> Result<Fate> {
        match self.register.db.read(|tx| table::bare(tx, id))? {
            Some(row) => self.reap(&row),
            None => Ok(Fate::Gone),
        }
    }

    /// As [`Self::reap_ended`], but waits up to [`PATIENCE`] for a call that holds the lock.
    pub(crate) fn reap_ended_soon(&self, id: &str) -> Result<Fate> {
        match self.register.db.read(|tx| table::bare(tx, id))? {
            Some(row) => self.reap_soon(&row),
            None => Ok(Fate::Gone),
        }
    }

    /// Whether a look at a container finds it removed, because it had ended. A failed removal does not make the look
    /// fail.
    pub(super) fn is_gone_by_now(&self, found: &Snapshot) -> bool {
        self.is_over(found) && matches!(self.reap_soon(&found.row), Ok(Fate::Gone))
    }

    /// Removes the containers of a list that have ended and are marked for removal, and returns the others. A container
    /// that another call holds is left out: that call removes it, or has begun to.
    pub(super) fn without_the_ended(&self, mut found: Vec<Snapshot>) -> Vec<Snapshot> {
        found.retain(|found| !self.is_over(found) || !matches!(self.reap(&found.row), Ok(Fate::Gone | Fate::Busy)));
        found
    }

    /// Removes every container that has ended and is marked for removal; returns those that run. The next look retries
    /// a failed removal.
    pub(crate) fn reap_all(&self) -> Result<Vec<Snapshot>> {
        let mut live = Vec::new();
        for id in self.register.db.read(table::auto_removed)? {
            let stored = self.register.db.read(|tx| table::by_id(tx, &id, &mut self.register.stored()))?;
            let Some(stored) = stored else { continue };
            let found = self.register.snapshot(stored)?;
            if found.now.is_live() {
                live.extend(found.spec.host_config.auto_remove.then_some(found));
            } else {
                let _ = self.reap(&found.row);
            }
        }
        Ok(live)
    }

    /// Runs a call that ends a container; the container is removed only after the call, if it has ended then.
    pub(super) fn holding_the_end<T>(&self, found: &Snapshot, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if !found.spec.host_config.auto_remove {
            return work();
        }
        let held = self.register.states.locks.hold_end(found.row.slot)?;
        let done = work();
        drop(held);
        // The next look removes the container otherwise.
        let _ = self.reap_soon(&found.row);
        done
    }
}
