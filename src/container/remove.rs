//! Removing and renaming.

use super::names::check_name;
use super::state::{Verb, Way, decide};
use super::{Finder, HostFiles, Monitors, Register, Removals, Snapshot, Stopper, Views, planner};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Filters, ListContainers, PruneFilter, PrunedContainers, RemoveContainer};
use crate::network::Networks;
use crate::op::Op;
use crate::store::{Flush, containers as table};
use coracle_monitor::call::Call;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a removal by force keeps ending a container that other programs start again.
const REMOVAL: Duration = Duration::from_secs(60);

/// Removes and renames containers.
pub(crate) struct Remover {
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) removals: Arc<Removals>,
    pub(super) finder: Arc<Finder>,
    pub(super) host_files: Arc<HostFiles>,
    pub(super) stopper: Arc<Stopper>,
    pub(super) views: Arc<Views>,
    pub(super) networks: Arc<Networks>,
}

impl Remover {
    /// Removes a container; a running one only with force.
    pub(crate) fn remove(&self, reference: &str, how: RemoveContainer, op: Option<&Op>) -> Result<()> {
        if how.link {
            return self.host_files.remove_link(reference);
        }
        let until = Instant::now() + REMOVAL;
        let mut ended: Option<Snapshot> = None;
        loop {
            let reference = ended.as_ref().map_or(reference, |found| &found.row.id);
            let (busy, found) = match (self.finder.lock_any(reference, op), &ended) {
                // The program that followed the container's end has removed it first.
                (Err(error), Some(ended)) if error.kind() == ErrorKind::NotFound && goes_by_itself(ended) => {
                    return Ok(());
                }
                (taken, _) => taken?,
            };
            let verb = if how.force { Verb::RemoveByForce } else { Verb::Remove };
            if decide(verb, &found)? == Way::Do {
                return self.removals.remove_taken(busy, &found, how.volumes || goes_by_itself(&found));
            }
            // The lock is released: the end must be awaited, and another program may start the container meanwhile.
            drop(busy);
            if Instant::now() > until {
                return Err(Error::conflict(format!(
                    "Cannot remove container {}: it runs again each time that it was ended, for {REMOVAL:?} now",
                    found.row.id
                )));
            }
            self.stopper.kill_live(&found, op)?;
            // Waits until the end is recorded.
            self.monitors.has_ended(&found)?;
            ended = Some(found);
        }
    }

    /// Removes the stopped containers. A container that another program starts or removes meanwhile is skipped.
    pub(crate) fn prune(&self, filters: &Filters, op: Option<&Op>) -> Result<PrunedContainers> {
        let (mut chosen, mut filter) = (filters.clone(), PruneFilter::default());
        for key in ["until", "label!"] {
            if let Some(values) = chosen.remove(key) {
                filter.take(key, &values)?;
            }
        }
        let query = ListContainers { all: true, size: true, filters: chosen, ..ListContainers::default() };
        let mut pruned = PrunedContainers::default();
        for container in self.views.list(&query)? {
            op.map_or(Ok(()), Op::check)?;
            if !matches!(container.state.as_str(), "created" | "exited" | "dead") {
                continue;
            }
            let created = match self.finder.find_any(&container.id) {
                Ok(found) => found.row.created_ns,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if !filter.takes(created, &container.labels) {
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

    /// Renames a container.
    pub(crate) fn rename(&self, reference: &str, name: &str) -> Result<()> {
        if reference.is_empty() || name.is_empty() {
            return Err(Error::invalid("Neither old nor new names may be empty"));
        }
        let refused = |error: Error| error.context("Error when allocating new name");
        let (_busy, found) = self.finder.lock(reference, None)?;
        let name = check_name(name).map_err(refused)?;
        if name == found.row.name {
            return Err(Error::invalid("Renaming a container with the same name as its current name"));
        }
        self.finder.free_name(name)?;
        self.register.db.write(Flush::Durable, |tx| table::rename(tx, &found.row.id, name)).map_err(refused)?;
        let old = format!("/{}", found.row.name);
        let mut renamed = found;
        Arc::make_mut(&mut renamed.row).name = name.to_owned();
        if renamed.now.is_live() {
            self.networks.names.rename(&renamed.row.id, name)?;
            // The monitor writes events under the new name from now on. A monitor that has just ended writes none.
            if let Ok(control) = self.monitors.control(&renamed) {
                let _ = control.ask_with_text(Call::Attributes, planner::attributes(&renamed).as_bytes());
            }
        }
        self.register.event(&renamed, "rename", &[("oldName", &old)])
    }
}

fn goes_by_itself(found: &Snapshot) -> bool {
    found.spec.host_config.auto_remove
}

/// Deletes all rows of a container.
pub(crate) fn forget_row(tx: &rusqlite::Transaction<'_>, id: &str) -> Result<()> {
    table::delete(tx, id)?;
    crate::store::links::forget(tx, id)?;
    crate::network::leave(tx, id)
}
