//! rtnetlink: links, addresses, routes.

use super::message::{ACK, CREATE, DUMP, EXCLUSIVE, Messages, REPLACE};
use crate::kernel::netlink::attributes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_ADDR: u16 = 20;
const GET_ADDR: u16 = 22;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;

const IFLA_ADDRESS: u16 = 1;
const IFLA_NAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_QUEUE: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_ALIAS: u16 = 20;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_TX_QUEUES: u16 = 31;
const IFLA_RX_QUEUES: u16 = 32;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const INFO_SLAVE_KIND: u16 = 4;
const INFO_SLAVE_DATA: u16 = 5;
const VETH_PEER: u16 = 1;
const MACVLAN_MODE: u16 = 1;
const IPVLAN_MODE: u16 = 1;
const PORT_HAIRPIN: u16 = 4;
const PORT_ISOLATED: u16 = 33;
const INET6_ADDR_GEN_MODE: u16 = 8;
const ADDR_GEN_NONE: u8 = 1;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
const IFA_F_NODAD: u8 = 2;

const RTA_DESTINATION: u16 = 1;
const RTA_OUT_INTERFACE: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_VIA: u16 = 18;
const TABLE_MAIN: u8 = 254;
const PROTOCOL_BOOT: u8 = 3;
const SCOPE_LINK: u8 = 253;
const TYPE_UNICAST: u8 = 1;

const UP: u32 = libc::IFF_UP as u32;

/// A hole in a finished buffer, which the sender fills: its kind (`PATCH_*` of the wire) and its place.
pub(crate) type Patch = (u32, u32);

/// Messages with holes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    pub messages: Messages,
    pub patches: Vec<Patch>,
}

impl Script {
    fn hole(&mut self, kind: u32, at: usize) {
        self.patches.push((kind, at as u32));
    }
}

/// `ifinfomsg`.
fn link_head(family: u8, index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut head = [0; 16];
    head[0] = family;
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..12].copy_from_slice(&flags.to_ne_bytes());
    head[12..16].copy_from_slice(&change.to_ne_bytes());
    head
}

/// Makes a bridge that is not up yet. `alias` names its owner.
pub(crate) fn add_bridge(m: &mut Messages, name: &str, mac: [u8; 6], mtu: u32, alias: &str) {
    m.begin(NEW_LINK, CREATE | EXCLUSIVE | ACK, &link_head(0, 0, 0, 0)).text(IFLA_NAME, name);
    m.attr(IFLA_ADDRESS, &mac);
    if mtu != 0 {
        m.u32(IFLA_MTU, mtu);
    }
    m.nest(IFLA_LINKINFO, |m| {
        m.text(INFO_KIND, "bridge");
    });
    // The kernel sets an alias only on a link that is there.
    m.begin(NEW_LINK, ACK, &link_head(0, 0, 0, 0)).text(IFLA_NAME, name).attr(IFLA_ALIAS, alias.as_bytes());
}

/// Makes an interface that leads nowhere: of the kind `dummy`, or a `bridge` without ports.
pub(crate) fn add_nowhere(m: &mut Messages, kind: &str, name: &str, alias: &str) {
    m.begin(NEW_LINK, CREATE | EXCLUSIVE | ACK, &link_head(0, 0, 0, 0)).text(IFLA_NAME, name);
    m.nest(IFLA_LINKINFO, |m| {
        m.text(INFO_KIND, kind);
    });
    m.begin(NEW_LINK, ACK, &link_head(0, 0, 0, 0)).text(IFLA_NAME, name).attr(IFLA_ALIAS, alias.as_bytes());
}

