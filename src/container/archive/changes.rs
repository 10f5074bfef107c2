//! The changes that a container made to its image: its writable directory against the image's tree.

use super::Files;
use crate::error::Result;
use crate::kernel::path::{BENEATH_NO_LINKS, openat2};
use crate::kernel::tree::{self, Stat};
use crate::kernel::walk::{Chain, Mounts, Order, Step, Walk, check_path};
use crate::model::FileChange;
use crate::order::Order as _;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const MODIFIED: u8 = 0;
const ADDED: u8 = 1;
const DELETED: u8 = 2;

/// The paths that the engine makes in every container although its image lacks them. They count as unchanged while they
/// are empty.
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

impl Files {
    /// The changes of a container, by path.
    pub(crate) fn changes(&self, reference: &str) -> Result<Vec<FileChange>> {
        let found = self.finder.find(reference)?;
        let (_, changes) = self.register.if_there(&found, self.changed(&found.row.id, &found.row.image_id))?;
        let shown =
            |change: Change| FileChange { path: String::from_utf8_lossy(&change.path).into_owned(), kind: change.kind };
        Ok(changes.into_iter().map(shown).collect())
    }

    /// The writable directory, and the changes in it.
    pub(super) fn changed(&self, id: &str, image_id: &str) -> Result<(OwnedFd, Vec<Change>)> {
        let image = self.places.image_root(image_id)?;
        let image = openat2(image.as_fd(), ".", libc::O_RDONLY | libc::O_DIRECTORY, 0, BENEATH_NO_LINKS)?;
        let upper = tree::open_dir(&self.places.dir(id).join("upper"))?;
        let found = compare(upper.as_fd(), image.as_fd())?;
        Ok((upper, found))
    }
}

/// Compares a writable directory with the image's tree.
fn compare(upper: BorrowedFd<'_>, image: BorrowedFd<'_>) -> Result<Vec<Change>> {
    let mut found = Vec::new();
    let mut walk = Walk::new(upper, Order::AsRead, Mounts::Crossed)?;
    // The image's directory at this path, as long as the image has one that is still visible.
    let mut lower = Chain::new(image, Mounts::Crossed);
    let mut dirs: Vec<Dir> = Vec::new();
    while let Some(step) = walk.next()? {
        if step == Step::Left {
            let below = if lower.depth() > walk.depth() { lower.leave()? } else { None };
            if let (Some(upper), Some(image)) = (walk.left(), &below) {
                hidden(upper, image.as_fd(), walk.path(), &mut found)?;
            }
            if let Some(dir) = dirs.pop() {
                dir.add_itself(walk.path(), &mut found)?;
            }
            continue;
        }
        let Some(stat) = walk.stat()? else { continue };
        let image = if lower.depth() == walk.depth() { Some(lower.here()?) } else { None };
        let before = image.map(|image| tree::stat_at(image, walk.name())).transpose()?.flatten();
        if !stat.is_dir() {
            entry(walk.path(), &stat, before, &mut found)?;
            continue;
        }
        // The container may have removed the directory since it was listed.
        let Some(opened) = walk.open()? else { continue };
        if let Some(image) = image
            && before.is_some_and(|before| before.is_dir())
        {
            let dir = tree::open_dir_at(image, walk.name())?;
            lower.enter(walk.name(), dir)?;
        }
        dirs.push(Dir { stat, before, found: found.len() });
        walk.enter(opened)?;
    }
    hidden(upper, image, b"", &mut found)?;
    found.order_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// A directory that is being compared.
struct Dir {
    stat: Stat,
    before: Option<Stat>,
    /// How many changes had been found before the directory was entered.
    found: usize,
}

impl Dir {
    /// Adds the change of the directory itself, after those of its entries.
    fn add_itself(&self, path: &[u8], found: &mut Vec<Change>) -> Result<()> {
        let changed_below = found.len() > self.found;
        let kind = match &self.before {
            None if is_engine_made(path) && !changed_below => return Ok(()),
            None => ADDED,
            Some(before) if changed_below || !is_same(&self.stat, before) => MODIFIED,
            Some(_) => return Ok(()),
        };
        add(found, path, b"", kind)
    }
}

/// Adds the entries of the image's directory that are hidden because the container replaced the directory as a whole.
fn hidden(upper: BorrowedFd<'_>, image: BorrowedFd<'_>, path: &[u8], found: &mut Vec<Change>) -> Result<()> {
    if tree::get_xattr_fd(upper, "trusted.overlay.opaque")?.is_none_or(|value| value != b"y") {
        return Ok(());
    }
    let names: BTreeSet<Vec<u8>> = tree::names(upper)?.into_iter().collect();
    let gone = tree::names(image)?.into_iter().filter(|name| !names.contains(name));
    gone.into_iter().try_for_each(|name| add(found, path, &name, DELETED))
}

/// Adds the change of an entry that is not a directory.
fn entry(path: &[u8], stat: &Stat, before: Option<Stat>, found: &mut Vec<Change>) -> Result<()> {
    if stat.mode & libc::S_IFMT == libc::S_IFCHR && stat.rdev == 0 {
        return if before.is_some() { add(found, path, b"", DELETED) } else { Ok(()) };
    }
    let same =
        before.is_some_and(|before| is_same(stat, &before) && stat.size == before.size && stat.mtime == before.mtime);
    let hidden = before.is_none() && is_engine_made(path) && stat.size == 0;
    if same || hidden {
        return Ok(());
    }
    add(found, path, b"", if before.is_some() { MODIFIED } else { ADDED })
}

/// Adds a change of an absolute path, or of a name in it. Errors: the path cannot be used by any client.
fn add(found: &mut Vec<Change>, path: &[u8], name: &[u8], kind: u8) -> Result<()> {
    let mut whole = Vec::with_capacity(path.len() + name.len() + 2);
    for part in [path, name].into_iter().filter(|part| !part.is_empty()) {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    check_path(&whole)?;
    found.push(Change { path: whole, kind });
    Ok(())
}

/// Whether the engine makes this path in every container.
fn is_engine_made(path: &[u8]) -> bool {
    ENGINE_MADE.iter().any(|made| made.as_bytes().strip_prefix(b"/") == Some(path))
}

/// Whether type, mode and owner are unchanged.
fn is_same(a: &Stat, b: &Stat) -> bool {
    (a.mode, a.uid, a.gid, a.rdev) == (b.mode, b.uid, b.gid, b.rdev)
}
