//! Processes that come into a container where others live, stopped by one of those ([`program`] `stopper`) before they execute
//! their program, and looked at from the host.

use crate::programs::program;
use crate::support::*;
use coracle::Options;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// How many newcomers each test looks at: where one is stopped is chance.
const NEWCOMERS: usize = 6;

/// The name of a process that has not executed its program.
const BEFORE_ITS_PROGRAM: &str = "coracle-monitor";

/// To find its program a newcomer looks into many directories, so that it is there for a while. Kernels before 6.8 copy the
/// environment before they look for the program: there the time grows with the square of the number.
pub fn long_path() -> String {
    let directories = if release() < (6, 8) { 2000 } else { 15_000 };
    format!("PATH={}/bin", "/none:".repeat(directories))
}

/// The first two numbers of the kernel's release.
fn release() -> (u32, u32) {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's release");
    let mut numbers = text.split(|letter: char| !letter.is_ascii_digit()).map_while(|number| number.parse().ok());
    (numbers.next().expect("a number"), numbers.next().expect("a second number"))
}

/// For tests that are not about the limit of an entry: a look must end before it, however slow the machine is.
pub fn without_haste(options: &mut Options) {
    #[cfg(feature = "attacks")]
    {
        options.entry_limit_s = Some(600);
    }
    #[cfg(not(feature = "attacks"))]
    let _ = options;
}

/// A root with the busybox image, whose newcomers have time.
pub fn patient_root() -> Root {
    let root = Root::with(without_haste);
    root.load(&busybox_archive());
    root
}

/// Device and number of a directory.
fn place(path: impl AsRef<Path>) -> Option<String> {
    let facts = std::fs::metadata(path).ok()?;
    Some(format!("{}:{}", facts.dev(), facts.ino()))
}

pub fn link(path: impl AsRef<Path>) -> Option<PathBuf> {
    std::fs::read_link(path).ok()
}

/// The output of a container so far, read from the end of the last read.
struct Lines {
    file: File,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
}

impl Lines {
    fn next(&mut self) -> Option<String> {
        if !self.begun.contains(&b'\n') {
            self.file.read_to_end(&mut self.begun).expect("read the log");
        }
        let end = self.begun.iter().position(|&byte| byte == b'\n')?;
        let line: Vec<u8> = self.begun.drain(..=end).collect();
        let line: Value = serde_json::from_slice(&line).expect("a line of the log");
        Some(line["log"].as_str().expect("text").trim_end().to_owned())
    }
}

/// A container whose program stops who comes.
pub struct Stopper<'a> {
    pub root: &'a Root,
    pub id: String,
    /// The container's first process.
    pub first: i32,
    lines: Mutex<Lines>,
    /// The container's root directory, as its program sees it.
    own: String,
}

/// A process that was stopped.
pub struct Stopped {
    /// The newcomer's pid inside.
    inside: i32,
    /// The stopper's result when it opened the newcomer's root directory: the place, or the error.
    opened: Result<String, String>,
}

impl<'a> Stopper<'a> {
    /// Starts one that stops up to 1000.
    pub fn start(root: &'a Root, more: Value) -> Stopper<'a> {
        let mut more = more;
        more["Env"] = json!([long_path()]);
        // AppArmor would refuse it to stop or trace a newcomer: its label is not the container's before its program.
        more["HostConfig"]["SecurityOpt"] = json!(["apparmor=unconfined"]);
        more["HostConfig"]["Binds"] = json!([format!("{}:/stopper:ro", program("stopper").display())]);
        let id = root.create("stopper", body(&["/stopper", "1000"], more));
        root.start(&id);
        let facts = root.inspect(&id);
        let file = File::open(&facts.log_path).expect("open the log");
        let mut lines = Lines { file, begun: Vec::new() };
        let mut own = None;
        wait_for("the stopper", || {
            own = lines.next().map(|line| line.strip_prefix("ready ").expect("its first line").to_owned());
            own.is_some()
        });
        Stopper { root, id, first: facts.state.pid, lines: Mutex::new(lines), own: own.expect("waited for") }
    }

    /// The next process that was stopped and not told of yet.
    pub fn next(&self) -> Option<Stopped> {
        let line = self.lines.lock().expect("no panic while held").next()?;
        let (pid, root) = line.strip_prefix("stopped ").and_then(|line| line.split_once(' ')).expect("what it tells");
        let opened = match root.split_once(' ').expect("two words") {
            ("opened", place) => Ok(place.to_owned()),
            (_, error) => Err(error.to_owned()),
        };
        Some(Stopped { inside: pid.parse().expect("a pid"), opened })
    }

    /// The process on the host, if it is there still.
    pub fn find(&self, stopped: &Stopped) -> Option<Newcomer> {
        let all = std::fs::read_dir("/proc").expect("/proc").flatten();
        let mut pids: Vec<i32> = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        // The newest first.
        pids.sort_by_key(|&pid| (pid < self.first, Reverse(pid)));
        let space = link(format!("/proc/{}/ns/pid", self.first));
        pids.into_iter().filter_map(Newcomer::at).find(|one| {
            let status = one.text("status");
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            let last = numbers.split_whitespace().last().and_then(|number| number.parse().ok());
            last == Some(stopped.inside) && link(one.path("ns/pid")) == space
        })
    }

    /// Looks at each newcomer that is stopped before its program, until there were enough; `bring` brings one, in a thread.
    /// With `same`, a newcomer is in all that the container's first process is in, and has its control groups.
    pub fn look(&self, rights: &BTreeMap<&str, String>, bring: impl Fn() + Sync, same: bool) -> Vec<String> {
        let (mut seen, mut found, mut all) = (0, Vec::new(), 0);
        std::thread::scope(|scope| {
            while seen < NEWCOMERS {
                assert!(all < 200, "{seen} of {all} newcomers were stopped in time");
                all += 1;
                let brought = scope.spawn(&bring);
                while !brought.is_finished() {
                    let Some(stopped) = self.next() else {
                        std::thread::sleep(Duration::from_millis(2));
                        continue;
                    };
                    // A process that was ending when the signal came is gone; one that is stopped and not found fails its start.
                    let Some(newcomer) = self.find(&stopped) else { continue };
                    if newcomer.text("comm").trim_end() == BEFORE_ITS_PROGRAM {
                        seen += 1;
                        found.extend(self.opened(&stopped, same));
                        found.extend(newcomer.leaks(rights, same.then_some((self.first, &self.root.dir))));
                        // Of one that was killed meanwhile not everything was there to be seen.
                        assert_eq!(newcomer.state(), 'T', "the newcomer waits until it was looked at: {found:#?}");
                    }
                    newcomer.resume();
                }
                brought.join().expect("a newcomer that runs");
            }
        });
        found
    }

    /// The files that the container reached through the newcomer's root directory, as it reported at that moment.
    fn opened(&self, stopped: &Stopped, same: bool) -> Option<String> {
        let place_of_host = place("/").expect("the host's root directory");
        let opened = stopped.opened.as_ref().ok()?;
        let another = if same { *opened != self.own } else { *opened == place_of_host };
        another.then(|| format!("the container opened another root directory: {opened}, its own is {}", self.own))
    }
}

/// A process on the host, by a descriptor of its directory in procfs: its number may be another's one day.
pub struct Newcomer {
    pid: i32,
    directory: File,
}

impl Newcomer {
    fn at(pid: i32) -> Option<Newcomer> {
        Some(Newcomer { pid, directory: File::open(format!("/proc/{pid}")).ok()? })
    }

