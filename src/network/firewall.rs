//! The firewall: one nf_tables table for each root. Its rules never change; networks and published ports are elements of its
//! sets, so that the thousandth port costs as little as the first.
//!
//! A container's ports are elements that its monitor removes when it ends. Whatever another program does to the table, it can
//! be made again from the database at any time.

use super::netlink::compat::Chain;
use super::netlink::filter::ANSWER;
use super::netlink::message::Messages;
use super::netlink::nft::{
    Batch, Element, Hook, Meta, R0, Rule, SetKind, Type, ask_table, get_elements, read_elements,
};
use super::ports::Published;
use super::subnet::Subnet;
use crate::error::Result;
use crate::kernel::netlink::{NETFILTER, Socket};
use crate::order::Order as _;
use crate::walls::Wall;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

/// The table of one root.
#[derive(Debug, Clone)]
pub(crate) struct Firewall {
    table: String,
}

/// The facts of a network that the firewall knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Zone {
    pub bridge: String,
    pub internal: bool,
    /// The subnets whose packets leave under the host's address.
    pub masqueraded: Vec<Subnet>,
    /// All subnets of the network.
    pub subnets: Vec<Subnet>,
}

/// Bridges that are kept apart from bridges of other programs, but for published ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Apart {
    pub bridges: Vec<String>,
    /// Bridges of others that lead outside: packets go there as over any other interface.
    pub uplinks: Vec<String>,
}

const PREROUTING: u32 = 0;
const INPUT: u32 = 1;
const FORWARD: u32 = 2;
const OUTPUT: u32 = 3;
const POSTROUTING: u32 = 4;
const ESTABLISHED_OR_RELATED: u32 = 2 | 4;
const STATUS_SNAT: u32 = 1 << 4;
const STATUS_DNAT: u32 = 1 << 5;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;

const SETS: &[(&str, SetKind)] = &[
    ("bridges", SetKind { key: &[Type::Interface], value: &[], interval: false }),
    ("same", SetKind { key: &[Type::Interface, Type::Interface], value: &[], interval: false }),
    ("internal", SetKind { key: &[Type::Interface], value: &[], interval: false }),
    ("own4", SetKind { key: &[Type::Ipv4], value: &[], interval: true }),
    ("own6", SetKind { key: &[Type::Ipv6], value: &[], interval: true }),
    ("masquerade4", SetKind { key: &[Type::Ipv4], value: &[], interval: true }),
    ("masquerade6", SetKind { key: &[Type::Ipv6], value: &[], interval: true }),
    ("ports4", SetKind { key: &[Type::Protocol, Type::Port], value: &[Type::Ipv4, Type::Port], interval: false }),
    ("ports6", SetKind { key: &[Type::Protocol, Type::Port], value: &[Type::Ipv6, Type::Port], interval: false }),
    (
        "ports4at",
        SetKind { key: &[Type::Ipv4, Type::Protocol, Type::Port], value: &[Type::Ipv4, Type::Port], interval: false },
    ),
    (
        "ports6at",
        SetKind { key: &[Type::Ipv6, Type::Protocol, Type::Port], value: &[Type::Ipv6, Type::Port], interval: false },
    ),
    // Bridges that are kept apart from those of others, and bridges of others that lead outside.
    ("apart", SetKind { key: &[Type::Interface], value: &[], interval: false }),
    ("uplinks", SetKind { key: &[Type::Interface], value: &[], interval: false }),
];

/// The maps of published ports: of IPv6, at one address of the host.
const PORT_SETS: [(&str, bool, bool); 4] =
    [("ports4", false, false), ("ports4at", false, true), ("ports6", true, false), ("ports6at", true, true)];

/// The mappings of published ports that stand in the firewall: elements of its maps.
pub(crate) struct PortMappings(Vec<(&'static str, Vec<Element>)>);

impl PortMappings {
    /// The mappings without those of some ports.
    pub(crate) fn without(mut self, ports: &[Published]) -> PortMappings {
        for ((_, elements), (_, v6, at)) in self.0.iter_mut().zip(PORT_SETS) {
            let known: HashSet<Element> = elements_of(ports, v6, at).into_iter().collect();
            elements.retain(|element| !known.contains(element));
        }
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, elements)| elements.is_empty())
    }
}

