//! Driver options, under either of the prefixes that clients write.

use super::NetworkSpec;
use crate::error::Result;
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
        Some(text) => parse_bool(text)
            .ok_or_else(|| super::as_500(format!("network option {key}: {text:?} is neither true nor false"))),
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
            let bad = |_| super::as_500(format!("network option bridge.host_binding_ipv4: {text:?} is no address"));
            text.parse::<std::net::Ipv4Addr>().map(|ip| Some(ip.into())).map_err(bad)
        }
    }
}

/// The MTU of the bridge and of what is on it; 0 leaves the kernel's.
pub(super) fn mtu(spec: &NetworkSpec) -> Result<u32> {
    match get(spec, "driver.mtu") {
        None | Some("" | "0") => Ok(0),
        Some(text) => match text.parse::<u32>() {
            Ok(mtu) if (68..=65535).contains(&mtu) => Ok(mtu),
            _ => Err(super::as_500(format!("network option driver.mtu: {text:?} is not from 68 to 65535"))),
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
        Err(super::as_500(format!("network option bridge.name: {name:?} is no interface name")))
    }
}

/// Checks all of them.
pub(super) fn check(spec: &NetworkSpec) -> Result<()> {
    icc(spec)?;
    masquerade(spec)?;
    host_binding(spec)?;
    mtu(spec)?;
    bridge_name(spec).map(|_| ())
}
