//! What this host's kernel can limit, and the check of a request against that.

use super::{Hierarchies, Hierarchy, Version};
use crate::error::{Error, ErrorKind, Result};
use crate::model::Resources;
use std::collections::BTreeSet;
use std::fs;

/// The least memory that a container may be given: 6 MiB, as dockerd 20.10.
const LEAST_MEMORY: i64 = 6 << 20;
/// The highest CPU or node number that a list may hold; keeps `0-999999999999` from filling memory.
const HIGHEST_CPU: usize = 8192;

/// What can be limited here; the booleans of `info` and the reasons for the warnings of create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostFacts {
    /// `2` if all is v2, else `1`.
    pub cgroup_version: &'static str,
    pub memory_limit: bool,
    pub swap_limit: bool,
    pub memory_reservation: bool,
    /// Whether a kernel memory limit has an effect: on v1 before Linux 5.16.
    pub kernel_memory: bool,
    pub oom_kill_disable: bool,
    pub memory_swappiness: bool,
    pub cpu_shares: bool,
    pub cpu_cfs_period: bool,
    pub cpu_cfs_quota: bool,
    pub cpuset: bool,
    pub pids_limit: bool,
    pub blkio_weight: bool,
    pub blkio_weight_device: bool,
    pub blkio_read_bps: bool,
    pub blkio_write_bps: bool,
    pub blkio_read_iops: bool,
    pub blkio_write_iops: bool,
    /// Whether devices can be ruled at all.
    pub devices: bool,
    /// The CPUs and memory nodes that a container may use, as the kernel writes such lists: `0-3,8`.
    pub cpus: String,
    pub mems: String,
}

impl HostFacts {
    /// Looks at the files that the host's groups have.
    pub(crate) fn probe(host: &Hierarchies) -> HostFacts {
        let mut facts = HostFacts { cgroup_version: if host.pure_v2() { "2" } else { "1" }, ..HostFacts::default() };
        for hierarchy in &host.list {
            match hierarchy.version {
                Version::V1 => facts.add_v1(hierarchy),
                Version::V2 => facts.add_v2(hierarchy),
            }
        }
        facts
    }

    fn add_v1(&mut self, hierarchy: &Hierarchy) {
        let has = |file: &str| hierarchy.offers(file);
        if hierarchy.has("memory") {
            self.memory_limit = true;
            self.swap_limit = has("memory.memsw.limit_in_bytes");
            self.memory_reservation = has("memory.soft_limit_in_bytes");
            self.kernel_memory = has("memory.kmem.limit_in_bytes") && crate::launch::release::kernel() < (5, 16);
            self.oom_kill_disable = has("memory.oom_control");
            self.memory_swappiness = has("memory.swappiness");
        }
        if hierarchy.has("cpu") {
            self.cpu_shares = has("cpu.shares");
            self.cpu_cfs_period = has("cpu.cfs_period_us");
            self.cpu_cfs_quota = has("cpu.cfs_quota_us");
        }
        if hierarchy.has("cpuset") {
            self.take_cpuset(hierarchy, "cpuset.cpus", "cpuset.mems");
        }
        if hierarchy.has("blkio") {
            self.blkio_weight = has("blkio.weight") || has("blkio.bfq.weight");
            self.blkio_weight_device = has("blkio.weight_device") || has("blkio.bfq.weight_device");
            self.blkio_read_bps = has("blkio.throttle.read_bps_device");
            self.blkio_write_bps = has("blkio.throttle.write_bps_device");
            self.blkio_read_iops = has("blkio.throttle.read_iops_device");
            self.blkio_write_iops = has("blkio.throttle.write_iops_device");
        }
        self.pids_limit |= hierarchy.has("pids");
        self.devices |= hierarchy.has("devices");
    }

    fn add_v2(&mut self, hierarchy: &Hierarchy) {
        self.devices = true;
        if hierarchy.has("memory") {
            self.memory_limit = true;
            self.memory_reservation = true;
            // Swap may be left out of a kernel, or out of the accounting at boot. The file of a fresh group under the
            // root tells only once the root hands the controller down, so the process's own group is asked too.
            self.swap_limit = hierarchy.offers("memory.swap.max") || own_group_has(hierarchy, "memory.swap.max");
        }
        if hierarchy.has("cpu") {
            (self.cpu_shares, self.cpu_cfs_period, self.cpu_cfs_quota) = (true, true, true);
        }
        if hierarchy.has("cpuset") {
            self.take_cpuset(hierarchy, "cpuset.cpus.effective", "cpuset.mems.effective");
        }
        if hierarchy.has("io") {
            (self.blkio_weight, self.blkio_weight_device) = (true, true);
            (self.blkio_read_bps, self.blkio_write_bps) = (true, true);
            (self.blkio_read_iops, self.blkio_write_iops) = (true, true);
        }
        self.pids_limit |= hierarchy.has("pids");
    }

