//! A copy of the database as it is at one moment, and what is changed in it before it is one of a root.

use super::{Db, Flush, failed, images};
use crate::error::{Error, Result};
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

impl Db {
    /// Copies the database to `to`, a path where nothing is. `hold` runs in the same moment: what it keeps in the
    /// original is what the copy has. Others wait with what they write until the copy is made.
    pub(crate) fn copy_to(&self, to: &Path, hold: impl FnOnce(&Transaction<'_>) -> Result<()>) -> Result<DbCopy> {
        self.write(Flush::Lazy, |tx| {
            hold(tx)?;
            // By another connection, which sees what was committed: nobody commits before this transaction ends.
            let pooled = self.checkout()?;
            let path = ToSqlOutput::Borrowed(ValueRef::Text(to.as_os_str().as_bytes()));
            let copied = pooled.connection.execute("VACUUM INTO ?1", [path]).map(drop).map_err(failed);
            self.give_back(pooled);
            copied
        })?;
        DbCopy::open(to)
    }
}

/// A copied database that nobody else knows of yet.
pub(crate) struct DbCopy(Connection);

impl DbCopy {
    fn open(path: &Path) -> Result<DbCopy> {
        let narrowed = std::fs::set_permissions(path, Permissions::from_mode(0o600));
        narrowed.map_err(|e| Error::io(format_args!("change the mode of {}", path.display()), &e))?;
        let connection = Connection::open(path).map_err(failed)?;
        // A copy that is cut short is worthless: nothing of it must survive a crash before its end.
        connection.pragma_update(None, "journal_mode", "memory").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "off").map_err(failed)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true).map_err(failed)?;
        connection.pragma_update(None, "temp_store", 2).map_err(failed)?;
        Ok(DbCopy(connection))
    }

    /// Runs `work` on the copy: all of it happens, or nothing.
    pub(crate) fn change<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let begun = self.0.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let answer = work(&begun)?;
        begun.commit().map_err(failed)?;
        Ok(answer)
    }

    /// Takes out what builds keep that go on in the original, and layers that no image has: their files may go there.
    pub(crate) fn forget_work(&mut self) -> Result<()> {
        self.change(|tx| {
            tx.execute("DELETE FROM build_images", []).map_err(failed)?;
            images::remove_unheld(tx)?;
            images::drop_unused_layers(tx).map(drop)
        })
    }

    /// Closes it: the file is whole.
    pub(crate) fn finish(self) -> Result<()> {
        self.0.close().map_err(|(_, error)| failed(error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Durability;
    use super::*;

    #[test]
    fn a_copy_has_what_was_there_when_it_was_held() {
        let dir = std::env::temp_dir().join(format!("coracle-dbcopy-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let db = Db::open(&dir, Durability::Off).unwrap();
        let add = |name: &str| format!("INSERT INTO volumes (name, created_ns) VALUES ('{name}', 1)");
        db.write(Flush::Lazy, |tx| tx.execute(&add("before"), []).map(drop).map_err(failed)).unwrap();
        let to = dir.join("copy");
        let mut copy = db.copy_to(&to, |tx| tx.execute(&add("held"), []).map(drop).map_err(failed)).unwrap();
        let names = |tx: &Transaction<'_>| super::super::volumes::all(tx).map(|all| all[0].0.name.clone());
        assert_eq!(copy.change(names).unwrap(), "before");
        copy.forget_work().unwrap();
        copy.finish().unwrap();
        assert_eq!(std::fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::create_dir(dir.join("new")).unwrap();
        std::fs::rename(&to, dir.join("new/coracle.db")).unwrap();
        let opened = Db::open(&dir.join("new"), Durability::Off).unwrap();
        assert_eq!(opened.read(names).unwrap(), "before");
        drop((db, opened));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
