//! rsyslog: every transport, every form, and receivers that are away.

use crate::world::*;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A rsyslogd with inputs of all kinds that writes what it gets into a file, a line each.
struct Rsyslog {
    dir: PathBuf,
    tcp: u16,
    udp: u16,
}

impl Rsyslog {
    fn new(world: &World) -> Rsyslog {
        let dir = world.dir.join("rsyslog");
        std::fs::create_dir_all(&dir).expect("a directory");
        let receiver = Rsyslog { dir, tcp: free_port(), udp: free_port() };
        let Rsyslog { dir, tcp, udp } = &receiver;
        let at = dir.display();
        let text = format!(
            r#"global(workDirectory="{at}" maxMessageSize="64k")
module(load="imtcp")
module(load="imudp")
module(load="imuxsock" SysSock.Use="off")
input(type="imtcp" port="{tcp}" address="127.0.0.1")
input(type="imudp" port="{udp}" address="127.0.0.1")
input(type="imuxsock" socket="{at}/log" ruleset="all" rateLimit.Interval="0")
template(name="line" type="string" string="%pri%|%hostname%|%syslogtag%|%msg%\n")
ruleset(name="all") {{ action(type="omfile" file="{at}/out" template="line") }}
action(type="omfile" file="{at}/out" template="line")
"#
        );
        std::fs::write(dir.join("conf"), text).expect("write");
        receiver
    }

    fn start(&self) -> Program {
        start(&self.dir, &self.dir.join("log"))
    }

    fn out(&self) -> String {
        std::fs::read(self.dir.join("out")).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }
}

pub fn start(dir: &Path, ready: &Path) -> Program {
    let _ = std::fs::remove_file(dir.join("pid"));
    let _ = std::fs::remove_file(ready);
    let mut command = Command::new("rsyslogd");
    command.arg("-n").arg("-f").arg(dir.join("conf")).arg("-i").arg(dir.join("pid"));
    let program = Program::start(&mut command);
    wait_for("rsyslogd", || dir.join("pid").exists());
    program
}

#[test]
fn every_transport_and_form_brings_every_line() {
    let mut world = World::new();
    let receiver = Rsyslog::new(&world);
    let _running = receiver.start();
    world.ship();
    let tcp = format!("tcp://127.0.0.1:{}", receiver.tcp);
    let udp = format!("udp://127.0.0.1:{}", receiver.udp);
    let unix = format!("unixgram://{}/log", receiver.dir.display());
    let cases = [
        ("a", tcp.as_str(), "", "27|box|tag["),
        ("b", tcp.as_str(), "rfc3164", "27|box|tag["),
        ("c", tcp.as_str(), "rfc5424", "27|box|tag["),
        ("d", udp.as_str(), "rfc5424micro", "27|box|tag["),
        ("e", unix.as_str(), "rfc3164", "27|"),
    ];
    let logs = cases.map(|(name, address, form, _)| {
        let mut options = vec![("syslog-address", address)];
        if !form.is_empty() {
            options.push(("syslog-format", form));
        }
        let mut log = world.container(name, "syslog", &options);
        log.write(100);
        log
    });
    for (log, (name, _, form, head)) in logs.iter().zip(cases) {
        assert_eq!(log.await_delivery(), (100, 0), "{name}");
        arrived(log, || receiver.out());
        let out = receiver.out();
        let first = out.lines().find(|line| line.contains(&format!("{} n=1", &log.id[60..]))).expect("the first line");
        // The form without a host has that of the connection.
        let shown = if form.is_empty() { first.replacen("localhost", "box", 1) } else { first.to_owned() };
        assert!(shown.starts_with(head) || form.is_empty(), "{name}: {first}");
        assert!(numbers(&out, log).values().all(|count| *count == 1), "{name}: lines came twice");
    }
}

