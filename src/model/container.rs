//! Containers: create body, host configuration, list item, inspect answer.
// The fields are the specification's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use super::{Filters, PortList, PortMap, PortSet, StringMap, null_default};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// An empty JSON object, the value of the set-like map `Volumes`.
///
/// ```
/// use coracle::model::{ContainerConfig, Empty};
///
/// let volumes = Some([("/data".to_owned(), Empty {})].into());
/// let config = ContainerConfig { image: "busybox".into(), volumes, ..Default::default() };
/// assert_eq!(serde_json::to_value(&config).unwrap()["Volumes"]["/data"], serde_json::json!({}));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Empty {}

impl<'de> Deserialize<'de> for Empty {
    /// `null` is accepted, too.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Empty, D::Error> {
        #[derive(Deserialize)]
        struct Object {}
        Option::<Object>::deserialize(deserializer).map(|_| Empty {})
    }
}

/// A list that clients also write as one string (`Cmd`, `Entrypoint`): the string is one element, never split.
fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        One(String),
        Many(Vec<String>),
    }
    Ok(Option::<Form>::deserialize(deserializer)?.map(|form| match form {
        Form::One(word) => vec![word],
        Form::Many(words) => words,
    }))
}

/// `StopSignal` may be a name or a number.
fn signal_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Number(u32),
    }
    Ok(match Option::<Form>::deserialize(deserializer)? {
        None => String::new(),
        Some(Form::Text(text)) => text,
        Some(Form::Number(number)) => number.to_string(),
    })
}

/// Container configuration: the part of the create body that is not host configuration; `Config` of inspect.
///
/// ```
/// use coracle::model::ContainerConfig;
///
/// let config = ContainerConfig {
///     image: "busybox".into(),
///     cmd: Some(vec!["date".into()]),
///     env: Some(vec!["TZ=UTC".into()]),
///     user: "1000:1000".into(),
///     working_dir: "/tmp".into(),
///     ..Default::default()
/// };
/// assert_eq!(serde_json::to_value(&config).unwrap()["User"], "1000:1000");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ContainerConfig {
    #[serde(deserialize_with = "null_default")]
    pub hostname: String,
    #[serde(deserialize_with = "null_default")]
    pub domainname: String,
    #[serde(deserialize_with = "null_default")]
    pub user: String,
    #[serde(deserialize_with = "null_default")]
    pub attach_stdin: bool,
    #[serde(deserialize_with = "null_default")]
    pub attach_stdout: bool,
    #[serde(deserialize_with = "null_default")]
    pub attach_stderr: bool,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "PortSet::is_empty")]
    pub exposed_ports: PortSet,
    #[serde(deserialize_with = "null_default")]
    pub tty: bool,
    #[serde(deserialize_with = "null_default")]
    pub open_stdin: bool,
    #[serde(deserialize_with = "null_default")]
    pub stdin_once: bool,
    pub env: Option<Vec<String>>,
    #[serde(deserialize_with = "words")]
    pub cmd: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthcheck: Option<Healthcheck>,
    #[serde(deserialize_with = "null_default")]
    pub image: String,
    pub volumes: Option<BTreeMap<String, Empty>>,
    #[serde(deserialize_with = "null_default")]
    pub working_dir: String,
    #[serde(deserialize_with = "words")]
    pub entrypoint: Option<Vec<String>>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub network_disabled: bool,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub mac_address: String,
    pub on_build: Option<Vec<String>>,
    #[serde(deserialize_with = "null_default")]
    pub labels: StringMap,
    #[serde(deserialize_with = "signal_text", skip_serializing_if = "String::is_empty")]
    pub stop_signal: String,
    /// Seconds between the stop signal and SIGKILL, of a stop that names none; negative: SIGKILL is never sent. Absent: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_timeout: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<Vec<String>>,
}

/// How a container's health is probed; times in nanoseconds, 0 inherits.
///
/// ```
/// use coracle::model::Healthcheck;
///
/// const SECOND: i64 = 1_000_000_000;
/// let check = Healthcheck {
///     test: vec!["CMD".into(), "wget".into(), "-q".into(), "-O-".into(), "http://localhost/".into()],
///     interval: 30 * SECOND,
///     timeout: 5 * SECOND,
///     retries: 3,
///     ..Default::default()
/// };
/// assert_eq!(serde_json::to_value(&check).unwrap()["Interval"], 30_000_000_000_i64);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Healthcheck {
    #[serde(deserialize_with = "null_default")]
    pub test: Vec<String>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub interval: i64,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub timeout: i64,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub retries: i64,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub start_period: i64,
    /// The interval within the start period, until a check succeeds; 0: 5 s, or `interval` if that is shorter.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub start_interval: i64,
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

