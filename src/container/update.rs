//! Changing a container that exists: limits, at once where it runs, and the restart policy.

use super::planner::policy_words;
use super::spec::{Spec, restart_policy};
use super::state::{Verb, Way, may};
use super::{Finder, Groups, Monitors, Register, Snapshot};
use crate::error::{Error, Result};
use crate::kernel::process::{Sealed, sealed_memfd};
use crate::launch::cgroup;
use crate::launch::cgroup::{RequestKind, check, compile, update_writes};
use crate::launch::plan::compile_limits;
use crate::launch::{cdi, devices};
use crate::model::{Resources, UpdateContainer, Updated};
use crate::store::states::Now;
use crate::store::{Flush, containers as table};
use coracle_monitor::call::Call;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Changes the limits and the restart policies of containers.
pub(crate) struct Updater {
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) groups: Arc<Groups>,
    pub(super) finder: Arc<Finder>,
    pub(super) host: Arc<cgroup::HostFacts>,
}

impl Updater {
    /// Changes limits and restart policy: at once in a running container, at the next start in any other.
    pub(crate) fn update(&self, reference: &str, body: &UpdateContainer) -> Result<Updated> {
        let mut asked = changeable(&body.resources);
        let warnings = check(&mut asked, &self.host, RequestKind::AsChange)?;
        let policy = (!body.restart_policy.name.is_empty()).then_some(&body.restart_policy);
        policy.map(restart_policy).transpose()?;
        let (_busy, mut found) = self.finder.lock(reference, None)?;
        let prefix = |error: Error| error.context(format!("Cannot update container {}", found.row.id));
        if found.spec.host_config.auto_remove && policy.is_some_and(|policy| policy.name != "no") {
            let text = "Restart policy cannot be updated because AutoRemove is enabled for the container";
            return Err(prefix(Error::conflict(text)));
        }
        let (merged, change) = merge(&found.spec.host_config.resources, &asked).map_err(prefix)?;
        let host_config = found.spec.host_config.clone().changed(|host| {
            host.resources = merged;
            if let Some(policy) = policy {
                host.restart_policy = policy.clone();
            }
        })?;
        let later = Spec { host_config, ..Spec::clone(&found.spec) };
        let limits = self.limits(&later, &found).map_err(prefix)?;
        if is_grouped(&found.now) {
            self.limit_now(&found, &change).map_err(prefix)?;
        }
        let text = serde_json::to_string(&later).map_err(|e| Error::internal(format!("write a spec: {e}")))?;
        self.register.db.write(Flush::Durable, |tx| table::set_spec(tx, &found.row.id, &text))?;
        found.spec = later.into();
        self.notify_monitor(&found, &limits)?;
        // A start by the restart policy since the snapshot may have used the old limits; later starts have the new
        // ones.
        let now = self.register.states.now(found.row.slot, &found.row.id)?;
        if now.state.pid != found.now.state.pid && is_grouped(&now) {
            self.limit_now(&found, &change).map_err(prefix)?;
        }
        self.register.event(&found, "update", &[])?;
        Ok(Updated { warnings })
    }

