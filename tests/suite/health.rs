//! Health checks: made by the monitor, whoever is there.

use crate::support::*;
use coracle::model::*;
use serde_json::{Value, json};
use std::time::Duration;

const MS: i64 = 1_000_000;

/// A container that stays, with a health check every 50 ms.
fn checked(root: &Root, name: &str, test: Value, more: Value) -> String {
    let mut check = json!({ "Test": test, "Interval": 50 * MS, "Timeout": 5000 * MS, "Retries": 2 });
    for (key, value) in more.as_object().expect("an object") {
        check[key] = value.clone();
    }
    root.sleeper_with(name, json!({ "Healthcheck": check }))
}

const DAY: i64 = 86_400_000 * MS;

/// How long after midnight a moment is, in nanoseconds: `2026-11-22T03:04:05.678Z`.
fn of_day(time: &str) -> i64 {
    let parts: Vec<&str> = time.split(['T', ':', '.', 'Z']).collect();
    let number = |at: usize| parts[at].parse::<i64>().unwrap_or_else(|_| panic!("{time}"));
    let fraction = if parts.len() > 5 { format!("{:0<9}", parts[4]).parse().expect("digits") } else { 0 };
    (number(1) * 3600 + number(2) * 60 + number(3)) * 1000 * MS + fraction
}

fn health(root: &Root, id: &str) -> Health {
    root.inspect(id).state.health.expect("a health")
}

fn wait_for_health(root: &Root, id: &str, status: &str) {
    wait_for(status, || health(root, id).status == status);
}

fn list_status(root: &Root, id: &str) -> String {
    let all = root.engine.container_list(&ListContainers { all: true, ..ListContainers::default() }).expect("list");
    all.into_iter().find(|c| c.id == id).expect("it is listed").status
}

// field: Config.Healthcheck.Test
// filter: health
#[test]
fn a_check_follows_the_container_s_health() {
    let root = Root::new();
    let events = &mut root.engine.events(&EventQuery::default()).expect("events");
    let id = checked(&root, "web", json!(["CMD-SHELL", "echo seen; test ! -e /tmp/sick"]), json!({}));
    wait_for_health(&root, &id, "healthy");
    let first = health(&root, &id);
    let result = &first.log[0];
    assert_eq!((result.exit_code, result.output.as_str(), first.failing_streak), (0, "seen\n", 0));
    assert!(result.start < result.end, "{result:?}");
    assert!(list_status(&root, &id).ends_with(" (healthy)"), "{}", list_status(&root, &id));
    root.exec(&id, &["sh", "-c", "mkdir -p /tmp; touch /tmp/sick"]).ok();
    wait_for_health(&root, &id, "unhealthy");
    let sick = health(&root, &id);
    // The second failure in a row made it so, not the first.
    let failed = sick.log.iter().position(|result| result.exit_code == 1).expect("a failure");
    let second = of_day(&sick.log[failed + 1].end);
    assert!(sick.failing_streak >= 2 && sick.log.last().expect("results").exit_code == 1, "{sick:?}");
    assert!(list_status(&root, &id).ends_with(" (unhealthy)"));
    root.exec(&id, &["rm", "/tmp/sick"]).ok();
    wait_for_health(&root, &id, "healthy");
    wait_for("five results", || health(&root, &id).log.len() == 5);
    let filter = |value: &str| {
        let filters = Filters::from([("health".to_owned(), vec![value.to_owned()])]);
        root.names(&ListContainers { all: true, filters, ..ListContainers::default() })
    };
    assert_eq!((filter("healthy"), filter("unhealthy")), (vec!["web".to_owned()], vec![]));

    let mut told = Vec::new();
    let seen = events_until(events, |e| {
        told.extend(e.action.strip_prefix("health_status: ").map(str::to_owned));
        told.len() == 3
    });
    assert_eq!(told, ["healthy", "unhealthy", "healthy"]);
    let unhealthy = seen.iter().find(|e| e.action == "health_status: unhealthy").expect("it was told");
    assert!((unhealthy.time_nano - second).rem_euclid(DAY) < DAY / 2, "told after one failure: {sick:?}");
    let checks: Vec<&Event> = seen.iter().filter(|e| e.action.starts_with("exec_")).take(3).collect();
    let command = "/bin/sh -c echo seen; test ! -e /tmp/sick";
    let actions: Vec<&str> = checks.iter().map(|e| e.action.as_str()).collect();
    assert_eq!(actions, [&format!("exec_create: {command}"), &format!("exec_start: {command}"), "exec_die"]);
    let of = |event: &Event, key: &str| event.actor.attributes.get(key).cloned().unwrap_or_default();
    assert!(checks.iter().all(|e| of(e, "execID").len() == 64 && of(e, "execID") == of(checks[0], "execID")));
    assert_eq!((of(checks[2], "exitCode").as_str(), of(checks[0], "name").as_str()), ("0", "web"));
}