/// The whole create body: configuration, host configuration, networking configuration.
///
/// ```
/// use coracle::model::{ContainerConfig, CreateBody, HostConfig, Resources};
///
/// let body = CreateBody {
///     config: ContainerConfig {
///         image: "busybox".into(),
///         cmd: Some(vec!["sleep".into(), "60".into()]),
///         env: Some(vec!["TZ=UTC".into()]),
///         ..Default::default()
///     },
///     host_config: HostConfig {
///         binds: Some(vec!["/srv/site:/site:ro".into()]),
///         resources: Resources { memory: 64 << 20, ..Default::default() },
///         ..Default::default()
///     },
///     ..Default::default()
/// };
/// // The document of `POST /containers/create` is the same value.
/// let same: CreateBody = serde_json::from_value(serde_json::to_value(&body).unwrap()).unwrap();
/// assert_eq!(same, body);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CreateBody {
    #[serde(flatten)]
    pub config: ContainerConfig,
    #[serde(deserialize_with = "null_default")]
    pub host_config: HostConfig,
    #[serde(deserialize_with = "null_default")]
    pub networking_config: NetworkingConfig,
    /// The request is of an API before 1.24, which allowed host names of any form (`my_host`). The document has no such
    /// member: the converter for such versions sets it.
    #[serde(skip)]
    pub any_hostname: bool,
    /// The request is of API 1.44 or later, where a read-only bind makes all mounts below it read-only, unless it says
    /// otherwise. The document has no such member: the reader of such a version sets it.
    #[serde(skip)]
    pub read_only_below: bool,
}

/// `NetworkingConfig` of the create body.
///
/// ```
/// use coracle::model::{EndpointSettings, NetworkingConfig};
///
/// let endpoint = EndpointSettings { aliases: Some(vec!["db".into()]), ..Default::default() };
/// let networks = NetworkingConfig { endpoints_config: [("harbour".to_owned(), Some(endpoint))].into() };
/// assert_eq!(serde_json::to_value(&networks).unwrap()["EndpointsConfig"]["harbour"]["Aliases"][0], "db");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NetworkingConfig {
    #[serde(deserialize_with = "null_default")]
    pub endpoints_config: BTreeMap<String, Option<EndpointSettings>>,
}

/// A container's end on one network.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::{ConnectNetwork, EndpointSettings};
///
/// let endpoint = EndpointSettings { aliases: Some(vec!["db".into()]), ..Default::default() };
/// let request = ConnectNetwork { container: "postgres".into(), endpoint_config: Some(endpoint) };
/// engine.network_connect("harbour", &request, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EndpointSettings {
    #[serde(rename = "IPAMConfig")]
    pub ipam_config: Option<EndpointIpamConfig>,
    pub links: Option<Vec<String>>,
    pub aliases: Option<Vec<String>>,
    #[serde(rename = "NetworkID", deserialize_with = "null_default")]
    pub network_id: String,
    #[serde(rename = "EndpointID", deserialize_with = "null_default")]
    pub endpoint_id: String,
    #[serde(deserialize_with = "null_default")]
    pub gateway: String,
    #[serde(rename = "IPAddress", deserialize_with = "null_default")]
    pub ip_address: String,
    #[serde(rename = "IPPrefixLen", deserialize_with = "null_default")]
    pub ip_prefix_len: i64,
    #[serde(rename = "IPv6Gateway", deserialize_with = "null_default")]
    pub ipv6_gateway: String,
    #[serde(rename = "GlobalIPv6Address", deserialize_with = "null_default")]
    pub global_ipv6_address: String,
    #[serde(rename = "GlobalIPv6PrefixLen", deserialize_with = "null_default")]
    pub global_ipv6_prefix_len: i64,
    #[serde(deserialize_with = "null_default")]
    pub mac_address: String,
    /// Options of the driver: kernel parameters of the interface, and its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_opts: Option<StringMap>,
    /// The default route goes over the network of the highest priority, among equal ones over the first by name.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub gw_priority: i64,
    /// Answers only: the names by which the network's other containers find this one.
    #[serde(rename = "DNSNames", skip_serializing_if = "Option::is_none")]
    pub dns_names: Option<Vec<String>>,
}

/// Addresses that the client chose for an endpoint.
///
/// ```
/// use coracle::model::{EndpointIpamConfig, EndpointSettings};
///
/// // The address that the container asks for, out of the network's subnet.
/// let address = EndpointIpamConfig { ipv4_address: "10.8.0.7".into(), ..Default::default() };
/// let endpoint = EndpointSettings { ipam_config: Some(address), ..Default::default() };
/// assert_eq!(serde_json::to_value(&endpoint).unwrap()["IPAMConfig"]["IPv4Address"], "10.8.0.7");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointIpamConfig {
    #[serde(rename = "IPv4Address", skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub ipv4_address: String,
    #[serde(rename = "IPv6Address", skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub ipv6_address: String,
    #[serde(rename = "LinkLocalIPs", skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub link_local_ips: Vec<String>,
}

/// A request for devices that a driver gives.
///
/// ```
/// use coracle::model::{DeviceRequest, Resources};
///
/// // A device of a CDI specification on this host.
/// let camera = DeviceRequest {
///     driver: "cdi".into(),
///     device_ids: vec!["vendor.example/camera=front".into()],
///     ..Default::default()
/// };
/// let resources = Resources { device_requests: vec![camera], ..Default::default() };
/// assert_eq!(serde_json::to_value(&resources).unwrap()["DeviceRequests"][0]["Driver"], "cdi");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceRequest {
    #[serde(deserialize_with = "null_default")]
    pub driver: String,
    /// Of drivers that choose the devices.
    #[serde(deserialize_with = "null_default")]
    pub count: i64,
    /// Names such as `vendor.com/class=name`.
    #[serde(rename = "DeviceIDs", deserialize_with = "null_default")]
    pub device_ids: Vec<String>,
    /// Sets of capabilities of which a device must have one.
    #[serde(deserialize_with = "null_default")]
    pub capabilities: Vec<Vec<String>>,
    #[serde(deserialize_with = "null_default")]
    pub options: StringMap,
}

