//! Checks requested limits against their ranges and against the limits that this host supports.

use super::HostFacts;
use crate::error::{Error, Result};
use crate::model::Resources;
use crate::walls::Wall;
use std::collections::BTreeSet;

/// The least memory limit of a container, in bytes.
const LEAST_MEMORY: i64 = 6 << 20;
/// The highest CPU or node number that a list may hold; keeps `0-999999999999` from filling memory.
const HIGHEST_CPU: u32 = 8192;
/// NanoCpus of one CPU.
const NANO: i64 = 1_000_000_000;
/// The words in warnings about a missing controller.
const MOUNTED: &str = "or the cgroup is not mounted";

/// The kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// All limits of a new container: an absent one gets its default.
    ForNew,
    /// Changes of an existing container: an absent limit stays.
    AsChange,
}

/// Checks limits with the rules, order and texts of dockerd 20.10. Limits that this host does not support are removed
/// from `limits` and named in the returned warnings.
///
/// # Errors
/// A value out of range, or two that contradict each other.
pub(crate) fn check(limits: &mut Resources, facts: &HostFacts, asked: RequestKind) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    memory(limits, facts, asked, &mut warnings)?;
    kernel_memory(limits, facts, &mut warnings)?;
    oom_and_pids(limits, facts, asked, &mut warnings);
    cpu(limits, facts, &mut warnings)?;
    cpuset(limits, facts, &mut warnings)?;
    blkio(limits, facts, &mut warnings)?;
    Ok(warnings)
}

fn memory(limits: &mut Resources, facts: &HostFacts, asked: RequestKind, warnings: &mut Vec<String>) -> Result<()> {
    if limits.memory > 0 && limits.memory_swap == 0 && asked == RequestKind::ForNew {
        limits.memory_swap = limits.memory.saturating_mul(2);
    }
    refuse_if(
        limits.memory != 0 && limits.memory < LEAST_MEMORY,
        Field("Memory", Some(LEAST_MEMORY)),
        "Minimum memory limit allowed is 6MB",
    )?;
    if limits.memory > 0 && !facts.memory_limit {
        lacking(warnings, &format!("memory limit capabilities {MOUNTED}. Limitation discarded."));
        (limits.memory, limits.memory_swap) = (0, -1);
    }
    if limits.memory > 0 && limits.memory_swap != -1 && !facts.swap_limit {
        lacking(warnings, &format!("swap limit capabilities {MOUNTED}. Memory limited without swap."));
        limits.memory_swap = -1;
    }
    refuse_if(
        limits.memory > 0 && limits.memory_swap > 0 && limits.memory_swap < limits.memory,
        Field("MemorySwap", Some(limits.memory)),
        "Minimum memoryswap limit should be larger than memory limit, see usage",
    )?;
    refuse_if(
        limits.memory == 0 && limits.memory_swap > 0 && asked == RequestKind::ForNew,
        Field("MemorySwap", None),
        "You should always set the Memory limit when using Memoryswap limit, see usage",
    )?;
    swappiness(limits, facts, warnings)?;
    if limits.memory_reservation > 0 && !facts.memory_reservation {
        lacking(warnings, &format!("memory soft limit capabilities {MOUNTED}. Limitation discarded."));
        limits.memory_reservation = 0;
    }
    refuse_if(
        limits.memory_reservation > 0 && limits.memory_reservation < LEAST_MEMORY,
        Field("MemoryReservation", Some(LEAST_MEMORY)),
        "Minimum memory reservation allowed is 6MB",
    )?;
    refuse_if(
        limits.memory > 0 && limits.memory_reservation > limits.memory,
        Field("MemoryReservation", Some(limits.memory)),
        "Minimum memory limit can not be less than memory reservation limit, see usage",
    )
}

/// -1 means "not set".
fn swappiness(limits: &mut Resources, facts: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    limits.memory_swappiness = limits.memory_swappiness.filter(|value| *value != -1);
    let Some(value) = limits.memory_swappiness else { return Ok(()) };
    if !(0..=100).contains(&value) {
        let text = format!("Invalid value: {value}, valid memory swappiness range is 0-100");
        return refuse_if(true, Field("MemorySwappiness", Some(if value < 0 { 0 } else { 100 })), &text);
    }
    if !facts.memory_swappiness {
        lacking(warnings, &format!("memory swappiness capabilities {MOUNTED}. Memory swappiness discarded."));
        limits.memory_swappiness = None;
    }
    Ok(())
}

