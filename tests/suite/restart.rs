//! Restart policies: what monitors do by themselves, and what the first opener after a boot does.

use crate::support::*;
use coracle::Engine;
use coracle::model::*;
use coracle_monitor::wire::{STATE_LEN, State};
use serde_json::{Value, json};

pub(crate) fn policy(name: &str, max: i64) -> Value {
    json!({ "HostConfig": { "RestartPolicy": { "Name": name, "MaximumRetryCount": max } } })
}

/// The events so far of these kinds: action and nanoseconds.
fn events_of(root: &Root, kinds: &[&str]) -> Vec<(String, i64)> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("the time").as_nanos() as i64;
    let query = EventQuery { since_ns: Some(0), until_ns: Some(now), ..EventQuery::default() };
    let mut events = root.engine.events(&query).expect("events");
    let mut all = Vec::new();
    while let Some((_, event)) = events.next(Some(SOON), Some(&soon())).expect("an event") {
        if kinds.contains(&event.action.as_str()) {
            all.push((event.action, event.time_nano));
        }
    }
    all
}

/// How long after each end the next start came, in ms.
fn waits(root: &Root) -> Vec<i64> {
    let times = events_of(root, &["start", "die"]);
    times.windows(2).filter(|w| w[0].0 == "die").map(|w| (w[1].1 - w[0].1) / 1_000_000).collect()
}

// field: HostConfig.RestartPolicy.Name
// field: HostConfig.RestartPolicy.MaximumRetryCount
#[test]
fn failures_are_tried_again_while_no_program_is_there() {
    let root = Root::new();
    let id = root.create("survivor", body(&["sh", "-c", "echo run; exit 5"], policy("on-failure", 3)));
    let starter =
        super::roots_engines::spawn_worker("start-and-vanish", &root, 0).wait().expect("wait for the starter");
    assert!(!starter.success(), "the starter was to be killed");
    // 100, 200 and 400 ms, and nobody asks an engine: the monitor's socket goes with the last attempt.
    let socket = root.dir.join("run/c").join(&id).join("ctl");
    wait_for("the last attempt", || !socket.exists());
    let detail = root.inspect(&id);
    assert_eq!((detail.state.status.as_str(), detail.state.exit_code, detail.restart_count), ("exited", 5, 3));
    assert_eq!(root.logs(&id).out(), "run\nrun\nrun\nrun");
    let waits = waits(&root);
    assert!(waits.len() == 3 && waits[0] >= 100 && waits[1] >= 200 && waits[2] >= 400, "{waits:?} ms");
    // A start by hand counts from the beginning.
    root.start(&id);
    wait_for("the last attempt", || root.status(&id) == "exited");
    assert_eq!(root.inspect(&id).restart_count, 3);
}

#[test]
fn logs_rotate_and_processes_are_reaped_while_no_program_is_there() {
    let root = Root::new();
    let script = "i=0; while :; do echo line $i; i=$((i+1)); test $i -gt 3000 && exec sleep 1000; done";
    let log = json!({ "Type": "json-file", "Config": { "max-size": "20k", "max-file": "3" } });
    let id = root
        .create("survivor", body(&["sh", "-c", script], json!({ "HostConfig": { "LogConfig": log, "Init": true } })));
    for order in ["start-and-vanish", "exec-and-vanish"] {
        let worker = super::roots_engines::spawn_worker(order, &root, 0).wait().expect("wait for the program");
        assert!(!worker.success(), "it was to be killed");
    }
    // No call reaches an engine: the log's file shows when the last line is there.
    let dir = root.dir.join("root/containers").join(&id);
    let log = dir.join(format!("{id}-json.log"));
    wait_for("the last line", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("line 3000\\n")));
    let monitor = super::roots_engines::monitor_of(&root, &id);
    let (first, worker) = (root.pid(&id), worker_of(monitor));
    let others = || children_of(monitor).into_iter().filter(|pid| *pid != worker).collect::<Vec<_>>();
    wait_for("exec'd processes to be reaped", || others() == [first]);
    // The processes that they left behind belonged to the init.
    wait_for("the init to reap", || children_of(first).len() == 1);
    let mut files: Vec<u64> = std::fs::read_dir(&dir)
        .expect("its directory")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().contains("-json.log"))
        .map(|entry| entry.metadata().expect("stat").len())
        .collect();
    files.sort_unstable();
    assert!(files.len() == 3 && files[2] <= 20 * 1024, "{files:?}");
    assert!(root.logs(&id).out().ends_with("line 3000"));
}

