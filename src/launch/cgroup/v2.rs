//! The files of cgroup v2, and the conversion of the API's values, which are those of v1.

use super::hierarchy::words_of;
use super::{Group, Hierarchy, Limits, Write, parents};
use crate::error::{Error, Result};
use std::path::Path;

/// The controllers that a container's group needs.
const WANTED: [&str; 5] = ["cpuset", "cpu", "io", "memory", "pids"];

/// All values for a group of this hierarchy.
///
/// # Errors
/// As [`limits`].
pub(super) fn fill(hierarchy: &Hierarchy, path: &Path, limits: &Limits, group: &mut Group) -> Result<()> {
    delegate(hierarchy, path, group);
    self::limits(hierarchy, limits, &mut group.writes)
}

/// The limits alone, for a new group or for a change of a live one.
///
/// # Errors
/// A limit that this hierarchy cannot express.
pub(super) fn limits(hierarchy: &Hierarchy, limits: &Limits, writes: &mut Vec<Write>) -> Result<()> {
    if hierarchy.has("cpuset") {
        writes.extend(limits.cpus.iter().map(|cpus| Write::must("cpuset.cpus", cpus)));
        writes.extend(limits.mems.iter().map(|mems| Write::must("cpuset.mems", mems)));
    }
    if hierarchy.has("memory") {
        memory(limits, writes)?;
    }
    if hierarchy.has("cpu") {
        writes.extend(limits.cpu_shares.map(|shares| Write::must("cpu.weight", weight_of_shares(shares))));
        writes.extend(cpu_max(limits).map(|value| Write::must("cpu.max", value)));
    }
    if hierarchy.has("io") {
        io(hierarchy, limits, writes);
    }
    if hierarchy.has("pids") {
        let value = |pids: i64| if pids < 0 { "max".into() } else { pids.to_string() };
        writes.extend(limits.pids.map(|pids| Write::must("pids.max", value(pids))));
    }
    Ok(())
}

/// Turns the controllers on for the children of every group from the root down to the container's parent. Each
/// controller gets its own write, so that a refused one does not affect the others; a limit that then lacks its file
/// fails by itself.
fn delegate(hierarchy: &Hierarchy, path: &Path, group: &mut Group) {
    for parent in [Path::new("")].into_iter().chain(parents(path)) {
        let file = parent.join("cgroup.subtree_control");
        let on = words_of(&hierarchy.mount.join(&file));
        for controller in WANTED.iter().filter(|name| hierarchy.has(name) && !on.iter().any(|one| one == *name)) {
            group.parent_writes.push(Write::may(file.to_string_lossy(), format!("+{controller}")));
        }
    }
}

fn memory(limits: &Limits, writes: &mut Vec<Write>) -> Result<()> {
    writes.extend(limits.memory.map(|bytes| Write::must("memory.max", bytes)));
    match (limits.swap, limits.memory) {
        (Some(total), Some(memory)) if total > 0 => {
            // The API counts memory and swap together, the kernel swap alone.
            let swap = total.saturating_sub(memory).max(0);
            writes.push(match limits.swap_asked {
                true => Write::must("memory.swap.max", swap),
                false => Write::may("memory.swap.max", swap),
            });
        }
        // The share of swap in the sum is unknown.
        (Some(total), None) if total > 0 => {
            return Err(Error::internal("unable to set swap limit without memory limit"));
        }
        (Some(_), _) => writes.push(Write::may("memory.swap.max", "max")),
        (None, _) => {}
    }
    writes.extend(limits.reservation.map(|bytes| Write::must("memory.low", bytes)));
    Ok(())
}

fn cpu_max(limits: &Limits) -> Option<String> {
    match (limits.cpu_quota, limits.cpu_period) {
        (None, None) => None,
        (quota, period) => {
            let quota = quota.filter(|quota| *quota > 0).map_or("max".into(), |quota| quota.to_string());
            Some(format!("{quota} {}", period.unwrap_or(100_000)))
        }
    }
}

/// The weight (1 to 10000, default 100) for shares (2 to 262144, default 1024). The curve that the OCI runtimes agreed
/// on maps all three pairs exactly; the earlier straight line mapped the default to 39.
fn weight_of_shares(shares: u64) -> u64 {
    let log = (shares.clamp(2, 262_144) as f64).log2();
    let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
    // The subtraction guards against a rounding error that would lift 100 to 101.
    ((10f64.powf(exponent) - 1e-9).ceil() as u64).clamp(1, 10_000)
}

/// BFQ takes the API's weight unchanged; the general file has its own range, 1 to 10000 for 10 to 1000.
fn io(hierarchy: &Hierarchy, limits: &Limits, writes: &mut Vec<Write>) {
    if limits.blkio_weight.is_some() || !limits.blkio_weights.is_empty() {
        let bfq = hierarchy.offers("io.bfq.weight");
        let file = if bfq { "io.bfq.weight" } else { "io.weight" };
        let scale = |weight: u16| match (bfq, u64::from(weight)) {
            (true, weight) => weight,
            (false, weight) => 1 + weight.saturating_sub(10) * 9999 / 990,
        };
        writes.extend(limits.blkio_weight.map(|weight| Write::must(file, scale(weight))));
        for ((major, minor), weight) in &limits.blkio_weights {
            writes.push(Write::must(file, format!("{major}:{minor} {}", scale(*weight))));
        }
    }
    for (key, rates) in ["rbps", "wbps", "riops", "wiops"].iter().zip(limits.throttles()) {
        for ((major, minor), rate) in rates {
            // 0 removes a limit, as in the v1 files.
            let rate = if *rate == 0 { "max".into() } else { rate.to_string() };
            writes.push(Write::must("io.max", format!("{major}:{minor} {key}={rate}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_weights() {
        let pairs = [(0, 1), (2, 1), (1024, 100), (262_144, 10_000), (u64::MAX, 10_000)];
        for (shares, weight) in pairs {
            assert_eq!(weight_of_shares(shares), weight, "{shares}");
        }
        assert!((2..10_000).is_sorted_by_key(weight_of_shares));
    }
}