fn kernel_memory(limits: &mut Resources, facts: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    let Some(asked) = limits.kernel_memory.filter(|bytes| *bytes > 0) else { return Ok(()) };
    refuse_if(
        asked < LEAST_MEMORY,
        Field("KernelMemory", Some(LEAST_MEMORY)),
        "Minimum kernel memory limit allowed is 6MB",
    )?;
    if facts.kernel_memory {
        let text = "Specifying a kernel memory limit is deprecated and will be removed in a future release.";
        warnings.push(text.into());
    } else {
        lacking(warnings, &format!("kernel memory limit capabilities {MOUNTED}. Limitation discarded."));
        limits.kernel_memory = None;
    }
    Ok(())
}

fn oom_and_pids(limits: &mut Resources, facts: &HostFacts, asked: RequestKind, warnings: &mut Vec<String>) {
    let disable = limits.oom_kill_disable == Some(true);
    if asked == RequestKind::ForNew {
        // On a host without this limit the value is not shown.
        limits.oom_kill_disable = facts.oom_kill_disable.then_some(disable);
    }
    if disable && !facts.oom_kill_disable {
        lacking(warnings, "OomKillDisable. OomKillDisable discarded.");
    } else if disable && limits.memory == 0 {
        let text = "OOM killer is disabled for the container, but no memory limit is set, this can result in the system \
                    running out of resources.";
        warnings.push(text.into());
    }
    if limits.pids_limit > 0 && !facts.pids_limit {
        lacking(warnings, &format!("PIDs limit capabilities {MOUNTED}. PIDs limit discarded."));
        limits.pids_limit = 0;
    }
    if limits.pids_limit < 0 {
        // No limit, which a new container has anyway.
        limits.pids_limit = if asked == RequestKind::ForNew || !facts.pids_limit { 0 } else { -1 };
    }
}

fn cpu(limits: &mut Resources, facts: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    nano_cpus(limits, facts)?;
    refuse_if(limits.cpu_shares < 0, Field("CpuShares", Some(0)), "CpuShares: shares: invalid argument")?;
    if limits.cpu_shares > 0 && !facts.cpu_shares {
        lacking(warnings, &format!("CPU shares {MOUNTED}. Shares discarded."));
        limits.cpu_shares = 0;
    }
    if limits.cpu_period != 0 && !facts.cpu_cfs_period {
        lacking(warnings, &format!("CPU cfs period {MOUNTED}. Period discarded."));
        limits.cpu_period = 0;
    }
    refuse_if(
        limits.cpu_period != 0 && !(1000..=1_000_000).contains(&limits.cpu_period),
        Field("CpuPeriod", Some(if limits.cpu_period < 1000 { 1000 } else { 1_000_000 })),
        "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)",
    )?;
    if limits.cpu_quota != 0 && !facts.cpu_cfs_quota {
        lacking(warnings, &format!("CPU cfs quota {MOUNTED}. Quota discarded."));
        limits.cpu_quota = 0;
    }
    refuse_if(
        (1..1000).contains(&limits.cpu_quota),
        Field("CpuQuota", Some(1000)),
        "CPU cfs quota can not be less than 1ms (i.e. 1000)",
    )?;
    if limits.cpu_percent > 0 {
        warnings.push("linux does not support CPU percent. Percent discarded.".into());
        limits.cpu_percent = 0;
    }
    Ok(())
}

fn nano_cpus(limits: &Resources, facts: &HostFacts) -> Result<()> {
    let nano = limits.nano_cpus;
    refuse_if(
        nano > 0 && limits.cpu_period > 0,
        Field("CpuPeriod", None),
        "Conflicting options: Nano CPUs and CPU Period cannot both be set",
    )?;
    refuse_if(
        nano > 0 && limits.cpu_quota > 0,
        Field("CpuQuota", None),
        "Conflicting options: Nano CPUs and CPU Quota cannot both be set",
    )?;
    refuse_if(
        nano > 0 && !(facts.cpu_cfs_period && facts.cpu_cfs_quota),
        Field("NanoCpus", None),
        "NanoCPUs can not be set, as your kernel does not support CPU cfs period/quota or the cgroup is not mounted",
    )?;
    let count = i64::from(facts.cpu_count);
    let most = count.saturating_mul(NANO);
    let text = format!("Range of CPUs is from 0.01 to {count}.00, as there are only {count} CPUs available");
    refuse_if(!(0..=most).contains(&nano), Field("NanoCpus", Some(if nano < 0 { 0 } else { most })), &text)
}

fn cpuset(limits: &mut Resources, facts: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    let said = !limits.cpuset_cpus.is_empty() || !limits.cpuset_mems.is_empty();
    if said && !facts.cpuset {
        lacking(warnings, &format!("cpuset {MOUNTED}. Cpuset discarded."));
        limits.cpuset_cpus.clear();
        limits.cpuset_mems.clear();
    }
    available("cpus", "CPUs", &limits.cpuset_cpus, &facts.cpus).map_err(|error| error.in_field("CpusetCpus"))?;
    available("mems", "memory nodes", &limits.cpuset_mems, &facts.mems).map_err(|error| error.in_field("CpusetMems"))
}

