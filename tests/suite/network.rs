//! Networks, with namespaces as hosts: each test has a host of its own, with another one beside it.

pub use crate::support::world::*;
use crate::support::*;
use coracle::model::*;
use nix::sched::{CloneFlags, setns};
use serde_json::{Value, json};
use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

// field: Config.MacAddress
// field: HostConfig.NetworkMode
#[test]
fn the_default_network() {
    let world = World::new();
    let id = world.sleeper("one", json!({}));
    let settings = world.root.inspect(&id).network_settings;
    let end = &settings.networks["bridge"];
    assert_eq!((end.ip_address.as_str(), end.gateway.as_str()), ("172.17.0.2", "172.17.0.1"));
    assert_eq!((settings.ip_address.as_str(), settings.ip_prefix_len), ("172.17.0.2", 16));
    assert_eq!(end.mac_address, "02:42:ac:11:00:02");
    let inside = world.root.exec(&id, &["sh", "-c", "ip -o addr show eth0; ip route; tail -n 1 /etc/hosts"]).ok();
    assert!(inside.contains("inet 172.17.0.2/16 brd 172.17.255.255"), "{inside}");
    assert!(inside.contains("default via 172.17.0.1 dev eth0"), "{inside}");
    assert!(inside.contains(&format!("172.17.0.2\t{}", &id[..12])), "{inside}");
    assert!(!inside.contains("inet6"), "{inside}");
    // A second one, which chose the address of its card.
    let look = "cat /sys/class/net/eth0/address; ping -c 1 -w 10 172.17.0.2 >/dev/null && echo reached";
    let two = world.run(look, json!({ "MacAddress": "92:D0:C6:0A:29:33" })).ok();
    assert_eq!(two, "92:d0:c6:0a:29:33\nreached");
    // Packets leave under the host's address: the neighbour knows no other.
    let out = world.run(&format!("ping -c 1 -w 10 {OUTSIDE} >/dev/null && echo reached"), json!({})).ok();
    assert_eq!(out, "reached");
    let mut stats =
        world.root.engine.container_stats(&id, StatsQuery { stream: false, one_shot: true }).expect("stats");
    let networks = stats.next(Some(&soon())).expect("a sample").expect("a sample").networks.expect("its networks");
    assert!(networks["eth0"].rx_packets > 0 && networks["eth0"].tx_bytes > 0, "{networks:?}");
    world.root.engine.container_stop(&id, Some(1000), None).expect("stop");
    let after = world.root.inspect(&id).network_settings;
    assert_eq!((after.ip_address.as_str(), after.ports.len()), ("", 0));
    wait_for("its interface to go", || !sh("ip -br link").contains("veth"));
}

#[test]
fn modes_without_an_interface_of_their_own() {
    let world = World::new();
    let id = world.server("owner", json!({}));
    let mode = format!("container:{id}");
    let shared = world.root.sh_with(
        &format!("hostname; cat /etc/hostname; {}", get_inside("127.0.0.1:80")),
        json!({ "HostConfig": { "NetworkMode": mode } }),
    );
    assert_eq!(shared.ok(), format!("{0}\n{0}\nhi", &id[..12]));
    world.root.engine.container_kill(&id, None, None).expect("kill");
    let late = world.root.create("late", body(&["true"], json!({ "HostConfig": { "NetworkMode": mode } })));
    let error = world.root.engine.container_start(&late, None, None).expect_err("nobody to join");
    assert_eq!(error.message(), format!("cannot join network of a non running container: {id}"));
    assert_eq!(error.http_status(), 409);
    let disabled = world
        .root
        .sh_with("ls /sys/class/net", json!({ "NetworkDisabled": true, "HostConfig": { "NetworkMode": "" } }));
    assert_eq!(disabled.ok(), "lo");
}

