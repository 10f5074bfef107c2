//! Containers that go when they have ended (`HostConfig.AutoRemove`), and waits for a next exit or a removal.

use crate::docker_cli::Served;
use crate::http::{ask, whole};
use crate::roots_engines::{monitor_of, spawn_worker};
use crate::support::ended::busy;
use crate::support::*;
use coracle::model::*;
use coracle::{Engine, ErrorKind, Io};
use serde_json::{Value, json};
use std::io::Read;
use std::time::Duration;

/// A create body of a container that goes.
fn going(command: &[&str]) -> Value {
    body(command, json!({ "HostConfig": { "AutoRemove": true, "NetworkMode": "none" } }))
}

#[track_caller]
fn gone(engine: &Engine, id: &str) {
    fails(engine.container_inspect(id, false), ErrorKind::NotFound, "No such container");
}

fn directory(root: &Root, id: &str) -> std::path::PathBuf {
    root.dir.join("root/containers").join(id)
}

/// `TYPE ACTION` of each event, up to a container's destroy.
fn next_actions(events: &mut coracle::EventStream) -> Vec<String> {
    let all = events_until(events, |event| event.kind == "container" && event.action == "destroy");
    all.iter().map(|event| format!("{} {}", event.kind, event.action)).collect()
}

// field: HostConfig.AutoRemove
#[test]
fn the_end_removes_container_and_anonymous_volumes_and_keeps_the_code() {
    let root = Root::new();
    let mut body = going(&["sh", "-c", "echo said; exit 3"]);
    body["Volumes"] = json!({ "/unnamed": {} });
    body["HostConfig"]["Binds"] = json!(["named:/named"]);
    body["HostConfig"]["NetworkMode"] = json!("bridge");
    let id = root.create("short", body);
    assert!(root.inspect(&id).host_config.auto_remove);
    let mut events = root.engine.events(&EventQuery::default()).expect("events");
    let session = root.engine.container_start(&id, Some(Io::default()), Some(&soon())).expect("start").session;
    let session = session.expect("a session");
    assert_eq!(read_output(&session).out(), "said");
    assert_eq!(session.wait(Some(&soon())).expect("wait"), 3);
    gone(&root.engine, &id);
    assert_eq!(session.wait(Some(&soon())).expect("wait again"), 3);
    let told = next_actions(&mut events);
    let after = told.iter().position(|event| event == "container die").expect("die");
    // In dockerd's order.
    let end = [
        "container die",
        "network disconnect",
        "volume unmount",
        "volume unmount",
        "volume destroy",
        "container destroy",
    ];
    assert_eq!(told[after..], end);
    let volumes = root.engine.volume_list(&ListVolumes::default()).expect("volumes").volumes;
    let names: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["named"]);
    assert!(!directory(&root, &id).exists());
}

#[test]
fn the_end_removes_a_container_without_a_waiter() {
    let root = Root::new();
    let mut events = root.engine.events(&of_containers()).expect("events");
    let id = root.create("alone", going(&["true"]));
    root.start(&id);
    // No look at it: the engine that started it follows.
    assert_eq!(next_actions(&mut events).last().expect("an event"), "container destroy");
    wait_for("its directory to go", || !directory(&root, &id).exists());
}

#[test]
fn one_that_is_only_created_stays() {
    let root = Root::new();
    let id = root.create("waits", going(&["true"]));
    let other = root.reopen();
    assert_eq!(other.container_inspect("waits", false).expect("inspect").state.status, "created");
    assert_eq!(root.names(&ListContainers { all: true, ..ListContainers::default() }), ["waits"]);
    assert_eq!(root.wait(&id), 0);
    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
    gone(&root.engine, &id);
}

#[test]
fn a_start_that_fails_is_an_end() {
    let root = Root::new();
    let id = root.create("bad", going(&["/nosuch"]));
    let wait = root.engine.container_wait_begin(&id, WaitCondition::Removed).expect("begin");
    fails(root.engine.container_start(&id, None, Some(&soon())), ErrorKind::Invalid, "/nosuch");
    assert_eq!(wait.wait(Some(&soon())).expect("wait").status_code, 127);
    gone(&root.engine, &id);
}