#[test]
fn success_ends_on_failure_and_not_always() {
    let root = Root::new();
    let done = root.create("done", body(&["true"], policy("on-failure", 0)));
    let again = root.create("again", body(&["true"], policy("always", 0)));
    root.start(&done);
    root.start(&again);
    wait_for("restarts", || root.inspect(&again).restart_count >= 2);
    wait_for("the end", || root.status(&done) == "exited");
    let detail = root.inspect(&done);
    assert_eq!((detail.state.status.as_str(), detail.restart_count), ("exited", 0));
}

#[test]
fn a_long_run_resets_the_delay() {
    let root = Root::new();
    // The sixth run lasts.
    let script = "echo x >> /runs; test $(wc -l < /runs) != 6 || sleep 10.2; exit 1";
    let id = root.create("long", body(&["sh", "-c", script], policy("always", 0)));
    root.start(&id);
    wait_for("the seventh restart", || root.inspect(&id).restart_count >= 7);
    root.engine.container_stop(&id, Some(0), Some(&soon())).expect("stop");
    let waits = waits(&root);
    // Twice the delay before would be 3200 at least, however busy the machine is.
    assert!(waits[4] >= 1600 && (100..3200).contains(&waits[5]), "{waits:?} ms");
}

#[test]
fn a_restart_that_fails_says_why() {
    let root = Root::new();
    let id = root.create("gone", body(&["/bin/sh", "-c", "rm /bin/sh; exit 3"], policy("on-failure", 2)));
    root.start(&id);
    wait_for("the last attempt", || root.status(&id) == "exited");
    let detail = root.inspect(&id);
    assert_eq!((detail.state.exit_code, detail.restart_count), (127, 2));
    assert_eq!(detail.state.error, "exec: \"/bin/sh\": stat /bin/sh: no such file or directory");
}

#[test]
fn a_policy_that_ends_lets_go_of_what_was_its_own() {
    let root = Root::new();
    let id = root.create("loop", body(&["sh", "-c", "exit 1"], policy("always", 0)));
    root.start(&id);
    // Each delay is twice the one before: this one is longer than the requests take.
    wait_for("a long delay", || root.inspect(&id).restart_count >= 5 && root.status(&id) == "restarting");
    fails(root.engine.container_pause(&id), coracle::ErrorKind::Conflict, "is restarting");
    let exec: ExecConfig = serde_json::from_value(json!({ "Cmd": ["true"] })).expect("a body");
    fails(root.engine.exec_create(&id, &exec), coracle::ErrorKind::Conflict, "is restarting");
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(&id, force, Some(&soon())).expect("remove");
}

/// The machine goes down: monitors and containers are gone at once, the run directory is empty, and what is left in the
/// root is of another boot. Answers the engine of the first opener.
pub(crate) fn reboot(root: &mut Root, restart_containers: bool) {
    go_down(root);
    root.engine = open_after_boot(root, restart_containers).expect("open after the boot");
}

fn open_after_boot(root: &Root, restart_containers: bool) -> coracle::Result<Engine> {
    let mut options = options_at(&root.dir);
    options.restart_containers = restart_containers;
    Engine::open_with(options)
}

/// The machine goes down. The engine of the root is of no use any more.
fn go_down(root: &Root) {
    let all = root.engine.container_list(&ListContainers::default()).expect("list");
    let pids: Vec<i32> = all.iter().map(|c| root.inspect(&c.id).state.pid).filter(|&pid| pid > 0).collect();
    for container in &all {
        super::roots_engines::kill_monitor(root, &container.id);
    }
    wait_for("the end of everything", || {
        pids.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
    });
    std::fs::remove_dir_all(root.dir.join("run")).expect("empty the run directory");
    before_a_boot(&root.dir.join("root"));
}

