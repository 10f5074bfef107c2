//! The endpoints of a container for one run: the request, and the result.

use super::doc::EndpointDoc;
use super::script;
use crate::error::Result;
use crate::model::{EndpointSettings, PortMap, PortSet};
use crate::network::driver::Driver;
use crate::network::netlink::link::{self, Script, Through};
use crate::network::ports::{PortReservation, Published};
use crate::network::spec::Network;
use coracle_monitor::wire::PATCH_INDEX;
use std::cmp::Reverse;
use std::net::IpAddr;

/// A network that a container is to be on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct EndpointRequest {
    /// As the request names it.
    pub network: String,
    pub settings: EndpointSettings,
}

/// A container that is about to start.
pub(crate) struct Joining<'a> {
    pub id: &'a str,
    pub slot: u32,
    pub name: &'a str,
    /// The container's host name.
    pub hostname: &'a str,
    /// `MacAddress` of the container's configuration, for its interface on the network of its mode; empty: derived from
    /// the address.
    pub mac: &'a str,
    pub mode: &'a str,
    pub networks: Vec<EndpointRequest>,
    pub bindings: &'a PortMap,
    pub exposed: &'a PortSet,
    pub publish_all: bool,
}

impl Joining<'_> {
    /// The MAC address that the container's configuration asks for on a network; empty: none.
    pub(super) fn mac_on(&self, network: &Network) -> &str {
        if network.is_of_mode(self.mode) { self.mac } else { "" }
    }
}

/// One endpoint, and the messages that make it.
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
pub(crate) struct JoinedEndpoints {
    pub endpoints: Vec<Endpoint>,
    /// Keeps the container's ports of the host from other programs.
    pub port_reservation: Option<PortReservation>,
    /// Sent over netfilter netlink when the container has ended for good.
    pub firewall_end: Vec<u8>,
}

impl Endpoint {
    /// An endpoint without messages: [`JoinedEndpoints::write_scripts`] writes them.
    pub(super) fn of(network: Network, doc: EndpointDoc) -> Endpoint {
        Endpoint { network, doc, host: Script::default(), inside: Script::default() }
    }

    /// The host's own address on the network; none where the gateway is another machine.
    pub(crate) fn host_gateway(&self) -> Option<IpAddr> {
        self.doc.v4_gateway.filter(|_| self.network.spec.driver == Driver::Bridge)
    }

    /// The messages that lead the default route over this endpoint; `None`: the network has no gateway.
    pub(crate) fn lead(&self) -> Option<Script> {
        let mut script = Script::default();
        for gateway in [self.doc.v4_gateway, self.doc.v6_gateway].into_iter().flatten() {
            link::default_route_inside(&mut script, Through::Gateway(gateway), PATCH_INDEX);
        }
        (!script.patches.is_empty()).then_some(script)
    }
}

impl JoinedEndpoints {
    /// The endpoint that the default route goes over: the first by [`rank`] whose network is not internal and whose driver
    /// knows a gateway.
    pub(crate) fn leads(&self) -> Option<usize> {
        let leads = |end: &Endpoint| {
            let gateway = end.doc.v4_gateway.is_some() || end.doc.v6_gateway.is_some();
            !end.network.spec.internal && (gateway || end.doc.remote.is_none())
        };
        first_by_rank(self.endpoints.iter().map(|end| (&end.network, end.doc.gw_priority, leads(end))))
    }

    /// Writes the messages of all endpoints. `parents`: for each endpoint, the index of the interface that its own is a port
    /// or a part of; 0: it has none.
    pub(super) fn write_scripts(&mut self, parents: &[u32]) -> Result<()> {
        let leads = self.leads();
        for (at, (end, parent)) in self.endpoints.iter_mut().zip(parents).enumerate() {
            (end.host, end.inside) = script::scripts(&end.network, *parent, &end.doc, leads == Some(at))?;
        }
        Ok(())
    }

    /// The published ports of all endpoints.
    pub(crate) fn ports(&self) -> Vec<Published> {
        self.endpoints.iter().flat_map(|end| &end.doc.ports).copied().collect()
    }
}

/// The place of the first network by [`rank`] among those that may be chosen.
pub(super) fn first_by_rank<'a>(networks: impl Iterator<Item = (&'a Network, i64, bool)>) -> Option<usize> {
    let may = networks.enumerate().filter(|(_, (_, _, may))| *may);
    may.min_by_key(|(_, (network, priority, _))| rank(network, *priority)).map(|(at, _)| at)
}

/// The order of a container's networks, as dockerd has it: those of the highest priority first, internal ones last, those with
/// IPv6 before others, and then by name. The first leads outside, and interfaces are numbered in this order at a start.
pub(super) fn rank(network: &Network, priority: i64) -> impl Ord + use<'_> {
    (Reverse(priority), network.spec.internal, Reverse(network.spec.enable_ipv6), &network.name)
}
