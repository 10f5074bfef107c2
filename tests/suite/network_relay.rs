//! Published ports that the kernel does not lead to the container: the IPv6 loopback address, and IPv6 for containers that
//! have none.

use crate::network::{HOST, World, get, get_inside, published, sh};
use crate::support::*;
use coracle::model::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

fn with_ipv6(world: &World) {
    sh("ip addr add fd77::1/64 dev up0 nodad");
    world.outside_sh("ip addr add fd77::2/64 dev eth0 nodad");
}

fn dual(world: &World) {
    let pools = json!({ "Config": [{ "Subnet": "10.56.0.0/24" }, { "Subnet": "fd56::/64" }] });
    world.network(json!({ "Name": "dual", "EnableIPv6": true, "IPAM": pools })).expect("a network");
}

fn on(network: &str, mut more: Value) -> Value {
    more["HostConfig"]["NetworkMode"] = json!(network);
    more
}

#[test]
fn ports_at_ipv6_addresses() {
    let world = World::new();
    with_ipv6(&world);
    dual(&world);
    let four = world.server("four", published("80/tcp", "", "8080"));
    let six = world.server("six", on("dual", published("80/tcp", "", "8081")));
    let own = world.server("own", published("80/tcp", "::1", "8082"));
    let local = world.server("local", published("80/tcp", "127.0.0.1", "8083"));
    for port in [8080, 8081] {
        for address in ["[::1]", "127.0.0.1", "[fd77::1]", HOST] {
            assert_eq!(get(&format!("{address}:{port}")).as_deref(), Some("hi"), "from the host at {address}:{port}");
        }
        for address in ["[fd77::1]", HOST] {
            let got = world.outside(|| get(&format!("{address}:{port}")));
            assert_eq!(got.as_deref(), Some("hi"), "from the neighbour at {address}:{port}");
        }
        assert!(TcpListener::bind(format!("[::]:{port}")).is_err(), "kept from others");
    }
    assert_eq!(get("[::1]:8082").as_deref(), Some("hi"));
    assert_eq!((get("[fd77::1]:8082"), get("127.0.0.1:8082"), get("[::1]:8083")), (None, None, None));
    let bindings = world.root.inspect(&four).network_settings.ports.get("80/tcp").flatten().expect("published");
    let text: Vec<String> = bindings.iter().map(|one| format!("{} {}", one.host_ip, one.host_port)).collect();
    assert_eq!(text, ["0.0.0.0 8080", ":: 8080"]);
    // Requests from containers to the host's IPv6 address: from a neighbour, from the server itself, from another
    // network.
    let ask = "printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 10 fd77::1 8081 | tail -n 1";
    assert_eq!(world.root.exec(&six, &["sh", "-c", ask]).out(), "hi", "itself");
    assert_eq!(world.run(ask, on("dual", json!({}))).out(), "hi", "beside it");
    let pools = json!({ "Config": [{ "Subnet": "10.57.0.0/24" }, { "Subnet": "fd57::/64" }] });
    world.network(json!({ "Name": "dual2", "EnableIPv6": true, "IPAM": pools })).expect("a network");
    for port in [8080, 8081] {
        let ask = ask.replace("8081", &port.to_string());
        assert_eq!(world.run(&ask, on("dual2", json!({}))).out(), "hi", "another network, port {port}");
    }
    assert_eq!(world.run(&get_inside("172.17.0.1:8082"), json!({})).out(), "", "the host's alone");
    for id in [four, six, own, local] {
        world.root.engine.container_kill(&id, None, None).expect("kill");
    }
    drop(TcpListener::bind("[::]:8080").expect("a free port"));
    drop(TcpListener::bind("[::1]:8082").expect("a free port"));
}

