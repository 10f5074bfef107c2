//! The ladder: how each version of the API differs from the newest shapes, one row for each change of a document.

use super::Version;
use crate::json::{Member, Node};
use serde_json::{Map, Value, json};

/// The fields of a request body, under their canonical names.
type Fields<'t> = [Member<'t>];
/// The members of an answer.
type Members = Map<String, Value>;

/// A document that differs between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noun {
    /// Inspect of a container.
    Container,
    /// A sample of a container's use.
    Stats,
    /// Inspect of an image.
    Image,
    /// An image of the list.
    ListedImage,
    /// Inspect of a network.
    Network,
    /// A network of the list.
    ListedNetwork,
    Info,
    Version,
}

/// The versions that a change concerns.
#[derive(Debug, Clone, Copy)]
enum Of {
    /// Versions before 1.n, which do not have a later shape.
    Before(u64),
    /// Versions from 1.n on, which have lost something.
    From(u64),
    /// Versions from 1.n on that the request names: the client of a request without a version may be older, and read it.
    NamedFrom(u64),
}

impl Of {
    fn holds(self, version: &Version) -> bool {
        match self {
            Of::Before(minor) => version.number < (1, minor),
            Of::From(minor) => version.number >= (1, minor),
            Of::NamedFrom(minor) => version.named && version.number >= (1, minor),
        }
    }
}

/// Brings an answer to the shape of earlier or later versions.
type Change = fn(&mut Members);

/// Brings a create body to the newest shape.
type Lift = for<'a> fn(&mut Fields<'a>);

/// The changes of answers, oldest first. An answer in the newest shape goes through the rows of its noun from the last one up.
const ANSWERS: &[(Of, Noun, Change)] = &[
    (Of::Before(19), Noun::Info, flags_as_numbers),
    (Of::Before(20), Noun::Container, volumes_for_mounts),
    (Of::Before(21), Noun::Container, without_networks),
    (Of::Before(21), Noun::Stats, one_network),
    (Of::Before(22), Noun::Container, with_lxc),
    (Of::Before(25), Noun::Info, execution_driver),
    (Of::From(25), Noun::Info, without_old_settings),
    (Of::Before(25), Noun::Image, with_host_fields),
    (Of::Before(25), Noun::Image, without_variant),
    (Of::Before(25), Noun::Network, with_specified_names),
    (Of::Before(25), Noun::ListedNetwork, with_specified_names),
    (Of::From(28), Noun::ListedNetwork, without_containers),
    (Of::From(32), Noun::Info, without_init_program),
    (Of::Before(35), Noun::Version, without_components),
    (Of::From(42), Noun::Info, without_kernel_memory),
    (Of::From(43), Noun::ListedImage, without_placeholders),
    (Of::NamedFrom(44), Noun::ListedImage, without_virtual_size),
    (Of::NamedFrom(44), Noun::Image, without_virtual_size),
    (Of::Before(44), Noun::Info, without_cdi),
    (Of::From(45), Noun::Image, without_build_container),
    (Of::Before(48), Noun::Network, without_ipv4_flag),
    (Of::Before(48), Noun::ListedNetwork, without_ipv4_flag),
    (Of::Before(49), Noun::Info, without_firewall),
    (Of::Before(50), Noun::Info, without_devices),
    (Of::From(50), Noun::Info, without_bridge_filters),
    (Of::From(50), Noun::Image, without_container_fields),
    (Of::Before(52), Noun::Network, without_status),
    (Of::From(52), Noun::ListedNetwork, without_any_containers),
    (Of::From(52), Noun::Container, networks_alone),
    (Of::From(52), Noun::Image, without_empty_members),
];

/// The changes of a create body: for versions before 1.n.
const CREATES: &[(u64, Lift)] = &[(19, clamp_cpu_shares)];

impl Version {
    /// Brings a create body (canonical names) to the newest shape.
    pub(crate) fn lift_create(&self, body: &mut Fields<'_>) {
        for (_, lift) in CREATES.iter().filter(|(since, _)| self.number < (1, *since)) {
            lift(body);
        }
    }

    /// Brings an answer to the version's shape.
    pub(crate) fn lower(&self, noun: Noun, answer: &mut Members) {
        for (_, _, change) in ANSWERS.iter().rev().filter(|(of, whose, _)| *whose == noun && of.holds(self)) {
            change(answer);
        }
    }