/// A device of the host shown in the container.
///
/// ```
/// use coracle::model::{DeviceMapping, Resources};
///
/// let fuse = DeviceMapping {
///     path_on_host: "/dev/fuse".into(),
///     path_in_container: "/dev/fuse".into(),
///     cgroup_permissions: "rw".into(),
/// };
/// let resources = Resources { devices: Some(vec![fuse]), ..Default::default() };
/// assert_eq!(serde_json::to_value(&resources).unwrap()["Devices"][0]["CgroupPermissions"], "rw");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeviceMapping {
    #[serde(deserialize_with = "null_default")]
    pub path_on_host: String,
    #[serde(deserialize_with = "null_default")]
    pub path_in_container: String,
    #[serde(deserialize_with = "null_default")]
    pub cgroup_permissions: String,
}

/// A block device's weight.
///
/// ```
/// use coracle::model::{Resources, WeightDevice};
///
/// let disk = WeightDevice { path: "/dev/vda".into(), weight: 200 };
/// let resources = Resources { blkio_weight_device: Some(vec![disk]), ..Default::default() };
/// assert_eq!(serde_json::to_value(&resources).unwrap()["BlkioWeightDevice"][0]["Weight"], 200);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct WeightDevice {
    #[serde(deserialize_with = "null_default")]
    pub path: String,
    #[serde(deserialize_with = "null_default")]
    pub weight: u16,
}

/// A block device's rate: bytes or operations a second.
///
/// ```
/// use coracle::model::{Resources, ThrottleDevice};
///
/// // At most 10 MiB a second are written to this disk.
/// let disk = ThrottleDevice { path: "/dev/vda".into(), rate: 10 << 20 };
/// let resources = Resources { blkio_device_write_bps: Some(vec![disk]), ..Default::default() };
/// assert_eq!(serde_json::to_value(&resources).unwrap()["BlkioDeviceWriteBps"][0]["Rate"], 10_485_760);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ThrottleDevice {
    #[serde(deserialize_with = "null_default")]
    pub path: String,
    #[serde(deserialize_with = "null_default")]
    pub rate: u64,
}

/// A resource limit by its setrlimit(2) name without `RLIMIT_`, lower case; -1 is unlimited.
///
/// ```
/// use coracle::model::{Resources, Ulimit};
///
/// let files = Ulimit { name: "nofile".into(), soft: 1024, hard: 4096 };
/// let resources = Resources { ulimits: Some(vec![files]), ..Default::default() };
/// assert_eq!(serde_json::to_value(&resources).unwrap()["Ulimits"][0]["Name"], "nofile");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Ulimit {
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    #[serde(deserialize_with = "null_default")]
    pub hard: i64,
    #[serde(deserialize_with = "null_default")]
    pub soft: i64,
}

/// When the monitor restarts a container.
///
/// ```
/// use coracle::model::{HostConfig, RestartPolicy};
///
/// let policy = RestartPolicy { name: "on-failure".into(), maximum_retry_count: 3 };
/// let host_config = HostConfig { restart_policy: policy, ..Default::default() };
/// assert_eq!(serde_json::to_value(&host_config).unwrap()["RestartPolicy"]["MaximumRetryCount"], 3);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RestartPolicy {
    /// Empty or `no`, `always`, `on-failure`, `unless-stopped`.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// Limit of `on-failure`; 0: unlimited.
    #[serde(deserialize_with = "null_default")]
    pub maximum_retry_count: i64,
}

/// The log of a container's output.
///
/// ```
/// use coracle::model::{HostConfig, LogConfig};
///
/// let log = LogConfig {
///     kind: "json-file".into(),
///     config: [("max-size".to_owned(), "10m".to_owned()), ("max-file".to_owned(), "3".to_owned())].into(),
/// };
/// let host_config = HostConfig { log_config: log, ..Default::default() };
/// assert_eq!(serde_json::to_value(&host_config).unwrap()["LogConfig"]["Type"], "json-file");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LogConfig {
    #[serde(rename = "Type", deserialize_with = "null_default")]
    pub kind: String,
    #[serde(deserialize_with = "null_default")]
    pub config: StringMap,
}

/// A host address and port at which a container's port is published.
///
/// ```
/// use coracle::model::{PortBinding, PortMap};
///
/// let binding = PortBinding { host_ip: "127.0.0.1".into(), host_port: "8080".into() };
/// let ports: PortMap = [("80/tcp", Some(vec![binding.clone()]))].into_iter().collect();
/// assert_eq!(ports.get("80/tcp"), Some(Some(vec![binding])));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PortBinding {
    #[serde(deserialize_with = "null_default")]
    pub host_ip: String,
    #[serde(deserialize_with = "null_default")]
    pub host_port: String,
}

