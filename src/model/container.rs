//! Containers: create body, host configuration, list item, inspect answer.
// The fields are the specification's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use super::{Filters, ImagePlatform, PortList, PortMap, PortSet, StringMap, null_default};
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
    /// The host name in the container; empty: the first 12 digits of the id.
    #[serde(deserialize_with = "null_default")]
    pub hostname: String,
    /// The NIS domain name in the container.
    #[serde(deserialize_with = "null_default")]
    pub domainname: String,
    /// User and group of the process, `user[:group]`, by name or number; empty: the image's, or root.
    #[serde(deserialize_with = "null_default")]
    pub user: String,
    /// Whether the client means to attach to standard input. Kept and shown; an attach decides for itself.
    #[serde(deserialize_with = "null_default")]
    pub attach_stdin: bool,
    /// Whether the client means to attach to standard output. Kept and shown; an attach decides for itself.
    #[serde(deserialize_with = "null_default")]
    pub attach_stdout: bool,
    /// Whether the client means to attach to standard error. Kept and shown; an attach decides for itself.
    #[serde(deserialize_with = "null_default")]
    pub attach_stderr: bool,
    /// Ports that the container listens on, `port/protocol`; `PublishAllPorts` publishes them.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "PortSet::is_empty")]
    pub exposed_ports: PortSet,
    /// Whether the process has a terminal, of which standard output and standard error are one stream.
    #[serde(deserialize_with = "null_default")]
    pub tty: bool,
    /// Whether standard input is a pipe that clients can write to; else it is empty.
    #[serde(deserialize_with = "null_default")]
    pub open_stdin: bool,
    /// Whether standard input is closed when the first client that attached to it is gone.
    #[serde(deserialize_with = "null_default")]
    pub stdin_once: bool,
    /// Environment variables, `NAME=value`; they come over the image's. `NAME` alone removes the image's variable.
    pub env: Option<Vec<String>>,
    /// The command, or the arguments of the entrypoint; absent: the image's.
    #[serde(deserialize_with = "words")]
    pub cmd: Option<Vec<String>>,
    /// The check of the container's health; absent: the image's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthcheck: Option<Healthcheck>,
    /// The image's name, id or digest.
    #[serde(deserialize_with = "null_default")]
    pub image: String,
    /// Directories in the container that get an anonymous volume each.
    pub volumes: Option<BTreeMap<String, Empty>>,
    /// The working directory of the process; empty: the image's, or `/`.
    #[serde(deserialize_with = "null_default")]
    pub working_dir: String,
    /// The program with its first arguments; absent: the image's. An empty list removes the image's.
    #[serde(deserialize_with = "words")]
    pub entrypoint: Option<Vec<String>>,
    /// Whether the container has no network but loopback.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub network_disabled: bool,
    /// The hardware address on the container's first network; empty: one is chosen.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub mac_address: String,
    /// Instructions for builds from an image that is committed of this container.
    pub on_build: Option<Vec<String>>,
    /// Labels; they come over the image's.
    #[serde(deserialize_with = "null_default")]
    pub labels: StringMap,
    /// The signal of a stop, by name or number; empty: SIGTERM.
    #[serde(deserialize_with = "signal_text", skip_serializing_if = "String::is_empty")]
    pub stop_signal: String,
    /// Seconds between the stop signal and SIGKILL, of a stop that names none; negative: SIGKILL is never sent. Absent: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_timeout: Option<i64>,
    /// The shell that runs commands of a build file in their text form.
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
    /// Empty: the image's check. `["NONE"]`: no check. `["CMD", program, ...]`; `["CMD-SHELL", command]`.
    #[serde(deserialize_with = "null_default")]
    pub test: Vec<String>,
    /// Nanoseconds from the end of a check to the next one; 0: the image's, or 30 s.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub interval: i64,
    /// Nanoseconds after which a check is ended and has failed; 0: the image's, or 30 s.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub timeout: i64,
    /// How many failures in a row make the container unhealthy; 0: the image's, or 3.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub retries: i64,
    /// Nanoseconds after the start in which failures do not count; 0: the image's, or none.
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
    /// The container's configuration, over that of its image.
    #[serde(flatten)]
    pub config: ContainerConfig,
    /// The limits, mounts and namespaces of the container.
    #[serde(deserialize_with = "null_default")]
    pub host_config: HostConfig,
    /// Settings of the container's networks.
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
    /// The platform that the image must be of; absent: any, with a warning if this machine does not run it by itself. The
    /// document has no such member: it is a parameter of `POST /containers/create`.
    #[serde(skip)]
    pub platform: Option<ImagePlatform>,
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
    /// The settings by the network's name or id; absent settings are the defaults.
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
    /// The addresses that the container asks for; absent: they are chosen.
    #[serde(rename = "IPAMConfig")]
    pub ipam_config: Option<EndpointIpamConfig>,
    /// Links to other containers on this network, `name[:alias]`.
    pub links: Option<Vec<String>>,
    /// Further names by which others on this network find the container.
    pub aliases: Option<Vec<String>>,
    /// The network's id.
    #[serde(rename = "NetworkID", deserialize_with = "null_default")]
    pub network_id: String,
    /// The endpoint's id; empty: the container does not run.
    #[serde(rename = "EndpointID", deserialize_with = "null_default")]
    pub endpoint_id: String,
    /// The network's IPv4 gateway.
    #[serde(deserialize_with = "null_default")]
    pub gateway: String,
    /// The container's IPv4 address.
    #[serde(rename = "IPAddress", deserialize_with = "null_default")]
    pub ip_address: String,
    /// The length of the prefix of the IPv4 network, in bits.
    #[serde(rename = "IPPrefixLen", deserialize_with = "null_default")]
    pub ip_prefix_len: i64,
    /// The network's IPv6 gateway.
    #[serde(rename = "IPv6Gateway", deserialize_with = "null_default")]
    pub ipv6_gateway: String,
    /// The container's IPv6 address.
    #[serde(rename = "GlobalIPv6Address", deserialize_with = "null_default")]
    pub global_ipv6_address: String,
    /// The length of the prefix of the IPv6 network, in bits.
    #[serde(rename = "GlobalIPv6PrefixLen", deserialize_with = "null_default")]
    pub global_ipv6_prefix_len: i64,
    /// The hardware address, `02:42:0a:08:00:02`.
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
    /// The IPv4 address, of the network's subnet.
    #[serde(rename = "IPv4Address", skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub ipv4_address: String,
    /// The IPv6 address, of the network's subnet.
    #[serde(rename = "IPv6Address", skip_serializing_if = "String::is_empty", deserialize_with = "null_default")]
    pub ipv6_address: String,
    /// Link-local addresses besides, IPv4 or IPv6.
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
    /// `cdi`; other drivers are refused.
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
    /// Options of the driver; `cdi` has none.
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
    /// The device's path on the host.
    #[serde(deserialize_with = "null_default")]
    pub path_on_host: String,
    /// The device's path in the container.
    #[serde(deserialize_with = "null_default")]
    pub path_in_container: String,
    /// Letters of `rwm`: reading, writing, making nodes of it; empty: all.
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
    /// The device's path on the host.
    #[serde(deserialize_with = "null_default")]
    pub path: String,
    /// The weight, 10 to 1000.
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
    /// The device's path on the host.
    #[serde(deserialize_with = "null_default")]
    pub path: String,
    /// Bytes or operations a second.
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
    /// The limit's name, such as `nofile`.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// The bound up to which the process may raise the limit; -1: none.
    #[serde(deserialize_with = "null_default")]
    pub hard: i64,
    /// The limit in force; -1: none.
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
    /// The log driver's name; empty: the engine's.
    #[serde(rename = "Type", deserialize_with = "null_default")]
    pub kind: String,
    /// The driver's options.
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
    /// The host's address; empty: all addresses.
    #[serde(deserialize_with = "null_default")]
    pub host_ip: String,
    /// The host's port, or a range `first-last` of which one is chosen; empty: one is chosen.
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
    /// Directories and volumes, `source:target[:options]`; an absolute source is a path of the host.
    pub binds: Option<Vec<String>>,
    /// The file to which a client wrote the id. Kept and shown.
    #[serde(rename = "ContainerIDFile", deserialize_with = "null_default")]
    pub container_id_file: String,
    /// The log driver and its options.
    #[serde(deserialize_with = "null_default")]
    pub log_config: LogConfig,
    /// `default`, `bridge`, `none`, `host`, `container:NAME`, or a network's name or id.
    #[serde(deserialize_with = "null_default")]
    pub network_mode: String,
    /// Published ports: `port/protocol` of the container to addresses and ports of the host.
    #[serde(deserialize_with = "null_default")]
    pub port_bindings: PortMap,
    /// When the container is started again.
    #[serde(deserialize_with = "null_default")]
    pub restart_policy: RestartPolicy,
    /// Whether the container is removed, with its anonymous volumes, when it has ended.
    #[serde(deserialize_with = "null_default")]
    pub auto_remove: bool,
    /// The driver of volumes that `Binds` and `Volumes` make; empty: `local`.
    #[serde(deserialize_with = "null_default")]
    pub volume_driver: String,
    /// Containers whose mounts this one has, `name[:ro|rw]`.
    pub volumes_from: Option<Vec<String>>,
    /// Capabilities besides the default ones, with or without `CAP_`; `ALL`: every one.
    pub cap_add: Option<Vec<String>>,
    /// Capabilities that are taken away; `ALL`: every one.
    pub cap_drop: Option<Vec<String>>,
    /// Addresses of name servers; none: the host's.
    pub dns: Option<Vec<String>>,
    /// Options of the resolver.
    pub dns_options: Option<Vec<String>>,
    /// Domains in which names are looked up.
    pub dns_search: Option<Vec<String>>,
    /// Lines of `/etc/hosts`, `name:address`; the address `host-gateway` is the host's.
    pub extra_hosts: Option<Vec<String>>,
    /// Further groups of the process, by name or number.
    pub group_add: Option<Vec<String>>,
    /// `private`, `shareable`, `none`, `host` or `container:NAME`; empty: `shareable`.
    #[serde(deserialize_with = "null_default")]
    pub ipc_mode: String,
    /// A field for a runtime that engines no longer have; discarded with a warning.
    #[serde(deserialize_with = "null_default")]
    pub cgroup: String,
    /// Links to other containers on the default network, `name[:alias]`.
    pub links: Option<Vec<String>>,
    /// The preference of the out-of-memory killer, -1000 to 1000.
    #[serde(deserialize_with = "null_default")]
    pub oom_score_adj: i64,
    /// `host` or `container:NAME`; empty: a namespace of the container's own.
    #[serde(deserialize_with = "null_default")]
    pub pid_mode: String,
    /// Whether the container has all capabilities and devices, and no confinement.
    #[serde(deserialize_with = "null_default")]
    pub privileged: bool,
    /// Whether every exposed port is published, at a port that is chosen.
    #[serde(deserialize_with = "null_default")]
    pub publish_all_ports: bool,
    /// Whether the root file system is read-only.
    #[serde(deserialize_with = "null_default")]
    pub readonly_rootfs: bool,
    /// `seccomp=FILE|unconfined`, `apparmor=PROFILE`, `label=...`, `no-new-privileges`.
    pub security_opt: Option<Vec<String>>,
    /// Options of the storage; `size`: the most bytes that the container may write.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub storage_opt: StringMap,
    /// File systems in memory: their place to their mount options.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub tmpfs: StringMap,
    /// `host`: the host's names; empty: the container's own.
    #[serde(rename = "UTSMode", deserialize_with = "null_default")]
    pub uts_mode: String,
    /// `host`: the host's users; empty: as the engine was opened.
    #[serde(deserialize_with = "null_default")]
    pub userns_mode: String,
    /// Bytes; absent or 0 (which the command line sends) means 64 MiB; a negative value is refused.
    pub shm_size: Option<i64>,
    /// Kernel settings of the container's namespaces.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: StringMap,
    /// The runtime's name; empty, `runc` and `coracle` mean the only one.
    #[serde(deserialize_with = "null_default")]
    pub runtime: String,
    /// Rows and columns of the container's terminal at its start, unless the start names others.
    #[serde(deserialize_with = "null_default")]
    pub console_size: [u32; 2],
    /// Of Windows; empty and `default` are taken.
    #[serde(deserialize_with = "null_default")]
    pub isolation: String,
    /// Limits; their members stand beside the others of this object.
    #[serde(flatten)]
    pub resources: Resources,
    /// Options of a driver that engines no longer have; discarded with a warning.
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
    /// `bind`, `volume`, `tmpfs`, `image`.
    #[serde(rename = "Type", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Bind: an existing path of the host. Volume: its name; empty: the engine makes up a name. Tmpfs: empty. Image: a
    /// reference or an id.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The absolute path in the container.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// Whether the mount is read-only. The mount of an image always is.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Of other platforms: accepted, without effect.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub consistency: String,
    /// Options of a mount of type `bind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_options: Option<BindOptions>,
    /// Options of a mount of type `volume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_options: Option<VolumeOptions>,
    /// Options of a mount of type `tmpfs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tmpfs_options: Option<TmpfsOptions>,
    /// Options of a mount of type `image`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_options: Option<ImageOptions>,
}

