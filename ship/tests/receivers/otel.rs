//! splunk and otlp: the OpenTelemetry collector's receivers of the HTTP Event Collector and of its own protocol.

use crate::world::*;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The receiver, built once in a run.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/receivers/otel");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("otel");
        let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(source).output();
        let built = built.expect("go: run tools/setup test");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    })
}

pub struct Collector {
    kind: &'static str,
    pub address: String,
    out: PathBuf,
    /// A certificate and its key, for TLS.
    files: Vec<PathBuf>,
}

impl Collector {
    pub fn new(world: &World, kind: &'static str) -> Collector {
        let address = format!("127.0.0.1:{}", free_port());
        Collector { kind, address, out: world.dir.join(kind), files: Vec::new() }
    }

    pub fn start(&self) -> Program {
        let ready = self.out.with_extension("ready");
        let _ = std::fs::remove_file(&ready);
        let mut command = Command::new(program());
        let running = Program::start(command.args([self.kind, &self.address]).arg(&self.out).args(&self.files));
        wait_for("the receiver", || ready.exists());
        running
    }

    pub fn out(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }

    fn first(&self, log: &Log) -> Value {
        let out = self.out();
        let mark = format!("{} n=1\"", &log.id[60..]);
        let line = out.lines().find(|line| line.contains(&mark)).expect("the first line");
        serde_json::from_str(line).expect("JSON")
    }
}

fn splunk(world: &World, name: &str, url: &str, more: &[(&str, &str)]) -> Log {
    let base = [("splunk-url", url), ("splunk-token", "a-token")];
    let options: Vec<_> = base.iter().chain(more).copied().collect();
    world.container(name, "splunk", &options)
}

#[test]
fn events_arrive_in_each_form() {
    let mut world = World::new();
    let receiver = Collector::new(&world, "splunk");
    let _running = receiver.start();
    let url = format!("http://{}", receiver.address);
    let meta = [("splunk-source", "s"), ("splunk-sourcetype", "st"), ("splunk-index", "i")];
    let mut inline = splunk(&world, "a", &url, &meta);
    let mut packed = splunk(&world, "b", &url, &[("splunk-gzip", "true"), ("splunk-gzip-level", "9")]);
    let mut raw = splunk(&world, "c", &format!("{url}/"), &[("splunk-format", "raw")]);
    world.ship();
    for log in [&mut inline, &mut packed, &mut raw] {
        log.write(5000);
        assert_eq!(log.await_delivery(), (5000, 0));
        let counts = arrived(log, || receiver.out());
        assert!(counts.values().all(|count| *count == 1), "lines came twice");
    }
    let first = receiver.first(&inline);
    assert_eq!(first["body"], json!({ "line": "000a n=1", "source": "stderr", "tag": "tag" }));
    let facts = ["host.name", "com.splunk.source", "com.splunk.sourcetype", "com.splunk.index"];
    assert_eq!(facts.map(|key| first["resource"][key].as_str()), [Some("box"), Some("s"), Some("st"), Some("i")]);
    assert_eq!(first["attributes"]["log_ordinal"], "1");
    assert_eq!(first["time"], line_ms() * 1_000_000);
    assert!(receiver.out().lines().any(|line| line.contains("\"body\":\"tag 000c n=1\"")));
}

#[test]
fn lines_of_white_space_are_left_out_with_raw_and_counted() {
    let mut world = World::new();
    let receiver = Collector::new(&world, "splunk");
    let _running = receiver.start();
    let mut log = splunk(&world, "a", &format!("http://{}", receiver.address), &[("splunk-format", "raw")]);
    world.ship();
    log.write_empty(7);
    log.write(2500);
    log.write_empty(1500);
    assert_eq!((log.await_delivery(), log.left_out()), ((2500, 0), 1507));
    let counts = numbers(&receiver.out(), &log);
    assert_eq!(counts.len(), 2500);
}

#[test]
fn a_receiver_of_events_that_comes_late_stops_and_is_killed_gets_all() {
    let world = World::new();
    let receiver = Collector::new(&world, "splunk");
    let log = splunk(&world, "a", &format!("http://{}", receiver.address), &[]);
    survives(world, &receiver, log);
}