impl Firewall {
    /// The firewall of the root with this key (a few characters that no other root of the machine has).
    pub(crate) fn new(key: &str) -> Firewall {
        Firewall { table: format!("coracle-{key}") }
    }

    /// The table's name.
    pub(crate) fn name(&self) -> &str {
        &self.table
    }

    /// The part of the table's name that distinguishes this root from others.
    pub(crate) fn key(&self) -> &str {
        self.table.trim_start_matches("coracle-")
    }

    /// Removes the table; it may be gone already.
    pub(crate) fn remove(&self) -> Result<()> {
        let mut batch = Batch::new(&self.table);
        batch.add_table();
        batch.delete_table();
        send("remove the firewall table", &batch.finish_without_table())
    }

    /// Whether the table is there.
    pub(crate) fn is_there(&self) -> Result<bool> {
        self.look(&[]).map(|(there, _)| there)
    }

    /// Whether the table is there, and which of some chains.
    pub(crate) fn look(&self, chains: &[Chain]) -> Result<(bool, Vec<bool>)> {
        let mut m = Messages::new();
        ask_table(&mut m, &self.table);
        chains.iter().for_each(|chain| chain.ask(&mut m));
        let acks = m.acks() as usize;
        let refused = Socket::open(NETFILTER)?.request(&m.finish(), acks)?;
        let missing = |place: usize| refused.iter().find(|refused| refused.sequence as usize == place);
        // A kernel without one of the families refuses with another error.
        let chains = (0..chains.len()).map(|number| missing(number + 2).is_none()).collect();
        match missing(1) {
            None => Ok((true, chains)),
            Some(refused) if refused.errno == libc::ENOENT => Ok((false, chains)),
            Some(refused) => Err(refused.error("look for the firewall table")),
        }
    }

    /// Makes the table, in place of one that is there: rules, and the elements of these networks and ports.
    pub(crate) fn make(&self, zones: &[Zone], apart: &Apart, ports: &[Published]) -> Result<()> {
        let mut batch = Batch::new(&self.table);
        batch.add_table();
        batch.delete_table();
        batch.add_table();
        for (id, (name, kind)) in SETS.iter().enumerate() {
            batch.add_set(name, id as u32 + 1, *kind);
        }
        rules(&mut batch);
        for zone in zones {
            write_zone(&mut batch, zone, Batch::add_elements);
        }
        write_apart(&mut batch, apart);
        write_ports(&mut batch, ports, Batch::add_elements);
        send("make the firewall table", &batch.finish())
    }

    /// Replaces the sets of bridges that are kept apart.
    pub(crate) fn keep_apart(&self, apart: &Apart) -> Result<()> {
        let mut batch = Batch::new(&self.table);
        batch.empty("apart");
        batch.empty("uplinks");
        write_apart(&mut batch, apart);
        send("keep networks apart in the firewall", &batch.finish())
    }

    /// The bridges that are kept apart now, in the order of names; `None`: an older version made the table, without these sets.
    pub(crate) fn apart(&self) -> Result<Option<Apart>> {
        let mut lists = [Vec::new(), Vec::new()];
        for (list, set) in lists.iter_mut().zip(["apart", "uplinks"]) {
            let asked = Socket::open(NETFILTER)?.dump(&get_elements(&self.table, set), |_, body| {
                list.extend(read_elements(body).iter().map(|element| name_of(&element.key)));
            });
            match asked {
                Err(error) if error.is(libc::ENOENT) => return Ok(None),
                asked => asked?,
            }
            list.order();
        }
        let [bridges, uplinks] = lists;
        Ok(Some(Apart { bridges, uplinks }))
    }

    /// Adds a network.
    pub(crate) fn add_zone(&self, zone: &Zone) -> Result<()> {
        let mut batch = Batch::new(&self.table);
        write_zone(&mut batch, zone, Batch::add_elements);
        send("add the network to the firewall", &batch.finish())
    }

    /// Removes a network; it may be gone already.
    pub(crate) fn remove_zone(&self, zone: &Zone) -> Result<()> {
        let mut batch = Batch::new(&self.table);
        write_zone(&mut batch, zone, Batch::add_elements);
        write_zone(&mut batch, zone, Batch::delete_elements);
        send("remove the network from the firewall", &batch.finish())
    }

