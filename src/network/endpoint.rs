//! A container's ends on its networks: addresses and ports given out in one transaction, and what makes its interfaces.

use super::address::{Ask, Holder, Pool, Used, give};
use super::bridge::find_link;
use super::firewall::Led;
use super::netlink::link::{self, Address, Script, Sub, Through, Veth};
use super::netlink::message::Messages;
use super::ports::{Asked, Hold, Published, Taken};
use super::remote::{Lease, RemoteEnd, leased};
use super::{Network, Networks, as_500, mode_name, options};
use crate::error::{Error, Result};
use crate::kernel::netlink::{ROUTE, Socket};
use crate::model::{EndpointSettings, PortMap, PortSet};
use crate::store::Flush;
use crate::store::networks::{self as table, EndpointRow};
use crate::time::now_ns;
use coracle_monitor::wire::{PATCH_INDEX, PATCH_NETNS, PATCH_RESTART};
use rusqlite::Transaction;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// How long an address of a container that ended is not given to another, in nanoseconds.
const REST_NS: i64 = 10_000_000_000;

/// A network that a container is to be on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Want {
    /// As the request names it.
    pub network: String,
    pub settings: EndpointSettings,
}

/// A container that is about to start.
pub(crate) struct Joining<'a> {
    pub container: &'a str,
    pub slot: u32,
    pub name: &'a str,
    /// `MacAddress` of its configuration, of its end on the network of its mode; empty: made of the address.
    pub mac: &'a str,
    pub mode: &'a str,
    pub networks: Vec<Want>,
    pub bindings: &'a PortMap,
    pub exposed: &'a PortSet,
    pub publish_all: bool,
}

impl Joining<'_> {
    /// The address of its card on a network, where its configuration names one.
    fn mac_on(&self, network: &Network) -> &str {
        if network.is_of_mode(self.mode) { self.mac } else { "" }
    }
}

/// A container's end on a network: the document that the store keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointDoc {
    pub id: String,
    /// Of the container's network namespace, one for each start.
    pub sandbox: String,
    /// The container's name.
    pub name: String,
    /// In the container.
    pub interface: String,
    /// The bridge's port; its last two characters are those of the monitor's restarts. Empty: there is none.
    pub port: String,
    pub mac: String,
    pub v4: Option<IpAddr>,
    pub v4_prefix: u8,
    pub v4_gateway: Option<IpAddr>,
    pub v6: Option<IpAddr>,
    pub v6_prefix: u8,
    pub v6_gateway: Option<IpAddr>,
    /// More addresses of the interface: of the link alone.
    pub link_local: Vec<IpAddr>,
    pub aliases: Vec<String>,
    pub links: Vec<String>,
    pub ports: Vec<Published>,
    /// Made by a driver that is a plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteEnd>,
    /// Its addresses, where a plugin gave them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<Lease>,
}

/// One end, and what makes it.
pub(crate) struct Endpoint {
    pub network: Network,
    pub doc: EndpointDoc,
    /// Sent by the container's first process over a socket of the host.
    pub host: Script,
    /// Sent in the container's network namespace.
    pub inside: Script,
}

/// The endpoints and ports of a container for one run.
#[derive(Default)]
pub(crate) struct Joined {
    pub endpoints: Vec<Endpoint>,
    /// Keeps its ports of the host from other programs.
    pub hold: Option<Hold>,
    /// Sent over netfilter netlink when the container has ended for good.
    pub firewall_end: Vec<u8>,
}

/// The end of an interface's name that differs from restart to restart.
fn digits(restarts: u32) -> String {
    format!("{:02}", restarts % 100)
}

impl EndpointDoc {
    /// The name of the bridge's port, made after so many restarts; empty: there is none.
    pub(super) fn port_now(&self, restarts: u32) -> String {
        match self.port.get(..self.port.len().saturating_sub(2)) {
            None | Some("") => String::new(),
            Some(stem) => format!("{stem}{}", digits(restarts)),
        }
    }
}

impl Endpoint {
    /// The host's own address on the network; none where the gateway is another machine.
    pub(crate) fn host_gateway(&self) -> Option<IpAddr> {
        self.doc.v4_gateway.filter(|_| self.network.spec.driver == "bridge")
    }

