//! The root's firewall as the database and the kernel need it, and dockerd's chains beside it.

use super::address::Pool;
use super::endpoint::store::EndpointStore;
use super::firewall::{Apart, Firewall, Zone};
use super::links::links;
use super::netlink::compat::{Chain, V4, V6};
use super::netlink::link::{self, Link};
use super::options::masquerade;
use super::own_links::OwnLinks;
use super::register::Register;
use super::spec::Network;
use super::subnet::Subnet;
use crate::error::Result;
use crate::kernel::netlink::{ROUTE, Socket};
use crate::kernel::xtables;
use crate::notes::{LogLevel, note_since};
use crate::order::Order as _;
use std::sync::Arc;
use std::time::Instant;

/// dockerd's chain for the rules of others.
pub(super) const DOCKER: &str = "DOCKER-USER";

/// Makes the root's firewall.
pub(crate) struct Firewalls {
    pub(super) register: Arc<Register>,
    pub(super) endpoint_store: Arc<EndpointStore>,
    pub(super) own_links: Arc<OwnLinks>,
    pub(super) firewall: Arc<Firewall>,
}

/// The tables and chains that stand in nf_tables.
pub(super) struct Standing {
    /// The root's own table.
    pub table: bool,
    /// dockerd's chains for the rules of others.
    pub docker: Vec<Chain>,
}

impl Standing {
    /// Whether dockerd keeps its networks apart on this host, by nf_tables or by iptables' older tables.
    pub(super) fn is_dockers(&self) -> bool {
        let older = |v6| xtables::filter(v6).ok().flatten().is_some_and(|filter| filter.has_chain(DOCKER));
        !self.docker.is_empty() || older(false) || older(true)
    }
}

impl Firewalls {
    /// Looks for the root's table and for dockerd's chains.
    pub(super) fn standing(&self) -> Result<Standing> {
        let chains = docker_chains();
        let (table, there) = self.firewall.look(&chains)?;
        let docker = chains.into_iter().zip(there).filter(|(_, there)| *there).map(|(chain, _)| chain).collect();
        Ok(Standing { table, docker })
    }

    /// Makes the firewall for the bridges and ports that are there now. Under [`Locks::root`](super::locks::Locks::root).
    pub(super) fn make(&self) -> Result<()> {
        let mut zones = Vec::new();
        for network in self.register.all()? {
            if self.own_links.bridge_of(&network)?.is_some() {
                zones.push(zone(&network)?);
            }
        }
        let before = self.endpoint_store.live_ports()?;
        let bridges = zones.iter().map(|zone| zone.bridge.clone()).collect();
        let apart = if self.standing()?.is_dockers() { apart_from_others(bridges)? } else { Apart::default() };
        let began = Instant::now();
        self.firewall.make(&zones, &apart, &before)?;
        note_since(LogLevel::Info, "network", None, began, || format!("firewall of {} networks made", zones.len()));
        // A monitor that ended meanwhile found no table to take its ports out of.
        let now = self.endpoint_store.live_ports()?;
        let gone: Vec<_> = before.into_iter().filter(|port| !now.contains(port)).collect();
        self.firewall.remove_ports(&gone)
    }

    /// Adds a network's bridge to the firewall, which is made where it is missing. Under the lock of the root.
    pub(super) fn add(&self, network: &Network) -> Result<()> {
        if self.firewall.is_there()? { self.firewall.add_zone(&zone(network)?) } else { self.make() }
    }

    /// Takes a network's bridge out of the firewall.
    pub(super) fn remove(&self, network: &Network) -> Result<()> {
        if !network.spec.bridge.is_empty() && self.firewall.is_there()? {
            self.firewall.remove_zone(&zone(network)?)?;
        }
        Ok(())
    }

    /// Makes the firewall anew where it is there. Under the lock of the root.
    pub(super) fn remake(&self) -> Result<()> {
        if self.firewall.is_there()? { self.make() } else { Ok(()) }
    }
}

/// The facts of a network for the firewall.
fn zone(network: &Network) -> Result<Zone> {
    let subnets: Vec<Subnet> = Pool::of(network)?.iter().map(|pool| pool.subnet).collect();
    let leaves = masquerade(&network.spec)? && !network.spec.internal;
    Ok(Zone {
        bridge: network.spec.bridge.clone(),
        internal: network.spec.internal,
        masqueraded: if leaves { subnets.clone() } else { Vec::new() },
        subnets,
    })
}

/// dockerd's chains for the rules of others, of IPv4 and IPv6.
pub(super) fn docker_chains() -> [Chain; 2] {
    [V4, V6].map(|family| Chain::of_filter(family, DOCKER))
}

/// The sets that keep these bridges apart from the bridges of other programs.
pub(super) fn apart_from_others(mut bridges: Vec<String>) -> Result<Apart> {
    let links = links()?;
    let mut gateways = Vec::new();
    Socket::open(ROUTE)?.dump(&link::get_routes(), |kind, body| gateways.extend(link::read_gateway(kind, body)))?;
    let mut uplinks: Vec<String> = links
        .iter()
        .filter(|bridge| bridge.kind == "bridge" && !bridges.contains(&bridge.name))
        .filter(|bridge| gateways.contains(&bridge.index) || leads_outside(bridge, &links))
        .map(|bridge| bridge.name.clone())
        .collect();
    bridges.order();
    uplinks.order();
    Ok(Apart { bridges, uplinks })
}

/// Whether a port of a bridge belongs neither to a container nor to a virtual machine: such a bridge connects the host.
fn leads_outside(bridge: &Link, links: &[Link]) -> bool {
    let mut ports = links.iter().filter(|port| port.master == bridge.index);
    ports.any(|port| !matches!(port.kind.as_str(), "veth" | "tun" | "dummy"))
}
