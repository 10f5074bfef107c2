//! A container's resource usage, read from its groups. A number that the host lacks is 0, a list empty.

use super::Version;
use super::files::Files;
use crate::model::BlkioEntry;
use std::collections::BTreeMap;
use std::path::Path;

/// One reading of all groups. Times are nanoseconds, sizes bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CgroupStats {
    pub cpu_total: u64,
    pub cpu_user: u64,
    pub cpu_kernel: u64,
    /// The part of each CPU; v2 does not report it.
    pub cpu_each: Vec<u64>,
    pub cpu_periods: u64,
    pub cpu_throttled_periods: u64,
    pub cpu_throttled: u64,
    pub memory_usage: u64,
    pub memory_max_usage: u64,
    pub memory_fail_count: u64,
    /// `u64::MAX` or nearly: unlimited.
    pub memory_limit: u64,
    /// memory.stat, with the keys of the hierarchy's version.
    pub memory: BTreeMap<String, u64>,
    /// `op` is `Read`, `Write`, `Discard`, and on v1 also `Sync`, `Async`, `Total`.
    pub io_bytes: Vec<BlkioEntry>,
    pub io_operations: Vec<BlkioEntry>,
    pub pids: u64,
    /// 0 is unlimited.
    pub pids_limit: u64,
}

/// Reads all values; `place` returns the directory of a controller.
pub(super) fn read<'a>(
    files: &mut Files,
    place: &dyn Fn(&str) -> Option<(Version, &'a Path)>,
    unified: Option<&Path>,
) -> CgroupStats {
    let mut stats = CgroupStats::default();
    match (place("cpuacct"), unified) {
        (Some((_, dir)), _) => cpu_v1(files, dir, &mut stats),
        // v2 accounts CPU time in every group, with or without the controller.
        (None, Some(dir)) => cpu_v2(files, dir, &mut stats),
        (None, None) => {}
    }
    if let Some((version, dir)) = place("cpu") {
        let (throttled, unit) = match version {
            Version::V1 => ("throttled_time", 1),
            Version::V2 => ("throttled_usec", 1000),
        };
        for (word, value) in pairs(files.text(dir, "cpu.stat").unwrap_or_default()) {
            match word {
                "nr_periods" => stats.cpu_periods = value,
                "nr_throttled" => stats.cpu_throttled_periods = value,
                word if word == throttled => stats.cpu_throttled = value * unit,
                _ => {}
            }
        }
    }
    match place("memory") {
        Some((Version::V1, dir)) => memory_v1(files, dir, &mut stats),
        Some((Version::V2, dir)) => memory_v2(files, dir, &mut stats),
        None => {}
    }
    if let Some((Version::V1, dir)) = place("blkio") {
        io_v1(files, dir, &mut stats);
    } else if let Some((_, dir)) = place("io") {
        let text = files.text(dir, "io.stat").unwrap_or_default();
        stats.io_bytes = io_v2(text, [("rbytes", "Read"), ("wbytes", "Write"), ("dbytes", "Discard")]);
        stats.io_operations = io_v2(text, [("rios", "Read"), ("wios", "Write"), ("dios", "Discard")]);
    }
    if let Some((_, dir)) = place("pids") {
        stats.pids = number(files, dir, "pids.current");
        stats.pids_limit = number(files, dir, "pids.max");
    }
    stats
}

fn cpu_v1(files: &mut Files, dir: &Path, stats: &mut CgroupStats) {
    let each = files.text(dir, "cpuacct.usage_percpu").unwrap_or_default();
    stats.cpu_each = each.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    stats.cpu_total = stats.cpu_each.iter().sum();
    // A line of titles, then one for each CPU: its number, user and kernel time.
    let all = files.text(dir, "cpuacct.usage_all").unwrap_or_default();
    for line in all.lines() {
        let mut numbers = line.split_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
        stats.cpu_user += numbers.next().unwrap_or(0);
        stats.cpu_kernel += numbers.next().unwrap_or(0);
    }
}

fn cpu_v2(files: &mut Files, dir: &Path, stats: &mut CgroupStats) {
    for (word, value) in pairs(files.text(dir, "cpu.stat").unwrap_or_default()) {
        match word {
            "usage_usec" => stats.cpu_total = value * 1000,
            "user_usec" => stats.cpu_user = value * 1000,
            "system_usec" => stats.cpu_kernel = value * 1000,
            _ => {}
        }
    }
}