    /// The messages that make the default route go over it; `None`: nothing leads outside there.
    pub(crate) fn lead(&self) -> Option<Script> {
        let mut script = Script::default();
        for gateway in [self.doc.v4_gateway, self.doc.v6_gateway].into_iter().flatten() {
            link::default_route_inside(&mut script, Through::Gateway(gateway), PATCH_INDEX);
        }
        (!script.patches.is_empty()).then_some(script)
    }
}

impl Joined {
    /// Which of the ends the default route goes over: that of the first network by name that is not internal, and where
    /// its driver knows a gateway.
    pub(crate) fn leads(&self) -> Option<usize> {
        let leads = |end: &Endpoint| {
            let gateway = end.doc.v4_gateway.is_some() || end.doc.v6_gateway.is_some();
            !end.network.spec.internal && (gateway || end.doc.remote.is_none())
        };
        let outside = self.endpoints.iter().enumerate().filter(|(_, end)| leads(end));
        outside.min_by_key(|(_, end)| end.network.name.clone()).map(|(at, _)| at)
    }

    pub(crate) fn ports(&self) -> Vec<Published> {
        self.endpoints.iter().flat_map(|end| &end.doc.ports).copied().collect()
    }
}

impl Networks {
    /// Gives a container its addresses and ports, and makes what its networks need in the kernel. Its lock of the living is
    /// held: what is given is its own from now on.
    ///
    /// Errors: a network is not there, an address or port is taken, a pool is empty.
    pub(crate) fn join(&self, who: &Joining<'_>) -> Result<Joined> {
        let mut ready = Vec::new();
        for want in &who.networks {
            let network = self.find(&want.network)?;
            let (network, parent) = match network.spec.driver.as_str() {
                "bridge" => self.up(&network)?,
                "macvlan" | "ipvlan" => {
                    let parent = self.parent(&network)?;
                    (network, parent)
                }
                _ if network.is_remote() => (network, 0),
                other => {
                    return Err(as_500(format!(
                        "network {} has the driver {other}, which takes no containers",
                        network.name
                    )));
                }
            };
            ready.push((network, parent, want));
        }
        // Resources of a plugin from an earlier start are given back before it is asked for more.
        let foreign = ready.iter().any(|(network, ..)| network.is_remote() || network.has_foreign_addresses());
        self.settle(who.container)?;
        let mut leases: Vec<Vec<Lease>> = Vec::new();
        let mut loan = self.loan();
        let give_back = |leases: &[Vec<Lease>]| {
            ready.iter().zip(leases).for_each(|((network, ..), leases)| self.give_back(network, leases));
        };
        for (network, _, want) in &ready {
            let got = self.lease(network, &want.settings, who.mac_on(network), &mut loan);
            leases.push(got.inspect_err(|_| give_back(&leases))?);
        }
        let given = self.db.write(Flush::Lazy, |tx| self.allocate(tx, who, &ready, &leases));
        let (mut docs, mut taken) = given.inspect_err(|_| give_back(&leases))?;
        if foreign {
            self.join_remotes(who, &ready, &mut docs)?;
        }
        let _ = std::fs::remove_file(self.waiting_ports(who.container));
        let mut joined = Joined::default();
        let mut parents = Vec::new();
        for ((network, parent, _), doc) in ready.into_iter().zip(docs) {
            parents.push(parent);
            joined.endpoints.push(Endpoint { network, doc, host: Script::default(), inside: Script::default() });
        }
        let leads = joined.leads();
        for (at, end) in joined.endpoints.iter_mut().enumerate() {
            (end.host, end.inside) = scripts(&end.network, parents[at], &end.doc, leads == Some(at))?;
        }
        for end in &joined.endpoints {
            self.write_names(&end.network)?;
        }
        let ports = joined.ports();
        if !ports.is_empty() {
            joined.hold = taken.hold()?;
            for end in &joined.endpoints {
                self.lead_ports(&end.network, &end.doc.ports)?;
            }
            joined.firewall_end = self.firewall.removal(&ports);
        }
        Ok(joined)
    }

