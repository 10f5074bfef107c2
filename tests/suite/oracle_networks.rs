//! Each request goes to dockerd and to this engine: what inspect answers, and what the container has. The requests
//! stand in `tests/oracle/networks/requests.json`; the differences that remain, each with its reason, in `known.json`
//! beside it: a difference that is not listed fails, and so does a listed one that is not there any more.
//!
//! A run takes every fourth request; with `CORACLE_TORTURE` set in the environment, all of them.

use crate::network::{World, networked, sh};
use crate::support::*;
use coracle_http::{Address, Router, Server, ServerHandle, ServerOptions};
use nix::sched::{CloneFlags, unshare};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Request {
    name: String,
    networks: Vec<Value>,
    others: BTreeMap<String, Value>,
    body: Value,
    connect: Vec<(String, Value)>,
    connect_live: Vec<(String, Value)>,
    disconnect_live: Vec<String>,
    stop: bool,
}

#[derive(Deserialize)]
struct Known {
    /// Part of `request: path`.
    at: String,
    reason: String,
}

/// A server that answers requests at a socket.
struct Door(PathBuf);

impl Door {
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut curl = Command::new("curl");
        curl.args(["-s", "--unix-socket"]).arg(&self.0).args(["-X", method, "--data-binary", "@-"]);
        curl.args(["-H", "Content-Type: application/json"]).arg(format!("http://docker/v1.24{path}"));
        let mut child = curl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("curl");
        let text = if body.is_null() { String::new() } else { body.to_string() };
        child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("write");
        let output = child.wait_with_output().expect("its end");
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }
}

/// A server of ours on this test's host, ended with the test.
struct Ours(Option<JoinHandle<()>>, ServerHandle);

impl Ours {
    fn start(world: &World, socket: &Path) -> Ours {
        let address: Address = format!("unix://{}", socket.display()).parse().expect("an address");
        let router = Router::new(world.root.engine.clone());
        let server = Server::bind(router, &[address], ServerOptions::default()).expect("a server");
        let handle = server.handle();
        // The server's threads are on this thread's host.
        Ours(Some(std::thread::spawn(move || server.run())), handle)
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.1.shutdown(std::time::Duration::from_secs(1));
        let _ = self.0.take().map(JoinHandle::join);
    }
}

/// dockerd on a host of its own, ended with the test.
struct Theirs(PathBuf);

impl Theirs {
    fn start(dir: PathBuf) -> Theirs {
        std::fs::create_dir_all(&dir).expect("a directory");
        let place = dir.clone();
        let started = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
            sh(
                "ip link set lo up; ip link add up0 type veth peer name up1; ip addr add 10.77.0.1/24 dev up0; ip link set up0 up; ip link set up1 up",
            );
            let mut start = Command::new(project().join("bench/dockerd"));
            start.arg("start").arg(&place).env("DOCKERD_FLAGS", "").stdout(Stdio::null()).status()
        });
        assert!(started.join().expect("a thread").expect("run bench/dockerd").success(), "dockerd does not start");
        let theirs = Theirs(dir);
        let load = Command::new("docker")
            .args(["-H", &format!("unix://{}", theirs.0.join("sock").display()), "load", "-q", "-i"])
            .arg(busybox_archive())
            .stdout(Stdio::null())
            .status();
        assert!(load.expect("run docker").success());
        theirs
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        let _ = Command::new(project().join("bench/dockerd")).arg("stop").arg(&self.0).status();
    }
}

