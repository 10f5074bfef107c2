//! Removals under way: the work and the events that remain once the row of a container is gone, so that the next open does it
//! where the program was killed.

use super::failed;
use crate::error::Result;
use rusqlite::{OptionalExtension, Transaction};

/// This noun's table. `document` is a JSON document of the container layer's.
pub(crate) const SCHEMA: &str = "
CREATE TABLE removals (
    id       TEXT PRIMARY KEY NOT NULL,
    document TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Notes what the removal of a container is still to do.
pub(crate) fn begin(tx: &Transaction<'_>, id: &str, document: &str) -> Result<()> {
    tx.prepare_cached("INSERT OR REPLACE INTO removals (id, document) VALUES (?1, ?2)")
        .and_then(|mut add| add.execute([id, document]))
        .map(drop)
        .map_err(failed)
}

/// Forgets a removal: all of it was done.
pub(crate) fn end(tx: &Transaction<'_>, id: &str) -> Result<()> {
    tx.prepare_cached("DELETE FROM removals WHERE id = ?1")
        .and_then(|mut delete| delete.execute([id]))
        .map(drop)
        .map_err(failed)
}

/// The rest of a container's removal, if it is under way.
pub(crate) fn get(tx: &Transaction<'_>, id: &str) -> Result<Option<String>> {
    tx.prepare_cached("SELECT document FROM removals WHERE id = ?1")
        .and_then(|mut query| query.query_row([id], |row| row.get(0)).optional())
        .map_err(failed)
}

/// The ids of the containers whose removals are under way, or were cut short.
pub(crate) fn all(tx: &Transaction<'_>) -> Result<Vec<String>> {
    let mut query = tx.prepare_cached("SELECT id FROM removals").map_err(failed)?;
    let rows = query.query_map([], |row| row.get(0)).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}
