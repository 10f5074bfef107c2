//! Networks when things go wrong: killed programs, what others remove, what is used up, what does not answer.

use crate::faults::{Operation, Point, chosen, killed_at, killed_on};
use crate::network::{HOST, OUTSIDE, World, get, leads, networked, published, sh};
use crate::support::*;
use coracle::model::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

const SCRIPT: &str = "trap 'exit 0' TERM; while :; do sleep 0.05; done";

fn make_network(root: &Root) {
    if root.engine.network_inspect("net1").is_err() {
        let body = serde_json::from_value(json!({ "Name": "net1" })).expect("a body");
        root.engine.network_create(&body).expect("make the network");
    }
}

fn remove_network(root: &Root) {
    let _ = root.engine.network_remove("net1");
}

fn create(root: &Root) {
    root.create("target", body(&["sh", "-c", SCRIPT], networked(published("80/tcp", "", "8080"))));
}

fn running(root: &Root) {
    make_network(root);
    create(root);
    root.start("target");
}

fn connected(root: &Root) {
    running(root);
    let body = ConnectNetwork { container: "target".into(), endpoint_config: None };
    root.engine.network_connect("net1", &body, Some(&soon())).expect("connect");
}

fn is_on(root: &Root) -> bool {
    root.exec("target", &["ls", "/sys/class/net"]).out().contains("eth1")
}

/// Kills each before some of its system calls, in a host of its own: no interface, rule, port or address stays.
#[test]
fn a_killed_program_leaves_nothing_of_a_network() {
    let start = Operation { words: &["start", "target"], prepare: create, finish: |root| root.start("target") };
    let connect = Operation {
        words: &["network", "connect", "net1", "target"],
        prepare: running,
        finish: |root| {
            let body = ConnectNetwork { container: "target".into(), endpoint_config: None };
            let _ = root.engine.network_connect("net1", &body, Some(&soon()));
            assert!(is_on(root), "connected again");
        },
    };
    let disconnect = Operation {
        words: &["network", "disconnect", "net1", "target"],
        prepare: connected,
        finish: |root| {
            let body = DisconnectNetwork { container: "target".into(), force: false };
            let _ = root.engine.network_disconnect("net1", &body, Some(&soon()));
            assert!(!is_on(root), "disconnected again");
        },
    };
    let make = Operation { words: &["network", "create", "net1"], prepare: remove_network, finish: make_network };
    let remove = Operation { words: &["network", "rm", "net1"], prepare: make_network, finish: remove_network };
    for operation in [start, connect, disconnect, make, remove] {
        let world = World::new();
        killed_on(&world.root, &operation, 3, &|what| {
            nothing_left(&world, what);
        });
    }
}

/// Once all containers are removed.
fn nothing_left(world: &World, what: &str) {
    wait_for("the interfaces to go", || !sh("ip -br link").contains("veth"));
    let rules = sh("nft list ruleset");
    assert!(!leads(&rules, 8080), "{what}: {rules}");
    drop(std::net::TcpListener::bind("0.0.0.0:8080").unwrap_or_else(|e| panic!("{what}: the port: {e}")));
    remove_network(&world.root);
    world.root.engine.network_release().unwrap_or_else(|e| panic!("{what}: release: {e}"));
    let (links, tables) = (sh("ip -br link"), sh("nft list tables"));
    assert!(!links.contains("coracle0") && !links.contains("br-"), "{what}: {links}");
    assert!(!tables.contains("coracle-"), "{what}: {tables}");
}

/// Nothing leads to a container that does not run, and nobody is kept from its ports.
fn nothing_published(root: &Root) {
    if root.status("target") == "running" {
        return;
    }
    let rules = sh("nft list ruleset");
    assert!(!leads(&rules, 8080) && !leads(&rules, 5353), "{rules}");
    drop(std::net::TcpListener::bind("[::]:8080").expect("the port is free"));
    drop(std::net::UdpSocket::bind("0.0.0.0:5353").expect("the port is free"));
}

