//! The addresses of a container's endpoints, given out under one transaction.

use super::doc::{EndpointDoc, Lease, RemoteEnd, parse_mac};
use super::joined::{EndpointRequest, Joining, first_by_rank, rank};
use super::options::{self, EndpointOptions};
use super::publish::Ports;
use super::store::{REST_NS, parse, row};
use crate::error::{Error, Result};
use crate::model::EndpointSettings;
use crate::network::address::{Ask, Holder, Pool, Used, give};
use crate::network::driver::Driver;
use crate::network::ports::Taken;
use crate::network::register::Register;
use crate::network::remote::number_interfaces;
use crate::network::spec::Network;
use crate::network::subnet::Subnet;
use crate::store::networks as table;
use crate::time::now_ns;
use rusqlite::Transaction;
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;

/// Gives out addresses, and ports with them.
pub(crate) struct Allocator {
    pub(in crate::network) register: Arc<Register>,
    pub(in crate::network) ports: Arc<Ports>,
}

/// A network that a container joins, found and ready in the kernel.
pub(super) struct Ready<'a> {
    pub network: Network,
    /// The index of the bridge, or of the interface that macvlan and ipvlan share; 0: a plugin's driver has its own.
    pub parent: u32,
    pub request: &'a EndpointRequest,
    /// The addresses that a plugin gave for the endpoint.
    pub leases: Vec<Lease>,
}

impl Ready<'_> {
    /// The place among the container's networks.
    pub(super) fn rank(&self) -> impl Ord + use<'_> {
        rank(&self.network, self.request.settings.gw_priority)
    }

    /// Whether a plugin makes the interface, or gives the addresses.
    pub(super) fn has_foreign_parts(&self) -> bool {
        self.network.is_remote() || self.network.has_foreign_addresses()
    }
}

