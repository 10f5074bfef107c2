//! Answers that were read of the database before, used again as long as nothing changed there.

use super::{Db, failed};
use crate::error::Result;
use parking_lot::Mutex;
use rusqlite::Transaction;
use std::sync::Arc;

/// The database as one connection saw it: equal marks, equal content.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    connection: u64,
    /// SQLite's `data_version`: differs after changes by other connections, of this program or others.
    others: i64,
    /// Rows that this connection changed.
    own: u64,
}

impl Mark {
    fn of(tx: &Transaction<'_>, connection: u64) -> Result<Mark> {
        let others = tx
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut query| query.query_row([], |row| row.get(0)))
            .map_err(failed)?;
        Ok(Mark { connection, others, own: tx.total_changes() })
    }
}

/// The last answer to one question.
pub(crate) struct Cached<T>(Mutex<Option<(Mark, Arc<T>)>>);

impl<T> Default for Cached<T> {
    fn default() -> Cached<T> {
        Cached(Mutex::new(None))
    }
}

impl<T> Cached<T> {
    /// Lets go of the answer.
    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
    }

    /// The answer that `make` reads of the database, or read before, if nothing changed since. `worth` says whether an
    /// answer is kept: a host program is not to grow with its containers.
    pub(crate) fn read(
        &self,
        db: &Db,
        worth: impl FnOnce(&T) -> bool,
        make: impl FnOnce(&Transaction<'_>) -> Result<T>,
    ) -> Result<Arc<T>> {
        db.read_by(|tx, connection| {
            let mark = Mark::of(tx, connection)?;
            if let Some((_, kept)) = self.0.lock().as_ref().filter(|(of, _)| *of == mark) {
                return Ok(Arc::clone(kept));
            }
            let made = Arc::new(make(tx)?);
            *self.0.lock() = worth(&made).then(|| (mark, Arc::clone(&made)));
            Ok(made)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Durability, Flush};
    use super::*;

    #[test]
    fn an_answer_stays_until_the_database_changes() {
        let root = std::env::temp_dir().join(format!("coracle-cached-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let db = Db::open(&root, Durability::Off).unwrap();
        let other = rusqlite::Connection::open(root.join("coracle.db")).unwrap();
        let cached = Cached::default();
        let count = |tx: &Transaction<'_>| {
            tx.query_row("SELECT count(*) FROM volumes", [], |row| row.get::<_, i64>(0)).map_err(failed)
        };
        let read = |worth: bool| cached.read(&db, |_| worth, count).unwrap();
        let add = "INSERT INTO volumes (name, created_ns, options, labels) VALUES (?1, 1, '{}', '{}')";

        let first = read(true);
        assert!(*first == 0 && Arc::ptr_eq(&first, &read(true)));
        // A change by this program, on the same connection.
        db.write(Flush::Lazy, |tx| tx.execute(add, ["a"]).map(drop).map_err(failed)).unwrap();
        let second = read(true);
        assert!(*second == 1 && Arc::ptr_eq(&second, &read(true)));
        // By another program.
        other.execute(add, ["b"]).unwrap();
        assert_eq!(*read(true), 2);
        // Two connections of this program at once: each sees what there is.
        db.read(|_| {
            assert_eq!(*read(true), 2);
            other.execute(add, ["c"]).unwrap();
            assert_eq!(*read(true), 3);
            Ok(())
        })
        .unwrap();
        assert_eq!(*read(false), 3);
        assert!(!Arc::ptr_eq(&read(false), &read(false)));
        drop(other);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
