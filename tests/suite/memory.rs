//! The server's memory: while it answers about containers with many ports, and after thousands of requests of all kinds.

use crate::docker_cli::Served;
use crate::support::world::{World, networked};
use crate::support::*;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How many requests the campaign makes (tests/torture); without it a small number.
fn requests() -> Option<usize> {
    std::env::var("CORACLE_MEMORY").ok().map(|number| number.parse().expect("CORACLE_MEMORY: a number of requests"))
}

/// A container may name so many ports of each protocol.
const ALL: usize = 65_535;

/// How many ports the large containers of many requests expose.
fn many() -> usize {
    if requests().is_some() { ALL } else { 16_000 }
}

/// One answer to a request: status and body. None: the answer did not end in time.
fn answer(served: &Served, method: &str, target: &str, kind: &str, body: &[u8]) -> Option<(u16, Vec<u8>)> {
    let mut stream = UnixStream::connect(&served.socket).expect("connect");
    stream.set_read_timeout(Some(SOON)).expect("set a time-out");
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // An answer that comes before all of the body was taken is an answer.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut stream = BufReader::new(stream);
    let (mut status, mut chunked, mut line) = (String::new(), false, String::new());
    stream.read_line(&mut status).ok()?;
    while stream.read_line(&mut line).ok()? > 2 {
        chunked |= line.eq_ignore_ascii_case("transfer-encoding: chunked\r\n");
        line.clear();
    }
    let mut body = Vec::new();
    if chunked {
        unchunked(&mut stream, &mut body)?;
    } else {
        stream.read_to_end(&mut body).ok()?;
    }
    Some((status.split(' ').nth(1)?.parse().ok()?, body))
}

fn unchunked(stream: &mut impl BufRead, body: &mut Vec<u8>) -> Option<()> {
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let length = u64::from_str_radix(line.trim_end(), 16).ok()?;
        stream.by_ref().take(length).read_to_end(body).ok()?;
        stream.read_line(&mut line).ok()?;
        if length == 0 {
            return Some(());
        }
    }
}

/// An answer with this status: its body.
fn answered(served: &Served, method: &str, target: &str, body: &Value, wanted: u16) -> Vec<u8> {
    let text = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let (status, body) = answer(served, method, target, "application/json", &text).expect(target);
    assert_eq!(status, wanted, "{method} {target}: {}", String::from_utf8_lossy(&body[..body.len().min(500)]));
    body
}

fn created(served: &Served, body: &Value) -> String {
    let answer = answered(served, "POST", "/v1.24/containers/create", body, 201);
    let answer: Value = serde_json::from_slice(&answer).expect("a document");
    answer["Id"].as_str().expect("an id").to_owned()
}

/// The server's memory in bytes.
struct Memory {
    anonymous: u64,
    resident: u64,
    peak: u64,
}

fn memory(served: &Served) -> Memory {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.pid())).expect("its status");
    let bytes = |field| {
        let kilobytes = proc_status(&status, field);
        kilobytes.trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
    };
    Memory { anonymous: bytes("RssAnon"), resident: bytes("VmRSS"), peak: bytes("VmHWM") }
}

/// The peak of a request's memory beyond that of the server at rest. A server at rest has given back what it can.
fn taken(served: &Served, work: impl FnOnce()) -> u64 {
    std::thread::sleep(Duration::from_millis(2500));
    std::fs::write(format!("/proc/{}/clear_refs", served.pid()), "5").expect("reset the peak");
    let before = memory(served).resident;
    work();
    memory(served).peak.saturating_sub(before)
}

/// The most memory of any request, whatever it is about: stacks, buffers, the pages of statements.
const ANY: u64 = 512 << 10;

/// At most twice the document.
fn assert_in_proportion(what: &str, taken: u64, document: usize) {
    println!("{what}: {} KiB for a document of {} KiB", taken >> 10, document >> 10);
    let most = 2 * document as u64 + ANY;
    assert!(taken <= most, "{what}: {taken} bytes for a document of {document}, not {most} at most");
}

fn assert_taken(served: &Served, what: &str, document: usize, work: impl FnOnce()) {
    assert_in_proportion(what, taken(served, work), document);
}

