//! The names and the types of the fields of request bodies.
//!
//! A body is checked against its table before it becomes a typed request: names match without case (as every existing
//! server matches them) and come out in their one spelling, and a wrong type is refused in the words that clients know.
//!
//! The tables hold every field that a published version of the API knows, up to the newest: one that the engine does not have
//! is refused by its name, at every version, unless it holds the zero of its type. Only fields that no version knows are
//! dropped. [`unknown`] names these, for the doors that refuse them.

use crate::json::{self, Member, Node};
use Shape::*;
use coracle::walls::Wall;
use coracle::{Error, Result};
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// The type of a value. `null` is accepted everywhere: it leaves the field unset.
#[derive(Debug)]
pub(crate) enum Shape {
    Text,
    /// A text whose type errors call it this.
    Named(&'static str),
    /// A text, or a number that stands for one.
    TextOrNumber,
    Flag,
    /// A whole number of this type.
    Int(&'static str, i128, i128),
    /// One text or a list of them; comes out as a list.
    Words,
    /// An empty object, the value of set-like maps.
    Unit,
    List(&'static Shape),
    Map(&'static Shape),
    /// A map by ports. Members of usual names ([`is_port`]) do not count: see [`json::MAX_VALUES`].
    Ports(&'static Shape),
    Struct(&'static Table),
    /// One of these texts; another one is refused, as this engine does not have it.
    Only(&'static [&'static str]),
    /// Nothing but true, for the same reason.
    True,
    /// Names and values: a map, or a list of objects of `Key` and `Value`.
    Pairs,
    /// A feature that this engine does not have: anything but the zero of its type is refused.
    Refused,
    /// A field without effect that clients send unasked: `docs/fields.md` lists them.
    Taken,
}

/// The fields of an object. `name` is what errors call its type.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    /// Tables whose fields stand here, later ones first served (`flatten`).
    pub(crate) parts: &'static [&'static [Field]],
}

pub(crate) type Field = (&'static str, Shape);

const I64: Shape = Int("int64", i64::MIN as i128, i64::MAX as i128);
const INT: Shape = Int("int", i64::MIN as i128, i64::MAX as i128);
const U16: Shape = Int("uint16", 0, u16::MAX as i128);
const U32: Shape = Int("uint", 0, u32::MAX as i128);
const U64: Shape = Int("uint64", 0, u64::MAX as i128);
const FILE_MODE: Shape = Int("os.FileMode", 0, u32::MAX as i128);
const DURATION: Shape = Int("time.Duration", i64::MIN as i128, i64::MAX as i128);
const TEXTS: Shape = List(&Text);
const TEXT_MAP: Shape = Map(&Text);

/// Body of container create.
pub(crate) static CREATE: Table =
    Table { name: "ContainerConfigWrapper", package: "runconfig", parts: &[CONFIG, WRAPPER, HOST_FIELDS] };
/// `HostConfig`, also the body of an old start.
pub(crate) static HOST_CONFIG: Table = Table { name: "HostConfig", package: "container", parts: &[HOST_FIELDS] };
/// Body of container update: the limits that can change, and the restart policy.
pub(crate) static UPDATE: Table = Table {
    name: "UpdateConfig",
    package: "container",
    parts: &[
        &[
            ("BlkioWeight", U16),
            ("CpuShares", I64),
            ("CpuPeriod", I64),
            ("CpuQuota", I64),
            ("CpusetCpus", Text),
            ("CpusetMems", Text),
            ("Memory", I64),
            ("MemorySwap", I64),
            ("MemoryReservation", I64),
            ("KernelMemory", I64),
            ("NanoCpus", I64),
            ("PidsLimit", I64),
            ("RestartPolicy", Struct(&RESTART_POLICY)),
        ],
        UNCHANGEABLE,
    ],
};
/// Members that an update's body may hold besides, and that cannot be changed.
const UNCHANGEABLE: &[Field] = &[
    ("BlkioDeviceReadBps", Refused),
    ("BlkioDeviceReadIOps", Refused),
    ("BlkioDeviceWriteBps", Refused),
    ("BlkioDeviceWriteIOps", Refused),
    ("BlkioWeightDevice", Refused),
    ("CgroupParent", Refused),
    ("CpuCount", Refused),
    ("CpuPercent", Refused),
    ("CpuRealtimePeriod", Refused),
    ("CpuRealtimeRuntime", Refused),
    ("DeviceCgroupRules", Refused),
    ("DeviceRequests", Refused),
    ("Devices", Refused),
    ("DiskQuota", Refused),
    ("IOMaximumBandwidth", Refused),
    ("IOMaximumIOps", Refused),
    ("Init", Refused),
    ("KernelMemoryTCP", Refused),
    ("MemorySwappiness", Refused),
    ("OomKillDisable", Refused),
    ("Ulimits", Refused),
];
/// Body of exec create.
pub(crate) static EXEC_CONFIG: Table = Table {
    name: "ExecConfig",
    package: "types",
    parts: &[&[
        ("User", Text),
        ("Privileged", Flag),
        ("Tty", Flag),
        ("AttachStdin", Flag),
        ("AttachStdout", Flag),
        ("AttachStderr", Flag),
        ("Detach", Flag),
        ("DetachKeys", Text),
        ("Env", TEXTS),
        ("WorkingDir", Text),
        ("Cmd", Words),
        ("ConsoleSize", List(&U32)),
        ("Container", Taken),
    ]],
};
/// Body of commit: a configuration.
pub(crate) static COMMIT: Table = Table { name: "ContainerConfigWrapper", package: "runconfig", parts: &[CONFIG] };
/// Body of volume create.
pub(crate) static CREATE_VOLUME: Table = Table {
    name: "VolumeCreateBody",
    package: "volume",
    parts: &[&[
        ("Name", Text),
        ("Driver", Text),
        ("DriverOpts", TEXT_MAP),
        ("Labels", TEXT_MAP),
        ("ClusterVolumeSpec", Refused),
    ]],
};
/// Body of copy.
pub(crate) static COPY: Table = Table { name: "CopyConfig", package: "types", parts: &[&[("Resource", Text)]] };
/// Body of exec start.
pub(crate) static EXEC_START: Table = Table {
    name: "ExecStartCheck",
    package: "types",
    parts: &[&[("Detach", Flag), ("Tty", Flag), ("ConsoleSize", List(&U32))]],
};

/// The container's own configuration inside the create body.
/// Body of network create.
pub(crate) static NETWORK_CREATE: Table = Table {
    name: "NetworkCreateRequest",
    package: "types",
    parts: &[&[
        ("Name", Text),
        ("CheckDuplicate", Flag),
        ("Driver", Text),
        ("EnableIPv6", Flag),
        ("IPAM", Struct(&IPAM)),
        ("Internal", Flag),
        ("Attachable", Flag),
        ("Options", TEXT_MAP),
        ("Labels", TEXT_MAP),
        ("Scope", Only(&["", "local"])),
        ("EnableIPv4", True),
        ("ConfigFrom", Refused),
        ("ConfigOnly", Refused),
        ("Ingress", Refused),
    ]],
};
/// Body of network connect.
pub(crate) static NETWORK_CONNECT: Table = Table {
    name: "NetworkConnect",
    package: "types",
    parts: &[&[("Container", Text), ("EndpointConfig", Struct(&ENDPOINT_SETTINGS))]],
};
static MOUNT: Table = Table {
    name: "Mount",
    package: "mount",
    parts: &[&[
        ("Type", Named("mount.Type")),
        ("Source", Text),
        ("Target", Text),
        ("ReadOnly", Flag),
        ("Consistency", Named("mount.Consistency")),
        ("BindOptions", Struct(&BIND_OPTIONS)),
        ("VolumeOptions", Struct(&VOLUME_OPTIONS)),
        ("TmpfsOptions", Struct(&TMPFS_OPTIONS)),
        ("ImageOptions", Struct(&IMAGE_OPTIONS)),
        ("ClusterOptions", Refused),
    ]],
};
static BIND_OPTIONS: Table = Table {
    name: "BindOptions",
    package: "mount",
    parts: &[&[
        ("Propagation", Named("mount.Propagation")),
        ("NonRecursive", Flag),
        ("CreateMountpoint", Flag),
        ("ReadOnlyForceRecursive", Flag),
        ("ReadOnlyNonRecursive", Flag),
    ]],
};
static IMAGE_OPTIONS: Table = Table { name: "ImageOptions", package: "mount", parts: &[&[("Subpath", Text)]] };
static VOLUME_OPTIONS: Table = Table {
    name: "VolumeOptions",
    package: "mount",
    parts: &[&[("NoCopy", Flag), ("Labels", TEXT_MAP), ("DriverConfig", Struct(&DRIVER_CONFIG)), ("Subpath", Text)]],
};
static DRIVER_CONFIG: Table =
    Table { name: "Driver", package: "mount", parts: &[&[("Name", Text), ("Options", TEXT_MAP)]] };
static TMPFS_OPTIONS: Table = Table {
    name: "TmpfsOptions",
    package: "mount",
    parts: &[&[("SizeBytes", I64), ("Mode", FILE_MODE), ("Options", Refused)]],
};

/// Body of network disconnect.
pub(crate) static NETWORK_DISCONNECT: Table =
    Table { name: "NetworkDisconnect", package: "types", parts: &[&[("Container", Text), ("Force", Flag)]] };

static IPAM: Table = Table {
    name: "IPAM",
    package: "network",
    parts: &[&[("Driver", Text), ("Options", TEXT_MAP), ("Config", List(&Struct(&IPAM_CONFIG)))]],
};

static IPAM_CONFIG: Table = Table {
    name: "IPAMConfig",
    package: "network",
    parts: &[&[
        ("Subnet", Text),
        ("IPRange", Text),
        ("Gateway", Text),
        ("AuxiliaryAddresses", TEXT_MAP),
        ("AuxAddress", TEXT_MAP),
    ]],
};

pub(crate) const CONFIG: &[Field] = &[
    ("Hostname", Text),
    ("Domainname", Text),
    ("User", Text),
    ("AttachStdin", Flag),
    ("AttachStdout", Flag),
    ("AttachStderr", Flag),
    ("ExposedPorts", Ports(&Unit)),
    ("Tty", Flag),
    ("OpenStdin", Flag),
    ("StdinOnce", Flag),
    ("Env", TEXTS),
    ("Cmd", Words),
    ("Healthcheck", Struct(&HEALTHCHECK)),
    ("Image", Text),
    ("Volumes", Map(&Unit)),
    ("WorkingDir", Text),
    ("Entrypoint", Words),
    ("NetworkDisabled", Flag),
    ("MacAddress", Text),
    ("OnBuild", TEXTS),
    ("Labels", TEXT_MAP),
    ("StopSignal", TextOrNumber),
    ("Shell", Words),
    ("StopTimeout", INT),
    ("PortSpecs", Refused),
    ("ArgsEscaped", Taken),
];

/// Fields of the create body that are neither configuration.
pub(crate) const WRAPPER: &[Field] =
    &[("HostConfig", Struct(&HOST_CONFIG)), ("NetworkingConfig", Struct(&NETWORKING)), ("Cpuset", Text)];

/// Host configuration.
pub(crate) const HOST_FIELDS: &[Field] = &[
    ("Binds", TEXTS),
    ("ContainerIDFile", Text),
    ("LogConfig", Struct(&LOG_CONFIG)),
    ("NetworkMode", Named("container.NetworkMode")),
    ("PortBindings", Ports(&List(&Struct(&PORT_BINDING)))),
    ("RestartPolicy", Struct(&RESTART_POLICY)),
    ("AutoRemove", Flag),
    ("Mounts", List(&Struct(&MOUNT))),
    ("DeviceCgroupRules", List(&Text)),
    ("Init", Flag),
    ("NanoCpus", I64),
    ("MaskedPaths", TEXTS),
    ("ReadonlyPaths", TEXTS),
    ("VolumeDriver", Text),
    ("VolumesFrom", TEXTS),
    ("CapAdd", Words),
    ("CapDrop", Words),
    ("Dns", TEXTS),
    ("DnsOptions", TEXTS),
    ("DnsSearch", TEXTS),
    ("ExtraHosts", TEXTS),
    ("GroupAdd", TEXTS),
    ("IpcMode", Named("container.IpcMode")),
    ("Cgroup", Named("container.CgroupSpec")),
    ("Links", TEXTS),
    ("OomScoreAdj", INT),
    ("PidMode", Named("container.PidMode")),
    ("Privileged", Flag),
    ("PublishAllPorts", Flag),
    ("ReadonlyRootfs", Flag),
    ("SecurityOpt", TEXTS),
    ("StorageOpt", TEXT_MAP),
    ("Tmpfs", TEXT_MAP),
    ("UTSMode", Named("container.UTSMode")),
    ("UsernsMode", Named("container.UsernsMode")),
    ("ShmSize", I64),
    ("Sysctls", TEXT_MAP),
    ("Runtime", Text),
    ("ConsoleSize", List(&U32)),
    ("Isolation", Named("container.Isolation")),
    ("CpuShares", I64),
    ("Memory", I64),
    ("CgroupParent", Text),
    ("BlkioWeight", U16),
    ("BlkioWeightDevice", List(&Struct(&WEIGHT_DEVICE))),
    ("BlkioDeviceReadBps", List(&Struct(&THROTTLE_DEVICE))),
    ("BlkioDeviceWriteBps", List(&Struct(&THROTTLE_DEVICE))),
    ("BlkioDeviceReadIOps", List(&Struct(&THROTTLE_DEVICE))),
    ("BlkioDeviceWriteIOps", List(&Struct(&THROTTLE_DEVICE))),
    ("CpuPeriod", I64),
    ("CpuQuota", I64),
    ("CpusetCpus", Text),
    ("CpusetMems", Text),
    ("Devices", List(&Struct(&DEVICE_MAPPING))),
    ("DiskQuota", I64),
    ("KernelMemory", I64),
    ("MemoryReservation", I64),
    ("MemorySwap", I64),
    ("MemorySwappiness", I64),
    ("OomKillDisable", Flag),
    ("PidsLimit", I64),
    ("Ulimits", List(&Struct(&ULIMIT))),
    ("CpuCount", I64),
    ("CpuPercent", I64),
    ("IOMaximumIOps", U64),
    ("IOMaximumBandwidth", U64),
    ("LxcConf", Pairs),
    ("CgroupnsMode", Named("container.CgroupnsMode")),
    ("Annotations", TEXT_MAP),
    ("Capabilities", Refused),
    ("CpuRealtimePeriod", Refused),
    ("CpuRealtimeRuntime", Refused),
    ("DeviceRequests", List(&Struct(&DEVICE_REQUEST))),
    ("KernelMemoryTCP", Refused),
];

static HEALTHCHECK: Table = Table {
    name: "HealthConfig",
    package: "container",
    parts: &[&[
        ("Test", TEXTS),
        ("Interval", DURATION),
        ("Timeout", DURATION),
        ("StartPeriod", DURATION),
        ("Retries", INT),
        ("StartInterval", DURATION),
    ]],
};
static NETWORKING: Table = Table {
    name: "NetworkingConfig",
    package: "network",
    parts: &[&[("EndpointsConfig", Map(&Struct(&ENDPOINT_SETTINGS)))]],
};
static ENDPOINT_SETTINGS: Table = Table {
    name: "EndpointSettings",
    package: "network",
    parts: &[&[
        ("IPAMConfig", Struct(&ENDPOINT_IPAM)),
        ("Links", TEXTS),
        ("Aliases", TEXTS),
        ("NetworkID", Text),
        ("EndpointID", Text),
        ("Gateway", Text),
        ("IPAddress", Text),
        ("IPPrefixLen", INT),
        ("IPv6Gateway", Text),
        ("GlobalIPv6Address", Text),
        ("GlobalIPv6PrefixLen", INT),
        ("MacAddress", Text),
        ("DNSNames", Taken),
        ("DriverOpts", TEXT_MAP),
        ("GwPriority", INT),
    ]],
};
static ENDPOINT_IPAM: Table = Table {
    name: "EndpointIPAMConfig",
    package: "network",
    parts: &[&[("IPv4Address", Text), ("IPv6Address", Text), ("LinkLocalIPs", TEXTS)]],
};
static LOG_CONFIG: Table =
    Table { name: "LogConfig", package: "container", parts: &[&[("Type", Text), ("Config", TEXT_MAP)]] };
static PORT_BINDING: Table =
    Table { name: "PortBinding", package: "nat", parts: &[&[("HostIp", Text), ("HostPort", Text)]] };
static RESTART_POLICY: Table =
    Table { name: "RestartPolicy", package: "container", parts: &[&[("Name", Text), ("MaximumRetryCount", INT)]] };
static WEIGHT_DEVICE: Table =
    Table { name: "WeightDevice", package: "blkiodev", parts: &[&[("Path", Text), ("Weight", U16)]] };
static THROTTLE_DEVICE: Table =
    Table { name: "ThrottleDevice", package: "blkiodev", parts: &[&[("Path", Text), ("Rate", U64)]] };
static DEVICE_MAPPING: Table = Table {
    name: "DeviceMapping",
    package: "container",
    parts: &[&[("PathOnHost", Text), ("PathInContainer", Text), ("CgroupPermissions", Text)]],
};
static DEVICE_REQUEST: Table = Table {
    name: "DeviceRequest",
    package: "container",
    parts: &[&[
        ("Driver", Text),
        ("Count", INT),
        ("DeviceIDs", TEXTS),
        ("Capabilities", List(&TEXTS)),
        ("Options", TEXT_MAP),
    ]],
};
static ULIMIT: Table =
    Table { name: "Ulimit", package: "units", parts: &[&[("Name", Text), ("Hard", I64), ("Soft", I64)]] };

/// Reads `text` as an object of `table`: canonical names, checked types, without nulls and unknown fields.
pub(crate) fn read<'t>(text: &'t [u8], table: &'static Table) -> Result<Node<'t>> {
    read_without(text, table, &[])
}

/// Like [`read`], and without the fields `dropped`, which the request's version of the API does not know any more.
pub(crate) fn read_without<'t>(text: &'t [u8], table: &'static Table, dropped: &[&str]) -> Result<Node<'t>> {
    let node = json::parse(text).map_err(Error::invalid)?;
    if matches!(node, Node::Null) {
        return Ok(Node::Object(Vec::new()));
    }
    Check { owner: None, path: Vec::new(), count: Count::default(), dropped }.value(node, &Struct(table))
}

/// A checked object as the typed request.
pub(crate) fn typed<T: DeserializeOwned>(node: Node<'_>) -> Result<T> {
    T::deserialize(node).map_err(|e| Error::invalid(e.to_string()))
}

/// A value that was found to be of a shape, in the form that [`read`] gives values.
pub(crate) fn checked<'t>(node: Node<'t>, shape: &Shape) -> Result<Node<'t>> {
    Check { owner: None, path: Vec::new(), count: Count::default(), dropped: &[] }.value(node, shape)
}

/// Whether a name of a map by ports is written as ports usually are: such names and their bindings are packed.
fn is_port(name: &str) -> bool {
    let Some((number, protocol)) = name.split_once('/') else { return false };
    let is_plain = !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
    is_plain && number.parse::<u16>().is_ok() && matches!(protocol, "tcp" | "udp" | "sctp")
}

/// How many values of a document count so far: those that become a request, but for ports.
#[derive(Default)]
struct Count(usize);

impl Count {
    fn one(&mut self) -> Result<()> {
        self.0 += 1;
        match self.0 > json::MAX_VALUES && Wall::DocumentValues.stands() {
            true => Err(Error::invalid(json::too_many(json::MAX_VALUES))),
            false => Ok(()),
        }
    }
}

struct Check<'d> {
    owner: Option<&'static str>,
    path: Vec<&'static str>,
    count: Count,
    /// Fields that are left out as unknown ones are.
    dropped: &'d [&'d str],
}

