//! Volumes: which there are, and which container uses which.

use super::failed;
use crate::error::{Error, Result};
use rusqlite::{OptionalExtension, Row, Transaction, params};

/// This noun's tables. `options` and `labels` are JSON documents; `labels` is NULL where none were given, and so is
/// `options`. A use ends with its container's row.
pub(crate) const SCHEMA: &str = "
CREATE TABLE volumes (
    name       TEXT PRIMARY KEY NOT NULL,
    created_ns INTEGER NOT NULL,
    options    TEXT,
    labels     TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE volume_uses (
    container TEXT NOT NULL REFERENCES containers ON DELETE CASCADE,
    volume    TEXT NOT NULL REFERENCES volumes,
    PRIMARY KEY (container, volume)
) STRICT, WITHOUT ROWID;
CREATE INDEX volume_uses_by_volume ON volume_uses (volume);
";

/// One volume as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeRow {
    pub name: String,
    pub created_ns: i64,
    pub options: Option<String>,
    pub labels: Option<String>,
}

const COLUMNS: &str = "name, created_ns, options, labels";

fn row(row: &Row<'_>) -> rusqlite::Result<VolumeRow> {
    Ok(VolumeRow { name: row.get(0)?, created_ns: row.get(1)?, options: row.get(2)?, labels: row.get(3)? })
}

/// The volume of that name.
pub(crate) fn get(tx: &Transaction<'_>, name: &str) -> Result<Option<VolumeRow>> {
    let sql = format!("SELECT {COLUMNS} FROM volumes WHERE name = ?1");
    tx.prepare_cached(&sql).and_then(|mut query| query.query_row([name], row).optional()).map_err(failed)
}

/// Every volume by name, and whether a container uses it.
pub(crate) fn all(tx: &Transaction<'_>) -> Result<Vec<(VolumeRow, bool)>> {
    let sql = format!(
        "SELECT {COLUMNS}, EXISTS (SELECT 1 FROM volume_uses WHERE volume = name) AS used FROM volumes ORDER BY name"
    );
    let mut query = tx.prepare_cached(&sql).map_err(failed)?;
    let rows = query.query_map([], |found| Ok((row(found)?, found.get("used")?))).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// Adds a volume, which must be new.
pub(crate) fn insert(tx: &Transaction<'_>, new: &VolumeRow) -> Result<()> {
    let sql = "INSERT INTO volumes (name, created_ns, options, labels) VALUES (?1, ?2, ?3, ?4)";
    tx.prepare_cached(sql)
        .and_then(|mut add| add.execute(params![new.name, new.created_ns, new.options, new.labels]))
        .map(drop)
        .map_err(failed)
}

/// The ids of the containers that use a volume.
pub(crate) fn users(tx: &Transaction<'_>, name: &str) -> Result<Vec<String>> {
    let sql = "SELECT container FROM volume_uses WHERE volume = ?1 ORDER BY container";
    tx.prepare_cached(sql).and_then(|mut s| s.query_map([name], |r| r.get(0))?.collect()).map_err(failed)
}

/// The names of the volumes that a container uses.
pub(crate) fn used_by(tx: &Transaction<'_>, container: &str) -> Result<Vec<String>> {
    let sql = "SELECT volume FROM volume_uses WHERE container = ?1";
    tx.prepare_cached(sql).and_then(|mut s| s.query_map([container], |r| r.get(0))?.collect()).map_err(failed)
}

/// Notes that a container uses a volume; both must be there.
pub(crate) fn add_use(tx: &Transaction<'_>, container: &str, volume: &str) -> Result<()> {
    let sql = "INSERT OR IGNORE INTO volume_uses (container, volume) VALUES (?1, ?2)";
    tx.prepare_cached(sql).and_then(|mut add| add.execute([container, volume])).map(drop).map_err(failed)
}

/// Forgets what a container uses.
pub(crate) fn clear_uses(tx: &Transaction<'_>, container: &str) -> Result<()> {
    let sql = "DELETE FROM volume_uses WHERE container = ?1";
    tx.prepare_cached(sql).and_then(|mut gone| gone.execute([container])).map(drop).map_err(failed)
}

/// Forgets a volume. Errors: there is none of that name, or containers use it (their ids are in the text).
pub(crate) fn delete(tx: &Transaction<'_>, name: &str) -> Result<()> {
    let users = users(tx, name)?;
    if let Some(user) = users.first() {
        let text = format!("remove {name}: volume is in use - [{}]", users.join(", "));
        return Err(Error::conflict(text).with_other(user));
    }
    let gone = tx
        .prepare_cached("DELETE FROM volumes WHERE name = ?1")
        .and_then(|mut delete| delete.execute([name]))
        .map_err(failed)?;
    if gone == 0 { Err(Error::not_found(format!("get {name}: no such volume"))) } else { Ok(()) }
}
