//! Networks of a driver that is a plugin: a real one, in another process, behind a socket.

use crate::network::{HOST, World, get, meanwhile, networked, published, sh};
use crate::support::*;
use coracle::model::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Child, Command};

struct Plugin {
    child: Child,
    log: PathBuf,
}

impl Plugin {
    /// Starts it on this test's host, under the name `toy`.
    fn start(world: &mut World) -> Plugin {
        let dir = world.root.dir.join("plugins");
        std::fs::create_dir_all(&dir).expect("a directory");
        world.with_options(|options| options.plugin_dirs = vec![dir.clone()]);
        let (socket, log) = (dir.join("toy.sock"), dir.join("calls.log"));
        let program = project().join("tests/support/network-plugin.py");
        let child = Command::new("python3").arg(program).arg(&socket).arg(&log).spawn().expect("python3");
        let plugin = Plugin { child, log };
        wait_for("the plugin", || socket.exists());
        plugin
    }

    /// The calls so far, with their bodies.
    fn calls(&self) -> Vec<(String, Value)> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let pair = |line: &str| {
            let (method, body) = line.split_once(' ').expect("a call");
            (method.to_owned(), serde_json::from_str(body).unwrap_or_default())
        };
        text.lines().map(pair).filter(|(method, _)| method != "Plugin.Activate").collect()
    }

    fn names(&self) -> Vec<String> {
        let bare = |name: String| name.split('.').nth(1).unwrap_or_default().to_owned();
        self.calls().into_iter().map(|(name, _)| bare(name)).collect()
    }

    /// From now on these methods do not answer.
    fn hang(&self, methods: &str) {
        std::fs::write(format!("{}.hang", self.log.display()), methods).expect("say what hangs");
    }

    /// How many calls that hung have ended.
    fn late(&self) -> usize {
        std::fs::read_to_string(format!("{}.late", self.log.display())).unwrap_or_default().lines().count()
    }

    /// The addresses and pools that it has given.
    fn taken(&self) -> Value {
        let socket = self.log.with_file_name("toy.sock");
        let text = sh(&format!("curl -s -X POST --unix-socket {} http://plugin/Toy.Taken", socket.display()));
        serde_json::from_str(&text).expect("an answer")
    }

    fn forget(&self) {
        std::fs::write(&self.log, "").expect("empty the log");
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A plugin that is gone must not delay the removal of its containers.
        let _ = std::fs::remove_file(self.log.with_file_name("toy.sock"));
    }
}

