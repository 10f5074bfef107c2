//! The base of the tests: throw-away engine roots, a real image, running a container to its end, looking at the kernel.

pub mod archive;
pub mod disk;
pub mod dockerd;
pub mod ended;
pub mod faulty;
pub mod git;
pub mod kernel;
pub mod registry;
pub mod world;

use coracle::model::*;
use coracle::{Channel, Durability, Engine, EventStream, Io, LogStream, Op, Options, Session, SessionRead, ShipLogs};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for what should come at once: long enough for a busy machine whose caches are cold.
pub const SOON: Duration = Duration::from_secs(60);

/// The name of the image that [`Root::new`] loads.
pub const IMAGE: &str = "busybox";

/// An engine on a root of its own; dropping it removes every container, then the directories, also when a test fails.
pub struct Root {
    pub dir: PathBuf,
    pub engine: Engine,
}

impl Root {
    /// With the busybox image loaded.
    pub fn new() -> Root {
        let root = Root::empty();
        root.load(&busybox_archive());
        root
    }

    /// Without any image.
    pub fn empty() -> Root {
        Root::with(|_| {})
    }

    /// Without any image; `change` sets the engine's options.
    pub fn with(change: impl FnOnce(&mut Options)) -> Root {
        let dir = temp_dir();
        let mut options = options_at(&dir);
        change(&mut options);
        let engine = Engine::open_with(options).expect("open an engine on a new root");
        crate::beside(&dir);
        Root { dir, engine }
    }

    /// The root opened once more, as by another program.
    pub fn reopen(&self) -> Engine {
        Engine::open_with(options_at(&self.dir)).expect("open the root again")
    }

    /// Loads an archive file.
    pub fn load(&self, archive: &Path) {
        let mut file = std::fs::File::open(archive).expect("open the archive");
        self.engine.image_load(&mut file, &mut |_| Ok(()), Some(&soon())).expect("load the image");
    }

    /// Creates a container of a create body (see [`body`]); returns its id.
    pub fn create(&self, name: &str, body: Value) -> String {
        self.try_create(name, body).unwrap_or_else(|e| panic!("create {name}: {e}"))
    }

    /// Like [`Self::create`]; an empty name: one is made up.
    pub fn try_create(&self, name: &str, body: Value) -> coracle::Result<String> {
        let body: CreateBody = serde_json::from_value(body).expect("a well-formed create body");
        let name = if name.is_empty() { None } else { Some(name) };
        Ok(self.engine.container_create(name, &body)?.id)
    }

    /// Creates and starts one that stays: it runs `sleep 1000` under a shell that obeys SIGTERM.
    pub fn sleeper(&self, name: &str) -> String {
        self.sleeper_with(name, json!({}))
    }

    /// Like [`Self::sleeper`], with fields of the create body.
    pub fn sleeper_with(&self, name: &str, more: Value) -> String {
        let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done";
        let id = self.create(name, body(&["sh", "-c", script], more));
        self.start(&id);
        self.wait_for("the container to be ready", || self.logs(&id).stdout.starts_with(b"ready"));
        id
    }

    /// Starts it, detached.
    pub fn start(&self, id: &str) {
        self.engine.container_start(id, None, Some(&soon())).unwrap_or_else(|e| panic!("start {id}: {e}"));
    }

    /// Runs a shell script in a container to its end.
    pub fn sh(&self, script: &str) -> Output {
        self.run(&["sh", "-c", script], json!({}), b"")
    }

    /// Runs a shell script in a container with these fields of the create body.
    pub fn sh_with(&self, script: &str, more: Value) -> Output {
        self.run(&["sh", "-c", script], more, b"")
    }

    /// Runs a command in a container to its end, and removes the container.
    pub fn run(&self, command: &[&str], more: Value, stdin: &[u8]) -> Output {
        let mut more = more;
        if !stdin.is_empty() {
            more["OpenStdin"] = json!(true);
            more["StdinOnce"] = json!(true);
        }
        let id = self.create("", body(command, more));
        let started = self
            .engine
            .container_start(&id, Some(Io::default()), Some(&soon()))
            .unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        let output = finish(started.session.expect("an attached session"), stdin);
        let remove = RemoveContainer { force: true, ..RemoveContainer::default() };
        self.engine.container_remove(&id, remove, Some(&soon())).unwrap_or_else(|e| panic!("remove {id}: {e}"));
        output
    }

    /// Runs a second process in a running container to its end.
    pub fn exec(&self, container: &str, command: &[&str]) -> Output {
        self.exec_with(container, json!({ "Cmd": command, "AttachStdout": true, "AttachStderr": true }), b"")
    }