    /// Whether the version has another shape of the document than the newest.
    pub(crate) fn changes(&self, noun: Noun) -> bool {
        ANSWERS.iter().any(|(of, whose, _)| *whose == noun && of.holds(self))
    }
}

fn field<'a, 't>(fields: &'a mut Fields<'t>, name: &str) -> Option<&'a mut Node<'t>> {
    fields.iter_mut().find(|(n, _)| n == name).map(|(_, v)| v)
}

fn host_config<'a, 't>(body: &'a mut Fields<'t>) -> Option<&'a mut Vec<Member<'t>>> {
    match field(body, "HostConfig") {
        Some(Node::Object(fields)) => Some(fields),
        _ => None,
    }
}

fn clamp_cpu_shares(body: &mut Fields<'_>) {
    let Some(Node::Number(shares)) = host_config(body).and_then(|host| field(host, "CpuShares")) else { return };
    match shares.parse::<i64>() {
        Ok(n) if n > 0 => *shares = n.clamp(2, 262_144).to_string().into(),
        _ => {}
    }
}

/// 1.20 brought `Mounts` for `Volumes` and `VolumesRW`, and took the limits out of `Config`.
fn volumes_for_mounts(answer: &mut Members) {
    let mounts = answer.remove("Mounts").unwrap_or_default();
    let (mut volumes, mut writable) = (Map::new(), Map::new());
    for mount in mounts.as_array().into_iter().flatten() {
        let Some(destination) = mount["Destination"].as_str() else { continue };
        volumes.insert(destination.to_owned(), mount["Source"].clone());
        writable.insert(destination.to_owned(), mount["RW"].clone());
    }
    answer.insert("Volumes".into(), volumes.into());
    answer.insert("VolumesRW".into(), writable.into());
    if let Some(Value::Object(settings)) = answer.get_mut("NetworkSettings") {
        settings.insert("PortMapping".into(), Value::Null);
    }
    let host = answer.get("HostConfig").cloned().unwrap_or_default();
    if let Some(Value::Object(config)) = answer.get_mut("Config") {
        for (name, source) in
            [("Memory", "Memory"), ("MemorySwap", "MemorySwap"), ("CpuShares", "CpuShares"), ("Cpuset", "CpusetCpus")]
        {
            config.insert(name.into(), host[source].clone());
        }
    }
}

/// 1.19 made flags of four numbers, and brought counts by state, the architecture, plugins and versions.
fn flags_as_numbers(answer: &mut Members) {
    for name in ["Debug", "IPv4Forwarding", "MemoryLimit", "SwapLimit"] {
        if let Some(flag) = answer.get_mut(name) {
            *flag = u8::from(flag.as_bool().unwrap_or(false)).into();
        }
    }
    for name in LATER_THAN_18 {
        answer.remove(name);
    }
}

const LATER_THAN_18: [&str; 8] = [
    "Architecture",
    "CgroupVersion",
    "ContainersPaused",
    "ContainersRunning",
    "ContainersStopped",
    "OSVersion",
    "Plugins",
    "ServerVersion",
];

/// 1.22 ended the execution drivers: `ExecDriver`, and the settings of one of them, are shown before. There is none here.
fn with_lxc(answer: &mut Members) {
    answer.insert("ExecDriver".into(), NO_EXECUTION_DRIVER.into());
    if let Some(Value::Object(host)) = answer.get_mut("HostConfig") {
        host.insert("LxcConf".into(), json!([]));
    }
}

const NO_EXECUTION_DRIVER: &str = "<not supported>";

/// 1.21 brought `NetworkSettings.Networks`, took the volume driver out of `Config` and left empty options out.
fn without_networks(answer: &mut Members) {
    if let Some(Value::Object(settings)) = answer.get_mut("NetworkSettings") {
        settings.remove("Networks");
    }
    let driver = answer.get("HostConfig").map(|host| host["VolumeDriver"].clone()).unwrap_or_default();
    if let Some(Value::Object(config)) = answer.get_mut("Config") {
        for (name, empty) in
            [("MacAddress", json!("")), ("NetworkDisabled", json!(false)), ("ExposedPorts", Value::Null)]
        {
            config.entry(name).or_insert(empty);
        }
        config.insert("VolumeDriver".into(), driver);
    }
}

