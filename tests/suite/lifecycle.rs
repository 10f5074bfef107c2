//! A container's life: states, exit codes, streams, logs, exec, events.

use crate::support::*;
use coracle::model::*;
use coracle::{AttachOptions, Changed, Channel, ErrorKind, Io, SessionRead};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn main_job_through_the_rust_api() {
    let dir = temp_dir();
    let output = Command::new(built("examples/main_job"))
        .arg(busybox_archive())
        .args([dir.join("root"), dir.join("run")])
        .output()
        .expect("run examples/main_job");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    std::fs::remove_dir_all(&dir).expect("remove the root");
    assert!(output.status.success(), "{text}{errors}");
    for line in [
        "start, attached: ready",
        "stdout: out hello",
        "stderr: err hello",
        "inspect: /main-job running of its image",
        "exec: second, code 5",
        "pause: paused",
        "unpause: running",
        "stop, wait: 3",
        "start, kill, wait: 137",
        "log: Stdout: out hello",
        "log: Stderr: err hello",
        "log: Stdout: bye",
        "rename: /retired",
        "remove: 0 left",
    ] {
        assert!(text.lines().any(|l| l == line), "no line {line:?} in:\n{text}");
    }
    let events = text.lines().find(|l| l.starts_with("events: ")).expect("an events line");
    let want = "load, create, attach, connect, start, exec_create: sh -c echo second; exit 5, \
                exec_start: sh -c echo second; exit 5, exec_die, pause, unpause, kill, die, disconnect, stop, \
                connect, start, kill, die, disconnect, rename, destroy";
    assert_eq!(events, format!("events: {want}"));
}

// field: Config.StdinOnce
// field: Config.OpenStdin
#[test]
fn streams_come_apart_and_stdin_ends() {
    let root = Root::new();
    let script = "while read line; do echo \"out $line\"; echo \"err $line\" >&2; done; echo end";
    let output = root.run(&["sh", "-c", script], json!({}), b"one\ntwo\n");
    assert_eq!(output.out(), "out one\nout two\nend");
    assert_eq!(output.err(), "err one\nerr two");
    assert_eq!(output.code, 0);
}

// field: Config.OpenStdin
#[test]
fn a_megabyte_each_way_arrives_whole() {
    let root = Root::new();
    let id = root.create("", body(&["cat"], json!({ "OpenStdin": true, "StdinOnce": true })));
    let started = root.engine.container_start(&id, Some(Io::default()), Some(&soon())).expect("start");
    let mut session = started.session.expect("a session");
    let data: Vec<u8> =
        (0..1_000_000u32).flat_map(|i| (i.wrapping_mul(2_654_435_761)).to_le_bytes()).take(1 << 20).collect();
    let stdin = session.take_fd(Channel::Stdin).expect("stdin's descriptor");
    let copy = data.clone();
    let writer = std::thread::spawn(move || {
        use std::io::Write;
        std::fs::File::from(stdin).write_all(&copy).expect("write to stdin");
    });
    let output = read_output(&session);
    writer.join().expect("the writer");
    assert!(output.stdout == data, "{} bytes came back changed", output.stdout.len());
    assert_eq!(session.wait(Some(&soon())).expect("wait"), 0);
}

// field: State.ExitCode
#[test]
fn exit_codes() {
    let root = Root::new();
    assert_eq!(root.sh("exit 0").code, 0);
    assert_eq!(root.sh("exit 42").code, 42);
    // Process 1 takes no signal without a handler from inside: a child of it dies by one.
    assert_eq!(root.sh("sh -c 'kill -SEGV $$'; exit $?").code, 139);
    let id = root.sleeper("killed");
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    assert_eq!(root.wait(&id), 137);
    let state = root.inspect(&id).state;
    assert_eq!((state.status.as_str(), state.exit_code, state.pid, state.oom_killed), ("exited", 137, 0, false));
}