    fn take_cpuset(&mut self, hierarchy: &Hierarchy, cpus: &str, mems: &str) {
        let read = |file: &str| fs::read_to_string(hierarchy.mount.join(file)).unwrap_or_default().trim().to_owned();
        self.cpuset = true;
        self.cpus = read(cpus);
        self.mems = read(mems);
    }
}

fn own_group_has(hierarchy: &Hierarchy, file: &str) -> bool {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    hierarchy.mount.join(group).join(file).exists()
}

/// Checks the limits of a request with dockerd 20.10's rules, order and texts. What the kernel cannot do is taken out of
/// `asked` and named in the answered warnings; with `update` (of a live container) an absent value is not derived.
///
/// # Errors
/// A value out of range, or one that contradicts another.
pub(crate) fn check(asked: &mut Resources, facts: &HostFacts, update: bool) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if asked.memory > 0 && asked.memory_swap == 0 && !update {
        asked.memory_swap = asked.memory.saturating_mul(2);
    }
    check_memory(asked, facts, update, &mut warnings)?;
    check_cpu(asked, facts, &mut warnings)?;
    check_cpuset(asked, facts, &mut warnings)?;
    check_blkio(asked, facts, &mut warnings)?;
    Ok(warnings)
}

fn check_memory(asked: &mut Resources, facts: &HostFacts, update: bool, warnings: &mut Vec<String>) -> Result<()> {
    let mut lacking = |what: &str| warnings.push(format!("Your kernel does not support {what}"));
    const MOUNTED: &str = "or the cgroup is not mounted";
    // -1 stands for "not set".
    asked.memory_swappiness = asked.memory_swappiness.filter(|value| *value != -1);
    refuse_if(asked.memory != 0 && asked.memory < LEAST_MEMORY, "Minimum memory limit allowed is 6MB")?;
    if asked.memory > 0 && !facts.memory_limit {
        lacking(&format!("memory limit capabilities {MOUNTED}. Limitation discarded."));
        asked.memory = 0;
        asked.memory_swap = -1;
    }
    if asked.memory > 0 && asked.memory_swap != -1 && !facts.swap_limit {
        lacking(&format!("swap limit capabilities {MOUNTED}. Memory limited without swap."));
        asked.memory_swap = -1;
    }
    refuse_if(
        asked.memory > 0 && asked.memory_swap > 0 && asked.memory_swap < asked.memory,
        "Minimum memoryswap limit should be larger than memory limit, see usage",
    )?;
    refuse_if(
        asked.memory == 0 && asked.memory_swap > 0 && !update,
        "You should always set the Memory limit when using Memoryswap limit, see usage",
    )?;
    if asked.memory_swappiness.is_some() && !facts.memory_swappiness {
        lacking(&format!("memory swappiness capabilities {MOUNTED}. Memory swappiness discarded."));
        asked.memory_swappiness = None;
    }
    if let Some(value) = asked.memory_swappiness.filter(|value| !(0..=100).contains(value)) {
        return Err(Error::invalid(format!("Invalid value: {value}, valid memory swappiness range is 0-100")));
    }
    if asked.memory_reservation > 0 && !facts.memory_reservation {
        lacking(&format!("memory soft limit capabilities {MOUNTED}. Limitation discarded."));
        asked.memory_reservation = 0;
    }
    refuse_if(
        asked.memory_reservation != 0 && asked.memory_reservation < LEAST_MEMORY,
        "Minimum memory reservation allowed is 6MB",
    )?;
    refuse_if(
        asked.memory > 0 && asked.memory_reservation > asked.memory,
        "Minimum memory limit can not be less than memory reservation limit, see usage",
    )?;
    if asked.kernel_memory > 0 && !facts.kernel_memory {
        lacking(&format!("kernel memory limit capabilities {MOUNTED}. Limitation discarded."));
        asked.kernel_memory = 0;
    }
    refuse_if(
        asked.kernel_memory != 0 && asked.kernel_memory < LEAST_MEMORY,
        "Minimum kernel memory limit allowed is 6MB",
    )?;
    if asked.oom_kill_disable.is_some() && !facts.oom_kill_disable {
        // Leaving the killer on is what the kernel does anyway.
        if asked.oom_kill_disable == Some(true) {
            lacking("OomKillDisable. OomKillDisable discarded.");
        }
        asked.oom_kill_disable = None;
    }
    if asked.pids_limit != 0 && !facts.pids_limit {
        if asked.pids_limit > 0 {
            lacking(&format!("PIDs limit capabilities {MOUNTED}. PIDs limit discarded."));
        }
        asked.pids_limit = 0;
    }
    if asked.oom_kill_disable == Some(true) && asked.memory == 0 {
        let text = "OOM killer is disabled for the container, but no memory limit is set, this can result in the system \
                    running out of resources.";
        warnings.push(text.into());
    }
    Ok(())
}