// field: HostConfig.PortBindings
// field: HostConfig.PortBindings.HostPort
#[test]
fn published_ports_are_reached_from_everywhere() {
    let world = World::new();
    let id = world.server("web", published("80/tcp", "", "8080"));
    assert_eq!(world.outside(|| get(&format!("{HOST}:8080"))).as_deref(), Some("hi"), "from the neighbour");
    for address in [format!("{HOST}:8080"), "127.0.0.1:8080".into(), "172.17.0.1:8080".into()] {
        assert_eq!(get(&address).as_deref(), Some("hi"), "from the host at {address}");
    }
    let own = world.root.exec(&id, &["sh", "-c", &get_inside(&format!("{HOST}:8080"))]);
    assert_eq!(own.out(), "hi", "from itself: {}", own.err());
    assert_eq!(world.run(&get_inside(&format!("{HOST}:8080")), json!({})).out(), "hi", "from a container beside it");
    world.network(json!({ "Name": "other" })).expect("a network");
    let other = json!({ "HostConfig": { "NetworkMode": "other" } });
    assert_eq!(world.run(&get_inside(&format!("{HOST}:8080")), other.clone()).out(), "hi", "from another network");
    assert_eq!(world.run(&get_inside("172.17.0.2:80"), other).out(), "", "another network, past the port");
    let past = format!("ip route add 172.17.0.0/16 via {HOST}");
    world.outside(|| sh(&past));
    assert!(world.outside(|| is_closed("172.17.0.2:80")), "the neighbour, past the port");
    let ports = world.root.inspect(&id).network_settings.ports;
    let bindings = ports.get("80/tcp").flatten().expect("published");
    assert_eq!((bindings[0].host_ip.as_str(), bindings[0].host_port.as_str()), ("0.0.0.0", "8080"));
    // Others are kept from the port as long as the container runs.
    assert!(TcpListener::bind("0.0.0.0:8080").is_err());
    world.root.engine.container_kill(&id, None, None).expect("kill");
    assert_eq!(get("127.0.0.1:8080"), None);
    drop(TcpListener::bind("0.0.0.0:8080").expect("a free port"));
}

// field: HostConfig.PortBindings.HostIp
#[test]
fn a_port_on_one_address_and_udp() {
    let world = World::new();
    let local = world.server("local", published("80/tcp", "127.0.0.1", "8081"));
    assert_eq!(get("127.0.0.1:8081").as_deref(), Some("hi"));
    assert_eq!(get(&format!("{HOST}:8081")), None);
    assert_eq!(world.outside(|| get(&format!("{HOST}:8081"))), None);
    world.root.engine.container_kill(&local, None, None).expect("kill");
    // The image has no UDP server: this test is one, in the container's network namespace.
    let id = world.sleeper("udp", published("53/udp", "", "5353"));
    let path = format!("/proc/{}/ns/net", world.root.pid(&id));
    std::thread::spawn(move || {
        setns(File::open(path).expect("the container"), CloneFlags::CLONE_NEWNET).expect("go there");
        let socket = UdpSocket::bind("0.0.0.0:53").expect("port 53");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        let mut buffer = [0; 16];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    });
    let echo = || {
        let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
        socket.set_read_timeout(Some(Duration::from_millis(300))).ok()?;
        socket.send_to(b"ping", (HOST, 5353)).ok()?;
        let mut buffer = [0; 16];
        let (length, from) = socket.recv_from(&mut buffer).ok()?;
        (from.port() == 5353).then(|| buffer[..length].to_vec())
    };
    let mut got = None;
    wait_for("an echo", || {
        got = world.outside(echo);
        got.is_some()
    });
    assert_eq!(got.as_deref(), Some(&b"ping"[..]));
}

