//! Networks: drivers without a bridge, ports that move, settings of the host, what is forced.

use crate::network::{HOST, OUTSIDE, World, get, get_inside, leads, networked, published, sh};
use crate::support::*;
use coracle::model::*;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

fn connect(world: &World, network: &str, id: &str, config: Value) -> coracle::Result<()> {
    let body = serde_json::from_value(json!({ "Container": id, "EndpointConfig": config })).expect("a body");
    world.root.engine.network_connect(network, &body, None)
}

fn disconnect(world: &World, network: &str, id: &str, force: bool) -> coracle::Result<()> {
    world.root.engine.network_disconnect(network, &DisconnectNetwork { container: id.into(), force }, None)
}

#[test]
fn ports_go_along_with_the_way_outside() {
    let world = World::new();
    world.network(json!({ "Name": "aaa" })).expect("a network");
    let id = world.server("web", published("80/tcp", "", "8080"));
    let reached = || world.outside(|| get(&format!("{HOST}:8080"))).as_deref() == Some("hi");
    let bound = || world.root.inspect(&id).network_settings.ports.get("80/tcp").flatten().is_some();
    assert!(reached() && bound());
    connect(&world, "aaa", &id, json!({})).expect("connect");
    assert!(reached() && bound(), "over the new network");
    disconnect(&world, "bridge", &id, false).expect("disconnect");
    assert!(reached() && bound(), "only the new one is left");
    disconnect(&world, "aaa", &id, false).expect("disconnect");
    assert!(!reached() && !bound(), "no way is left");
    assert!(std::net::TcpListener::bind("0.0.0.0:8080").is_err(), "the port is still its own");
    connect(&world, "bridge", &id, json!({})).expect("connect");
    assert!(reached() && bound(), "and back");
    world.root.engine.container_kill(&id, None, None).expect("kill");
    wait_for("the port to be free", || std::net::TcpListener::bind("0.0.0.0:8080").is_ok());
    assert!(!leads(&sh("nft list ruleset"), 8080));
}

#[test]
fn ports_of_the_host_alone() {
    let mut world = World::new();
    world.with_options(|options| options.publish_ip = Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let id = world.server("web", published("80/tcp", "", "8080"));
    assert_eq!(get("127.0.0.1:8080").as_deref(), Some("hi"));
    assert_eq!(world.outside(|| get(&format!("{HOST}:8080"))), None);
    // A neighbour that sends to the host's loopback address gets nowhere.
    let route =
        format!("ip route replace 127.0.0.1/32 via {HOST} dev eth0; sysctl -qw net.ipv4.conf.eth0.route_localnet=1");
    world.outside_sh(&format!("ip addr del 127.0.0.1/8 dev lo; ip route del local 127.0.0.0/8 dev lo table local || true; ip route del local 127.0.0.1 dev lo table local || true; {route}"));
    assert_eq!(world.outside(|| get("127.0.0.1:8080")), None);
    let ports = world.root.inspect(&id).network_settings.ports;
    assert_eq!(ports.get("80/tcp").flatten().expect("published")[0].host_ip, "127.0.0.1");
    // A requested address is used, or the request fails.
    world.server("open", published("80/tcp", "0.0.0.0", "8081"));
    assert_eq!(world.outside(|| get(&format!("{HOST}:8081"))).as_deref(), Some("hi"));
}

#[test]
fn settings_of_the_host_are_recorded_and_given_back() {
    let world = World::new();
    let forward = || std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").expect("read").trim().to_owned();
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "0").expect("write");
    let changed = || world.root.engine.info().expect("info")["HostSettings"].clone();
    assert_eq!(changed(), json!([]));
    world.run("true", json!({}));
    assert_eq!(forward(), "1");
    assert_eq!(changed(), json!([{ "Name": "ipv4/ip_forward", "Before": "0", "Set": "1", "Now": "1" }]));
    // Somebody else's bridge may need it.
    sh("ip link add other0 type bridge");
    world.root.engine.network_release().expect("release");
    assert_eq!(forward(), "1");
    sh("ip link del other0");
    world.root.engine.network_release().expect("release");
    assert_eq!((forward().as_str(), changed()), ("0", json!([])));
    // A setting that was on before stays on.
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("write");
    world.run("true", json!({}));
    assert_eq!(changed(), json!([]));
    world.root.engine.network_release().expect("release");
    assert_eq!(forward(), "1");
}

