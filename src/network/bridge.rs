//! The interfaces of networks on the host: bridges with their addresses and settings, parents of macvlan and ipvlan.

use super::address::{self, Pool};
use super::beside::{Beside, withdraw};
use super::driver::Driver;
use super::endpoint::store::{EndpointStore, read};
use super::firewall::Firewall;
use super::firewalls::Firewalls;
use super::links::{delete, find_link, host_subnets, links, request};
use super::locks::Locks;
use super::loopback::{Loopback, guard, is_open};
use super::netlink::link::{self, Address, Link};
use super::netlink::message::Messages;
use super::options::{self, parent, sub};
use super::own_links::{OwnLinks, Owner, next_bridge};
use super::register::Register;
use super::settings::{BridgesLock, Settings, set};
use super::spec::Network;
use super::subnet::Subnet;
use crate::error::{Error, Result};
use crate::hex::random_bytes;
use crate::store::Flush;
use crate::store::networks as table;
use crate::walls::Wall;
use std::sync::Arc;

/// Makes and removes the interfaces of networks.
pub(crate) struct Bridges {
    pub(super) register: Arc<Register>,
    pub(super) settings: Arc<Settings>,
    pub(super) locks: Arc<Locks>,
    pub(super) own_links: Arc<OwnLinks>,
    pub(super) endpoint_store: Arc<EndpointStore>,
    pub(super) firewalls: Arc<Firewalls>,
    pub(super) beside: Arc<Beside>,
    pub(super) loopback: Arc<Loopback>,
}

impl Bridges {
    /// Makes the network's bridge and its part of the firewall, where they are missing; answers the network as it is then,
    /// and the bridge's index.
    pub(super) fn up(&self, network: &Network) -> Result<(Network, u32)> {
        if let Some(link) = self.own_links.bridge_of(network)?
            && let standing = self.firewalls.standing()?
            && standing.table
            && self.beside.is_reconciled(&standing, &link.name)?
        {
            if is_open(network) {
                self.loopback.check(network)?;
            }
            return Ok((network.clone(), link.index));
        }
        let _kernel = self.locks.kernel()?;
        self.stand(network, None)
    }

    /// Makes the row and the bridge of a new network as one step for all roots of the host: each root sees the bridges of
    /// the others when it chooses a subnet. `insert` gets the subnets of the host, and chooses.
    pub(super) fn create<T>(
        &self,
        insert: impl FnOnce(&[Subnet]) -> Result<(Network, T)>,
    ) -> Result<(Network, T, Result<()>)> {
        let _kernel = self.locks.kernel()?;
        let on_host = self.settings.lock_bridges()?;
        let (network, more) = insert(&host_subnets()?)?;
        let made = self.stand(&network, Some(&on_host)).map(drop);
        Ok((network, more, made))
    }

    /// As [`Bridges::up`], under [`Locks::kernel`]; `on_host`: the lock of the host's bridges, where the caller holds it.
    fn stand(&self, network: &Network, on_host: Option<&BridgesLock>) -> Result<(Network, u32)> {
        let mut network = self.register.find(&network.id)?;
        let index = match (self.own_links.bridge_of(&network)?, on_host) {
            (Some(link), _) => link.index,
            (None, Some(on_host)) => self.make_bridge(&mut network, on_host)?,
            (None, None) => self.make_bridge(&mut network, &self.settings.lock_bridges()?)?,
        };
        self.firewalls.add(&network)?;
        // If another program's chain refuses a rule, the container starts all the same: `info` warns.
        let _ = self.beside.reconcile();
        self.loopback.reconcile(&network)?;
        Ok((network, index))
    }

    /// Removes a network's bridge or parent, and its part of the firewall.
    pub(super) fn down(&self, network: &Network) -> Result<()> {
        let _kernel = self.locks.kernel()?;
        if let Some(link) = self.own_links.bridge_of(network)? {
            delete(&link, "remove the bridge")?;
        }
        if sub(network)?.is_some()
            && let Some(link) = find_link(&parent(network))?.filter(|link| self.own_links.is_ours(link))
            && !self.register.all()?.iter().any(|other| other.id != network.id && parent(other) == parent(network))
        {
            delete(&link, "remove the parent interface")?;
        }
        self.firewalls.remove(network)?;
        if network.spec.driver == Driver::Bridge { self.beside.reconcile() } else { Ok(()) }
    }

