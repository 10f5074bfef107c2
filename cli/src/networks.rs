//! `network`: commands on networks.

use crate::args::{Flag, Parsed};
use crate::containers::filters;
use crate::format::short;
use crate::listing::{Listing, joined, row};
use crate::template::Subject;
use crate::{Entry, Failure, Globals, Outcome, each, emit, time};
use coracle::model::*;
use serde_json::json;

pub const ENTRIES: &[Entry] = &[
    Entry::new("network ls", "[FLAGS]", "List networks", LIST, list),
    Entry::new("network create", "[FLAGS] NAME", "Make a network", CREATE, create),
    Entry::new("network connect", "[FLAGS] NETWORK CONTAINER", "Put a container on a network", CONNECT, connect),
    Entry::new(
        "network disconnect",
        "[FLAGS] NETWORK CONTAINER",
        "Take a container off a network",
        DISCONNECT,
        disconnect,
    ),
    Entry::new("network rm", "NETWORK...", "Remove networks", &[], remove),
    Entry::new(
        "network release",
        "",
        "Take bridges and firewall away where nobody runs; a start makes them again",
        &[],
        release,
    ),
    Entry::new("network repair", "", "Put back what another program took of running containers' networks", &[], repair),
];

const LIST: &[Flag] = &[
    Flag::value(&["filter", "f"], "NAME=VALUE", "only those: name, id, driver, label, type"),
    Flag::switch(&["quiet", "q"], "ids only"),
    Flag::switch(&["no-trunc"], "whole ids"),
    Flag::value(
        &["format"],
        "FORMAT",
        "table, json, table TEMPLATE or a template; fields: ID Name Driver Scope IPv4 IPv6 Internal Labels CreatedAt, and \
         {{.Label \"name\"}}",
    ),
];

const NETWORKS: Listing = Listing {
    titles: &[
        ("ID", "NETWORK ID"),
        ("Name", "NAME"),
        ("Driver", "DRIVER"),
        ("Scope", "SCOPE"),
        ("IPv4", "IPV4"),
        ("IPv6", "IPV6"),
        ("Internal", "INTERNAL"),
        ("Labels", "LABELS"),
        ("CreatedAt", "CREATED AT"),
    ],
    usual: "{{.ID}}\t{{.Name}}\t{{.Driver}}\t{{.Scope}}",
};

const CREATE: &[Flag] = &[
    Flag::value(&["driver", "d"], "NAME", "bridge (the default), macvlan, ipvlan"),
    Flag::value(&["subnet"], "CIDR", "its addresses"),
    Flag::value(&["ipam-driver"], "NAME", "driver that assigns its addresses (default: the engine)"),
    Flag::value(&["ip-range"], "CIDR", "the part of them that is given out"),
    Flag::value(&["gateway"], "ADDRESS", "the host's own"),
    Flag::value(&["aux-address"], "NAME=ADDRESS", "one that is not given out"),
    Flag::switch(&["internal"], "nothing leads outside"),
    Flag::switch(&["ipv6"], "IPv6 addresses too"),
    Flag::value(&["opt", "o"], "NAME=VALUE", "an option of the driver"),
    Flag::value(&["label"], "NAME=VALUE", "a label"),
];

const CONNECT: &[Flag] = &[
    Flag::value(&["ip"], "ADDRESS", "its IPv4 address there"),
    Flag::value(&["ip6"], "ADDRESS", "its IPv6 address there"),
    Flag::value(&["link"], "CONTAINER[:ALIAS]", "a name there for another container, for this one alone"),
    Flag::value(&["link-local-ip"], "ADDRESS", "a further address, of the link alone"),
    Flag::value(&["alias"], "NAME", "a further name there"),
];

const DISCONNECT: &[Flag] = &[Flag::switch(&["force", "f"], "also where the container is gone")];

fn list(globals: &Globals, parsed: &Parsed) -> Outcome {
    let networks = globals.engine()?.network_list(&ListNetworks { filters: filters(parsed)? })?;
    let whole = parsed.has("no-trunc");
    let id = |network: &NetworkDetail| if whole { network.id.clone() } else { short(&network.id) };
    if parsed.has("quiet") {
        return emit(&networks.iter().map(|network| id(network) + "\n").collect::<String>()).map(|()| 0);
    }
    let subject = |network: &NetworkDetail| {
        let document = json!({
            "ID": id(network),
            "Name": network.name,
            "Driver": network.driver,
            "Scope": network.scope,
            "IPv4": has_ipv4(network).to_string(),
            "IPv6": network.enable_ipv6.to_string(),
            "Internal": network.internal.to_string(),
            "Labels": joined(Some(&network.labels)),
            "CreatedAt": time::parse(&network.created).map_or_else(|| network.created.clone(), time::stamp),
        });
        row(document, Some(&network.labels))
    };
    let rows: Vec<Subject> = networks.iter().map(subject).collect();
    emit(&NETWORKS.text(parsed.last("format"), &rows)?).map(|()| 0)
}