// field: Config.Healthcheck.Interval
// field: Config.Healthcheck.Retries
#[test]
fn checks_go_on_while_no_program_is_there() {
    let root = Root::new();
    let script = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
    let check = json!({ "Test": ["CMD-SHELL", "test ! -e /sick"], "Interval": 50 * MS, "Retries": 1 });
    let id = root.create("survivor", body(&["sh", "-c", script], json!({ "Healthcheck": check })));
    let starter =
        super::roots_engines::spawn_worker("start-and-vanish", &root, 0).wait().expect("wait for the starter");
    assert!(!starter.success(), "the starter was to be killed");
    wait_for_health(&root, &id, "healthy");
    // No program of this root does anything, and still:
    std::thread::sleep(Duration::from_millis(600));
    let last = health(&root, &id).log.pop().expect("a result");
    let mut log = Vec::new();
    wait_for("checks that go on", || {
        log = health(&root, &id).log;
        log.last().expect("a result").start > last.end
    });
    // Each begins an interval after the end of the one before it.
    for pair in log.windows(2) {
        let wait = (of_day(&pair[1].start) - of_day(&pair[0].end)).rem_euclid(DAY);
        assert!((50 * MS..10_000 * MS).contains(&wait), "{wait} ns between two checks");
    }
}

#[test]
fn a_check_that_is_killed_before_it_has_begun_exceeded_its_time() {
    let root = Root::new();
    let id = checked(&root, "hasty", json!(["CMD-SHELL", "sleep 777"]), json!({ "Timeout": MS }));
    wait_for("five checks", || health(&root, &id).log.len() == 5);
    for check in health(&root, &id).log {
        assert_eq!((check.exit_code, check.output.as_str()), (-1, "Health check exceeded timeout (1ms)"));
    }
}

// field: Config.Healthcheck.Timeout
#[test]
fn a_check_that_hangs_is_killed_and_has_failed() {
    let root = Root::new();
    let id = checked(&root, "hangs", json!(["CMD-SHELL", "sleep 777 & sleep 777"]), json!({ "Timeout": 100 * MS }));
    wait_for_health(&root, &id, "unhealthy");
    let log = health(&root, &id).log;
    assert_eq!((log[0].exit_code, log[0].output.as_str()), (-1, "Health check exceeded timeout (100ms)"));
    // At most one check's shell and its two children: those before were killed, children and all. A process that was killed
    // takes a moment to go, and no step while the container is frozen.
    wait_for("the processes of checks to be few", || {
        root.engine.container_pause(&id).expect("pause");
        let left = root.engine.container_top(&id, "").expect("top").processes;
        root.engine.container_unpause(&id).expect("unpause");
        left.iter().filter(|row| row.last().is_some_and(|command| command.contains("777"))).count() <= 3
    });
}

#[test]
fn a_check_that_cannot_run_says_the_reason() {
    let root = Root::new();
    let id = checked(&root, "missing", json!(["CMD", "no-such-program", "x"]), json!({}));
    wait_for_health(&root, &id, "unhealthy");
    let result = health(&root, &id).log[0].clone();
    assert_eq!(result.exit_code, -1);
    assert!(result.output.contains("\"no-such-program\": executable file not found in $PATH"), "{result:?}");
    assert_eq!(root.status(&id), "running");
}

#[test]
fn output_is_bounded() {
    let root = Root::new();
    let script = "seq 100000 >&2; echo end";
    let id = checked(&root, "wordy", json!(["CMD-SHELL", script]), json!({}));
    wait_for_health(&root, &id, "healthy");
    let output = health(&root, &id).log[0].output.clone();
    assert_eq!((output.len(), &output[..6], &output[4096..]), (4099, "1\n2\n3\n", "..."));
}

