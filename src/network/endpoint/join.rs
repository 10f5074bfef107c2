//! A container comes to networks and leaves them: addresses and ports are given out in one transaction, plugins make their
//! part, and the messages that make the interfaces are written.

use super::allocate::{Allocator, Ready};
use super::doc::EndpointDoc;
use super::joined::{Endpoint, EndpointRequest, JoinedEndpoints, Joining};
use super::options::EndpointOptions;
use super::publish::Ports;
use super::store::{EndpointStore, read, row};
use crate::error::{Error, Result};
use crate::network::bridge::Bridges;
use crate::network::driver::Driver;
use crate::network::firewall::Firewall;
use crate::network::leases::Leases;
use crate::network::names::Names;
use crate::network::pending_leases::PendingLeases;
use crate::network::register::Register;
use crate::network::remote::{RemoteDrivers, number_interfaces};
use crate::network::spec::Network;
use crate::parts::Part;
use crate::store::Flush;
use crate::store::networks as table;
use std::sync::Arc;

/// Puts containers on networks, and takes them off.
pub(crate) struct Endpoints {
    pub(in crate::network) register: Arc<Register>,
    pub(in crate::network) endpoint_store: Arc<EndpointStore>,
    pub(in crate::network) names: Arc<Names>,
    pub(in crate::network) leases: Arc<Leases>,
    pub(in crate::network) remote: Arc<RemoteDrivers>,
    pub(in crate::network) bridges: Arc<Bridges>,
    pub(in crate::network) ports: Arc<Ports>,
    pub(in crate::network) allocator: Arc<Allocator>,
    pub(in crate::network) firewall: Arc<Firewall>,
}

impl Endpoints {
    /// Gives a container its addresses and ports, and makes what its networks need in the kernel. The caller holds the
    /// container's lock of the living: the addresses and ports are the container's own from now on.
    ///
    /// Errors: a network is not there, an address or port is taken, a pool is empty.
    pub(crate) fn join(&self, container: &Joining<'_>) -> Result<JoinedEndpoints> {
        let mut ready = container.networks.iter().map(|request| self.ready(request)).collect::<Result<Vec<_>>>()?;
        ready.sort_by(|a, b| a.rank().cmp(&b.rank()));
        // Resources of a plugin from an earlier start are given back before it is asked for more.
        self.remote.release(container.id)?;
        let mut pending = self.leases.pending();
        let given = self.lease_all(container, &mut ready, &mut pending);
        let given = given
            .and_then(|()| self.register.db.write(Flush::Lazy, |tx| self.allocator.allocate(tx, container, &ready)));
        let (mut docs, taken) = given.inspect_err(|_| self.give_back_all(&ready))?;
        if ready.iter().any(Ready::has_foreign_parts) {
            self.join_remotes(container, &ready, &mut docs)?;
        }
        self.ports.forget_waiting(container.id);
        let (ends, parents): (Vec<_>, Vec<_>) =
            ready.into_iter().zip(docs).map(|(ready, doc)| (Endpoint::of(ready.network, doc), ready.parent)).unzip();
        let mut joined = JoinedEndpoints { endpoints: ends, ..JoinedEndpoints::default() };
        joined.write_scripts(&parents)?;
        for end in &joined.endpoints {
            self.names.write(&end.network)?;
        }
        self.ports.publish(&mut joined, taken)?;
        Ok(joined)
    }

