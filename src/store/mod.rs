//! The durable metadata: one SQLite database under the root, opened by any number of programs.
//!
//! Every change is one `BEGIN IMMEDIATE` transaction; [`Flush`] says whether the call waits until it is on disk. Tables
//! and their queries live in one file per noun ([`images`], [`containers`], [`networks`], [`volumes`]), each with its
//! part of the schema.

#[cfg_attr(not(feature = "registry"), allow(dead_code))]
pub(crate) mod blobs;
mod cached;
mod claim;
pub(crate) mod containers;
pub(crate) mod copy;
mod flush;
pub(crate) mod identity;
pub(crate) mod image_mounts;
pub(crate) mod images;
mod leftovers;
pub(crate) mod levels;
pub(crate) mod links;
mod long_specs;
pub(crate) mod networks;
pub(crate) mod plugins;
pub(crate) mod removals;
pub(crate) mod slot_locks;
pub(crate) mod states;
#[cfg(test)]
mod tests;
pub(crate) mod unfinished;
pub(crate) mod volumes;

pub(crate) use cached::Cached;
pub(crate) use leftovers::Leftovers;

use crate::error::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The additions of each version of the schema, in order; the last one's number is this library's. A database with a
/// higher one was made by a newer library and is refused.
const STEPS: &[&[&str]] = &[
    &[images::SCHEMA, containers::SCHEMA],
    &[volumes::SCHEMA],
    &[blobs::SCHEMA],
    &[networks::SCHEMA],
    &[links::SCHEMA],
    &[containers::SCHEMA_BUILDS],
    &[images::SCHEMA_LEASES],
    &[images::SCHEMA_MADE_HERE],
    &[containers::SCHEMA_AUTO_REMOVED, removals::SCHEMA],
    &[levels::SCHEMA],
    &[plugins::SCHEMA],
];
const SCHEMA_VERSION: i32 = STEPS.len() as i32;

/// How long a call waits for another program's transaction.
const BUSY_WAIT: Duration = Duration::from_secs(30);

/// The part of the database that a connection keeps in memory, at most: the rows of some 700 containers. With less, a
/// list would read most of them anew each time.
const CACHE_KIB: i32 = 4096;

/// Bytes of disk kept back, so that a full disk can still take a removal.
const RESERVE: i64 = 256 << 10;

/// When a change is on disk, as SQLite's `synchronous`.
///
/// ```
/// use coracle::{Durability, Options};
///
/// let mut options = Options::new("/tmp/throw-away");
/// options.durability = Durability::Off;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// An acknowledged change survives a power cut.
    #[default]
    Full,
    /// The store stays consistent over a power cut; the last moments may be lost.
    Normal,
    /// Nothing is flushed: for throw-away roots.
    Off,
}

/// Whether a transaction is on disk when the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flush {
    /// As the engine's durability says: a power cut loses nothing acknowledged with [`Durability::Full`].
    Durable,
    /// Never waits: what may be lost without harm.
    Lazy,
}

/// How many connections wait for the next call: what is opened beyond is closed after its call.
const IDLE: usize = 8;

/// A connection, and what its `synchronous` was set to.
struct Pooled {
    connection: Connection,
    /// Which of all that were opened it is.
    number: u64,
    synchronous: &'static str,
}

/// The database: a set of connections, one checked out per call.
pub(crate) struct Db {
    path: PathBuf,
    durability: Durability,
    idle: Mutex<Vec<Pooled>>,
    /// How many connections were opened.
    opened: AtomicU64,
    flushes: flush::Flushes,
    /// Dropped last, after the connections.
    _claim: claim::Claim,
}

impl Db {
    /// The name of its file.
    pub(crate) const NAME: &str = "coracle.db";

    /// Opens (or makes) `root/coracle.db`. Errors: not writable, damaged, newer than the library, open
    /// in this process through another copy of the library.
    pub(crate) fn open(root: &Path, durability: Durability) -> Result<Db> {
        let path = root.join(Db::NAME);
        let _claim = claim::claim(&path)?;
        let flushes = flush::Flushes::new(path.with_file_name("coracle.db-wal"));
        let db = Db { path, durability, idle: Mutex::new(Vec::new()), opened: AtomicU64::new(0), flushes, _claim };
        let mut pooled = db.connect()?;
        db.migrate(&mut pooled.connection)?;
        db.idle.lock().push(pooled);
        db.restock();
        Ok(db)
    }