    /// Has the plugins make their ends, and keeps what they said. All of them, or none.
    fn join_remotes(&self, who: &Joining<'_>, ready: &[(Network, u32, &Want)], docs: &mut [EndpointDoc]) -> Result<()> {
        let mut prefixes = vec![None; docs.len()];
        for at in 0..docs.len() {
            let network = &ready[at].0;
            if !network.is_remote() {
                continue;
            }
            let told = self.join_remote(who, network, &mut docs[at]).map(|prefix| prefixes[at] = prefix);
            if let Err(error) = told {
                ready.iter().zip(docs.iter()).for_each(|((network, ..), doc)| self.part_remote(network, doc));
                // Resources that went back are nobody's any more.
                self.db.write(Flush::Lazy, |tx| {
                    ready.iter().try_for_each(|(network, ..)| table::delete_endpoint(tx, &network.id, who.container))
                })?;
                return Err(error);
            }
        }
        super::remote::number_interfaces(docs, &prefixes);
        self.db.write(Flush::Lazy, |tx| {
            for ((network, ..), doc) in ready.iter().zip(docs.iter()) {
                table::put_endpoint(tx, &row(&network.id, who.container, who.slot, doc)?)?;
            }
            Ok(())
        })
    }

    /// Loads the endpoints of the container's last start; of use for its steps alone.
    pub(crate) fn recall(&self, container: &str) -> Result<Joined> {
        let mut ends: Vec<(String, EndpointDoc)> = self.endpoints(container)?.into_iter().collect();
        ends.sort_by(|(_, a), (_, b)| a.interface.cmp(&b.interface));
        let mut joined = Joined::default();
        for (network, doc) in ends {
            let network = self.find(&network)?;
            joined.endpoints.push(Endpoint { network, doc, host: Script::default(), inside: Script::default() });
        }
        let leads = joined.leads();
        for (at, end) in joined.endpoints.iter_mut().enumerate() {
            let parent = match super::create::sub(&end.network)? {
                None => self.own_bridge(&end.network)?.map_or(0, |link| link.index),
                Some(_) => find_link(&super::bridge::parent(&end.network))?.map_or(0, |link| link.index),
            };
            (end.host, end.inside) = scripts(&end.network, parent, &end.doc, leads == Some(at))?;
        }
        let ports = joined.ports();
        if !ports.is_empty() {
            joined.firewall_end = self.firewall.removal(&ports);
        }
        Ok(joined)
    }

