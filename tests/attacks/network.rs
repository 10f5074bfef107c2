//! Attacks over the network: the host's own addresses, the firewall, the resolver.

use crate::doors::Served;
use crate::programs::program;
use crate::support::world::*;
use crate::support::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// An upstream resolver of the neighbour; `answer` says what is sent back for a question. Answers what was asked, with
/// the ports that the questions came from.
fn upstream(
    world: &World,
    count: usize,
    answer: impl Fn(usize, &[u8]) -> Vec<Vec<u8>> + Send + 'static,
) -> std::thread::JoinHandle<Vec<(u16, Vec<u8>)>> {
    let socket = world.outside(|| UdpSocket::bind((OUTSIDE, 53)).expect("port 53"));
    socket.set_read_timeout(Some(SOON)).expect("a limit");
    std::thread::spawn(move || {
        let mut seen = Vec::new();
        let mut query = [0; 2000];
        while seen.len() < count {
            let Ok((length, from)) = socket.recv_from(&mut query) else { break };
            for message in answer(seen.len(), &query[..length]) {
                let _ = socket.send_to(&message, from);
            }
            seen.push((from.port(), query[..length].to_vec()));
        }
        seen
    })
}

/// Where the name of a question ends, its last byte excluded.
fn name_end(query: &[u8]) -> usize {
    12 + query[12..].iter().position(|byte| *byte == 0).expect("the end of the name")
}

/// An answer of one IPv4 address.
fn address(query: &[u8], ip: [u8; 4]) -> Vec<u8> {
    let mut answer = query[..name_end(query) + 5].to_vec();
    answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    answer.extend(ip);
    answer
}

fn lower(query: &[u8]) -> Vec<u8> {
    let mut query = query.to_vec();
    let end = name_end(&query);
    query[12..end].make_ascii_lowercase();
    query
}

/// A container on a network of its own kind whose resolver asks the neighbour.
fn asker(world: &World) -> String {
    world.network(json!({ "Name": "net1" })).expect("a network");
    world.sleeper("asks", json!({ "HostConfig": { "NetworkMode": "net1", "Dns": [OUTSIDE] } }))
}

/// A question for the IPv4 address of a name.
fn query(name: &str) -> Vec<u8> {
    let mut query = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    query
}

/// Asks the container's resolver for the IPv4 address of a name; returns the message.
fn ask(world: &World, id: &str, name: &str) -> Option<Vec<u8>> {
    let query = query(name);
    world.inside(id, move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(SOON)).expect("a limit");
        socket.send_to(&query, "127.0.0.11:53").expect("ask");
        let mut answer = vec![0; 2000];
        let length = socket.recv(&mut answer).ok()?;
        answer.truncate(length);
        assert_eq!(answer[..2], [7, 7]);
        assert_eq!(answer[12..query.len()], query[12..], "the question in the client's spelling");
        Some(answer)
    })
}

// attack: R15 wall resolver-questions
#[test]
fn questions_come_from_other_ports_in_other_spellings() {
    let world = World::new();
    let seen = upstream(&world, 12, |_, query| vec![address(query, [1, 2, 3, 4])]);
    let id = asker(&world);
    for number in 0..12 {
        // Questions of equal length, so that a single spelling of all would be noticed.
        let answer = ask(&world, &id, &format!("Far-Away-Name.{number:02}.Example")).expect("an answer");
        assert!(answer.ends_with(&[1, 2, 3, 4]), "the name was answered: {answer:?}");
    }
    let seen = seen.join().expect("the resolver");
    assert_eq!(seen.len(), 12, "all questions were passed on");
    let ports: BTreeSet<u16> = seen.iter().map(|(port, _)| *port).collect();
    let numbers: BTreeSet<&[u8]> = seen.iter().map(|(_, query)| &query[..2]).collect();
    let spellings: BTreeSet<&[u8]> = seen.iter().map(|(_, query)| &query[13..26]).collect();
    // Chance may give a few the same.
    assert!(ports.len() >= 10, "the ports of 12 questions: {ports:?}");
    assert!(numbers.len() >= 10, "the numbers of 12 questions: {numbers:?}");
    assert!(spellings.len() >= 8, "the spellings of 12 questions: {spellings:?}");
}

