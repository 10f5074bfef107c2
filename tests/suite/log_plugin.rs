//! Log drivers that are plugins: a real one, in another process, behind a socket and a FIFO.

use crate::support::*;
use coracle::ShipLogs;
use coracle::model::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Command};

struct Plugin {
    child: Option<Child>,
    dir: PathBuf,
}

impl Plugin {
    fn start(root: &Root) -> Plugin {
        let dir = root.dir.join("plugins");
        std::fs::create_dir_all(&dir).expect("a directory");
        let mut plugin = Plugin { child: None, dir };
        plugin.run();
        plugin
    }

    fn run(&mut self) {
        let socket = self.dir.join("scribe.sock");
        let program = project().join("tests/support/log-plugin.py");
        let mut command = Command::new("python3");
        command.arg(program).args([&socket, &self.dir.join("calls.log"), &self.dir.join("out")]);
        self.child = Some(command.spawn().expect("python3"));
        wait_for("the plugin", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn calls(&self, method: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.join("calls.log")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.strip_prefix(&format!("LogDriver.{method} ")));
        lines.map(|body| serde_json::from_str(body).expect("JSON")).collect()
    }

    /// The messages of a container that the plugin has got.
    fn out(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.join("out")).unwrap_or_default();
        let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        whole.filter(|one| one[0] == name).map(|one| one[1].clone()).collect()
    }

    fn lines(&self, name: &str) -> Vec<String> {
        self.out(name).iter().map(|one| one["line"].as_str().unwrap_or_default().to_owned()).collect()
    }

    fn rules(&self, rules: &Value) {
        let next = self.dir.join("next");
        std::fs::write(&next, rules.to_string()).expect("write the rules");
        std::fs::rename(next, self.dir.join("calls.log.rules")).expect("publish the rules");
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.kill();
    }
}

fn root_with_plugin() -> (Root, Plugin) {
    let root = Root::with(|options| {
        options.plugin_dirs = vec![options.root.with_file_name("plugins")];
        options.ship_logs = ShipLogs::Program;
    });
    root.load(&busybox_archive());
    let plugin = Plugin::start(&root);
    (root, plugin)
}

fn logged(script: &str, options: &Value) -> Value {
    body(
        &["sh", "-c", script],
        json!({ "Labels": { "team": "a" }, "HostConfig": { "LogConfig": { "Type": "scribe", "Config": options } } }),
    )
}

fn delivery(root: &Root, id: &str) -> LogDelivery {
    root.inspect(id).state.log_delivery.expect("State.LogDelivery")
}

fn await_delivery(root: &Root, id: &str) -> LogDelivery {
    root.wait_for("the delivery", || delivery(root, id).owed.lines == 0);
    delivery(root, id)
}

fn remove(root: &Root, id: &str) {
    let how = RemoveContainer { force: true, ..RemoveContainer::default() };
    root.engine.container_remove(id, how, Some(&soon())).expect("remove");
}

#[test]
fn lines_reach_a_plugin_and_can_be_read_here() {
    let (root, plugin) = root_with_plugin();
    let script = "seq 1 300; echo problem >&2; head -c 40000 /dev/zero | tr '\\0' x; echo";
    let id = root.create("web", logged(script, &json!({ "color": "blue" })));
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let all = await_delivery(&root, &id);
    assert_eq!((all.driver.as_str(), all.delivered, all.lost, all.last_error.as_str()), ("scribe", 304, 0, ""));
    let out = plugin.out("web");
    let plain: Vec<_> = out.iter().filter(|one| one["source"] == "stdout" && one["part"].is_null()).collect();
    assert_eq!(plain.len(), 300);
    assert!(plain.iter().zip(1..).all(|(one, number)| one["line"] == json!(format!("{number}"))));
    assert!(out.iter().any(|one| one["source"] == "stderr" && one["line"] == "problem"));
    let parts: Vec<_> = out.iter().filter(|one| !one["part"].is_null()).map(|one| &one["part"]).collect();
    let ends: Vec<_> = parts.iter().map(|part| (part[1].clone(), part[2].clone())).collect();
    assert_eq!(ends, [(json!(1), json!(false)), (json!(2), json!(false)), (json!(3), json!(true))]);
    assert!(parts.iter().all(|part| part[0] == parts[0][0]));
    let started = plugin.calls("StartLogging");
    let info = &started[0]["Info"];
    assert_eq!(started.len(), 1);
    assert_eq!((&info["Config"], &info["ContainerID"]), (&json!({ "color": "blue" }), &json!(id)));
    assert_eq!((&info["ContainerName"], &info["ContainerEntrypoint"]), (&json!("/web"), &json!("sh")));
    assert_eq!((&info["ContainerLabels"], &info["DaemonName"]), (&json!({ "team": "a" }), &json!("docker")));
    assert_eq!(root.logs(&id).stderr, b"problem\n");
    // The container's end is that of the stream, and its FIFO goes.
    let fifo = PathBuf::from(started[0]["File"].as_str().expect("a path"));
    root.wait_for("StopLogging", || plugin.calls("StopLogging") == [json!({ "File": fifo })]);
    root.wait_for("the FIFO's end", || !fifo.exists());
    remove(&root, &id);
}

