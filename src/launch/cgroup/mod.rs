//! Control groups: the files and values for a container's limits and devices on this host's hierarchies.
//!
//! [`compile`] turns resources into a [`Plan`], plain values that the launch executes; it writes nothing. One container
//! has one group in every hierarchy of the host, at the same path everywhere: `CgroupParent`, then its id.
//!
//! `CgroupParent` is absolute or not, both counted from the root of the hierarchies; its missing directories are made
//! and stay. A name that ends in `.slice` is a plain directory like any other: it is nested as written, never expanded
//! by systemd's rules, and systemd is not asked. `..` is refused.

mod check;
mod device_bpf;
mod facts;
mod files;
mod hierarchy;
mod live;
mod stats;
mod v1;
mod v2;

pub(crate) use check::{RequestKind, check};
pub(crate) use device_bpf::device_bpf;
pub(crate) use facts::{HostFacts, host_memory};
pub(crate) use files::Files;
pub(crate) use hierarchy::{Hierarchies, Hierarchy, Version};
pub(crate) use live::Live;
pub(crate) use stats::CgroupStats;

use super::devices::DeviceRules;
use crate::error::{Error, Result};
use crate::model::{Resources, ThrottleDevice};
use crate::walls::Wall;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The consequence of a failed write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnError {
    /// The container cannot start.
    Fail,
    /// Nothing: the value was not requested, or may be in force already.
    Ignore,
}

/// One value for one control file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    /// A file name, relative to the group's directory (in [`Group::writes`]) or to the hierarchy's mount point (in
    /// [`Group::parent_writes`]).
    pub file: String,
    pub value: String,
    pub on_error: OnError,
}

impl Write {
    fn must(file: impl Into<String>, value: impl ToString) -> Write {
        Write { file: file.into(), value: value.to_string(), on_error: OnError::Fail }
    }

    fn may(file: impl Into<String>, value: impl ToString) -> Write {
        Write { file: file.into(), value: value.to_string(), on_error: OnError::Ignore }
    }
}

/// A container's group in one hierarchy. In order: make the missing directories down to `dir`'s parent, do
/// `parent_writes`, make `dir`, do `writes`, load and attach `device_program`, then join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub version: Version,
    /// The hierarchy's mount point on the host.
    pub mount: PathBuf,
    /// The controllers of the hierarchy.
    pub controllers: Vec<String>,
    /// The container's directory on the host, absolute.
    pub dir: PathBuf,
    /// The options with which `mount -t cgroup` shows this hierarchy, such as `memory` or `none,name=systemd`; empty for v2.
    pub mount_options: String,
    /// The directory below /sys/fs/cgroup at which the container sees the hierarchy. Empty on a host with v2 alone, where the
    /// container sees it at /sys/fs/cgroup itself. Empty also for the v2 hierarchy beside v1 hierarchies: the container
    /// does not see it.
    pub mount_name: String,
    /// Names below /sys/fs/cgroup that are links to `mount_name`.
    pub links: Vec<String>,
    /// Values for groups above `dir`, files relative to `mount`; only values that those groups lack now.
    pub parent_writes: Vec<Write>,
    /// Values for the group itself, files relative to `dir`, in this order.
    pub writes: Vec<Write>,
    /// The device program to attach to `dir` (see [`device_bpf`]); empty if another hierarchy limits devices.
    pub device_program: Vec<u8>,
}

/// A container's groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub groups: Vec<Group>,
    /// Whether the host is all v2, so that the container sees one hierarchy at /sys/fs/cgroup.
    pub v2: bool,
}

/// The groups of container `id` below `parent` with these limits and devices. Reads facts of the host (inherited
/// cpusets, device numbers, which files a controller has), writes nothing.
///
/// Values that the host's kernel does not support are an error here; [`check`] drops them with a warning.
///
/// # Errors
/// A bad `CgroupParent`; a limit whose controller the host lacks, or that v2 cannot express; a missing device;
/// a host that cannot limit devices.
pub(crate) fn compile(
    host: &Hierarchies,
    parent: &str,
    id: &str,
    resources: &Resources,
    devices: &DeviceRules,
) -> Result<Plan> {
    let limits = Limits::of(resources)?;
    let path = group_path(parent, id)?;
    let v2 = host.pure_v2();
    demand_controllers(host, &limits)?;
    let mut groups = Vec::new();
    for hierarchy in &host.list {
        let mut group = bare(hierarchy, &path, v2);
        match hierarchy.version {
            Version::V1 => v1::fill(hierarchy, &path, &limits, devices, &mut group)?,
            Version::V2 => v2::fill(hierarchy, &path, &limits, &mut group)?,
        }
        groups.push(group);
    }
    if !devices.default_allow && Wall::DeviceRules.stands() && host.with("devices").is_none() {
        let unified = groups.iter_mut().find(|group| group.version == Version::V2);
        let group = unified.ok_or_else(|| Error::unsupported("this host has no cgroup that can rule devices"))?;
        group.device_program = device_bpf(devices);
    }
    Ok(Plan { groups, v2 })
}

