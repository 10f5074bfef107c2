//! A container's part in a copy of the root: its files, and a state record that says that it does not run.

use super::{Finder, Freezer, Places, Register, spec};
use crate::error::{ErrorKind, Result};
use crate::kernel::copy::TreeCopy;
use crate::kernel::{quota, tree};
use crate::launch::monitor::Control;
use crate::order::Order as _;
use crate::store::states::{State, id_head};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// How often the logs of a container are copied again because they were rotated meanwhile.
const AGAIN: u32 = 8;
/// The writable layer, and overlayfs's own directory beside it, in which nothing is kept.
const UPPER: &str = "upper";
const WORK: &str = "work";

/// How a container's files were copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopiedFiles {
    Whole,
    /// All are there, but the copy's file system cannot bound what the container may store.
    Unbounded,
    /// The container was removed before its files were copied.
    Gone,
}

/// The containers' part in copies of the root.
pub(crate) struct Copies {
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) finder: Arc<Finder>,
    pub(super) freezer: Arc<Freezer>,
}

impl Copies {
    /// The copy's record of a container, and whether the original runs. A running container has ended in the copy,
    /// `now` (nanoseconds since 1970), as after a crash of the machine.
    pub(crate) fn state_for_copy(&self, slot: u32, id: &str, now: i64) -> Result<(State, bool)> {
        let found = self.register.states.now(slot, id)?;
        let ran = found.is_live();
        Ok((State { id: id_head(id), ..found.at_rest(now) }, ran))
    }

    /// Copies the files of a container into the directory `to`, whose path is `path`.
    pub(crate) fn copy_files(
        &self,
        id: &str,
        spec: &str,
        (to, path): (BorrowedFd<'_>, &Path),
        copy: &mut TreeCopy<'_>,
    ) -> Result<CopiedFiles> {
        let from = match tree::open_dir(&self.places.dir(id)) {
            Err(error) if error.is(libc::ENOENT) => return Ok(CopiedFiles::Gone),
            from => from?,
        };
        tree::mkdir_at(to, id, 0o700)?;
        let made = tree::open_dir_at(to, id)?;
        let mut copied = CopiedFiles::Whole;
        for (name, is_dir) in tree::entries(from.as_fd())? {
            if !is_dir {
                continue;
            }
            tree::mkdir_at(made.as_fd(), &name, 0o700)?;
            if name == UPPER.as_bytes() && !self.bound_copy(id, spec, &path.join(id))? {
                copied = CopiedFiles::Unbounded;
            }
            if name != WORK.as_bytes() {
                let source = tree::open_dir_at(from.as_fd(), &name)?;
                copy.all(source.as_fd(), tree::open_dir_at(made.as_fd(), &name)?.as_fd())?;
            }
        }
        copy_own(&from, &made, copy)?;
        Ok(copied)
    }

    /// Copies a writable layer of overlayfs into that of a new container, which must be empty.
    pub(crate) fn fill(&self, reference: &str, layer: &OwnedFd, copy: &mut TreeCopy<'_>) -> Result<()> {
        let (_busy, found) = self.finder.lock(reference, None)?;
        let upper = tree::open_dir(&self.places.dir(&found.row.id).join(UPPER))?;
        // The creation of the container may have made its working directory.
        for name in tree::names(upper.as_fd())? {
            crate::kernel::remove::remove_tree(upper.as_fd(), name)?;
        }
        copy.all(layer.as_fd(), upper.as_fd())?;
        tree::sync_fs(upper.as_fd())
    }

    /// Limits the storage of the copy of a container as in the original; returns false if the file system of the copy
    /// has no project quotas. Call it before the copy has files.
    fn bound_copy(&self, id: &str, spec: &str, dir: &Path) -> Result<bool> {
        let spec = self.register.specs.of(id, spec)?;
        let Some(size) = spec::storage_size(&spec.host_config)? else { return Ok(true) };
        if !quota::has_projects(dir)? {
            return Ok(false);
        }
        let project = super::storage::free_project(dir, id)?;
        quota::set_limit(dir, project, size)?;
        quota::set_project(&dir.join(UPPER), project)?;
        Ok(true)
    }

    /// Runs `work` while these containers are frozen; stopped ones, and those that somebody else froze, are left alone.
    /// The containers continue even if this program is killed.
    pub(crate) fn while_still<T>(&self, ids: &[String], work: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut held: Vec<(&String, Control)> = Vec::new();
        let frozen = ids.iter().try_for_each(|id| match self.freezer.hold_still(id) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            still => still.map(|control| held.extend(control.map(|control| (id, control)))),
        });
        let done = frozen.and_then(|()| work());
        let mut freed = Ok(());
        for (id, control) in held {
            freed = freed.and(self.freezer.let_go_on(id, &control));
        }
        done.and_then(|done| freed.map(|()| done))
    }
}

/// Copies the files that engine and monitor keep of a container. A rotation renames logs, so a copy during which one
/// happened could have lines twice; it is made again.
fn copy_own(from: &OwnedFd, to: &OwnedFd, copy: &mut TreeCopy<'_>) -> Result<()> {
    let own = || -> Result<Vec<(Vec<u8>, tree::Stat)>> {
        let mut all = Vec::new();
        for (name, is_dir) in tree::entries(from.as_fd())? {
            if !is_dir && let Some(stat) = tree::stat_at(from.as_fd(), &name)? {
                all.push((name, stat));
            }
        }
        all.order_by(|a, b| a.0.cmp(&b.0));
        Ok(all)
    };
    let same = |a: &[(Vec<u8>, tree::Stat)], b: &[(Vec<u8>, tree::Stat)]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1.ino == b.1.ino)
    };
    let mut before = own()?;
    for left in (0..AGAIN).rev() {
        for (name, stat) in &before {
            copy.one(from.as_fd(), to.as_fd(), name, stat)?;
        }
        let after = own()?;
        if same(&before, &after) || left == 0 {
            break;
        }
        for (name, _) in &before {
            crate::kernel::remove::remove_tree(to.as_fd(), name)?;
        }
        before = after;
    }
    Ok(())
}

/// Makes the directory of the containers in a copy.
pub(crate) fn copy_place(root: &Path) -> Result<OwnedFd> {
    tree::make_dir(&root.join("containers"), 0o700).map_err(|error| error.in_area("root"))
}
