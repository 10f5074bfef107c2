//! Faults of receivers and of everything between, at each kind of receiver: the lines are compared by their numbers.
//! `CORACLE_FAULTS` says how often a receiver is killed; without it the doses are small.

use crate::peers::{Kind, Peer, Relay};
use crate::world::*;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;

pub const KINDS: [Kind; 8] = [
    Kind::SyslogTcp,
    Kind::SyslogTls,
    Kind::Relp,
    Kind::Fluentd,
    Kind::Splunk,
    Kind::Otlp,
    Kind::Awslogs,
    Kind::GelfTcp,
];
/// A connection's receive buffer in the kernel has so many bytes at most.
const KERNEL: u64 = 6 << 20;

fn dose(small: u64) -> u64 {
    std::env::var("CORACLE_FAULTS").ok().and_then(|text| text.parse().ok()).unwrap_or(small)
}

pub fn is_full() -> bool {
    dose(0) > 0
}

fn said(what: &str, peer: &Peer, log: &Log, counts: &BTreeMap<u64, u64>) {
    let twice = counts.values().filter(|count| **count > 1).count();
    let (kind, missing) = (peer.kind, missing(counts, log).len());
    println!("{kind:?}, {what}: {} lines, {missing} missing, {twice} twice", log.written);
}

/// Waits until no line is owed, and none that must be there is missing.
fn all_are_there(what: &str, peer: &Peer, log: &Log) {
    assert_eq!(log.await_delivery(), (log.written, 0), "{:?}", peer.kind);
    if !peer.kind.is_answered() {
        // The receiver's kernel has the last ones, and its program takes them.
        wait_for("the last lines", || peer.counts(log).len() as u64 == log.written);
    }
    let counts = peer.counts(log);
    said(what, peer, log, &counts);
    assert_eq!(missing(&counts, log), [] as [u64; 0], "{:?}", peer.kind);
}

#[test]
fn a_receiver_that_is_absent_and_one_that_is_stopped_lose_nothing() {
    for kind in KINDS {
        let mut world = World::new();
        let peer = Peer::new(&world, kind);
        let mut log = peer.log(&world, "a", peer.port);
        world.ship();
        log.write_with(2000, ";");
        wait_for("the failure", || log.status().is_some_and(|status| !status.cursor.error().is_empty()));
        let running = peer.start();
        for _ in 0..3 {
            running.signal(Signal::SIGSTOP);
            log.write_with(2000, ";");
            std::thread::sleep(std::time::Duration::from_millis(300));
            running.signal(Signal::SIGCONT);
        }
        all_are_there("absent, 3 stops", &peer, &log);
    }
}

#[test]
fn a_receiver_that_is_killed_again_and_again_loses_at_most_what_its_kernel_had() {
    let kills = dose(4);
    // Moto has its events in memory alone: the connections to it are cut instead.
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Awslogs) {
        let mut world = World::new();
        let peer = Peer::new(&world, kind);
        let mut log = peer.log(&world, "a", peer.port);
        world.ship();
        for _ in 0..kills {
            let before = peer.text().len();
            let running = peer.start();
            log.write_with(1500, ";");
            wait_for("some lines", || peer.text().len() > before);
            log.write_with(500, ";");
            drop(running);
        }
        let _running = peer.start();
        log.write_with(10, ";");
        if kind.is_answered() {
            all_are_there(&format!("{kills} kills"), &peer, &log);
            continue;
        }
        assert_eq!(log.await_delivery(), (log.written, 0));
        wait_for("the last line", || peer.counts(&log).contains_key(&log.written));
        let counts = peer.counts(&log);
        said(&format!("{kills} kills"), &peer, &log, &counts);
        assert!(missing(&counts, &log).len() as u64 * 10 <= kills * KERNEL, "more than the kernel can have had");
    }
}

