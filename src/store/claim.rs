//! One copy of the library per root and process.
//!
//! SQLite locks with record locks, and those are the process's: where two copies of SQLite have one database open,
//! either ends the other's locks when it closes a descriptor, and nothing stands between two writers any more. Inside
//! of one copy SQLite takes care of that; a second copy of this library in the same process (bundled twice, or loaded
//! into a linker name space) is found here, by its descriptor, and refused.

use crate::error::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Device and inode.
type Identity = (u64, u64);

/// A database that this copy has open.
struct Ours {
    identity: Identity,
    times: usize,
    /// The process that opened it. A child of a fork inherits the entry, as it does SQLite's own: locks that the child
    /// does not have.
    process: u32,
}

/// The databases that this process has open: SQLite knows them, too, but does not say.
static OURS: Mutex<Vec<Ours>> = Mutex::new(Vec::new());

/// A database that this copy may open, until dropped.
#[derive(Debug)]
pub(super) struct Claim(Option<Identity>);

/// Claims the database at `path`; makes an empty file where there is none. Errors: another copy has it open here; it
/// was open when this process was forked ([`ErrorKind::Forked`]).
///
/// A path that cannot be looked at is claimed by nobody: opening it shows why.
pub(super) fn claim(path: &Path) -> Result<Claim> {
    // An empty file is a database without tables. Where it is there already nothing is opened: to close a descriptor
    // of it would be the very harm.
    let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let Ok(found) = std::fs::metadata(path) else { return Ok(Claim(None)) };
    let identity = (found.dev(), found.ino());
    let mut ours = OURS.lock();
    match ours.iter_mut().find(|known| known.identity == identity) {
        Some(known) if known.process != std::process::id() => {
            let text = "was open when this process was forked, and cannot be opened in a child that has not exec'd";
            return Err(Error::new(ErrorKind::Forked, format!("{} {text}", path.display())).in_area("store"));
        }
        Some(known) => known.times += 1,
        None if open_in_this_process(identity) => {
            return Err(Error::conflict(format!(
                "{} is open in this process through another copy of the library: use one copy",
                path.display()
            ))
            .in_area("store"));
        }
        None => ours.push(Ours { identity, times: 1, process: std::process::id() }),
    }
    Ok(Claim(Some(identity)))
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(identity) = self.0 else { return };
        let mut ours = OURS.lock();
        if let Some(known) = ours.iter_mut().find(|known| known.identity == identity) {
            known.times -= 1;
        }
        ours.retain(|known| known.times > 0);
    }
}

fn open_in_this_process(identity: Identity) -> bool {
    let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") else { return false };
    descriptors
        .flatten()
        .filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .any(|found| (found.dev(), found.ino()) == identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_may_open_again_what_it_has_and_nobody_else_may() {
        let dir = std::env::temp_dir().join(format!("coracle-claim-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("db");
        let first = claim(&path).unwrap();
        // As SQLite would have it open.
        let open = std::fs::File::open(&path).unwrap();
        let second = claim(&path).unwrap();
        drop((first, second));
        // Claimed by nobody in this copy, yet open: it is another's.
        assert_eq!(claim(&path).unwrap_err().kind(), ErrorKind::Conflict);
        drop(open);
        claim(&path).unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