#[test]
fn a_driver_and_its_addresses_in_another_process() {
    let mut world = World::new();
    let plugin = Plugin::start(&mut world);
    let refused = |body: Value| world.network(body).expect_err("refused").message().to_owned();
    assert_eq!(refused(json!({ "Name": "n", "Driver": "other" })), "plugin \"other\" not found");
    let failing = json!({ "Name": "n", "Driver": "toy", "Options": { "fail": "yes" } });
    assert_eq!(refused(failing), "NetworkDriver.CreateNetwork: this network is refused");
    assert!(world.root.engine.network_inspect("n").is_err(), "nothing is left of it");
    plugin.forget();
    let ipam = json!({ "Driver": "toy", "Options": { "a": "b" } });
    let made = json!({ "Name": "far", "Driver": "toy", "IPAM": ipam, "Options": { "colour": "blue" } });
    let id = world.network(made).expect("a network").id;
    assert_eq!(
        plugin.names(),
        ["GetCapabilities", "GetDefaultAddressSpaces", "RequestPool", "RequestAddress", "CreateNetwork"]
    );
    let calls = plugin.calls();
    assert_eq!(
        calls[2].1,
        json!({ "AddressSpace": "here", "Pool": "", "SubPool": "", "Options": { "a": "b" }, "V6": false })
    );
    assert_eq!(calls[4].1["NetworkID"], json!(id));
    assert_eq!(calls[4].1["Options"]["com.docker.network.generic"], json!({ "colour": "blue" }));
    assert_eq!(calls[4].1["IPv4Data"][0]["Gateway"], "10.200.0.1/24");
    let detail = world.root.engine.network_inspect("far").expect("inspect");
    assert_eq!((detail.driver.as_str(), detail.ipam.driver.as_str(), detail.scope.as_str()), ("toy", "toy", "local"));
    assert_eq!(detail.ipam.config[0].subnet, "10.200.0.0/24");

    plugin.forget();
    let on = json!({
        "HostConfig": { "NetworkMode": "far", "PortBindings": { "80/tcp": [{ "HostPort": "8080" }] } },
        "ExposedPorts": { "80/tcp": {} },
    });
    let one = world.sleeper("one", on);
    let names = plugin.names();
    assert_eq!(
        names,
        ["RequestAddress", "CreateEndpoint", "Join", "ProgramExternalConnectivity"],
        "{:?}",
        plugin.calls()
    );
    assert_eq!(plugin.calls()[1].1["Options"]["com.docker.network.portmap"][0]["HostPort"], 8080);
    let end = world.root.inspect(&one).network_settings.networks["far"].clone();
    assert_eq!((end.ip_address.as_str(), end.gateway.as_str()), ("10.200.0.10", "10.200.0.1"));
    assert_eq!(end.mac_address, "02:11:22:33:44:0a");
    let text = world.root.exec(&one, &["sh", "-c", "ip -o addr show plug0; ip link show plug0; ip route"]).ok();
    for part in [
        "10.200.0.10/24",
        "02:11:22:33:44:0a",
        "default via 10.200.0.1 dev plug0",
        "10.201.0.0/16 via 10.200.0.1 dev plug0",
        "10.202.0.0/16 dev plug0",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(world.root.exec(&one, &["ping", "-c", "1", "-w", "2", "10.200.0.1"]).code, 0);
    let key = plugin.calls()[2].1["SandboxKey"].as_str().expect("a key").to_owned();
    let same = std::fs::metadata(key).expect("the namespace");
    let its = std::fs::metadata(format!("/proc/{}/ns/net", world.root.pid(&one))).expect("the namespace");
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&same), std::os::unix::fs::MetadataExt::ino(&its));

    // A running one comes, is found by its name, and goes.
    let two = world.sleeper("two", json!({}));
    let body = ConnectNetwork { container: two.clone(), endpoint_config: None };
    world.root.engine.network_connect("far", &body, None).expect("connect");
    assert_eq!(world.root.exec(&one, &["ping", "-c", "1", "-w", "2", "two"]).code, 0);
    plugin.forget();
    let body = DisconnectNetwork { container: two.clone(), force: false };
    world.root.engine.network_disconnect("far", &body, None).expect("disconnect");
    assert_eq!(plugin.names(), ["Leave", "DeleteEndpoint", "ReleaseAddress"]);
    assert!(!world.root.exec(&two, &["ls", "/sys/class/net"]).ok().contains("plug"));

    plugin.forget();
    let error = world.root.engine.network_remove("far").expect_err("in use");
    assert_eq!((error.http_status(), plugin.names().len()), (403, 0));
    world.root.engine.container_stop(&one, Some(1000), None).expect("stop");
    assert_eq!(plugin.names(), ["Leave", "DeleteEndpoint", "ReleaseAddress"]);
    // The lease of a container that ended by itself is released by the next call.
    world.root.start(&one);
    plugin.forget();
    world.root.engine.container_kill(&one, None, None).expect("kill");
    wait_for("its end", || world.root.status(&one) == "exited");
    let mut options = options_at(&world.root.dir);
    options.plugin_dirs = vec![world.root.dir.join("plugins")];
    // An open waits for a plugin no more than a moment: on a busy machine it may take a second one.
    wait_for("what it had to be given back", || {
        drop(coracle::Engine::open_with(options.clone()).expect("open the root again"));
        plugin.names().ends_with(&["Leave", "DeleteEndpoint", "ReleaseAddress"].map(str::to_owned))
    });
    plugin.forget();
    world.root.engine.network_remove("far").expect("remove");
    assert_eq!(plugin.names(), ["DeleteNetwork", "ReleaseAddress", "ReleasePool"]);
    assert!(!sh("ip -br link").contains("plugin0"));
}