#[test]
fn a_receiver_that_is_ended_and_started_again_and_again_gets_all() {
    let ends = dose(4);
    for kind in [Kind::SyslogTcp, Kind::SyslogTls, Kind::Relp] {
        let mut world = World::new();
        let peer = Peer::new(&world, kind);
        let mut log = peer.log(&world, "a", peer.port);
        world.ship();
        for _ in 0..ends {
            let before = peer.text().len();
            let running = peer.start();
            log.write_with(1500, ";");
            wait_for("some lines", || peer.text().len() > before);
            log.write_with(500, ";");
            running.end();
        }
        let _running = peer.start();
        log.write_with(10, ";");
        all_are_there(&format!("{ends} ends"), &peer, &log);
    }
}

/// Bytes of a connection within which it is cut: those of a line, or of a whole request.
fn span(kind: Kind) -> u64 {
    match kind {
        Kind::SyslogTcp | Kind::Relp => 130,
        Kind::Fluentd => 260,
        Kind::GelfTcp => 420,
        Kind::Splunk | Kind::Otlp => 560,
        Kind::Awslogs => 800,
        // The agreement is most of it.
        Kind::SyslogTls => 900,
    }
}

#[test]
fn connections_that_are_cut_at_every_byte_lose_nothing() {
    let (lanes, step) = if is_full() { (16, 1) } else { (6, 23) };
    for kind in KINDS {
        let mut world = World::new();
        let peer = Peer::new(&world, kind);
        let _running = peer.start();
        world.ship();
        let cuts: Vec<u64> = (0..=span(kind)).step_by(step).collect();
        let share = cuts.len().div_ceil(lanes);
        let mut logs = Vec::new();
        std::thread::scope(|scope| {
            let works: Vec<_> = cuts
                .chunks(share)
                .enumerate()
                .map(|(lane, cuts)| {
                    let (peer, world) = (&peer, &world);
                    scope.spawn(move || {
                        let relay = Relay::new(peer.port);
                        let mut log = peer.log(world, &format!("{lane}"), relay.port);
                        for cut in cuts {
                            relay.arm(*cut);
                            log.write_with(2, ";");
                            assert_eq!(log.await_delivery(), (log.written, 0), "{kind:?} {cut}");
                        }
                        log
                    })
                })
                .collect();
            logs.extend(works.into_iter().map(|work| work.join().expect("a lane")));
        });
        let (mut lines, mut twice) = (0, 0);
        for log in &logs {
            let until = std::time::Instant::now() + SOON;
            while peer.counts(log).len() as u64 != log.written {
                assert!(
                    std::time::Instant::now() < until,
                    "{kind:?}: {:?} are missing",
                    missing(&peer.counts(log), log)
                );
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            lines += log.written;
            twice += peer.counts(log).values().filter(|count| **count > 1).count();
        }
        println!("{kind:?}, {} cuts: {lines} lines, 0 missing, {twice} twice", cuts.len());
    }
}

/// The seconds between now and each of some times of lines: a clock that was set, several times.
const JUMPS: [i64; 6] = [0, -3 * 86_400, 3600, -1, -7200, -86_400];

#[test]
fn lines_of_a_clock_that_is_set_back_and_forth_arrive_all() {
    let times = JUMPS.map(|seconds| {
        let words = ["-u", "-d", &format!("{seconds} seconds"), "+%Y-%m-%dT%H:%M:%S.5Z"];
        let out = std::process::Command::new("date").args(words).output().expect("date");
        String::from_utf8(out.stdout).expect("a time").trim().to_owned()
    });
    for kind in KINDS {
        let mut world = World::new();
        let peer = Peer::new(&world, kind);
        let _running = peer.start();
        let mut log = peer.log(&world, "a", peer.port);
        world.ship();
        for number in 1..=600 {
            let text = format!("{} n={number};\n", &log.id[60..]);
            log.push_record_at(&text, number % 2 == 0, &times[number % times.len()]);
        }
        all_are_there("clock set back and forth", &peer, &log);
    }
}