// operation: POST /containers/{name}/start
// field: State.Error
#[test]
fn a_failed_start_says_the_reason_and_keeps_the_code() {
    let root = Root::new();
    let start = |name: &str, command: &[&str], more| {
        let id = root.create(name, body(command, more));
        let error = root.engine.container_start(&id, None, Some(&soon())).expect_err("the start must fail");
        let detail = root.inspect(&id);
        assert_eq!(detail.state.status, "created", "{name}");
        assert_eq!(detail.state.pid, 0, "{name}");
        assert_eq!(detail.state.started_at, "0001-01-01T00:00:00Z", "{name}");
        assert!(!detail.state.error.is_empty(), "{name}: State.Error is empty");
        (detail.state.exit_code, error.kind(), error.message().to_owned())
    };
    let (code, kind, message) = start("missing", &["no-such-program"], json!({}));
    assert_eq!((code, kind), (127, ErrorKind::Invalid), "{message}");
    assert!(message.contains(r#"exec: "no-such-program": executable file not found in $PATH"#), "{message}");
    let (code, kind, message) = start("missing-path", &["/no/such"], json!({}));
    assert_eq!((code, kind), (127, ErrorKind::Invalid), "{message}");
    assert!(message.contains("no such file or directory"), "{message}");
    let (code, kind, message) = start("not-executable", &["/etc/passwd"], json!({}));
    assert_eq!((code, kind), (126, ErrorKind::Invalid), "{message}");
    assert!(message.contains("permission denied"), "{message}");
    let (code, _, message) = start("directory", &["/etc"], json!({}));
    assert_eq!(code, 126, "{message}");
    let (code, _, message) = start("no-user", &["true"], json!({ "User": "nosuch" }));
    assert_eq!(code, 128, "{message}");
    assert!(message.contains("unable to find user nosuch: no matching entries in passwd file"), "{message}");
    let below_a_file = root.try_create("", body(&["true"], json!({ "WorkingDir": "/etc/passwd/x" })));
    fails(below_a_file, ErrorKind::Internal, "Cannot mkdir: /etc/passwd/x is not a directory");
}

// field: State.OOMKilled
#[test]
fn memory_over_the_limit_is_reported() {
    let root = Root::new();
    let host = json!({ "HostConfig": { "Memory": 16 << 20, "MemorySwap": 16 << 20 } });
    // A shell variable that doubles until the kernel ends it.
    let id = root.create("hungry", body(&["sh", "-c", "x=0123456789abcdef; while :; do x=$x$x; done"], host));
    root.start(&id);
    assert_eq!(root.wait(&id), 137);
    assert!(root.inspect(&id).state.oom_killed);
}

#[test]
fn start_and_stop_say_whether_they_changed_something() {
    let root = Root::new();
    let id = root.sleeper("twice");
    let again = root.engine.container_start(&id, None, Some(&soon())).expect("start");
    assert_eq!(again.changed, Changed::No);
    assert_eq!(root.engine.container_stop(&id, Some(5000), Some(&soon())).expect("stop"), Changed::Yes);
    assert_eq!(root.engine.container_stop(&id, Some(5000), Some(&soon())).expect("stop"), Changed::No);
    assert_eq!(root.inspect(&id).state.exit_code, 0);
}

// operation: POST /containers/{name}/stop
#[test]
fn stop_kills_after_its_grace() {
    let root = Root::new();
    let id =
        root.create("deaf", body(&["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], json!({})));
    root.start(&id);
    wait_for("the trap", || root.logs(&id).out() == "ready");
    let begun = Instant::now();
    root.engine.container_stop(&id, Some(500), Some(&soon())).expect("stop");
    assert!(begun.elapsed() >= Duration::from_millis(500), "killed too early: {:?}", begun.elapsed());
    assert_eq!(root.inspect(&id).state.exit_code, 137);
}

// field: Config.StopSignal
#[test]
fn the_stop_signal_is_the_container_s_own() {
    let root = Root::new();
    let script = "trap 'exit 9' USR1; trap 'exit 8' TERM; echo ready; while :; do sleep 0.05; done";
    let id = root.create("own-signal", body(&["sh", "-c", script], json!({ "StopSignal": "SIGUSR1" })));
    root.start(&id);
    wait_for("the trap", || root.logs(&id).out() == "ready");
    root.engine.container_stop(&id, Some(5000), Some(&soon())).expect("stop");
    assert_eq!(root.inspect(&id).state.exit_code, 9);
    // A number, which an image may say for its containers.
    let how = CommitContainer { repo: "signalled".into(), ..CommitContainer::default() };
    let numbered = root.create("numbered", body(&["sh", "-c", script], json!({ "StopSignal": 10 })));
    root.engine.container_commit(&numbered, &how, Some(&soon())).expect("commit");
    let id = root.create("of-the-image", body(&["sh", "-c", script], json!({ "Image": "signalled" })));
    root.start(&id);
    wait_for("the trap", || root.logs(&id).out() == "ready");
    root.engine.container_stop(&id, Some(5000), Some(&soon())).expect("stop");
    assert_eq!(root.inspect(&id).state.exit_code, 9);
}

// operation: POST /containers/{name}/kill
#[test]
fn kill_takes_names_and_numbers() {
    let root = Root::new();
    let script =
        "trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'echo hup' HUP; echo ready; while :; do sleep 0.05; done";
    let id = root.create("signals", body(&["sh", "-c", script], json!({})));
    root.start(&id);
    wait_for("the trap", || root.logs(&id).out() == "ready");
    for (signal, said) in [("SIGUSR1", "usr1"), ("usr2", "usr2"), ("1", "hup")] {
        root.engine.container_kill(&id, Some(signal), Some(&soon())).expect("kill");
        wait_for(said, || root.logs(&id).out().ends_with(said));
    }
    assert_eq!(root.status(&id), "running");
}

// operation: POST /containers/{name}/restart
#[test]
fn restart_runs_it_again() {
    let root = Root::new();
    let id = root.sleeper("again");
    let before = root.inspect(&id);
    root.engine.container_restart(&id, Some(5000), Some(&soon())).expect("restart");
    let after = root.inspect(&id);
    assert_eq!(after.state.status, "running");
    assert_ne!(after.state.pid, before.state.pid);
    assert!(after.state.started_at > before.state.started_at);
    assert_eq!(after.restart_count, 0);
    // The container's output stays, and its file system, too.
    wait_for("both logs", || root.logs(&id).out() == "ready\nready");
    root.engine.container_stop(&id, Some(5000), Some(&soon())).expect("stop");
    root.engine.container_restart(&id, Some(5000), Some(&soon())).expect("restart of a stopped one");
    assert_eq!(root.status(&id), "running");
}

#[test]
fn a_container_s_files_survive_a_stop() {
    let root = Root::new();
    let id = root.sleeper("keeps");
    root.exec(&id, &["sh", "-c", "echo kept > /kept"]).ok();
    root.engine.container_restart(&id, Some(5000), Some(&soon())).expect("restart");
    assert_eq!(root.exec(&id, &["cat", "/kept"]).ok(), "kept");
    // And does not belong to another process.
    assert_eq!(root.sh("ls /kept").code, 1);
}

// operation: POST /containers/{name}/pause
// operation: POST /containers/{name}/unpause
// field: State.Paused
#[test]
fn pause_freezes_and_unpause_thaws() {
    let root = Root::new();
    let id = root.create("ticks", body(&["sh", "-c", "while :; do echo tick; sleep 0.02; done"], json!({})));
    root.start(&id);
    wait_for("ticks", || root.logs(&id).stdout.len() > 20);
    root.engine.container_pause(&id).expect("pause");
    let detail = root.inspect(&id);
    assert_eq!((detail.state.status.as_str(), detail.state.paused, detail.state.running), ("paused", true, true));
    assert!(root.engine.container_list(&ListContainers::default()).expect("list")[0].status.ends_with("(Paused)"));
    // The monitor may still have to write what the container said before.
    let mut frozen = 0;
    wait_for("the output to stand still", || {
        let before = std::mem::replace(&mut frozen, root.logs(&id).stdout.len());
        std::thread::sleep(Duration::from_millis(200));
        before == frozen
    });
    root.engine.container_unpause(&id).expect("unpause");
    wait_for("more ticks", || root.logs(&id).stdout.len() > frozen);
    assert_eq!(root.status(&id), "running");
}

#[test]
fn a_paused_container_can_be_stopped_killed_and_removed() {
    let root = Root::new();
    let id = root.sleeper("frozen-first");
    root.engine.container_pause(&id).expect("pause");
    let frozen = Cgroups::of(root.pid(&id)).read("freezer", "freezer.state", "cgroup.freeze");
    assert!(["FROZEN", "1"].contains(&frozen.as_str()), "{frozen}");
    // The process gets the signal, and the time to obey.
    root.engine.container_stop(&id, Some(20_000), Some(&soon())).expect("stop");
    assert_eq!((root.inspect(&id).state.exit_code, root.inspect(&id).state.paused), (0, false));
    let id = root.sleeper("frozen");
    root.engine.container_pause(&id).expect("pause");
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    assert_eq!(root.wait(&id), 137);
    let id = root.sleeper("frozen-too");
    root.engine.container_pause(&id).expect("pause");
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(&id, force, Some(&soon())).expect("remove");
}

// operation: POST /containers/{name}/wait
#[test]
fn wait_answers_for_every_state() {
    let root = Root::new();
    let id = root.create("waited", body(&["sh", "-c", "sleep 0.3; exit 7"], json!({})));
    assert_eq!(root.wait(&id), 0, "a container that never ran");
    root.start(&id);
    let engine = root.reopen();
    let other = id.clone();
    let waiter = std::thread::spawn(move || engine.container_wait(&other, Some(&soon())).expect("wait"));
    assert_eq!(root.wait(&id), 7);
    assert_eq!(waiter.join().expect("the other waiter"), 7);
    assert_eq!(root.wait(&id), 7, "a container that ended");
}

// operation: POST /containers/{name}/rename
#[test]
fn rename_moves_the_name() {
    let root = Root::new();
    let id = root.sleeper("before");
    root.engine.container_rename("before", "after").expect("rename");
    assert_eq!(root.inspect("after").id, id);
    assert_eq!(root.inspect("/after").name, "/after");
    fails(root.engine.container_inspect("before", false), ErrorKind::NotFound, "No such container: before");
    root.create("before", body(&["true"], json!({})));
}

// operation: DELETE /containers/{name}
// field: Remove.force
#[test]
fn removal_is_refused_while_it_runs_and_leaves_nothing() {
    let root = Root::new();
    let id = root.sleeper("goes");
    let pid = root.pid(&id);
    let no_force = RemoveContainer::default();
    fails(
        root.engine.container_remove(&id, no_force, Some(&soon())),
        ErrorKind::Conflict,
        &format!(
            "You cannot remove a running container {id}. Stop the container before attempting removal or force remove"
        ),
    );
    assert_eq!(root.status(&id), "running");
    let force = RemoveContainer { force: true, ..no_force };
    root.engine.container_remove(&id, force, Some(&soon())).expect("remove");
    fails(root.engine.container_inspect(&id, false), ErrorKind::NotFound, "No such container");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "its process is still there");
    let mut found = Vec::new();
    files_named(&root.dir, &id, &mut found);
    assert!(found.is_empty(), "left: {found:?}");
}

fn files_named(dir: &std::path::Path, part: &str, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().contains(part) {
            found.push(path.clone());
        }
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            files_named(&path, part, found);
        }
    }
}

// operation: GET /containers/json
// filter: before
// filter: since
// filter: id
// field: List.all
// field: List.limit
// filter: ancestor
// filter: exited
// filter: label
// filter: name
// filter: status
#[test]
fn lists_filter_and_order() {
    let root = Root::new();
    let running = root.sleeper_with("running", json!({ "Labels": { "kind": "a", "x": "1" } }));
    let exited = root.create("exited", body(&["sh", "-c", "exit 3"], json!({ "Labels": { "kind": "b" } })));
    root.start(&exited);
    root.wait(&exited);
    root.create("created", body(&["true"], json!({ "Labels": { "kind": "b" } })));
    let query = |all, filters: serde_json::Value| ListContainers {
        all,
        filters: serde_json::from_value(filters).expect("filters"),
        ..ListContainers::default()
    };
    assert_eq!(root.names(&query(false, json!({}))), ["running"]);
    assert_eq!(root.names(&query(true, json!({}))), ["created", "exited", "running"]);
    assert_eq!(root.names(&query(false, json!({ "status": ["exited"] }))), ["exited"]);
    assert_eq!(root.names(&query(false, json!({ "status": ["exited", "created"] }))), ["created", "exited"]);
    assert_eq!(root.names(&query(true, json!({ "exited": ["3"] }))), ["exited"]);
    assert_eq!(root.names(&query(true, json!({ "label": ["kind=b"] }))), ["created", "exited"]);
    assert_eq!(root.names(&query(true, json!({ "label": ["kind", "x=1"] }))), ["running"]);
    assert_eq!(root.names(&query(true, json!({ "name": ["^/r"] }))), ["running"]);
    assert_eq!(root.names(&query(true, json!({ "id": [&running[..20]] }))), ["running"]);
    assert_eq!(root.names(&query(true, json!({ "ancestor": ["busybox"] }))).len(), 3);
    assert_eq!(root.names(&query(true, json!({ "ancestor": ["nothing"] }))).len(), 0);
    let image = root.inspect(&running).image;
    for name in ["busybox:latest", &image, &image["sha256:".len()..][..12]] {
        assert_eq!(root.names(&query(true, json!({ "ancestor": [name] }))).len(), 3, "{name}");
    }
    // An image that was made of it: its containers are of both.
    let how = CommitContainer { repo: "child".into(), ..CommitContainer::default() };
    root.engine.container_commit(&exited, &how, Some(&soon())).expect("commit");
    let child = root.create("of-the-child", body(&["true"], json!({ "Image": "child" })));
    assert_eq!(root.names(&query(true, json!({ "ancestor": ["busybox"] }))).len(), 4);
    assert_eq!(root.names(&query(true, json!({ "ancestor": ["child"] }))), ["of-the-child"]);
    root.engine.container_remove(&child, RemoveContainer::default(), Some(&soon())).expect("remove");
    root.engine.container_pause(&running).expect("pause");
    assert_eq!(root.names(&query(false, json!({ "status": ["paused"] }))), ["running"]);
    root.engine.container_unpause(&running).expect("unpause");
    assert_eq!(root.names(&query(false, json!({ "status": ["running"] }))), ["running"]);
    assert!(root.names(&query(true, json!({ "status": ["paused", "restarting", "dead", "removing"] }))).is_empty());
    assert_eq!(root.names(&query(true, json!({ "before": ["created"] }))), ["exited", "running"]);
    assert_eq!(root.names(&query(true, json!({ "since": ["running"] }))), ["created", "exited"]);
    let newest = ListContainers { limit: 2, ..ListContainers::default() };
    assert_eq!(root.names(&newest), ["created", "exited"]);

    let list = root.engine.container_list(&query(true, json!({}))).expect("list");
    assert_eq!([&list[0].state, &list[1].state, &list[2].state], ["created", "exited", "running"]);
    assert_eq!(list[0].status, "Created");
    assert!(list[1].status.starts_with("Exited (3) ") && list[1].status.ends_with(" ago"), "{}", list[1].status);
    assert!(list[2].status.starts_with("Up "), "{}", list[2].status);
    assert_eq!((list[1].image.as_str(), list[1].command.as_str()), ("busybox", "sh -c 'exit 3'"));
    fails(root.engine.container_list(&query(true, json!({ "status": ["zz"] }))), ErrorKind::Invalid, "status");
}

// operation: GET /containers/{name}/json
// field: State.Dead
// operation: POST /containers/create
// field: State.StartedAt
// field: State.FinishedAt
// field: State.Pid
// field: State.Running
// field: State.Status
#[test]
fn inspect_shows_what_was_asked_and_what_is() {
    let root = Root::new();
    let id = root.sleeper_with("seen", json!({ "Env": ["A=1"], "Labels": { "k": "v" }, "WorkingDir": "/tmp" }));
    let detail = root.inspect("seen");
    assert_eq!(detail.id, id);
    assert_eq!((detail.name.as_str(), detail.path.as_str(), detail.args[0].as_str()), ("/seen", "sh", "-c"));
    assert_eq!(detail.image, root.engine.image_inspect(IMAGE).expect("the image").id);
    assert_eq!(detail.config.image, IMAGE);
    let env = detail.config.env.expect("the environment");
    assert_eq!(env[0], "A=1");
    assert!(env[1].starts_with("PATH="), "{env:?}");
    assert_eq!(detail.config.working_dir, "/tmp");
    assert_eq!(detail.config.labels["k"], "v");
    assert_eq!(detail.config.hostname, id[..12]);
    assert_eq!(detail.host_config.network_mode, "none");
    assert!(detail.state.running && detail.state.pid > 1);
    assert!(detail.state.started_at > detail.created);
    assert_eq!(detail.state.finished_at, "0001-01-01T00:00:00Z");
    assert!(detail.log_path.ends_with(&format!("{id}-json.log")), "{}", detail.log_path);
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", detail.state.pid)).expect("its process");
    assert_eq!(comm.trim(), "sh");
    let whole = serde_json::to_value(&detail.state).expect("JSON");
    for (name, value) in
        [("Status", json!("running")), ("Dead", json!(false)), ("Paused", json!(false)), ("OOMKilled", json!(false))]
    {
        assert_eq!(whole[name], value, "{name}");
    }
    root.exec(&id, &["sh", "-c", "head -c 100000 /dev/zero > /big"]).ok();
    let sizes = root.engine.container_inspect(&id, true).expect("inspect with sizes");
    let (writable, all) = (sizes.size_rw.expect("SizeRw"), sizes.size_root_fs.expect("SizeRootFs"));
    assert!((100_000..200_000).contains(&writable), "{writable}");
    assert!(all > 1_000_000 + writable, "{all}");
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    let ended = root.inspect(&id).state;
    assert_eq!((ended.status.as_str(), ended.running, ended.pid, ended.dead), ("exited", false, 0, false));
    assert!(ended.finished_at > ended.started_at && ended.started_at == detail.state.started_at, "{ended:?}");
}

#[test]
fn attach_before_start_and_again_later() {
    let root = Root::new();
    let script = "echo first; read line; echo \"got $line\"; sleep 0.2; echo last";
    let id = root.create("two-views", body(&["sh", "-c", script], json!({ "OpenStdin": true })));
    let how = AttachOptions { wait_for_start: true, ..AttachOptions::default() };
    let early = root.engine.container_attach(&id, Io::default(), how, Some(&soon())).expect("attach before start");
    root.start(&id);
    read_until(&early, "first\n");
    let how = AttachOptions::default();
    let late = root.engine.container_attach(&id, Io::default(), how, Some(&soon())).expect("attach while it runs");
    late.write(b"word\n", Some(&soon())).expect("write");
    assert_eq!(read_output(&late).out(), "got word\nlast");
    assert_eq!(read_output(&early).out(), "got word\nlast");
    assert_eq!(early.wait(Some(&soon())).expect("wait"), 0);
}

#[test]
fn an_attach_that_waits_for_a_start_ends_with_the_container() {
    let root = Root::new();
    let id = root.create("never-started", body(&["true"], json!({})));
    let how = AttachOptions { wait_for_start: true, ..AttachOptions::default() };
    let waiting = root.engine.container_attach(&id, Io::default(), how, Some(&soon())).expect("attach");
    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
    assert_eq!(read_output(&waiting), Output::default());
    drop(waiting);
    assert_eq!(std::fs::read_dir(root.dir.join("run/c")).expect("run directories").count(), 0);
}

// field: Config.AttachStdin
// field: Config.AttachStdout
// field: Config.AttachStderr
// operation: POST /containers/{name}/attach
#[test]
fn attach_chooses_its_streams() {
    let root = Root::new();
    let id = root.create("partly", body(&["sh", "-c", "echo out; echo err >&2"], json!({})));
    let streams = AttachStreams { stdin: false, stdout: false, stderr: true };
    let how = AttachOptions { streams, wait_for_start: true };
    let session = root.engine.container_attach(&id, Io::default(), how, Some(&soon())).expect("attach");
    root.start(&id);
    let output = read_output(&session);
    assert_eq!((output.out().as_str(), output.err().as_str()), ("", "err"));
    // The stream settings of a container's configuration are for clients to read: the attaching client chooses.
    let said = json!({ "AttachStdin": true, "AttachStdout": false, "AttachStderr": false, "OpenStdin": false });
    let id = root.create("said", body(&["sh", "-c", "cat; echo out; echo err >&2"], said));
    let config = root.inspect(&id).config;
    assert_eq!((config.attach_stdin, config.attach_stdout, config.attach_stderr), (true, false, false));
    let started = root.engine.container_start(&id, Some(Io::default()), Some(&soon())).expect("start");
    let output = finish(started.session.expect("a session"), b"");
    assert_eq!((output.out().as_str(), output.err().as_str()), ("out", "err"), "and there is no input");
}

// field: Config.StdinOnce
#[test]
fn a_client_that_goes_away_does_not_end_it() {
    let root = Root::new();
    let script = "while read line; do echo got $line; done; echo no more input";
    let id = root.create("watched", body(&["sh", "-c", script], json!({ "OpenStdin": true, "StdinOnce": false })));
    root.start(&id);
    // Each leaves, and its input stays open for the next one.
    for word in ["one", "two"] {
        let how = AttachOptions::default();
        let session = root.engine.container_attach(&id, Io::default(), how, Some(&soon())).expect("attach");
        session.write(format!("{word}\n").as_bytes(), Some(&soon())).expect("write");
        read_until(&session, word);
        drop(session);
    }
    std::thread::sleep(Duration::from_millis(200));
    wait_for("both lines", || root.logs(&id).out().contains("got two"));
    assert_eq!((root.status(&id).as_str(), root.logs(&id).out().as_str()), ("running", "got one\ngot two"));
    root.exec(&id, &["true"]).ok();
}

#[test]
fn the_caller_s_own_descriptors_are_the_container_s() {
    let root = Root::new();
    let path = root.dir.join("output");
    let file = std::fs::File::create(&path).expect("make a file");
    let id = root.create("own", body(&["sh", "-c", "echo to-the-file"], json!({})));
    let io = Io { stdout: Some(file.into()), ..Io::default() };
    let started = root.engine.container_start(&id, Some(io), Some(&soon())).expect("start");
    drop(started);
    assert_eq!(root.wait(&id), 0);
    wait_for("the file's content", || std::fs::read_to_string(&path).is_ok_and(|t| t == "to-the-file\n"));
}

#[test]
fn a_process_can_have_the_callers_own_descriptors() {
    let root = Root::new();
    let path = root.dir.join("output");
    let direct = || {
        let open = |path: &std::path::Path| {
            std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
        };
        let file = open(&path).expect("open a file");
        let input = std::fs::File::open("/proc/sys/kernel/ostype").expect("open an input");
        Io { stdin: Some(input.into()), stdout: Some(file.into()), direct: true, ..Io::default() }
    };
    let script = "cat; there=$(readlink /proc/$$/fd/1); echo $there >&2";
    let quiet = json!({ "HostConfig": { "LogConfig": { "Type": "none" } } });
    let id = root.create("straight", body(&["sh", "-c", script], quiet));
    let started = root.engine.container_start(&id, Some(direct()), Some(&soon())).expect("start");
    let output = finish(started.session.expect("a session"), b"");
    // The file itself, not a pipe.
    let stdout = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stdout.contains("output"), "{stdout}");
    assert_eq!(std::fs::read_to_string(&path).expect("read"), "Linux\n");
    // The next start is an ordinary one again.
    let started = root.engine.container_start(&id, Some(Io::default()), Some(&soon())).expect("start again");
    assert!(finish(started.session.expect("a session"), b"").stderr.starts_with(b"pipe:"));

    let logged = root.create("logged", body(&["true"], json!({})));
    let terminal = json!({ "Tty": true, "HostConfig": { "LogConfig": { "Type": "none" } } });
    let terminal = root.create("terminal", body(&["true"], terminal));
    let refused = |id: &str| root.engine.container_start(id, Some(direct()), None).expect_err("start").to_string();
    assert!(refused(&logged).contains("log driver none"), "{}", refused(&logged));
    assert!(refused(&terminal).contains("terminal"), "{}", refused(&terminal));
    let late = root.engine.container_attach(&id, direct(), AttachOptions::default(), None).expect_err("attach");
    assert!(late.to_string().contains("io.direct"), "{late}");
}

#[test]
fn the_callers_own_descriptors_stay_the_callers() {
    let root = Root::new();
    let path = root.dir.join("output");
    let owner = |path: &str| std::fs::metadata(path).map(|m| (m.uid(), m.gid(), m.mode())).expect("stat");
    let (null, mode) =
        (owner("/dev/null"), "stat -L -c %d /dev/null /proc/self/fd/0 | uniq | wc -l; chmod 600 /proc/self/fd/0");
    let io = || Io {
        stdin: Some(std::fs::File::open("/dev/null").expect("open").into()),
        stdout: Some(std::fs::OpenOptions::new().append(true).create(true).open(&path).expect("open").into()),
        direct: true,
        ..Io::default()
    };
    let quiet = json!({ "User": "1234", "HostConfig": { "LogConfig": { "Type": "none" } } });
    let id = root.create("as-user", body(&["sh", "-c", "id -u; sleep 300"], quiet.clone()));
    root.engine.container_start(&id, Some(io()), Some(&soon())).expect("start");
    wait_for("output", || std::fs::read_to_string(&path).is_ok_and(|text| text == "1234\n"));
    let config = json!({ "Cmd": ["sh", "-c", mode], "User": "0", "AttachStdin": true, "AttachStdout": true });
    let exec = root.engine.exec_create(&id, &serde_json::from_value(config).expect("a body")).expect("exec");
    root.engine.exec_start(&exec, Some(io()), Some(&soon())).expect("exec start");
    // One device file: the container's own, in place of the host's.
    wait_for("output", || std::fs::read_to_string(&path).is_ok_and(|text| text == "1234\n1\n"));
    wait_for("the end", || !root.engine.exec_inspect(&exec).expect("inspect").running);
    assert_eq!(owner("/dev/null"), null);
    assert_eq!(owner(path.to_str().expect("UTF-8")).0, 0);
}

// field: Config.Tty
// operation: POST /containers/{name}/resize
#[test]
fn a_terminal_has_a_size_and_one_stream() {
    let root = Root::new();
    let script = "test -t 0 && test -t 1 && test -t 2 && echo tty; stty size; read x; stty size; echo err >&2";
    let id =
        root.create("term", body(&["sh", "-c", script], json!({ "Tty": true, "OpenStdin": true, "StdinOnce": true })));
    let io = Io { rows: 33, cols: 101, ..Io::default() };
    let started = root.engine.container_start(&id, Some(io), Some(&soon())).expect("start");
    let session = started.session.expect("a session");
    assert!(session.tty());
    let text = read_until(&session, "33 101\r\n");
    assert!(text.contains("tty\r\n"), "{text:?}");
    root.engine.container_resize(&id, 40, 120).expect("resize");
    session.write(b"\n", Some(&soon())).expect("write");
    let text = read_until(&session, "err\r\n");
    assert!(text.contains("40 120\r\n"), "{text:?}");
    assert_eq!(session.wait(Some(&soon())).expect("wait"), 0);
    // The log has the terminal's line ends, on standard output only.
    let log = root.logs(&id);
    assert!(log.stdout.windows(4).any(|w| w == b"tty\r"), "{:?}", log.out());
    assert_eq!(log.stderr, b"");
}

#[test]
fn a_terminal_that_its_processes_closed_can_still_be_resized() {
    let root = Root::new();
    let script = "echo ready; exec </dev/null >/dev/null 2>&1; trap 'exit 0' TERM; while :; do sleep 0.05; done";
    let id = root.create("closed", body(&["sh", "-c", script], json!({ "Tty": true })));
    root.start(&id);
    wait_for("its line", || root.logs(&id).stdout.starts_with(b"ready"));
    for (rows, cols) in [(30, 90), (31, 91), (32, 92)] {
        root.engine.container_resize(&id, rows, cols).expect("resize");
        root.exec(&id, &["true"]);
    }
    assert_eq!(root.status(&id), "running");
}

// operation: GET /containers/{name}/logs
// field: Logs.stdout
// field: Logs.stderr
// field: Logs.tail
// field: Logs.since_ns
#[test]
fn logs_select_streams_lines_and_times() {
    let root = Root::new();
    let script = "echo one; echo two >&2; read go; echo three; printf four";
    let id = root.create("writes", body(&["sh", "-c", script], json!({ "OpenStdin": true, "StdinOnce": true })));
    let session = root.engine.container_start(&id, Some(Io::default()), Some(&soon())).expect("start").session;
    wait_for("two lines", || root.logs(&id).err() == "two" && root.logs(&id).out() == "one");
    std::thread::sleep(Duration::from_millis(250));
    session.expect("a session").write(b"go\n", Some(&soon())).expect("let it go on");
    assert_eq!(root.wait(&id), 0);
    let read = |query: LogQuery| {
        let mut log = root.engine.container_logs(&id, &query, Some(&soon())).expect("logs");
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut log) {
            lines.push(line);
        }
        lines
    };
    let text = |lines: &[coracle::LogLine]| {
        lines.iter().map(|l| String::from_utf8_lossy(&l.data).into_owned()).collect::<Vec<_>>().join("|")
    };
    let all = read(LogQuery::default());
    assert_eq!(text(&all), "one\n|two\n|three\n|four");
    assert_eq!(all[1].channel, Channel::Stderr);
    assert!(all.windows(2).all(|w| w[0].time_ns <= w[1].time_ns), "times go back");
    assert!(all[2].time_ns - all[1].time_ns >= 250_000_000, "times are not those of the writes");
    assert_eq!(text(&read(LogQuery { stdout: false, ..LogQuery::default() })), "two\n");
    assert_eq!(text(&read(LogQuery { stderr: false, ..LogQuery::default() })), "one\n|three\n|four");
    assert_eq!(text(&read(LogQuery { tail: Some(2), ..LogQuery::default() })), "three\n|four");
    assert_eq!(text(&read(LogQuery { tail: Some(0), ..LogQuery::default() })), "");
    assert_eq!(text(&read(LogQuery { since_ns: all[2].time_ns, ..LogQuery::default() })), "three\n|four");
    assert_eq!(text(&read(LogQuery { since_ns: all[3].time_ns + 1, ..LogQuery::default() })), "");
    // The file is Docker's, line for line.
    let file = std::fs::read_to_string(root.inspect(&id).log_path).expect("the log file");
    let first: serde_json::Value = serde_json::from_str(file.lines().next().expect("a line")).expect("JSON");
    assert_eq!((first["log"].as_str(), first["stream"].as_str()), (Some("one\n"), Some("stdout")));
}