    /// Publishes ports.
    pub(crate) fn add_ports(&self, ports: &[Published]) -> Result<()> {
        if !ports.iter().any(Published::is_translated) {
            return Ok(());
        }
        let mut batch = Batch::new(&self.table);
        write_ports(&mut batch, ports, Batch::add_elements);
        send("publish ports in the firewall", &batch.finish())
    }

    /// The batch that ends the publishing of ports, for the monitor to send. It does not fail if some ports are gone.
    pub(crate) fn removal(&self, ports: &[Published]) -> Vec<u8> {
        if !ports.iter().any(Published::is_translated) {
            return Vec::new();
        }
        let mut batch = Batch::new(&self.table);
        write_ports(&mut batch, ports, Batch::add_elements);
        write_ports(&mut batch, ports, Batch::delete_elements);
        batch.finish_without_table()
    }

    /// Ends the publishing of ports.
    pub(crate) fn remove_ports(&self, ports: &[Published]) -> Result<()> {
        if !ports.iter().any(Published::is_translated) || !self.is_there()? {
            return Ok(());
        }
        let mut batch = Batch::new(&self.table);
        write_ports(&mut batch, ports, Batch::add_elements);
        write_ports(&mut batch, ports, Batch::delete_elements);
        send("end the publishing of ports", &batch.finish())
    }

    /// The mappings of published ports that stand now.
    pub(crate) fn mappings(&self) -> Result<PortMappings> {
        let mut mappings = Vec::new();
        if !self.is_there()? {
            return Ok(PortMappings(mappings));
        }
        let socket = Socket::open(NETFILTER)?;
        for (set, ..) in PORT_SETS {
            let mut elements = Vec::new();
            socket.dump(&get_elements(&self.table, set), |_, body| elements.extend(read_elements(body)))?;
            mappings.push((set, elements));
        }
        Ok(PortMappings(mappings))
    }

    /// Removes mappings of published ports.
    pub(crate) fn remove_mappings(&self, mappings: &PortMappings) -> Result<()> {
        let mut batch = Batch::new(&self.table);
        for write in [Batch::add_elements, Batch::delete_elements] {
            mappings.0.iter().for_each(|(set, elements)| write(&mut batch, set, elements));
        }
        send("end the publishing of ports", &batch.finish())
    }
}

fn send(what: &str, batch: &[u8]) -> Result<()> {
    let refused = Socket::open(NETFILTER)?.request(batch, 1)?;
    match refused.first() {
        None => Ok(()),
        Some(refused) => Err(refused.error(what).in_area("network")),
    }
}

fn rules(batch: &mut Batch) {
    let nat = |hook, priority| Hook { kind: "nat", hook, priority };
    let filter = |hook, priority| Hook { kind: "filter", hook, priority };
    // route_localnet lets packets for 127/8 in from bridges. It is meant for answers to the host's own packets alone, and
    // these carry the bridge's address until connection tracking, which comes later.
    batch.add_chain("guard", filter(PREROUTING, -300));
    batch.add_rule(
        "guard",
        // Every packet comes here: the match that fails for most packets stands first.
        v4(Rule::new())
            .payload(NETWORK_HEADER, 16, 1, R0)
            .compare(R0, true, &[127])
            .load(Meta::InName, R0)
            .in_set(R0, "bridges", true)
            .drop(),
    );
    // Where bridges call the firewall, an answer to the host is for its loopback address again before it comes to the
    // bridge's filter (see `loopback.rs`), which lets marked packets pass. Behind the filter the mark is removed.
    let answer = || {
        let of_host = v4(Rule::new()).payload(NETWORK_HEADER, 16, 1, R0).compare(R0, true, &[127]);
        of_host.load(Meta::InName, R0).in_set(R0, "bridges", true)
    };
    batch.add_chain("answers", filter(PREROUTING, -90));
    let mapped = answer().ct(0, R0).any_bit(R0, ESTABLISHED_OR_RELATED).ct(2, R0).any_bit(R0, STATUS_DNAT);
    batch.add_rule("answers", mapped.mark(ANSWER));
    batch.add_chain("arrived", filter(INPUT, -300));
    batch.add_rule("arrived", answer().mark(0));
    for (chain, hook) in [("inbound", PREROUTING), ("own", OUTPUT)] {
        batch.add_chain(chain, nat(hook, -100));
        if hook == PREROUTING && Wall::NeighbourLoopback.stands() {
            // The host's own packets to its loopback address do not come this way. The kernel drops those that come from
            // the wire, as long as no rule changes their destination.
            batch
                .add_rule(chain, v4(Rule::new()).payload(NETWORK_HEADER, 16, 1, R0).compare(R0, true, &[127]).accept());
        }
        // Nothing is routed from this address: the monitor reads the port's socket.
        batch.add_rule(
            chain,
            v6(Rule::new())
                .payload(NETWORK_HEADER, 24, 16, R0)
                .compare(R0, true, &std::net::Ipv6Addr::LOCALHOST.octets())
                .accept(),
        );
        for rule in published() {
            batch.add_rule(chain, rule);
        }
    }
    batch.add_chain("outbound", nat(POSTROUTING, 100));
    batch.add_branch("arriving");
    for (chain, rules) in [("outbound", outbound()), ("arriving", arriving())] {
        for rule in rules {
            batch.add_rule(chain, rule);
        }
    }
    batch.add_chain("forward", filter(FORWARD, 0));
    for rule in forward() {
        batch.add_rule("forward", rule);
    }
}

