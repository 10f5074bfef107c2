//! Levels of SELinux: which container has which pair of categories.

use super::failed;
use crate::error::Result;
use rusqlite::Transaction;

/// This noun's table. Two containers have one level where one of them asked for the other's.
pub(crate) const SCHEMA: &str = "
CREATE TABLE levels (
    container_id TEXT PRIMARY KEY NOT NULL REFERENCES containers ON DELETE CASCADE,
    level        TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX levels_by_level ON levels (level);
";

/// Whether no container has a level.
pub(crate) fn is_free(tx: &Transaction<'_>, level: &str) -> Result<bool> {
    tx.prepare_cached("SELECT 1 FROM levels WHERE level = ?1")
        .and_then(|mut query| query.exists([level]))
        .map(|taken| !taken)
        .map_err(failed)
}

/// Makes a level a container's, in place of the one that it had.
pub(crate) fn keep(tx: &Transaction<'_>, container: &str, level: &str) -> Result<()> {
    tx.prepare_cached("INSERT OR REPLACE INTO levels (container_id, level) VALUES (?1, ?2)")
        .and_then(|mut add| add.execute([container, level]))
        .map(|_| ())
        .map_err(failed)
}
