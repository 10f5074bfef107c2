//! Which containers have which images mounted, beside the image that each is made of.
//!
//! The table is made with the first such mount, so that an older version can open a root that has none.

use super::{failed, has_table};
use crate::error::Result;
use rusqlite::Transaction;

const TABLE: &str = "image_mounts";
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS image_mounts (
    container TEXT NOT NULL REFERENCES containers ON DELETE CASCADE,
    image     TEXT NOT NULL,
    PRIMARY KEY (container, image)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS image_mounts_by_image ON image_mounts (image);
";

/// Keeps that a container, whose row is there, mounts an image. It ends with the container's row.
pub(crate) fn put(tx: &Transaction<'_>, container: &str, image: &str) -> Result<()> {
    tx.execute_batch(SCHEMA).map_err(failed)?;
    tx.prepare_cached("INSERT OR IGNORE INTO image_mounts (container, image) VALUES (?1, ?2)")
        .and_then(|mut put| put.execute([container, image]))
        .map(drop)
        .map_err(failed)
}

/// Forgets the mounts of a container.
pub(crate) fn clear(tx: &Transaction<'_>, container: &str) -> Result<()> {
    if !has_table(tx, TABLE)? {
        return Ok(());
    }
    tx.prepare_cached("DELETE FROM image_mounts WHERE container = ?1")
        .and_then(|mut clear| clear.execute([container]))
        .map(drop)
        .map_err(failed)
}

/// Ids and slots of the containers that mount an image and are not made of it.
pub(super) fn of_image(tx: &Transaction<'_>, image: &str) -> Result<Vec<(String, u32)>> {
    if !has_table(tx, TABLE)? {
        return Ok(Vec::new());
    }
    let sql = "SELECT id, slot FROM image_mounts JOIN containers ON id = container WHERE image = ?1 AND image_id <> ?1";
    let mut query = tx.prepare_cached(sql).map_err(failed)?;
    let rows = query.query_map([image], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}
