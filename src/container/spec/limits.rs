//! Limits: their ranges, and what this host cannot do (dropped with a warning).

use super::HostFacts;
use crate::error::{Error, Result};
use crate::model::Resources;
use std::collections::BTreeSet;

/// The smallest memory limit with which a process can be started.
const MIN_MEMORY: i64 = 6 << 20;
/// The largest CPU number that a list may name, whatever the host has.
const MAX_CPU: u32 = 8192;

/// Checks the limits, drops those that the host does not support, sets the defaults; answers the warnings.
pub(super) fn apply(limits: &mut Resources, host: &HostFacts) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    memory(limits, host, &mut warnings)?;
    kernel_memory(limits, host, &mut warnings)?;
    oom_and_pids(limits, host, &mut warnings);
    cpu(limits, host, &mut warnings)?;
    cpuset(limits, host, &mut warnings)?;
    blkio(limits, host, &mut warnings)?;
    Ok(warnings)
}

fn memory(limits: &mut Resources, host: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    if limits.memory != 0 && limits.memory < MIN_MEMORY {
        return Err(Error::invalid("Minimum memory limit allowed is 6MB"));
    }
    if limits.memory > 0 && !host.memory_limit {
        warn(warnings, "memory limit capabilities or the cgroup is not mounted. Limitation discarded.");
        (limits.memory, limits.memory_swap) = (0, -1);
    }
    if limits.memory > 0 && limits.memory_swap >= 0 && !host.swap_limit {
        warn(warnings, "swap limit capabilities or the cgroup is not mounted. Memory limited without swap.");
        limits.memory_swap = -1;
    }
    if limits.memory > 0 && limits.memory_swap > 0 && limits.memory_swap < limits.memory {
        return Err(Error::invalid("Minimum memoryswap limit should be larger than memory limit, see usage"));
    }
    if limits.memory == 0 && limits.memory_swap > 0 {
        return Err(Error::invalid("You should always set the Memory limit when using Memoryswap limit, see usage"));
    }
    if limits.memory > 0 && limits.memory_swap == 0 {
        limits.memory_swap = limits.memory.saturating_mul(2);
    }
    swappiness(limits, host, warnings)?;
    if limits.memory_reservation > 0 && !host.memory_reservation {
        warn(warnings, "memory soft limit capabilities or the cgroup is not mounted. Limitation discarded.");
        limits.memory_reservation = 0;
    }
    if limits.memory_reservation > 0 && limits.memory_reservation < MIN_MEMORY {
        return Err(Error::invalid("Minimum memory reservation allowed is 6MB"));
    }
    if limits.memory > 0 && limits.memory < limits.memory_reservation {
        return Err(Error::invalid("Minimum memory limit can not be less than memory reservation limit, see usage"));
    }
    Ok(())
}

/// -1 is "leave it", also as the answer of inspect.
fn swappiness(limits: &mut Resources, host: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    let value = limits.memory_swappiness.unwrap_or(-1);
    if value != -1 && !(0..=100).contains(&value) {
        return Err(Error::invalid(format!("Invalid value: {value}, valid memory swappiness range is 0-100")));
    }
    limits.memory_swappiness = Some(value);
    if value != -1 && !host.memory_swappiness {
        warn(warnings, "memory swappiness capabilities or the cgroup is not mounted. Memory swappiness discarded.");
        limits.memory_swappiness = Some(-1);
    }
    Ok(())
}

fn kernel_memory(limits: &mut Resources, host: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    if limits.kernel_memory <= 0 {
        return Ok(());
    }
    if limits.kernel_memory < MIN_MEMORY {
        return Err(Error::invalid("Minimum kernel memory limit allowed is 6MB"));
    }
    if !host.kernel_memory {
        warn(warnings, "kernel memory limit capabilities or the cgroup is not mounted. Limitation discarded.");
        limits.kernel_memory = 0;
    }
    Ok(())
}

fn oom_and_pids(limits: &mut Resources, host: &HostFacts, warnings: &mut Vec<String>) {
    let disable = limits.oom_kill_disable.unwrap_or(false);
    limits.oom_kill_disable = Some(disable && host.oom_kill_disable);
    if disable && !host.oom_kill_disable {
        warn(warnings, "OomKillDisable. OomKillDisable discarded.");
    } else if disable && limits.memory == 0 {
        warnings.push(
            "OOM killer is disabled for the container, but no memory limit is set, this can result in the system \
             running out of resources."
                .into(),
        );
    }
    if limits.pids_limit > 0 && !host.pids_limit {
        warn(warnings, "PIDs limit capabilities or the cgroup is not mounted. PIDs limit discarded.");
        limits.pids_limit = 0;
    }
}

