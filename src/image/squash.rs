//! Squashed images: one layer in the place of those that a build's last stage put on its base.

use super::build_cache::Made;
use super::building::Building;
use super::config::History;
use super::digest::Digest;
use super::layer::write::TarWriter;
use crate::error::{Error, Result};
use crate::kernel::path::{BENEATH_NO_LINKS, openat2};
use crate::kernel::tree::{self, Stat};
use crate::kernel::walk::{Chain, Mounts, Order, Step, Walk, check_path};
use crate::time::{now_ns, rfc3339_nano};
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};

impl Building<'_> {
    /// The layers that an image has above another.
    pub(crate) fn layers_above(&self, image: &str, base: Option<&str>) -> Result<Vec<Digest>> {
        let (_, below) = self.visible().below(base)?;
        let (_, layers) = self.visible().read(image)?;
        let above = layers.strip_prefix(below.as_slice());
        let above = above.ok_or_else(|| Error::internal(format!("{image} does not have the layers of its base")))?;
        Ok(above.to_vec())
    }

    /// Makes the image that has `layer` in the place of all layers of `image` above `base`; answers its id. Its history
    /// keeps the steps, as empty ones, and ends with the merge.
    pub(crate) fn squashed(&mut self, image: &str, base: Option<&str>, layer: Digest) -> Result<String> {
        let (below, mut layers) = self.visible().below(base)?;
        layers.push(layer);
        let (config, _) = self.visible().read(image)?;
        let created = now_ns();
        let merge = match base {
            Some(base) => format!("merge {image} to {base}"),
            None => format!("create new from {image}"),
        };
        let kept = below.steps().count();
        let steps = config.steps().cloned().enumerate();
        let steps = steps.map(|(number, step)| match number < kept {
            true => step,
            false => History { empty_layer: Some(true), ..step },
        });
        let merge = History { created: Some(rfc3339_nano(created)), comment: Some(merge), ..History::default() };
        let history = steps.chain([merge]).collect();
        let step = super::Step {
            parent: None,
            config: &config.config.unwrap_or_default(),
            container_config: &config.container_config.unwrap_or_default(),
            container: &config.container.unwrap_or_default(),
            author: &config.author.unwrap_or_default(),
        };
        // No step of a later build: the cache has the steps themselves.
        self.add(&step, Made { architecture: config.architecture, created, history, layers, here: false })
    }
}

/// Writes a layer that makes the tree `base` the tree `new`.
///
/// Both are views of one root's layers: a file is the same in both exactly if its inode number is.
pub(crate) fn difference(tar: &mut TarWriter<'_>, new: BorrowedFd<'_>, base: BorrowedFd<'_>) -> Result<()> {
    let mut walk = Walk::new(new, Order::ByName, Mounts::Crossed)?;
    // The base's directory at this path, as long as it has one.
    let mut lower = Chain::new(base, Mounts::Crossed);
    let mut out = Changes { tar, new, above: Vec::new() };
    out.removed(new, base, b"")?;
    while let Some(step) = walk.next()? {
        if step == Step::Left {
            if lower.depth() > walk.depth() {
                lower.leave()?;
            }
            out.above.pop();
            continue;
        }
        let stat = walk.stat()?.ok_or_else(changed)?;
        check_path(walk.path())?;
        let below = if lower.depth() == walk.depth() { Some(lower.here()?) } else { None };
        let before = below.map(|below| tree::stat_at(below, walk.name())).transpose()?.flatten();
        if !stat.is_dir() {
            if before.is_none_or(|before| !is_same_file(&before, &stat)) {
                out.show_way()?;
                out.tar.entry(walk.dir()?, walk.name(), walk.path(), &stat)?;
            }
            continue;
        }
        let opened = walk.open()?.ok_or_else(changed)?;
        let before = match (below, before) {
            (Some(below), Some(before)) if before.is_dir() => Some((tree::open_dir_at(below, walk.name())?, before)),
            _ => None,
        };
        out.above.push((walk.path().to_vec(), false));
        let same = match &before {
            Some((dir, before)) => is_same(before, &stat) && attributes(dir.as_fd())? == attributes(opened.as_fd())?,
            None => false,
        };
        if !same {
            out.show_way()?;
        }
        if let Some((dir, _)) = before {
            out.removed(opened.as_fd(), dir.as_fd(), walk.path())?;
            lower.enter(walk.name(), dir)?;
        }
        walk.enter(opened)?;
    }
    Ok(())
}

/// The changes on their way into a tar.
struct Changes<'c, 't> {
    tar: &'c mut TarWriter<'t>,
    new: BorrowedFd<'c>,
    /// The directories down to the present place, and whether each was written.
    above: Vec<(Vec<u8>, bool)>,
}

impl Changes<'_, '_> {
    /// Writes the directories that a change is in.
    fn show_way(&mut self) -> Result<()> {
        for (path, written) in self.above.iter_mut().filter(|(_, written)| !written) {
            let flags = libc::O_RDONLY | libc::O_DIRECTORY;
            let dir = openat2(self.new, path.as_slice(), flags, 0, BENEATH_NO_LINKS)?;
            self.tar.directory(dir.as_fd(), path)?;
            *written = true;
        }
        Ok(())
    }

    /// Writes which names of a directory are gone.
    fn removed(&mut self, new: BorrowedFd<'_>, base: BorrowedFd<'_>, path: &[u8]) -> Result<()> {
        let there: HashSet<Vec<u8>> = tree::names(new)?.into_iter().collect();
        let mut gone: Vec<_> = tree::names(base)?.into_iter().filter(|name| !there.contains(name)).collect();
        gone.sort_unstable();
        for name in gone {
            self.show_way()?;
            let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
            self.tar.whiteout(&[path, slash, b".wh.", &name].concat())?;
        }
        Ok(())
    }
}

fn is_same_file(a: &Stat, b: &Stat) -> bool {
    is_same(a, b) && (a.ino, a.size) == (b.ino, b.size)
}

fn is_same(a: &Stat, b: &Stat) -> bool {
    (a.mode, a.uid, a.gid, a.rdev, a.mtime) == (b.mode, b.uid, b.gid, b.rdev, b.mtime)
}

fn attributes(dir: BorrowedFd<'_>) -> Result<Vec<(String, Option<Vec<u8>>)>> {
    let mut keys = tree::xattrs_fd(dir)?;
    keys.sort_unstable();
    keys.into_iter().map(|key| Ok((key.clone(), tree::get_xattr_fd(dir, &key)?))).collect()
}

fn changed() -> Error {
    Error::internal("an image that is being squashed was changed")
}