fn available(field: &str, things: &str, asked: &str, there: &str) -> Result<()> {
    if !Wall::ListsChecked.stands() {
        return Ok(());
    }
    let wanted = number_list(asked, HIGHEST_CPU)
        .map_err(|why| Error::invalid(format!("Invalid value {asked} for cpuset {field}: {why}")))?;
    let known = number_list(there, u32::MAX).unwrap_or_default();
    if known.is_empty() || wanted.is_subset(&known) {
        return Ok(());
    }
    Err(Error::invalid(format!("Requested {things} are not available - requested {asked}, available: {there}")))
}

/// A list such as `0,3-4`, in the kernel's syntax.
fn number_list(text: &str, highest: u32) -> std::result::Result<BTreeSet<u32>, String> {
    let invalid = || format!("invalid format: {text}");
    let number = |digits: &str| {
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<u32>().ok().filter(|_| plain).ok_or_else(invalid)
    };
    let mut numbers = BTreeSet::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(invalid());
        }
        if last > highest {
            return Err(format!("value of out range, maximum is {highest}"));
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

fn blkio(limits: &mut Resources, facts: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    const RANGE: &str = "Range of blkio weight is from 10 to 1000";
    let outside = |weight: u16| !(10..=1000).contains(&weight);
    if limits.blkio_weight > 0 && !facts.blkio_weight {
        lacking(warnings, &format!("Block I/O weight {MOUNTED}. Weight discarded."));
        limits.blkio_weight = 0;
    }
    refuse_if(limits.blkio_weight != 0 && outside(limits.blkio_weight), Field("BlkioWeight", None), RANGE)?;
    drop_list(
        &mut limits.blkio_weight_device,
        facts.blkio_weight_device,
        &format!("Block I/O weight_device {MOUNTED}. Weight-device discarded."),
        warnings,
    );
    refuse_if(
        limits.blkio_weight_device.iter().flatten().any(|device| outside(device.weight)),
        Field("BlkioWeightDevice", None),
        RANGE,
    )?;
    for (list, there, what, lost) in [
        (&mut limits.blkio_device_read_bps, facts.blkio_read_bps, "BPS Block I/O read", "BPS read"),
        (&mut limits.blkio_device_write_bps, facts.blkio_write_bps, "BPS Block I/O write", "BPS write"),
        (&mut limits.blkio_device_read_iops, facts.blkio_read_iops, "IOPS Block read", "IOPS read"),
        (&mut limits.blkio_device_write_iops, facts.blkio_write_iops, "IOPS Block write", "IOPS write"),
    ] {
        drop_list(list, there, &format!("{what} limit {MOUNTED}. Block I/O {lost} limit discarded."), warnings);
    }
    Ok(())
}

fn drop_list<T>(list: &mut Option<Vec<T>>, there: bool, what: &str, warnings: &mut Vec<String>) {
    if !there && list.as_ref().is_some_and(|list| !list.is_empty()) {
        lacking(warnings, what);
        *list = Some(Vec::new());
    }
}

fn lacking(warnings: &mut Vec<String>, what: &str) {
    warnings.push(format!("Your kernel does not support {what}"));
}

/// The member that is wrong, and the bound that it is beyond.
struct Field(&'static str, Option<i64>);

fn refuse_if(wrong: bool, Field(name, limit): Field, text: &str) -> Result<()> {
    let error = || Error::invalid(text).in_field(name);
    match (wrong, limit) {
        (false, _) => Ok(()),
        (true, None) => Err(error()),
        (true, Some(limit)) => Err(error().with_limit(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ThrottleDevice, WeightDevice};

    #[test]
    fn refusals() {
        let mb = 1 << 20;
        let count = 2;
        let range = format!("Range of CPUs is from 0.01 to {count}.00, as there are only {count} CPUs available");
        type Change = fn(&mut Resources, i64);
        let cases: [(Change, &str); 20] = [
            (
                |r, _| (r.nano_cpus, r.cpu_period) = (1, 5000),
                "Conflicting options: Nano CPUs and CPU Period cannot both be set",
            ),
            (
                |r, _| (r.nano_cpus, r.cpu_quota) = (1, 5000),
                "Conflicting options: Nano CPUs and CPU Quota cannot both be set",
            ),
            (|r, _| r.nano_cpus = -1, &range),
            (|r, mb| r.memory = 5 * mb, "Minimum memory limit allowed is 6MB"),
            (|r, _| r.memory = -1, "Minimum memory limit allowed is 6MB"),
            (
                |r, mb| (r.memory, r.memory_swap) = (10 * mb, 9 * mb),
                "Minimum memoryswap limit should be larger than memory limit, see usage",
            ),
            (
                |r, mb| r.memory_swap = mb,
                "You should always set the Memory limit when using Memoryswap limit, see usage",
            ),
            (|r, _| r.memory_swappiness = Some(101), "Invalid value: 101, valid memory swappiness range is 0-100"),
            (|r, mb| r.memory_reservation = mb, "Minimum memory reservation allowed is 6MB"),
            (|r, mb| r.kernel_memory = Some(mb), "Minimum kernel memory limit allowed is 6MB"),
            (|r, _| r.cpu_shares = -1, "CpuShares: shares: invalid argument"),
            (
                |r, _| r.cpu_period = 999,
                "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)",
            ),
            (|r, _| r.cpu_quota = 999, "CPU cfs quota can not be less than 1ms (i.e. 1000)"),
            (|r, _| r.cpuset_cpus = "x".into(), "Invalid value x for cpuset cpus: invalid format: x"),
            (|r, _| r.cpuset_cpus = "+0".into(), "Invalid value +0 for cpuset cpus: invalid format: +0"),
            (|r, _| r.cpuset_cpus = "1,".into(), "Invalid value 1, for cpuset cpus: invalid format: 1,"),
            (|r, _| r.cpuset_cpus = "0-9".into(), "Requested CPUs are not available - requested 0-9, available: 0-1"),
            (
                |r, _| r.cpuset_mems = "1-999999999".into(),
                "Invalid value 1-999999999 for cpuset mems: value of out range, maximum is 8192",
            ),
            (|r, _| r.blkio_weight = 9, "Range of blkio weight is from 10 to 1000"),
            (
                |r, _| r.blkio_weight_device = Some(vec![WeightDevice { path: "/x".into(), weight: 1001 }]),
                "Range of blkio weight is from 10 to 1000",
            ),
        ];
        for (change, text) in cases {
            let mut asked = Resources::default();
            change(&mut asked, mb);
            assert_eq!(check(&mut asked, &HostFacts::everything(), RequestKind::ForNew).unwrap_err().message(), text);
        }
    }

    #[test]
    fn defaults_are_a_new_containers() {
        let asked = Resources { memory: 64 << 20, memory_swappiness: Some(-1), pids_limit: -1, ..Resources::default() };
        let mut new = asked.clone();
        assert!(check(&mut new, &HostFacts::everything(), RequestKind::ForNew).unwrap().is_empty());
        let with = Resources {
            memory: 64 << 20,
            memory_swap: 128 << 20,
            oom_kill_disable: Some(false),
            ..Resources::default()
        };
        assert_eq!(new, with);
        let mut change = asked.clone();
        check(&mut change, &HostFacts::everything(), RequestKind::AsChange).unwrap();
        assert_eq!(change, Resources { memory_swappiness: None, ..asked });
    }

    #[test]
    fn a_check_drops_and_names_limits_that_the_kernel_lacks() {
        let device = ThrottleDevice { path: "/dev/x".into(), rate: 1 };
        let mut asked = Resources {
            memory: 64 << 20,
            memory_swap: 80 << 20,
            memory_swappiness: Some(5),
            memory_reservation: 7 << 20,
            kernel_memory: Some(7 << 20),
            oom_kill_disable: Some(true),
            pids_limit: 5,
            cpu_shares: 5,
            cpu_period: 5000,
            cpu_quota: 5000,
            cpuset_cpus: "0".into(),
            blkio_weight: 100,
            blkio_device_read_bps: Some(vec![device]),
            ..Resources::default()
        };
        let warnings = check(&mut asked, &HostFacts::default(), RequestKind::ForNew).unwrap();
        assert_eq!(warnings.len(), 12, "{warnings:#?}");
        assert!(warnings.iter().all(|text| text.starts_with("Your kernel does not support ")));
        let left = Resources {
            memory_swap: -1,
            oom_kill_disable: None,
            blkio_device_read_bps: Some(Vec::new()),
            ..Resources::default()
        };
        assert_eq!(asked, left);
        assert!(check(&mut asked, &HostFacts::default(), RequestKind::ForNew).unwrap().is_empty());
    }

    #[test]
    fn a_kernel_memory_limit_is_taken_with_a_word_on_its_future() {
        let mut asked = Resources { kernel_memory: Some(7 << 20), ..Resources::default() };
        let warnings = check(&mut asked, &HostFacts::everything(), RequestKind::AsChange).unwrap();
        assert!(warnings.len() == 1 && warnings[0].contains("deprecated"), "{warnings:?}");
        assert_eq!(asked.kernel_memory, Some(7 << 20));
    }
}
