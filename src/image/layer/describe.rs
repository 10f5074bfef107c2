//! A layer of a tree that is there already: its tar is worked out for its digest and its recipe, and written nowhere.
//! The tree becomes what that tar unpacks to: without overlayfs's notes, sockets and parts of seconds.

use super::pipeline::Staged;
use super::recipe::{self, Encoder, Packer};
use super::recorder::Recorder;
use super::write::{TarSink, TarWriter};
use crate::error::{Error, Result};
use crate::image::digest::Hasher;
use crate::kernel::tree::{self, Time};
use crate::kernel::walk::{Mounts, Order, Step, Walk, check_path};
use crate::op::Op;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const OPAQUE: &str = "trusted.overlay.opaque";

/// Makes the directory `layer`, which holds a writable directory of overlayfs as `diff`, a layer. `None`: nothing is in
/// it, so there is no layer to make.
pub(crate) fn describe(layer: &OwnedFd, op: Option<&Op>) -> Result<Option<Staged>> {
    let diff = tree::open_dir_at(layer.as_fd(), recipe::DIFF)?;
    if tree::is_empty(diff.as_fd())? {
        return Ok(None);
    }
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    let mut packer = Packer::new(tree::open_at(layer.as_fd(), recipe::FILE, flags, 0o600)?, None)?;
    let mut hasher = Hasher::new();
    let size = Cell::new(0u64);
    let tar = {
        let mut encoder = Encoder::new(|piece: Vec<u8>| packer.push(&piece));
        let mut taken = Taken { recorder: &mut encoder, hasher: &mut hasher, size: &size };
        let mut tar = TarWriter::into_sink(&mut taken, op);
        below(&mut tar, diff.as_fd())?;
        forget_notes(diff.as_fd())?;
        tar.finish()?;
        encoder.finish()?
    };
    packer.finish()?;
    let diff_id = hasher.finish();
    Ok(Some(Staged { diff_id, raw: diff_id, size: size.get(), tar }))
}

struct Taken<'a> {
    recorder: &'a mut dyn Recorder,
    hasher: &'a mut Hasher,
    size: &'a Cell<u64>,
}

impl TarSink for Taken<'_> {
    fn literal(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.recorder.literal(bytes)
    }
    fn content(&mut self, path: &[u8], offset: u64, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.size.set(self.size.get() + bytes.len() as u64);
        self.recorder.content(path, offset, bytes.len() as u64)
    }
}

/// Turns overlayfs's mark of a deletion into the mark that a layer's tar has.
fn below(tar: &mut TarWriter<'_>, diff: BorrowedFd<'_>) -> Result<()> {
    let changed = || Error::internal("a layer that is being made was changed");
    let mut walk = Walk::new(diff, Order::ByName, Mounts::Crossed)?;
    // Of the directories on the way: to write in them changes their times.
    let mut times = Vec::new();
    while let Some(step) = walk.next()? {
        if step == Step::Left {
            let (Some(dir), Some(mtime)) = (walk.left(), times.pop()) else { return Err(changed()) };
            forget_notes(dir)?;
            tree::utime_fd(dir, whole(mtime))?;
            continue;
        }
        let stat = walk.stat()?.ok_or_else(changed)?;
        let (path, name, dir) = (walk.path(), walk.name(), walk.dir()?);
        check_path(path)?;
        if stat.mode & libc::S_IFMT == libc::S_IFCHR && stat.rdev == 0 {
            let above = &path[..path.len() - name.len()];
            tar.whiteout(&[above, b".wh.", name].concat())?;
        } else if stat.is_dir() {
            let opened = walk.open()?.ok_or_else(changed)?;
            tar.directory(opened.as_fd(), path)?;
            if tree::get_xattr_fd(opened.as_fd(), OPAQUE)?.is_some_and(|value| value == b"y") {
                tar.whiteout(&[path, b"/.wh..wh..opq"].concat())?;
            }
            times.push(stat.mtime);
            walk.enter(opened)?;
        } else if stat.mode & libc::S_IFMT == libc::S_IFSOCK {
            tree::unlink_at(dir, name)?;
        } else {
            tar.entry(dir, name, path, &stat)?;
            if stat.is_file() {
                forget_notes(tree::open_at(dir, name, libc::O_RDONLY, 0)?.as_fd())?;
            }
            tree::utime_at(dir, name, whole(stat.mtime))?;
        }
    }
    Ok(())
}

/// Takes away what overlayfs noted of where a file or directory came from: it means something to that mount alone.
fn forget_notes(fd: BorrowedFd<'_>) -> Result<()> {
    for key in tree::xattrs_fd(fd)? {
        if key.starts_with("trusted.overlay.") && key != OPAQUE {
            tree::remove_xattr_fd(fd, &key)?;
        }
    }
    Ok(())
}

/// A time as the tar has it.
fn whole(time: Time) -> Time {
    Time { nanos: 0, ..time }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_described_tree_is_replayed_to_its_digest() {
        let dir = std::env::temp_dir().join(format!("coracle-describe-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("diff/d/e")).unwrap();
        let layer = tree::open_dir(&dir).unwrap();
        fs::write(dir.join("diff/d/big"), vec![7u8; 700_000]).unwrap();
        fs::write(dir.join("diff/a"), b"text").unwrap();
        fs::hard_link(dir.join("diff/a"), dir.join("diff/d/same")).unwrap();
        std::os::unix::fs::symlink("a", dir.join("diff/link")).unwrap();
        let staged = describe(&layer, None).unwrap().unwrap();
        let (mut hasher, mut total) = (Hasher::new(), 0);
        recipe::replay(&layer, &mut |bytes| {
            hasher.update(bytes);
            total += bytes.len() as u64;
            Ok(())
        })
        .unwrap();
        assert_eq!((hasher.finish(), total), (staged.diff_id, staged.tar));
        assert_eq!(staged.size, 700_004);
        let stat = tree::stat_at(tree::open_dir_at(layer.as_fd(), "diff").unwrap().as_fd(), "a").unwrap().unwrap();
        assert_eq!(stat.mtime.nanos, 0, "the tree is what the tar unpacks to");
        fs::remove_dir_all(&dir).unwrap();
    }
}
