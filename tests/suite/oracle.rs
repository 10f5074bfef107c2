//! Each create request goes to dockerd and to this engine: what the process sees, what inspect answers, what is
//! refused.
//!
//! The requests are `tests/oracle/containers/*.json`. `tests/oracle/differences.json` lists the differences with their
//! reasons: another difference fails, and so does an entry without a difference. A few of the requests are compared
//! always, all of them with `CORACLE_TORTURE`.

use crate::docker_cli::Served;
use crate::support::dockerd::Dockerd;
use crate::support::*;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The facts that a container prints about itself.
const LOOK: &str = "for f in status limits mountinfo cgroup; do echo \"== $f\"; cat /proc/self/$f; done; \
                    echo == env; env; for f in hosts hostname resolv.conf; do echo \"== $f\"; cat /etc/$f; done; \
                    echo == rest; pwd; id; cat /proc/1/comm; hostname; echo == dev; ls -1 /dev";

/// Each so many'th request is compared always.
const SAMPLE: usize = 22;

struct Request {
    what: String,
    body: Value,
}

fn requests() -> Vec<Request> {
    let dir = project().join("tests/oracle/containers");
    let mut files: Vec<_> = std::fs::read_dir(dir).expect("requests").flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let list: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&file).expect("read")).expect("a list");
        for one in list {
            let what = format!("{name}: {}", one["what"].as_str().expect("what"));
            all.push(Request { what, body: completed(&one["body"]) });
        }
    }
    all
}

/// The image, the look and no network, where the request says nothing else.
fn completed(asked: &Value) -> Value {
    let Value::Object(more) = asked else { return json!({}) };
    let mut body = json!({ "Image": IMAGE, "Cmd": ["sh", "-c", LOOK], "HostConfig": { "NetworkMode": "none" } });
    for (key, value) in more {
        match (key.as_str(), value) {
            ("HostConfig", Value::Object(host)) => host.iter().for_each(|(k, v)| body["HostConfig"][k] = v.clone()),
            _ => body[key] = value.clone(),
        }
    }
    body
}

/// One request over a socket; HTTP/1.0, so that the answer's end is the connection's.
pub(crate) fn call(socket: &Path, method: &str, path: &str, body: Option<&Value>) -> (u16, Vec<u8>) {
    call_bytes(socket, method, path, body.map(Value::to_string).unwrap_or_default().as_bytes())
}

/// Like [`call`], with any body.
pub(crate) fn call_bytes(socket: &Path, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    call_at(socket, "1.24", method, path, body)
}

/// Like [`call_bytes`], at any version of the API.
pub(crate) fn call_at(socket: &Path, version: &str, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = UnixStream::connect(socket).expect("connect");
    stream.set_read_timeout(Some(SOON * 4)).expect("set a time-out");
    let head = format!(
        "{method} /v{version}{path} HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).expect("send");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let split = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let status = String::from_utf8_lossy(&answer[9..12]).parse().expect("a status");
    (status, answer.split_off(split + 4))
}

pub(crate) fn document(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// Everything that one engine says to a request, as names and values.
fn facts(socket: &Path, name: &str, request: &Request) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let (status, created) = call(socket, "POST", &format!("/containers/create?name={name}"), Some(&request.body));
    let created = document(&created);
    facts.insert("create.status".into(), status.to_string());
    if status != 201 {
        facts.insert("create.message".into(), text(&created["message"]));
        return facts;
    }
    for (index, warning) in created["Warnings"].as_array().into_iter().flatten().enumerate() {
        facts.insert(format!("create.warning.{index}"), text(warning));
    }
    let id = text(&created["Id"]);
    let (status, started) = call(socket, "POST", &format!("/containers/{id}/start"), None);
    facts.insert("start.status".into(), status.to_string());
    if status >= 400 {
        facts.insert("start.message".into(), text(&document(&started)["message"]).replace(&id, "ID"));
    } else {
        call(socket, "POST", &format!("/containers/{id}/wait"), None);
        let (_, log) = call(socket, "GET", &format!("/containers/{id}/logs?stdout=1&stderr=1"), None);
        let tty = request.body["Tty"] == true;
        seen(&if tty { log } else { unframed(&log) }, &id, &mut facts);
    }
    let (_, detail) = call(socket, "GET", &format!("/containers/{id}/json"), None);
    let mut detail = document(&detail);
    // dockerd has them in any order.
    if let Some(mounts) = detail["Mounts"].as_array_mut() {
        mounts.sort_by_key(|mount| text(&mount["Destination"]));
    }
    flat("inspect", &detail, &id, &mut facts);
    let (status, _) = call(socket, "DELETE", &format!("/containers/{id}?force=1&v=1"), None);
    facts.insert("remove.status".into(), status.to_string());
    facts
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn unframed(mut log: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [_, 0, 0, 0, a, b, c, d, rest @ ..] = log {
        let length = (u32::from_be_bytes([*a, *b, *c, *d]) as usize).min(rest.len());
        out.extend(&rest[..length]);
        log = &rest[length..];
    }
    out
}

/// The output of the process, by its sections.
fn seen(log: &[u8], id: &str, facts: &mut BTreeMap<String, String>) {
    let text = String::from_utf8_lossy(log).replace('\r', "").replace(id, "ID").replace(&id[..12], "ID");
    let mut section = "output".to_owned();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            section = name.to_owned();
            continue;
        }
        let (key, value) = match section.as_str() {
            "status" => match line.split_once(':') {
                Some((key, value)) if STATUS.contains(&key) => (key.to_owned(), value.trim().to_owned()),
                _ => continue,
            },
            "limits" => match line.split_at_checked(26) {
                Some((key, value)) if key.starts_with("Max ") => {
                    (key.trim().to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" "))
                }
                _ => continue,
            },
            "mountinfo" => mount(line),
            "cgroup" => match line.splitn(3, ':').collect::<Vec<_>>()[..] {
                [_, names, path] => (names.to_owned(), path.to_owned()),
                _ => continue,
            },
            "dev" => (line.to_owned(), "there".to_owned()),
            "env" => line.split_once('=').map_or((line.into(), String::new()), |(k, v)| (k.into(), v.into())),
            _ => {
                let count = counts.entry(section.clone()).or_default();
                *count += 1;
                (count.to_string(), line.to_owned())
            }
        };
        facts.insert(format!("{section}.{key}"), value);
    }
}