// field: Config.ExposedPorts
// field: HostConfig.PortBindings
// field: HostConfig.PortBindings.HostPort
// field: HostConfig.PublishAllPorts
#[test]
fn taken_ports_and_free_ones() {
    let world = World::new();
    let id = world.sleeper("first", published("80/tcp", "", "8080"));
    let second = world.root.create("second", body(&["true"], networked(published("80/tcp", "", "8080"))));
    let error = world.root.engine.container_start(&second, None, None).expect_err("taken");
    assert!(error.message().starts_with("driver failed programming external connectivity on endpoint second ("));
    assert!(error.message().ends_with("Bind for 0.0.0.0:8080 failed: port is already allocated"), "{error}");
    assert_eq!(world.root.status(&second), "created");
    let listener = TcpListener::bind("0.0.0.0:8090").expect("a port");
    let third = world.root.create("third", body(&["true"], networked(published("80/tcp", "", "8090"))));
    let error = world.root.engine.container_start(&third, None, None).expect_err("taken");
    assert!(error.message().ends_with("listen tcp4 0.0.0.0:8090: bind: address already in use"), "{error}");
    drop(listener);
    world.root.start(&third);
    let all = json!({ "ExposedPorts": { "80/tcp": {}, "90/udp": {} }, "HostConfig": { "PublishAllPorts": true } });
    let fourth = world.server("fourth", all);
    let ports = || world.root.inspect(&fourth).network_settings.ports;
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("the kernel's range");
    let range: Vec<u16> = range.split_whitespace().map(|word| word.parse().expect("a port")).collect();
    let of_the_range = |port: &str| port.parse::<u16>().is_ok_and(|port| (range[0]..=range[1]).contains(&port));
    assert!(ports().bindings().all(|(_, port)| of_the_range(&port)), "{range:?}");
    assert_eq!(ports().bindings().count(), 4);
    let web = ports().get("80/tcp").flatten().expect("published")[0].host_port.clone();
    assert_eq!(world.outside(|| get(&format!("{HOST}:{web}"))).as_deref(), Some("hi"));
    // The address is free once the container has ended.
    world.root.engine.container_kill(&fourth, None, None).expect("kill");
    assert!(world.outside(|| is_closed(&format!("{HOST}:{web}"))) && ports().is_empty());
    wait_for("the port to be free", || TcpListener::bind(format!("0.0.0.0:{web}")).is_ok());
    let range = world.server("range", published("80/tcp", "", "8080-8085"));
    assert_eq!(
        world.root.inspect(&range).network_settings.ports.get("80/tcp").flatten().expect("it")[0].host_port,
        "8081"
    );
    assert_eq!(world.outside(|| get(&format!("{HOST}:8081"))).as_deref(), Some("hi"));
    let unexposed = json!({ "HostConfig": { "PortBindings": { "80/tcp": [{ "HostPort": "9999" }] } } });
    let silent = world.sleeper("silent", unexposed);
    assert!(world.root.inspect(&silent).network_settings.ports.is_empty());
    let bad = world.root.try_create("bad", body(&["true"], networked(published("99999/tcp", "", "1"))));
    assert_eq!(bad.expect_err("no port").message(), "invalid port specification: \"99999/tcp\"");
    drop(id);
}

// field: NetworkingConfig.EndpointsConfig
// field: NetworkingConfig.EndpointsConfig.Aliases
// field: NetworkingConfig.EndpointsConfig.IPAMConfig
// field: NetworkingConfig.EndpointsConfig.IPAMConfig.IPv4Address
// field: NetworkingConfig.EndpointsConfig.MacAddress
#[test]
fn names_on_networks_of_ones_own() {
    let world = World::new();
    world.network(json!({ "Name": "net1", "IPAM": { "Config": [{ "Subnet": "10.55.0.0/24" }] } })).expect("net1");
    world.network(json!({ "Name": "net2" })).expect("net2");
    let on = |network: &str, settings: Value| json!({ "HostConfig": { "NetworkMode": network }, "NetworkingConfig": { "EndpointsConfig": { network: settings } } });
    let card = "02:55:00:00:00:09";
    let fixed = json!({ "IPAMConfig": { "IPv4Address": "10.55.0.9" }, "Aliases": ["db"], "MacAddress": card });
    let first = world.sleeper("first", on("net1", fixed));
    let inside =
        world.root.exec(&first, &["sh", "-c", "cat /sys/class/net/eth0/address; ip -o -4 addr show eth0"]).ok();
    assert!(inside.starts_with(card) && inside.contains("inet 10.55.0.9/24"), "{inside}");
    world.sleeper("second", on("net1", json!({ "Aliases": ["db"] })));
    world.sleeper("stranger", on("net2", json!({})));
    let asked = |name: &str| {
        let text = world.root.exec(&first, &["sh", "-c", &format!("nslookup {name} | grep '^Address: '; true")]).ok();
        let mut ips: Vec<String> = text.lines().map(|line| line.trim_start_matches("Address: ").to_owned()).collect();
        ips.sort();
        ips
    };
    assert_eq!(asked("first"), ["10.55.0.9"]);
    assert_eq!(asked("SECOND"), ["10.55.0.2"]);
    assert_eq!(asked("second.net1"), ["10.55.0.2"]);
    assert_eq!(asked("db"), ["10.55.0.2", "10.55.0.9"]);
    assert_eq!(asked(&first[..12]), ["10.55.0.9"]);
    assert!(asked("stranger").is_empty());
    let pointer = world.root.exec(&first, &["nslookup", "-type=ptr", "2.0.55.10.in-addr.arpa"]).out();
    assert!(pointer.contains("name = second.net1"), "{pointer}");
    assert!(world.root.exec(&first, &["ping", "-c", "1", "-w", "2", "10.55.0.2"]).code == 0);
    let resolv = world.root.exec(&first, &["cat", "/etc/resolv.conf"]).ok();
    assert!(resolv.ends_with("nameserver 127.0.0.11\noptions ndots:0"), "{resolv}");
    world.root.engine.container_rename("second", "renamed").expect("rename");
    assert_eq!(asked("renamed"), ["10.55.0.2"]);
    world.root.engine.container_kill("renamed", None, None).expect("kill");
    assert!(asked("renamed").is_empty());
    assert_eq!(asked("db"), ["10.55.0.9"]);
    let stranger = world.ip("stranger");
    let ping = world.root.exec(&first, &["ping", "-c", "1", "-w", "1", &stranger]);
    assert_ne!(ping.code, 0, "networks are closed to each other");
    let detail = world.root.engine.network_inspect("net1").expect("inspect");
    assert_eq!(detail.containers.len(), 1);
    assert_eq!(detail.containers[&first].ipv4_address, "10.55.0.9/24");
    let error = world.root.engine.network_remove("net1").expect_err("in use");
    assert!(error.message().contains("has active endpoints") && error.http_status() == 403, "{error}");
}

