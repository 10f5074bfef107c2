//! Files that a removal could not remove, and why: the removal notes them, `info` shows them, and every open tries
//! again.

use crate::error::Result;
use crate::model::Leftover;
use crate::walls::Wall;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The leftovers that one opened root knows of, with the reasons.
#[derive(Default)]
pub(crate) struct Leftovers(Mutex<BTreeMap<PathBuf, String>>);

impl Leftovers {
    /// Takes how the removal of `path` went. A path that stays is reported and tried again. The removal succeeds all
    /// the same: the object that the path belonged to is gone, and nothing finds it any more.
    pub(crate) fn note(&self, path: PathBuf, removed: Result<()>) -> Result<()> {
        match removed {
            Ok(()) => drop(self.0.lock().remove(&path)),
            Err(error) if !Wall::OpensRegardless.stands() => return Err(error),
            Err(error) => drop(self.0.lock().insert(path, error.message().to_owned())),
        }
        Ok(())
    }

    /// The leftovers that are still there; others may have removed some meanwhile.
    pub(crate) fn all(&self) -> Vec<Leftover> {
        let mut all = self.0.lock();
        all.retain(|path, _| path.symlink_metadata().is_ok());
        let leftover = |(path, reason): (&PathBuf, &String)| Leftover {
            path: path.to_string_lossy().into_owned(),
            reason: reason.clone(),
        };
        all.iter().map(leftover).collect()
    }

    /// The text of an event about these paths: the first that is left, and why.
    pub(crate) fn said_of(&self, paths: &[&Path]) -> Option<String> {
        let all = self.0.lock();
        paths.iter().find_map(|path| all.get(*path).map(|reason| format!("{}: {reason}", path.display())))
    }
}
