//! After crashes and reboots: what they left is put right by the next open, or by whoever meets it first.

use super::spec::{self, RestartPolicy};
use super::{BuildSteps, Connections, Finder, Places, Register, Removals, Snapshot, Starter, dirs};
use crate::error::Result;
use crate::hex::is_hex_id;
use crate::kernel::quota;
use crate::network::Networks;
use crate::options::Options;
use crate::store::containers as table;
use crate::store::states::id_head;
use coracle_monitor::wire::*;
use std::collections::HashSet;
use std::sync::Arc;

/// Whether the restart policy asks for a start after a boot: of those that a stop by hand ended, `always` alone does.
fn starts_after_boot(found: &Snapshot) -> bool {
    let state = &found.now.state;
    let manual = state.flags & STATE_MANUAL != 0;
    match spec::restart_policy(&found.spec.host_config.restart_policy) {
        Ok(RestartPolicy::Always) => true,
        Ok(RestartPolicy::UnlessStopped) => !manual,
        Ok(RestartPolicy::OnFailure { max }) => state.exit_code != 0 && max.is_none_or(|max| state.restarts < max),
        Ok(RestartPolicy::No) | Err(_) => false,
    }
}

/// Puts right what crashes and reboots left.
pub(crate) struct Recovery {
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) removals: Arc<Removals>,
    pub(super) finder: Arc<Finder>,
    pub(super) starter: Arc<Starter>,
    pub(super) connections: Arc<Connections>,
    pub(super) build_steps: Arc<BuildSteps>,
    pub(super) networks: Arc<Networks>,
    pub(super) options: Arc<Options>,
}

impl Recovery {
    /// Every open looks: the ends of containers whose monitors are gone are recorded, records of an earlier boot are brought into this
    /// one, leftovers are swept. An engine that starts containers after a boot does so once a boot, whoever came before.
    pub(super) fn recover(&self) -> Result<()> {
        self.sweep()?;
        self.removals.end_lost_removals()?;
        // Running containers go on as they are; a host on which nothing can be put back says so at the next start.
        let _ = self.networks.heal();
        let _ = self.connections.undo_connects();
        let starts = self.options.restart_containers;
        let mut wanted = Vec::new();
        let slots = self.register.db.read(table::slots)?;
        let states = self.register.states.glance()?;
        for (id, slot) in slots {
            let now = self.register.states.now_in(&states, slot, &id)?;
            let waits = now.state.flags & STATE_AFTER_BOOT != 0;
            if !(now.lost || now.stale || starts && waits) {
                continue;
            }
            // Removed meanwhile, or broken: no reason not to open.
            let Ok((_busy, found)) = self.finder.take(&id, None) else { continue };
            let mut state = found.now.state;
            if found.now.stale && state.started_ns != 0 {
                state.flags |= STATE_AFTER_BOOT;
            }
            if found.now.rebooted {
                state.finished_ns = super::now_ns();
            }
            if starts && state.flags & STATE_AFTER_BOOT != 0 {
                state.flags &= !STATE_AFTER_BOOT;
                wanted.extend(starts_after_boot(&found).then(|| found.row.id.clone()));
            }
            if found.now.stale || state != found.now.state {
                self.register.states.write(found.row.slot, State { id: id_head(&found.row.id), ..state })?;
            }
        }
        self.build_steps.end_lost_builds()?;
        for id in wanted {
            // One that does not start keeps the reason in its record, and does not keep the others from starting.
            let _ = self.starter.start(&id, None, (0, 0), None);
        }
        Ok(())
    }

    /// Removes directories that belong to nobody: of creations that were cut short, and of removals. What cannot be
    /// removed now is noted.
    pub(crate) fn sweep(&self) -> Result<()> {
        let parents = [self.places.root.join("containers"), self.places.claim.run.join("c")];
        let found = parents.iter().map(|parent| dirs::names(parent)).collect::<Result<Vec<_>>>()?;
        // After the directories: whose row came between the two looks is known.
        let known: HashSet<String> = self.register.db.read(table::slots)?.into_iter().map(|(id, _)| id).collect();
        for (parent, names) in parents.iter().zip(found) {
            for id in names.iter().filter(|id| !known.contains(*id)) {
                if self.is_nobodys(id)? {
                    let dir = parent.join(id);
                    let project = quota::project_of(&dir.join("upper")).ok().filter(|project| *project != 0);
                    self.removals.remove_dir(dir, project, dirs::remove)?;
                }
            }
        }
        Ok(())
    }

    /// Whether nobody is at work on the one that had no row a moment ago, and there still is none. A maker locks, makes
    /// the directories, adds the row and unlocks: not locked and then no row means that there is none to come.
    fn is_nobodys(&self, id: &str) -> Result<bool> {
        let known = || self.register.db.read(|tx| table::is_there(tx, id));
        Ok(is_hex_id(id) && !self.register.states.is_being_made(id)? && !known()?)
    }

    /// Records the end of every container whose monitor was killed. Failures are retried by the next look-up of the container.
    pub(crate) fn reap_crashed(&self) {
        for head in self.register.states.lost().unwrap_or_default() {
            let _ = self.finder.take(&head, None);
        }
    }
}