#[test]
fn a_receiver_that_comes_later_gets_all() {
    let mut world = World::new();
    let receiver = Rsyslog::new(&world);
    let mut log = world.container("a", "syslog", &[("syslog-address", &format!("tcp://127.0.0.1:{}", receiver.tcp))]);
    log.write(5000);
    world.ship();
    wait_for("the failure", || log.status().is_some_and(|status| !status.cursor.error().is_empty()));
    let status = log.status().expect("a status");
    assert_eq!(status.cursor.error(), "the receiver cannot be reached: Connection refused");
    assert_eq!((status.owed.lines, status.cursor.delivered), (5000, 0));
    let _running = receiver.start();
    assert_eq!(log.await_delivery(), (5000, 0));
    arrived(&log, || receiver.out());
    assert_eq!(log.status().expect("a status").cursor.error(), "");
}

#[test]
fn a_stopped_receiver_loses_nothing_and_no_line_is_called_delivered_that_it_did_not_take() {
    let mut world = World::new();
    let receiver = Rsyslog::new(&world);
    let running = receiver.start();
    let mut log = world.container("a", "syslog", &[("syslog-address", &format!("tcp://127.0.0.1:{}", receiver.tcp))]);
    world.ship();
    log.write(10);
    assert_eq!(log.await_delivery(), (10, 0));
    running.signal(Signal::SIGSTOP);
    // More than the kernels of both sides take.
    log.write_with(200_000, &" xxxxxxxxxx".repeat(10));
    let mut before = 0;
    wait_for("a standstill", || {
        let now = log.status().expect("a status").cursor.delivered;
        std::thread::sleep(std::time::Duration::from_millis(500));
        std::mem::replace(&mut before, now) == now && now > 10
    });
    assert!(log.status().expect("a status").owed.lines > 10_000);
    running.signal(Signal::SIGCONT);
    assert_eq!(log.await_delivery(), (log.written, 0));
    arrived(&log, || receiver.out());
}

/// A receiver's kernel acknowledges lines that its program never reads when it ends. Those of the last second come again,
/// because the connection is reset; older ones, on a machine that is so busy, no sender of plain TCP can know of. The test
/// prints how many were missing, and how many came twice.
#[test]
fn a_receiver_that_restarts_gets_all_but_what_its_kernel_took() {
    let mut world = World::new();
    let receiver = Rsyslog::new(&world);
    let mut log = world.container("a", "syslog", &[("syslog-address", &format!("tcp://127.0.0.1:{}", receiver.tcp))]);
    world.ship();
    let mut running = receiver.start();
    for _ in 0..5 {
        log.write(2000);
        wait_for("some lines", || !numbers(&receiver.out(), &log).is_empty());
        running.end();
        log.write(2000);
        running = receiver.start();
    }
    log.write(1);
    assert_eq!(log.await_delivery(), (log.written, 0));
    wait_for("the last line", || numbers(&receiver.out(), &log).contains_key(&log.written));
    let counts = numbers(&receiver.out(), &log);
    let twice = counts.values().filter(|count| **count > 1).count();
    let missing = missing(&counts, &log);
    println!("{} lines over 5 restarts: {} missing, {twice} twice", log.written, missing.len());
    assert!(missing.len() < 4000, "more is missing than the receiver's kernel could hold");
}

/// How many connections to a port are open.
fn connections(port: u16) -> usize {
    let port = format!(":{port:04X} ");
    let table = std::fs::read_to_string("/proc/self/net/tcp").expect("connections");
    let to_it = |line: &&str| line.split_whitespace().nth(2).is_some_and(|peer| format!("{peer} ").ends_with(&port));
    table.lines().filter(to_it).filter(|line| line.split_whitespace().nth(3) == Some("01")).count()
}

#[test]
fn a_thousand_containers_share_a_connection_and_each_line_comes_once() {
    // The shipper is threads of this process here, whose usual limit is 1,024 open files.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("a higher limit");
    let mut world = World::new();
    let receiver = Rsyslog::new(&world);
    let address = format!("tcp://127.0.0.1:{}", receiver.tcp);
    let of = |number: u32| world.container(&format!("{number}"), "syslog", &[("syslog-address", &address)]);
    let mut logs: Vec<Log> = (1000..2000).map(of).collect();
    // The receiver comes after the first lines of half of them.
    logs[..500].iter_mut().for_each(|log| log.write(5));
    world.ship();
    let _running = receiver.start();
    logs.iter_mut().for_each(|log| log.write(5));
    for log in &logs {
        assert_eq!(log.await_delivery(), (log.written, 0));
    }
    assert_eq!(connections(receiver.tcp), 1);
    for log in &logs {
        let counts = arrived(log, || receiver.out());
        assert!(counts.values().all(|count| *count == 1), "{}: {counts:?}", log.id);
    }
}

