//! A crowd on one root: programs with several threads each do random work on the same few containers. Nothing is lost,
//! doubled or torn, every follower of the events, in this program and in another, sees the same sequence, which is one
//! that containers can have, and no program grows.
//!
//! `CORACLE_TORTURE=SECONDS` in the environment sets how long; a plain run takes a few seconds.

use crate::roots_engines::{WORKER, spawn_worker};
use crate::support::*;
use coracle::model::*;
use coracle::{Changed, Engine, ErrorKind};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The names that everybody uses.
const NAMES: [&str; 5] = ["ash", "birch", "cedar", "dogwood", "elm"];
/// Programs that are this one, with threads; then one in C, one in Python, and two that ask one server.
const PROGRAMS: usize = 4;
const MEMBERS: usize = 8;
const THREADS: usize = 3;
const KINDS: [&str; MEMBERS] =
    ["Rust", "Rust", "Rust", "Rust", "C", "Python by the library", "Python by the server", "Python by the server"];

/// How many calls of each kind changed something, of all programs.
type Counts = BTreeMap<String, usize>;

fn seconds() -> u64 {
    std::env::var("CORACLE_TORTURE").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

#[test]
fn random_work_of_several_programs() {
    let served = crate::docker_cli::Served::new();
    let root = &served.root;
    let listeners: Vec<Engine> = (0..2).map(|_| root.reopen()).collect();
    let mut followers: Vec<_> =
        listeners.iter().map(|engine| engine.events(&EventQuery::default()).expect("events")).collect();
    let before = descriptors(root);
    let heard = Arc::new(AtomicUsize::new(0));
    let (told, of_the_server) = follow(&served.socket, heard.clone());
    let mut workers: Vec<_> = (0..PROGRAMS).map(|number| spawn_worker("crowd", root, number)).collect();
    workers.extend(members(root, &served.socket));
    assert_eq!(workers.len(), MEMBERS);
    let mut seen: Vec<Vec<(u64, Event)>> = vec![Vec::new(); followers.len()];
    let programs = workers.iter().enumerate().map(|(number, worker)| (KINDS[number], worker.id()));
    let sizes: Vec<Size> =
        programs.chain([("the server", served.pid())]).map(|(name, pid)| Size::of(name, pid)).collect();
    let (over, watching) = Size::watch(sizes);
    let mut running: Vec<_> = workers.into_iter().map(Some).collect();
    let mut quiet = 0;
    // Read all along: a journal keeps a bounded past.
    while quiet < 5 {
        for (follower, seen) in followers.iter_mut().zip(&mut seen) {
            // At most this many events: if they come without a pause, the next follower would never have its turn.
            for _ in 0..500 {
                let Some(event) = follower.next(Some(Duration::from_millis(20)), None).expect("events") else { break };
                seen.push(event);
            }
        }
        for worker in &mut running {
            if let Some(child) = worker
                && let Some(status) = child.try_wait().expect("wait for a program")
            {
                assert!(status.success(), "a program failed");
                *worker = None;
            }
        }
        quiet = if running.iter().all(Option::is_none) { quiet + 1 } else { 0 };
    }
    drop(over);
    watching.join().expect("the watch").iter().for_each(Size::does_not_grow);
    // On a busy machine a follower may be late.
    wait_for("each follower to have heard all", || {
        for (follower, seen) in followers.iter_mut().zip(&mut seen) {
            while let Some(event) = follower.next(Some(Duration::from_millis(20)), None).expect("events") {
                seen.push(event);
            }
        }
        let last = seen[0].len();
        seen.iter().all(|seen| seen.len() == last) && heard.load(Ordering::SeqCst) >= last
    });
    assert_eq!(seen[0], seen[1], "two followers saw different events");
    assert!(seen[0].is_sorted_by(|a, b| a.0 < b.0), "sequence numbers do not rise");
    // And a follower in another program.
    told.shutdown(std::net::Shutdown::Both).expect("end the conversation");
    let of_the_server = of_the_server.join().expect("a follower");
    let what = |event: &Event| (event.time_nano, event.action.clone(), event.actor.id.clone());
    let ours: Vec<_> = seen[0].iter().map(|(_, event)| what(event)).collect();
    let lines = of_the_server.lines().map(|line| what(&serde_json::from_str(line).expect("an event")));
    assert!(lines.eq(ours), "the server told other events");
    drop(told);
    let events: Vec<&Event> = seen[0].iter().map(|(_, event)| event).collect();
    let counts = counts(root);
    for kind in ["create", "rename", "pause", "unpause", "destroy", "exec_create", "stop", "restart", "start"] {
        let told = events.iter().filter(|event| event.action.split(':').next() == Some(kind)).count();
        let answered = counts.get(kind).copied().unwrap_or(0);
        // A stop of a paused container tells `unpause`, too.
        let fits = if kind == "unpause" { told >= answered } else { told == answered };
        assert!(fits, "{kind}: {told} events told, {answered} calls answered");
    }
    assert!(counts["create"] > 10 && counts["start"] > 10, "hardly anything happened: {counts:?}");
    lives_are_possible(&events);
    let list = root.engine.container_list(&ListContainers { all: true, ..ListContainers::default() }).expect("list");
    let alive: usize = counts["create"] - counts["destroy"];
    assert_eq!(list.len(), alive, "containers that are there");
    for container in &list {
        // The container that was killed last may be about to end.
        wait_for("its state and its process to agree", || {
            let state = root.inspect(&container.id).state;
            state.running == (state.pid > 0 && std::path::Path::new(&format!("/proc/{}", state.pid)).exists())
        });
    }
    drop(followers);
    drop(listeners);
    // The last thread of a call may be on its way out.
    wait_for("the descriptors to be as many as before", || descriptors(root) <= before);
}

/// Follows the events that the server tells, until the connection is shut down; returns them, a line each, and counts
/// them meanwhile.
fn follow(socket: &Path, heard: Arc<AtomicUsize>) -> (UnixStream, JoinHandle<String>) {
    let mut stream = UnixStream::connect(socket).expect("connect");
    // An old client is given no chunks.
    stream.write_all(b"GET /v1.24/events HTTP/1.0\r\n\r\n").expect("ask for events");
    let mut reader = BufReader::new(stream.try_clone().expect("another descriptor"));
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert!(reader.read_line(&mut line).expect("a head") > 0, "no events");
    }
    let reading = std::thread::spawn(move || {
        let mut told = String::new();
        while reader.read_line(&mut told).expect("events") > 0 {
            heard.fetch_add(1, Ordering::SeqCst);
        }
        told
    });
    (stream, reading)
}

