//! Recovery after crashes and reboots: the next open, or the first call that finds an affected container, repairs the
//! state.

use super::spec::RestartPolicy;
use super::{BuildSteps, Connections, Finder, Places, Register, Removals, Snapshot, Starter, delivery, dirs};
use crate::error::Result;
use crate::hex::is_hex_id;
use crate::kernel::quota;
use crate::network::Networks;
use crate::notes::{LogLevel, note};
use crate::options::Options;
use crate::plugin::MANAGED;
use crate::store::containers as table;
use crate::store::states::{STATE_AFTER_BOOT, STATE_MANUAL, State, id_head};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// Whether the restart policy asks for a start after a boot. Containers that a user stopped need the policy `always`.
fn starts_after_boot(found: &Snapshot) -> bool {
    // Nobody held its lease over the boot.
    if found.spec.lease.is_some() {
        return false;
    }
    let state = &found.now.state;
    let manual = state.flags & STATE_MANUAL != 0;
    match found.spec.host_config.restart() {
        RestartPolicy::Always => true,
        RestartPolicy::UnlessStopped => !manual,
        RestartPolicy::OnFailure { max } => state.exit_code != 0 && max.is_none_or(|max| state.restarts < max),
        RestartPolicy::No => false,
    }
}

/// Repairs the consequences of crashes and reboots.
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
    /// Runs at every open: records the ends of containers whose monitors are gone, carries records of an earlier boot
    /// over, removes leftovers. An engine that starts containers after a boot does so once for each boot, even if other
    /// engines opened the root before: plugins here; the answer is the containers for [`Recovery::start_after_boot`].
    pub(super) fn recover(&self) -> Result<Vec<String>> {
        self.sweep()?;
        self.removals.end_lost_removals()?;
        // Running containers continue. If the firewall cannot be repaired on this host, the next start reports it.
        let _ = self.networks.recovery.reconcile();
        let _ = self.connections.undo_connects();
        let starts = self.options.restart_containers;
        // Containers need plugins, so plugins start first: also those that get a new container when the plugins are opened.
        let (mut plugins, mut wanted) = (Vec::new(), Vec::new());
        let slots = self.register.db.read(table::slots)?;
        let states = self.register.states.glance()?;
        for (id, slot) in slots {
            let now = self.register.states.now_in(&states, slot, &id)?;
            let waits = now.state.flags & STATE_AFTER_BOOT != 0;
            if !(now.lost || now.stale || starts && waits) {
                continue;
            }
            // The container was removed meanwhile, or is damaged: the open goes on.
            let Ok((_busy, found)) = self.finder.lock(&id, None) else { continue };
            let mut state = found.now.state;
            if found.now.stale && state.started_ns != 0 {
                state.flags |= STATE_AFTER_BOOT;
            }
            if found.now.rebooted {
                state.finished_ns = super::now_ns();
            }
            if starts && state.flags & STATE_AFTER_BOOT != 0 {
                let list = if found.spec.plugin.is_some() { &mut plugins } else { &mut wanted };
                // A container that is to start keeps the flag until its start: an open that fails leaves the start to the next one.
                match starts_after_boot(&found) && self.is_at_home(&found) {
                    true => list.push(found.row.id.clone()),
                    false => state.flags &= !STATE_AFTER_BOOT,
                }
            }
            if found.now.stale || state != found.now.state {
                self.register.states.write(found.row.slot, State { id: id_head(&found.row.id), ..state })?;
            }
        }
        self.build_steps.end_lost_builds()?;
        self.start_after_boot(plugins);
        Ok(wanted)
    }

    /// Starts containers that ran before the boot, each once.
    pub(crate) fn start_after_boot(&self, ids: Vec<String>) {
        for id in ids {
            // If a container does not start, its record keeps the reason, and the others still start.
            let _ = self.starter.start_after_boot(&id);
        }
    }

    /// Whether the container is not a plugin's that was made before the root or the run directory was moved: its mounts would be those of
    /// another root. Such a plugin gets a new container when the plugins are opened.
    fn is_at_home(&self, found: &Snapshot) -> bool {
        let Some(plugin) = &found.spec.plugin else { return true };
        let own = [self.places.root.join(MANAGED), self.places.claim.run.join(MANAGED)];
        let short = plugin.get(..16).unwrap_or(plugin);
        let mut engines = found.spec.mounts.iter().map(|mount| Path::new(&mount.source)).filter(|source| {
            source.iter().any(|part| part == MANAGED)
                && source.iter().any(|part| part.to_str().is_some_and(|part| part.starts_with(short)))
        });
        engines.all(|source| own.iter().any(|dir| source.starts_with(dir)))
    }

    /// Removes directories that belong to no container: those of interrupted creates and removals. Directories that
    /// cannot be removed now are noted.
    pub(crate) fn sweep(&self) -> Result<()> {
        self.register.leases.sweep()?;
        let parents = [self.places.root.join("containers"), self.places.claim.run.join("c")];
        let found = parents.iter().map(|parent| dirs::names(parent)).collect::<Result<Vec<_>>>()?;
        // Read after the directories, so that a row that was added between the two reads is known.
        let known: HashSet<String> = self.register.db.read(table::slots)?.into_iter().map(|(id, _)| id).collect();
        for (parent, names) in parents.iter().zip(found) {
            for id in names.iter().filter(|id| !known.contains(*id)) {
                if self.is_nobodys(id)? {
                    let dir = parent.join(id);
                    note(LogLevel::Info, "store", Some(id), || format!("sweep {}", dir.display()));
                    delivery::hand_over(&self.places, id);
                    let project = quota::project_of(&dir.join("upper")).ok().filter(|project| *project != 0);
                    self.removals.remove_dir(dir, project, dirs::remove)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a directory still belongs to no container and no call. A create locks, makes the directories, adds the
    /// row and unlocks: unlocked and afterwards without a row means that no row will come.
    fn is_nobodys(&self, id: &str) -> Result<bool> {
        let known = || self.register.db.read(|tx| table::is_there(tx, id));
        Ok(is_hex_id(id) && !self.register.states.locks.is_being_made(id)? && !known()?)
    }

    /// Records the end of every container whose monitor was killed. Failures are retried by the next look-up of the container.
    pub(crate) fn reap_crashed(&self) {
        for head in self.register.states.lost().unwrap_or_default() {
            let _ = self.finder.lock(&head, None);
        }
    }
}