/// Makes the interface of one tag on a trunk.
pub(crate) fn add_vlan(m: &mut Messages, name: &str, trunk: u32, tag: u16, alias: &str) {
    const VLAN_ID: u16 = 1;
    m.begin(NEW_LINK, CREATE | EXCLUSIVE | ACK, &link_head(0, 0, 0, 0)).text(IFLA_NAME, name).u32(IFLA_LINK, trunk);
    m.nest(IFLA_LINKINFO, |m| {
        m.text(INFO_KIND, "vlan").nest(INFO_DATA, |m| {
            m.attr(VLAN_ID, &tag.to_ne_bytes());
        });
    });
    m.begin(NEW_LINK, ACK, &link_head(0, 0, 0, 0)).text(IFLA_NAME, name).attr(IFLA_ALIAS, alias.as_bytes());
}

/// Removes the interface whose index is patched in.
pub(crate) fn delete_inside(s: &mut Script, index: u32) {
    let at = s.messages.begin(DEL_LINK, ACK, &link_head(0, 0, 0, 0)).len();
    s.hole(index, at - 16 + 4);
}

/// Removes a link.
pub(crate) fn delete_link(m: &mut Messages, index: u32) {
    m.begin(DEL_LINK, ACK, &link_head(0, index, 0, 0));
}

/// Brings a link up.
pub(crate) fn set_up(m: &mut Messages, index: u32) {
    m.begin(NEW_LINK, ACK, &link_head(0, index, UP, UP));
}

/// A pair of which one end is a bridge's port here and the other an interface elsewhere.
pub(crate) struct Veth<'a> {
    /// Name of the end here; its last two characters are made to differ at each restart.
    pub host_name: &'a str,
    pub name: &'a str,
    pub mac: [u8; 6],
    pub bridge: u32,
    pub mtu: u32,
    /// The bridge forwards no packet from this port to other isolated ports.
    pub isolated: bool,
}

/// Makes a pair, the other end in the network namespace whose descriptor is patched in.
pub(crate) fn add_veth(s: &mut Script, veth: &Veth<'_>, kinds: (u32, u32)) {
    let (restart, netns) = kinds;
    let m = &mut s.messages;
    let mut holes = Vec::new();
    m.begin(NEW_LINK, CREATE | EXCLUSIVE | ACK, &link_head(0, 0, UP, UP));
    holes.push((restart, named(m, veth.host_name)));
    m.u32(IFLA_MASTER, veth.bridge);
    direct(m);
    if veth.mtu != 0 {
        m.u32(IFLA_MTU, veth.mtu);
    }
    m.nest(IFLA_LINKINFO, |m| {
        m.text(INFO_KIND, "veth").nest(INFO_DATA, |m| {
            m.nest(VETH_PEER, |m| {
                m.raw(&link_head(0, 0, 0, 0)).text(IFLA_NAME, veth.name).attr(IFLA_ADDRESS, &veth.mac);
                direct(m);
                if veth.mtu != 0 {
                    m.u32(IFLA_MTU, veth.mtu);
                }
                holes.push((netns, m.place(IFLA_NET_NS_FD, &[0; 4])));
            });
        });
    });
    // The kernel changes the settings only of a port that is there. Hairpin: a container may reach a port that it publishes itself.
    m.begin(NEW_LINK, ACK, &link_head(0, 0, 0, 0));
    holes.push((restart, named(m, veth.host_name)));
    m.nest(IFLA_LINKINFO, |m| {
        m.text(INFO_SLAVE_KIND, "bridge").nest(INFO_SLAVE_DATA, |m| {
            m.attr(PORT_HAIRPIN, &[1]);
            if veth.isolated {
                m.attr(PORT_ISOLATED, &[1]);
            }
        });
    });
    for (kind, at) in holes {
        s.hole(kind, at);
    }
}

/// Gives an end no queue of waiting packets, because it hands them over at once, and one queue each way, which is all that it
/// uses: otherwise the kernel makes one for each processor, and waits for all of them when it removes them.
fn direct(m: &mut Messages) {
    m.u32(IFLA_QUEUE, 0).u32(IFLA_TX_QUEUES, 1).u32(IFLA_RX_QUEUES, 1);
}