/// A container that ends once its gate is open: on any machine only after its starting program was killed.
fn gated(root: &Root, code: i32) -> Value {
    let gate = gate(root);
    let _ = std::fs::remove_dir_all(&gate);
    std::fs::create_dir(&gate).expect("a directory");
    let mut body = going(&["sh", "-c", &format!("until [ -e /gate/open ]; do sleep 0.02; done; exit {code}")]);
    body["HostConfig"]["Binds"] = json!([format!("{}:/gate", gate.display())]);
    body
}

fn gate(root: &Root) -> std::path::PathBuf {
    root.dir.join("gate")
}

fn open_gate(root: &Root) {
    std::fs::write(gate(root).join("open"), "").expect("open the gate");
}

/// A program that starts the container `survivor` and is killed at once; nobody else follows the end of that.
pub fn ended_alone(root: &Root) -> String {
    let id = root.create("survivor", gated(root, 7));
    let mut starter = spawn_worker("start-and-vanish", root, 0);
    assert!(!starter.wait().expect("reap the starter").success(), "it was to be killed");
    open_gate(root);
    let lock = root.dir.join("run/c").join(&id).join("ctl");
    wait_for("its end", || !lock.exists());
    assert!(directory(root, &id).exists(), "nobody looked at it yet");
    id
}

#[test]
fn the_next_engine_removes_the_remains_of_a_killed_program() {
    let root = Root::new();
    type Look = fn(&Root, &str);
    let looks: [(&str, Look); 7] = [
        ("list", |root, _| assert!(root.names(&ListContainers { all: true, ..ListContainers::default() }).is_empty())),
        ("inspect", |root, id| gone(&root.engine, id)),
        ("name", |root, _| gone(&root.engine, "survivor")),
        ("wait", |root, id| fails(root.engine.container_wait(id, Some(&soon())), ErrorKind::NotFound, "No such")),
        ("start", |root, id| fails(root.engine.container_start(id, None, None), ErrorKind::NotFound, "No such")),
        ("open", |root, _| drop(root.reopen())),
        ("create", |root, _| {
            let id = root.create("survivor", going(&["true"]));
            root.engine.container_remove(&id, RemoveContainer::default(), None).expect("remove");
        }),
    ];
    for (name, look) in looks {
        let id = ended_alone(&root);
        look(&root, &id);
        assert!(!directory(&root, &id).exists(), "{name}");
    }
}

#[test]
fn an_engine_that_opens_later_follows_what_runs() {
    let root = Root::new();
    let id = root.create("survivor", gated(&root, 0));
    let mut starter = spawn_worker("start-and-vanish", &root, 0);
    assert!(!starter.wait().expect("reap the starter").success(), "it was to be killed");
    let _follower = root.reopen();
    open_gate(&root);
    wait_for("its removal", || !directory(&root, &id).exists());
}

#[test]
fn one_whose_monitor_is_killed_goes_too() {
    let root = Root::new();
    let id = root.create("killed", going(&["sleep", "1000"]));
    root.start(&id);
    let wait = root.engine.container_wait_begin(&id, WaitCondition::Removed).expect("begin");
    let monitor = nix::unistd::Pid::from_raw(monitor_of(&root, &id));
    nix::sys::signal::kill(monitor, nix::sys::signal::Signal::SIGKILL).expect("kill the monitor");
    assert_eq!(wait.wait(Some(&soon())).expect("wait").status_code, 137);
    gone(&root.engine, &id);
}

#[test]
fn a_restart_keeps_it_and_a_stop_does_not() {
    let root = Root::new();
    let id = root.create("again", going(&["sh", "-c", "trap 'exit 4' TERM; while :; do sleep 0.05; done"]));
    root.start(&id);
    for _ in 0..3 {
        root.engine.container_restart(&id, Some(5000), Some(&soon())).expect("restart");
        assert_eq!(root.status(&id), "running");
    }
    let wait = root.engine.container_wait_begin(&id, WaitCondition::Removed).expect("begin");
    let mut events = root.engine.events(&of_containers()).expect("events");
    root.engine.container_stop(&id, Some(10_000), Some(&soon())).expect("stop");
    gone(&root.engine, &id);
    assert_eq!(
        next_actions(&mut events),
        ["kill", "die", "stop", "destroy"].map(|action| format!("container {action}"))
    );
    assert!([4, 137].contains(&wait.wait(Some(&soon())).expect("wait").status_code));
}

