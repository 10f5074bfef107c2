//! Flushing the database's log for several callers at once.
//!
//! SQLite flushes a commit under its write lock: eight programs that commit wait for eight flushes, one after the
//! other. Here a commit is written, the lock is let go, and then one flush serves everybody whose commit came before
//! it. The disk holds the same afterwards: the log is what SQLite flushes too, and it flushes that itself before it
//! reuses it.

use crate::error::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::fs::File;
use std::path::PathBuf;

/// The flushes of one database.
pub(super) struct Flushes {
    log: PathBuf,
    turns: Mutex<Turns>,
    over: Condvar,
}

/// Callers are numbered as they come.
#[derive(Default)]
struct Turns {
    last: u64,
    /// All up to this one are on disk.
    flushed: u64,
    flushing: bool,
}

impl Flushes {
    pub(super) fn new(log: PathBuf) -> Flushes {
        Flushes { log, turns: Mutex::default(), over: Condvar::new() }
    }

    /// Waits until what was committed before this call is on disk. Errors: the disk's.
    pub(super) fn wait(&self) -> Result<()> {
        let mut turns = self.turns.lock();
        turns.last += 1;
        let own = turns.last;
        while turns.flushed < own {
            if turns.flushing {
                self.over.wait(&mut turns);
                continue;
            }
            turns.flushing = true;
            let covered = turns.last;
            drop(turns);
            let result = self.flush();
            turns = self.turns.lock();
            turns.flushing = false;
            // The waiting commits then flush themselves, so that each one concerned gets the error.
            self.over.notify_all();
            result?;
            turns.flushed = turns.flushed.max(covered);
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let failed = |e: &std::io::Error| Error::io(format_args!("flush {}", self.log.display()), e).in_area("store");
        match File::open(&self.log) {
            Ok(log) => log.sync_data().map_err(|e| failed(&e)),
            // Without a log the database itself was flushed by the commit.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(failed(&e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_served_and_errors_are_told() {
        let path = std::env::temp_dir().join(format!("coracle-flush-{}", std::process::id()));
        std::fs::write(&path, "x").unwrap();
        let flushes = Flushes::new(path.clone());
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| (0..50).for_each(|_| flushes.wait().unwrap()));
            }
        });
        let turns = flushes.turns.lock();
        assert_eq!((turns.last, turns.flushed), (800, 800));
        drop(turns);
        std::fs::remove_file(&path).unwrap();
        flushes.wait().unwrap();
        std::fs::create_dir(&path).unwrap();
        // A directory can be flushed; what cannot be opened is an error.
        let looped = Flushes::new(path.join("loop"));
        std::os::unix::fs::symlink(path.join("loop"), path.join("loop")).unwrap();
        assert!(looped.wait().is_err() && looped.wait().is_err());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