/// The FIFOs that the plugin was told of and those that it was told to leave, in order.
fn streams(plugin: &Plugin) -> [Vec<Value>; 2] {
    ["StartLogging", "StopLogging"].map(|method| plugin.calls(method).iter().map(|call| call["File"].clone()).collect())
}

#[test]
fn a_plugin_is_told_of_each_end_while_other_containers_run() {
    let (root, plugin) = root_with_plugin();
    let long = root.create("long", logged("echo first; sleep 1000", &json!({})));
    let short = root.create("short", logged("echo one", &json!({})));
    root.start(&long);
    root.wait_for("the long one's line", || plugin.lines("long") == ["first"]);
    for round in 1..=3 {
        root.start(&short);
        root.wait(&short);
        root.wait_for("StopLogging", || plugin.calls("StopLogging").len() == round);
        let [started, stopped] = streams(&plugin);
        assert_eq!((started.len(), &started[1..]), (round + 1, &stopped[..]));
    }
    assert_eq!(plugin.lines("short"), ["one", "one", "one"]);
    // A program that is told to end tells the plugin, too, though the container runs.
    end_program(&root, libc::SIGTERM);
    root.wait_for("the last StopLogging", || plugin.calls("StopLogging").len() == 4);
    let [started, stopped] = streams(&plugin);
    assert_eq!(stopped.last(), started.first());
}

#[test]
fn a_stream_that_a_killed_program_left_is_ended_by_the_next_one() {
    let (root, plugin) = root_with_plugin();
    let id = root.create("long", logged("echo first; sleep 1000", &json!({})));
    root.start(&id);
    root.wait_for("the line", || plugin.lines("long") == ["first"]);
    await_delivery(&root, &id);
    end_program(&root, libc::SIGKILL);
    // The open root starts another one. Nothing is owed: it says so without a new stream.
    root.wait_for("StopLogging", || plugin.calls("StopLogging").len() == 1);
    let [started, stopped] = streams(&plugin);
    assert_eq!(started, stopped);
    remove(&root, &id);
}

/// The lock's file, which says which processes deliver for a root.
pub fn holder(root: &Root) -> Value {
    let text = std::fs::read(root.dir.join("run/ship.lock")).expect("the lock's file");
    serde_json::from_slice(&text).expect("a document")
}

/// Ends both processes that deliver for a root.
pub fn end_program(root: &Root, signal: i32) {
    let document = holder(root);
    let pid = |name: &str| {
        let number = i32::try_from(document[name].as_i64().expect("a number")).expect("a process's number");
        // A lock that nobody holds any more names the process 0, which would be all processes of the tests.
        assert!(number > 0, "no {name}: {document}");
        nix::unistd::Pid::from_raw(number)
    };
    let signal = nix::sys::signal::Signal::try_from(signal).expect("a signal");
    for pid in ["Keeper", "Worker"].map(pid) {
        // After SIGTERM the keeper ends the worker, too, which may be gone by now. After SIGKILL the worker would live on.
        let _ = nix::sys::signal::kill(pid, signal);
    }
}

#[test]
fn a_driver_that_is_not_a_plugin_is_refused_and_bad_options_are_named() {
    let (root, plugin) = root_with_plugin();
    let of = |kind: &str, config: Value| {
        let host = json!({ "HostConfig": { "LogConfig": { "Type": kind, "Config": config } } });
        root.try_create("x", body(&["true"], host)).expect_err("refused")
    };
    let none = of("nosuch", json!({}));
    assert_eq!((none.http_status(), none.message()), (400, "logger: no log driver named 'nosuch' is registered"));
    assert_eq!(of("../scribe", json!({})).message(), "logger: no log driver named '../scribe' is registered");
    assert_eq!(of("scribe", json!({ "mode": "fast" })).message(), "logger: logging mode not supported: fast");
    // A plugin that is gone fails the start; the container is as before.
    let id = root.create("gone", logged("echo hello", &json!({})));
    std::fs::remove_file(plugin.dir.join("scribe.sock")).expect("remove the socket");
    let error = root.engine.container_start(&id, None, Some(&soon())).expect_err("refused");
    assert!(error.message().contains("failed to initialize logging driver: plugin \"scribe\" not found"), "{error}");
    assert_eq!(root.status(&id), "created");
}