fn memory_v1(files: &mut Files, dir: &Path, stats: &mut CgroupStats) {
    /// The kernel's number for "no limit" is about a page less than the double of this.
    const HALF_OF_NO_LIMIT: u64 = i64::MAX as u64 / 2;
    stats.memory_usage = number(files, dir, "memory.usage_in_bytes");
    stats.memory_max_usage = number(files, dir, "memory.max_usage_in_bytes");
    stats.memory_fail_count = number(files, dir, "memory.failcnt");
    stats.memory = owned(files.text(dir, "memory.stat").unwrap_or_default());
    // The least of its own limit and those above it; if none is set, the container has no limit.
    stats.memory_limit = match stats.memory.get("hierarchical_memory_limit") {
        Some(none) if *none > HALF_OF_NO_LIMIT => *none,
        _ => number(files, dir, "memory.limit_in_bytes"),
    };
}

fn memory_v2(files: &mut Files, dir: &Path, stats: &mut CgroupStats) {
    stats.memory_usage = number(files, dir, "memory.current");
    stats.memory_max_usage = number(files, dir, "memory.peak");
    let events = files.text(dir, "memory.events").unwrap_or_default();
    stats.memory_fail_count = pairs(events).find_map(|(word, value)| (word == "max").then_some(value)).unwrap_or(0);
    stats.memory_limit = match files.text(dir, "memory.max") {
        Ok(text) => text.trim().parse().unwrap_or(u64::MAX),
        Err(_) => 0,
    };
    stats.memory = owned(files.text(dir, "memory.stat").unwrap_or_default());
}

/// The scheduler of a device decides which file counts: BFQ has its own.
fn io_v1(files: &mut Files, dir: &Path, stats: &mut CgroupStats) {
    const BYTES_AND_OPERATIONS: [(&str, &str); 3] = [
        ("blkio.bfq.io_service_bytes_recursive", "blkio.bfq.io_serviced_recursive"),
        ("blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_serviced_recursive"),
        ("blkio.io_service_bytes_recursive", "blkio.io_serviced_recursive"),
    ];
    let mut read = |name: &'static str| -> Vec<BlkioEntry> {
        files.text(dir, name).unwrap_or_default().lines().filter_map(entry_v1).collect()
    };
    for (bytes, operations) in BYTES_AND_OPERATIONS {
        stats.io_bytes = read(bytes);
        if !stats.io_bytes.is_empty() {
            stats.io_operations = read(operations);
            return;
        }
    }
}

/// `8:0 Read 4096`; the last line, `Total 4096`, names no device.
fn entry_v1(line: &str) -> Option<BlkioEntry> {
    let mut words = line.split_whitespace();
    let (major, minor) = device(words.next()?)?;
    Some(BlkioEntry { major, minor, op: words.next()?.to_owned(), value: words.next()?.parse().ok()? })
}

/// `8:0 rbytes=4096 wbytes=0 ...`
fn io_v2(text: &str, keys: [(&str, &str); 3]) -> Vec<BlkioEntry> {
    let mut entries = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some((major, minor)) = words.next().and_then(device) else { continue };
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            if let (Some((_, op)), Ok(value)) = (keys.iter().find(|(name, _)| *name == key), value.parse()) {
                entries.push(BlkioEntry { major, minor, op: (*op).to_owned(), value });
            }
        }
    }
    entries
}

fn device(word: &str) -> Option<(u64, u64)> {
    let (major, minor) = word.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn number(files: &mut Files, dir: &Path, name: &'static str) -> u64 {
    files.text(dir, name).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The lines `word number` of a file.
fn pairs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| line.split_once(' ')).filter_map(|(word, value)| Some((word, value.parse().ok()?)))
}

fn owned(text: &str) -> BTreeMap<String, u64> {
    pairs(text).map(|(word, value)| (word.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_lines() {
        let v1: Vec<BlkioEntry> = "8:0 Read 4096\n8:0 Total 4096\nTotal 4096\n".lines().filter_map(entry_v1).collect();
        assert_eq!(v1.len(), 2);
        assert_eq!((v1[0].major, v1[0].op.as_str(), v1[0].value), (8, "Read", 4096));
        let v2 = io_v2(
            "259:3 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n8:0 \n",
            [("rbytes", "Read"), ("wbytes", "Write"), ("dbytes", "Discard")],
        );
        let got: Vec<(u64, &str, u64)> = v2.iter().map(|entry| (entry.minor, entry.op.as_str(), entry.value)).collect();
        assert_eq!(got, [(3, "Read", 1), (3, "Write", 2), (3, "Discard", 5)]);
    }
}