/// The resources that a program holds as time goes by: kilobytes of memory, descriptors.
struct Size {
    name: &'static str,
    pid: u32,
    seen: Vec<(u64, usize)>,
}

impl Size {
    fn of(name: &'static str, pid: u32) -> Size {
        Size { name, pid, seen: Vec::new() }
    }

    /// Looks at all of them until the first answer is dropped.
    fn watch(mut sizes: Vec<Size>) -> (mpsc::Sender<()>, JoinHandle<Vec<Size>>) {
        let (over, ended) = mpsc::channel();
        let watching = std::thread::spawn(move || {
            while ended.recv_timeout(Duration::from_millis(100)) == Err(mpsc::RecvTimeoutError::Timeout) {
                sizes.iter_mut().for_each(Size::look);
            }
            sizes
        });
        (over, watching)
    }

    /// A process that has ended has no size.
    fn look(&mut self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let memory =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).map(Iterator::count);
        if let (Some(memory), Ok(descriptors)) = (memory, descriptors) {
            self.seen.push((memory, descriptors));
        }
    }

    /// The looks since the program has half of its usual descriptors: before, on a busy machine, it is still being loaded.
    fn at_work(&self) -> &[(u64, usize)] {
        let mut usual: Vec<usize> = self.seen.iter().map(|seen| seen.1).collect();
        usual.sort_unstable();
        let usual = usual.get(usual.len() * 3 / 4).copied().unwrap_or(0);
        let begin = self.seen.iter().position(|seen| seen.1 >= usual / 2).unwrap_or(0);
        &self.seen[begin.min(self.seen.len().saturating_sub(10))..]
    }

    /// In a part of its time: the typical memory, and the least number of descriptors, because calls under way have
    /// some.
    fn between(&self, from: usize, to: usize) -> (u64, usize) {
        let seen = self.at_work();
        let part = &seen[seen.len() * from / 100..seen.len() * to / 100];
        let mut memory: Vec<u64> = part.iter().map(|seen| seen.0).collect();
        memory.sort_unstable();
        (memory[memory.len() / 2], part.iter().map(|seen| seen.1).min().expect("a look"))
    }

    /// Once it is warm, for which a short run has hardly time.
    fn does_not_grow(&self) {
        let (memory, descriptors, looks) = if seconds() < 60 { (32_000, 30, 3) } else { (8_000, 6, 10) };
        assert!(self.seen.len() >= looks, "{}: only {} looks", self.name, self.seen.len());
        let (early, late) = (self.between(30, 50), self.between(80, 100));
        println!("{}: {} kB and {} descriptors became {} kB and {}", self.name, early.0, early.1, late.0, late.1);
        assert!(late.0 < early.0 + memory, "{}: {} kB of memory became {} kB", self.name, early.0, late.0);
        assert!(late.1 < early.1 + descriptors, "{}: {} descriptors became {}", self.name, early.1, late.1);
    }
}

