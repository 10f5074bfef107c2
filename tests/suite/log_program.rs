//! The program that delivers logs while no program of the host lives: its life, its rights, its end.

use crate::log_delivery::{Receiver, await_delivery, delivery, logged};
use crate::support::*;
use coracle::{Engine, ShipLogs};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// Tells the program that it is the host of [`shipping_host`], where its root is, the receiver's port, and the end of its container's script.
const HOST: &str = "CORACLE_TEST_SHIPPING_HOST";
/// Tells the program that it runs one test alone.
const ALONE: &str = "CORACLE_TEST_PROGRAM_ALONE";

/// The two processes of a root's program: the keeper, and the worker, which is its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    keeper: i32,
    worker: i32,
}

/// The processes that deliver for a root.
pub fn processes(dir: &Path) -> Vec<i32> {
    let root = dir.join("root");
    let pids =
        std::fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_one = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next() == Some(b"coracle-shipper") && words.next() == Some(root.as_os_str().as_encoded_bytes())
    };
    pids.filter(is_one).collect()
}

fn pair(dir: &Path) -> Option<Pair> {
    let all = processes(dir);
    let worker = all.iter().find(|pid| parent(**pid).is_some_and(|parent| all.contains(&parent)))?;
    Some(Pair { keeper: parent(*worker)?, worker: *worker })
}

fn lock_is_free(dir: &Path) -> bool {
    let lock = OpenOptions::new().write(true).open(dir.join("run/ship.lock")).expect("the lock's file");
    lock.try_lock().is_ok()
}

fn parent(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    proc_status(&status, "PPid").trim().parse().ok()
}

/// Both processes of the program, another worker than `not` among them.
fn await_pair(dir: &Path, not: Option<i32>) -> Pair {
    let mut found = None;
    wait_for("the program that delivers", || {
        found = pair(dir).filter(|pair| Some(pair.worker) != not);
        found.is_some()
    });
    found.expect("a pair")
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: a process of this test's own root.
    let _ = nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::try_from(signal).expect("a signal"),
    );
}

/// Ends the program of a root, also when the test fails.
struct Ended(PathBuf);

impl Drop for Ended {
    fn drop(&mut self) {
        processes(&self.0).into_iter().for_each(|pid| kill(pid, libc::SIGTERM));
        if !std::thread::panicking() {
            wait_for("the end of the program", || processes(&self.0).is_empty());
        }
    }
}

fn syslog(port: u16) -> serde_json::Value {
    logged("syslog", &json!({ "syslog-address": format!("tcp://127.0.0.1:{port}") }))
}

/// A root whose containers' logs the program delivers, and an engine of it.
fn root_with_program() -> (Root, Ended) {
    let root = Root::with(|options| options.ship_logs = ShipLogs::Program);
    root.load(&busybox_archive());
    let ended = Ended(root.dir.clone());
    (root, ended)
}