#[test]
fn a_removal_by_force_and_a_kill_succeed_once() {
    let root = Root::new();
    for round in 0..5 {
        let id = root.create(&format!("forced-{round}"), going(&["sleep", "1000"]));
        root.start(&id);
        let mut events = root.engine.events(&of_containers()).expect("events");
        let force = RemoveContainer { force: true, ..RemoveContainer::default() };
        root.engine.container_remove(&id, force, Some(&soon())).expect("remove");
        assert_eq!(next_actions(&mut events), ["kill", "die", "destroy"].map(|action| format!("container {action}")));
        gone(&root.engine, &id);
    }
    let id = root.create("killed", going(&["sleep", "1000"]));
    root.start(&id);
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    gone(&root.engine, &id);
}

#[test]
fn auto_remove_excludes_a_restart_policy() {
    let root = Root::new();
    let mut body = going(&["sleep", "1000"]);
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "always" });
    let text = "can't create 'AutoRemove' container with restart policy";
    fails(root.try_create("both", body), ErrorKind::Invalid, text);
    let id = root.create("one", going(&["sleep", "1000"]));
    let change = |name: &str| {
        let policy = RestartPolicy { name: name.into(), ..RestartPolicy::default() };
        root.engine.container_update(&id, &UpdateContainer { restart_policy: policy, ..UpdateContainer::default() })
    };
    let text = "Restart policy cannot be updated because AutoRemove is enabled for the container";
    fails(change("always"), ErrorKind::Conflict, text);
    change("no").expect("no policy");
}

#[test]
fn ten_at_once_under_load_lose_no_code() {
    let root = Root::new();
    let _busy = busy(4);
    let run = |number: i32| {
        for round in 0..3 {
            let code = 10 * number + round;
            let id = root.create("", going(&["sh", "-c", &format!("exit {code}")]));
            let removed = root.engine.container_wait_begin(&id, WaitCondition::Removed).expect("begin");
            let ended = root.engine.container_wait_begin(&id, WaitCondition::NextExit).expect("begin");
            let session = root.engine.container_start(&id, Some(Io::default()), Some(&soon())).expect("start").session;
            let told = ended.wait(Some(&soon())).expect("wait").status_code;
            let gone = removed.wait(Some(&soon())).expect("wait").status_code;
            let own = session.expect("a session").wait(Some(&soon())).expect("wait");
            assert_eq!((told, gone, own), (code, code, code));
            assert!(!directory(&root, &id).exists());
        }
    };
    std::thread::scope(|scope| (0..10).for_each(|number| drop(scope.spawn(move || run(number)))));
    assert!(root.names(&ListContainers { all: true, ..ListContainers::default() }).is_empty());
}

#[test]
fn a_late_reader_gets_the_whole_output() {
    let root = Root::new();
    // Less than a pipe and the monitor keep.
    let id =
        root.create("talks", going(&["sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done"]));
    let session = root.engine.container_start(&id, Some(Io::default()), Some(&soon())).expect("start").session;
    wait_for("its removal", || !directory(&root, &id).exists());
    let said = read_output(&session.expect("a session")).out();
    assert_eq!((said.lines().count(), said.lines().last()), (2000, Some("line 1999")));
}

// parameter: POST /containers/{name}/wait: condition
#[test]
fn waits_end_with_what_they_name() {
    let root = Root::new();
    let wait = |id: &str, condition| root.engine.container_wait_begin(id, condition).expect("begin");
    let code = |wait: coracle::ContainerWait| wait.wait(Some(&soon())).expect("wait").status_code;
    let id = root.create("stays", body(&["sh", "-c", "exit 5"], json!({})));
    let (now, next) = (wait(&id, WaitCondition::NotRunning), wait(&id, WaitCondition::NextExit));
    assert_eq!(code(now), 0);
    root.start(&id);
    assert_eq!(code(next), 5);
    assert_eq!(root.wait(&id), 5);
    // The container does not run: its next end is not this one.
    let next = wait(&id, WaitCondition::NextExit);
    let short = coracle::Op::new().expect("an op");
    short.set_timeout(Some(Duration::from_millis(300)));
    fails(wait(&id, WaitCondition::NextExit).wait(Some(&short)), ErrorKind::Timeout, "");
    let removed = wait(&id, WaitCondition::Removed);
    root.engine.container_remove(&id, RemoveContainer::default(), None).expect("remove");
    assert_eq!((code(next), code(removed)), (5, 5));
    let never = root.create("never", body(&["true"], json!({})));
    let (next, removed) = (wait(&never, WaitCondition::NextExit), wait(&never, WaitCondition::Removed));
    root.engine.container_remove(&never, RemoveContainer::default(), None).expect("remove");
    assert_eq!((code(next), code(removed)), (0, 0));
}