/// The programs that are not this one.
fn members(root: &Root, socket: &Path) -> Vec<Child> {
    let library = library();
    let member = root.dir.join("member");
    let sources = project().join("tests/crowd");
    let compiled = Command::new("cc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(project().join("include"))
        .arg("-o")
        .arg(&member)
        .arg(sources.join("member.c"))
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", library.parent().expect("its directory").display()))
        .status();
    assert!(compiled.expect("run the C compiler").success(), "member.c does not compile");
    let start = |number: usize, command: &mut Command| {
        let out = root.dir.join(format!("counts-{number}"));
        let dirs = [root.dir.join("root"), root.dir.join("run")];
        let words = [seconds().to_string(), (number + 100).to_string()];
        command.args(dirs).args(words).arg(out).spawn().expect("start a program")
    };
    let python = |first: &Path| {
        let mut command = Command::new("python3");
        command.arg(sources.join("member.py")).arg(first);
        command
    };
    vec![
        start(4, &mut Command::new(&member)),
        start(5, &mut python(&library)),
        start(6, &mut python(socket)),
        start(7, &mut python(socket)),
    ]
}

/// The shared library of this build.
fn library() -> PathBuf {
    let path = built("coracle").with_file_name("libcoracle.so");
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo).args(["build", "-p", "coracle-ffi"]).current_dir(project()).status();
        assert!(status.expect("run cargo").success(), "could not build the library");
    }
    path
}

/// Each container is created once, runs at most once at a time, and tells nothing after its end.
fn lives_are_possible(events: &[&Event]) {
    let mut states: BTreeMap<&str, &str> = BTreeMap::new();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for event in events.iter().filter(|event| event.kind == "container") {
        let id = event.actor.id.as_str();
        let state = states.get(id).copied().unwrap_or("none");
        let next = match (state, event.action.as_str()) {
            ("none", "create") => "stopped",
            ("stopped", "start") => "running",
            ("running", "die") => "stopped",
            ("stopped", "destroy") => "gone",
            ("running", "pause" | "unpause") => "running",
            // The caller writes this event, so it may come after the end that the call caused.
            ("running" | "stopped", "kill" | "stop" | "restart" | "rename" | "exec_die") => state,
            ("stopped", "pause" | "unpause") => state,
            ("running" | "stopped", action) if action.starts_with("exec_") => state,
            ("gone", "kill" | "stop" | "unpause") => state,
            ("gone", action) if action.starts_with("exec_") => state,
            (state, action) => panic!("{id}: {action} while {state}"),
        };
        states.insert(id, next);
        match event.action.as_str() {
            "create" | "rename" => {
                let name = event.actor.attributes["name"].clone();
                names.insert(id, name);
            }
            "destroy" => {
                names.remove(id);
            }
            _ => {}
        }
    }
}

/// How many descriptors of this program are of the root: other tests of the program have their own at the same time.
fn descriptors(root: &Root) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("read /proc/self/fd").flatten();
    open.filter(|one| std::fs::read_link(one.path()).is_ok_and(|to| to.starts_with(&root.dir))).count()
}