    /// Gives a running container its place on one more network; no more is done than the kernel needs for that.
    pub(crate) fn join_one(&self, who: &Joining<'_>, want: &Want, interface: &str) -> Result<()> {
        let network = self.find(&want.network)?;
        let network = match network.spec.driver.as_str() {
            "bridge" => self.up(&network)?.0,
            "macvlan" | "ipvlan" => {
                self.parent(&network)?;
                network
            }
            _ => network,
        };
        // A program that was killed in this step may have left an endpoint there.
        if let Some(left) = self.endpoints(who.container)?.get(&network.id) {
            self.part_remote(&network, left);
        }
        let mut loan = self.loan();
        let leases = self.lease(&network, &want.settings, who.mac_on(&network), &mut loan)?;
        let given = self.db.write(Flush::Lazy, |tx| {
            let mut doc = self.address(tx, who, &network, &want.settings, &leases)?;
            doc.interface = interface.to_owned();
            let others = table::of_container(tx, who.container)?;
            doc.sandbox =
                others.first().map(read).transpose()?.map_or_else(crate::hex::random_id, |other| Ok(other.sandbox))?;
            table::put_endpoint(tx, &row(&network.id, who.container, who.slot, &doc)?)?;
            Ok(doc)
        });
        let mut doc = given.inspect_err(|_| self.give_back(&network, &leases))?;
        if network.is_remote() {
            let joined = self.join_remote(who, &network, &mut doc).and_then(|prefix| {
                let Some(prefix) = prefix else { return Ok(()) };
                let others = self.endpoints(who.container)?;
                let taken = |name: &str| others.iter().any(|(id, end)| *id != network.id && end.interface == name);
                let mut names = (0..).map(|number| format!("{prefix}{number}"));
                doc.interface = names.find(|name| !taken(name)).unwrap_or_default();
                Ok(())
            });
            if joined.is_err() {
                self.part_remote(&network, &doc);
            }
            self.db.write(Flush::Lazy, |tx| match &joined {
                Ok(()) => table::put_endpoint(tx, &row(&network.id, who.container, who.slot, &doc)?),
                Err(_) => table::delete_endpoint(tx, &network.id, who.container),
            })?;
            joined?;
        }
        self.write_names(&network)
    }

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
                let mut m = Messages::new();
                link::delete_link(&mut m, found.index);
                super::bridge::request(m, "remove the interface")?;
            }
        }
        Ok(None)
    }

    /// Published ports lead to the container over the network that leads outside: where that is another one from now on,
    /// they go along. `gone` are those of a network that was left. Without any way outside they wait, still the
    /// container's own, for one that comes.
    pub(crate) fn move_ports(&self, container: &str, slot: u32, gone: Vec<Published>) -> Result<()> {
        let waiting = self.waiting_ports(container);
        let joined = self.recall(container)?;
        let mut ports: Vec<Published> = match std::fs::read(&waiting) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|e| Error::new(crate::ErrorKind::Internal, format!("{}: {e}", waiting.display())))?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(Error::io(format_args!("read {}", waiting.display()), &e)),
        };
        ports.extend(gone);
        ports.extend(joined.ports());
        if ports.is_empty() {
            return Ok(());
        }
        let leader = joined.leads().filter(|at| joined.endpoints[*at].network.spec.driver == "bridge");
        let leading = leader.map(|at| &joined.endpoints[at]);
        let doc = leading.map(|end| &end.doc);
        let (mut now, mut idle) = (Vec::new(), Vec::new());
        for port in &ports {
            let to = doc.and_then(|doc| Published::target(port.host, port.protocol, doc.v4, doc.v6));
            match to {
                Some(to) => now.push(Published { to, ..*port }),
                None => idle.push(*port),
            }
        }
        let before = joined.ports();
        let ended: Vec<Published> = before.iter().filter(|port| !now.contains(port)).copied().collect();
        let new: Vec<Published> = now.iter().filter(|port| !before.contains(port)).copied().collect();
        self.db.write(Flush::Lazy, |tx| {
            for (at, end) in joined.endpoints.iter().enumerate() {
                let ports = if leader == Some(at) { now.clone() } else { Vec::new() };
                if end.doc.ports != ports {
                    let doc = EndpointDoc { ports, ..end.doc.clone() };
                    table::put_endpoint(tx, &row(&end.network.id, container, slot, &doc)?)?;
                }
            }
            Ok(())
        })?;
        self.firewall.remove_ports(&ended)?;
        if let Some(end) = leading {
            self.lead_ports(&end.network, &new)?;
        }
        if idle.is_empty() {
            let _ = std::fs::remove_file(&waiting);
            return Ok(());
        }
        let text = serde_json::to_vec(&idle).map_err(|e| Error::internal(format!("write ports: {e}")))?;
        std::fs::write(&waiting, text).map_err(|e| Error::io(format_args!("write {}", waiting.display()), &e))
    }

    /// Publishes the ports of a running container that had no way outside until now. What keeps them is the monitor's to
    /// hold. `None`: they are published, or wait, or there is still no way.
    pub(crate) fn publish_late(&self, who: &Joining<'_>) -> Result<Option<Hold>> {
        let joined = self.recall(who.container)?;
        let bridge = |at: &usize| joined.endpoints[*at].network.spec.driver == "bridge";
        let Some(at) = joined.leads().filter(bridge) else { return Ok(None) };
        if !joined.ports().is_empty() || self.waiting_ports(who.container).exists() {
            return Ok(None);
        }
        let network = &joined.endpoints[at].network;
        let mut doc = joined.endpoints[at].doc.clone();
        let mut taken = self.db.write(Flush::Lazy, |tx| {
            let taken = self.publish(tx, who, network, &mut doc)?;
            if !taken.ports.is_empty() {
                table::put_endpoint(tx, &row(&network.id, who.container, who.slot, &doc)?)?;
            }
            Ok(taken)
        })?;
        self.lead_ports(network, &taken.ports)?;
        taken.hold()
    }

    fn waiting_ports(&self, container: &str) -> std::path::PathBuf {
        self.run.join("c").join(container).join("ports")
    }

    /// Forgets the end on a network of a container that is not there any more; `reference` is its name or id.
    pub(crate) fn forget_gone(&self, network: &Network, reference: &str) -> Result<()> {
        let missing = || Error::not_found(format!("endpoint {reference} not found"));
        let reference = reference.trim_start_matches('/');
        let mut gone = None;
        for other in self.db.read(|tx| table::of_network(tx, &network.id))? {
            let doc = read(&other)?;
            let named = doc.name == reference || other.container_id == reference;
            if named && !(other.left_ns == 0 && self.is_live(other.slot)?) {
                gone = Some((other, doc));
            }
        }
        let (row, doc) = gone.ok_or_else(missing)?;
        self.part_remote(network, &doc);
        self.db.write(Flush::Lazy, |tx| table::delete_endpoint(tx, &network.id, &row.container_id))?;
        self.write_names(network)
    }

    /// Tells that a container came to a network, or left it.
    pub(crate) fn tell(&self, network: &Network, action: &str, container: &str) -> Result<()> {
        self.event(network, action, Some(container))
    }

    /// A start that failed: its ports lead nowhere, and plugins get back what is theirs.
    pub(crate) fn part(&self, container: &str, joined: &Joined) -> Result<()> {
        self.firewall.remove_ports(&joined.ports())?;
        self.settle(container)
    }

    fn allocate(
        &self,
        tx: &Transaction<'_>,
        who: &Joining<'_>,
        ready: &[(Network, u32, &Want)],
        leases: &[Vec<Lease>],
    ) -> Result<(Vec<EndpointDoc>, Taken)> {
        let sandbox = crate::hex::random_id()?;
        let mut docs = Vec::new();
        for (at, (network, _, want)) in ready.iter().enumerate() {
            let mut doc = self.address(tx, who, network, &want.settings, &leases[at])?;
            doc.sandbox = sandbox.clone();
            doc.interface = format!("eth{at}");
            docs.push(doc);
        }
        let outside = |(network, ..): &(Network, u32, &Want)| network.spec.driver == "bridge" && !network.spec.internal;
        let taken = match default_route(ready).filter(|at| outside(&ready[*at])) {
            Some(at) => self.publish(tx, who, &ready[at].0, &mut docs[at])?,
            None => Taken::default(),
        };
        // Endpoints of an earlier start on networks that the container has left are forgotten.
        for row in table::of_container(tx, who.container)? {
            table::delete_endpoint(tx, &row.network_id, who.container)?;
        }
        for ((network, ..), doc) in ready.iter().zip(&docs) {
            table::put_endpoint(tx, &row(&network.id, who.container, who.slot, doc)?)?;
        }
        Ok((docs, taken))
    }

    /// Addresses on one network.
    pub(super) fn address(
        &self,
        tx: &Transaction<'_>,
        who: &Joining<'_>,
        network: &Network,
        settings: &EndpointSettings,
        leases: &[Lease],
    ) -> Result<EndpointDoc> {
        check_settings(network, settings)?;
        let (others, before) = others(tx, &network.id, who.container)?;
        let holder = |ip: IpAddr| self.holder(&others, ip);
        let known = others.iter().flat_map(Other::addresses).collect();
        let used = Used { known, holder: &holder };
        let pools = Pool::of(network)?;
        let asked = |text: &str| -> Result<Option<IpAddr>> {
            let bad = |_| Error::invalid(format!("invalid IP address: {text}"));
            if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(bad) }
        };
        let ipam = settings.ipam_config.clone().unwrap_or_default();
        let local = ipam.link_local_ips.iter().filter(|text| !text.is_empty());
        let link_local = local.map(|text| link_local(text)).collect::<Result<_>>()?;
        let ask4 = Ask { address: asked(&ipam.ipv4_address)?, before: before.as_ref().and_then(|had| had.v4) };
        let ask6 = Ask { address: asked(&ipam.ipv6_address)?, before: before.as_ref().and_then(|had| had.v6) };
        let foreign = network.has_foreign_addresses();
        let own = |v6: bool, ask: &Ask| -> Result<Option<(IpAddr, u8)>> {
            match foreign {
                true => leased(leases, v6),
                false => Ok(give(&pools, v6, ask, &used)?.map(|(ip, pool)| (ip, pool.prefix()))),
            }
        };
        let v4 = own(false, &ask4)?;
        let v6 = if network.spec.enable_ipv6 { own(true, &ask6)? } else { None };
        let id = crate::hex::random_id()?;
        let mac = match (settings.mac_address.as_str(), who.mac_on(network)) {
            // The driver has one.
            ("", "") if network.is_remote() => String::new(),
            ("", "") => mac_text(made_up_mac(v4.map(|(ip, _)| ip), &id)),
            ("", mac) | (mac, _) => mac_text(parse_mac(mac)?),
        };
        let gateway = |given: Option<(IpAddr, u8)>| {
            let (ip, _) = given?;
            pools.iter().find(|pool| pool.subnet.contains(ip))?.gateway
        };
        let mut aliases = settings.aliases.clone().unwrap_or_default();
        if !network.is_predefined() {
            let short = who.container[..12].to_owned();
            if !aliases.contains(&short) {
                aliases.push(short);
            }
        }
        Ok(EndpointDoc {
            port: if network.spec.driver == "bridge" { format!("veth{}00", &id[..7]) } else { String::new() },
            id,
            name: who.name.to_owned(),
            mac,
            v4: v4.map(|(ip, _)| ip),
            v4_prefix: v4.map_or(0, |(_, prefix)| prefix),
            v4_gateway: gateway(v4),
            v6: v6.map(|(ip, _)| ip),
            v6_prefix: v6.map_or(0, |(_, prefix)| prefix),
            v6_gateway: gateway(v6),
            leases: leases.to_vec(),
            // From here on the driver may have it: who ends it tells the driver.
            remote: network.is_remote().then(RemoteEnd::default),
            link_local,
            aliases,
            links: settings.links.clone().unwrap_or_default(),
            ..EndpointDoc::default()
        })
    }

    /// The holder of an address among the others: the one that holds it most.
    fn holder(&self, others: &[Other], ip: IpAddr) -> Result<Holder> {
        let rested = now_ns() - REST_NS;
        let mut holder = Holder::Nobody;
        for other in others.iter().filter(|other| other.addresses().any(|has| has == ip)) {
            if other.left_ns == 0 && self.is_live(other.slot)? {
                return Ok(Holder::Now);
            }
            let ended = match other.left_ns {
                0 => self.states.recorded(other.slot, &other.container)?.map_or(0, |state| state.finished_ns),
                left => left,
            };
            if ended > rested {
                holder = Holder::Lately;
            }
        }
        Ok(holder)
    }

    /// Takes the ports of the host; they are published on the first network that leads outside, which this is.
    fn publish(
        &self,
        tx: &Transaction<'_>,
        who: &Joining<'_>,
        network: &Network,
        doc: &mut EndpointDoc,
    ) -> Result<Taken> {
        if who.bindings.is_empty() && !who.publish_all {
            return Ok(Taken::default());
        }
        let asked = Asked {
            bindings: who.bindings,
            exposed: who.exposed,
            all: who.publish_all,
            default_host: options::host_binding(&network.spec)?.or(self.publish_ip),
            relay_loopback: self.relays_loopback(network)?,
            v4: doc.v4,
            v6: doc.v6,
        };
        let ours = |port: &Published| -> Result<bool> {
            let all = self.ports_in_use(tx)?;
            Ok(all.iter().any(|other| other.protocol == port.protocol && other.host_port == port.host_port))
        };
        let taken = self.ports.take(&asked, &ours).map_err(|error| {
            let context =
                format!("driver failed programming external connectivity on endpoint {} ({})", who.name, doc.id);
            if error.kind() == crate::ErrorKind::Invalid { error } else { error.context(context) }
        });
        let taken = taken?;
        doc.ports.clone_from(&taken.ports);
        Ok(taken)
    }

    fn ports_in_use(&self, tx: &Transaction<'_>) -> Result<Vec<Published>> {
        let mut ports = Vec::new();
        table::each_present(tx, |_, container, slot, doc| {
            if self.is_live(slot)? {
                ports.extend(parse::<Ports>(container, doc)?.ports);
            }
            Ok(())
        })?;
        Ok(ports)
    }

    /// Forgets a container's end on a network that it is not to be on any more; plugins get back what is theirs.
    pub(crate) fn forget(&self, network: &Network, container: &str) -> Result<()> {
        if let Some(doc) = self.endpoints(container)?.get(&network.id) {
            self.part_remote(network, doc);
        }
        self.forget_row(network, container)
    }

    /// Forgets an endpoint's row without a word to plugins: that is still to come.
    pub(crate) fn forget_row(&self, network: &Network, container: &str) -> Result<()> {
        self.db.write(Flush::Lazy, |tx| table::delete_endpoint(tx, &network.id, container))?;
        self.write_names(network)
    }

    /// The ports of running containers.
    pub(super) fn live_ports(&self) -> Result<Vec<Published>> {
        self.db.read(|tx| self.ports_in_use(tx))
    }

    /// A container's ends as of its last start, by network id.
    pub(crate) fn endpoints(&self, container: &str) -> Result<BTreeMap<String, EndpointDoc>> {
        let mut ends = BTreeMap::new();
        self.db.read(|tx| {
            table::each_of_container(tx, container, |network, doc| {
                ends.insert(network.to_owned(), parse(container, doc)?);
                Ok(())
            })
        })?;
        Ok(ends)
    }

    /// Every container's ends, by container and network id.
    pub(crate) fn all_endpoints(tx: &Transaction<'_>) -> Result<BTreeMap<String, BTreeMap<String, EndpointDoc>>> {
        let mut all: BTreeMap<String, BTreeMap<String, EndpointDoc>> = BTreeMap::new();
        table::each_present(tx, |network, container, _, doc| {
            all.entry(container.to_owned()).or_default().insert(network.to_owned(), parse(container, doc)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// The containers that have ends on more than one network, with their slots.
    pub(crate) fn on_several(&self) -> Result<Vec<(String, u32)>> {
        let mut counts: BTreeMap<(String, u32), usize> = BTreeMap::new();
        self.db.read(|tx| {
            table::each_present(tx, |_, container, slot, _| {
                *counts.entry((container.to_owned(), slot)).or_default() += 1;
                Ok(())
            })
        })?;
        Ok(counts.into_iter().filter(|(_, count)| *count > 1).map(|(who, _)| who).collect())
    }

    /// Leads ports to a container that has them, over this network. Something that is led already gives way, if it leads to nobody.
    fn lead_ports(&self, network: &Network, ports: &[Published]) -> Result<()> {
        if ports.is_empty() {
            return Ok(());
        }
        // Nobody takes it for what a killed program left.
        let _everywhere = self.lock()?;
        self.open_loopback(network, ports)?;
        match self.firewall.add_ports(ports) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EEXIST | libc::EBUSY)) => {
                self.firewall.remove_led(&self.led_to_nobody()?)?;
                self.firewall.add_ports(ports)
            }
            led => led,
        }
    }

    /// Port mappings left behind by a program that was killed between publishing a port and handing it to a monitor.
    fn led_to_nobody(&self) -> Result<Led> {
        let led = self.firewall.led()?;
        // In this order: who is led to is in the database before.
        Ok(if led.is_empty() { led } else { led.beside(&self.live_ports()?) })
    }

    /// Ends the publishing of ports that lead to nobody.
    pub(super) fn sweep_ports(&self) -> Result<()> {
        if self.led_to_nobody()?.is_empty() {
            return Ok(());
        }
        let _everywhere = self.lock()?;
        let left = self.led_to_nobody()?;
        if left.is_empty() { Ok(()) } else { self.firewall.remove_led(&left) }
    }

    /// A container's monitor was killed: what it could not take back is taken back.
    pub(crate) fn bury(&self, container: &str) -> Result<()> {
        let ports: Vec<Published> = self.endpoints(container)?.into_values().flat_map(|doc| doc.ports).collect();
        let live = self.live_ports()?;
        let stale: Vec<Published> = ports.into_iter().filter(|port| !live.contains(port)).collect();
        self.firewall.remove_ports(&stale)
    }
}

