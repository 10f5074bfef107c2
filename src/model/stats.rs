//! The resources that a running container uses (the stats object), and the document of an update.
// The fields are the specification's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use super::{Resources, RestartPolicy, null_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Body of an update. Only limits that can change during a container's life apply; 0, an empty value, or a restart
/// policy without a name leaves the value as it is.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::UpdateContainer;
///
/// let body: UpdateContainer = serde_json::from_str(r#"{"Memory": 134217728}"#).unwrap();
/// for warning in engine.container_update("clock", &body)?.warnings {
///     eprintln!("{warning}");
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct UpdateContainer {
    /// The new limits; zeroes change nothing. Their members stand beside the others of this object.
    #[serde(flatten)]
    pub resources: Resources,
    /// The new restart policy; one without a name changes nothing.
    #[serde(deserialize_with = "null_default")]
    pub restart_policy: RestartPolicy,
}

/// Answer of an update.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::{Resources, UpdateContainer};
///
/// let resources = Resources { memory: 64 << 20, ..Default::default() };
/// let updated = engine.container_update("clock", &UpdateContainer { resources, ..Default::default() })?;
/// println!("{}", updated.warnings.join("\n"));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Updated {
    /// Parts of the request that have no effect on this host, in words.
    pub warnings: Vec<String>,
}

/// How stats are asked for.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StatsQuery;
///
/// let query = StatsQuery { stream: false, one_shot: true };
/// let sample = engine.container_stats("clock", query)?.next(None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct StatsQuery {
    /// One sample a second until the container is removed; else a single sample, with the sample of a second before as
    /// `precpu_stats`.
    pub stream: bool,
    /// Not a stream: one sample at once, without one before it.
    pub one_shot: bool,
}

impl Default for StatsQuery {
    fn default() -> StatsQuery {
        StatsQuery { stream: true, one_shot: false }
    }
}

/// One sample. If the container does not run, all values are zero, absent or null.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StatsQuery;
///
/// let mut samples = engine.container_stats("clock", StatsQuery { stream: false, one_shot: true })?;
/// if let Some(sample) = samples.next(None)? {
///     println!("{} {} {:?}", sample.read, sample.name, sample.memory_stats.usage);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerStats {
    /// RFC 3339, `0001-01-01T00:00:00Z` where there is none.
    pub read: String,
    /// When `precpu_stats` was read.
    pub preread: String,
    /// Processes and threads.
    pub pids_stats: PidsStats,
    /// Use of disks.
    pub blkio_stats: BlkioStats,
    /// 0: a count that another system has.
    pub num_procs: u32,
    /// Empty: another system's.
    pub storage_stats: BTreeMap<String, u64>,
    /// Use of processors until this sample.
    pub cpu_stats: CpuStats,
    /// `cpu_stats` of the sample before this one.
    pub precpu_stats: CpuStats,
    /// Use of memory.
    pub memory_stats: MemoryStats,
    /// The container's name, with a slash before it.
    pub name: String,
    /// The container's id.
    pub id: String,
    /// By interface, without the loopback; absent on the host's network and without a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<BTreeMap<String, NetworkCounters>>,
    /// `linux`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub os_type: String,
}

/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StatsQuery;
///
/// let mut samples = engine.container_stats("clock", StatsQuery { stream: false, one_shot: true })?;
/// if let Some(sample) = samples.next(None)? {
///     println!("{} of {} processes", sample.pids_stats.current, sample.pids_stats.limit);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PidsStats {
    /// Number of processes and threads.
    #[serde(skip_serializing_if = "is_zero")]
    pub current: u64,
    /// 0: no bound.
    #[serde(skip_serializing_if = "is_zero")]
    pub limit: u64,
}

/// Lists of one kind of number each; null where nothing runs.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StatsQuery;
///
/// let mut samples = engine.container_stats("clock", StatsQuery { stream: false, one_shot: true })?;
/// if let Some(sample) = samples.next(None)? {
///     println!("{:?}", sample.blkio_stats.io_service_bytes_recursive);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlkioStats {
    /// Bytes by device and operation; absent: the kernel does not tell.
    pub io_service_bytes_recursive: Option<Vec<BlkioEntry>>,
    /// Requests by device and operation; absent: the kernel does not tell.
    pub io_serviced_recursive: Option<Vec<BlkioEntry>>,
    /// Requests that wait, by device and operation; absent: the kernel does not tell.
    pub io_queue_recursive: Option<Vec<BlkioEntry>>,
    /// Nanoseconds of service by device and operation; absent: the kernel does not tell.
    pub io_service_time_recursive: Option<Vec<BlkioEntry>>,
    /// Nanoseconds of waiting by device and operation; absent: the kernel does not tell.
    pub io_wait_time_recursive: Option<Vec<BlkioEntry>>,
    /// Merged requests by device and operation; absent: the kernel does not tell.
    pub io_merged_recursive: Option<Vec<BlkioEntry>>,
    /// Milliseconds of disk time by device; absent: the kernel does not tell.
    pub io_time_recursive: Option<Vec<BlkioEntry>>,
    /// Sectors by device; absent: the kernel does not tell.
    pub sectors_recursive: Option<Vec<BlkioEntry>>,
}

