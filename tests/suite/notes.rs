//! The library's log, its numbers, and its health.

use crate::docker_cli::Served;
use crate::http::ask;
use crate::support::registry::{Answered, Scripted};
use crate::support::*;
use coracle::model::PullImage;
use coracle::{LogLevel, set_log};
use serde_json::json;
use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The lines that were noted of one container while `work` ran.
fn noted(id: &str, work: impl FnOnce()) -> Vec<String> {
    lines_with(&format!("container={id}"), work)
}

/// The process has one sink.
static TURN: Mutex<()> = Mutex::new(());

/// The lines with `wanted` in them that were noted while `work` ran.
fn lines_with(wanted: &str, work: impl FnOnce()) -> Vec<String> {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let (sink, wanted) = (Arc::clone(&lines), wanted.to_owned());
    // Other tests of this program are noted, too.
    let take = move |note: &coracle::LogNote<'_>| {
        let line = note.to_string();
        if line.contains(&wanted) {
            sink.lock().expect("the lines").push(format!("{:?} {}: {line}", note.level, note.area));
        }
    };
    set_log(LogLevel::Debug, Some(Arc::new(take)));
    work();
    set_log(LogLevel::Debug, None);
    let lines = lines.lock().expect("the lines");
    lines.clone()
}

#[test]
fn a_start_and_a_stop_are_noted_and_a_failing_start_tells_its_step_and_errno() {
    let root = Root::new();
    let id = root.sleeper("works");
    root.engine.container_stop(&id, Some(5000), Some(&soon())).expect("stop");
    let lines = noted(&id, || {
        root.start(&id);
        root.engine.container_stop(&id, Some(0), Some(&soon())).expect("stop");
    });
    let has = |lines: &[String], begin: &str, part: &str| {
        lines.iter().any(|line| line.starts_with(begin) && line.contains(part))
    };
    assert!(has(&lines, "Info container: start: done container=", " took="), "{lines:?}");
    assert!(has(&lines, "Debug network: on 0 networks", " took="), "{lines:?}");
    assert!(has(&lines, "Info container: stop: done", " took="), "{lines:?}");
    let bad = root.create("bad", body(&["/nosuch"], json!({})));
    let lines = noted(&bad, || assert!(root.engine.container_start(&bad, None, Some(&soon())).is_err()));
    assert!(has(&lines, "Debug launch: step ", "ENOENT (2)"), "{lines:?}");
    assert!(has(&lines, "Info container: start: exec: \"/nosuch\"", "no such file"), "{lines:?}");
}

#[test]
fn restarts_by_policy_are_noted_at_the_next_look() {
    let root = Root::new();
    let policy = json!({ "HostConfig": { "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 2 } } });
    let id = root.create("fails", body(&["sh", "-c", "exit 3"], policy));
    let lines = noted(&id, || {
        root.start(&id);
        let ended = || root.engine.container_inspect(&id, false).expect("inspect");
        wait_for("the last end", || ended().restart_count == 2 && ended().state.status == "exited");
    });
    let noted: Vec<&String> = lines.iter().filter(|line| line.contains("restart by its policy")).collect();
    assert!(noted.iter().all(|line| line.starts_with("Info container: ")), "{lines:?}");
    assert!(noted.last().is_some_and(|line| line.contains("2 in all")), "{lines:?}");
    assert!(noted.len() <= 2, "each is noted once: {lines:?}");
}

#[test]
fn attempts_at_a_registry_and_the_pull_are_noted() {
    let asked = AtomicU32::new(0);
    let server = Scripted::start(move |request| match request.target.contains("/manifests/") {
        true if asked.fetch_add(1, Ordering::SeqCst) == 0 => Answered::new(503, "{}").with("Retry-After", "0"),
        _ => Answered::new(404, "{}"),
    });
    let root = Root::empty();
    let request = PullImage { name: format!("{}/made/hand:1", server.host()), ..PullImage::default() };
    let lines = lines_with(&server.host(), || {
        assert!(root.engine.image_pull_tags(&request, &mut |_| Ok(()), Some(&soon())).is_err());
    });
    let again: Vec<&String> =
        lines.iter().filter(|line| line.contains("another attempt in 0ns: GET http://")).collect();
    assert!(
        again.len() == 1 && again[0].starts_with("Info registry: ") && again[0].contains("status 503"),
        "{lines:?}"
    );
    assert!(lines.iter().any(|line| line.starts_with("Info image: pull ") && line.contains(" took=")), "{lines:?}");
}

#[test]
fn a_sweep_and_the_making_of_firewalls_are_noted() {
    let root = Root::new();
    let lines = lines_with("sweep: done", || {
        root.engine.sweep().expect("sweep");
    });
    assert!(lines.iter().any(|line| line.starts_with("Info store: sweep: done took=")), "{lines:?}");
    let id = root.create("web", body(&["true"], json!({ "HostConfig": { "NetworkMode": "bridge" } })));
    let lines = lines_with("", || {
        root.start(&id);
        root.wait(&id);
    });
    let firewall = |line: &String| line.starts_with("Info network: firewall of ") && line.contains(" took=");
    assert!(lines.iter().any(firewall), "{lines:?}");
    let on_networks = |line: &String| line.contains("on 1 networks") && line.contains(&format!("container={id}"));
    assert!(lines.iter().any(on_networks), "{lines:?}");
}

#[test]
fn the_numbers_count_states_and_work_and_cost_little() {
    let root = Root::new();
    let id = root.sleeper("runs");
    root.create("made", body(&["true"], json!({})));
    let bad = root.create("bad", body(&["/nosuch"], json!({})));
    assert!(root.engine.container_start(&bad, None, Some(&soon())).is_err());
    root.engine.container_pause(&id).expect("pause");
    let metrics = root.engine.metrics().expect("metrics");
    assert_eq!((metrics.containers["paused"], metrics.containers["created"]), (1, 2), "{metrics:?}");
    assert!(metrics.images == 1 && metrics.layer_bytes > 100_000, "{metrics:?}");
    let start = metrics.operations.iter().find(|one| one.operation == "start").expect("starts");
    assert_eq!((start.done, start.failed), (1, 1));
    assert!(start.seconds > 0.0);
    root.engine.container_unpause(&id).expect("unpause");
}

#[test]
fn a_server_tells_its_numbers_and_its_health() {
    let served = Served::new();
    let get = |path: &str| {
        let (mut stream, line) = ask(&served, "GET", path, "Connection: close\r\n", "");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("read the answer");
        assert!(line.contains(" 200 "), "{path}: {line} {text}");
        text
    };
    let text = get("/metrics");
    assert!(
        text.contains("coracle_images 1\n") && text.contains("coracle_containers{state=\"running\"} 0\n"),
        "{text}"
    );
    assert!(text.contains("coracle_operations_total{operation=\"start\",result=\"ok\"} 0\n"), "{text}");
    assert!(get("/healthz").contains("ok\n"));
}

/// Not asserted: `cargo test --test suite notes::cost -- --ignored --nocapture` prints it.
#[test]
#[ignore = "a measurement"]
fn cost() {
    let root = Root::new();
    for number in 0..100 {
        root.create(&format!("c{number}"), body(&["true"], json!({})));
    }
    let best = (0..50).map(|_| {
        let began = Instant::now();
        root.engine.metrics().expect("metrics");
        began.elapsed()
    });
    println!("metrics of 100 containers: {:?}", best.min().unwrap_or(Duration::MAX));
}