/// The lines of `/proc/self/status` that an engine answers for.
const STATUS: [&str; 18] = [
    "Umask",
    "Uid",
    "Gid",
    "Groups",
    "SigBlk",
    "SigIgn",
    "SigCgt",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "Cpus_allowed_list",
    "Mems_allowed_list",
    "THP_enabled",
];

/// A line of mountinfo: where, and what without numbers and paths that are the engine's own.
fn mount(line: &str) -> (String, String) {
    let words: Vec<&str> = line.split(' ').collect();
    let dash = words.iter().position(|word| *word == "-").unwrap_or(words.len() - 1);
    let bonds: Vec<&str> = words[6..dash].iter().map(|word| word.split(':').next().unwrap_or_default()).collect();
    let kind = words[dash + 1];
    let mut options: BTreeSet<&str> = words[dash + 3].split(',').collect();
    if kind == "overlay" || kind == "ext4" {
        options.retain(|option| matches!(*option, "ro" | "rw"));
    }
    let options: Vec<&str> = options.into_iter().collect();
    (words[4].to_owned(), format!("{} {} {kind} {}", words[5], bonds.join(","), options.join(",")))
}

/// A document as paths and values; what is different in every run is left out.
fn flat(path: &str, value: &Value, id: &str, facts: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            if fields.is_empty() {
                facts.insert(path.into(), "{}".into());
            }
            fields.iter().for_each(|(key, value)| flat(&format!("{path}.{key}"), value, id, facts));
        }
        Value::Array(list) if !list.is_empty() => {
            list.iter().enumerate().for_each(|(at, value)| flat(&format!("{path}.{at}"), value, id, facts));
        }
        other => {
            let text = text(other).replace(id, "ID").replace(&id[..12], "ID");
            facts.insert(path.into(), text);
        }
    }
}

/// `*` at the end of a place stands for anything.
fn covers(place: &str, name: &str) -> bool {
    match place.strip_suffix('*') {
        Some(head) => name.starts_with(head),
        None => place == name,
    }
}

#[test]
fn containers_are_as_dockerd_makes_them() {
    let whole = std::env::var_os("CORACLE_TORTURE").is_some();
    let requests = requests();
    assert!(requests.len() >= 60, "{} requests", requests.len());
    let mut known: Vec<Map<String, Value>> =
        serde_json::from_str(&std::fs::read_to_string(project().join("tests/oracle/differences.json")).expect("read"))
            .expect("a list");
    let apparmor = kernel::has_apparmor();
    known.retain(|one| apparmor || one.get("kernel").is_none_or(|kernel| kernel != "apparmor"));
    let served = Served::new();
    let dockerd = Dockerd::start(&served.root.dir.join("dockerd"));
    dockerd.docker(&["load", "-q", "-i", &busybox_archive().to_string_lossy()]);
    let theirs = served.root.dir.join("dockerd/sock");
    let chosen: Vec<(usize, &Request)> =
        requests.iter().enumerate().filter(|(at, _)| whole || at % SAMPLE == 0).collect();
    let (mut wrong, mut met) = (Vec::new(), BTreeSet::new());
    for (number, request) in chosen {
        let name = format!("oracle-{number}");
        let (there, here) = (facts(&theirs, &name, request), facts(&served.socket, &name, request));
        // If only one of them ran, that is the difference.
        let ran = |facts: &BTreeMap<String, String>| {
            facts.contains_key("inspect.State.ExitCode") && facts["start.status"] == "204"
        };
        let apart = ran(&there) != ran(&here);
        let names: BTreeSet<&String> = there.keys().chain(here.keys()).collect();
        for name in names.into_iter().filter(|name| !apart || name.starts_with("create.") || name.starts_with("start."))
        {
            let (a, b) = (there.get(name), here.get(name));
            if a == b {
                continue;
            }
            let reason = known.iter().position(|one| {
                let in_request = one.get("in").and_then(Value::as_str).is_none_or(|what| covers(what, &request.what));
                in_request && covers(one["where"].as_str().expect("where"), name)
            });
            match reason {
                Some(index) => drop(met.insert(index)),
                None => wrong.push(format!("{}: {name}\n    dockerd: {a:?}\n    here:    {b:?}", request.what)),
            }
        }
    }
    if whole {
        let gone = known.iter().enumerate().filter(|(index, _)| !met.contains(index));
        wrong.extend(gone.map(|(_, one)| format!("no difference any more: {}", Value::Object(one.clone()))));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}