/// Two roots on one host: the first container changed the settings, the last one restores them.
#[test]
fn settings_are_given_back_by_the_last_root() {
    let world = World::new();
    let forwards = || sh("cat /proc/sys/net/ipv4/ip_forward").trim().to_owned();
    // A new host has what the first one has at the moment.
    sh("echo 0 > /proc/sys/net/ipv4/ip_forward");
    let before = forwards();
    let other = Root::new();
    let one = world.sleeper("one", json!({}));
    let two = other.sleeper_with("two", networked(json!({})));
    let told = |root: &Root| root.engine.info().expect("info")["HostSettings"].to_string();
    assert!(told(&world.root).contains("ip_forward") && told(&other) == told(&world.root), "{}", told(&other));
    world.root.engine.container_kill(&one, None, None).expect("kill");
    world.root.engine.network_release().expect("release");
    assert_eq!(forwards(), "1", "the other one needs it");
    other.engine.container_kill(&two, None, None).expect("kill");
    other.engine.network_release().expect("release");
    assert_eq!((forwards(), told(&other).as_str()), (before, "[]"));
    assert!(sh("ls /run/coracle-host").lines().all(|name| !name.starts_with(&format!("{}-", inode()))));
}

/// Each of them chooses a name and a subnet that none of the others has.
#[test]
fn default_bridges_of_roots_that_begin_at_once_are_apart() {
    let world = World::new();
    for _ in 0..6 {
        let roots: Vec<Root> = (0..4).map(|_| Root::new()).collect();
        std::thread::scope(|scope| {
            for root in &roots {
                scope.spawn(|| root.sleeper_with("first", networked(json!({}))));
            }
        });
        let address = |root: &Root| {
            let network = root.engine.network_inspect("bridge").expect("inspect the network");
            network.ipam.config[0].subnet.clone()
        };
        let mut subnets: Vec<String> = roots.iter().map(address).collect();
        subnets.sort();
        subnets.dedup();
        assert_eq!(subnets.len(), roots.len(), "{subnets:?}");
        for root in roots {
            root.engine.container_kill("first", None, None).expect("kill");
            root.engine.network_release().expect("release");
        }
    }
    drop(world);
}

/// Also networks that requests create: choosing and making the bridge, which shows the choice to others, is one step
/// for all roots.
#[test]
fn networks_of_roots_that_are_made_at_once_are_apart() {
    const EACH: usize = 2;
    let world = World::new();
    let roots: Vec<Root> = (0..4).map(|_| Root::new()).collect();
    for _ in 0..6 {
        std::thread::scope(|scope| {
            for root in &roots {
                scope.spawn(|| {
                    for number in 0..EACH {
                        let asked = serde_json::from_value(json!({ "Name": format!("n{number}") })).expect("a body");
                        root.engine.network_create(&asked).expect("make a network");
                    }
                });
            }
        });
        let mut subnets = Vec::new();
        for (root, number) in roots.iter().flat_map(|root| (0..EACH).map(move |number| (root, number))) {
            let name = format!("n{number}");
            let network = root.engine.network_inspect(&name).expect("inspect the network");
            subnets.push(network.ipam.config[0].subnet.clone());
            root.engine.network_remove(&name).expect("remove the network");
        }
        subnets.sort();
        subnets.dedup();
        assert_eq!(subnets.len(), roots.len() * EACH, "{subnets:?}");
    }
    for root in &roots {
        root.engine.network_release().expect("release");
    }
    drop(world);
}

/// The number of this test's network namespace.
fn inode() -> u64 {
    std::os::unix::fs::MetadataExt::ino(&std::fs::metadata("/proc/thread-self/ns/net").expect("a namespace"))
}

#[test]
fn a_forced_disconnect_takes_off_the_endpoint_of_a_removed_container() {
    let world = World::new();
    world.network(json!({ "Name": "net1" })).expect("a network");
    let id = world.sleeper("gone", json!({ "HostConfig": { "NetworkMode": "net1" } }));
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    world.root.engine.container_remove(&id, force, None).expect("remove");
    fails(disconnect(&world, "net1", "gone", false), coracle::ErrorKind::NotFound, "No such container: gone");
    disconnect(&world, "net1", "gone", true).expect("by force");
    fails(disconnect(&world, "net1", "gone", true), coracle::ErrorKind::NotFound, "endpoint gone not found");
    let live = world.sleeper("live", json!({ "HostConfig": { "NetworkMode": "net1" } }));
    disconnect(&world, "net1", &live, true).expect("by force, of one that runs");
    assert_eq!(world.root.exec(&live, &["ls", "/sys/class/net"]).ok(), "lo");
}