#[test]
fn requests_about_many_ports_take_memory_in_proportion() {
    let world = World::new();
    let served = Served::new();
    let small = || networked(body(&["sleep", "1000"], json!({ "ExposedPorts": { "80/tcp": {} } })));
    let inspect = |id: &str, version: &str| {
        answered(&served, "GET", &format!("/{version}/containers/{id}/json"), &Value::Null, 200)
    };
    let list = || answered(&served, "GET", "/v1.24/containers/json?all=1", &Value::Null, 200);
    for _ in 0..20 {
        let id = created(&served, &small());
        inspect(&id, "v1.24");
        inspect(&id, "v1.18");
        list();
        answered(&served, "DELETE", &format!("/v1.24/containers/{id}"), &Value::Null, 204);
    }
    let ports = |number: usize| (1..=number).map(|port| format!("{port}/tcp"));
    let exposed =
        |number: usize| ports(number).map(|port| (port, json!({}))).collect::<serde_json::Map<String, Value>>();
    let large = |body: &Value, what: &str| {
        let document = body.to_string().len();
        let mut id = String::new();
        assert_taken(&served, &format!("create with {what}"), document, || id = created(&served, body));
        // The first look at it is one at what is stored.
        let mut document = 0;
        let first = taken(&served, || document = inspect(&id, "v1.24").len());
        assert_in_proportion("the first inspect", first, document);
        for version in ["v1.24", "v1.18"] {
            assert_taken(&served, &format!("inspect at {version}"), document, || drop(inspect(&id, version)));
        }
        assert_taken(&served, "list", document, || drop(list()));
        let events = "/v1.24/events?since=1&until=2";
        assert_taken(&served, "events", document, || drop(answered(&served, "GET", events, &Value::Null, 200)));
    };
    large(&body(&["sleep", "1000"], json!({ "ExposedPorts": exposed(ALL) })), "exposed ports");
    let published = |number: usize, address: &dyn Fn(&str) -> Value| {
        let bindings = ports(number).map(|port| (port.clone(), address(port.trim_end_matches("/tcp"))));
        let host = json!({ "PortBindings": bindings.collect::<serde_json::Map<String, Value>>() });
        networked(body(&["sleep", "1000"], json!({ "ExposedPorts": exposed(number), "HostConfig": host })))
    };
    let same = |port: &str| json!([{ "HostIp": "", "HostPort": port }]);
    large(&published(ALL, &same), "published ports");
    let longest = |port: &str| json!([{ "HostIp": "fd00:1111:2222:3333:4444:5555:6666:7777", "HostPort": port }]);
    let largest = published(ALL, &longest);
    large(&largest, "published ports at a long address");
    // A running container with each port at one address: the memory of a start is not the answer's.
    let chosen = published(8_000, &|_| json!([{ "HostIp": "127.0.0.1", "HostPort": "" }]));
    let id = created(&served, &chosen);
    answered(&served, "POST", &format!("/v1.24/containers/{id}/start"), &Value::Null, 204);
    let document = inspect(&id, "v1.24").len();
    for version in ["v1.24", "v1.18"] {
        assert_taken(&served, &format!("inspect at {version} while it runs"), document, || drop(inspect(&id, version)));
    }
    // A list is of all containers, one after the other, and a server that dropped its caches at rest reads each again.
    assert_taken(&served, "list while it runs", largest.to_string().len(), || drop(list()));
    answered(&served, "DELETE", &format!("/v1.24/containers/{id}?force=1"), &Value::Null, 204);

    // An address of its own for each: the stored text of one port says nothing about another.
    let apart = |port: &str| {
        let last: u16 = port.parse().expect("a port");
        json!([{ "HostIp": format!("fd00:1111:2222:3333:4444:5555:6666:{last:04x}"), "HostPort": port }])
    };
    let apart = published(ALL, &apart);
    let document = apart.to_string().len();
    let most = taken(&served, || drop(created(&served, &apart)));
    println!("create with an address for each port: {} KiB for a document of {} KiB", most >> 10, document >> 10);
    assert!(most <= 4 * document as u64, "{most} bytes for a document of {document}");
    drop(served);
    drop(world);
}

/// An id that no container has, and that a search finds to be absent only beside this container.
fn beside(id: &str) -> String {
    let last = if id.ends_with('0') { "1" } else { "0" };
    format!("{}{last}", &id[..id.len() - 1])
}