#[test]
fn an_interface_that_a_driver_only_speaks_of() {
    let mut world = World::new();
    let plugin = Plugin::start(&mut world);
    // An interface of the host with the name that the container's is to have.
    sh("ip link add eth0 type bridge");
    let pool = json!({ "Config": [{ "Subnet": "10.200.0.0/24", "Gateway": "10.200.0.1" }] });
    let made = json!({ "Name": "far", "Driver": "toy", "IPAM": pool, "Options": { "missing": "yes" } });
    world.network(made).expect("a network");
    let on = json!({ "HostConfig": { "NetworkMode": "far" } });
    let id = world.root.create("one", body(&["true"], on.clone()));
    let error = world.root.engine.container_start(&id, None, Some(&soon())).expect_err("nothing to take");
    assert_eq!(error.message(), "NetworkDriver.Join: the interface nowhere0 of driver toy is not there");
    assert_eq!(plugin.names().split_off(3), ["Join", "Leave", "DeleteEndpoint"]);
    assert!(sh("ip -br link").contains("eth0"), "the host's own is left alone");
    let two = world.sleeper("two", json!({}));
    let body = ConnectNetwork { container: two, endpoint_config: None };
    fails(
        world.root.engine.network_connect("far", &body, Some(&soon())),
        coracle::ErrorKind::Internal,
        "the interface nowhere0 of driver toy is not there",
    );
    assert!(sh("ip -br link").contains("eth0"), "the host's own is left alone");
    world.root.engine.network_remove("far").expect("remove");
    assert!(world.root.engine.network_inspect("bridge").expect("inspect").containers.len() == 1);
}

