//! Networks, and the addresses of their containers.

use super::failed;
use crate::error::{Error, Result};
use crate::hex::is_hex;
use rusqlite::{OptionalExtension, Row, Transaction, params};

/// This noun's tables. `spec` and `doc` are JSON documents of the network layer's. Networks may share a name.
///
/// An endpoint is a container's end on a network as of its last start. It says nothing about whether the container
/// runs: that is its monitor's lock. The endpoint of a removed container stays for a moment, so that its address is not
/// given out again at once: `left_ns` is the time of the removal.
pub(crate) const SCHEMA: &str = "
CREATE TABLE networks (
    id         TEXT PRIMARY KEY NOT NULL,
    name       TEXT NOT NULL,
    created_ns INTEGER NOT NULL,
    spec       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX networks_by_name ON networks (name);
CREATE TABLE endpoints (
    network_id   TEXT NOT NULL,
    container_id TEXT NOT NULL,
    slot         INTEGER NOT NULL,
    doc          TEXT NOT NULL,
    left_ns      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (network_id, container_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX endpoints_by_container ON endpoints (container_id);
";

/// One network as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetworkRow {
    pub id: String,
    pub name: String,
    pub created_ns: i64,
    pub spec: String,
}

/// One endpoint as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointRow {
    pub network_id: String,
    pub container_id: String,
    /// The container's slot of the state files.
    pub slot: u32,
    pub doc: String,
    /// When its container was removed; 0: it is there.
    pub left_ns: i64,
}

const NETWORK: &str = "id, name, created_ns, spec";
const ENDPOINT: &str = "network_id, container_id, slot, doc, left_ns";

fn network(row: &Row<'_>) -> rusqlite::Result<NetworkRow> {
    Ok(NetworkRow { id: row.get(0)?, name: row.get(1)?, created_ns: row.get(2)?, spec: row.get(3)? })
}

fn endpoint(row: &Row<'_>) -> rusqlite::Result<EndpointRow> {
    Ok(EndpointRow {
        network_id: row.get(0)?,
        container_id: row.get(1)?,
        slot: row.get(2)?,
        doc: row.get(3)?,
        left_ns: row.get(4)?,
    })
}

/// Adds a network.
pub(crate) fn insert(tx: &Transaction<'_>, new: &NetworkRow) -> Result<()> {
    tx.prepare_cached("INSERT INTO networks (id, name, created_ns, spec) VALUES (?1, ?2, ?3, ?4)")
        .and_then(|mut add| add.execute(params![new.id, new.name, new.created_ns, new.spec]))
        .map(|_| ())
        .map_err(failed)
}

/// Replaces a network's document.
pub(crate) fn set_spec(tx: &Transaction<'_>, id: &str, spec: &str) -> Result<()> {
    tx.prepare_cached("UPDATE networks SET spec = ?2 WHERE id = ?1")
        .and_then(|mut update| update.execute([id, spec]))
        .map(|_| ())
        .map_err(failed)
}

/// Forgets a network and its endpoints.
pub(crate) fn delete(tx: &Transaction<'_>, id: &str) -> Result<()> {
    for sql in ["DELETE FROM endpoints WHERE network_id = ?1", "DELETE FROM networks WHERE id = ?1"] {
        tx.prepare_cached(sql).and_then(|mut delete| delete.execute([id])).map_err(failed)?;
    }
    Ok(())
}

/// Every network, oldest first.
pub(crate) fn all(tx: &Transaction<'_>) -> Result<Vec<NetworkRow>> {
    let sql = format!("SELECT {NETWORK} FROM networks ORDER BY created_ns, id");
    let mut query = tx.prepare_cached(&sql).map_err(failed)?;
    let rows = query.query_map([], network).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// The networks of a name.
pub(crate) fn by_name(tx: &Transaction<'_>, name: &str) -> Result<Vec<NetworkRow>> {
    let sql = format!("SELECT {NETWORK} FROM networks WHERE name = ?1 ORDER BY created_ns, id");
    let mut query = tx.prepare_cached(&sql).map_err(failed)?;
    let rows = query.query_map([name], network).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// Finds a network as people name it: full id, name, unique prefix of an id.
pub(crate) fn find(tx: &Transaction<'_>, reference: &str) -> Result<NetworkRow> {
    let sql = format!("SELECT {NETWORK} FROM networks WHERE id = ?1");
    let exact =
        tx.prepare_cached(&sql).and_then(|mut q| q.query_row([reference], network).optional()).map_err(failed)?;
    if let Some(found) = exact {
        return Ok(found);
    }
    let mut named = by_name(tx, reference)?;
    match named.len() {
        0 => by_prefix(tx, reference),
        1 => Ok(named.remove(0)),
        count => Err(ambiguous(count, "name", reference)),
    }
}

fn by_prefix(tx: &Transaction<'_>, prefix: &str) -> Result<NetworkRow> {
    let mut found = Vec::new();
    if is_hex(prefix) {
        let sql = format!("SELECT {NETWORK} FROM networks WHERE id >= ?1 AND id < ?2");
        let mut query = tx.prepare_cached(&sql).map_err(failed)?;
        // 'g' comes after every hex digit.
        let rows = query.query_map([prefix, &format!("{prefix}g")], network).map_err(failed)?;
        found = rows.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)?;
    }
    match found.len() {
        0 => Err(not_found(prefix)),
        1 => Ok(found.remove(0)),
        count => Err(ambiguous(count, "ID prefix", prefix)),
    }
}

fn ambiguous(count: usize, by: &str, reference: &str) -> Error {
    Error::invalid(format!("{count} matches found based on {by}: network {reference} is ambiguous"))
}

/// Adds or replaces an endpoint. Errors: the network was removed meanwhile.
pub(crate) fn put_endpoint(tx: &Transaction<'_>, new: &EndpointRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO endpoints (network_id, container_id, slot, doc, left_ns)
        SELECT id, ?2, ?3, ?4, ?5 FROM networks WHERE id = ?1";
    let put = tx
        .prepare_cached(sql)
        .and_then(|mut put| put.execute(params![new.network_id, new.container_id, new.slot, new.doc, new.left_ns]))
        .map_err(failed)?;
    if put == 0 { Err(not_found(&new.network_id)) } else { Ok(()) }
}

fn not_found(reference: &str) -> Error {
    Error::not_found(format!("network {reference} not found"))
}

/// The endpoints of a network.
pub(crate) fn of_network(tx: &Transaction<'_>, network_id: &str) -> Result<Vec<EndpointRow>> {
    endpoints(tx, "WHERE network_id = ?1", &[network_id])
}

/// Looks at the endpoints of a network where they lie: at each one's container, slot, document and when it left.
pub(crate) fn each_of_network(
    tx: &Transaction<'_>,
    network_id: &str,
    mut look: impl FnMut(&str, u32, &str, i64) -> Result<()>,
) -> Result<()> {
    let sql = format!("SELECT {ENDPOINT} FROM endpoints WHERE network_id = ?1");
    let mut query = tx.prepare_cached(&sql).map_err(failed)?;
    let mut rows = query.query([network_id]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let text = |at: usize| row.get_ref(at).and_then(|value| Ok(value.as_str()?)).map_err(failed);
        look(text(1)?, row.get(2).map_err(failed)?, text(3)?, row.get(4).map_err(failed)?)?;
    }
    Ok(())
}

/// Looks at the endpoints of a container where they lie: at each one's network and document.
pub(crate) fn each_of_container(
    tx: &Transaction<'_>,
    container_id: &str,
    mut look: impl FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    each(tx, "WHERE container_id = ?1", &[container_id], |network, _, _, doc| look(network, doc))
}

/// Looks at the endpoints of all containers that are there where they lie: at each one's network, container, slot and
/// document.
pub(crate) fn each_present(tx: &Transaction<'_>, look: impl FnMut(&str, &str, u32, &str) -> Result<()>) -> Result<()> {
    each(tx, "WHERE left_ns = 0", &[], look)
}

fn each(
    tx: &Transaction<'_>,
    which: &str,
    values: &[&str],
    mut look: impl FnMut(&str, &str, u32, &str) -> Result<()>,
) -> Result<()> {
    let mut query = tx.prepare_cached(&format!("SELECT {ENDPOINT} FROM endpoints {which}")).map_err(failed)?;
    let mut rows = query.query(rusqlite::params_from_iter(values)).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let text = |at: usize| row.get_ref(at).and_then(|value| Ok(value.as_str()?)).map_err(failed);
        look(text(0)?, text(1)?, row.get(2).map_err(failed)?, text(3)?)?;
    }
    Ok(())
}

/// The endpoints of a container.
pub(crate) fn of_container(tx: &Transaction<'_>, container_id: &str) -> Result<Vec<EndpointRow>> {
    endpoints(tx, "WHERE container_id = ?1", &[container_id])
}

/// Every endpoint.
pub(crate) fn all_endpoints(tx: &Transaction<'_>) -> Result<Vec<EndpointRow>> {
    endpoints(tx, "", &[])
}

fn endpoints(tx: &Transaction<'_>, which: &str, values: &[&str]) -> Result<Vec<EndpointRow>> {
    let mut query = tx.prepare_cached(&format!("SELECT {ENDPOINT} FROM endpoints {which}")).map_err(failed)?;
    let rows = query.query_map(rusqlite::params_from_iter(values), endpoint).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// Forgets a container's end on a network.
pub(crate) fn delete_endpoint(tx: &Transaction<'_>, network_id: &str, container_id: &str) -> Result<()> {
    tx.prepare_cached("DELETE FROM endpoints WHERE network_id = ?1 AND container_id = ?2")
        .and_then(|mut delete| delete.execute([network_id, container_id]))
        .map(|_| ())
        .map_err(failed)
}

/// Notes that a container is removed, and forgets what containers left before `before_ns`.
pub(crate) fn leave(tx: &Transaction<'_>, container_id: &str, now_ns: i64, before_ns: i64) -> Result<()> {
    tx.prepare_cached("UPDATE endpoints SET left_ns = ?2 WHERE container_id = ?1 AND left_ns = 0")
        .and_then(|mut update| update.execute(params![container_id, now_ns]))
        .map_err(failed)?;
    tx.prepare_cached("DELETE FROM endpoints WHERE left_ns != 0 AND left_ns < ?1")
        .and_then(|mut delete| delete.execute([before_ns]))
        .map(|_| ())
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::super::{Db, Durability, Flush};
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn nobody_joins_a_network_that_was_removed() {
        let root = std::env::temp_dir().join(format!("coracle-ends-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let db = Db::open(&root, Durability::Off).unwrap();
        let network = NetworkRow { id: "ab".into(), name: "n".into(), created_ns: 1, spec: "{}".into() };
        let end = |doc: &str| EndpointRow {
            network_id: "ab".into(),
            container_id: "cd".into(),
            slot: 1,
            doc: doc.into(),
            left_ns: 0,
        };
        let put = |doc| db.write(Flush::Lazy, |tx| put_endpoint(tx, &end(doc)));
        let there = || db.read(all_endpoints).unwrap();

        let early = put("1").unwrap_err();
        assert_eq!((early.kind(), early.message()), (ErrorKind::NotFound, "network ab not found"));
        db.write(Flush::Lazy, |tx| insert(tx, &network)).unwrap();
        put("1").unwrap();
        put("2").unwrap();
        assert_eq!(there(), [end("2")]);
        db.write(Flush::Lazy, |tx| delete(tx, "ab")).unwrap();
        assert!(put("3").is_err() && there().is_empty());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
