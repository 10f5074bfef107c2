//! Networks: bodies of create, connect and disconnect; the documents of list and inspect.
// The fields are the specification's own names; their meaning stands there.
#![allow(missing_docs)]

use super::{EndpointSettings, Filters, StringMap, null_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One pool of addresses.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::{CreateNetwork, Ipam, IpamPool};
///
/// let pool = IpamPool { subnet: "10.8.0.0/24".into(), gateway: "10.8.0.1".into(), ..Default::default() };
/// let ipam = Ipam { config: vec![pool], ..Default::default() };
/// engine.network_create(&CreateNetwork { name: "harbour".into(), ipam, ..Default::default() })?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct IpamPool {
    /// The subnet, such as `10.8.0.0/24`; empty: one is chosen.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub subnet: String,
    /// The part of the subnet that addresses are chosen from; empty: all of it.
    #[serde(rename = "IPRange", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub ip_range: String,
    /// The gateway's address; empty: the first address.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub gateway: String,
    /// Addresses that no container gets, by any name.
    #[serde(
        rename = "AuxiliaryAddresses",
        alias = "AuxAddress",
        deserialize_with = "null_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub auxiliary_addresses: StringMap,
}

/// `IPAM` of a network.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for pool in engine.network_inspect("bridge")?.ipam.config {
///     println!("{} {}", pool.subnet, pool.gateway);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Ipam {
    /// The driver of addresses; empty: `default`.
    #[serde(deserialize_with = "null_default")]
    pub driver: String,
    /// The driver's options.
    pub options: Option<StringMap>,
    /// The subnets; none: one is chosen.
    #[serde(deserialize_with = "null_default")]
    pub config: Vec<IpamPool>,
}

/// Body of network create.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::{CreateNetwork, Ipam, IpamPool};
///
/// let pool = IpamPool { subnet: "10.77.0.0/24".into(), ..Default::default() };
/// let body = CreateNetwork {
///     name: "inside".into(),
///     driver: "bridge".into(),
///     ipam: Ipam { config: vec![pool], ..Default::default() },
///     internal: true,
///     ..Default::default()
/// };
/// let id = engine.network_create(&body)?.id;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CreateNetwork {
    /// The network's name.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// Taken without an effect: a name is given once.
    #[serde(deserialize_with = "null_default")]
    pub check_duplicate: bool,
    /// `bridge`, `macvlan`, `ipvlan` or a plugin's name; empty: `bridge`.
    #[serde(deserialize_with = "null_default")]
    pub driver: String,
    /// Whether containers get IPv6 addresses too.
    #[serde(rename = "EnableIPv6", deserialize_with = "null_default")]
    pub enable_ipv6: bool,
    /// The network's addresses.
    #[serde(rename = "IPAM", deserialize_with = "null_default")]
    pub ipam: Ipam,
    /// Whether nothing leads out of the network.
    #[serde(deserialize_with = "null_default")]
    pub internal: bool,
    /// Kept and shown; any container can be connected.
    #[serde(deserialize_with = "null_default")]
    pub attachable: bool,
    /// The driver's options.
    #[serde(deserialize_with = "null_default")]
    pub options: StringMap,
    /// The network's labels.
    #[serde(deserialize_with = "null_default")]
    pub labels: StringMap,
}

/// Answer of network create.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::CreateNetwork;
///
/// let network = engine.network_create(&CreateNetwork { name: "harbour".into(), ..Default::default() })?;
/// println!("{} {}", network.id, network.warning);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkCreated {
    /// The new network's id.
    pub id: String,
    /// A part of the request without an effect, in words; else empty.
    pub warning: String,
}

/// Body of network connect.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ConnectNetwork;
///
/// let body = ConnectNetwork { container: "clock".into(), ..Default::default() };
/// engine.network_connect("inside", &body, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ConnectNetwork {
    /// The container's id or name.
    #[serde(deserialize_with = "null_default")]
    pub container: String,
    /// The settings of the endpoint; absent: the defaults.
    pub endpoint_config: Option<EndpointSettings>,
}

/// Body of network disconnect.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::DisconnectNetwork;
///
/// let body = DisconnectNetwork { container: "clock".into(), ..Default::default() };
/// engine.network_disconnect("inside", &body, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DisconnectNetwork {
    /// The container's id or name.
    #[serde(deserialize_with = "null_default")]
    pub container: String,
    /// Whether an endpoint of a container that is gone goes too.
    #[serde(deserialize_with = "null_default")]
    pub force: bool,
}

