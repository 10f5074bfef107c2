//! The rest of a removal when the container's row is gone: its volumes that nobody named, the event of its end. Both are
//! noted with the removal of the row, so that the next open does them where the program was killed before.

use super::{Containers, Found, Register, now_ns};
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventStream;
use crate::hex::is_hex_id;
use crate::model::{Event, EventQuery};
use crate::store::{Flush, removals as table, volumes};
use rusqlite::Transaction;
use serde::{Deserialize, Serialize};

/// How often a reader of the journal goes on where the oldest events were given up while it read.
pub(super) const GIVEN_UP: u32 = 100;

/// The work that is left once the row of a container is gone.
#[derive(Serialize, Deserialize)]
pub(super) struct Removal {
    /// Tells of it.
    destroyed: Event,
    /// The volumes that go with it, if no other container uses them.
    volumes: Vec<String>,
}

impl Removal {
    /// Notes it, with the transaction that removes the row.
    pub(super) fn note(&self, tx: &Transaction<'_>, id: &str) -> Result<()> {
        let text = serde_json::to_string(self).map_err(|e| Error::internal(format!("write a removal: {e}")))?;
        table::begin(tx, id, &text)
    }
}

impl Containers {
    /// Plans the removal of a container; `volumes`: volumes that nobody named go, too.
    pub(super) fn plan_removal(&self, found: &Found, volumes: bool) -> Result<Removal> {
        let volumes = if volumes { self.unnamed_volumes(found)? } else { Vec::new() };
        Ok(Removal { destroyed: Register::event_of(found, "destroy", &[]), volumes })
    }

    /// The volumes of a container that nobody named. Where its document is damaged, they are known by their names.
    fn unnamed_volumes(&self, found: &Found) -> Result<Vec<String>> {
        if found.spec.is_whole() || !found.spec.mounts.is_empty() {
            return Ok(super::volumes::unnamed(&found.spec).map(|mount| mount.name.clone()).collect());
        }
        let mut used = self.register.db.read(|tx| volumes::used_by(tx, &found.row.id))?;
        used.retain(|name| is_hex_id(name));
        Ok(used)
    }

    /// Does what is left of a removal. Whoever calls holds it by [`crate::store::states::States::removing`].
    pub(super) fn end_removal(&self, id: &str, removal: &Removal) -> Result<()> {
        for name in &removal.volumes {
            self.remove_volume(name)?;
        }
        self.tell_of_removal(id, removal)?;
        self.register.db.write_to_free(Flush::Lazy, |tx| table::end(tx, id))
    }

    fn remove_volume(&self, name: &str) -> Result<()> {
        match self.volumes.remove(name) {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => Ok(()),
            other => other,
        }
    }

    fn tell_of_removal(&self, id: &str, removal: &Removal) -> Result<()> {
        let mut event = removal.destroyed.clone();
        (event.time_nano, event.time) = (now_ns(), now_ns() / 1_000_000_000);
        let left = self.leftovers.said_of(&[&self.places.dir(id), &self.places.run_dir(id)]);
        event.actor.attributes.extend(left.map(|left| ("leftover".to_owned(), left)));
        self.register.journal.append(&event).map(drop)
    }

    /// Ends removals whose programs were killed. What cannot be done now is by the next open.
    pub(super) fn end_lost_removals(&self) -> Result<()> {
        for id in self.register.db.read(table::all)? {
            let Some(_ours) = self.register.states.removing(&id)? else { continue };
            // Read again, for its program may have ended it meanwhile.
            let Some(text) = self.register.db.read(|tx| table::get(tx, &id))? else { continue };
            match serde_json::from_str::<Removal>(&text) {
                Ok(removal) => drop(self.end_lost_removal(&id, &removal)),
                // A damaged note tells nobody anything.
                Err(_) => self.register.db.write_to_free(Flush::Lazy, |tx| table::end(tx, &id))?,
            }
        }
        Ok(())
    }

    fn end_lost_removal(&self, id: &str, removal: &Removal) -> Result<()> {
        for name in &removal.volumes {
            let is_there = self.register.db.read(|tx| volumes::get(tx, name))?.is_some();
            if !is_there && !self.was_told("volume", name)? {
                self.volumes.event("destroy", name, &[])?;
            }
        }
        match self.was_told("container", id)? {
            true => self.register.db.write_to_free(Flush::Lazy, |tx| table::end(tx, id)),
            false => self.end_removal(id, removal),
        }
    }

    /// Whether the journal tells of an object's end.
    fn was_told(&self, kind: &str, id: &str) -> Result<bool> {
        let filters = [(kind, id), ("event", "destroy"), ("type", kind)];
        let filters = filters.map(|(key, value)| (key.to_owned(), vec![value.to_owned()])).into();
        let query = EventQuery { since_ns: Some(0), until_ns: Some(now_ns()), after: None, filters };
        let mut stream = EventStream::open(self.register.journal.clone(), &query)?;
        let mut left = GIVEN_UP;
        loop {
            match stream.next(None, None) {
                Ok(event) => return Ok(event.is_some()),
                // The oldest were given up meanwhile.
                Err(error) if error.kind() == ErrorKind::Unavailable && left > 0 => left -= 1,
                Err(error) => return Err(error),
            }
        }
    }
}
