//! The host's loopback addresses: reached by the host alone, whatever happens to the firewall.
//!
//! The host reaches ports published at 127.0.0.1 through the kernel only where the container's bridge has `route_localnet`,
//! which lets packets for 127/8 in. So each bridge has a filter at its ingress that drops these packets before any rule of a
//! firewall sees them; a flush removes rules, but not this filter. `route_localnet` is set while the filter stands and a
//! published port needs it.
//! Where the kernel has no such filter, the monitor of the container passes on what comes to 127.0.0.1.

use super::driver::Driver;
use super::endpoint::store::{EndpointStore, read};
use super::locks::Locks;
use super::netlink::filter;
use super::netlink::message::Messages;
use super::own_links::OwnLinks;
use super::ports::Published;
use super::register::Register;
use super::settings::{get, set};
use super::spec::Network;
use crate::error::Result;
use crate::kernel::netlink::{ROUTE, Socket};
use crate::walls::Wall;
use std::sync::Arc;

/// Leads the host to ports at its loopback address.
pub(crate) struct Loopback {
    pub(super) register: Arc<Register>,
    pub(super) endpoint_store: Arc<EndpointStore>,
    pub(super) locks: Arc<Locks>,
    pub(super) own_links: Arc<OwnLinks>,
    /// Monitors pass on ports at 127.0.0.1, also where the kernel could map them.
    pub(super) relay: bool,
}

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

/// Gives the bridge the filter, if it has none. Answers whether the filter stands then: not every kernel can have it.
pub(super) fn guard(bridge: u32) -> Result<bool> {
    if is_guarded(bridge)? {
        return Ok(true);
    }
    let mut m = Messages::new();
    filter::drop_loopback(&mut m, bridge);
    let acks = m.acks() as usize;
    // The look below says whether the kernel took it, whatever the reason of a refusal.
    Socket::open(ROUTE)?.request(&m.finish(), acks)?;
    is_guarded(bridge)
}

fn setting(network: &Network) -> String {
    format!("ipv4/conf/{}/route_localnet", network.spec.bridge)
}

/// Whether packets for 127/8 come in from the network's bridge.
pub(super) fn is_open(network: &Network) -> bool {
    get(&setting(network)) == "1"
}

impl Loopback {
    /// Whether the monitor of a container that publishes ports on this network passes on what comes to 127.0.0.1.
    pub(super) fn relays(&self, network: &Network) -> Result<bool> {
        if self.relay || network.spec.driver != Driver::Bridge {
            return Ok(self.relay);
        }
        let bridge = self.own_links.bridge_of(network)?.map(|link| link.index);
        Ok(!bridge.map(guard).transpose()?.unwrap_or(false))
    }

    /// Lets the host reach these ports of the network at 127.0.0.1. Under [`Locks::root`].
    pub(super) fn open(&self, network: &Network, ports: &[Published]) -> Result<()> {
        if ports.iter().any(Published::needs_localnet) { self.set(network, true) } else { Ok(()) }
    }

    /// Checks, at a start, an open and a repair, that a bridge which lets packets for 127/8 in has the filter, and that a port
    /// still needs these packets.
    pub(super) fn check(&self, network: &Network) -> Result<()> {
        // Without the lock: most networks need no change.
        let is_as_needed = match (is_open(network), self.is_needed(network)?) {
            (false, false) => true,
            (true, true) => self.is_guarded(network)?,
            _ => false,
        };
        if is_as_needed {
            return Ok(());
        }
        let _root = self.locks.root()?;
        self.reconcile(network)
    }

    /// Lets packets for 127/8 in exactly if a port needs them and the filter stands. Under [`Locks::root`].
    pub(super) fn reconcile(&self, network: &Network) -> Result<()> {
        self.set(network, self.is_needed(network)?)
    }

    fn set(&self, network: &Network, needed: bool) -> Result<()> {
        let Some(bridge) = self.own_links.bridge_of(network)? else { return Ok(()) };
        let open = needed && guard(bridge.index)?;
        set(&setting(network), if open { "1" } else { "0" }).map(|_| ())
    }

    fn is_guarded(&self, network: &Network) -> Result<bool> {
        self.own_links.bridge_of(network)?.map_or(Ok(true), |bridge| is_guarded(bridge.index))
    }

    /// Whether a running container has a port on this network that the host reaches at 127.0.0.1 through the kernel.
    fn is_needed(&self, network: &Network) -> Result<bool> {
        let rows = self.endpoint_store.of_network(network)?;
        // The newest first: they are most likely to run.
        for row in rows.iter().rev().filter(|row| row.left_ns == 0) {
            let doc = read(row)?;
            if doc.ports.iter().any(Published::needs_localnet) && self.register.is_live(row.slot)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether monitors pass on ports at 127.0.0.1 because the kernel has no filter.
    pub(crate) fn lacks_filter(&self) -> Result<bool> {
        Ok(!self.relay && self.endpoint_store.live_ports()?.iter().any(|port| port.loopback_relayed))
    }
}
