//! Where registries have a layer: what a push need not send again.

use super::failed;
use crate::error::Result;
use rusqlite::{Transaction, params};

/// This noun's table.
pub(crate) const SCHEMA: &str = "
CREATE TABLE layer_blobs (
    diff_id TEXT NOT NULL REFERENCES layers ON DELETE CASCADE,
    domain TEXT NOT NULL,
    repository TEXT NOT NULL,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (diff_id, domain, repository)
) WITHOUT ROWID;
";

/// A gzip blob of a layer in a repository (a path without the host).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlobRow {
    pub(crate) repository: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
}

/// Notes that the registry `domain` has that blob of the layer `diff_id`; nothing where the layer has gone meanwhile.
pub(crate) fn put(tx: &Transaction<'_>, diff_id: &str, domain: &str, blob: &BlobRow) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO layer_blobs (diff_id, domain, repository, digest, size)
        SELECT ?1, ?2, ?3, ?4, ?5 WHERE EXISTS (SELECT 1 FROM layers WHERE diff_id = ?1)";
    let size = i64::try_from(blob.size).unwrap_or(i64::MAX);
    let values = params![diff_id, domain, blob.repository, blob.digest, size];
    tx.prepare_cached(sql).and_then(|mut s| s.execute(values)).map(drop).map_err(failed)
}

/// The blobs of a layer in a registry.
pub(crate) fn of(tx: &Transaction<'_>, diff_id: &str, domain: &str) -> Result<Vec<BlobRow>> {
    let sql = "SELECT repository, digest, size FROM layer_blobs WHERE diff_id = ?1 AND domain = ?2";
    let row = |r: &rusqlite::Row<'_>| {
        let size: i64 = r.get(2)?;
        Ok(BlobRow { repository: r.get(0)?, digest: r.get(1)?, size: size.unsigned_abs() })
    };
    tx.prepare_cached(sql).and_then(|mut s| s.query_map([diff_id, domain], row)?.collect()).map_err(failed)
}

/// Whether a blob is known to be the layer `diff_id`: what it is somewhere, it is everywhere.
pub(crate) fn is_known(tx: &Transaction<'_>, diff_id: &str, digest: &str) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM layer_blobs WHERE diff_id = ?1 AND digest = ?2)";
    tx.prepare_cached(sql).and_then(|mut s| s.query_row([diff_id, digest], |r| r.get(0))).map_err(failed)
}

/// Forgets one that is not there any more.
pub(crate) fn remove(tx: &Transaction<'_>, diff_id: &str, domain: &str, repository: &str) -> Result<()> {
    let sql = "DELETE FROM layer_blobs WHERE diff_id = ?1 AND domain = ?2 AND repository = ?3";
    tx.execute(sql, [diff_id, domain, repository]).map(drop).map_err(failed)
}
