//! Published ports: taken from the host, mapped to a container, moved to another network, and taken back.

use super::doc::EndpointDoc;
use super::interfaces::Interfaces;
use super::joined::{Endpoint, JoinedEndpoints, Joining};
use super::store::{EndpointStore, row};
use crate::error::{Error, ErrorKind, Result};
use crate::network::driver::Driver;
use crate::network::firewall::{Firewall, PortMappings};
use crate::network::locks::Locks;
use crate::network::loopback::Loopback;
use crate::network::options;
use crate::network::ports::{HostPorts, PortRequest, PortReservation, Published, Taken};
use crate::network::register::Register;
use crate::network::spec::Network;
use crate::store::Flush;
use crate::store::networks as table;
use rusqlite::Transaction;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Publishes the ports of containers.
pub(crate) struct Ports {
    pub(in crate::network) register: Arc<Register>,
    pub(in crate::network) endpoint_store: Arc<EndpointStore>,
    pub(in crate::network) locks: Arc<Locks>,
    pub(in crate::network) loopback: Arc<Loopback>,
    pub(in crate::network) interfaces: Arc<Interfaces>,
    pub(in crate::network) firewall: Arc<Firewall>,
    pub(in crate::network) host_ports: HostPorts,
    /// Where ports that name no address are published.
    pub(in crate::network) publish_ip: Option<IpAddr>,
    /// The root's run directory.
    pub(in crate::network) run: PathBuf,
}

impl Ports {
    /// Moves the published ports of a running container to the network that leads outside now. `gone` are the ports of a
    /// network that the container left. While no network leads outside, the ports wait, still the container's own.
    pub(crate) fn relocate(&self, container: &str, slot: u32, gone: Vec<Published>) -> Result<()> {
        let waiting = self.waiting(container);
        let joined = self.interfaces.load(container)?;
        let mut ports = read_waiting(&waiting)?;
        ports.extend(gone);
        ports.extend(joined.ports());
        if ports.is_empty() {
            return Ok(());
        }
        let leader = leader(&joined);
        let leading = leader.map(|at| &joined.endpoints[at]);
        let (now, idle) = targets(&ports, leading);
        let before = joined.ports();
        let ended: Vec<Published> = before.iter().filter(|port| !now.contains(port)).copied().collect();
        let new: Vec<Published> = now.iter().filter(|port| !before.contains(port)).copied().collect();
        self.register.db.write(Flush::Lazy, |tx| {
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
            self.map(&end.network, &new)?;
        }
        write_waiting(&waiting, &idle)
    }

    /// Publishes the ports of a running container that had no way outside until now. The monitor is to hold the answer,
    /// which keeps the ports from other programs. `None`: the ports are published already, or wait, or there is still no way.
    pub(crate) fn publish_late(&self, container: &Joining<'_>) -> Result<Option<PortReservation>> {
        let joined = self.interfaces.load(container.id)?;
        let Some(at) = leader(&joined) else { return Ok(None) };
        if !joined.ports().is_empty() || self.waiting(container.id).exists() {
            return Ok(None);
        }
        let network = &joined.endpoints[at].network;
        let mut doc = joined.endpoints[at].doc.clone();
        let mut taken = self.register.db.write(Flush::Lazy, |tx| {
            let taken = self.take(tx, container, network, &mut doc)?;
            if !taken.ports.is_empty() {
                table::put_endpoint(tx, &row(&network.id, container.id, container.slot, &doc)?)?;
            }
            Ok(taken)
        })?;
        self.map(network, &taken.ports)?;
        taken.port_reservation()
    }

    /// The file of a container's ports that wait for a network that leads outside.
    fn waiting(&self, container: &str) -> PathBuf {
        self.run.join("c").join(container).join("ports")
    }

    /// Forgets the waiting ports of an earlier run.
    pub(super) fn forget_waiting(&self, container: &str) {
        let _ = std::fs::remove_file(self.waiting(container));
    }

    /// Takes the container's ports of the host; `network` is the one that leads outside.
    pub(super) fn take(
        &self,
        tx: &Transaction<'_>,
        container: &Joining<'_>,
        network: &Network,
        doc: &mut EndpointDoc,
    ) -> Result<Taken> {
        if container.bindings.is_empty() && !container.publish_all {
            return Ok(Taken::default());
        }
        let asked = PortRequest {
            bindings: container.bindings,
            exposed: container.exposed,
            all: container.publish_all,
            default_host: options::host_binding(&network.spec)?.or(self.publish_ip),
            relay_loopback: self.loopback.relays(network)?,
            v4: doc.v4,
            v6: doc.v6,
        };
        let ours = |port: &Published| -> Result<bool> {
            let all = self.endpoint_store.live_ports_in(tx)?;
            Ok(all.iter().any(|other| other.protocol == port.protocol && other.host_port == port.host_port))
        };
        let taken = self.host_ports.take(&asked, &ours).map_err(|error| {
            let context =
                format!("driver failed programming external connectivity on endpoint {} ({})", container.name, doc.id);
            if error.kind() == ErrorKind::Invalid { error } else { error.context(context) }
        });
        let taken = taken?;
        doc.ports.clone_from(&taken.ports);
        Ok(taken)
    }

    /// Publishes the ports of all endpoints, and keeps them from other programs.
    pub(super) fn publish(&self, joined: &mut JoinedEndpoints, mut taken: Taken) -> Result<()> {
        let ports = joined.ports();
        if ports.is_empty() {
            return Ok(());
        }
        joined.port_reservation = taken.port_reservation()?;
        for end in &joined.endpoints {
            self.map(&end.network, &end.doc.ports)?;
        }
        joined.firewall_end = self.firewall.removal(&ports);
        Ok(())
    }

    /// Maps published ports to a container on this network, and replaces stale mappings.
    fn map(&self, network: &Network, ports: &[Published]) -> Result<()> {
        if ports.is_empty() {
            return Ok(());
        }
        // Under the lock no other program takes the new mappings for stale ones.
        let _root = self.locks.root()?;
        self.loopback.open(network, ports)?;
        match self.firewall.add_ports(ports) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EEXIST | libc::EBUSY)) => {
                self.firewall.remove_mappings(&self.stale()?)?;
                self.firewall.add_ports(ports)
            }
            mapped => mapped,
        }
    }

    /// Port mappings left behind by a program that was killed between publishing a port and handing it to a monitor.
    fn stale(&self) -> Result<PortMappings> {
        let mappings = self.firewall.mappings()?;
        // In this order: the database has a container's ports before the firewall maps them.
        Ok(if mappings.is_empty() { mappings } else { mappings.without(&self.endpoint_store.live_ports()?) })
    }

    /// Removes stale mappings.
    pub(in crate::network) fn sweep(&self) -> Result<()> {
        if self.stale()?.is_empty() {
            return Ok(());
        }
        let _root = self.locks.root()?;
        let stale = self.stale()?;
        if stale.is_empty() { Ok(()) } else { self.firewall.remove_mappings(&stale) }
    }

    /// Removes the mappings of a container whose monitor was killed.
    pub(crate) fn reap_crashed(&self, container: &str) -> Result<()> {
        let docs = self.endpoint_store.of_container(container)?;
        let ports: Vec<Published> = docs.into_values().flat_map(|doc| doc.ports).collect();
        let live = self.endpoint_store.live_ports()?;
        let stale: Vec<Published> = ports.into_iter().filter(|port| !live.contains(port)).collect();
        self.firewall.remove_ports(&stale)
    }
}