/// Started by a program that has ended; both directions, each ended by itself, and many at once.
#[test]
fn streams_over_the_ipv6_loopback_address() {
    let world = World::new();
    let script = "while :; do nc -l -p 80 -e cat; done";
    let run = Command::new(built("coracle"))
        .arg("--root")
        .arg(world.root.dir.join("root"))
        .arg("--run")
        .arg(world.root.dir.join("run"))
        .args(["run", "-d", "--name", "echo", "-p", "8080:80", "-p", "8081:81", IMAGE, "sh", "-c", script])
        .output()
        .expect("run coracle");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let connect = || {
        let stream = TcpStream::connect("[::1]:8080").expect("the port is there as long as the container");
        stream.set_read_timeout(Some(SOON)).expect("a limit");
        stream
    };
    wait_for("the server", || {
        let mut stream = connect();
        let _ = stream.write_all(b"x");
        stream.read(&mut [0; 1]).is_ok_and(|length| length == 1)
    });
    let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    wait_for("an echo of all of it", || {
        let mut stream = connect();
        let mut writer = stream.try_clone().expect("a second handle");
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let written = writer.write_all(&sent);
                let _ = writer.shutdown(Shutdown::Write);
                written.is_ok()
            });
            let mut got = Vec::new();
            let read = stream.read_to_end(&mut got);
            // The end of one direction is not the end of the other.
            writing.join().expect("the writer") && read.is_ok() && got == sent
        })
    });
    // A transfer goes on while the library comes and goes.
    let mut stream = None;
    wait_for("a connection", || {
        let mut one = connect();
        let _ = one.write_all(b"x");
        let answered = one.read(&mut [0; 1]).is_ok_and(|length| length == 1);
        stream = answered.then_some(one);
        answered
    });
    let mut stream = stream.expect("a connection");
    for round in 0..3u8 {
        let options = options_at(&world.root.dir);
        let engine = coracle::Engine::open_with(options).expect("open");
        engine.network_repair().expect("repair");
        drop(engine);
        stream.write_all(&[round; 1000]).expect("send");
        let mut got = [9; 1000];
        stream.read_exact(&mut got).expect("the echo");
        assert_eq!(got, [round; 1000]);
    }
    drop(stream);
    // More than it has places for: the others wait their turn.
    let listener = world.inside("echo", || TcpListener::bind("0.0.0.0:81").expect("port 81"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"x");
            let wait = move || stream.read(&mut [0; 1]);
            std::thread::Builder::new().stack_size(64 << 10).spawn(wait).expect("a thread");
        }
    });
    let greeted = |stream: &mut TcpStream| stream.read(&mut [0; 1]).is_ok_and(|length| length == 1);
    let mut idle = Vec::new();
    for number in 0..1024 {
        // One connection after the other, because the server's queue is short.
        let mut one = TcpStream::connect("[::1]:8081").expect("connect");
        one.set_read_timeout(Some(SOON)).expect("a limit");
        assert!(greeted(&mut one), "connection {number}");
        idle.push(one);
    }
    let mut late: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect("[::1]:8081").expect("connect")).collect();
    late[0].set_read_timeout(Some(Duration::from_millis(50))).expect("a limit");
    assert!(!greeted(&mut late[0]));
    drop(idle);
    for one in &mut late {
        one.set_read_timeout(Some(SOON)).expect("a limit");
        assert!(greeted(one));
    }
    drop(late);
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.root.pid("echo"))).expect("its status");
    let monitor = status.lines().find_map(|line| line.strip_prefix("PPid:\t")).expect("its parent").to_owned();
    let open = || std::fs::read_dir(format!("/proc/{monitor}/fd")).expect("its descriptors").count();
    wait_for("its descriptors to be closed", || open() < 64);
    // Somebody who is connected is told of the end.
    let mut stream = TcpStream::connect("[::1]:8081").expect("connect");
    stream.set_read_timeout(Some(SOON)).expect("a limit");
    world.root.engine.container_kill("echo", None, None).expect("kill");
    let _ = stream.read_to_end(&mut Vec::new());
    assert!(TcpStream::connect("[::1]:8081").is_err());
}

