//! The messages that make the interface of an endpoint.

use super::doc::{EndpointDoc, RemoteEnd, parse_mac};
use crate::error::Result;
use crate::network::links::find_link;
use crate::network::netlink::link::{self, Address, Script, Sub, SubLink, Through, Veth};
use crate::network::options::{self, sub};
use crate::network::spec::Network;
use coracle_monitor::wire::{PATCH_INDEX, PATCH_NETNS, PATCH_RESTART};

/// The messages for the host and for the container's network namespace. `parent`: the index of the interface that the new
/// one is a port or a part of.
pub(super) fn scripts(network: &Network, parent: u32, doc: &EndpointDoc, leads: bool) -> Result<(Script, Script)> {
    if let Some(end) = &doc.remote {
        return of_driver(doc, end, leads);
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

/// The messages that bring a driver's interface into the container.
///
/// An interface that is not on the host is not moved: it is in the container already, or the driver made none, and no other
/// interface may be taken for it.
fn of_driver(doc: &EndpointDoc, end: &RemoteEnd, leads: bool) -> Result<(Script, Script)> {
    let (mut host, mut inside) = (Script::default(), Script::default());
    if end.source.is_empty() {
        return Ok((host, inside));
    }
    if let Some(found) = find_link(&end.source)? {
        link::move_link(&mut host, found.index, &doc.interface, PATCH_NETNS);
    }
    if !doc.mac.is_empty() {
        link::set_mac_inside(&mut inside, parse_mac(&doc.mac)?, PATCH_INDEX);
    }
    link::bring_up(&mut inside, doc.v6.is_some(), PATCH_INDEX);
    for (ip, prefix, gateway) in [(doc.v4, doc.v4_prefix, doc.v4_gateway), (doc.v6, doc.v6_prefix, doc.v6_gateway)] {
        let Some(ip) = ip else { continue };
        link::address_inside(&mut inside, Address { ip, prefix }, PATCH_INDEX);
        if let (true, Some(gateway)) = (leads, gateway) {
            link::default_route_inside(&mut inside, Through::Gateway(gateway), PATCH_INDEX);
        }
    }
    for (ip, prefix, via) in &end.routes {
        link::route_inside(&mut inside, Address { ip: *ip, prefix: *prefix }, *via, PATCH_INDEX);
    }
    Ok((host, inside))
}
