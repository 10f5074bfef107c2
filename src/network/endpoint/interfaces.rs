//! The interfaces of running containers: made and removed from here, where the container's first process did not make them.

use super::doc::{EndpointDoc, digits};
use super::joined::{Endpoint, JoinedEndpoints};
use super::store::EndpointStore;
use crate::error::{Error, Result};
use crate::kernel::netlink::{ROUTE, Socket};
use crate::network::firewall::Firewall;
use crate::network::links::{delete, find_link};
use crate::network::netlink::link::{self, Script};
use crate::network::options::{parent, sub};
use crate::network::own_links::OwnLinks;
use crate::network::register::Register;
use crate::order::Order as _;
use coracle_monitor::wire::{PATCH_INDEX, PATCH_RESTART};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

/// Makes and removes the interfaces of running containers.
pub(crate) struct Interfaces {
    pub(in crate::network) register: Arc<Register>,
    pub(in crate::network) endpoint_store: Arc<EndpointStore>,
    pub(in crate::network) own_links: Arc<OwnLinks>,
    pub(in crate::network) firewall: Arc<Firewall>,
}

impl Interfaces {
    /// Loads the endpoints of a container's last start, with their messages.
    pub(crate) fn load(&self, container: &str) -> Result<JoinedEndpoints> {
        let mut ends: Vec<(String, EndpointDoc)> = self.endpoint_store.of_container(container)?.into_iter().collect();
        ends.order_by(|(_, a), (_, b)| a.interface.cmp(&b.interface));
        let (mut joined, mut parents) = (JoinedEndpoints::default(), Vec::new());
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

    /// Makes the interface of a running container.
    pub(crate) fn plug(&self, end: &Endpoint, netns: BorrowedFd<'_>, restarts: u32) -> Result<()> {
        let acks = end.host.messages.acks() as usize;
        if acks == 0 && end.doc.remote.as_ref().is_some_and(|remote| remote.source.is_empty()) {
            return Ok(());
        }
        if acks == 0 {
            return Err(Error::internal_as_dockerd(
                "network",
                format!("the interface of network {} is not there", end.network.name),
            ));
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

    /// Removes the interface of a running container, and ends the publishing of its ports. Answers the messages that are
    /// still to be sent in the container's network namespace.
    pub(crate) fn unplug(&self, doc: &EndpointDoc, restarts: u32) -> Result<Option<Script>> {
        self.firewall.remove_ports(&doc.ports)?;
        let port = doc.port_now(restarts);
        if port.is_empty() {
            let mut script = Script::default();
            link::delete_inside(&mut script, PATCH_INDEX);
            return Ok(Some(script));
        }
        if let Some(found) = find_link(&port)? {
            delete(&found, "remove the interface")?;
        }
        Ok(None)
    }
}
