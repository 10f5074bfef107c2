//! The contents of the three files that every container gets: hosts, hostname, resolv.conf.

use super::{DecidedHost, NetworkMode, Spec};
use crate::model::HostConfig;

const HOSTS: &str = "127.0.0.1\tlocalhost\n\
    ::1\tlocalhost ip6-localhost ip6-loopback\n\
    fe00::0\tip6-localnet\n\
    ff00::0\tip6-mcastprefix\n\
    ff02::1\tip6-allnodes\n\
    ff02::2\tip6-allrouters\n";

/// The word that stands for the host's address, as the container reaches it.
const HOST_GATEWAY: &str = "host-gateway";

/// Whether a request names the host by `host-gateway`.
pub(crate) fn wants_host_gateway(host: &HostConfig) -> bool {
    let named = |entry: &String| entry.split_once(':').is_some_and(|(_, address)| address == HOST_GATEWAY);
    host.extra_hosts.iter().flatten().any(named)
}

/// `/etc/hosts`. On the host's network it is `host_text`, the host's own, unless the request adds names. `addresses`
/// are the container's own, one for each of its networks; `gateway` replaces `host-gateway`; `links` are addresses and
/// names of linked containers.
pub(crate) fn hosts_file(
    spec: &Spec,
    host_text: &str,
    gateway: &str,
    links: &[(String, String)],
    addresses: &[String],
) -> String {
    let extra: Vec<&String> = spec.host_config.extra_hosts.iter().flatten().collect();
    if spec.host_config.modes().network == NetworkMode::Host && extra.is_empty() {
        return host_text.to_owned();
    }
    let mut text = HOSTS.to_owned();
    for (name, address) in extra.iter().filter_map(|entry| entry.split_once(':')) {
        let address = if address == HOST_GATEWAY { gateway } else { address };
        text += &format!("{address}\t{name}\n");
    }
    for (address, names) in links {
        text += &format!("{address}\t{names}\n");
    }
    let name = match (spec.config.hostname.as_str(), spec.config.domainname.as_str()) {
        (name, "") => name.to_owned(),
        (name, domain) => format!("{name}.{domain}"),
    };
    // The full name, and its first label.
    let names = match name.split_once('.') {
        Some((first, _)) => format!("{name} {first}"),
        None => name,
    };
    for address in addresses {
        text += &format!("{address}\t{names}\n");
    }
    text
}

/// `/etc/hostname`.
pub(crate) fn hostname_file(spec: &Spec) -> String {
    format!("{}\n", spec.config.hostname)
}

/// `/etc/resolv.conf`, of the host's own text and the request's servers, search domains and options.
///
/// A server on the loopback device is the host's own and cannot be reached from another network: it is left out. If
/// none is left, public servers replace them.
pub(crate) fn resolv_conf(host_text: &str, host: &DecidedHost) -> String {
    let some = |list: &Option<Vec<String>>| list.clone().filter(|list| !list.is_empty());
    let (dns, search, options) = (some(&host.dns), some(&host.dns_search), some(&host.dns_options));
    let host_text = match host.modes().network {
        NetworkMode::Host => host_text.to_owned(),
        _ => reachable(host_text),
    };
    if dns.is_none() && search.is_none() && options.is_none() {
        return host_text;
    }
    let servers = dns.unwrap_or_else(|| values(&host_text, "nameserver"));
    let search = search.unwrap_or_else(|| last(&host_text, "search"));
    let options = options.unwrap_or_else(|| last(&host_text, "options"));
    let mut text = String::new();
    if !search.is_empty() && search != ["."] {
        text += &format!("search {}\n", search.join(" "));
    }
    for server in servers {
        text += &format!("nameserver {server}\n");
    }
    if !options.is_empty() {
        text += &format!("options {}\n", options.join(" "));
    }
    text
}

/// The text for a container with a resolver of its own: the resolver is the only server, and forwards to the others.
pub(crate) fn embedded_resolv_conf(host_text: &str, host: &HostConfig) -> String {
    let some = |list: &Option<Vec<String>>| list.clone().filter(|list| !list.is_empty());
    let search = some(&host.dns_search).unwrap_or_else(|| last(host_text, "search"));
    let mut options = some(&host.dns_options).unwrap_or_else(|| last(host_text, "options"));
    if !options.iter().any(|option| option.starts_with("ndots:")) {
        // Names of containers have no dot, and must be asked for unchanged.
        options.push("ndots:0".into());
    }
    let mut text = String::new();
    if !search.is_empty() && search != ["."] {
        text += &format!("search {}\n", search.join(" "));
    }
    text += &format!("nameserver {}\noptions {}\n", crate::network::RESOLVER, options.join(" "));
    text
}

fn reachable(text: &str) -> String {
    let loopback = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next() == Some("nameserver") && words.next().is_some_and(is_loopback)
    };
    let mut kept: String = text.lines().filter(|line| !loopback(line)).flat_map(|line| [line, "\n"]).collect();
    if values(&kept, "nameserver").is_empty() {
        kept += "nameserver 8.8.8.8\nnameserver 8.8.4.4\n";
    }
    kept
}

fn is_loopback(address: &str) -> bool {
    let address = address.split('%').next().unwrap_or_default();
    address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn values(text: &str, key: &str) -> Vec<String> {
    let value = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some(key)).then(|| words.next().map(str::to_owned)).flatten()
    };
    text.lines().filter_map(value).collect()
}

/// The words of the last line with this key, the only one that a resolver uses.
fn last(text: &str, key: &str) -> Vec<String> {
    let words = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some(key)).then(|| words.map(str::to_owned).collect())
    };
    text.lines().filter_map(words).next_back().unwrap_or_default()
}