/// Kills a start while it publishes ports: between the sockets that keep them, the hand-over of those, the transaction of
/// the firewall and its answer.
#[test]
fn killed_while_it_publishes() {
    let mut world = World::new();
    let publish = Operation {
        words: &["start", "target"],
        prepare: |root| {
            let mut more = published("80/tcp", "", "8080");
            more["ExposedPorts"]["53/udp"] = json!({});
            more["HostConfig"]["PortBindings"]["53/udp"] = json!([{ "HostPort": "5353" }]);
            root.create("target", body(&["sh", "-c", SCRIPT], networked(more)));
        },
        finish: |root| {
            nothing_published(root);
            root.start("target");
        },
    };
    let pick = |all: Vec<Point>| {
        let first = all.iter().position(|point| point.call == "bind").expect("a socket is bound");
        let last = all.iter().rposition(|point| point.call == "sendto").expect("the firewall is told");
        let answer = last + all[last..].iter().position(|point| point.call == "recvfrom").expect("it answers");
        let publishing = all.into_iter().skip(first).take(answer + 2 - first);
        let steps = ["bind", "listen", "sendmsg", "sendto", "recvfrom", "pwrite64", "close"];
        chosen(publishing.filter(|point| steps.contains(&point.call.as_str())).collect(), 6)
    };
    killed_at(&world.root, &publish, &pick, &|what| nothing_left(&world, what));
    // A port that still leads to somebody who is gone, and was not asked for again by the same one.
    world.sleeper("other", json!({}));
    let table = sh("nft list tables | grep -o 'coracle-[0-9a-f]*'");
    let stale = |port: u16| {
        sh(&format!("nft add element inet {} ports4 '{{ tcp . {port} : 172.17.0.99 . 81 }}'", table.trim()));
    };
    stale(8080);
    let web = world.server("web", published("80/tcp", "", "8080"));
    assert_eq!(get(&format!("{HOST}:8080")).as_deref(), Some("hi"));
    stale(8081);
    world.with_options(|_| {});
    let rules = sh("nft list ruleset");
    assert!(!rules.contains("172.17.0.99") && leads(&rules, 8080), "{rules}");
    assert_eq!(get(&format!("{HOST}:8080")).as_deref(), Some("hi"));
    world.root.engine.container_kill(&web, None, None).expect("kill");
}

#[test]
fn a_transfer_goes_on_without_any_program() {
    let mut world = World::new();
    let dir = world.root.dir.clone();
    // Started by a program that has ended.
    let script = "dd if=/dev/zero bs=1M count=8 2>/dev/null | nc -l -p 80";
    let run = Command::new(built("coracle"))
        .arg("--root")
        .arg(dir.join("root"))
        .arg("--run")
        .arg(dir.join("run"))
        .args(["run", "-d", "--name", "sends", "-p", "8080:80", IMAGE, "sh", "-c", script])
        .output()
        .expect("run coracle");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let address = format!("{HOST}:8080").parse().expect("an address");
    let mut stream = world.outside(|| {
        let mut stream = None;
        wait_for("the server", || {
            stream = TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok();
            stream.is_some()
        });
        stream.expect("a connection")
    });
    stream.set_read_timeout(Some(SOON)).expect("a limit");
    let mut got = 0;
    let mut part = vec![0; 1 << 20];
    for step in 0.. {
        if step % 2 == 0 {
            // Everybody lets go of the root, and somebody comes back.
            world.with_options(|_| {});
            world.root.engine.network_repair().expect("repair");
        }
        match stream.read(&mut part).expect("read on") {
            0 => break,
            length => got += length,
        }
    }
    assert_eq!(got, 8 << 20);
}

#[test]
fn rules_of_others_are_left_alone_and_ours_come_back() {
    let world = World::new();
    let others = "add table ip other; add chain ip other in { type filter hook input priority 0; }; add rule ip other in tcp dport 1 counter drop; add table inet coracle-else; add chain inet coracle-else x";
    sh(&format!("nft '{others}'"));
    let theirs = || (sh("nft -s list table ip other"), sh("nft -s list table inet coracle-else"));
    let before = theirs();
    let id = world.server("web", published("80/tcp", "", "8080"));
    let reached = || world.outside(|| get(&format!("{HOST}:8080"))).as_deref() == Some("hi");
    assert!(reached());
    // All of the firewall, or parts of it.
    for wreck in [
        "nft flush ruleset",
        "for t in $(nft list tables | grep -o 'coracle-[0-9a-f]*$'); do nft flush table inet $t; done",
    ] {
        sh(wreck);
        world.root.engine.network_repair().expect("repair");
        assert!(reached(), "after {wreck}");
        if wreck == "nft flush ruleset" {
            sh(&format!("nft '{others}'"));
        }
    }
    // The next start restores it, too.
    sh("nft flush ruleset");
    sh(&format!("nft '{others}'"));
    world.run("true", json!({}));
    assert!(reached());
    world.root.engine.container_kill(&id, None, None).expect("kill");
    world.root.engine.network_release().expect("release");
    assert_eq!(theirs(), before);
}