impl Check<'_> {
    fn value<'t>(&mut self, node: Node<'t>, shape: &Shape) -> Result<Node<'t>> {
        self.count.one()?;
        Ok(match (shape, node) {
            (_, Node::Null) | (Taken, _) => Node::Null,
            (Refused, node) => match is_zero(&node) {
                true => Node::Null,
                false => return self.refused(),
            },
            (True, Node::Bool(true)) => Node::Null,
            (True, Node::Bool(false)) => return self.refused(),
            (Only(words), Node::Text(text)) => match words.contains(&&*text) {
                true => Node::Null,
                false => return self.refused(),
            },
            (Pairs, node @ Node::Object(_)) => node,
            (Pairs, Node::Large(members)) => {
                members.iter().try_for_each(|_| self.count.one())?;
                Node::Large(members)
            }
            (Pairs, Node::List(items)) => Node::Object(items.into_iter().filter_map(pair).collect()),
            (Text | Named(_) | TextOrNumber, node @ Node::Text(_)) => node,
            (Words, word @ Node::Text(_)) => Node::List(vec![word]),
            (Flag, node @ Node::Bool(_)) => node,
            (TextOrNumber, Node::Number(n)) if n.parse::<u32>().is_ok() => Node::Text(n),
            (Int(_, low, high), Node::Number(n)) => match n.parse::<i128>() {
                Ok(i) if (*low..=*high).contains(&i) => Node::Number(i.to_string().into()),
                _ => return self.mismatch(&format!("number {n}"), shape),
            },
            (Unit, Node::Object(_) | Node::Large(_)) => Node::Object(Vec::new()),
            (Words, Node::List(items)) => self.list(items, &Text)?,
            (List(of), Node::List(items)) => self.list(items, of)?,
            (Map(of) | Ports(of), Node::Object(mut fields)) => {
                for (_, value) in &mut fields {
                    *value = self.value(std::mem::replace(value, Node::Null), of)?;
                }
                Node::Object(fields)
            }
            (Map(of) | Ports(of), Node::Large(mut members)) => {
                for (name, value) in members.iter() {
                    let before = self.count.0;
                    self.value(value, of)?;
                    if matches!(shape, Ports(_)) && is_port(&name) {
                        self.count.0 = before;
                    }
                }
                members.of = Some(of);
                Node::Large(members)
            }
            (Struct(table), Node::Object(fields)) => self.object(table, fields)?,
            (Struct(table), Node::Large(members)) => self.object(table, members.iter())?,
            (_, node) => return self.mismatch(node.kind(), shape),
        })
    }
    fn list<'t>(&mut self, items: Vec<Node<'t>>, of: &Shape) -> Result<Node<'t>> {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            // A null item is the item type's zero value: only texts and numbers occur in lists of plain values.
            match (self.value(item, of)?, of) {
                (Node::Null, Text) => out.push(Node::Text("".into())),
                (Node::Null, Int(..)) => out.push(Node::Number("0".into())),
                (Node::Null, _) => {}
                (item, _) => out.push(item),
            }
        }
        Ok(Node::List(out))
    }
    fn object<'t>(&mut self, table: &'static Table, fields: impl IntoIterator<Item = Member<'t>>) -> Result<Node<'t>> {
        let outer = self.owner.replace(table.name);
        let mut out: Vec<Member<'t>> = Vec::new();
        for (key, value) in fields {
            let known = table.parts.iter().flat_map(|part| part.iter()).find(|(n, _)| n.eq_ignore_ascii_case(&key));
            let Some((name, shape)) = known.filter(|(name, _)| !self.dropped.contains(name)) else { continue };
            self.path.push(name);
            let value = self.value(value, shape)?;
            self.path.pop();
            // The last one said wins; a null leaves the field as it was.
            if !matches!(value, Node::Null) {
                out.retain(|(k, _)| k != name);
                out.push(((*name).into(), value));
            }
        }
        self.owner = outer;
        Ok(Node::Object(out))
    }
    /// The field that is looked at is known, and this engine does not have it.
    fn refused<T>(&self) -> Result<T> {
        Err(not_supported(&self.path))
    }
    fn mismatch<T>(&self, found: &str, shape: &Shape) -> Result<T> {
        let place = match self.owner {
            Some(owner) => format!("Go struct field {owner}.{}", self.path.join(".")),
            None => "Go value".into(),
        };
        Err(Error::invalid(format!("json: cannot unmarshal {found} into {place} of type {}", type_name(shape))))
    }
}