fn check_cpu(asked: &mut Resources, facts: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    let mut lacking = |what: &str| warnings.push(format!("Your kernel does not support {what}"));
    if asked.cpu_shares > 0 && !facts.cpu_shares {
        lacking("CPU shares or the cgroup is not mounted. Shares discarded.");
        asked.cpu_shares = 0;
    }
    if asked.cpu_period != 0 && !facts.cpu_cfs_period {
        lacking("CPU cfs period or the cgroup is not mounted. Period discarded.");
        asked.cpu_period = 0;
    }
    refuse_if(
        asked.cpu_period != 0 && !(1000..=1_000_000).contains(&asked.cpu_period),
        "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)",
    )?;
    if asked.cpu_quota != 0 && !facts.cpu_cfs_quota {
        lacking("CPU cfs quota or the cgroup is not mounted. Quota discarded.");
        asked.cpu_quota = 0;
    }
    refuse_if((1..1000).contains(&asked.cpu_quota), "CPU cfs quota can not be less than 1ms (i.e. 1000)")?;
    if asked.cpu_percent > 0 {
        warnings.push("linux does not support CPU percent. Percent discarded.".into());
        asked.cpu_percent = 0;
    }
    Ok(())
}

fn check_cpuset(asked: &mut Resources, facts: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    let said = !asked.cpuset_cpus.is_empty() || !asked.cpuset_mems.is_empty();
    if said && !facts.cpuset {
        warnings.push("Your kernel does not support cpuset or the cgroup is not mounted. Cpuset discarded.".into());
        asked.cpuset_cpus.clear();
        asked.cpuset_mems.clear();
        return Ok(());
    }
    let lists =
        [("cpus", "CPUs", &asked.cpuset_cpus, &facts.cpus), ("mems", "memory nodes", &asked.cpuset_mems, &facts.mems)];
    for (field, things, wanted, available) in lists {
        let bad = |why: String| Error::invalid(format!("Invalid value {wanted} for cpuset {field}: {why}"));
        let numbers = number_list(wanted, HIGHEST_CPU).map_err(bad)?;
        let there = number_list(available, usize::MAX).unwrap_or_default();
        if !numbers.is_subset(&there) {
            let text = format!("Requested {things} are not available - requested {wanted}, available: {available}");
            return Err(Error::invalid(text));
        }
    }
    Ok(())
}

fn check_blkio(asked: &mut Resources, facts: &HostFacts, warnings: &mut Vec<String>) -> Result<()> {
    let mut lacking = |what: &str, lost: &str| {
        warnings.push(format!("Your kernel does not support {what} or the cgroup is not mounted. {lost} discarded."));
    };
    if asked.blkio_weight > 0 && !facts.blkio_weight {
        lacking("Block I/O weight", "Weight");
        asked.blkio_weight = 0;
    }
    refuse_if(
        asked.blkio_weight != 0 && !(10..=1000).contains(&asked.blkio_weight),
        "Range of blkio weight is from 10 to 1000",
    )?;
    if asked.blkio_weight_device.iter().any(|list| !list.is_empty()) && !facts.blkio_weight_device {
        lacking("Block I/O weight_device", "Weight-device");
        asked.blkio_weight_device = Some(Vec::new());
    }
    let throttles = [
        (
            &mut asked.blkio_device_read_bps,
            facts.blkio_read_bps,
            "BPS Block I/O read limit",
            "Block I/O BPS read limit",
        ),
        (
            &mut asked.blkio_device_write_bps,
            facts.blkio_write_bps,
            "BPS Block I/O write limit",
            "Block I/O BPS write limit",
        ),
        (
            &mut asked.blkio_device_read_iops,
            facts.blkio_read_iops,
            "IOPS Block read limit",
            "Block I/O IOPS read limit",
        ),
        (
            &mut asked.blkio_device_write_iops,
            facts.blkio_write_iops,
            "IOPS Block write limit",
            "Block I/O IOPS write limit",
        ),
    ];
    for (list, supported, what, lost) in throttles {
        if list.as_ref().is_some_and(|list| !list.is_empty()) && !supported {
            lacking(what, lost);
            *list = Some(Vec::new());
        }
    }
    let unsupported = |what: &str| {
        let text = format!("invalid QoS settings: linux does not support --io-{what}");
        Err(Error::new(ErrorKind::Internal, text))
    };
    match (asked.io_maximum_bandwidth, asked.io_maximum_iops) {
        (0, 0) => Ok(()),
        (0, _) => unsupported("maxiops"),
        _ => unsupported("maxbandwidth"),
    }
}

