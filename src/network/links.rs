//! The host's interfaces, routes and addresses, over rtnetlink.

use super::netlink::link::{self, Link};
use super::netlink::message::Messages;
use super::subnet::Subnet;
use crate::error::Result;
use crate::kernel::netlink::{ROUTE, Socket};
use std::net::IpAddr;

/// Sends requests; the first refusal is the error.
pub(super) fn request(m: Messages, what: &str) -> Result<()> {
    let acks = m.acks() as usize;
    let refused = Socket::open(ROUTE)?.request(&m.finish(), acks)?;
    refused.first().map_or(Ok(()), |refused| Err(refused.error(what).in_area("network")))
}

/// Removes an interface; `what` names it in the error.
pub(super) fn delete(link: &Link, what: &str) -> Result<()> {
    let mut m = Messages::new();
    link::delete_link(&mut m, link.index);
    request(m, what)
}

/// Finds an interface of the host by its name.
pub(super) fn find_link(name: &str) -> Result<Option<Link>> {
    let mut found = None;
    let asked = Socket::open(ROUTE)?.dump(&link::get_link(name), |kind, body| found = link::read_link(kind, body));
    match asked {
        Err(error) if error.is(libc::ENODEV) => Ok(None),
        other => other.map(|()| found),
    }
}

/// All interfaces of the host.
pub(super) fn links() -> Result<Vec<Link>> {
    let mut all = Vec::new();
    Socket::open(ROUTE)?.dump(&link::get_links(), |kind, body| all.extend(link::read_link(kind, body)))?;
    Ok(all)
}

/// The subnets of the host's routes, addresses and resolvers: an automatic subnet must not overlap them.
pub(super) fn host_subnets() -> Result<Vec<Subnet>> {
    let mut all = Vec::new();
    let socket = Socket::open(ROUTE)?;
    socket.dump(&link::get_routes(), |kind, body| {
        all.extend(link::read_route(kind, body).map(|to| Subnet::of(to.ip, to.prefix)));
    })?;
    socket.dump(&link::get_addresses(), |kind, body| {
        all.extend(link::read_address(kind, body).map(|(_, at)| Subnet::of(at.ip, at.prefix)));
    })?;
    let resolvers = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let servers = resolvers.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    let servers = servers.filter_map(|text| text.trim().parse::<IpAddr>().ok());
    all.extend(servers.map(|ip| Subnet::of(ip, if ip.is_ipv4() { 32 } else { 128 })));
    Ok(all)
}
