//! The stored containers: rows, specs and state records; their events.

use super::spec::Spec;
use super::spec_cache::{SpecCache, salvage};
use super::{Leases, Places, Snapshot, Stored, no_such, snapshot_of};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Journal;
use crate::image::ImageUser;
use crate::kernel::process;
use crate::model::Event;
use crate::options::Options;
use crate::store::containers::{self as table, ContainerRow};
use crate::store::states::{States, Status};
use crate::store::{Db, Flush};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The containers of the database and the state records, and the journal of their events.
pub(crate) struct Register {
    pub(super) db: Arc<Db>,
    pub(super) states: Arc<States>,
    pub(super) journal: Arc<Journal>,
    /// Specs that were parsed already.
    pub(super) specs: SpecCache,
    pub(super) places: Arc<Places>,
    pub(super) options: Arc<Options>,
    pub(super) leases: Leases,
}

impl Register {
    pub(super) fn set_spec(&self, found: &Snapshot, spec: &Spec) -> Result<()> {
        let text = serde_json::to_string(spec).map_err(|e| Error::internal(format!("write a spec: {e}")))?;
        self.db.write(Flush::Durable, |tx| table::set_spec(tx, &found.row.id, &text))
    }

    /// How many containers there are in each state, how often restart policies started them, and how many lines their logs
    /// lost.
    pub(crate) fn tally(&self) -> Result<(BTreeMap<String, u64>, u64, u64)> {
        let slots = self.db.read(crate::store::containers::visible_slots)?;
        let states = self.states.glance()?;
        let mut counts: BTreeMap<String, u64> =
            Status::ALL.iter().map(|status| (format!("{status:?}").to_lowercase(), 0)).collect();
        let (mut restarts, mut lost) = (0, 0);
        for (id, slot) in slots {
            let state = self.states.now_in(&states, slot, &id)?.state;
            *counts.entry(format!("{:?}", state.status()).to_lowercase()).or_default() += 1;
            restarts += u64::from(state.restarts);
            lost += state.log_lost;
        }
        Ok((counts, restarts, lost))
    }

    /// The numbers of running, paused and stopped containers.
    pub(crate) fn counts(&self) -> Result<(usize, usize, usize)> {
        let mut counts = (0, 0, 0);
        for (id, slot) in self.db.read(crate::store::containers::visible_slots)? {
            let now = self.states.now(slot, &id)?;
            match now.state.status() {
                Status::Paused => counts.1 += 1,
                Status::Running => counts.0 += 1,
                Status::Created | Status::Starting | Status::Restarting | Status::Exited => counts.2 += 1,
            }
        }
        Ok(counts)
    }

    /// The result of reading a container's directories without its lock, if the container still exists: a removal
    /// deletes the row first.
    pub(super) fn if_there<T>(&self, found: &Snapshot, read: Result<T>) -> Result<T> {
        match self.db.read(|tx| table::is_there(tx, &found.row.id))? {
            true => read,
            false => Err(no_such(&found.row.id)),
        }
    }

    /// Reads a container. If its document is damaged, the spec has the readable parts.
    pub(super) fn stored(&self) -> impl FnMut(ContainerRow, &str) -> Result<Stored> {
        |row, text| {
            let spec = self.spec_of(&row, text)?;
            Ok((Arc::new(row), spec))
        }
    }

    /// A container with its present state.
    pub(super) fn snapshot(&self, (row, spec): Stored) -> Result<Snapshot> {
        let now = self.states.now(row.slot, &row.id)?;
        Ok(snapshot_of(row, spec, now))
    }

    /// A container that was found before, with its present state.
    pub(super) fn refresh(&self, found: Snapshot) -> Result<Snapshot> {
        self.snapshot((found.row, found.spec))
    }

    /// The spec that a row stores as `text`, or the readable parts of a damaged one.
    pub(super) fn spec_of(&self, row: &ContainerRow, text: &str) -> Result<Arc<Spec>> {
        match self.specs.of(&row.id, text) {
            Err(error) if error.kind() == ErrorKind::Corrupt => self.salvaged(row, text, &error).map(Arc::new),
            spec => spec,
        }
    }

    /// The readable parts of a damaged spec, with the usual path of the container's cgroup.
    fn salvaged(&self, row: &ContainerRow, text: &str, error: &Error) -> Result<Spec> {
        let mut spec = salvage(text);
        let or = |value: &mut String, other: &str| {
            if value.is_empty() {
                other.clone_into(value);
            }
        };
        or(&mut spec.image_id, &row.image_id);
        or(&mut spec.image_name, &row.image_id);
        or(&mut spec.cgroup_parent, &self.options.cgroup_parent);
        or(&mut spec.engine, self.places.engine());
        spec.host_config = spec.host_config.changed(|host| or(&mut host.log_config.kind, "json-file"))?;
        error.message().clone_into(&mut spec.damage);
        Ok(spec)
    }

    /// Whether a start is under way whose program was killed: a monitor holds the container, and has not reported the
    /// outcome or written its record yet. (A monitor that is ending has written its record.)
    pub(super) fn is_arriving(&self, found: &Snapshot) -> Result<bool> {
        let state = &found.now.state;
        if state.status() == Status::Starting {
            return Ok(!found.now.lost);
        }
        Ok(!found.now.is_live() && self.states.has_monitor(found.row.slot)? && !process::is_monitor(state.monitor_pid))
    }

    /// The containers made from an image, by its id.
    pub(crate) fn of_image(&self, image_id: &str) -> Result<Vec<ImageUser>> {
        let users = self.db.read(|tx| table::of_image(tx, image_id))?;
        users
            .into_iter()
            .map(|(id, slot)| Ok(ImageUser { running: self.states.now(slot, &id)?.is_live(), id }))
            .collect()
    }

    /// Appends an event of a container. Errors: the run directory is full, even after the oldest events were dropped.
    pub(super) fn event(&self, found: &Snapshot, action: &str, extras: &[(&str, &str)]) -> Result<()> {
        if found.spec.plugin.is_some() {
            return Ok(());
        }
        self.journal.append(&Self::event_of(found, action, extras)).map(|_| ())
    }

    pub(super) fn event_of(found: &Snapshot, action: &str, extras: &[(&str, &str)]) -> Event {
        let (row, spec) = (&found.row, &found.spec);
        Event::container(action, &row.id, &spec.image_name, &row.name, &spec.config.labels, extras)
    }

    pub(super) fn set_error(&self, found: &Snapshot, text: &str) -> Result<()> {
        if found.row.error == text && !found.now.lost {
            return Ok(());
        }
        self.db.write(Flush::Lazy, |tx| table::set_error(tx, &found.row.id, text))
    }

    /// The file whose closing may mean that a monitor has ended.
    pub(crate) fn alive_path(&self) -> &std::path::Path {
        self.states.alive_path()
    }

    /// The root's leases.
    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// The database of the containers.
    pub(crate) fn db(&self) -> &Db {
        &self.db
    }
}