#[test]
fn a_next_exit_is_one_whatever_the_restart_policy_does() {
    let root = Root::new();
    let host = json!({ "HostConfig": { "RestartPolicy": { "Name": "always" } } });
    let id = root.create("restarts", body(&["sh", "-c", "sleep 0.2; exit 6"], host));
    root.start(&id);
    for _ in 0..2 {
        let waited = root.engine.container_wait_for(&id, WaitCondition::NextExit, Some(&soon())).expect("wait");
        assert_eq!(waited.status_code, 6);
    }
    root.engine.container_stop(&id, Some(0), Some(&soon())).expect("stop");
}

/// Like `docker run --rm` of present clients: the wait's head, then the start.
#[test]
fn over_http_the_wait_has_begun_when_its_head_comes() {
    let served = Served::new();
    for code in [0, 3, 200] {
        let body = going(&["sh", "-c", &format!("exit {code}")]);
        assert_eq!(whole(&served, "POST", "/containers/create?name=now", &body).0, "HTTP/1.1 201 Created");
        let (mut stream, line) = ask(&served, "POST", "/containers/now/wait?condition=removed", "", "");
        assert_eq!(line, "HTTP/1.1 200 OK");
        assert_eq!(whole(&served, "POST", "/containers/now/start", &Value::Null).0, "HTTP/1.1 204 No Content");
        let mut text = String::new();
        let mut bytes = [0; 512];
        while !text.contains('}') {
            let got = stream.read(&mut bytes).expect("the answer");
            assert!(got > 0, "{text}");
            text.push_str(std::str::from_utf8(&bytes[..got]).expect("text"));
        }
        assert!(text.contains(&format!("{{\"StatusCode\":{code}}}")), "{text}");
        assert_eq!(whole(&served, "GET", "/containers/now/json", &Value::Null).0, "HTTP/1.1 404 Not Found");
    }
    let (line, said) = whole(&served, "POST", "/containers/now/wait?condition=removed", &Value::Null);
    assert_eq!(
        (line.as_str(), &said["message"]),
        ("HTTP/1.1 404 Not Found", &json!("No such container: now")),
        "{said}"
    );
    let (line, said) = whole(&served, "POST", "/containers/now/wait?condition=never", &Value::Null);
    assert_eq!((line.as_str(), &said["message"]), ("HTTP/1.1 400 Bad Request", &json!("invalid condition: \"never\"")));
}

#[test]
fn a_restart_in_steps_keeps_the_container() {
    let root = Root::new();
    let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let id = root.create("goes", body(&["sh", "-c", script], host(json!({ "AutoRemove": true }))));
    root.start(&id);
    root.wait_for("its trap", || root.logs(&id).out() == "ready");
    let before = root.pid(&id);
    let engine = &root.engine;
    let ended = |restart: &mut coracle::ContainerRestart| {
        coracle::Op::wait_readable(Some(&soon()), restart.fd().expect("it runs"), None).expect("the end");
        restart.try_end().expect("an end")
    };
    let mut restart = engine.container_restart_begin(&id, &Default::default(), Some(&soon())).expect("begin");
    assert!(ended(&mut restart));
    // The container has ended, and is still there.
    assert_eq!(root.status(&id), "exited");
    restart.finish(Some(&soon())).expect("start");
    assert_ne!(root.pid(&id), before);
    // A restart that is given up leaves a container that goes.
    root.wait_for("its trap again", || root.logs(&id).out().ends_with("ready\nready"));
    let mut given_up = engine.container_restart_begin(&id, &Default::default(), Some(&soon())).expect("begin");
    assert!(ended(&mut given_up));
    drop(given_up);
    root.wait_for("its removal", || engine.container_inspect(&id, false).is_err());
}