/// Host configuration: the container's share of the host. All units are as in the specification.
///
/// ```
/// use coracle::model::{HostConfig, PortMap, RestartPolicy};
///
/// let host_config = HostConfig {
///     network_mode: "none".into(),
///     restart_policy: RestartPolicy { name: "on-failure".into(), maximum_retry_count: 3 },
///     // Port 80 of the container at port 8080 of the host.
///     port_bindings: PortMap::of_rows([("80/tcp", Some(("", "8080")))]),
///     ..Default::default()
/// };
/// assert_eq!(host_config.port_bindings.len(), 1);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostConfig {
    pub binds: Option<Vec<String>>,
    #[serde(rename = "ContainerIDFile", deserialize_with = "null_default")]
    pub container_id_file: String,
    #[serde(deserialize_with = "null_default")]
    pub log_config: LogConfig,
    #[serde(deserialize_with = "null_default")]
    pub network_mode: String,
    #[serde(deserialize_with = "null_default")]
    pub port_bindings: PortMap,
    #[serde(deserialize_with = "null_default")]
    pub restart_policy: RestartPolicy,
    #[serde(deserialize_with = "null_default")]
    pub auto_remove: bool,
    #[serde(deserialize_with = "null_default")]
    pub volume_driver: String,
    pub volumes_from: Option<Vec<String>>,
    pub cap_add: Option<Vec<String>>,
    pub cap_drop: Option<Vec<String>>,
    pub dns: Option<Vec<String>>,
    pub dns_options: Option<Vec<String>>,
    pub dns_search: Option<Vec<String>>,
    pub extra_hosts: Option<Vec<String>>,
    pub group_add: Option<Vec<String>>,
    #[serde(deserialize_with = "null_default")]
    pub ipc_mode: String,
    #[serde(deserialize_with = "null_default")]
    pub cgroup: String,
    pub links: Option<Vec<String>>,
    #[serde(deserialize_with = "null_default")]
    pub oom_score_adj: i64,
    #[serde(deserialize_with = "null_default")]
    pub pid_mode: String,
    #[serde(deserialize_with = "null_default")]
    pub privileged: bool,
    #[serde(deserialize_with = "null_default")]
    pub publish_all_ports: bool,
    #[serde(deserialize_with = "null_default")]
    pub readonly_rootfs: bool,
    pub security_opt: Option<Vec<String>>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub storage_opt: StringMap,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub tmpfs: StringMap,
    #[serde(rename = "UTSMode", deserialize_with = "null_default")]
    pub uts_mode: String,
    #[serde(deserialize_with = "null_default")]
    pub userns_mode: String,
    /// Bytes; absent or 0 (which the command line sends) means 64 MiB; a negative value is refused.
    pub shm_size: Option<i64>,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: StringMap,
    #[serde(deserialize_with = "null_default")]
    pub runtime: String,
    /// Rows and columns of the container's terminal at its start, unless the start names others.
    #[serde(deserialize_with = "null_default")]
    pub console_size: [u32; 2],
    #[serde(deserialize_with = "null_default")]
    pub isolation: String,
    #[serde(flatten)]
    pub resources: Resources,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub lxc_conf: BTreeMap<String, serde_json::Value>,
    // Clients send the following fields in every version, although later versions introduced them. Answers show them if
    // the request had them.
    /// Mounts in their long form.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountRequest>,
    /// A small init is the container's first process: it forwards signals and reaps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<bool>,
    /// Hidden paths instead of the usual ones; an empty list: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masked_paths: Option<Vec<String>>,
    /// Paths that cannot be written, instead of the usual ones; an empty list: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readonly_paths: Option<Vec<String>>,
    /// `private` (also empty) or `host`: the namespace of control groups.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub cgroupns_mode: String,
    /// Notes of other programs: kept and shown, without another effect.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: StringMap,
}

/// A mount in its long form: an element of `HostConfig.Mounts`.
///
/// ```
/// use coracle::model::{HostConfig, MountRequest};
///
/// let mount = MountRequest {
///     kind: "volume".into(),
///     source: "hold".into(),
///     target: "/data".into(),
///     read_only: true,
///     ..Default::default()
/// };
/// let host_config = HostConfig { mounts: vec![mount], ..Default::default() };
/// assert_eq!(serde_json::to_value(&host_config).unwrap()["Mounts"][0]["Type"], "volume");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MountRequest {
    /// `bind`, `volume`, `tmpfs`.
    #[serde(rename = "Type", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Bind: an existing path of the host. Volume: its name; empty: the engine makes up a name. Tmpfs: empty.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub source: String,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub target: String,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Of other platforms: accepted, without effect.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub consistency: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_options: Option<BindOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_options: Option<VolumeOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tmpfs_options: Option<TmpfsOptions>,
}