/// The receiver is absent at the start, then it is stopped and killed, again and again, in the middle of the delivery.
fn survives(mut world: World, receiver: &Collector, mut log: Log) {
    world.ship();
    log.write(3000);
    wait_for("the failure", || log.status().is_some_and(|status| !status.cursor.error().is_empty()));
    for _ in 0..10 {
        let before = receiver.out().len();
        let running = receiver.start();
        wait_for("some lines", || receiver.out().len() > before);
        running.signal(Signal::SIGSTOP);
        log.write(3000);
        running.signal(Signal::SIGCONT);
        // SIGKILL.
        drop(running);
    }
    let _running = receiver.start();
    assert_eq!(log.await_delivery(), (log.written, 0));
    let counts = numbers(&receiver.out(), &log);
    let (twice, kind) = (counts.values().filter(|count| **count > 1).count(), receiver.kind);
    println!("{kind}: {} lines over 10 kills: {} missing, {twice} twice", log.written, missing(&counts, &log).len());
    assert_eq!(missing(&counts, &log), [] as [u64; 0]);
}

#[cfg(feature = "tls")]
#[test]
fn events_go_by_tls_to_a_receiver_with_the_right_certificate_alone() {
    let mut world = World::new();
    crate::rsyslog::certificates(&world.dir);
    let files = ["cert.pem", "key.pem"].map(|name| world.dir.join(name)).to_vec();
    let receiver = Collector { files, ..Collector::new(&world, "splunk") };
    let _running = receiver.start();
    let (url, ca) = (format!("https://{}", receiver.address), world.dir.join("ca.pem").display().to_string());
    let named = ("splunk-capath", ca.as_str());
    let mut good = splunk(&world, "a", &url, &[named]);
    let mut unchecked = splunk(&world, "b", &url, &[("splunk-insecureskipverify", "1")]);
    let mut other = splunk(&world, "c", &url, &[named, ("splunk-caname", "other.example")]);
    world.ship();
    for log in [&mut good, &mut unchecked, &mut other] {
        log.write(3000);
    }
    for log in [&good, &unchecked] {
        assert_eq!(log.await_delivery(), (3000, 0));
        arrived(log, || receiver.out());
    }
    let refused = || other.status().is_some_and(|status| status.cursor.error().starts_with("TLS with the receiver"));
    wait_for("the refusal", refused);
    assert!(numbers(&receiver.out(), &other).is_empty());
}

/// Set in a process whose environment names a proxy that nobody serves: the address of the right one.
#[cfg(feature = "tls")]
const PROXIED: &str = "CORACLE_TEST_PROXIED";

/// Gives tunnels to ports of this machine, whatever their host is called; the first one is refused. Answers the heads of the
/// requests as long as `stop` is not set.
#[cfg(feature = "tls")]
fn proxy(listener: &std::net::TcpListener, stop: &std::sync::atomic::AtomicBool) -> Vec<String> {
    use std::io::{Read, Write};
    let (mut heads, mut byte) = (Vec::new(), [0]);
    for stream in listener.incoming() {
        if stop.load(std::sync::atomic::Ordering::Acquire) {
            break;
        }
        let (mut stream, mut head) = (stream.expect("a connection"), Vec::new());
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|length| length == 1) {
            head.extend(byte);
        }
        heads.push(String::from_utf8_lossy(&head).into_owned());
        if heads.len() == 1 {
            stream.write_all(b"HTTP/1.1 503 Later\r\n\r\n").expect("an answer");
            continue;
        }
        let port = heads.last().and_then(|head| head.split(&[':', ' '][..]).nth(2)?.parse().ok()).expect("a port");
        let receiver = std::net::TcpStream::connect(("127.0.0.1", port)).expect("the receiver");
        stream.write_all(b"HTTP/1.1 200 Here\r\n\r\n").expect("an answer");
        for (from, to) in [(&stream, &receiver), (&receiver, &stream)] {
            let (mut from, mut to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
        }
    }
    heads
}

