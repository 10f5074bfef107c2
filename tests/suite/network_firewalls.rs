//! On one host with other programs that have rules of their own: dockerd, firewalls made by hand.

use crate::faults::{Operation, Point, chosen, killed_at};
use crate::network::{HOST, OUTSIDE, World, get, get_inside, is_closed, published, sh};
use crate::support::*;
use serde_json::json;
use std::path::Path;
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

    /// dockerd restarted on its root, after its end.
    fn restarted(self) -> Beside {
        let pid = std::fs::read_to_string(self.0.join("pid")).expect("its pid");
        sh(&format!("kill {pid}"));
        wait_for("its end", || !Path::new(&format!("/proc/{}", pid.trim())).exists());
        let mut start = Command::new(project().join("bench/dockerd"));
        let started = start.arg("start").arg(&self.0).env("DOCKERD_FLAGS", "").stdout(Stdio::null()).status();
        assert!(started.expect("run bench/dockerd").success(), "dockerd does not start again");
        self
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

/// The rules of a chain, as iptables-nft shows them.
fn chain(name: &str) -> String {
    sh(&format!("iptables -S {name}"))
}

/// The rules that each of these bridges has in dockerd's chain, by directions.
fn let_pass(bridges: &[&str]) -> bool {
    let rules = chain("DOCKER-USER");
    let has = |way: &str, bridge: &str| {
        rules.lines().filter(|rule| rule.starts_with(&format!("-A DOCKER-USER {way} {bridge} -m comment"))).count() == 1
    };
    let ours = rules.lines().filter(|rule| rule.contains("--comment coracle-")).count();
    bridges.iter().all(|bridge| has("-i", bridge) && has("-o", bridge)) && ours == 2 * bridges.len()
}

/// The command in a warning.
fn commands(warning: &str) -> String {
    warning.split_once("this lets them pass: ").unwrap_or_else(|| panic!("no command: {warning}")).1.to_owned()
}

fn warnings(world: &World) -> Vec<String> {
    world.root.engine.network_warnings().expect("warnings")
}

const DOCKERS_PAGE: &str = "mkdir -p /w; echo docker > /w/index.html; httpd -f -p 80 -h /w";

#[test]
fn dockerd_on_the_same_host() {
    let mut world = World::new();
    // dockerd drops what is forwarded where it was the one who switched that on, with every packet of a bridge.
    sh("echo 0 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables");
    let dockerd = Beside::start(&world);
    let before = theirs();
    assert!(before.contains(":FORWARD DROP"), "{before}");
    let id = world.server("web", published("80/tcp", "", "8080"));
    let second = world.server("second", json!({}));
    assert!(let_pass(&["coracle0"]), "{}", theirs());
    let but_ours = || {
        theirs().lines().filter(|line| !line.contains("coracle-")).map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(but_ours(), before, "all other rules are left alone");
    assert_eq!(warnings(&world), Vec::<String>::new());
    // Each engine leaves the other's subnets and ports alone.
    let own = ours();
    dockerd.docker(&format!("run -d --name dd -p 9090:80 {IMAGE} sh -c '{DOCKERS_PAGE}'"));
    dockerd.docker(&format!("run -d --name hidden {IMAGE} sh -c '{DOCKERS_PAGE}'"));
    assert_eq!(ours(), own, "ours are left alone");
    let ip = |name: &str| {
        dockerd.docker(&format!("inspect -f '{{{{.NetworkSettings.IPAddress}}}}' {name}")).trim().to_owned()
    };
    assert_ne!(ip("dd").rsplit_once('.').map(|(net, _)| net), world.ip(&id).rsplit_once('.').map(|(net, _)| net));
    let refused = Command::new("sh")
        .args(["-c", &format!("docker -H unix://{}/sock run --rm -p 8080:80 {IMAGE} true", dockerd.0.display())])
        .output()
        .expect("docker");
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("8080"));
    let clash = world.root.create("clash", body(&["true"], crate::network::networked(published("80/tcp", "", "9090"))));
    let error = world.root.engine.container_start(&clash, None, Some(&soon())).expect_err("taken");
    assert!(error.message().contains("9090: bind: address already in use"), "{error}");

    // The host reaches both, by IPv6 too; so does another host.
    let at = |address: &str| get(address).unwrap_or_default();
    for host in [HOST, "127.0.0.1", "[::1]"] {
        wait_for("both servers", || at(&format!("{host}:8080")) == "hi" && at(&format!("{host}:9090")) == "docker");
    }
    let outside = |world: &World, port: u16| world.outside(|| get(&format!("{HOST}:{port}"))).unwrap_or_default();
    let both_reached = |world: &World| (outside(world, 8080), outside(world, 9090)) == ("hi".into(), "docker".into());
    assert!(both_reached(&world));
    // Containers of both reach the outside, and their own.
    let ours_ping = |world: &World, ip: &str| world.root.exec(&id, &["ping", "-c", "1", "-w", "2", ip]).code == 0;
    let theirs_ping = |ip: &str| {
        dockerd.docker(&format!("exec dd ping -c 1 -w 2 {ip} >/dev/null && echo yes || echo no")).trim() == "yes"
    };
    assert!(ours_ping(&world, OUTSIDE) && theirs_ping(OUTSIDE));
    assert!(ours_ping(&world, &world.ip(&second)) && theirs_ping(&ip("hidden")));
    // The two networks do not reach each other, except for published ports.
    let apart = |world: &World| {
        let ask = get_inside(&format!("{}:80", ip("hidden")));
        assert!(!ours_ping(world, &ip("dd")), "ours reach dockerd's");
        assert_eq!(world.root.exec(&id, &["sh", "-c", &ask]).out(), "", "ours reach what dockerd does not publish");
        assert!(!theirs_ping(&world.ip(&id)), "dockerd's reach ours");
        let ask = get_inside(&format!("{HOST}:9090"));
        assert_eq!(world.root.exec(&id, &["sh", "-c", &ask]).out(), "docker", "a published port of dockerd's");
        let ask = get_inside(&format!("{HOST}:8080")).replace('\\', "\\\\").replace('\'', "\"");
        assert_eq!(dockerd.docker(&format!("exec dd sh -c '{ask}'")).trim(), "hi", "a published port of ours");
    };
    apart(&world);

    // A program that removes the rules: a repair, an open and a start bring them back.
    let take = "iptables -F DOCKER-USER; iptables -A DOCKER-USER -j RETURN";
    for (how, back) in [
        ("a repair", &(|world: &mut World| world.root.engine.network_repair().expect("repair")) as &dyn Fn(&mut World)),
        ("an open", &|world| world.with_options(|_| {})),
        ("a start", &|world| drop(world.run("true", json!({})))),
    ] {
        sh(take);
        assert!(world.outside(|| is_closed(&format!("{HOST}:8080"))), "dockerd's policy");
        assert!(warnings(&world)[0].contains("iptables-nft -I DOCKER-USER -i coracle0 -j ACCEPT"), "{how}");
        back(&mut world);
        assert!(let_pass(&["coracle0"]) && both_reached(&world), "{how}");
    }
    // A user who wants no rules has a command for that.
    world.with_options(|options| options.leave_docker_user = true);
    assert_eq!(theirs().lines().filter(|line| line.contains("coracle-")).count(), 0);
    assert!(world.outside(|| is_closed(&format!("{HOST}:8080"))), "dockerd's policy");
    let told = warnings(&world);
    assert_eq!(told.len(), 1, "{told:?}");
    sh(&commands(&told[0]));
    assert_eq!(warnings(&world), Vec::<String>::new());
    assert!(both_reached(&world));
    apart(&world);
    sh(take);
    world.with_options(|_| {});
    assert!(let_pass(&["coracle0"]));

    // Another network has its own; dockerd's restart leaves them, and goes on with its work.
    world
        .network(json!({ "Name": "more", "Options": { "com.docker.network.bridge.name": "more0" } }))
        .expect("a network");
    assert!(let_pass(&["coracle0", "more0"]));
    let dockerd = dockerd.restarted();
    assert!(let_pass(&["coracle0", "more0"]), "{}", theirs());
    dockerd.docker("start dd");
    wait_for("both servers", || both_reached(&world));
    world.root.engine.network_remove("more").expect("remove");
    assert!(let_pass(&["coracle0"]));

    // Both end: each takes its own away.
    world.root.engine.container_kill(&id, None, None).expect("kill");
    world.root.engine.container_kill(&second, None, None).expect("kill");
    dockerd.docker("rm -f dd hidden");
    world.root.engine.network_release().expect("release");
    assert_eq!(theirs(), before);
    assert_eq!(sh("cat /proc/sys/net/ipv4/ip_forward").trim(), "1", "dockerd needs it");
    world.root.start(&id);
    wait_for("the server", || at("127.0.0.1:8080") == "hi");
    assert!(let_pass(&["coracle0"]));
}

/// The rules that dockerd sets on a host, without dockerd.
const DOCKERS_RULES: &str = "iptables -P FORWARD DROP; iptables -N DOCKER-USER; iptables -A DOCKER-USER -j RETURN;
    iptables -A FORWARD -j DOCKER-USER";

/// Kills a start between the bridge and the rules that let it pass.
#[test]
fn killed_while_it_lets_networks_pass() {
    let world = World::new();
    sh(DOCKERS_RULES);
    let before = theirs();
    let start = Operation {
        words: &["start", "target"],
        prepare: |root| {
            root.create("target", body(&["sleep", "1000"], crate::network::networked(json!({}))));
        },
        finish: |root| {
            // The open removed the settings that no bridge needs.
            let bridge = Path::new("/proc/sys/net/ipv4/conf/coracle0").exists();
            assert!(bridge || let_pass(&[]), "{}", theirs());
            root.start("target");
            assert!(let_pass(&["coracle0"]), "{}", theirs());
        },
    };
    let pick = |all: Vec<Point>| {
        let told: Vec<Point> =
            all.into_iter().filter(|point| ["sendto", "recvfrom"].contains(&point.call.as_str())).collect();
        chosen(told, 12)
    };
    killed_at(&world.root, &start, &pick, &|what| {
        world.root.engine.network_release().unwrap_or_else(|e| panic!("{what}: release: {e}"));
        assert_eq!(theirs(), before, "{what}");
    });
    // A bridge that went without its rules, and rules twice.
    let id = world.sleeper("sleeper", json!({}));
    sh(
        "rule=$(iptables -S DOCKER-USER | grep -- '-i coracle0'); iptables $rule; iptables $(echo $rule | sed s/coracle0/gone0/)",
    );
    assert!(!let_pass(&["coracle0"]));
    drop(world.root.reopen());
    assert!(let_pass(&["coracle0"]), "{}", theirs());
    world.root.engine.container_kill(&id, None, None).expect("kill");
}

/// A bridge by which the host is connected is not a bridge of a neighbour: containers reach the outside over it.
#[test]
fn a_bridge_that_leads_outside() {
    let world = World::new();
    let end = format!("{}-other", world.outside);
    sh(&format!(
        "{DOCKERS_RULES}; ip link add uplink type bridge; ip addr flush dev up0; ip link set up0 master uplink
         ip addr add {HOST}/24 dev uplink; ip link set uplink up; ip route add default via {OUTSIDE} dev uplink
         ip link add other type bridge; ip addr add 10.99.0.1/24 dev other; ip link set other up; ip netns add {end}
         ip link add port type veth peer name end netns {end}; ip link set port master other up
         ip -n {end} addr add 10.99.0.2/24 dev end; ip -n {end} link set end up; ip -n {end} route add default via 10.99.0.1"
    ));
    let id = world.sleeper("sleeper", json!({}));
    let ping = |ip: &str| world.root.exec(&id, &["ping", "-c", "1", "-w", "2", ip]).code == 0;
    let reached = (ping(OUTSIDE), ping("10.99.0.2"));
    sh(&format!("ip netns del {end}"));
    assert_eq!(reached, (true, false), "{}", ours());
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
    // As `info`, `network create` and `run` say: what the administrator lets pass, passes.
    let told = cli(&world, &["network", "create", "--opt", "com.docker.network.bridge.name=more0", "more"]);
    assert!(told.contains("iptables-nft -I FORWARD -i more0 -j ACCEPT && iptables-nft -I FORWARD -o more0"), "{told}");
    cli(&world, &["network", "rm", "more"]);
    let told = cli(&world, &["run", "--rm", IMAGE, "true"]);
    sh(&commands(told.lines().find(|line| line.contains("WARNING")).expect("a warning")));
    assert_eq!((outside().as_str(), self::warnings(&world).len()), ("hi", 0));
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

/// Runs the command on the world's root; returns what it says to people.
fn cli(world: &World, words: &[&str]) -> String {
    let mut command = Command::new(built("coracle"));
    command.arg("--root").arg(world.root.dir.join("root")).arg("--run").arg(world.root.dir.join("run")).args(words);
    let done = command.output().expect("run the command");
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{words:?}: {told}");
    told
}

/// Firewalls in which we put nothing: each is told by the command that lets packets pass there.
#[test]
fn firewalls_that_a_person_must_open() {
    let world = World::new();
    let id = world.server("web", published("80/tcp", "", "8080"));
    let outside = || world.outside(|| get(&format!("{HOST}:8080"))).as_deref() == Some("hi");
    let told = |part: &str| {
        let told = warnings(&world);
        assert!(told.len() == 1 && told[0].contains(part), "{part}: {told:?}");
        commands(&told[0])
    };
    for (rules, command, clean) in [
        // iptables' older tables, of dockerd and without it.
        (
            "iptables-legacy -P FORWARD DROP; iptables-legacy -N DOCKER-USER; iptables-legacy -A FORWARD -j DOCKER-USER",
            "iptables-legacy -I DOCKER-USER -i coracle0 -j ACCEPT && iptables-legacy -I DOCKER-USER -o coracle0 -j ACCEPT",
            "iptables-legacy -P FORWARD ACCEPT; iptables-legacy -F; iptables-legacy -X",
        ),
        (
            "iptables-legacy -P FORWARD DROP",
            "iptables-legacy -I FORWARD -i coracle0 -j ACCEPT && iptables-legacy -I FORWARD -o coracle0 -j ACCEPT",
            "iptables-legacy -P FORWARD ACCEPT; iptables-legacy -F",
        ),
        // A table of nftables, as dockerd's own backend makes them.
        (
            "nft 'add table ip docker-bridges; add chain ip docker-bridges filter-FORWARD { type filter hook forward priority 0; policy drop; }'",
            "nft insert rule ip docker-bridges filter-FORWARD iifname coracle0 accept && nft insert rule ip docker-bridges filter-FORWARD oifname coracle0 accept",
            "nft delete table ip docker-bridges",
        ),
    ] {
        sh(rules);
        let before = sh("nft list ruleset; iptables-legacy-save 2>/dev/null | sed 's/\\[.*//; /^#/d'");
        assert!(!outside(), "{rules}");
        assert_eq!(told("drops forwarded packets"), command);
        // A start changes none of them.
        world.run("true", json!({}));
        assert_eq!(
            sh("nft list ruleset; iptables-legacy-save 2>/dev/null | sed 's/\\[.*//; /^#/d'"),
            before,
            "{rules}"
        );
        sh(command);
        assert!(outside(), "{rules}");
        assert_eq!(warnings(&world), Vec::<String>::new(), "{rules}");
        sh(clean);
    }
    // Firewalls that users manage by programs of their own.
    sh("iptables -P FORWARD DROP; iptables -N ufw-user-forward; iptables -A FORWARD -j ufw-user-forward");
    assert_eq!(told("table filter"), "ufw route allow in on coracle0 && ufw route allow out on coracle0");
    // The rules have the form of ufw's.
    sh("iptables -A ufw-user-forward -i coracle0 -j ACCEPT; iptables -A ufw-user-forward -o coracle0 -j ACCEPT");
    assert!(outside() && warnings(&world).is_empty());
    sh("iptables -F; iptables -X ufw-user-forward; iptables -P FORWARD ACCEPT");
    sh(
        "nft 'add table inet firewalld; add chain inet firewalld filter_FORWARD { type filter hook forward priority 10; policy drop; }'",
    );
    assert_eq!(
        told("table firewalld"),
        "firewall-cmd --permanent --zone=trusted --add-interface=coracle0 && firewall-cmd --reload"
    );
    sh("nft delete table inet firewalld");
    world.root.engine.container_kill(&id, None, None).expect("kill");
}
