//! What a container's bytes could do to the process that reads them: the monitor's worker has no rights, and nothing of
//! that is left to the container's processes.

use crate::support::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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

/// What a process has open.
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
    // It is the one that reads: the log is open there, and nowhere else.
    let log = root.dir.join("root/containers").join(&id).join(format!("{id}-json.log"));
    assert!(open_files(worker).contains(&log), "{:?}", open_files(worker));
    assert!(!open_files(monitor).contains(&log), "the launcher has the log open");
    let found = rights(&status_of(worker));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(found[set], "0000000000000000", "{set}: {found:?}");
    }
    assert_eq!((found["NoNewPrivs"].as_str(), found["Seccomp"].as_str()), ("1", "2"), "{found:?}");
    // Its root is the directory of all that runs; of the engine's files it holds the log, and two for reading.
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