#[test]
fn other_names_are_passed_on_but_not_from_internal_networks() {
    let world = World::new();
    let path = format!("/run/netns/{}", world.outside);
    // Says 5.6.7.8 to everything, until the test's process ends.
    std::thread::spawn(move || {
        setns(File::open(path).expect("the neighbour"), CloneFlags::CLONE_NEWNET).expect("go there");
        let socket = UdpSocket::bind((OUTSIDE, 53)).expect("port 53");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            let mut answer = query[..length].to_vec();
            answer[2..4].copy_from_slice(&[0x81, 0x80]);
            answer[6..8].copy_from_slice(&[0, 1]);
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 5, 6, 7, 8]);
            let _ = socket.send_to(&answer, from);
        }
    });
    world.network(json!({ "Name": "open" })).expect("a network");
    world.network(json!({ "Name": "closed", "Internal": true })).expect("a network");
    let ask = |network: &str| {
        let host = json!({ "NetworkMode": network, "Dns": [OUTSIDE] });
        let script = format!("nslookup -type=a far.example; ping -c 1 -w 3 {OUTSIDE} >/dev/null && echo reached");
        world.run(&script, json!({ "HostConfig": host })).out()
    };
    let open = ask("open");
    assert!(open.contains("Address: 5.6.7.8") && open.contains("reached"), "{open}");
    let closed = ask("closed");
    assert!(closed.contains("SERVFAIL") && !closed.contains("reached"), "{closed}");
}

#[test]
fn networks_come_and_go() {
    let world = World::new();
    let refused = |body: Value| {
        let error = world.network(body).expect_err("refused");
        (error.http_status(), error.message().to_owned())
    };
    assert_eq!(refused(json!({ "Name": "" })), (500, "invalid name: ".into()));
    let predefined = (403, "operation is not permitted on predefined bridge network ".into());
    assert_eq!(refused(json!({ "Name": "bridge" })), predefined);
    assert_eq!(refused(json!({ "Name": "n", "Driver": "nope" })), (404, "plugin \"nope\" not found".into()));
    let pool = |subnet: &str| json!({ "Config": [{ "Subnet": subnet }] });
    let bad = (500, "Invalid subnet bad : invalid CIDR address: bad".into());
    assert_eq!(refused(json!({ "Name": "n", "IPAM": pool("bad") })), bad);
    let id =
        world.network(json!({ "Name": "n1", "IPAM": pool("10.9.0.0/30"), "Labels": { "a": "b" } })).expect("n1").id;
    let overlap = (403, "Pool overlaps with other one on this address space".into());
    assert_eq!(refused(json!({ "Name": "n2", "IPAM": pool("10.9.0.0/16") })), overlap);
    let double = (409, "network with name n1 already exists".into());
    assert_eq!(refused(json!({ "Name": "n1", "CheckDuplicate": true })), double);
    let names = |filters: Value| -> Vec<String> {
        let query = ListNetworks { filters: serde_json::from_value(filters).expect("filters") };
        world.root.engine.network_list(&query).expect("list").into_iter().map(|n| n.name).collect()
    };
    assert_eq!(names(json!({})), ["bridge", "host", "n1", "none"]);
    assert_eq!(names(json!({ "type": ["custom"] })), ["n1"]);
    assert_eq!(names(json!({ "label": ["a=b"] })), ["n1"]);
    assert_eq!(names(json!({ "driver": ["null"] })), ["none"]);
    // Two containers request one address.
    let mode = json!({ "HostConfig": { "NetworkMode": "n1" } });
    world.sleeper("fits", mode.clone());
    let full = world.root.create("full", body(&["true"], mode.clone()));
    let error = world.root.engine.container_start(&full, None, None).expect_err("full");
    assert!(error.message().starts_with("no available IPv4 addresses on this network's address pools"), "{error}");
    world.root.engine.container_kill("fits", None, None).expect("kill");
    world.root.start(&full);
    world.root.wait(&full);
    let bridge = format!("br-{}", &id[..12]);
    assert!(sh("ip -br link").contains(&bridge));
    world.root.engine.network_remove("n1").expect("remove");
    assert!(!sh("ip -br link").contains(&bridge));
    let error = world.root.engine.container_start(&full, None, None).expect_err("gone");
    assert_eq!((error.http_status(), error.message()), (404, "network n1 not found"));
}

