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
    #[serde(flatten)]
    pub resources: Resources,
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
    pub pids_stats: PidsStats,
    pub blkio_stats: BlkioStats,
    /// 0: a count that another system has.
    pub num_procs: u32,
    /// Empty: another system's.
    pub storage_stats: BTreeMap<String, u64>,
    pub cpu_stats: CpuStats,
    /// `cpu_stats` of the sample before this one.
    pub precpu_stats: CpuStats,
    pub memory_stats: MemoryStats,
    pub name: String,
    pub id: String,
    /// By interface, without the loopback; absent on the host's network and without a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<BTreeMap<String, NetworkCounters>>,
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
    pub io_service_bytes_recursive: Option<Vec<BlkioEntry>>,
    pub io_serviced_recursive: Option<Vec<BlkioEntry>>,
    pub io_queue_recursive: Option<Vec<BlkioEntry>>,
    pub io_service_time_recursive: Option<Vec<BlkioEntry>>,
    pub io_wait_time_recursive: Option<Vec<BlkioEntry>>,
    pub io_merged_recursive: Option<Vec<BlkioEntry>>,
    pub io_time_recursive: Option<Vec<BlkioEntry>>,
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
    pub major: u64,
    pub minor: u64,
    pub op: String,
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
    pub cpu_usage: CpuUsage,
    /// All CPU time that the host had, idle or not.
    #[serde(skip_serializing_if = "is_zero")]
    pub system_cpu_usage: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub online_cpus: u64,
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
    pub total_usage: u64,
    /// Only cgroup v1 reports it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub percpu_usage: Vec<u64>,
    pub usage_in_kernelmode: u64,
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
    pub periods: u64,
    pub throttled_periods: u64,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_usage: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stats: BTreeMap<String, u64>,
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
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub rx_errors: u64,
    pub rx_dropped: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}
