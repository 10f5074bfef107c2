//! A host of its own for a test of networks, with a neighbour beside it: both are network namespaces.

use super::*;
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;

pub const HOST: &str = "10.77.0.1";
pub const OUTSIDE: &str = "10.77.0.2";

/// An engine on a host of its own (a network namespace that this test's thread is in), and a neighbour of that host.
pub struct World {
    pub root: Root,
    pub outside: String,
}

/// Whether the rules lead this port somewhere: as an element of a map, since a bridge's name may have the same digits.
pub fn leads(rules: &str, port: u16) -> bool {
    rules.contains(&format!(" . {port} : "))
}

impl World {
    pub fn new() -> World {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let outside = format!("coracle-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
        sh(&format!(
            "ip link set lo up; ip netns add {outside}; ip link add up0 type veth peer name eth0 netns {outside};
             ip addr add {HOST}/24 dev up0; ip link set up0 up; ip -n {outside} link set lo up;
             ip -n {outside} addr add {OUTSIDE}/24 dev eth0; ip -n {outside} link set eth0 up"
        ));
        World { root: Root::new(), outside }
    }

    /// The root under other options.
    pub fn with_options(&mut self, change: impl FnOnce(&mut coracle::Options)) {
        let mut options = options_at(&self.root.dir);
        change(&mut options);
        self.root.engine = coracle::Engine::open_with(options).expect("open the root again");
    }

    /// Runs something as the neighbour.
    pub fn outside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.outside);
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                setns(File::open(path).expect("the neighbour"), CloneFlags::CLONE_NEWNET).expect("go there");
                work()
            });
            there.join().expect("the neighbour's work")
        })
    }

    /// Runs a shell script as the neighbour.
    pub fn outside_sh(&self, script: &str) -> String {
        self.outside(|| sh(script))
    }

    /// Runs something in a container's network namespace.
    pub fn inside<T: Send>(&self, id: &str, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/proc/{}/ns/net", self.root.pid(id));
        std::thread::scope(|scope| {
            let there = scope.spawn(|| {
                setns(File::open(path).expect("the container"), CloneFlags::CLONE_NEWNET).expect("go there");
                work()
            });
            there.join().expect("the container's work")
        })
    }

    /// A container that answers `hi` on a TCP port, for ever.
    pub fn server(&self, name: &str, more: Value) -> String {
        let script = "mkdir -p /w; echo hi > /w/index.html; trap 'exit 0' TERM; httpd -f -p 80 -h /w & wait";
        let id = self.root.create(name, body(&["sh", "-c", script], networked(more)));
        self.root.start(&id);
        let ip = self.ip(&id);
        self.root.wait_for("the server", || get(&format!("{ip}:80")).is_some());
        id
    }

    pub fn sleeper(&self, name: &str, more: Value) -> String {
        self.root.sleeper_with(name, networked(more))
    }

    pub fn run(&self, script: &str, more: Value) -> Output {
        self.root.sh_with(script, networked(more))
    }

    pub fn network(&self, body: Value) -> coracle::Result<NetworkCreated> {
        self.root.engine.network_create(&serde_json::from_value(body).expect("a network create body"))
    }

    /// The container's address on its first network.
    pub fn ip(&self, id: &str) -> String {
        let settings = self.root.inspect(id).network_settings;
        settings.networks.values().next().expect("a network").ip_address.clone()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // No panic: it would end all tests where this one has failed.
        if !Command::new("ip").args(["netns", "del", &self.outside]).status().is_ok_and(|status| status.success()) {
            eprintln!("the network namespace {} is left", self.outside);
        }
    }
}

pub fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().expect("sh");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Does something in another thread, on this test's host.
pub fn meanwhile<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> std::thread::JoinHandle<T> {
    let host = File::open("/proc/thread-self/ns/net").expect("this host");
    std::thread::spawn(move || {
        setns(host, CloneFlags::CLONE_NEWNET).expect("the same host");
        work()
    })
}

/// `body` with the default network in place of none.
pub fn networked(mut more: Value) -> Value {
    if more["HostConfig"]["NetworkMode"].is_null() {
        more["HostConfig"]["NetworkMode"] = json!("default");
    }
    more
}

/// The answer of a small HTTP server at this address. The server may be slow to answer.
pub fn get(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address.parse().expect("an address"), Duration::from_secs(2)).ok()?;
    stream.set_read_timeout(Some(SOON)).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.lines().last().map(str::to_owned)
}

/// Whether nobody answers there. A dropped connection gets a shorter wait than a slow one.
pub fn is_closed(address: &str) -> bool {
    TcpStream::connect_timeout(&address.parse().expect("an address"), Duration::from_millis(300)).is_err()
}

/// Like [`get`], from a container.
pub fn get_inside(address: &str) -> String {
    let (host, port) = address.split_once(':').expect("host and port");
    format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {host} {port} | tail -n 1")
}

pub fn published(port: &str, host_ip: &str, host_port: &str) -> Value {
    json!({
        "ExposedPorts": { port: {} },
        "HostConfig": { "PortBindings": { port: [{ "HostIp": host_ip, "HostPort": host_port }] } },
    })
}