/// Notes that a container is removed; its addresses rest for a moment.
pub(crate) fn leave(tx: &Transaction<'_>, container: &str) -> Result<()> {
    let now = now_ns();
    table::leave(tx, container, now, now - REST_NS)
}

/// Another container's end on a network, or what one left: as much as giving out an address needs of it.
struct Other {
    container: String,
    slot: u32,
    left_ns: i64,
    addresses: Addresses,
}

/// Of an [`EndpointDoc`]; all of it costs several times as much to read, and there may be a thousand.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Addresses {
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
}

/// The ports of an [`EndpointDoc`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ports {
    ports: Vec<Published>,
}

impl Other {
    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        [self.addresses.v4, self.addresses.v6].into_iter().flatten()
    }
}

/// The others on a network, and what this container had there.
fn others(tx: &Transaction<'_>, network: &str, container: &str) -> Result<(Vec<Other>, Option<Addresses>)> {
    let mut others = Vec::new();
    let mut own = None;
    table::each_of_network(tx, network, |other, slot, doc, left_ns| {
        let addresses: Addresses = parse(other, doc)?;
        if other == container && left_ns == 0 {
            own = Some(addresses);
        } else {
            others.push(Other { container: other.to_owned(), slot, left_ns, addresses });
        }
        Ok(())
    })?;
    Ok((others, own))
}

