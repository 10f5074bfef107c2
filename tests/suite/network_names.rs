//! Names: links of both kinds, resolvers of both families, over datagrams and connections.

use crate::network::{World, networked};
use crate::support::*;
use coracle::model::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, UdpSocket};

/// Answers every question at these addresses in a network namespace, until the test's process ends: over UDP it is too
/// long, over TCP it is `records` addresses.
fn name_server(world: &World, ip: IpAddr, records: u8) {
    let (udp, tcp) = world.outside(move || {
        (UdpSocket::bind((ip, 53)).expect("port 53"), TcpListener::bind((ip, 53)).expect("port 53 of TCP"))
    });
    let answer = move |query: &[u8], truncated: bool| {
        let mut answer = query.to_vec();
        answer[2..4].copy_from_slice(&[if truncated { 0x83 } else { 0x81 }, 0x80]);
        // Whatever else the question has, the answer does not.
        answer[10..12].copy_from_slice(&[0, 0]);
        let end = 12 + query[12..].iter().position(|b| *b == 0).expect("the end of the name") + 5;
        answer.truncate(end);
        if !truncated {
            answer[6..8].copy_from_slice(&[0, records]);
            for number in 0..records {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 5, 6, 7, number]);
            }
        }
        answer
    };
    std::thread::spawn(move || {
        let mut query = [0; 2000];
        while let Ok((length, from)) = udp.recv_from(&mut query) {
            let _ = udp.send_to(&answer(&query[..length], records > 1), from);
        }
    });
    std::thread::spawn(move || {
        for stream in tcp.incoming().flatten() {
            let mut stream = stream;
            let mut length = [0; 2];
            while stream.read_exact(&mut length).is_ok() {
                let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
                if stream.read_exact(&mut query).is_err() {
                    break;
                }
                let bytes = answer(&query, false);
                let framed = [&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat();
                // In two parts, as on a network.
                let _ = stream.write_all(&framed[..1]);
                std::thread::sleep(std::time::Duration::from_millis(5));
                let _ = stream.write_all(&framed[1..]);
            }
        }
    });
}

/// Asks a container's resolver over TCP, with the tools that there are: answers the number of records.
fn ask_over_tcp(world: &World, id: &str, name: &str) -> usize {
    let mut query = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
    let answer = world.inside(id, move || {
        let mut stream = std::net::TcpStream::connect("127.0.0.11:53").expect("the resolver over TCP");
        stream.set_read_timeout(Some(SOON)).expect("a limit");
        stream.write_all(&framed).expect("ask");
        let mut length = [0; 2];
        stream.read_exact(&mut length).expect("an answer");
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut answer).expect("all of it");
        answer
    });
    assert_eq!(answer[..2], [7, 7], "the answer to this question");
    usize::from(u16::from_be_bytes([answer[6], answer[7]]))
}

#[test]
fn long_answers_come_over_tcp() {
    let world = World::new();
    let outside: IpAddr = crate::network::OUTSIDE.parse().expect("an address");
    name_server(&world, outside, 200);
    world.network(json!({ "Name": "open" })).expect("a network");
    let id = world.sleeper("asks", json!({ "HostConfig": { "NetworkMode": "open", "Dns": [outside] } }));
    assert_eq!(ask_over_tcp(&world, &id, "far.example"), 200);
    // The container's own name needs no other container.
    assert_eq!(ask_over_tcp(&world, &id, "asks"), 1);
    // A resolver that nobody is at: the next one answers.
    let two = json!({ "HostConfig": { "NetworkMode": "open", "Dns": ["10.77.0.99", outside] } });
    let id = world.sleeper("asks-two", two);
    assert_eq!(ask_over_tcp(&world, &id, "far.example"), 200);
}

#[test]
fn a_resolver_of_ipv6() {
    let world = World::new();
    world.outside_sh("ip addr add fd77::2/64 dev eth0 nodad");
    crate::network::sh("ip addr add fd77::1/64 dev up0 nodad");
    name_server(&world, "fd77::2".parse().expect("an address"), 1);
    let pools = json!({ "Config": [{ "Subnet": "10.56.0.0/24" }, { "Subnet": "fd56::/64" }] });
    world.network(json!({ "Name": "both", "EnableIPv6": true, "IPAM": pools })).expect("a network");
    let id = world.sleeper("asks", json!({ "HostConfig": { "NetworkMode": "both", "Dns": ["fd77::2"] } }));
    let text = world.root.exec(&id, &["nslookup", "-type=a", "far.example"]).out();
    assert!(text.contains("Address: 5.6.7.0"), "{text}");
    assert_eq!(ask_over_tcp(&world, &id, "far.example"), 1);
    let digits: Vec<String> =
        format!("{:032x}", u128::from("fd56::2".parse::<std::net::Ipv6Addr>().expect("an address")))
            .chars()
            .rev()
            .map(String::from)
            .collect();
    let text = world.root.exec(&id, &["nslookup", "-type=ptr", &format!("{}.ip6.arpa", digits.join("."))]).out();
    assert!(text.contains("name = asks.both"), "{text}");
}

fn linked(links: Value) -> Value {
    json!({ "HostConfig": { "Links": links } })
}