/// A number of one kind on one device.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StatsQuery;
///
/// let mut samples = engine.container_stats("clock", StatsQuery { stream: false, one_shot: true })?;
/// if let Some(sample) = samples.next(None)? {
///     for entry in sample.blkio_stats.io_service_bytes_recursive.iter().flatten() {
///         println!("{}:{} {} {} bytes", entry.major, entry.minor, entry.op, entry.value);
///     }
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlkioEntry {
    /// The device's major number.
    pub major: u64,
    /// The device's minor number.
    pub minor: u64,
    /// The operation, such as `Read`.
    pub op: String,
    /// The value, in the unit of its list.
    pub value: u64,
}

/// Times in nanoseconds.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StatsQuery;
///
/// let mut samples = engine.container_stats("clock", StatsQuery { stream: false, one_shot: true })?;
/// if let Some(sample) = samples.next(None)? {
///     let used = sample.cpu_stats.cpu_usage.total_usage - sample.precpu_stats.cpu_usage.total_usage;
///     println!("{used} ns of {} processors", sample.cpu_stats.online_cpus);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuStats {
    /// Processor time of the container.
    pub cpu_usage: CpuUsage,
    /// All CPU time that the host had, idle or not.
    #[serde(skip_serializing_if = "is_zero")]
    pub system_cpu_usage: u64,
    /// Number of processors.
    #[serde(skip_serializing_if = "is_zero")]
    pub online_cpus: u64,
    /// How often the quota held the container up.
    pub throttling_data: ThrottlingData,
}

/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StatsQuery;
///
/// let mut samples = engine.container_stats("clock", StatsQuery { stream: false, one_shot: true })?;
/// if let Some(sample) = samples.next(None)? {
///     let usage = sample.cpu_stats.cpu_usage;
///     println!("{} ns, of these {} in the kernel", usage.total_usage, usage.usage_in_kernelmode);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuUsage {
    /// Nanoseconds of processor time.
    pub total_usage: u64,
    /// Only cgroup v1 reports it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub percpu_usage: Vec<u64>,
    /// Nanoseconds of these in the kernel.
    pub usage_in_kernelmode: u64,
    /// Nanoseconds of these in programs.
    pub usage_in_usermode: u64,
}

/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StatsQuery;
///
/// let mut samples = engine.container_stats("clock", StatsQuery { stream: false, one_shot: true })?;
/// if let Some(sample) = samples.next(None)? {
///     let throttling = sample.cpu_stats.throttling_data;
///     println!("throttled in {} of {} periods", throttling.throttled_periods, throttling.periods);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThrottlingData {
    /// Periods of the quota.
    pub periods: u64,
    /// Periods in which the quota was used up.
    pub throttled_periods: u64,
    /// Nanoseconds that the container was held up.
    pub throttled_time: u64,
}

/// Bytes, and the counters of the kernel's `memory.stat`.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StatsQuery;
///
/// let mut samples = engine.container_stats("clock", StatsQuery { stream: false, one_shot: true })?;
/// if let Some(sample) = samples.next(None)? {
///     println!("{:?} of {:?} bytes", sample.memory_stats.usage, sample.memory_stats.limit);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryStats {
    /// Bytes in use, file cache included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<u64>,
    /// The most bytes that were in use; cgroup v1 alone has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_usage: Option<u64>,
    /// The kernel's own counters of the control group, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stats: BTreeMap<String, u64>,
    /// How often the limit was hit; cgroup v1 alone has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failcnt: Option<u64>,
    /// The host's memory where there is no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StatsQuery;
///
/// let mut samples = engine.container_stats("clock", StatsQuery { stream: false, one_shot: true })?;
/// if let Some(sample) = samples.next(None)? {
///     for (interface, counters) in sample.networks.iter().flatten() {
///         println!("{interface} {} bytes in, {} out", counters.rx_bytes, counters.tx_bytes);
///     }
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkCounters {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Errors of receiving.
    pub rx_errors: u64,
    /// Received packets that were dropped.
    pub rx_dropped: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Errors of sending.
    pub tx_errors: u64,
    /// Packets that were dropped rather than sent.
    pub tx_dropped: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}
