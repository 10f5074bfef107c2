//! Facts of a process, and of the machine, from the host's /proc.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Ticks in a second of the times in /proc: the same on every machine that the kernel runs on here.
pub(super) const HERTZ: u64 = 100;
/// The most that is read of one file; a longer command line is cut.
const LIMIT: u64 = 128 << 10;
/// The most that is read of the user and group lists.
const NAMES_LIMIT: u64 = 10 << 20;

/// One process.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// The thread's number; the process's own if no threads are shown.
    pub(super) tid: i32,
    pub(super) ppid: i32,
    pub(super) pgrp: i32,
    pub(super) session: i32,
    pub(super) tpgid: i32,
    pub(super) tty_number: u32,
    pub(super) comm: String,
    pub(super) state: char,
    pub(super) flags: u64,
    pub(super) min_flt: u64,
    pub(super) maj_flt: u64,
    pub(super) cpu_ticks: u64,
    pub(super) priority: i64,
    pub(super) nice: i64,
    pub(super) threads: u64,
    pub(super) start_ticks: u64,
    pub(super) vsize: u64,
    pub(super) rss_kib: u64,
    pub(super) processor: u64,
    pub(super) rt_priority: u64,
    pub(super) policy: u64,
    /// The process holds memory that is never swapped out.
    pub(super) locked: bool,
    /// Real, effective, saved, file system.
    pub(super) uids: [u32; 4],
    pub(super) gids: [u32; 4],
    /// The supplementary groups.
    pub(super) more_groups: Vec<String>,
    /// Pending, blocked, ignored, caught.
    pub(super) signals: [String; 4],
    pub(super) code_size: u64,
    pub(super) stack: u64,
    pub(super) esp: u64,
    pub(super) eip: u64,
    /// The environment, a space before each word, if it is shown.
    pub(super) environment: Option<String>,
    /// The lines of the tree that are drawn before the command.
    pub(super) branch: String,
}

impl Process {
    /// Reads one process; `None`: it is gone.
    pub(super) fn read(pid: i32) -> Option<Process> {
        Process::read_at(pid, pid, &format!("/proc/{pid}"))
    }

    /// Reads the threads of one process; none: it is gone.
    pub(super) fn threads(pid: i32) -> Vec<Process> {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
        let mut threads: Vec<i32> =
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        threads.sort_unstable();
        let read = |tid: i32| Process::read_at(pid, tid, &format!("/proc/{pid}/task/{tid}"));
        threads.into_iter().filter_map(read).collect()
    }

    fn read_at(pid: i32, tid: i32, dir: &str) -> Option<Process> {
        let mut process = Process::parse(pid, &read(&format!("{dir}/stat"), LIMIT)?)?;
        process.add_status(&read(&format!("{dir}/status"), LIMIT)?);
        process.tid = tid;
        Some(process)
    }

    /// Reads the environment, to be shown after the command.
    pub(super) fn add_environment(&mut self) {
        let text = read(&format!("/proc/{}/environ", self.pid), LIMIT).unwrap_or_default();
        let words = text.split('\0').filter(|word| !word.is_empty());
        self.environment = Some(words.map(|word| format!(" {}", printable(word))).collect());
    }

    /// The control groups except those at the root, separated by commas.
    pub(super) fn cgroups(&self) -> String {
        let text = read(&format!("/proc/{}/cgroup", self.pid), LIMIT).unwrap_or_default();
        let lines: Vec<String> = text.lines().filter(|line| !line.ends_with(":/")).map(printable).collect();
        if lines.is_empty() { "-".into() } else { lines.join(",") }
    }

    /// A file of one word.
    pub(super) fn word(&self, file: &str) -> String {
        let text = read(&format!("/proc/{}/{file}", self.pid), LIMIT).unwrap_or_default();
        match text.trim_end_matches(['\n', '\0']) {
            "" => "-".into(),
            word => printable(word),
        }
    }

