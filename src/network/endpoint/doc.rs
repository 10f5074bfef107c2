//! A container's endpoint on a network: the document that the store keeps.

use super::options::EndpointOptions;
use crate::error::{Error, Result};
use crate::model::StringMap;
use crate::network::ports::Published;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// A container's endpoint on a network: the document that the store keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointDoc {
    pub id: String,
    /// The id of the container's network namespace, one for each start.
    pub sandbox: String,
    /// The container's name.
    pub name: String,
    /// The interface's name in the container.
    pub interface: String,
    /// The bridge's port; its last two characters change with the monitor's restarts. Empty: there is none.
    pub port: String,
    pub mac: String,
    pub v4: Option<IpAddr>,
    pub v4_prefix: u8,
    pub v4_gateway: Option<IpAddr>,
    pub v6: Option<IpAddr>,
    pub v6_prefix: u8,
    pub v6_gateway: Option<IpAddr>,
    /// More addresses of the interface, of link scope.
    pub link_local: Vec<IpAddr>,
    pub aliases: Vec<String>,
    pub links: Vec<String>,
    /// The container's host name, by which its neighbours find it, too.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// Options of the driver, as the request has them.
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub options: StringMap,
    /// The default route goes over the endpoint of the highest priority.
    #[serde(skip_serializing_if = "is_zero")]
    pub gw_priority: i64,
    pub ports: Vec<Published>,
    /// The driver's part, where the driver is a plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteEnd>,
    /// The endpoint's addresses, where a plugin gave them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<Lease>,
}

/// An endpoint as a remote driver made it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RemoteEnd {
    /// The interface that the driver made, on the host.
    pub source: String,
    pub routes: Vec<(IpAddr, u8, Option<IpAddr>)>,
    /// The driver publishes the container's ports.
    pub ports: bool,
}

/// An address that an address plugin gave.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub pool: String,
    /// With its prefix length.
    pub address: String,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl EndpointDoc {
    /// The names by which containers on a user-defined network find this one: its own, its aliases (its short id among
    /// them), its host name.
    pub(in crate::network) fn dns_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in [&self.name].into_iter().chain(&self.aliases).chain([&self.hostname]) {
            if !name.is_empty() && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// The kernel parameters of the interface: paths below `/proc/sys` and values.
    pub(crate) fn sysctls(&self) -> Result<Vec<(String, String)>> {
        Ok(EndpointOptions::parse(&self.options)?.sysctls(&self.interface))
    }

    /// The name of the bridge's port after so many restarts; empty: there is none.
    pub(in crate::network) fn port_now(&self, restarts: u32) -> String {
        match self.port.get(..self.port.len().saturating_sub(2)) {
            None | Some("") => String::new(),
            Some(stem) => format!("{stem}{}", digits(restarts)),
        }
    }
}

/// The last two characters of a port's name, which differ from restart to restart.
pub(super) fn digits(restarts: u32) -> String {
    format!("{:02}", restarts % 100)
}

/// Reads `xx:xx:xx:xx:xx:xx`.
pub(crate) fn parse_mac(text: &str) -> Result<[u8; 6]> {
    let bad = || Error::invalid(format!("invalid MAC address: {text}"));
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2).ok_or_else(bad)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| bad())?;
    }
    if parts.next().is_some() { Err(bad()) } else { Ok(mac) }
}