/// Makes a link that is there a bridge's port, with the settings of [`add_veth`].
pub(crate) fn set_port(m: &mut Messages, index: u32, bridge: u32, isolated: bool) {
    m.begin(NEW_LINK, ACK, &link_head(0, index, UP, UP)).u32(IFLA_MASTER, bridge);
    m.begin(NEW_LINK, ACK, &link_head(0, index, 0, 0));
    m.nest(IFLA_LINKINFO, |m| {
        m.text(INFO_SLAVE_KIND, "bridge").nest(INFO_SLAVE_DATA, |m| {
            m.attr(PORT_HAIRPIN, &[1]).attr(PORT_ISOLATED, &[u8::from(isolated)]);
        });
    });
}

/// A link's name; answers where its last two characters will stand.
fn named(m: &mut Messages, name: &str) -> usize {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    m.place(IFLA_NAME, &bytes) + name.len() - 2
}

/// How a sub-interface shares its parent.
pub(crate) enum Sub {
    /// A MAC address of its own: `MACVLAN_MODE_*`.
    Macvlan(u32),
    /// The parent's MAC address: `IPVLAN_MODE_*`.
    Ipvlan(u16),
}

/// A sub-interface.
pub(crate) struct SubLink<'a> {
    pub name: &'a str,
    /// The index of the interface that it shares.
    pub parent: u32,
    pub how: Sub,
    /// Ignored for [`Sub::Ipvlan`].
    pub mac: [u8; 6],
    /// 0: as its parent.
    pub mtu: u32,
}

/// Makes a sub-interface in the network namespace whose descriptor is patched in.
pub(crate) fn add_sub(s: &mut Script, sub: &SubLink<'_>, netns: u32) {
    let SubLink { name, parent, how, mac, mtu } = sub;
    let m = &mut s.messages;
    m.begin(NEW_LINK, CREATE | EXCLUSIVE | ACK, &link_head(0, 0, 0, 0)).text(IFLA_NAME, name).u32(IFLA_LINK, *parent);
    m.u32(IFLA_QUEUE, 0);
    if *mtu != 0 {
        m.u32(IFLA_MTU, *mtu);
    }
    if let Sub::Macvlan(_) = how {
        m.attr(IFLA_ADDRESS, mac);
    }
    let hole = m.place(IFLA_NET_NS_FD, &[0; 4]);
    m.nest(IFLA_LINKINFO, |m| {
        match how {
            Sub::Macvlan(mode) => m.text(INFO_KIND, "macvlan").nest(INFO_DATA, |m| {
                m.u32(MACVLAN_MODE, *mode);
            }),
            Sub::Ipvlan(mode) => m.text(INFO_KIND, "ipvlan").nest(INFO_DATA, |m| {
                m.attr(IPVLAN_MODE, &mode.to_ne_bytes());
            }),
        };
    });
    s.hole(netns, hole);
}

/// Gives a link of the host to the network namespace whose descriptor is patched in, under another name.
pub(crate) fn move_link(s: &mut Script, index: u32, name: &str, netns: u32) {
    let m = &mut s.messages;
    m.begin(NEW_LINK, ACK, &link_head(0, index, 0, 0)).text(IFLA_NAME, name);
    let hole = m.place(IFLA_NET_NS_FD, &[0; 4]);
    s.hole(netns, hole);
}

/// Sets the MAC address of the interface whose index is patched in.
pub(crate) fn set_mac_inside(s: &mut Script, mac: [u8; 6], index: u32) {
    let at = s.messages.begin(NEW_LINK, ACK, &link_head(0, 0, 0, 0)).len();
    s.messages.attr(IFLA_ADDRESS, &mac);
    s.hole(index, at - 16 + 4);
}

/// Makes a route over the interface whose index is patched in.
pub(crate) fn route_inside(s: &mut Script, to: Address, via: Option<IpAddr>, index: u32) {
    let mut head = route_head(to.ip.is_ipv6(), if via.is_some() { 0 } else { SCOPE_LINK });
    head[1] = to.prefix;
    let m = &mut s.messages;
    m.begin(NEW_ROUTE, CREATE | REPLACE | ACK, &head).attr(RTA_DESTINATION, &octets(to.ip));
    if let Some(via) = via {
        m.attr(RTA_GATEWAY, &octets(via));
    }
    let at = m.place(RTA_OUT_INTERFACE, &[0; 4]);
    s.hole(index, at);
}