/// The numbers of the lines that a receiver has, in order, each once.
fn numbers(receiver: &Receiver) -> Vec<u32> {
    let out = receiver.out();
    let mut numbers: Vec<u32> = out.lines().filter_map(|line| line.rsplit('|').next()?.trim().parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn has_all(receiver: &Receiver, count: u32) -> bool {
    numbers(receiver) == (1..=count).collect::<Vec<_>>()
}

/// Not a test of its own: a host program that starts a container, and is killed.
#[test]
fn shipping_host() {
    let Ok(words) = std::env::var(HOST) else { return };
    let [dir, port, end, more] = words.split('|').collect::<Vec<_>>()[..] else { panic!("four words: {words}") };
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit");
    setrlimit(Resource::RLIMIT_NOFILE, most - 1, most).expect("a lower limit");
    let mut options = options_at(Path::new(dir));
    options.ship_logs = ShipLogs::Program;
    let engine = Engine::open_with(options).expect("open");
    let script = format!("for n in $(seq 1 200); do echo $n; sleep 0.02; done{end}");
    let port = port.parse().expect("a port");
    let start = |name: &str, body| {
        engine.container_create(Some(name), &serde_json::from_value(body).expect("a body")).expect("create");
        engine.container_start(name, None, Some(&soon())).expect("start");
    };
    start("web", body(&["sh", "-c", &script], syslog(port)));
    for number in 0..more.parse().expect("a number") {
        start(&format!("silent-{number}"), body(&["sleep", "1000"], syslog(port)));
    }
    std::fs::write(Path::new(dir).join("ready"), "").expect("tell");
    loop {
        std::thread::park();
    }
}

/// Starts a host program whose container writes two hundred lines, and then does what `end` says; and `more` containers that write none.
fn host(root: &Root, receiver: &Receiver, end: &str, more: u32) -> std::process::Child {
    let mut host = Command::new(std::env::current_exe().expect("this program"));
    host.args(["--exact", "log_program::shipping_host", "--nocapture", "--test-threads=1"]);
    host.env(HOST, format!("{}|{}|{end}|{more}", root.dir.display(), receiver.port)).stdout(Stdio::null());
    let host = host.spawn().expect("start a host");
    wait_for("the host's container", || root.dir.join("ready").exists());
    host
}

/// Waits for so many looks of monitors at the lock's file.
fn await_looks(dir: &Path, count: usize) {
    let watch = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).expect("inotify");
    watch.add_watch(&dir.join("run/ship.lock"), AddWatchFlags::IN_CLOSE_WRITE).expect("a watch");
    let mut seen = 0;
    wait_for("the monitors' looks", || {
        seen += watch.read_events().map_or(0, |events| events.len());
        seen >= count
    });
}

/// When a program was started last.
fn last_start(dir: &Path) -> SystemTime {
    dir.join("run/ship.lock").metadata().and_then(|facts| facts.modified()).expect("a time")
}

#[test]
fn monitors_start_a_program_that_ends_at_once_once_in_a_round() {
    let (root, receiver) = (Root::new(), Receiver::new());
    let _ended = Ended(root.dir.clone());
    let mut host = host(&root, &receiver, "; sleep 1000", 4);
    let pair = await_pair(&root.dir, None);
    host.kill().and_then(|()| host.wait()).expect("kill the host");
    // Busybox has no such command.
    let (program, other) = (root.dir.join("run/ship.program"), root.dir.join("run/other"));
    std::fs::copy("/bin/busybox", &other).and_then(|_| std::fs::rename(&other, &program)).expect("another program");
    kill(pair.keeper, libc::SIGSTOP);
    kill(pair.worker, libc::SIGKILL);
    kill(pair.keeper, libc::SIGKILL);
    let mut starts = vec![last_start(&root.dir)];
    wait_for("two starts", || {
        let last = last_start(&root.dir);
        starts.extend((last != starts[starts.len() - 1]).then_some(last));
        starts.len() == 3
    });
    // All five monitors look each ten seconds.
    let apart = starts[2].duration_since(starts[1]).expect("in their order");
    assert!(apart >= Duration::from_secs(10), "{starts:?}");
}

#[test]
fn monitors_start_a_killed_pair_again_though_no_host_program_lives() {
    // This root's own engine delivers nothing and follows nobody.
    let (root, mut receiver) = (Root::new(), Receiver::new());
    let _ended = Ended(root.dir.clone());
    let mut host = host(&root, &receiver, "; sleep 1000", 0);
    let first = await_pair(&root.dir, None);
    host.kill().and_then(|()| host.wait()).expect("kill the host");
    // A frozen keeper replaces nobody.
    kill(first.keeper, libc::SIGSTOP);
    kill(first.worker, libc::SIGKILL);
    kill(first.keeper, libc::SIGKILL);
    receiver.rsyslog();
    wait_for("all lines", || has_all(&receiver, 200));
    let second = await_pair(&root.dir, None);
    assert!(second.keeper != first.keeper && programs(&root.dir) == 2, "{second:?} after {first:?}");
    let parent_of_keeper = parent(second.keeper).expect("a parent");
    assert_ne!(
        parent_of_keeper,
        monitor_of(root.inspect("web").state.pid),
        "the monitor is not the parent of the keeper"
    );
    // One that was told to end stays ended.
    kill(second.keeper, libc::SIGTERM);
    wait_for("the end of both", || processes(&root.dir).is_empty());
    await_looks(&root.dir, 2);
    assert_eq!((processes(&root.dir), programs(&root.dir)), (Vec::new(), 2));
}

/// System calls of a worker, and how often each worker makes them at least: of its start, of a log that is read and a cursor that is
/// written, of a connection.
const CALLS: [(&str, u32); 14] = [
    ("openat", 3),
    ("pread64", 3),
    ("pwrite64", 3),
    ("close", 3),
    ("fstat,newfstatat,statx", 3),
    ("fgetxattr", 3),
    ("getdents64", 3),
    ("inotify_add_watch", 1),
    ("eventfd2", 1),
    ("socket", 1),
    ("connect", 1),
    ("setsockopt", 1),
    ("sendto,sendmsg", 3),
    ("ioctl", 3),
];

/// With `CORACLE_TORTURE` at each of the calls, the first to the third time; else at a few. Calls of the keeper count, too. The filter of the
/// worker's calls hinders no tracer that has root's rights.
#[test]
fn a_worker_that_is_killed_at_any_of_its_calls_loses_nothing() {
    let is_full = std::env::var_os("CORACLE_TORTURE").is_some();
    let calls: &[(&str, u32)] = if is_full { &CALLS } else { &[("pwrite64", 1), ("sendto,sendmsg", 1)] };
    for (call, when) in calls.iter().flat_map(|(call, times)| (1..=*times).map(move |when| (call, when))) {
        let ((root, _ended), mut receiver) = (root_with_program(), Receiver::new());
        receiver.rsyslog();
        let script = "n=0; while [ ! -e /stop ]; do n=$((n+1)); echo $n; sleep 0.02; done";
        let id = root.create("web", body(&["sh", "-c", script], syslog(receiver.port)));
        root.start(&id);
        let first = await_pair(&root.dir, None);
        let told = root.dir.join("strace");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-p", &first.keeper.to_string(), "-o"]).arg(&told).args(["-e", &format!("trace={call}")]);
        strace.args(["-e", &format!("inject={call}:signal=SIGKILL:when={when}")]);
        let mut strace = strace.stderr(Stdio::null()).spawn().expect("run strace");
        let status = || std::fs::read_to_string(format!("/proc/{}/status", first.keeper)).unwrap_or_default();
        wait_for("strace to be there", || proc_status(&status(), "TracerPid") != "0");
        // The next worker is traced from its birth on.
        kill(first.worker, libc::SIGKILL);
        wait_for(call, || std::fs::read_to_string(&told).is_ok_and(|text| text.contains("+++ killed by SIGKILL +++")));
        strace.kill().and_then(|()| strace.wait()).expect("end strace");
        // Another worker, or, if the keeper made the call, the worker alone.
        wait_for("a process that delivers", || !processes(&root.dir).is_empty());
        root.exec(&id, &["touch", "/stop"]);
        root.wait(&id);
        let count = u32::try_from(await_delivery(&root, &id).delivered).expect("few");
        wait_for("all lines", || has_all(&receiver, count));
        assert!(root.logs(&id).stdout.ends_with(format!("\n{count}\n").as_bytes()), "{call}, {when}: {count} lines");
    }
}

#[test]
fn lines_are_delivered_after_the_host_program_was_killed() {
    let (root, mut receiver) = (Root::new(), Receiver::new());
    let _ended = Ended(root.dir.clone());
    let mut host = host(&root, &receiver, "", 0);
    let pair = await_pair(&root.dir, None);
    // A program with a thousand logs needs more open files than its starter's limit may allow.
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", pair.worker)).expect("limits");
    let limits: Vec<_> = limits.lines().filter_map(|line| line.strip_prefix("Max open files")).collect();
    let words: Vec<_> = limits.first().expect("the limit").split_whitespace().collect();
    assert_eq!(words[0], words[1], "{limits:?}");
    let children = children_of(i32::try_from(host.id()).expect("a pid"));
    host.kill().and_then(|()| host.wait()).expect("kill the host");
    assert!(children.is_empty(), "the host program has the children {children:?}");
    receiver.rsyslog();
    wait_for("all lines", || has_all(&receiver, 200));
    assert_eq!(self::pair(&root.dir), Some(pair), "the first program delivered all");
    wait_for("the end of the program, which has nothing to do any more", || processes(&root.dir).is_empty());
    assert_eq!(delivery(&root, "web").delivered, 200);
    wait_for("the lock", || lock_is_free(&root.dir));
}

#[test]
fn a_killed_worker_is_replaced_and_loses_nothing() {
    let ((root, _ended), mut receiver) = (root_with_program(), Receiver::new());
    receiver.rsyslog();
    let script = "for n in $(seq 1 3000); do echo $n; [ $((n % 20)) = 0 ] && sleep 0.02; done; true";
    // The log is rotated several times.
    let mut options = json!({ "syslog-address": format!("tcp://127.0.0.1:{}", receiver.port) });
    options["cache-max-size"] = json!("40k");
    let id = root.create("web", body(&["sh", "-c", script], logged("syslog", &options)));
    root.start(&id);
    let first = await_pair(&root.dir, None);
    let mut last = first;
    for _ in 0..4 {
        kill(last.worker, libc::SIGKILL);
        last = await_pair(&root.dir, Some(last.worker));
        assert_eq!(last.keeper, first.keeper);
    }
    root.wait(&id);
    await_delivery(&root, &id);
    wait_for("all lines", || has_all(&receiver, 3000));
    // SIGTERM to the worker ends both.
    kill(last.worker, libc::SIGTERM);
    wait_for("the end of both", || processes(&root.dir).is_empty());
}

#[test]
fn lines_of_a_container_whose_monitor_was_killed_are_delivered() {
    let ((root, _ended), mut receiver) = (root_with_program(), Receiver::new());
    let script = "for n in $(seq 1 300); do echo $n; done; sleep 1000";
    let id = root.create("web", body(&["sh", "-c", script], syslog(receiver.port)));
    root.start(&id);
    root.wait_for("the lines", || root.logs(&id).stdout.ends_with(b"\n300\n"));
    let monitor = monitor_of(root.inspect(&id).state.pid);
    kill(monitor, libc::SIGKILL);
    root.wait(&id);
    receiver.rsyslog();
    wait_for("all lines", || has_all(&receiver, 300));
    assert_eq!(await_delivery(&root, &id).delivered, 300);
    wait_for("the end of the program", || processes(&root.dir).is_empty());
}

#[test]
fn a_worker_whose_keeper_was_killed_goes_on_and_both_are_replaced() {
    let ((root, _ended), mut receiver) = (root_with_program(), Receiver::new());
    let id = root.create("web", body(&["sh", "-c", "seq 1 50; sleep 1000"], syslog(receiver.port)));
    root.start(&id);
    let first = await_pair(&root.dir, None);
    kill(first.keeper, libc::SIGKILL);
    wait_for("the keeper's end", || processes(&root.dir) == [first.worker]);
    receiver.rsyslog();
    wait_for("all lines", || has_all(&receiver, 50));
    assert_eq!(programs(&root.dir), 1);
    // No start comes: the open root is enough.
    kill(first.worker, libc::SIGKILL);
    let second = await_pair(&root.dir, Some(first.worker));
    assert_ne!(second.keeper, first.keeper);
    let other = root.create("other", body(&["seq", "51", "60"], syslog(receiver.port)));
    root.start(&other);
    wait_for("the lines of the second", || has_all(&receiver, 60));
}

/// The document in the lock's file.
fn holder(dir: &Path) -> serde_json::Value {
    let text = std::fs::read(dir.join("run/ship.lock")).expect("the lock's file");
    // A program that has just begun has written nothing yet.
    serde_json::from_slice(&text).unwrap_or_default()
}

/// How many programs have delivered for a root, as the lock's file counts them.
fn programs(dir: &Path) -> u64 {
    holder(dir)["Programs"].as_u64().expect("a count")
}

/// Waits until nobody follows a program that was told to end, and looks that it was not started again. For a test that runs alone
/// in its process: the threads that follow have the same name for each root.
fn await_peace(dir: &Path, count: u64) {
    let follows = || {
        let threads = std::fs::read_dir("/proc/self/task").expect("the threads").flatten();
        threads
            .filter_map(|one| std::fs::read_to_string(one.path().join("comm")).ok())
            .any(|name| name == "coracle-guard\n")
    };
    wait_for("the end of the thread that follows", || !follows());
    wait_for("the end of both", || processes(dir).is_empty());
    assert_eq!(programs(dir), count, "a program that was told to end was started again");
}

/// Runs a test of this file in a process of its own; answers whether this is that process.
fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let test = format!("log_program::{test}");
    let mut alone = Command::new(std::env::current_exe().expect("this program"));
    alone.args(["--exact", &test, "--nocapture", "--test-threads=1"]).env(ALONE, "");
    assert!(alone.status().expect("run the test").success(), "see above");
    false
}

