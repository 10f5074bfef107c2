//! The host's loopback addresses: reached by the host alone, whatever happens to the firewall.
//!
//! The host reaches ports published at 127.0.0.1 through the kernel only where the container's bridge has `route_localnet`,
//! which lets packets for 127/8 in. So each bridge has a filter at its ingress that drops those before any rule of a firewall
//! is asked; a flush takes rules, and not that. `route_localnet` is set while the filter stands and somebody's port needs it.
//! Where the kernel has no such filter, the monitor of the container passes on what comes to 127.0.0.1.

use super::Networks;
use super::driver::Driver;
use super::netlink::filter;
use super::netlink::message::Messages;
use super::ports::Published;
use super::settings::{get, set};
use super::spec::Network;
use crate::error::Result;
use crate::kernel::netlink::{ROUTE, Socket};
use crate::store::networks as table;
use crate::walls::Wall;

/// Whether the bridge has the filter.
fn is_guarded(bridge: u32) -> Result<bool> {
    if !Wall::LoopbackFilter.stands() {
        return Ok(true);
    }
    let mut found = false;
    Socket::open(ROUTE)?.dump(&filter::get_filters(bridge), |kind, body| {
        found |= filter::is_drop_loopback(kind, body);
    })?;
    Ok(found)
}

/// Gives the bridge the filter, if it has none. Answers whether it stands then: not every kernel has what it takes.
pub(super) fn guard(bridge: u32) -> Result<bool> {
    if is_guarded(bridge)? {
        return Ok(true);
    }
    let mut m = Messages::new();
    filter::drop_loopback(&mut m, bridge);
    let acks = m.acks() as usize;
    // A filter that the kernel refuses, for whatever reason, is not there.
    Socket::open(ROUTE)?.request(&m.finish(), acks)?;
    is_guarded(bridge)
}

fn setting(network: &Network) -> String {
    format!("ipv4/conf/{}/route_localnet", network.spec.bridge)
}

pub(super) fn is_open(network: &Network) -> bool {
    get(&setting(network)) == "1"
}

impl Networks {
    /// Whether the monitor of a container that publishes ports on this network passes on what comes to 127.0.0.1.
    pub(super) fn relays_loopback(&self, network: &Network) -> Result<bool> {
        if self.relay_loopback || network.spec.driver != Driver::Bridge {
            return Ok(self.relay_loopback);
        }
        let bridge = self.own_links.bridge_of(network)?.map(|link| link.index);
        Ok(!bridge.map(guard).transpose()?.unwrap_or(false))
    }

    /// Lets the host reach these ports of the network's at 127.0.0.1. Under [`Networks::lock`].
    pub(super) fn open_loopback(&self, network: &Network, ports: &[Published]) -> Result<()> {
        if ports.iter().any(Published::needs_localnet) { self.set_loopback(network, true) } else { Ok(()) }
    }

    /// The check of a start, an open and a repair: the filter of a bridge that lets packets for 127/8 in, and whether
    /// anybody still needs that.
    pub(super) fn check_loopback(&self, network: &Network) -> Result<()> {
        // Without the lock: most have nothing to mend.
        let settled = match (is_open(network), self.needs_loopback(network)?) {
            (false, false) => true,
            (true, true) => self.is_guarded(network)?,
            _ => false,
        };
        if settled {
            return Ok(());
        }
        let _everywhere = self.locks.root()?;
        self.settle_loopback(network)
    }

    /// Checks one network's loopback filter under [`Networks::lock`].
    pub(super) fn settle_loopback(&self, network: &Network) -> Result<()> {
        self.set_loopback(network, self.needs_loopback(network)?)
    }

    fn set_loopback(&self, network: &Network, needed: bool) -> Result<()> {
        let Some(bridge) = self.own_links.bridge_of(network)? else { return Ok(()) };
        let open = needed && guard(bridge.index)?;
        set(&setting(network), if open { "1" } else { "0" }).map(|_| ())
    }

    fn is_guarded(&self, network: &Network) -> Result<bool> {
        self.own_links.bridge_of(network)?.map_or(Ok(true), |bridge| is_guarded(bridge.index))
    }

    /// Whether a running container has a port on this network that the host reaches at 127.0.0.1 through the kernel.
    fn needs_loopback(&self, network: &Network) -> Result<bool> {
        let rows = self.register.db.read(|tx| table::of_network(tx, &network.id))?;
        // The newest first: they are most likely to run.
        for row in rows.iter().rev().filter(|row| row.left_ns == 0) {
            let doc = super::endpoint::read(row)?;
            if doc.ports.iter().any(Published::needs_localnet) && self.register.is_live(row.slot)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether monitors pass on ports at 127.0.0.1 because the kernel has no filter.
    pub(crate) fn lacks_filter(&self) -> Result<bool> {
        Ok(!self.relay_loopback && self.live_ports()?.iter().any(|port| port.loopback_relayed))
    }
}