// field: Logs.follow
#[test]
fn logs_follow_to_the_end() {
    let root = Root::new();
    let script = "echo a; sleep 0.2; echo b; sleep 0.2; echo c";
    let id = root.create("followed", body(&["sh", "-c", script], json!({})));
    root.start(&id);
    let query = LogQuery { follow: true, ..LogQuery::default() };
    let mut log = root.engine.container_logs(&id, &query, Some(&soon())).expect("logs");
    let mut seen = Vec::new();
    while let Some(line) = next_line(&mut log) {
        seen.extend(line.data);
    }
    assert_eq!(seen, b"a\nb\nc\n");
    assert!(log.ended());
    // Following one that ended reads it and ends.
    let mut log = root.engine.container_logs(&id, &query, Some(&soon())).expect("logs");
    assert_eq!(next_line(&mut log).expect("a line").data, b"a\n");
}

// field: HostConfig.LogConfig.Config
#[test]
fn log_files_rotate() {
    let root = Root::new();
    let config = json!({ "HostConfig": { "LogConfig": { "Type": "json-file", "Config": { "max-size": "10k", "max-file": "3" } } } });
    let id = root.create("wordy", body(&["sh", "-c", "seq 1 2000"], config));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let path = root.inspect(&id).log_path;
    for suffix in ["", ".1", ".2"] {
        let file = std::fs::read(format!("{path}{suffix}")).unwrap_or_else(|e| panic!("{path}{suffix}: {e}"));
        // A file is full with the record that reaches the bound, and not before.
        let last = file.split_inclusive(|&b| b == b'\n').next_back().map_or(0, <[u8]>::len);
        assert!(file.ends_with(b"\n") && file.len() - last < 10_000, "{path}{suffix} has {} bytes", file.len());
        assert!(suffix.is_empty() || file.len() >= 10_000, "{path}{suffix} has {} bytes", file.len());
    }
    assert!(!std::path::Path::new(&format!("{path}.3")).exists(), "more than max-file files");
    let lines = root.logs(&id).out();
    let numbers: Vec<u32> = lines.lines().map(|l| l.parse().expect("a number")).collect();
    assert_eq!(*numbers.last().expect("lines"), 2000);
    assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1), "lines are missing in the middle");
}

