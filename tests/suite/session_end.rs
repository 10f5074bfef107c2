//! The end of a session's process is told to each wait: to many at once, and to those that begin after the end.

use crate::support::*;
use coracle::model::{AttachStreams, ExecConfig, RemoveContainer};
use coracle::{AttachOptions, Engine, Io, Op, Session};
use serde_json::{Value, json};
use std::os::fd::AsFd;

/// A program that ends with 5 when it has read a line.
const ENDS: &[&str] = &["sh", "-c", "read line; exit 5"];

fn container(root: &Root, name: &str, host_config: Value) -> String {
    root.create(name, body(ENDS, json!({ "OpenStdin": true, "HostConfig": host_config })))
}

fn started(engine: &Engine, id: &str) -> Session {
    let started = engine.container_start(id, Some(Io::default()), Some(&soon())).expect("start");
    started.session.expect("a session")
}

/// Waits by the descriptor of the end, as a program does that polls.
fn polled(session: &Session) -> i32 {
    let fd = session.end_fd().expect("a descriptor");
    assert!(Op::wait_readable(Some(&soon()), fd.as_fd(), None).expect("the end"));
    session.wait(Some(&soon())).expect("a wait that polled")
}

/// Ends the process, for which two waits of either kind wait at once, and waits again.
fn ends_with_five(session: &Session) {
    std::thread::scope(|scope| {
        let waits: Vec<_> = (0..4)
            .map(|at| {
                scope.spawn(move || match at % 2 {
                    0 => polled(session),
                    _ => session.wait(Some(&soon())).expect("a wait beside others"),
                })
            })
            .collect();
        let early = session.end_fd().expect("a descriptor before the end");
        session.write(b"go\n", Some(&soon())).expect("write");
        for wait in waits {
            assert_eq!(wait.join().expect("a thread"), 5);
        }
        assert!(Op::wait_readable(Some(&soon()), early.as_fd(), None).expect("the end, which others heard"));
    });
    ended_with_five(session);
}

/// Waits for a process that has ended.
fn ended_with_five(session: &Session) {
    assert_eq!(session.wait(Some(&soon())).expect("a later wait"), 5);
    assert_eq!(polled(session), 5);
    assert_eq!(session.wait(Some(&soon())).expect("one more wait"), 5);
}

#[test]
fn each_wait_for_an_exec_instance_gets_its_code() {
    let root = Root::new();
    let id = root.create("home", body(&["sleep", "300"], json!({})));
    root.start(&id);
    let config = json!({ "Cmd": ENDS, "AttachStdin": true, "AttachStdout": true });
    let config: ExecConfig = serde_json::from_value(config).expect("a body");
    let exec = root.engine.exec_create(&id, &config).expect("exec");
    let session = root.engine.exec_start(&exec, Some(Io::default()), Some(&soon())).expect("start").expect("a session");
    ends_with_five(&session);
    // The code is not lost with the container.
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(&id, force, Some(&soon())).expect("remove");
    ended_with_five(&session);
}

#[test]
fn each_wait_for_a_container_gets_its_code() {
    let root = Root::new();
    let id = container(&root, "stays", json!({ "NetworkMode": "none" }));
    ends_with_five(&started(&root.engine, &id));
    let id = container(&root, "goes", json!({ "NetworkMode": "none", "AutoRemove": true }));
    ends_with_five(&started(&root.engine, &id));
}

#[test]
fn a_wait_is_for_the_run_of_its_session_also_after_a_restart() {
    let root = Root::new();
    let policy = json!({ "NetworkMode": "none", "RestartPolicy": { "Name": "always" } });
    let id = container(&root, "again", policy);
    let session = started(&root.engine, &id);
    ends_with_five(&session);
    wait_for("the next run", || root.inspect(&id).restart_count > 0 && root.status(&id) == "running");
    ended_with_five(&session);
}

#[test]
fn a_first_wait_after_a_restart_gets_the_code_of_the_session() {
    let root = Root::new();
    // The first run ends with 5 and each later one with 6, a while after its start.
    let command = ["sh", "-c", "[ -e /ran ] && { sleep 2; exit 6; }; touch /ran; read line; exit 5"];
    let policy = json!({ "NetworkMode": "none", "RestartPolicy": { "Name": "always" } });
    let id = root.create("again", body(&command, json!({ "OpenStdin": true, "HostConfig": policy })));
    let session = started(&root.engine, &id);
    let attached = root.engine.container_attach(&id, Io::default(), all(false), Some(&soon())).expect("attach");
    session.write(b"go\n", Some(&soon())).expect("write");
    wait_for("the next run", || root.inspect(&id).restart_count > 0 && root.status(&id) == "running");
    ended_with_five(&session);
    assert_eq!(attached.try_wait().expect("an attach to the first run"), Some(5));
    // A start by hand is of another monitor.
    root.engine.container_stop(&id, Some(0), Some(&soon())).expect("stop");
    let fresh = started(&root.engine, &id);
    root.engine.container_restart(&id, Some(0), Some(&soon())).expect("restart");
    assert_eq!(fresh.wait(Some(&soon())).expect("the run that the restart ended"), 137);
    assert_eq!(attached.wait(Some(&soon())).expect("the first run"), 5);
}

fn all(wait_for_start: bool) -> AttachOptions {
    let streams = AttachStreams { stdin: true, stdout: true, stderr: true };
    AttachOptions { streams, wait_for_start }
}

