//! fluentd: the server of `@fluent-org/logger`, with and without acknowledgements.

use crate::world::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The modules of node that `tools/setup test` installs.
fn modules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/clients/node_modules")
}

/// Writes each record that it gets as a line of JSON. The library acknowledges before it hands out the records of a frame,
/// so its answers wait until these are written.
const SERVER: &str = r#"
const { FluentServer } = require("@fluent-org/logger");
const fs = require("fs");
const [port, out] = process.argv.slice(2);
class Server extends FluentServer {
  handleConnection(socket) {
    const write = socket.write.bind(socket);
    socket.write = (bytes) => setImmediate(() => write(bytes));
    return super.handleConnection(socket);
  }
  onEntry(tag, time, record) {
    fs.appendFileSync(out, JSON.stringify([tag, String(time), record]) + "\n");
  }
}
const server = new Server({ listenOptions: { port: Number(port), host: "127.0.0.1" } });
server.listen().then(() => fs.writeFileSync(out + ".ready", ""));
"#;

pub struct Fluent {
    dir: PathBuf,
    pub port: u16,
}

impl Fluent {
    pub fn new(world: &World) -> Fluent {
        let dir = world.dir.join("fluent");
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("server.js"), SERVER).expect("write");
        Fluent { dir, port: free_port() }
    }

    pub fn start(&self) -> Program {
        let ready = self.dir.join("out.ready");
        let _ = std::fs::remove_file(&ready);
        let mut command = Command::new("node");
        command.arg(self.dir.join("server.js")).arg(self.port.to_string()).arg(self.dir.join("out"));
        let program = Program::start(command.env("NODE_PATH", modules()));
        wait_for("the fluent server", || ready.exists());
        program
    }

    pub fn out(&self) -> String {
        std::fs::read_to_string(self.dir.join("out")).unwrap_or_default()
    }
}

#[test]
fn records_have_dockerd_s_fields() {
    let mut world = World::new();
    let receiver = Fluent::new(&world);
    let _running = receiver.start();
    let address = format!("127.0.0.1:{}", receiver.port);
    let precise = [("fluentd-address", address.as_str()), ("fluentd-sub-second-precision", "true")];
    let mut plain = world.container("a", "fluentd", &precise[..1]);
    let mut precise = world.container("b", "fluentd", &precise);
    world.ship();
    for log in [&mut plain, &mut precise] {
        log.write(2000);
        assert_eq!(log.await_delivery(), (2000, 0));
        arrived(log, || receiver.out());
        let out = receiver.out();
        let first =
            out.lines().find(|line| line.contains(&format!("{} n=1\"", &log.id[60..]))).expect("the first line");
        let first: serde_json::Value = serde_json::from_str(first).expect("JSON");
        assert_eq!(first[0], "tag");
        assert_eq!(first[2]["container_id"], log.id.as_str());
        assert_eq!(first[2]["source"], "stderr");
        assert!(first[2]["container_name"].as_str().is_some_and(|name| name == format!("/{}", &log.id[63..])));
    }
}

#[test]
fn acknowledged_frames_survive_a_receiver_that_is_killed() {
    let mut world = World::new();
    let receiver = Fluent::new(&world);
    let address = format!("tcp://127.0.0.1:{}", receiver.port);
    let mut log = world.container("a", "fluentd", &[("fluentd-address", &address), ("fluentd-request-ack", "true")]);
    world.ship();
    for _ in 0..6 {
        log.write(3000);
        let before = receiver.out().len();
        let running = receiver.start();
        wait_for("some lines", || receiver.out().len() > before);
        // SIGKILL, in the middle of the delivery.
        drop(running);
    }
    let _running = receiver.start();
    assert_eq!(log.await_delivery(), (log.written, 0));
    let counts = numbers(&receiver.out(), &log);
    let twice = counts.values().filter(|count| **count > 1).count();
    println!("{} lines over 6 kills: {} missing, {twice} twice", log.written, missing(&counts, &log).len());
    assert_eq!(missing(&counts, &log), [] as [u64; 0]);
}
