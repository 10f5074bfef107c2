//! Managed plugins: their names, images and containers.

use super::failed;
use crate::error::{Error, ErrorKind, Result};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, params};
use std::path::Path;

/// This noun's table. `image_id` is a hidden image: its configuration is the plugin's. `container` runs the plugin; it is there as long
/// as the plugin is enabled, and while that changes. `document` is a JSON document of the layer of plugins.
pub(crate) const SCHEMA: &str = "
CREATE TABLE plugins (
    id        TEXT PRIMARY KEY NOT NULL,
    name      TEXT NOT NULL UNIQUE,
    image_id  TEXT NOT NULL,
    container TEXT REFERENCES containers ON DELETE SET NULL,
    enabled   INTEGER NOT NULL DEFAULT 0,
    document  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX plugins_by_container ON plugins (container);
CREATE INDEX plugins_by_image ON plugins (image_id);
";

/// A plugin as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PluginRow {
    pub id: String,
    /// With its tag.
    pub name: String,
    pub image_id: String,
    pub container: Option<String>,
    pub enabled: bool,
    pub document: String,
}

const COLUMNS: &str = "id, name, image_id, container, enabled, document";

fn row(row: &Row<'_>) -> rusqlite::Result<PluginRow> {
    Ok(PluginRow {
        id: row.get(0)?,
        name: row.get(1)?,
        image_id: row.get(2)?,
        container: row.get(3)?,
        enabled: row.get(4)?,
        document: row.get(5)?,
    })
}

/// Every plugin, by name.
pub(crate) fn all(tx: &Transaction<'_>) -> Result<Vec<PluginRow>> {
    let sql = format!("SELECT {COLUMNS} FROM plugins ORDER BY name");
    tx.prepare_cached(&sql).and_then(|mut query| query.query_map([], row)?.collect()).map_err(failed)
}

/// The plugin of that name.
pub(crate) fn named(tx: &Transaction<'_>, name: &str) -> Result<Option<PluginRow>> {
    let sql = format!("SELECT {COLUMNS} FROM plugins WHERE name = ?1");
    tx.prepare_cached(&sql).and_then(|mut query| query.query_row([name], row).optional()).map_err(failed)
}

/// The plugin with that id.
pub(crate) fn get(tx: &Transaction<'_>, id: &str) -> Result<Option<PluginRow>> {
    let sql = format!("SELECT {COLUMNS} FROM plugins WHERE id = ?1");
    tx.prepare_cached(&sql).and_then(|mut query| query.query_row([id], row).optional()).map_err(failed)
}

/// Adds a plugin. Errors: its name is taken ([`ErrorKind::Invalid`], as dockerd has it).
pub(crate) fn insert(tx: &Transaction<'_>, new: &PluginRow) -> Result<()> {
    if named(tx, &new.name)?.is_some() {
        return Err(Error::new(ErrorKind::Invalid, format!("plugin {} already exists", new.name)).in_area("plugin"));
    }
    let sql = "INSERT INTO plugins (id, name, image_id, document) VALUES (?1, ?2, ?3, ?4)";
    let values = params![new.id, new.name, new.image_id, new.document];
    tx.prepare_cached(sql).and_then(|mut add| add.execute(values)).map(drop).map_err(failed)
}

/// Puts another image and document in the place of a plugin's.
pub(crate) fn replace(tx: &Transaction<'_>, id: &str, image_id: &str, document: &str) -> Result<()> {
    let sql = "UPDATE plugins SET image_id = ?2, document = ?3 WHERE id = ?1";
    tx.prepare_cached(sql).and_then(|mut set| set.execute([id, image_id, document])).map(drop).map_err(failed)
}

/// Says which container runs a plugin, before it does.
pub(crate) fn set_container(tx: &Transaction<'_>, id: &str, container: &str) -> Result<()> {
    let sql = "UPDATE plugins SET container = ?2 WHERE id = ?1";
    tx.prepare_cached(sql).and_then(|mut set| set.execute([id, container])).map(drop).map_err(failed)
}

/// Says whether a plugin is enabled.
pub(crate) fn set_enabled(tx: &Transaction<'_>, id: &str, enabled: bool) -> Result<()> {
    let sql = "UPDATE plugins SET enabled = ?2 WHERE id = ?1";
    tx.prepare_cached(sql).and_then(|mut set| set.execute(params![id, enabled])).map(drop).map_err(failed)
}

/// Whether the database of a root that nobody opened has an enabled plugin of that name. A root of an earlier version has no plugins.
pub(crate) fn is_enabled_in(database: &Path, name: &str) -> Result<bool> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).map_err(failed)?;
    let is_there = |sql: &str, value: &str| connection.prepare(sql)?.exists([value]);
    let found = is_there("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1", "plugins")
        .and_then(|has| Ok(has && is_there("SELECT 1 FROM plugins WHERE enabled AND name = ?1", name)?));
    found.map_err(failed)
}

/// Forgets a plugin.
pub(crate) fn remove(tx: &Transaction<'_>, id: &str) -> Result<()> {
    tx.prepare_cached("DELETE FROM plugins WHERE id = ?1")
        .and_then(|mut delete| delete.execute([id]))
        .map(drop)
        .map_err(failed)
}

/// Whether a plugin has an image.
pub(super) fn has_image(tx: &Transaction<'_>, image_id: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM plugins WHERE image_id = ?1";
    tx.prepare_cached(sql).and_then(|mut query| query.exists([image_id])).map_err(failed)
}
