//! Removing and renaming.

use super::attach::parked_sessions;
use super::names::check_name;
use super::removal::Removal;
use super::state::{Verb, Way, decide};
use super::{Containers, Found, dirs, start};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Filters, ListContainers, PrunedContainers, RemoveContainer};
use crate::op::Op;
use crate::store::states::Busy;
use crate::store::{Flush, containers as table};
use coracle_monitor::call::Call;
use coracle_monitor::wire::STATE_SWEPT;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a removal by force ends a container that others start again.
const REMOVAL: Duration = Duration::from_secs(60);

impl Containers {
    /// Removes a container; a running one only by force.
    pub(crate) fn remove(&self, reference: &str, how: RemoveContainer, op: Option<&Op>) -> Result<()> {
        if how.link {
            return self.remove_link(reference);
        }
        let until = Instant::now() + REMOVAL;
        let mut ended: Option<Found> = None;
        loop {
            let reference = ended.as_ref().map_or(reference, |found| &found.row.id);
            let (busy, found) = match (self.take_any(reference, op), &ended) {
                // The follower of its end was first.
                (Err(error), Some(ended)) if error.kind() == ErrorKind::NotFound && goes_by_itself(ended) => {
                    return Ok(());
                }
                (taken, _) => taken?,
            };
            let verb = if how.force { Verb::RemoveByForce } else { Verb::Remove };
            if decide(verb, &found)? == Way::Do {
                return self.remove_taken(busy, &found, how.volumes || goes_by_itself(&found));
            }
            // Not under the lock: the end is waited for, and somebody may start it again meanwhile.
            drop(busy);
            if Instant::now() > until {
                return Err(Error::conflict(format!(
                    "Cannot remove container {}: it runs again each time that it was ended, for {REMOVAL:?} now",
                    found.row.id
                )));
            }
            self.kill_live(&found, op)?;
            // Its end is recorded by now, or about to be.
            self.monitors.has_ended(&found)?;
            ended = Some(found);
        }
    }

    /// Removes a container that is held and does not run, with the volumes that nobody named if `volumes` says so.
    pub(super) fn remove_taken(&self, busy: Busy, found: &Found, volumes: bool) -> Result<()> {
        let removal = self.plan_removal(found, volumes)?;
        let _ours = self.register.states.removing(&found.row.id)?;
        self.forget(found, &removal)?;
        drop(busy);
        self.end_removal(&found.row.id, &removal)
    }