// attack: R15 wall resolver-questions
#[test]
fn an_answer_in_another_spelling_is_not_believed() {
    let world = World::new();
    let seen = upstream(&world, 2, |turn, query| match turn {
        // Somebody guessed the port and the number, and answers first.
        0 => vec![address(&lower(query), [6, 6, 6, 6])],
        _ => vec![address(query, [1, 2, 3, 4])],
    });
    let id = asker(&world);
    let answer = ask(&world, &id, "a-name-with-many-letters.example").expect("an answer");
    assert!(answer.ends_with(&[1, 2, 3, 4]), "the false address was believed: {answer:?}");
    let seen = seen.join().expect("the resolver");
    assert_eq!(seen.len(), 2, "asked once more");
    assert!(seen[0].0 != seen[1].0 || seen[0].1[..2] != seen[1].1[..2], "from another port, with another number");
}

/// Servers that always answer in lower case are accepted, too.
#[test]
fn a_resolver_that_changes_the_spelling_is_of_use() {
    let world = World::new();
    upstream(&world, 2, |_, query| vec![address(&lower(query), [1, 2, 3, 4])]);
    let id = asker(&world);
    let answer = ask(&world, &id, "A-Name-With-Many-Letters.Example").expect("an answer");
    assert!(answer.ends_with(&[1, 2, 3, 4]), "{answer:?}");
}

/// After a packet that does not answer the question, the resolver keeps waiting for the right one.
// attack: 130 wall resolver-answers
#[test]
fn malformed_answers_are_nobodys() {
    let world = World::new();
    let seen = upstream(&world, 1, |_, query| {
        let bad = address(query, [6, 6, 6, 6]);
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bad = bad.clone();
            change(&mut bad);
            bad
        };
        let end = name_end(query);
        vec![
            vec![],
            query[..1].to_vec(),
            bad[..11].to_vec(),
            bad[..12].to_vec(),
            bad[..end].to_vec(),
            // Another number, a question, another opcode, no question, many questions.
            with(&|bad| bad[0] ^= 1),
            with(&|bad| bad[2] &= 0x7f),
            with(&|bad| bad[2] |= 0x10),
            with(&|bad| bad[5] = 0),
            with(&|bad| bad[4..6].fill(0xff)),
            // A name that points at itself, a label longer than the message, another type, another class.
            with(&|bad| bad[12..14].copy_from_slice(&[0xc0, 12])),
            with(&|bad| bad[12] = 63),
            with(&|bad| bad[end + 2] ^= 2),
            with(&|bad| bad[end + 4] ^= 2),
            vec![0xff; 1999],
            address(query, [1, 2, 3, 4]),
        ]
    });
    let id = asker(&world);
    let answer = ask(&world, &id, "far.example").expect("an answer");
    assert!(answer.ends_with(&[1, 2, 3, 4]), "{answer:?}");
    assert_eq!(seen.join().expect("the resolver").len(), 1, "asked once, and waited");
    assert!(
        world.root.exec(&id, &["nslookup", "-type=a", "asks"]).out().contains(&world.ip(&id)),
        "the monitor goes on"
    );
}

/// Lengths that lie, over TCP; and questions that nobody should ask.
// attack: 130
#[test]
fn lying_lengths_and_malformed_questions() {
    let world = World::new();
    let listener = world.outside(|| TcpListener::bind((OUTSIDE, 53)).expect("port 53 of TCP"));
    let good = upstream(&world, 1, |_, query| vec![address(query, [1, 2, 3, 4])]);
    let id = asker(&world);
    let lies = std::thread::spawn(move || {
        for lie in [[0, 0], [0, 11], [0x7f, 0xff], [0xff, 0xff]] {
            let (mut stream, _) = listener.accept().expect("a question over TCP");
            let mut query = [0; 2000];
            let _ = stream.read(&mut query);
            let _ = stream.write_all(&lie);
            let _ = stream.write_all(&[0x81; 600]);
        }
    });
    let questions = |framed: Vec<Vec<u8>>| {
        world.inside(&id, move || {
            for message in framed {
                let mut stream = TcpStream::connect("127.0.0.11:53").expect("the resolver over TCP");
                stream.set_read_timeout(Some(SOON)).expect("a limit");
                stream.write_all(&message).expect("ask");
                let _ = stream.shutdown(std::net::Shutdown::Write);
                // An answer that it failed, or the end.
                let _ = stream.read(&mut [0; 2000]);
            }
        });
    };
    let question = query("far.example");
    let framed = |length: u16| [&length.to_be_bytes()[..], &question].concat();
    // Each is passed on, to somebody who lies.
    questions(vec![framed(question.len() as u16); 4]);
    lies.join().expect("the liar");
    questions(vec![framed(0), framed(11), framed(5000), framed(0xffff), vec![0], vec![]]);
    let datagrams: Vec<Vec<u8>> = {
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bad = question.clone();
            change(&mut bad);
            bad
        };
        vec![
            vec![],
            question[..11].to_vec(),
            question[..15].to_vec(),
            with(&|bad| bad[12..14].copy_from_slice(&[0xc0, 12])),
            with(&|bad| bad[12] = 63),
            with(&|bad| bad[2] |= 0x80),
            with(&|bad| bad[4] = 0xff),
            vec![63; 1232],
            vec![0xff; 9000],
        ]
    };
    world.inside(&id, move || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for message in datagrams {
            let _ = socket.send_to(&message, "127.0.0.11:53");
        }
    });
    let answer = ask(&world, &id, "far.example").expect("an answer");
    assert!(answer.ends_with(&[1, 2, 3, 4]), "the resolver goes on: {answer:?}");
    assert_eq!(good.join().expect("the resolver").len(), 1);
    assert_eq!(world.root.status(&id), "running");
}

