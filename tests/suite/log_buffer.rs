//! Logs with `mode=non-blocking`: no container waits for its log, and a line that has no room in the buffer is counted.

use crate::container_later_fields::ask;
use crate::monitor::rests;
use crate::roots_engines::monitor_of;
use crate::support::*;
use coracle::model::*;
use coracle::{AttachOptions, Engine, Io};
use coracle_http::{ReplyBody, Router};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a process of this test program is told to be the machine whose disk stops.
const MACHINE: &str = "CORACLE_SUITE_FROZEN";

/// Options of the mode, with a size of the buffer where one is given.
fn options(size: &str, more: Value) -> Value {
    let mut options = more;
    options["mode"] = json!("non-blocking");
    if !size.is_empty() {
        options["max-buffer-size"] = json!(size);
    }
    options
}

/// A container that waits for `go` in a directory that it shares, writes its lines, leaves `done` there, and ends when it
/// finds `end`.
struct Talker<'a> {
    root: &'a Root,
    dir: PathBuf,
    id: String,
    lines: i64,
}

impl Talker<'_> {
    fn start<'a>(root: &'a Root, name: &str, lines: i64, log: &Value) -> Talker<'a> {
        Talker::start_in(root, &root.dir, name, lines, log)
    }

    fn start_in<'a>(root: &'a Root, dir: &Path, name: &str, lines: i64, log: &Value) -> Talker<'a> {
        let dir = dir.join(format!("shared-{name}"));
        std::fs::create_dir(&dir).expect("a directory");
        let until = |file: &str| format!("while [ ! -e /shared/{file} ]; do sleep 0.05; done");
        let script = format!("{}; seq 1 {lines}; : > /shared/done; {}", until("go"), until("end"));
        let host = json!({ "LogConfig": log, "Binds": [format!("{}:/shared", dir.display())] });
        let id = root.create(name, body(&["sh", "-c", &script], json!({ "HostConfig": host })));
        root.start(&id);
        Talker { root, dir, id, lines }
    }

    fn tell(&self, file: &str) {
        std::fs::write(self.dir.join(file), "").expect("a file");
    }

    fn is_done(&self) -> bool {
        self.dir.join("done").exists()
    }

    /// Lets it end; answers how many of its lines are lost. The others are in the log, once each and in their order.
    fn end(&self) -> i64 {
        self.tell("end");
        assert_eq!(self.root.wait(&self.id), 0);
        let text = self.root.logs(&self.id).out();
        let there: Vec<i64> = text.lines().map(|line| line.parse().expect("a number")).collect();
        assert!(there.windows(2).all(|pair| pair[0] < pair[1]), "each once, in their order");
        let lost = self.root.inspect(&self.id).state.log_lost;
        assert_eq!(there.len() as i64 + lost, self.lines, "{} lines and {lost} lost", there.len());
        lost
    }
}

fn log(kind: &str, options: Value) -> Value {
    json!({ "Type": kind, "Config": options })
}

fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).expect("a signal");
}

fn is_writer(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "coracle-log")
}

/// The writer of a container's log, other than `not`.
fn writer_of(root: &Root, id: &str, not: i32) -> i32 {
    let monitor = monitor_of(root, id);
    let mut found = None;
    wait_for("a writer", || {
        found = children_of(monitor).into_iter().find(|&pid| pid != not && is_writer(pid));
        found.is_some()
    });
    found.expect("a writer")
}

/// A writer that writes nothing, until the value is dropped.
struct Stopped(i32);

impl Stopped {
    fn new(writer: i32) -> Stopped {
        send(writer, Signal::SIGSTOP);
        Stopped(writer)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0), Signal::SIGCONT);
    }
}

fn wait_channel(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default()
}

// field: HostConfig.LogConfig.Config
#[test]
fn a_disk_that_stops_holds_up_no_container_of_the_mode() {
    let dir = temp_dir();
    in_a_mount_namespace("private", "log_buffer::machine", &[(MACHINE, &dir)]);
    std::fs::remove_dir_all(&dir).expect("clean up");
}

/// A file system that takes no writes, until the value is dropped.
struct Frozen<'a>(&'a Path);