/// Does a request; returns all that is looked at, by path.
fn facts(door: &Door, request: &Request) -> BTreeMap<String, String> {
    let post = |path: &str, body: &Value| door.ask("POST", path, body);
    let script = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
    let create = |name: &str, more: &Value| {
        let more = if more.is_null() { json!({}) } else { more.clone() };
        let made = post(&format!("/containers/create?name={name}"), &body(&["sh", "-c", script], networked(more)));
        made["Id"].as_str().unwrap_or_else(|| panic!("{}: create {name}: {made}", request.name)).to_owned()
    };
    let start = |id: &str| {
        let answer = post(&format!("/containers/{id}/start"), &Value::Null);
        assert!(answer.is_null(), "{}: start: {answer}", request.name);
    };
    for network in &request.networks {
        let made = post("/networks/create", network);
        assert!(made["Id"].is_string(), "{}: {made}", request.name);
    }
    for (name, more) in &request.others {
        start(&create(name, more));
    }
    let id = create("it", &request.body);
    let connect = |(network, config): &(String, Value)| {
        post(&format!("/networks/{network}/connect"), &json!({ "Container": id, "EndpointConfig": config }));
    };
    request.connect.iter().for_each(connect);
    start(&id);
    request.connect_live.iter().for_each(connect);
    for network in &request.disconnect_live {
        post(&format!("/networks/{network}/disconnect"), &json!({ "Container": id }));
    }
    let mut all = Map::new();
    let inspect = || door.ask("GET", &format!("/containers/{id}/json"), &Value::Null);
    let pid = inspect()["State"]["Pid"].as_i64().expect("a pid");
    if request.stop {
        post(&format!("/containers/{id}/stop?t=1"), &Value::Null);
    } else {
        all.insert("inside".into(), inside(pid));
    }
    let detail = inspect();
    all.insert("NetworkSettings".into(), detail["NetworkSettings"].clone());
    for key in
        ["Links", "NetworkMode", "PortBindings", "Dns", "DnsSearch", "DnsOptions", "ExtraHosts", "PublishAllPorts"]
    {
        all.insert(format!("HostConfig {key}"), detail["HostConfig"][key].clone());
    }
    for key in ["Hostname", "Domainname", "ExposedPorts", "MacAddress"] {
        all.insert(format!("Config {key}"), detail["Config"][key].clone());
    }
    let list = door.ask("GET", "/containers/json?all=1", &Value::Null);
    for one in list.as_array().expect("a list") {
        let name = if one["Id"] == json!(id) { "it" } else { "other" };
        let mut names: Vec<&str> = one["Names"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
        names.sort_unstable();
        all.insert(format!("list {name}"), json!({ "Names": names, "Ports": one["Ports"], "Networks": one["NetworkSettings"], "Host": one["HostConfig"] }));
    }
    let own = request.networks.iter().filter_map(|network| network["Name"].as_str());
    for network in own.chain(["bridge"]) {
        let mut detail = door.ask("GET", &format!("/networks/{network}"), &Value::Null);
        let members: Vec<Value> =
            detail["Containers"].as_object().into_iter().flat_map(|map| map.values().cloned()).collect();
        detail["Containers"] = json!(members);
        all.insert(format!("network {network}"), detail);
    }
    let mut flat = BTreeMap::new();
    flatten("", &Value::Object(all), &mut flat);
    for name in request.others.keys().map(String::as_str).chain(["it"]) {
        door.ask("DELETE", &format!("/containers/{name}?force=1"), &Value::Null);
    }
    for network in &request.networks {
        door.ask("DELETE", &format!("/networks/{}", network["Name"].as_str().unwrap_or_default()), &Value::Null);
    }
    flat
}

/// The interfaces and routes of a container, seen with the same tools on both sides.
fn inside(pid: i64) -> Value {
    let ip = |words: &str| sh(&format!("nsenter -t {pid} -n ip {words}"));
    let file = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/root/etc/{name}")).unwrap_or_default();
    let mut environ = String::new();
    // The process that starts the container's program may still be there in its place.
    wait_for("the program", || {
        environ = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.contains("HOSTNAME=")
    });
    let env: BTreeSet<&str> = environ.split('\0').filter(|entry| !entry.is_empty()).collect();
    // On the host's network the two are on hosts of their own.
    let on_host = ip("-br link").contains("up0");
    json!({
        "addresses": if on_host { String::new() } else { ip("-o addr") },
        "links": if on_host { String::new() } else { ip("-o link") },
        "routes": if on_host { String::new() } else { ip("route") + &ip("-6 route") },
        "hosts": file("hosts"), "resolv.conf": file("resolv.conf"), "hostname": file("hostname"),
        "environment": env,
    })
}

/// Leaves by path, with what differs from run to run taken out.
fn flatten(path: &str, value: &Value, out: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(key, value)| flatten(&format!("{path}/{}", plain(key)), value, out));
        }
        // Lists, and lines of files, are told apart by what they are, not by their places.
        Value::Array(list) if !list.is_empty() => {
            for value in list {
                let mut parts = BTreeMap::new();
                flatten("", value, &mut parts);
                let text: Vec<String> = parts.iter().map(|(key, value)| format!("{key} {value}")).collect();
                out.insert(format!("{path}/[{}]", text.join(", ")), "there".into());
            }
        }
        Value::String(text) if text.contains('\n') => {
            for line in text.lines() {
                out.insert(format!("{path}/[{}]", plain(line)), "there".into());
            }
        }
        other => drop(out.insert(path.to_owned(), plain(&other.to_string()))),
    }
}