#[cfg(feature = "tls")]
#[test]
fn events_go_through_the_given_proxy_whatever_the_environment_says() {
    use std::sync::atomic::{AtomicBool, Ordering};
    if let Ok(address) = std::env::var(PROXIED) {
        return proxied(&address);
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("an address");
    let stop = AtomicBool::new(false);
    let heads = std::thread::scope(|scope| {
        let proxy = scope.spawn(|| proxy(&listener, &stop));
        let mut again = Command::new(std::env::current_exe().expect("this program"));
        again.args(["--exact", "otel::events_go_through_the_given_proxy_whatever_the_environment_says", "--nocapture"]);
        again
            .env(PROXIED, format!("http://me:secret@{address}"))
            .env("HTTPS_PROXY", "http://127.0.0.1:1")
            .env("NO_PROXY", "receiver.example");
        let status = again.status();
        stop.store(true, Ordering::Release);
        drop(std::net::TcpStream::connect(address));
        assert!(status.expect("this program").success(), "see above");
        proxy.join().expect("the proxy")
    });
    assert!(heads.len() >= 2, "{heads:?}");
    for head in heads {
        assert!(head.starts_with("CONNECT receiver.example:"), "{head}");
        assert!(head.contains("\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n"), "{head}");
    }
}

/// Only the proxy knows the receiver's name.
#[cfg(feature = "tls")]
fn proxied(proxy: &str) {
    let mut world = World::new();
    crate::rsyslog::certificates(&world.dir);
    let files = ["cert.pem", "key.pem"].map(|name| world.dir.join(name)).to_vec();
    let receiver = Collector { files, ..Collector::new(&world, "splunk") };
    let _running = receiver.start();
    let port = receiver.address.rsplit(':').next().expect("a port");
    let ca = world.dir.join("ca.pem").display().to_string();
    let named = [("splunk-capath", ca.as_str()), ("splunk-caname", "127.0.0.1")];
    let mut log = splunk(&world, "a", &format!("https://receiver.example:{port}"), &named);
    world.ship_through(coracle_ship::Proxies { https: proxy.to_owned(), exempt: "other.example".into() });
    log.write(500);
    assert_eq!(log.await_delivery(), (500, 0));
    arrived(&log, || receiver.out());
}

/// The receiver answers another path with an error: no line counts as delivered.
#[test]
fn a_receiver_that_refuses_has_nothing_delivered() {
    let mut world = World::new();
    let receiver = Collector::new(&world, "otlp");
    let _running = receiver.start();
    let mut log = splunk(&world, "a", &format!("http://{}", receiver.address), &[]);
    world.ship();
    log.write(10);
    let error = || log.status().map(|status| status.cursor.error()).unwrap_or_default();
    wait_for("the refusal", || error() == "the receiver refused the lines with the status 404");
    let status = log.status().expect("a status");
    assert_eq!((status.owed.lines, status.cursor.delivered, status.cursor.lost), (10, 0, 0));
    let options = [("splunk-url", format!("http://{}", receiver.address)), ("splunk-token", "t".into())];
    let verified = options.into_iter().chain([("splunk-verify-connection", "true".to_owned())]);
    let options = verified.map(|(key, value)| (key.to_owned(), value)).collect();
    let refused = coracle_ship::check_files("splunk", &options, &coracle_ship::Proxies::default())
        .expect_err("no collector of events");
    assert!(refused.0.starts_with("splunk: failed to verify connection - 404"), "{refused}");
}

fn otlp(world: &World, name: &str, endpoint: &str, more: &[(&str, &str)]) -> Log {
    let options: Vec<_> = [("otlp-endpoint", endpoint)].iter().chain(more).copied().collect();
    world.container(name, "otlp", &options)
}

#[test]
fn records_have_their_resource_and_their_severity() {
    let mut world = World::new();
    let receiver = Collector::new(&world, "otlp");
    let _running = receiver.start();
    let url = format!("http://{}", receiver.address);
    let mut packed = otlp(&world, "a", &url, &[]);
    let mut plain = otlp(&world, "b", &format!("{url}/v1/logs"), &[("otlp-compression", "none"), ("tag", "x")]);
    world.ship();
    for log in [&mut packed, &mut plain] {
        log.write(5000);
        assert_eq!(log.await_delivery(), (5000, 0));
        let counts = arrived(log, || receiver.out());
        assert!(counts.values().all(|count| *count == 1), "lines came twice");
    }
    let (first, other) = (receiver.first(&packed), receiver.first(&plain));
    let resource = json!({ "service.name": "a", "container.id": packed.id, "container.name": "a",
        "container.image.name": "busybox", "host.name": "box" });
    assert_eq!(first["resource"], resource);
    assert_eq!(other["resource"]["service.name"], "tag");
    assert_eq!((&first["body"], &first["time"]), (&json!("000a n=1"), &json!(line_ms() * 1_000_000)));
    assert_eq!((&first["severity"], &first["number"]), (&json!("ERROR"), &json!(17)));
    assert_eq!(first["attributes"], json!({ "log.iostream": "stderr", "log.record.uid": format!("{}-1", packed.id) }));
    let out = receiver.out();
    let second = out.lines().find(|line| line.contains("000a n=2\"")).expect("the second line");
    let second: Value = serde_json::from_str(second).expect("JSON");
    assert_eq!((&second["severity"], &second["number"]), (&json!("INFO"), &json!(9)));
}

#[test]
fn a_receiver_of_records_that_comes_late_stops_and_is_killed_gets_all() {
    let world = World::new();
    let receiver = Collector::new(&world, "otlp");
    let log = otlp(&world, "a", &format!("http://{}", receiver.address), &[]);
    survives(world, &receiver, log);
}

#[test]
fn records_that_the_receiver_rejects_are_counted_as_lost() {
    let mut world = World::new();
    let receiver = Collector::new(&world, "partial");
    let _running = receiver.start();
    let url = format!("http://{}/own/logs", receiver.address);
    let plain = ("otlp-compression", "none");
    let mut log = otlp(&world, "a", &url, &[plain, ("otlp-headers", "authorization=Bearer%20a%2Cb")]);
    let mut stranger = otlp(&world, "b", &url, &[plain]);
    world.ship();
    log.write(5000);
    stranger.write(5);
    assert_eq!(log.await_delivery(), (4500, 500));
    let counts = numbers(&receiver.out(), &log);
    assert_eq!(missing(&counts, &log), (1..=500).map(|number| number * 10).collect::<Vec<u64>>());
    let error = || stranger.status().map(|status| status.cursor.error()).unwrap_or_default();
    wait_for("the refusal", || error() == "the receiver refused the lines with the status 401");
    assert_eq!(stranger.status().expect("a status").owed.lines, 5);
}

#[cfg(feature = "tls")]
#[test]
fn records_go_by_tls_to_a_receiver_that_asks_for_a_certificate() {
    let mut world = World::new();
    crate::rsyslog::certificates(&world.dir);
    let files = ["cert.pem", "key.pem", "ca.pem"].map(|name| world.dir.join(name)).to_vec();
    let [cert, key, ca] = [0, 1, 2].map(|number| files[number].display().to_string());
    let receiver = Collector { files, ..Collector::new(&world, "otlp") };
    let _running = receiver.start();
    let url = format!("https://{}", receiver.address);
    let (authority, own) = (("otlp-tls-ca-cert", &*ca), [("otlp-tls-cert", &*cert), ("otlp-tls-key", &*key)]);
    let mut good = otlp(&world, "a", &url, &[authority, own[0], own[1]]);
    let mut unchecked = otlp(&world, "b", &url, &[("otlp-tls-skip-verify", "true"), own[0], own[1]]);
    let mut unnamed = otlp(&world, "c", &url, &[authority]);
    let mut stranger = otlp(&world, "d", &url, &own);
    world.ship();
    for log in [&mut good, &mut unchecked, &mut unnamed, &mut stranger] {
        log.write(3000);
    }
    for log in [&good, &unchecked] {
        assert_eq!(log.await_delivery(), (3000, 0));
        arrived(log, || receiver.out());
    }
    for log in [&unnamed, &stranger] {
        wait_for("the refusal", || log.status().is_some_and(|status| !status.cursor.error().is_empty()));
        assert!(numbers(&receiver.out(), log).is_empty());
    }
}
