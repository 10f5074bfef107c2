//! Copying what an image has at a volume's place into the volume.

use crate::error::Result;
use crate::kernel::path::{BENEATH_NO_LINKS, openat2};
use crate::kernel::tree::{self, Stat};
use crate::kernel::walk::{Chain, Mounts, Order, Step, Walk};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

/// Copies everything in the directory `from` into the empty directory `to`, and gives `to` its owner, mode and times:
/// hard links, devices and extended attributes too.
///
/// Both must be opened for reading. Nothing is followed that is a link.
pub(super) fn copy_tree(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<()> {
    let mut copy = Copy { root: to, linked: HashMap::new() };
    let mut walk = Walk::new(from, Order::AsRead, Mounts::Crossed)?;
    let mut made = Chain::new(to, Mounts::Crossed);
    while let Some(step) = walk.next()? {
        if step == Step::Left {
            if let (Some(copy), Some(original)) = (made.leave()?, walk.left()) {
                like(original, copy.as_fd(), &tree::stat_fd(original)?)?;
            }
            continue;
        }
        // What went away meanwhile is not copied.
        let Some(stat) = walk.stat()? else { continue };
        if !stat.is_dir() {
            copy.entry(walk.dir()?, made.here()?, walk.name(), &stat, walk.path())?;
        } else if let Some(source) = walk.open()? {
            tree::mkdir_at(made.here()?, walk.name(), 0o700)?;
            let dir = tree::open_dir_at(made.here()?, walk.name())?;
            made.enter(walk.name(), dir)?;
            walk.enter(source)?;
        }
    }
    like(from, to, &tree::stat_fd(from)?)
}

struct Copy<'a> {
    root: BorrowedFd<'a>,
    /// Where the first name of a file with several stands, by device and inode.
    linked: HashMap<(u64, u64), Vec<u8>>,
}

impl Copy<'_> {
    fn entry(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &[u8], stat: &Stat, path: &[u8]) -> Result<()> {
        if stat.links > 1 {
            if let Some(first) = self.linked.get(&(stat.dev, stat.ino)) {
                let (above, old) = first
                    .iter()
                    .rposition(|&b| b == b'/')
                    .map_or((&b"."[..], &first[..]), |at| (&first[..at], &first[at + 1..]));
                let flags = libc::O_PATH | libc::O_DIRECTORY;
                let dir = openat2(self.root, above, flags, 0, BENEATH_NO_LINKS)?;
                return tree::link_at(dir.as_fd(), old, to, name);
            }
            self.linked.insert((stat.dev, stat.ino), path.to_vec());
        }
        match stat.mode & libc::S_IFMT {
            libc::S_IFREG => {
                let mut source = File::from(tree::open_at(from, name, libc::O_RDONLY | libc::O_NONBLOCK, 0)?);
                let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
                let mut made = File::from(tree::open_at(to, name, flags, 0o600)?);
                std::io::copy(&mut source, &mut made)?;
                like(source.as_fd(), made.as_fd(), stat)
            }
            libc::S_IFLNK => {
                tree::symlink_at(tree::read_link_at(from, name)?, to, name)?;
                tree::chown_at(to, name, stat.uid, stat.gid)?;
                tree::utime_at(to, name, stat.mtime)
            }
            _ => {
                let device = (libc::major(stat.rdev), libc::minor(stat.rdev));
                tree::mknod_at(to, name, stat.mode, device)?;
                tree::chown_at(to, name, stat.uid, stat.gid)?;
                tree::chmod_at(to, name, stat.mode & 0o7777)?;
                tree::utime_at(to, name, stat.mtime)
            }
        }
    }
}

/// Gives an open file or directory what another has: the owner first, which takes setuid bits and capabilities away.
fn like(from: BorrowedFd<'_>, to: BorrowedFd<'_>, stat: &Stat) -> Result<()> {
    tree::chown_fd(to, stat.uid, stat.gid)?;
    tree::chmod_fd(to, stat.mode & 0o7777)?;
    for key in tree::xattrs_fd(from)? {
        if key.starts_with("trusted.") || key.starts_with("security.selinux") {
            continue;
        }
        if let Some(value) = tree::get_xattr_fd(from, &key)? {
            match tree::set_xattr_fd(to, &key, &value) {
                // The volume's file system has none of that kind.
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
                other => other?,
            }
        }
    }
    tree::utime_fd(to, stat.mtime)
}
