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

#[cfg(test)]
mod tests {
    use super::super::containers::{self, ContainerRow};
    use super::super::{Db, Durability, Flush};
    use super::*;

    #[test]
    fn a_level_is_kept_over_a_crash_and_free_when_its_container_is_gone() {
        let root = std::env::temp_dir().join(format!("coracle-levels-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let new = |id: &str, slot: u32| ContainerRow {
            id: id.into(),
            slot,
            name: id.into(),
            created_ns: 1,
            image_id: String::new(),
            error: String::new(),
        };
        let free = |db: &Db, level: &str| db.read(|tx| is_free(tx, level)).unwrap();
        let db = Db::open(&root, Durability::Off).unwrap();
        db.write(Flush::Lazy, |tx| {
            containers::insert(tx, &new("ab", 1), "{}".into())?;
            containers::insert(tx, &new("cd", 2), "{}".into())?;
            keep(tx, "ab", "s0:c1,c2")?;
            keep(tx, "cd", "s0:c3,c4")
        })
        .unwrap();
        assert!(!free(&db, "s0:c1,c2") && !free(&db, "s0:c3,c4") && free(&db, "s0:c1,c3"));
        // Another program, which knows nothing of this one's memory.
        drop(db);
        let db = Db::open(&root, Durability::Off).unwrap();
        assert!(!free(&db, "s0:c1,c2"));
        // A container's next level ends its last one.
        db.write(Flush::Lazy, |tx| keep(tx, "ab", "s0:c5,c6")).unwrap();
        assert!(free(&db, "s0:c1,c2") && !free(&db, "s0:c5,c6"));
        db.write(Flush::Lazy, |tx| containers::delete(tx, "ab")).unwrap();
        assert!(free(&db, "s0:c5,c6") && !free(&db, "s0:c3,c4"));
        // No level is anybody's who is not there.
        assert!(db.write(Flush::Lazy, |tx| keep(tx, "ab", "s0:c7,c8")).is_err());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