fn cpu(limits: &mut Resources, host: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    if limits.cpu_shares < 0 {
        return Err(Error::invalid("CpuShares: shares: invalid argument"));
    }
    if limits.cpu_shares > 0 && !host.cpu_shares {
        warn(warnings, "CPU shares or the cgroup is not mounted. Shares discarded.");
        limits.cpu_shares = 0;
    }
    if limits.cpu_period != 0 && !(1000..=1_000_000).contains(&limits.cpu_period) {
        return Err(Error::invalid(
            "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)",
        ));
    }
    if limits.cpu_quota > 0 && limits.cpu_quota < 1000 {
        return Err(Error::invalid("CPU cfs quota can not be less than 1ms (i.e. 1000)"));
    }
    if (limits.cpu_period != 0 || limits.cpu_quota != 0) && !host.cpu_cfs {
        warn(warnings, "CPU CFS scheduler or the cgroup is not mounted. CPU period/quota discarded.");
        (limits.cpu_period, limits.cpu_quota) = (0, 0);
    }
    for (value, name) in [(&mut limits.cpu_percent, "percent. Percent"), (&mut limits.cpu_count, "count. Count")] {
        if *value != 0 {
            warnings.push(format!("linux does not support CPU {name} discarded."));
            *value = 0;
        }
    }
    Ok(())
}

fn cpuset(limits: &mut Resources, host: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    if (!limits.cpuset_cpus.is_empty() || !limits.cpuset_mems.is_empty()) && !host.cpuset {
        warn(warnings, "cpuset or the cgroup is not mounted. Cpuset discarded.");
        limits.cpuset_cpus.clear();
        limits.cpuset_mems.clear();
    }
    available("cpuset cpus", "CPUs", &limits.cpuset_cpus, &host.cpus)?;
    available("cpuset mems", "memory nodes", &limits.cpuset_mems, &host.mems)
}

fn available(what: &str, things: &str, asked: &str, there: &str) -> Result<()> {
    let wanted = parse_list(asked).map_err(|why| Error::invalid(format!("Invalid value {asked} for {what}: {why}")))?;
    let Ok(there_set) = parse_list(there) else { return Ok(()) };
    if there_set.is_empty() || wanted.is_subset(&there_set) {
        return Ok(());
    }
    Err(Error::invalid(format!("Requested {things} are not available - requested {asked}, available: {there}")))
}

/// A list as the kernel writes it: numbers and ranges, separated by commas.
fn parse_list(text: &str) -> std::result::Result<BTreeSet<u32>, String> {
    let invalid = || format!("invalid format: {text}");
    let mut set = BTreeSet::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| digits).ok_or_else(invalid)
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(invalid());
        }
        if last > MAX_CPU {
            return Err(format!("value of out range, maximum is {MAX_CPU}"));
        }
        set.extend(first..=last);
    }
    Ok(set)
}

fn blkio(limits: &mut Resources, host: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    let range = |weight: u16| weight == 0 || (10..=1000).contains(&weight);
    let devices = limits.blkio_weight_device.iter().flatten().map(|device| device.weight);
    if !devices.chain([limits.blkio_weight]).all(range) {
        return Err(Error::invalid("Range of blkio weight is from 10 to 1000"));
    }
    if limits.blkio_weight > 0 && !host.blkio_weight {
        warn(warnings, "Block I/O weight or the cgroup is not mounted. Weight discarded.");
        limits.blkio_weight = 0;
    }
    if limits.blkio_weight_device.as_ref().is_some_and(|list| !list.is_empty()) && !host.blkio_weight_device {
        warn(warnings, "Block I/O weight_device or the cgroup is not mounted. Weight-device discarded.");
        limits.blkio_weight_device = None;
    }
    if host.blkio_throttle {
        return Ok(());
    }
    for (list, name, what) in [
        (&mut limits.blkio_device_read_bps, "BPS Block I/O read", "BPS read"),
        (&mut limits.blkio_device_write_bps, "BPS Block I/O write", "BPS write"),
        (&mut limits.blkio_device_read_iops, "IOPS Block read", "IOPS read"),
        (&mut limits.blkio_device_write_iops, "IOPS Block write", "IOPS write"),
    ] {
        if list.take().is_some_and(|list| !list.is_empty()) {
            warn(warnings, &format!("{name} limit or the cgroup is not mounted. Block I/O {what} limit discarded."));
        }
    }
    Ok(())
}

fn warn(warnings: &mut Vec<String>, what: &str) {
    warnings.push(format!("Your kernel does not support {what}"));
}
