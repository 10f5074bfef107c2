//! Answers of API 1.25 to 1.54 beside the published descriptions of these versions: no member that the version does not
//! describe, each member that is always there, and the right types.
//!
//! `tests/oracle/described/answers` holds the facts of the descriptions (`make` there writes them). `excused.json` beside it
//! lists the differences that stay, each with its reason: another difference fails, and so does a listed one that is there no
//! more. With `CORACLE_TORTURE`, dockerd 20.10 must have each difference that its reason blames on dockerd.

use crate::docker_cli::Served;
use crate::oracle::{call_at, document, text};
use crate::support::dockerd::Dockerd;
use crate::support::registry::Registry;
use crate::support::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

const OLDEST: u32 = 25;
const NEWEST: u32 = 54;
/// The last version that dockerd 20.10 speaks.
const NEWEST_THERE: u32 = 41;

/// A member's type in a range of versions.
struct Kind {
    letter: char,
    always: bool,
    nullable: bool,
    versions: RangeInclusive<u32>,
}

impl Kind {
    /// `s!? 25-40`, or without versions for all of them.
    fn read(text: &str) -> Kind {
        let (kind, versions) = text.split_once(' ').unwrap_or((text, ""));
        let (first, last) = versions.split_once('-').unwrap_or(("25", "54"));
        Kind {
            letter: kind.chars().next().expect("a letter"),
            always: kind.contains('!'),
            nullable: kind.contains('?'),
            versions: first.parse().expect("a version")..=last.parse().expect("a version"),
        }
    }

    fn fits(&self, value: &Value) -> bool {
        match (self.letter, value) {
            ('a', _) => true,
            // Empty lists and maps are null in the documents of Go programs, which the descriptions do not say.
            (letter, Value::Null) => self.nullable || letter == 'l' || letter == 'f',
            ('s', value) => value.is_string(),
            ('i', value) => value.is_i64() || value.is_u64(),
            ('n', value) => value.is_number(),
            ('b', value) => value.is_boolean(),
            ('l', value) => value.is_array(),
            (_, value) => value.is_object(),
        }
    }
}

/// The members of each request's answer.
type Table = BTreeMap<String, BTreeMap<String, Vec<Kind>>>;

fn table() -> Table {
    let text = std::fs::read_to_string(project().join("tests/oracle/described/answers")).expect("the facts");
    let mut table = Table::new();
    let mut request = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix(' ') {
            None => request = line.to_owned(),
            Some(member) => {
                let (path, kinds) = member.split_once(' ').expect("a path and its types");
                let kinds = kinds.split(", ").map(Kind::read).collect();
                let path = if path == "." { "" } else { path };
                table.entry(request.clone()).or_default().insert(path.to_owned(), kinds);
            }
        }
    }
    table
}

/// One version's description of one answer.
struct Described<'t> {
    members: BTreeMap<&'t str, &'t Kind>,
}

impl<'t> Described<'t> {
    fn of(table: &'t Table, request: &str, version: u32) -> Described<'t> {
        let members = &table.get(request).unwrap_or_else(|| panic!("{request} is not described"));
        let at = |kinds: &'t [Kind]| kinds.iter().find(|kind| kind.versions.contains(&version));
        Described { members: members.iter().filter_map(|(path, kinds)| Some((path.as_str(), at(kinds)?))).collect() }
    }

    /// Reports each difference between an answer and the description.
    fn compare(&self, path: &str, value: &Value, report: &mut dyn FnMut(String)) {
        let Some(kind) = self.members.get(path) else { return report(format!("{path} is not described")) };
        if !kind.fits(value) {
            return report(format!("{path} has another type"));
        }
        match value {
            Value::Array(items) => {
                let place = format!("{path}[]");
                if self.members.contains_key(place.as_str()) {
                    items.iter().for_each(|item| self.compare(&place, item, report));
                }
            }
            Value::Object(members) if kind.letter == 'f' => {
                let place = format!("{path}.*");
                if self.members.contains_key(place.as_str()) {
                    members.values().for_each(|value| self.compare(&place, value, report));
                }
            }
            Value::Object(members) if kind.letter == 'o' => {
                let place = |name: &str| format!("{path}.{name}").trim_start_matches('.').to_owned();
                members.iter().for_each(|(name, value)| self.compare(&place(name), value, report));
                for (other, kind) in &self.members {
                    let name = other.strip_prefix(path).map(|rest| rest.trim_start_matches('.'));
                    let is_own = |name: &&str| !name.is_empty() && *other == place(name) && !name.contains(['.', '[']);
                    if let Some(name) = name.filter(is_own).filter(|_| kind.always)
                        && !members.contains_key(name)
                    {
                        report(format!("{other} is missing"));
                    }
                }
            }
            _ => {}
        }
    }
}

/// A request of which the answer is compared: its name in the table, and its target.
struct Ask {
    name: &'static str,
    target: String,
    body: Value,
}

fn ask(name: &'static str, target: &str) -> Ask {
    Ask { name, target: target.to_owned(), body: Value::Null }
}

/// The objects that the requests look at; they go with this value.
struct Prepared {
    socket: PathBuf,
    asks: Vec<Ask>,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        for path in ["/containers/rich", "/containers/ended", "/containers/made", "/networks/pool", "/volumes/kept"] {
            call_at(&self.socket, "1.40", "DELETE", &format!("{path}?force=1&v=1"), b"");
        }
    }
}

