//! The one place that knows API versions.
//!
//! The engine speaks the newest shapes. The ladder below lists, oldest first, what each version changed: a request that
//! is older than a rung is lifted by it, an answer to it is lowered. Nothing else in the project compares versions.

use crate::json::{Member, Node};
use serde_json::{Map, Value, json};
use std::fmt;

/// A version as the path gave it: dotted numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    text: String,
    number: (u64, u64),
    /// Whether the path named it: one without a version is answered by the newest one that there will be.
    named: bool,
}

/// The newest version, which requests without a version get too.
pub(crate) const NEWEST: &str = "1.24";
/// The oldest version that is answered: the first that is specified.
pub(crate) const OLDEST: &str = "1.18";

impl Version {
    pub(crate) fn newest() -> Version {
        Version { named: false, ..Version::parse(NEWEST) }
    }
    /// `text`: digits and dots; an empty part is 0. Parts after the second do not count.
    pub(crate) fn parse(text: &str) -> Version {
        let mut parts = text.split('.').map(|p| if p.is_empty() { 0 } else { p.parse().unwrap_or(u64::MAX) });
        let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        Version { text: text.to_owned(), number, named: true }
    }
    /// Why the version is not served, if it is not.
    pub(crate) fn refusal(&self) -> Option<String> {
        if self.number > Version::parse(NEWEST).number {
            return Some(format!("client version {self} is too new. Maximum supported API version is {NEWEST}"));
        }
        (self.number < Version::parse(OLDEST).number).then(|| {
            format!(
                "client version {self} is too old. Minimum supported API version is {OLDEST}, please upgrade your \
                 client to a newer version"
            )
        })
    }
    /// Whether the version has what `gate` names.
    pub(crate) fn has(&self, gate: Gate) -> bool {
        let minor = GATES.iter().find(|(_, g)| *g == gate).map_or(0, |(since, _)| *since);
        self.number >= (1, minor) || !self.named
    }
    /// Brings a create body (canonical names) to the newest shape.
    pub(crate) fn lift_create(&self, body: &mut Fields<'_>) {
        for change in LADDER.iter().filter(|c| self.number < (1, c.since)) {
            if let Some(lift) = change.create {
                lift(body);
            }
        }
    }
    /// Brings an inspect answer to the version's shape.
    pub(crate) fn lower_inspect(&self, answer: &mut Map<String, Value>) {
        for change in LADDER.iter().rev().filter(|c| self.number < (1, c.since)) {
            if let Some(lower) = change.inspect {
                lower(answer);
            }
        }
    }
    /// Brings a sample of a container's use to the version's shape.
    pub(crate) fn lower_stats(&self, answer: &mut Map<String, Value>) {
        for change in LADDER.iter().rev().filter(|c| self.number < (1, c.since)) {
            if let Some(lower) = change.stats {
                lower(answer);
            }
        }
    }
    /// Brings an info answer to the version's shape.
    pub(crate) fn lower_info(&self, answer: &mut Map<String, Value>) {
        for change in LADDER.iter().rev().filter(|c| self.number < (1, c.since)) {
            if let Some(lower) = change.info {
                lower(answer);
            }
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A behaviour that begins with a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Killing a container that does not run is an error.
    KillNeedsRunning,
    /// Inspect takes `size`.
    InspectSize,
    /// Inspect answers have the newest shape: no rung lowers them.
    InspectNewest,
    /// Samples of a container's use have the newest shape.
    StatsNewest,
    /// A body of exec start must be called JSON.
    ExecStartJson,
    /// Errors are JSON documents, not text.
    JsonErrors,
    /// Start takes no host configuration any more.
    StartWithoutBody,
    /// The copy endpoint is gone.
    NoCopy,
    /// Inspecting an exec names its container; before, the answer held the container whole.
    ExecNewest,
    /// Removing a network has an answer without content.
    NetworkRemovalIsEmpty,
    /// A container's host name must be one by RFC 1123.
    HostnameRule,
    /// That the host is outside of a swarm is a service that is not there, no request that is not acceptable.
    NoSwarm,
}

/// (minor version that begins it, behaviour).
const GATES: &[(u64, Gate)] = &[
    (20, Gate::KillNeedsRunning),
    (21, Gate::InspectSize),
    (22, Gate::InspectNewest),
    (21, Gate::StatsNewest),
    (22, Gate::ExecStartJson),
    (24, Gate::JsonErrors),
    (24, Gate::StartWithoutBody),
    (24, Gate::NoCopy),
    (22, Gate::ExecNewest),
    (23, Gate::NetworkRemovalIsEmpty),
    (24, Gate::HostnameRule),
    (25, Gate::NoSwarm),
];

/// The fields of a request body, under their canonical names.
type Fields<'t> = [Member<'t>];

/// One rung: what version 1.`since` changed, as the way back for requests and answers older than it.
struct Change {
    since: u64,
    create: Option<fn(&mut Fields<'_>)>,
    inspect: Option<fn(&mut Map<String, Value>)>,
    info: Option<fn(&mut Map<String, Value>)>,
    stats: Option<fn(&mut Map<String, Value>)>,
}

/// A rung that changed nothing.
const NOTHING: Change = Change { since: 0, create: None, inspect: None, info: None, stats: None };

const LADDER: &[Change] = &[
    Change { since: 19, create: Some(clamp_cpu_shares), info: Some(flags_as_numbers), ..NOTHING },
    Change { since: 20, inspect: Some(volumes_for_mounts), ..NOTHING },
    Change { since: 21, inspect: Some(without_networks), stats: Some(one_network), ..NOTHING },
    Change { since: 22, inspect: Some(with_lxc), ..NOTHING },
    Change { since: 25, info: Some(execution_driver), ..NOTHING },
];

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
fn volumes_for_mounts(answer: &mut Map<String, Value>) {
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
fn flags_as_numbers(answer: &mut Map<String, Value>) {
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
fn with_lxc(answer: &mut Map<String, Value>) {
    answer.insert("ExecDriver".into(), NO_EXECUTION_DRIVER.into());
    if let Some(Value::Object(host)) = answer.get_mut("HostConfig") {
        host.insert("LxcConf".into(), json!([]));
    }
}

const NO_EXECUTION_DRIVER: &str = "<not supported>";

/// 1.21 brought `NetworkSettings.Networks`, took the volume driver out of `Config` and left empty options out.
fn without_networks(answer: &mut Map<String, Value>) {
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
fn one_network(answer: &mut Map<String, Value>) {
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

/// Clients before 1.25 expect the name of an execution driver, and security options as bare names.
fn execution_driver(answer: &mut Map<String, Value>) {
    answer.insert("ExecutionDriver".into(), NO_EXECUTION_DRIVER.into());
    if let Some(Value::Array(options)) = answer.get_mut("SecurityOptions") {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    fn v(text: &str) -> Version {
        Version::parse(text)
    }

    #[test]
    fn range() {
        for good in ["1.18", "1.21", "1.24", "1.24.1", "01.018"] {
            assert_eq!(v(good).refusal(), None, "{good}");
        }
        assert_eq!(
            v("1.99").refusal().unwrap(),
            "client version 1.99 is too new. Maximum supported API version is 1.24"
        );
        let old = "is too old. Minimum supported API version is 1.18, please upgrade your client to a newer version";
        for bad in ["1", "1.12", "1.17", "1..2", "0.99", "..."] {
            assert_eq!(v(bad).refusal().unwrap(), format!("client version {bad} {old}"));
        }
        assert!(v("99999999999999999999999.1").refusal().is_some());
    }

    #[test]
    fn gates_open_at_their_version() {
        assert!(!v("1.23").has(Gate::JsonErrors) && v("1.24").has(Gate::JsonErrors));
        assert!(!v("1.21").has(Gate::ExecStartJson) && v("1.22").has(Gate::ExecStartJson));
        assert!(v("1.24").has(Gate::NoCopy) && !v("1.18").has(Gate::InspectSize));
        assert!(!v("1.24").has(Gate::NoSwarm) && v("1.25").has(Gate::NoSwarm) && Version::newest().has(Gate::NoSwarm));
    }

    fn lifted(version: &str, text: &str) -> Value {
        let Node::Object(mut body) = schema::read(text.as_bytes(), &schema::CREATE).unwrap() else { panic!() };
        v(version).lift_create(&mut body);
        crate::json::to_value(&Node::Object(body))
    }

    #[test]
    fn create_is_lifted() {
        // Whoever says it, at whatever version, wants it: clients that remove by themselves send false.
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
            v(version).lower_info(&mut answer);
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
            v(version).lower_stats(&mut answer);
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
        v(version).lower_inspect(&mut answer);
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
}