/// A running container on a network.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for member in engine.network_inspect("bridge")?.containers.values() {
///     println!("{} {}", member.name, member.ipv4_address);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkMember {
    /// The container's name.
    pub name: String,
    /// The endpoint's id.
    #[serde(rename = "EndpointID")]
    pub endpoint_id: String,
    /// The hardware address.
    pub mac_address: String,
    /// The address with its prefix length.
    #[serde(rename = "IPv4Address")]
    pub ipv4_address: String,
    /// The IPv6 address with the length of its prefix; empty: none.
    #[serde(rename = "IPv6Address")]
    pub ipv6_address: String,
}

/// `ConfigFrom` of a network: always empty here.
///
/// ```
/// // Networks of this engine take no configuration from another one.
/// let network = coracle::model::NetworkDetail::default();
/// assert_eq!(network.config_from.network, "");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkConfigFrom {
    /// Always empty; kept for old clients.
    pub network: String,
}

/// A network as list and inspect show it.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let network = engine.network_inspect("bridge")?;
/// println!("{} {} with {} containers", network.name, network.driver, network.containers.len());
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkDetail {
    /// The network's name.
    pub name: String,
    /// The network's id.
    pub id: String,
    /// Time of the creation, RFC 3339.
    pub created: String,
    /// `local`.
    pub scope: String,
    /// The network's driver.
    pub driver: String,
    /// Whether containers get IPv4 addresses: always.
    #[serde(rename = "EnableIPv4", default = "yes")]
    pub enable_ipv4: bool,
    /// Whether containers get IPv6 addresses too.
    #[serde(rename = "EnableIPv6")]
    pub enable_ipv6: bool,
    /// The network's addresses.
    #[serde(rename = "IPAM")]
    pub ipam: Ipam,
    /// Whether nothing leads out of the network.
    pub internal: bool,
    /// As the create said.
    pub attachable: bool,
    /// Always false: this is a network of swarms.
    pub ingress: bool,
    /// Kept for clients; names no network.
    pub config_from: NetworkConfigFrom,
    /// Always false.
    pub config_only: bool,
    /// Running members by container id.
    pub containers: BTreeMap<String, NetworkMember>,
    /// The driver's options.
    pub options: StringMap,
    /// The network's labels.
    pub labels: StringMap,
    /// How many of the network's addresses are in use; inspect alone has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<NetworkStatus>,
}

fn yes() -> bool {
    true
}

/// `Status` of a network.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for (subnet, use_of) in engine.network_inspect("bridge")?.status.unwrap_or_default().ipam.subnets {
///     println!("{subnet}: {} in use, {} free", use_of.ips_in_use, use_of.dynamic_ips_available);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NetworkStatus {
    /// The use of the network's addresses.
    #[serde(rename = "IPAM")]
    pub ipam: IpamStatus,
}

/// `IPAM` of the status of a network.
///
/// ```
/// // A network of a driver that gives out addresses by itself has no subnets here.
/// assert!(coracle::model::IpamStatus::default().subnets.is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct IpamStatus {
    /// By subnet, `address/prefix`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub subnets: BTreeMap<String, SubnetStatus>,
}

/// The use of the addresses of a subnet. Numbers that 64 bits do not hold are the largest one.
///
/// ```
/// use coracle::model::SubnetStatus;
///
/// // A new network of 256 addresses: its own, the broadcast address and the gateway are taken.
/// let status = SubnetStatus { ips_in_use: 3, dynamic_ips_available: 253 };
/// assert_eq!(status.ips_in_use + status.dynamic_ips_available, 256);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubnetStatus {
    /// Addresses that nobody can get any more: those of containers that run, of the gateway, those that are set aside, and
    /// those that no interface may have.
    #[serde(rename = "IPsInUse")]
    pub ips_in_use: u64,
    /// Addresses of the range for containers that are free.
    #[serde(rename = "DynamicIPsAvailable")]
    pub dynamic_ips_available: u64,
}

/// A setting of the host that the engine changed.
///
/// ```
/// let setting = coracle::model::HostSetting {
///     name: "net/ipv4/ip_forward".into(),
///     before: "0".into(),
///     set: "1".into(),
///     now: "1".into(),
/// };
/// assert_eq!(serde_json::to_value(&setting).unwrap()["Before"], "0");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostSetting {
    /// The setting's file below `/proc/sys/net`.
    pub name: String,
    /// The value before the change.
    pub before: String,
    /// The value that the engine wrote.
    pub set: String,
    /// The value that the engine wrote.
    pub now: String,
}

/// A request for a list of networks.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ListNetworks;
///
/// for network in engine.network_list(&ListNetworks::default())? {
///     println!("{} {}", network.name, network.driver);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListNetworks {
    /// `name`, `id`, `driver`, `label`, `type` (`custom`, `builtin`), `scope`, `dangling`.
    pub filters: Filters,
}
