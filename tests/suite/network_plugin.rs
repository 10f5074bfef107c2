//! Networks of a driver that is a plugin: a real one, in another process, behind a socket.

use crate::network::{World, networked, sh};
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
        let (socket, log) = (dir.join("toy.sock"), dir.join("log"));
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

    fn forget(&self) {
        std::fs::write(&self.log, "").expect("empty the log");
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    // One that ended by itself is settled by who comes next.
    world.root.start(&one);
    plugin.forget();
    world.root.engine.container_kill(&one, None, None).expect("kill");
    wait_for("its end", || world.root.status(&one) == "exited");
    let mut options = options_at(&world.root.dir);
    options.plugin_dirs = vec![world.root.dir.join("plugins")];
    drop(coracle::Engine::open_with(options).expect("open the root again"));
    assert_eq!(plugin.names(), ["Leave", "DeleteEndpoint", "ReleaseAddress"]);
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
    // A monitor speaks to no plugin: what restarts is refused.
    let mut again = on;
    again["HostConfig"]["RestartPolicy"] = json!({ "Name": "always" });
    let id = world.root.create("again", crate::support::body(&["true"], again));
    let text = "a restart policy (always) on network far of the plugin toy is not supported yet";
    fails(world.root.engine.container_start(&id, None, None), coracle::ErrorKind::Unsupported, text);
    world.root.engine.network_remove("far").expect("remove");
    assert!(world.root.engine.network_inspect("bridge").expect("inspect").containers.len() == 1);
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