/// 1.21 brought the container's name and id, and `networks`, by interface, for the sum of them all.
fn one_network(answer: &mut Members) {
    if answer.get("read").and_then(Value::as_str).is_some_and(|read| read.starts_with("0001-")) {
        // A container that does not run has one shape in all versions.
        return;
    }
    answer.remove("name");
    answer.remove("id");
    let networks = answer.remove("networks").unwrap_or_default();
    let mut sum = Map::new();
    for name in NETWORK_COUNTERS {
        let each = networks.as_object().into_iter().flat_map(Map::values);
        sum.insert(name.into(), each.filter_map(|one| one[name].as_u64()).fold(0, u64::wrapping_add).into());
    }
    answer.insert("network".into(), sum.into());
}

const NETWORK_COUNTERS: [&str; 8] =
    ["rx_bytes", "rx_packets", "rx_errors", "rx_dropped", "tx_bytes", "tx_packets", "tx_errors", "tx_dropped"];

/// Clients before 1.25 expect the name of an execution driver, and security options as bare names, those of their time.
fn execution_driver(answer: &mut Members) {
    answer.insert("ExecutionDriver".into(), NO_EXECUTION_DRIVER.into());
    if let Some(Value::Array(options)) = answer.get_mut("SecurityOptions") {
        options.retain(|option| option != "name=cgroupns");
        for option in options {
            let bare = option.as_str().map(|text| {
                let first = text.split(',').next().unwrap_or(text);
                first.strip_prefix("name=").unwrap_or(first).to_owned()
            });
            if let Some(bare) = bare {
                *option = bare.into();
            }
        }
    }
    if answer.get("SecurityOptions").is_some_and(|options| options == &json!([])) {
        answer.insert("SecurityOptions".into(), Value::Null);
    }
}

/// Members of the contract that later descriptions lack, and that dockerd shows to no client.
fn without_old_settings(answer: &mut Members) {
    for name in ["ExecutionDriver", "EngineRootDir", "SystemStatus", "ClusterStore", "ClusterAdvertise"] {
        answer.remove(name);
    }
}

/// The contract has two members of a configuration that moved to the host configuration before it, and are of no image.
fn with_host_fields(answer: &mut Members) {
    if let Some(Value::Object(config)) = answer.get_mut("ContainerConfig") {
        config.insert("Dns".into(), Value::Null);
        config.insert("VolumesFrom".into(), "".into());
    }
}

/// The contract does not have the variant of a processor.
fn without_variant(answer: &mut Members) {
    answer.remove("Variant");
}

/// The contract has names of its own, beside those that clients read, for addresses that are set aside and for the options of
/// the default network.
fn with_specified_names(answer: &mut Members) {
    let pools = answer.get_mut("IPAM").and_then(|ipam| ipam.get_mut("Config")).and_then(Value::as_array_mut);
    for pool in pools.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(addresses) = pool.get("AuxiliaryAddresses").cloned() {
            pool.insert("AuxAddress".into(), addresses);
        }
    }
    if answer.get("Name").is_some_and(|name| name == "bridge")
        && let Some(Value::Object(options)) = answer.get_mut("Options")
    {
        let twin = |(key, value): (&String, &Value)| {
            key.strip_prefix("com.docker.network.").map(|rest| (format!("com.engine.network.{rest}"), value.clone()))
        };
        let twins: Vec<_> = options.iter().filter_map(twin).collect();
        options.extend(twins);
    }
}

/// 1.28 took the endpoints out of the list of networks: inspect has them. Engines show the empty member.
fn without_containers(answer: &mut Members) {
    if let Some(containers) = answer.get_mut("Containers") {
        *containers = json!({});
    }
}

/// 1.32 describes no digest of an init program any more.
fn without_init_program(answer: &mut Members) {
    answer.remove("InitPath");
    answer.remove("InitSha1");
}

/// 1.35 brought the parts of the engine and the product's name.
fn without_components(answer: &mut Members) {
    answer.remove("Components");
    answer.remove("Platform");
}

/// 1.42 ignores limits of the kernel's memory.
fn without_kernel_memory(answer: &mut Members) {
    answer.remove("KernelMemory");
}

/// 1.43 gives an image without a name empty lists.
fn without_placeholders(answer: &mut Members) {
    for name in ["RepoTags", "RepoDigests"] {
        match answer.get_mut(name) {
            Some(Value::Array(names)) => {
                names.retain(|name| !name.as_str().is_some_and(|name| name.starts_with("<none>")))
            }
            Some(none) => *none = json!([]),
            None => {}
        }
    }
}