    /// Like [`Self::exec`], with a whole exec body.
    pub fn exec_with(&self, container: &str, config: Value, stdin: &[u8]) -> Output {
        let config: ExecConfig = serde_json::from_value(config).expect("a well-formed exec body");
        let id = self.engine.exec_create(container, &config).unwrap_or_else(|e| panic!("exec create: {e}"));
        let session = self
            .engine
            .exec_start(&id, Some(Io::default()), Some(&soon()))
            .unwrap_or_else(|e| panic!("exec start: {e}"));
        finish(session.expect("an attached session"), stdin)
    }

    pub fn inspect(&self, id: &str) -> ContainerDetail {
        self.engine.container_inspect(id, false).unwrap_or_else(|e| panic!("inspect {id}: {e}"))
    }

    /// `State.Status` of inspect.
    pub fn status(&self, id: &str) -> String {
        self.inspect(id).state.status
    }

    /// The pid on the host of the container's first process.
    pub fn pid(&self, id: &str) -> i32 {
        self.inspect(id).state.pid
    }

    pub fn wait(&self, id: &str) -> i32 {
        self.engine.container_wait(id, Some(&soon())).unwrap_or_else(|e| panic!("wait {id}: {e}"))
    }

    /// The whole log of a container so far.
    pub fn logs(&self, id: &str) -> Output {
        let mut log = self
            .engine
            .container_logs(id, &LogQuery::default(), Some(&soon()))
            .unwrap_or_else(|e| panic!("logs {id}: {e}"));
        let mut output = Output::default();
        while let Some(line) = next_line(&mut log) {
            match line.channel {
                Channel::Stderr => output.stderr.extend(line.data),
                _ => output.stdout.extend(line.data),
            }
        }
        output
    }

    /// Names (without the slash) of the containers that `query` lists.
    pub fn names(&self, query: &ListContainers) -> Vec<String> {
        let list = self.engine.container_list(query).unwrap_or_else(|e| panic!("list: {e}"));
        list.into_iter().map(|c| c.names[0].trim_start_matches('/').to_owned()).collect()
    }

    /// Polls `done` until it answers true; fails the test after [`SOON`].
    pub fn wait_for(&self, what: &str, done: impl FnMut() -> bool) {
        wait_for(what, done);
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let all = ListContainers { all: true, ..ListContainers::default() };
        let force = RemoveContainer { force: true, ..RemoveContainer::default() };
        for container in self.engine.container_list(&all).unwrap_or_default() {
            let _ = self.engine.container_unpause(&container.id);
            if let Err(error) = self.engine.container_remove(&container.id, force, Some(&soon())) {
                eprintln!("{}: left over: {error}", container.id);
            }
        }
        if let Err(error) = self.engine.network_release() {
            eprintln!("networks left over: {error}");
        }
        let _ = std::fs::remove_dir_all(&self.dir);
        crate::behind(&self.dir);
    }
}

/// The output of a process, and its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub code: i32,
}

impl Output {
    /// Returns the standard output without the last newline; fails the test if it ended badly or wrote errors.
    pub fn ok(&self) -> String {
        assert_eq!((self.code, self.err().as_str()), (0, ""), "stdout: {}", self.out());
        self.out()
    }
    /// Standard output without the last newline.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches('\n').to_owned()
    }
    /// Standard error without the last newline.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim_end_matches('\n').to_owned()
    }
}

/// A create body: the busybox image, no network, this command, and `more`: fields of the body, `HostConfig` merged.
pub fn body(command: &[&str], more: Value) -> Value {
    let mut body = json!({
        "Image": IMAGE, "Cmd": command, "AttachStdout": true, "AttachStderr": true,
        "HostConfig": { "NetworkMode": "none" },
    });
    let Value::Object(more) = more else { panic!("`more` is an object") };
    for (key, value) in more {
        match (key.as_str(), value) {
            ("HostConfig", Value::Object(host)) => {
                for (key, value) in host {
                    body["HostConfig"][key] = value;
                }
            }
            (_, value) => body[key] = value,
        }
    }
    body
}

/// Fields of a create body that are the host configuration.
pub fn host(config: Value) -> Value {
    json!({ "HostConfig": config })
}

/// Writes `stdin`, ends it, reads all output, waits for the end.
pub fn finish(session: Session, stdin: &[u8]) -> Output {
    let op = soon();
    let mut sent = 0;
    while sent < stdin.len() {
        sent += session.write(&stdin[sent..], Some(&op)).expect("write to stdin");
    }
    if session.fd(Channel::Stdin).is_some() {
        session.close_stdin().expect("end stdin");
    }
    let mut output = read_output(&session);
    output.code = session.wait(Some(&op)).expect("wait for the end");
    output
}

