//! The stored ends of containers: read, written, forgotten.

use super::{EndpointDoc, REST_NS};
use crate::error::{Error, Result};
use crate::network::{Network, Networks};
use crate::store::Flush;
use crate::store::networks::{self as table, EndpointRow};
use crate::time::now_ns;
use rusqlite::Transaction;
use serde::Deserialize;
use std::collections::BTreeMap;

impl Networks {
    /// Forgets the end on a network of a container that is not there any more; `reference` is its name or id.
    pub(crate) fn forget_gone(&self, network: &Network, reference: &str) -> Result<()> {
        let missing = || Error::not_found(format!("endpoint {reference} not found"));
        let reference = reference.trim_start_matches('/');
        let mut gone = None;
        for other in self.register.db.read(|tx| table::of_network(tx, &network.id))? {
            let doc = read(&other)?;
            let named = doc.name == reference || other.container_id == reference;
            if named && !(other.left_ns == 0 && self.register.is_live(other.slot)?) {
                gone = Some((other, doc));
            }
        }
        let (row, doc) = gone.ok_or_else(missing)?;
        self.part_remote(network, &doc);
        self.register.db.write(Flush::Lazy, |tx| table::delete_endpoint(tx, &network.id, &row.container_id))?;
        self.write_names(network)
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
        self.register.db.write(Flush::Lazy, |tx| table::delete_endpoint(tx, &network.id, container))?;
        self.write_names(network)
    }

    /// A container's ends as of its last start, by network id.
    pub(crate) fn endpoints(&self, container: &str) -> Result<BTreeMap<String, EndpointDoc>> {
        let mut ends = BTreeMap::new();
        self.register.db.read(|tx| {
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
        self.register.db.read(|tx| {
            table::each_present(tx, |_, container, slot, _| {
                *counts.entry((container.to_owned(), slot)).or_default() += 1;
                Ok(())
            })
        })?;
        Ok(counts.into_iter().filter(|(_, count)| *count > 1).map(|(who, _)| who).collect())
    }
}

/// Notes that a container is removed; its addresses rest for a moment.
pub(crate) fn leave(tx: &Transaction<'_>, container: &str) -> Result<()> {
    let now = now_ns();
    table::leave(tx, container, now, now - REST_NS)
}

pub(in crate::network) fn read(row: &EndpointRow) -> Result<EndpointDoc> {
    parse(&row.container_id, &row.doc)
}

pub(super) fn parse<'a, T: Deserialize<'a>>(container: &str, doc: &'a str) -> Result<T> {
    serde_json::from_str(doc).map_err(|error| Error::corrupt(format!("an endpoint of container {container}: {error}")))
}

pub(in crate::network) fn row(network: &str, container: &str, slot: u32, doc: &EndpointDoc) -> Result<EndpointRow> {
    let doc = serde_json::to_string(doc).map_err(|e| Error::internal(format!("write an endpoint: {e}")))?;
    Ok(EndpointRow { network_id: network.into(), container_id: container.into(), slot, doc, left_ns: 0 })
}
