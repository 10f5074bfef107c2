//! Fifty threads do every operation at random on ten containers, through two handles of one root. At quiet moments what
//! the database, the monitors' records and the answers say is compared with what the kernel shows; in the end nothing
//! is left.
//!
//! `CORACLE_TORTURE=SECONDS` in the environment sets how long, `CORACLE_SEED` what the choices begin with; a plain run
//! takes a few seconds. It runs in a process of its own, whose descriptors and threads are counted.

use crate::roots_engines::spawn_worker;
use crate::support::*;
use coracle::model::*;
use coracle::{AttachOptions, Changed, Engine, Error, ErrorKind, Io, Op};
use coracle_monitor::wire::{STATE_LEN, State, Status};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const NAMES: [&str; 10] = ["alder", "beech", "chestnut", "douglas", "ebony", "fir", "gorse", "hazel", "ivy", "juniper"];
const THREADS: usize = 50;
/// How long what is under way may take until the invariants hold.
const MOST_WAIT: Duration = SOON;

fn torture() -> Option<u64> {
    std::env::var("CORACLE_TORTURE").ok().and_then(|text| text.parse().ok())
}

#[test]
fn fifty_threads_on_ten_containers() {
    let seed = std::env::var("CORACLE_SEED").ok().and_then(|text| text.parse().ok());
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.subsec_nanos() as usize);
    let seed = seed.unwrap_or_else(now);
    println!("CORACLE_SEED={seed}");
    let root = Root::new();
    let status = spawn_worker("churn", &root, seed).wait().expect("wait for the program");
    assert!(status.success(), "it failed; CORACLE_SEED={seed}");
}

/// The work of the separate process.
pub fn program(engine: &Engine, dir: &Path, seed: usize) {
    let second = Engine::open_with(options_at(dir)).expect("open the root again");
    let engines = [engine, &second];
    // Resources that an engine opens once stay open: the first life of a container opens it.
    warm_up(&engines);
    let options = [("type", "tmpfs"), ("device", "tmpfs")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let memory = CreateVolume {
        name: "shared-memory".into(),
        driver_opts: Some(options.into_iter().collect()),
        ..CreateVolume::default()
    };
    engine.volume_create(&memory).expect("create a volume");
    let before = Facts::of(dir);
    let (ids, counts, unexpected) = (Mutex::default(), Mutex::default(), Mutex::default());
    let world = World { dir, engines, before, ids, counts, unexpected };
    let (seconds, round) = torture().map_or((3, Duration::from_millis(1500)), |s| (s, Duration::from_secs(10)));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut rounds = 0;
    while Instant::now() < end {
        let until = Instant::now() + round;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let world = &world;
                scope.spawn(move || {
                    let mut random = Random((seed * 1_000_003 + rounds * 1009 + thread) as u64);
                    while Instant::now() < until {
                        world.step(&mut random);
                    }
                });
            }
        });
        rounds += 1;
        let unexpected = world.unexpected.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(unexpected.len() < 5, "refusals that may not be: {unexpected:#?}");
        await_ok("a quiet moment", || world.check());
    }
    world.clean_up();
    await_ok("the end", || world.check_end());
    let counts = world.counts.lock().expect("the counts");
    eprintln!("churn: {rounds} quiet moments, {} calls: {counts:?}", counts.values().map(|c| c.0 + c.1).sum::<usize>());
    let unexpected = world.unexpected.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(unexpected.is_empty(), "refusals that may not be: {unexpected:#?}");
    for (what, (good, bad)) in counts.iter() {
        assert!(*good > 0 || *bad < 50, "{what} never went well: {bad} refusals");
    }
}

fn warm_up(engines: &[&Engine; 2]) {
    for engine in engines {
        let body = serde_json::from_value(body(&["true"], json!({}))).expect("a body");
        let id = engine.container_create(None, &body).expect("create").id;
        engine.container_start(&id, None, Some(&soon())).expect("start");
        engine.container_wait(&id, Some(&soon())).expect("wait");
        engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
        drop(engine.events(&EventQuery::default()).expect("events"));
    }
}