/// Reads both streams of a session to their end; the code stays 0.
pub fn read_output(session: &Session) -> Output {
    let mut output = Output::default();
    let mut buffer = vec![0; 65536];
    loop {
        match session.read(&mut buffer, Some(&soon())).expect("read output") {
            SessionRead::Data(Channel::Stderr, n) => output.stderr.extend(&buffer[..n]),
            SessionRead::Data(_, n) => output.stdout.extend(&buffer[..n]),
            SessionRead::End => return output,
        }
    }
}

/// Reads a session until its standard output has `needle` in it; returns what came.
pub fn read_until(session: &Session, needle: &str) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    let op = soon();
    loop {
        let text = String::from_utf8_lossy(&seen).into_owned();
        if text.contains(needle) {
            return text;
        }
        match session.read(&mut buffer, Some(&op)).unwrap_or_else(|e| panic!("waiting for {needle:?} in {text:?}: {e}"))
        {
            SessionRead::Data(Channel::Stdout, n) => seen.extend(&buffer[..n]),
            SessionRead::Data(..) => {}
            SessionRead::End => panic!("the output ended without {needle:?}: {text:?}"),
        }
    }
}

/// The next line of a log; `None` at its end.
pub fn next_line(log: &mut LogStream) -> Option<coracle::LogLine> {
    let line = log.next(Some(SOON), Some(&soon())).expect("read the log");
    assert!(line.is_some() || log.ended(), "no log line came");
    line
}

/// Events until one passes `last`; all of them, that one included.
pub fn events_until(events: &mut EventStream, mut last: impl FnMut(&Event) -> bool) -> Vec<Event> {
    let mut seen = Vec::new();
    let op = soon();
    loop {
        let Some((_, event)) = events.next(Some(SOON), Some(&op)).expect("read events") else {
            panic!("the event did not come; seen: {:?}", actions(&seen));
        };
        let end = last(&event);
        seen.push(event);
        if end {
            return seen;
        }
    }
}

/// New events of containers alone: not of their networks and volumes.
pub fn of_containers() -> EventQuery {
    EventQuery { filters: Filters::from([("type".into(), vec!["container".into()])]), ..EventQuery::default() }
}

/// The actions of events, in order.
pub fn actions(events: &[Event]) -> Vec<&str> {
    events.iter().map(|e| e.action.as_str()).collect()
}

/// An operation that ends after [`SOON`].
pub fn soon() -> Op {
    let op = Op::new().expect("a new operation");
    op.set_timeout(Some(SOON));
    op
}

/// Polls `done` until it answers true; fails the test after [`SOON`].
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < end, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Asserts that a call failed with this kind and a message that has `text` in it.
#[track_caller]
pub fn fails<T>(result: coracle::Result<T>, kind: coracle::ErrorKind, text: &str) {
    match result {
        Ok(_) => panic!("succeeded, expected {kind:?}: {text}"),
        Err(error) => {
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.message().contains(text), "message {:?} lacks {text:?}", error.message());
        }
    }
}

/// The options of an engine on `dir/root` and `dir/run`, without flushes.
pub fn options_at(dir: &Path) -> Options {
    let mut options = Options::new(dir.join("root"));
    options.run_dir = Some(dir.join("run"));
    options.durability = Durability::Off;
    // Tests of the delivery say how they want it.
    options.ship_logs = ShipLogs::None;
    options
}

/// Runs a test of this program alone, in a process with a mount namespace of its own (`propagation` as of `unshare`):
/// no container of another test sees its mounts, and they end with it.
pub fn in_a_mount_namespace(propagation: &str, test: &str, variables: &[(&str, &Path)]) {
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", propagation])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"])
        .envs(variables.iter().copied())
        .status();
    assert!(status.expect("run unshare").success(), "see above");
}

/// The first line of a root's `identity`.
pub fn identity(root: &Path) -> Value {
    let text = std::fs::read_to_string(root.join("identity")).expect("the identity");
    serde_json::from_str(text.lines().next().expect("a line")).expect("JSON")
}

/// Makes a root say that it was used last before the machine went down.
pub fn of_an_earlier_boot(root: &Path) {
    let mut said = identity(root);
    said["boot"] = json!("0".repeat(32));
    std::fs::write(root.join("identity"), format!("{said}\n")).expect("write the identity");
}

/// A new directory `coracle-suite-…` for a test. The caller removes it.
pub fn temp_dir() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("coracle-suite-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir(&dir).expect("make a directory for the test");
    dir
}