/// The new values of an update, for [`Live::update`]: (file name, value) of the controllers' files.
///
/// # Errors
/// As [`compile`].
pub(crate) fn update_writes(host: &Hierarchies, resources: &Resources) -> Result<Vec<Write>> {
    let limits = Limits::of(resources)?;
    demand_controllers(host, &limits)?;
    let mut writes = Vec::new();
    for hierarchy in &host.list {
        match hierarchy.version {
            Version::V1 => v1::limits(hierarchy, &limits, &mut writes),
            Version::V2 => v2::limits(hierarchy, &limits, &mut writes)?,
        }
    }
    Ok(writes)
}

/// The path of a container's group below a hierarchy's root, without a leading slash.
fn group_path(parent: &str, id: &str) -> Result<PathBuf> {
    let bad = |why: &str| Err(Error::invalid(format!("invalid CgroupParent {parent:?}: {why}")));
    if parent.split('/').any(|part| part == "..") {
        return bad("it must not contain \"..\"");
    }
    if parent.bytes().any(|byte| byte == 0 || byte == b'\n') {
        return bad("it must not contain a NUL or line break");
    }
    if id.is_empty() || id.starts_with('.') || id.contains('/') {
        return Err(Error::internal(format!("{id:?} is not a container id")));
    }
    let parts = parent.split('/').filter(|part| !matches!(*part, "" | "."));
    Ok(parts.chain([id]).collect())
}

/// A group without values.
fn bare(hierarchy: &Hierarchy, path: &Path, pure_v2: bool) -> Group {
    let shown = hierarchy.version == Version::V1 && !pure_v2;
    let mount_name = match hierarchy.mount.file_name().filter(|_| shown) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => String::new(),
    };
    let mount_options = match (hierarchy.version, &hierarchy.name) {
        (Version::V2, _) => String::new(),
        (Version::V1, Some(name)) => format!("none,name={name}"),
        (Version::V1, None) => hierarchy.controllers.join(","),
    };
    let links = hierarchy.controllers.iter().filter(|name| shown && **name != mount_name).cloned().collect();
    Group {
        version: hierarchy.version,
        mount: hierarchy.mount.clone(),
        controllers: hierarchy.controllers.clone(),
        dir: hierarchy.mount.join(path),
        mount_options,
        mount_name,
        links,
        parent_writes: Vec::new(),
        writes: Vec::new(),
        device_program: Vec::new(),
    }
}

/// The directories between a hierarchy's root and the container's group, outermost first, relative to the root.
fn parents(path: &Path) -> Vec<&Path> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|one| !one.as_os_str().is_empty()).collect();
    above.reverse();
    above
}

/// A block device by number, and its value.
type PerDevice<T> = ((u32, u32), T);

/// The limits in their decided form: limits that were not requested are absent.
struct Limits {
    memory: Option<i64>,
    /// Memory and swap together; -1 is unlimited.
    swap: Option<i64>,
    /// Whether `swap` was given, not derived from `memory`.
    swap_asked: bool,
    reservation: Option<i64>,
    kernel_memory: Option<i64>,
    swappiness: Option<i64>,
    oom_kill_disable: Option<bool>,
    cpu_shares: Option<u64>,
    cpu_period: Option<i64>,
    /// Microseconds in each period; negative is unlimited.
    cpu_quota: Option<i64>,
    cpus: Option<String>,
    mems: Option<String>,
    blkio_weight: Option<u16>,
    blkio_weights: Vec<PerDevice<u16>>,
    read_bps: Vec<PerDevice<u64>>,
    write_bps: Vec<PerDevice<u64>>,
    read_iops: Vec<PerDevice<u64>>,
    write_iops: Vec<PerDevice<u64>>,
    /// Negative is unlimited.
    pids: Option<i64>,
}

/// The period, in microseconds, of a quota that was requested in CPUs.
const NANO_PERIOD: i64 = 100_000;