impl Allocator {
    /// Gives a container its addresses on all its networks and its ports, and writes its rows.
    pub(super) fn allocate(
        &self,
        tx: &Transaction<'_>,
        container: &Joining<'_>,
        all: &[Ready<'_>],
    ) -> Result<(Vec<EndpointDoc>, Taken)> {
        let sandbox = crate::hex::random_id()?;
        let mut docs = Vec::new();
        for ready in all {
            let mut doc = self.address(tx, container, &ready.network, &ready.request.settings, &ready.leases)?;
            doc.sandbox = sandbox.clone();
            docs.push(doc);
        }
        number_interfaces(&mut docs, &vec![None; all.len()])?;
        // Which network leads outside; a plugin's answer, which may change that, is not there yet.
        let priority = |ready: &Ready<'_>| ready.request.settings.gw_priority;
        let may = |ready: &Ready<'_>| !ready.network.spec.internal;
        let leads = first_by_rank(all.iter().map(|ready| (&ready.network, priority(ready), may(ready))));
        let taken = match leads.filter(|at| all[*at].network.spec.driver == Driver::Bridge) {
            Some(at) => self.ports.take(tx, container, &all[at].network, &mut docs[at])?,
            None => Taken::default(),
        };
        // Endpoints of an earlier start on networks that the container has left are forgotten.
        for row in table::of_container(tx, container.id)? {
            table::delete_endpoint(tx, &row.network_id, container.id)?;
        }
        for (ready, doc) in all.iter().zip(&docs) {
            table::put_endpoint(tx, &row(&ready.network.id, container.id, container.slot, doc)?)?;
        }
        Ok((docs, taken))
    }

    /// Gives a container its addresses on one network.
    pub(super) fn address(
        &self,
        tx: &Transaction<'_>,
        container: &Joining<'_>,
        network: &Network,
        settings: &EndpointSettings,
        leases: &[Lease],
    ) -> Result<EndpointDoc> {
        check_settings(network, settings)?;
        let (others, before) = others(tx, &network.id, container.id)?;
        let holder = |ip: IpAddr| self.holder(&others, ip);
        let known = others.iter().flat_map(Other::addresses).collect();
        let used = Used { known, holder: &holder };
        let pools = Pool::of(network)?;
        let ipam = settings.ipam_config.clone().unwrap_or_default();
        let local = ipam.link_local_ips.iter().filter(|text| !text.is_empty());
        let link_local = local.map(|text| link_local(text)).collect::<Result<_>>()?;
        let ask4 = Ask { address: asked(&ipam.ipv4_address)?, before: before.as_ref().and_then(|had| had.v4) };
        let ask6 = Ask { address: asked(&ipam.ipv6_address)?, before: before.as_ref().and_then(|had| had.v6) };
        let foreign = network.has_foreign_addresses();
        let own = |v6: bool, ask: &Ask| -> Result<Option<(IpAddr, u8)>> {
            match foreign {
                true => leased(leases, v6),
                false => Ok(give(&pools, v6, ask, &used)?.map(|(ip, pool)| (ip, pool.prefix()))),
            }
        };
        let v4 = own(false, &ask4)?;
        let v6 = if network.spec.enable_ipv6 { own(true, &ask6)? } else { None };
        let id = crate::hex::random_id()?;
        let mac = mac(container, network, settings, v4.map(|(ip, _)| ip), &id)?;
        let gateway = |given: Option<(IpAddr, u8)>| {
            let (ip, _) = given?;
            pools.iter().find(|pool| pool.subnet.contains(ip))?.gateway
        };
        Ok(EndpointDoc {
            port: if network.spec.driver == Driver::Bridge { format!("veth{}00", &id[..7]) } else { String::new() },
            id,
            name: container.name.to_owned(),
            mac,
            v4: v4.map(|(ip, _)| ip),
            v4_prefix: v4.map_or(0, |(_, prefix)| prefix),
            v4_gateway: gateway(v4),
            v6: v6.map(|(ip, _)| ip),
            v6_prefix: v6.map_or(0, |(_, prefix)| prefix),
            v6_gateway: gateway(v6),
            leases: leases.to_vec(),
            // From here on the driver may know the endpoint: the driver must be notified of its end.
            remote: network.is_remote().then(RemoteEnd::default),
            link_local,
            aliases: aliases(container, network, settings),
            links: settings.links.clone().unwrap_or_default(),
            hostname: if network.is_predefined() { String::new() } else { container.hostname.to_owned() },
            options: settings.driver_opts.clone().unwrap_or_default(),
            gw_priority: settings.gw_priority,
            ..EndpointDoc::default()
        })
    }

    /// The holder of an address among the others: the one that holds it most.
    fn holder(&self, others: &[Other], ip: IpAddr) -> Result<Holder> {
        let rested = now_ns() - REST_NS;
        let mut holder = Holder::Nobody;
        for other in others.iter().filter(|other| other.addresses().any(|has| has == ip)) {
            if other.left_ns == 0 && self.register.is_live(other.slot)? {
                return Ok(Holder::Now);
            }
            let ended = match other.left_ns {
                0 => self.register.states.recorded(other.slot, &other.container)?.map_or(0, |state| state.finished_ns),
                left => left,
            };
            if ended > rested {
                holder = Holder::Lately;
            }
        }
        Ok(holder)
    }
}

/// Another container's endpoint on a network, or that of a removed container: the part that giving out an address needs.
struct Other {
    container: String,
    slot: u32,
    left_ns: i64,
    addresses: Addresses,
}

/// The addresses of an [`EndpointDoc`]: a whole document costs several times as much to read, and there may be a thousand.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Addresses {
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
}

impl Other {
    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        [self.addresses.v4, self.addresses.v6].into_iter().flatten()
    }
}

/// The other containers on a network, and the addresses that this one had there.
fn others(tx: &Transaction<'_>, network: &str, container: &str) -> Result<(Vec<Other>, Option<Addresses>)> {
    let mut others = Vec::new();
    let mut own = None;
    table::each_of_network(tx, network, |other, slot, doc, left_ns| {
        let addresses: Addresses = parse(other, doc)?;
        if other == container && left_ns == 0 {
            own = Some(addresses);
        } else {
            others.push(Other { container: other.to_owned(), slot, left_ns, addresses });
        }
        Ok(())
    })?;
    Ok((others, own))
}

