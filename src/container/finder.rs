//! Finding containers, and locking them for changes.

use super::{Crashes, Register, Removals, Snapshot, no_such, start};
use crate::error::Result;
use crate::op::Op;
use crate::store::containers as table;
use crate::store::slot_locks::Busy;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Finds containers, and locks them for changes. A container that has ended and is marked for removal is removed by the
/// look-up.
pub(crate) struct Finder {
    pub(super) register: Arc<Register>,
    pub(super) crashes: Arc<Crashes>,
    pub(super) removals: Arc<Removals>,
}

impl Finder {
    /// Removes the container with this name, if it has ended and is marked for removal.
    pub(super) fn free_name(&self, name: &str) -> Result<()> {
        if self.register.db.read(|tx| table::has_name(tx, name))? {
            // The look-up removes the container; the insertion of the name reports whether the name is free then.
            let _ = self.find(name);
        }
        Ok(())
    }

    /// Finds a container by the name or id that a user gave.
    pub(crate) fn find(&self, reference: &str) -> Result<Snapshot> {
        self.find_any(reference)?.whole()
    }

    /// Like [`Self::find`], also if the container's stored document is damaged.
    pub(super) fn find_any(&self, reference: &str) -> Result<Snapshot> {
        let found = self.find_with_end(reference)?;
        match is_hidden(&found, reference) || self.is_gone_by_now(&found) {
            true => Err(no_such(reference)),
            false => Ok(found),
        }
    }

    /// Finds a container, and records its end if no other call did.
    fn find_with_end(&self, reference: &str) -> Result<Snapshot> {
        let found = self
            .register
            .snapshot(self.register.db.read(|tx| table::find(tx, reference, &mut self.register.stored()))?)?;
        if !found.now.lost {
            return Ok(found);
        }
        // A call that holds the lock has looked already, or will.
        if let Some(_busy) = self.register.states.locks.try_busy(found.row.slot)? {
            let again = self.register.refresh(found.clone())?;
            if again.now.lost {
                self.crashes.record_crash(&again)?;
            }
        }
        self.register.snapshot(self.register.db.read(|tx| table::find(tx, &found.row.id, &mut self.register.stored()))?)
    }

    /// Finds a container and locks it for a change. The returned state was read under the lock.
    pub(super) fn lock(&self, reference: &str, op: Option<&Op>) -> Result<(Busy, Snapshot)> {
        let (busy, found) = self.lock_any(reference, op)?;
        if !self.is_over(&found) || self.register.states.locks.is_end_held(found.row.slot)? {
            return Ok((busy, found.whole()?));
        }
        drop(busy);
        if self.is_gone_by_now(&found) {
            return Err(no_such(reference));
        }
        let (busy, found) = self.lock_any(&found.row.id, op)?;
        Ok((busy, found.whole()?))
    }

    /// Finds and locks a container, also if it has ended and awaits its removal, or if its stored document is damaged.
    pub(super) fn lock_any(&self, reference: &str, op: Option<&Op>) -> Result<(Busy, Snapshot)> {
        let row = self.register.db.read(|tx| table::find(tx, reference, &mut |row, _| Ok(row)))?;
        let busy = self.register.states.locks.busy(row.slot, &row.id, op)?;
        let stored = self.register.db.read(|tx| table::by_id(tx, &row.id, &mut self.register.stored()))?;
        let mut found = self.register.snapshot(stored.ok_or_else(|| no_such(reference))?)?;
        if is_hidden(&found, reference) {
            return Err(no_such(reference));
        }
        let until = Instant::now() + start::HANDOVER;
        while self.register.is_arriving(&found)? && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            found = self.register.refresh(found)?;
        }
        if found.now.lost {
            self.crashes.record_crash(&found)?;
            found = self.register.refresh(found)?;
        }
        Ok((busy, found))
    }
}

/// Whether a name or the beginning of an id leads to the container of a plugin: only the engine, which knows the whole id, finds it.
fn is_hidden(found: &Snapshot, reference: &str) -> bool {
    found.spec.plugin.is_some() && found.row.id != reference
}