/// The endpoint over which ports are published: the one that leads outside, if a bridge is there.
fn leader(joined: &JoinedEndpoints) -> Option<usize> {
    joined.leads().filter(|at| joined.endpoints[*at].network.spec.driver == Driver::Bridge)
}

/// The ports as they are mapped over an endpoint, and those that it has no address for.
fn targets(ports: &[Published], leading: Option<&Endpoint>) -> (Vec<Published>, Vec<Published>) {
    let (mut now, mut idle) = (Vec::new(), Vec::new());
    for port in ports {
        let doc = leading.map(|end| &end.doc);
        let to = doc.and_then(|doc| Published::target(port.host, port.protocol, doc.v4, doc.v6));
        match to {
            Some(to) => now.push(Published { to, ..*port }),
            None => idle.push(*port),
        }
    }
    (now, idle)
}

fn read_waiting(path: &Path) -> Result<Vec<Published>> {
    match std::fs::read(path) {
        Ok(text) => crate::document::read(&text)
            .map_err(|e| Error::new(ErrorKind::Internal, format!("{}: {e}", path.display()))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(Error::io(format_args!("read {}", path.display()), &e)),
    }
}

fn write_waiting(path: &Path, idle: &[Published]) -> Result<()> {
    if idle.is_empty() {
        let _ = std::fs::remove_file(path);
        return Ok(());
    }
    let text = serde_json::to_vec(idle).map_err(|e| Error::internal(format!("write ports: {e}")))?;
    std::fs::write(path, text).map_err(|e| Error::io(format_args!("write {}", path.display()), &e))
}