fn asked(text: &str) -> Result<Option<IpAddr>> {
    let bad = |_| Error::invalid(format!("invalid IP address: {text}"));
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(bad) }
}

/// The MAC address of the interface: as the settings of the endpoint say, or the container's configuration, or made up.
fn mac(
    container: &Joining<'_>,
    network: &Network,
    settings: &EndpointSettings,
    ip: Option<IpAddr>,
    id: &str,
) -> Result<String> {
    Ok(match (settings.mac_address.as_str(), container.mac_on(network)) {
        // The driver chooses it.
        ("", "") if network.is_remote() => String::new(),
        ("", "") => mac_text(made_up_mac(ip, id)),
        ("", mac) | (mac, _) => mac_text(parse_mac(mac)?),
    })
}

/// The aliases of the container on the network; on a user-defined network its short id is one.
fn aliases(container: &Joining<'_>, network: &Network, settings: &EndpointSettings) -> Vec<String> {
    let mut aliases = settings.aliases.clone().unwrap_or_default();
    let short = &container.id[..12];
    if !network.is_predefined() && !aliases.iter().any(|alias| alias == short) {
        aliases.push(short.to_owned());
    }
    aliases
}

fn link_local(text: &str) -> Result<IpAddr> {
    text.parse().map_err(|_| Error::invalid(format!("invalid link-local IP address: {text}")))
}

/// Refuses settings that only user-defined networks allow.
pub(crate) fn check_settings(network: &Network, settings: &EndpointSettings) -> Result<()> {
    check_options(network, settings)?;
    let ipam = settings.ipam_config.clone().unwrap_or_default();
    let (v4, v6) = (!ipam.ipv4_address.is_empty(), !ipam.ipv6_address.is_empty());
    let address = v4 || v6;
    for text in ipam.link_local_ips.iter().filter(|text| !text.is_empty()) {
        link_local(text)?;
    }
    if network.is_predefined() {
        if address {
            return Err(Error::invalid("user specified IP address is supported on user defined networks only"));
        }
        if settings.aliases.as_ref().is_some_and(|aliases| !aliases.is_empty()) {
            return Err(Error::invalid(
                "network-scoped alias is supported only for containers in user defined networks",
            ));
        }
    } else if v4 && network.spec.automatic || v6 && !has_v6_pool(network) {
        return Err(Error::invalid(
            "user specified IP address is supported only when connecting to networks with user configured subnets",
        ));
    }
    Ok(())
}

/// Refuses options that the network's driver does not have; a plugin is given all.
fn check_options(network: &Network, settings: &EndpointSettings) -> Result<()> {
    let Some(asked) = &settings.driver_opts else { return Ok(()) };
    EndpointOptions::parse(asked)?;
    match options::unknown(asked).filter(|_| !network.is_remote()) {
        Some(key) => Err(Error::unsupported(format!(
            "EndpointsConfig.DriverOpts: the driver {} has no option {key:?}",
            network.spec.driver
        ))),
        None => Ok(()),
    }
}

/// Whether the network has IPv6 addresses that its request named, or that a plugin gives.
fn has_v6_pool(network: &Network) -> bool {
    network.has_foreign_addresses() || network.spec.ipam.config.iter().any(|pool| pool.subnet.contains(':'))
}

/// A MAC address made of the IPv4 address, so that neighbours that remember an address remember the right one.
fn made_up_mac(ip: Option<IpAddr>, id: &str) -> [u8; 6] {
    let [a, b, c, d] = match ip {
        Some(IpAddr::V4(ip)) => ip.octets(),
        _ => u32::from_str_radix(&id[..8], 16).unwrap_or(0).to_be_bytes(),
    };
    [0x02, 0x42, a, b, c, d]
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The address of the leases in one family, with its prefix length.
fn leased(leases: &[Lease], v6: bool) -> Result<Option<(IpAddr, u8)>> {
    for lease in leases {
        let (subnet, ip) = Subnet::parse_with_address(&lease.address)?;
        if subnet.is_v6() == v6 {
            return Ok(Some((ip, subnet.prefix())));
        }
    }
    Ok(None)
}
