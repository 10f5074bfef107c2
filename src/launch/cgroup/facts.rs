//! The limits that this host's kernel supports.

use super::{Hierarchies, Hierarchy, Version};
use std::fs;

/// The supported limits; the booleans of `info` and the reasons for the warnings of create.
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
    /// Whether access to devices can be limited at all.
    pub devices: bool,
    /// The CPUs and memory nodes that a container may use, as the kernel lists them: `0-3,8`.
    pub cpus: String,
    pub mems: String,
    /// The number of CPUs that this program may use, counted once: that takes two dozen system calls.
    pub cpu_count: u32,
}

fn cpu_count() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

impl HostFacts {
    /// Reads the files of the host's groups.
    pub(crate) fn probe(host: &Hierarchies) -> HostFacts {
        let mut facts = HostFacts {
            cgroup_version: if host.pure_v2() { "2" } else { "1" },
            cpu_count: cpu_count(),
            ..HostFacts::default()
        };
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
            self.kernel_memory = has("memory.kmem.limit_in_bytes") && crate::kernel::probe::release() < (5, 16);
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
            // A kernel may be built without swap accounting, or boot without it. A new group below the root has the
            // file only if the root delegates the controller, so the process's own group is checked too.
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

#[cfg(any(test, fuzzing))]
impl HostFacts {
    /// A host of two CPUs with all limits.
    pub(crate) fn everything() -> HostFacts {
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
            cpu_count: 2,
        }
    }
}

/// The host's memory in bytes; 0 if unknown.
pub(crate) fn host_memory() -> u64 {
    crate::kernel::probe::total_memory()
}

fn own_group_has(hierarchy: &Hierarchy, file: &str) -> bool {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    hierarchy.mount.join(group).join(file).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host() {
        let facts = HostFacts::probe(&Hierarchies::detect().unwrap());
        assert!(facts.memory_limit && facts.pids_limit && facts.devices, "{facts:?}");
        assert!(facts.cpus.starts_with('0'), "{facts:?}");
    }
}