#[test]
fn a_stopped_container_is_connected_and_disconnected() {
    let world = World::new();
    world.network(json!({ "Name": "aaa" })).expect("a network");
    let id = world.root.create("c1", body(&["ip", "-o", "-4", "addr"], networked(json!({}))));
    let connect = |network: &str| {
        let body = ConnectNetwork { container: id.clone(), endpoint_config: None };
        world.root.engine.network_connect(network, &body, None)
    };
    connect("aaa").expect("connect");
    assert_eq!(connect("aaa").expect_err("twice").message(), "endpoint with name c1 already exists in network aaa");
    assert_eq!(connect("nope").expect_err("none").http_status(), 404);
    assert_eq!(connect("host").expect_err("host").http_status(), 403);
    world.root.start(&id);
    world.root.wait(&id);
    let text = world.root.logs(&id).out();
    assert!(text.contains("eth0") && text.contains("eth1"), "{text}");
    let body = DisconnectNetwork { container: id.clone(), force: false };
    world.root.engine.network_disconnect("aaa", &body, None).expect("disconnect");
    let error = world.root.engine.network_disconnect("aaa", &body, None).expect_err("not on it");
    assert_eq!(error.message(), format!("container {id} is not connected to network aaa"));
    assert_eq!(world.root.inspect(&id).network_settings.networks.len(), 1);
}

#[test]
fn a_running_container_is_connected_and_disconnected() {
    let world = World::new();
    let id = world.sleeper("c1", json!({}));
    world.network(json!({ "Name": "aaa", "IPAM": { "Config": [{ "Subnet": "10.55.0.0/24" }] } })).expect("a network");
    world.sleeper("other", json!({ "HostConfig": { "NetworkMode": "aaa" } }));
    let body: ConnectNetwork =
        serde_json::from_value(json!({ "Container": id, "EndpointConfig": { "Aliases": ["it"] } })).expect("a body");
    world.root.engine.network_connect("aaa", &body, None).expect("connect");
    let inside = |script: &str| world.root.exec(&id, &["sh", "-c", script]).out();
    let text = inside("ip -o -4 addr; ip route; cat /etc/hosts");
    assert!(text.contains("10.55.0.3/24") && text.contains("172.17.0.2/16"), "{text}");
    assert!(text.contains("default via 10.55.0.1 dev eth1"), "{text}");
    assert!(text.contains(&format!("10.55.0.3\t{}", &id[..12])), "{text}");
    assert_eq!(world.root.exec(&id, &["ping", "-c", "1", "-w", "2", "10.55.0.2"]).code, 0);
    assert!(inside("cat /etc/resolv.conf; nslookup other").contains("Address: 10.55.0.2"));
    let named = world.root.exec("other", &["nslookup", "it"]).out();
    assert!(named.contains("Address: 10.55.0.3"), "{named}");
    let settings = world.root.inspect(&id).network_settings;
    assert_eq!(settings.networks["aaa"].ip_address, "10.55.0.3");
    let error = world.root.engine.network_connect("aaa", &body, None).expect_err("twice");
    assert_eq!(error.http_status(), 403);
    let body = DisconnectNetwork { container: id.clone(), force: false };
    world.root.engine.network_disconnect("aaa", &body, None).expect("disconnect");
    let text = inside("ip -o -4 addr; ip route");
    assert!(!text.contains("10.55.0") && text.contains("default via 172.17.0.1 dev eth0"), "{text}");
    assert_eq!(world.root.exec(&id, &["ping", "-c", "1", "-w", "2", OUTSIDE]).code, 0);
    // On the network again, it asks a resolver with another port.
    let again: ConnectNetwork = serde_json::from_value(json!({ "Container": id })).expect("a body");
    world.root.engine.network_connect("aaa", &again, None).expect("connect again");
    let named = inside("nslookup other 2>&1");
    assert!(named.contains("Address: 10.55.0.2"), "{named}");
    world.root.engine.container_stop(&id, Some(1000), None).expect("stop");
}

