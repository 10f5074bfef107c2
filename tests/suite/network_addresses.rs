//! The limits of addresses: exhausted pools, addresses that rest, and a container's address in the view of other hosts.

use crate::network::{HOST, OUTSIDE, World, get, is_closed, published, sh};
use crate::support::*;
use coracle::model::*;
use nix::sched::{CloneFlags, setns};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::net::{IpAddr, TcpListener};

fn on(network: &str) -> Value {
    json!({ "HostConfig": { "NetworkMode": network } })
}

#[test]
fn addresses_run_out_and_rest() {
    let world = World::new();
    let pools = json!({ "Config": [{ "Subnet": "10.58.0.0/29" }] });
    world.network(json!({ "Name": "small", "IPAM": pools })).expect("a network");
    let force = RemoveContainer { force: true, ..RemoveContainer::default() };
    let first = world.sleeper("first", on("small"));
    assert_eq!(world.ip(&first), "10.58.0.2");
    world.root.engine.container_remove(&first, force, None).expect("remove");
    // Neighbours may still take the next one for it.
    let mut ids = vec![world.sleeper("second", on("small"))];
    assert_eq!(world.ip(&ids[0]), "10.58.0.3");
    ids.extend((0..4).map(|number| world.sleeper(&format!("more{number}"), on("small"))));
    let all: BTreeSet<String> = ids.iter().map(|id| world.ip(id)).collect();
    assert_eq!(all.len(), 5, "each its own, the rested one at last: {all:?}");
    let late = world.root.create("late", body(&["true"], on("small")));
    let text = "no available IPv4 addresses on this network's address pools: 10.58.0.0/29";
    fails(world.root.engine.container_start(&late, None, None), coracle::ErrorKind::Internal, text);
    assert_eq!(world.root.status(&late), "created");
    let other = world.sleeper("other", json!({ "HostConfig": { "NetworkMode": "bridge" } }));
    let connect = ConnectNetwork { container: other.clone(), endpoint_config: None };
    fails(world.root.engine.network_connect("small", &connect, None), coracle::ErrorKind::Internal, text);
    assert_eq!(world.root.exec(&other, &["ls", "/sys/class/net"]).ok(), "eth0\nlo");
    // Nothing is left of those that were refused: one that goes makes room for one.
    world.root.engine.container_remove(&ids[2], force, None).expect("remove");
    world.root.engine.network_connect("small", &connect, None).expect("there is room for one");
    fails(world.root.engine.container_start(&late, None, None), coracle::ErrorKind::Internal, text);
}

/// A host that the neighbour routes to; gone with the value.
struct Far(String);

impl Far {
    fn new(world: &World) -> Far {
        let (far, outside) = (format!("{}-far", world.outside), &world.outside);
        // A router asks for its neighbours from its link-local address, once nobody else can have that: at once.
        let trust = "echo 0 > /proc/sys/net/ipv6/conf/default/dad_transmits";
        let again = "echo 0 > /proc/sys/net/ipv6/conf/eth0/dad_transmits; ip link set eth0 down; ip link set eth0 up";
        world.outside_sh(&format!("{trust}; {again}"));
        sh(&format!(
            "ip netns add {far}; ip netns exec {far} sh -c '{trust}'; ip link add far0 netns {outside} type veth peer name eth0 netns {far}
             ip -n {outside} addr add 10.88.0.1/24 dev far0; ip -n {outside} addr add fd88::1/64 dev far0 nodad
             ip -n {outside} addr add fd77::2/64 dev eth0 nodad; ip -n {outside} link set far0 up
             ip -n {far} addr add 10.88.0.2/24 dev eth0; ip -n {far} addr add fd88::2/64 dev eth0 nodad
             ip -n {far} link set lo up; ip -n {far} link set eth0 up
             ip -n {far} route add default via 10.88.0.1; ip -n {far} -6 route add default via fd88::1
             ip addr add fd77::1/64 dev up0 nodad; ip route add 10.88.0.0/24 via {OUTSIDE}; ip -6 route add fd88::/64 via fd77::2"
        ));
        world.outside_sh("echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
        wait_for("addresses of the links", || {
            let tentative =
                format!("[ -z \"$(ip -n {outside} -6 addr show tentative; ip -n {far} -6 addr show tentative)\" ]");
            std::process::Command::new("sh").args(["-c", &tentative]).status().is_ok_and(|status| status.success())
        });
        Far(far)
    }

    fn there<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.0);
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                setns(File::open(path).expect("the far host"), CloneFlags::CLONE_NEWNET).expect("go there");
                work()
            });
            there.join().expect("the far host's work")
        })
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        sh(&format!("ip netns del {}", self.0));
    }
}