/// A flood of questions takes no more sockets than it has questions, and they are given back.
#[test]
fn sockets_of_many_questions_are_given_back() {
    let world = World::new();
    let seen = upstream(&world, 40, |_, query| vec![address(query, [1, 2, 3, 4])]);
    let id = asker(&world);
    let answered = std::thread::scope(|scope| {
        let (world, id) = (&world, &id);
        let ask = move |number: usize| ask(world, id, &format!("name{number}.example")).is_some();
        let all: Vec<_> = (0..40).map(|number| scope.spawn(move || ask(number))).collect();
        all.into_iter().map(|one| usize::from(one.join().expect("asks"))).sum::<usize>()
    });
    assert_eq!(answered, 40);
    assert_eq!(seen.join().expect("the resolver").len(), 40);
    // The resolver's own, and the four that are kept for the next questions.
    let sockets = || world.inside(&id, || std::fs::read_to_string("/proc/thread-self/net/udp").expect("the sockets"));
    wait_for("the sockets to be closed", || sockets().lines().count() <= 1 + 1 + 4);
}

const FORMS: [&str; 8] = ["plain", "tag", "tags", "qinq", "broadcast", "options", "fragments", "ring"];

/// A server in the container, which can run the attackers' programs.
fn armed(world: &World, name: &str, mut more: Value) -> String {
    program("request");
    let dir = program("frames").with_file_name("");
    more["HostConfig"]["Binds"] = json!([format!("{}:/programs:ro", dir.display())]);
    world.server(name, more)
}

/// The hardware address of a bridge of the host.
fn mac(bridge: &str) -> String {
    sh(&format!("ip -o link show {bridge} | sed 's/.*link.ether //; s/ .*//'")).trim().to_owned()
}

/// A frame to a bridge: its form in `programs/frames.c`, its addresses, and its port.
struct Frame<'a> {
    form: &'a str,
    bridge: &'a str,
    from: &'a str,
    to: &'a str,
    port: u16,
}

/// Sends a frame from the container, with nothing but the rights that every container has.
fn forge(world: &World, id: &str, frame: Frame) {
    let Frame { form, bridge, from, to, port } = frame;
    let sent = world.root.exec(id, &["/programs/frames", form, &mac(bridge), from, to, &port.to_string()]);
    assert_eq!((sent.code, sent.err().as_str()), (0, ""), "the frame {form} was not sent");
}

/// The packets that arrived at a socket, until no more come.
fn arrived(socket: &UdpSocket) -> BTreeSet<String> {
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
    let mut all = BTreeSet::new();
    let mut buffer = [0; 64];
    while let Ok(length) = socket.recv(&mut buffer) {
        all.insert(String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned());
    }
    all
}

fn route_localnet(bridge: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{bridge}/route_localnet"))
        .expect("a setting")
        .trim()
        .into()
}