// field: NetworkingConfig.EndpointsConfig.IPAMConfig.LinkLocalIPs
#[test]
fn link_local_addresses() {
    let world = World::new();
    world.network(json!({ "Name": "net1" })).expect("a network");
    let ipam = json!({ "IPAMConfig": { "LinkLocalIPs": ["169.254.34.68", "fe80::34"] } });
    let on =
        json!({ "HostConfig": { "NetworkMode": "net1" }, "NetworkingConfig": { "EndpointsConfig": { "net1": ipam } } });
    let id = world.sleeper("one", on);
    let text = world.root.exec(&id, &["ip", "-o", "addr", "show", "eth0"]).ok();
    assert!(text.contains("169.254.34.68/16") && text.contains("fe80::34/64"), "{text}");
    let asked = world.root.inspect(&id).network_settings.networks["net1"].ipam_config.clone().expect("it");
    assert_eq!(asked.link_local_ips, ["169.254.34.68", "fe80::34"]);
    let bad =
        json!({ "NetworkingConfig": { "EndpointsConfig": { "net1": { "IPAMConfig": { "LinkLocalIPs": ["x"] } } } } });
    let bad = world.root.create("bad", body(&["true"], networked(bad)));
    fails(
        world.root.engine.container_start(&bad, None, None),
        coracle::ErrorKind::Invalid,
        "invalid link-local IP address: x",
    );
}

#[test]
fn drivers_without_a_bridge() {
    let world = World::new();
    let network = |name: &str, driver: &str, subnet: &str, options: Value| {
        let pool = json!({ "Config": [{ "Subnet": subnet, "Gateway": subnet.replace(".0/24", ".1") }] });
        world
            .network(json!({ "Name": name, "Driver": driver, "IPAM": pool, "Options": options }))
            .expect("a network")
            .id
    };
    let on = |network: &str| json!({ "HostConfig": { "NetworkMode": network } });
    let reach = |id: &str, ip: &str| world.root.exec(id, &["ping", "-c", "1", "-w", "2", ip]).code == 0;
    // Without a parent: the containers have each other, and nobody else.
    let id = network("alone", "macvlan", "10.91.0.0/24", json!({}));
    let (one, two) = (world.sleeper("one", on("alone")), world.sleeper("two", on("alone")));
    assert!(reach(&one, &world.ip(&two)) && !reach(&one, OUTSIDE));
    assert!(sh("ip -br link").contains(&format!("dm-{}", &id[..12])));
    // By name too.
    assert!(world.root.exec(&one, &["nslookup", "two"]).out().contains(&world.ip(&two)));
    // A running one comes and goes.
    let third = world.sleeper("third", json!({}));
    connect(&world, "alone", &third, json!({})).expect("connect");
    let ip = world.root.inspect(&third).network_settings.networks["alone"].ip_address.clone();
    assert!(reach(&one, &ip));
    disconnect(&world, "alone", &third, false).expect("disconnect");
    assert!(!reach(&one, &ip) && !world.root.exec(&third, &["ls", "/sys/class/net"]).ok().contains("eth1"));
    // A tag on a trunk is an interface of the network's own; a kernel without such says so.
    let tagged = network("tagged", "macvlan", "10.92.0.0/24", json!({ "parent": "up0.7" }));
    let made = Command::new("ip").args("link add link up0 name tag0 type vlan id 9".split(' ')).output();
    let has_tags = made.is_ok_and(|output| output.status.success());
    let mut running = vec!["one", "two", "third"];
    if has_tags {
        world.outside_sh(
            "ip link add eth0.7 link eth0 type vlan id 7; ip addr add 10.92.0.9/24 dev eth0.7; ip link set eth0.7 up",
        );
        let tag = world.sleeper("tag", on("tagged"));
        assert!(reach(&tag, "10.92.0.9"));
        running.push("tag");
    } else {
        let tag = world.root.create("tag", body(&["true"], on("tagged")));
        let error = world.root.engine.container_start(&tag, None, None).expect_err("this kernel has no tags");
        let text = "make the parent interface up0.7: operation not supported";
        assert!(error.message().starts_with(text), "{error}");
    }
    for name in running {
        world.root.engine.container_kill(name, None, None).expect("kill");
    }
    for name in ["alone", "tagged"] {
        world.root.engine.network_remove(name).expect("remove");
    }
    let links = sh("ip -br link");
    assert!(!links.contains("dm-") && !links.contains("up0.7"), "{tagged}: {links}");
}

