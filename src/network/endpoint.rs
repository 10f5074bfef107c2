//! A container's ends on its networks: addresses and ports given out in one transaction, and what makes its interfaces.

mod allocate;
mod publish;
mod script;
mod store;

pub(crate) use allocate::{check_settings, parse_mac};
pub(crate) use store::leave;
pub(super) use store::{read, row};

use super::Networks;
use super::driver::Driver;
use super::links::find_link;
use super::loans::Loan;
use super::netlink::link::{self, Script, Through};
use super::options::{parent, sub};
use super::ports::{Hold, Published, Taken};
use super::remote::{Lease, RemoteEnd};
use super::spec::{Network, as_500};
use crate::error::Result;
use crate::model::{EndpointSettings, PortMap, PortSet};
use crate::store::Flush;
use crate::store::networks as table;
use coracle_monitor::wire::PATCH_INDEX;
use script::digits;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

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
    /// `MacAddress` of the container's configuration, for its interface on the network of its mode; empty: derived from
    /// the address.
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

/// A network that a container joins, found and ready in the kernel.
struct Ready<'a> {
    network: Network,
    /// The index of the bridge, or of the interface that macvlan and ipvlan share; 0: a plugin's driver has its own.
    parent: u32,
    want: &'a Want,
    /// Addresses that a plugin gave for it.
    leases: Vec<Lease>,
}