fn counts(root: &Root) -> Counts {
    let mut all = Counts::new();
    for number in 0..MEMBERS {
        let text = std::fs::read_to_string(root.dir.join(format!("counts-{number}"))).expect("a program's counts");
        let counts: Counts = serde_json::from_str(&text).expect("counts");
        for (kind, count) in counts {
            *all.entry(kind).or_default() += count;
        }
    }
    all
}

/// The work of one program of the crowd.
pub fn program(engine: &Engine, dir: &Path, number: usize) {
    let counts = Mutex::new(Counts::new());
    let until = Instant::now() + Duration::from_secs(seconds());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let counts = &counts;
            scope.spawn(move || {
                let mut random = Random((number * THREADS + thread) as u64 * 7919 + 1);
                while Instant::now() < until {
                    for kind in step(engine, &mut random) {
                        *counts.lock().expect("the counts").entry(kind.to_owned()).or_default() += 1;
                    }
                }
            });
        }
    });
    let text = serde_json::to_string(&*counts.lock().expect("the counts")).expect("JSON");
    std::fs::write(dir.join(format!("counts-{number}")), text).expect("write the counts");
    assert!(std::env::var(WORKER).is_ok());
}

/// One random call; returns the events that it must have caused.
fn step(engine: &Engine, random: &mut Random) -> Vec<&'static str> {
    let name = NAMES[random.below(NAMES.len())];
    let op = soon();
    let op = Some(&op);
    let what = random.below(14);
    let told = |result: coracle::Result<()>, events| events_of_call(what, result, events);
    match what {
        0 | 1 => {
            let script = "trap 'exit 0' TERM; while :; do sleep 0.02; done";
            let body = serde_json::from_value(body(&["sh", "-c", script], json!({}))).expect("a body");
            told(engine.container_create(Some(name), &body).map(drop), &["create"])
        }
        2 | 3 => match engine.container_start(name, None, op) {
            Ok(started) if started.changed == Changed::No => Vec::new(),
            other => told(other.map(drop), &["start"]),
        },
        4 => match engine.container_stop(name, Some(random.below(2) as i64 * 500), op) {
            Ok(Changed::No) => Vec::new(),
            other => told(other.map(drop), &["stop"]),
        },
        5 => told(engine.container_kill(name, None, op), &[]),
        6 => told(engine.container_pause(name), &["pause"]),
        7 => told(engine.container_unpause(name), &["unpause"]),
        8 => {
            let force = RemoveContainer { force: true, ..RemoveContainer::default() };
            told(engine.container_remove(name, force, op), &["destroy"])
        }
        9 => {
            let config: ExecConfig = serde_json::from_value(json!({ "Cmd": ["true"] })).expect("an exec body");
            match engine.exec_create(name, &config) {
                Ok(exec) => {
                    told(engine.exec_start(&exec, None, op).map(drop), &[]);
                    vec!["exec_create"]
                }
                Err(error) => told(Err(error), &[]),
            }
        }
        10 => told(engine.container_rename(name, NAMES[random.below(NAMES.len())]), &["rename"]),
        11 => told(engine.container_inspect(name, random.below(2) == 0).map(drop), &[]),
        12 => told(engine.container_list(&ListContainers { all: true, ..ListContainers::default() }).map(drop), &[]),
        _ => told(engine.container_logs(name, &LogQuery::default(), op).map(drop), &[]),
    }
}

/// The events of a call that went well; one that did not may only say that the container is not there, or not in the
/// state for it.
fn events_of_call(what: usize, result: coracle::Result<()>, events: &[&'static str]) -> Vec<&'static str> {
    match result {
        Ok(_) => events.to_vec(),
        Err(error) => {
            let expected = match error.kind() {
                ErrorKind::NotFound | ErrorKind::Conflict => true,
                ErrorKind::Invalid => error.message().contains("same name"),
                ErrorKind::Internal => error.message().contains("is not paused"),
                _ => false,
            };
            assert!(expected, "call {what}: {:?}: {error}", error.kind());
            Vec::new()
        }
    }
}