fn plain(text: &str) -> String {
    let rules = [
        (r"[0-9a-f]{64}", "<id>"),
        (r"\b[0-9a-f]{12}\b", "<short>"),
        (r"/var/run/docker/netns/[0-9a-z]+|/proc/[0-9]+/ns/net", "<namespace>"),
        (r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)", "<time>"),
        (r"^[0-9]+: ", ""),
        (r"@if[0-9]+", "@if"),
        (r"qdisc [a-z]+ ", ""),
        // The state of a sub-interface is its parent's.
        (r"state [A-Z]+ ", ""),
        (r"link-netnsid [0-9]+", ""),
        (r"(valid_lft|preferred_lft) [0-9a-z]+", ""),
        (r"[\\ ]+", " "),
        (r#"[^" ]*/netns/<short>"#, "<namespace>"),
        // dockerd gives the next subnet and the same address, we the same subnet and the next address.
        (r"172\.(1[89]|2[0-9]|3[01])\.", "172.N."),
        (r"172\.17\.0\.([2-9]|[1-9][0-9])\b", "172.17.0.X"),
        (r"02:42:ac:[0-9a-f]{2}:00:[0-9a-f]{2}", "02:42:<address>"),
    ];
    let mut text = text.to_owned();
    for (pattern, with) in rules {
        text = regex_lite::Regex::new(pattern).expect("a pattern").replace_all(&text, with).into_owned();
    }
    text.trim().to_owned()
}

#[test]
fn networks_as_dockerd_has_them() {
    let read = |name: &str| std::fs::read(project().join("tests/oracle/networks").join(name)).expect(name);
    let requests: Vec<Request> = serde_json::from_slice(&read("requests.json")).expect("requests");
    let known: Vec<Known> = serde_json::from_slice(&read("known.json")).expect("known differences");
    assert!(requests.len() >= 30 && known.iter().all(|known| !known.reason.is_empty()));
    let all = std::env::var_os("CORACLE_TORTURE").is_some();
    let world = World::new();
    let theirs = Theirs::start(world.root.dir.join("dockerd"));
    let socket = world.root.dir.join("socket");
    let _ours = Ours::start(&world, &socket);
    let doors = [Door(socket), Door(theirs.0.join("sock"))];
    let mut unknown = Vec::new();
    let mut met = BTreeSet::new();
    for (_, request) in requests.iter().enumerate().filter(|(at, _)| all || at % 4 == 3) {
        let (us, them) = (facts(&doors[0], request), facts(&doors[1], request));
        let paths: BTreeSet<&String> = us.keys().chain(them.keys()).collect();
        for path in paths.into_iter().filter(|path| us.get(*path) != them.get(*path)) {
            let place = format!("{}: {path}", request.name);
            let listed: Vec<usize> = (0..known.len()).filter(|at| place.contains(&known[*at].at)).collect();
            if listed.is_empty() {
                let text = |side: &BTreeMap<String, String>| side.get(path).cloned().unwrap_or("-".into());
                unknown.push(format!("{place}\n    theirs {}\n    ours   {}", text(&them), text(&us)));
            }
            met.extend(listed);
        }
    }
    assert!(unknown.is_empty(), "{} differences:\n{}", unknown.len(), unknown.join("\n"));
    if all {
        let gone: Vec<&str> = (0..known.len()).filter(|at| !met.contains(at)).map(|at| known[at].at.as_str()).collect();
        assert!(gone.is_empty(), "listed, but not there any more: {gone:?}");
    }
}