/// Makes a root say that its containers ran before the machine went down.
pub(crate) fn before_a_boot(root: &std::path::Path) {
    of_an_earlier_boot(root);
    let states = root.join("states");
    let mut bytes = std::fs::read(&states).expect("the states");
    for record in bytes.as_chunks_mut::<STATE_LEN>().0 {
        if let Some(state) = State::from_bytes(record) {
            *record = State { boot: [7; 16], ..state }.to_bytes();
        }
    }
    std::fs::write(&states, bytes).expect("write the states");
}

/// Containers of each policy: running, and (`-stopped`) stopped by hand, and ended by themselves.
fn one_of_each(root: &Root) {
    for name in ["no", "always", "unless-stopped", "on-failure"] {
        root.sleeper_with(name, policy(name, 0));
        let stopped = root.sleeper_with(&format!("{name}-stopped"), policy(name, 0));
        root.engine.container_stop(&stopped, Some(5000), Some(&soon())).expect("stop");
        root.create(&format!("{name}-fresh"), body(&["true"], policy(name, 0)));
    }
    // Gave up in its time.
    let id = root.create("given-up", body(&["sh", "-c", "exit 9"], policy("on-failure", 1)));
    root.start(&id);
    wait_for("it to give up", || root.status(&id) == "exited");
}

fn running(root: &Root) -> Vec<String> {
    let mut names = root.names(&ListContainers::default());
    names.sort();
    names
}

// field: HostConfig.RestartPolicy.Name
#[test]
fn after_a_boot_the_policies_start_what_is_to_run() {
    let mut root = Root::new();
    one_of_each(&root);
    reboot(&mut root, true);
    // Of the stopped containers only those with `always` come back, as with dockerd.
    assert_eq!(running(&root), ["always", "always-stopped", "on-failure", "unless-stopped"]);
    assert_eq!(root.inspect("always").restart_count, 0);
    let ended = root.inspect("no").state;
    assert_eq!((ended.status.as_str(), ended.exit_code, ended.pid), ("exited", 255, 0));
    assert_eq!(root.status("always-fresh"), "created");
    assert_eq!(root.inspect("given-up").state.exit_code, 9);
    // The second opener of the boot finds all done.
    root.engine.container_stop("always", Some(5000), Some(&soon())).expect("stop");
    let mut options = options_at(&root.dir);
    options.restart_containers = true;
    drop(Engine::open_with(options).expect("open once more"));
    assert_eq!(running(&root), ["always-stopped", "on-failure", "unless-stopped"]);
}

#[test]
fn a_looker_after_a_boot_starts_nothing_and_spoils_nothing() {
    let mut root = Root::new();
    one_of_each(&root);
    reboot(&mut root, false);
    assert!(running(&root).is_empty());
    assert_eq!(root.inspect("always").state.exit_code, 255);
    root.start("no-stopped");
    root.engine.container_remove("on-failure", RemoveContainer::default(), Some(&soon())).expect("remove");
    // Later comes one that starts containers.
    let mut options = options_at(&root.dir);
    options.restart_containers = true;
    root.engine = Engine::open_with(options).expect("open");
    assert_eq!(running(&root), ["always", "always-stopped", "no-stopped", "unless-stopped"]);
}

#[test]
fn an_open_that_fails_leaves_the_starts_after_a_boot_to_the_next_one() {
    let mut root = Root::new();
    one_of_each(&root);
    go_down(&root);
    // The directory of a plugin that is gone cannot be removed: a directory is in the place of its lock.
    let (left, lock) = ("root/plugins/0123456789abcdef", "run/plugins/0123456789abcdef.lock");
    [left, lock].iter().for_each(|dir| std::fs::create_dir_all(root.dir.join(dir)).expect("a directory"));
    let failed = open_after_boot(&root, true);
    fails(failed.map(drop), coracle::ErrorKind::Io, "0123456789abcdef.lock");
    std::fs::remove_dir(root.dir.join(lock)).expect("remove");
    root.engine = open_after_boot(&root, true).expect("open");
    assert_eq!(running(&root), ["always", "always-stopped", "on-failure", "unless-stopped"]);
    // Once for each boot.
    root.engine.container_stop("always", Some(5000), Some(&soon())).expect("stop");
    drop(open_after_boot(&root, true).expect("open once more"));
    assert_eq!(running(&root), ["always-stopped", "on-failure", "unless-stopped"]);
}