/// The answer to a request that must succeed.
#[track_caller]
fn must(socket: &Path, method: &str, path: &str, body: &Value) -> Value {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let (status, said) = call_at(socket, "1.40", method, path, text.as_bytes());
    assert!(status < 300, "{path}: {status} {}", String::from_utf8_lossy(&said));
    document(&said)
}

/// A container with as many settings as all engines take.
fn rich(files: &Path) -> Value {
    let health = json!({ "Test": ["CMD-SHELL", "echo fine"], "Interval": 1_000_000_000u64, "Retries": 2 });
    let mounts = json!([
        { "Type": "volume", "Source": "kept", "Target": "/kept", "VolumeOptions": { "Labels": { "a": "b" } } },
        { "Type": "bind", "Source": files, "Target": "/bound", "ReadOnly": true, "BindOptions": { "Propagation": "rprivate" } },
        { "Type": "tmpfs", "Target": "/quick", "TmpfsOptions": { "SizeBytes": 65536 } },
    ]);
    let endpoint = json!({ "Aliases": ["other"], "IPAMConfig": { "IPv4Address": "10.213.78.9" } });
    json!({
        "Image": "labelled", "Cmd": ["sleep", "10000"], "Labels": { "a": "b" }, "Env": ["K=v"], "Healthcheck": health,
        "ExposedPorts": { "80/tcp": {} }, "Volumes": { "/own": {} }, "StopSignal": "SIGTERM", "StopTimeout": 1,
        "HostConfig": {
            "NetworkMode": "pool", "Mounts": mounts, "PortBindings": { "80/tcp": [{ "HostIp": "127.0.0.1" }] },
            "LogConfig": { "Type": "json-file", "Config": { "max-size": "1m" } }, "Memory": 64 << 20,
            "Ulimits": [{ "Name": "nofile", "Soft": 64, "Hard": 64 }], "Sysctls": { "net.ipv4.ip_forward": "0" },
            "Devices": [{ "PathOnHost": "/dev/null", "PathInContainer": "/dev/nothing", "CgroupPermissions": "r" }],
            "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 2 }, "Init": true, "CapAdd": ["NET_ADMIN"],
            "Tmpfs": { "/run": "size=64k" }, "ExtraHosts": ["a:127.0.0.1"], "ConsoleSize": [24, 80],
        },
        "NetworkingConfig": { "EndpointsConfig": { "pool": endpoint } },
    })
}