#[test]
fn an_order_to_end_holds_though_the_worker_is_killed_before_it_obeys() {
    if !is_alone("an_order_to_end_holds_though_the_worker_is_killed_before_it_obeys") {
        return;
    }
    let (root, _ended) = root_with_program();
    let id = root.create("web", body(&["sleep", "1000"], syslog(9)));
    root.start(&id);
    let pair = await_pair(&root.dir, None);
    wait_for("the worker's number in the lock's file", || holder(&root.dir)["Worker"] == pair.worker);
    // A frozen worker obeys nobody.
    kill(pair.worker, libc::SIGSTOP);
    kill(pair.keeper, libc::SIGTERM);
    wait_for("the order to the worker", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pair.worker)).expect("status");
        u64::from_str_radix(proc_status(&status, "ShdPnd").trim(), 16).expect("a set") & 1 << (libc::SIGTERM - 1) != 0
    });
    kill(pair.worker, libc::SIGKILL);
    await_peace(&root.dir, 1);
    assert_eq!(holder(&root.dir)["IsTold"], true);
}

#[test]
fn an_open_root_starts_a_killed_pair_again_and_leaves_one_that_was_told_to_end() {
    if !is_alone("an_open_root_starts_a_killed_pair_again_and_leaves_one_that_was_told_to_end") {
        return;
    }
    let ((root, _ended), mut receiver) = (root_with_program(), Receiver::new());
    receiver.rsyslog();
    let script = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo $i; sleep 0.01; done; sleep 1000";
    let id = root.create("web", body(&["sh", "-c", script], syslog(receiver.port)));
    root.start(&id);
    let mut last = await_pair(&root.dir, None);
    for count in 2..5 {
        // A frozen keeper replaces nobody.
        kill(last.keeper, libc::SIGSTOP);
        kill(last.worker, libc::SIGKILL);
        kill(last.keeper, libc::SIGKILL);
        let killed = last;
        last = await_pair(&root.dir, Some(killed.worker));
        wait_for("the count of programs", || programs(&root.dir) == count);
        assert!(last.keeper != killed.keeper, "{last:?} after {killed:?}");
    }
    wait_for("all lines", || has_all(&receiver, 400));
    kill(last.keeper, libc::SIGTERM);
    await_peace(&root.dir, 4);
    // The next start begins anew, and is followed again.
    let second = root.create("other", body(&["sh", "-c", "seq 401 450; sleep 1000"], syslog(receiver.port)));
    root.start(&second);
    wait_for("the lines of the second", || has_all(&receiver, 450));
    assert_eq!(programs(&root.dir), 5, "a program that was told to end was started again");
    last = await_pair(&root.dir, None);
    kill(last.keeper, libc::SIGSTOP);
    kill(last.worker, libc::SIGKILL);
    kill(last.keeper, libc::SIGKILL);
    wait_for("the count of programs", || programs(&root.dir) == 6);
    await_pair(&root.dir, Some(last.worker));
}