/// The busybox image as a `docker save` archive, made once per checkout (`target/test-images`).
pub fn busybox_archive() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let path = project().join("target/test-images/busybox.tar");
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("make target/test-images");
        if !path.exists() {
            // Made beside and renamed: another test program may be doing the same.
            let part = path.with_extension(format!("{}", std::process::id()));
            let made = Command::new(project().join("tools/make-busybox-image")).arg(&part).status();
            assert!(made.expect("run make-busybox-image").success(), "tools/make-busybox-image failed");
            std::fs::rename(&part, &path).expect("rename the archive");
        }
        path
    })
    .clone()
}

/// The project's directory.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program of this build: `coracle`, or `examples/main_job`. Built by the test runner (`cargo build --workspace`,
/// `cargo test`); built here where a single test is run by hand.
pub fn built(name: &str) -> PathBuf {
    let me = std::env::current_exe().expect("the test program's path");
    let target = me.parent().and_then(Path::parent).expect("target/debug");
    let path = target.join(name);
    if !path.exists() {
        let package: &[&str] =
            if name == "coracle" { &["-p", "coracle-cli"] } else { &["-p", "coracle", "--examples"] };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo).arg("build").args(package).current_dir(project()).status();
        assert!(status.expect("run cargo").success(), "could not build {name}");
    }
    path
}

/// The kernel's view of a container's cgroups.
pub struct Cgroups {
    pid: i32,
}

impl Cgroups {
    pub fn of(pid: i32) -> Cgroups {
        Cgroups { pid }
    }

    /// Whether only the unified hierarchy holds controllers.
    pub fn unified() -> bool {
        Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
    }

    /// The path of the process in the hierarchy of `controller` (in the unified one: of all).
    pub fn path(&self, controller: &str) -> String {
        let text = std::fs::read_to_string(format!("/proc/{}/cgroup", self.pid)).expect("read /proc/<pid>/cgroup");
        let wanted = if Cgroups::unified() { "" } else { controller };
        for line in text.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            if let (Some(names), Some(path)) = (parts.next(), parts.next())
                && names.split(',').any(|n| n == wanted)
            {
                return path.to_owned();
            }
        }
        panic!("no {controller} cgroup in {text}");
    }

    /// A file of the process's cgroup, trimmed: `v1` of `controller`'s hierarchy, or `v2` of the unified one.
    pub fn read(&self, controller: &str, v1: &str, v2: &str) -> String {
        let path = self.path(controller);
        let file = if Cgroups::unified() {
            format!("/sys/fs/cgroup{path}/{v2}")
        } else {
            format!("/sys/fs/cgroup/{controller}{path}/{v1}")
        };
        std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}")).trim().to_owned()
    }
}

impl Cgroups {
    /// Asserts `memory` bytes of memory and 32 MiB of reservation, 512 shares and half a processor in periods of 50 ms,
    /// processor and memory node 0, 77 processes.
    #[track_caller]
    pub fn assert_limits(&self, memory: &str) {
        for (controller, v1, v2, want, want_v2) in [
            ("memory", "memory.limit_in_bytes", "memory.max", memory, memory),
            ("memory", "memory.soft_limit_in_bytes", "memory.low", "33554432", "33554432"),
            ("cpu", "cpu.shares", "cpu.weight", "512", "59"),
            ("cpu", "cpu.cfs_period_us", "cpu.max", "50000", "25000 50000"),
            ("cpu", "cpu.cfs_quota_us", "cpu.max", "25000", "25000 50000"),
            ("cpuset", "cpuset.cpus", "cpuset.cpus", "0", "0"),
            ("cpuset", "cpuset.mems", "cpuset.mems", "0", "0"),
            ("pids", "pids.max", "pids.max", "77", "77"),
        ] {
            let want = if Cgroups::unified() { want_v2 } else { want };
            assert_eq!(self.read(controller, v1, v2), want, "{v1}");
        }
    }
}

/// The monitor whose container's first process this is.
pub fn monitor_of(first: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{first}/status")).expect("its status");
    proc_status(&status, "PPid").parse().expect("a pid")
}

/// The children of a process.
pub fn children_of(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("its children");
    text.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect()
}

/// The half of a monitor that reads what its container makes.
pub fn worker_of(monitor: i32) -> i32 {
    let is_one = |pid: &i32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "coracle-worker")
    };
    let mut found = None;
    wait_for("a worker", || {
        found = children_of(monitor).into_iter().find(is_one);
        found.is_some()
    });
    found.expect("a worker")
}

/// A field of `/proc/<pid>/status`.
pub fn proc_status(text: &str, field: &str) -> String {
    let prefix = format!("{field}:");
    let line = text.lines().find(|l| l.starts_with(&prefix)).unwrap_or_else(|| panic!("no {field} in {text}"));
    line[prefix.len()..].trim().to_owned()
}

/// A small generator of numbers: the same for the same seed.
pub struct Random(pub u64);

impl Random {
    /// A number below `limit`; 0 where that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}