/// Every form of a packet for the host's 127.0.0.1, and to an address of the host that is open to it.
fn try_loopback(world: &World, id: &str, what: &str) {
    let service = UdpSocket::bind("127.0.0.1:0").expect("a service of the host");
    let open = UdpSocket::bind("172.17.0.1:0").expect("another service");
    let port = |socket: &UdpSocket| socket.local_addr().expect("an address").port();
    for form in FORMS {
        forge(world, id, Frame { form, bridge: "coracle0", from: "172.17.0.2", to: "127.0.0.1", port: port(&service) });
        forge(world, id, Frame { form, bridge: "coracle0", from: "172.17.0.2", to: "172.17.0.1", port: port(&open) });
    }
    let seen = arrived(&open);
    for form in ["plain", "tag", "broadcast", "fragments", "ring"] {
        assert!(seen.contains(form), "{what}: such packets come to the host: {form} of {seen:?}");
    }
    assert_eq!(arrived(&service), BTreeSet::new(), "{what}: the host's 127.0.0.1 was reached");
}

// attack: 123, R6 wall loopback-filter
#[test]
fn loopback_stays_closed_when_the_firewall_is_gone() {
    let world = World::new();
    let id = armed(&world, "web", published("80/tcp", "", "8080"));
    assert_eq!(route_localnet("coracle0"), "1", "the host reaches the port at 127.0.0.1");
    let firewalld =
        "nft 'add table inet firewalld; add chain inet firewalld filter_INPUT { type filter hook input priority 10; }'";
    for wreck in [
        "true",
        // A reload of firewalld takes its own tables, one of iptables-restore those of iptables.
        &format!("{firewalld}; nft 'delete table inet firewalld'; {firewalld}"),
        "iptables -F; iptables -t nat -F; iptables -t raw -F; iptables -P INPUT ACCEPT; iptables -P FORWARD ACCEPT",
        "nft flush ruleset",
    ] {
        sh(wreck);
        // Whether bridges call the host's firewall, and so when connection tracking sees a packet, makes no difference.
        for calls in ["1", "0"] {
            let _ = std::fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", calls);
            try_loopback(&world, &id, wreck);
        }
    }
    for calls in ["1", "0"] {
        let _ = std::fs::write("/proc/sys/net/bridge/bridge-nf-call-iptables", calls);
        world.root.engine.network_repair().expect("repair");
        assert_eq!(get("127.0.0.1:8080").as_deref(), Some("hi"), "bridges call the firewall: {calls}");
        try_loopback(&world, &id, "after the repair");
    }
}

/// Plain TCP at the host's own 127.0.0.1, as somebody said that it may be: a client that reaches the port is root of
/// the host.
// attack: 123, R6 wall loopback-filter
#[test]
fn an_api_at_the_host_s_loopback_is_not_reached() {
    const PING: &str = "GET /v1.24/_ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let world = World::new();
    let id = armed(&world, "web", published("80/tcp", "", "8080"));
    let dir = temp_dir();
    let served = Served::start(&dir, &["-H", "tcp://127.0.0.1:0", "--insecure-tcp"], |_| {});
    let tcp = served.tcp();
    let (address, port) = tcp.split_once(':').expect("host and port");
    for wreck in ["true", "nft flush ruleset"] {
        sh(wreck);
        let mut text = String::new();
        let mut stream = TcpStream::connect(&tcp).expect("the host's own way to it");
        stream.write_all(PING.as_bytes()).expect("ask");
        stream.read_to_string(&mut text).expect("an answer");
        assert!(text.ends_with("OK"), "the server is up: {text}");
        let asked = world.root.exec(&id, &["/programs/request", &mac("coracle0"), address, port, PING]);
        assert_eq!((asked.code, asked.out().as_str()), (1, "no answer"), "after {wreck}: {}", asked.err());
    }
    drop(served);
    std::fs::remove_dir_all(&dir).expect("remove");
}

fn filter_stands() -> bool {
    sh("tc filter show dev coracle0 ingress").contains("direct-action")
}