#[test]
fn the_engine_restores_rules_that_others_destroyed() {
    let world = World::new();
    let id = world.server("web", published("80/tcp", "", "8080"));
    sh("nft flush ruleset");
    assert_eq!(world.outside(|| get(&format!("{HOST}:8080"))), None);
    // Any start, and any open.
    world.reopen_heals();
    assert_eq!(world.outside(|| get(&format!("{HOST}:8080"))).as_deref(), Some("hi"));
    // A killed monitor takes its container along, and cannot clear up.
    let monitor = world.monitor(&id);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(monitor), nix::sys::signal::SIGKILL).expect("kill the monitor");
    world.root.wait_for("its burial", || world.root.status(&id) == "exited");
    assert!(!leads(&sh("nft list ruleset"), 8080));
}

impl World {
    fn reopen_heals(&self) {
        drop(self.root.reopen());
    }

    /// The parent of a container's first process.
    fn monitor(&self, id: &str) -> i32 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.root.pid(id))).expect("its stat");
        let after = stat.rsplit(')').next().expect("fields");
        after.split_whitespace().nth(1).expect("the parent").parse().expect("a number")
    }
}

#[test]
fn a_restarted_container_has_its_network_again() {
    let world = World::new();
    let script = "ip -4 -o addr show eth0 >> /log; [ $(wc -l < /log) -gt 2 ] && cat /log; exit 1";
    let more = json!({ "HostConfig": { "RestartPolicy": { "Name": "on-failure", "MaximumRetryCount": 3 } } });
    let id = world.root.create("again", body(&["sh", "-c", script], networked(more)));
    world.root.start(&id);
    wait_for("three runs", || world.root.logs(&id).out().lines().count() >= 3);
    let text = world.root.logs(&id).out();
    assert!(text.lines().all(|line| line.contains("172.17.0.2/16")), "{text}");
}

/// Connected, limited and given a policy while it runs, in either order; then its end is told, and it starts again.
#[test]
fn a_container_that_was_changed_is_restarted() {
    let world = World::new();
    world.network(json!({ "Name": "net1" })).expect("a network");
    let update = json!({ "Memory": 64 << 20, "RestartPolicy": { "Name": "always" } });
    let update: UpdateContainer = serde_json::from_value(update).expect("a body");
    for connect_first in [true, false] {
        let name = format!("one-{connect_first}");
        let id = world.sleeper(&name, json!({}));
        let connect = || {
            let body = ConnectNetwork { container: id.clone(), endpoint_config: None };
            world.root.engine.network_connect("net1", &body, None).expect("connect");
        };
        let change = || drop(world.root.engine.container_update(&id, &update).expect("update"));
        if connect_first {
            connect();
            change();
        } else {
            change();
            connect();
        }
        // Once more, for the container that replaced the first.
        change();
        world.root.exec(&id, &["kill", "-TERM", "1"]);
        wait_for("the restart", || {
            let now = world.root.inspect(&id);
            now.restart_count == 1 && now.state.status == "running"
        });
        assert_eq!(world.root.exec(&id, &["ls", "/sys/class/net"]).ok(), "eth0\neth1\nlo");
        world.root.engine.container_stop(&id, Some(1000), None).expect("stop");
    }
}

