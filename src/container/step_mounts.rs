//! Mounts and variables that one step of a build has, beside its container's spec: nothing of them is stored, so no
//! secret comes to the disk and no layer gets a directory that was only there to mount something on.
//!
//! Each file system is the root of a mount namespace of its own. The monitor takes the mount from there, as it takes the
//! volumes that containers share, and resolves the path in it in one call: no link in it leads out.

use crate::error::{Cause, Error, Result};
use crate::kernel::path::{BENEATH_NO_LINKS, openat2};
use crate::kernel::tree::{self, Stat};
use crate::launch::plan::{self, MAX_VOLUMES};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The mounts and variables of one step.
#[derive(Default)]
pub(crate) struct StepExtras {
    pub(crate) mounts: Vec<StepMount>,
    /// `NAME=VALUE`.
    pub(crate) env: Vec<String>,
    /// A socket in whose queue locks are: they are held until the step has ended.
    pub(crate) locks: Option<OwnedFd>,
}

/// One mount of a step.
pub(crate) struct StepMount {
    /// A mount namespace whose root is the file system.
    pub(crate) namespace: OwnedFd,
    /// The path in it, relative and without links; empty: all of it.
    pub(crate) part: String,
    /// Absolute.
    pub(crate) target: String,
    /// `MOUNT_ATTR_*` beside those of the file system.
    pub(crate) attributes: u64,
    /// The owners of its files are ids of the container.
    pub(crate) own_ids: bool,
}

impl StepExtras {
    /// Adds them to a container that starts with `before` volumes; answers the namespaces, in their order, and
    /// what the monitor is to hold beside them.
    pub(super) fn add_to(self, container: &mut plan::Container, before: usize) -> Result<Vec<OwnedFd>> {
        check_mounts(before + self.mounts.len(), self.locks.is_some())?;
        // The variables of the step are stronger than those of the image.
        let name = |entry: &str| entry.split('=').next().unwrap_or_default().to_owned();
        let own: Vec<String> = self.env.iter().map(|entry| name(entry)).collect();
        container.program.env.retain(|entry| !own.contains(&name(entry)));
        container.program.env.extend(self.env);
        let mut namespaces = Vec::new();
        for (index, mount) in (before..).zip(self.mounts) {
            container.mounts.push(plan::Mount::Volume {
                index: index as u32,
                name: "of the build".into(),
                target: mount.target,
                part: mount.part,
                attributes: mount.attributes,
                own_ids: mount.own_ids,
            });
            namespaces.push(mount.namespace);
        }
        // A monitor keeps what it is given as the namespace of a volume until the container has ended, whether its plan
        // mounts it or not.
        namespaces.extend(self.locks);
        Ok(namespaces)
    }
}

/// Refuses more mounts than the container of a step takes. `locks`: its monitor holds locks, too.
pub(crate) fn check_mounts(count: usize, locks: bool) -> Result<()> {
    let most = MAX_VOLUMES - usize::from(locks);
    match count > most {
        true => {
            let text = format!("RUN --mount: a step takes at most {most} mounts");
            Err(Error::unsupported(text).caused_by(Cause::TooManyMounts))
        }
        false => Ok(()),
    }
}

/// A place of a mount that the image does not have: it is made for the mount, and taken away behind it.
pub(crate) struct Stub {
    /// The path in the image, without links.
    pub(crate) path: String,
    /// How many of its first directories the image has.
    pub(crate) kept: usize,
}

impl Stub {
    /// Takes the place away from the tree of changes `upper`, as far as nothing was put there. A directory of the image
    /// that was copied only for the place goes, too, if it has no other change: `image` answers the facts of a directory.
    pub(super) fn remove(&self, upper: &OwnedFd, image: &dyn Fn(&str) -> Result<Option<DirFacts>>) -> Result<()> {
        let parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        for end in (1..=parts.len()).rev() {
            let above = parts[..end - 1].join("/");
            let flags = libc::O_RDONLY | libc::O_DIRECTORY;
            let place = if above.is_empty() { "." } else { above.as_str() };
            // The step may have put anything there: a link is not followed.
            let Ok(dir) = openat2(upper.as_fd(), place, flags, 0, BENEATH_NO_LINKS) else { continue };
            let before = tree::stat_fd(dir.as_fd())?;
            let whole = format!("/{}", parts[..end].join("/"));
            let gone = match end > self.kept {
                true => remove_empty(&dir, parts[end - 1])?,
                false => remove_unchanged(&dir, parts[end - 1], image(&whole)?)?,
            };
            if !gone {
                return Ok(());
            }
            tree::utime_fd(dir.as_fd(), before.mtime)?;
        }
        Ok(())
    }
}

/// Removes a directory or a file in which nothing is. Answers whether it is not there.
fn remove_empty(dir: &OwnedFd, name: &str) -> Result<bool> {
    match tree::stat_at(dir.as_fd(), name)? {
        None => Ok(true),
        Some(there) if there.is_dir() => match tree::is_empty(tree::open_dir_at(dir.as_fd(), name)?.as_fd())? {
            true => tree::rmdir_at(dir.as_fd(), name).map(|()| true),
            false => Ok(false),
        },
        Some(there) if there.is_file() && there.size == 0 => tree::unlink_at(dir.as_fd(), name).map(|()| true),
        Some(_) => Ok(false),
    }
}

/// The facts of a directory by which a copy of it is known to be unchanged.
pub(super) struct DirFacts {
    stat: Stat,
    attributes: Vec<(String, Option<Vec<u8>>)>,
}

impl DirFacts {
    pub(super) fn of(dir: BorrowedFd<'_>) -> Result<DirFacts> {
        let mut keys = tree::xattrs_fd(dir)?;
        // The notes of overlayfs are of the copy alone.
        keys.retain(|key| !key.starts_with("trusted.overlay."));
        keys.sort_unstable();
        let attributes = keys.into_iter().map(|key| Ok((key.clone(), tree::get_xattr_fd(dir, &key)?)));
        Ok(DirFacts { stat: tree::stat_fd(dir)?, attributes: attributes.collect::<Result<_>>()? })
    }

    fn is_same(&self, other: &DirFacts) -> bool {
        let key = |stat: &Stat| (stat.mode, stat.uid, stat.gid);
        key(&self.stat) == key(&other.stat) && self.attributes == other.attributes
    }
}

/// Removes the copy of a directory of the image that differs in nothing from it. Answers whether it is not there.
fn remove_unchanged(dir: &OwnedFd, name: &str, image: Option<DirFacts>) -> Result<bool> {
    let (Some(image), Some(there)) = (image, tree::stat_at(dir.as_fd(), name)?) else { return Ok(false) };
    if !there.is_dir() {
        return Ok(false);
    }
    let copy = tree::open_dir_at(dir.as_fd(), name)?;
    if !DirFacts::of(copy.as_fd())?.is_same(&image) {
        return Ok(false);
    }
    // In an opaque directory the image's files are deleted.
    let opaque = tree::get_xattr_fd(copy.as_fd(), "trusted.overlay.opaque")?.is_some_and(|value| value == b"y");
    match !opaque && tree::is_empty(copy.as_fd())? {
        true => tree::rmdir_at(dir.as_fd(), name).map(|()| true),
        false => Ok(false),
    }
}