fn prepare(socket: &Path, files: &Path, distribution: Option<String>) -> Prepared {
    let made = must(socket, "POST", "/containers/create?name=made", &json!({ "Image": IMAGE, "Cmd": ["true"] }));
    let changes = "changes=LABEL+a=b&changes=ENV+K=v&changes=EXPOSE+80&changes=VOLUME+/own&changes=USER+0";
    must(
        socket,
        "POST",
        &format!("/commit?container={}&repo=labelled&author=a&comment=c&{changes}", text(&made["Id"])),
        &json!({}),
    );
    let pool = json!({ "Subnet": "10.213.78.0/24", "Gateway": "10.213.78.1", "IPRange": "10.213.78.0/25",
        "AuxiliaryAddresses": { "spare": "10.213.78.77" } });
    let ipam = json!({ "Driver": "default", "Config": [pool] });
    must(
        socket,
        "POST",
        "/networks/create",
        &json!({ "Name": "pool", "IPAM": ipam, "Labels": { "a": "b" }, "Options": {} }),
    );
    must(socket, "POST", "/volumes/create", &json!({ "Name": "kept", "Labels": { "a": "b" } }));
    must(socket, "POST", "/containers/create?name=rich", &rich(files));
    must(socket, "POST", "/containers/rich/start", &Value::Null);
    let ended = json!({ "Image": IMAGE, "Cmd": ["touch", "/new"], "HostConfig": { "NetworkMode": "none" } });
    must(socket, "POST", "/containers/create?name=ended", &ended);
    must(socket, "POST", "/containers/ended/start", &Value::Null);
    must(socket, "POST", "/containers/ended/wait", &Value::Null);
    let sleep = json!({ "Cmd": ["sleep", "10000"], "Env": ["A=b"], "Tty": true, "User": "0" });
    let exec = must(socket, "POST", "/containers/rich/exec", &sleep);
    let exec = text(&exec["Id"]).to_owned();
    must(socket, "POST", &format!("/exec/{exec}/start"), &json!({ "Detach": true }));
    let status = || must(socket, "GET", "/containers/rich/json", &Value::Null)["State"]["Health"]["Status"].clone();
    wait_for("the first check of health", || status() == "healthy");
    Prepared { socket: socket.to_owned(), asks: asks(&exec, distribution) }
}

fn asks(exec: &str, distribution: Option<String>) -> Vec<Ask> {
    let mut asks = vec![
        ask("GET /containers/json", "/containers/json?all=1&size=1"),
        ask("GET /containers/{name}/json", "/containers/rich/json?size=1"),
        ask("GET /containers/{name}/json", "/containers/ended/json"),
        ask("GET /containers/{name}/json", "/containers/made/json"),
        ask("GET /containers/{name}/top", "/containers/rich/top"),
        ask("GET /containers/{name}/changes", "/containers/ended/changes"),
        ask("GET /containers/{name}/stats", "/containers/rich/stats?stream=0&one-shot=1"),
        ask("GET /containers/{name}/stats", "/containers/ended/stats?stream=0"),
        ask("GET /exec/{name}/json", &format!("/exec/{exec}/json")),
        ask("GET /images/json", "/images/json?all=1"),
        ask("GET /images/json", "/images/json?shared-size=1&digests=1"),
        ask("GET /images/{name}/json", "/images/labelled/json"),
        ask("GET /images/{name}/json", "/images/busybox/json"),
        ask("GET /images/{name}/history", "/images/labelled/history"),
        ask("GET /info", "/info"),
        ask("GET /version", "/version"),
        ask("GET /networks", "/networks"),
        ask("GET /networks/{name}", "/networks/pool?verbose=1"),
        ask("GET /networks/{name}", "/networks/host"),
        ask("GET /volumes", "/volumes"),
        ask("GET /volumes/{name}", "/volumes/kept"),
        ask("GET /system/df", "/system/df"),
        ask("GET /system/df", "/system/df?verbose=1"),
        ask("GET /events", "/events?since=1&until=NOW"),
        ask("POST /containers/{name}/wait", "/containers/ended/wait"),
        ask("POST /containers/prune", "/containers/prune?filters={\"label\":[\"none\"]}"),
        ask("POST /images/prune", "/images/prune?filters={\"label\":[\"none\"]}"),
        ask("POST /networks/prune", "/networks/prune?filters={\"label\":[\"none\"]}"),
        ask("POST /volumes/prune", "/volumes/prune?filters={\"label\":[\"none\"]}"),
        ask("POST /build/prune", "/build/prune"),
    ];
    let with_body = [
        (
            "POST /containers/create",
            "/containers/create",
            json!({ "Image": IMAGE, "HostConfig": { "NetworkMode": "none" } }),
        ),
        ("POST /containers/{name}/update", "/containers/rich/update", json!({ "CpuShares": 100 })),
        ("POST /containers/{name}/exec", "/containers/rich/exec", json!({ "Cmd": ["true"] })),
        ("POST /volumes/create", "/volumes/create", json!({ "Name": "kept" })),
        ("POST /networks/create", "/networks/create", json!({ "Name": "passing" })),
        ("POST /commit", "/commit?container=ended&repo=passing", json!({})),
    ];
    asks.extend(with_body.map(|(name, target, body)| Ask { name, target: target.to_owned(), body }));
    asks.push(ask("DELETE /images/{name}", "/images/passing"));
    asks.extend(distribution.map(|name| ask("GET /distribution/{name}/json", &format!("/distribution/{name}/json"))));
    asks
}

