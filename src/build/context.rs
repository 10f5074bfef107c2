//! The context: what the client sent, staged once, and the build file in it.

use super::files::{Copier, open_dir, open_file, resolve, split, stat};
use crate::buildfile::Patterns;
use crate::container::extract;
use crate::error::{Error, ErrorKind, Result};
use crate::image::SharedBuilding;
use crate::kernel::remove::remove_tree;
use crate::kernel::tree;
use crate::kernel::walk::{Chain, Mounts, Order, Step, Walk, check_path};
use crate::op::Op;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Where a build file is looked for when none is named.
const NAMES: [&str; 3] = ["Dockerfile", "dockerfile", "Buildfile"];
/// Largest build file, and largest ignore file: each pattern takes much more than its text.
pub(super) const MAX_FILE: u64 = 1 << 20;
const MAX_IGNORE: u64 = 256 << 10;

/// Unpacks a context, plain or compressed, into a directory of the build's.
pub(super) fn stage(building: &SharedBuilding<'_>, input: &mut dyn Read, op: Option<&Op>) -> Result<Arc<OwnedFd>> {
    let (_, stage) = building.directory()?;
    extract(&stage.dir, "/", input, stage.dir.as_fd(), stage.room, op).map_err(|error| match error.kind() {
        ErrorKind::Cancelled | ErrorKind::Timeout | ErrorKind::Callback | ErrorKind::Io => error,
        // These bytes are not a context. dockerd calls this an internal failure, and so do we.
        _ => error.context("Error processing tar file").with_kind(ErrorKind::Internal),
    })?;
    Ok(Arc::new(stage.dir))
}

/// Copies a directory of this machine into one of the build's, without what its ignore file names. All of it is root's.
pub(super) fn stage_directory(building: &SharedBuilding<'_>, from: &OwnedFd, op: Option<&Op>) -> Result<Arc<OwnedFd>> {
    let (_, stage) = building.directory()?;
    let patterns = ignored(from)?;
    let copier = Copier { owner: Some((0, 0)), mode: None, excluded: &Patterns::default(), op };
    copy(from.as_fd(), stage.dir.as_fd(), &copier, &patterns)?;
    Ok(Arc::new(stage.dir))
}

/// Copies all that is not ignored. A directory that is ignored is made only for what is not ignored in it.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>, copier: &Copier<'_>, patterns: &Patterns) -> Result<()> {
    let mut walk = Walk::new(from, Order::AsRead, Mounts::Crossed)?;
    let mut made = Chain::new(to, Mounts::Crossed);
    let mut stats = Vec::new();
    while let Some(step) = walk.next()? {
        if step == Step::Left {
            let copy = if made.depth() > walk.depth() { made.leave()? } else { None };
            if let (Some(stat), Some(copy), Some(original)) = (stats.pop(), copy, walk.left()) {
                copier.finish(copy.as_fd(), original, &stat)?;
            }
            continue;
        }
        let Some(stat) = walk.stat()? else { continue };
        check_path(walk.path())?;
        let ignored = patterns.ignores(&String::from_utf8_lossy(walk.path()));
        if !stat.is_dir() {
            if !ignored {
                make(&mut made, walk.path(), walk.depth())?;
                copier.one(walk.dir()?, walk.name(), made.here()?, walk.name(), &stat)?;
            }
        } else if (!ignored || patterns.has_exceptions())
            && let Some(dir) = walk.open()?
        {
            if !ignored {
                make(&mut made, walk.path(), walk.depth() + 1)?;
            }
            stats.push(stat);
            walk.enter(dir)?;
        }
    }
    Ok(())
}

/// Makes what is missing of the first `levels` directories of a path.
fn make(made: &mut Chain<'_>, path: &[u8], levels: usize) -> Result<()> {
    for name in path.split(|&byte| byte == b'/').take(levels).skip(made.depth()) {
        tree::mkdir_at(made.here()?, name, 0o755)?;
        let dir = tree::open_dir_at(made.here()?, name)?;
        made.enter(name, dir)?;
    }
    Ok(())
}

fn ignored(root: &OwnedFd) -> Result<Patterns> {
    #[cfg(feature = "attacks")]
    if !crate::walls::Wall::IgnoreFiles.stands() {
        let dir = std::path::PathBuf::from(String::from_utf8_lossy(&tree::path_of(root.as_fd())?).into_owned());
        return std::fs::read(dir.join(".dockerignore")).map_or(Ok(Patterns::default()), |text| Patterns::read(&text));
    }
    match stat(root, "/.dockerignore")?.filter(|stat| stat.is_file()) {
        Some(_) => Patterns::read(&read(root, "/.dockerignore", MAX_IGNORE)?),
        None => Ok(Patterns::default()),
    }
}

/// The build file of a context, by its path or by the names that it may have.
pub(super) fn build_file(root: &OwnedFd, asked: &str) -> Result<(String, Vec<u8>)> {
    let names: Vec<&str> = if asked.is_empty() { NAMES.to_vec() } else { vec![asked] };
    for name in &names {
        let real = resolve(root, name)?;
        if stat(root, &real)?.is_some() {
            let bytes = read(root, &real, MAX_FILE)?;
            return match bytes.is_empty() {
                true => Err(Error::invalid(format!("the Dockerfile ({name}) cannot be empty"))),
                false => Ok((name.to_string(), bytes)),
            };
        }
    }
    Err(Error::internal(format!("Cannot locate specified Dockerfile: {}", names[0])))
}

/// Takes away from a context what only served the build, where the ignore file names it: the client had to send it.
pub(super) fn take_away(root: &OwnedFd, build_file: Option<&str>) -> Result<()> {
    let patterns = ignored(root)?;
    for own in [Some(".dockerignore"), build_file].into_iter().flatten() {
        let path = resolve(root, own)?;
        if patterns.ignores(path.trim_start_matches('/')) {
            let (above, last) = split(&path);
            remove_tree(open_dir(root, above)?.as_fd(), last)?;
        }
    }
    Ok(())
}

fn read(root: &OwnedFd, path: &str, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(root, path)?.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(Error::invalid(format!("{path} is larger than {most} bytes"))),
        false => Ok(bytes),
    }
}