// attack: 123, R6 wall loopback-filter
#[test]
fn a_filter_that_somebody_removed_comes_back() {
    let mut world = World::new();
    let id = armed(&world, "web", published("80/tcp", "127.0.0.1", "8080"));
    assert!(filter_stands(), "before anything is removed");
    // The queue with the filter, the filter alone, another one in its place.
    let bad =
        "tc filter replace dev coracle0 ingress prio 1 handle 1 protocol all bpf da bytecode '1,6 0 0 4294967295'";
    for wreck in ["tc qdisc del dev coracle0 clsact", "tc filter del dev coracle0 ingress", bad] {
        for mend in ["start", "open", "repair"] {
            sh(wreck);
            match mend {
                "start" => drop(world.run("true", json!({}))),
                "open" => world.with_options(|_| {}),
                _ => world.root.engine.network_repair().expect("repair"),
            }
            assert!(filter_stands(), "{wreck}, then {mend}");
            sh("nft flush ruleset");
            try_loopback(&world, &id, &format!("{wreck}, then {mend}"));
            world.root.engine.network_repair().expect("repair");
        }
    }
    assert_eq!(get("127.0.0.1:8080").as_deref(), Some("hi"));
    // A bridge that somebody deleted, and made again under its name: there is another one then.
    sh("ip link del coracle0");
    world.root.engine.network_repair().expect("repair");
    sh("nft flush ruleset");
    try_loopback(&world, &id, "a new bridge");
    world.root.engine.network_repair().expect("repair");
    assert_eq!(get("127.0.0.1:8080").as_deref(), Some("hi"));
    sh("ip link del coracle0; ip link add coracle0 type bridge; ip link set coracle0 up");
    world.root.engine.network_repair().expect("repair");
    assert_eq!((route_localnet("coracle0").as_str(), get("127.0.0.1:8080").as_deref()), ("0", Some("hi")));
}

/// The setting stands as long as somebody needs it.
#[test]
fn localnet_only_while_a_port_needs_it() {
    let mut world = World::new();
    let quiet = world.sleeper("quiet", json!({}));
    let elsewhere = world.sleeper("elsewhere", published("80/tcp", HOST, "8079"));
    assert_eq!(route_localnet("coracle0"), "0", "nobody publishes at 127.0.0.1");
    let one = world.server("one", published("80/tcp", "", "8080"));
    let two = world.server("two", published("80/tcp", "127.0.0.1", "8081"));
    let at = |port: u16| get(&format!("127.0.0.1:{port}"));
    assert_eq!((route_localnet("coracle0").as_str(), at(8080), at(8081)), ("1", Some("hi".into()), Some("hi".into())));
    world.root.engine.container_kill(&one, None, None).expect("kill");
    world.with_options(|_| {});
    assert_eq!((route_localnet("coracle0").as_str(), at(8081)), ("1", Some("hi".into())));
    world.root.engine.container_kill(&two, None, None).expect("kill");
    world.with_options(|_| {});
    assert_eq!(route_localnet("coracle0"), "0", "an open takes it back");
    world.root.start(&one);
    wait_for("the server", || at(8080).is_some());
    world.root.engine.container_kill(&one, None, None).expect("kill");
    world.run("true", json!({}));
    assert_eq!(route_localnet("coracle0"), "0", "so does a start");
    [quiet, elsewhere].iter().for_each(|id| assert_eq!(world.root.status(id), "running"));
}

