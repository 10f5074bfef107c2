//! Monitors that are told that a system call failed: their container ends as it would have, what is lost is counted,
//! and nothing is left. A caller gets an error with a reason.
//!
//! With `CORACLE_TORTURE` in the environment the calls of a monitor from its container's first line to its end
//! are refused, each with every error.

use crate::roots_engines::monitor_of;
use crate::support::*;
use coracle::model::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LINES: i64 = 500;

/// A container that waits for a file before it writes its lines and ends.
struct Writer<'a> {
    root: &'a Root,
    dir: PathBuf,
    id: String,
}

impl Writer<'_> {
    fn start<'a>(root: &'a Root, name: &str, log: Value) -> Writer<'a> {
        let dir = root.dir.join(format!("shared-{name}"));
        std::fs::create_dir(&dir).expect("a directory");
        let script = format!("while [ ! -e /shared/go ]; do sleep 0.02; done; seq 1 {LINES}; exit 7");
        let more = json!({ "HostConfig": { "LogConfig": log, "Binds": [format!("{}:/shared", dir.display())] } });
        let id = root.create(name, body(&["sh", "-c", &script], more));
        root.start(&id);
        Writer { root, dir, id }
    }

    /// Lets its monitor meet faults; `path` bounds them to what is done with that file.
    fn hinder(&self, path: Option<&Path>, inject: &str) -> Child {
        let pid = monitor_of(self.root, &self.id);
        let call = inject.split(':').next().expect("a call");
        let mut command = Command::new("strace");
        // Both halves of it.
        let halves = [pid, worker_of(pid)];
        command.args(["-o", "/dev/null", "-e", &format!("trace={call}")]).args(halves.map(|pid| format!("-p{pid}")));
        command.args(["-e", &format!("inject={inject}")]).args(path.map(|path| format!("-P{}", path.display())));
        let child = command.stderr(Stdio::null()).spawn().expect("run strace");
        let traced = |pid| std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        wait_for("strace to be there", || halves.iter().all(|pid| proc_status(&traced(pid), "TracerPid") != "0"));
        child
    }

    fn log(&self) -> PathBuf {
        self.root.dir.join("root/containers").join(&self.id).join(format!("{}-json.log", self.id))
    }

    /// Lets it write and end; returns how many lines are there, and how many are said to be lost.
    fn end(&self, what: &str) -> (i64, i64) {
        std::fs::write(self.dir.join("go"), "").expect("let it go");
        assert_eq!(self.root.wait(&self.id), 7, "{what}: its exit code");
        // If the record cannot be written, the end shows as soon as the monitor is gone.
        wait_for("its end to be seen", || self.root.status(&self.id) == "exited");
        let state = self.root.inspect(&self.id).state;
        assert_eq!((state.status.as_str(), state.exit_code), ("exited", 7), "{what}: {state:?}");
        let lines = self.root.logs(&self.id).out().lines().count() as i64;
        (lines, state.log_lost)
    }

    /// The container can be started again, and is removed without a trace.
    fn again(self, what: &str) {
        self.root.start(&self.id);
        assert_eq!(self.root.wait(&self.id), 7, "{what}: its second exit code");
        let force = RemoveContainer { force: true, ..RemoveContainer::default() };
        let removed = self.root.engine.container_remove(&self.id, force, Some(&soon()));
        removed.unwrap_or_else(|e| panic!("{what}: remove: {e}"));
        assert!(!self.log().exists(), "{what}");
    }
}

fn plain() -> Value {
    json!({ "Type": "json-file" })
}

/// The processes that end with the monitor.
fn gone(mut strace: Child) {
    strace.wait().expect("reap strace");
}

#[test]
fn logs_that_cannot_be_written_are_counted() {
    let root = Root::new();
    for (number, (error, when)) in
        [("ENOSPC", "1+"), ("EIO", "1"), ("EROFS", "1+2"), ("ENOMEM", "2"), ("EDQUOT", "1+")].into_iter().enumerate()
    {
        let what = format!("write with {error}, {when}");
        let writer = Writer::start(&root, &format!("w{number}"), plain());
        let strace = writer.hinder(Some(&writer.log()), &format!("write:error={error}:when={when}"));
        let (lines, lost) = writer.end(&what);
        assert_eq!(lines + lost, LINES, "{what}: {lines} lines and {lost} lost");
        assert!(when != "1+" || lost == LINES, "{what}: {lost} lost");
        gone(strace);
        writer.again(&what);
    }
}