/// How a bind of [`MountRequest`] is made.
///
/// ```
/// use coracle::model::{BindOptions, MountRequest};
///
/// let mount = MountRequest {
///     kind: "bind".into(),
///     source: "/srv/site".into(),
///     target: "/www".into(),
///     bind_options: Some(BindOptions { create_mountpoint: true, ..Default::default() }),
///     ..Default::default()
/// };
/// assert_eq!(serde_json::to_value(&mount).unwrap()["BindOptions"]["CreateMountpoint"], true);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct BindOptions {
    /// `private`, `rprivate`, `shared`, `rshared`, `slave`, `rslave`; empty: `rprivate`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub propagation: String,
    /// Exclude the mounts below the source.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub non_recursive: bool,
    /// A source that is not there is made, as an empty directory.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub create_mountpoint: bool,
    /// A read-only bind is read-only at its top alone: mounts below it can be written.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub read_only_non_recursive: bool,
    /// A read-only bind makes all mounts below it read-only, too.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub read_only_force_recursive: bool,
}

/// How a volume of [`MountRequest`] is made.
///
/// ```
/// use coracle::model::{MountRequest, VolumeOptions};
///
/// // One directory of the volume `hold`.
/// let mount = MountRequest {
///     kind: "volume".into(),
///     source: "hold".into(),
///     target: "/photos".into(),
///     volume_options: Some(VolumeOptions { subpath: "photos".into(), ..Default::default() }),
///     ..Default::default()
/// };
/// assert_eq!(serde_json::to_value(&mount).unwrap()["VolumeOptions"]["Subpath"], "photos");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VolumeOptions {
    /// Do not copy the image's files at the target into the volume.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub no_copy: bool,
    /// Labels of the volume, if it is made for this mount.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: StringMap,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_config: Option<DriverConfig>,
    /// A directory or file of the volume that is mounted in place of the whole volume: a relative path.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub subpath: String,
}

/// The driver of a volume that is made for this mount.
///
/// ```
/// use coracle::model::{DriverConfig, VolumeOptions};
///
/// let driver = DriverConfig {
///     name: "local".into(),
///     options: [("type".to_owned(), "tmpfs".to_owned()), ("device".to_owned(), "tmpfs".to_owned())].into(),
/// };
/// let options = VolumeOptions { driver_config: Some(driver), ..Default::default() };
/// assert_eq!(serde_json::to_value(&options).unwrap()["DriverConfig"]["Name"], "local");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DriverConfig {
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub options: StringMap,
}

/// How a tmpfs of [`MountRequest`] is made.
///
/// ```
/// use coracle::model::{MountRequest, TmpfsOptions};
///
/// let mount = MountRequest {
///     kind: "tmpfs".into(),
///     target: "/run".into(),
///     tmpfs_options: Some(TmpfsOptions { size_bytes: 16 << 20, mode: 0o755, ..Default::default() }),
///     ..Default::default()
/// };
/// assert_eq!(serde_json::to_value(&mount).unwrap()["TmpfsOptions"]["SizeBytes"], 16_777_216);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TmpfsOptions {
    /// Size in bytes; 0: no limit of its own.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub size_bytes: i64,
    /// Permission bits of the root directory; 0: 1777.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_no_mode")]
    pub mode: u32,
}

fn is_no_mode(mode: &u32) -> bool {
    *mode == 0
}

/// Limits: the part of the host configuration that an update may change.
///
/// ```
/// use coracle::model::{HostConfig, Resources};
///
/// // Half a processor, 64 MiB of memory and no swap, 20 processes.
/// let resources = Resources {
///     nano_cpus: 500_000_000,
///     memory: 64 << 20,
///     memory_swap: 64 << 20,
///     pids_limit: 20,
///     ..Default::default()
/// };
/// let host_config = HostConfig { resources, ..Default::default() };
/// assert_eq!(serde_json::to_value(&host_config).unwrap()["Memory"], 67_108_864);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Resources {
    #[serde(deserialize_with = "null_default")]
    pub cpu_shares: i64,
    #[serde(deserialize_with = "null_default")]
    pub memory: i64,
    #[serde(deserialize_with = "null_default")]
    pub cgroup_parent: String,
    #[serde(deserialize_with = "null_default")]
    pub blkio_weight: u16,
    pub blkio_weight_device: Option<Vec<WeightDevice>>,
    pub blkio_device_read_bps: Option<Vec<ThrottleDevice>>,
    pub blkio_device_write_bps: Option<Vec<ThrottleDevice>>,
    #[serde(rename = "BlkioDeviceReadIOps")]
    pub blkio_device_read_iops: Option<Vec<ThrottleDevice>>,
    #[serde(rename = "BlkioDeviceWriteIOps")]
    pub blkio_device_write_iops: Option<Vec<ThrottleDevice>>,
    #[serde(deserialize_with = "null_default")]
    pub cpu_period: i64,
    #[serde(deserialize_with = "null_default")]
    pub cpu_quota: i64,
    /// 10⁻⁹ CPUs, instead of period and quota; newer than this version of the API, and shown only if a request set it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub nano_cpus: i64,
    #[serde(deserialize_with = "null_default")]
    pub cpuset_cpus: String,
    #[serde(deserialize_with = "null_default")]
    pub cpuset_mems: String,
    pub devices: Option<Vec<DeviceMapping>>,
    /// Rules of the device cgroup such as `c 10:* rw`; newer than this version of the API, and shown only if a request
    /// set them.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub device_cgroup_rules: Vec<String>,
    /// Devices that drivers give; the one driver is `cdi`, with the names of devices of the Container Device Interface.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub device_requests: Vec<DeviceRequest>,
    #[serde(deserialize_with = "null_default")]
    pub disk_quota: i64,
    #[serde(deserialize_with = "null_default")]
    pub kernel_memory: i64,
    #[serde(deserialize_with = "null_default")]
    pub memory_reservation: i64,
    #[serde(deserialize_with = "null_default")]
    pub memory_swap: i64,
    pub memory_swappiness: Option<i64>,
    pub oom_kill_disable: Option<bool>,
    #[serde(deserialize_with = "null_default")]
    pub pids_limit: i64,
    pub ulimits: Option<Vec<Ulimit>>,
    #[serde(deserialize_with = "null_default")]
    pub cpu_count: i64,
    #[serde(deserialize_with = "null_default")]
    pub cpu_percent: i64,
    #[serde(rename = "IOMaximumIOps", deserialize_with = "null_default")]
    pub io_maximum_iops: u64,
    #[serde(rename = "IOMaximumBandwidth", deserialize_with = "null_default")]
    pub io_maximum_bandwidth: u64,
}