/// 1.44 dropped the size that had become equal to `Size`.
fn without_virtual_size(answer: &mut Members) {
    answer.remove("VirtualSize");
}

/// 1.44 brought the directories of CDI specifications.
fn without_cdi(answer: &mut Members) {
    answer.remove("CDISpecDirs");
}

/// 1.45 dropped the container that a build step ran in.
fn without_build_container(answer: &mut Members) {
    answer.remove("Container");
    answer.remove("ContainerConfig");
}

/// 1.48 brought networks without IPv4, which this engine does not make.
fn without_ipv4_flag(answer: &mut Members) {
    answer.remove("EnableIPv4");
}

/// 1.49 brought the name of the packet filter.
fn without_firewall(answer: &mut Members) {
    answer.remove("FirewallBackend");
}

/// 1.50 brought the devices of CDI specifications.
fn without_devices(answer: &mut Members) {
    answer.remove("DiscoveredDevices");
}

/// 1.50 dropped two settings of the host that do not matter any more.
fn without_bridge_filters(answer: &mut Members) {
    answer.remove("BridgeNfIptables");
    answer.remove("BridgeNfIp6tables");
}

/// 1.50 dropped the fields of a container's configuration that no image has.
fn without_container_fields(answer: &mut Members) {
    if let Some(Value::Object(config)) = answer.get_mut("Config") {
        for name in CONTAINERS_ALONE {
            config.remove(name);
        }
    }
}

const CONTAINERS_ALONE: [&str; 12] = [
    "AttachStderr",
    "AttachStdin",
    "AttachStdout",
    "Domainname",
    "Hostname",
    "Image",
    "MacAddress",
    "NetworkDisabled",
    "OpenStdin",
    "StdinOnce",
    "StopTimeout",
    "Tty",
];

/// 1.52 brought the use of a network's addresses.
fn without_status(answer: &mut Members) {
    answer.remove("Status");
}

/// 1.52 dropped the member that had been empty since 1.28.
fn without_any_containers(answer: &mut Members) {
    answer.remove("Containers");
}

/// 1.52 dropped what had stood twice since 1.21: the settings of the default network beside those of all networks.
fn networks_alone(answer: &mut Members) {
    if let Some(Value::Object(settings)) = answer.get_mut("NetworkSettings") {
        settings.retain(|name, _| matches!(name.as_str(), "SandboxID" | "SandboxKey" | "Ports" | "Networks"));
    }
    if let Some(Value::Object(config)) = answer.get_mut("Config")
        && config.get("OnBuild").is_some_and(is_empty)
    {
        config.remove("OnBuild");
    }
}