    /// Removes the interfaces of networks that have no row: the program that removed the network was killed before it came
    /// to its interface. Under [`Locks::kernel`], as interfaces are made: no other program is just about to write the row.
    pub(super) fn sweep(&self) -> Result<()> {
        let known = self.register.all()?;
        let orphan = |link: &Link| {
            let own = Owner::of(link).filter(|_| self.own_links.is_ours(link));
            own.is_some_and(|own| known.iter().all(|other| other.id != own.network && parent(other) != link.name))
        };
        let orphans: Vec<Link> = links()?.into_iter().filter(orphan).collect();
        for link in &orphans {
            delete(link, "remove the interface of a network that is gone")?;
        }
        if orphans.is_empty() { Ok(()) } else { self.firewalls.remake() }
    }

    /// Makes the interfaces of running containers ports of the bridge again, after somebody removed it.
    fn reattach(&self, network: &Network, bridge: u32) -> Result<()> {
        let rows = self.endpoint_store.of_network(network)?;
        let isolated = !options::icc(&network.spec)?;
        for row in rows.iter().filter(|row| row.left_ns == 0) {
            if !self.register.is_live(row.slot)? {
                continue;
            }
            let restarts =
                self.register.states.recorded(row.slot, &row.container_id)?.map_or(0, |state| state.network_restarts());
            let port = read(row)?.port_now(restarts);
            if let Some(link) = find_link(&port)?.filter(|link| link.master == 0) {
                let mut m = Messages::new();
                link::set_port(&mut m, link.index, bridge, isolated);
                request(m, "make the interface a port of its bridge again")?;
            }
        }
        Ok(())
    }

    /// The index of the interface that the containers of a macvlan or ipvlan network share. If it is missing, it is made: a
    /// VLAN of a trunk, or one that leads nowhere.
    pub(super) fn parent(&self, network: &Network) -> Result<u32> {
        let name = parent(network);
        if let Some(link) = find_link(&name)? {
            return Ok(link.index);
        }
        let _kernel = self.locks.kernel()?;
        if find_link(&name)?.is_none() {
            self.make_parent(network, &name)?;
        }
        let link = find_link(&name)?
            .ok_or_else(|| Error::internal_as_dockerd("network", format!("interface {name} is gone")))?;
        let mut m = Messages::new();
        link::set_up(&mut m, link.index);
        request(m, &format!("bring the parent interface {name} up"))?;
        Ok(link.index)
    }

    fn make_parent(&self, network: &Network, name: &str) -> Result<()> {
        let alias = self.own_links.alias(network);
        let what = format!("make the parent interface {name}");
        let bad = || {
            Error::internal_as_dockerd(
                "network",
                format!("invalid subinterface vlan name {name}, example formatting is eth0.10"),
            )
        };
        let mut m = Messages::new();
        if network.spec.options.get("parent").is_none_or(String::is_empty) {
            // The interface leads nowhere: the network's containers have only each other.
            link::add_nowhere(&mut m, "dummy", name, &alias);
            return match request(m, &what) {
                Err(error) if error.is(libc::EOPNOTSUPP) => {
                    let mut m = Messages::new();
                    link::add_nowhere(&mut m, "bridge", name, &alias);
                    request(m, &what)
                }
                made => made,
            };
        }
        let (trunk, tag) = name.rsplit_once('.').ok_or_else(bad)?;
        let tag = tag.parse::<u16>().ok().filter(|tag| (1..4095).contains(tag)).ok_or_else(bad)?;
        let trunk = find_link(trunk)?.ok_or_else(bad)?;
        link::add_vlan(&mut m, name, trunk.index, tag, &alias);
        request(m, &what)
    }

    fn make_bridge(&self, network: &mut Network, _: &BridgesLock) -> Result<u32> {
        // Best effort: a removed root leaves its bridges behind.
        let _ = sweep_gone_roots();
        let before = network.clone();
        self.decide_bridge(network)?;
        if *network != before {
            let row = network.row()?;
            self.register.db.write(Flush::Durable, |tx| table::set_spec(tx, &row.id, &row.spec))?;
        }
        let name = network.spec.bridge.clone();
        let [a, b, c, d] = random_bytes::<4>()?;
        let mut m = Messages::new();
        let alias = self.own_links.alias(network);
        link::add_bridge(&mut m, &name, [0x02, 0x42, a, b, c, d], options::mtu(&network.spec)?, &alias);
        let made = request(m, &format!("make bridge {name}")).and_then(|()| self.bring_up(network, &name));
        if made.is_err()
            && let Ok(Some(link)) = self.own_links.bridge_of(network)
        {
            let _ = delete(&link, "remove the bridge");
        }
        made
    }

