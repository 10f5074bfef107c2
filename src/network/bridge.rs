//! The kernel's side of a network: its bridge, addresses of the host on it, the few settings that forwarding needs.

use super::Networks;
use super::address::{self, Pool};
use super::driver::Driver;
use super::firewall::{Firewall, Zone};
use super::links::{delete, find_link, host_subnets, links, request};
use super::netlink::link::{self, Address, Link};
use super::netlink::message::Messages;
use super::options::{self, parent, sub};
use super::own_links::{Owner, next_bridge};
use super::settings::{BridgesLock, set};
use super::spec::{Network, as_500};
use super::subnet::Subnet;
use crate::error::Result;
use crate::hex::random_bytes;
use crate::store::Flush;
use crate::store::networks as table;
use crate::walls::Wall;

impl Networks {
    /// Makes what a network needs in the kernel, where it is not there; answers the network as it is then, and the
    /// bridge's index.
    pub(super) fn up(&self, network: &Network) -> Result<(Network, u32)> {
        if let Some(link) = self.own_links.bridge_of(network)?
            && let standing = self.standing()?
            && standing.table
            && self.is_settled_beside(&standing, &link.name)?
        {
            if super::loopback::is_open(network) {
                self.check_loopback(network)?;
            }
            return Ok((network.clone(), link.index));
        }
        let _kernel = self.locks.kernel()?;
        self.stand(network, None)
    }

    /// Makes the row and the bridge of a new network as one step for all roots of the host: each chooses its subnet when it
    /// sees the bridges of the others. `insert` chooses by the subnets of the host that it is given.
    pub(super) fn create_up<T>(
        &self,
        insert: impl FnOnce(&[Subnet]) -> Result<(Network, T)>,
    ) -> Result<(Network, T, Result<()>)> {
        let _kernel = self.locks.kernel()?;
        let on_host = self.settings.lock_bridges()?;
        let (network, more) = insert(&host_subnets()?)?;
        let made = self.stand(&network, Some(&on_host)).map(drop);
        Ok((network, more, made))
    }

    /// [`Networks::up`], under [`Networks::lock`]; `on_host`: the lock of the host's bridges, where it is held already.
    fn stand(&self, network: &Network, on_host: Option<&BridgesLock>) -> Result<(Network, u32)> {
        let mut network = self.register.find(&network.id)?;
        let index = match (self.own_links.bridge_of(&network)?, on_host) {
            (Some(link), _) => link.index,
            (None, Some(on_host)) => self.make_bridge(&mut network, on_host)?,
            (None, None) => self.make_bridge(&mut network, &self.settings.lock_bridges()?)?,
        };
        if self.firewall.is_there()? {
            self.firewall.add_zone(&zone(&network)?)?;
        } else {
            self.make_firewall()?;
        }
        // Another program's chain that takes no rule is no reason not to start: `info` says what keeps packets.
        let _ = self.settle_beside();
        self.settle_loopback(&network)?;
        Ok((network, index))
    }

