//! Containers that an earlier version of the library started: their monitors go on as they were built.
#![cfg(target_arch = "x86_64")]

use crate::support::*;
use coracle::model::*;
use coracle::{AttachOptions, Channel, Engine, Io};
use serde_json::json;
use std::io::Read;

/// Each kept monitor program, by its file's name.
fn kept() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(project().join("tests/monitors")).expect("tests/monitors") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "xz") {
            let file = std::fs::File::open(&path).expect("open it");
            let mut program = Vec::new();
            lzma_rust2::XzReader::new(file, true).read_to_end(&mut program).expect("decompress it");
            all.push((path.file_stem().expect("a name").to_string_lossy().into_owned(), program));
        }
    }
    assert!(!all.is_empty(), "no monitor of an earlier version is kept");
    all
}

/// A root whose containers are started by an earlier monitor, and the engine of today on it.
fn with_each(test: impl Fn(&Root, &Engine)) {
    for (name, program) in kept() {
        println!("monitor {name}");
        let root = Root::with(|options| options.monitor_program = Some(program));
        root.load(&busybox_archive());
        test(&root, &root.reopen());
    }
}

#[test]
fn exec_attach_and_stop() {
    with_each(|root, now| {
        let script = "trap 'exit 7' TERM; echo ready; while read -r line; do echo \"got $line\"; done; while :; do sleep 0.05; done";
        let id = root.create("old", body(&["sh", "-c", script], json!({ "OpenStdin": true })));
        root.start(&id);
        wait_for("it to be ready", || root.logs(&id).out() == "ready");
        let attached =
            now.container_attach(&id, Io::default(), AttachOptions::default(), Some(&soon())).expect("attach");
        attached.write(b"hello\n", Some(&soon())).expect("write");
        read_until(&attached, "got hello");

        let mut events = now.events(&EventQuery::default()).expect("events");
        let exec = |config: serde_json::Value| {
            let config: ExecConfig = serde_json::from_value(config).expect("a body");
            let exec = now.exec_create(&id, &config).expect("create an exec");
            let session = now.exec_start(&exec, Some(Io::default()), Some(&soon())).expect("start it");
            (exec, finish(session.expect("a session"), b""))
        };
        let (first, output) = exec(
            json!({ "Cmd": ["sh", "-c", "echo out; echo err >&2; exit 4"], "AttachStdout": true, "AttachStderr": true }),
        );
        assert_eq!((output.out().as_str(), output.err().as_str(), output.code), ("out", "err", 4));
        assert_eq!(now.exec_inspect(&first).expect("inspect").exit_code, Some(4));
        let seen = events_until(&mut events, |e| e.action == "exec_die");
        assert_eq!(seen.last().expect("an event").actor.attributes["exitCode"], "4");
        let (_, output) =
            exec(json!({ "Cmd": ["stty", "size"], "Tty": true, "AttachStdout": true, "AttachStdin": true }));
        assert_eq!(output.code, 0, "{output:?}");

        now.container_pause(&id).expect("pause");
        assert_eq!(now.container_inspect(&id, false).expect("inspect").state.status, "paused");
        now.container_unpause(&id).expect("unpause");
        now.container_rename(&id, "renamed").expect("rename");
        now.container_stop(&id, Some(5000), Some(&soon())).expect("stop");
        let state = now.container_inspect(&id, false).expect("inspect").state;
        assert_eq!((state.status.as_str(), state.exit_code, state.error.as_str()), ("exited", 7, ""));
        assert!(attached.fd(Channel::Stdout).is_some());
        // From now on it has a monitor of today.
        now.container_start(&id, None, Some(&soon())).expect("start");
        now.container_kill(&id, None, Some(&soon())).expect("kill");
        assert_eq!(now.container_wait(&id, Some(&soon())).expect("wait"), 137);
    });
}

#[test]
fn policies_logs_and_a_killed_monitor() {
    with_each(|root, now| {
        let more = json!({ "HostConfig": { "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 1 } } });
        let id = root.create("fails", body(&["sh", "-c", "echo run; exit 5"], more));
        root.start(&id);
        wait_for("its end", || now.container_inspect(&id, false).expect("inspect").state.status == "exited");
        let detail = now.container_inspect(&id, false).expect("inspect");
        assert_eq!((detail.restart_count, detail.state.exit_code), (1, 5));
        let mut log = now.container_logs(&id, &LogQuery::default(), Some(&soon())).expect("logs");
        assert_eq!(next_line(&mut log).expect("a line").data, b"run\n");

        // What such a monitor does not know it leaves out; the rest goes on.
        let check = json!({ "Healthcheck": { "Test": ["CMD", "true"], "Interval": 10_000_000 } });
        let id = root.sleeper_with("checked", check);
        let detail = now.container_inspect(&id, false).expect("inspect");
        assert_eq!(detail.state.status, "running");
        assert_eq!(detail.state.health, None);
        super::many::kill_monitor(root, &id);
        wait_for("its end", || now.container_inspect(&id, false).expect("inspect").state.status == "exited");
        assert!(now.container_inspect(&id, false).expect("inspect").state.error.contains("monitor was killed"));
    });
}
