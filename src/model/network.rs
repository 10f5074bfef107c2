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
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub subnet: String,
    #[serde(rename = "IPRange", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub ip_range: String,
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub gateway: String,
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
    #[serde(deserialize_with = "null_default")]
    pub driver: String,
    pub options: Option<StringMap>,
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
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    #[serde(deserialize_with = "null_default")]
    pub check_duplicate: bool,
    #[serde(deserialize_with = "null_default")]
    pub driver: String,
    #[serde(rename = "EnableIPv6", deserialize_with = "null_default")]
    pub enable_ipv6: bool,
    #[serde(rename = "IPAM", deserialize_with = "null_default")]
    pub ipam: Ipam,
    #[serde(deserialize_with = "null_default")]
    pub internal: bool,
    #[serde(deserialize_with = "null_default")]
    pub attachable: bool,
    #[serde(deserialize_with = "null_default")]
    pub options: StringMap,
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
    pub id: String,
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
    #[serde(deserialize_with = "null_default")]
    pub container: String,
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
    #[serde(deserialize_with = "null_default")]
    pub container: String,
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
    pub name: String,
    #[serde(rename = "EndpointID")]
    pub endpoint_id: String,
    pub mac_address: String,
    /// The address with its prefix length.
    #[serde(rename = "IPv4Address")]
    pub ipv4_address: String,
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
    pub name: String,
    pub id: String,
    pub created: String,
    pub scope: String,
    pub driver: String,
    #[serde(rename = "EnableIPv6")]
    pub enable_ipv6: bool,
    #[serde(rename = "IPAM")]
    pub ipam: Ipam,
    pub internal: bool,
    pub attachable: bool,
    pub ingress: bool,
    pub config_from: NetworkConfigFrom,
    pub config_only: bool,
    /// Running members by container id.
    pub containers: BTreeMap<String, NetworkMember>,
    pub options: StringMap,
    pub labels: StringMap,
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