// field: HostConfig.LogConfig.Type
#[test]
fn driver_none_keeps_no_log() {
    let root = Root::new();
    let id = root.create("silent", body(&["echo", "x"], json!({ "HostConfig": { "LogConfig": { "Type": "none" } } })));
    root.start(&id);
    root.wait(&id);
    fails(
        root.engine.container_logs(&id, &LogQuery::default(), Some(&soon())),
        ErrorKind::Unsupported,
        "configured logging driver does not support reading",
    );
    assert_eq!(root.inspect(&id).log_path, "");
    // Clients can attach to the container all the same.
    let none = json!({ "HostConfig": { "LogConfig": { "Type": "none" } } });
    assert_eq!(root.run(&["echo", "heard"], none, b"").ok(), "heard");
}

// field: ExecConfig.Cmd
// field: ExecConfig.Env
// field: ExecConfig.User
// field: ExecConfig.WorkingDir
// field: ExecConfig.AttachStdin
// field: ExecConfig.AttachStdout
// field: ExecConfig.AttachStderr
// operation: POST /containers/{name}/exec
#[test]
fn exec_runs_inside() {
    let root = Root::new();
    let id = root.sleeper_with("host", json!({ "Env": ["A=container"], "WorkingDir": "/tmp", "User": "games" }));
    assert_eq!(root.exec(&id, &["pwd"]).ok(), "/tmp");
    assert_eq!(root.exec(&id, &["sh", "-c", "echo $A; id -un"]).ok(), "container\ngames");
    let output = root.exec(&id, &["sh", "-c", "echo out; echo err >&2; exit 6"]);
    assert_eq!((output.out().as_str(), output.err().as_str(), output.code), ("out", "err", 6));
    let config = json!({ "Cmd": ["sh", "-c", "cat; id -u; echo $A"], "User": "root", "Env": ["A=exec"],
        "AttachStdin": true, "AttachStdout": true, "AttachStderr": true });
    assert_eq!(root.exec_with(&id, config, b"from stdin\n").ok(), "from stdin\n0\nexec");
    for (user, ids) in [("games", "5:60"), ("games:audio", "5:29"), ("1234", "1234:0"), ("1234:5678", "1234:5678")] {
        let config = json!({ "Cmd": ["sh", "-c", "echo $(id -u):$(id -g)"], "User": user, "AttachStdout": true });
        assert_eq!(root.exec_with(&id, config, b"").ok(), ids, "{user}");
    }
    // Streams that nobody asked for: none is heard, and the input is at its end.
    let script = "cat; echo out; echo err >&2";
    for (stdout, stderr) in [(true, false), (false, true), (false, false)] {
        let config = json!({ "Cmd": ["sh", "-c", script], "AttachStdout": stdout, "AttachStderr": stderr });
        let output = root.exec_with(&id, config, b"");
        let heard = |asked: bool, text: &'static str| if asked { text } else { "" };
        assert_eq!((output.out().as_str(), output.err().as_str()), (heard(stdout, "out"), heard(stderr, "err")));
    }
    let there = |dir: &str| {
        let body = json!({ "Cmd": ["pwd"], "WorkingDir": dir, "AttachStdout": true });
        root.engine.exec_create(&id, &serde_json::from_value(body).expect("an exec body"))
    };
    assert_eq!(
        root.exec_with(&id, json!({ "Cmd": ["pwd"], "WorkingDir": "/etc", "AttachStdout": true }), b"").ok(),
        "/etc"
    );
    fails(there("rel"), ErrorKind::Invalid, "the working directory 'rel' is invalid, it needs to be an absolute path");
    for missing in ["/nope", "/etc/passwd"] {
        let exec = there(missing).expect("exec create");
        let error = root.engine.exec_start(&exec, None, Some(&soon())).map(drop).expect_err("it is not there");
        assert!(error.message().contains(&format!("change to directory {missing}")), "{error}");
    }
    assert_eq!(root.exec(&id, &["ls", "-d", "/nope"]).code, 1, "and is not made");
}