#[test]
fn a_request_about_one_container_reads_nothing_of_its_neighbours() {
    let world = World::new();
    let served = Served::new();
    let ordinary: Vec<String> = (0..6).map(|_| created(&served, &body(&["sleep", "1000"], json!({})))).collect();
    let bindings: serde_json::Map<String, Value> = (1..=ALL)
        .map(|port| {
            (format!("{port}/tcp"), json!([{ "HostIp": format!("fd00::{port:x}"), "HostPort": port.to_string() }]))
        })
        .collect();
    let host = json!({ "HostConfig": { "PortBindings": bindings } });
    let large: Vec<String> =
        (0..2).map(|_| created(&served, &networked(body(&["sleep", "1000"], host.clone())))).collect();
    let inspect = |id: &str, status| {
        answered(&served, "GET", &format!("/v1.24/containers/{id}/json"), &Value::Null, status).len()
    };
    // The first inspect of each reads the stored spec.
    ordinary.iter().for_each(|id| assert_ne!(inspect(id, 200), 0));
    for id in &ordinary {
        let mut document = 0;
        let taken = taken(&served, || document = inspect(id, 200));
        assert_in_proportion("inspect beside containers with many ports", taken, document);
    }
    for id in &large {
        assert_taken(&served, "inspect of nobody beside it", 0, || assert_ne!(inspect(&beside(id), 404), 0));
    }
    drop(world);
}

/// The anonymous memory of a server that has answered requests of all kinds, at rest.
const AT_REST: u64 = 8 << 20;

