//! The end of a session's process is told to each wait: to many at once, and to those that begin after the end.

use crate::support::*;
use coracle::model::{ExecConfig, RemoveContainer};
use coracle::{Engine, Io, Op, Session};
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