#[test]
fn exec_joins_the_container() {
    let root = Root::new();
    let id = root.sleeper("joined");
    let same = "for n in pid mnt uts ipc net; do
                  test \"$(readlink /proc/1/ns/$n)\" = \"$(readlink /proc/self/ns/$n)\" || echo $n; done";
    assert_eq!(root.exec(&id, &["sh", "-c", same]).ok(), "");
    let cgroups = |pid: &str| root.exec(&id, &["sh", "-c", &format!("sort /proc/{pid}/cgroup")]).ok();
    assert_eq!(cgroups("self"), cgroups("1"));
    let status = root.exec(&id, &["cat", "/proc/self/status"]).ok();
    let first = root.exec(&id, &["cat", "/proc/1/status"]).ok();
    for field in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "SigBlk", "Umask"] {
        assert_eq!(proc_status(&status, field), proc_status(&first, field), "{field}");
    }
    let fds = root.exec(&id, &["ls", "/proc/self/fd"]).ok();
    assert_eq!(fds.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
}

#[test]
fn exec_has_its_own_life() {
    let root = Root::new();
    let id = root.sleeper("long");
    let script = "until [ -e /go ]; do sleep 0.05; done";
    let config = ExecConfig { cmd: Some(["sh", "-c", script].map(String::from).to_vec()), ..ExecConfig::default() };
    let exec = root.engine.exec_create(&id, &config).expect("exec create");
    let before = root.engine.exec_inspect(&exec).expect("inspect");
    assert_eq!((before.running, before.exit_code), (false, None));
    assert_eq!(before.process_config.entrypoint, "sh");
    assert!(root.engine.exec_start(&exec, None, Some(&soon())).expect("start").is_none());
    let during = root.engine.exec_inspect(&exec).expect("inspect");
    assert!(during.running && during.pid > 0, "{during:?}");
    root.exec(&id, &["touch", "/go"]).ok();
    wait_for("its end", || !root.engine.exec_inspect(&exec).expect("inspect").running);
    assert_eq!(root.engine.exec_inspect(&exec).expect("inspect").exit_code, Some(0));
    assert_eq!(root.status(&id), "running");
    fails(root.engine.exec_start(&exec, None, Some(&soon())), ErrorKind::Conflict, "has already run");
}

