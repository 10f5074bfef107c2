//! What the tests of this folder share: an engine root of their own, and tars made by hand.

use crate::error::Result;
use crate::image::Images;
use crate::model::{Event, Progress};
use crate::store::Db;
use crate::store::Durability;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that goes with the test.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    pub(crate) fn new() -> TempDir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("coracle-image-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An image store in a directory of its own.
pub(crate) struct Store {
    pub(crate) dir: TempDir,
    pub(crate) db: Arc<Db>,
    pub(crate) images: Images,
}

impl Store {
    pub(crate) fn new() -> Store {
        Store::at(TempDir::new())
    }

    pub(crate) fn at(dir: TempDir) -> Store {
        let db = Arc::new(Db::open(&dir.0, Durability::Off).unwrap());
        let images = Images::open(&dir.0, db.clone(), Durability::Off).unwrap();
        Store { dir, db, images }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.dir.0
    }

    /// Loads an archive, gathering what was told.
    pub(crate) fn load(&self, archive: &[u8]) -> Result<(Vec<String>, Vec<Progress>, Vec<Event>)> {
        let (mut told, mut events) = (Vec::new(), Vec::new());
        let mut tell = |p: Progress| {
            told.push(p);
            Ok(())
        };
        let answer = self.images.load(&mut &archive[..], &mut tell, &mut |e| events.push(e), None)?;
        Ok((answer, told, events))
    }

    /// The names in a directory of the root, sorted.
    pub(crate) fn names(&self, dir: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root().join(dir)).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Nothing is there and nothing is left over.
    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.names("layers"), [""; 0]);
        assert_eq!(self.names("tmp"), [""; 0]);
        let (images, layers): (i64, i64) = self
            .db
            .read(|tx| {
                let count = |sql: &str| tx.query_row(sql, [], |r| r.get(0)).map_err(crate::store::failed);
                Ok((count("SELECT count(*) FROM images")?, count("SELECT count(*) FROM layers")?))
            })
            .unwrap();
        assert_eq!((images, layers), (0, 0));
    }
}