/// A `Key` and its `Value`.
fn pair(item: Node<'_>) -> Option<Member<'_>> {
    let is = |found: &str, name: &str| found.eq_ignore_ascii_case(name);
    let find = |name: &str| match &item {
        Node::Object(fields) => fields.iter().find(|(n, _)| is(n, name)).map(|(_, value)| value.clone()),
        Node::Large(members) => members.iter().find(|(n, _)| is(n, name)).map(|(_, value)| value),
        _ => None,
    };
    match find("Key") {
        Some(Node::Text(key)) => Some((key, find("Value").unwrap_or(Node::Null))),
        _ => None,
    }
}

/// Whether a value is the zero of its type, which asks for nothing.
pub(crate) fn is_zero(node: &Node<'_>) -> bool {
    match node {
        Node::Null => true,
        Node::Bool(on) => !on,
        Node::Number(number) => number.parse::<f64>() == Ok(0.0),
        Node::Text(text) => text.is_empty(),
        Node::List(items) => items.is_empty(),
        Node::Object(fields) => fields.iter().all(|(_, value)| is_zero(value)),
        Node::Large(members) => members.iter().all(|(_, value)| is_zero(&value)),
    }
}

/// A document of a door that knows one version of the API, the newest.
///
/// ```
/// use coracle_http::{Document, unknown};
///
/// // A member that no version of the API has.
/// let body = br#"{"Image": "busybox", "Colour": "red"}"#;
/// assert!(unknown(body, Document::Create)?.iter().any(|line| line.contains("Colour")));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// Body of container create.
    Create,
    /// Body of container update.
    Update,
    /// Body of exec create.
    Exec,
    /// A configuration, as commit takes it.
    Config,
    /// Body of volume create.
    Volume,
    /// Body of network create.
    Network,
    /// Body of network connect.
    Connect,
    /// Body of network disconnect.
    Disconnect,
}