    /// Removes the containers that do not run. One that somebody else starts or removes meanwhile is left to them.
    pub(crate) fn prune(&self, filters: &Filters, op: Option<&Op>) -> Result<PrunedContainers> {
        let query = ListContainers { all: true, size: true, filters: filters.clone(), ..ListContainers::default() };
        let mut pruned = PrunedContainers::default();
        for container in self.list(&query)? {
            if !matches!(container.state.as_str(), "created" | "exited" | "dead") {
                continue;
            }
            match self.remove(&container.id, RemoveContainer::default(), op) {
                Ok(()) => {
                    pruned.space_reclaimed += container.size_rw.and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
                    pruned.containers_deleted.push(container.id);
                }
                Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(pruned)
    }

    /// The row goes first, for good: what then stays of directories is swept by the next open, and no power cut brings
    /// back a container whose directory is gone.
    fn forget(&self, found: &Found, removal: &Removal) -> Result<()> {
        let row = &found.row;
        // Best effort: a plugin that is gone has nothing of it any more.
        let _ = self.networks.settle(&row.id);
        self.register.specs.forget(&row.id);
        let of_build = self.register.db.write_to_free(Flush::Lazy, |tx| {
            let of_build = table::has_builder(tx, &row.id)?;
            forget_row(tx, &row.id)?;
            removal.note(tx, &row.id)?;
            Ok(of_build)
        })?;
        if !of_build {
            // With others who remove; the directories go when it is certain that the row has gone. A build's, that a
            // power cut brings back, goes again with the next open.
            self.register.db.settle()?;
        }
        self.forget_execs(&row.id)?;
        // A monitor that has just told the end still cleans up. What one that hangs keeps is swept by the next open.
        match self.monitors.lock_alive(found) {
            Err(error) if error.kind() == ErrorKind::Conflict => return Ok(()),
            lock => drop(lock?),
        }
        // A monitor that could not remove its groups left them: a process hung in the kernel, or it was killed.
        let swept =
            self.register.states.recorded(row.slot, &row.id)?.is_some_and(|state| state.flags & STATE_SWEPT != 0);
        if !swept && self.groups.group_name(found).is_some() {
            let _ = self.groups.live_groups(found)?.remove();
        }
        let project = self.storage_project(&row.id, &found.spec);
        // Whoever waits for its start need not wait any longer: the streams end.
        drop(parked_sessions(&self.places, &row.id));
        self.remove_dir(self.places.run_dir(&row.id), None, |dir| dirs::remove_known(dir, &[], &[]))?;
        let files = [&dirs::log_name(found), "hosts", "hostname", "resolv.conf"];
        let dirs = ["upper", "work/work", "work"];
        self.remove_dir(self.places.dir(&row.id), project, |dir| dirs::remove_known(dir, &files, &dirs))?;
        // On a disk that was full: the next removal needs room, too.
        self.register.db.restock();
        // An image that was removed by force stayed as long as this container needed it.
        self.images.collect()
    }

    /// Removes a directory of a container that is gone, and frees the project that bounded it. What cannot be removed is
    /// noted, and its project goes on to bound it.
    pub(super) fn remove_dir(
        &self,
        dir: PathBuf,
        project: Option<u32>,
        remove: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let removed = remove(&dir);
        if removed.is_ok() {
            self.free_storage(project);
        }
        self.leftovers.note(dir, removed)
    }

    /// Removes the container that has a name, if it has ended and is to go for it.
    pub(super) fn free_name(&self, name: &str) -> Result<()> {
        if self.register.db.read(|tx| table::has_name(tx, name))? {
            // The look-up removes it; the insertion of the name tells whether the name is free then.
            let _ = self.find(name);
        }
        Ok(())
    }

    /// Renames a container.
    pub(crate) fn rename(&self, reference: &str, name: &str) -> Result<()> {
        if reference.is_empty() || name.is_empty() {
            return Err(Error::invalid("Neither old nor new names may be empty"));
        }
        let refused = |error: Error| error.context("Error when allocating new name");
        let (_busy, found) = self.take(reference, None)?;
        let name = check_name(name).map_err(refused)?;
        if name == found.row.name {
            return Err(Error::invalid("Renaming a container with the same name as its current name"));
        }
        self.free_name(name)?;
        self.register.db.write(Flush::Durable, |tx| table::rename(tx, &found.row.id, name)).map_err(refused)?;
        let old = format!("/{}", found.row.name);
        let mut renamed = found;
        Arc::make_mut(&mut renamed.row).name = name.to_owned();
        if renamed.now.is_live() {
            self.networks.rename(&renamed.row.id, name)?;
            // Its monitor tells events under the new name from now on. One that just ended tells none.
            if let Ok(control) = self.monitors.control(&renamed) {
                let _ = control.tell(Call::Attributes, start::attributes(&renamed).as_bytes());
            }
        }
        self.register.event(&renamed, "rename", &[("oldName", &old)])
    }
}

fn goes_by_itself(found: &Found) -> bool {
    found.spec.host_config.auto_remove
}

/// Takes all that the database has of a container out of it.
pub(crate) fn forget_row(tx: &rusqlite::Transaction<'_>, id: &str) -> Result<()> {
    table::delete(tx, id)?;
    crate::store::links::forget(tx, id)?;
    crate::network::leave(tx, id)
}
