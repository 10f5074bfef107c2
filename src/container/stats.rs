//! What a container uses, one sample a second.

use super::Containers;
use super::text::format_time;
use crate::error::{ErrorKind, Result};
use crate::kernel::file::read_text;
use crate::kernel::process;
use crate::kernel::watch::Watch;
use crate::launch::cgroup::{self, Files, Live};
use crate::model::*;
use crate::op::{Op, Ready, wait_fd};
use crate::store::states::Now;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two samples.
const PERIOD: Duration = Duration::from_secs(1);

/// Samples of one container's use of CPU, memory, devices and network.
pub struct StatsStream {
    all: Arc<Containers>,
    id: String,
    live: Live,
    files: Files,
    on_host_network: bool,
    query: StatsQuery,
    /// What the sample before this one said of the CPU, and when.
    before: Option<(String, CpuStats)>,
    /// Readable when the next sample is due.
    watch: Watch,
    due: Option<Instant>,
    ended: bool,
}

impl Containers {
    /// Begins to sample a container, whether it runs or not.
    pub(crate) fn stats(self: &Arc<Self>, reference: &str, query: StatsQuery) -> Result<StatsStream> {
        let found = self.find(reference)?;
        Ok(StatsStream {
            live: Live::locate(&self.hierarchies, &found.spec.cgroup_parent, &found.row.id)?,
            files: if query.stream { Files::kept() } else { Files::default() },
            on_host_network: found.spec.host_config.network_mode == "host",
            id: found.row.id.clone(),
            all: Arc::clone(self),
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

    /// The next sample: the first of a stream at once, others a second after the one before; of a query that is no stream
    /// the only one. `None`: there is no other, or the container is removed.
    ///
    /// Errors: `op` ended; the root cannot be read.
    pub fn next(&mut self, op: Option<&Op>) -> Result<Option<ContainerStats>> {
        if self.ended {
            return Ok(None);
        }
        self.wait(op)?;
        let mut sample = self.sample()?;
        if !self.query.stream {
            // A stopped container's zeroes need no second look.
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
        // Counted from the due time, so that a slow reader's samples do not drift.
        let now = Instant::now();
        self.due = Some(self.due.map_or(now, |due| due.max(now.checked_sub(PERIOD).unwrap_or(now))) + PERIOD);
        self.watch.drain();
        self.watch.set_pending(false);
        let found = match self.all.find(&self.id) {
            Ok(found) if found.row.id == self.id => found,
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let never = || format_time(0);
        let mut sample = ContainerStats {
            name: format!("/{}", found.row.name),
            id: self.id.clone(),
            read: never(),
            preread: never(),
            ..ContainerStats::default()
        };
        if found.now.is_live() && found.now.state.pid != 0 {
            self.fill(&mut sample, &found.now);
        }
        Ok(Some(sample))
    }

    fn fill(&mut self, sample: &mut ContainerStats, now: &Now) {
        let used = self.live.stats(&mut self.files);
        sample.read = format_time(super::now_ns());
        sample.cpu_stats = cpu(&used);
        sample.memory_stats = memory(&used);
        sample.pids_stats = PidsStats { current: used.pids, limit: used.pids_limit };
        sample.networks = if self.on_host_network { None } else { networks(now) };
        sample.blkio_stats = blkio(used);
        let this = (sample.read.clone(), sample.cpu_stats.clone());
        if let Some((read, cpu)) = self.before.replace(this) {
            (sample.preread, sample.precpu_stats) = (read, cpu);
        }
    }
}

fn cpu(used: &cgroup::CgroupStats) -> CpuStats {
    let (system_cpu_usage, online_cpus) = host_cpu();
    CpuStats {
        cpu_usage: CpuUsage {
            total_usage: used.cpu_total,
            percpu_usage: used.cpu_each.clone(),
            usage_in_kernelmode: used.cpu_kernel,
            usage_in_usermode: used.cpu_user,
        },
        system_cpu_usage,
        online_cpus,
        throttling_data: ThrottlingData {
            periods: used.cpu_periods,
            throttled_periods: used.cpu_throttled_periods,
            throttled_time: used.cpu_throttled,
        },
    }
}

/// The CPU time that the host had since its boot in ns, in all states but guests' (which the others hold), and how many
/// CPUs are on.
fn host_cpu() -> (u64, u64) {
    /// The kernel tells times to programs in hundredths of a second, whatever it counts in.
    const TICK_NS: u64 = 10_000_000;
    let text = read_text("/proc/stat").unwrap_or_default();
    let mut lines = text.lines().take_while(|line| line.starts_with("cpu"));
    let total = lines.next().unwrap_or_default();
    let ticks: u64 = total.split_whitespace().skip(1).take(7).filter_map(|word| word.parse::<u64>().ok()).sum();
    (ticks * TICK_NS, lines.count() as u64)
}

fn memory(used: &cgroup::CgroupStats) -> MemoryStats {
    let host = cgroup::host_memory();
    MemoryStats {
        usage: Some(used.memory_usage),
        max_usage: Some(used.memory_max_usage).filter(|max| *max > 0),
        stats: used.memory.clone(),
        failcnt: Some(used.memory_fail_count),
        limit: Some(if host > 0 { used.memory_limit.min(host) } else { used.memory_limit }),
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

/// The counters of the network namespace that the first process is in.
fn networks(now: &Now) -> Option<BTreeMap<String, NetworkCounters>> {
    let pid = now.state.pid;
    let text = read_text(format!("/proc/{pid}/net/dev")).ok()?;
    // The process may have ended, and its number been given away, before the file was opened.
    if process::start_time(pid) != Some(now.state.pid_start) {
        return None;
    }
    let found: BTreeMap<_, _> = text.lines().filter_map(interface).collect();
    (!found.is_empty()).then_some(found)
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
        let (time, cpus) = host_cpu();
        assert!(time > 0 && cpus > 0);
    }
}
