//! Long specs of containers, beside the table of containers.
//!
//! The rows of containers lie in the order of their ids. A search there compares rows, and SQLite reads a row that does
//! not fit into its page as a whole for one comparison. So a long spec in a row would be read by requests about other
//! containers. It lies in a table of its own instead, which is searched by numbers and short ids, and the row holds a
//! mark.
//!
//! The table is made with the first long spec. A version that does not know the table takes the mark for a damaged
//! spec. It removes such a container with its long spec, because the database does that.

use super::failed;
use crate::error::Result;
use rusqlite::{Statement, Transaction};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS long_specs (
    number INTEGER PRIMARY KEY,
    id     TEXT NOT NULL UNIQUE REFERENCES containers ON DELETE CASCADE,
    spec   TEXT NOT NULL
) STRICT;
";

/// A spec with more bytes than this is a long one.
pub(super) const LONG: usize = 64 << 10;

/// The mark begins with this, as no JSON document does.
const MARK: &str = "long";

/// The words by which the index of containers with `AutoRemove` finds them: see `SCHEMA_AUTO_REMOVED`.
const AUTO_REMOVE: &str = r#""AutoRemove":true"#;

/// The mark for the row of a container with this spec; `None`: the spec is short, and its place is the row.
pub(super) fn mark(spec: &str) -> Option<String> {
    let words: &[&str] = if spec.contains(AUTO_REMOVE) { &[MARK, AUTO_REMOVE] } else { &[MARK] };
    (spec.len() > LONG).then(|| words.join(" "))
}

/// Whether the text of a row is a mark.
pub(super) fn is_mark(text: &str) -> bool {
    text.starts_with(MARK)
}

/// Stores the long spec of a container whose row is there, in the place of an earlier one.
pub(super) fn put(tx: &Transaction<'_>, id: &str, spec: impl AsRef<str>) -> Result<()> {
    tx.execute_batch(SCHEMA).map_err(failed)?;
    let sql = "INSERT INTO long_specs (id, spec) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET spec = excluded.spec";
    let mut put = tx.prepare_cached(sql).map_err(failed)?;
    bind(&mut put, id, spec.as_ref()).map_err(failed)?;
    // SQLite has its own copy now, and makes a second one: a third is too much.
    drop(spec);
    put.raw_execute().map(drop).map_err(failed)
}

fn bind(put: &mut Statement<'_>, id: &str, spec: &str) -> rusqlite::Result<()> {
    put.raw_bind_parameter(1, id)?;
    put.raw_bind_parameter(2, spec)
}

/// Forgets the long spec of a container, if it has one.
pub(super) fn forget(tx: &Transaction<'_>, id: &str) -> Result<()> {
    if !has_table(tx)? {
        return Ok(());
    }
    tx.prepare_cached("DELETE FROM long_specs WHERE id = ?1")
        .and_then(|mut delete| delete.execute([id]))
        .map(drop)
        .map_err(failed)
}

pub(super) fn has_table(tx: &Transaction<'_>) -> Result<bool> {
    super::has_table(tx, "long_specs")
}

/// Looks at the long spec of a container where it lies; an empty one if it is not there, which is damage of this
/// container.
pub(super) fn look<T>(tx: &Transaction<'_>, id: &str, take: impl FnOnce(&str) -> Result<T>) -> Result<T> {
    if !has_table(tx)? {
        return take("");
    }
    let mut query = tx.prepare_cached("SELECT spec FROM long_specs WHERE id = ?1").map_err(failed)?;
    let mut rows = query.query([id]).map_err(failed)?;
    match rows.next().map_err(failed)? {
        Some(row) => take(super::text(row.get_ref(0).map_err(failed)?)),
        None => take(""),
    }
}