#[test]
fn ipvlan_shares_its_parents_address() {
    let world = World::new();
    let network = |name: &str, subnet: &str, options: Value| {
        let pool = json!({ "Config": [{ "Subnet": subnet, "Gateway": subnet.replace(".0/24", ".1") }] });
        world
            .network(json!({ "Name": name, "Driver": "ipvlan", "IPAM": pool, "Options": options }))
            .expect("a network");
    };
    let reach = |id: &str, ip: &str| world.root.exec(id, &["ping", "-c", "1", "-w", "2", ip]).code == 0;
    network("three", "10.93.0.0/24", json!({ "parent": "up0", "ipvlan_mode": "l3" }));
    let three = json!({ "HostConfig": { "NetworkMode": "three" } });
    if Command::new("ip")
        .args(["link", "add", "ipvl0", "link", "up0", "type", "ipvlan"])
        .output()
        .is_ok_and(|o| !o.status.success())
    {
        // A kernel without ipvlan says so, and nothing is left.
        let id = world.root.create("none", body(&["true"], three));
        let error = world.root.engine.container_start(&id, None, None).expect_err("this kernel has no ipvlan");
        assert_eq!(error.message(), "add interface eth0 on network three: operation not supported");
        return;
    }
    sh("ip link del ipvl0");
    network("wire", "10.77.0.0/24", json!({ "parent": "up0" }));
    let more = json!({
        "HostConfig": { "NetworkMode": "wire" },
        "NetworkingConfig": { "EndpointsConfig": { "wire": { "IPAMConfig": { "IPv4Address": "10.77.0.50" } } } },
    });
    let wire = world.sleeper("wired", more);
    assert!(reach(&wire, OUTSIDE));
    // In layer 3 everything is behind the host, which only answers for its own address.
    let l3 = world.sleeper("l3", three);
    world.outside_sh(&format!("ip route add 10.93.0.0/24 via {HOST}"));
    assert!(reach(&l3, OUTSIDE));
}

#[test]
fn neighbours_that_must_not_talk() {
    let world = World::new();
    let options = json!({ "com.docker.network.bridge.enable_icc": "false" });
    world.network(json!({ "Name": "quiet", "Options": options })).expect("a network");
    let on = |more: Value| {
        let mut more = more;
        more["HostConfig"]["NetworkMode"] = json!("quiet");
        more
    };
    let web = world.server("web", on(published("80/tcp", "", "8080")));
    let other = world.sleeper("other", on(json!({})));
    let ip = world.ip(&web);
    assert_ne!(world.root.exec(&other, &["ping", "-c", "1", "-w", "1", &ip]).code, 0);
    assert_eq!(world.root.exec(&other, &["sh", "-c", &get_inside(&format!("{ip}:80"))]).out(), "");
    // Published ports are for all, and the way outside is open. (A host whose bridges call the firewall, as those of
    // dockerd do, finds that the packet would not leave the bridge, where it must not pass.)
    for key in ["iptables", "ip6tables"] {
        let _ = std::fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{key}"), "0");
    }
    assert_eq!(world.root.exec(&other, &["sh", "-c", &get_inside(&format!("{HOST}:8080"))]).out(), "hi");
    assert_eq!(world.root.exec(&other, &["ping", "-c", "1", "-w", "2", OUTSIDE]).code, 0);
}

#[test]
fn ports_of_sctp() {
    let world = World::new();
    let id = world.sleeper("sctp", published("9999/sctp", "", "9899"));
    let ports = world.root.inspect(&id).network_settings.ports;
    assert_eq!(ports.get("9999/sctp").flatten().expect("published")[0].host_port, "9899");
    assert!(leads(&sh("nft list ruleset"), 9899));
    // No other program can take the port; on a kernel without SCTP no program can at all.
    let take = "import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132).bind(('0.0.0.0', 9899))";
    let taken = Command::new("python3").args(["-c", take]).output().expect("python3");
    assert!(!taken.status.success(), "the port was to be kept");
    world.root.engine.container_kill(&id, None, None).expect("kill");
    assert!(!leads(&sh("nft list ruleset"), 9899));
}

#[test]
fn a_network_that_is_removed_while_a_container_starts_on_it() {
    let world = World::new();
    let engine = &world.root.engine;
    for round in 0..30u64 {
        world.network(json!({ "Name": "brief" })).expect("a network");
        let body = body(&["sleep", "1000"], json!({ "HostConfig": { "NetworkMode": "brief" } }));
        let id = world.root.create("fast", body);
        let (start, remove) = std::thread::scope(|scope| {
            let start = scope.spawn(|| engine.container_start(&id, None, None));
            // From the moment before the start until after it.
            std::thread::sleep(std::time::Duration::from_micros(round * 60));
            let remove = engine.network_remove("brief");
            (start.join().expect("a start"), remove)
        });
        match (start, remove) {
            (Ok(_), Err(error)) => {
                assert!(error.message().ends_with("has active endpoints"), "{error}");
            }
            (Err(error), Ok(_)) => {
                assert_eq!(error.kind(), coracle::ErrorKind::NotFound, "{error}");
            }
            both => panic!("round {round}: {both:?}"),
        }
        let force = RemoveContainer { force: true, ..RemoveContainer::default() };
        engine.container_remove(&id, force, None).expect("remove");
        let _ = engine.network_remove("brief");
        assert!(!sh("ip -o link show type bridge").contains("br-"), "round {round}: a bridge is left");
    }
}
