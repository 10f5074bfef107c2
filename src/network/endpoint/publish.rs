//! Published ports: taken from the host, led to a container, moved to another network, and taken back.

use super::store::{parse, row};
use super::{EndpointDoc, Joining};
use crate::error::{Error, Result};
use crate::network::firewall::Led;
use crate::network::ports::{Asked, Hold, Published, Taken};
use crate::network::{Driver, Network, Networks, options};
use crate::store::Flush;
use crate::store::networks as table;
use rusqlite::Transaction;
use serde::Deserialize;

impl Networks {
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
        let leader = joined.leads().filter(|at| joined.endpoints[*at].network.spec.driver == Driver::Bridge);
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
        let bridge = |at: &usize| joined.endpoints[*at].network.spec.driver == Driver::Bridge;
        let Some(at) = joined.leads().filter(bridge) else { return Ok(None) };
        if !joined.ports().is_empty() || self.waiting_ports(who.container).exists() {
            return Ok(None);
        }
        let network = &joined.endpoints[at].network;
        let mut doc = joined.endpoints[at].doc.clone();
        let mut taken = self.register.db.write(Flush::Lazy, |tx| {
            let taken = self.publish(tx, who, network, &mut doc)?;
            if !taken.ports.is_empty() {
                table::put_endpoint(tx, &row(&network.id, who.container, who.slot, &doc)?)?;
            }
            Ok(taken)
        })?;
        self.lead_ports(network, &taken.ports)?;
        taken.hold()
    }

    pub(super) fn waiting_ports(&self, container: &str) -> std::path::PathBuf {
        self.run.join("c").join(container).join("ports")
    }

    /// Takes the ports of the host; they are published on the first network that leads outside, which this is.
    pub(super) fn publish(
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
            if self.register.is_live(slot)? {
                ports.extend(parse::<Ports>(container, doc)?.ports);
            }
            Ok(())
        })?;
        Ok(ports)
    }

    /// The ports of running containers.
    pub(in crate::network) fn live_ports(&self) -> Result<Vec<Published>> {
        self.register.db.read(|tx| self.ports_in_use(tx))
    }

    /// Leads ports to a container that has them, over this network. Something that is led already gives way, if it leads to nobody.
    pub(super) fn lead_ports(&self, network: &Network, ports: &[Published]) -> Result<()> {
        if ports.is_empty() {
            return Ok(());
        }
        // Nobody takes it for what a killed program left.
        let _everywhere = self.locks.root()?;
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
    pub(in crate::network) fn sweep_ports(&self) -> Result<()> {
        if self.led_to_nobody()?.is_empty() {
            return Ok(());
        }
        let _everywhere = self.locks.root()?;
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

/// The ports of an [`EndpointDoc`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ports {
    ports: Vec<Published>,
}
