//! Fields of endpoints that versions of the API after 1.24 brought: options, priorities, names.

use crate::container_later_fields::ask;
use crate::network::World;
use crate::support::*;
use coracle::ErrorKind;
use coracle_http::Router;
use serde_json::{Value, json};

const SYSCTLS: &str = "com.docker.network.endpoint.sysctls";
const IFNAME: &str = "com.docker.network.endpoint.ifname";

fn network(world: &World, name: &str) {
    let create = serde_json::from_value(json!({ "Name": name })).expect("a network");
    world.root.engine.network_create(&create).expect("create");
}

/// A request for endpoints on networks; the first one is that of the mode.
fn on(ends: &[(&str, Value)]) -> Value {
    let all: serde_json::Map<String, Value> =
        ends.iter().map(|(name, end)| ((*name).to_owned(), end.clone())).collect();
    json!({ "HostConfig": { "NetworkMode": ends[0].0 }, "NetworkingConfig": { "EndpointsConfig": all } })
}

fn connect(world: &World, network: &str, container: &str, end: Value) -> coracle::Result<()> {
    let body = serde_json::from_value(json!({ "Container": container, "EndpointConfig": end })).expect("a body");
    world.root.engine.network_connect(network, &body, None)
}

// field: NetworkingConfig.EndpointsConfig.DriverOpts
#[test]
fn options_of_an_endpoint_set_parameters_and_the_name_of_its_interface() {
    let world = World::new();
    let root = &world.root;
    network(&world, "one-net");
    network(&world, "two-net");
    let martians = |name: &str| format!("cat /proc/sys/net/ipv4/conf/{name}/log_martians");
    let options = json!({ "DriverOpts": { SYSCTLS: "net.ipv4.conf.IFNAME.log_martians=1,net.ipv4.neigh.IFNAME.gc_stale_time=77",
        IFNAME: "up0" } });
    let id = world.sleeper("set", on(&[("one-net", options)]));
    assert_eq!(root.exec(&id, &["sh", "-c", &martians("up0")]).ok(), "1");
    assert_eq!(root.exec(&id, &["cat", "/proc/sys/net/ipv4/neigh/up0/gc_stale_time"]).ok(), "77");
    assert_eq!(root.exec(&id, &["sh", "-c", "ls /sys/class/net | grep -v lo"]).ok(), "up0");
    // A running container: the other interface has the kernel's own value.
    let options = json!({ "DriverOpts": { SYSCTLS: "net.ipv4.conf.IFNAME.log_martians=1" } });
    connect(&world, "two-net", &id, options).expect("connect");
    assert_eq!(root.exec(&id, &["sh", "-c", &martians("eth0")]).ok(), "1");
    assert_eq!(root.exec(&id, &["sh", "-c", &martians("default")]).ok(), "0");
    // Both hold at the next start.
    root.engine.container_restart(&id, Some(0), None).expect("restart");
    assert_eq!(root.exec(&id, &["sh", "-c", &format!("{}; {}", martians("up0"), martians("eth0"))]).ok(), "1\n1");
    let kept = root.inspect(&id).network_settings.networks["one-net"].driver_opts.clone().expect("options");
    assert_eq!(kept[IFNAME], "up0");
    refused(&world);
}

fn refused(world: &World) {
    let tried = |options: Value| {
        let end = on(&[("one-net", json!({ "DriverOpts": options }))]);
        world.root.try_create("", body(&["true"], end))
    };
    let outside = tried(json!({ SYSCTLS: "net.ipv4.conf.all.forwarding=1" }));
    fails(outside, ErrorKind::Invalid, "unrecognised network interface sysctl 'net.ipv4.conf.all.forwarding=1'");
    fails(tried(json!({ IFNAME: "a/b" })), ErrorKind::Invalid, "invalid interface name");
    let options = json!({ "DriverOpts": { "com.example.colour": "red" } });
    let id = world.root.create("", body(&["true"], on(&[("one-net", options.clone())])));
    let started = world.root.engine.container_start(&id, None, None);
    fails(started, ErrorKind::Unsupported, "the driver bridge has no option \"com.example.colour\"");
    let id = world.sleeper("plain", json!({}));
    fails(connect(world, "one-net", &id, options), ErrorKind::Unsupported, "com.example.colour");
    let taken = json!({ "DriverOpts": { IFNAME: "eth0" } });
    fails(connect(world, "one-net", &id, taken), ErrorKind::Invalid, "has an interface \"eth0\"");
}