/// The newest create body: host configuration stands in its place alone.
static NEWEST_CREATE: Table =
    Table { name: "ContainerConfigWrapper", package: "runconfig", parts: &[CONFIG, NEWEST_WRAPPER] };
const NEWEST_WRAPPER: &[Field] = &[("HostConfig", Struct(&HOST_CONFIG)), ("NetworkingConfig", Struct(&NETWORKING))];

/// The members of `text` that no version of the API knows, a line for each with the nearest name that one knows. Names count
/// as they are spelled here, not as over HTTP.
///
/// # Errors
/// A member is known, and not supported; or `text` is not such a document.
pub fn unknown(text: &[u8], document: Document) -> Result<Vec<String>> {
    let table = table_of(document);
    let node = json::parse(text).map_err(Error::invalid)?;
    let mut lines = Vec::new();
    // The reader of the document reports wrong types.
    let mut count = Count::default();
    strangers(node, &Struct(table), &mut Vec::new(), &mut |line| {
        lines.push(line);
        count.one()
    })?;
    Ok(lines)
}

/// The members of a document.
pub(crate) fn table_of(document: Document) -> &'static Table {
    match document {
        Document::Create => &NEWEST_CREATE,
        Document::Update => &UPDATE,
        Document::Exec => &EXEC_CONFIG,
        Document::Config => &COMMIT,
        Document::Volume => &CREATE_VOLUME,
        Document::Network => &NETWORK_CREATE,
        Document::Connect => &NETWORK_CONNECT,
        Document::Disconnect => &NETWORK_DISCONNECT,
    }
}