impl Frozen<'_> {
    fn new(at: &Path) -> Frozen<'_> {
        run(Command::new("fsfreeze").arg("--freeze").arg(at));
        Frozen(at)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // Otherwise nobody could write there or unmount it.
        run(Command::new("fsfreeze").arg("--unfreeze").arg(self.0));
    }
}

/// The program inside the machine, not a test by itself.
#[test]
fn machine() {
    const LINES: i64 = 300_000;
    let Ok(dir) = std::env::var(MACHINE) else { return };
    let (dir, image) = (PathBuf::from(&dir), PathBuf::from(&dir).join("disk"));
    let disk = dir.join("root");
    std::fs::create_dir(&disk).expect("a directory");
    File::create(&image).and_then(|file| file.set_len(192 << 20)).expect("a file");
    run(Command::new("mkfs.ext4").args(["-q", "-E", "nodiscard"]).arg(&image));
    run(Command::new("mount").args(["-o", "loop"]).args([&image, &disk]));
    std::fs::remove_dir(disk.join("lost+found")).expect("an empty root");
    {
        let engine = Engine::open_with(options_at(&dir)).expect("open a root on it");
        let root = Root { dir: dir.clone(), engine };
        root.load(&busybox_archive());
        let start = |name, log: Value| Talker::start_in(&root, &dir, name, LINES, &log);
        let waits = start("waits", log("json-file", json!({})));
        let goes = start("goes", log("json-file", options("", json!({}))));
        let keeps = start("keeps", log("local", options("64m", json!({ "max-size": "1m", "max-file": "30" }))));
        let all = [&waits, &goes, &keeps];
        let first = root.pid(&waits.id);
        let frozen = Frozen::new(&disk);
        // While the disk is frozen the engine, whose database lies there, is asked nothing.
        all.iter().for_each(|talker| talker.tell("go"));
        wait_for("containers that do not wait", || goes.is_done() && keeps.is_done());
        wait_for("a container that waits", || {
            children_of(first).iter().any(|&pid| wait_channel(pid).contains("pipe_write"))
        });
        assert!(!waits.is_done());
        drop(frozen);
        wait_for("the other one", || waits.is_done());
        root.wait_for("the loss to be told", || root.inspect(&goes.id).state.log_lost > 0);
        let lost = all.map(Talker::end);
        assert!(lost[0] == 0 && lost[1] > 0 && lost[2] == 0, "{lost:?}");
    }
    run(Command::new("umount").arg(&disk));
}

