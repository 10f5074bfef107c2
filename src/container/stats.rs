//! Samples of a container's resource usage, one a second.

use super::network::{Mode, mode};
use super::text::format_time;
use super::{Finder, Groups};
use crate::error::{ErrorKind, Result};
use crate::kernel::file::read_text;
use crate::kernel::process::ProcDir;
use crate::kernel::watch::Watch;
use crate::launch::cgroup::{self, Files, Live};
use crate::model::*;
use crate::op::{Op, Ready, wait_fd};
use crate::store::Cached;
use crate::store::containers::{self as table, ContainerRow};
use crate::store::states::Now;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two samples.
const PERIOD: Duration = Duration::from_secs(1);

/// Samples of one container's use of CPU, memory, devices and network.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StatsQuery;
///
/// let mut samples = engine.container_stats("clock", StatsQuery::default())?;
/// while let Some(sample) = samples.next(None)? {
///     println!("{} bytes of memory", sample.memory_stats.usage.unwrap_or(0));
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
pub struct StatsStream {
    finder: Arc<Finder>,
    id: String,
    live: Live,
    files: Files,
    process: Option<First>,
    /// The container has network interfaces of its own, or another container's: neither the host's nor the loopback
    /// alone.
    has_networks: bool,
    row: Cached<Option<ContainerRow>>,
    query: StatsQuery,
    /// The CPU part of the sample before this one, and its time.
    before: Option<(String, CpuStats)>,
    /// Readable when the next sample is due.
    watch: Watch,
    due: Option<Instant>,
    ended: bool,
}

/// Samples the resource usage of containers.
pub(crate) struct Sampler {
    pub(super) groups: Arc<Groups>,
    pub(super) finder: Arc<Finder>,
}

impl Sampler {
    /// Begins to sample a container, running or not.
    pub(crate) fn stats(&self, reference: &str, query: StatsQuery) -> Result<StatsStream> {
        let found = self.finder.find(reference)?;
        Ok(StatsStream {
            live: self.groups.live_groups(&found)?,
            files: if query.stream { Files::cached() } else { Files::default() },
            process: None,
            has_networks: matches!(mode(&found.spec), Mode::Container(_) | Mode::Networks),
            row: Cached::default(),
            id: found.row.id.clone(),
            finder: Arc::clone(&self.finder),
            query,
            before: None,
            watch: Watch::new()?,
            due: None,
            ended: false,
        })
    }
}

