//! The harm that a container's bytes could do to the process that reads them: the monitor's worker has no rights, and
//! nothing of that is left to the container's processes.

use crate::programs::program;
use crate::support::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Fields of /proc/PID/status.
fn rights(status: &str) -> BTreeMap<String, String> {
    let fields = status.lines().filter_map(|line| line.split_once(':'));
    let wanted = ["Seccomp", "NoNewPrivs", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    fields
        .filter(|(name, _)| wanted.contains(name))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

fn status_of(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process's status")
}

fn comm(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// The open descriptors of a process.
fn open_files(pid: i32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
    entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
}

// attack: R14 wall confined-worker
#[test]
fn bytes_of_a_container_are_read_by_a_process_without_rights() {
    let root = Root::new();
    let id = root.create("reader", body(&["sh", "-c", "echo one; sleep 1000"], json!({})));
    root.start(&id);
    wait_for("its output", || root.logs(&id).out() == "one");
    let monitor = monitor_of(root.pid(&id));
    let worker = worker_of(monitor);
    // The worker is the process that reads: the log is open there, and nowhere else.
    let log = root.dir.join("root/containers").join(&id).join(format!("{id}-json.log"));
    assert!(open_files(worker).contains(&log), "{:?}", open_files(worker));
    assert!(!open_files(monitor).contains(&log), "the launcher has the log open");
    let found = rights(&status_of(worker));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(found[set], "0000000000000000", "{set}: {found:?}");
    }
    assert_eq!((found["NoNewPrivs"].as_str(), found["Seccomp"].as_str()), ("1", "2"), "{found:?}");
    // The worker's root is the run directory of all containers; of the engine's files it holds the log, and two for
    // reading.
    assert_eq!(std::fs::read_link(format!("/proc/{worker}/root")).expect("its root"), root.dir.join("run"));
    for file in open_files(worker).iter().filter(|file| file.starts_with(&root.dir)) {
        let known = [log.clone(), root.dir.join("run/states"), root.dir.join("root/alive")];
        assert!(known.contains(file) || file.is_dir(), "it holds {}", file.display());
    }
    for name in std::fs::read_dir(format!("/proc/{worker}/fdinfo")).expect("its descriptors").flatten() {
        let target = std::fs::read_link(Path::new(&format!("/proc/{worker}/fd")).join(name.file_name()));
        let states = target.is_ok_and(|target| target == root.dir.join("run/states"));
        let info = std::fs::read_to_string(name.path()).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or("").trim().to_owned();
        assert!(!states || flags.ends_with('0'), "it can write the records: {flags}");
    }
    assert_eq!(root.exec(&id, &["echo", "served"]).ok(), "served");
}

/// A kernel without filters of system calls is played by a filter that refuses filters.
// attack: R14 wall worker-confirmed
// attack: R14 wall confined-worker
#[test]
fn nothing_starts_where_its_reader_keeps_rights() {
    let root = Root::new();
    let run_with = |first: &[&str], more: &[&str]| {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60"]).args(first).arg(built("coracle"));
        command.arg("--root").arg(root.dir.join("root")).arg("--run").arg(root.dir.join("run"));
        command.args(["run", "--network", "none", "--security-opt", "seccomp=unconfined"]).args(more);
        command.args(["busybox", "echo", "ran"]);
        let output = command.output().expect("run the command");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let run = |first: &[&str]| run_with(first, &[]);
    assert_eq!(run(&[]), (Some(0), "ran\n".into()), "where there are filters");
    let without = program("nofilters");
    let (code, text) = run(&[&without.display().to_string()]);
    assert!(text.contains("take the rights (seccomp"), "{code:?}: {text}");
    assert!(
        text.contains("function not implemented") && !text.contains("ran\n") && code == Some(125),
        "{code:?}: {text}"
    );
    // A helper builds it, among others, who are there already.
    let other = root.sleeper("other");
    let pids = format!("container:{other}");
    assert_eq!(run_with(&[], &["--pid", &pids]), (Some(0), "ran\n".into()), "where there are filters");
    // Where the first process fails as well, neither waits for the other.
    let file = "/etc/passwd";
    let (code, text) = run_with(&[], &["--workdir", file]);
    assert!(text.contains("is not a directory") && code != Some(0), "{code:?}: {text}");
    for more in [&["--pid", &pids][..], &["--workdir", file], &["--pid", &pids, "--workdir", file]] {
        let (code, text) = run_with(&[&without.display().to_string()], more);
        assert!(text.contains("not implemented") || text.contains("is not a directory"), "{more:?}: {code:?}: {text}");
        assert!(!text.contains("ran\n") && code.is_some_and(|code| code > 124), "{more:?}: {code:?}: {text}");
    }
    assert_eq!(root.status(&other), "running");
}

/// The launcher's rights that are in effect; ARCHITECTURE.md says what each is for. The others it hands on alone.
// attack: R14 wall launcher-rights
#[test]
fn a_launcher_uses_no_right_that_it_only_hands_on() {
    const USED: [u32; 9] = [1, 5, 6, 7, 8, 12, 18, 19, 21];
    let root = Root::new();
    let own = rights(&status_of(std::process::id() as i32));
    let number = |text: &str| u64::from_str_radix(text, 16).expect("a mask");
    let permitted = number(&own["CapEff"]);
    let used = USED.iter().fold(0, |mask, bit| mask | 1 << bit);
    let id = root.create(
        "restarted",
        body(&["sh", "-c", "sleep 0.2"], json!({ "HostConfig": { "RestartPolicy": { "Name": "always" } } })),
    );
    root.start(&id);
    wait_for("a restart", || root.inspect(&id).restart_count > 1 && root.status(&id) == "running");
    let id = root.sleeper("lived");
    let monitor = monitor_of(root.pid(&id));
    let found = rights(&status_of(monitor));
    assert_eq!(number(&found["CapPrm"]), permitted, "what it hands on");
    assert_eq!(number(&found["CapEff"]), permitted & used, "what it uses");
    let config = json!({ "Cmd": ["cat", "/proc/self/status"], "Privileged": true, "AttachStdout": true });
    let inside = rights(&root.exec_with(&id, config, b"").ok());
    assert_eq!(number(&inside["CapEff"]), permitted, "a privileged exec has all");
}

/// The values are those of 421c650, whose monitor was one process that kept its rights.
#[test]
fn a_container_inherits_nothing_of_the_worker() {
    let root = Root::new();
    let script = "grep -E '^(Seccomp|NoNewPrivs|CapBnd):' /proc/self/status; exec sleep 2";
    let more = json!({ "HostConfig": { "RestartPolicy": { "Name": "always" } } });
    let id = root.create("restarted", body(&["sh", "-c", script], more));
    root.start(&id);
    let fields = |text: &str| rights(text).into_values().collect::<Vec<_>>();
    let usual = ["00000000a80425fb", "0", "2"];
    wait_for("a restart", || root.logs(&id).out().matches("CapBnd").count() >= 2);
    let log = root.logs(&id).out();
    let runs: Vec<&str> = log.split("CapBnd").skip(1).collect();
    for run in &runs {
        let run = format!("CapBnd{run}");
        if run.contains("Seccomp:") {
            assert_eq!(fields(&run), usual, "a start or a restart: {run}");
        }
    }
    let id = root.sleeper("entered");
    let first = rights(&status_of(root.pid(&id)));
    assert_eq!(["CapBnd", "NoNewPrivs", "Seccomp"].map(|field| first[field].as_str()), usual, "the first process");
    let status = |privileged: bool| {
        let config = json!({ "Cmd": ["cat", "/proc/self/status"], "Privileged": privileged, "AttachStdout": true });
        let status = rights(&root.exec_with(&id, config, b"").ok());
        ["CapBnd", "NoNewPrivs", "Seccomp"].map(|field| status[field].clone())
    };
    assert_eq!(status(false), usual, "an exec");
    let own = rights(&status_of(std::process::id() as i32))["CapBnd"].clone();
    assert_eq!(status(true), [own.as_str(), "0", "2"], "a privileged exec");
    // None of them descends from the worker.
    assert!(children_of(worker_of(monitor_of(root.pid(&id)))).is_empty());
}

/// One that dies again and again is not started for ever without a pause, and what its container wrote waits.
#[test]
fn a_worker_that_dies_again_and_again_is_waited_for() {
    let root = Root::new();
    let id = root.create("crashing", body(&["sh", "-c", "while :; do echo tick; sleep 0.05; done"], json!({})));
    root.start(&id);
    let monitor = monitor_of(root.pid(&id));
    let kill = |pid: i32| {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    };
    let mut last = worker_of(monitor);
    let mut waits = Vec::new();
    for _ in 0..11 {
        let begun = std::time::Instant::now();
        kill(last);
        let next = || children_of(monitor).into_iter().find(|&pid| pid != last && comm(pid) == "coracle-worker");
        wait_for("another worker", || next().is_some());
        last = next().expect("a worker");
        waits.push(begun.elapsed().as_millis());
    }
    // The first eight deaths cost 100 ms at the most; the next ones 200, 400 and 800.
    assert!(waits[8] >= 200 && waits[9] >= 400 && waits[10] >= 800, "{waits:?}");
    wait_for("it to read", || open_files(last).iter().any(|file| file.ends_with(format!("{id}-json.log"))));
    assert_eq!(root.exec(&id, &["echo", "served"]).ok(), "served");
    assert_eq!(root.status(&id), "running");
}

/// Also in the moment when nobody has heard of the death.
#[test]
fn an_exec_right_after_a_worker_s_death_has_its_input() {
    let root = Root::new();
    let id = root.sleeper("bereft");
    let monitor = monitor_of(root.pid(&id));
    let config = json!({ "Cmd": ["cat"], "AttachStdin": true, "AttachStdout": true, "AttachStderr": true });
    for round in 0..6 {
        let worker = worker_of(monitor);
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(worker), nix::sys::signal::Signal::SIGKILL).expect("kill");
        let said = format!("round {round}");
        assert_eq!(root.exec_with(&id, config.clone(), said.as_bytes()).ok(), said);
    }
}

/// Inodes of the sockets that a process has open.
fn sockets_of(pid: i32) -> Vec<String> {
    let inode = |file: PathBuf| Some(file.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    open_files(pid).into_iter().filter_map(inode).collect()
}

/// A container on the host's network sees the host's sockets, and reaches those that have an abstract name.
// attack: 132 wall named-sockets
#[test]
fn a_container_on_the_host_s_network_reaches_no_monitor() {
    let root = Root::new();
    let id = root.sleeper_with("near", host(json!({ "NetworkMode": "host" })));
    let monitor = monitor_of(root.pid(&id));
    let own: Vec<String> = [monitor, worker_of(monitor)].into_iter().flat_map(sockets_of).collect();
    let seen = root.exec(&id, &["cat", "/proc/net/unix"]).ok();
    let named: Vec<(&str, &str)> = seen
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            Some((*fields.get(6)?, *fields.get(7).unwrap_or(&"")))
        })
        .filter(|(inode, _)| own.iter().any(|own| own == inode))
        .collect();
    assert!(named.iter().any(|(_, name)| *name == "ctl"), "its control socket is seen: {named:?}");
    assert!(named.iter().all(|(_, name)| ["", "ctl"].contains(name)), "{named:?}");
}

/// Kilobytes of memory that a process has to itself.
fn private_memory(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("its memory");
    let sum = |field: &str| {
        let line = text.lines().find(|line| line.starts_with(field)).expect(field);
        line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number")
    };
    sum("Private_Dirty:") + sum("Private_Clean:")
}

// attack: 135 wall back-pressure
#[test]
fn output_that_nobody_takes_is_not_held_in_memory() {
    const BYTES: usize = 48 << 20;
    let root = Root::new();
    let id = root.sleeper("flooding");
    let monitor = monitor_of(root.pid(&id));
    let halves = [monitor, worker_of(monitor)];
    let memory = || halves.into_iter().map(private_memory).sum::<u64>();
    let before = memory();
    let fill = format!("count={}", BYTES >> 20);
    let config = json!({ "Cmd": ["dd", "if=/dev/zero", "bs=1M", fill], "AttachStdout": true });
    let exec = root.engine.exec_create(&id, &serde_json::from_value(config).expect("a body")).expect("exec create");
    let session = root.engine.exec_start(&exec, Some(coracle::Io::default()), Some(&soon())).expect("exec start");
    let pid = root.engine.exec_inspect(&exec).expect("inspect").pid;
    let written = || {
        let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        io.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse::<usize>().ok()).unwrap_or(BYTES)
    };
    // Until it writes no more for some time.
    let mut last = 0;
    wait_for("the program to wait, or to end", || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let now = written();
        now > 0 && core::mem::replace(&mut last, now) == now
    });
    assert!(root.engine.exec_inspect(&exec).expect("inspect").running, "it waits for a reader");
    let grown = memory().saturating_sub(before);
    assert!(grown < 2048, "{grown} kB more");
    let output = finish(session.expect("a session"), b"");
    assert_eq!((output.code, output.stdout.len()), (0, BYTES), "nothing is lost");
}

// attack: 136 wall streams-let-go
#[test]
fn clients_that_come_and_go_leave_nothing_open() {
    let root = Root::new();
    let id = root
        .create("visited", body(&["sh", "-c", "while :; do sleep 1; done"], json!({ "Tty": true, "OpenStdin": true })));
    root.start(&id);
    let monitor = monitor_of(root.pid(&id));
    let halves = [monitor, worker_of(monitor)];
    let open = || halves.map(|pid| open_files(pid).len());
    let visit = |rows: u16| {
        let how = coracle::AttachOptions::default();
        let session = root.engine.container_attach(&id, coracle::Io::default(), how, Some(&soon())).expect("attach");
        root.engine.container_resize(&id, rows, 80).expect("resize");
        drop(session);
    };
    (0..5).for_each(&visit);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let before = open();
    (0..200).for_each(&visit);
    wait_for("both halves to have as much open as before", || {
        let now = open();
        now[0] <= before[0] + 2 && now[1] <= before[1] + 2
    });
}