    /// Gives a new bridge its settings, its filter and its addresses, and brings it up.
    fn bring_up(&self, network: &Network, name: &str) -> Result<u32> {
        let link =
            find_link(name)?.ok_or_else(|| Error::internal_as_dockerd("network", format!("bridge {name} is gone")))?;
        self.host_settings(network, name)?;
        // Before it is up: at a link that is up it takes some milliseconds. Whether the filter stands is asked before it
        // matters.
        guard(link.index)?;
        let mut m = Messages::new();
        link::set_up(&mut m, link.index);
        for pool in Pool::of(network)? {
            if let Some(ip) = pool.gateway {
                link::add_address(&mut m, link.index, Address { ip, prefix: pool.prefix() });
            }
        }
        request(m, &format!("bring bridge {name} up with its address"))?;
        // Best effort: a container whose interface is gone too has none until it is connected again.
        let _ = self.reattach(network, link.index);
        Ok(link.index)
    }

    /// Decides the bridge's name, and the default network's subnet: another may replace it while no container uses it.
    fn decide_bridge(&self, network: &mut Network) -> Result<()> {
        let name = next_bridge(network)?;
        if links()?.iter().any(|link| link.name == name) {
            return Err(Error::internal_as_dockerd(
                "network",
                format!("an interface with the name {name} is there already, and is not of network {}", network.name),
            ));
        }
        network.spec.bridge = name;
        let host = host_subnets()?;
        let clashes = Pool::of(network)?.iter().any(|pool| host.iter().any(|other| other.overlaps(&pool.subnet)));
        if network.spec.ipam.config.is_empty() || network.is_default() && network.spec.automatic && clashes {
            let others = self.register.subnets_of_others(&network.id)?;
            network.spec.ipam.config = address::decide(&Default::default(), false, &others, &host)?.0;
        }
        Ok(())
    }

    /// Changes the settings that the packets of the network's containers need, each only where it differs.
    fn host_settings(&self, network: &Network, bridge: &str) -> Result<()> {
        let v6 = Pool::of(network)?.iter().any(|pool| pool.subnet.is_v6());
        // A container must not choose the way of its packets by source routes.
        set(&format!("ipv4/conf/{bridge}/accept_source_route"), "0")?;
        if !network.spec.internal {
            self.settings.change("ipv4/ip_forward", "1")?;
        }
        if std::path::Path::new("/proc/sys/net/ipv6").exists() {
            // A container must not make itself the host's router.
            if Wall::RouterAdvertisements.stands() {
                set(&format!("ipv6/conf/{bridge}/accept_ra"), "0")?;
            }
            // Nor reach the host by IPv6 where its network has none.
            if !v6 && Wall::NoIpv6.stands() {
                set(&format!("ipv6/conf/{bridge}/disable_ipv6"), "1")?;
            }
            // Nobody else can have the addresses of a new bridge: the kernel need not look for duplicates.
            set(&format!("ipv6/conf/{bridge}/accept_dad"), "0")?;
            if v6 && !network.spec.internal {
                self.settings.forward_v6()?;
            }
        }
        Ok(())
    }
}

/// Removes bridges and firewalls of roots that are gone. A bridge that has a port is in use, even if its root's directory is
/// not there; a bridge that is removed wrongly is made again by the next start that needs it.
fn sweep_gone_roots() -> Result<()> {
    let links = links()?;
    for link in &links {
        let Some(Owner { key, root, .. }) = Owner::of(link) else { continue };
        let idle = links.iter().all(|port| port.master != link.index);
        if idle
            && root.starts_with('/')
            && std::fs::metadata(root).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
        {
            delete(link, "remove the bridge of a root that is gone")?;
            let firewall = Firewall::new(key);
            firewall.remove()?;
            withdraw(firewall.name())?;
        }
    }
    Ok(())
}