/// The documents of an answer: one, or one on each line.
fn documents(name: &str, bytes: &[u8]) -> Vec<Value> {
    match name == "GET /events" {
        true => bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(document).collect(),
        false => vec![document(bytes)],
    }
}

/// Each difference, and the versions that have it.
type Differences = BTreeMap<(String, String), BTreeSet<u32>>;

fn compared(prepared: &Prepared, table: &Table, last: u32) -> Differences {
    let mut found = Differences::new();
    for version in OLDEST..=last {
        for ask in prepared.asks.iter().filter(|ask| has(table, ask.name, version)) {
            let (method, _) = ask.name.split_once(' ').expect("a method");
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs();
            let target = ask.target.replace("NOW", &now.to_string());
            let body = if ask.body.is_null() { String::new() } else { ask.body.to_string() };
            let (status, bytes) = call_at(&prepared.socket, &format!("1.{version}"), method, &target, body.as_bytes());
            assert!(status < 300, "1.{version} {method} {target}: {status} {}", String::from_utf8_lossy(&bytes));
            let described = Described::of(table, ask.name, version);
            let answers = documents(ask.name, &bytes);
            assert!(!answers.is_empty(), "1.{version} {target}: nothing");
            for answer in &answers {
                described.compare("", answer, &mut |said| {
                    found.entry((ask.name.to_owned(), said)).or_default().insert(version);
                });
            }
            let made = answers.first().and_then(|one| one["Id"].as_str()).unwrap_or_default();
            match ask.name {
                "POST /containers/create" => {
                    drop(must(&prepared.socket, "DELETE", &format!("/containers/{made}"), &Value::Null))
                }
                "POST /networks/create" => {
                    drop(must(&prepared.socket, "DELETE", &format!("/networks/{made}"), &Value::Null))
                }
                _ => {}
            }
        }
    }
    found
}

fn has(table: &Table, request: &str, version: u32) -> bool {
    table[request].values().any(|kinds| kinds.iter().any(|kind| kind.versions.contains(&version)))
}

/// A difference that stays.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Excuse {
    request: String,
    /// The difference; `*` at its end covers all that begin so.
    said: String,
    first: u32,
    last: u32,
    /// Whether dockerd has it, too.
    dockerd: bool,
    reason: String,
}

impl Excuse {
    fn all() -> Vec<Excuse> {
        let text = std::fs::read_to_string(project().join("tests/oracle/described/excused.json")).expect("the excuses");
        let document: Value = serde_json::from_str(&text).expect("a document");
        let excuses: Vec<Excuse> = serde_json::from_value(document["excused"].clone()).expect("excuses");
        assert!(excuses.iter().all(|one| !one.reason.is_empty()));
        excuses
    }

    fn covers(&self, request: &str, said: &str) -> bool {
        let begins = |head: &str| said.starts_with(head);
        self.request == request && self.said.strip_suffix('*').map_or(self.said == said, begins)
    }
}

/// The differences that nothing excuses, and excuses of none.
fn unexcused(found: &Differences, excuses: &[Excuse]) -> Vec<String> {
    let mut met = BTreeSet::new();
    let mut wrong = Vec::new();
    for ((request, said), versions) in found {
        let of = |version: &u32| {
            let one = |one: &Excuse| one.covers(request, said) && (one.first..=one.last).contains(version);
            excuses.iter().position(one)
        };
        met.extend(versions.iter().filter_map(of));
        let left: Vec<String> = versions.iter().filter(|one| of(one).is_none()).map(u32::to_string).collect();
        if !left.is_empty() {
            wrong.push(format!("{request}: {said} at 1.{}", left.join(", 1.")));
        }
    }
    let unmet = excuses.iter().enumerate().filter(|(index, _)| !met.contains(index));
    wrong.extend(unmet.map(|(_, one)| format!("no difference any more: {}: {}", one.request, one.said)));
    wrong
}