    /// The target of a link.
    pub(super) fn link(&self, name: &str) -> String {
        let target = std::fs::read_link(format!("/proc/{}/{name}", self.pid));
        target.map_or_else(|_| "-".into(), |path| printable(&path.to_string_lossy()))
    }

    /// The number of a namespace.
    pub(super) fn namespace(&self, kind: &str) -> String {
        let link = self.link(&format!("ns/{kind}"));
        let number = link.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
        number.map_or_else(|| "-".into(), str::to_owned)
    }

    /// The name stands in brackets and may hold brackets itself; fields are numbered as in proc(5).
    fn parse(pid: i32, stat: &str) -> Option<Process> {
        let (head, tail) = stat.rsplit_once(')')?;
        let comm = head.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        let text = |number: usize| fields.get(number - 3).copied().unwrap_or("0");
        let signed = |number| text(number).parse::<i64>().unwrap_or(0);
        let unsigned = |number| text(number).parse::<u64>().unwrap_or(0);
        let id = |number| i32::try_from(signed(number)).unwrap_or(0);
        Some(Process {
            pid,
            tid: pid,
            comm,
            state: fields.first()?.chars().next()?,
            ppid: id(4),
            pgrp: id(5),
            session: id(6),
            tty_number: id(7) as u32,
            tpgid: id(8),
            flags: unsigned(9),
            min_flt: unsigned(10),
            maj_flt: unsigned(12),
            cpu_ticks: unsigned(14) + unsigned(15),
            priority: signed(18),
            nice: signed(19),
            threads: unsigned(20),
            start_ticks: unsigned(22),
            vsize: unsigned(23),
            code_size: unsigned(27).saturating_sub(unsigned(26)),
            stack: unsigned(28),
            esp: unsigned(29),
            eip: unsigned(30),
            processor: unsigned(39),
            rt_priority: unsigned(40),
            policy: unsigned(41),
            ..Process::default()
        })
    }

    fn add_status(&mut self, status: &str) {
        for (key, value) in status.lines().filter_map(|line| line.split_once(':')) {
            let first = || value.split_ascii_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            match key {
                "Uid" => self.uids = four(value),
                "Gid" => self.gids = four(value),
                "VmLck" => self.locked = first() > 0,
                "VmRSS" => self.rss_kib = first(),
                "Groups" => self.more_groups = value.split_ascii_whitespace().map(str::to_owned).collect(),
                "ShdPnd" => self.signals[0] = value.trim().to_owned(),
                "SigBlk" => self.signals[1] = value.trim().to_owned(),
                "SigIgn" => self.signals[2] = value.trim().to_owned(),
                "SigCgt" => self.signals[3] = value.trim().to_owned(),
                _ => {}
            }
        }
    }

    /// The command line, or the name in square brackets if there is none.
    pub(super) fn args(&self) -> String {
        let line = match self.state {
            'Z' => None,
            _ => read(&format!("/proc/{}/cmdline", self.pid), LIMIT),
        };
        match line.as_deref().map(|line| line.trim_end_matches('\0')) {
            None | Some("") => format!("[{}]", printable(&self.comm)),
            Some(line) => printable(&line.replace('\0', " ")),
        }
    }

    /// The kernel function in which the process waits.
    pub(super) fn wchan(&self) -> String {
        match read(&format!("/proc/{}/wchan", self.pid), LIMIT).as_deref().map(str::trim) {
            None | Some("" | "0") => "-".into(),
            Some(name) => printable(name.trim_start_matches(['.', '_'])),
        }
    }