    fn connect(&self) -> Result<Pooled> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(failed)?;
        connection.busy_timeout(BUSY_WAIT).map_err(failed)?;
        connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(failed)?;
        // In memory: for files SQLite asks the environment for a directory, each time.
        connection.pragma_update(None, "temp_store", 2).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(64);
        // A statement that was prepared once stays as it is. Without this, SQLite prepares most statements that sort
        // anew at each use: another value could, in other schemas than this one, make another plan better.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(failed)?;
        Ok(Pooled { connection, number: self.opened.fetch_add(1, Ordering::Relaxed), synchronous: "" })
    }

    fn migrate(&self, connection: &mut Connection) -> Result<()> {
        let version =
            |c: &Connection| c.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0)).map_err(failed);
        match version(connection)? {
            SCHEMA_VERSION => return Ok(()),
            found if found > SCHEMA_VERSION => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "{}: schema {found} is newer than this library, which knows {SCHEMA_VERSION}",
                        self.path.display()
                    ),
                )
                .in_area("store"));
            }
            _ => {}
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        // Another program may have done it, or a part of it, meanwhile.
        let have = usize::try_from(version(&transaction)?).unwrap_or(0);
        for part in STEPS.iter().skip(have).copied().flatten() {
            transaction.execute_batch(part).map_err(failed)?;
        }
        if have == 0 && self.durability != Durability::Off {
            self.is_new_root()?;
        }
        if have < STEPS.len() {
            transaction.pragma_update(None, "user_version", SCHEMA_VERSION).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    /// A root with layers had a database once: one without anything in it would have them swept as nobody's.
    fn is_new_root(&self) -> Result<()> {
        let layers = self.path.with_file_name("layers");
        match std::fs::read_dir(&layers).is_ok_and(|mut entries| entries.next().is_some()) {
            true => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{}: the database is empty or was lost, but there are layers: bring it back, or remove {}",
                    self.path.display(),
                    layers.display()
                ),
            )
            .in_area("store")),
            false => Ok(()),
        }
    }

    fn checkout(&self) -> Result<Pooled> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| self.connect(), Ok)
    }

    fn give_back(&self, pooled: Pooled) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE {
            return idle.push(pooled);
        }
        drop(idle);
        // Closed without the lock: a crowd's connections, each with descriptors and memory, do not stay for ever.
        drop(pooled);
    }

    /// Lets go of the pages that connections at rest keep in memory.
    pub(crate) fn forget_pages(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        for pooled in idle {
            // An error is one of the next use.
            let _ = pooled.connection.execute_batch("PRAGMA shrink_memory");
            self.give_back(pooled);
        }
    }

    /// Runs `work` on a consistent snapshot.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        self.read_by(|tx, _| work(tx))
    }

    /// As [`Db::read`]; `work` also gets which connection it uses.
    fn read_by<T>(&self, work: impl FnOnce(&Transaction<'_>, u64) -> Result<T>) -> Result<T> {
        let (mut work, mut answer) = (Some(work), None);
        self.read_with(&mut |tx, number| {
            answer = Some(work.take().ok_or_else(unanswered)?(tx, number)?);
            Ok(())
        })?;
        answer.ok_or_else(unanswered)
    }

    /// The part of [`Db::read_by`] that is the same for all work, and so is compiled once.
    fn read_with(&self, work: &mut dyn FnMut(&Transaction<'_>, u64) -> Result<()>) -> Result<()> {
        let mut pooled = self.checkout()?;
        let result = (|| {
            let begun = pooled.connection.transaction_with_behavior(TransactionBehavior::Deferred);
            work(&begun.map_err(failed)?, pooled.number)
        })();
        self.give_back(pooled);
        result
    }

    /// Runs `work` in a write transaction: all of it happens, or nothing (also when `work` answers an error).
    pub(crate) fn write<T>(&self, flush: Flush, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let (mut work, mut answer) = (Some(work), None);
        self.write_with(flush, &mut |tx| {
            answer = Some(work.take().ok_or_else(unanswered)?(tx)?);
            Ok(())
        })?;
        answer.ok_or_else(unanswered)
    }

    /// The part of [`Db::write`] that is the same for all work.
    fn write_with(&self, flush: Flush, work: &mut dyn FnMut(&Transaction<'_>) -> Result<()>) -> Result<()> {
        let mut pooled = self.checkout()?;
        let result = (|| {
            let (connection, synchronous) = (&mut pooled.connection, self.synchronous(flush));
            // Only where it changes: each time, every statement that was prepared would be prepared again.
            if pooled.synchronous != synchronous {
                connection.pragma_update(None, "synchronous", synchronous).map_err(failed)?;
                pooled.synchronous = synchronous;
            }
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
            work(&transaction)?;
            transaction.commit().map_err(failed)
        })();
        self.give_back(pooled);
        result
    }

    /// Waits until all that was written up to now is on disk, as after a [`Flush::Durable`]: for work that was written
    /// lazily so that others need not wait for the disk under the database's lock. A call that comes during
    /// such a wait shares the next one.
    pub(crate) fn wait_durable(&self) -> Result<()> {
        if self.durability == Durability::Full { self.flushes.wait() } else { Ok(()) }
    }

    /// Writes as [`Db::write`] does, for work that frees space: on a full disk it may use the reserve. `work` may run
    /// twice.
    pub(crate) fn write_to_free<T>(&self, flush: Flush, work: impl Fn(&Transaction<'_>) -> Result<T>) -> Result<T> {
        match self.write(flush, &work) {
            Err(error) if error.is(libc::ENOSPC) => {
                let _ = std::fs::remove_file(self.reserve());
                self.write(flush, work)
            }
            other => other,
        }
    }

    /// Keeps some disk back again, where there is some. To be called after files were freed.
    pub(crate) fn restock(&self) {
        let path = self.reserve();
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        if let Ok(file) = made
            && nix::fcntl::posix_fallocate(&file, 0, RESERVE).is_err()
        {
            let _ = std::fs::remove_file(&path);
        }
    }

    fn reserve(&self) -> PathBuf {
        self.path.with_file_name("reserve")
    }

    fn synchronous(&self, flush: Flush) -> &'static str {
        match (self.durability, flush) {
            (Durability::Off, _) => "off",
            (Durability::Full, Flush::Durable) => "full",
            _ => "normal",
        }
    }
}

/// Whether the database holds nothing but the networks that each root has, so many.
pub(crate) fn is_empty(tx: &Transaction<'_>, of_each: usize) -> Result<bool> {
    let of_each = of_each as i64;
    let sql = "SELECT (SELECT count(*) FROM images) + (SELECT count(*) FROM layers) + (SELECT count(*) FROM containers)
        + (SELECT count(*) FROM volumes) + (SELECT count(*) FROM removals)
        + (SELECT count(*) FROM plugins) + max((SELECT count(*) FROM networks) - ?1, 0)";
    tx.query_row(sql, [of_each], |row| row.get::<_, i64>(0)).map(|rows| rows == 0).map_err(failed)
}

/// Whether the database has a table that is made when it is first needed.
fn has_table(tx: &Transaction<'_>, name: &str) -> Result<bool> {
    let mut query = tx.prepare_cached("SELECT 1 FROM sqlite_schema WHERE name = ?1").map_err(failed)?;
    query.exists([name]).map_err(failed)
}

/// The error of a transaction whose work did not run exactly once, which never happens.
#[cold]
fn unanswered() -> Error {
    Error::internal("a transaction had no answer").in_area("store")
}

/// The library's error for one of SQLite's.
#[cold]
#[inline(never)]
pub(crate) fn failed(error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode as Code;
    if error.sqlite_error_code() == Some(Code::DiskFull) {
        return Error::os("metadata store", libc::ENOSPC).in_area("store");
    }
    let kind = match error.sqlite_error_code() {
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => ErrorKind::Corrupt,
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => ErrorKind::Unavailable,
        Some(Code::OutOfMemory) => ErrorKind::NoMemory,
        Some(Code::SystemIoFailure | Code::ReadOnly | Code::CannotOpen) => ErrorKind::Io,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, format!("metadata store: {error}")).in_area("store")
}

/// A stored document; empty where the value is not text, so that damage concerns one container only.
fn text(value: rusqlite::types::ValueRef<'_>) -> &str {
    value.as_str().unwrap_or_default()
}
