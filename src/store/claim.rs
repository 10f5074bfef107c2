//! One copy of the library per root and process.
//!
//! SQLite locks with record locks, and those are the process's: where two copies of SQLite have one database open, either
//! ends the other's locks when it closes a descriptor, and nothing stands between two writers any more. Inside of one
//! copy SQLite takes care of that; a second copy of this library in the same process (bundled twice, or loaded into a
//! linker name space) is found here, by its descriptor, and refused.

use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Device and inode.
type Identity = (u64, u64);

/// The databases that this copy has open, and how often. What SQLite knows too, but does not tell.
static OURS: Mutex<Vec<(Identity, usize)>> = Mutex::new(Vec::new());

/// A database that this copy may open, until dropped.
#[derive(Debug)]
pub(super) struct Claim(Option<Identity>);

/// Claims the database at `path`; makes an empty file where there is none. Errors: another copy has it open here.
///
/// A path that cannot be looked at is claimed by nobody: opening it tells why.
pub(super) fn claim(path: &Path) -> Result<Claim> {
    // An empty file is a database without tables. Where it is there already nothing is opened: to close a descriptor
    // of it would be the very harm.
    let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let Ok(found) = std::fs::metadata(path) else { return Ok(Claim(None)) };
    let identity = (found.dev(), found.ino());
    let mut ours = OURS.lock();
    match ours.iter_mut().find(|(known, _)| *known == identity) {
        Some((_, times)) => *times += 1,
        None if open_in_this_process(identity) => {
            return Err(Error::conflict(format!(
                "{} is open in this process through another copy of the library: use one copy",
                path.display()
            ))
            .in_area("store"));
        }
        None => ours.push((identity, 1)),
    }
    Ok(Claim(Some(identity)))
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(identity) = self.0 else { return };
        let mut ours = OURS.lock();
        if let Some((_, times)) = ours.iter_mut().find(|(known, _)| *known == identity) {
            *times -= 1;
        }
        ours.retain(|(_, times)| *times > 0);
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
    use crate::error::ErrorKind;

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
