//! The networks and published ports of a request.

use super::NetworkMode;
use crate::error::{Error, Result};
use crate::model::{CreateBody, EndpointSettings};
use crate::network::{EndpointOptions, check_ports, parse_mac};
use std::collections::{BTreeMap, BTreeSet};

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
    one_mac(request)?;
    interfaces(request)
}

/// Refuses two different MAC addresses for the network of the mode.
fn one_mac(request: &CreateBody) -> Result<()> {
    let own = request.config.mac_address.as_str();
    let mode = name(&request.host_config.network_mode);
    let mut all = request.networking_config.endpoints_config.iter();
    let settings = all.find(|(network, _)| name(network) == mode).and_then(|(_, settings)| settings.as_ref());
    let theirs = settings.map_or("", |settings| settings.mac_address.as_str());
    match own.is_empty() || theirs.is_empty() || parse_mac(own)? == parse_mac(theirs)? {
        true => Ok(()),
        false => Err(Error::invalid(
            "the container-wide MAC address must match the endpoint-specific MAC address for the main network, or be left \
             empty",
        )),
    }
}

/// Checks the options of endpoints, and that no two interfaces have one name.
fn interfaces(request: &CreateBody) -> Result<()> {
    let mut names = BTreeSet::new();
    for (network, settings) in &request.networking_config.endpoints_config {
        let Some(options) = settings.as_ref().and_then(|settings| settings.driver_opts.as_ref()) else { continue };
        let wrong = |error: Error| {
            error.context(format_args!("invalid config for network {network}: invalid endpoint settings"))
        };
        if let Some(taken) = EndpointOptions::parse(options).map_err(wrong)?.interface
            && !names.insert(taken.clone())
        {
            return Err(Error::invalid(format!("two endpoints have the interface name {taken:?}")));
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
        driver_opts: settings.driver_opts,
        gw_priority: settings.gw_priority,
        ..EndpointSettings::default()
    }
}