    /// Takes a network's bridge away, and what the firewall has of it.
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
        if !network.spec.bridge.is_empty() && self.firewall.is_there()? {
            self.firewall.remove_zone(&zone(network)?)?;
        }
        if network.spec.driver == Driver::Bridge { self.settle_beside() } else { Ok(()) }
    }

    /// Makes the firewall of what is there now. Under [`Networks::lock`].
    pub(super) fn make_firewall(&self) -> Result<()> {
        let mut zones = Vec::new();
        for network in self.register.all()? {
            if self.own_links.bridge_of(&network)?.is_some() {
                zones.push(zone(&network)?);
            }
        }
        let before = self.live_ports()?;
        let apart = self.apart(zones.iter().map(|zone| zone.bridge.clone()).collect())?;
        self.firewall.make(&zones, &apart, &before)?;
        // A monitor that ended meanwhile found no table to take its ports out of.
        let now = self.live_ports()?;
        let gone: Vec<_> = before.into_iter().filter(|port| !now.contains(port)).collect();
        self.firewall.remove_ports(&gone)
    }

    /// Takes away the interfaces of networks that are removed: who removed one was killed before it came to them. Under
    /// [`Networks::lock`], as they are made: what has no row now had none when it was made, or lost it since.
    fn sweep_own(&self) -> Result<()> {
        let known = self.register.all()?;
        let orphan = |link: &Link| {
            let own = Owner::of(link).filter(|_| self.own_links.is_ours(link));
            own.is_some_and(|own| known.iter().all(|other| other.id != own.network && parent(other) != link.name))
        };
        let orphans: Vec<Link> = links()?.into_iter().filter(orphan).collect();
        for link in &orphans {
            delete(link, "remove the interface of a network that is gone")?;
        }
        if !orphans.is_empty() && self.firewall.is_there()? { self.make_firewall() } else { Ok(()) }
    }

    /// Puts back what another program took: the firewall, bridges of running containers; and takes away what a killed one
    /// left. Nothing is made that nobody needs.
    pub(crate) fn heal(&self) -> Result<()> {
        let named = |link: &Link| self.own_links.is_ours(link);
        let known = self.register.all()?;
        let has_row =
            |link: &Link| Owner::of(link).is_some_and(|own| known.iter().any(|other| other.id == own.network));
        if links()?.iter().any(|link| named(link) && !has_row(link)) {
            let _kernel = self.locks.kernel()?;
            self.sweep_own()?;
        }
        let rows = self.register.db.read(table::all_endpoints)?;
        let mut needed: Vec<String> = Vec::new();
        for row in rows {
            if row.left_ns == 0 && !needed.contains(&row.network_id) && self.register.is_live(row.slot)? {
                needed.push(row.network_id);
            }
        }
        for mut network in known.into_iter().filter(|network| network.spec.driver == Driver::Bridge) {
            let is_needed = needed.contains(&network.id);
            if is_needed {
                network = self.up(&network)?.0;
            }
            if is_needed || super::loopback::is_open(&network) {
                self.check_loopback(&network)?;
            }
        }
        self.check_beside()?;
        self.sweep_ports()?;
        // Last: a plugin may be slow.
        self.settle_all()
    }

    /// As `heal`, with the firewall made anew whatever it looks like.
    pub(crate) fn repair(&self) -> Result<()> {
        self.heal()?;
        let _kernel = self.locks.kernel()?;
        if self.firewall.is_there()? {
            self.make_firewall()?;
        }
        self.settle_beside()
    }

    /// A bridge that somebody removed left the ends of running containers behind: they are its ports again.
    fn reattach(&self, network: &Network, bridge: u32) -> Result<()> {
        let rows = self.register.db.read(|tx| table::of_network(tx, &network.id))?;
        let isolated = !options::icc(&network.spec)?;
        for row in rows.iter().filter(|row| row.left_ns == 0) {
            if !self.register.is_live(row.slot)? {
                continue;
            }
            let restarts =
                self.register.states.recorded(row.slot, &row.container_id)?.map_or(0, |state| state.network_restarts());
            let port = super::endpoint::read(row)?.port_now(restarts);
            if let Some(link) = find_link(&port)?.filter(|link| link.master == 0) {
                let mut m = Messages::new();
                link::set_port(&mut m, link.index, bridge, isolated);
                request(m, "make the interface a port of its bridge again")?;
            }
        }
        Ok(())
    }

    /// Takes away what the kernel has of networks that no running container is on; the next start makes it again.
    pub(crate) fn release(&self) -> Result<()> {
        let rows = self.register.db.read(table::all_endpoints)?;
        let mut left = false;
        for network in self.register.all()? {
            let mut used = false;
            for row in rows.iter().filter(|row| row.network_id == network.id && row.left_ns == 0) {
                used |= self.register.is_live(row.slot)?;
            }
            left |= used;
            if !used {
                self.down(&network)?;
            }
        }
        let _kernel = self.locks.kernel()?;
        self.sweep_own()?;
        self.settle_beside()?;
        if left {
            return Ok(());
        }
        if self.firewall.is_there()? {
            self.firewall.remove()?;
        }
        // Another bridge (of another root, of another program) may need what a root of ours was the first to switch on.
        self.settings.restore(|| Ok(links()?.iter().any(|link| link.kind == "bridge")))
    }

    /// The index of the interface that a macvlan or ipvlan network hangs on; one that is the network's own is made.
    pub(super) fn parent(&self, network: &Network) -> Result<u32> {
        let name = parent(network);
        if let Some(link) = find_link(&name)? {
            return Ok(link.index);
        }
        let _kernel = self.locks.kernel()?;
        if find_link(&name)?.is_none() {
            self.make_parent(network, &name)?;
        }
        let link = find_link(&name)?.ok_or_else(|| as_500(format!("interface {name} is gone")))?;
        let mut m = Messages::new();
        link::set_up(&mut m, link.index);
        request(m, &format!("bring the parent interface {name} up"))?;
        Ok(link.index)
    }

    fn make_parent(&self, network: &Network, name: &str) -> Result<()> {
        let alias = self.own_links.alias(network);
        let what = format!("make the parent interface {name}");
        let bad = || as_500(format!("invalid subinterface vlan name {name}, example formatting is eth0.10"));
        let mut m = Messages::new();
        if network.spec.options.get("parent").is_none_or(String::is_empty) {
            // Nothing leads out of it: the network's containers have only each other.
            link::add_nowhere(&mut m, "dummy", name, &alias);
            return match request(m, &what) {
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
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
        // Best effort: who removed a root left its bridges.
        let _ = sweep();
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
        let made = (|| {
            request(m, &format!("make bridge {name}"))?;
            let link = find_link(&name)?.ok_or_else(|| as_500(format!("bridge {name} is gone")))?;
            self.host_settings(network, &name)?;
            // Now: at a link that is up it takes some milliseconds. Whether it stands is asked before it matters.
            super::loopback::guard(link.index)?;
            let mut m = Messages::new();
            link::set_up(&mut m, link.index);
            for pool in Pool::of(network)? {
                if let Some(ip) = pool.gateway {
                    link::add_address(&mut m, link.index, Address { ip, prefix: pool.prefix() });
                }
            }
            request(m, &format!("bring bridge {name} up with its address"))?;
            // Best effort: those whose interfaces are gone too are without them until they are connected again.
            let _ = self.reattach(network, link.index);
            Ok(link.index)
        })();
        if made.is_err()
            && let Ok(Some(link)) = self.own_links.bridge_of(network)
        {
            let mut m = Messages::new();
            link::delete_link(&mut m, link.index);
            let _ = request(m, "remove the bridge");
        }
        made
    }

    /// The bridge's name, and the default network's subnet: as long as nobody is on it, another may take its place.
    fn decide_bridge(&self, network: &mut Network) -> Result<()> {
        let name = next_bridge(network)?;
        if links()?.iter().any(|link| link.name == name) {
            return Err(as_500(format!(
                "an interface with the name {name} is there already, and is not of network {}",
                network.name
            )));
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
}

/// The facts of a network for the firewall.
pub(super) fn zone(network: &Network) -> Result<Zone> {
    let subnets: Vec<Subnet> = Pool::of(network)?.iter().map(|pool| pool.subnet).collect();
    let leaves = options::masquerade(&network.spec)? && !network.spec.internal;
    Ok(Zone {
        bridge: network.spec.bridge.clone(),
        internal: network.spec.internal,
        masqueraded: if leaves { subnets.clone() } else { Vec::new() },
        subnets,
    })
}

/// Removes bridges and firewalls of roots that are gone. One that has a port is somebody's, whatever its directory; one
/// that is removed wrongly is made again by the next start that needs it.
fn sweep() -> Result<()> {
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
            super::beside::withdraw(firewall.name())?;
        }
    }
    Ok(())
}

impl Networks {
    /// The settings of the host that its containers' packets need, each changed only where it differs.
    fn host_settings(&self, network: &Network, bridge: &str) -> Result<()> {
        let v6 = Pool::of(network)?.iter().any(|pool| pool.subnet.is_v6());
        // A container does not say over which of the host's addresses its packets go.
        set(&format!("ipv4/conf/{bridge}/accept_source_route"), "0")?;
        if !network.spec.internal {
            self.settings.change("ipv4/ip_forward", "1")?;
        }
        if std::path::Path::new("/proc/sys/net/ipv6").exists() {
            // A container must not make itself the host's router.
            if Wall::RouterAdvertisements.stands() {
                set(&format!("ipv6/conf/{bridge}/accept_ra"), "0")?;
            }
            // Nor reach the host by what its network does not have.
            if !v6 && Wall::NoIpv6.stands() {
                set(&format!("ipv6/conf/{bridge}/disable_ipv6"), "1")?;
            }
            // Nobody else can have the addresses of a new bridge: they are of use at once.
            set(&format!("ipv6/conf/{bridge}/accept_dad"), "0")?;
            if v6 && !network.spec.internal {
                self.settings.forward_v6()?;
            }
        }
        Ok(())
    }
}
