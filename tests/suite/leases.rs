//! Containers that end with their host program, or with the last holder of their lease.

use crate::cli;
use crate::roots_engines::has_ended;
use crate::support::*;
use coracle::model::*;
use coracle::{Engine, ErrorKind};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Tells the program that it is the host of [`ephemeral_host`], and where its root is.
const HOST: &str = "CORACLE_TEST_EPHEMERAL_HOST";

/// The containers of the host, each of another kind.
const KINDS: [&str; 4] = ["plain", "stubborn", "paused", "restarting"];

/// Not a test of its own: a host program that holds an ephemeral engine until it is killed.
#[test]
fn ephemeral_host() {
    let Ok(dir) = std::env::var(HOST) else { return };
    let dir = PathBuf::from(dir);
    let mut options = options_at(&dir);
    options.ephemeral = true;
    let engine = Engine::open_with(options).expect("open");
    let make = |name: &str, command: &[&str], more: Value| {
        let body: CreateBody = serde_json::from_value(body(command, more)).expect("a body");
        engine.container_create(Some(name), &body).expect("create");
    };
    let always = host(json!({ "RestartPolicy": { "Name": "always" } }));
    make("plain", &["sleep", "1000"], json!({}));
    make("stubborn", &["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], always.clone());
    make("paused", &["sleep", "1000"], json!({}));
    make("restarting", &["false"], always);
    make("created", &["true"], json!({}));
    for name in KINDS {
        engine.container_start(name, None, Some(&soon())).expect("start");
    }
    engine.container_pause("paused").expect("pause");
    std::fs::write(dir.join("ready"), "").expect("tell");
    loop {
        std::thread::park();
    }
}

fn host_of(dir: &Path) -> Child {
    let mut host = Command::new(std::env::current_exe().expect("this program"));
    host.args(["--exact", "leases::ephemeral_host", "--nocapture", "--test-threads=1"]).env(HOST, dir);
    let host = host.stdout(std::process::Stdio::null()).spawn().expect("start a host");
    wait_for("the host's containers", || dir.join("ready").exists());
    host
}

fn all() -> ListContainers {
    ListContainers { all: true, ..ListContainers::default() }
}

#[test]
fn no_process_row_or_directory_of_an_ephemeral_engine_outlives_its_program() {
    let root = Root::new();
    let kept = root.create("kept", body(&["true"], json!({})));
    let mut host = host_of(&root.dir);
    let mut names = root.names(&all());
    names.sort();
    assert_eq!(names, ["created", "kept", "paused", "plain", "restarting", "stubborn"]);
    let monitors: Vec<i32> = ["plain", "stubborn", "paused"].iter().map(|name| monitor_of(root.pid(name))).collect();
    host.kill().expect("kill the host");
    host.wait().expect("wait for the host");
    wait_for("the monitors' ends", || monitors.iter().all(|&monitor| has_ended(monitor)));
    wait_for("the containers to go", || {
        let engine = root.reopen();
        engine.container_list(&all()).is_ok_and(|list| list.len() == 1)
    });
    let directories = |place: &str| {
        let entries = std::fs::read_dir(root.dir.join(place)).expect("read a directory");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect::<Vec<_>>()
    };
    assert_eq!(directories("root/containers"), [kept]);
    assert_eq!(directories("run/leases"), Vec::<String>::new());
}

#[test]
fn an_ephemeral_engine_that_is_closed_ends_its_containers() {
    let root = Root::new();
    let mut options = options_at(&root.dir);
    options.ephemeral = true;
    let engine = Engine::open_with(options).expect("open");
    let more: CreateBody = serde_json::from_value(body(&["sleep", "1000"], json!({}))).expect("a body");
    engine.container_create(Some("job"), &more).expect("create");
    engine.container_start("job", None, Some(&soon())).expect("start");
    // Another program's look does not end it.
    assert_eq!(root.reopen().container_inspect("job", false).expect("inspect").state.status, "running");
    let again = engine.clone();
    drop(engine);
    assert_eq!(again.container_inspect("job", false).expect("inspect").state.status, "running");
    drop(again);
    wait_for("the container to go", || root.names(&all()).is_empty());
}

#[test]
fn a_container_of_a_lease_ends_with_the_last_holder() {
    let root = Root::new();
    let leased =
        |name: &str| root.create(name, body(&["sleep", "1000"], json!({ "Labels": { "coracle.lease": "work" } })));
    let first = root.engine.lease("work").expect("hold");
    let id = leased("one");
    root.start(&id);
    let second = root.reopen().lease("work").expect("hold it too");
    drop(first);
    assert_eq!(root.exec(&id, &["echo", "lives"]).ok(), "lives");
    let wait = root.engine.container_wait_begin(&id, WaitCondition::NextExit).expect("begin");
    drop(second);
    assert_eq!(wait.wait(Some(&soon())).expect("wait").status_code, 137);
    wait_for("the container to go", || root.names(&all()).is_empty());
    let third = root.engine.lease("work").expect("hold anew");
    let id = leased("two");
    drop(third);
    fails(root.engine.container_start(&id, None, Some(&soon())), ErrorKind::NotFound, "No such container");
    let unheld = root.try_create("three", body(&["true"], json!({ "Labels": { "coracle.lease": "work" } })));
    fails(unheld, ErrorKind::Conflict, "nobody holds the lease work of the container");
    let odd = root.try_create("odd", body(&["true"], json!({ "Labels": { "coracle.lease": "a/b" } })));
    fails(odd, ErrorKind::Invalid, "lease \"a/b\"");
}

#[test]
fn the_command_holds_leases() {
    let root = Root::new();
    let (out, run) = (root.dir.join("root"), root.dir.join("run"));
    let started = format!(
        "{} --root {} --run {} run -d --name leased --network none --lease shift busybox sleep 1000 && echo started",
        built("coracle").display(),
        out.display(),
        run.display()
    );
    let said = cli::ok(&root, &["hold", "shift", "sh", "-c", &started]);
    assert!(said.ends_with("started"), "{said}");
    wait_for("the container to go", || root.names(&all()).is_empty());
    let (code, text) = cli::failed(&root, &["hold", "shift", "sh", "-c", "exit 7"]);
    assert_eq!((code, text.as_str()), (7, ""));
    let (code, text) = cli::failed(&root, &["--ephemeral", "run", "-d", "busybox", "true"]);
    assert!(code == 125 && text.contains("--ephemeral and --detach"), "{code} {text}");
    assert_eq!(cli::ok(&root, &["--ephemeral", "run", "--network", "none", "busybox", "echo", "here"]), "here");
    assert!(root.reopen().container_list(&all()).expect("list").is_empty());
    let mut child = cli::coracle(&root.dir)
        .args(["--ephemeral", "run", "--name", "fore", "--network", "none", "busybox", "sleep", "1000"])
        .spawn()
        .expect("run coracle");
    wait_for("the container", || root.names(&ListContainers::default()) == ["fore"]);
    let wait = root.engine.container_wait_begin("fore", WaitCondition::NextExit).expect("begin");
    child.kill().expect("kill the command");
    child.wait().expect("wait for it");
    assert_eq!(wait.wait(Some(&soon())).expect("wait").status_code, 137);
    wait_for("the container to go", || root.names(&all()).is_empty());
}
