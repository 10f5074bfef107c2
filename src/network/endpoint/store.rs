//! The stored endpoints of containers: read, written, forgotten.

use super::doc::EndpointDoc;
use crate::error::{Error, Result};
use crate::network::ports::Published;
use crate::network::register::Register;
use crate::network::spec::Network;
use crate::store::Flush;
use crate::store::networks::{self as table, EndpointRow};
use crate::time::now_ns;
use rusqlite::Transaction;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long the address of a container that ended is not given to another container, in nanoseconds.
pub(super) const REST_NS: i64 = 10_000_000_000;

/// The rows of endpoints.
pub(crate) struct EndpointStore {
    pub(in crate::network) register: Arc<Register>,
}

/// The ports of an [`EndpointDoc`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ports {
    ports: Vec<Published>,
}

impl EndpointStore {
    /// The endpoints of a container as of its last start, by network id.
    pub(crate) fn of_container(&self, container: &str) -> Result<BTreeMap<String, EndpointDoc>> {
        self.register.db.read(|tx| EndpointStore::of_container_in(tx, container))
    }

    /// As [`EndpointStore::of_container`], within a transaction.
    pub(crate) fn of_container_in(tx: &Transaction<'_>, container: &str) -> Result<BTreeMap<String, EndpointDoc>> {
        let mut ends = BTreeMap::new();
        table::each_of_container(tx, container, |network, doc| {
            ends.insert(network.to_owned(), parse(container, doc)?);
            Ok(())
        })?;
        Ok(ends)
    }

    /// The endpoints of every container, by container and network id.
    pub(crate) fn all_in(tx: &Transaction<'_>) -> Result<BTreeMap<String, BTreeMap<String, EndpointDoc>>> {
        let mut all: BTreeMap<String, BTreeMap<String, EndpointDoc>> = BTreeMap::new();
        table::each_present(tx, |network, container, _, doc| {
            all.entry(container.to_owned()).or_default().insert(network.to_owned(), parse(container, doc)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// The rows of a network.
    pub(in crate::network) fn of_network(&self, network: &Network) -> Result<Vec<EndpointRow>> {
        self.register.db.read(|tx| table::of_network(tx, &network.id))
    }

    /// The rows of all networks, with those of containers that are removed.
    pub(in crate::network) fn rows(&self) -> Result<Vec<EndpointRow>> {
        self.register.db.read(table::all_endpoints)
    }

    /// The containers that have endpoints on more than one network, with their slots.
    pub(crate) fn on_several(&self) -> Result<Vec<(String, u32)>> {
        let mut counts: BTreeMap<(String, u32), usize> = BTreeMap::new();
        self.register.db.read(|tx| {
            table::each_present(tx, |_, container, slot, _| {
                *counts.entry((container.to_owned(), slot)).or_default() += 1;
                Ok(())
            })
        })?;
        Ok(counts.into_iter().filter(|(_, count)| *count > 1).map(|(container, _)| container).collect())
    }

    /// The ports of running containers.
    pub(in crate::network) fn live_ports(&self) -> Result<Vec<Published>> {
        self.register.db.read(|tx| self.live_ports_in(tx))
    }

    /// The ports of running containers, read within a transaction.
    pub(super) fn live_ports_in(&self, tx: &Transaction<'_>) -> Result<Vec<Published>> {
        let mut ports = Vec::new();
        table::each_present(tx, |_, container, slot, doc| {
            if self.register.is_live(slot)? {
                ports.extend(parse::<Ports>(container, doc)?.ports);
            }
            Ok(())
        })?;
        Ok(ports)
    }

    /// Removes the row of a container's endpoint.
    pub(super) fn delete(&self, network: &Network, container: &str) -> Result<()> {
        self.register.db.write(Flush::Lazy, |tx| table::delete_endpoint(tx, &network.id, container))
    }
}

/// Notes that a container is removed; its addresses are not given out for a moment.
pub(crate) fn leave(tx: &Transaction<'_>, container: &str) -> Result<()> {
    let now = now_ns();
    table::leave(tx, container, now, now - REST_NS)
}

/// Reads the document of a row.
pub(in crate::network) fn read(row: &EndpointRow) -> Result<EndpointDoc> {
    parse(&row.container_id, &row.doc)
}

/// Reads a document, or a part of it.
pub(super) fn parse<'a, T: Deserialize<'a>>(container: &str, doc: &'a str) -> Result<T> {
    serde_json::from_str(doc).map_err(|error| Error::corrupt(format!("an endpoint of container {container}: {error}")))
}

/// The row of a container that is there.
pub(in crate::network) fn row(network: &str, container: &str, slot: u32, doc: &EndpointDoc) -> Result<EndpointRow> {
    let doc = serde_json::to_string(doc).map_err(|e| Error::internal(format!("write an endpoint: {e}")))?;
    Ok(EndpointRow { network_id: network.into(), container_id: container.into(), slot, doc, left_ns: 0 })
}
