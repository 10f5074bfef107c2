//! The files of cgroup v1.

use super::{DeviceRules, Group, Hierarchy, Limits, OnError, PerDevice, Write, parents};
use crate::error::{Error, Result};
use crate::walls::Wall;
use std::fs;
use std::path::Path;

/// All values for a group of this hierarchy.
pub(super) fn fill(
    hierarchy: &Hierarchy,
    path: &Path,
    limits: &Limits,
    devices: &DeviceRules,
    group: &mut Group,
) -> Result<()> {
    if hierarchy.has("cpuset") {
        inherit_cpuset(hierarchy, path, limits, group)?;
    }
    if hierarchy.has("devices") && Wall::DeviceRules.stands() {
        device_lines(devices, &mut group.writes);
    }
    self::limits(hierarchy, limits, &mut group.writes);
    Ok(())
}

/// The limits alone, for a new group or for a change of a live one.
pub(super) fn limits(hierarchy: &Hierarchy, limits: &Limits, writes: &mut Vec<Write>) {
    if hierarchy.has("cpuset") {
        writes.extend(limits.cpus.iter().map(|cpus| Write::must("cpuset.cpus", cpus)));
        writes.extend(limits.mems.iter().map(|mems| Write::must("cpuset.mems", mems)));
    }
    if hierarchy.has("memory") {
        memory(limits, writes);
    }
    if hierarchy.has("cpu") {
        writes.extend(limits.cpu_shares.map(|shares| Write::must("cpu.shares", shares)));
        writes.extend(limits.cpu_period.map(|period| Write::must("cpu.cfs_period_us", period)));
        writes.extend(limits.cpu_quota.map(|quota| Write::must("cpu.cfs_quota_us", quota.max(-1))));
    }
    if hierarchy.has("blkio") {
        blkio(hierarchy, limits, writes);
    }
    if hierarchy.has("pids") {
        writes.extend(limits.pids.map(|pids| Write::must("pids.max", max_or(pids))));
    }
}

fn memory(limits: &Limits, writes: &mut Vec<Write>) {
    // Deprecated: since 5.16 the kernel accepts the value and ignores it.
    writes.extend(limits.kernel_memory.map(|bytes| Write::may("memory.kmem.limit_in_bytes", bytes)));
    writes.extend(limits.memory.map(|bytes| Write::must("memory.limit_in_bytes", bytes)));
    if let Some(bytes) = limits.swap {
        let on_error = if limits.swap_asked && bytes > 0 { OnError::Fail } else { OnError::Ignore };
        writes.push(Write { file: "memory.memsw.limit_in_bytes".into(), value: bytes.to_string(), on_error });
    }
    writes.extend(limits.reservation.map(|bytes| Write::must("memory.soft_limit_in_bytes", bytes)));
    writes.extend(limits.swappiness.map(|value| Write::must("memory.swappiness", value)));
    writes.extend(limits.oom_kill_disable.map(|disable| match disable {
        true => Write::must("memory.oom_control", 1),
        false => Write::may("memory.oom_control", 0),
    }));
}

fn blkio(hierarchy: &Hierarchy, limits: &Limits, writes: &mut Vec<Write>) {
    if limits.blkio_weight.is_some() || !limits.blkio_weights.is_empty() {
        let kind = if hierarchy.offers("blkio.weight") { "" } else { "bfq." };
        writes.extend(limits.blkio_weight.map(|weight| Write::must(format!("blkio.{kind}weight"), weight)));
        per_device(&format!("blkio.{kind}weight_device"), &limits.blkio_weights, writes);
    }
    let files = ["read_bps", "write_bps", "read_iops", "write_iops"];
    for (file, rates) in files.iter().zip(limits.throttles()) {
        per_device(&format!("blkio.throttle.{file}_device"), rates, writes);
    }
}

fn per_device<T: ToString>(file: &str, values: &[PerDevice<T>], writes: &mut Vec<Write>) {
    for ((major, minor), value) in values {
        writes.push(Write::must(file, format!("{major}:{minor} {}", value.to_string())));
    }
}

fn max_or(limit: i64) -> String {
    if limit < 0 { "max".into() } else { limit.to_string() }
}

/// Refuse all, then allow one by one. A new group inherits its parent's rules, so one without restrictions needs a line
/// only if the parent is restricted, and then the kernel may refuse it.
fn device_lines(devices: &DeviceRules, writes: &mut Vec<Write>) {
    if devices.default_allow {
        writes.push(Write::may("devices.allow", "a"));
        return;
    }
    writes.push(Write::must("devices.deny", "a"));
    writes.extend(devices.allow.iter().map(|rule| Write::must("devices.allow", rule)));
}

/// A v1 cpuset group starts without CPUs and memory nodes and accepts no process until it has both. Values that were
/// not requested come from the nearest group above that has a value, and the empty groups between get them too.
fn inherit_cpuset(hierarchy: &Hierarchy, path: &Path, limits: &Limits, group: &mut Group) -> Result<()> {
    for (file, asked) in [("cpuset.cpus", &limits.cpus), ("cpuset.mems", &limits.mems)] {
        let mut value = read(&hierarchy.mount.join(file))
            .ok_or_else(|| Error::unsupported(format!("{} holds no value", hierarchy.mount.join(file).display())))?;
        for parent in parents(path) {
            match read(&hierarchy.mount.join(parent).join(file)) {
                Some(own) => value = own,
                None => group.parent_writes.push(Write::must(parent.join(file).to_string_lossy(), &value)),
            }
        }
        if asked.is_none() {
            group.writes.push(Write::must(file, value));
        }
    }
    Ok(())
}

fn read(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
