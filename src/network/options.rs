//! Driver options, under either of the prefixes that clients write.

use super::driver::Driver;
use super::netlink::link::Sub;
use super::spec::{Network, NetworkSpec};
use crate::error::{Error, Result};
use crate::model::{StringMap, parse_bool};
use std::net::IpAddr;

const PREFIXES: [&str; 2] = ["com.docker.network.", "com.engine.network."];

/// The options of the default network that inspect shows.
pub(super) fn of_default_bridge() -> StringMap {
    let pairs = [
        ("bridge.default_bridge", "true"),
        ("bridge.enable_icc", "true"),
        ("bridge.enable_ip_masquerade", "true"),
        ("bridge.host_binding_ipv4", "0.0.0.0"),
        ("driver.mtu", "1500"),
    ];
    pairs.iter().map(|(key, value)| (format!("{}{key}", PREFIXES[0]), value.to_string())).collect()
}

fn get<'a>(spec: &'a NetworkSpec, key: &str) -> Option<&'a str> {
    PREFIXES.iter().find_map(|prefix| spec.options.get(&format!("{prefix}{key}"))).map(String::as_str)
}

fn flag(spec: &NetworkSpec, key: &str) -> Result<bool> {
    match get(spec, key) {
        None | Some("") => Ok(true),
        Some(text) => parse_bool(text).ok_or_else(|| {
            Error::internal_as_dockerd("network", format!("network option {key}: {text:?} is neither true nor false"))
        }),
    }
}

/// Whether containers of the network reach each other.
pub(super) fn icc(spec: &NetworkSpec) -> Result<bool> {
    flag(spec, "bridge.enable_icc")
}

/// Whether packets leave the network under the host's address.
pub(super) fn masquerade(spec: &NetworkSpec) -> Result<bool> {
    flag(spec, "bridge.enable_ip_masquerade")
}

/// Where ports without an address are published.
pub(super) fn host_binding(spec: &NetworkSpec) -> Result<Option<IpAddr>> {
    match get(spec, "bridge.host_binding_ipv4") {
        None | Some("" | "0.0.0.0") => Ok(None),
        Some(text) => {
            let bad = |_| {
                Error::internal_as_dockerd(
                    "network",
                    format!("network option bridge.host_binding_ipv4: {text:?} is not an address"),
                )
            };
            text.parse::<std::net::Ipv4Addr>().map(|ip| Some(ip.into())).map_err(bad)
        }
    }
}

/// The MTU of the bridge and of the interfaces on it; 0: the kernel's default.
pub(super) fn mtu(spec: &NetworkSpec) -> Result<u32> {
    match get(spec, "driver.mtu") {
        None | Some("" | "0") => Ok(0),
        Some(text) => match text.parse::<u32>() {
            Ok(mtu) if (68..=65535).contains(&mtu) => Ok(mtu),
            _ => Err(Error::internal_as_dockerd(
                "network",
                format!("network option driver.mtu: {text:?} is not from 68 to 65535"),
            )),
        },
    }
}

/// The name that the bridge is to have.
pub(super) fn bridge_name(spec: &NetworkSpec) -> Result<Option<&str>> {
    let Some(name) = get(spec, "bridge.name").filter(|name| !name.is_empty()) else { return Ok(None) };
    let good = name.len() <= 15
        && name.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':')
        && !matches!(name, "." | ".." | "all" | "default" | "lo");
    if good {
        Ok(Some(name))
    } else {
        Err(Error::internal_as_dockerd(
            "network",
            format!("network option bridge.name: {name:?} is not an interface name"),
        ))
    }
}

/// Checks all options.
pub(super) fn check(spec: &NetworkSpec) -> Result<()> {
    icc(spec)?;
    masquerade(spec)?;
    host_binding(spec)?;
    mtu(spec)?;
    bridge_name(spec).map(|_| ())
}

/// How the network's containers share the interface that [`parent`] names; `None`: they are on a bridge, or a plugin's.
pub(super) fn sub(network: &Network) -> Result<Option<Sub>> {
    let option = |key: &str| network.spec.options.get(key).map(String::as_str).unwrap_or_default();
    match network.spec.driver {
        Driver::Macvlan => Ok(Some(Sub::Macvlan(match option("macvlan_mode") {
            "" | "bridge" => 4,
            "private" => 1,
            "vepa" => 2,
            "passthru" => 8,
            other => {
                return Err(Error::internal_as_dockerd(
                    "network",
                    format!("requested macvlan mode '{other}' is not valid"),
                ));
            }
        }))),
        Driver::Ipvlan => Ok(Some(Sub::Ipvlan(match option("ipvlan_mode") {
            "" | "l2" => 0,
            "l3" => 1,
            "l3s" => 2,
            other => {
                return Err(Error::internal_as_dockerd(
                    "network",
                    format!("requested ipvlan mode '{other}' is not valid"),
                ));
            }
        }))),
        _ => Ok(None),
    }
}

/// The name of the interface that the containers of a macvlan or ipvlan network share: without the option, one that is made
/// for the network.
pub(super) fn parent(network: &Network) -> String {
    match network.spec.options.get("parent").map(String::as_str) {
        None | Some("") => format!("dm-{}", &network.id[..12]),
        Some(name) => name.to_owned(),
    }
}