/// Networks under the host's address and networks with addresses of their own, by IPv4 and IPv6, seen from a host that is
/// two hops away.
#[test]
fn translated_and_routed() {
    let world = World::new();
    let far = Far::new(&world);
    let make = |name: &str, v4: &str, v6: &str, masquerade: &str| {
        let pools = json!({ "Config": [{ "Subnet": v4 }, { "Subnet": v6 }] });
        let options = json!({ "com.docker.network.bridge.enable_ip_masquerade": masquerade });
        world.network(json!({ "Name": name, "EnableIPv6": true, "IPAM": pools, "Options": options })).expect(name);
    };
    make("translated", "10.61.0.0/24", "fd61::/64", "true");
    make("routed", "10.62.0.0/24", "fd62::/64", "false");
    for routes in ["ip route add 10.62.0.0/24 via 10.77.0.1", "ip -6 route add fd62::/64 via fd77::1"] {
        world.outside_sh(routes);
    }
    let listener = far.there(|| TcpListener::bind("[::]:7000").expect("a port"));
    let (tell, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while let Ok((_stream, from)) = listener.accept() {
            let _ = tell.send(from.ip().to_canonical());
        }
    });
    for (network, ours) in [("translated", ["10.77.0.1", "fd77::1"]), ("routed", ["10.62.0.2", "fd62::2"])] {
        let port = if network == "routed" { "8081" } else { "8080" };
        let mut more = published("80/tcp", "", port);
        more["HostConfig"]["NetworkMode"] = json!(network);
        let id = world.server(network, more);
        for (to, ours) in ["10.88.0.2", "fd88::2"].into_iter().zip(ours) {
            let sent = world.root.exec(&id, &["sh", "-c", &format!("echo hi | nc -w 10 {to} 7000")]);
            assert_eq!(sent.code, 0, "{network} to {to}: {}", sent.err());
            let from = seen.recv_timeout(SOON).expect("a connection");
            assert_eq!(from, ours.parse::<IpAddr>().expect("an address"), "{network} to {to}");
        }
        for host in [HOST, "[fd77::1]"] {
            let got = far.there(|| get(&format!("{host}:{port}")));
            assert_eq!(got.as_deref(), Some("hi"), "{network} at {host}");
        }
        // Only what is published: its own addresses are closed, routed or not.
        for own in [ours[0].to_owned(), format!("[{}]", ours[1])].iter().filter(|_| network == "routed") {
            assert!(far.there(|| is_closed(&format!("{own}:80"))), "past the port, at {own}");
        }
    }
    // A container without IPv6, at the host's IPv6 address.
    let four = world.server("four", published("80/tcp", "", "8082"));
    assert_eq!(far.there(|| get("[fd77::1]:8082")).as_deref(), Some("hi"));
    // Through an internal network nothing goes, neither in nor out.
    world.network(json!({ "Name": "inner", "Internal": true })).expect("a network");
    let inner = world.server("inner", on("inner"));
    let ip = world.ip(&inner);
    world.outside_sh(&format!("ip route add {ip} via {HOST}"));
    assert!(far.there(|| is_closed(&format!("{ip}:80"))));
    assert_ne!(world.root.exec(&inner, &["ping", "-c", "1", "-w", "1", "10.88.0.2"]).code, 0);
    assert_ne!(world.root.exec(&four, &["ping", "-c", "1", "-w", "1", &ip]).code, 0);
}
