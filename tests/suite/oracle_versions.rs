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

/// Files of a container and of a volume, of sizes that no other has: one with two names, one with a hole, and a link.
const FILES: &str = "for d in /own /data; do mkdir -p $d/deep; head -c 300001 /dev/zero >$d/one; ln $d/one $d/deep/two; \
                     ln -s one $d/link; dd if=/dev/zero of=$d/hole bs=1 count=1 seek=70000 2>/dev/null; done; sync";

fn prepare(socket: &Path) -> Prepared {
    let sleep = json!(["sleep", "10000"]);
    let bodies = [
        (
            "run1",
            json!({ "Cmd": sleep, "Labels": { "a": "b" }, "HostConfig": { "Binds": ["data:/data"], "NetworkMode": "none" } }),
        ),
        (
            "stop1",
            json!({ "Cmd": ["sh", "-c", FILES], "HostConfig": { "Binds": ["data:/data"], "NetworkMode": "none" } }),
        ),
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

/// The numbers of the disk usage, by their names.
fn sizes(socket: &Path) -> BTreeMap<String, i64> {
    let (status, bytes) = crate::oracle::call_at(socket, "1.41", "GET", "/system/df", b"");
    assert_eq!(status, 200);
    let usage = document(&bytes);
    let mut sizes = BTreeMap::new();
    let mut add = |name: String, value: &Value| {
        let number = value.as_i64().unwrap_or_else(|| panic!("{name} must be a number: {value}"));
        sizes.insert(name, number);
    };
    add("layers".into(), &usage["LayersSize"]);
    let items = |list: &str| usage[list].as_array().filter(|items| !items.is_empty()).expect(list).clone();
    for image in items("Images") {
        for member in ["Size", "SharedSize", "Containers"] {
            add(format!("{} {member}", image["RepoTags"]), &image[member]);
        }
    }
    for container in items("Containers") {
        for member in ["SizeRw", "SizeRootFs"] {
            // Absent: none.
            add(format!("{} {member}", container["Names"]), container.get(member).unwrap_or(&json!(0)));
        }
    }
    for volume in items("Volumes") {
        for member in ["Size", "RefCount"] {
            add(format!("{} {member}", text(&volume["Name"])), &volume["UsageData"][member]);
        }
    }
    sizes
}

/// The disk usage of the same content is that of dockerd, within a block.
fn same_sizes(here: &Path, theirs: &Path) {
    let (ours, theirs) = (sizes(here), sizes(theirs));
    assert!(ours.get("data Size").is_some_and(|size| *size > 300_000), "{ours:?}");
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    for name in names {
        let (a, b) = (ours.get(name), theirs.get(name));
        let near = a.zip(b).is_some_and(|(a, b)| a.abs_diff(*b) <= 4096);
        assert!(near, "{name}: here {a:?}, dockerd {b:?}\nhere {ours:?}\ndockerd {theirs:?}");
    }
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
        same_sizes(&served.socket, &theirs);
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