    /// The name of the terminal; a container's terminal is not a host's one and has no name.
    pub(super) fn tty(&self) -> String {
        let (major, minor) = (self.tty_number >> 8 & 0xfff, self.tty_number & 0xff | self.tty_number >> 12 & 0xfff00);
        let name = match major {
            4 if minor < 64 => format!("tty{minor}"),
            4 => format!("ttyS{}", minor - 64),
            136..=143 => format!("pts/{}", minor + (major - 136) * 256),
            204 => format!("ttyAMA{}", minor.saturating_sub(64)),
            229 => format!("hvc{minor}"),
            _ => return "?".into(),
        };
        let device = std::fs::symlink_metadata(format!("/dev/{name}")).map(|file| file.rdev());
        match device.is_ok_and(|device| device == libc::makedev(major, minor)) {
            true => name,
            false => "?".into(),
        }
    }
}

fn four(text: &str) -> [u32; 4] {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0));
    [(); 4].map(|()| numbers.next().unwrap_or(0))
}

/// The machine.
pub(super) struct Host {
    pub(super) uptime_ticks: u64,
    pub(super) now_seconds: i64,
    pub(super) boot_seconds: i64,
    pub(super) memory_kib: u64,
    pub(super) page_size: u64,
    users: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
}

impl Host {
    pub(super) fn read() -> Result<Host> {
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
        let word = |text: &str, key: &str| {
            number(text.lines().find_map(|line| line.strip_prefix(key)?.split_ascii_whitespace().next()))
        };
        let uptime = read("/proc/uptime", LIMIT).and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        let uptime = uptime.ok_or_else(|| Error::internal("/proc/uptime cannot be read").in_area("container"))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096);
        Ok(Host {
            uptime_ticks: (uptime * HERTZ as f64) as u64,
            now_seconds: now as i64,
            boot_seconds: word(&read("/proc/stat", NAMES_LIMIT).unwrap_or_default(), "btime ") as i64,
            memory_kib: word(&read("/proc/meminfo", LIMIT).unwrap_or_default(), "MemTotal:"),
            page_size: page as u64,
            users: names("/etc/passwd"),
            groups: names("/etc/group"),
        })
    }

    /// A user's name, or the number if it has none.
    pub(super) fn user(&self, id: u32) -> String {
        self.users.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    /// The number of the user with this name.
    pub(super) fn user_id(&self, name: &str) -> Option<u32> {
        self.users.iter().find(|(_, known)| *known == name).map(|(id, _)| *id)
    }

    pub(super) fn group_id(&self, name: &str) -> Option<u32> {
        self.groups.iter().find(|(_, known)| *known == name).map(|(id, _)| *id)
    }

    pub(super) fn group(&self, id: u32) -> String {
        self.groups.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }
}

/// Replaces by question marks the characters that would break the line or the column.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The names in a file such as /etc/passwd, by number; the first name of a number counts.
fn names(path: &str) -> BTreeMap<u32, String> {
    let mut names = BTreeMap::new();
    for line in read(path, NAMES_LIMIT).unwrap_or_default().lines() {
        let mut fields = line.split(':');
        let (name, id) = (fields.next(), fields.nth(1).and_then(|id| id.parse().ok()));
        if let (Some(name), Some(id)) = (name, id) {
            names.entry(id).or_insert_with(|| printable(name));
        }
    }
    names
}

fn read(path: &str, limit: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces() {
        let stat = "42 (a) S (b c) R 1 2 3 34816 5 4194304 6 0 7 0 8 9 0 0 20 -5 3 0 100 4096 2 0 0 0 0 0 0 0 0 0 0 \
                    0 0 0 17 1 50 2 0 0 0\n";
        let process = Process::parse(42, stat).unwrap();
        assert_eq!((process.comm.as_str(), process.state, process.ppid), ("a) S (b c", 'R', 1));
        assert_eq!((process.tpgid, process.cpu_ticks, process.nice, process.threads), (5, 17, -5, 3));
        assert_eq!((process.start_ticks, process.vsize), (100, 4096));
        assert_eq!((process.processor, process.rt_priority, process.policy), (1, 50, 2));
        for bad in ["", "42", "42 (x", "42 (x)"] {
            assert!(Process::parse(42, bad).is_none(), "{bad}");
        }
        assert!(Process::read(-1).is_none());
    }
}