    /// Finds a network that a container is to be on, and makes what it needs in the kernel.
    fn ready<'a>(&self, request: &'a EndpointRequest) -> Result<Ready<'a>> {
        let network = self.register.find(&request.network)?;
        let (network, parent) = match network.spec.driver {
            Driver::Bridge => self.bridges.up(&network)?,
            Driver::Macvlan | Driver::Ipvlan => {
                Part::Networks.need()?;
                let parent = self.bridges.parent(&network)?;
                (network, parent)
            }
            Driver::Plugin(_) => (network, 0),
            Driver::Host | Driver::Null => {
                return Err(Error::internal_as_dockerd(
                    "network",
                    format!(
                        "network {} has the driver {}, which takes no containers",
                        network.name, network.spec.driver
                    ),
                ));
            }
        };
        Ok(Ready { network, parent, request, leases: Vec::new() })
    }

    /// Asks the plugins of the networks for addresses.
    fn lease_all(&self, container: &Joining<'_>, all: &mut [Ready<'_>], pending: &mut PendingLeases) -> Result<()> {
        all.iter_mut().try_for_each(|ready| {
            let mac = container.mac_on(&ready.network);
            ready.leases = self.leases.take(&ready.network, &ready.request.settings, mac, pending)?;
            Ok(())
        })
    }

    fn give_back_all(&self, all: &[Ready<'_>]) {
        all.iter().for_each(|ready| self.leases.give_back(&ready.network, &ready.leases));
    }

    /// Has the plugins make their endpoints, and stores their answers. On an error none of them has an endpoint.
    fn join_remotes(&self, container: &Joining<'_>, all: &[Ready<'_>], docs: &mut [EndpointDoc]) -> Result<()> {
        let mut prefixes = vec![None; docs.len()];
        for (at, ready) in all.iter().enumerate().filter(|(_, ready)| ready.network.is_remote()) {
            let joined = self.remote.join(container, &ready.network, &mut docs[at]).map(|prefix| prefixes[at] = prefix);
            if let Err(error) = joined {
                all.iter().zip(docs.iter()).for_each(|(ready, doc)| self.remote.detach(&ready.network, doc));
                // The resources went back: no row may name them any more.
                self.register.db.write(Flush::Lazy, |tx| {
                    all.iter().try_for_each(|ready| table::delete_endpoint(tx, &ready.network.id, container.id))
                })?;
                return Err(error);
            }
        }
        number_interfaces(docs, &prefixes)?;
        self.register.db.write(Flush::Lazy, |tx| {
            all.iter().zip(docs.iter()).try_for_each(|(ready, doc)| {
                table::put_endpoint(tx, &row(&ready.network.id, container.id, container.slot, doc)?)
            })
        })
    }

    /// Puts a running container on one more network: its rows and its plugin's part are made, its interface is not.
    pub(crate) fn join_one(&self, container: &Joining<'_>, request: &EndpointRequest, interface: &str) -> Result<()> {
        let Ready { network, .. } = self.ready(request)?;
        // A program that was killed in this step may have left an endpoint there.
        if let Some(left) = self.endpoint_store.of_container(container.id)?.get(&network.id) {
            self.remote.detach(&network, left);
        }
        let mut pending = self.leases.pending();
        let leases = self.leases.take(&network, &request.settings, container.mac_on(&network), &mut pending)?;
        let given = self.register.db.write(Flush::Lazy, |tx| {
            let mut doc = self.allocator.address(tx, container, &network, &request.settings, &leases)?;
            doc.interface = interface.to_owned();
            let others = table::of_container(tx, container.id)?;
            doc.sandbox =
                others.first().map(read).transpose()?.map_or_else(crate::hex::random_id, |other| Ok(other.sandbox))?;
            table::put_endpoint(tx, &row(&network.id, container.id, container.slot, &doc)?)?;
            Ok(doc)
        });
        let doc = given.inspect_err(|_| self.leases.give_back(&network, &leases))?;
        if network.is_remote() {
            self.join_one_remote(container, &network, doc)?;
        }
        self.names.write(&network)
    }

    /// Has a plugin make the endpoint of a running container, and stores its answer. On an error it has no endpoint.
    fn join_one_remote(&self, container: &Joining<'_>, network: &Network, mut doc: EndpointDoc) -> Result<()> {
        let joined = self.remote.join(container, network, &mut doc).and_then(|prefix| {
            let Some(prefix) = prefix else { return Ok(()) };
            let others = self.endpoint_store.of_container(container.id)?;
            let taken = |name: &str| others.iter().any(|(id, end)| *id != network.id && end.interface == name);
            let mut names = (0..).map(|number| format!("{prefix}{number}"));
            if EndpointOptions::parse(&doc.options)?.interface.is_none() {
                doc.interface = names.find(|name| !taken(name)).unwrap_or_default();
            }
            Ok(())
        });
        if joined.is_err() {
            self.remote.detach(network, &doc);
        }
        self.register.db.write(Flush::Lazy, |tx| match &joined {
            Ok(()) => table::put_endpoint(tx, &row(&network.id, container.id, container.slot, &doc)?),
            Err(_) => table::delete_endpoint(tx, &network.id, container.id),
        })?;
        joined
    }

    /// Takes a container whose start failed off its networks: its ports are not published any more, and plugins get their
    /// resources back.
    pub(crate) fn detach(&self, container: &str, joined: &JoinedEndpoints) -> Result<()> {
        self.firewall.remove_ports(&joined.ports())?;
        self.remote.release(container)
    }

    /// Forgets the endpoint of a container that is not there any more; `reference` is the container's name or id.
    pub(crate) fn forget_gone(&self, network: &Network, reference: &str) -> Result<()> {
        let missing = || Error::not_found(format!("endpoint {reference} not found"));
        let reference = reference.trim_start_matches('/');
        let mut gone = None;
        for other in self.endpoint_store.of_network(network)? {
            let doc = read(&other)?;
            let named = doc.name == reference || other.container_id == reference;
            if named && !(other.left_ns == 0 && self.register.is_live(other.slot)?) {
                gone = Some((other, doc));
            }
        }
        let (row, doc) = gone.ok_or_else(missing)?;
        self.remote.detach(network, &doc);
        self.forget_row(network, &row.container_id)
    }

    /// Forgets a container's endpoint on a network that the container leaves; plugins get their resources back.
    pub(crate) fn forget(&self, network: &Network, container: &str) -> Result<()> {
        if let Some(doc) = self.endpoint_store.of_container(container)?.get(&network.id) {
            self.remote.detach(network, doc);
        }
        self.forget_row(network, container)
    }

    /// Forgets an endpoint's row. The caller notifies the plugins later.
    pub(crate) fn forget_row(&self, network: &Network, container: &str) -> Result<()> {
        self.endpoint_store.delete(network, container)?;
        self.names.write(network)
    }
}