/// Where nothing may lead from a bridge to 127/8, monitors pass on what comes there.
#[test]
fn ports_at_loopback_are_passed_on() {
    let mut world = World::new();
    world.with_options(|options| options.relay_loopback = true);
    let id = armed(&world, "web", published("80/tcp", "", "8080"));
    let local = world.server("local", published("80/tcp", "127.0.0.1", "8081"));
    let answers = |address: &str| get(address).as_deref() == Some("hi");
    assert!(answers("127.0.0.1:8080") && answers("127.0.0.1:8081") && answers(&format!("{HOST}:8080")));
    assert!(world.outside(|| answers(&format!("{HOST}:8080"))));
    assert!(world.outside(|| is_closed(&format!("{HOST}:8081"))));
    assert_eq!(route_localnet("coracle0"), "0");
    // Datagrams, too.
    let mut more = published("53/udp", "", "5353");
    more["HostConfig"]["PortBindings"]["53/udp"] =
        json!([{ "HostPort": "5353" }, { "HostIp": "127.0.0.1", "HostPort": "5354" }]);
    let udp = world.sleeper("udp", more);
    let echo = world.inside(&udp, || UdpSocket::bind("0.0.0.0:53").expect("port 53"));
    echo.set_read_timeout(Some(SOON)).expect("a limit");
    std::thread::spawn(move || {
        let mut buffer = [0; 16];
        while let Ok((length, from)) = echo.recv_from(&mut buffer) {
            let _ = echo.send_to(&buffer[..length], from);
        }
    });
    for address in ["127.0.0.1:5353", "127.0.0.1:5354", &format!("{HOST}:5353")] {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.connect(address).expect("connect");
        socket.set_read_timeout(Some(SOON)).expect("a limit");
        socket.send(b"ping").expect("send");
        let mut buffer = [0; 16];
        assert_eq!(socket.recv(&mut buffer).map_err(|e| format!("{address}: {e}")), Ok(4));
    }
    // No firewall has a part in it.
    sh("nft flush ruleset");
    assert!(answers("127.0.0.1:8080") && answers("127.0.0.1:8081"));
    try_loopback(&world, &id, "relayed");
    world.root.engine.network_repair().expect("repair");
    assert!(answers("127.0.0.1:8080") && answers(&format!("{HOST}:8080")));
    let info = world.root.engine.info().expect("info");
    assert!(!serde_json::to_string(&info).expect("info").contains("sch_ingress"), "it was asked for");
    // A root that is opened without the option leads new ports through the kernel, beside those.
    world.with_options(|_| {});
    let info = serde_json::to_string(&world.root.engine.info().expect("info")).expect("info");
    assert!(info.contains("sch_ingress"), "{info}");
    let kernel = world.server("kernel", published("80/tcp", "", "8082"));
    assert!(answers("127.0.0.1:8080") && answers("127.0.0.1:8081") && answers("127.0.0.1:8082"));
    assert_eq!(route_localnet("coracle0"), "1");
    for id in [&id, &local, &udp, &kernel] {
        world.root.engine.container_kill(id, None, None).expect("kill");
    }
    assert!(is_closed("127.0.0.1:8080"));
    drop(TcpListener::bind("127.0.0.1:8081").expect("the port is free"));
    assert!(!leads(&sh("nft list ruleset"), 8080));
}

/// The kernel takes nothing for `::1` from a bridge, and nobody needs it to.
#[test]
fn the_ipv6_loopback_address_is_closed() {
    let world = World::new();
    let pools = json!({ "Config": [{ "Subnet": "10.56.0.0/24" }, { "Subnet": "fd56::/64" }] });
    let name = json!({ "com.docker.network.bridge.name": "both0" });
    world.network(json!({ "Name": "both", "EnableIPv6": true, "IPAM": pools, "Options": name })).expect("a network");
    let mut more = published("80/tcp", "", "8080");
    more["HostConfig"]["NetworkMode"] = json!("both");
    let id = armed(&world, "web", more);
    let service = UdpSocket::bind("[::1]:0").expect("a service of the host");
    let open = UdpSocket::bind("[fd56::1]:0").expect("another service");
    let port = |socket: &UdpSocket| socket.local_addr().expect("an address").port();
    for wreck in ["true", "nft flush ruleset"] {
        sh(wreck);
        forge(&world, &id, Frame { form: "v6", bridge: "both0", from: "fd56::2", to: "::1", port: port(&service) });
        forge(&world, &id, Frame { form: "v6", bridge: "both0", from: "fd56::2", to: "fd56::1", port: port(&open) });
        assert_eq!(arrived(&open), BTreeSet::from(["v6".to_owned()]), "such packets come to the host");
        assert_eq!(arrived(&service), BTreeSet::new(), "after {wreck}");
    }
}

/// A container that says it is a router.
// attack: 119 wall router-advertisements
#[test]
fn no_container_becomes_the_hosts_router() {
    let world = World::new();
    let pools = json!({ "Config": [{ "Subnet": "10.56.0.0/24" }, { "Subnet": "fd56::/64" }] });
    let name = json!({ "com.docker.network.bridge.name": "inner0" });
    // An internal one: for others the host forwards, and does not listen to routers at all.
    let body = json!({ "Name": "inner", "EnableIPv6": true, "Internal": true, "IPAM": pools, "Options": name });
    world.network(body).expect("a network");
    let id = armed(&world, "router", json!({ "HostConfig": { "NetworkMode": "inner" } }));
    let heard = || sh("awk '/^Icmp6InRouterAdvertisements/ {print $2}' /proc/thread-self/net/snmp6").trim().to_owned();
    let facts = || (sh("ip -6 route"), sh("ip -6 -o addr | awk '{print $2, $4}'"));
    let (before, none) = (facts(), heard());
    // From an address of a link, as routers do.
    forge(&world, &id, Frame { form: "advert", bridge: "inner0", from: "fe80::1234", to: "ff02::1", port: 0 });
    wait_for("the host to hear it", || heard() != none);
    assert_eq!(facts(), before);
}