#[test]
fn a_session_before_the_start_waits_for_the_run_of_that_start() {
    for auto_remove in [false, true] {
        let root = Root::new();
        let id = container(&root, "later", json!({ "NetworkMode": "none", "AutoRemove": auto_remove }));
        let session = root.engine.container_attach(&id, Io::default(), all(true), Some(&soon())).expect("attach");
        assert_eq!(session.try_wait().expect("a look"), None, "the container has not run");
        let fd = session.end_fd().expect("a descriptor before the start");
        std::thread::scope(|scope| {
            let waits: Vec<_> =
                (0..2).map(|_| scope.spawn(|| session.wait(Some(&soon())).expect("a wait before the start"))).collect();
            root.start(&id);
            assert!(Op::wait_readable(Some(&soon()), fd.as_fd(), None).expect("the start"));
            assert_eq!(session.try_wait().expect("a look at the run"), None, "the container runs");
            session.write(b"go\n", Some(&soon())).expect("write");
            for wait in waits {
                assert_eq!(wait.join().expect("a thread"), 5);
            }
        });
        ended_with_five(&session);
    }
}

#[test]
fn a_session_before_a_second_start_waits_for_the_second_run() {
    let root = Root::new();
    let id = container(&root, "twice", json!({ "NetworkMode": "none" }));
    ends_with_five(&started(&root.engine, &id));
    let command = |session: &Session| session.write(b"go\n", Some(&soon())).expect("write");
    let session = root.engine.container_attach(&id, Io::default(), all(true), Some(&soon())).expect("attach");
    assert_eq!(session.try_wait().expect("a look between two runs"), None);
    root.start(&id);
    command(&session);
    // The first wait comes when the third run has begun.
    wait_for("the end of the second run", || root.status(&id) == "exited");
    root.start(&id);
    ended_with_five(&session);
}

#[test]
fn a_session_whose_start_fails_gets_the_code_of_the_failure() {
    let root = Root::new();
    let host = json!({ "NetworkMode": "none" });
    let id = root.create("fails", body(&["/no/such/program"], json!({ "OpenStdin": true, "HostConfig": host })));
    let session = root.engine.container_attach(&id, Io::default(), all(true), Some(&soon())).expect("attach");
    root.engine.container_start(&id, None, Some(&soon())).expect_err("a start without a program");
    assert_eq!(session.wait(Some(&soon())).expect("the end of a start that failed"), 127);
}

#[test]
fn a_run_that_ends_before_its_start_returns_keeps_its_code() {
    let root = Root::new();
    // The first run ends with 5 at once, each later one goes on.
    let command = ["sh", "-c", "[ -e /ran ] && exec sleep 300; touch /ran; exit 5"];
    let policy = json!({ "NetworkMode": "none", "RestartPolicy": { "Name": "always" } });
    for name in ["looked", "waited"] {
        let id = root.create(name, body(&command, json!({ "OpenStdin": true, "HostConfig": policy })));
        let session = started(&root.engine, &id);
        if name == "looked" {
            wait_for("the next run", || root.inspect(&id).restart_count > 0 && root.status(&id) == "running");
            assert_eq!(session.try_wait().expect("a look"), Some(5));
        }
        ended_with_five(&session);
    }
}

#[test]
fn a_run_whose_monitor_was_killed_keeps_its_code_when_the_next_one_begins() {
    let root = Root::new();
    let id = container(&root, "killed", json!({ "NetworkMode": "none" }));
    let session = started(&root.engine, &id);
    assert_eq!(session.try_wait().expect("a look, with which the monitor is asked"), None);
    let monitor = nix::unistd::Pid::from_raw(monitor_of(root.inspect(&id).state.pid));
    nix::sys::signal::kill(monitor, nix::sys::signal::Signal::SIGKILL).expect("kill");
    wait_for("the end of the monitor", || root.status(&id) == "exited");
    root.start(&id);
    assert_eq!(session.wait(Some(&soon())).expect("the run that was killed"), 137);
    assert_eq!(polled(&session), 137);
}

#[test]
fn a_code_that_no_event_tells_any_more_is_an_error() {
    let root = Root::new();
    let label = "x".repeat(30 << 10);
    let host = json!({ "NetworkMode": "none" });
    let more = json!({ "OpenStdin": true, "HostConfig": host, "Labels": { "long": label } });
    let id = root.create("dropped", body(ENDS, more));
    let session = started(&root.engine, &id);
    session.write(b"go\n", Some(&soon())).expect("write");
    wait_for("the end of the first run", || root.status(&id) == "exited");
    root.start(&id);
    // The journal keeps 8 MiB.
    for _ in 0..300 {
        root.engine.container_pause(&id).expect("pause");
        root.engine.container_unpause(&id).expect("unpause");
    }
    let error = session.wait(Some(&soon())).expect_err("the journal has dropped the end");
    assert_eq!(error.kind(), coracle::ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("the exit code of the session's run is not known"), "{error}");
}

#[test]
fn a_program_that_polls_before_the_start_looks_from_time_to_time() {
    let root = Root::new();
    let id = container(&root, "later", json!({ "NetworkMode": "none" }));
    let session = root.engine.container_attach(&id, Io::default(), all(true), Some(&soon())).expect("attach");
    let fd = session.end_fd().expect("a descriptor");
    for _ in 0..3 {
        // Nothing happens: the program that would report a start may have been killed.
        assert!(Op::wait_readable(Some(&soon()), fd.as_fd(), None).expect("a moment for a look"));
        assert_eq!(session.try_wait().expect("a look"), None);
    }
}