/// Whether containers have IPv4 addresses there.
fn has_ipv4(network: &NetworkDetail) -> bool {
    network.ipam.config.iter().any(|pool| pool.subnet.contains('.'))
}

fn create(globals: &Globals, parsed: &Parsed) -> Outcome {
    let [name] = parsed.rest.as_slice() else { return Err(Failure::Usage("one name is needed".into())) };
    let (subnets, ranges, gateways) = (parsed.all("subnet"), parsed.all("ip-range"), parsed.all("gateway"));
    if subnets.is_empty() && !(ranges.is_empty() && gateways.is_empty() && parsed.some("aux-address").is_none()) {
        return Err(Failure::Usage("--ip-range, --gateway and --aux-address need --subnet".into()));
    }
    let at = |list: &[String], index: usize| list.get(index).cloned().unwrap_or_default();
    let pool = |(index, subnet): (usize, &String)| IpamPool {
        subnet: subnet.clone(),
        ip_range: at(&ranges, index),
        gateway: at(&gateways, index),
        auxiliary_addresses: if index == 0 { pairs(parsed, "aux-address") } else { StringMap::new() },
    };
    let created = globals.engine()?.network_create(&CreateNetwork {
        name: name.clone(),
        check_duplicate: true,
        driver: parsed.last("driver").unwrap_or_default().to_owned(),
        enable_ipv6: parsed.has("ipv6"),
        ipam: Ipam {
            driver: parsed.last("ipam-driver").unwrap_or_default().to_owned(),
            config: subnets.iter().enumerate().map(pool).collect(),
            ..Ipam::default()
        },
        internal: parsed.has("internal"),
        options: pairs(parsed, "opt"),
        labels: pairs(parsed, "label"),
        ..CreateNetwork::default()
    })?;
    created.warning.lines().for_each(|line| complain!("WARNING: {line}"));
    emit(&format!("{}\n", created.id))?;
    Ok(0)
}

fn pairs(parsed: &Parsed, key: &str) -> StringMap {
    let pair = |text: String| {
        let (name, value) = text.split_once('=').unwrap_or((&text, ""));
        (name.to_owned(), value.to_owned())
    };
    parsed.all(key).into_iter().map(pair).collect()
}

fn both(parsed: &Parsed) -> Result<(&str, &str), Failure> {
    match parsed.rest.as_slice() {
        [network, container] => Ok((network, container)),
        _ => Err(Failure::Usage("a network and a container are needed".into())),
    }
}

/// The endpoint settings that `--ip`, `--ip6` and the aliases of a command line ask for.
pub fn endpoint(parsed: &Parsed, alias: &str) -> Option<EndpointSettings> {
    let text = |key: &str| parsed.last(key).unwrap_or_default().to_owned();
    let ipam = EndpointIpamConfig { ipv4_address: text("ip"), ipv6_address: text("ip6"), ..Default::default() };
    let ipam = EndpointIpamConfig { link_local_ips: parsed.all("link-local-ip"), ..ipam };
    let (aliases, links) = (parsed.some(alias), parsed.some("link"));
    let ipam_config = Some(ipam).filter(|ipam| *ipam != EndpointIpamConfig::default());
    (ipam_config.is_some() || aliases.is_some() || links.is_some()).then(|| EndpointSettings {
        ipam_config,
        aliases,
        links,
        ..EndpointSettings::default()
    })
}

fn connect(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (network, container) = both(parsed)?;
    let body = ConnectNetwork { container: container.to_owned(), endpoint_config: endpoint(parsed, "alias") };
    globals.engine()?.network_connect(network, &body, None)?;
    Ok(0)
}

fn disconnect(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (network, container) = both(parsed)?;
    let body = DisconnectNetwork { container: container.to_owned(), force: parsed.has("force") };
    globals.engine()?.network_disconnect(network, &body, None)?;
    Ok(0)
}

fn release(globals: &Globals, _: &Parsed) -> Outcome {
    globals.engine()?.network_release()?;
    Ok(0)
}

fn repair(globals: &Globals, _: &Parsed) -> Outcome {
    globals.engine()?.network_repair()?;
    Ok(0)
}

fn remove(globals: &Globals, parsed: &Parsed) -> Outcome {
    let engine = globals.engine()?;
    each(&parsed.rest, |name| {
        engine.network_remove(name)?;
        Ok(name.to_owned())
    })
}