/// Asks until the answer is that all is well.
fn await_ok(when: &str, check: impl Fn() -> Result<(), String>) {
    let end = Instant::now() + MOST_WAIT;
    while let Err(wrong) = check() {
        assert!(Instant::now() < end, "{when}: {wrong}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

struct World<'a> {
    dir: &'a Path,
    engines: [&'a Engine; 2],
    before: Facts,
    /// Every container that there ever was.
    ids: Mutex<BTreeSet<String>>,
    /// For each operation: the numbers of successes and of permitted refusals.
    counts: Mutex<BTreeMap<&'static str, (usize, usize)>>,
    /// Refusals for other reasons.
    unexpected: Mutex<BTreeSet<String>>,
}

/// The resources of this process and its host, as far as they belong to this root.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    descriptors: BTreeMap<String, usize>,
    threads: usize,
    mounts: Vec<String>,
    staging: BTreeSet<String>,
    /// Entries of the run directory but for those of containers.
    run: BTreeSet<String>,
}

impl Facts {
    fn of(dir: &Path) -> Facts {
        let mut descriptors = BTreeMap::new();
        for entry in std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten() {
            // Numbers of pipes and sockets differ.
            let Ok(to) = std::fs::read_link(entry.path()) else { continue };
            let kind: String = to.to_string_lossy().chars().filter(|c| !c.is_ascii_digit()).collect();
            *descriptors.entry(kind).or_default() += 1;
        }
        let table = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let own = dir.to_string_lossy().into_owned();
        Facts {
            descriptors,
            threads: std::fs::read_dir("/proc/self/task").expect("threads").count(),
            mounts: table.lines().filter(|line| line.contains(&own)).map(str::to_owned).collect(),
            staging: entries(&dir.join("root/tmp")),
            run: entries(&dir.join("run")),
        }
    }
}

fn entries(dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// `Err` with the sentence unless it holds.
macro_rules! holds {
    ($cond:expr, $($text:tt)+) => {
        if !$cond {
            return Err(format!($($text)+));
        }
    };
}

impl World<'_> {
    fn all(&self, engine: &Engine) -> Vec<ContainerSummary> {
        engine.container_list(&ListContainers { all: true, ..ListContainers::default() }).expect("list")
    }

    /// The invariants of a moment in which nobody calls.
    fn check(&self) -> Result<(), String> {
        let [first, second] = self.engines;
        let list = self.all(first);
        let also = self.all(second);
        holds!(ids(&list) == ids(&also), "two handles list different containers");
        let alive: BTreeSet<String> = list.iter().map(|one| one.id.clone()).collect();
        holds!(entries(&self.dir.join("root/containers")) == alive, "directories are not the containers'");
        let run = entries(&self.dir.join("run/c"));
        let nobodys: Vec<_> = run.difference(&alive).collect();
        holds!(nobodys.is_empty(), "run directories of nobody: {nobodys:?}");
        let records = self.records();
        let mut addresses = BTreeSet::new();
        let mut running = BTreeSet::new();
        for one in &list {
            let detail = inspect(first, &one.id)?;
            let other = inspect(second, &one.id)?;
            holds!(same(&detail, &other), "two handles see {} as {:?} and {:?}", one.id, detail.state, other.state);
            holds!(detail.state.status == one.state, "listed as {}, is {}", one.state, detail.state.status);
            self.check_one(&detail, records.get(&one.id[..8]))?;
            if detail.state.running && detail.state.status != "restarting" {
                running.insert(one.id.clone());
                let address = detail.network_settings.networks.values().next().map(|net| net.ip_address.clone());
                if let Some(address) = address.filter(|address| !address.is_empty()) {
                    holds!(addresses.insert(address.clone()), "{address} was given twice");
                }
            }
        }
        let grouped = groups();
        for id in self.ids.lock().expect("the ids").iter().filter(|id| !running.contains(*id)) {
            let left: Vec<_> = grouped.iter().filter(|path| path.to_string_lossy().contains(id.as_str())).collect();
            let waits = list.iter().any(|one| one.id == *id && one.state == "restarting");
            holds!(waits || left.is_empty(), "{id} does not run and has groups: {left:?}");
        }
        let monitors = self.monitors();
        let live: BTreeSet<i32> =
            records.values().filter(|state| is_live(state.status())).map(|state| state.monitor_pid).collect();
        holds!(monitors == live, "monitors {monitors:?}, records say {live:?}");
        self.check_own()
    }

    /// Compares one container's answers, its monitor's record and the kernel.
    fn check_one(&self, detail: &ContainerDetail, record: Option<&State>) -> Result<(), String> {
        let (id, state) = (&detail.id, &detail.state);
        let status = record.map_or(Status::Created, State::status);
        let expected = match status {
            Status::Running => "running",
            Status::Paused => "paused",
            Status::Restarting => "restarting",
            Status::Exited => "exited",
            Status::Created | Status::Starting => "created",
        };
        holds!(state.status == expected, "{id} is {}, its record says {status:?}", state.status);
        if let Some(record) = record.filter(|_| status == Status::Exited) {
            let codes = (state.exit_code, record.exit_code);
            holds!(codes.0 == codes.1, "{id}: exit code {} and {}", codes.0, codes.1);
        }
        if !matches!(expected, "running" | "paused") {
            holds!(state.pid == 0, "{id} is {expected} and has process {}", state.pid);
            let left = entries(&self.dir.join("run/c").join(id));
            let open = left.iter().find(|name| name.starts_with("a-"));
            holds!(open.is_none(), "{id}: an attach that nobody waits for any more: {open:?}");
            return Ok(());
        }
        let record = record.ok_or_else(|| format!("{id} runs without a record"))?;
        holds!(record.pid == state.pid, "{id}: process {} and {}", state.pid, record.pid);
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", state.pid)).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        holds!(fields.len() > 19, "{id}: process {} is not there", state.pid);
        holds!(fields[1] == record.monitor_pid.to_string(), "{id}: its parent is {}", fields[1]);
        holds!(fields[19] == record.pid_start.to_string(), "{id}: process {} is another", state.pid);
        let groups = Cgroups::of(state.pid);
        let frozen = groups.read("freezer", "freezer.state", "cgroup.freeze");
        let wanted = if Cgroups::unified() { ["0", "1"] } else { ["THAWED", "FROZEN"] };
        let wanted = wanted[usize::from(expected == "paused")];
        holds!(frozen == wanted, "{id} is {expected}, its group is {frozen}");
        holds!(groups.path("memory").contains(id.as_str()), "{id} is in {}", groups.path("memory"));
        let (limit, asked) =
            (groups.read("memory", "memory.limit_in_bytes", "memory.max"), detail.host_config.resources.memory);
        holds!(limit == asked.to_string(), "{id}: a limit of {asked} bytes is {limit}");
        let table = std::fs::read_to_string(format!("/proc/{}/mountinfo", state.pid)).unwrap_or_default();
        let base = table.lines().find(|line| line.split(' ').nth(4) == Some("/")).unwrap_or_default();
        holds!(base.contains(" - overlay "), "{id}: its root is {base:?}");
        let own = std::fs::read_link("/proc/self/ns/mnt").ok();
        let its = std::fs::read_link(format!("/proc/{}/ns/mnt", state.pid)).ok();
        holds!(own != its, "{id} is in the host's mount namespace");
        // No descriptor of this process is in it, nor of a monitor.
        for entry in std::fs::read_dir(format!("/proc/{}/fd", state.pid)).into_iter().flatten().flatten() {
            let to = std::fs::read_link(entry.path()).unwrap_or_default();
            holds!(!to.starts_with(self.dir), "{id} has {} open", to.display());
        }
        Ok(())
    }

    /// This process: nothing of a call stays when it has ended.
    fn check_own(&self) -> Result<(), String> {
        let now = Facts::of(self.dir);
        for (kind, count) in &now.descriptors {
            let before = self.before.descriptors.get(kind).copied().unwrap_or(0);
            // A bounded number of connections to the database waits for the next calls. Of the file itself SQLite
            // keeps as many descriptors open as there were calls at once: a close would give up the process's locks.
            let before = match kind.rsplit_once("/coracle.db") {
                Some((_, "")) => 2 * THREADS,
                Some(_) => 2 * 8,
                None => before,
            };
            holds!(*count <= before, "{count} descriptors of {kind}, {before} before");
        }
        holds!(now.threads <= self.before.threads, "{} threads, {} before", now.threads, self.before.threads);
        holds!(now.mounts.is_empty(), "mounts: {:?}", now.mounts);
        let staging: Vec<_> = now.staging.iter().filter(|name| *name != "empty").collect();
        holds!(staging.is_empty(), "staging: {staging:?}");
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        holds!(children.is_empty(), "children: {children}");
        Ok(())
    }

    fn check_end(&self) -> Result<(), String> {
        self.check()?;
        holds!(entries(&self.dir.join("root/containers")).is_empty(), "directories are left");
        holds!(entries(&self.dir.join("run/c")).is_empty(), "run directories are left");
        holds!(entries(&self.dir.join("run/x")).is_empty(), "execs are left");
        holds!(entries(&self.dir.join("root/volumes")).is_empty(), "volumes are left");
        let live = self.records().into_values().find(|state| is_live(state.status()));
        holds!(live.is_none(), "a record is left: {live:?}");
        Ok(())
    }

    /// Monitors that hold this root's lock file.
    fn monitors(&self) -> BTreeSet<i32> {
        let alive = self.dir.join("root/alive");
        let mut found = BTreeSet::new();
        for pid in entries(Path::new("/proc")).iter().filter_map(|name| name.parse::<i32>().ok()) {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if comm.trim() != "coracle-monitor" {
                continue;
            }
            let mut fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            if fds.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == alive)) {
                found.insert(pid);
            }
        }
        found
    }

    /// The records of monitors, by the first eight characters of the ids.
    fn records(&self) -> BTreeMap<String, State> {
        let bytes = std::fs::read(self.dir.join("run/states")).expect("the records");
        let records = bytes.as_chunks::<STATE_LEN>().0.iter().filter_map(State::from_bytes);
        records.map(|state| (String::from_utf8_lossy(&state.id).into_owned(), state)).collect()
    }

    /// Removes all that there is, in the ways that there are.
    fn clean_up(&self) {
        let [first, second] = self.engines;
        for (number, one) in self.all(first).into_iter().enumerate() {
            let how = RemoveContainer { force: true, volumes: true, ..RemoveContainer::default() };
            self.engines[number % 2].container_remove(&one.id, how, Some(&soon())).expect("remove");
        }
        for volume in first.volume_list(&ListVolumes::default()).expect("volumes").volumes {
            second.volume_remove(&volume.name).expect("remove a volume");
        }
        for image in first.image_list(&ListImages::default()).expect("images") {
            if !image.repo_tags.iter().flatten().any(|tag| tag.starts_with(IMAGE)) {
                second.image_remove(&image.id, RemoveImage { force: true, ..RemoveImage::default() }).expect("remove");
            }
        }
    }

    /// One random call.
    fn step(&self, random: &mut Random) {
        let engine = self.engines[random.below(2)];
        let name = NAMES[random.below(NAMES.len())];
        let op = soon();
        let op = Some(&op);
        let what = WHAT[random.below(WHAT.len())];
        let result = self.call(what, engine, name, random, op);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(what).or_default();
        match result {
            Ok(()) => count.0 += 1,
            Err(error) => {
                if !may_be(what, &error) {
                    let text = error.to_string();
                    let text = text.split(['/', ' ']).filter(|word| word.len() < 60).collect::<Vec<_>>().join(" ");
                    let text = format!("{what}: {:?}: {text}", error.kind());
                    self.unexpected.lock().unwrap_or_else(PoisonError::into_inner).insert(text);
                }
                count.1 += 1;
            }
        }
    }

    fn call(
        &self,
        what: &str,
        engine: &Engine,
        name: &str,
        random: &mut Random,
        op: Option<&Op>,
    ) -> coracle::Result<()> {
        match what {
            "create" => {
                let body = serde_json::from_value(kind(random)).expect("a body");
                let id = engine.container_create(Some(name), &body)?.id;
                self.ids.lock().expect("the ids").insert(id);
                Ok(())
            }
            "start" => engine.container_start(name, None, op).map(drop),
            "start attached" => {
                let started = engine.container_start(name, Some(Io::default()), op)?;
                if let (Changed::Yes, Some(session)) = (started.changed, started.session) {
                    let _ = session.read(&mut [0; 512], Some(&short(50)));
                }
                Ok(())
            }
            "stop" => engine.container_stop(name, Some(random.below(2) as i64 * 300), op).map(drop),
            "kill" => {
                let signals = [None, Some("TERM"), Some("9"), Some("SIGHUP"), Some("USR1")];
                engine.container_kill(name, signals[random.below(signals.len())], op)
            }
            "restart" => engine.container_restart(name, Some(100), op),
            "pause" => engine.container_pause(name),
            "unpause" => engine.container_unpause(name),
            "remove" => {
                let (force, volumes) = (random.below(3) > 0, random.below(2) == 0);
                engine.container_remove(name, RemoveContainer { force, volumes, ..RemoveContainer::default() }, op)
            }
            "rename" => engine.container_rename(name, NAMES[random.below(NAMES.len())]),
            "update" => {
                let memory = (32 + 8 * random.below(8) as i64) << 20;
                let resources = Resources { memory, memory_swap: -1, cpu_shares: 100, ..Resources::default() };
                engine.container_update(name, &UpdateContainer { resources, ..UpdateContainer::default() }).map(drop)
            }
            "exec" => {
                let tty = random.below(3) == 0;
                let config = json!({ "Cmd": ["echo", "hi"], "AttachStdout": true, "AttachStderr": true, "Tty": tty });
                let config = serde_json::from_value(config).expect("an exec body");
                let id = engine.exec_create(name, &config)?;
                let io = (random.below(2) == 0).then(Io::default);
                if let Some(session) = engine.exec_start(&id, io, op)? {
                    // The process may be frozen before it has written.
                    let _ = session.read(&mut [0; 512], Some(&short(100)));
                    let _ = session.wait(Some(&short(100)));
                }
                engine.exec_inspect(&id).map(drop)
            }
            "attach" => {
                let how = AttachOptions { wait_for_start: random.below(2) == 0, ..AttachOptions::default() };
                let session = engine.container_attach(name, Io::default(), how, op)?;
                let _ = session.read(&mut [0; 512], Some(&short(20 + random.below(50) as u64)));
                match random.below(2) {
                    0 => session.detach(),
                    _ => Ok(()),
                }
            }
            "resize" => engine.container_resize(name, 20 + random.below(20) as u16, 80),
            "logs" => {
                let follow = random.below(2) == 0;
                let query = LogQuery { follow, tail: Some(random.below(10) as u64), ..LogQuery::default() };
                let mut log = engine.container_logs(name, &query, op)?;
                for _ in 0..5 {
                    let _ = log.next(Some(Duration::from_millis(10)), op)?;
                }
                Ok(())
            }
            "stats" => {
                let mut stats = engine.container_stats(name, StatsQuery { stream: false, one_shot: true })?;
                stats.next(op).map(drop)
            }
            "top" => engine.container_top(name, ["", "aux", "-o pid,comm"][random.below(3)]).map(drop),
            "inspect" => engine.container_inspect(name, random.below(2) == 0).map(drop),
            "list" => {
                let (all, size) = (random.below(2) == 0, random.below(4) == 0);
                engine.container_list(&ListContainers { all, size, ..ListContainers::default() }).map(drop)
            }
            "changes" => engine.container_changes(name).map(drop),
            "archive get" => {
                let archive = engine.container_archive_get(name, "/etc", op)?;
                archive.write_to(&mut std::io::sink(), op)
            }
            "archive put" => {
                let mut tar: &[u8] = &[0; 1024];
                engine.container_archive_put(name, "/tmp", &mut tar, PutArchive::default(), op)
            }
            "export" => engine.container_export(name, &mut std::io::sink(), op),
            "commit" => {
                let repo = format!("of-{name}");
                let how = CommitContainer { repo, pause: random.below(2) == 0, ..CommitContainer::default() };
                engine.container_commit(name, &how, op).map(drop)
            }
            "wait" => match engine.container_wait(name, Some(&short(30))) {
                Err(error) if error.kind() == ErrorKind::Timeout => Ok(()),
                other => other.map(drop),
            },
            "prune" => {
                let filters: Filters = serde_json::from_value(json!({ "name": [name] })).expect("filters");
                engine.containers_prune(&filters, op).map(drop)
            }
            other => panic!("unknown call {other}"),
        }
    }
}