// field: NetworkingConfig.EndpointsConfig.IPAMConfig.IPv6Address
#[test]
fn addresses_of_both_families() {
    let world = World::new();
    sh(&format!("ip addr add fd77::1/64 dev up0 nodad; ip -n {} addr add fd77::2/64 dev eth0 nodad", world.outside));
    let pools = json!({ "Config": [{ "Subnet": "10.56.0.0/24" }, { "Subnet": "fd56::/64" }] });
    world.network(json!({ "Name": "both", "EnableIPv6": true, "IPAM": pools })).expect("a network");
    let more = json!({
        "ExposedPorts": { "80/tcp": {} },
        "HostConfig": { "NetworkMode": "both", "PortBindings": { "80/tcp": [{ "HostPort": "8080" }] } },
    });
    let script = "mkdir -p /w; echo hi > /w/index.html; trap 'exit 0' TERM; httpd -f -p [::]:80 -h /w & wait";
    let id = world.root.create("six", body(&["sh", "-c", script], more));
    world.root.start(&id);
    wait_for("the server", || get("10.56.0.2:80").is_some());
    let end = world.root.inspect(&id).network_settings.networks["both"].clone();
    assert_eq!((end.global_ipv6_address.as_str(), end.global_ipv6_prefix_len), ("fd56::2", 64));
    assert_eq!(end.ipv6_gateway, "fd56::1");
    assert_eq!(world.outside(|| get("[fd77::1]:8080")).as_deref(), Some("hi"), "by IPv6");
    assert_eq!(world.outside(|| get(&format!("{HOST}:8080"))).as_deref(), Some("hi"), "by IPv4");
    assert_eq!(get("[fd77::1]:8080").as_deref(), Some("hi"), "from the host");
    assert_eq!(
        world.root.exec(&id, &["ping", "-6", "-c", "1", "-w", "2", "fd77::2"]).code,
        0,
        "out, under the host's address"
    );
    let named = world.root.exec(&id, &["nslookup", "-type=aaaa", "six"]).out();
    assert!(named.contains("Address: fd56::2"), "{named}");
}

#[test]
fn a_macvlan_is_the_neighbours_neighbour() {
    let world = World::new();
    let pool = json!({ "Config": [{ "Subnet": "10.77.0.0/24", "IPRange": "10.77.0.128/25", "Gateway": HOST }] });
    world
        .network(json!({ "Name": "lan", "Driver": "macvlan", "IPAM": pool, "Options": { "parent": "up0" } }))
        .expect("a network");
    let more = json!({ "HostConfig": { "NetworkMode": "lan" } });
    let output =
        world.run(&format!("ip -o -4 addr show eth0; ping -c 1 -w 10 {OUTSIDE} >/dev/null && echo reached"), more);
    assert!(output.out().contains("10.77.0.128/24") && output.out().ends_with("reached"), "{}", output.out());
}

#[test]
fn info_tells_of_firewalls_that_stand_in_the_way() {
    let world = World::new();
    let warnings = || world.root.engine.info().expect("info")["Warnings"].to_string();
    assert!(!warnings().contains("drops forwarded packets"), "{}", warnings());
    sh(
        "nft add table ip other; nft 'add chain ip other FORWARD { type filter hook forward priority 0; policy drop; }'",
    );
    assert!(warnings().contains("firewall table other"), "{}", warnings());
}

#[test]
fn nothing_stays_where_nobody_runs() {
    let world = World::new();
    let id = world.sleeper("one", json!({}));
    world.root.engine.network_release().expect("release");
    assert!(sh("ip -br link").contains("coracle0"), "somebody is on it");
    world.root.engine.container_kill(&id, None, None).expect("kill");
    world.root.engine.network_release().expect("release");
    assert!(!sh("ip -br link").contains("coracle0") && !sh("nft list tables").contains("coracle-"));
    // A root that somebody removed, with what it had: the next one that makes a bridge clears up.
    let gone = Root::new();
    let other = gone.create("other", body(&["true"], networked(json!({}))));
    gone.start(&other);
    gone.wait(&other);
    assert!(sh("ip -br link").contains("coracle0"));
    std::fs::rename(&gone.dir, gone.dir.with_extension("gone")).expect("move the root away");
    wait_for("its interface to go", || !sh("ip -br link").contains("veth"));
    world.root.start(&id);
    let links = sh("ip -br link");
    assert_eq!(links.matches("coracle").count(), 1, "{links}");
    std::fs::rename(gone.dir.with_extension("gone"), &gone.dir).expect("and back");
}
