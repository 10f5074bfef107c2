//! gcplogs: a server that checks signatures, and reads requests by Google's own message types.

use crate::world::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The python that `tools/setup test` makes.
fn python() -> Command {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(manifest.join("../target/gcp/bin/python"));
    command.arg(manifest.join("tests/receivers/cloud_logging.py"));
    command
}

pub struct CloudLogging {
    pub dir: PathBuf,
    pub port: u16,
}

impl CloudLogging {
    pub fn new(world: &World) -> CloudLogging {
        let dir = world.dir.join("gcp");
        std::fs::create_dir_all(&dir).expect("a directory");
        let made = python().arg("keys").arg(&dir).status().expect("python: run tools/setup test");
        assert!(made.success());
        CloudLogging { dir, port: free_port() }
    }

    pub fn start(&self) -> Program {
        let ready = self.dir.join("out.ready");
        let _ = std::fs::remove_file(&ready);
        let mut command = python();
        command.args(["serve", &self.port.to_string()]).arg(&self.dir).arg(self.dir.join("out"));
        let running = Program::start(&mut command);
        wait_for("the server", || ready.exists());
        running
    }

    pub fn out(&self) -> String {
        std::fs::read_to_string(self.dir.join("out")).unwrap_or_default()
    }

    fn container(&self, world: &World, name: &str, key: &str, more: &[(&str, &str)]) -> Log {
        let (url, file) = (format!("http://127.0.0.1:{}", self.port), self.dir.join(key).display().to_string());
        let base = [("gcp-endpoint", url.as_str()), ("gcp-credentials-file", file.as_str())];
        let options: Vec<_> = base.iter().chain(more).copied().collect();
        world.container(name, "gcplogs", &options)
    }

    fn entry(&self, text: &str) -> Value {
        let (out, text) = (self.out(), format!("\"{text}\""));
        let line = out.lines().find(|line| line.contains(&text)).expect("the entry");
        serde_json::from_str(line).expect("JSON")
    }
}

fn error(log: &Log) -> String {
    log.status().map(|status| status.cursor.error()).unwrap_or_default()
}

#[test]
fn entries_have_dockerd_s_payload_and_are_there_once() {
    let mut world = World::new();
    let receiver = CloudLogging::new(&world);
    let _running = receiver.start();
    let machine = [("gcp-project", "project-2"), ("gcp-meta-zone", "z"), ("gcp-meta-name", "n"), ("gcp-meta-id", "7")];
    let mut plain = receiver.container(&world, "a", "good.json", &[]);
    let mut placed = receiver.container(&world, "b", "good.json", &machine);
    world.ship();
    for log in [&mut plain, &mut placed] {
        log.write(3000);
        assert_eq!(log.await_delivery(), (2999, 1), "the entry that the service refuses is counted");
        let counts = numbers(&receiver.out(), log);
        assert_eq!(missing(&counts, log), [13]);
        assert!(counts.values().all(|count| *count == 1));
    }
    let (first, other) = (receiver.entry("000a n=1"), receiver.entry("000b n=2"));
    let container = json!({ "name": "/a", "id": plain.id, "imageName": "busybox" });
    assert_eq!(first["jsonPayload"], json!({ "message": "000a n=1", "container": container }));
    assert_eq!(first["timestamp"], format!("{}.500Z", line_time()));
    assert_eq!(first["insertId"], format!("{}-1", plain.id));
    assert_eq!(first["log"], "projects/project-1/logs/gcplogs-docker-driver");
    assert_eq!(first["resource"], json!({ "global": { "project_id": "project-1" } }));
    assert_eq!(other["jsonPayload"]["instance"], json!({ "zone": "z", "name": "n", "id": "7" }));
    assert_eq!(other["log"], "projects/project-2/logs/gcplogs-docker-driver");
    assert_eq!(other["resource"], json!({ "gce_instance": { "instance_id": "7", "zone": "z" } }));
}

#[test]
fn a_wrong_key_is_refused_until_the_right_one_is_in_the_file() {
    let mut world = World::new();
    let receiver = CloudLogging::new(&world);
    let _running = receiver.start();
    let mut log = receiver.container(&world, "a", "mine.json", &[]);
    world.ship();
    log.write(10);
    wait_for("the failure", || error(&log) == "there are no credentials for the receiver");
    std::fs::copy(receiver.dir.join("other.json"), receiver.dir.join("mine.json")).expect("copy");
    wait_for("the refusal", || error(&log) == "the receiver refused the lines with the status 401");
    assert_eq!(log.status().expect("a status").owed.lines, 10);
    std::fs::copy(receiver.dir.join("good.json"), receiver.dir.join("mine.json")).expect("copy");
    assert_eq!(log.await_delivery(), (10, 0));
    arrived(&log, || receiver.out());
}

#[test]
fn a_service_that_is_killed_gets_all() {
    let mut world = World::new();
    let receiver = CloudLogging::new(&world);
    let mut log = receiver.container(&world, "a", "good.json", &[]);
    world.ship();
    log.write(3000);
    wait_for("the failure", || !error(&log).is_empty());
    for _ in 0..3 {
        let before = receiver.out().len();
        let running = receiver.start();
        wait_for("some lines", || receiver.out().len() > before);
        log.write(3000);
        drop(running);
    }
    let _running = receiver.start();
    let (delivered, lost) = log.await_delivery();
    assert_eq!((delivered + lost, lost), (log.written, 1));
    let counts = numbers(&receiver.out(), &log);
    println!("gcplogs: {} lines over 3 kills: {} missing", log.written, missing(&counts, &log).len() - 1);
    assert_eq!(missing(&counts, &log), [13]);
}