/// Brings the interface up whose index is patched in; without `link_local` it gets no IPv6 address by itself.
pub(crate) fn bring_up(s: &mut Script, link_local: bool, index: u32) {
    // In a message of its own: a link that comes up makes its address before it reads this attribute.
    if !link_local {
        let at = s.messages.begin(NEW_LINK, ACK, &link_head(0, 0, 0, 0)).len();
        s.messages.nest_as(IFLA_AF_SPEC, |m| {
            m.nest_as(libc::AF_INET6 as u16, |m| {
                m.attr(INET6_ADDR_GEN_MODE, &[ADDR_GEN_NONE]);
            });
        });
        s.hole(index, at - 16 + 4);
    }
    let at = s.messages.begin(NEW_LINK, ACK, &link_head(0, 0, UP, UP)).len();
    s.hole(index, at - 16 + 4);
}

/// An address in a subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub ip: IpAddr,
    pub prefix: u8,
}

fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn write_address(m: &mut Messages, kind: u16, flags: u16, index: u32, address: Address) -> usize {
    let nodad = if address.ip.is_ipv6() { IFA_F_NODAD } else { 0 };
    let mut head = [family(address.ip), address.prefix, nodad, 0, 0, 0, 0, 0];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    let at = m.begin(kind, flags, &head).len() - 4;
    m.attr(IFA_LOCAL, &octets(address.ip)).attr(IFA_ADDRESS, &octets(address.ip));
    if let (IpAddr::V4(ip), true) = (address.ip, address.prefix < 31) {
        let broadcast = Ipv4Addr::from(u32::from(ip) | u32::MAX.checked_shr(u32::from(address.prefix)).unwrap_or(0));
        m.attr(IFA_BROADCAST, &broadcast.octets());
    }
    at
}

/// Adds an address to a link.
pub(crate) fn add_address(m: &mut Messages, index: u32, address: Address) {
    write_address(m, NEW_ADDR, CREATE | REPLACE | ACK, index, address);
}

/// Adds an address to the interface whose index is patched in.
pub(crate) fn address_inside(s: &mut Script, address: Address, index: u32) {
    let at = write_address(&mut s.messages, NEW_ADDR, CREATE | EXCLUSIVE | ACK, 0, address);
    s.hole(index, at);
}

/// The way of a default route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Through {
    Gateway(IpAddr),
    /// All addresses are on the link, as behind an ipvlan in L3 mode.
    Link {
        v6: bool,
    },
}

fn route_head(v6: bool, scope: u8) -> [u8; 12] {
    let family = if v6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
    [family, 0, 0, 0, TABLE_MAIN, PROTOCOL_BOOT, scope, TYPE_UNICAST, 0, 0, 0, 0]
}

/// Makes (or replaces) the default route over the interface whose index is patched in.
pub(crate) fn default_route_inside(s: &mut Script, through: Through, index: u32) {
    let m = &mut s.messages;
    let at = match through {
        Through::Gateway(ip) => {
            m.begin(NEW_ROUTE, CREATE | REPLACE | ACK, &route_head(ip.is_ipv6(), 0));
            m.attr(RTA_GATEWAY, &octets(ip));
            m.place(RTA_OUT_INTERFACE, &[0; 4])
        }
        Through::Link { v6 } => {
            m.begin(NEW_ROUTE, CREATE | REPLACE | ACK, &route_head(v6, SCOPE_LINK));
            m.place(RTA_OUT_INTERFACE, &[0; 4])
        }
    };
    s.hole(index, at);
}

/// A link of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub index: u32,
    pub name: String,
    pub alias: String,
    /// The index of the bridge that the link is a port of; 0: of none.
    pub master: u32,
    /// `bridge`, `veth`; empty: the link has no kind.
    pub kind: String,
}

