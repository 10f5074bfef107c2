//! gelf: the reader of `go-gelf`, by datagrams (with every compression, in chunks) and by a stream.

use crate::world::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The receiver, built once in a run.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/receivers/go-gelf");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-gelf");
        let built = Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(source).output();
        let built = built.expect("go: run tools/setup test");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    })
}

fn start(world: &World, kind: &str) -> (Program, String, PathBuf) {
    let (out, address) = (world.dir.join(kind), format!("127.0.0.1:{}", free_port()));
    let mut command = Command::new(program());
    let running = Program::start(command.args([kind, &address]).arg(&out));
    let ready = out.with_extension("ready");
    wait_for("the receiver", || ready.exists());
    (running, format!("{kind}://{address}"), out)
}

fn read(out: &Path) -> String {
    std::fs::read_to_string(out).unwrap_or_default()
}

#[test]
fn datagrams_arrive_whatever_their_compression_and_length() {
    let mut world = World::new();
    let (_running, address, out) = start(&world, "udp");
    let kinds = [("a", "gzip"), ("b", "zlib"), ("c", "none")];
    let logs = kinds.map(|(name, packing)| {
        let options = [("gelf-address", address.as_str()), ("gelf-compression-type", packing)];
        world.container(name, "gelf", &options)
    });
    world.ship();
    for mut log in logs {
        log.write(20);
        // Longer than a datagram, also when it is packed: digits of a number that has no pattern.
        let noise: String = (1..1500_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        log.write_with(1, &format!("/{}", &noise[..16_000]));
        assert_eq!(log.await_delivery(), (21, 0));
        arrived(&log, || read(&out));
        let all = read(&out);
        let last = all.lines().find(|line| line.contains(&format!("{} n=21", &log.id[60..]))).expect("the long one");
        let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
        assert!(last["short"].as_str().is_some_and(|text| text.ends_with(&noise[15_900..16_000])));
        let facts = [&last["version"], &last["host"], &last["extra"]["_tag"], &last["extra"]["_container_id"]];
        assert_eq!(facts.map(|fact| fact.as_str()), [Some("1.1"), Some("box"), Some("tag"), Some(&*log.id)]);
        assert_eq!((last["level"].as_i64(), last["time"].as_f64()), (Some(3), Some(line_ms() as f64 / 1000.0)));
    }
}

#[test]
fn lines_without_a_text_are_left_out_and_counted() {
    let mut world = World::new();
    for (kind, name) in [("udp", "a"), ("tcp", "b")] {
        let (_running, address, out) = start(&world, kind);
        let mut log = world.container(name, "gelf", &[("gelf-address", &address)]);
        world.ship();
        log.write_empty(3);
        for _ in 0..5 {
            log.write(10);
            log.write_empty(4);
        }
        assert_eq!(log.await_delivery(), (50, 0));
        assert_eq!((log.left_out(), log.status().expect("a status").is_acknowledged), (23, kind == "tcp"));
        wait_for("the lines", || numbers(&read(&out), &log).len() == 50);
        world.stop_shipping();
    }
}

#[test]
fn a_stream_brings_every_message_also_to_a_receiver_that_restarts() {
    let mut world = World::new();
    let (running, address, out) = start(&world, "tcp");
    let mut log = world.container("a", "gelf", &[("gelf-address", &address)]);
    world.ship();
    log.write(3000);
    assert_eq!(log.await_delivery(), (3000, 0));
    arrived(&log, || read(&out));
    drop(running);
    log.write(3000);
    let mut command = Command::new(program());
    let _running = Program::start(command.args(["tcp", address.trim_start_matches("tcp://")]).arg(&out));
    assert_eq!(log.await_delivery(), (6000, 0));
    arrived(&log, || read(&out));
}