// field: ExecConfig.Tty
// operation: POST /exec/{name}/resize
#[test]
fn exec_on_a_terminal() {
    let root = Root::new();
    let id = root.sleeper("with-term");
    let config = json!({ "Cmd": ["sh", "-c", "tty; stty size; read x; stty size; exit 4"], "Tty": true,
        "AttachStdin": true, "AttachStdout": true, "AttachStderr": true });
    let config: ExecConfig = serde_json::from_value(config).expect("exec body");
    let exec = root.engine.exec_create(&id, &config).expect("exec create");
    let io = Io { rows: 20, cols: 60, ..Io::default() };
    let session = root.engine.exec_start(&exec, Some(io), Some(&soon())).expect("exec start");
    let session = session.expect("a session");
    let text = read_until(&session, "20 60\r\n");
    assert!(text.starts_with("/dev/pts/"), "{text:?}");
    root.engine.exec_resize(&exec, 21, 61).expect("exec resize");
    session.write(b"\n", Some(&soon())).expect("write");
    read_until(&session, "21 61\r\n");
    assert_eq!(session.wait(Some(&soon())).expect("wait"), 4);
}

#[test]
fn exec_that_cannot_run_says_so() {
    let root = Root::new();
    let id = root.sleeper("tries");
    for (program, dir, text) in [
        ("no-such", "", "executable file not found in $PATH"),
        ("/no-such", "", "stat /no-such: no such file or directory"),
        ("/etc/passwd", "", "permission denied"),
        ("true", "/no-such", "/no-such"),
    ] {
        let config = ExecConfig {
            cmd: Some(vec![program.into()]),
            working_dir: dir.into(),
            attach_stdout: true,
            ..ExecConfig::default()
        };
        let exec = root.engine.exec_create(&id, &config).expect("exec create");
        assert_eq!(root.engine.exec_inspect(&exec).expect("inspect").exit_code, None);
        let error = root.engine.exec_start(&exec, Some(Io::default()), Some(&soon())).expect_err("must fail");
        assert!(error.message().contains(text), "{error}");
        let detail = root.engine.exec_inspect(&exec).expect("inspect");
        assert_eq!((detail.running, detail.exit_code, detail.can_remove), (false, Some(126), false), "{program} {dir}");
    }
    assert_eq!(root.engine.container_inspect(&id, false).expect("inspect").exec_ids, None);
    assert_eq!(root.status(&id), "running");
}