pub(super) fn read(row: &EndpointRow) -> Result<EndpointDoc> {
    parse(&row.container_id, &row.doc)
}

fn parse<'a, T: Deserialize<'a>>(container: &str, doc: &'a str) -> Result<T> {
    serde_json::from_str(doc).map_err(|error| Error::corrupt(format!("an endpoint of container {container}: {error}")))
}

pub(super) fn row(network: &str, container: &str, slot: u32, doc: &EndpointDoc) -> Result<EndpointRow> {
    let doc = serde_json::to_string(doc).map_err(|e| Error::internal(format!("write an endpoint: {e}")))?;
    Ok(EndpointRow { network_id: network.into(), container_id: container.into(), slot, doc, left_ns: 0 })
}

fn link_local(text: &str) -> Result<IpAddr> {
    text.parse().map_err(|_| Error::invalid(format!("invalid link-local IP address: {text}")))
}

/// Refuses settings that only user-defined networks allow.
pub(crate) fn check_settings(network: &Network, settings: &EndpointSettings) -> Result<()> {
    let ipam = settings.ipam_config.clone().unwrap_or_default();
    let (v4, v6) = (!ipam.ipv4_address.is_empty(), !ipam.ipv6_address.is_empty());
    let address = v4 || v6;
    for text in ipam.link_local_ips.iter().filter(|text| !text.is_empty()) {
        link_local(text)?;
    }
    if network.is_predefined() {
        if address {
            return Err(Error::invalid("user specified IP address is supported on user defined networks only"));
        }
        if settings.aliases.as_ref().is_some_and(|aliases| !aliases.is_empty()) {
            return Err(Error::invalid(
                "network-scoped alias is supported only for containers in user defined networks",
            ));
        }
    } else if v4 && network.spec.automatic || v6 && !has_v6_pool(network) {
        return Err(Error::invalid(
            "user specified IP address is supported only when connecting to networks with user configured subnets",
        ));
    }
    Ok(())
}