/// How the image of [`MountRequest`] is mounted.
///
/// ```
/// use coracle::model::{ImageOptions, MountRequest};
///
/// let mount = MountRequest {
///     kind: "image".into(),
///     source: "tools:1".into(),
///     target: "/tools".into(),
///     image_options: Some(ImageOptions { subpath: "usr/bin".into() }),
///     ..Default::default()
/// };
/// assert_eq!(serde_json::to_value(&mount).unwrap()["ImageOptions"]["Subpath"], "usr/bin");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageOptions {
    /// A directory or file of the image that is mounted in place of the whole image: a relative path.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub subpath: String,
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
    /// The driver of a volume that is made for this mount.
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
    /// The driver's name; empty: `local`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The driver's options.
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
    /// Relative weight of processor time; 0: the kernel's default, 1024.
    #[serde(deserialize_with = "null_default")]
    pub cpu_shares: i64,
    /// The most bytes of memory; 0: no limit. The least is 6 MiB.
    #[serde(deserialize_with = "null_default")]
    pub memory: i64,
    /// The control group above the container's own; empty: the engine's.
    #[serde(deserialize_with = "null_default")]
    pub cgroup_parent: String,
    /// Relative weight of disk time, 10 to 1000; 0: the kernel's default.
    #[serde(deserialize_with = "null_default")]
    pub blkio_weight: u16,
    /// Relative weights of disk time by device.
    pub blkio_weight_device: Option<Vec<WeightDevice>>,
    /// The most bytes a second that are read, by device.
    pub blkio_device_read_bps: Option<Vec<ThrottleDevice>>,
    /// The most bytes a second that are written, by device.
    pub blkio_device_write_bps: Option<Vec<ThrottleDevice>>,
    /// The most reads a second, by device.
    #[serde(rename = "BlkioDeviceReadIOps")]
    pub blkio_device_read_iops: Option<Vec<ThrottleDevice>>,
    /// The most writes a second, by device.
    #[serde(rename = "BlkioDeviceWriteIOps")]
    pub blkio_device_write_iops: Option<Vec<ThrottleDevice>>,
    /// Microseconds of a period of the processor's quota; 0: the kernel's default, 100,000.
    #[serde(deserialize_with = "null_default")]
    pub cpu_period: i64,
    /// Microseconds of processor time in each period; 0: no limit.
    #[serde(deserialize_with = "null_default")]
    pub cpu_quota: i64,
    /// 10⁻⁹ CPUs, instead of period and quota; newer than this version of the API, and shown only if a request set it.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub nano_cpus: i64,
    /// The processors that may be used, such as `0-2,5`; empty: all.
    #[serde(deserialize_with = "null_default")]
    pub cpuset_cpus: String,
    /// The memory nodes that may be used, such as `0,1`; empty: all.
    #[serde(deserialize_with = "null_default")]
    pub cpuset_mems: String,
    /// Devices of the host that the container has.
    pub devices: Option<Vec<DeviceMapping>>,
    /// Rules of the device cgroup such as `c 10:* rw`; newer than this version of the API, and shown only if a request
    /// set them.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub device_cgroup_rules: Vec<String>,
    /// Devices that drivers give; the one driver is `cdi`, with the names of devices of the Container Device Interface.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub device_requests: Vec<DeviceRequest>,
    /// Of Windows; discarded with a warning. Inspect has 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_quota: Option<i64>,
    /// The most bytes of the kernel's memory; absent or 0: no limit, which inspect shows as 0. cgroup v1 alone has this limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_memory: Option<i64>,
    /// Bytes of memory to which the container is pushed back when memory is short; 0: no such bound.
    #[serde(deserialize_with = "null_default")]
    pub memory_reservation: i64,
    /// The most bytes of memory and swap together; 0: twice the memory; -1: no limit of swap.
    #[serde(deserialize_with = "null_default")]
    pub memory_swap: i64,
    /// How willingly memory is swapped out, 0 to 100; absent or -1: the host's setting.
    pub memory_swappiness: Option<i64>,
    /// Whether the kernel stops the processes rather than kill one when memory is out.
    pub oom_kill_disable: Option<bool>,
    /// The most processes and threads; 0 or -1: no limit.
    #[serde(deserialize_with = "null_default")]
    pub pids_limit: i64,
    /// Limits of the process, as setrlimit(2) has them.
    pub ulimits: Option<Vec<Ulimit>>,
    /// Of Windows; discarded with a warning.
    #[serde(deserialize_with = "null_default")]
    pub cpu_count: i64,
    /// Of Windows; discarded with a warning.
    #[serde(deserialize_with = "null_default")]
    pub cpu_percent: i64,
    /// Of Windows; refused unless 0.
    #[serde(rename = "IOMaximumIOps", deserialize_with = "null_default")]
    pub io_maximum_iops: u64,
    /// Of Windows; refused unless 0.
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
    /// The new container's id.
    pub id: String,
    /// Parts of the request that have no effect on this host, in words.
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
    /// Only containers that fit: `ancestor`, `before`, `exited`, `expose`, `health`, `id`, `is-task`, `label`,
    /// `name`, `network`, `publish`, `since`, `status`, `volume`.
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
    /// The host's address; absent if the port is not published.
    #[serde(rename = "IP", skip_serializing_if = "String::is_empty", default)]
    pub ip: String,
    /// The container's port.
    #[serde(rename = "PrivatePort")]
    pub private_port: u16,
    /// The host's port; absent if the port is not published.
    #[serde(rename = "PublicPort", skip_serializing_if = "Option::is_none")]
    pub public_port: Option<u16>,
    /// `tcp`, `udp` or `sctp`.
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
    /// The container's id.
    pub id: String,
    /// The container's names, each with a slash before it; those of links too.
    pub names: Vec<String>,
    /// The image as the create named it; its id, if it has no such name any more.
    pub image: String,
    /// The image's id.
    #[serde(rename = "ImageID")]
    pub image_id: String,
    /// The command in one line.
    pub command: String,
    /// Unix seconds.
    pub created: i64,
    /// Exposed and published ports.
    pub ports: PortList,
    /// Bytes that the container wrote; absent if it wrote none, or the request asks for no sizes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_rw: Option<i64>,
    /// Bytes of the image and of files that the container wrote; absent unless the query asks for sizes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_root_fs: Option<i64>,
    /// The container's labels.
    pub labels: StringMap,
    /// `created`, `running`, `paused`, `restarting`, `exited` or `dead`.
    pub state: String,
    /// The state for people, such as `Up 5 minutes`.
    pub status: String,
    /// The network mode.
    pub host_config: SummaryHostConfig,
    /// The container's networks.
    pub network_settings: SummaryNetworks,
    /// The container's mounts.
    pub mounts: Vec<MountPoint>,
    /// The outcome of the container's health checks in short.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub health: Option<HealthSummary>,
}

