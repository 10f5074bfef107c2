//! Names as C libraries ask for them: glibc's and musl's, in a container that is shown the host's.

use crate::network::{OUTSIDE, World, sh};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

/// `a|aaaa NAME`: the addresses; `order NAME`: as they come, the first of each of forty answers; `name IP`: the name.
const ASK: &str = r#"
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
  char text[256];
  if (count != 3) return 2;
  if (!strcmp(words[1], "order")) {
    for (int round = 0; round < 40; round++) {
      struct hostent *found = gethostbyname(words[2]);
      if (!found) return 1;
      puts(inet_ntop(found->h_addrtype, found->h_addr_list[0], text, sizeof text));
    }
    return 0;
  }
  struct addrinfo hints = {0}, *all, *one;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = !strcmp(words[1], "a") ? AF_INET : !strcmp(words[1], "aaaa") ? AF_INET6 : AF_UNSPEC;
  if (!strcmp(words[1], "name")) hints.ai_flags = AI_NUMERICHOST;
  int failed = getaddrinfo(words[2], 0, &hints, &all);
  if (failed) { puts(gai_strerror(failed)); return 1; }
  int flags = strcmp(words[1], "name") ? NI_NUMERICHOST : NI_NAMEREQD;
  for (one = all; one; one = one->ai_next) {
    failed = getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, 0, 0, flags);
    if (failed) { puts(gai_strerror(failed)); return 1; }
    puts(text);
  }
  return 0;
}
"#;

/// A name server at the neighbour's. It knows `far.example.test` (one address) and `long.example.test` (200 addresses, of
/// which 20 come by datagram), and notes what it is asked.
fn name_server(world: &World) -> Arc<Mutex<Vec<String>>> {
    let (udp, tcp) = world.outside(|| {
        (UdpSocket::bind((OUTSIDE, 53)).expect("port 53"), TcpListener::bind((OUTSIDE, 53)).expect("port 53 of TCP"))
    });
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = asked.clone();
    let answer = move |query: &[u8], datagram: bool| {
        let end = 12 + query[12..].iter().position(|b| *b == 0).expect("the end of the name") + 5;
        let (mut name, mut at) = (Vec::new(), 12);
        while query[at] > 0 {
            let next = at + 1 + usize::from(query[at]);
            name.push(String::from_utf8_lossy(&query[at + 1..next]).into_owned());
            at = next;
        }
        // A client may spell the name in any case.
        let (name, kind) = (name.join(".").to_ascii_lowercase(), query[end - 3]);
        notes.lock().expect("the notes").push(format!("{name} {kind} {}", if datagram { "udp" } else { "tcp" }));
        let (known, records) = match name.as_str() {
            "far.example.test" => (true, 1),
            "long.example.test" => (true, if datagram { 20 } else { 200 }),
            _ => (false, 0),
        };
        let records = if kind == 1 { records } else { 0 };
        let mut answer = query[..end].to_vec();
        let cut = if records == 20 { 2 } else { 0 };
        answer[2..4].copy_from_slice(&[0x81 | cut, if known { 0x80 } else { 0x83 }]);
        answer[6..12].copy_from_slice(&[0, records as u8, 0, 0, 0, 0]);
        for number in 0..records as u8 {
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 5, 6, 7, number]);
        }
        answer
    };
    let over_tcp = answer.clone();
    std::thread::spawn(move || {
        let mut query = [0; 2000];
        while let Ok((length, from)) = udp.recv_from(&mut query) {
            let _ = udp.send_to(&answer(&query[..length], true), from);
        }
    });
    std::thread::spawn(move || {
        for mut stream in tcp.incoming().flatten() {
            let mut length = [0; 2];
            while stream.read_exact(&mut length).is_ok() {
                let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
                if stream.read_exact(&mut query).is_err() {
                    break;
                }
                let bytes = over_tcp(&query, false);
                let _ = stream.write_all(&[&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat());
            }
        }
    });
    asked
}