// field: Remove.link
// field: HostConfig.Links
#[test]
fn links_on_the_default_network() {
    let world = World::new();
    let exposed = json!({ "ExposedPorts": { "80/tcp": {}, "53/udp": {} }, "Env": ["KEY=value", "HOME=/x"], "Hostname": "dbhost" });
    let db = world.sleeper("db", exposed);
    let id = world.sleeper("web", linked(json!(["db", "db:my-db"])));
    let text = world
        .root
        .exec(&id, &["sh", "-c", "cat /etc/hosts; env; ping -c 1 -w 10 my-db >/dev/null && echo reached"])
        .out();
    let ip = world.ip(&db);
    for line in [
        format!("{ip}\tdb dbhost"),
        format!("{ip}\tmy-db dbhost db"),
        format!("DB_PORT=udp://{ip}:53"),
        format!("MY_DB_PORT_80_TCP=tcp://{ip}:80"),
        format!("MY_DB_PORT_80_TCP_ADDR={ip}"),
        "MY_DB_NAME=/web/my-db".into(),
        "MY_DB_ENV_KEY=value".into(),
        "reached".into(),
    ] {
        assert!(text.lines().any(|have| have == line), "{line:?} in {text}");
    }
    let first = std::fs::read_to_string(format!("/proc/{}/environ", world.root.pid(&id))).expect("its environment");
    assert!(first.contains("DB_PORT_53_UDP_PROTO=udp") && !first.contains("ENV_HOME"), "{first}");
    let links = |id: &str| world.root.inspect(id).host_config.links;
    assert_eq!(links(&id), Some(vec!["/db:/web/db".to_owned(), "/db:/web/my-db".to_owned()]));
    let all = ListContainers { all: true, ..ListContainers::default() };
    let list = world.root.engine.container_list(&all).expect("list");
    let names = &list.iter().find(|one| one.id == db).expect("it").names;
    assert_eq!(names[..], ["/db", "/web/db", "/web/my-db"]);
    assert_eq!(world.root.inspect("web/my-db").id, db);
    assert_eq!(world.root.inspect("/web/db").id, db);
    // A child that comes back has another address, perhaps: its parents know it.
    world.root.engine.container_kill("db", None, None).expect("kill");
    let other = world.sleeper("other", json!({}));
    world.root.start("db");
    let hosts = || world.root.exec(&id, &["cat", "/etc/hosts"]).ok();
    assert!(hosts().contains(&format!("{}\tmy-db dbhost db", world.ip(&db))), "{}", hosts());
    world.root.engine.container_rename("web", "shop").expect("rename");
    assert_eq!(links(&id), Some(vec!["/db:/shop/db".to_owned(), "/db:/shop/my-db".to_owned()]));
    let link = RemoveContainer { link: true, ..RemoveContainer::default() };
    world.root.engine.container_remove("shop/my-db", link, None).expect("remove the link");
    assert!(!hosts().contains("my-db") && hosts().contains("db dbhost"), "{}", hosts());
    assert_eq!(links(&id), Some(vec!["/db:/shop/db".to_owned()]));
    fails(world.root.engine.container_remove("db", link, None), coracle::ErrorKind::Conflict, "default link name");
    let missing =
        world.root.try_create("bad", body(&["true"], networked(linked(json!(["nobody:x"]))))).expect_err("no");
    assert_eq!(
        (missing.http_status(), missing.message()),
        (400, "could not get container for nobody: No such container: nobody")
    );
    world.root.engine.container_kill("db", None, None).expect("kill");
    world.root.engine.container_kill("shop", None, None).expect("kill");
    let error = world.root.engine.container_start("shop", None, None).expect_err("the child does not run");
    assert_eq!(
        (error.http_status(), error.message()),
        (500, "Cannot link to a non running container: /db AS /shop/db")
    );
    world.root.engine.container_remove("db", RemoveContainer::default(), None).expect("remove");
    assert_eq!(links(&id), None);
    world.root.start("shop");
    drop(other);
}

// field: NetworkingConfig.EndpointsConfig.Links
#[test]
fn links_on_networks_of_ones_own() {
    let world = World::new();
    world.network(json!({ "Name": "net1" })).expect("a network");
    let on = |settings: Value| json!({ "HostConfig": { "NetworkMode": "net1" }, "NetworkingConfig": { "EndpointsConfig": { "net1": settings } } });
    let db = world.sleeper("db", on(json!({})));
    // Targets need not run, and are there when they do.
    let web = world.sleeper("web", on(json!({ "Links": ["db:store", format!("{db}:by-id"), "later:late"] })));
    let other = world.sleeper("other", on(json!({})));
    let asked = |id: &str, name: &str| world.root.exec(id, &["nslookup", "-type=a", name]).out();
    let ip = format!("Address: {}", world.ip(&db));
    for name in ["store", "store.net1", "by-id", "db"] {
        assert!(asked(&web, name).contains(&ip), "{name}: {}", asked(&web, name));
    }
    assert!(!asked(&other, "store").contains(&ip), "an alias is the container's own");
    assert!(!asked(&web, "late").contains("Address: 172"));
    let later = world.sleeper("later", on(json!({})));
    assert!(asked(&web, "late").contains(&format!("Address: {}", world.ip(&later))));
    // A name that comes with a connect, and goes with it.
    world.network(json!({ "Name": "net2" })).expect("a network");
    let connect = |id: &str, config: Value| {
        let body = serde_json::from_value(json!({ "Container": id, "EndpointConfig": config })).expect("a body");
        world.root.engine.network_connect("net2", &body, None).expect("connect")
    };
    connect(&db, json!({}));
    connect(&other, json!({ "Links": ["db:second"] }));
    let end = world.root.inspect(&db).network_settings.networks["net2"].ip_address.clone();
    assert!(asked(&other, "second").contains(&format!("Address: {end}")), "{}", asked(&other, "second"));
    assert_eq!(world.root.inspect(&other).network_settings.networks["net2"].links, Some(vec!["db:second".to_owned()]));
    let body = DisconnectNetwork { container: other.clone(), force: false };
    world.root.engine.network_disconnect("net2", &body, None).expect("disconnect");
    assert!(!asked(&other, "second").contains(&end));
    assert!(asked(&other, "db").contains(&ip));
}