/// Asks for all links.
pub(crate) fn get_links() -> Vec<u8> {
    let mut m = Messages::new();
    m.begin(GET_LINK, DUMP, &link_head(0, 0, 0, 0));
    m.finish()
}

/// Asks for one link.
pub(crate) fn get_link(name: &str) -> Vec<u8> {
    let mut m = Messages::new();
    m.begin(GET_LINK, ACK, &link_head(0, 0, 0, 0)).text(IFLA_NAME, name);
    m.finish()
}

/// Reads an answer to [`get_links`].
pub(crate) fn read_link(kind: u16, body: &[u8]) -> Option<Link> {
    if kind != NEW_LINK {
        return None;
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    let number = |at: usize| body.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_ne_bytes);
    let mut link = Link { index: number(4)?, ..Link::default() };
    for (kind, payload) in attributes(body.get(16..)?) {
        match kind {
            IFLA_NAME => link.name = text(payload),
            IFLA_ALIAS => link.alias = text(payload),
            IFLA_LINKINFO => {
                let kind = attributes(payload).find(|(kind, _)| *kind == INFO_KIND);
                link.kind = kind.map(|(_, name)| text(name)).unwrap_or_default();
            }
            IFLA_MASTER => link.master = payload.try_into().map(u32::from_ne_bytes).unwrap_or(0),
            _ => {}
        }
    }
    Some(link)
}

/// Asks for all addresses.
pub(crate) fn get_addresses() -> Vec<u8> {
    let mut m = Messages::new();
    m.begin(GET_ADDR, DUMP, &[0; 8]);
    m.finish()
}

/// Reads an answer to [`get_addresses`]: the link's index, the address.
pub(crate) fn read_address(kind: u16, body: &[u8]) -> Option<(u32, Address)> {
    if kind != NEW_ADDR {
        return None;
    }
    let index = u32::from_ne_bytes(body.get(4..8)?.try_into().ok()?);
    let prefix = *body.get(1)?;
    let all: Vec<_> = attributes(body.get(8..)?).collect();
    let of = |wanted: u16| all.iter().find(|(kind, _)| *kind == wanted).and_then(|(_, payload)| ip(payload));
    Some((index, Address { ip: of(IFA_LOCAL).or_else(|| of(IFA_ADDRESS))?, prefix }))
}

/// Asks for all routes.
pub(crate) fn get_routes() -> Vec<u8> {
    let mut m = Messages::new();
    m.begin(GET_ROUTE, DUMP, &[0; 12]);
    m.finish()
}

/// Reads an answer to [`get_routes`]: where a route leads to; `None` for default routes and others than unicast.
pub(crate) fn read_route(kind: u16, body: &[u8]) -> Option<Address> {
    if kind != NEW_ROUTE || *body.get(7)? != TYPE_UNICAST {
        return None;
    }
    let prefix = *body.get(1)?;
    let (_, to) = attributes(body.get(12..)?).find(|(kind, _)| *kind == RTA_DESTINATION)?;
    Some(Address { ip: ip(to)?, prefix }).filter(|to| to.prefix > 0)
}

/// Reads an answer to [`get_routes`]: the index of the link by which a route leads to a gateway.
pub(crate) fn read_gateway(kind: u16, body: &[u8]) -> Option<u32> {
    if kind != NEW_ROUTE || *body.get(7)? != TYPE_UNICAST {
        return None;
    }
    let attributes: Vec<_> = attributes(body.get(12..)?).collect();
    let of = |wanted: u16| attributes.iter().find(|(kind, _)| *kind == wanted).map(|(_, payload)| *payload);
    of(RTA_GATEWAY).or_else(|| of(RTA_VIA))?;
    of(RTA_OUT_INTERFACE)?.try_into().ok().map(u32::from_ne_bytes)
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(|b| Ipv4Addr::from(b).into()),
        16 => <[u8; 16]>::try_from(bytes).ok().map(|b| Ipv6Addr::from(b).into()),
        _ => None,
    }
}