/// 1.52 leaves out what an image does not have.
fn without_empty_members(answer: &mut Members) {
    let drop = |members: &mut Members, names: &[&str]| {
        members.retain(|name, value| !names.contains(&name.as_str()) || !is_empty(value));
    };
    drop(answer, &["Parent", "Comment", "DockerVersion", "Author"]);
    if let Some(Value::Object(config)) = answer.get_mut("Config") {
        drop(config, &["Cmd", "Entrypoint", "Env", "Labels", "OnBuild", "User", "Volumes", "WorkingDir"]);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ApiVersion;
    use super::*;
    use crate::json::Node;
    use crate::schema;

    fn v(text: &str) -> Version {
        Version::parse(text)
    }

    fn lifted(version: &str, text: &str) -> Value {
        let Node::Object(mut body) = schema::read(text.as_bytes(), &schema::CREATE).unwrap() else { panic!() };
        v(version).lift_create(&mut body);
        crate::json::to_value(&Node::Object(body))
    }

    #[test]
    fn create_is_lifted() {
        // True counts at every version: clients that remove containers by themselves send false.
        let text = "{\"HostConfig\":{\"CpuShares\":1,\"AutoRemove\":true}}";
        assert_eq!(lifted("1.18", text), json!({"HostConfig": {"CpuShares": 2, "AutoRemove": true}}));
        assert_eq!(lifted("1.24", text), json!({"HostConfig": {"CpuShares": 1, "AutoRemove": true}}));
    }

    #[test]
    fn info_is_lowered() {
        let answer = json!({"Debug": false, "MemoryLimit": true, "SwapLimit": true, "IPv4Forwarding": true, "Images": 2,
            "Plugins": {}, "ServerVersion": "0", "ContainersRunning": 1, "ExecutionDriver": "", "SecurityOptions": ["name=x,y"]});
        let lowered = |version: &str| {
            let mut answer = answer.as_object().unwrap().clone();
            v(version).lower(Noun::Info, &mut answer);
            Value::Object(answer)
        };
        let old = json!({"Debug": 0, "MemoryLimit": 1, "SwapLimit": 1, "IPv4Forwarding": 1, "Images": 2,
            "ExecutionDriver": "<not supported>", "SecurityOptions": ["x"]});
        assert_eq!(lowered("1.18"), old);
        let next = lowered("1.19");
        assert_eq!((&next["MemoryLimit"], &next["ServerVersion"]), (&json!(true), &json!("0")));
    }

    #[test]
    fn stats_are_lowered() {
        let answer = json!({"networks": {"eth0": {"rx_bytes": 5, "tx_errors": 1}, "eth1": {"rx_bytes": 7}}});
        let lowered = |version: &str, answer: &Value| {
            let mut answer = answer.as_object().unwrap().clone();
            v(version).lower(Noun::Stats, &mut answer);
            Value::Object(answer)
        };
        assert_eq!(lowered("1.21", &answer), answer);
        let old = lowered("1.20", &answer);
        assert!(old.get("networks").is_none());
        assert_eq!((&old["network"]["rx_bytes"], &old["network"]["tx_errors"]), (&json!(12), &json!(1)));
        assert_eq!(lowered("1.18", &json!({"read": "2026-11-21T00:00:00Z"}))["network"]["tx_dropped"], 0);
        assert_eq!(lowered("1.18", &json!({"read": "0001-01-01T00:00:00Z", "id": "x"})).as_object().unwrap().len(), 2);
    }

    fn inspected(version: &str) -> Value {
        let answer = json!({
            "Mounts": [{"Source": "/a", "Destination": "/b", "RW": true}],
            "HostConfig": {"Memory": 5, "MemorySwap": 6, "CpuShares": 7, "CpusetCpus": "0", "VolumeDriver": "d"},
            "Config": {"Image": "i"},
            "NetworkSettings": {"Networks": {}, "Gateway": ""},
        });
        let Value::Object(mut answer) = answer else { panic!() };
        v(version).lower(Noun::Container, &mut answer);
        Value::Object(answer)
    }

    #[test]
    fn inspect_is_lowered() {
        assert!(
            inspected("1.22").get("ExecDriver").is_none() && inspected("1.22")["HostConfig"].get("LxcConf").is_none()
        );
        let twenty_one = inspected("1.21");
        assert_eq!(twenty_one["Config"], json!({"Image": "i"}));
        assert_eq!(
            (&twenty_one["ExecDriver"], &twenty_one["HostConfig"]["LxcConf"]),
            (&json!("<not supported>"), &json!([]))
        );
        let twenty = inspected("1.20");
        assert!(twenty["Mounts"].is_array() && twenty["NetworkSettings"].get("Networks").is_none());
        assert_eq!(
            twenty["Config"],
            json!({"Image": "i", "MacAddress": "", "NetworkDisabled": false, "ExposedPorts": null, "VolumeDriver": "d"})
        );
        let nineteen = inspected("1.19");
        assert!(nineteen.get("Mounts").is_none());
        assert_eq!((&nineteen["Volumes"], &nineteen["VolumesRW"]), (&json!({"/b": "/a"}), &json!({"/b": true})));
        assert_eq!(nineteen["NetworkSettings"].get("PortMapping"), Some(&Value::Null));
        assert!(twenty["NetworkSettings"].get("PortMapping").is_none());
        assert_eq!(nineteen["Config"]["Cpuset"], json!("0"));
        assert_eq!(nineteen["Config"]["Memory"], json!(5));
    }

    fn of_image(version: &Version, noun: Noun) -> Value {
        let answer = json!({"RepoTags": ["<none>:<none>"], "RepoDigests": null, "Size": 5, "VirtualSize": 5});
        let Value::Object(mut answer) = answer else { panic!() };
        version.lower(noun, &mut answer);
        Value::Object(answer)
    }

    #[test]
    fn images_lose_what_later_versions_dropped() {
        let whole = json!({"RepoTags": ["<none>:<none>"], "RepoDigests": null, "Size": 5, "VirtualSize": 5});
        let lists = json!({"RepoTags": [], "RepoDigests": [], "Size": 5, "VirtualSize": 5});
        assert_eq!(of_image(&v("1.24"), Noun::ListedImage), whole);
        assert_eq!(of_image(&v("1.43"), Noun::ListedImage), lists);
        let newest = json!({"RepoTags": [], "RepoDigests": [], "Size": 5});
        assert_eq!(of_image(&v("1.44"), Noun::ListedImage), newest);
        // A client that names no version may be older than 1.44.
        assert_eq!(of_image(&Version::unversioned(ApiVersion::NEWEST), Noun::ListedImage), lists);
        assert_eq!(of_image(&v("1.43"), Noun::Image), whole);
        assert!(of_image(&v("1.44"), Noun::Image).get("VirtualSize").is_none());
    }

    #[test]
    fn later_members_are_not_shown_before() {
        let lowered = |version: &str, noun, answer: Value| {
            let Value::Object(mut answer) = answer else { panic!() };
            v(version).lower(noun, &mut answer);
            Value::Object(answer)
        };
        let version = json!({"Version": "1", "Components": [], "Platform": {}});
        assert_eq!(lowered("1.34", Noun::Version, version.clone()), json!({"Version": "1"}));
        assert_eq!(lowered("1.35", Noun::Version, version.clone()), version);
        let network = json!({"Name": "n", "Containers": {"id": {}}});
        assert_eq!(lowered("1.27", Noun::ListedNetwork, network.clone()), network);
        assert_eq!(lowered("1.28", Noun::ListedNetwork, network), json!({"Name": "n", "Containers": {}}));
    }

    #[test]
    fn later_versions_leave_out_what_stands_elsewhere_or_is_empty() {
        let lowered = |version: &str, noun, answer: &Value| {
            let mut answer = answer.as_object().unwrap().clone();
            v(version).lower(noun, &mut answer);
            Value::Object(answer)
        };
        let image = json!({"Id": "i", "Parent": "", "Author": "a", "Container": "", "ContainerConfig": {}, "Size": 0,
            "Config": {"Hostname": "", "Tty": false, "Cmd": ["sh"], "Env": [], "Labels": null, "User": ""}});
        assert_eq!(lowered("1.44", Noun::Image, &image), image);
        assert_eq!(
            lowered("1.50", Noun::Image, &image)["Config"],
            json!({"Cmd": ["sh"], "Env": [], "Labels": null, "User": ""})
        );
        let newest = json!({"Id": "i", "Author": "a", "Size": 0, "Config": {"Cmd": ["sh"]}});
        assert_eq!(lowered("1.52", Noun::Image, &image), newest);
        let container = json!({"Config": {"OnBuild": null, "Cmd": null}, "NetworkSettings":
            {"Bridge": "", "IPAddress": "10.0.0.2", "SandboxID": "s", "SandboxKey": "k", "Ports": {}, "Networks": {}}});
        assert_eq!(lowered("1.51", Noun::Container, &container), container);
        let newest = json!({"Config": {"Cmd": null},
            "NetworkSettings": {"SandboxID": "s", "SandboxKey": "k", "Ports": {}, "Networks": {}}});
        assert_eq!(lowered("1.52", Noun::Container, &container), newest);
        let info = json!({"BridgeNfIptables": true, "FirewallBackend": {}, "DiscoveredDevices": [], "CDISpecDirs": []});
        assert_eq!(lowered("1.49", Noun::Info, &info)["DiscoveredDevices"], Value::Null);
        assert_eq!(lowered("1.50", Noun::Info, &info).get("BridgeNfIptables"), None);
        assert_eq!(lowered("1.43", Noun::Info, &info), json!({"BridgeNfIptables": true}).clone());
    }

    /// The answers that are asked for most often go out as the engine has them.
    #[test]
    fn newest_shapes_need_no_change() {
        let (unversioned, newest) = (Version::unversioned(ApiVersion::NEWEST), v("1.44"));
        for version in [unversioned, newest, v("1.51"), v("1.24"), v("1.22")] {
            assert!(!version.changes(Noun::Container) && !version.changes(Noun::Stats), "{version}");
        }
        assert!(v("1.21").changes(Noun::Container) && v("1.20").changes(Noun::Stats));
    }
}