#[test]
fn bridges_and_interfaces_that_somebody_removed() {
    let world = World::new();
    let id = world.server("web", published("80/tcp", "", "8080"));
    let reached = || world.outside(|| get(&format!("{HOST}:8080"))).as_deref() == Some("hi");
    sh("ip link del coracle0");
    assert!(!reached());
    world.root.engine.network_repair().expect("repair");
    assert!(reached(), "the bridge is back, with its ports");
    sh("ip link del coracle0");
    let other = world.sleeper("other", json!({}));
    assert!(reached(), "a start brings it back too");
    // An interface is the container's until it is connected again.
    let port = sh("ip -br link").lines().find(|line| line.contains("veth")).expect("a port").to_owned();
    sh("for link in $(ip -br link | grep -o '^veth[^@ ]*'); do ip link del $link; done");
    assert!(!reached(), "{port}");
    let all = |work: &dyn Fn(&str)| [&id, &other].into_iter().for_each(|id| work(id));
    all(&|id| {
        let body = DisconnectNetwork { container: id.into(), force: false };
        world.root.engine.network_disconnect("bridge", &body, None).expect("disconnect");
        let body = ConnectNetwork { container: id.into(), endpoint_config: None };
        world.root.engine.network_connect("bridge", &body, None).expect("connect");
    });
    wait_for("the container to be reached again", reached);
    sh("for link in $(ip -br link | grep -o '^veth[^@ ]*'); do ip link del $link; done");
    world.root.engine.container_restart(&id, Some(1000), None).expect("restart");
    wait_for("the server", reached);
}

#[test]
fn errors_name_exhausted_pools_and_taken_ports() {
    let world = World::new();
    // Pools: those of the host's routes and addresses are not given out.
    sh(
        "ip link add big type bridge; ip link set big up; ip route add 172.16.0.0/12 dev big; ip route add 192.168.0.0/17 dev big",
    );
    let mut made = 0;
    let error = loop {
        match world.network(json!({ "Name": format!("n{made}") })) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(made, 8, "all of 192.168.128.0/17");
    assert_eq!(
        (error.http_status(), error.message()),
        (
            500,
            "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network"
        )
    );
    for number in 0..made {
        world.root.engine.network_remove(&format!("n{number}")).expect("remove");
    }
    // A bridge's name that is somebody's already.
    let named = json!({ "com.docker.network.bridge.name": "up0" });
    let error = world.network(json!({ "Name": "clash", "Options": named })).expect_err("taken");
    assert!(error.message().contains("an interface with the name up0 is there already"), "{error}");
    assert!(world.root.engine.network_inspect("clash").is_err());
    assert!(sh("ip -br link").contains("up0"), "the other one is left alone");
    // A port that another program takes between a stop and a start.
    let id = world.sleeper("web", published("80/tcp", "", "8080"));
    world.root.engine.container_kill(&id, None, None).expect("kill");
    let taken = std::net::TcpListener::bind("0.0.0.0:8080").expect("the port");
    assert!(world.root.engine.container_start(&id, None, None).is_err());
    drop(taken);
    world.root.start(&id);
    // Ephemeral ports: the kernel's range, none that somebody has.
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "50000 50003").expect("write");
    let held = std::net::TcpListener::bind("0.0.0.0:50001").expect("a port");
    let all = json!({ "ExposedPorts": { "80/tcp": {}, "81/tcp": {}, "82/tcp": {} }, "HostConfig": { "PublishAllPorts": true } });
    let id = world.sleeper("all", all);
    let ports = world.root.inspect(&id).network_settings.ports;
    let got: BTreeSet<String> = ports.bindings().map(|(_, port)| port.to_string()).collect();
    assert_eq!(got, BTreeSet::from(["50000", "50002", "50003"].map(str::to_owned)));
    let one = json!({ "ExposedPorts": { "80/tcp": {} }, "HostConfig": { "PublishAllPorts": true } });
    let more = world.root.create("more", body(&["true"], networked(one)));
    fails(
        world.root.engine.container_start(&more, None, None),
        coracle::ErrorKind::Internal,
        "all ports are allocated",
    );
    drop(held);
}