/// Reports each member that no version of the API knows.
fn strangers<'t>(
    node: Node<'t>,
    shape: &Shape,
    path: &mut Vec<Cow<'t, str>>,
    report: &mut dyn FnMut(String) -> Result<()>,
) -> Result<()> {
    match (shape, node) {
        (Struct(table), node @ (Node::Object(_) | Node::Large(_))) => {
            let known = || table.parts.iter().flat_map(|part| part.iter());
            members(node, |name, value| {
                path.push(name.clone());
                match known().find(|(n, _)| *n == name) {
                    Some((_, shape)) => strangers(value, shape, path, report)?,
                    None => {
                        let names: Vec<&str> = known().map(|(name, _)| *name).collect();
                        let place = path[..path.len() - 1].iter().map(|part| format!("{part}.")).collect::<String>();
                        report(place + &stranger(&name, &names))?;
                    }
                }
                path.pop();
                Ok(())
            })?;
        }
        (Map(of) | Ports(of), node @ (Node::Object(_) | Node::Large(_))) => members(node, |name, value| {
            path.push(name);
            strangers(value, of, path, report)?;
            path.pop();
            Ok(())
        })?,
        (List(of), Node::List(items)) => {
            for item in items {
                strangers(item, of, path, report)?;
            }
        }
        (Refused, node) if !is_zero(&node) => return Err(not_supported(path)),
        (True, Node::Bool(false)) => return Err(not_supported(path)),
        (Only(words), Node::Text(text)) if !words.contains(&&*text) => return Err(not_supported(path)),
        _ => {}
    }
    Ok(())
}