#[test]
fn containers_of_one_receiver_share_a_connection_and_a_restart_of_the_shipper_repeats_nothing() {
    let mut world = World::new();
    let receiver = Rsyslog::new(&world);
    let _running = receiver.start();
    let address = format!("tcp://127.0.0.1:{}", receiver.tcp);
    let mut logs: Vec<Log> = (0..20)
        .map(|number| world.container(&format!("{number}"), "syslog", &[("syslog-address", &address)]))
        .collect();
    for round in 1..=3 {
        world.ship();
        for log in &mut logs {
            log.write(500);
        }
        for log in &logs {
            assert_eq!(log.await_delivery(), (500 * round, 0));
        }
        assert_eq!(connections(receiver.tcp), 1);
        world.stop_shipping();
    }
    for log in &logs {
        arrived(log, || receiver.out());
        let counts = arrived(log, || receiver.out());
        let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "{}: {twice:?}: {:?}", log.id, log.status());
    }
}

#[test]
fn lines_that_rotation_took_are_counted_and_the_others_come() {
    let mut world = World::new();
    let receiver = Rsyslog::new(&world);
    let mut log = world.container("a", "syslog", &[("syslog-address", &format!("tcp://127.0.0.1:{}", receiver.tcp))]);
    log.bounds = (20_000, 3);
    log.write(5000);
    world.ship();
    let _running = receiver.start();
    let (delivered, lost) = log.await_delivery();
    assert_eq!(delivered + lost, log.written);
    assert!(lost > 4000 && delivered > 100, "{delivered} + {lost}");
    wait_for("the lines", || numbers(&receiver.out(), &log).len() as u64 == delivered);
}

#[test]
fn the_log_of_a_removed_container_is_delivered_from_the_outbox() {
    let mut world = World::new();
    let receiver = Rsyslog::new(&world);
    let mut log = world.container("a", "syslog", &[("syslog-address", &format!("tcp://127.0.0.1:{}", receiver.tcp))]);
    log.bounds = (100_000, 5);
    log.write(3000);
    world.ship();
    wait_for("the failure", || log.status().is_some_and(|status| !status.cursor.error().is_empty()));
    coracle_ship::outbox::hand_over(&world.root(), &log.id).expect("hand over");
    std::fs::remove_dir_all(world.root().join("containers").join(&log.id)).expect("remove the container");
    let _running = receiver.start();
    arrived(&log, || receiver.out());
    let own = world.root().join("outbox").join(&log.id);
    wait_for("the end of the delivery", || !own.exists());
}

