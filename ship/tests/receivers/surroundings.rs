//! Faults of everything around a delivery: the resolver, certificates, a full disk, the power.

use crate::disk::{Disk, Entry};
use crate::peers::{Kind, Peer};
use crate::world::*;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn error(log: &Log) -> String {
    log.status().map(|status| status.cursor.error()).unwrap_or_default()
}

/// Runs a test of this program again, in namespaces of its own.
pub fn inside(name: &str, namespaces: &[&str], script: &str) {
    let script = format!("set -e\n{script}\nexec \"$@\"");
    let mut inside = Command::new("unshare");
    inside.args(namespaces).args(["--propagation", "private", "sh", "-c", &script, "sh"]);
    inside.arg(std::env::current_exe().expect("this program"));
    let ended = inside
        .args(["--exact", name, "--nocapture", "--include-ignored"])
        .env("CORACLE_INSIDE", name)
        .output()
        .expect("unshare");
    let said = [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(ended.status.success(), "{said}");
    said.lines().filter(|line| line.starts_with("measured: ")).for_each(|line| println!("{line}"));
}

pub fn is_inside(name: &str) -> bool {
    std::env::var("CORACLE_INSIDE").is_ok_and(|inside| inside == name)
}

/// Answers questions for addresses with 127.0.0.`last`; does not answer while that is 0.
fn name_server(last: Arc<AtomicU32>) {
    let socket = UdpSocket::bind("127.0.0.9:53").expect("a name server's socket");
    std::thread::spawn(move || {
        let mut block = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut block) {
            let last = last.load(Ordering::SeqCst);
            let question = block[..length].to_vec();
            // A name, and four bytes with the kind of the question.
            let name = question[12..].iter().position(|byte| *byte == 0).expect("a name");
            let (end, kind) = (12 + name + 5, question[12 + name + 2]);
            if last == 0 {
                continue;
            }
            let mut answer = question[..end].to_vec();
            answer[2..4].copy_from_slice(&[0x81, 0x80]);
            answer[6..12].copy_from_slice(&[0, u8::from(kind == 1), 0, 0, 0, 0]);
            if kind == 1 {
                answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0]);
                answer.push(u8::try_from(last).expect("a byte"));
            }
            let _ = socket.send_to(&answer, from);
        }
    });
}

#[test]
fn a_resolver_that_is_late_and_then_wrong_holds_up_no_other_receiver() {
    let name = "surroundings::a_resolver_that_is_late_and_then_wrong_holds_up_no_other_receiver";
    if !is_inside(name) {
        let script = "ip link set lo up
            echo 'nameserver 127.0.0.9' >\"$TMPDIR/resolv.$$\"
            mount --bind \"$TMPDIR/resolv.$$\" /etc/resolv.conf
            rm \"$TMPDIR/resolv.$$\"";
        return inside(name, &["--mount", "--net"], &format!("TMPDIR=${{TMPDIR:-/tmp}}\n{script}"));
    }
    let last = Arc::new(AtomicU32::new(0));
    name_server(Arc::clone(&last));
    let mut world = World::new();
    let peer = Peer::new(&world, Kind::SyslogTcp);
    let _running = peer.start();
    let address = format!("tcp://logs.example:{}", peer.port);
    let mut named = world.container("a", "syslog", &[("syslog-address", &address)]);
    let mut plain = peer.log(&world, "b", peer.port);
    named.write_with(500, ";");
    world.ship();
    // The name server does not answer before this is done.
    plain.write_with(500, ";");
    assert_eq!(plain.await_delivery(), (500, 0));
    wait_for("the failure of the look-up", || error(&named).starts_with("the receiver's name has no address"));
    // Nobody listens there.
    last.store(2, Ordering::SeqCst);
    wait_for("the wrong address", || error(&named).starts_with("the receiver cannot be reached"));
    last.store(1, Ordering::SeqCst);
    assert_eq!(named.await_delivery(), (500, 0));
    wait_for("the lines", || peer.counts(&named).len() == 500);
    // The end waits for no look-up.
    last.store(0, Ordering::SeqCst);
    let mut late = world.container("c", "syslog", &[("syslog-address", "tcp://late.example:1")]);
    late.write(1);
    world.stop_shipping();
}