#[test]
fn the_engine_bears_silent_and_flooding_resolvers() {
    let world = World::new();
    world.network(json!({ "Name": "net1" })).expect("a network");
    let on = json!({ "HostConfig": { "NetworkMode": "net1", "Dns": ["10.77.0.99"] } });
    let (noisy, quiet) = (world.sleeper("noisy", on.clone()), world.sleeper("quiet", on));
    let asks = |id: &str, name: &str| world.root.exec(id, &["nslookup", "-type=a", name]).out();
    let text = asks(&quiet, "far.example");
    assert!(text.contains("SERVFAIL") || text.contains("timed out") || text.contains("can't"), "{text}");
    // Questions that nobody answers, as many as one can send.
    let flood = {
        let path = format!("/proc/{}/ns/net", world.root.pid(&noisy));
        std::thread::spawn(move || {
            let there = std::fs::File::open(path).expect("the container");
            nix::sched::setns(there, nix::sched::CloneFlags::CLONE_NEWNET).expect("go there");
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let until = Instant::now() + Duration::from_secs(3);
            let mut sent = 0_u32;
            while Instant::now() < until {
                let mut query = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 6];
                query[..2].copy_from_slice(&(sent as u16).to_be_bytes());
                query.extend(format!("{:06}", sent % 1_000_000).bytes());
                query.extend([0, 0, 1, 0, 1]);
                let _ = socket.send_to(&query, "127.0.0.11:53");
                sent += 1;
            }
            sent
        })
    };
    for _ in 0..5 {
        let text = asks(&quiet, "noisy");
        assert!(text.contains(&world.ip(&noisy)), "{text}");
    }
    assert!(flood.join().expect("the flood") > 1000);
    // The container has its own names again, and its monitor obeys.
    wait_for("its own resolver", || asks(&noisy, "quiet").contains(&world.ip(&quiet)));
    world.root.engine.container_stop(&noisy, Some(1000), Some(&soon())).expect("stop");
}

#[test]
fn connected_and_disconnected_from_many_threads() {
    let world = World::new();
    world.network(json!({ "Name": "net1" })).expect("a network");
    let ids: Vec<String> = (0..4).map(|number| world.sleeper(&format!("c{number}"), json!({}))).collect();
    let here = std::fs::File::open("/proc/thread-self/ns/net").expect("this host");
    std::thread::scope(|scope| {
        for thread in 0..20 {
            let (ids, world, here) = (&ids, &world, here.try_clone().expect("a copy"));
            scope.spawn(move || {
                nix::sched::setns(here, nix::sched::CloneFlags::CLONE_NEWNET).expect("go to the host");
                for turn in 0..4 {
                    let container = ids[(thread + turn) % ids.len()].clone();
                    let op = soon();
                    let done = match (thread + turn) % 2 {
                        0 => {
                            let body = ConnectNetwork { container, endpoint_config: None };
                            world.root.engine.network_connect("net1", &body, Some(&op))
                        }
                        _ => {
                            let body = DisconnectNetwork { container, force: false };
                            world.root.engine.network_disconnect("net1", &body, Some(&op))
                        }
                    };
                    if let Err(error) = done {
                        let text = error.message();
                        let usual = text.contains("already exists in network") || text.contains("is not connected to");
                        assert!(usual, "{error}");
                    }
                }
            });
        }
    });
    let members = world.root.engine.network_inspect("net1").expect("inspect").containers;
    let addresses: BTreeSet<&str> = members.values().map(|member| member.ipv4_address.as_str()).collect();
    assert_eq!(addresses.len(), members.len(), "{members:?}");
    for id in &ids {
        let inside = world.root.exec(id, &["ls", "/sys/class/net"]).ok();
        assert_eq!(inside.contains("eth1"), members.contains_key(id), "{inside}");
    }
    assert_eq!(sh("ip -br link").matches("veth").count(), ids.len() + members.len());
    for id in &ids {
        world.root.engine.container_kill(id, None, None).expect("kill");
    }
    wait_for("the interfaces to go", || !sh("ip -br link").contains("veth"));
}