    fn path(&self, name: &str) -> String {
        format!("/proc/self/fd/{}/{name}", self.directory.as_raw_fd())
    }

    /// A file of its directory; of a process that is gone nothing.
    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The letter of its state; a blank: it is gone.
    fn state(&self) -> char {
        let stat = self.text("stat");
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or(' ')
    }

    pub fn resume(&self) {
        // The process may have ended.
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGCONT);
    }

    /// Facts of the host that show in it, although it should look like a container's own process.
    fn leaks(&self, rights: &BTreeMap<&str, String>, like: Option<(i32, &PathBuf)>) -> Vec<String> {
        let mut leaks = Vec::new();
        let of = |pid: i32, name: &str| link(format!("/proc/{pid}/ns/{name}"));
        for name in ["mnt", "net", "uts", "ipc", "pid", "cgroup", "user"] {
            let space = link(self.path(&format!("ns/{name}")));
            if like.is_some_and(|(first, _)| space != of(first, name)) {
                leaks.push(format!("another {name} namespace than the container's"));
            }
            if !matches!(name, "cgroup" | "user") && space == link(format!("/proc/self/ns/{name}")) {
                leaks.push(format!("the host's {name} namespace"));
            }
        }
        if place(self.path("root/.")) == place("/") {
            leaks.push("the host's root directory".into());
        }
        let status = self.text("status");
        for (field, wanted) in rights {
            let value = proc_status(&status, field);
            if value != *wanted {
                leaks.push(format!("{field} is {value}, not {wanted}"));
            }
        }
        leaks.extend(self.descriptors());
        // A container in another's PID namespace has groups of its own, and its own plan in its memory.
        let groups = self.text("cgroup");
        let of = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("its groups");
        if like.is_some_and(|(first, _)| of(first) != groups) {
            leaks.push(format!("control groups: {groups}"));
        }
        if like.is_some_and(|(_, host)| self.memory_has(host.display().to_string().as_bytes())) {
            leaks.push("paths of the host in its memory".into());
        }
        leaks
    }

    /// Descriptors besides the standard streams and one socket.
    fn descriptors(&self) -> Vec<String> {
        let mut leaks = Vec::new();
        let mut sockets = 0;
        for entry in std::fs::read_dir(self.path("fd")).into_iter().flatten().flatten() {
            let number = entry.file_name().to_string_lossy().parse::<i32>().unwrap_or(0);
            let what = link(entry.path()).unwrap_or_default().display().to_string();
            match number > 2 {
                true if what.starts_with("socket:") => sockets += 1,
                true => leaks.push(format!("descriptor {number}: {what}")),
                false => {}
            }
        }
        if sockets > 1 {
            leaks.push(format!("{sockets} sockets besides the standard streams"));
        }
        leaks
    }

    /// Whether some writable memory of it has these bytes.
    fn memory_has(&self, bytes: &[u8]) -> bool {
        let Ok(memory) = File::open(self.path("mem")) else { return false };
        self.text("maps").lines().filter(|line| !line.contains("[v")).any(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
            let Some((from, to)) = range.map(|(from, to)| (number(from), number(to))) else { return false };
            let mut content = vec![0; (to - from).min(64 << 20) as usize];
            let got = memory.read_at(&mut content, from).unwrap_or(0);
            memchr::memmem::find(&content[..got], bytes).is_some()
        })
    }
}

/// Rights that a newcomer has to have as soon as it is seen: those of the container's first process.
pub fn rights_of(pid: i32) -> BTreeMap<&'static str, String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    let fields = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups"];
    fields.into_iter().map(|field| (field, proc_status(&status, field))).collect()
}
