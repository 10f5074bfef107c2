//! Putting right what programs that ended left in `tmp/`.

use super::dirs::{PREFIX, VolumeDirs};
use crate::error::Result;
use crate::kernel::staging;
use crate::kernel::tree::{self, Lock};
use crate::store::volumes as table;
use crate::store::{Db, Flush};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Puts right what programs that ended left half done.
pub(crate) struct Sweeper {
    pub(super) dirs: Arc<VolumeDirs>,
    pub(super) db: Arc<Db>,
}

impl Sweeper {
    /// Removes what programs that ended left in `tmp/`; a volume in it that has a row and no directory goes back.
    /// Directories that cannot be put right now are noted. Answers whether all was looked at: others may hold locks.
    pub(crate) fn sweep(&self) -> Result<bool> {
        let gate = self.dirs.gate()?;
        if !tree::try_lock(gate.as_fd(), Lock::Exclusive)? {
            return Ok(false);
        }
        let mut looked_at_all = true;
        for name in tree::names(self.dirs.tmp.as_fd())? {
            if !name.starts_with(PREFIX.as_bytes()) {
                continue;
            }
            let place = self.dirs.staged_at(&String::from_utf8_lossy(&name));
            let swept = self.sweep_one(&name);
            looked_at_all &= !matches!(swept, Ok(false));
            self.dirs.leftovers.note(place, swept.map(drop))?;
        }
        Ok(looked_at_all)
    }

    /// Puts right one staging directory; `false`: somebody is at work in it.
    fn sweep_one(&self, name: &[u8]) -> Result<bool> {
        staging::sweep(self.dirs.tmp.as_fd(), name, |dir| {
            self.db.write(Flush::Durable, |tx| {
                for volume in tree::names(dir)? {
                    let known = std::str::from_utf8(&volume).ok().map(|name| table::get(tx, name)).transpose()?;
                    if known.flatten().is_some() {
                        match tree::rename_at(dir, &volume, self.dirs.volumes.as_fd(), &volume) {
                            Err(error) if error.is(libc::EEXIST) => {}
                            other => other?,
                        }
                    }
                }
                Ok(())
            })
        })
    }
}
