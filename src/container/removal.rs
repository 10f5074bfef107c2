//! The rest of a removal after the container's row is gone: its anonymous volumes, the event "destroy". The transaction
//! that deletes the row stores both, so that the next open completes the removal if the program is killed.

use super::attach::parked_sessions;
use super::remove::forget_row;
use super::{ExecRecords, Groups, Monitors, Places, Register, Snapshot, Storage, delivery, dirs, now_ns};
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventStream;
use crate::hex::is_hex_id;
use crate::image::Images;
use crate::model::{Event, EventQuery};
use crate::network::Networks;
use crate::store::slot_locks::Busy;
use crate::store::states::STATE_SWEPT;
use crate::store::{Flush, Leftovers, containers, removals as table, volumes};
use crate::volume::Volumes;
use rusqlite::Transaction;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often a reader of the journal continues after the oldest events were dropped while it read.
pub(super) const GIVEN_UP: u32 = 100;

/// The work that remains once the row of a container is gone.
#[derive(Serialize, Deserialize)]
pub(super) struct Removal {
    /// The event of the removal; the container of a plugin has none.
    #[serde(default)]
    destroyed: Option<Event>,
    /// The volumes to remove, if no other container uses them.
    volumes: Vec<String>,
}

impl Removal {
    /// Stores the removal, in the transaction that deletes the row.
    pub(super) fn note(&self, tx: &Transaction<'_>, id: &str) -> Result<()> {
        let text = serde_json::to_string(self).map_err(|e| Error::internal(format!("write a removal: {e}")))?;
        table::begin(tx, id, &text)
    }
}

/// Removes stopped containers, and completes interrupted removals.
pub(crate) struct Removals {
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) groups: Arc<Groups>,
    pub(super) storage: Arc<Storage>,
    pub(super) exec_records: Arc<ExecRecords>,
    pub(super) images: Arc<Images>,
    pub(super) leftovers: Arc<Leftovers>,
    pub(super) networks: Arc<Networks>,
    pub(super) volumes: Arc<Volumes>,
}

impl Removals {
    /// Plans the removal of a container; `volumes`: including its anonymous volumes.
    fn plan_removal(&self, found: &Snapshot, volumes: bool) -> Result<Removal> {
        let volumes = if volumes { self.unnamed_volumes(found)? } else { Vec::new() };
        let destroyed = found.spec.plugin.is_none().then(|| Register::event_of(found, "destroy", &[]));
        Ok(Removal { destroyed, volumes })
    }

    /// The anonymous volumes of a container. If its document is damaged, they are recognised by their names.
    fn unnamed_volumes(&self, found: &Snapshot) -> Result<Vec<String>> {
        if found.spec.is_whole() || !found.spec.mounts.is_empty() {
            return Ok(super::volumes::unnamed(&found.spec).map(|mount| mount.name.clone()).collect());
        }
        let mut used = self.register.db.read(|tx| volumes::used_by(tx, &found.row.id))?;
        used.retain(|name| is_hex_id(name));
        Ok(used)
    }

    /// Does the rest of a removal. The caller must hold it by [`crate::store::slot_locks::SlotLocks::removing`].
    fn end_removal(&self, id: &str, removal: &Removal) -> Result<()> {
        for name in &removal.volumes {
            self.remove_volume(name)?;
        }
        self.emit_removal(id, removal)?;
        self.register.db.write_to_free(Flush::Lazy, |tx| table::end(tx, id))
    }

    fn remove_volume(&self, name: &str) -> Result<()> {
        match self.volumes.remover.remove(name, false) {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => Ok(()),
            other => other,
        }
    }

    fn emit_removal(&self, id: &str, removal: &Removal) -> Result<()> {
        let Some(mut event) = removal.destroyed.clone() else { return Ok(()) };
        (event.time_nano, event.time) = (now_ns(), now_ns() / 1_000_000_000);
        let left = self.leftovers.said_of(&[&self.places.dir(id), &self.places.run_dir(id)]);
        event.actor.attributes.extend(left.map(|left| ("leftover".to_owned(), left)));
        self.register.journal.append(&event).map(drop)
    }

    /// Completes the removals whose programs were killed. The next open retries a failed one.
    pub(super) fn end_lost_removals(&self) -> Result<()> {
        for id in self.register.db.read(table::all)? {
            let Some(_ours) = self.register.states.locks.removing(&id)? else { continue };
            // Read again, because its program may have completed it meanwhile.
            let Some(text) = self.register.db.read(|tx| table::get(tx, &id))? else { continue };
            match serde_json::from_str::<Removal>(&text) {
                Ok(removal) => drop(self.end_lost_removal(&id, &removal)),
                // A damaged note is deleted.
                Err(_) => self.register.db.write_to_free(Flush::Lazy, |tx| table::end(tx, &id))?,
            }
        }
        Ok(())
    }

