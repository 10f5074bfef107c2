//! Images, their names and layers.
//!
//! Ids and diff ids are stored as `sha256:<hex>`, names in their familiar form. An image that was removed by force
//! while a stopped container still needs it stays as a *hidden* row until the container goes: no name, not listed, but
//! its layers are held.

use super::{failed, image_mounts, plugins};
use crate::error::Result;
use crate::walls::Wall;
use rusqlite::{OptionalExtension, Row, Transaction, params};

/// This noun's tables.
pub(crate) const SCHEMA: &str = "
CREATE TABLE layers (
    diff_id TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    tar_size INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE images (
    id TEXT PRIMARY KEY,
    config BLOB NOT NULL,
    created INTEGER NOT NULL,
    parent TEXT,
    tagged INTEGER,
    hidden INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX images_parent ON images (parent);
CREATE INDEX images_hidden ON images (hidden) WHERE hidden = 1;
CREATE TABLE image_layers (
    image_id TEXT NOT NULL REFERENCES images ON DELETE CASCADE,
    position INTEGER NOT NULL,
    diff_id TEXT NOT NULL REFERENCES layers,
    PRIMARY KEY (image_id, position)
) WITHOUT ROWID;
CREATE INDEX image_layers_diff ON image_layers (diff_id);
CREATE TABLE image_names (
    name TEXT PRIMARY KEY,
    repository TEXT NOT NULL,
    is_digest INTEGER NOT NULL,
    image_id TEXT NOT NULL REFERENCES images ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX image_names_image ON image_names (image_id);
";

/// Images that builds stand on (by the name of the build's directory in `tmp/`): what they make of them has no row yet.
pub(crate) const SCHEMA_LEASES: &str = "
CREATE TABLE build_images (
    builder  TEXT NOT NULL,
    image_id TEXT NOT NULL REFERENCES images ON DELETE CASCADE,
    PRIMARY KEY (image_id, builder)
) STRICT, WITHOUT ROWID;
";

/// Images that were made here, by builds and commits: a build takes its steps from no others. The history
/// of a loaded or pulled image is only its own claim.
pub(crate) const SCHEMA_MADE_HERE: &str = "
CREATE TABLE made_here (
    image_id TEXT PRIMARY KEY REFERENCES images ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
";

/// One image row.
#[derive(Debug, Clone)]
pub(crate) struct ImageRow {
    pub(crate) id: String,
    /// The configuration's very bytes: the id is their digest.
    pub(crate) config: Vec<u8>,
    /// Unix nanoseconds, as the configuration says.
    pub(crate) created: i64,
    /// The local image that it was made from, where one was.
    pub(crate) parent: Option<String>,
}

/// One name of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NameRow {
    /// `repository:tag` or `repository@digest`, familiar.
    pub(crate) name: String,
    pub(crate) repository: String,
    pub(crate) is_digest: bool,
    pub(crate) image_id: String,
}

const COLUMNS: &str = "id, config, created, parent";

fn image_row(row: &Row<'_>) -> rusqlite::Result<ImageRow> {
    Ok(ImageRow { id: row.get(0)?, config: row.get(1)?, created: row.get(2)?, parent: row.get(3)? })
}

fn name_row(row: &Row<'_>) -> rusqlite::Result<NameRow> {
    Ok(NameRow { name: row.get(0)?, repository: row.get(1)?, is_digest: row.get(2)?, image_id: row.get(3)? })
}

/// The image with that exact id, hidden or not.
pub(crate) fn any(tx: &Transaction<'_>, id: &str) -> Result<Option<ImageRow>> {
    let sql = format!("SELECT {COLUMNS} FROM images WHERE id = ?1");
    tx.prepare_cached(&sql).and_then(|mut s| s.query_row([id], image_row).optional()).map_err(failed)
}

/// The image with that exact id, unless hidden.
pub(crate) fn get(tx: &Transaction<'_>, id: &str) -> Result<Option<ImageRow>> {
    let sql = format!("SELECT {COLUMNS} FROM images WHERE id = ?1 AND hidden = 0");
    tx.prepare_cached(&sql).and_then(|mut s| s.query_row([id], image_row).optional()).map_err(failed)
}

/// Every image that is not hidden, newest first.
pub(crate) fn all(tx: &Transaction<'_>) -> Result<Vec<ImageRow>> {
    let sql = format!("SELECT {COLUMNS} FROM images WHERE hidden = 0 ORDER BY created DESC, id");
    tx.prepare_cached(&sql).and_then(|mut s| s.query_map([], image_row)?.collect()).map_err(failed)
}

/// Ids that begin with `sha256:<prefix>`, at most `limit` of them. The prefix must be hex digits.
pub(crate) fn by_prefix(tx: &Transaction<'_>, prefix: &str, limit: u32) -> Result<Vec<String>> {
    let low = format!("sha256:{prefix}");
    // 'g' sorts after every hex digit.
    let high = format!("{low}g");
    let sql = "SELECT id FROM images WHERE id >= ?1 AND id < ?2 AND hidden = 0 ORDER BY id LIMIT ?3";
    tx.prepare_cached(sql)
        .and_then(|mut s| s.query_map(params![low, high, limit], |r| r.get(0))?.collect())
        .map_err(failed)
}

/// Inserts an image with its layers (which must be there), or brings a hidden one back. Answers whether it is new.
pub(crate) fn insert(tx: &Transaction<'_>, image: &ImageRow, layers: &[String]) -> Result<bool> {
    if any(tx, &image.id)?.is_some() {
        let changed =
            tx.execute("UPDATE images SET hidden = 0 WHERE id = ?1 AND hidden = 1", [&image.id]).map_err(failed)?;
        return Ok(changed > 0);
    }
    tx.execute(
        "INSERT INTO images (id, config, created, parent) VALUES (?1, ?2, ?3, ?4)",
        params![image.id, image.config, image.created, image.parent],
    )
    .map_err(failed)?;
    for (position, diff_id) in layers.iter().enumerate() {
        tx.execute(
            "INSERT INTO image_layers (image_id, position, diff_id) VALUES (?1, ?2, ?3)",
            params![image.id, position as i64, diff_id],
        )
        .map_err(failed)?;
    }
    Ok(true)
}

/// Hides an image that nobody named: the files of a plugin.
pub(crate) fn hide(tx: &Transaction<'_>, id: &str) -> Result<()> {
    let sql =
        "UPDATE images SET hidden = 1 WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM image_names WHERE image_id = ?1)";
    tx.execute(sql, [id]).map(drop).map_err(failed)
}

/// The diff ids of an image's layers, bottom first.
pub(crate) fn layers(tx: &Transaction<'_>, id: &str) -> Result<Vec<String>> {
    let sql = "SELECT diff_id FROM image_layers WHERE image_id = ?1 ORDER BY position";
    tx.prepare_cached(sql).and_then(|mut s| s.query_map([id], |r| r.get(0))?.collect()).map_err(failed)
}

/// The bytes of each layer's files, bottom first.
pub(crate) fn layer_sizes(tx: &Transaction<'_>, id: &str) -> Result<Vec<i64>> {
    let sql = "SELECT size FROM image_layers JOIN layers USING (diff_id) WHERE image_id = ?1 ORDER BY position";
    tx.prepare_cached(sql).and_then(|mut s| s.query_map([id], |r| r.get(0))?.collect()).map_err(failed)
}

/// The diff ids of an image's layers and the bytes of their files, bottom first.
pub(crate) fn sized_layers(tx: &Transaction<'_>, id: &str) -> Result<Vec<(String, i64)>> {
    let sql =
        "SELECT diff_id, size FROM image_layers JOIN layers USING (diff_id) WHERE image_id = ?1 ORDER BY position";
    tx.prepare_cached(sql)
        .and_then(|mut s| s.query_map([id], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)
}

/// The bytes of files in all layers that an image has.
pub(crate) fn all_layers_size(tx: &Transaction<'_>) -> Result<i64> {
    let sql = "SELECT coalesce(sum(size), 0) FROM layers WHERE diff_id IN (SELECT diff_id FROM image_layers)";
    tx.prepare_cached(sql).and_then(|mut s| s.query_row([], |r| r.get(0))).map_err(failed)
}

/// The diff ids of an image's layers and the sizes of their tars, bottom first.
pub(crate) fn tars(tx: &Transaction<'_>, id: &str) -> Result<Vec<(String, i64)>> {
    let sql =
        "SELECT diff_id, tar_size FROM image_layers JOIN layers USING (diff_id) WHERE image_id = ?1 ORDER BY position";
    tx.prepare_cached(sql)
        .and_then(|mut s| s.query_map([id], |r| Ok((r.get(0)?, r.get(1)?)))?.collect())
        .map_err(failed)
}

/// Whether a layer is in the store.
pub(crate) fn has_layer(tx: &Transaction<'_>, diff_id: &str) -> Result<bool> {
    tx.prepare_cached("SELECT 1 FROM layers WHERE diff_id = ?1").and_then(|mut s| s.exists([diff_id])).map_err(failed)
}

/// How many images there are that can be seen, and how many bytes the files of all layers have.
pub(crate) fn totals(tx: &Transaction<'_>) -> Result<(u64, u64)> {
    let sql = "SELECT (SELECT count(*) FROM images WHERE hidden = 0), (SELECT coalesce(sum(size), 0) FROM layers)";
    let mut query = tx.prepare_cached(sql).map_err(failed)?;
    let number = |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at).map(i64::unsigned_abs);
    query.query_row([], |row| Ok((number(row, 0)?, number(row, 1)?))).map_err(failed)
}

/// Makes a layer known: `size` bytes of files, `tar_size` bytes of tar.
pub(crate) fn insert_layer(tx: &Transaction<'_>, diff_id: &str, size: i64, tar_size: i64) -> Result<()> {
    let sql = "INSERT INTO layers (diff_id, size, tar_size) VALUES (?1, ?2, ?3)";
    tx.execute(sql, params![diff_id, size, tar_size]).map(drop).map_err(failed)
}

/// Whether an image, hidden or not, has a layer.
pub(crate) fn layer_is_used(tx: &Transaction<'_>, diff_id: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM image_layers WHERE diff_id = ?1";
    tx.prepare_cached(sql).and_then(|mut s| s.exists([diff_id])).map_err(failed)
}

/// The bytes of files in the layers that no image holds.
pub(crate) fn unused_layer_bytes(tx: &Transaction<'_>) -> Result<u64> {
    let sql = "SELECT coalesce(sum(size), 0) FROM layers WHERE diff_id NOT IN (SELECT diff_id FROM image_layers)";
    let bytes: i64 = tx.prepare_cached(sql).and_then(|mut s| s.query_row([], |r| r.get(0))).map_err(failed)?;
    Ok(bytes.unsigned_abs())
}

/// The diff ids of all layers, sorted.
pub(crate) fn all_layers(tx: &Transaction<'_>) -> Result<Vec<String>> {
    let sql = "SELECT diff_id FROM layers ORDER BY diff_id";
    tx.prepare_cached(sql).and_then(|mut s| s.query_map([], |r| r.get(0))?.collect()).map_err(failed)
}

/// The images, hidden or not, that have a layer.
pub(crate) fn images_of_layer(tx: &Transaction<'_>, diff_id: &str) -> Result<Vec<String>> {
    let sql = "SELECT DISTINCT image_id FROM image_layers WHERE diff_id = ?1 ORDER BY image_id";
    tx.prepare_cached(sql).and_then(|mut s| s.query_map([diff_id], |r| r.get(0))?.collect()).map_err(failed)
}

/// Every image, hidden or not.
pub(crate) fn all_with_hidden(tx: &Transaction<'_>) -> Result<Vec<ImageRow>> {
    let sql = format!("SELECT {COLUMNS} FROM images ORDER BY id");
    tx.prepare_cached(&sql).and_then(|mut s| s.query_map([], image_row)?.collect()).map_err(failed)
}

/// Puts an image's own configuration in the place of a damaged one.
pub(crate) fn set_config(tx: &Transaction<'_>, id: &str, config: &[u8]) -> Result<()> {
    tx.execute("UPDATE images SET config = ?2 WHERE id = ?1", params![id, config]).map(drop).map_err(failed)
}

/// The damage that SQLite finds in the database itself.
pub(crate) fn damage(tx: &Transaction<'_>) -> Result<Option<String>> {
    let said: String = tx.query_row("PRAGMA quick_check(1)", [], |r| r.get(0)).map_err(failed)?;
    Ok((said != "ok").then_some(said))
}

/// Forgets the layers that no image holds; answers them.
pub(crate) fn drop_unused_layers(tx: &Transaction<'_>) -> Result<Vec<String>> {
    let sql = "DELETE FROM layers WHERE diff_id NOT IN (SELECT diff_id FROM image_layers) RETURNING diff_id";
    tx.prepare_cached(sql).and_then(|mut s| s.query_map([], |r| r.get(0))?.collect()).map_err(failed)
}

/// Every name, sorted.
pub(crate) fn all_names(tx: &Transaction<'_>) -> Result<Vec<NameRow>> {
    let sql = "SELECT name, repository, is_digest, image_id FROM image_names ORDER BY name";
    tx.prepare_cached(sql).and_then(|mut s| s.query_map([], name_row)?.collect()).map_err(failed)
}

/// The names of one image, sorted.
pub(crate) fn names(tx: &Transaction<'_>, id: &str) -> Result<Vec<NameRow>> {
    let sql = "SELECT name, repository, is_digest, image_id FROM image_names WHERE image_id = ?1 ORDER BY name";
    tx.prepare_cached(sql).and_then(|mut s| s.query_map([id], name_row)?.collect()).map_err(failed)
}

/// The image that has a name (in its familiar form).
pub(crate) fn named(tx: &Transaction<'_>, name: &str) -> Result<Option<String>> {
    let sql = "SELECT image_id FROM image_names WHERE name = ?1";
    tx.prepare_cached(sql).and_then(|mut s| s.query_row([name], |r| r.get(0)).optional()).map_err(failed)
}

/// Gives a name to an image at `now` (Unix nanoseconds); answers the other image that had it.
pub(crate) fn set_name(tx: &Transaction<'_>, row: &NameRow, now: i64) -> Result<Option<String>> {
    let before = named(tx, &row.name)?.filter(|id| *id != row.image_id);
    tx.execute(
        "INSERT OR REPLACE INTO image_names (name, repository, is_digest, image_id) VALUES (?1, ?2, ?3, ?4)",
        params![row.name, row.repository, row.is_digest, row.image_id],
    )
    .map_err(failed)?;
    tx.execute("UPDATE images SET tagged = ?2 WHERE id = ?1", params![row.image_id, now]).map_err(failed)?;
    Ok(before)
}

/// Takes a name away.
pub(crate) fn remove_name(tx: &Transaction<'_>, name: &str) -> Result<()> {
    tx.execute("DELETE FROM image_names WHERE name = ?1", [name]).map(drop).map_err(failed)
}

/// Says of an image that it was made here.
pub(crate) fn made_here(tx: &Transaction<'_>, id: &str) -> Result<()> {
    tx.execute("INSERT OR IGNORE INTO made_here (image_id) VALUES (?1)", [id]).map(drop).map_err(failed)
}

/// The visible images made here from that one (absent: from none), newest first.
pub(crate) fn children(tx: &Transaction<'_>, parent: Option<&str>) -> Result<Vec<ImageRow>> {
    let here = if Wall::BuildCache.stands() { "AND id IN (SELECT image_id FROM made_here)" } else { "" };
    let sql = format!(
        "SELECT {COLUMNS} FROM images WHERE parent IS ?1 AND hidden = 0 {here} ORDER BY created DESC, rowid DESC"
    );
    tx.prepare_cached(&sql).and_then(|mut s| s.query_map([parent], image_row)?.collect()).map_err(failed)
}

/// Says which local image one was made from.
pub(crate) fn set_parent(tx: &Transaction<'_>, id: &str, parent: &str) -> Result<()> {
    tx.execute("UPDATE images SET parent = ?2 WHERE id = ?1", [id, parent]).map(drop).map_err(failed)
}

/// Whether a visible image was made from this one.
pub(crate) fn has_children(tx: &Transaction<'_>, id: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM images WHERE parent = ?1 AND hidden = 0";
    tx.prepare_cached(sql).and_then(|mut s| s.exists([id])).map_err(failed)
}

/// Deletes an image, or hides it where a container still needs its layers.
pub(crate) fn remove(tx: &Transaction<'_>, id: &str) -> Result<()> {
    tx.execute("DELETE FROM image_names WHERE image_id = ?1", [id]).map_err(failed)?;
    let sql = if is_used(tx, id)? {
        "UPDATE images SET hidden = 1 WHERE id = ?1"
    } else {
        "DELETE FROM images WHERE id = ?1"
    };
    tx.execute(sql, [id]).map(drop).map_err(failed)
}

/// Deletes the hidden images that no container needs any more; answers whether there were some.
pub(crate) fn remove_unheld(tx: &Transaction<'_>) -> Result<bool> {
    let sql = "SELECT id FROM images WHERE hidden = 1";
    let hidden: Vec<String> =
        tx.prepare_cached(sql).and_then(|mut s| s.query_map([], |r| r.get(0))?.collect()).map_err(failed)?;
    let mut any = false;
    for id in hidden {
        if !is_used(tx, &id)? {
            tx.execute("DELETE FROM images WHERE id = ?1", [&id]).map_err(failed)?;
            any = true;
        }
    }
    Ok(any)
}

/// Whether there are images that are only kept for containers.
pub(crate) fn any_hidden(tx: &Transaction<'_>) -> Result<bool> {
    tx.prepare_cached("SELECT 1 FROM images WHERE hidden = 1").and_then(|mut s| s.exists([])).map_err(failed)
}

fn is_used(tx: &Transaction<'_>, id: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM containers WHERE image_id = ?1";
    let is_base = || tx.prepare_cached(sql).and_then(|mut s| s.exists([id])).map_err(failed);
    Ok(is_leased(tx, id)? || is_base()? || plugins::has_image(tx, id)? || !image_mounts::of_image(tx, id)?.is_empty())
}

/// Whether a build that is not over stands on an image.
pub(crate) fn is_leased(tx: &Transaction<'_>, id: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM build_images WHERE image_id = ?1";
    tx.prepare_cached(sql).and_then(|mut s| s.exists([id])).map_err(failed)
}

/// Lets a build stand on an image, which must be there.
pub(crate) fn lease(tx: &Transaction<'_>, builder: &str, id: &str) -> Result<()> {
    let sql = "INSERT OR IGNORE INTO build_images (builder, image_id) VALUES (?1, ?2)";
    tx.execute(sql, [builder, id]).map(drop).map_err(failed)
}

/// Lets one stand on all images, hidden ones too.
pub(crate) fn lease_all(tx: &Transaction<'_>, builder: &str) -> Result<()> {
    let sql = "INSERT OR IGNORE INTO build_images (builder, image_id) SELECT ?1, id FROM images";
    tx.execute(sql, [builder]).map(drop).map_err(failed)
}

/// Ends a build's leases.
pub(crate) fn end_leases(tx: &Transaction<'_>, builder: &str) -> Result<()> {
    tx.execute("DELETE FROM build_images WHERE builder = ?1", [builder]).map(drop).map_err(failed)
}

/// The builds that stand on images.
pub(crate) fn lease_holders(tx: &Transaction<'_>) -> Result<Vec<String>> {
    let sql = "SELECT DISTINCT builder FROM build_images";
    tx.prepare_cached(sql).and_then(|mut s| s.query_map([], |r| r.get(0))?.collect()).map_err(failed)
}