#[test]
fn names_by_glibc_and_musl() {
    let world = World::new();
    let asked = name_server(&world);
    let dir = world.root.dir.join("clients");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("ask.c"), ASK).expect("the source");
    sh(&format!(
        "cd {}; gcc -o glibc ask.c; musl-gcc -o musl ask.c; musl-gcc -static -o musl-static ask.c; readelf -l glibc musl | grep -q interpreter",
        dir.display()
    ));
    let pools = json!({ "Config": [{ "Subnet": "10.56.0.0/24" }, { "Subnet": "fd56::/64" }] });
    world.network(json!({ "Name": "net1", "EnableIPv6": true, "IPAM": pools })).expect("a network");
    let on = |settings: Value, host: Value| {
        let mut more = json!({ "HostConfig": host, "NetworkingConfig": { "EndpointsConfig": { "net1": settings } } });
        more["HostConfig"]["NetworkMode"] = json!("net1");
        more
    };
    let db: Vec<String> = ["db1", "db2"]
        .into_iter()
        .map(|name| world.sleeper(name, on(json!({ "Aliases": ["db"] }), json!({}))))
        .collect();
    let host = json!({
        "Binds": [format!("{}:/c:ro", dir.display()), "/usr/lib:/lib:ro", "/usr/lib:/usr/lib:ro", "/usr/lib64:/lib64:ro"],
        "Dns": [OUTSIDE], "DnsSearch": ["example.test"], "DnsOptions": ["ndots:2", "timeout:5"],
    });
    let id = world.sleeper("asks", on(json!({ "Links": ["db1:linked"] }), host));
    let resolv = world.root.exec(&id, &["cat", "/etc/resolv.conf"]).ok();
    for part in ["nameserver 127.0.0.11", "search example.test", "ndots:2"] {
        assert!(resolv.contains(part), "{resolv}");
    }
    let both = |four: bool| -> BTreeSet<String> {
        let end = |id: &String| {
            let end = world.root.inspect(id).network_settings.networks["net1"].clone();
            if four { end.ip_address } else { end.global_ipv6_address }
        };
        db.iter().map(end).collect()
    };
    for client in ["glibc", "musl", "musl-static"] {
        let run = |variables: &str, what: &str, name: &str| -> Vec<String> {
            let out = world.root.exec(&id, &["sh", "-c", &format!("{variables} /c/{client} {what} {name}")]);
            assert!(out.err().is_empty(), "{client} {what} {name}: {}", out.err());
            out.out().lines().map(str::to_owned).collect()
        };
        let set = |what: &str, name: &str| run("", what, name).into_iter().collect::<BTreeSet<String>>();
        assert_eq!((set("a", "db"), set("aaaa", "db")), (both(true), both(false)), "{client}");
        assert_eq!(set("a", "db.net1"), both(true), "{client}: with the network's name");
        for name in ["linked", "db1", &db[0][..12]] {
            let one = BTreeSet::from([world.ip(&db[0])]);
            assert_eq!(set("a", name), one, "{client}: {name}");
        }
        for ip in both(true).into_iter().chain(both(false)) {
            let name = run("", "name", &ip);
            assert!(name == ["db1.net1"] || name == ["db2.net1"], "{client}: {ip}: {name:?}");
        }
        assert_eq!(set("order", "db"), both(true), "{client}: each is the first at times");
        // Over TCP, where the library can be told to.
        if client == "glibc" {
            let over_tcp: BTreeSet<String> = run("RES_OPTIONS=use-vc", "a", "db").into_iter().collect();
            assert_eq!(over_tcp, both(true));
        }
        // Names of the host's resolvers: by the search list, first or last as `ndots` says.
        let noted = || std::mem::take(&mut *asked.lock().expect("the notes"));
        noted();
        assert_eq!(run("", "a", "far"), ["5.6.7.0"], "{client}");
        assert_eq!(run("", "a", "far.example.test"), ["5.6.7.0"], "{client}");
        let seen = noted();
        assert_eq!(seen[..], ["far.example.test 1 udp", "far.example.test 1 udp"], "{client}");
        run("", "a", "one.dot");
        assert_eq!(noted()[0], "one.dot.example.test 1 udp", "{client}: one dot is fewer than two");
        run("", "a", "two.dots.there");
        assert_eq!(noted()[0], "two.dots.there 1 udp", "{client}");
        // A question that is too long for a datagram: musl before 1.2.4 takes what came, others ask again over TCP.
        let long = run("", "a", "long.example.test");
        let seen = noted();
        assert_eq!(seen[0], "long.example.test 1 udp", "{client}");
        match client {
            "glibc" => assert_eq!((long.len(), seen[1].as_str()), (200, "long.example.test 1 tcp")),
            _ => assert!(long.len() >= 20, "{client}: {}", long.len()),
        }
        // Questions about names that are known here are never forwarded, whatever their family.
        run("", "aaaa", "linked.");
        assert_eq!(noted(), Vec::<String>::new(), "{client}");
    }
}

/// More containers of one alias than a datagram has room for.
#[test]
fn an_alias_of_many() {
    let world = World::new();
    world.network(json!({ "Name": "net1" })).expect("a network");
    let on = |settings: Value| json!({ "HostConfig": { "NetworkMode": "net1" }, "NetworkingConfig": { "EndpointsConfig": { "net1": settings } } });
    for number in 0..34 {
        world.sleeper(&format!("many{number}"), on(json!({ "Aliases": ["many"] })));
    }
    let dir = world.root.dir.join("clients");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("ask.c"), ASK).expect("the source");
    sh(&format!("cd {}; gcc -o glibc ask.c", dir.display()));
    let mut more = on(json!({}));
    more["HostConfig"]["Binds"] =
        json!([format!("{}:/c:ro", dir.display()), "/usr/lib:/lib:ro", "/usr/lib64:/lib64:ro"]);
    let out = world.run("/c/glibc a many | sort -u | wc -l", more).out();
    assert_eq!(out, "34", "the rest came over TCP");
}