fn v4(rule: Rule) -> Rule {
    rule.load(Meta::Family, R0).compare(R0, true, &[libc::NFPROTO_IPV4 as u8])
}

fn v6(rule: Rule) -> Rule {
    rule.load(Meta::Family, R0).compare(R0, true, &[libc::NFPROTO_IPV6 as u8])
}

/// Ports published at one address of the host, then those at all addresses. Whether an address is the host's is looked up
/// last, because this look costs most.
fn published() -> Vec<Rule> {
    let address4 = |rule: Rule| rule.payload(NETWORK_HEADER, 16, 4, R0);
    let address6 = |rule: Rule| rule.payload(NETWORK_HEADER, 24, 16, R0);
    let port = |rule: Rule, at: u32| rule.load(Meta::Protocol, at).payload(TRANSPORT_HEADER, 2, 2, at + 1);
    let mapped = |rule: Rule, map: &str| rule.through_map(R0, map).for_this_host(R0 + 8);
    vec![
        mapped(port(address4(v4(Rule::new())), R0 + 1), "ports4at").dnat(false, R0, R0 + 1),
        mapped(port(v4(Rule::new()), R0), "ports4").dnat(false, R0, R0 + 1),
        mapped(port(address6(v6(Rule::new())), R0 + 4), "ports6at").dnat(true, R0, R0 + 4),
        mapped(port(v6(Rule::new()), R0), "ports6").dnat(true, R0, R0 + 4),
    ]
}

fn source4(rule: Rule, set: &str) -> Rule {
    rule.payload(NETWORK_HEADER, 12, 4, R0).in_set(R0, set, true)
}

fn source6(rule: Rule, set: &str) -> Rule {
    rule.payload(NETWORK_HEADER, 8, 16, R0).in_set(R0, set, true)
}

/// The packets that leave under the host's address.
fn outbound() -> Vec<Rule> {
    vec![
        Rule::new().load(Meta::OutName, R0).in_set(R0, "bridges", true).go_to("arriving"),
        source4(v4(Rule::new()), "masquerade4").masquerade(),
        source6(v6(Rule::new()), "masquerade6").masquerade(),
    ]
}

/// Packets to a network's containers. If a container comes back to its own network through a published port, or the host
/// through its loopback address, the answer must come back this way.
fn arriving() -> Vec<Rule> {
    let mut rules = vec![
        Rule::new().ct(2, R0).no_bit(R0, STATUS_DNAT).accept(),
        v4(Rule::new()).payload(NETWORK_HEADER, 12, 1, R0).compare(R0, true, &[127]).masquerade(),
        source4(v4(Rule::new()), "own4").masquerade(),
        source6(v6(Rule::new()), "own6").masquerade(),
    ];
    if !Wall::PeerAddresses.stands() {
        rules.push(Rule::new().masquerade());
    }
    rules
}