/// A container in which something is executed all the time does not fill the run directory.
#[test]
fn ended_execs_are_forgotten_minutes_later() {
    let root = Root::new();
    let id = root.sleeper("busy");
    let exec = |engine: &coracle::Engine, command: &[&str]| {
        let config = serde_json::from_value(json!({ "Cmd": command })).expect("a body");
        let exec = engine.exec_create(&id, &config).expect("exec create");
        engine.exec_start(&exec, None, Some(&soon())).expect("exec start");
        exec
    };
    let (ended, running) = (exec(&root.engine, &["true"]), exec(&root.engine, &["sleep", "1000"]));
    wait_for("its end", || !root.engine.exec_inspect(&ended).expect("inspect").running);
    // As after many execs: old ones, and some that ended a minute ago.
    let file = |id: &str| root.dir.join("run/x").join(id);
    let age = |id: &str, seconds: u64| {
        let file = std::fs::File::options().write(true).open(file(&format!("{id}.state"))).expect("a state");
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(seconds)).expect("its time");
    };
    let copy = |number: usize, seconds: u64| {
        // The exec's id ends with the beginning of its container's id.
        let id = format!("{number:048x}{}", &ended[48..]);
        for end in ["", ".state"] {
            std::fs::copy(file(&format!("{ended}{end}")), file(&format!("{id}{end}"))).expect("copy");
        }
        age(&id, seconds);
        id
    };
    let old: Vec<String> = (0..150).map(|number| copy(number, 400)).collect();
    let new: Vec<String> = (150..300).map(|number| copy(number, 60)).collect();
    age(&running, 4000);
    let last = exec(&root.reopen(), &["true"]);
    for id in &old {
        fails(root.engine.exec_inspect(id), ErrorKind::NotFound, "No such exec instance");
        assert!(!file(&format!("{id}.state")).exists());
    }
    wait_for("the end of the last one", || !root.engine.exec_inspect(&last).expect("inspect").running);
    for id in new.iter().chain([&ended, &last, &running]) {
        root.engine.exec_inspect(id).expect("inspect");
    }
    assert!(root.engine.exec_inspect(&running).expect("inspect").running);
    assert_eq!(root.inspect(&id).exec_ids, Some(vec![running]));
    assert_eq!(root.inspect(&root.sleeper("idle")).exec_ids, None);
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(&id, force, Some(&soon())).expect("remove");
    assert_eq!(std::fs::read_dir(root.dir.join("run/x")).expect("list").count(), 0);
}

#[test]
fn exec_ends_with_its_container() {
    let root = Root::new();
    let id = root.sleeper("ends");
    let config = json!({ "Cmd": ["sleep", "1000"], "AttachStdout": true });
    let config: ExecConfig = serde_json::from_value(config).expect("exec body");
    let exec = root.engine.exec_create(&id, &config).expect("exec create");
    let session = root.engine.exec_start(&exec, Some(Io::default()), Some(&soon())).expect("exec start");
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    let session = session.expect("a session");
    assert_eq!(read_output(&session), Output::default());
    assert_eq!(session.wait(Some(&soon())).expect("wait"), 137);
}

// operation: GET /containers/{name}/top
#[test]
fn top_shows_the_container_s_processes() {
    let root = Root::new();
    let id = root.sleeper("seen");
    let config = ExecConfig { cmd: Some(vec!["sleep".into(), "777".into()]), ..ExecConfig::default() };
    let exec = root.engine.exec_create(&id, &config).expect("exec create");
    root.engine.exec_start(&exec, None, Some(&soon())).expect("exec start");
    let top = root.engine.container_top(&id, "").expect("top");
    let (pid, command) = ("PID", "CMD");
    let column = |name: &str| top.titles.iter().position(|t| t == name).unwrap_or_else(|| panic!("{:?}", top.titles));
    let init = root.pid(&id).to_string();
    assert!(top.processes.iter().any(|p| p[column(pid)] == init), "{top:?}");
    assert!(top.processes.iter().any(|p| p[column(command)] == "sleep 777"), "{top:?}");
    assert!(top.processes.iter().all(|p| p.len() == top.titles.len()), "{top:?}");
    let host = std::process::id().to_string();
    assert!(top.processes.iter().all(|p| p[column(pid)] != host), "a process of the host is in {top:?}");
    // The columns that ps would have, with what its files in /proc say.
    let forms = [
        ("aux", "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND"),
        ("-ef", "UID PID PPID C STIME TTY TIME CMD"),
        ("-o pid,ppid,nice,comm", "PID PPID NI COMMAND"),
        ("-o pid=P,args=what", "P what"),
    ];
    for (arguments, titles) in forms {
        let top = root.engine.container_top(&id, arguments);
        if arguments.contains('=') {
            // Without its heading dockerd does not know the pids.
            fails(top, ErrorKind::Internal, "Couldn't find PID field in ps output");
            continue;
        }
        let top = top.unwrap_or_else(|e| panic!("{arguments}: {e}"));
        assert_eq!(top.titles.join(" "), titles, "{arguments}");
        let at = top.titles.iter().position(|title| title == "PID").expect("the pid");
        let row = top.processes.iter().find(|row| row[at] == init).unwrap_or_else(|| panic!("{arguments}: {top:?}"));
        assert!(row.last().is_some_and(|command| command.starts_with("sh")), "{arguments}: {row:?}");
    }
}

#[test]
fn the_pidfd_is_readable_at_the_end() {
    let root = Root::new();
    let id = root.sleeper("polled");
    let fd = root.engine.container_pidfd(&id).expect("pidfd");
    let ready = |wait: u16| {
        use nix::poll::{PollFd, PollFlags, poll};
        use std::os::fd::AsFd;
        poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], wait).expect("poll") > 0
    };
    assert!(!ready(0));
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    assert!(ready(5000));
}