impl StatsStream {
    /// A descriptor that is readable when the next sample is due.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.watch.fd()
    }

    /// The next sample. A stream gives the first one at once and each other one a second later; a single query gives
    /// only one. `None`: the single query has given its sample, or the container was removed.
    ///
    /// Errors: `op` ended; the root cannot be read.
    pub fn next(&mut self, op: Option<&Op>) -> Result<Option<ContainerStats>> {
        if self.ended {
            return Ok(None);
        }
        self.wait(op)?;
        let mut sample = self.sample()?;
        if !self.query.stream {
            // The zeroes of a stopped container need no second sample.
            if !self.query.one_shot && sample.as_ref().is_some_and(|sample| sample.cpu_stats.online_cpus > 0) {
                self.wait(op)?;
                sample = self.sample()?;
            }
            self.ended = true;
        }
        self.ended |= sample.is_none();
        Ok(sample)
    }

    fn wait(&mut self, op: Option<&Op>) -> Result<()> {
        op.map_or(Ok(()), Op::check)?;
        let Some(due) = self.due else { return self.watch.beat(PERIOD) };
        while Instant::now() < due {
            self.watch.set_pending(false);
            wait_fd(self.watch.fd(), Ready::Read, Some(due.saturating_duration_since(Instant::now())), op)?;
            self.watch.drain();
        }
        Ok(())
    }

    fn sample(&mut self) -> Result<Option<ContainerStats>> {
        // Counted from the due time, so that the samples of a slow reader do not drift.
        let now = Instant::now();
        self.due = Some(self.due.map_or(now, |due| due.max(now.checked_sub(PERIOD).unwrap_or(now))) + PERIOD);
        self.watch.drain();
        self.watch.set_pending(false);
        let Some((name, now)) = self.look()? else { return Ok(None) };
        let never = || format_time(0);
        let mut sample = ContainerStats {
            name: format!("/{name}"),
            id: self.id.clone(),
            read: never(),
            preread: never(),
            os_type: std::env::consts::OS.to_owned(),
            ..ContainerStats::default()
        };
        if now.is_live() && now.state.pid != 0 {
            self.fill(&mut sample, &now);
        }
        Ok(Some(sample))
    }

    /// The container's name and present state; `None` once it is removed.
    fn look(&self) -> Result<Option<(String, Now)>> {
        let row = self.row.read(&self.finder.register.db, |_| true, |tx| table::bare(tx, &self.id))?;
        let Some(row) = row.as_ref() else { return Ok(None) };
        let now = self.finder.register.states.now(row.slot, &row.id)?;
        if !now.lost {
            return Ok(Some((row.name.clone(), now)));
        }
        match self.finder.find(&self.id) {
            Ok(found) if found.row.id == self.id => Ok(Some((found.row.name.clone(), found.now))),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// After a restart the container has other groups and another process.
    fn follow(&mut self, now: &Now) {
        if !self.process.as_ref().is_some_and(|process| process.is(now)) {
            self.files.forget();
            self.process = First::of(now);
        }
    }

    fn fill(&mut self, sample: &mut ContainerStats, now: &Now) {
        let host = host();
        self.follow(now);
        let mut used = self.live.stats(&mut self.files);
        sample.read = format_time(super::now_ns());
        sample.cpu_stats = cpu(&mut used, &host);
        sample.memory_stats = memory(&mut used, &host);
        sample.pids_stats = PidsStats { current: used.pids, limit: used.pids_limit };
        sample.networks = self.process.as_ref().filter(|_| self.has_networks).and_then(First::networks);
        sample.blkio_stats = blkio(used);
        if !self.files.is_cached() {
            self.process = None;
        }
        let this = (sample.read.clone(), sample.cpu_stats.clone());
        if let Some((read, cpu)) = self.before.replace(this) {
            (sample.preread, sample.precpu_stats) = (read, cpu);
        }
    }
}

/// The first process of the container, for the container's network namespace.
struct First {
    pid: i32,
    start: u64,
    dir: ProcDir,
}

impl First {
    fn of(now: &Now) -> Option<First> {
        let (pid, start) = (now.state.pid, now.state.pid_start);
        Some(First { pid, start, dir: ProcDir::open(pid, start)? })
    }

    fn is(&self, now: &Now) -> bool {
        (self.pid, self.start) == (now.state.pid, now.state.pid_start)
    }

    /// The counters of its network namespace.
    fn networks(&self) -> Option<BTreeMap<String, NetworkCounters>> {
        let found: BTreeMap<_, _> = self.dir.text("net/dev")?.lines().filter_map(interface).collect();
        (!found.is_empty()).then_some(found)
    }
}

/// Facts about the host that all containers share.
#[derive(Clone, Copy)]
struct Host {
    /// The CPU time in ns since the boot, of all states but guests' (which other states include).
    cpu_time: u64,
    /// The number of online CPUs.
    cpus: u64,
    /// Bytes.
    memory: u64,
}

/// The host's counters, at most one tick old: samples of many containers at the same moment share one read.
fn host() -> Host {
    static LAST: Mutex<Option<(Instant, Host)>> = Mutex::new(None);
    let mut last = LAST.lock();
    let now = Instant::now();
    match *last {
        Some((read, host)) if now.duration_since(read) < Duration::from_nanos(TICK_NS) => host,
        _ => last.insert((now, Host::read())).1,
    }
}

/// The kernel reports times to programs in hundredths of a second, whatever its own unit is.
const TICK_NS: u64 = 10_000_000;

impl Host {
    fn read() -> Host {
        let text = read_text("/proc/stat").unwrap_or_default();
        let mut lines = text.lines().take_while(|line| line.starts_with("cpu"));
        let total = lines.next().unwrap_or_default();
        let ticks: u64 = total.split_whitespace().skip(1).take(7).filter_map(|word| word.parse::<u64>().ok()).sum();
        Host { cpu_time: ticks * TICK_NS, cpus: lines.count() as u64, memory: cgroup::host_memory() }
    }
}

fn cpu(used: &mut cgroup::CgroupStats, host: &Host) -> CpuStats {
    CpuStats {
        cpu_usage: CpuUsage {
            total_usage: used.cpu_total,
            percpu_usage: std::mem::take(&mut used.cpu_each),
            usage_in_kernelmode: used.cpu_kernel,
            usage_in_usermode: used.cpu_user,
        },
        system_cpu_usage: host.cpu_time,
        online_cpus: host.cpus,
        throttling_data: ThrottlingData {
            periods: used.cpu_periods,
            throttled_periods: used.cpu_throttled_periods,
            throttled_time: used.cpu_throttled,
        },
    }
}

fn memory(used: &mut cgroup::CgroupStats, host: &Host) -> MemoryStats {
    MemoryStats {
        usage: Some(used.memory_usage),
        max_usage: Some(used.memory_max_usage).filter(|max| *max > 0),
        stats: std::mem::take(&mut used.memory),
        failcnt: Some(used.memory_fail_count),
        limit: Some(if host.memory > 0 { used.memory_limit.min(host.memory) } else { used.memory_limit }),
    }
}

fn blkio(used: cgroup::CgroupStats) -> BlkioStats {
    let none = || Some(Vec::new());
    BlkioStats {
        io_service_bytes_recursive: Some(used.io_bytes),
        io_serviced_recursive: Some(used.io_operations),
        io_queue_recursive: none(),
        io_service_time_recursive: none(),
        io_wait_time_recursive: none(),
        io_merged_recursive: none(),
        io_time_recursive: none(),
        sectors_recursive: none(),
    }
}

/// `  eth0:  646  7 0 0 0 0 0 0  0 0 ...`: bytes, packets, errs, drop and four more, received; the same sent.
fn interface(line: &str) -> Option<(String, NetworkCounters)> {
    let (name, numbers) = line.split_once(':')?;
    let numbers: Vec<u64> = numbers.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [rx_bytes, rx_packets, rx_errors, rx_dropped, _, _, _, _, tx_bytes, tx_packets, tx_errors, tx_dropped, ..] =
        numbers[..]
    else {
        return None;
    };
    let name = name.trim();
    (name != "lo").then(|| {
        let counters = NetworkCounters {
            rx_bytes,
            rx_packets,
            rx_errors,
            rx_dropped,
            tx_bytes,
            tx_packets,
            tx_errors,
            tx_dropped,
        };
        (name.to_owned(), counters)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces() {
        let text = "Inter-|   Receive\n face |bytes    packets errs drop fifo frame compressed multicast|bytes\n\
                        lo:    1    1    0    0    0     0          0         0        1       1    0    0    0     0\n\
                      eth0: 646 7 1 2 0 0 0 0 90 8 3 4 0 0 0 0\n";
        let found: BTreeMap<_, _> = text.lines().filter_map(interface).collect();
        let eth0 = NetworkCounters {
            rx_bytes: 646,
            rx_packets: 7,
            rx_errors: 1,
            rx_dropped: 2,
            tx_bytes: 90,
            tx_packets: 8,
            tx_errors: 3,
            tx_dropped: 4,
        };
        assert_eq!(found, BTreeMap::from([("eth0".to_owned(), eth0)]));
    }

    #[test]
    fn the_host_has_cpus_and_time() {
        let host = host();
        assert!(host.cpu_time > 0 && host.cpus > 0 && host.memory > 0);
    }
}