/// The differences that an excuse says dockerd has, too, and that it does not have.
fn of_this_engine_alone(found: &Differences, there: &Differences, excuses: &[Excuse]) -> Vec<String> {
    let nothing = BTreeSet::new();
    let mut wrong = Vec::new();
    for (what, versions) in found {
        let blamed = excuses.iter().filter(|one| one.dockerd && one.covers(&what.0, &what.1));
        for one in blamed {
            let both = |version: &&u32| (one.first..=one.last.min(NEWEST_THERE)).contains(*version);
            let theirs = there.get(what).unwrap_or(&nothing);
            let alone: Vec<&u32> = versions.iter().filter(both).filter(|version| !theirs.contains(version)).collect();
            if !alone.is_empty() {
                wrong.push(format!("{what:?}: dockerd does not have it at {alone:?}"));
            }
        }
    }
    wrong
}

#[test]
fn answers_have_what_their_version_describes() {
    let (table, excuses) = (table(), Excuse::all());
    let served = Served::new();
    let files = served.root.dir.join("files");
    std::fs::create_dir(&files).expect("a directory");
    let registry = Registry::plain(&served.root.dir.join("registry"));
    let name = format!("{}/box:1", registry.host());
    must(&served.socket, "POST", &format!("/images/busybox/tag?repo={name}"), &Value::Null);
    crate::registry::push(&served.root.engine, &name).expect("push");
    let here = prepare(&served.socket, &files, Some(name));
    let found = compared(&here, &table, NEWEST);
    let mut wrong = unexcused(&found, &excuses);
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        // Version 2 of control groups does not have this: null, as with dockerd.
        wrong.retain(|one| !one.contains(" HostConfig.OomKillDisable has another type "));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    if std::env::var_os("CORACLE_TORTURE").is_some() {
        let dockerd = Dockerd::start(&served.root.dir.join("dockerd"));
        dockerd.docker(&["load", "-q", "-i", &busybox_archive().to_string_lossy()]);
        let prepared = prepare(&served.root.dir.join("dockerd/sock"), &files, None);
        let there = compared(&prepared, &table, NEWEST_THERE);
        let wrong = of_this_engine_alone(&found, &there, &excuses);
        assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// The comparison sees each kind of difference.
#[test]
fn differences_of_a_document_are_seen() {
    let table = table();
    let compared = |request: &str, version: u32, value: Value| {
        let mut said = Vec::new();
        Described::of(&table, request, version).compare("", &value, &mut |one| said.push(one));
        said
    };
    let container = "GET /containers/{name}/json";
    let graph = json!({ "Name": "overlay2", "Data": {} });
    let fine = json!({ "Id": "i", "State": { "Pid": 1 }, "Args": null, "Config": { "Labels": { "a": "b" } }, "GraphDriver": graph });
    assert_eq!(compared(container, 54, fine), [""; 0]);
    let odd =
        json!({ "id": "i", "State": { "Pid": "1", "Health": {} }, "Config": { "Labels": { "a": 1 }, "Cmd": [5] } });
    let types = ["Config.Cmd[] has another type", "Config.Labels.* has another type", "State.Pid has another type"];
    let unknown = "id is not described";
    assert_eq!(compared(container, 54, odd.clone()), [&types[..], &[unknown]].concat());
    let older = ["State.Health is not described", types[2], unknown];
    assert_eq!(compared(container, 38, odd), [&types[..2], &older].concat());
    let halves = json!({ "GraphDriver": { "Name": "overlay2" } });
    assert_eq!(compared(container, 27, halves.clone()), [""; 0]);
    assert_eq!(compared(container, 28, halves), ["GraphDriver.Data is missing"]);
    let images = json!([{ "Id": 5 }]);
    assert!(compared("GET /images/json", 25, images).contains(&"[].Created is missing".to_owned()));
}