// field: NetworkingConfig.EndpointsConfig.GwPriority
#[test]
fn the_default_route_goes_over_the_network_of_the_highest_priority() {
    let world = World::new();
    let root = &world.root;
    for name in ["a-net", "b-net", "c-net"] {
        network(&world, name);
    }
    let via = |id: &str| {
        let route = root.exec(id, &["sh", "-c", "ip route | grep default"]).ok();
        let networks = root.inspect(id).network_settings.networks;
        let gateway = |name: &&String| route.contains(&format!("via {} ", networks[*name].gateway));
        networks.keys().find(gateway).cloned().unwrap_or(route)
    };
    let id = world.sleeper("routed", on(&[("a-net", json!({})), ("b-net", json!({ "GwPriority": 5 }))]));
    assert_eq!(via(&id), "b-net");
    connect(&world, "c-net", &id, json!({ "GwPriority": 9 })).expect("connect");
    assert_eq!(via(&id), "c-net");
    let leave = serde_json::from_value(json!({ "Container": id })).expect("a body");
    root.engine.network_disconnect("c-net", &leave, None).expect("disconnect");
    assert_eq!(via(&id), "b-net");
    let low = world.sleeper("low", on(&[("a-net", json!({ "GwPriority": -1 })), ("b-net", json!({}))]));
    assert_eq!(via(&low), "b-net");
}

#[test]
fn inspect_shows_the_names_that_neighbours_ask_for() {
    let world = World::new();
    let root = &world.root;
    let router = Router::new(root.engine.clone());
    network(&world, "named-net");
    let end = on(&[("named-net", json!({ "Aliases": ["db", "web"], "GwPriority": 2 }))]);
    let mut more = end;
    more["Hostname"] = json!("tower");
    let id = world.sleeper("web", more);
    let networks = |prefix: &str| {
        let shown = ask(&router, "GET", &format!("{prefix}/containers/{id}/json")).1;
        shown["NetworkSettings"]["Networks"]["named-net"].clone()
    };
    assert_eq!(networks("/v1.44")["DNSNames"], json!(["web", "db", &id[..12], "tower"]));
    assert_eq!(networks("/v1.43").get("DNSNames"), None);
    assert_eq!(networks("/v1.44").get("GwPriority"), None);
    // Each of them is an answer.
    let look = "for name in web db tower; do ping -c 1 -w 10 $name >/dev/null && echo $name; done";
    let asked = world.run(look, json!({ "HostConfig": { "NetworkMode": "named-net" } }));
    assert_eq!(asked.out(), "web\ndb\ntower");
    let plain = world.sleeper("plain", json!({}));
    assert_eq!(root.inspect(&plain).network_settings.networks["bridge"].dns_names, None);
}

#[test]
fn a_mac_address_belongs_to_an_endpoint() {
    let world = World::new();
    let router = Router::new(world.root.engine.clone());
    network(&world, "mac-net");
    let create = |prefix: &str, own: &str, theirs: &str| {
        let mut asked = body(&["true"], on(&[("mac-net", json!({ "MacAddress": theirs }))]));
        asked["MacAddress"] = json!(own);
        let json = [("Content-Type", "application/json")];
        let text = asked.to_string().into_bytes();
        let reply =
            router.request("POST", &format!("{prefix}/containers/create"), &json, text, None).expect("an answer");
        let coracle_http::ReplyBody::Bytes(bytes) = reply.body else { panic!("a stream") };
        (reply.status, serde_json::from_slice::<Value>(&bytes).expect("a document"))
    };
    let (one, two) = ("02:42:00:00:00:01", "02:42:00:00:00:02");
    let (status, told) = create("/v1.44", one, two);
    let message = told["message"].as_str().unwrap_or_default();
    assert!(status == 400 && message.starts_with("the container-wide MAC address must match"), "{status} {told}");
    let (status, told) = create("/v1.44", one, one);
    assert_eq!(status, 201, "{told}");
    let warning = told["Warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("The container-wide MacAddress field is now deprecated."), "{told}");
    for (prefix, own, theirs) in [("/v1.43", one, ""), ("/v1.44", "", two)] {
        let (status, told) = create(prefix, own, theirs);
        assert!(status == 201 && told["Warnings"].as_array().is_none_or(Vec::is_empty), "{prefix} {told}");
    }
}
