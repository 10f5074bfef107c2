//! Several engines, threads and processes on one root.

use crate::support::*;
use coracle::model::*;
use coracle::{Engine, ErrorKind};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn an_engine_sees_the_work_of_another_engine() {
    let root = Root::new();
    let other = root.reopen();
    let mut events = other.events(&of_containers()).expect("events");
    let id = root.sleeper("shared");
    assert_eq!(other.container_inspect("shared", false).expect("inspect").state.status, "running");
    other.container_pause(&id).expect("pause");
    assert_eq!(root.status(&id), "paused");
    root.engine.container_unpause(&id).expect("unpause");
    other.container_stop(&id, Some(5000), Some(&soon())).expect("stop");
    assert_eq!(root.status(&id), "exited");
    other.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
    fails(root.engine.container_inspect(&id, false), ErrorKind::NotFound, "No such container");
    let seen = events_until(&mut events, |e| e.action == "destroy");
    assert_eq!(actions(&seen), ["create", "start", "pause", "unpause", "kill", "die", "stop", "destroy"]);
}

#[test]
fn threads_share_one_engine() {
    let root = Root::new();
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let root = &root;
            scope.spawn(move || {
                for round in 0..4 {
                    let name = format!("w{worker}-{round}");
                    let id = root.create(&name, body(&["sh", "-c", &format!("echo {name}; exit {worker}")], json!({})));
                    root.start(&id);
                    assert_eq!(root.wait(&id), worker, "{name}");
                    assert_eq!(root.logs(&id).out(), name);
                    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
                }
            });
        }
    });
    assert!(root.names(&ListContainers { all: true, ..ListContainers::default() }).is_empty());
}

#[test]
fn one_name_is_given_once() {
    let root = Root::new();
    let won: Vec<String> = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..8)
            .map(|_| {
                let engine = root.reopen();
                let body: CreateBody = serde_json::from_value(body(&["true"], json!({}))).expect("a body");
                scope.spawn(move || engine.container_create(Some("only-one"), &body))
            })
            .collect();
        tries
            .into_iter()
            .filter_map(|t| match t.join().expect("a thread") {
                Ok(created) => Some(created.id),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                    None
                }
            })
            .collect()
    });
    assert_eq!(won.len(), 1);
    assert_eq!(root.inspect("only-one").id, won[0]);
}

#[test]
fn one_container_is_started_once() {
    let root = Root::new();
    let script = "echo started; while :; do sleep 0.05; done";
    let id = root.create("once", body(&["sh", "-c", script], json!({})));
    let changed: usize = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8)
            .map(|_| {
                let (engine, id) = (root.reopen(), id.clone());
                scope.spawn(move || engine.container_start(&id, None, Some(&soon())).expect("start").changed)
            })
            .collect();
        starts.into_iter().map(|s| usize::from(s.join().expect("a thread") == coracle::Changed::Yes)).sum()
    });
    assert_eq!(changed, 1);
    wait_for("its output", || root.logs(&id).out() == "started");
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(root.logs(&id).out(), "started");
}

/// How a process of this test program is told to be a worker: `COMMAND DIR NUMBER`.
pub(crate) const WORKER: &str = "CORACLE_SUITE_WORKER";

pub(crate) fn spawn_worker(command: &str, root: &Root, number: usize) -> std::process::Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "roots_engines::worker", "--nocapture", "--test-threads=1"])
        .env(WORKER, format!("{command} {} {number}", root.dir.display()))
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("start a worker")
}