// field: Config.Healthcheck.StartPeriod
#[test]
fn failures_in_the_start_period_do_not_count() {
    let root = Root::new();
    let test = json!(["CMD", "false"]);
    let id = checked(&root, "slow", test.clone(), json!({ "StartPeriod": 600_000 * MS }));
    wait_for("five results", || health(&root, &id).log.len() == 5);
    let now = health(&root, &id);
    assert_eq!((now.status.as_str(), now.failing_streak), ("starting", 0));
    assert!(list_status(&root, &id).ends_with(" (health: starting)"));
    // After the first success they do.
    let id = checked(
        &root,
        "once",
        json!(["CMD-SHELL", "test ! -e /once || exit 3; touch /once"]),
        json!({ "StartPeriod": 600_000 * MS }),
    );
    wait_for_health(&root, &id, "unhealthy");
    // And after the period, whatever was before.
    let mut events = root.engine.events(&EventQuery::default()).expect("events");
    let id = checked(&root, "late", json!(["CMD", "false"]), json!({ "StartPeriod": 300 * MS, "Retries": 1 }));
    let seen = events_until(&mut events, |event| event.action == "health_status: unhealthy" && event.actor.id == id);
    let started = seen.iter().find(|event| event.action == "start").expect("its start").time_nano;
    let after = seen.last().expect("events").time_nano - started;
    assert!(after >= 300 * MS, "unhealthy {after} ns after its start");
}

// field: Config.Healthcheck.Test
#[test]
fn the_image_s_check_fills_omitted_fields_and_none_switches_checks_off() {
    let root = Root::new();
    let check = json!({ "Test": ["CMD", "echo", "of the image"], "Interval": 50 * MS, "Retries": 1 });
    let before = root.create("before", body(&["true"], json!({ "Healthcheck": check })));
    assert_eq!(root.inspect(&before).state.health, None, "it was never started");
    let how = CommitContainer { repo: "checked".into(), ..CommitContainer::default() };
    root.engine.container_commit(&before, &how, Some(&soon())).expect("commit");
    let started = |name: &str, image: &str, check: Value| {
        let mut more = json!({ "Image": image });
        if !check.is_null() {
            more["Healthcheck"] = check;
        }
        let id = root.create(name, body(&["sleep", "1000"], more));
        root.start(&id);
        id
    };
    // Nothing said, no test, a time alone: the rest is the image's. A test of its own has the image's times.
    let inherits = [
        ("all", Value::Null, "of the image\n", 0),
        ("empty", json!({ "Test": [] }), "of the image\n", 0),
        ("time", json!({ "Interval": 20 * MS }), "of the image\n", 0),
        ("test", json!({ "Test": ["CMD-SHELL", "echo its own; exit 1"] }), "its own\n", 1),
    ];
    for (name, check, output, code) in inherits {
        let id = started(name, "checked", check);
        wait_for_health(&root, &id, if code == 0 { "healthy" } else { "unhealthy" });
        let first = health(&root, &id).log[0].clone();
        assert_eq!((first.output.as_str(), first.exit_code), (output, code), "{name}");
    }
    // Switched off; and nobody said what to run.
    let off = started("off", "checked", json!({ "Test": ["NONE"] }));
    let nothing = started("nothing", IMAGE, json!({ "Test": [], "Interval": 50 * MS }));
    std::thread::sleep(Duration::from_millis(120));
    for id in [off, nothing] {
        assert_eq!(root.inspect(&id).state.health, None);
        assert_eq!(root.engine.container_top(&id, "").expect("top").processes.len(), 1);
    }
}

#[test]
fn no_checks_while_it_is_frozen_or_ended() {
    let root = Root::new();
    let id = checked(&root, "rests", json!(["CMD-SHELL", "echo x; sleep 0.02"]), json!({}));
    wait_for_health(&root, &id, "healthy");
    root.engine.container_pause(&id).expect("pause");
    assert_eq!(health(&root, &id).status, "unhealthy");
    // The monitor may still have to note the end of a check.
    wait_for("the checks to rest", || {
        let last = health(&root, &id).log.last().cloned();
        std::thread::sleep(Duration::from_millis(300));
        health(&root, &id).log.last().cloned() == last
    });
    root.engine.container_unpause(&id).expect("unpause");
    wait_for_health(&root, &id, "healthy");
    root.engine.container_stop(&id, Some(5000), Some(&soon())).expect("stop");
    let after = health(&root, &id);
    assert_eq!((after.status.as_str(), after.log.last().map(|r| r.exit_code)), ("unhealthy", Some(0)), "{after:?}");
    root.start(&id);
    assert_eq!(health(&root, &id).status, "starting");
    wait_for_health(&root, &id, "healthy");
}

#[test]
fn a_check_costs_no_stop_its_time() {
    let root = Root::new();
    let id = checked(&root, "stops", json!(["CMD", "sleep", "1000"]), json!({ "Timeout": 600_000 * MS }));
    wait_for("a check", || root.engine.container_top(&id, "").expect("top").processes.len() > 2);
    root.engine.container_kill(&id, None, Some(&soon())).expect("kill");
    assert_eq!((root.status(&id).as_str(), health(&root, &id).log.len()), ("exited", 0));
}