#[test]
fn a_small_mtu_on_the_way() {
    let world = World::new();
    let options = json!({ "com.docker.network.driver.mtu": "1300" });
    world.network(json!({ "Name": "small", "Options": options })).expect("a network");
    sh("ip link set up0 mtu 1400");
    let mut more = published("80/tcp", "", "8080");
    more["HostConfig"]["NetworkMode"] = json!("small");
    let script = "dd if=/dev/zero bs=1M count=2 2>/dev/null | nc -l -p 80; cat /sys/class/net/eth0/mtu";
    let id = world.root.create("sends", body(&["sh", "-c", script], networked(more)));
    world.root.start(&id);
    let got = world.outside(|| {
        let mut stream = None;
        wait_for("the server", || {
            stream = TcpStream::connect(format!("{HOST}:8080")).ok();
            stream.is_some()
        });
        let mut stream = stream.expect("a connection");
        stream.set_read_timeout(Some(SOON)).expect("a limit");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("all of it");
        all.len()
    });
    assert_eq!(got, 2 << 20);
    world.root.wait(&id);
    assert_eq!(world.root.logs(&id).out(), "1300");
}

#[test]
fn two_roots_on_one_host() {
    let world = World::new();
    let other = Root::new();
    let one = world.server("web", published("80/tcp", "", "8080"));
    let script = "mkdir -p /w; echo hi > /w/index.html; trap 'exit 0' TERM; httpd -f -p 80 -h /w & wait";
    let two = other.create("web", body(&["sh", "-c", script], networked(published("80/tcp", "", "8081"))));
    other.start(&two);
    let addresses = [world.ip(&one), other.inspect(&two).network_settings.networks["bridge"].ip_address.clone()];
    assert_ne!(addresses[0].rsplit_once('.'), addresses[1].rsplit_once('.'), "subnets of their own");
    let reached = |port: u16| world.outside(|| get(&format!("{HOST}:{port}"))).as_deref() == Some("hi");
    wait_for("the servers", || reached(8080) && reached(8081));
    let clash = other.create("clash", body(&["true"], networked(published("80/tcp", "", "8080"))));
    let error = other.engine.container_start(&clash, None, None).expect_err("taken");
    assert!(error.message().ends_with("listen tcp4 0.0.0.0:8080: bind: address already in use"), "{error}");
    // Each is closed to the other, and gives back its own alone.
    let ping = |ip: &str| world.root.exec(&one, &["ping", "-c", "1", "-w", "3", ip]).code;
    assert_eq!((ping(&addresses[1]), ping(OUTSIDE)), (1, 0));
    other.engine.container_kill(&two, None, None).expect("kill");
    other.engine.network_release().expect("release");
    assert!(reached(8080) && !reached(8081));
    drop(other);
    assert!(reached(8080));
    let mut stream = TcpStream::connect("127.0.0.1:8080").expect("connect");
    let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
}

#[test]
fn ports_beyond_what_a_host_or_a_monitor_can_have_are_refused_by_name() {
    let world = World::new();
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "50000 50299").expect("write");
    let exposed: serde_json::Map<String, Value> = (1..=301).map(|port| (format!("{port}/tcp"), json!({}))).collect();
    let all = json!({ "ExposedPorts": exposed, "HostConfig": { "PublishAllPorts": true } });
    let id = world.root.create("all", body(&["true"], networked(all)));
    fails(
        world.root.engine.container_start(&id, None, None),
        coracle::ErrorKind::Internal,
        "all ports are allocated: PublishAllPorts asks for 301 tcp ports of the host's choice, and it has 300 \
         (net.ipv4.ip_local_port_range is 50000 50299)",
    );
    // Sockets that nobody reads need no descriptors; those that the monitor reads do.
    let coracle = format!("{} --root {1}/root --run {1}/run", built("coracle").display(), world.root.dir.display());
    let run = |more: &str| {
        let script = format!("ulimit -n 256; exec {coracle} {more} run -d -P --expose 1-200 {IMAGE} sleep 1000");
        Command::new("sh").args(["-c", &script]).output().expect("sh")
    };
    let refused = String::from_utf8_lossy(&run("").stderr).into_owned();
    assert!(refused.contains("PortBindings, PublishAllPorts: 129 ports like [::]:"), "{refused}");
    assert!(refused.contains("the hard limit of open files (RLIMIT_NOFILE) is 256"), "{refused}");
    let taken = run("--publish-ip 0.0.0.0");
    assert!(taken.status.success(), "{}", String::from_utf8_lossy(&taken.stderr));
    let id = String::from_utf8_lossy(&taken.stdout).trim().to_owned();
    assert_eq!(world.root.inspect(&id).network_settings.ports.bindings().count(), 200);
}