/// A network without IPv6 gives its containers no way to the host by it.
// attack: 120 wall no-ipv6
#[test]
fn a_network_of_ipv4_has_no_ipv6() {
    let world = World::new();
    let id = armed(&world, "web", json!({}));
    let inside = world.root.exec(&id, &["ip", "-o", "addr"]).ok();
    assert!(
        inside.contains("172.17.0.2") && !inside.lines().any(|line| line.contains("eth0") && line.contains("inet6")),
        "{inside}"
    );
    let service = UdpSocket::bind("[::]:0").expect("a service of the host");
    let port = service.local_addr().expect("an address").port();
    // The address that the kernel makes of the hardware's.
    let bytes: Vec<u8> = mac("coracle0").split(':').map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect();
    let &[a, b, c, d, e, f] = &bytes[..] else { panic!("six bytes: {bytes:?}") };
    let link = format!("fe80::{:02x}{b:02x}:{c:02x}ff:fe{d:02x}:{e:02x}{f:02x}", a ^ 2);
    forge(&world, &id, Frame { form: "v6", bridge: "coracle0", from: "fe80::1234", to: &link, port });
    forge(&world, &id, Frame { form: "plain", bridge: "coracle0", from: "172.17.0.2", to: "172.17.0.1", port });
    assert_eq!(arrived(&service), BTreeSet::from(["plain".to_owned()]));
}

/// The name of a resolver on the host's loopback device is asked from the host, for networks that lead outside alone.
// attack: 121 wall internal-resolver
#[test]
fn internal_networks_ask_nobody() {
    let world = World::new();
    world.network(json!({ "Name": "open" })).expect("a network");
    world.network(json!({ "Name": "closed", "Internal": true })).expect("a network");
    let stub = UdpSocket::bind("127.0.0.53:53").expect("port 53");
    let on = |network: &str| {
        let config = json!({ "HostConfig": { "NetworkMode": network, "Dns": ["127.0.0.53"] } });
        world.sleeper(network, config)
    };
    let asks = |id: &str| {
        world.inside(id, || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket.send_to(&query("secret.example"), "127.0.0.11:53").expect("ask");
            socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a limit");
            let mut answer = [0; 512];
            socket.recv(&mut answer).ok().map(|_| answer[3] & 15)
        })
    };
    let seen = || {
        stub.set_read_timeout(Some(Duration::from_millis(500))).expect("a limit");
        stub.recv(&mut [0; 512]).is_ok()
    };
    asks(&on("open"));
    assert!(seen(), "such questions come to the host's resolver");
    let answer = asks(&on("closed"));
    assert!(!seen(), "a question of an internal network left it");
    assert_eq!(answer, Some(2), "it failed at once");
}

/// The client's address in the view of a published port's server.
// attack: 122 wall peer-addresses
#[test]
fn a_server_sees_the_clients_address() {
    let world = World::new();
    let id = world.sleeper("web", published("90/tcp", "", "8090"));
    let server = world.inside(&id, || TcpListener::bind("0.0.0.0:90").expect("port 90"));
    let client = world.outside(|| TcpStream::connect(format!("{HOST}:8090")).expect("connect"));
    let (_, peer) = server.accept().expect("a client");
    assert_eq!(peer.ip().to_string(), OUTSIDE);
    drop(client);
    // The host at its loopback address comes from the bridge's, and nobody from 127.0.0.1.
    let client = TcpStream::connect("127.0.0.1:8090").expect("connect");
    let (_, peer) = server.accept().expect("a client");
    assert_eq!(peer.ip().to_string(), "172.17.0.1");
    drop(client);
}

