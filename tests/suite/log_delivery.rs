//! Log drivers that deliver: real containers, real receivers.

use crate::support::registry::{Answered, Scripted};
use crate::support::*;
use coracle::model::*;
use coracle::{Engine, ErrorKind, Options, ShipLogs};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// An engine that delivers, with the busybox image.
fn shipping() -> Root {
    let root = Root::with(|options: &mut Options| options.ship_logs = ShipLogs::Thread);
    root.load(&busybox_archive());
    root
}

pub(crate) fn logged(kind: &str, options: &Value) -> Value {
    json!({ "HostConfig": { "LogConfig": { "Type": kind, "Config": options } } })
}

/// A rsyslogd, or a fluent server, that writes what it gets into a file. It ends with the test.
pub(crate) struct Receiver {
    pub(crate) dir: PathBuf,
    pub(crate) port: u16,
    program: Option<Child>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Receiver {
    pub(crate) fn new() -> Receiver {
        let dir = temp_dir();
        std::fs::create_dir_all(&dir).expect("a directory");
        let bound = std::net::TcpListener::bind("127.0.0.1:0").and_then(|bound| bound.local_addr());
        Receiver { dir, port: bound.expect("a free port").port(), program: None }
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut program) = self.program.take() {
            let _ = program.kill();
            let _ = program.wait();
        }
    }