fn refuse_if(wrong: bool, text: &str) -> Result<()> {
    if wrong { Err(Error::invalid(text)) } else { Ok(()) }
}

/// A list such as `0,3-4`, as the kernel writes and takes it.
fn number_list(text: &str, highest: usize) -> std::result::Result<BTreeSet<usize>, String> {
    let mut numbers = BTreeSet::new();
    if text.is_empty() {
        return Ok(numbers);
    }
    let parse = |part: &str| part.parse::<usize>().map_err(|_| format!("invalid format: {text}"));
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (parse(first)?, parse(last)?);
        if last < first {
            return Err(format!("invalid format: {text}"));
        }
        if last > highest {
            return Err(format!("value of out range, maximum is {highest}"));
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> HostFacts {
        HostFacts {
            cgroup_version: "1",
            memory_limit: true,
            swap_limit: true,
            memory_reservation: true,
            kernel_memory: true,
            oom_kill_disable: true,
            memory_swappiness: true,
            cpu_shares: true,
            cpu_cfs_period: true,
            cpu_cfs_quota: true,
            cpuset: true,
            pids_limit: true,
            blkio_weight: true,
            blkio_weight_device: true,
            blkio_read_bps: true,
            blkio_write_bps: true,
            blkio_read_iops: true,
            blkio_write_iops: true,
            devices: true,
            cpus: "0-1".into(),
            mems: "0".into(),
        }
    }

    #[test]
    fn refusals() {
        let mb = 1 << 20;
        type Change = fn(&mut Resources, i64);
        let cases: [(Change, &str); 14] = [
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
            (|r, mb| r.kernel_memory = mb, "Minimum kernel memory limit allowed is 6MB"),
            (
                |r, _| r.cpu_period = 999,
                "CPU cfs period can not be less than 1ms (i.e. 1000) or larger than 1s (i.e. 1000000)",
            ),
            (|r, _| r.cpu_quota = 999, "CPU cfs quota can not be less than 1ms (i.e. 1000)"),
            (|r, _| r.cpuset_cpus = "x".into(), "Invalid value x for cpuset cpus: invalid format: x"),
            (|r, _| r.cpuset_cpus = "0-9".into(), "Requested CPUs are not available - requested 0-9, available: 0-1"),
            (
                |r, _| r.cpuset_mems = "1-9999999999".into(),
                "Invalid value 1-9999999999 for cpuset mems: value of out range, maximum is 8192",
            ),
            (|r, _| r.blkio_weight = 9, "Range of blkio weight is from 10 to 1000"),
            (|r, _| r.io_maximum_iops = 1, "invalid QoS settings: linux does not support --io-maxiops"),
        ];
        for (change, text) in cases {
            let mut asked = Resources::default();
            change(&mut asked, mb);
            assert_eq!(check(&mut asked, &everything(), false).unwrap_err().message(), text);
        }
    }

    #[test]
    fn swap_follows_memory() {
        let mut asked = Resources { memory: 64 << 20, memory_swappiness: Some(-1), ..Resources::default() };
        assert!(check(&mut asked, &everything(), false).unwrap().is_empty());
        assert_eq!((asked.memory_swap, asked.memory_swappiness), (128 << 20, None));
        let mut asked = Resources { memory: 64 << 20, ..Resources::default() };
        check(&mut asked, &everything(), true).unwrap();
        assert_eq!(asked.memory_swap, 0);
    }

    #[test]
    fn what_the_kernel_lacks_is_dropped_and_named() {
        let device = crate::model::ThrottleDevice { path: "/dev/x".into(), rate: 1 };
        let mut asked = Resources {
            memory: 64 << 20,
            memory_swap: 80 << 20,
            memory_swappiness: Some(5),
            memory_reservation: 7 << 20,
            kernel_memory: 7 << 20,
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
        let warnings = check(&mut asked, &HostFacts::default(), false).unwrap();
        assert_eq!(warnings.len(), 12, "{warnings:#?}");
        assert!(warnings.iter().all(|text| text.starts_with("Your kernel does not support ")));
        let left = Resources { memory_swap: -1, blkio_device_read_bps: Some(Vec::new()), ..Resources::default() };
        assert_eq!(asked, left);
        assert!(check(&mut asked, &HostFacts::default(), false).unwrap().is_empty());
    }

    #[test]
    fn this_host() {
        let facts = HostFacts::probe(&Hierarchies::detect().unwrap());
        assert!(facts.memory_limit && facts.pids_limit && facts.devices, "{facts:?}");
        assert!(number_list(&facts.cpus, HIGHEST_CPU).unwrap().contains(&0));
    }
}