/// `Health` of a list item.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for container in engine.container_list(&Default::default())? {
///     if let Some(health) = container.health.filter(|health| health.status == "unhealthy") {
///         println!("{} failed {} times in a row", container.id, health.failing_streak);
///     }
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct HealthSummary {
    /// `none` (the container has no check, or does not run), `starting`, `healthy`, `unhealthy`.
    pub status: String,
    /// Consecutive failures.
    pub failing_streak: u32,
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
    /// As in [`HostConfig`].
    pub network_mode: String,
    /// As in [`HostConfig`]; absent: none.
    #[serde(skip_serializing_if = "StringMap::is_empty", default)]
    pub annotations: StringMap,
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
    /// The endpoints by the network's name.
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
    /// `bind`, `volume` or `tmpfs`.
    #[serde(rename = "Type", default)]
    pub kind: String,
    /// The volume's name; absent for other kinds.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub name: String,
    /// The path on the host.
    pub source: String,
    /// The path in the container.
    pub destination: String,
    /// The volume's driver; absent for other kinds.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub driver: String,
    /// The options as the request wrote them.
    pub mode: String,
    /// Whether the container can write there.
    #[serde(rename = "RW")]
    pub rw: bool,
    /// How mounts spread between host and container: `rprivate`, `shared` and the like.
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
    /// Whether a process runs; true for a paused or restarting container too.
    pub running: bool,
    /// Whether the processes are frozen.
    pub paused: bool,
    /// Whether the container waits for its next start by its restart policy.
    pub restarting: bool,
    /// Whether the kernel ended a process for want of memory.
    #[serde(rename = "OOMKilled")]
    pub oom_killed: bool,
    /// Always false; kept for clients.
    pub dead: bool,
    /// The first process on the host; 0: none.
    pub pid: i32,
    /// The exit code of the last end; 128 and the signal's number for a process that a signal ended.
    pub exit_code: i32,
    /// Why the last start failed; else empty.
    pub error: String,
    /// Time of the last start, RFC 3339; `0001-01-01T00:00:00Z`: never.
    pub started_at: String,
    /// Time of the last end, RFC 3339; `0001-01-01T00:00:00Z`: never.
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
    /// Lines that the receiver, or its kernel, acknowledged; a line that was sent twice counts once.
    pub delivered: u64,
    /// Lines that were sent to a receiver that acknowledges nothing: datagrams, and the journal.
    #[serde(default)]
    pub sent: u64,
    /// Lines that the driver leaves out, as dockerd's does: empty lines of `gelf` and `awslogs`, lines of white space of `splunk` with `raw`.
    #[serde(default)]
    pub left_out: u64,
    /// Lines that rotation removed, or that were damaged, before they were delivered, and lines that the receiver rejected for ever.
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
    /// Number of lines.
    pub lines: u64,
    /// Bytes of these lines in the log's files.
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
    /// Begin of the check, RFC 3339.
    pub start: String,
    /// End of the check, RFC 3339.
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
    /// Directories of the layers by their role.
    pub data: Option<StringMap>,
    /// `overlay2`.
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
    /// Always empty; kept for old clients.
    pub bridge: String,
    /// The id of the network namespace.
    #[serde(rename = "SandboxID")]
    pub sandbox_id: String,
    /// Always false; kept for old clients.
    pub hairpin_mode: bool,
    /// Always empty; kept for old clients.
    #[serde(rename = "LinkLocalIPv6Address")]
    pub link_local_ipv6_address: String,
    /// Always 0; kept for old clients.
    #[serde(rename = "LinkLocalIPv6PrefixLen")]
    pub link_local_ipv6_prefix_len: i64,
    /// The ports with the addresses and ports of the host where they are published.
    pub ports: PortMap,
    /// The path of the network namespace; empty: the container does not run.
    pub sandbox_key: String,
    /// Always absent; kept for old clients.
    #[serde(rename = "SecondaryIPAddresses")]
    pub secondary_ip_addresses: Option<Vec<String>>,
    /// Always absent; kept for old clients.
    #[serde(rename = "SecondaryIPv6Addresses")]
    pub secondary_ipv6_addresses: Option<Vec<String>>,
    /// The endpoint on the default network.
    #[serde(rename = "EndpointID")]
    pub endpoint_id: String,
    /// The IPv4 gateway of the default network.
    pub gateway: String,
    /// The IPv6 address on the default network.
    #[serde(rename = "GlobalIPv6Address")]
    pub global_ipv6_address: String,
    /// The length of the prefix of the default network's IPv6 subnet, in bits.
    #[serde(rename = "GlobalIPv6PrefixLen")]
    pub global_ipv6_prefix_len: i64,
    /// The IPv4 address on the default network.
    #[serde(rename = "IPAddress")]
    pub ip_address: String,
    /// The length of the prefix of the default network's IPv4 subnet, in bits.
    #[serde(rename = "IPPrefixLen")]
    pub ip_prefix_len: i64,
    /// The IPv6 gateway of the default network.
    #[serde(rename = "IPv6Gateway")]
    pub ipv6_gateway: String,
    /// The hardware address on the default network.
    pub mac_address: String,
    /// The endpoints by the network's name.
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
    /// The container's id, 64 hex digits.
    pub id: String,
    /// Time of the creation, RFC 3339.
    pub created: String,
    /// The program.
    pub path: String,
    /// The program's arguments.
    pub args: Vec<String>,
    /// The container's state.
    pub state: ContainerState,
    /// The image's id.
    pub image: String,
    /// The file on the host that the container has as `/etc/resolv.conf`.
    pub resolv_conf_path: String,
    /// The file on the host that the container has as `/etc/hostname`.
    pub hostname_path: String,
    /// The file on the host that the container has as `/etc/hosts`.
    pub hosts_path: String,
    /// The log's current file; empty unless the log driver is `json-file`.
    pub log_path: String,
    /// The container's name, with a slash before it.
    pub name: String,
    /// How often the restart policy started the container since its last start by a call.
    pub restart_count: i64,
    /// `overlay2`.
    pub driver: String,
    /// The SELinux label of the container's files; empty: none.
    pub mount_label: String,
    /// The SELinux label of the container's processes; empty: none.
    pub process_label: String,
    /// The AppArmor profile; empty: none.
    pub app_armor_profile: String,
    /// The execs that run; absent: none.
    #[serde(rename = "ExecIDs")]
    pub exec_ids: Option<Vec<String>>,
    /// The limits, mounts and namespaces of the container.
    pub host_config: HostConfig,
    /// Where the container's layers are.
    pub graph_driver: GraphDriver,
    /// Bytes that the container wrote; absent unless sizes were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_rw: Option<i64>,
    /// Bytes of the image and of files that the container wrote; absent unless sizes were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub size_root_fs: Option<i64>,
    /// The container's mounts.
    pub mounts: Vec<MountPoint>,
    /// The configuration, merged with the image's.
    pub config: ContainerConfig,
    /// The container's networks and published ports.
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
    /// The titles of the columns.
    pub titles: Vec<String>,
    /// One row a process, one text a column.
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
    /// The path in the container.
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
    /// Whether the stream goes on with new lines until the container ends.
    pub follow: bool,
    /// Lines of standard output.
    pub stdout: bool,
    /// Lines of standard error.
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
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
}

impl Default for AttachStreams {
    fn default() -> AttachStreams {
        AttachStreams { stdin: true, stdout: true, stderr: true }
    }
}