/// Networks are closed to each other and to the outside, but for published ports; internal networks are closed wholly.
fn forward() -> Vec<Rule> {
    let from = |set: &str| Rule::new().load(Meta::InName, R0).in_set(R0, set, true);
    let to = |set: &str| Rule::new().load(Meta::OutName, R0).in_set(R0, set, true);
    let goes_on = |rule: Rule| rule.ct(0, R0).any_bit(R0, ESTABLISHED_OR_RELATED);
    let mut rules = vec![
        // Almost every packet: of a connection through a published port, or to the outside. A rule let its first packet
        // pass; and no packet of an internal network is ever translated.
        goes_on(Rule::new()).ct(2, R0).any_bit(R0, STATUS_SNAT | STATUS_DNAT).accept(),
        Rule::new().load(Meta::InName, R0).load(Meta::OutName, R0 + 4).in_set(R0, "same", true).accept(),
        from("internal").drop(),
        to("internal").drop(),
    ];
    if Wall::ForeignBridges.stands() {
        // dockerd's isolation does not see the packets that its chain for others let pass.
        let to_bridge = from("apart").load(Meta::OutKind, R0).compare(R0, true, &interface("bridge"));
        let foreign = to_bridge.load(Meta::OutName, R0).in_set(R0, "bridges", false).in_set(R0, "uplinks", false);
        rules.push(foreign.ct(2, R0).no_bit(R0, STATUS_DNAT).drop());
    }
    rules.extend([goes_on(Rule::new()).accept(), to("bridges").ct(2, R0).any_bit(R0, STATUS_DNAT).accept()]);
    if Wall::ForwardDrop.stands() {
        rules.push(to("bridges").drop());
    }
    rules
}

fn write_apart(batch: &mut Batch, apart: &Apart) {
    for (set, names) in [("apart", &apart.bridges), ("uplinks", &apart.uplinks)] {
        let key = |name: &String| Element { key: interface(name).to_vec(), value: Vec::new(), end: false };
        let elements: Vec<Element> = names.iter().map(key).collect();
        batch.add_elements(set, &elements);
    }
}

type Write = fn(&mut Batch, &str, &[Element]);

fn write_zone(batch: &mut Batch, zone: &Zone, write: Write) {
    let name = interface(&zone.bridge);
    let key = |key: Vec<u8>| Element { key, value: Vec::new(), end: false };
    write(batch, "bridges", &[key(name.to_vec())]);
    write(batch, "same", &[key([name, name].concat())]);
    if zone.internal {
        write(batch, "internal", &[key(name.to_vec())]);
    }
    for (set4, set6, subnets) in [("own4", "own6", &zone.subnets), ("masquerade4", "masquerade6", &zone.masqueraded)] {
        for subnet in subnets {
            write(batch, if subnet.is_v6() { set6 } else { set4 }, &interval(subnet));
        }
    }
}

/// An interface's name as a key: 16 bytes, of which the kernel compares all.
fn interface(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    bytes
}

fn name_of(key: &[u8]) -> String {
    String::from_utf8_lossy(key).trim_end_matches('\0').to_owned()
}

fn interval(subnet: &Subnet) -> Vec<Element> {
    let element = |ip: IpAddr, end: bool| Element { key: octets(ip), value: Vec::new(), end };
    let mut both = vec![element(subnet.base(), false)];
    // There is no address behind the last one: that interval is open.
    both.extend(subnet.after().map(|after| element(after, true)));
    both
}

fn write_ports(batch: &mut Batch, ports: &[Published], write: Write) {
    for (set, v6, at) in PORT_SETS {
        let elements = elements_of(ports, v6, at);
        if !elements.is_empty() {
            write(batch, set, &elements);
        }
    }
}

fn elements_of(ports: &[Published], v6: bool, at: bool) -> Vec<Element> {
    let fits = |port: &&Published| port.is_translated() && port.to.is_ipv6() == v6 && port.host.is_unspecified() != at;
    let mapped = ports.iter().filter(fits).map(|port| element(port, at));
    // The monitor reads the port there: it is mapped to itself, and nowhere else.
    let stays = |port: &&Published| at && !v6 && port.is_translated() && port.loopback_relayed;
    let here = ports.iter().filter(stays).map(|port| {
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        element(&Published { host, to: host, port: port.host_port, ..*port }, at)
    });
    mapped.chain(here).collect()
}

fn element(port: &Published, at: bool) -> Element {
    let padded = |port: u16| [port.to_be_bytes(), [0; 2]].concat();
    let mut key = if at { octets(port.host) } else { Vec::new() };
    key.extend([port.protocol.number(), 0, 0, 0]);
    key.extend(padded(port.host_port));
    let mut value = octets(port.to);
    value.extend(padded(port.port));
    Element { key, value, end: false }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}