#[test]
fn rotation_that_fails_loses_nothing() {
    let root = Root::new();
    // Bounds that the lines reach many times, and enough files for all of them.
    let log = json!({ "Type": "json-file", "Config": { "max-size": "4k", "max-file": "40" } });
    let faults = [
        "openat:error=ENOSPC:when=1+",
        "openat:error=EMFILE:when=2+3",
        "renameat:error=EIO:when=1",
        "renameat:error=EIO:when=2",
        // The rename of an older file: those above it have moved.
        "renameat:error=EIO:when=4",
        "renameat:error=EROFS:when=1+",
        "renameat:error=ENOSPC:when=1+2",
        "unlinkat:error=EIO:when=1+",
        "fsetxattr:error=ENOSPC:when=1+",
    ];
    for (number, inject) in faults.into_iter().enumerate() {
        let writer = Writer::start(&root, &format!("r{number}"), log.clone());
        let strace = writer.hinder(None, inject);
        assert_eq!(writer.end(inject), (LINES, 0), "{inject}");
        gone(strace);
        writer.again(inject);
    }
}

/// Any one of a monitor's calls between the first line and the end. (A read that fails is a terminal's way to end.)
#[test]
fn whatever_is_refused_the_end_is_told() {
    let root = Root::new();
    let all = std::env::var_os("CORACLE_TORTURE").is_some();
    let errors = ["EIO", "ENOSPC", "EROFS", "EMFILE", "ENOMEM"];
    let log = json!({ "Type": "json-file", "Config": { "max-size": "4k", "max-file": "40" } });
    let mut tried = 0;
    for call in ["write", "pwrite64", "openat", "renameat", "unlinkat", "fsetxattr", "epoll_pwait"] {
        for (error, when) in errors.iter().flat_map(|error| (1..=6).map(move |when| (error, when))) {
            if !all && (*error, when) != ("EIO", 1) {
                continue;
            }
            let inject = format!("{call}:error={error}:when={when}");
            tried += 1;
            let writer = Writer::start(&root, &format!("a{tried}"), log.clone());
            let strace = writer.hinder(None, &inject);
            let (lines, lost) = writer.end(&inject);
            assert_eq!(lines + lost, LINES, "{inject}: {lines} lines and {lost} lost");
            gone(strace);
            writer.again(&inject);
        }
    }
    println!("{tried} calls of monitors refused");
}

#[test]
fn records_and_events_that_cannot_be_written() {
    let root = Root::new();
    let (run, kept) = (root.dir.join("run/states"), root.dir.join("root/states"));
    for (number, (path, inject)) in [
        (&run, "pwrite64:error=EIO:when=1+"),
        (&kept, "pwrite64:error=EIO:when=1+"),
        (&root.dir.join("run/events"), "write:error=ENOSPC:when=1+3"),
        (&root.dir.join("run/events"), "write:error=EIO:when=1+2"),
    ]
    .into_iter()
    .enumerate()
    {
        let what = format!("{inject} at {}", path.display());
        let mut events = root.engine.events(&of_containers()).expect("events");
        let writer = Writer::start(&root, &format!("e{number}"), plain());
        let strace = writer.hinder(Some(path), inject);
        assert_eq!(writer.end(&what), (LINES, 0), "{what}");
        let seen = events_until(&mut events, |event| event.action == "die");
        assert_eq!(seen.last().map(|event| event.actor.attributes["exitCode"].as_str()), Some("7"), "{what}");
        gone(strace);
        writer.again(&what);
    }
}

#[test]
fn an_exhausted_monitor_refuses_requests() {
    let root = Root::new();
    let writer = Writer::start(&root, "asked", plain());
    for (inject, refused) in [
        ("pipe2:error=EMFILE:when=1", true),
        ("socketpair:error=EMFILE:when=1", true),
        ("mmap:error=ENOMEM:when=1", true),
        ("clone3:error=ENOMEM:when=1", true),
        ("clone3:error=EAGAIN:when=1", true),
        ("epoll_ctl:error=ENOSPC:when=2", true),
        // The connection is accepted as soon as possible.
        ("accept4:error=EMFILE:when=1+20", false),
        // An exec's record is beside what it does.
        ("pwrite64:error=ENOSPC:when=1", false),
        ("write:error=ENOSPC:when=1", false),
    ] {
        let mut strace = writer.hinder(None, inject);
        let config: ExecConfig =
            serde_json::from_value(json!({ "Cmd": ["true"], "AttachStdout": true })).expect("a body");
        let exec = root.engine.exec_create(&writer.id, &config).expect("exec create");
        let op = coracle::Op::new().expect("an operation");
        op.set_timeout(Some(Duration::from_secs(20)));
        match root.engine.exec_start(&exec, Some(coracle::Io::default()), Some(&op)) {
            Ok(_) => assert!(!refused, "{inject}: not refused"),
            Err(error) => assert!(
                !error.to_string().is_empty() && error.kind() != coracle::ErrorKind::Timeout,
                "{inject}: {error:?}"
            ),
        }
        strace.kill().expect("let it go");
        gone(strace);
        // The next one is done.
        assert_eq!(root.exec(&writer.id, &["echo", "here"]).ok(), "here", "{inject}");
    }
    assert_eq!(writer.end("after all that"), (LINES, 0));
    writer.again("after all that");
}