/// Answer of create.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::{ContainerConfig, CreateBody};
///
/// let config = ContainerConfig { image: "busybox".into(), ..Default::default() };
/// let created = engine.container_create(Some("clock"), &CreateBody { config, ..Default::default() })?;
/// for warning in &created.warnings {
///     eprintln!("warning: {warning}");
/// }
/// println!("{}", created.id);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Created {
    pub id: String,
    pub warnings: Vec<String>,
}

/// A request for a list of containers.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ListContainers;
///
/// let mut query = ListContainers { all: true, ..Default::default() };
/// query.filters.insert("label".into(), vec!["site=north".into()]);
/// for container in engine.container_list(&query)? {
///     println!("{} {}", container.id, container.status);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListContainers {
    /// Stopped containers too.
    pub all: bool,
    /// Only this many of the newest containers, including stopped ones; 0: all.
    pub limit: i64,
    /// Sizes too.
    pub size: bool,
    /// Only containers created after this one.
    pub since: String,
    /// Only containers created before this one.
    pub before: String,
    pub filters: Filters,
}

/// One port of the list.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for container in engine.container_list(&Default::default())? {
///     for port in container.ports.iter() {
///         println!("{}/{} of the container is {:?} of the host", port.private_port, port.kind, port.public_port);
///     }
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PortSummary {
    #[serde(rename = "IP", skip_serializing_if = "String::is_empty", default)]
    pub ip: String,
    #[serde(rename = "PrivatePort")]
    pub private_port: u16,
    #[serde(rename = "PublicPort", skip_serializing_if = "Option::is_none")]
    pub public_port: Option<u16>,
    #[serde(rename = "Type")]
    pub kind: String,
}

/// One container of the list.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::{ContainerSummary, ListContainers};
///
/// // One at a time: a root of many containers takes no memory for a list of them.
/// engine.container_list_each(&ListContainers::default(), |container: ContainerSummary| {
///     println!("{} {}", container.names.join(" "), container.status);
///     Ok(())
/// })?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ContainerSummary {
    pub id: String,
    pub names: Vec<String>,
    pub image: String,
    #[serde(rename = "ImageID")]
    pub image_id: String,
    pub command: String,
    /// Unix seconds.
    pub created: i64,
    pub ports: PortList,
    /// Bytes that the container wrote; absent if it wrote none, or the request asks for no sizes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_rw: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_root_fs: Option<i64>,
    pub labels: StringMap,
    pub state: String,
    pub status: String,
    pub host_config: SummaryHostConfig,
    pub network_settings: SummaryNetworks,
    pub mounts: Vec<MountPoint>,
}

/// `HostConfig` of a list item.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for container in engine.container_list(&Default::default())? {
///     println!("{} {}", container.id, container.host_config.network_mode);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SummaryHostConfig {
    pub network_mode: String,
}

/// `NetworkSettings` of a list item.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for container in engine.container_list(&Default::default())? {
///     for (network, endpoint) in &container.network_settings.networks {
///         println!("{} {network} {}", container.id, endpoint.ip_address);
///     }
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SummaryNetworks {
    pub networks: BTreeMap<String, EndpointSettings>,
}

/// A mount as inspect and list show it.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for mount in engine.container_inspect("clock", false)?.mounts {
///     let access = if mount.rw { "writable" } else { "read-only" };
///     println!("{} {} at {}, {access}", mount.kind, mount.source, mount.destination);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct MountPoint {
    #[serde(rename = "Type", default)]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub name: String,
    pub source: String,
    pub destination: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub driver: String,
    pub mode: String,
    #[serde(rename = "RW")]
    pub rw: bool,
    pub propagation: String,
}

