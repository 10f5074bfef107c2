//! On one host with other programs that have rules of their own: dockerd, firewalls made by hand.

use crate::network::{HOST, World, get, is_closed, published, sh};
use crate::support::*;
use std::process::{Command, Stdio};

/// dockerd on this test's host, with its networks and rules; ended with the test.
struct Beside(std::path::PathBuf);

impl Beside {
    fn start(world: &World) -> Beside {
        let dir = world.root.dir.join("dockerd");
        let mut start = Command::new(project().join("bench/dockerd"));
        let started = start.arg("start").arg(&dir).env("DOCKERD_FLAGS", "").stdout(Stdio::null()).status();
        assert!(started.expect("run bench/dockerd").success(), "dockerd does not start");
        let beside = Beside(dir);
        beside.docker(&format!("load -q -i {}", busybox_archive().display()));
        beside
    }

    fn docker(&self, words: &str) -> String {
        sh(&format!("docker -H unix://{}/sock {words}", self.0.display()))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = Command::new(project().join("bench/dockerd")).arg("stop").arg(&self.0).status();
    }
}

fn theirs() -> String {
    // Counters move with every packet.
    sh("iptables-save | sed 's/\\[[0-9:]*\\]//; /^#/d'; ip6tables-save | sed 's/\\[[0-9:]*\\]//; /^#/d'")
}

fn ours() -> String {
    sh("for t in $(nft list tables | grep -o 'coracle-[0-9a-f]*$'); do nft -s list table inet $t; done")
}

#[test]
fn dockerd_on_the_same_host() {
    let world = World::new();
    // dockerd drops what is forwarded where it was the one who switched that on.
    sh("echo 0 > /proc/sys/net/ipv4/ip_forward");
    let dockerd = Beside::start(&world);
    let before = theirs();
    assert!(before.contains(":FORWARD DROP"), "{before}");
    let id = world.server("web", published("80/tcp", "", "8080"));
    assert_eq!(theirs(), before, "dockerd's rules are left alone");
    // Neither takes the other's subnet or port.
    let script = "mkdir -p /w; echo docker > /w/index.html; httpd -f -p 80 -h /w";
    let own = ours();
    dockerd.docker(&format!("run -d --name dd -p 9090:80 {IMAGE} sh -c '{script}'"));
    assert_eq!(ours(), own, "ours are left alone");
    let ip = dockerd.docker("inspect -f '{{.NetworkSettings.IPAddress}}' dd");
    assert_ne!(ip.trim().rsplit_once('.').map(|(net, _)| net), world.ip(&id).rsplit_once('.').map(|(net, _)| net));
    let refused = Command::new("sh")
        .args(["-c", &format!("docker -H unix://{}/sock run --rm -p 8080:80 {IMAGE} true", dockerd.0.display())])
        .output()
        .expect("docker");
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("8080"));
    let clash = world.root.create("clash", body(&["true"], crate::network::networked(published("80/tcp", "", "9090"))));
    let error = world.root.engine.container_start(&clash, None, Some(&soon())).expect_err("taken");
    assert!(error.message().contains("9090: bind: address already in use"), "{error}");
    // From the host both are reached, by IPv6 too.
    let at = |address: &str| get(address).unwrap_or_default();
    for host in [HOST, "127.0.0.1", "[::1]"] {
        wait_for("both servers", || at(&format!("{host}:8080")) == "hi" && at(&format!("{host}:9090")) == "docker");
    }
    let outside = |port: u16| world.outside(|| get(&format!("{HOST}:{port}"))).unwrap_or_default();
    assert_eq!(outside(9090), "docker");
    // dockerd drops what is forwarded but for its own: `info` says so, and its chain for others is the place to let it pass.
    let warnings = world.root.engine.info().expect("info")["Warnings"].to_string();
    assert!(warnings.contains("drops forwarded packets"), "{warnings}");
    assert!(world.outside(|| is_closed(&format!("{HOST}:8080"))), "dockerd's policy");
    sh("iptables -I DOCKER-USER -i coracle0 -j ACCEPT; iptables -I DOCKER-USER -o coracle0 -j ACCEPT");
    let after = theirs();
    assert_eq!((outside(8080).as_str(), outside(9090).as_str()), ("hi", "docker"));
    assert_eq!(world.root.exec(&id, &["ping", "-c", "1", "-w", "2", crate::network::OUTSIDE]).code, 0);
    // Closed to each other, but for what is published.
    let ping = format!("exec dd ping -c 1 -w 1 {} >/dev/null || echo closed", world.ip(&id));
    assert_eq!(dockerd.docker(&ping).trim(), "closed");
    // Both end: each takes its own away.
    world.root.engine.container_kill(&id, None, None).expect("kill");
    world.root.engine.network_release().expect("release");
    assert_eq!((theirs(), outside(9090).as_str()), (after, "docker"));
    let forwards = || sh("cat /proc/sys/net/ipv4/ip_forward").trim() == "1";
    assert!(forwards(), "dockerd needs it");
    world.root.start(&id);
    dockerd.docker("rm -f dd");
    wait_for("the server", || at("127.0.0.1:8080") == "hi");
}

/// A host whose own rules drop what nobody allowed, as firewalld and ufw make them.
#[test]
fn a_firewall_that_drops_by_itself() {
    let world = World::new();
    sh("iptables -P FORWARD DROP; iptables -P INPUT DROP; iptables -A INPUT -i lo -j ACCEPT;
        iptables -A INPUT -m state --state ESTABLISHED,RELATED -j ACCEPT;
        iptables -A FORWARD -m state --state ESTABLISHED,RELATED -j ACCEPT");
    let before = theirs();
    let id = world.server("web", published("80/tcp", "", "8080"));
    let outside = || world.outside(|| get(&format!("{HOST}:8080"))).unwrap_or_default();
    assert_eq!(get("127.0.0.1:8080").as_deref(), Some("hi"));
    let warnings = world.root.engine.info().expect("info")["Warnings"].to_string();
    assert!(warnings.contains("firewall table filter of another program drops forwarded packets"), "{warnings}");
    assert!(world.outside(|| is_closed(&format!("{HOST}:8080"))));
    assert_eq!(theirs(), before);
    // As `info` says: what the administrator lets pass, passes.
    sh("iptables -A FORWARD -o coracle0 -m conntrack --ctstate DNAT -j ACCEPT");
    assert_eq!(outside(), "hi");
    let mine = theirs();
    sh("nft flush ruleset");
    world.root.engine.network_repair().expect("one call");
    assert_eq!(outside(), "hi", "ours are back");
    assert_ne!(theirs(), mine, "theirs are not ours to put back");
    // firewalld's way: nothing is dropped by a policy, and the last rule refuses what no other one accepted.
    let table = "table inet others { chain forward { type filter hook forward priority 10; ct state established accept; counter";
    for (last, warned) in [("accept", false), ("reject", true), ("drop", true), ("tcp dport 1 drop", false)] {
        sh(&format!("nft 'add {table} {last}; }}; }}'"));
        let warnings = world.root.engine.info().expect("info")["Warnings"].to_string();
        assert_eq!(warnings.contains("firewall table others of another program drops"), warned, "{last}: {warnings}");
        sh("nft delete table inet others");
    }
    world.root.engine.container_kill(&id, None, None).expect("kill");
}
