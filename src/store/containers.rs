//! Containers: their ids, names and slots in the state files.

use super::{failed, image_mounts, long_specs, text};
use crate::error::{Error, ErrorKind, Result};
use crate::hex::is_hex;
use rusqlite::{OptionalExtension, Row, Statement, Transaction};

/// This noun's tables. `slot` is the container's place in the state files; `spec` is a JSON document of the container
/// layer's, or the mark of a long one (`long_specs.rs`); `error` is why the last start failed.
pub(crate) const SCHEMA: &str = "
CREATE TABLE containers (
    id         TEXT PRIMARY KEY NOT NULL,
    slot       INTEGER NOT NULL UNIQUE,
    name       TEXT NOT NULL UNIQUE,
    created_ns INTEGER NOT NULL,
    image_id   TEXT NOT NULL,
    spec       TEXT NOT NULL,
    error      TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX containers_by_image ON containers (image_id);
";

/// Containers that belong to a build (the name of its directory in `tmp/`), and go with it.
pub(crate) const SCHEMA_BUILDS: &str = "
CREATE TABLE build_containers (
    id      TEXT PRIMARY KEY NOT NULL REFERENCES containers ON DELETE CASCADE,
    builder TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Which containers go when they have ended, as their specs say. Within a text of a spec the quotation marks would have
/// backslashes. The index holds ids of such containers alone, so that an open need not read the specs of all.
pub(crate) const SCHEMA_AUTO_REMOVED: &str = r#"
CREATE INDEX containers_auto_removed ON containers (id) WHERE instr(spec, '"AutoRemove":true') > 0;
"#;

/// One container as stored, but for its spec: that may be long, and is looked at where it lies ([`Take`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerRow {
    pub id: String,
    pub slot: u32,
    /// Without a leading slash.
    pub name: String,
    pub created_ns: i64,
    pub image_id: String,
    pub error: String,
}

/// Takes a container and the text of its spec as it lies in the database.
pub(crate) type Take<'a, T> = &'a mut dyn FnMut(ContainerRow, &str) -> Result<T>;

const COLUMNS: &str = "id, slot, name, created_ns, image_id, error";

fn row(row: &Row<'_>) -> rusqlite::Result<ContainerRow> {
    Ok(ContainerRow {
        id: row.get(0)?,
        slot: row.get(1)?,
        name: row.get(2)?,
        created_ns: row.get(3)?,
        image_id: row.get(4)?,
        error: row.get(5)?,
    })
}

/// The container of which a column has this value.
fn one<T>(tx: &Transaction<'_>, column: &str, value: &str, take: Take<'_, T>) -> Result<Option<T>> {
    let sql = format!("SELECT {COLUMNS}, spec FROM containers WHERE {column} = ?1");
    let mut query = tx.prepare_cached(&sql).map_err(failed)?;
    let mut rows = query.query([value]).map_err(failed)?;
    let Some(found) = rows.next().map_err(failed)? else { return Ok(None) };
    with_spec(tx, found, take).map(Some)
}

/// Hands on the container of a row, with its spec from where it lies.
fn with_spec<T>(tx: &Transaction<'_>, found: &Row<'_>, take: Take<'_, T>) -> Result<T> {
    let container = row(found).map_err(failed)?;
    match text(found.get_ref(6).map_err(failed)?) {
        mark if long_specs::is_mark(mark) => {
            let id = container.id.clone();
            long_specs::look(tx, &id, |spec| take(container, spec))
        }
        spec => take(container, spec),
    }
}

/// The lowest slot above `above` that no container has; slots begin with 1.
pub(crate) fn free_slot(tx: &Transaction<'_>, above: u32) -> Result<u32> {
    let mut query = tx.prepare_cached("SELECT slot FROM containers WHERE slot > ?1 ORDER BY slot").map_err(failed)?;
    let mut rows = query.query([above]).map_err(failed)?;
    let mut free = above + 1;
    while let Some(row) = rows.next().map_err(failed)? {
        if row.get::<_, u32>(0).map_err(failed)? != free {
            break;
        }
        free += 1;
    }
    Ok(free)
}

/// Adds a container with its spec. Errors: the name is taken ([`ErrorKind::Conflict`], with the id of the one that has
/// it).
pub(crate) fn insert(tx: &Transaction<'_>, new: &ContainerRow, spec: String) -> Result<()> {
    name_is_free(tx, &new.name)?;
    let sql = "INSERT INTO containers (id, slot, name, created_ns, image_id, spec) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut add = tx.prepare_cached(sql).map_err(failed)?;
    if let Some(mark) = long_specs::mark(&spec) {
        bind(&mut add, new, &mark).and_then(|()| add.raw_execute()).map_err(failed)?;
        return long_specs::put(tx, &new.id, spec);
    }
    bind(&mut add, new, &spec).map_err(failed)?;
    // SQLite has its own copy now, and makes a second one: a third is too much where it is long.
    drop(spec);
    add.raw_execute().map(drop).map_err(failed)
}

fn bind(add: &mut Statement<'_>, new: &ContainerRow, spec: &str) -> rusqlite::Result<()> {
    add.raw_bind_parameter(1, &new.id)?;
    add.raw_bind_parameter(2, new.slot)?;
    add.raw_bind_parameter(3, &new.name)?;
    add.raw_bind_parameter(4, new.created_ns)?;
    add.raw_bind_parameter(5, &new.image_id)?;
    add.raw_bind_parameter(6, spec)
}

fn name_is_free(tx: &Transaction<'_>, name: &str) -> Result<()> {
    match id_of_name(tx, name)? {
        None => Ok(()),
        Some(id) => Err(Error::conflict(format!(
            "Conflict. The container name \"/{name}\" is already in use by container \"{id}\". You have to remove (or \
             rename) that container to be able to reuse that name."
        ))
        .with_other(id)),
    }
}

fn id_of_name(tx: &Transaction<'_>, name: &str) -> Result<Option<String>> {
    tx.prepare_cached("SELECT id FROM containers WHERE name = ?1")
        .and_then(|mut query| query.query_row([name], |row| row.get(0)).optional())
        .map_err(failed)
}

/// Finds a container as people name it: full id, name (a leading slash is fine), name of a link
/// to it (`parent/alias`), unique prefix of an id. Errors: no such
/// container, or the prefix fits several.
pub(crate) fn find<T>(tx: &Transaction<'_>, reference: &str, take: Take<'_, T>) -> Result<T> {
    if reference.is_empty() {
        return Err(Error::invalid("invalid name or ID supplied: \"\""));
    }
    let name = reference.strip_prefix('/').unwrap_or(reference);
    // Not one query with OR: SQLite would make a temporary table for it, and prepare it anew each time.
    if let Some(found) = by_id(tx, reference, take)? {
        return Ok(found);
    }
    if let Some(found) = one(tx, "name", name, take)? {
        return Ok(found);
    }
    if let Some((parent, alias)) = name.split_once('/')
        && let Some(id) = super::links::child_of(tx, parent, alias)?
        && let Some(child) = by_id(tx, &id, take)?
    {
        return Ok(child);
    }
    let missing = || Error::not_found(format!("No such container: {reference}"));
    match by_prefix(tx, reference)?.as_slice() {
        [] => Err(missing()),
        [id] => by_id(tx, id, take)?.ok_or_else(missing),
        _ => Err(Error::new(ErrorKind::Internal, format!("Multiple IDs found with provided prefix: {reference}"))),
    }
}

/// At most two ids that begin like that.
fn by_prefix(tx: &Transaction<'_>, prefix: &str) -> Result<Vec<String>> {
    if !is_hex(prefix) {
        return Ok(Vec::new());
    }
    // 'g' comes after every hex digit.
    let mut query =
        tx.prepare_cached("SELECT id FROM containers WHERE id >= ?1 AND id < ?2 LIMIT 2").map_err(failed)?;
    let rows = query.query_map([prefix, &format!("{prefix}g")], |row| row.get(0)).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// A container by its full id, if it is there.
pub(crate) fn by_id<T>(tx: &Transaction<'_>, id: &str, take: Take<'_, T>) -> Result<Option<T>> {
    one(tx, "id", id, take)
}

/// A container by its full id, without its spec.
pub(crate) fn bare(tx: &Transaction<'_>, id: &str) -> Result<Option<ContainerRow>> {
    let sql = format!("SELECT {COLUMNS} FROM containers WHERE id = ?1");
    tx.prepare_cached(&sql).and_then(|mut query| query.query_row([id], row).optional()).map_err(failed)
}

/// Whether there is a container of that full id.
pub(crate) fn is_there(tx: &Transaction<'_>, id: &str) -> Result<bool> {
    tx.prepare_cached("SELECT 1 FROM containers WHERE id = ?1").and_then(|mut query| query.exists([id])).map_err(failed)
}

/// The ids of all containers and their slots: what an open looks at, without their specs.
pub(crate) fn slots(tx: &Transaction<'_>) -> Result<Vec<(String, u32)>> {
    let mut query = tx.prepare_cached("SELECT id, slot FROM containers").map_err(failed)?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// As [`slots`], without the containers that run plugins.
pub(crate) fn visible_slots(tx: &Transaction<'_>) -> Result<Vec<(String, u32)>> {
    let sql =
        "SELECT id, slot FROM containers WHERE id NOT IN (SELECT container FROM plugins WHERE container IS NOT NULL)";
    let mut query = tx.prepare_cached(sql).map_err(failed)?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// The ids of the containers that go when they have ended. The index is named: without its partial index SQLite answers
/// an error then, and no slow search goes unnoticed.
pub(crate) fn auto_removed(tx: &Transaction<'_>) -> Result<Vec<String>> {
    let sql =
        r#"SELECT id FROM containers INDEXED BY containers_auto_removed WHERE instr(spec, '"AutoRemove":true') > 0"#;
    let mut query = tx.prepare_cached(sql).map_err(failed)?;
    let rows = query.query_map([], |row| row.get(0)).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// Whether a container has this name.
pub(crate) fn has_name(tx: &Transaction<'_>, name: &str) -> Result<bool> {
    id_of_name(tx, name).map(|id| id.is_some())
}

/// Every container, in no order.
pub(crate) fn each<T>(tx: &Transaction<'_>, mut take: impl FnMut(ContainerRow, &str) -> Result<T>) -> Result<Vec<T>> {
    let mut query = tx.prepare_cached(&format!("SELECT {COLUMNS}, spec FROM containers")).map_err(failed)?;
    let mut rows = query.query([]).map_err(failed)?;
    let mut all = Vec::new();
    while let Some(found) = rows.next().map_err(failed)? {
        all.push(with_spec(tx, found, &mut take)?);
    }
    Ok(all)
}

/// Ids and slots of the containers that are made of an image, or mount it.
pub(crate) fn of_image(tx: &Transaction<'_>, image_id: &str) -> Result<Vec<(String, u32)>> {
    let mut query = tx.prepare_cached("SELECT id, slot FROM containers WHERE image_id = ?1").map_err(failed)?;
    let rows = query.query_map([image_id], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
    let mut users = rows.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)?;
    users.extend(image_mounts::of_image(tx, image_id)?);
    Ok(users)
}

/// Renames a container. Errors: the name is taken.
pub(crate) fn rename(tx: &Transaction<'_>, id: &str, name: &str) -> Result<()> {
    name_is_free(tx, name)?;
    change(tx, "UPDATE containers SET name = ?2 WHERE id = ?1", id, name)
}

/// Keeps why the last start failed; empty: it did not.
pub(crate) fn set_error(tx: &Transaction<'_>, id: &str, error: &str) -> Result<()> {
    change(tx, "UPDATE containers SET error = ?2 WHERE id = ?1", id, error)
}

/// Replaces the stored spec.
pub(crate) fn set_spec(tx: &Transaction<'_>, id: &str, spec: &str) -> Result<()> {
    let sql = "UPDATE containers SET spec = ?2 WHERE id = ?1";
    let mark = long_specs::mark(spec);
    if !changed(tx, sql, id, mark.as_deref().unwrap_or(spec))? {
        return Ok(());
    }
    match mark {
        Some(_) => long_specs::put(tx, id, spec),
        None => long_specs::forget(tx, id),
    }
}

fn change(tx: &Transaction<'_>, sql: &str, id: &str, value: &str) -> Result<()> {
    changed(tx, sql, id, value).map(drop)
}

/// Whether there was such a row.
fn changed(tx: &Transaction<'_>, sql: &str, id: &str, value: &str) -> Result<bool> {
    let rows = tx.prepare_cached(sql).and_then(|mut update| update.execute([id, value])).map_err(failed)?;
    Ok(rows != 0)
}

/// Makes a container a build's.
pub(crate) fn set_builder(tx: &Transaction<'_>, id: &str, builder: &str) -> Result<()> {
    change(tx, "INSERT INTO build_containers (id, builder) VALUES (?1, ?2)", id, builder)
}

/// Makes a build's container one as any other.
pub(crate) fn clear_builder(tx: &Transaction<'_>, id: &str) -> Result<()> {
    tx.execute("DELETE FROM build_containers WHERE id = ?1", [id]).map(drop).map_err(failed)
}

/// The containers of builds, and whose they are.
pub(crate) fn of_builds(tx: &Transaction<'_>) -> Result<Vec<(String, String)>> {
    let mut query = tx.prepare_cached("SELECT id, builder FROM build_containers").map_err(failed)?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failed)
}

/// Whether a container is a build's.
pub(crate) fn has_builder(tx: &Transaction<'_>, id: &str) -> Result<bool> {
    tx.prepare_cached("SELECT 1 FROM build_containers WHERE id = ?1")
        .and_then(|mut query| query.exists([id]))
        .map_err(failed)
}

/// Forgets a container.
pub(crate) fn delete(tx: &Transaction<'_>, id: &str) -> Result<()> {
    tx.prepare_cached("DELETE FROM containers WHERE id = ?1")
        .and_then(|mut delete| delete.execute([id]))
        .map(|_| ())
        .map_err(failed)
}