#[test]
fn datagrams_at_ipv6_addresses() {
    let world = World::new();
    with_ipv6(&world);
    sh("ip addr add fd77::9/64 dev up0 nodad");
    dual(&world);
    for (name, network, port) in [("four", "bridge", 5353u16), ("six", "dual", 5354)] {
        let id = world.sleeper(name, on(network, published("53/udp", "", &port.to_string())));
        let socket = world.inside(&id, || UdpSocket::bind("[::]:53").or_else(|_| UdpSocket::bind("0.0.0.0:53")));
        let socket = socket.expect("port 53");
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..length], from);
            }
        });
        // Connected: an answer from another address than the one that was asked is ignored.
        let echo = |to: &str, length: usize| {
            let socket = UdpSocket::bind("[::]:0").ok()?;
            socket.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
            socket.connect(format!("{to}:{port}")).ok()?;
            socket.send(&vec![7; length]).ok()?;
            let mut buffer = [0; 65536];
            socket.recv(&mut buffer).ok()
        };
        for to in ["[::1]", "[fd77::1]", "[fd77::9]"] {
            wait_for("an echo on the host", || echo(to, 4) == Some(4));
            if to != "[::1]" {
                wait_for("an echo at the neighbour", || world.outside(|| echo(to, 4)) == Some(4));
            }
        }
        assert_eq!(echo("[::1]", 20_000), Some(20_000), "a long one");
        // More talk to it than it remembers.
        let talkers: Vec<UdpSocket> = (0..300).map(|_| UdpSocket::bind("[::1]:0").expect("a socket")).collect();
        for talker in &talkers {
            talker.set_read_timeout(Some(SOON)).expect("a limit");
            talker.send_to(b"ping", format!("[::1]:{port}")).expect("send");
            let mut buffer = [0; 16];
            assert_eq!(talker.recv(&mut buffer).expect("an answer"), 4);
        }
        world.root.engine.container_kill(&id, None, None).expect("kill");
        drop(UdpSocket::bind(format!("[::]:{port}")).expect("a free port"));
    }
}

// A container that was on an internal network alone has its ports as soon as a network leads outside, until it leaves it.
#[test]
fn ports_come_with_a_way_outside() {
    let world = World::new();
    world.network(json!({ "Name": "inner", "Internal": true })).expect("a network");
    let more = json!({
        "ExposedPorts": { "80/tcp": {}, "81/tcp": {} },
        "HostConfig": { "PortBindings": { "80/tcp": [{ "HostPort": "8080" }], "81/tcp": [{ "HostPort": "" }] } },
    });
    let id = world.server("web", on("inner", more));
    let count = || world.root.inspect(&id).network_settings.ports.bindings().count();
    assert_eq!((count(), get("127.0.0.1:8080"), get("[::1]:8080")), (0, None, None));
    drop(TcpListener::bind("0.0.0.0:8080").expect("a free port"));
    let connect = || {
        let body = ConnectNetwork { container: id.clone(), endpoint_config: None };
        world.root.engine.network_connect("bridge", &body, None)
    };
    // Another's files stay unchanged, and the container stays where it was.
    let taken = TcpListener::bind("0.0.0.0:8080").expect("a port");
    fails(connect(), coracle::ErrorKind::Internal, "listen tcp4 0.0.0.0:8080: bind: address already in use");
    assert_eq!((count(), world.root.inspect(&id).network_settings.networks.len()), (0, 1));
    drop(taken);
    connect().expect("connect");
    assert_eq!(count(), 4);
    let reached = |address: &str| get(address).as_deref() == Some("hi");
    assert!(reached("127.0.0.1:8080") && reached("[::1]:8080"));
    assert!(world.outside(|| reached(&format!("{HOST}:8080"))));
    assert!(TcpListener::bind("0.0.0.0:8080").is_err());
    for _ in 0..2 {
        let body = DisconnectNetwork { container: id.clone(), force: false };
        world.root.engine.network_disconnect("bridge", &body, None).expect("disconnect");
        assert_eq!((count(), get("[::1]:8080")), (0, None));
        connect().expect("connect");
        assert!(reached("127.0.0.1:8080") && reached("[::1]:8080"), "again");
    }
    world.root.engine.container_kill(&id, None, None).expect("kill");
    drop(TcpListener::bind("0.0.0.0:8080").expect("a free port"));
    drop(TcpListener::bind("[::]:8080").expect("a free port"));
}