/// A neighbour that routes the host's loopback addresses to the host.
// attack: 124 wall neighbour-loopback
#[test]
fn a_port_at_loopback_is_not_the_neighbours() {
    let world = World::new();
    world.server("local", published("80/tcp", "127.0.0.1", "8081"));
    let everywhere = world.server("everywhere", published("80/tcp", "", "8082"));
    world.outside_sh(&format!(
        "sysctl -qw net.ipv4.conf.all.route_localnet=1; ip addr del 127.0.0.1/8 dev lo; ip route add 127.0.0.0/8 via {HOST}"
    ));
    assert_eq!(get("127.0.0.1:8081").as_deref(), Some("hi"), "the host's own");
    assert!(world.outside(|| get(&format!("{HOST}:8082"))).is_some(), "the host is reached");
    let dropped = || {
        sh(
            "awk '/^TcpExt/ && n++ {print}' /proc/thread-self/net/netstat; grep up0 /proc/thread-self/net/dev | awk '{print $3}'",
        )
    };
    let before = dropped();
    assert!(world.outside(|| is_closed("127.0.0.1:8081")), "a neighbour reached the host's own port");
    assert_ne!(dropped(), before, "its packets came to the host");
    let _ = everywhere;
}

/// A neighbour that routes the container's addresses to the host.
// attack: 124 wall forward-drop
#[test]
fn a_neighbour_reaches_published_ports_alone() {
    let world = World::new();
    world.server("web", published("80/tcp", "", "8080"));
    let hidden = world.server("hidden", json!({}));
    world.outside_sh(&format!("ip route add 172.17.0.0/16 via {HOST}"));
    assert_eq!(world.outside(|| get(&format!("{HOST}:8080"))).as_deref(), Some("hi"));
    let ip = world.ip(&hidden);
    assert_eq!(get(&format!("{ip}:80")).as_deref(), Some("hi"), "the host reaches it");
    assert!(world.outside(|| is_closed(&format!("{ip}:80"))), "the neighbour reached a port that is not published");
}

/// More than one attribute of netlink holds.
// attack: 33 wall netlink-lengths
// attack: 122 wall peer-addresses
#[test]
fn as_many_ports_as_no_message_holds_are_published() {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 2_600;
    let world = World::new();
    let bindings: serde_json::Map<String, Value> = (0..COUNT)
        .map(|at| (format!("{}/tcp", 100 + at), json!([{ "HostIp": "0.0.0.0", "HostPort": (FIRST + at).to_string() }])))
        .collect();
    let exposed: serde_json::Map<String, Value> = bindings.keys().map(|port| (port.clone(), json!({}))).collect();
    let more = json!({ "ExposedPorts": exposed, "HostConfig": { "PortBindings": bindings } });
    let id = world.sleeper("many", more);
    for at in [0, 499, 500, 777, COUNT - 1] {
        let server = world.inside(&id, move || TcpListener::bind(("0.0.0.0", 100 + at)).expect("a port"));
        let client = world.outside(|| TcpStream::connect((HOST, FIRST + at)).expect("connect"));
        let (_, peer) = server.accept().expect("a client");
        assert_eq!(peer.ip().to_string(), OUTSIDE, "port {at}");
        drop(client);
    }
    world.root.engine.container_kill(&id, Some("KILL"), Some(&soon())).expect("kill");
    world.root.wait(&id);
    let left = sh("nft list ruleset");
    for at in [0, 499, 500, 777, COUNT - 1] {
        assert!(!left.contains(&format!(" {} ", FIRST + at)), "port {at} is published still");
    }
}

/// A container whose bridge dockerd's chain for others lets pass: dockerd's isolation never sees its packets.
// attack: 123 wall foreign-bridges
#[test]
fn a_container_of_dockerd_is_not_reached_beside_it() {
    let world = World::new();
    let end = format!("{}-other", world.outside);
    sh(&format!(
        "iptables -P FORWARD DROP; iptables -N DOCKER-USER; iptables -A DOCKER-USER -j RETURN; iptables -A FORWARD -j DOCKER-USER
         ip link add docker0 type bridge; ip addr add 10.99.0.1/24 dev docker0; ip link set docker0 up; ip netns add {end}
         ip link add port type veth peer name end netns {end}; ip link set port master docker0 up
         ip -n {end} addr add 10.99.0.2/24 dev end; ip -n {end} link set end up; ip -n {end} route add default via 10.99.0.1"
    ));
    let id = world.sleeper("sleeper", json!({}));
    let ping = |ip: &str| world.root.exec(&id, &["ping", "-c", "1", "-w", "2", ip]).code == 0;
    let reached = (ping(OUTSIDE), ping("10.99.0.2"));
    sh(&format!("ip netns del {end}"));
    assert!(reached.0, "the neighbour is reached");
    assert!(!reached.1, "a container of dockerd's was reached");
}