/// The state object of inspect; times are RFC 3339 with nanoseconds.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let state = engine.container_inspect("clock", false)?.state;
/// match state.running {
///     true => println!("runs since {} as process {}", state.started_at, state.pid),
///     false => println!("{}: exit code {}", state.status, state.exit_code),
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ContainerState {
    /// `created`, `running`, `paused`, `restarting`, `removing`, `exited`, `dead`.
    pub status: String,
    pub running: bool,
    pub paused: bool,
    pub restarting: bool,
    #[serde(rename = "OOMKilled")]
    pub oom_killed: bool,
    pub dead: bool,
    pub pid: i32,
    pub exit_code: i32,
    pub error: String,
    pub started_at: String,
    pub finished_at: String,
    /// Absent without a health check, and before the first start.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health: Option<Health>,
    /// The number of lines of output that could not be logged since the last start, because the disk was full or
    /// failed. Absent if none.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub log_lost: i64,
    /// How far the delivery of the log is, if the container's log driver delivers. Absent before the first start.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log_delivery: Option<LogDelivery>,
}

/// How far the delivery of a container's log to its receiver is.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// if let Some(delivery) = engine.container_inspect("clock", false)?.state.log_delivery {
///     println!("{}: {} lines delivered, {} lost", delivery.driver, delivery.delivered, delivery.lost);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct LogDelivery {
    /// The log driver.
    pub driver: String,
    /// Lines that are not delivered yet, and their bytes in the log.
    pub owed: LogOwed,
    /// Lines that were delivered; a line that was sent twice counts once.
    pub delivered: u64,
    /// Lines that rotation removed, or that were damaged, before they were delivered.
    pub lost: u64,
    /// The time of the last acknowledgement, RFC 3339; empty: never.
    pub last_delivered: String,
    /// The failure since then; empty: none.
    pub last_error: String,
}

/// The part of a log that is not delivered.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// if let Some(delivery) = engine.container_inspect("clock", false)?.state.log_delivery {
///     println!("{} lines of {} bytes are not delivered yet", delivery.owed.lines, delivery.owed.bytes);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct LogOwed {
    pub lines: u64,
    pub bytes: u64,
}

/// The outcome of a container's health checks.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// if let Some(health) = engine.container_inspect("web", false)?.state.health {
///     println!("{} after {} failures in a row", health.status, health.failing_streak);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Health {
    /// `starting`, `healthy`, `unhealthy`.
    pub status: String,
    /// Consecutive failures.
    pub failing_streak: u32,
    /// The last five results, oldest first.
    pub log: Vec<HealthResult>,
}

/// One result of a health check; times are RFC 3339 with nanoseconds.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// if let Some(health) = engine.container_inspect("web", false)?.state.health {
///     for check in health.log {
///         println!("{} to {}: {} {}", check.start, check.end, check.exit_code, check.output);
///     }
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct HealthResult {
    pub start: String,
    pub end: String,
    /// 0: healthy; -1: the check could not run, or took too long.
    pub exit_code: i32,
    /// At most 4096 bytes; `...` follows if there was more.
    pub output: String,
}

/// `GraphDriver` of containers and images.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let driver = engine.container_inspect("clock", false)?.graph_driver;
/// for (name, value) in driver.data.iter().flatten() {
///     println!("{} {name} {value}", driver.name);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct GraphDriver {
    pub data: Option<StringMap>,
    pub name: String,
}

/// `NetworkSettings` of inspect.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let settings = engine.container_inspect("web", false)?.network_settings;
/// for (network, endpoint) in &settings.networks {
///     println!("{network} {}", endpoint.ip_address);
/// }
/// for (address, port) in settings.ports.bindings() {
///     println!("{address}:{port}");
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NetworkSettings {
    pub bridge: String,
    #[serde(rename = "SandboxID")]
    pub sandbox_id: String,
    pub hairpin_mode: bool,
    #[serde(rename = "LinkLocalIPv6Address")]
    pub link_local_ipv6_address: String,
    #[serde(rename = "LinkLocalIPv6PrefixLen")]
    pub link_local_ipv6_prefix_len: i64,
    pub ports: PortMap,
    pub sandbox_key: String,
    #[serde(rename = "SecondaryIPAddresses")]
    pub secondary_ip_addresses: Option<Vec<String>>,
    #[serde(rename = "SecondaryIPv6Addresses")]
    pub secondary_ipv6_addresses: Option<Vec<String>>,
    #[serde(rename = "EndpointID")]
    pub endpoint_id: String,
    pub gateway: String,
    #[serde(rename = "GlobalIPv6Address")]
    pub global_ipv6_address: String,
    #[serde(rename = "GlobalIPv6PrefixLen")]
    pub global_ipv6_prefix_len: i64,
    #[serde(rename = "IPAddress")]
    pub ip_address: String,
    #[serde(rename = "IPPrefixLen")]
    pub ip_prefix_len: i64,
    #[serde(rename = "IPv6Gateway")]
    pub ipv6_gateway: String,
    pub mac_address: String,
    pub networks: BTreeMap<String, EndpointSettings>,
}