#[test]
fn a_certificate_that_is_wrong_or_too_old_gets_no_line_until_it_is_renewed() {
    let mut world = World::new();
    let peer = Peer::new(&world, Kind::SyslogTls);
    let dir = world.dir.join("SyslogTls");
    let renew = |how: &str| {
        let script = format!(
            "set -e; printf 'subjectAltName={how}\\n' | sed 's/ .*//' >names
            openssl x509 -req -days {} -in request.pem -CA ca.pem -CAkey ca.key -extfile names -out cert.pem",
            if how.ends_with("old") { "-1" } else { "2" }
        );
        let made = Command::new("sh").args(["-c", &script]).current_dir(&dir).output().expect("openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let mut log = peer.log(&world, "a", peer.port);
    log.write_with(1000, ";");
    world.ship();
    for how in ["DNS:other.example", "IP:127.0.0.1 old"] {
        renew(how);
        let running = peer.start();
        wait_for("the refusal", || error(&log).starts_with("TLS with the receiver"));
        assert!(peer.counts(&log).is_empty(), "{how}");
        drop(running);
        wait_for("its end", || error(&log).starts_with("the receiver cannot be reached"));
    }
    renew("IP:127.0.0.1");
    let _running = peer.start();
    assert_eq!(log.await_delivery(), (1000, 0));
    wait_for("the lines", || peer.counts(&log).len() == 1000);
}

/// Unmounts at the end of the test.
struct Mount(std::path::PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_full_disk_of_the_spool_stops_no_delivery_and_repeats_nothing() {
    let mut world = World::new();
    let root = world.root();
    mount(Some("small"), &root, Some("tmpfs"), MsFlags::empty(), Some("size=2m")).expect("mount");
    let _mount = Mount(root.clone());
    let peer = Peer::new(&world, Kind::Relp);
    let mut log = peer.log(&world, "a", peer.port);
    log.write_with(3000, ";");
    world.ship();
    let mut fill = std::fs::File::create(root.join("filler")).expect("a file");
    let full = std::io::copy(&mut std::io::repeat(0), &mut fill).expect_err("a full disk");
    assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
    let _running = peer.start();
    for _ in 0..3 {
        assert_eq!(log.await_delivery(), (3000, 0));
        world.stop_shipping();
        world.ship();
    }
    let counts = peer.counts(&log);
    assert_eq!((counts.len(), counts.values().max()), (3000, Some(&1)));
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).expect("below")
    }
}

/// The numbers of the whole records in the files of a log.
fn spooled(dir: &Path) -> BTreeSet<u64> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| std::fs::read(entry.path()).ok());
    let mut all = BTreeSet::new();
    for text in texts {
        for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            let record: Option<serde_json::Value> = serde_json::from_slice(line).ok();
            let text = record.and_then(|record| record["log"].as_str().map(str::to_owned)).unwrap_or_default();
            let number: Option<u64> = text.split_once(" n=").and_then(|(_, rest)| rest.split_once(';')?.0.parse().ok());
            all.extend(number);
        }
    }
    all
}

/// Writes and delivers on a disk that remembers; answers what it held at first, what reached it, and how long the receiver's
/// text was at each moment.
fn work(disk: &Disk, peer: &Peer, dir: &Path, random: &mut Random) -> (Vec<u8>, Vec<Entry>, Vec<(usize, usize)>) {
    let mounted = disk.mount();
    let before = disk.record();
    let mut world = World::at(&mounted.path().join("world"));
    let mut log = peer.log(&world, "a", peer.port);
    log.bounds = (40_000, 4);
    world.ship();
    let mut steps = Vec::new();
    for _ in 0..60 {
        log.write_with(20, ";");
        std::thread::sleep(Duration::from_millis(10));
        if random.below(4) == 0 {
            let at = std::fs::File::open(dir).expect("the disk");
            nix::unistd::syncfs(&at).expect("sync");
        }
        steps.push((disk.recorded(), peer.text().len()));
    }
    log.await_delivery();
    world.stop_shipping();
    steps.push((usize::MAX, peer.text().len()));
    world.keep();
    drop(mounted);
    (before, disk.stop(), steps)
}

#[test]
fn power_cuts_repeat_lines_and_lose_none_that_the_disk_has() {
    let name = "surroundings::power_cuts_repeat_lines_and_lose_none_that_the_disk_has";
    if !is_inside(name) {
        return inside(name, &["--mount"], "");
    }
    let cuts = if crate::faults::is_full() { 150 } else { 12 };
    let outside = World::new();
    let peer = Peer::new(&outside, Kind::Relp);
    let _running = peer.start();
    let (mut random, dir) = (Random(0x9e37_79b9_7f4a_7c15), outside.dir.join("disk"));
    let disk = Disk::new(&dir, 24 << 20);
    let (before, log, steps) = work(&disk, &peer, &dir.join("mnt"), &mut random);
    let (mut kept, mut twice) = (0, 0);
    for cut in 0..cuts {
        let moment = random.below(log.len());
        let flushed = log[..moment].iter().rposition(|entry| matches!(entry, Entry::Flush)).map_or(0, |at| at + 1);
        let mut content = before.clone();
        let write = |content: &mut Vec<u8>, entry: &Entry| {
            if let Entry::Write { offset, data } = entry {
                content[*offset..offset + data.len()].copy_from_slice(data);
            }
        };
        log[..flushed].iter().for_each(|entry| write(&mut content, entry));
        let some = cut % 3;
        let volatile = log[flushed..moment].iter().filter(|_| some == 1 || (some == 2 && random.below(2) == 0));
        volatile.for_each(|entry| write(&mut content, entry));
        disk.restore(content, &[]);
        let mounted = disk.mount();
        let mut world = World::at(&mounted.path().join("world"));
        let there = spooled(&world.root().join("containers").join(format!("{:0>64}", "a")));
        // All that the receiver had at the cut, and what comes from now on.
        let had = steps.iter().find(|(at, _)| *at >= moment).map_or(0, |(_, length)| *length);
        let begin = peer.text().len();
        if there.is_empty() {
            continue;
        }
        // A boot starts the container again, whose log goes on.
        let log = peer.again(&world, "a");
        world.ship();
        // Every line is there before the delivery begins: no wake-up can be lost here.
        log.await_nothing_owed(AFTER_A_DISK);
        world.stop_shipping();
        let text = peer.text();
        let (old, new) = (peer.numbers_of(&text[..had], &log), peer.numbers_of(&text[begin..], &log));
        let missing: Vec<u64> =
            there.iter().filter(|number| !old.contains_key(number) && !new.contains_key(number)).copied().collect();
        assert_eq!(
            missing,
            [] as [u64; 0],
            "cut {cut} at {moment} of {}: {} lines on the disk",
            steps.len(),
            there.len()
        );
        kept += there.len();
        twice += new.keys().filter(|number| old.contains_key(number)).count();
        world.keep();
        drop((mounted, disk.take()));
    }
    println!("measured: {cuts} power cuts, {kept} lines on the disks: 0 missing, {twice} twice");
}