/// A monitor speaks to no plugin: what a plugin made stays where it is while the container is restarted.
#[test]
fn restarts_without_the_plugin() {
    for remapped in [false, true] {
        if remapped && !kernel::maps_owners() {
            return;
        }
        let mut world = World::new();
        let plugin = Plugin::start(&mut world);
        if remapped {
            let dirs = vec![world.root.dir.join("plugins")];
            let users = coracle::UsernsRemap { uid: 700_000, gid: 700_000, count: 65_536 };
            world.with_options(|options| {
                (options.plugin_dirs, options.userns_remap) = (dirs, Some(users));
            });
        }
        world.network(json!({ "Name": "far", "Driver": "toy", "IPAM": { "Driver": "toy" } })).expect("a network");
        let script = "mkdir -p /w; echo hi > /w/index.html; httpd -f -p 80 -h /w & read line < /stop; exit 3";
        let mut more = published("80/tcp", "", "8080");
        more["HostConfig"]["NetworkMode"] = json!("far");
        let one = world.root.create("one", body(&["sh", "-c", &format!("mkfifo /stop 2>/dev/null; {script}")], more));
        let two = world.sleeper("two", json!({ "HostConfig": { "NetworkMode": "far" } }));
        world.root.start(&one);
        let connect = |connected: bool| {
            let body = ConnectNetwork { container: one.clone(), endpoint_config: None };
            if connected {
                world.root.engine.network_connect("bridge", &body, Some(&soon())).expect("connect");
            } else {
                let body = DisconnectNetwork { container: one.clone(), force: false };
                world.root.engine.network_disconnect("bridge", &body, Some(&soon())).expect("disconnect");
            }
        };
        connect(true);
        let always = json!({ "RestartPolicy": { "Name": "always" } });
        world.root.engine.container_update(&one, &serde_json::from_value(always).expect("a body")).expect("update");
        plugin.forget();
        let inode = || {
            let link = world.root.dir.join("run/c").join(&one).join("netns");
            std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(link).expect("where the plugin was told"))
        };
        let (before, links) = (inode(), sh("ip -br link show type veth | wc -l"));
        let restarts = || world.root.inspect(&one).restart_count;
        let ended_and_back = || {
            let count = restarts();
            world.root.exec(&one, &["sh", "-c", "echo > /stop"]);
            wait_for("the restart", || restarts() > count && world.root.status(&one) == "running");
        };
        for round in 0..3 {
            ended_and_back();
            let text = world.root.exec(&one, &["sh", "-c", "ip -o addr; ip route"]).ok();
            for part in ["plug0    inet 10.200.0.1", "10.202.0.0/16 dev plug0", "eth0    inet 172.17.0."] {
                assert!(text.contains(part), "{part} in {text}");
            }
            assert_eq!(world.root.exec(&one, &["ping", "-c", "1", "-w", "2", "two"]).code, 0, "round {round}");
            assert_eq!(world.root.exec(&two, &["ping", "-c", "1", "-w", "2", "one"]).code, 0, "round {round}");
            let reached = || world.outside(|| get(&format!("{HOST}:8080"))).as_deref() == Some("hi");
            wait_for("the published port", reached);
            assert_eq!((inode(), sh("ip -br link show type veth | wc -l")), (before, links.clone()));
            // The interface's end on the bridge is found under its old name.
            match round {
                0 => {
                    sh("ip link del coracle0");
                    world.root.engine.network_repair().expect("repair");
                    wait_for("the published port again", reached);
                }
                1 => {
                    connect(false);
                    assert!(!world.root.exec(&one, &["ls", "/sys/class/net"]).ok().contains("eth0"));
                    connect(true);
                }
                _ => {}
            }
        }
        assert_eq!(plugin.names(), Vec::<String>::new());
        // Without the plugin's network it has its own again with each start.
        let body = DisconnectNetwork { container: one.clone(), force: false };
        world.root.engine.network_disconnect("far", &body, Some(&soon())).expect("disconnect");
        assert_eq!(plugin.names(), ["Leave", "DeleteEndpoint", "ReleaseAddress"]);
        ended_and_back();
        let names = world.root.exec(&one, &["ls", "/sys/class/net"]).ok();
        assert_eq!(names, "eth0\nlo");
        connect(false);
        wait_for("its interface to go", || !sh("ip -br link").contains("veth"));
        world.root.engine.container_stop(&one, Some(0), None).expect("stop");
    }
}