/// Answer of inspect.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let clock = engine.container_inspect("clock", false)?;
/// println!("{} runs {} {}", clock.name, clock.path, clock.args.join(" "));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ContainerDetail {
    pub id: String,
    pub created: String,
    pub path: String,
    pub args: Vec<String>,
    pub state: ContainerState,
    pub image: String,
    pub resolv_conf_path: String,
    pub hostname_path: String,
    pub hosts_path: String,
    pub log_path: String,
    pub name: String,
    pub restart_count: i64,
    pub driver: String,
    pub mount_label: String,
    pub process_label: String,
    pub app_armor_profile: String,
    #[serde(rename = "ExecIDs")]
    pub exec_ids: Option<Vec<String>>,
    pub host_config: HostConfig,
    pub graph_driver: GraphDriver,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_rw: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_root_fs: Option<i64>,
    pub mounts: Vec<MountPoint>,
    pub config: ContainerConfig,
    pub network_settings: NetworkSettings,
}

/// Answer of top.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let top = engine.container_top("clock", "-ef")?;
/// println!("{}", top.titles.join("\t"));
/// for process in top.processes {
///     println!("{}", process.join("\t"));
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Top {
    pub titles: Vec<String>,
    pub processes: Vec<Vec<String>>,
}

/// One change of a container's file system against its image.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for change in engine.container_changes("clock")? {
///     let kind = ["changed", "added", "deleted"][usize::from(change.kind)];
///     println!("{kind} {}", change.path);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct FileChange {
    pub path: String,
    /// 0 modified, 1 added, 2 deleted.
    pub kind: u8,
}

/// The condition that a wait for a container waits for.
///
/// ```
/// use coracle::model::WaitCondition;
///
/// assert_eq!(WaitCondition::parse("next-exit")?, WaitCondition::NextExit);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitCondition {
    /// The container does not run: met at once by a stopped container.
    #[default]
    NotRunning,
    /// The next end of the container, or its removal; the container need not run yet.
    NextExit,
    /// The removal of the container.
    Removed,
}

impl WaitCondition {
    /// Reads `not-running` (also empty), `next-exit` or `removed`.
    pub fn parse(text: &str) -> crate::Result<WaitCondition> {
        match text {
            "" | "not-running" => Ok(WaitCondition::NotRunning),
            "next-exit" => Ok(WaitCondition::NextExit),
            "removed" => Ok(WaitCondition::Removed),
            other => Err(crate::Error::invalid(format!("invalid condition: {other:?}"))),
        }
    }
}

/// Answer of a wait.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::WaitCondition;
///
/// let end = engine.container_wait_for("clock", WaitCondition::NotRunning, None)?;
/// println!("exit code {}", end.status_code);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ContainerWaited {
    /// Exit code of the last run: 0 to 255; 128 + n if signal n ended it.
    pub status_code: i32,
    /// The reason why the awaited removal failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<WaitError>,
}

/// A failure after a container's end.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::WaitCondition;
///
/// let end = engine.container_wait_for("clock", WaitCondition::Removed, None)?;
/// if let Some(error) = end.error {
///     eprintln!("{}", error.message);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct WaitError {
    /// The reason.
    pub message: String,
}

/// How a container is stopped.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::StopContainer;
///
/// engine.container_stop_with("clock", &StopContainer { signal: "SIGINT".into(), grace_ms: Some(500) }, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopContainer {
    /// Milliseconds from the signal to SIGKILL; negative: for ever. Absent: the container's `StopTimeout`, or 10 s.
    pub grace_ms: Option<i64>,
    /// Name or number; empty: the container's `StopSignal`, or SIGTERM.
    pub signal: String,
}

/// How a container is removed.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::RemoveContainer;
///
/// // A running container too, with the volumes that nobody named.
/// engine.container_remove("clock", RemoveContainer { force: true, volumes: true, ..Default::default() }, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoveContainer {
    /// Kill a running container first.
    pub force: bool,
    /// Remove the container's anonymous volumes, too.
    pub volumes: bool,
    /// Remove the link with that name, not the container.
    pub link: bool,
}

/// The objects that a prune removed.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let pruned = engine.containers_prune(&Default::default(), None)?;
/// println!("{} containers, {} bytes", pruned.containers_deleted.len(), pruned.space_reclaimed);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PrunedContainers {
    /// Ids of the containers.
    pub containers_deleted: Vec<String>,
    /// Bytes that the containers had written.
    pub space_reclaimed: u64,
}

/// The part of a container's log that is read.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::LogQuery;
///
/// // The last ten lines of the output, without errors.
/// let query = LogQuery { stderr: false, tail: Some(10), ..Default::default() };
/// let log = engine.container_logs("clock", &query, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogQuery {
    pub follow: bool,
    pub stdout: bool,
    pub stderr: bool,
    /// Only lines at or after this time: nanoseconds since 1970; 0: all.
    pub since_ns: i64,
    /// Only this many of the last lines; absent: all.
    pub tail: Option<u64>,
}

impl Default for LogQuery {
    fn default() -> LogQuery {
        LogQuery { follow: false, stdout: true, stderr: true, since_ns: 0, tail: None }
    }
}

/// The streams for an attach.
///
/// ```
/// use coracle::model::AttachStreams;
///
/// // Output alone.
/// let streams = AttachStreams { stdin: false, ..Default::default() };
/// assert!(streams.stdout && streams.stderr);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttachStreams {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

impl Default for AttachStreams {
    fn default() -> AttachStreams {
        AttachStreams { stdin: true, stdout: true, stderr: true }
    }
}