fn run(command: &mut Command) {
    let output = command.output().expect("run a program");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_small_buffer_drops_and_a_large_one_does_not() {
    let root = Root::new();
    for (size, drops) in [("0", true), ("10k", true), ("4m", false), ("", false)] {
        let talker = Talker::start(&root, &format!("b{size}"), 20_000, &log("json-file", options(size, json!({}))));
        let stopped = Stopped::new(writer_of(&root, &talker.id, 0));
        talker.tell("go");
        wait_for("its lines", || talker.is_done());
        if drops {
            wait_for("the loss to be told", || root.inspect(&talker.id).state.log_lost > 0);
        }
        // A writer that waits holds up nothing else.
        assert_eq!(root.exec(&talker.id, &["echo", "inside"]).ok(), "inside");
        drop(stopped);
        let lost = talker.end();
        assert_eq!(lost > 0, drops, "{size}: {lost} lost");
    }
}

#[test]
fn a_writer_that_dies_loses_nothing() {
    let root = Root::new();
    let bounds = json!({ "max-size": "20k", "max-file": "90", "compress": "true" });
    let talker = Talker::start(&root, "bereft", 20_000, &log("json-file", options("64m", bounds)));
    let mut writer = writer_of(&root, &talker.id, 0);
    let _stopped = Stopped::new(writer);
    talker.tell("go");
    wait_for("its lines", || talker.is_done());
    for round in 0..12 {
        send(writer, Signal::SIGKILL);
        writer = writer_of(&root, &talker.id, writer);
        std::thread::sleep(std::time::Duration::from_millis(round % 4));
    }
    assert_eq!((root.status(&talker.id).as_str(), talker.end()), ("running", 0));
}

#[test]
fn a_worker_that_dies_leaves_the_buffer_to_the_next() {
    let root = Root::new();
    let talker = Talker::start(&root, "heirs", 20_000, &log("json-file", options("64m", json!({}))));
    let stopped = Stopped::new(writer_of(&root, &talker.id, 0));
    talker.tell("go");
    wait_for("its lines", || talker.is_done());
    let monitor = monitor_of(&root, &talker.id);
    // Nothing is in transit any more.
    rests(monitor);
    let worker = worker_of(monitor);
    send(worker, Signal::SIGKILL);
    wait_for("another worker", || worker_of(monitor) != worker);
    drop(stopped);
    assert_eq!(talker.end(), 0);
}

#[test]
fn a_loss_that_a_dead_worker_could_not_tell_is_counted() {
    let root = Root::new();
    let talker = Talker::start(&root, "mute", 20_000, &log("json-file", options("0", json!({}))));
    let monitor = monitor_of(&root, &talker.id);
    let worker = worker_of(monitor);
    let stopped = Stopped::new(writer_of(&root, &talker.id, 0));
    let launcher = Stopped::new(monitor);
    talker.tell("go");
    wait_for("its lines", || talker.is_done());
    let rests = || ["ep_poll", "epoll_wait"].iter().any(|at| wait_channel(worker).contains(at));
    wait_for("a worker that has read all", rests);
    // The launcher, which hears of the death first, reads no notice of this worker any more.
    send(worker, Signal::SIGKILL);
    drop(launcher);
    wait_for("another worker", || worker_of(monitor) != worker);
    drop(stopped);
    assert!(talker.end() > 0);
}

#[test]
fn a_writer_ends_with_its_launcher() {
    let root = Root::new();
    let id =
        root.sleeper_with("both", json!({ "HostConfig": { "LogConfig": log("json-file", options("", json!({}))) } }));
    let writer = writer_of(&root, &id, 0);
    send(monitor_of(&root, &id), Signal::SIGKILL);
    wait_for("the writer's end", || !is_writer(writer));
    wait_for("the engine to see it", || root.status(&id) == "exited");
}

#[test]
fn only_the_mode_has_a_writer() {
    let root = Root::new();
    let count = |options: Value| {
        let id = root.sleeper_with("", json!({ "HostConfig": { "LogConfig": log("json-file", options) } }));
        children_of(monitor_of(&root, &id)).len()
    };
    let plain = count(json!({}));
    assert_eq!((count(json!({ "mode": "blocking" })), count(options("", json!({})))), (plain, plain + 1));
}

#[test]
fn the_writer_has_no_rights() {
    let root = Root::new();
    let host = json!({ "LogConfig": log("json-file", options("", json!({}))) });
    let id = root.sleeper_with("narrow", json!({ "HostConfig": host }));
    let writer = writer_of(&root, &id, 0);
    let field =
        |name: &str| proc_status(&std::fs::read_to_string(format!("/proc/{writer}/status")).expect("its status"), name);
    wait_for("its filter", || field("Seccomp") == "2");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!(field("NoNewPrivs"), "1");
    let names = std::fs::read_dir(format!("/proc/{writer}/fd")).expect("its descriptors");
    let targets = names.map(|name| std::fs::read_link(name.expect("an entry").path()).expect("a link"));
    let mut targets: Vec<String> = targets.map(|target| target.display().to_string()).collect();
    targets.sort();
    assert!(
        matches!(&targets[..], [file, socket] if file.ends_with("-json.log") && socket.starts_with("socket:")),
        "{targets:?}"
    );
}

#[test]
fn a_log_of_the_mode_is_complete_when_its_container_has_ended() {
    let root = Root::new();
    for (kind, bounds) in [
        ("json-file", json!({})),
        ("json-file", json!({ "max-size": "100k", "max-file": "90" })),
        ("json-file", json!({ "max-size": "100k", "max-file": "90", "compress": "true" })),
        ("local", json!({})),
    ] {
        let log = log(kind, options("64m", bounds.clone()));
        let command = ["sh", "-c", "seq 1 30000; echo to the end >&2"];
        let id = root.create("", body(&command, json!({ "HostConfig": { "LogConfig": log } })));
        for runs in 1..=2 {
            root.start(&id);
            assert_eq!(root.wait(&id), 0);
            let output = root.logs(&id);
            let (lines, errors) = (output.out(), output.err());
            assert_eq!((lines.lines().count(), errors.lines().count()), (runs * 30_000, runs), "{kind} {bounds}");
            assert!(lines.ends_with("30000") && root.inspect(&id).state.log_lost == 0, "{kind} {bounds}");
        }
    }
}

#[test]
fn a_follower_and_a_client_see_every_line_of_the_mode() {
    let root = Root::new();
    let options = options("64m", json!({ "max-size": "50k", "max-file": "90" }));
    let talker = Talker::start(&root, "seen", 20_000, &log("json-file", options));
    let query = LogQuery { follow: true, ..LogQuery::default() };
    let mut follower = root.engine.container_logs(&talker.id, &query, Some(&soon())).expect("logs");
    let attached = root.engine.container_attach(&talker.id, Io::default(), AttachOptions::default(), Some(&soon()));
    let session = attached.expect("attach");
    talker.tell("go");
    talker.tell("end");
    let seen = read_output(&session).out();
    assert_eq!((seen.lines().count(), seen.lines().last()), (20_000, Some("20000")));
    let mut followed = 0_u32;
    while let Some(line) = next_line(&mut follower) {
        followed += 1;
        assert_eq!(String::from_utf8_lossy(&line.data).trim_end(), followed.to_string());
    }
    assert_eq!((followed, talker.end()), (20_000, 0));
}

#[test]
fn a_restarted_container_goes_on_with_its_buffer() {
    let root = Root::new();
    let options = options("", json!({ "max-size": "30k", "max-file": "50" }));
    let host = json!({ "LogConfig": log("json-file", options), "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 3 } });
    let id = root.create("again", body(&["sh", "-c", "seq 1 2000; exit 3"], json!({ "HostConfig": host })));
    root.start(&id);
    wait_for("its last end", || root.status(&id) == "exited");
    assert_eq!(root.logs(&id).out().lines().count(), 8000);
}

// field: HostConfig.LogConfig.Config
// operation: POST /containers/create
#[test]
fn the_mode_is_checked_and_echoed_by_every_version() {
    let root = Root::new();
    let router = Router::new(root.engine.clone());
    let create = |version: &str, config: Value| {
        let body = json!({ "Image": "busybox", "Cmd": ["true"], "HostConfig": { "LogConfig": config } });
        let headers = [("Content-Type", "application/json")];
        let target = format!("/v{version}/containers/create");
        let reply = router.request("POST", &target, &headers, body.to_string().into_bytes(), None).expect("an answer");
        let ReplyBody::Bytes(bytes) = reply.body else { panic!("a stream") };
        (reply.status, serde_json::from_slice::<Value>(&bytes).expect("JSON"))
    };
    for version in ["1.24", "1.44"] {
        for kind in ["json-file", "local"] {
            let config = log(kind, options("2m", json!({ "max-file": "3" })));
            let (status, made) = create(version, config.clone());
            assert_eq!(status, 201, "{version} {kind}: {made}");
            let id = made["Id"].as_str().expect("an id");
            let shown = ask(&router, "GET", &format!("/v{version}/containers/{id}/json")).1;
            assert_eq!(shown["HostConfig"]["LogConfig"], config, "{version}");
            root.start(id);
            assert_eq!(root.wait(id), 0);
        }
        for (options, text) in [
            (json!({ "mode": "sometimes" }), "logger: logging mode not supported: sometimes"),
            (
                json!({ "mode": "blocking", "max-buffer-size": "1m" }),
                "logger: max-buffer-size option is only supported with 'mode=non-blocking'",
            ),
            (
                json!({ "mode": "non-blocking", "max-buffer-size": "much" }),
                "error parsing option max-buffer-size: invalid size: 'much'",
            ),
        ] {
            let (status, said) = create(version, log("json-file", options));
            assert_eq!((status, said["message"].as_str()), (400, Some(text)), "{version}");
        }
    }
}