/// The work of a worker process, not a test by itself.
#[test]
fn worker() {
    let Ok(order) = std::env::var(WORKER) else { return };
    let words: Vec<&str> = order.split(' ').collect();
    let [command, dir, number] = words[..] else { panic!("bad order {order:?}") };
    let engine = Engine::open_with(options_at(&PathBuf::from(dir))).expect("open the root");
    match command {
        "lives" => {
            for round in 0..5 {
                let name = format!("p{number}-{round}");
                let body: CreateBody =
                    serde_json::from_value(body(&["sh", "-c", "exit 3"], json!({}))).expect("a body");
                let id = engine.container_create(Some(&name), &body).expect("create").id;
                engine.container_start(&id, None, Some(&soon())).expect("start");
                assert_eq!(engine.container_wait(&id, Some(&soon())).expect("wait"), 3);
                if round % 2 == 0 {
                    engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
                }
            }
        }
        "crowd" => {
            crate::container_crowd::program(&engine, std::path::Path::new(dir), number.parse().expect("a number"))
        }
        "churn" => {
            crate::container_churn::program(&engine, std::path::Path::new(dir), number.parse().expect("a number"))
        }
        "busy" => crate::kills::program(&engine, number.parse().expect("a number")),
        "commits" => crate::races::commits(&engine),
        "start-all" => crate::kills::start_all(&engine),
        "exec-and-vanish" => {
            for script in ["exec sleep 0.2", "sleep 0.3 & exit 7"] {
                let config = serde_json::json!({ "Cmd": ["sh", "-c", script] });
                let config: ExecConfig = serde_json::from_value(config).expect("an exec body");
                let exec = engine.exec_create("survivor", &config).expect("exec create");
                engine.exec_start(&exec, None, Some(&soon())).expect("exec start");
            }
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("kill");
        }
        "start-and-vanish" => {
            engine.container_start("survivor", None, Some(&soon())).expect("start");
            // No clean-up of any kind, as a crash.
            nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("kill");
        }
        other => panic!("unknown order {other}"),
    }
}

#[test]
fn processes_share_one_root() {
    let root = Root::new();
    let mut events = root.engine.events(&EventQuery::default()).expect("events");
    let workers: Vec<_> = (0..4).map(|n| spawn_worker("lives", &root, n)).collect();
    for mut worker in workers {
        assert!(worker.wait().expect("wait for a worker").success(), "a worker failed");
    }
    let names = root.names(&ListContainers { all: true, ..ListContainers::default() });
    let want: BTreeSet<String> = (0..4).flat_map(|n| [1, 3].map(|r| format!("p{n}-{r}"))).collect();
    assert_eq!(names.iter().cloned().collect::<BTreeSet<_>>(), want);
    assert_eq!(names.len(), want.len(), "a double name: {names:?}");
    for name in &names {
        assert_eq!(root.inspect(name).state.exit_code, 3);
    }
    // Nothing is lost and nothing comes twice: five lives each, in order for each container.
    let (mut created, mut removed, mut last) = (0, 0, None);
    while let Some((sequence, event)) = events.next(Some(std::time::Duration::from_millis(500)), None).expect("events")
    {
        assert!(last.is_none_or(|l| sequence > l), "sequence {sequence} after {last:?}");
        last = Some(sequence);
        created += usize::from(event.action == "create");
        removed += usize::from(event.action == "destroy");
    }
    assert_eq!((created, removed), (20, 12));
}

#[test]
fn a_container_survives_the_end_of_its_starter() {
    let root = Root::new();
    let script = "echo before; trap 'exit 6' TERM; while :; do sleep 0.05; done";
    let id = root.create("survivor", body(&["sh", "-c", script], json!({ "OpenStdin": true })));
    let status = spawn_worker("start-and-vanish", &root, 0).wait().expect("wait for the starter");
    assert!(!status.success(), "the starter was to be killed");
    assert_eq!(root.status(&id), "running");
    wait_for("its output", || root.logs(&id).out() == "before");
    assert_eq!(root.exec(&id, &["echo", "inside"]).ok(), "inside");
    root.engine.container_stop(&id, Some(5000), Some(&soon())).expect("stop");
    assert_eq!(root.inspect(&id).state.exit_code, 6);
}

#[test]
fn a_killed_monitor_takes_its_container_along() {
    let root = Root::new();
    let id = root.sleeper("orphan");
    let (pid, monitor) = (root.pid(&id), monitor_of(&root, &id));
    let comm = std::fs::read_to_string(format!("/proc/{monitor}/comm")).expect("the monitor's name");
    assert!(comm.starts_with("coracle-monitor"), "the parent is {comm}");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(monitor), nix::sys::signal::Signal::SIGKILL).expect("kill");
    wait_for("the container's end", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    wait_for("the engine to see it", || root.status(&id) == "exited");
    let state = root.inspect(&id).state;
    assert!(state.error.contains("monitor was killed"), "no word about the monitor's end: {state:?}");
    assert_eq!((state.exit_code, state.pid), (137, 0));
    root.start(&id);
    assert_eq!(root.status(&id), "running");
    assert_eq!(root.inspect(&id).state.error, "");
}