impl Ready<'_> {
    /// Whether a plugin makes its interface, or has its addresses.
    fn has_foreign_parts(&self) -> bool {
        self.network.is_remote() || self.network.has_foreign_addresses()
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
    /// The bridge's port; its last two characters change with the monitor's restarts. Empty: there is none.
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
    /// The messages of its interface are still to be written: [`Joined::write_scripts`].
    fn of(network: Network, doc: EndpointDoc) -> Endpoint {
        Endpoint { network, doc, host: Script::default(), inside: Script::default() }
    }

    /// The host's own address on the network; none where the gateway is another machine.
    pub(crate) fn host_gateway(&self) -> Option<IpAddr> {
        self.doc.v4_gateway.filter(|_| self.network.spec.driver == Driver::Bridge)
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
        first_by_name(self.endpoints.iter().map(|end| (&end.network, leads(end))))
    }

    /// `parents`: of each end, the index of the interface that its own is a port or a part of; 0 where it has none.
    fn write_scripts(&mut self, parents: &[u32]) -> Result<()> {
        let leads = self.leads();
        for (at, (end, parent)) in self.endpoints.iter_mut().zip(parents).enumerate() {
            (end.host, end.inside) = script::scripts(&end.network, *parent, &end.doc, leads == Some(at))?;
        }
        Ok(())
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
        let mut ready = who.networks.iter().map(|want| self.ready(want)).collect::<Result<Vec<_>>>()?;
        // Resources of a plugin from an earlier start are given back before it is asked for more.
        self.settle(who.container)?;
        let mut loan = self.loan();
        let given = self.lease_all(who, &mut ready, &mut loan);
        let given = given.and_then(|()| self.register.db.write(Flush::Lazy, |tx| self.allocate(tx, who, &ready)));
        let (mut docs, taken) = given.inspect_err(|_| self.give_back_all(&ready))?;
        if ready.iter().any(Ready::has_foreign_parts) {
            self.join_remotes(who, &ready, &mut docs)?;
        }
        let _ = std::fs::remove_file(self.waiting_ports(who.container));
        let (ends, parents): (Vec<_>, Vec<_>) =
            ready.into_iter().zip(docs).map(|(ready, doc)| (Endpoint::of(ready.network, doc), ready.parent)).unzip();
        let mut joined = Joined { endpoints: ends, ..Joined::default() };
        joined.write_scripts(&parents)?;
        for end in &joined.endpoints {
            self.write_names(&end.network)?;
        }
        self.lead_all(&mut joined, taken)?;
        Ok(joined)
    }

    /// Looks up a network that a container is to be on, and has the kernel ready for it.
    fn ready<'a>(&self, want: &'a Want) -> Result<Ready<'a>> {
        let network = self.register.find(&want.network)?;
        let (network, parent) = match network.spec.driver {
            Driver::Bridge => self.up(&network)?,
            Driver::Macvlan | Driver::Ipvlan => {
                let parent = self.parent(&network)?;
                (network, parent)
            }
            Driver::Plugin(_) => (network, 0),
            Driver::Host | Driver::Null => {
                return Err(as_500(format!(
                    "network {} has the driver {}, which takes no containers",
                    network.name, network.spec.driver
                )));
            }
        };
        Ok(Ready { network, parent, want, leases: Vec::new() })
    }

    /// Gets addresses of the plugins that have those of the networks.
    fn lease_all(&self, who: &Joining<'_>, all: &mut [Ready<'_>], loan: &mut Loan) -> Result<()> {
        all.iter_mut().try_for_each(|ready| {
            let mac = who.mac_on(&ready.network);
            ready.leases = self.lease(&ready.network, &ready.want.settings, mac, loan)?;
            Ok(())
        })
    }

    fn give_back_all(&self, all: &[Ready<'_>]) {
        all.iter().for_each(|ready| self.give_back(&ready.network, &ready.leases));
    }

    /// Publishes the ports of all ends, and keeps them from other programs.
    fn lead_all(&self, joined: &mut Joined, mut taken: Taken) -> Result<()> {
        let ports = joined.ports();
        if ports.is_empty() {
            return Ok(());
        }
        joined.hold = taken.hold()?;
        for end in &joined.endpoints {
            self.lead_ports(&end.network, &end.doc.ports)?;
        }
        joined.firewall_end = self.firewall.removal(&ports);
        Ok(())
    }

    /// Has the plugins make their ends, and keeps what they said. All of them, or none.
    fn join_remotes(&self, who: &Joining<'_>, all: &[Ready<'_>], docs: &mut [EndpointDoc]) -> Result<()> {
        let mut prefixes = vec![None; docs.len()];
        for (at, ready) in all.iter().enumerate().filter(|(_, ready)| ready.network.is_remote()) {
            let joined = self.join_remote(who, &ready.network, &mut docs[at]).map(|prefix| prefixes[at] = prefix);
            if let Err(error) = joined {
                all.iter().zip(docs.iter()).for_each(|(ready, doc)| self.part_remote(&ready.network, doc));
                // Resources that went back are nobody's any more.
                self.register.db.write(Flush::Lazy, |tx| {
                    all.iter().try_for_each(|ready| table::delete_endpoint(tx, &ready.network.id, who.container))
                })?;
                return Err(error);
            }
        }
        super::remote::number_interfaces(docs, &prefixes);
        self.register.db.write(Flush::Lazy, |tx| {
            all.iter().zip(docs.iter()).try_for_each(|(ready, doc)| {
                table::put_endpoint(tx, &row(&ready.network.id, who.container, who.slot, doc)?)
            })
        })
    }

    /// Loads the endpoints of the container's last start; of use for its steps alone.
    pub(crate) fn recall(&self, container: &str) -> Result<Joined> {
        let mut ends: Vec<(String, EndpointDoc)> = self.endpoints(container)?.into_iter().collect();
        ends.sort_by(|(_, a), (_, b)| a.interface.cmp(&b.interface));
        let (mut joined, mut parents) = (Joined::default(), Vec::new());
        for (network, doc) in ends {
            let network = self.register.find(&network)?;
            let parent = match sub(&network)? {
                None => self.own_links.bridge_of(&network)?,
                Some(_) => find_link(&parent(&network))?,
            };
            parents.push(parent.map_or(0, |link| link.index));
            joined.endpoints.push(Endpoint::of(network, doc));
        }
        joined.write_scripts(&parents)?;
        let ports = joined.ports();
        if !ports.is_empty() {
            joined.firewall_end = self.firewall.removal(&ports);
        }
        Ok(joined)
    }

    /// Gives a running container its place on one more network; no more is done than the kernel needs for that.
    pub(crate) fn join_one(&self, who: &Joining<'_>, want: &Want, interface: &str) -> Result<()> {
        let Ready { network, .. } = self.ready(want)?;
        // A program that was killed in this step may have left an endpoint there.
        if let Some(left) = self.endpoints(who.container)?.get(&network.id) {
            self.part_remote(&network, left);
        }
        let mut loan = self.loan();
        let leases = self.lease(&network, &want.settings, who.mac_on(&network), &mut loan)?;
        let given = self.register.db.write(Flush::Lazy, |tx| {
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
            self.register.db.write(Flush::Lazy, |tx| match &joined {
                Ok(()) => table::put_endpoint(tx, &row(&network.id, who.container, who.slot, &doc)?),
                Err(_) => table::delete_endpoint(tx, &network.id, who.container),
            })?;
            joined?;
        }
        self.write_names(&network)
    }

    /// A start that failed: its ports lead nowhere, and plugins get back what is theirs.
    pub(crate) fn part(&self, container: &str, joined: &Joined) -> Result<()> {
        self.firewall.remove_ports(&joined.ports())?;
        self.settle(container)
    }
}

/// The place of the first network by name among those that may be chosen.
fn first_by_name<'a>(networks: impl Iterator<Item = (&'a Network, bool)>) -> Option<usize> {
    let may = networks.enumerate().filter(|(_, (_, may))| *may);
    may.min_by(|(_, (a, _)), (_, (b, _))| a.name.cmp(&b.name)).map(|(at, _)| at)
}
