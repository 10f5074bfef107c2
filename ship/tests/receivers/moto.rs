//! awslogs: moto, which checks signatures as the service does.

use crate::world::*;
use nix::sys::signal::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The python with moto that `tools/setup test` makes.
fn python() -> Command {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(manifest.join("../target/moto/bin/python"));
    command.arg(manifest.join("tests/receivers/cloud_watch.py"));
    command
}

pub struct Moto {
    pub port: u16,
    pub keys: PathBuf,
}

impl Moto {
    pub fn new(world: &World) -> Moto {
        Moto { port: free_port(), keys: world.dir.join("keys") }
    }

    pub fn start(&self) -> Program {
        let _ = std::fs::remove_file(&self.keys);
        let running = Program::start(python().args(["serve", &self.port.to_string()]).arg(&self.keys));
        wait_for("moto", || self.keys.exists());
        running
    }

    pub fn read(&self, group: &str, stream: &str) -> String {
        let mut command = python();
        command.args(["read", &self.port.to_string()]).arg(&self.keys).args([group, stream]);
        String::from_utf8(command.output().expect("python").stdout).expect("UTF-8")
    }

    pub fn container(&self, world: &World, name: &str, port: u16, more: &[(&str, &str)]) -> Log {
        let (endpoint, keys) = (format!("http://127.0.0.1:{port}"), self.keys.display().to_string());
        let base = [
            ("awslogs-endpoint", &*endpoint),
            ("awslogs-credentials-file", &keys),
            ("awslogs-region", "eu-west-1"),
            ("awslogs-group", "group"),
            ("awslogs-create-group", "true"),
        ];
        let mut options = base.to_vec();
        for (key, value) in more {
            options.retain(|(other, _)| other != key);
            options.push((*key, *value));
        }
        world.container(name, "awslogs", &options)
    }
}

fn error(log: &Log) -> String {
    log.status().map(|status| status.cursor.error()).unwrap_or_default()
}

#[test]
fn events_arrive_once_in_groups_and_streams_that_are_made() {
    let mut world = World::new();
    let receiver = Moto::new(&world);
    // Without keys and without a receiver, both come later.
    let mut log = receiver.container(&world, "a", receiver.port, &[]);
    let mut named = receiver.container(&world, "b", receiver.port, &[("awslogs-stream", "mine"), ("tag", "x")]);
    let mut strange = receiver.container(&world, "c", receiver.port, &[("awslogs-credentials-file", "/no/keys")]);
    let other = [("awslogs-create-group", "false"), ("awslogs-group", "missing")];
    let mut missing = receiver.container(&world, "d", receiver.port, &other);
    for log in [&mut log, &mut named, &mut strange, &mut missing] {
        log.write(3000);
    }
    world.ship();
    wait_for("the failure", || !error(&log).is_empty());
    let running = receiver.start();
    for (log, stream) in [(&log, &*log.id), (&named, "mine")] {
        assert_eq!(log.await_delivery(), (3000, 0));
        let counts = arrived(log, || receiver.read("group", stream));
        assert!(counts.values().all(|count| *count == 1), "lines came twice");
        let first = receiver.read("group", stream);
        assert!(first.starts_with(&format!("{{\"message\": \"{} n=1\"", &log.id[60..])), "{first:.100}");
        let time = line_ms();
        assert!(first.lines().next().is_some_and(|line| line.ends_with(&format!("\"timestamp\": {time}}}"))));
    }
    assert_eq!(error(&strange), "there are no credentials for the receiver");
    wait_for("the refusal", || error(&missing) == "the receiver refused the lines with the status 400");
    running.signal(Signal::SIGSTOP);
    log.write(3000);
    running.signal(Signal::SIGCONT);
    assert_eq!(log.await_delivery(), (6000, 0));
    arrived(&log, || receiver.read("group", &log.id));
}

#[test]
fn a_wrong_key_is_refused_until_the_right_one_is_there() {
    let mut world = World::new();
    let receiver = Moto::new(&world);
    let _running = receiver.start();
    let good = std::fs::read_to_string(&receiver.keys).expect("keys");
    std::fs::write(&receiver.keys, format!("{}x\n", good.trim_end())).expect("write");
    let mut log = receiver.container(&world, "a", receiver.port, &[]);
    world.ship();
    log.write(100);
    // The service knows the key, and not the signature.
    wait_for("the refusal", || error(&log) == "the receiver refused the lines with the status 403");
    std::fs::write(&receiver.keys, good).expect("write");
    assert_eq!(log.await_delivery(), (100, 0));
    arrived(&log, || receiver.read("group", &log.id));
}

