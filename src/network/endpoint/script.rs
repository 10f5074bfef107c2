//! The messages that make an end's interface, and that take it away.

use super::{Endpoint, EndpointDoc, parse_mac};
use crate::error::Result;
use crate::kernel::netlink::{ROUTE, Socket};
use crate::network::links::{delete, find_link};
use crate::network::netlink::link::{self, Address, Script, Sub, SubLink, Through, Veth};
use crate::network::options::sub;
use crate::network::spec::{Network, as_500};
use crate::network::{Networks, options, remote};
use coracle_monitor::wire::{PATCH_INDEX, PATCH_NETNS, PATCH_RESTART};
use std::os::fd::{AsRawFd, BorrowedFd};

impl Networks {
    /// Makes the interface of a running container, from here.
    pub(crate) fn plug(&self, end: &Endpoint, netns: BorrowedFd<'_>, restarts: u32) -> Result<()> {
        let acks = end.host.messages.acks() as usize;
        if acks == 0 && end.doc.remote.as_ref().is_some_and(|remote| remote.source.is_empty()) {
            return Ok(());
        }
        if acks == 0 {
            return Err(as_500(format!("the interface of network {} is not there", end.network.name)));
        }
        let mut bytes = end.host.messages.clone().finish();
        for (kind, at) in &end.host.patches {
            let at = *at as usize;
            match *kind {
                PATCH_RESTART => bytes[at..at + 2].copy_from_slice(digits(restarts).as_bytes()),
                _ => bytes[at..at + 4].copy_from_slice(&netns.as_raw_fd().to_ne_bytes()),
            }
        }
        let refused = Socket::open(ROUTE)?.request(&bytes, acks)?;
        let what = format!("add interface {} on network {}", end.doc.interface, end.network.name);
        refused.first().map_or(Ok(()), |refused| Err(refused.error(what).in_area("network")))
    }

    /// Takes a running container's interface away, and its ports with it; answers what is left to do in the container's
    /// network namespace.
    pub(crate) fn unplug(&self, doc: &EndpointDoc, restarts: u32) -> Result<Option<Script>> {
        self.firewall.remove_ports(&doc.ports)?;
        let port = doc.port_now(restarts);
        if port.is_empty() {
            let mut script = Script::default();
            link::delete_inside(&mut script, PATCH_INDEX);
            return Ok(Some(script));
        }
        match find_link(&port)? {
            None => {}
            Some(found) => {
                delete(&found, "remove the interface")?;
            }
        }
        Ok(None)
    }
}

/// The end of an interface's name that differs from restart to restart.
pub(super) fn digits(restarts: u32) -> String {
    format!("{:02}", restarts % 100)
}

pub(super) fn scripts(network: &Network, parent: u32, doc: &EndpointDoc, leads: bool) -> Result<(Script, Script)> {
    if let Some(end) = &doc.remote {
        return remote::scripts(doc, end, leads);
    }
    let (mut host, mut inside) = (Script::default(), Script::default());
    let mtu = options::mtu(&network.spec)?;
    let mac = parse_mac(&doc.mac)?;
    match sub(network)? {
        None => {
            let veth = Veth {
                host_name: &doc.port,
                name: &doc.interface,
                mac,
                bridge: parent,
                mtu,
                isolated: !options::icc(&network.spec)?,
            };
            link::add_veth(&mut host, &veth, (PATCH_RESTART, PATCH_NETNS));
        }
        Some(how) => {
            let sub = SubLink { name: &doc.interface, parent, how, mac, mtu };
            link::add_sub(&mut host, &sub, PATCH_NETNS);
        }
    }
    let l3 = matches!(sub(network)?, Some(Sub::Ipvlan(1)));
    link::bring_up(&mut inside, doc.v6.is_some(), PATCH_INDEX);
    for ip in &doc.link_local {
        let prefix = if ip.is_ipv4() { 16 } else { 64 };
        link::address_inside(&mut inside, Address { ip: *ip, prefix }, PATCH_INDEX);
    }
    for (ip, prefix, gateway) in [(doc.v4, doc.v4_prefix, doc.v4_gateway), (doc.v6, doc.v6_prefix, doc.v6_gateway)] {
        let Some(ip) = ip else { continue };
        link::address_inside(&mut inside, Address { ip, prefix }, PATCH_INDEX);
        if leads && l3 {
            link::default_route_inside(&mut inside, Through::Link { v6: ip.is_ipv6() }, PATCH_INDEX);
        } else if let (true, Some(gateway)) = (leads, gateway) {
            link::default_route_inside(&mut inside, Through::Gateway(gateway), PATCH_INDEX);
        }
    }
    Ok((host, inside))
}