/// The names of the operations; what is named twice is done twice as often.
const WHAT: [&str; 35] = [
    "create",
    "create",
    "create",
    "create",
    "start",
    "start",
    "start",
    "start attached",
    "stop",
    "kill",
    "restart",
    "pause",
    "pause",
    "unpause",
    "unpause",
    "remove",
    "remove",
    "rename",
    "update",
    "exec",
    "exec",
    "attach",
    "resize",
    "logs",
    "stats",
    "top",
    "inspect",
    "list",
    "changes",
    "archive get",
    "archive put",
    "export",
    "commit",
    "wait",
    "prune",
];

/// Containers of several kinds: some obey, some do not, some end and are started again, some have a terminal, a
/// network, volumes, an init, health checks.
fn kind(random: &mut Random) -> Value {
    let obeys = "trap 'exit 0' TERM; while :; do echo tick; sleep 0.05; done";
    let (memory, swap) = (32 << 20, -1);
    let mut more = json!({ "HostConfig": { "Memory": memory, "MemorySwap": swap } });
    let mut script = obeys;
    match random.below(9) {
        0 => script = "trap '' TERM; while :; do sleep 0.05; done",
        1 => {
            script = "echo once; exit 3";
            more["HostConfig"]["RestartPolicy"] = json!({ "Name": "on-failure", "MaximumRetryCount": 3 });
        }
        2 => more["HostConfig"]["RestartPolicy"] = json!({ "Name": "always" }),
        3 => more["Tty"] = json!(true),
        4 => more["OpenStdin"] = json!(true),
        5 => more["HostConfig"]["Binds"] = json!(["shared-data:/data", "shared-memory:/memory", "/anonymous"]),
        6 => more["HostConfig"]["Init"] = json!(true),
        7 => more["HostConfig"]["NetworkMode"] = json!("bridge"),
        _ => {
            more["Healthcheck"] = json!({ "Test": ["CMD", "true"], "Interval": 100_000_000, "Timeout": 1_000_000_000 })
        }
    }
    body(&["sh", "-c", script], more)
}