    /// Changes the groups of a running container. If it has ended meanwhile, the groups are gone: this is not an error,
    /// because the next start makes them anew.
    fn limit_now(&self, found: &Snapshot, change: &Resources) -> Result<()> {
        let writes = update_writes(&self.groups.hierarchies, change)?;
        let until = Instant::now() + GONE;
        loop {
            let updated = self.groups.live_groups(found).and_then(|live| live.update(&writes));
            match updated {
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => {
                    if !is_grouped(&self.register.states.now(found.row.slot, &found.row.id)?) {
                        return Ok(());
                    }
                    if Instant::now() > until {
                        return Err(
                            error.context("its control groups are gone, and its monitor does not record the end")
                        );
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                other => return other,
            }
        }
    }

    /// All limits of a container in the form of its monitor. Errors: a limit that a start would refuse.
    fn limits(&self, spec: &Spec, found: &Snapshot) -> Result<Vec<u8>> {
        let (host, group) = (&spec.host_config, &self.groups.group(found));
        // A monitor restarts with the devices of the start. Any other container gets its devices at its next start.
        let edits = if found.now.is_live() { self.groups.devices_of_start(found)? } else { cdi::Edits::default() };
        let devices = devices::for_container(host.privileged, &host.resources, &edits.nodes)?;
        let groups = compile(&self.groups.hierarchies, &spec.cgroup_parent, group, &host.resources, &devices.rules)?;
        Ok(compile_limits(&groups))
    }

    /// Makes the monitor restart by the new policy and with the new limits. A monitor that has just ended restarts
    /// nothing any more; one of an older version keeps the limits of the start.
    fn notify_monitor(&self, found: &Snapshot, limits: &[u8]) -> Result<()> {
        let (name, bound) = policy_words(&found.spec);
        let limits = sealed_memfd("limits", limits, Sealed::Data)?;
        if found.now.is_live()
            && let Ok(control) = self.monitors.control(found)
        {
            let _ = control.ask(Call::Policy { name, bound }, None);
            let _ = control.hand(Call::Limits, limits.as_fd());
        }
        Ok(())
    }
}

/// How long a container without groups may still be recorded as running.
const GONE: Duration = Duration::from_millis(500);

/// Whether the container has control groups: it runs, frozen or not.
fn is_grouped(now: &Now) -> bool {
    may(Verb::Update, now.state.status()) == Ok(Way::Do)
}

/// The limits that an update may change; other members of its body are ignored, as by dockerd.
fn changeable(asked: &Resources) -> Resources {
    Resources {
        blkio_weight: asked.blkio_weight,
        cpu_shares: asked.cpu_shares,
        cpu_period: asked.cpu_period,
        cpu_quota: asked.cpu_quota,
        nano_cpus: asked.nano_cpus,
        cpuset_cpus: asked.cpuset_cpus.clone(),
        cpuset_mems: asked.cpuset_mems.clone(),
        memory: asked.memory,
        memory_swap: asked.memory_swap,
        memory_reservation: asked.memory_reservation,
        kernel_memory: asked.kernel_memory,
        pids_limit: asked.pids_limit,
        ..Resources::default()
    }
}

/// The resulting limits, and those that must be written: the requested ones, and the ones that the kernel takes
/// together with them.
fn merge(now: &Resources, asked: &Resources) -> Result<(Resources, Resources)> {
    cpus_in_one_form(now, asked)?;
    let mut merged = now.clone();
    if asked.memory != 0 {
        merged.memory = asked.memory;
        match (asked.memory_swap, now.memory_swap) {
            // Without a swap limit a container gets as much swap as memory, as at its creation.
            (0, 0) => merged.memory_swap = asked.memory.saturating_mul(2),
            (0, set) if set > 0 && asked.memory > set => {
                let text = "Memory limit should be smaller than already set memoryswap limit, update the memoryswap at \
                            the same time";
                return Err(Error::conflict(text));
            }
            _ => {}
        }
    }
    let keep = |value: &mut i64, asked: i64| {
        if asked != 0 {
            *value = asked;
        }
    };
    keep(&mut merged.memory_swap, asked.memory_swap);
    keep(&mut merged.memory_reservation, asked.memory_reservation);
    merged.kernel_memory = asked.kernel_memory.filter(|bytes| *bytes != 0).or(merged.kernel_memory);
    keep(&mut merged.cpu_shares, asked.cpu_shares);
    keep(&mut merged.cpu_period, asked.cpu_period);
    keep(&mut merged.cpu_quota, asked.cpu_quota);
    keep(&mut merged.nano_cpus, asked.nano_cpus);
    keep(&mut merged.pids_limit, asked.pids_limit);
    if asked.blkio_weight != 0 {
        merged.blkio_weight = asked.blkio_weight;
    }
    for (value, asked) in [(&mut merged.cpuset_cpus, &asked.cpuset_cpus), (&mut merged.cpuset_mems, &asked.cpuset_mems)]
    {
        if !asked.is_empty() {
            value.clone_from(asked);
        }
    }
    let mut change = asked.clone();
    if asked.memory != 0 || asked.memory_swap != 0 {
        (change.memory, change.memory_swap) = (merged.memory, merged.memory_swap);
    }
    if asked.cpu_period != 0 || asked.cpu_quota != 0 {
        (change.cpu_period, change.cpu_quota) = (merged.cpu_period, merged.cpu_quota);
    }
    // To the kernel -1 means unlimited; the record has 0.
    merged.pids_limit = merged.pids_limit.max(0);
    Ok((merged, change))
}

/// A CPU quota is given in CPUs or in microseconds, and keeps that unit.
fn cpus_in_one_form(now: &Resources, asked: &Resources) -> Result<()> {
    let clashes = [
        (asked.nano_cpus > 0 && now.cpu_period > 0, "Nano CPUs cannot be updated as CPU Period has already been set"),
        (asked.nano_cpus > 0 && now.cpu_quota > 0, "Nano CPUs cannot be updated as CPU Quota has already been set"),
        (asked.cpu_period > 0 && now.nano_cpus > 0, "CPU Period cannot be updated as NanoCPUs has already been set"),
        (asked.cpu_quota > 0 && now.nano_cpus > 0, "CPU Quota cannot be updated as NanoCPUs has already been set"),
    ];
    match clashes.iter().find(|(clash, _)| *clash) {
        Some((_, what)) => Err(Error::conflict(format!("Conflicting options: {what}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: i64 = 1 << 20;

    fn merged(now: Resources, asked: Resources) -> (Resources, Resources) {
        merge(&now, &asked).unwrap()
    }

    #[test]
    fn an_update_keeps_omitted_resources() {
        let now = Resources { memory: 64 * MB, memory_swap: 128 * MB, cpu_shares: 5, ..Resources::default() };
        let (merged, change) = merged(now.clone(), Resources { cpuset_cpus: "0".into(), ..Resources::default() });
        assert_eq!(merged, Resources { cpuset_cpus: "0".into(), ..now });
        assert_eq!(change, Resources { cpuset_cpus: "0".into(), ..Resources::default() });
    }

    #[test]
    fn memory_and_swap_go_together() {
        let now = Resources { memory: 64 * MB, memory_swap: 128 * MB, ..Resources::default() };
        let (to, change) = merged(now.clone(), Resources { memory: 32 * MB, ..Resources::default() });
        assert_eq!((to.memory, to.memory_swap), (32 * MB, 128 * MB));
        assert_eq!((change.memory, change.memory_swap), (32 * MB, 128 * MB));
        let error = merge(&now, &Resources { memory: 256 * MB, ..Resources::default() }).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Conflict);
        let (to, _) = merged(now, Resources { memory: 256 * MB, memory_swap: -1, ..Resources::default() });
        assert_eq!((to.memory, to.memory_swap), (256 * MB, -1));
        let (to, _) = merged(Resources::default(), Resources { memory: 32 * MB, ..Resources::default() });
        assert_eq!(to.memory_swap, 64 * MB);
    }

    #[test]
    fn no_bound_is_written_but_not_kept() {
        let now = Resources { pids_limit: 5, ..Resources::default() };
        let (to, change) = merged(now, Resources { pids_limit: -1, ..Resources::default() });
        assert_eq!((to.pids_limit, change.pids_limit), (0, -1));
    }

    #[test]
    fn other_fields_count_for_nothing() {
        let asked = Resources { oom_kill_disable: Some(true), memory_swappiness: Some(5), ..Resources::default() };
        assert_eq!(changeable(&asked), Resources::default());
    }
}