#[test]
fn a_server_that_answered_requests_of_all_kinds_keeps_little() {
    let world = World::new();
    let served = Served::new();
    let mut random = Random(7);
    let all = routes();
    assert!(all.len() > 60, "{} routes", all.len());
    let idle = memory(&served).anonymous;
    let most = requests().unwrap_or(400);
    let mut sent = 0;
    while sent < most {
        let names = Names::new(&served, if sent % 1000 == 0 { many() } else { 1 + random.below(40) });
        for (method, path) in &all {
            for target in names.targets(path, &mut random) {
                let (kind, body) = names.body(method, path, &mut random);
                // Whatever the answer is: some have none, since they end with the connection.
                let _ = answer(&served, method, &target, kind, &body);
                sent += 1;
            }
        }
        names.remove(&served);
    }
    let mut last = 0;
    let start = std::time::Instant::now();
    while start.elapsed() < SOON {
        last = memory(&served).anonymous;
        if last <= AT_REST {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    println!("{sent} requests: {} KiB became {} KiB", idle >> 10, last >> 10);
    assert!(last <= AT_REST, "{idle} bytes became {last} after {sent} requests");
    drop(world);
}

/// Method and path of every route.
fn routes() -> Vec<(String, String)> {
    // Included at build time: a machine that runs the test program need not have the sources.
    let rows = include_str!("../../http/src/routes.rs").lines().filter_map(|line| {
        let mut words = line.trim().strip_prefix("route(\"")?.split('"');
        Some((words.next()?.to_owned(), words.nth(1)?.to_owned()))
    });
    rows.collect()
}

/// Objects that requests are about.
struct Names {
    containers: Vec<String>,
    exec: String,
    image: String,
    volume: String,
    network: String,
    body: Value,
    archive: Vec<u8>,
}

impl Names {
    fn new(served: &Served, ports: usize) -> Names {
        let exposed: serde_json::Map<String, Value> =
            (1..=ports).map(|port| (format!("{port}/tcp"), json!({}))).collect();
        let body = body(&["sleep", "1000"], json!({ "ExposedPorts": exposed }));
        let containers = vec![created(served, &body), created(served, &body)];
        answered(served, "POST", &format!("/v1.24/containers/{}/start", containers[0]), &Value::Null, 204);
        let exec = json!({ "Cmd": ["echo", "hello"], "AttachStdout": true });
        let exec = answered(served, "POST", &format!("/v1.24/containers/{}/exec", containers[0]), &exec, 201);
        let exec: Value = serde_json::from_slice(&exec).expect("a document");
        let image = "i:1".to_owned();
        answered(served, "POST", &format!("/v1.24/images/{IMAGE}/tag?repo=i&tag=1"), &Value::Null, 201);
        let volume = json!({ "Name": "vol" });
        answered(served, "POST", "/v1.24/volumes/create", &volume, 201);
        let network = json!({ "Name": "net" });
        answered(served, "POST", "/v1.24/networks/create", &network, 201);
        let mut archive = tar::Builder::new(Vec::new());
        let text = b"FROM busybox\nLABEL a=b\nCMD [\"true\"]\n";
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, "Dockerfile", &text[..]).expect("an archive");
        let archive = archive.into_inner().expect("an archive");
        let exec = exec["Id"].as_str().expect("an id").to_owned();
        Names { containers, exec, image, volume: "vol".into(), network: "net".into(), body, archive }
    }

    /// The targets of a route: about what is there, and about what is not.
    fn targets(&self, path: &str, random: &mut Random) -> Vec<String> {
        let version = ["v1.18", "v1.20", "v1.22", "v1.24"][random.below(4)];
        let query = match path {
            "/events" => "?since=1&until=2",
            "/containers/json" => "?all=1&size=1",
            "/containers/{name}/stats" => "?stream=0",
            "/containers/{name}/logs" => "?stdout=1&stderr=1",
            "/containers/{name}/stop" | "/containers/{name}/restart" => "?t=0",
            "/containers/{name}/attach" => "?logs=1&stdout=1",
            "/containers/{name}/resize" | "/exec/{name}/resize" => "?h=24&w=80",
            "/containers/{name}/rename" => "?name=other",
            "/containers/{name}/archive" => "?path=/etc",
            "/containers/{name}" => "?force=1",
            "/images/get" => "?names=busybox",
            "/images/create" => "?fromSrc=-&repo=imported",
            "/images/{name}/tag" => "?repo=i&tag=2",
            "/build" => "?t=built&rm=1",
            "/commit" => "?container=none&repo=committed",
            _ => "",
        };
        let names: Vec<&str> = match path.split('/').nth(1).unwrap_or_default() {
            // For a running container the wait does not end.
            _ if path.ends_with("/wait") => vec![&self.containers[1], "nobody"],
            "containers" => self.containers.iter().map(String::as_str).chain(["nobody"]).collect(),
            "exec" => vec![&self.exec, "nobody"],
            "images" => vec![&self.image, "nobody"],
            "volumes" => vec![&self.volume, "nobody"],
            "networks" => vec![&self.network, "nobody"],
            _ => vec!["nobody"],
        };
        let at = |name: &&str| format!("/{version}{}{query}", path.replace("{name}", name).replace("{id}", name));
        if path.contains('{') { names.iter().map(at).collect() } else { vec![at(&"")] }
    }

    /// A body that fits the route, or none that does.
    fn body(&self, method: &str, path: &str, random: &mut Random) -> (&'static str, Vec<u8>) {
        const JSON: &str = "application/json";
        const TAR: &str = "application/x-tar";
        if method == "GET" || method == "HEAD" || method == "DELETE" {
            return (JSON, Vec::new());
        }
        let fits = random.below(4) != 0;
        match path {
            "/containers/create" if fits => (JSON, self.body.to_string().into_bytes()),
            "/containers/{name}/exec" if fits => (JSON, b"{\"Cmd\":[\"true\"]}".to_vec()),
            "/containers/{name}/update" if fits => (JSON, b"{\"CpuShares\":512}".to_vec()),
            "/exec/{name}/start" => (JSON, b"{\"Detach\":true}".to_vec()),
            "/build" | "/images/create" | "/images/load" | "/containers/{name}/archive" if fits => {
                (TAR, self.archive.clone())
            }
            "/networks/{name}/connect" | "/networks/{name}/disconnect" if fits => {
                (JSON, json!({ "Container": self.containers[1] }).to_string().into_bytes())
            }
            _ if fits => (JSON, Vec::new()),
            _ => (JSON, format!("{{\"Name\":\"{}\"}}", "x".repeat(random.below(100_000))).into_bytes()),
        }
    }

    fn remove(&self, served: &Served) {
        let all = answered(served, "GET", "/v1.24/containers/json?all=1", &Value::Null, 200);
        let all: Value = serde_json::from_slice(&all).expect("a document");
        for container in all.as_array().expect("a list") {
            let id = container["Id"].as_str().expect("an id");
            let _ = answer(served, "DELETE", &format!("/v1.24/containers/{id}?force=1&v=1"), "application/json", b"");
        }
        for target in ["volumes/vol", "networks/net", "images/i:1", "images/i:2", "images/built", "images/imported"] {
            let _ = answer(served, "DELETE", &format!("/v1.24/{target}"), "application/json", b"");
        }
    }
}