/// Found by its file, at a port, both sides with certificates.
#[test]
fn a_driver_over_tls() {
    let mut world = World::new();
    let dir = world.root.dir.join("plugins");
    std::fs::create_dir_all(&dir).expect("a directory");
    sh(&format!(
        "cd {}; openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem 2>&1
         for who in server client; do
           openssl req -newkey rsa:2048 -nodes -subj /CN=$who -keyout $who.key -out $who.csr 2>&1
           printf 'subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE' > ext
           openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out $who.pem 2>&1
         done",
        dir.display()
    ));
    let log = dir.join("calls.log");
    let program = project().join("tests/support/network-plugin.py");
    let child = Command::new("python3").arg(program).arg("-").arg(&log).arg(&dir).spawn().expect("python3");
    let plugin = Plugin { child, log };
    wait_for("the plugin", || std::net::TcpStream::connect("127.0.0.1:7443").is_ok());
    world.with_options(|options| options.plugin_dirs = vec![dir.clone()]);
    let described = |tls: Value| {
        let text = json!({ "Name": "toy", "Addr": "https://127.0.0.1:7443", "TLSConfig": tls }).to_string();
        std::fs::write(dir.join("toy.json"), text).expect("describe it");
        world.network(json!({ "Name": "far", "Driver": "toy", "IPAM": { "Driver": "toy" } }))
    };
    let path = |name: &str| dir.join(name);
    let client = json!({ "CertFile": path("client.pem"), "KeyFile": path("client.key") });
    let with = |key: &str, value: Value| {
        let mut all = client.clone();
        all[key] = value;
        all
    };
    for (tls, why) in [
        (Value::Null, "certificate"),
        (client.clone(), "certificate"),
        (json!({ "CAFile": path("ca.pem") }), "ertificate"),
        (with("CAFile", json!(path("nothing"))), "nothing: No such file"),
        (with("KeyFile", Value::Null), "CertFile and KeyFile belong together"),
    ] {
        let error = described(tls.clone()).expect_err("refused");
        assert!(error.message().contains(why), "{tls}: {error}");
    }
    assert_eq!(plugin.names(), Vec::<String>::new(), "nobody was told anything");
    described(with("InsecureSkipVerify", json!(true))).expect("a plugin that nobody vouches for, as asked for");
    world.root.engine.network_remove("far").expect("remove");
    described(with("CAFile", json!(path("ca.pem")))).expect("a network");
    let on = json!({ "HostConfig": { "NetworkMode": "far" } });
    assert_eq!(world.run("ping -c 1 -w 10 10.200.0.1 >/dev/null && echo reached", on).out(), "reached");
}

/// Kills a program at each call that it makes: what it got until then goes back with the next open.
#[test]
fn an_open_returns_to_plugins_the_resources_of_killed_programs() {
    let mut world = World::new();
    let plugin = Plugin::start(&mut world);
    let dirs = world.root.dir.join("plugins");
    let reopen = |world: &mut World| world.with_options(|options| options.plugin_dirs = vec![dirs.clone()]);
    let killed_at = |world: &World, method: &str, words: &[&str]| {
        plugin.hang(method);
        plugin.forget();
        let mut command = Command::new(built("coracle"));
        command.arg("--root").arg(world.root.dir.join("root")).arg("--run").arg(world.root.dir.join("run"));
        let mut child = command.arg("--plugin-dir").arg(&dirs).args(words).spawn().expect("run coracle");
        wait_for(method, || plugin.calls().iter().any(|(name, _)| name == method));
        child.kill().expect("kill it");
        child.wait().expect("its end");
        let late = plugin.late();
        plugin.hang("");
        // The plugin does then what the dead program asked for.
        wait_for("the end of the call that hung", || plugin.late() > late);
    };
    let create = ["network", "create", "--driver", "toy", "--ipam-driver", "toy", "far"];
    for method in ["IpamDriver.RequestAddress", "NetworkDriver.CreateNetwork"] {
        killed_at(&world, method, &create);
        // The hanging call continues: nobody is there to give back what comes of it.
        wait_for(&format!("what came before {method} to be given back"), || {
            let _ = world.root.engine.network_remove("far");
            reopen(&mut world);
            let left = plugin.taken();
            left["Pools"] == 0 && left["Addresses"].as_array().is_some_and(|all| all.len() <= 1)
        });
        sh("ip link del plugin0 || true");
        let socket = dirs.join("toy.sock");
        let release = r#"{"PoolID": "pool-1", "Address": "10.200.0.1"}"#;
        sh(&format!(
            "curl -s -X POST -d '{release}' --unix-socket {} http://p/IpamDriver.ReleaseAddress",
            socket.display()
        ));
    }
    let ipam = json!({ "Driver": "toy" });
    world.network(json!({ "Name": "far", "Driver": "toy", "IPAM": ipam })).expect("a network");
    let before = plugin.taken();
    let on = json!({ "HostConfig": { "NetworkMode": "far" } });
    world.root.create("one", body(&["sleep", "1000"], on));
    world.sleeper("two", json!({}));
    for method in ["NetworkDriver.CreateEndpoint", "NetworkDriver.Join"] {
        for words in [&["start", "one"][..], &["network", "connect", "far", "two"]] {
            killed_at(&world, method, words);
            wait_for(&format!("what came before {method} of {words:?} to be given back"), || {
                reopen(&mut world);
                plugin.taken() == before
            });
        }
    }
    world.root.start("one");
    world.root.engine.container_kill("one", None, None).expect("kill");
    wait_for("its end", || world.root.status("one") == "exited");
    reopen(&mut world);
    assert_eq!(plugin.taken(), before);
}