    fn end_lost_removal(&self, id: &str, removal: &Removal) -> Result<()> {
        for name in &removal.volumes {
            let is_there = self.register.db.read(|tx| volumes::get(tx, name))?.is_some();
            if !is_there && !self.was_told("volume", name)? {
                self.volumes.register.event("destroy", name, &[])?;
            }
        }
        match removal.destroyed.is_some() && self.was_told("container", id)? {
            true => self.register.db.write_to_free(Flush::Lazy, |tx| table::end(tx, id)),
            false => self.end_removal(id, removal),
        }
    }

    /// Whether the journal has the event of an object's removal.
    fn was_told(&self, kind: &str, id: &str) -> Result<bool> {
        let filters = [(kind, id), ("event", "destroy"), ("type", kind)];
        let filters = filters.map(|(key, value)| (key.to_owned(), vec![value.to_owned()])).into();
        let query = EventQuery { since_ns: Some(0), until_ns: Some(now_ns()), after: None, filters };
        let mut stream = EventStream::open(self.register.journal.clone(), &query)?;
        let mut left = GIVEN_UP;
        loop {
            match stream.next(None, None) {
                Ok(event) => return Ok(event.is_some()),
                // The oldest events were dropped meanwhile.
                Err(error) if error.kind() == ErrorKind::Unavailable && left > 0 => left -= 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes a stopped container whose lock is held, including its anonymous volumes if `volumes` is set.
    pub(super) fn remove_taken(&self, busy: Busy, found: &Snapshot, volumes: bool) -> Result<()> {
        let removal = self.plan_removal(found, volumes)?;
        let _ours = self.register.states.locks.removing(&found.row.id)?;
        self.forget(found, &removal)?;
        drop(busy);
        self.end_removal(&found.row.id, &removal)
    }

    /// The row is deleted first, durably: the next open sweeps directories that stay, and no power cut brings back a
    /// container whose directory is gone.
    fn forget(&self, found: &Snapshot, removal: &Removal) -> Result<()> {
        let row = &found.row;
        // Best effort: a plugin that is gone holds nothing for it any more.
        let _ = self.networks.remote.release(&row.id);
        let names = super::volumes::volumes(&found.spec).map(|mount| mount.name.clone());
        let _ = self.volumes.remote.release(&row.id, names);
        self.register.specs.forget(&row.id);
        let of_build = self.register.db.write_to_free(Flush::Lazy, |tx| {
            let of_build = containers::has_builder(tx, &row.id)?;
            forget_row(tx, &row.id)?;
            removal.note(tx, &row.id)?;
            Ok(of_build)
        })?;
        if !of_build {
            // Waits for the flush together with other removals; the directories are removed when the deletion of the
            // row is durable. For a container of a build the flush is not awaited: if a power cut brings its row back,
            // the next open removes it again.
            self.register.db.wait_durable()?;
        }
        self.exec_records.forget_execs(&row.id)?;
        // A monitor that has just reported the end is still cleaning up. The next open sweeps the leftovers of one that
        // hangs.
        match self.monitors.lock_alive(found) {
            Err(error) if error.kind() == ErrorKind::Conflict => return Ok(()),
            lock => drop(lock?),
        }
        // The groups stay if the monitor could not remove them: a process hung in the kernel, or the monitor was
        // killed.
        let swept =
            self.register.states.recorded(row.slot, &row.id)?.is_some_and(|state| state.flags & STATE_SWEPT != 0);
        if !swept && self.groups.group_name(found).is_some() {
            let _ = self.groups.live_groups(found)?.remove();
        }
        let project = self.storage.storage_project(&row.id, &found.spec);
        // Ends the streams of clients that wait for the container's start.
        drop(parked_sessions(&self.places, &row.id));
        self.remove_dir(self.places.run_dir(&row.id), None, |dir| dirs::remove_known(dir, &[], &[]))?;
        delivery::hand_over(&self.places, &row.id);
        let files = [&dirs::log_name(found), "hosts", "hostname", "resolv.conf"];
        let dirs = ["upper", "work/work", "work"];
        self.remove_dir(self.places.dir(&row.id), project, |dir| dirs::remove_known(dir, &files, &dirs))?;
        // On a full disk: the next removal needs room, too.
        self.register.db.restock();
        // An image that was removed by force stayed as long as this container needed it.
        self.images.collector.collect()
    }

    /// Removes a directory of a removed container, and frees the project that limited it. A directory that cannot be
    /// removed is noted, and its project continues to limit it.
    pub(super) fn remove_dir(
        &self,
        dir: PathBuf,
        project: Option<u32>,
        remove: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let removed = remove(&dir);
        if removed.is_ok() {
            self.storage.free_storage(project);
        }
        self.leftovers.note(dir, removed)
    }
}