#[test]
fn a_start_waits_for_a_monitor_that_looks_whether_a_program_was_told_to_end() {
    let (root, _ended) = root_with_program();
    let first = root.create("first", body(&["sleep", "1000"], syslog(9)));
    root.start(&first);
    let pair = await_pair(&root.dir, None);
    wait_for("the worker's number in the lock's file", || holder(&root.dir)["Worker"] == pair.worker);
    kill(pair.keeper, libc::SIGTERM);
    wait_for("the end of both", || processes(&root.dir).is_empty());
    assert_eq!(holder(&root.dir)["IsTold"], true);
    // The test holds the lock in the place of a monitor.
    let lock = OpenOptions::new().write(true).open(root.dir.join("run/ship.lock")).expect("the lock's file");
    lock.lock().expect("the lock");
    let second = root.create("second", body(&["sleep", "1000"], syslog(9)));
    std::thread::scope(|scope| {
        let start = scope.spawn(|| root.start(&second));
        wait_for("the second container", || root.status(&second) == "running");
        drop(lock);
        start.join().expect("the start");
    });
    await_pair(&root.dir, None);
}

#[test]
fn a_program_of_an_earlier_version_gives_way() {
    let ((root, _ended), mut receiver) = (root_with_program(), Receiver::new());
    receiver.rsyslog();
    let id = root.create("web", body(&["sh", "-c", "seq 1 50; sleep 1000"], syslog(receiver.port)));
    root.start(&id);
    let first = await_pair(&root.dir, None);
    wait_for("all lines", || has_all(&receiver, 50));
    let lock = root.dir.join("run/ship.lock");
    let text = || std::fs::read_to_string(&lock).expect("the lock's file");
    let own = format!("\"Version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text().contains(&own), "{}", text());
    // Not another file: the program has this one open.
    let older = text().replacen(&own, "\"Version\":\"0.0.1\"", 1);
    let file = OpenOptions::new().write(true).open(&lock).expect("open");
    std::os::unix::fs::FileExt::write_all_at(&file, older.as_bytes(), 0).expect("write");
    let second = root.create("other", body(&["sh", "-c", "seq 51 60; sleep 1000"], syslog(receiver.port)));
    root.start(&second);
    wait_for("the lines of the second", || has_all(&receiver, 60));
    wait_for("another program", || pair(&root.dir).is_some_and(|pair| pair.keeper != first.keeper));
    wait_for("its version in the lock's file", || text().contains(&own));
    assert_eq!(programs(&root.dir), 2);
}

#[test]
fn the_program_has_no_right_to_spare() {
    let (root, _ended) = root_with_program();
    // A descriptor that the host program passes to all programs that it starts.
    let passed = std::fs::File::open("/etc/passwd").expect("open");
    nix::fcntl::fcntl(&passed, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).expect("pass it");
    let id = root.create("web", body(&["sleep", "1000"], syslog(9)));
    root.start(&id);
    let pair = await_pair(&root.dir, None);
    let of_thread = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    // The worker's filter comes a moment after its birth.
    wait_for("the worker's filter", || proc_status(&of_thread(pair.worker), "Seccomp").trim() == "2");
    for pid in [pair.keeper, pair.worker] {
        let status = of_thread(pid);
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(proc_status(&status, set).trim(), "0000000000000000", "{set} of {pid}");
        }
        assert_eq!(proc_status(&status, "NoNewPrivs").trim(), "1");
        // SIGINT, SIGTERM and SIGCHLD are read from a descriptor.
        assert_eq!(proc_status(&status, "SigBlk").trim(), "0000000000014002");
        assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).expect("cwd"), Path::new("/"));
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("fd").flatten();
        let open: Vec<PathBuf> = open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
        assert!(!open.iter().any(|file| file == Path::new("/etc/passwd")), "{open:?}");
        assert!(open.contains(&root.dir.join("run/ship.lock")), "{open:?}");
        let environment = std::fs::read(format!("/proc/{pid}/environ")).expect("environ");
        assert!(!environment.windows(5).any(|five| five == b"PATH="), "variables without a use");
    }
}

#[test]
fn the_program_ends_with_its_root() {
    let (root, ended) = root_with_program();
    let id = root.create("web", body(&["echo", "owed"], syslog(9)));
    root.start(&id);
    root.wait(&id);
    await_pair(&root.dir, None);
    drop(root);
    wait_for("the end of the program", || processes(&ended.0).is_empty());
}

#[test]
fn an_open_starts_the_program_where_lines_are_owed() {
    let (root, mut receiver) = (Root::new(), Receiver::new());
    let _ended = Ended(root.dir.clone());
    receiver.rsyslog();
    let id = root.create("web", body(&["seq", "1", "30"], syslog(receiver.port)));
    root.start(&id);
    root.wait(&id);
    assert_eq!((delivery(&root, &id).owed.lines, processes(&root.dir)), (30, Vec::new()));
    let mut options = options_at(&root.dir);
    options.ship_logs = ShipLogs::Program;
    drop(Engine::open_with(options.clone()).expect("open"));
    wait_for("all lines", || has_all(&receiver, 30));
    await_delivery(&root, &id);
    wait_for("the end of the program", || processes(&root.dir).is_empty());
    drop(Engine::open_with(options).expect("open again"));
    assert!(processes(&root.dir).is_empty(), "nothing is owed");
}
