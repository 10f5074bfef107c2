//! Staging directories in the directory `tmp/` of a root: made and locked by a program, filled, and gone when their content
//! has moved to its place.
//!
//! The lock of a staging directory is free if its maker ended: then a sweep removes the directory. `tmp/` itself is the
//! gate: its lock is held shared while a directory is made and locked, and exclusively by a sweep. So a sweep sees no
//! directory between its making and its locking.

use super::remove::remove_tree;
use super::tree::{self, Lock};
use crate::error::{Error, Result};
use crate::hex::random_bytes;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Makes a staging directory with a name that begins with `prefix`, and locks it. `gate` is a descriptor of `tmp/` of its
/// own: the lock belongs to the open file.
pub(crate) fn make(tmp: BorrowedFd<'_>, gate: &OwnedFd, prefix: &str) -> Result<(String, OwnedFd)> {
    tree::lock(gate.as_fd(), Lock::Shared, "the directory tmp of the root")?;
    let name = format!("{prefix}{:016x}", u64::from_le_bytes(random_bytes()?));
    tree::mkdir_at(tmp, &name, 0o700)?;
    let dir = tree::open_dir_at(tmp, &name)?;
    tree::lock(dir.as_fd(), Lock::Exclusive, &name)?;
    Ok((name, dir))
}

/// Removes a staging directory whose maker ended, after `rescue` has taken out what must stay; `false`: its maker is at
/// work. The caller holds the gate exclusively.
pub(crate) fn sweep(
    tmp: BorrowedFd<'_>,
    name: &[u8],
    rescue: impl FnOnce(BorrowedFd<'_>) -> Result<()>,
) -> Result<bool> {
    let dir = match tree::open_dir_at(tmp, name) {
        Err(error) if error.is(libc::ENOENT) => return Ok(true),
        other => other?,
    };
    if !tree::try_lock(dir.as_fd(), Lock::Exclusive)? {
        return Ok(false);
    }
    rescue(dir.as_fd())?;
    remove_tree(tmp, name).map(|()| true)
}

/// Whether the maker of a staging directory is at work; also if that is unknown. `gate` as in [`make`].
pub(crate) fn is_in_use(tmp: BorrowedFd<'_>, gate: Result<OwnedFd>, name: &str) -> bool {
    let held = || {
        // A program that makes a staging directory holds the gate until the directory is locked.
        if !tree::try_lock(gate?.as_fd(), Lock::Exclusive)? {
            return Ok(true);
        }
        let dir = tree::open_dir_at(tmp, name)?;
        Ok::<bool, Error>(!tree::try_lock(dir.as_fd(), Lock::Exclusive)?)
    };
    match held() {
        Ok(held) => held,
        Err(error) => !error.is(libc::ENOENT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_takes_only_the_directories_of_makers_that_ended() {
        let root = std::env::temp_dir().join(format!("coracle-staging-{}", std::process::id()));
        let tmp = tree::make_dir(&root, 0o700).unwrap();
        let gate = || tree::open_dir(&root);
        let (name, dir) = make(tmp.as_fd(), &gate().unwrap(), "x-").unwrap();
        tree::mkdir_at(dir.as_fd(), "kept", 0o700).unwrap();
        assert!(name.starts_with("x-") && is_in_use(tmp.as_fd(), gate(), &name));
        assert!(!sweep(tmp.as_fd(), name.as_bytes(), |_| Ok(())).unwrap());
        drop(dir);
        assert!(!is_in_use(tmp.as_fd(), gate(), &name));
        let rescue = |dir: BorrowedFd<'_>| tree::rename_at(dir, "kept", tmp.as_fd(), "kept");
        assert!(sweep(tmp.as_fd(), name.as_bytes(), rescue).unwrap());
        let left: Vec<Vec<u8>> = tree::names(tmp.as_fd()).unwrap();
        assert_eq!(left, [b"kept".to_vec()]);
        assert!(sweep(tmp.as_fd(), name.as_bytes(), |_| Ok(())).unwrap());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
