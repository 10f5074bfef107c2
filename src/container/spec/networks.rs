//! The networks and published ports of a request.

use super::NetworkMode;
use crate::error::{Error, Result};
use crate::model::{CreateBody, EndpointSettings};
use crate::network::{check_ports, parse_mac};
use std::collections::BTreeMap;

/// Checks ports and MAC address.
pub(super) fn check(request: &CreateBody) -> Result<()> {
    let (config, host) = (&request.config, &request.host_config);
    check_ports(&host.port_bindings, config.exposed_ports.iter())?;
    if !config.mac_address.is_empty() {
        parse_mac(&config.mac_address)?;
    }
    for settings in request.networking_config.endpoints_config.values().flatten() {
        if !settings.mac_address.is_empty() {
            parse_mac(&settings.mac_address)?;
        }
    }
    Ok(())
}

/// The networks by name: those of the networking configuration, or else the one of the mode. Empty for modes that need
/// none.
pub(super) fn wanted(request: &CreateBody) -> Result<BTreeMap<String, EndpointSettings>> {
    let mode = request.host_config.network_mode.as_str();
    let asked = &request.networking_config.endpoints_config;
    let parsed = NetworkMode::parse(mode)?;
    let Some(first) = parsed.network() else {
        return match asked.keys().find(|name| *name != mode) {
            Some(name) => {
                Err(Error::invalid(format!("conflicting options: network {name} and the network mode {mode}")))
            }
            None => Ok(BTreeMap::new()),
        };
    };
    if request.config.network_disabled {
        return Ok(BTreeMap::new());
    }
    if asked.is_empty() {
        return Ok(BTreeMap::from([(first.to_owned(), EndpointSettings::default())]));
    }
    Ok(asked.iter().map(|(network, settings)| (name(network), asked_for(settings))).collect())
}

fn name(network: &str) -> String {
    if matches!(network, "" | "default") { "bridge".into() } else { network.into() }
}

/// The settings of an endpoint that a request may give; all others are set by the engine.
pub(crate) fn asked_for(settings: &Option<EndpointSettings>) -> EndpointSettings {
    let settings = settings.clone().unwrap_or_default();
    EndpointSettings {
        ipam_config: settings.ipam_config,
        links: settings.links,
        aliases: settings.aliases,
        mac_address: settings.mac_address,
        ..EndpointSettings::default()
    }
}
