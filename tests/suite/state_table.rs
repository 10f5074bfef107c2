//! The table of docs/lifecycle.md by deed: each request of a container in each state that a test can hold.

use crate::support::*;
use coracle::model::{CommitContainer, RemoveContainer, UpdateContainer};
use coracle::{Engine, Error};
use serde_json::json;
use std::collections::BTreeMap;

/// The cells of the page: by request and state.
fn table() -> BTreeMap<(String, String), String> {
    let text = std::fs::read_to_string(project().join("docs/lifecycle.md")).expect("read the page");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let (head, rest) = rows.split_first().expect("a table");
    let cell = |row: &Vec<&str>, at: usize| ((row[0].to_owned(), head[at].to_owned()), row[at].to_owned());
    rest.iter().flat_map(|row| (1..head.len()).map(move |at| cell(row, at))).collect()
}

/// A container that its policy starts again and again.
fn begun(root: &Root, number: usize) -> String {
    let always = json!({ "HostConfig": { "RestartPolicy": { "Name": "always" } } });
    let id = root.create(&format!("restarts-{number}"), body(&["false"], always));
    root.start(&id);
    id
}

/// A container in a state; where that is to wait for a restart, one of `restarts`.
fn made(root: &Root, state: &str, restarts: &mut Vec<String>) -> String {
    let name = format!("is-{state}");
    let id = match state {
        "created" => return root.create(&name, body(&["sleep", "1000"], json!({}))),
        "exited" => root.create(&name, body(&["true"], json!({}))),
        "restarting" => restarts.pop().expect("one is left"),
        _ => root.create(&name, body(&["sleep", "1000"], json!({}))),
    };
    if state != "restarting" {
        root.start(&id);
    }
    match state {
        "paused" => root.engine.container_pause(&id).expect("pause"),
        // After some ends the delay is long enough for any request. All come there at the same time.
        "restarting" => wait_for("a long delay", || root.inspect(&id).restart_count >= 7 && root.status(&id) == state),
        _ => wait_for(state, || root.status(&id) == state),
    }
    id
}

fn ask(engine: &Engine, request: &str, id: &str) -> Result<(), Error> {
    let removal = |force| RemoveContainer { force, ..RemoveContainer::default() };
    match request {
        "start" => engine.container_start(id, None, None).map(drop),
        "stop" => engine.container_stop(id, Some(0), Some(&soon())).map(drop),
        "restart" => engine.container_restart(id, Some(0), Some(&soon())),
        "kill" => engine.container_kill(id, None, Some(&soon())),
        "pause" => engine.container_pause(id),
        "unpause" => engine.container_unpause(id),
        "exec" => {
            engine.exec_create(id, &serde_json::from_value(json!({ "Cmd": ["true"] })).expect("a body")).map(drop)
        }
        "resize" => engine.container_resize(id, 24, 80),
        "top" => engine.container_top(id, "").map(drop),
        "remove" => engine.container_remove(id, removal(false), Some(&soon())),
        "remove by force" => engine.container_remove(id, removal(true), Some(&soon())),
        "update" => engine.container_update(id, &UpdateContainer::default()).map(drop),
        "commit" => {
            engine.container_commit(id, &CommitContainer { pause: true, ..CommitContainer::default() }, None).map(drop)
        }
        other => panic!("no request {other}"),
    }
}

#[test]
fn each_request_is_met_in_each_state_as_the_page_says() {
    let root = Root::new();
    let mut restarts: Vec<String> = (0..13).map(|number| begun(&root, number)).collect();
    let mut seen = 0;
    for ((request, state), cell) in table() {
        // A start lasts a moment, and streams are attached by a session: tests of their own show both.
        if state == "starting" || request == "attach" {
            continue;
        }
        let id = made(&root, &state, &mut restarts);
        let answer = ask(&root.engine, &request, &id);
        let case = format!("{request} of a container that is {state}: {answer:?}");
        match cell.strip_prefix("refused: ") {
            None => assert!(answer.is_ok(), "{case}"),
            Some(why) => {
                let error = answer.expect_err(&case);
                let word = match why {
                    "not running" => "is not running",
                    "not paused" => "is not paused",
                    "restarting" => "is restarting, wait",
                    "paused already" => "is already paused",
                    "paused" => "paused",
                    "runs" => "cannot remove a running container",
                    "frozen" => "cannot remove a paused container",
                    "restarts" => "cannot remove a restarting container",
                    other => panic!("the page says {other}"),
                };
                assert!(error.message().contains(word), "{case}");
                assert_eq!(root.status(&id), state, "{case}: it is as it was");
            }
        }
        let force = RemoveContainer { force: true, ..RemoveContainer::default() };
        let _ = root.engine.container_remove(&id, force, Some(&soon()));
        seen += 1;
    }
    assert_eq!(seen, 13 * 5);
}
