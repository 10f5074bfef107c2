//! A network as the store keeps it, and the networks that are always there.

use super::driver::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Ipam, StringMap};
use crate::store::networks::NetworkRow;
use serde::{Deserialize, Serialize};

/// A network as decided at its creation: the document that the store keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NetworkSpec {
    pub driver: Driver,
    pub internal: bool,
    pub enable_ipv6: bool,
    pub attachable: bool,
    pub ipam: Ipam,
    pub options: StringMap,
    pub labels: StringMap,
    /// The bridge's name; empty: the network has no bridge yet.
    pub bridge: String,
    /// The scope that the network's driver names; empty: local.
    pub scope: String,
    /// A plugin's names of the pools that it gave.
    pub pools: Vec<String>,
    /// No request chose the IPv4 subnet: another may replace it while no container uses it.
    pub automatic: bool,
}

/// A network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Network {
    pub id: String,
    pub name: String,
    pub created_ns: i64,
    pub spec: NetworkSpec,
}

/// The networks that are always there, and their drivers.
pub(crate) const PREDEFINED: [(&str, &str); 3] = [("bridge", "bridge"), ("host", "host"), ("none", "null")];

impl Network {
    pub(super) fn of(row: NetworkRow) -> Result<Network> {
        let spec = serde_json::from_str(&row.spec)
            .map_err(|error| Error::corrupt(format!("the stored document of network {}: {error}", row.id)))?;
        Ok(Network { id: row.id, name: row.name, created_ns: row.created_ns, spec })
    }

    pub(super) fn row(&self) -> Result<NetworkRow> {
        let spec = serde_json::to_string(&self.spec).map_err(|e| Error::internal(format!("write a network: {e}")))?;
        Ok(NetworkRow { id: self.id.clone(), name: self.name.clone(), created_ns: self.created_ns, spec })
    }

    pub(crate) fn is_predefined(&self) -> bool {
        PREDEFINED.iter().any(|(name, _)| *name == self.name)
    }

    /// Whether a network mode means this network.
    pub(crate) fn is_of_mode(&self, mode: &str) -> bool {
        let mode = mode_name(mode);
        self.name == mode || self.id == mode || mode.len() >= 12 && self.id.starts_with(mode)
    }

    /// Whether containers that name no network are on this network.
    pub(crate) fn is_default(&self) -> bool {
        self.name == "bridge"
    }

    /// Whether the network's driver is a plugin.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.spec.driver, Driver::Plugin(_))
    }

    /// Whether the network's addresses come from a plugin, or from its driver.
    pub(super) fn has_foreign_addresses(&self) -> bool {
        self.address_driver() != AddressDriver::Engine
    }

    /// The IPAM driver.
    pub(super) fn address_driver(&self) -> AddressDriver<'_> {
        match self.spec.ipam.driver.as_str() {
            "" | "default" => AddressDriver::Engine,
            "null" => AddressDriver::Null,
            name => AddressDriver::Plugin(name),
        }
    }
}

/// Gives a network its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressDriver<'a> {
    /// The engine itself: `default`.
    Engine,
    /// `null`: the network has no addresses, or its own driver gives them.
    Null,
    /// A plugin, by its name.
    Plugin(&'a str),
}

/// The name that a network mode means.
pub(super) fn mode_name(mode: &str) -> &str {
    if matches!(mode, "" | "default") { "bridge" } else { mode }
}

/// The name of a network as the settings of its containers have it.
pub(crate) fn key<'a>(found: Option<&'a Network>, asked: &'a str) -> &'a str {
    found.map_or(mode_name(asked), |network| &network.name)
}

/// A refusal with status 403: dockerd answers so where a network does not allow a request.
pub(super) fn forbidden(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Forbidden, message).in_area("network")
}