#[test]
fn a_plugin_that_fails_holds_up_its_container_s_lines_alone() {
    let (root, plugin) = root_with_plugin();
    let (broken, says) = (["hanging", "chatty", "strict", "lazy"], "echo one; sleep 0.2; echo two");
    plugin.rules(&json!({ "hanging": "hang", "chatty": "garbage", "strict": "unknown option blue", "lazy": "unread" }));
    let all: Vec<String> = broken.iter().map(|name| root.create(name, logged(says, &json!({})))).collect();
    let well = root.create("well", logged(says, &json!({})));
    for id in all.iter().chain([&well]) {
        root.start(id);
    }
    // Starts and ends wait for no plugin, and logs can be read.
    for id in all.iter().chain([&well]) {
        assert_eq!(root.wait(id), 0);
        assert_eq!(root.logs(id).stdout, b"one\ntwo\n");
    }
    await_delivery(&root, &well);
    assert_eq!(plugin.lines("well"), ["one", "two"]);
    root.wait_for("the errors", || {
        delivery(&root, &all[1]).last_error == "the log plugin answered an error: no JSON: garbage"
            && delivery(&root, &all[2]).last_error == "the log plugin answered an error: unknown option blue"
    });
    assert!(all.iter().all(|id| delivery(&root, id).owed.lines == 2));
    plugin.rules(&json!({}));
    for (id, name) in all.iter().zip(broken) {
        assert_eq!(await_delivery(&root, id).last_error, "", "{name}");
        assert_eq!(plugin.lines(name), ["one", "two"], "{name}");
    }
}

#[test]
fn a_plugin_that_does_not_read_holds_the_output_within_the_spool_s_bounds() {
    let (root, plugin) = root_with_plugin();
    plugin.rules(&json!({ "full": "unread", "drops": "unread" }));
    let bounds = json!({ "cache-max-size": "100k", "cache-max-file": "2", "cache-compress": "false" });
    let mut drops = bounds.clone();
    drops["mode"] = json!("non-blocking");
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); printf '%060d\\n' $i; done; echo done";
    let full = root.create("full", logged(script, &bounds));
    let loose = root.create("drops", logged(script, &drops));
    root.start(&full);
    root.start(&loose);
    // Lines give way in one mode; in the other one the container waits, and can be ended.
    assert_eq!(root.wait(&loose), 0);
    assert_eq!(root.status(&full), "running", "{:?}", delivery(&root, &full));
    plugin.rules(&json!({}));
    assert_eq!(root.wait(&full), 0);
    assert_eq!((await_delivery(&root, &full).lost, plugin.lines("full").len()), (0, 20001));
    let some = await_delivery(&root, &loose);
    assert!(some.lost > 0);
    let dropped = root.inspect(&loose).state.log_lost.unsigned_abs();
    assert_eq!(some.lost + some.delivered + dropped, 20001, "{dropped} dropped");
    assert_eq!(plugin.lines("drops").len() as u64, some.delivered);
}

#[test]
fn no_line_is_lost_while_a_plugin_dies_and_comes_back() {
    let (root, mut plugin) = root_with_plugin();
    let id = root.create("long", logged("for i in $(seq 1 60); do echo $i; sleep 0.05; done", &json!({})));
    root.start(&id);
    for rest in [10, 25, 40] {
        root.wait_for("some lines", || plugin.lines("long").iter().any(|line| *line == rest.to_string()));
        plugin.kill();
        plugin.run();
    }
    assert_eq!(root.wait(&id), 0);
    let all = await_delivery(&root, &id);
    assert_eq!((all.delivered, all.lost), (60, 0));
    // The lines that the plugin read last before its end come again.
    let (mut seen, lines) = (0, plugin.lines("long"));
    for line in &lines {
        let number: i32 = line.parse().expect("a number");
        assert!(number <= seen + 1, "{number} after {seen}");
        seen = seen.max(number);
    }
    assert_eq!(seen, 60);
    // A container that is removed while its plugin is away leaves its lines to the outbox.
    let last = root.create("last", logged("echo bye", &json!({})));
    plugin.kill();
    root.start(&last);
    root.wait(&last);
    remove(&root, &last);
    plugin.run();
    root.wait_for("the line of the removed container", || plugin.lines("last") == ["bye"]);
}