/// Whether the network has IPv6 addresses that its request named, or that a plugin gives.
fn has_v6_pool(network: &Network) -> bool {
    network.has_foreign_addresses() || network.spec.ipam.config.iter().any(|pool| pool.subnet.contains(':'))
}

/// Which of a container's networks leads outside: the first by name that is not internal.
fn default_route(ready: &[(Network, u32, &Want)]) -> Option<usize> {
    let outside = ready.iter().enumerate().filter(|(_, (network, ..))| !network.spec.internal);
    outside.min_by_key(|(_, (network, ..))| network.name.clone()).map(|(at, _)| at)
}

fn scripts(network: &Network, parent: u32, doc: &EndpointDoc, leads: bool) -> Result<(Script, Script)> {
    if let Some(end) = &doc.remote {
        return super::remote::scripts(doc, end, leads);
    }
    let (mut host, mut inside) = (Script::default(), Script::default());
    let mtu = options::mtu(&network.spec)?;
    let mac = parse_mac(&doc.mac)?;
    match super::create::sub(network)? {
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
        Some(how) => link::add_sub(&mut host, &doc.interface, parent, &how, mac, mtu, PATCH_NETNS),
    }
    let l3 = matches!(super::create::sub(network)?, Some(Sub::Ipvlan(1)));
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

/// A MAC address made of the IPv4 address, so that neighbours that remember an address remember the right one.
fn made_up_mac(ip: Option<IpAddr>, id: &str) -> [u8; 6] {
    let [a, b, c, d] = match ip {
        Some(IpAddr::V4(ip)) => ip.octets(),
        _ => u32::from_str_radix(&id[..8], 16).unwrap_or(0).to_be_bytes(),
    };
    [0x02, 0x42, a, b, c, d]
}

/// Reads `xx:xx:xx:xx:xx:xx`.
pub(crate) fn parse_mac(text: &str) -> Result<[u8; 6]> {
    let bad = || Error::invalid(format!("invalid MAC address: {text}"));
    let mut mac = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2).ok_or_else(bad)?;
        *byte = u8::from_str_radix(part, 16).map_err(|_| bad())?;
    }
    if parts.next().is_some() { Err(bad()) } else { Ok(mac) }
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The name of a network as its containers' settings have it.
pub(crate) fn key<'a>(found: Option<&'a Network>, asked: &'a str) -> &'a str {
    found.map_or(mode_name(asked), |network| &network.name)
}