/// A plugin that hangs delays its caller, and no other call.
#[test]
fn a_plugin_that_hangs() {
    let mut world = World::new();
    let plugin = Plugin::start(&mut world);
    let pool = json!({ "Config": [{ "Subnet": "10.200.0.0/24" }] });
    world.network(json!({ "Name": "far", "Driver": "toy", "IPAM": pool })).expect("a network");
    let on = json!({ "HostConfig": { "NetworkMode": "far" } });
    world.sleeper("gone", on.clone());
    world.sleeper("two", json!({}));
    let one = world.root.create("one", body(&["true"], on));
    plugin.hang("NetworkDriver.CreateEndpoint NetworkDriver.Leave");
    world.root.engine.container_kill("gone", None, None).expect("kill");
    let engine = world.root.engine.clone();
    let starting = meanwhile(move || engine.container_start(&one, None, None));
    wait_for("the call", || plugin.names().contains(&"CreateEndpoint".to_owned()));
    // A call that waited for the plugin, too, would end after the start, whose own call would have lasted too long by then.
    let beside = |what: &str, work: &dyn Fn()| {
        work();
        assert!(!starting.is_finished(), "{what} waited for the plugin");
    };
    beside("another start", &|| assert_eq!(world.run("echo here", json!({})).out(), "here"));
    beside("lists", &|| {
        world.root.engine.network_inspect("far").expect("inspect");
        assert_eq!(world.root.status("one"), "created");
        assert_eq!(world.root.status("gone"), "exited");
    });
    beside("another network", &|| {
        world.network(json!({ "Name": "near" })).expect("a network");
        let body = ConnectNetwork { container: "two".into(), endpoint_config: None };
        world.root.engine.network_connect("near", &body, None).expect("connect");
    });
    let dirs = world.root.dir.join("plugins");
    beside("an open", &|| {
        let mut options = options_at(&world.root.dir);
        options.plugin_dirs = vec![dirs.clone()];
        drop(coracle::Engine::open_with(options).expect("open the root again"));
    });
    // A lease that the plugin did not take back then is returned later.
    plugin.hang("");
    starting.join().expect("the start").expect("it starts after all");
    plugin.forget();
    // An open waits for a plugin no more than a moment: on a busy machine it may take a second one.
    wait_for("what it had to be given back", || {
        world.with_options(|options| options.plugin_dirs = vec![dirs.clone()]);
        plugin.names().ends_with(&["Leave".to_owned(), "DeleteEndpoint".to_owned()])
    });
}

