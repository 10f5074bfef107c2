//! Links of the older kind: a container sees another one under an alias, on the default network.

use super::failed;
use crate::error::Result;
use rusqlite::{OptionalExtension, Transaction};

/// This noun's table. A link goes with either of its containers.
pub(crate) const SCHEMA: &str = "
CREATE TABLE links (
    parent_id TEXT NOT NULL,
    alias     TEXT NOT NULL,
    child_id  TEXT NOT NULL,
    PRIMARY KEY (parent_id, alias)
) STRICT, WITHOUT ROWID;
CREATE INDEX links_by_child ON links (child_id);
";

/// One link, with the names that its containers have now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub parent_id: String,
    pub parent: String,
    pub alias: String,
    pub child_id: String,
    pub child: String,
}

impl Link {
    /// The link's name, `/parent/alias`, by which the child is found.
    pub(crate) fn name(&self) -> String {
        format!("/{}/{}", self.parent, self.alias)
    }
}

/// Adds a link; one that the parent has under that alias stays.
pub(crate) fn add(tx: &Transaction<'_>, parent: &str, alias: &str, child: &str) -> Result<()> {
    tx.prepare_cached("INSERT OR IGNORE INTO links (parent_id, alias, child_id) VALUES (?1, ?2, ?3)")
        .and_then(|mut add| add.execute([parent, alias, child]))
        .map(|_| ())
        .map_err(failed)
}

/// The links that a container has to others, by alias.
pub(crate) fn of_parent(tx: &Transaction<'_>, parent: &str) -> Result<Vec<Link>> {
    select(tx, "WHERE l.parent_id = ?1", &[parent])
}

/// The links that others have to a container.
pub(crate) fn of_child(tx: &Transaction<'_>, child: &str) -> Result<Vec<Link>> {
    select(tx, "WHERE l.child_id = ?1", &[child])
}

/// Every link.
pub(crate) fn all(tx: &Transaction<'_>) -> Result<Vec<Link>> {
    select(tx, "", &[])
}

fn select(tx: &Transaction<'_>, which: &str, values: &[&str]) -> Result<Vec<Link>> {
    let sql = format!(
        "SELECT l.parent_id, p.name, l.alias, l.child_id, c.name FROM links l
         JOIN containers p ON p.id = l.parent_id JOIN containers c ON c.id = l.child_id {which} ORDER BY p.name, l.alias"
    );
    let mut query = tx.prepare_cached(&sql).map_err(failed)?;
    let link = |row: &rusqlite::Row<'_>| {
        Ok(Link {
            parent_id: row.get(0)?,
            parent: row.get(1)?,
            alias: row.get(2)?,
            child_id: row.get(3)?,
            child: row.get(4)?,
        })
    };
    let rows = query.query_map(rusqlite::params_from_iter(values), link).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// The id of the container that `parent/alias` means.
pub(crate) fn child_of(tx: &Transaction<'_>, parent: &str, alias: &str) -> Result<Option<String>> {
    tx.prepare_cached(
        "SELECT l.child_id FROM links l JOIN containers p ON p.id = l.parent_id WHERE p.name = ?1 AND l.alias = ?2",
    )
    .and_then(|mut query| query.query_row([parent, alias], |row| row.get(0)).optional())
    .map_err(failed)
}

/// Removes one link.
pub(crate) fn remove(tx: &Transaction<'_>, parent: &str, alias: &str) -> Result<()> {
    tx.prepare_cached("DELETE FROM links WHERE parent_id = ?1 AND alias = ?2")
        .and_then(|mut delete| delete.execute([parent, alias]))
        .map(|_| ())
        .map_err(failed)
}

/// Removes the links that a container has to others.
pub(crate) fn clear(tx: &Transaction<'_>, parent: &str) -> Result<()> {
    tx.prepare_cached("DELETE FROM links WHERE parent_id = ?1")
        .and_then(|mut delete| delete.execute([parent]))
        .map(|_| ())
        .map_err(failed)
}

/// Removes the links from and to a container.
pub(crate) fn forget(tx: &Transaction<'_>, container: &str) -> Result<()> {
    tx.prepare_cached("DELETE FROM links WHERE parent_id = ?1 OR child_id = ?1")
        .and_then(|mut delete| delete.execute([container]))
        .map(|_| ())
        .map_err(failed)
}