#[test]
fn lines_without_a_text_are_left_out_and_counted() {
    let mut world = World::new();
    let receiver = Moto::new(&world);
    let _running = receiver.start();
    let mut log = receiver.container(&world, "a", receiver.port, &[]);
    world.ship();
    log.write_empty(5);
    log.write(100);
    log.write_empty(8);
    assert_eq!((log.await_delivery(), log.left_out()), ((100, 0), 13));
    assert_eq!(numbers(&receiver.read("group", &log.id), &log).len(), 100);
}

/// The service has no group for one container, and the other one, of the same account, makes the group.
#[test]
fn a_refusal_of_one_container_s_put_holds_no_other_up() {
    let mut world = World::new();
    let receiver = Moto::new(&world);
    let _running = receiver.start();
    let more = [("awslogs-group", "shared"), ("awslogs-create-group", "false")];
    let mut refused = receiver.container(&world, "a", receiver.port, &more);
    world.ship();
    refused.write(100);
    let refusal = "the receiver refused the lines with the status 400";
    wait_for("the refusal", || error(&refused) == refusal);
    let status = refused.status().expect("a status");
    assert_eq!((status.cursor.delivered, status.cursor.lost, status.owed.lines), (0, 0, 100));
    // The first one is asked for first in each round.
    let mut other = receiver.container(&world, "b", receiver.port, &[("awslogs-group", "shared")]);
    other.write(100);
    assert_eq!(other.await_delivery(), (100, 0));
    assert_eq!(error(&other), "");
    // The refused put comes again by itself, now that there is a group.
    assert_eq!(refused.await_delivery(), (100, 0));
    for log in [&refused, &other] {
        arrived(log, || receiver.read("shared", &log.id));
    }
}

/// Passes connections on, and cuts each of the first ones after a number of bytes in either direction.
fn cutter(to: u16, cuts: Vec<u64>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for cut in cuts.into_iter().chain(std::iter::repeat(u64::MAX)) {
            let (from, _) = listener.accept().expect("a connection");
            // At the end of the test moto is gone, and this work is done.
            let Ok(to) = TcpStream::connect(("127.0.0.1", to)) else { return };
            let left = Arc::new(AtomicU64::new(cut));
            let (from2, to2) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
            let theirs = Arc::clone(&left);
            let back = std::thread::spawn(move || pass(to2, from2, &theirs));
            pass(from, to, &left);
            back.join().expect("the other direction");
        }
    });
    port
}

/// Ends both sockets when no bytes are left.
fn pass(mut from: TcpStream, mut to: TcpStream, left: &AtomicU64) {
    let mut block = [0; 4096];
    loop {
        let got = match from.read(&mut block) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            got => got.unwrap_or(0),
        };
        let before = left.load(Ordering::Relaxed);
        let take = got.min(usize::try_from(before).unwrap_or(usize::MAX));
        left.store(before.saturating_sub(take as u64), Ordering::Relaxed);
        if got == 0 || to.write_all(&block[..take]).is_err() || take < got {
            let _ = (from.shutdown(std::net::Shutdown::Both), to.shutdown(std::net::Shutdown::Both));
            return;
        }
    }
}

#[test]
fn connections_that_are_cut_within_a_put_lose_nothing() {
    let mut world = World::new();
    let receiver = Moto::new(&world);
    let _running = receiver.start();
    // Moto takes one request of a connection. A put has some 30,000 bytes here: every other one is cut, at another place.
    let cuts: Vec<u64> = (0..20).flat_map(|number| [200 + number * 1_637, u64::MAX]).collect();
    let port = cutter(receiver.port, cuts);
    let mut log = receiver.container(&world, "a", port, &[]);
    world.ship();
    for _ in 0..24 {
        log.write(500);
        assert_eq!(log.await_delivery(), (log.written, 0));
    }
    let counts = arrived(&log, || receiver.read("group", &log.id));
    let twice = counts.values().filter(|count| **count > 1).count();
    println!("awslogs: {} lines over some 20 cuts: 0 missing, {twice} twice", log.written);
}