    fn run(&mut self, command: &mut Command) {
        let started = command.stdin(Stdio::null()).spawn();
        self.program = Some(started.unwrap_or_else(|error| panic!("{command:?}: {error}: run tools/setup test")));
        wait_for("the receiver", || std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    pub(crate) fn rsyslog(&mut self) {
        let at = self.dir.display();
        let text = format!(
            "global(workDirectory=\"{at}\")\nmodule(load=\"imtcp\")\n\
             input(type=\"imtcp\" port=\"{}\" address=\"127.0.0.1\")\n\
             template(name=\"line\" type=\"string\" string=\"%pri%|%syslogtag%|%msg%\\n\")\n\
             action(type=\"omfile\" file=\"{at}/out\" template=\"line\")\n",
            self.port
        );
        std::fs::write(self.dir.join("conf"), text).expect("write");
        let (conf, pid) = (self.dir.join("conf"), self.dir.join("pid"));
        let _ = std::fs::remove_file(&pid);
        self.run(Command::new("rsyslogd").arg("-n").arg("-f").arg(conf).arg("-i").arg(pid));
    }

    fn fluent(&mut self) {
        let script = "const { FluentServer } = require('@fluent-org/logger');
            const [port, out] = process.argv.slice(1), fs = require('fs');
            const server = new FluentServer({ listenOptions: { port: Number(port), host: '127.0.0.1' } });
            server.on('entry', (tag, time, record) => fs.appendFileSync(out, JSON.stringify([tag, record]) + '\\n'));
            server.listen();";
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients/node_modules");
        let (port, out) = (self.port.to_string(), self.dir.join("out"));
        self.run(Command::new("node").args(["-e", script, &port]).arg(out).env("NODE_PATH", modules));
    }

    pub(crate) fn out(&self) -> String {
        std::fs::read(self.dir.join("out")).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }
}

/// How far the delivery of a container's log is.
pub(crate) fn delivery(root: &Root, id: &str) -> LogDelivery {
    root.inspect(id).state.log_delivery.expect("State.LogDelivery")
}

pub(crate) fn await_delivery(root: &Root, id: &str) -> LogDelivery {
    root.wait_for("the delivery", || delivery(root, id).owed.lines == 0);
    delivery(root, id)
}

// field: State.LogDelivery
#[test]
fn lines_reach_syslog_and_can_be_read_here() {
    let (root, mut receiver) = (shipping(), Receiver::new());
    receiver.rsyslog();
    let address = format!("tcp://127.0.0.1:{}", receiver.port);
    let mut more =
        logged("syslog", &json!({ "syslog-address": address, "tag": "{{.Name}}", "syslog-facility": "local0" }));
    more["Labels"] = json!({ "team": "a" });
    let id = root.create("web", body(&["sh", "-c", "seq 1 500; echo problem >&2"], more));
    assert_eq!(root.inspect(&id).state.log_delivery, None, "nothing is delivered before the first start");
    root.start(&id);
    assert_eq!(root.wait(&id), 0);
    let all = await_delivery(&root, &id);
    assert_eq!((all.driver.as_str(), all.delivered, all.lost, all.last_error.as_str()), ("syslog", 501, 0, ""));
    assert!(!all.last_delivered.is_empty());
    root.wait_for("the lines", || receiver.out().lines().count() == 501);
    let (lines, out) = ((1..=500).map(|n| format!("134|web[{}]:| {n}", std::process::id())), receiver.out());
    let plain: Vec<&str> = out.lines().filter(|line| line.starts_with("134|")).collect();
    assert_eq!(plain, lines.collect::<Vec<_>>());
    assert!(out.contains("131|web[") && out.contains("| problem"));
    let here = root.logs(&id);
    assert_eq!((here.stdout.split(|byte| *byte == b'\n').count() - 1, here.stderr), (500, b"problem\n".to_vec()));
}

#[test]
fn info_has_the_sums_of_each_driver_and_every_line_counts_once() {
    let (root, mut receiver) = (shipping(), Receiver::new());
    receiver.rsyslog();
    assert_eq!(
        root.engine.info().expect("info")["LogDelivery"],
        json!({ "Drivers": {}, "Dropped": 0,
        "Outbox": { "MaxBytes": 268_435_456, "MaxSeconds": 604_800 } })
    );
    let run = |name: &str, kind: &str, options: Value| {
        let words = ["sh", "-c", "seq 1 40; echo; echo; echo end"];
        let id = root.create(name, body(&words, logged(kind, &options)));
        root.start(&id);
        root.wait(&id);
        id
    };
    let tcp = format!("tcp://127.0.0.1:{}", receiver.port);
    let stream = ["one", "two"].map(|name| run(name, "syslog", json!({ "syslog-address": tcp })));
    let owed = run("three", "syslog", json!({ "syslog-address": "tcp://127.0.0.1:1" }));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let udp = format!("udp://{}", socket.local_addr().expect("an address"));
    let datagrams = run("four", "gelf", json!({ "gelf-address": udp }));
    for id in &stream {
        let all = await_delivery(&root, id);
        assert_eq!((all.delivered, all.sent, all.left_out, all.lost), (43, 0, 0, 0));
    }
    let all = await_delivery(&root, &datagrams);
    assert_eq!((all.delivered, all.sent, all.left_out, all.lost), (0, 41, 2, 0));
    assert_eq!(delivery(&root, &owed).owed.lines, 43);
    let sums = &root.engine.info().expect("info")["LogDelivery"]["Drivers"];
    let of = |driver: &str, keys: &[&str]| keys.iter().map(|key| sums[driver][key].as_u64()).collect::<Vec<_>>();
    let keys = ["Logs", "Delivered", "Sent", "LeftOut", "Lost"];
    assert_eq!(of("syslog", &keys), [3, 86, 0, 0, 0].map(Some));
    assert_eq!((&sums["syslog"]["Owed"]["Lines"], &sums["gelf"]["Owed"]["Lines"]), (&json!(43), &json!(0)));
    assert_eq!(of("gelf", &keys), [1, 0, 41, 2, 0].map(Some));
}

#[test]
fn records_reach_fluentd_with_the_container_s_facts() {
    let (root, mut receiver) = (shipping(), Receiver::new());
    receiver.fluent();
    let address = format!("127.0.0.1:{}", receiver.port);
    let options =
        json!({ "fluentd-address": address, "fluentd-request-ack": "true", "labels": "team", "env": "STAGE" });
    let mut more = logged("fluentd", &options);
    (more["Labels"], more["Env"]) = (json!({ "team": "a" }), json!(["STAGE=test"]));
    let id = root.create("web", body(&["sh", "-c", "echo one; head -c 40000 /dev/zero | tr '\\0' x; echo"], more));
    root.start(&id);
    root.wait(&id);
    assert_eq!(await_delivery(&root, &id).delivered, 4);
    root.wait_for("the records", || receiver.out().lines().count() == 4);
    let out: Vec<Value> = receiver.out().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let wanted = json!([&id[..12], { "container_id": id, "container_name": "/web", "source": "stdout", "log": "one",
        "team": "a", "STAGE": "test" }]);
    assert_eq!(out[0], wanted);
    let parts: Vec<_> = out[1..].iter().map(|one| (&one[1]["partial_ordinal"], &one[1]["partial_last"])).collect();
    let texts = ["1", "2", "3"].map(|n| json!(n));
    assert_eq!(parts, [(&texts[0], &json!("false")), (&texts[1], &json!("false")), (&texts[2], &json!("true"))]);
}

#[test]
fn an_absent_receiver_holds_up_nothing_and_gets_all_later() {
    let (root, mut receiver) = (shipping(), Receiver::new());
    let address = format!("tcp://127.0.0.1:{}", receiver.port);
    let script = "trap 'echo bye; exit 3' TERM; seq 1 20000; while :; do sleep 0.05; done";
    let more = logged("syslog", &json!({ "syslog-address": address }));
    let id = root.create("web", body(&["sh", "-c", script], more.clone()));
    root.start(&id);
    root.wait_for("the failure", || !delivery(&root, &id).last_error.is_empty());
    root.wait_for("the output", || delivery(&root, &id).owed.lines == 20_000);
    let now = delivery(&root, &id);
    assert_eq!(now.last_error, "the receiver cannot be reached: Connection refused");
    assert_eq!((now.delivered, now.lost), (0, 0));
    root.engine.container_stop(&id, Some(30_000), Some(&soon())).expect("stop");
    assert_eq!(root.inspect(&id).state.exit_code, 3);
    // A removed container is owed to the receiver all the same.
    root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
    assert!(!root.dir.join("root/containers").join(&id).exists());
    receiver.rsyslog();
    root.wait_for("the lines", || receiver.out().lines().count() == 20_001);
    assert!(receiver.out().lines().last().is_some_and(|line| line.ends_with("| bye")));
    root.wait_for("the end of the delivery", || !outbox(&root, &id).exists());
}

#[test]
fn the_outbox_keeps_to_bounds_that_an_open_names_and_counts_the_dropped_lines() {
    let root = shipping();
    let owe = |name: &str, count: u32| {
        let more = logged("syslog", &json!({ "syslog-address": "tcp://127.0.0.1:1" }));
        let id = root.create(name, body(&["seq", "1", &count.to_string()], more));
        root.start(&id);
        root.wait(&id);
        root.engine.container_remove(&id, RemoveContainer::default(), Some(&soon())).expect("remove");
        outbox(&root, &id)
    };
    let (old, young) = (owe("old", 2000), owe("young", 1000));
    assert!(old.exists() && young.exists());
    let open = |size: Option<&str>, age: Option<&str>| {
        let mut options = options_at(&root.dir);
        options.outbox = coracle::Outbox::parse(size, age).expect("bounds");
        drop(Engine::open_with(options).expect("open"));
    };
    let told = || root.engine.info().expect("info")["LogDelivery"].clone();
    // Some 80 bytes a line: one of the two logs is too much. The deliverer of the first open sees it.
    open(Some("200k"), None);
    root.wait_for("the older log's end", || !old.exists());
    root.wait_for("the count", || told()["Dropped"] == 2000);
    assert!(young.exists());
    let bounds = json!({ "MaxBytes": 204_800, "MaxSeconds": 604_800 });
    assert_eq!(told()["Outbox"], bounds);
    // An open that names none leaves them.
    open(None, None);
    assert_eq!((told()["Outbox"].clone(), young.exists()), (bounds, true));
    open(None, Some("0s"));
    root.wait_for("the younger log's end", || !young.exists());
    root.wait_for("the count", || told()["Dropped"] == 3000);
}

/// A container whose spool takes some 40 KB, with more lines than that for a receiver that is not there. `mode`: as the
/// option.
fn overflowing(root: &Root, receiver: &Receiver, mode: &str) -> String {
    let address = format!("tcp://127.0.0.1:{}", receiver.port);
    let options = json!({ "syslog-address": address, "mode": mode, "cache-max-size": "20k", "cache-max-file": "2",
        "cache-compress": "false" });
    let script = "trap 'exit 7' TERM; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo line $i; done";
    let id = root.create("", body(&["sh", "-c", script], logged("syslog", &options)));
    root.start(&id);
    id
}

/// The bytes of the files of a container's log.
fn spooled(root: &Root, id: &str) -> u64 {
    let dir = std::fs::read_dir(root.dir.join("root/containers").join(id)).expect("list");
    let files = dir.flatten().filter(|entry| entry.file_name().to_string_lossy().contains(".log"));
    files.map(|entry| entry.metadata().map_or(0, |found| found.len())).sum()
}

#[test]
fn a_full_spool_waits_for_its_delivery_and_loses_nothing() {
    let (root, mut receiver) = (shipping(), Receiver::new());
    let id = overflowing(&root, &receiver, "blocking");
    root.wait_for("the failure", || !delivery(&root, &id).last_error.is_empty());
    // The process waits in a write: neither its output nor the spool grows any more.
    let mut before = 0;
    root.wait_for("the spool to be full", || {
        let now = delivery(&root, &id).owed.lines;
        std::thread::sleep(std::time::Duration::from_millis(300));
        std::mem::replace(&mut before, now) == now && now > 0
    });
    let held = delivery(&root, &id);
    assert_eq!((root.status(&id).as_str(), held.lost, held.delivered), ("running", 0, 0));
    assert!(held.owed.lines < 30_000 && spooled(&root, &id) < 400_000, "{held:?} {}", spooled(&root, &id));
    // A second container waits, too, and ends by a signal.
    let other = overflowing(&root, &receiver, "blocking");
    root.wait_for("its lines", || delivery(&root, &other).owed.lines > 300);
    root.engine.container_stop(&other, Some(100), Some(&soon())).expect("stop");
    assert!([7, 137].contains(&root.inspect(&other).state.exit_code));
    root.engine.container_remove(&other, RemoveContainer::default(), Some(&soon())).expect("remove");
    receiver.rsyslog();
    assert_eq!(root.wait(&id), 0);
    let all = await_delivery(&root, &id);
    assert_eq!((all.delivered, all.lost), (30_000, 0));
    let tag = format!("{}[", &id[..12]);
    let lines = || receiver.out().lines().filter(|line| line.contains(&tag)).map(str::to_owned).collect::<Vec<_>>();
    root.wait_for("the lines", || lines().len() >= 30_000);
    for (at, line) in lines().iter().enumerate() {
        assert!(line.ends_with(&format!(" line {}", at + 1)), "{at}: {line}");
    }
}

#[test]
fn a_full_spool_of_the_other_mode_counts_what_gave_way() {
    let (root, mut receiver) = (shipping(), Receiver::new());
    let id = overflowing(&root, &receiver, "non-blocking");
    assert_eq!(root.wait(&id), 0);
    receiver.rsyslog();
    let all = await_delivery(&root, &id);
    // Lines that had no room in the buffer did not reach the spool.
    let dropped = root.inspect(&id).state.log_lost.unsigned_abs();
    assert!(all.lost > 0 && all.lost + all.delivered + dropped == 30_000, "{all:?}, {dropped} dropped");
    let count = || u64::try_from(receiver.out().lines().count()).expect("a number");
    root.wait_for("the lines", || count() == all.delivered);
}

fn outbox(root: &Root, id: &str) -> PathBuf {
    root.dir.join("root/outbox").join(id)
}

#[test]
fn another_program_s_container_is_delivered_once_a_program_delivers() {
    let (root, mut receiver) = (Root::new(), Receiver::new());
    receiver.rsyslog();
    let more = logged("syslog", &json!({ "syslog-address": format!("tcp://127.0.0.1:{}", receiver.port) }));
    let id = root.create("web", body(&["seq", "1", "300"], more));
    root.start(&id);
    root.wait(&id);
    assert_eq!(delivery(&root, &id).owed.lines, 300);
    for _ in 0..2 {
        let mut options = options_at(&root.dir);
        options.ship_logs = ShipLogs::Thread;
        let engine = Engine::open_with(options).expect("open the root again");
        assert_eq!(await_delivery(&root, &id).delivered, 300);
        drop(engine);
    }
    root.wait_for("the lines", || receiver.out().lines().count() == 300);
}

#[test]
fn receivers_are_reached_through_the_proxy_of_the_options() {
    let proxy = Scripted::start(|_| Answered::new(503, ""));
    let proxies = Proxies { https: Some(format!("http://{}", proxy.host())), exempt: Some(String::new()), http: None };
    let root = Root::with(|options: &mut Options| {
        options.ship_logs = ShipLogs::Thread;
        options.registry.proxies = proxies;
    });
    root.load(&busybox_archive());
    // Only a proxy can know the receivers' names.
    let at = |url: &str, more: &Value| {
        let mut config = json!({ "splunk-url": url, "splunk-token": "t", "splunk-insecureskipverify": "true" });
        config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        root.create("", body(&["echo", "line"], logged("splunk", &config)))
    };
    let asked = |site: &str| proxy.asked().iter().any(|asked| asked.method == "CONNECT" && asked.target == site);
    let verified = at("https://start.test:8088", &json!({ "splunk-verify-connection": "true" }));
    let refused = root.engine.container_start(&verified, None, None).expect_err("no tunnel");
    assert!(refused.message().contains("failed to verify connection - the proxy "), "{refused}");
    assert!(asked("start.test:8088"));
    let id = at("https://line.test:8089", &json!({}));
    root.start(&id);
    root.wait_for("the tunnel's request", || asked("line.test:8089"));
    root.wait_for("the error", || delivery(&root, &id).last_error.starts_with("the proxy "));
}

#[test]
fn wrong_options_of_drivers_are_refused_at_create() {
    let root = Root::new();
    for (kind, options, text) in [
        ("syslog", json!({ "syslog-format": "x" }), "Invalid syslog format"),
        ("syslog", json!({ "zz": "x" }), "unknown log opt 'zz' for syslog log driver"),
        ("syslog", json!({ "tag": "{{.Nope}}" }), "can't evaluate field Nope"),
        ("syslog", json!({ "cache-max-size": "x" }), "invalid value for cache-max-size: x"),
        ("gelf", json!({}), "gelf-address is a required parameter"),
        ("fluentd", json!({ "mode": "fast" }), "logger: logging mode not supported: fast"),
        ("journald", json!({ "path": "x" }), "unknown log opt 'path' for journald log driver"),
        ("splunk", json!({ "splunk-url": "http://a" }), "splunk: splunk-token is expected"),
        ("awslogs", json!({ "awslogs-region": "a" }), "must specify a value for log opt 'awslogs-group'"),
        ("gcplogs", json!({ "tag": "x" }), "\"tag\" is not a valid option for the gcplogs driver"),
        ("otlp", json!({ "otlp-compression": "zstd" }), "otlp-compression should be gzip or none, got zstd"),
        ("etwlogs", json!({}), "logger: no log driver named 'etwlogs' is registered"),
    ] {
        let refused = root.try_create("", body(&["true"], logged(kind, &options))).expect_err(kind);
        assert!(refused.message().contains(text), "{kind}: {refused}");
        assert!(matches!(refused.kind(), ErrorKind::Invalid | ErrorKind::Unsupported), "{refused:?}");
    }
    let more = logged("syslog", &json!({ "syslog-address": "udp://127.0.0.1:9", "cache-disabled": "true" }));
    let id = root.create("queue", body(&["true"], more));
    let read = root.engine.container_logs(&id, &LogQuery::default(), Some(&soon()));
    assert!(read.is_err_and(|error| error.message() == "configured logging driver does not support reading"));
}

#[test]
fn a_file_of_options_that_cannot_be_read_fails_the_start() {
    let root = shipping();
    let start = |option: &str, path: &str| {
        let options = json!({ "syslog-address": "tcp+tls://127.0.0.1:9", option: path });
        let id = root.create("", body(&["true"], logged("syslog", &options)));
        root.engine.container_start(&id, None, None).map(drop)
    };
    let endless = "failed to initialize logging driver: syslog-tls-ca-cert: read /dev/zero: not a regular file";
    fails(start("syslog-tls-ca-cert", "/dev/zero"), ErrorKind::Internal, endless);
    fails(start("syslog-tls-key", "/no/key"), ErrorKind::Internal, "read /no/key: No such file or directory");
}
