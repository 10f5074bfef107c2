//! Requests at versions of the API from 1.25 to 1.41, which dockerd 20.10 speaks, too: statuses, messages, and the members of the
//! answers with their types.
//!
//! `tests/oracle/versions.json` holds the requests and the known differences with their reasons: another difference fails, and so
//! does a listed one that is there no more. They are asked of dockerd with `CORACLE_TORTURE`; else this engine alone is asked
//! whether it answers all of them.

use crate::docker_cli::Served;
use crate::oracle::{call_bytes, document, text};
use crate::support::dockerd::Dockerd;
use crate::support::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each of them brought something that the requests look at.
const VERSIONS: [&str; 6] = ["1.25", "1.30", "1.32", "1.35", "1.40", "1.41"];

/// Three containers, a volume and a network, which all requests may look at; they go with this value, while the engine lives.
struct Prepared(PathBuf);

impl Drop for Prepared {
    fn drop(&mut self) {
        for path in ["/containers/run1", "/containers/stop1", "/containers/made1", "/networks/own-net", "/networks/x"] {
            // The network x is there if an engine took a request for it.
            call_bytes(&self.0, "DELETE", &format!("{path}?force=1&v=1"), b"");
        }
    }
}

fn prepare(socket: &Path) -> Prepared {
    let sleep = json!(["sleep", "10000"]);
    let bodies = [
        (
            "run1",
            json!({ "Cmd": sleep, "Labels": { "a": "b" }, "HostConfig": { "Binds": ["data:/data"], "NetworkMode": "none" } }),
        ),
        ("stop1", json!({ "Cmd": ["true"], "HostConfig": { "NetworkMode": "none" } })),
        ("made1", json!({ "Cmd": ["true"], "HostConfig": { "NetworkMode": "own-net" } })),
    ];
    let must = |method: &str, path: &str, body: &Value| {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let (status, said) = call_bytes(socket, method, path, text.as_bytes());
        assert!(status < 300, "{path}: {status} {}", String::from_utf8_lossy(&said));
    };
    let prepared = Prepared(socket.to_owned());
    must("POST", "/networks/create", &json!({ "Name": "own-net" }));
    for (name, mut body) in bodies {
        body["Image"] = json!(IMAGE);
        must("POST", &format!("/containers/create?name={name}"), &body);
        if name != "made1" {
            must("POST", &format!("/containers/{name}/start"), &Value::Null);
        }
    }
    must("POST", "/containers/stop1/wait", &Value::Null);
    prepared
}

/// The status, the message or the members of an answer, by name.
fn facts(socket: &Path, version: &str, ask: &Value) -> BTreeMap<String, String> {
    let words = text(&ask["ask"]);
    let (method, path) = words.split_once(' ').expect("a method and a path");
    let body = ask.get("body").map(Value::to_string).unwrap_or_default();
    let (status, bytes) = crate::oracle::call_at(socket, version, method, path, body.as_bytes());
    let mut facts = BTreeMap::from([("status".to_owned(), status.to_string())]);
    let said = document(&bytes);
    match &said["message"] {
        Value::String(message) if status >= 400 => drop(facts.insert("message".into(), message.clone())),
        _ => members("", &said, &mut facts),
    }
    facts
}

/// The members of a document and their types; of a list those of its first item, of a map by free names those of its first value.
fn members(place: &str, value: &Value, facts: &mut BTreeMap<String, String>) {
    const FREE: [&str; 6] = [".Labels", ".Networks", ".networks", ".Containers", ".Runtimes", ".Volumes"];
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    facts.insert(place.to_owned(), kind.to_owned());
    match value {
        Value::Array(items) => items.iter().take(1).for_each(|item| members(&format!("{place}[]"), item, facts)),
        Value::Object(all) if FREE.iter().any(|free| place.ends_with(free)) => {
            all.values().take(1).for_each(|one| members(&format!("{place}.*"), one, facts));
        }
        Value::Object(all) => all.iter().for_each(|(name, one)| members(&format!("{place}.{name}"), one, facts)),
        _ => {}
    }
}

fn covers(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(head) => name.starts_with(head),
        None => pattern == name,
    }
}

/// Asks both engines everything at each version.
fn compared(here: &Path, theirs: &Path, list: &Value) -> Vec<String> {
    let asks = list["asks"].as_array().expect("requests");
    let known = list["differences"].as_array().expect("differences");
    let (mut wrong, mut met) = (BTreeMap::<String, Vec<&str>>::new(), BTreeSet::new());
    for version in VERSIONS {
        for ask in asks {
            let words = text(&ask["ask"]);
            let (a, b) = (facts(theirs, version, ask), facts(here, version, ask));
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names.into_iter().filter(|name| a.get(*name) != b.get(*name)) {
                let reason = known.iter().position(|one| {
                    let of = one["ask"].as_str().expect("a request");
                    covers(of, &words) && covers(one["where"].as_str().expect("where"), name)
                });
                match reason {
                    Some(index) => drop(met.insert(index)),
                    None => {
                        let line = format!(
                            "{words} {}: {name}\n    dockerd: {:?}\n    here:    {:?}",
                            ask["body"],
                            a.get(name),
                            b.get(name)
                        );
                        wrong.entry(line).or_default().push(version);
                    }
                }
            }
        }
    }
    let mut lines: Vec<String> =
        wrong.into_iter().map(|(line, versions)| format!("{} {line}", versions.join(","))).collect();
    let gone = known.iter().enumerate().filter(|(index, _)| !met.contains(index));
    lines.extend(gone.map(|(_, one)| format!("no difference any more: {one}")));
    lines
}

#[test]
fn versions_to_1_41_are_answered_as_dockerd_answers_them() {
    let list = std::fs::read_to_string(project().join("tests/oracle/versions.json")).expect("read");
    let list: Value = serde_json::from_str(&list).expect("a document");
    let served = Served::new();
    let _here = prepare(&served.socket);
    if std::env::var_os("CORACLE_TORTURE").is_some() {
        let dockerd = Dockerd::start(&served.root.dir.join("dockerd"));
        dockerd.docker(&["load", "-q", "-i", &busybox_archive().to_string_lossy()]);
        let theirs = served.root.dir.join("dockerd/sock");
        let _there = prepare(&theirs);
        let wrong = compared(&served.socket, &theirs, &list);
        assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
        return;
    }
    for ask in list["asks"].as_array().expect("requests") {
        for version in VERSIONS {
            let status = &facts(&served.socket, version, ask)["status"];
            assert!(status != "404" && status != "500", "{version} {}: {status}", ask["ask"]);
        }
    }
}