/// Starts a container by the command, with the first process that makes a call stopped there for good; returns what it
/// says.
fn start_hanging(root: &Root, name: &str, call: &str) -> String {
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={call}:signal=SIGSTOP:when=1")]).arg(built("coracle"));
    command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run")).args(["start", name]);
    let output = command.stdin(Stdio::null()).output().expect("run strace");
    assert!(!output.status.success(), "{name}: started");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Starts a container by the command under strace; returns what it says.
fn start_injected(root: &Root, name: &str, inject: &[&str]) -> String {
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null"]);
    command.args(inject.iter().flat_map(|inject| ["-e".to_owned(), format!("inject={inject}")]));
    command.arg(built("coracle")).arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run"));
    let output = command.args(["start", name]).stdin(Stdio::null()).output().expect("run strace");
    assert!(!output.status.success(), "{name}: started");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The monitor makes the network namespace before it has the plan, and may be killed at any step.
#[test]
fn a_monitor_that_ends_in_a_start_says_why_or_that_it_ended() {
    let root = Root::new();
    // The plan's memory: so the monitor is gone before it is sent anything of the plan.
    let later = "memfd_create:delay_enter=500000";
    let killed = "the container's monitor ended (something killed it) while it";
    let ways = [
        (
            "back",
            &["setns:error=EPERM", later][..],
            "set up the container's monitor: operation not permitted".to_owned(),
        ),
        ("gone", &["unshare:signal=SIGKILL:when=1", later], format!("{killed} took the container's plan")),
        ("early", &["unshare:signal=SIGKILL:when=1"], killed.to_owned()),
        ("midway", &["mkdirat:signal=SIGKILL:when=1"], format!("{killed} made the container's process")),
    ];
    for (name, inject, told) in ways {
        root.create(name, body(&["sh", "-c", "exit 7"], json!({})));
        let said = start_injected(&root, name, inject);
        assert!(said.contains(&told), "{name}: {said}");
        root.start(name);
        assert_eq!(root.wait(name), 7, "{name}: after that");
    }
}

#[ignore = "takes more than two minutes: tests/torture"]
#[test]
fn a_start_that_hangs_is_given_up() {
    let root = Root::new();
    // The one is the container's first process, the other the monitor, which makes the first cgroup.
    let hanging =
        [("child", "pivot_root", "a step of it took more than 120 seconds"), ("monitor", "mkdirat", "too long")];
    for (name, ..) in hanging {
        root.create(name, body(&["sh", "-c", "exit 7"], json!({})));
    }
    std::thread::scope(|scope| {
        for (name, call, told) in hanging {
            let root = &root;
            scope.spawn(move || {
                let said = start_hanging(root, name, call);
                assert!(said.contains(told), "{name}: {said}");
                let state = root.inspect(name).state;
                assert_eq!((state.status.as_str(), state.pid, state.exit_code), ("created", 0, 128), "{name}");
                assert!(state.error.contains(told), "{name}: {state:?}");
            });
        }
    });
    for (name, ..) in hanging {
        root.start(name);
        assert_eq!(root.wait(name), 7, "{name}: after that");
    }
}

#[ignore = "takes more than two minutes: tests/torture"]
#[test]
fn a_monitor_that_hangs_is_given_up() {
    let root = Root::new();
    let id = root.sleeper("up");
    let monitor = nix::unistd::Pid::from_raw(monitor_of(&root, &id));
    nix::sys::signal::kill(monitor, nix::sys::signal::Signal::SIGSTOP).expect("stop its monitor");
    // More than wait in the queue of its socket.
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                let resized = root.engine.container_resize(&id, 10, 20);
                fails(resized, coracle::ErrorKind::Timeout, "the container's monitor does not answer for 130s");
            });
        }
    });
    nix::sys::signal::kill(monitor, nix::sys::signal::Signal::SIGCONT).expect("let it go on");
    root.engine.container_pause(&id).expect("pause");
    root.engine.container_unpause(&id).expect("unpause");
}