/// An operation that ends after so many milliseconds.
fn short(ms: u64) -> Op {
    let op = Op::new().expect("an operation");
    op.set_timeout(Some(Duration::from_millis(ms)));
    op
}

/// Whether a call may be refused so when others work on the same containers.
fn may_be(what: &str, error: &Error) -> bool {
    let text = error.message();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::Conflict => true,
        ErrorKind::Invalid => text.contains("same name"),
        ErrorKind::Internal => what == "unpause" && text.contains("is not paused"),
        _ => false,
    }
}

fn is_live(status: Status) -> bool {
    matches!(status, Status::Running | Status::Paused | Status::Restarting)
}

fn ids(list: &[ContainerSummary]) -> Vec<&str> {
    list.iter().map(|one| one.id.as_str()).collect()
}

fn inspect(engine: &Engine, id: &str) -> Result<ContainerDetail, String> {
    engine.container_inspect(id, false).map_err(|error| format!("inspect {id}: {error}"))
}

/// Whether two answers are the same but for what goes on by itself.
fn same(a: &ContainerDetail, b: &ContainerDetail) -> bool {
    let value = |detail: &ContainerDetail| {
        let mut value = serde_json::to_value(detail).expect("JSON");
        value["State"]["Health"] = Value::Null;
        value["ExecIDs"] = Value::Null;
        value
    };
    value(a) == value(b)
}

/// The groups of containers, in every hierarchy.
fn groups() -> Vec<PathBuf> {
    fn below(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(entry.path());
                below(&entry.path(), depth - 1, found);
            }
        }
    }
    let mut found = Vec::new();
    below(Path::new("/sys/fs/cgroup"), 4, &mut found);
    found
}