/// An authority (`ca.pem`), and its certificate for 127.0.0.1 (`cert.pem`, `key.pem`).
#[cfg(feature = "tls")]
pub fn certificates(dir: &Path) {
    let script = "set -e
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem
        openssl req -newkey rsa:2048 -nodes -subj /CN=receiver -keyout key.pem -out request.pem
        echo 'subjectAltName=IP:127.0.0.1' >names
        openssl x509 -req -days 2 -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out cert.pem";
    let made = Command::new("sh").args(["-c", script]).current_dir(dir).output().expect("openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[cfg(feature = "tls")]
#[test]
fn tls_brings_every_line_to_a_receiver_with_the_right_certificate_alone() {
    let mut world = World::new();
    let dir = world.dir.join("tls");
    std::fs::create_dir_all(&dir).expect("a directory");
    certificates(&dir);
    let (port, at) = (free_port(), dir.display().to_string());
    let text = format!(
        r#"global(workDirectory="{at}" DefaultNetstreamDriver="gtls" DefaultNetstreamDriverCAFile="{at}/ca.pem"
 DefaultNetstreamDriverCertFile="{at}/cert.pem" DefaultNetstreamDriverKeyFile="{at}/key.pem")
module(load="imtcp" StreamDriver.Name="gtls" StreamDriver.Mode="1" StreamDriver.Authmode="anon")
input(type="imtcp" port="{port}" address="127.0.0.1")
template(name="line" type="string" string="%msg%\n")
action(type="omfile" file="{at}/out" template="line")
"#
    );
    std::fs::write(dir.join("conf"), text).expect("write");
    let _running = start(&dir, &dir.join("none"));
    let (address, ca) = (format!("tcp+tls://127.0.0.1:{port}"), format!("{at}/ca.pem"));
    let base = [("syslog-address", address.as_str()), ("syslog-format", "rfc5424")];
    let mut good = world.container("a", "syslog", &[base[0], base[1], ("syslog-tls-ca-cert", &ca)]);
    let mut unchecked = world.container("b", "syslog", &[base[0], base[1], ("syslog-tls-skip-verify", "")]);
    let mut stranger = world.container("c", "syslog", &base);
    world.ship();
    for log in [&mut good, &mut unchecked, &mut stranger] {
        log.write(3000);
    }
    let out = || std::fs::read_to_string(dir.join("out")).unwrap_or_default();
    for log in [&good, &unchecked] {
        assert_eq!(log.await_delivery(), (3000, 0));
        arrived(log, out);
        assert!(numbers(&out(), log).values().all(|count| *count == 1));
    }
    let refused = || stranger.status().is_some_and(|status| status.cursor.error().starts_with("TLS with the receiver"));
    wait_for("the refusal", refused);
    assert!(numbers(&out(), &stranger).is_empty());
}

/// The receiver answers a message once its ruleset is done with the message: without a queue, that is once it is written.
fn relp(world: &World, more: &str) -> (PathBuf, u16) {
    let (dir, port) = (world.dir.join("relp"), free_port());
    std::fs::create_dir_all(&dir).expect("a directory");
    let at = dir.display();
    let text = format!(
        r#"global(workDirectory="{at}" maxMessageSize="64k")
module(load="imrelp" ruleset="all")
input(type="imrelp" port="{port}" address="127.0.0.1" maxDataSize="64k" {more})
template(name="line" type="string" string="%pri%|%hostname%|%syslogtag%|%msg%\n")
ruleset(name="all" queue.type="Direct") {{ action(type="omfile" file="{at}/out" template="line") }}
"#
    );
    std::fs::write(dir.join("conf"), text).expect("write");
    (dir, port)
}

#[test]
fn relp_loses_nothing_to_a_receiver_that_comes_late_stops_and_is_killed() {
    let mut world = World::new();
    let (dir, port) = relp(&world, "");
    let out = || std::fs::read_to_string(dir.join("out")).unwrap_or_default();
    let options = [("syslog-address", &*format!("relp://127.0.0.1:{port}")), ("syslog-format", "rfc5424")];
    let mut log = world.container("a", "syslog", &options);
    log.write(5000);
    world.ship();
    wait_for("the failure", || log.status().is_some_and(|status| !status.cursor.error().is_empty()));
    for _ in 0..10 {
        let running = start(&dir, &dir.join("none"));
        running.signal(Signal::SIGSTOP);
        log.write(4000);
        let before = out().len();
        running.signal(Signal::SIGCONT);
        wait_for("some lines", || out().len() > before);
        // SIGKILL, in the middle of the delivery.
        drop(running);
    }
    let _running = start(&dir, &dir.join("none"));
    assert_eq!(log.await_delivery(), (log.written, 0));
    let counts = numbers(&out(), &log);
    let twice = counts.values().filter(|count| **count > 1).count();
    println!("relp: {} lines over 10 kills: {} missing, {twice} twice", log.written, missing(&counts, &log).len());
    assert_eq!(missing(&counts, &log), [] as [u64; 0]);
    assert!(out().starts_with("27|box|tag["), "{:.100}", out());
}