/// Does something with each member of an object.
fn members<'t>(node: Node<'t>, mut each: impl FnMut(Cow<'t, str>, Node<'t>) -> Result<()>) -> Result<()> {
    match node {
        Node::Object(fields) => fields.into_iter().try_for_each(|(name, value)| each(name, value)),
        Node::Large(members) => members.iter().try_for_each(|(name, value)| each(name, value)),
        _ => Ok(()),
    }
}

fn not_supported<S: AsRef<str>>(path: &[S]) -> Error {
    let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
    let path = path.join(".");
    Error::unsupported(format!("{path} is not supported")).in_field(path)
}

/// The line for a name that is not in `known`, with the nearest name there, where one is near.
pub fn stranger(name: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|other| (distance(name, other), *other)).min();
    match nearest {
        Some((far, other)) if far <= name.len().max(other.len()) / 2 => {
            format!("{name} is not a known member: the nearest is {other}")
        }
        _ => format!("{name} is not a known member"),
    }
}

/// How many letters are to be added, taken away or changed, whatever their case (which counts where nothing else differs).
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase().into_bytes(), b.to_ascii_lowercase().into_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn type_name(shape: &Shape) -> String {
    match shape {
        Text | TextOrNumber | Words | Only(_) => "string".into(),
        Named(name) | Int(name, ..) => (*name).into(),
        Flag | True => "bool".into(),
        Pairs => "[]runconfig.KeyValuePair".into(),
        // Whatever stands there is taken or refused.
        Refused | Taken => "interface {}".into(),
        Unit => "struct {}".into(),
        List(of) => format!("[]{}", type_name(of)),
        Map(of) | Ports(of) => format!("map[string]{}", type_name(of)),
        Struct(table) => format!("{}.{}", table.package, table.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle::ErrorKind;
    use coracle::model::{ContainerConfig, CreateBody, HostConfig};
    use serde_json::Value;

    fn message(text: &str) -> String {
        read(text.as_bytes(), &CREATE).unwrap_err().message().to_owned()
    }

    #[test]
    fn wrong_types_are_named_as_clients_know_them() {
        let field = |rest: &str| format!("json: cannot unmarshal {rest}");
        for (body, text) in [
            ("[]", "array into Go value of type runconfig.ContainerConfigWrapper"),
            ("\"x\"", "string into Go value of type runconfig.ContainerConfigWrapper"),
            ("{\"Cmd\":5}", "number into Go struct field ContainerConfigWrapper.Cmd of type string"),
            ("{\"Env\":\"x\"}", "string into Go struct field ContainerConfigWrapper.Env of type []string"),
            ("{\"Env\":[5]}", "number into Go struct field ContainerConfigWrapper.Env of type string"),
            ("{\"Labels\":{\"a\":5}}", "number into Go struct field ContainerConfigWrapper.Labels of type string"),
            ("{\"Memory\":\"x\"}", "string into Go struct field ContainerConfigWrapper.Memory of type int64"),
            (
                "{\"HostConfig\":[]}",
                "array into Go struct field ContainerConfigWrapper.HostConfig of type container.HostConfig",
            ),
            (
                "{\"HostConfig\":{\"memory\":1.5}}",
                "number 1.5 into Go struct field HostConfig.HostConfig.Memory of type int64",
            ),
            (
                "{\"HostConfig\":{\"BlkioWeight\":70000}}",
                "number 70000 into Go struct field HostConfig.HostConfig.BlkioWeight of type uint16",
            ),
            (
                "{\"HostConfig\":{\"IpcMode\":5}}",
                "number into Go struct field HostConfig.HostConfig.IpcMode of type container.IpcMode",
            ),
            (
                "{\"HostConfig\":{\"RestartPolicy\":{\"Name\":3}}}",
                "number into Go struct field RestartPolicy.HostConfig.RestartPolicy.Name of type string",
            ),
            (
                "{\"HostConfig\":{\"Ulimits\":[{\"Name\":3}]}}",
                "number into Go struct field Ulimit.HostConfig.Ulimits.Name of type string",
            ),
            (
                "{\"ExposedPorts\":{\"80\":5}}",
                "number into Go struct field ContainerConfigWrapper.ExposedPorts of type struct {}",
            ),
            (
                "{\"Healthcheck\":{\"Interval\":\"1s\"}}",
                "string into Go struct field HealthConfig.Healthcheck.Interval of type time.Duration",
            ),
            (
                "{\"HostConfig\":{\"PortBindings\":{\"80/tcp\":5}}}",
                "number into Go struct field HostConfig.HostConfig.PortBindings of type []nat.PortBinding",
            ),
            (
                "{\"NetworkingConfig\":{\"EndpointsConfig\":{\"a\":5}}}",
                "number into Go struct field NetworkingConfig.NetworkingConfig.EndpointsConfig of type \
                 network.EndpointSettings",
            ),
        ] {
            let text = text.replace("                 ", "");
            assert_eq!(message(body), field(&text), "{body}");
        }
    }

    #[test]
    fn names_match_without_case() {
        let node = read(
            b"{\"IMAGE\":\"a\",\"image\":\"b\",\"x\":1,\"hostconfig\":{\"dnsSearch\":[null]},\"tty\":null}",
            &CREATE,
        );
        let value = json::to_value(&node.unwrap());
        assert_eq!(value, serde_json::json!({"Image": "b", "HostConfig": {"DnsSearch": [""]}}));
    }

    #[test]
    fn the_reader_refuses_unknown_fields_by_name_unless_the_value_is_zero() {
        let said = |value: &str| {
            let text = format!("{{\"Image\":\"i\",\"HostConfig\":{{\"capabilities\":{value}}}}}");
            read(text.as_bytes(), &CREATE).map(|node| json::to_value(&node))
        };
        for zero in ["null", "false", "0", "0.0", "\"\"", "[]", "{}", "{\"a\":{\"b\":0}}"] {
            let value = said(zero).unwrap();
            assert_eq!(value, serde_json::json!({"Image": "i", "HostConfig": {}}), "{zero}");
        }
        for other in ["true", "1", "-1", "\"x\"", "[0]", "{\"a\":1}"] {
            let error = said(other).unwrap_err();
            assert_eq!(
                (error.kind(), error.message()),
                (ErrorKind::Unsupported, "HostConfig.Capabilities is not supported")
            );
        }
        let host = |text: &str| read(text.as_bytes(), &HOST_CONFIG).map(|node| json::to_value(&node));
        let pairs = host("{\"LxcConf\":[{\"Key\":\"a\",\"Value\":\"b\"}]}").unwrap();
        assert_eq!(pairs, serde_json::json!({"LxcConf": {"a": "b"}}));
        let deep = "{\"Mounts\":[{\"TmpfsOptions\":{\"Options\":[[\"noexec\"]]}}]}";
        assert_eq!(host(deep).unwrap_err().message(), "Mounts.TmpfsOptions.Options is not supported");
    }

    #[test]
    fn strangers_are_named_with_what_was_meant() {
        let reported = |text: &str| unknown(text.as_bytes(), Document::Create).unwrap();
        let meant = |place: &str, name: &str| format!("{place} is not a known member: the nearest is {name}");
        assert_eq!(
            reported("{\"HostConfig\":{\"ReadonlyRootfss\":true}}"),
            [meant("HostConfig.ReadonlyRootfss", "ReadonlyRootfs")]
        );
        assert_eq!(reported("{\"image\":\"x\",\"Cnd\":[]}"), [meant("image", "Image"), meant("Cnd", "Cmd")]);
        assert_eq!(reported("{\"Quux\":1}"), ["Quux is not a known member"]);
        // Binds stands in HostConfig.
        assert_eq!(reported("{\"Binds\":[]}").len(), 1);
        let deep = "{\"HostConfig\":{\"Ulimits\":[{\"Name\":\"x\",\"Hart\":1}],\"PortBindings\":{\"80\":[{\"HostPorts\":1}]}}}";
        assert_eq!(
            reported(deep),
            [
                meant("HostConfig.Ulimits.Hart", "Hard"),
                "HostConfig.PortBindings.80.HostPorts is not a known member: the nearest is HostPort".into()
            ]
        );
        assert!(reported("{\"Labels\":{\"any\":\"x\"},\"Image\":5}").is_empty(), "a wrong type is the reader's");
        let error = unknown(b"{\"PortSpecs\":[\"3\"]}", Document::Create).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Unsupported, "PortSpecs is not supported"));
        assert_eq!(distance("abc", "acb"), 2);
    }

    /// Every field that the typed requests have must be in the tables, else it would be dropped on its way.
    #[test]
    fn tables_hold_every_field_of_the_model() {
        let names = |value: Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let full = ContainerConfig { stop_signal: "x".into(), mac_address: "x".into(), ..Default::default() };
        for name in names(serde_json::to_value(full).unwrap()) {
            assert!(CONFIG.iter().any(|(n, _)| *n == name), "{name}");
        }
        for name in names(serde_json::to_value(HostConfig::default()).unwrap()) {
            assert!(HOST_FIELDS.iter().any(|(n, _)| *n == name), "{name}");
        }
    }

    #[test]
    fn ports_count_for_nothing_and_other_values_for_one() {
        let body = |field: &str, member: &dyn Fn(usize) -> String, count: usize| {
            let members: Vec<String> = (1..=count).map(member).collect();
            let tail = if field.contains("HostConfig") { "}}}" } else { "}}" };
            format!("{{{field}{{{}{tail}", members.join(","))
        };
        let exposed = "\"ExposedPorts\":";
        let bound = "\"HostConfig\":{\"PortBindings\":";
        let binding = |port: usize| format!("\"{port}/tcp\":[{{\"HostIp\":\"::1\",\"HostPort\":\"{port}\"}}]");
        let named = |name: usize| format!("\"{name:x}x\":{{}}");
        let all = 65_535;
        read(body(exposed, &|port| format!("\"{port}/udp\":{{}}"), all).as_bytes(), &CREATE).expect("every port");
        let bound = body(bound, &binding, all);
        let node = read(bound.as_bytes(), &CREATE).expect("every binding");
        assert_eq!(typed::<CreateBody>(node).expect("a request").host_config.port_bindings.len(), all);
        assert_eq!(unknown(bound.as_bytes(), Document::Create).expect("known"), Vec::<String>::new());
        for field in [exposed, "\"Volumes\":"] {
            assert_eq!(message(&body(field, &named, json::MAX_VALUES)), json::too_many(json::MAX_VALUES), "{field}");
        }
        let strangers: Vec<String> = (0..=json::MAX_VALUES).map(|at| format!("\"{at}\":0")).collect();
        let strangers = format!("{{{}}}", strangers.join(","));
        let error = unknown(strangers.as_bytes(), Document::Disconnect).unwrap_err();
        assert_eq!(error.message(), json::too_many(json::MAX_VALUES));
        for name in ["1/tcp", "65535/udp", "80/sctp"] {
            assert!(is_port(name), "{name}");
        }
        for name in ["0/tcp", "01/tcp", "65536/tcp", "+1/tcp", "/tcp", "80", "80/TCP", "80/tcp/", "1-2/tcp", ""] {
            assert!(!is_port(name), "{name}");
        }
    }

    /// A body with every field of every table must become a typed request.
    #[test]
    fn checked_bodies_deserialise() {
        fn sample(shape: &Shape) -> Node<'static> {
            match shape {
                Text | Named(_) | TextOrNumber => Node::Text("1".into()),
                Words => Node::List(vec![Node::Text("word".into())]),
                Flag => Node::Bool(true),
                Int(..) => Node::Number("7".into()),
                Unit | Pairs => Node::Object(Vec::new()),
                Only(_) | True | Refused | Taken => Node::Null,
                List(of) => Node::List(vec![sample(of), sample(of)]),
                Map(of) | Ports(of) => Node::Object(vec![("k".into(), sample(of))]),
                Struct(table) => Node::Object(
                    table.parts.iter().flat_map(|p| p.iter()).map(|(n, s)| ((*n).into(), sample(s))).collect(),
                ),
            }
        }
        let config = Table { name: "", package: "", parts: &[CONFIG] };
        let config: &'static Table = Box::leak(Box::new(config));
        let body: CreateBody = typed(sample(&Struct(config))).unwrap();
        assert_eq!(body.config.cmd.unwrap(), ["word"]);
        let host: HostConfig = typed(sample(&Struct(&HOST_CONFIG))).unwrap();
        assert_eq!(host.resources.memory, 7);
        assert_eq!(host.console_size, [7, 7]);
        let null = read(b"{\"HostConfig\":{\"Memory\":null,\"LogConfig\":{\"Type\":null}}}", &CREATE).unwrap();
        typed::<CreateBody>(null).unwrap();
    }
}
