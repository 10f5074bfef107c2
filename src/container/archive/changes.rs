//! What a container changed of its image: its writable directory against the image's tree.

use crate::container::Containers;
use crate::error::{Error, Result};
use crate::kernel::path::{BENEATH_NO_LINKS, openat2};
use crate::kernel::tree::{self, Stat};
use crate::model::FileChange;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const MODIFIED: u8 = 0;
const ADDED: u8 = 1;
const DELETED: u8 = 2;

/// What the engine makes in every container that its image does not have, as long as nothing is put in it.
const ENGINE_MADE: [&str; 9] =
    ["/dev", "/proc", "/sys", "/etc", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/shm", "/dev/console"];

/// One change: path as bytes, absolute.
pub(super) struct Change {
    pub path: Vec<u8>,
    pub kind: u8,
}

impl Change {
    pub(super) fn is_deletion(&self) -> bool {
        self.kind == DELETED
    }
}

impl Containers {
    /// What a container changed, by path.
    pub(crate) fn changes(&self, reference: &str) -> Result<Vec<FileChange>> {
        let found = self.find(reference)?;
        let (_, changes) = self.if_there(&found, self.changed(&found.row.id, &found.row.image_id))?;
        let shown =
            |change: Change| FileChange { path: String::from_utf8_lossy(&change.path).into_owned(), kind: change.kind };
        Ok(changes.into_iter().map(shown).collect())
    }

    /// The writable directory, and what is different in it.
    pub(super) fn changed(&self, id: &str, image_id: &str) -> Result<(OwnedFd, Vec<Change>)> {
        let image = self.image_root(image_id)?;
        let image = openat2(image.as_fd(), ".", libc::O_RDONLY | libc::O_DIRECTORY, 0, BENEATH_NO_LINKS)?;
        let upper = tree::open_dir(&self.dir(id).join("upper"))?;
        let mut found = Vec::new();
        directory(upper.as_fd(), Some(image.as_fd()), &mut Vec::new(), &mut found)?;
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((upper, found))
    }
}

/// Compares a writable directory with the image's at the same place, if there is one that still shows through.
fn directory(
    upper: BorrowedFd<'_>,
    image: Option<BorrowedFd<'_>>,
    path: &mut Vec<u8>,
    found: &mut Vec<Change>,
) -> Result<()> {
    let opaque = tree::get_xattr_fd(upper, "trusted.overlay.opaque")?.is_some_and(|value| value == b"y");
    let mut names = BTreeSet::new();
    for name in tree::names(upper)? {
        let Some(stat) = tree::stat_at(upper, &name)? else { continue };
        let length = path.len();
        path.push(b'/');
        path.extend_from_slice(&name);
        entry(upper, image, &name, &stat, path, found)?;
        path.truncate(length);
        names.insert(name);
    }
    if opaque && let Some(image) = image {
        for name in tree::names(image)?.into_iter().filter(|name| !names.contains(name)) {
            found.push(Change { path: [path.as_slice(), b"/", &name].concat(), kind: DELETED });
        }
    }
    Ok(())
}

fn entry(
    upper: BorrowedFd<'_>,
    image: Option<BorrowedFd<'_>>,
    name: &[u8],
    stat: &Stat,
    path: &mut Vec<u8>,
    found: &mut Vec<Change>,
) -> Result<()> {
    let before = image.map(|image| tree::stat_at(image, name)).transpose()?.flatten();
    if stat.mode & libc::S_IFMT == libc::S_IFCHR && stat.rdev == 0 {
        if before.is_some() {
            found.push(Change { path: path.clone(), kind: DELETED });
        }
        return Ok(());
    }
    let engine_made = before.is_none() && ENGINE_MADE.iter().any(|made| made.as_bytes() == path.as_slice());
    if !stat.is_dir() {
        let kind = if before.is_some() { MODIFIED } else { ADDED };
        let same = before
            .is_some_and(|before| is_same(stat, &before) && stat.size == before.size && stat.mtime == before.mtime);
        let hidden = engine_made && stat.size == 0;
        if !same && !hidden {
            found.push(Change { path: path.clone(), kind });
        }
        return Ok(());
    }
    let opened = match tree::open_dir_at(upper, name) {
        // The container removed it since it was listed.
        Err(error) if is_elsewhere(&error) => return Ok(()),
        opened => opened?,
    };
    let lower = match (image, before.filter(Stat::is_dir)) {
        (Some(image), Some(_)) => Some(tree::open_dir_at(image, name)?),
        _ => None,
    };
    let at = found.len();
    directory(opened.as_fd(), lower.as_ref().map(AsFd::as_fd), path, found)?;
    let changed_below = found.len() > at;
    let kind = match before {
        None if engine_made && !changed_below => return Ok(()),
        None => ADDED,
        Some(before) if changed_below || !is_same(stat, &before) => MODIFIED,
        Some(_) => return Ok(()),
    };
    found.push(Change { path: path.clone(), kind });
    Ok(())
}

/// Whether what was there a moment ago is gone, or is something else now: a running container goes on meanwhile.
pub(super) fn is_elsewhere(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
}

/// Whether the kind, the rights and the owner are as they were.
fn is_same(a: &Stat, b: &Stat) -> bool {
    (a.mode, a.uid, a.gid, a.rdev) == (b.mode, b.uid, b.gid, b.rdev)
}