impl Limits {
    /// # Errors
    /// A device that does not exist; a number that no file accepts.
    fn of(asked: &Resources) -> Result<Limits> {
        let given = |value: i64| (value != 0).then_some(value);
        let above_zero = |value: i64| (value > 0).then_some(value);
        let text = |value: &String| (!value.is_empty()).then(|| value.clone());
        let memory = given(asked.memory);
        let swap_asked = asked.memory_swap != 0;
        // Without a swap limit a container gets as much swap as memory.
        let swap = given(asked.memory_swap.max(-1))
            .or(memory.filter(|memory| *memory > 0).map(|memory| memory.saturating_mul(2)));
        let cpu_shares = match asked.cpu_shares {
            0 => None,
            // The kernel would silently take the nearest valid value.
            ..2 => return Err(Error::internal("the minimum allowed cpu-shares is 2")),
            262_145.. => return Err(Error::internal("the maximum allowed cpu-shares is 262144")),
            shares => Some(shares as u64),
        };
        let (cpu_period, cpu_quota) = match given(asked.nano_cpus) {
            Some(nano) => (Some(NANO_PERIOD), Some(nano.saturating_mul(NANO_PERIOD) / 1_000_000_000)),
            None => (given(asked.cpu_period), given(asked.cpu_quota)),
        };
        let weights = asked.blkio_weight_device.iter().flatten();
        Ok(Limits {
            memory,
            swap,
            swap_asked,
            reservation: above_zero(asked.memory_reservation),
            kernel_memory: asked.kernel_memory.and_then(above_zero),
            swappiness: asked.memory_swappiness.filter(|value| *value != -1),
            oom_kill_disable: asked.oom_kill_disable,
            cpu_shares,
            cpu_period,
            cpu_quota,
            cpus: text(&asked.cpuset_cpus),
            mems: text(&asked.cpuset_mems),
            blkio_weight: Some(asked.blkio_weight).filter(|weight| *weight != 0),
            blkio_weights: weights.map(|one| Ok((number_of(&one.path)?, one.weight))).collect::<Result<_>>()?,
            read_bps: rates(&asked.blkio_device_read_bps)?,
            write_bps: rates(&asked.blkio_device_write_bps)?,
            read_iops: rates(&asked.blkio_device_read_iops)?,
            write_iops: rates(&asked.blkio_device_write_iops)?,
            pids: given(asked.pids_limit),
        })
    }

    fn throttles(&self) -> [&[PerDevice<u64>]; 4] {
        [&self.read_bps, &self.write_bps, &self.read_iops, &self.write_iops]
    }
}

fn rates(list: &Option<Vec<ThrottleDevice>>) -> Result<Vec<PerDevice<u64>>> {
    list.iter().flatten().map(|one| Ok((number_of(&one.path)?, one.rate))).collect()
}

/// The number of the block device at a host path.
fn number_of(path: &str) -> Result<(u32, u32)> {
    let found = std::fs::metadata(path).map_err(|error| Error::io(format!("stat {path}"), &error))?;
    if found.mode() & libc::S_IFMT != libc::S_IFBLK {
        return Err(Error::invalid(format!("{path} is not a block device")));
    }
    Ok((libc::major(found.rdev()), libc::minor(found.rdev())))
}

/// Fields of the request, and whether each was given.
type Given<'a> = &'a [(&'a str, bool)];

/// Refuses a limit whose controller this host lacks.
fn demand_controllers(host: &Hierarchies, limits: &Limits) -> Result<()> {
    let memory = [
        ("Memory", limits.memory.is_some()),
        ("MemorySwap", limits.swap.is_some()),
        ("MemoryReservation", limits.reservation.is_some()),
        ("KernelMemory", limits.kernel_memory.is_some()),
        ("MemorySwappiness", limits.swappiness.is_some()),
        ("OomKillDisable", limits.oom_kill_disable == Some(true)),
    ];
    let cpu = [
        ("CpuShares", limits.cpu_shares.is_some()),
        ("CpuPeriod", limits.cpu_period.is_some()),
        ("CpuQuota", limits.cpu_quota.is_some()),
    ];
    let cpuset = [("CpusetCpus", limits.cpus.is_some()), ("CpusetMems", limits.mems.is_some())];
    let blkio = [
        ("BlkioWeight", limits.blkio_weight.is_some()),
        ("BlkioWeightDevice", !limits.blkio_weights.is_empty()),
        ("BlkioDeviceReadBps", !limits.read_bps.is_empty()),
        ("BlkioDeviceWriteBps", !limits.write_bps.is_empty()),
        ("BlkioDeviceReadIOps", !limits.read_iops.is_empty()),
        ("BlkioDeviceWriteIOps", !limits.write_iops.is_empty()),
    ];
    let pids = [("PidsLimit", limits.pids.is_some_and(|limit| limit > 0))];
    let lists: [(&[&str], Given<'_>); 5] = [
        (&["memory"], &memory),
        (&["cpu"], &cpu),
        (&["cpuset"], &cpuset),
        (&["blkio", "io"], &blkio),
        (&["pids"], &pids),
    ];
    for (controllers, fields) in lists {
        if controllers.iter().any(|controller| host.with(controller).is_some()) {
            continue;
        }
        if let Some((field, _)) = fields.iter().find(|(_, asked)| *asked) {
            let controller = controllers[0];
            return Err(Error::unsupported(format!("{field}: this host has no {controller} cgroup")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