// field: HostConfig.RestartPolicy.MaximumRetryCount
#[test]
fn restart_policy_counts_and_gives_up() {
    let root = Root::new();
    let policy = json!({ "HostConfig": { "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 2 } } });
    let id = root.create("fails", body(&["sh", "-c", "echo run; exit 5"], policy));
    let mut events = root.engine.events(&of_containers()).expect("events");
    root.start(&id);
    wait_for("the last attempt", || {
        let detail = root.inspect(&id);
        detail.state.status == "exited" && detail.restart_count == 2
    });
    assert_eq!(root.inspect(&id).state.exit_code, 5);
    assert_eq!(root.logs(&id).out(), "run\nrun\nrun");
    let mut deaths = 0;
    let seen = events_until(&mut events, |e| {
        deaths += usize::from(e.action == "die");
        deaths == 3
    });
    assert_eq!(actions(&seen), ["start", "die", "start", "die", "start", "die"]);
}

// field: State.Restarting
#[test]
fn restart_policy_waits_longer_each_time() {
    let root = Root::new();
    let policy = json!({ "HostConfig": { "RestartPolicy": { "Name": "always" } } });
    let id = root.create("loops", body(&["sh", "-c", "exit 1"], policy));
    root.start(&id);
    wait_for("three restarts", || root.inspect(&id).restart_count >= 4);
    let log = root.engine.events(&EventQuery { since_ns: Some(0), until_ns: Some(now_ns()), ..EventQuery::default() });
    let mut events = log.expect("events");
    let mut times = Vec::new();
    while let Some((_, event)) = events.next(Some(SOON), Some(&soon())).expect("an event") {
        if ["start", "die"].contains(&event.action.as_str()) {
            times.push((event.action, event.time_nano));
        }
    }
    let waits: Vec<i64> = times.windows(2).filter(|w| w[0].0 == "die").map(|w| (w[1].1 - w[0].1) / 1_000_000).collect();
    assert!(waits[0] >= 100 && waits[1] >= 200 && waits[2] >= 400, "{waits:?} ms");
    // During the delay it is `restarting`; a stop works at once.
    wait_for("the delay", || root.status(&id) == "restarting");
    let state = root.inspect(&id).state;
    assert!(state.running && state.restarting && state.pid == 0, "{state:?}");
    // No process can use the time.
    root.engine.container_stop(&id, Some(600_000), Some(&soon())).expect("stop");
    assert_eq!(root.status(&id), "exited");
    let count = root.inspect(&id).restart_count;
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(root.inspect(&id).restart_count, count, "it was started again after a stop");
}

fn now_ns() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64)
}

#[test]
fn a_stop_ends_every_restart_policy() {
    let root = Root::new();
    for policy in ["always", "unless-stopped", "on-failure"] {
        let host = json!({ "HostConfig": { "RestartPolicy": { "Name": policy } } });
        let id =
            root.create(policy, body(&["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"], host));
        root.start(&id);
        wait_for("the trap", || root.logs(&id).out() == "ready");
        root.engine.container_stop(&id, Some(100), Some(&soon())).expect("stop");
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!((root.status(&id).as_str(), root.inspect(&id).restart_count), ("exited", 0), "{policy}");
    }
}

#[test]
fn events_tell_it_in_order_with_their_attributes() {
    let root = Root::new();
    let mut events = root.engine.events(&of_containers()).expect("events");
    let id = root.create("told", body(&["sh", "-c", "exit 4"], json!({ "Labels": { "k": "v" } })));
    root.start(&id);
    root.wait(&id);
    root.engine.container_rename(&id, "renamed").expect("rename");
    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
    let seen = events_until(&mut events, |e| e.action == "destroy");
    assert_eq!(actions(&seen), ["create", "start", "die", "rename", "destroy"]);
    for event in &seen {
        assert_eq!((event.kind.as_str(), event.actor.id.as_str()), ("container", id.as_str()));
        assert_eq!(
            (event.id.as_str(), event.status.as_str(), event.from.as_str()),
            (id.as_str(), event.action.as_str(), IMAGE)
        );
        assert_eq!((event.actor.attributes["image"].as_str(), event.actor.attributes["k"].as_str()), (IMAGE, "v"));
        assert_eq!(event.time, event.time_nano / 1_000_000_000);
    }
    assert_eq!(seen[0].actor.attributes["name"], "told");
    assert_eq!(seen[2].actor.attributes["exitCode"], "4");
    assert_eq!(seen[3].actor.attributes["oldName"], "/told");
    assert_eq!(seen[3].actor.attributes["name"], "renamed");
    // The past can be read again, filtered and bounded.
    let query = EventQuery {
        since_ns: Some(0),
        until_ns: Some(now_ns()),
        filters: serde_json::from_value(json!({ "event": ["die", "start"] })).expect("filters"),
        ..EventQuery::default()
    };
    let mut past = root.engine.events(&query).expect("events");
    let mut replayed = Vec::new();
    while let Some((_, event)) = past.next(Some(SOON), Some(&soon())).expect("an event") {
        replayed.push(event.action);
    }
    assert_eq!(replayed, ["start", "die"]);
    assert!(past.ended());
}

#[test]
fn a_blocked_call_can_be_cancelled_and_bounded() {
    let root = Root::new();
    let id = root.sleeper("waits");
    let op = coracle::Op::new().expect("op");
    op.set_timeout(Some(Duration::from_millis(100)));
    fails(root.engine.container_wait(&id, Some(&op)), ErrorKind::Timeout, "deadline");
    let op = coracle::Op::new().expect("op");
    let other = op.clone();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        other.cancel();
    });
    fails(root.engine.container_wait(&id, Some(&op)), ErrorKind::Cancelled, "cancelled");
    canceller.join().expect("the canceller");
    let how = AttachOptions::default();
    let session = root.engine.container_attach(&id, Io::default(), how, Some(&soon())).expect("attach");
    let op = coracle::Op::new().expect("op");
    op.set_timeout(Some(Duration::from_millis(100)));
    fails(session.read(&mut [0; 10], Some(&op)).map(|_: SessionRead| ()), ErrorKind::Timeout, "deadline");
    assert_eq!(root.status(&id), "running");
}

/// A descriptor of the first process, or word that there is none: nothing else, at whatever moment.
#[test]
fn a_pidfd_is_asked_for_at_every_moment_of_short_lives() {
    let root = Root::new();
    for _ in 0..40 {
        let id = root.create("", body(&["true"], json!({})));
        root.start(&id);
        let error = loop {
            if let Err(error) = root.engine.container_pidfd(&id) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        root.wait(&id);
    }
}

/// More stops at once than a monitor has places for clients: none of them says "stopped" of a container that runs.
#[test]
fn a_stop_that_finds_no_place_at_the_monitor_does_not_say_stopped() {
    let root = Root::new();
    let id =
        root.create("slow", body(&["sh", "-c", "trap 'sleep 3; exit 0' TERM; while :; do sleep 0.1; done"], json!({})));
    root.start(&id);
    let how = StopContainer { grace_ms: Some(60_000), ..Default::default() };
    let stopped = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..400 {
            scope.spawn(|| match root.engine.container_stop_with(&id, &how, None) {
                Ok(_) => {
                    stopped.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    assert_eq!(root.status(&id), "exited");
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            });
        }
    });
    assert!(stopped.into_inner() > 0);
    assert_eq!(root.status(&id), "exited");
}