/// Each kind of name is counted by itself, and none is given twice.
#[test]
fn names_of_interfaces() {
    let mut world = World::new();
    let _plugin = Plugin::start(&mut world);
    let pool = json!({ "Config": [{ "Subnet": "10.200.0.0/24" }] });
    world.network(json!({ "Name": "far", "Driver": "toy", "IPAM": pool })).expect("a network");
    world.network(json!({ "Name": "near" })).expect("a network");
    world.network(json!({ "Name": "a" })).expect("a network");
    let id = world.root.create(
        "all",
        body(
            &["sleep", "1000"],
            json!({ "HostConfig": { "NetworkMode": "a" }, "NetworkingConfig": { "EndpointsConfig": { "a": {} } } }),
        ),
    );
    let connect = |network: &str| {
        let body = ConnectNetwork { container: id.clone(), endpoint_config: None };
        world.root.engine.network_connect(network, &body, None).expect("connect");
    };
    let disconnect = |network: &str| {
        let body = DisconnectNetwork { container: id.clone(), force: false };
        world.root.engine.network_disconnect(network, &body, None).expect("disconnect");
    };
    let names = || world.root.exec(&id, &["ls", "/sys/class/net"]).ok().replace('\n', " ");
    connect("far");
    connect("near");
    world.root.start(&id);
    assert_eq!(names(), "eth0 eth1 lo plug0");
    disconnect("a");
    assert_eq!(names(), "eth1 lo plug0");
    connect("bridge");
    assert_eq!(names(), "eth0 eth1 lo plug0");
    disconnect("far");
    connect("a");
    connect("far");
    assert_eq!(names(), "eth0 eth1 eth2 lo plug0");
    // A driver that wants the name that bridges have.
    disconnect("far");
    world.root.engine.network_remove("far").expect("remove");
    let pool = json!({ "Config": [{ "Subnet": "10.200.0.0/24" }] });
    let made = json!({ "Name": "far", "Driver": "toy", "IPAM": pool, "Options": { "prefix": "eth" } });
    world.network(made).expect("a network");
    connect("far");
    assert_eq!(names(), "eth0 eth1 eth2 eth3 lo");
}

#[test]
fn a_plugin_that_is_gone() {
    let mut world = World::new();
    let mut plugin = Plugin::start(&mut world);
    let pool = json!({ "Config": [{ "Subnet": "10.200.0.0/24" }] });
    world.network(json!({ "Name": "far", "Driver": "toy", "IPAM": pool })).expect("a network");
    let id = world.root.create("one", body(&["true"], networked(json!({ "HostConfig": { "NetworkMode": "far" } }))));
    plugin.child.kill().expect("kill the plugin");
    plugin.child.wait().expect("its end");
    std::fs::remove_file(world.root.dir.join("plugins/toy.sock")).expect("its socket");
    let error = world.root.engine.container_start(&id, None, Some(&soon())).expect_err("nobody makes the interface");
    assert_eq!((error.http_status(), error.message()), (404, "plugin \"toy\" not found"));
    assert_eq!(world.root.status(&id), "created");
    // An end on another network is not harmed by it.
    world.sleeper("two", json!({}));
}

/// A child that starts is told to its parents, also to one that somebody works on for long.
#[test]
fn a_link_is_told_while_its_parent_is_busy() {
    let mut world = World::new();
    let plugin = Plugin::start(&mut world);
    let pool = json!({ "Config": [{ "Subnet": "10.200.0.0/24" }] });
    world.network(json!({ "Name": "far", "Driver": "toy", "IPAM": pool })).expect("a network");
    let db = world.sleeper("db", json!({}));
    let web = world.sleeper("web", json!({ "HostConfig": { "Links": ["db:store"] } }));
    plugin.hang("NetworkDriver.CreateEndpoint");
    let engine = world.root.engine.clone();
    let connecting = meanwhile(move || {
        let body = ConnectNetwork { container: "web".into(), endpoint_config: None };
        engine.network_connect("far", &body, None)
    });
    wait_for("the call", || plugin.names().contains(&"CreateEndpoint".to_owned()));
    let line = || format!("{}\tstore db", world.ip(&db));
    let hosts = || world.root.exec(&web, &["cat", "/etc/hosts"]).ok().replace(&db[..12], "db");
    world.root.exec(&web, &["sh", "-c", ": > /etc/hosts"]).ok();
    world.root.engine.container_restart(&db, Some(1000), None).expect("restart");
    assert!(hosts().contains(&line()), "{}", hosts());
    plugin.hang("");
    connecting.join().expect("a thread").expect("connect");
    assert!(hosts().contains(&line()) && hosts().contains("10.200.0."), "{}", hosts());
}
