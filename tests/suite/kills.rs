//! Programs that use the library are killed at any moment, and so are monitors: containers outlive the first with all
//! that they write, and end with the second, which is told.
//!
//! A run takes a few; `CORACLE_KILLS=N` in the environment sets how many, and 50 containers.

use crate::roots_engines::{kill_monitor, spawn_worker};
use crate::support::*;
use coracle::model::*;
use coracle::{AttachOptions, Engine, Io};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

fn kills() -> Option<usize> {
    std::env::var("CORACLE_KILLS").ok().and_then(|text| text.parse().ok())
}

fn containers() -> usize {
    if kills().is_some() { 50 } else { 6 }
}

fn name(number: usize) -> String {
    format!("steady-{number}")
}

/// Each container counts, and ends with a code of its own.
fn create_all(root: &Root) {
    for number in 0..containers() {
        let code = number + 10;
        let script =
            format!("trap 'echo end; exit {code}' TERM; i=0; while :; do echo $i; i=$((i+1)); sleep 0.1; done");
        root.create(&name(number), body(&["sh", "-c", &script], json!({ "OpenStdin": true })));
    }
}

#[test]
fn killed_programs_harm_no_container() {
    let root = Root::new();
    create_all(&root);
    // The programs that started them are gone, too.
    let mut starter = spawn_worker("start-all", &root, 0);
    assert!(!starter.wait().expect("wait for the starter").success(), "it was to be killed");
    let pids: Vec<i32> = (0..containers()).map(|number| root.pid(&name(number))).collect();
    let mut random = Random(2026);
    let kills = kills().unwrap_or(10);
    for round in 0..kills {
        let mut worker = spawn_worker("busy", &root, round);
        // From the moment before it opens the root until far into its work.
        std::thread::sleep(Duration::from_millis(random.below(250) as u64));
        worker.kill().expect("kill the program");
        worker.wait().expect("reap it");
    }
    for (number, pid) in pids.iter().enumerate() {
        let state = root.inspect(&name(number)).state;
        assert_eq!((state.status.as_str(), state.pid), ("running", *pid), "{}", name(number));
    }
    for number in 0..containers() {
        let name = name(number);
        root.engine.container_stop(&name, Some(20_000), Some(&soon())).unwrap_or_else(|e| panic!("stop {name}: {e}"));
        assert_eq!(root.inspect(&name).state.exit_code, number as i32 + 10, "{name}");
        let text = root.logs(&name).out();
        let mut lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.pop(), Some("end"), "{name}: the last line");
        for (at, line) in lines.iter().enumerate() {
            assert_eq!(*line, at.to_string(), "{name}: line {at} of {}", lines.len());
        }
    }
    // An open sweeps what they left half done.
    drop(root.reopen());
    let left = std::fs::read_dir(root.dir.join("root/tmp")).expect("staging").flatten().map(|one| one.file_name());
    assert!(left.into_iter().all(|name| name == "empty"), "staging is left");
    println!("{kills} programs killed beside {} containers", containers());
}

/// The work of the killed programs: everything that reaches into a running container.
pub fn program(engine: &Engine, number: usize) {
    let mut random = Random(number as u64 * 31 + 7);
    let op = soon();
    let op = Some(&op);
    loop {
        let name = name(random.below(containers()));
        match random.below(8) {
            0 => drop(engine.container_list(&ListContainers { all: true, ..ListContainers::default() })),
            1 => drop(engine.container_inspect(&name, random.below(2) == 0)),
            2 => {
                if let Ok(mut log) = engine.container_logs(&name, &LogQuery { follow: true, ..LogQuery::default() }, op)
                {
                    for _ in 0..20 {
                        let _ = log.next(Some(Duration::from_millis(20)), op);
                    }
                }
            }
            3 => {
                let config: ExecConfig = serde_json::from_value(json!({ "Cmd": ["true"] })).expect("an exec body");
                if let Ok(exec) = engine.exec_create(&name, &config) {
                    let _ = engine.exec_start(&exec, None, op);
                }
            }
            4 => {
                if let Ok(session) = engine.container_attach(&name, Io::default(), AttachOptions::default(), op) {
                    let short = coracle::Op::new().expect("an operation");
                    short.set_timeout(Some(Duration::from_millis(50)));
                    let _ = session.read(&mut [0; 4096], Some(&short));
                }
            }
            5 => drop(engine.container_stats(&name, StatsQuery { stream: false, one_shot: true })),
            6 if random.below(5) == 0 => drop(
                engine.container_create(None, &serde_json::from_value(body(&["true"], json!({}))).expect("a body")),
            ),
            _ => drop(engine.container_top(&name, "")),
        }
    }
}

/// Starts them all, and ends as a crash does.
pub fn start_all(engine: &Engine) {
    for number in 0..containers() {
        engine.container_start(&name(number), None, Some(&soon())).expect("start");
    }
    nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).expect("kill");
}

#[test]
fn every_killed_monitor_is_told() {
    let root = Root::new();
    create_all(&root);
    let listener = root.reopen();
    let mut events = listener.events(&EventQuery::default()).expect("events");
    let rounds = kills().unwrap_or(6).div_ceil(containers());
    let mut random = Random(6202);
    for _ in 0..rounds {
        let mut left: BTreeSet<String> = BTreeSet::new();
        for number in 0..containers() {
            root.start(&name(number));
            left.insert(root.inspect(&name(number)).id);
        }
        let pids: Vec<i32> = (0..containers()).map(|number| root.pid(&name(number))).collect();
        let mut order: Vec<usize> = (0..containers()).collect();
        while !order.is_empty() {
            let number = order.swap_remove(random.below(order.len()));
            std::thread::sleep(Duration::from_millis(random.below(20) as u64));
            kill_monitor(&root, &name(number));
        }
        let seen = events_until(&mut events, |event| {
            if event.action == "die" {
                assert!(left.remove(&event.actor.id), "a second end of {}", event.actor.id);
                assert_eq!(event.actor.attributes["exitCode"], "137");
            }
            left.is_empty()
        });
        assert_eq!(actions(&seen).iter().filter(|action| **action == "die").count(), containers());
        for (number, pid) in pids.into_iter().enumerate() {
            wait_for("its processes to go", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
            assert_eq!(root.status(&name(number)), "exited");
        }
    }
}