/// The monitor of a running container.
pub(crate) fn monitor_of(root: &Root, id: &str) -> i32 {
    crate::support::monitor_of(root.pid(id))
}

/// Kills the monitor of a running container, and waits for its end: on a busy machine a killed process holds its locks for
/// a while, and its container counts as running until then.
pub(crate) fn kill_monitor(root: &Root, id: &str) {
    let monitor = monitor_of(root, id);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(monitor), nix::sys::signal::Signal::SIGKILL)
        .expect("kill the monitor");
    wait_for("the monitor's end", || has_ended(monitor));
}

/// A process is gone, or is a zombie that nobody here is the parent of.
pub(crate) fn has_ended(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn a_killed_monitor_is_told_to_listeners_and_waiters_at_once() {
    let root = Root::new();
    let id = root.sleeper("watched");
    let listener = root.reopen();
    let mut events = listener.events(&of_containers()).expect("events");
    kill_monitor(&root, &id);
    // No call concerns the container: the listener alone finds its end.
    let seen = events_until(&mut events, |e| e.action == "die");
    assert_eq!(seen.last().expect("an event").actor.attributes["exitCode"], "137");
    root.start(&id);
    let waiter = root.reopen();
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.container_wait(&id, Some(&soon())).expect("wait"));
        std::thread::sleep(std::time::Duration::from_millis(100));
        kill_monitor(&root, &id);
        waiting.join().expect("a thread")
    });
    assert_eq!(waited, 137);
    assert!(root.inspect(&id).state.error.contains("monitor was killed"));
    // One end gives one event, however many programs look.
    let seen = events_until(&mut events, |e| e.action == "die");
    assert_eq!(actions(&seen), ["start", "die"]);
    assert!(events.next(Some(std::time::Duration::from_millis(700)), None).expect("events").is_none());
}

/// If the kernel does not end all processes of a killed monitor, a follower of the events ends them. Its engine may be
/// closed.
#[test]
fn a_listener_ends_the_processes_of_a_killed_monitor() {
    let root = Root::new();
    let mut events = root.reopen().events(&of_containers()).expect("events");
    // A process that got other rights is not ended with its parent.
    let other_group = "mkdir /s; cp /bin/busybox /s/sleep; chgrp 5 /s/sleep; chmod 2755 /s/sleep; exec /s/sleep 1000";
    let beside = json!({ "HostConfig": { "PidMode": "host" } });
    let cases = [
        ("plain", "exec sleep 1000", json!({})),
        ("other-group", other_group, json!({})),
        ("frozen", "exec sleep 1000", json!({})),
        ("beside", "sleep 1000 & exec sleep 1000", beside),
    ];
    for (name, script, more) in cases {
        let id = root.create(name, body(&["sh", "-c", script], more));
        root.start(&id);
        let processes = || root.engine.container_top(&id, "-o pid,args").expect("top").processes;
        let wanted = script.matches("sleep 1000").count();
        wait_for("its processes", || processes().iter().filter(|one| one[1].ends_with("sleep 1000")).count() == wanted);
        let pids: Vec<String> = processes().into_iter().map(|mut one| one.swap_remove(0)).collect();
        if name == "frozen" {
            root.engine.container_pause(&id).expect("pause");
        }
        kill_monitor(&root, &id);
        events_until(&mut events, |e| e.action == "die");
        // The machine's first process reaps the remains of some.
        let runs = |pid: &String| {
            std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
        };
        wait_for("its processes to end", || !pids.iter().any(runs));
        assert_eq!(root.status(&id), "exited", "{name}");
    }
}

#[test]
fn nothing_is_resident_when_nothing_runs() {
    let root = Root::new();
    let id = root.sleeper("last");
    let monitor = monitor_of(&root, &id);
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    wait_for("the monitor's end", || has_ended(monitor));
}
