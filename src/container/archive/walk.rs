//! Looks up paths in a view: always below its root, wherever links point, also while they are swapped.

use crate::error::{Error, Result};
use crate::kernel::path::{IN_ROOT, openat2};
use crate::kernel::tree::{self, Stat};
use std::os::fd::{AsFd, OwnedFd};

/// A path as a client means it.
pub(crate) struct Wanted {
    /// Absolute and clean.
    path: String,
    /// The path ends in `/` or `/.`: the client means a directory.
    is_dir: bool,
    /// The path ends in `/.`: the client means the content of the directory.
    pub content: bool,
}

/// The object at a path.
pub(super) struct Place {
    /// The directory that holds the object; the root holds itself.
    pub parent: OwnedFd,
    /// The object's name in `parent`; `.` if it is `parent` itself.
    pub name: Vec<u8>,
    pub stat: Stat,
}

/// Most links that one path may lead through.
const MAX_LINKS: usize = 255;

impl Wanted {
    /// Errors: the path is empty or holds a NUL.
    pub(crate) fn parse(path: &str) -> Result<Wanted> {
        if path.is_empty() {
            return Err(Error::invalid("must specify path parameter"));
        }
        if path.contains('\0') {
            return Err(Error::invalid("the path holds a NUL byte"));
        }
        let content = path.ends_with("/.") || path == ".";
        Ok(Wanted { is_dir: content || path.ends_with('/'), content, path: super::super::spec::clean(path) })
    }

    /// The name that the path ends in, as clients see it.
    pub(super) fn name(&self) -> &str {
        match self.path.rsplit('/').next() {
            _ if self.content => ".",
            Some("") | None => "/",
            Some(name) => name,
        }
    }

    /// Absolute and clean.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Finds the object. A link at the end of the path is not followed, unless the client means a directory. Errors
    /// have the kernel's error number.
    pub(super) fn find(&self, root: &OwnedFd) -> Result<Place> {
        if self.is_dir || self.path == "/" {
            let parent = openat2(root.as_fd(), &self.path, libc::O_RDONLY | libc::O_DIRECTORY, 0, IN_ROOT)?;
            let stat = tree::stat_fd(parent.as_fd())?;
            return Ok(Place { parent, name: b".".to_vec(), stat });
        }
        let (above, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let above = if above.is_empty() { "/" } else { above };
        let parent = openat2(root.as_fd(), above, libc::O_PATH | libc::O_DIRECTORY, 0, IN_ROOT)?;
        match tree::stat_at(parent.as_fd(), name)? {
            Some(stat) => Ok(Place { parent, name: name.as_bytes().to_vec(), stat }),
            None => Err(Error::os(format_args!("stat {}", self.path), libc::ENOENT)),
        }
    }

    /// The target of the link at the end, as text; a missing target is used as the link spells it.
    pub(crate) fn target(&self, root: &OwnedFd) -> Result<String> {
        let mut left: Vec<String> = parts(&self.path).rev().collect();
        let (mut done, mut links): (Vec<String>, usize) = (Vec::new(), 0);
        while let Some(part) = left.pop() {
            if part == ".." {
                done.pop();
                continue;
            }
            let above = format!("/{}", done.join("/"));
            let link = openat2(root.as_fd(), above, libc::O_PATH | libc::O_DIRECTORY, 0, IN_ROOT)
                .and_then(|dir| tree::read_link_at(dir.as_fd(), &part));
            match link {
                Ok(text) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Error::os(format_args!("follow {}", self.path), libc::ELOOP));
                    }
                    let text = String::from_utf8_lossy(&text).into_owned();
                    if text.starts_with('/') {
                        done.clear();
                    }
                    left.extend(parts(&text).rev());
                }
                Err(_) => done.push(part),
            }
        }
        Ok(format!("/{}", done.join("/")))
    }
}

fn parts(path: &str) -> impl DoubleEndedIterator<Item = String> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned)
}

/// Makes a mount point, an empty file or directory, and missing directories above it; links are followed inside the
/// root.
pub(super) fn make_place(root: &OwnedFd, path: &str, is_dir: bool) -> Result<OwnedFd> {
    let mut so_far = String::new();
    let all: Vec<String> = parts(path).collect();
    for (index, part) in all.iter().enumerate() {
        let above = if so_far.is_empty() { "/" } else { &so_far };
        let parent = openat2(root.as_fd(), above, libc::O_PATH | libc::O_DIRECTORY, 0, IN_ROOT)?;
        let made = if is_dir || index + 1 < all.len() {
            tree::mkdir_at(parent.as_fd(), part, 0o755)
        } else {
            tree::mknod_at(parent.as_fd(), part, libc::S_IFREG | 0o644, (0, 0))
        };
        match made {
            Err(error) if error.is(libc::EEXIST) => {}
            other => other?,
        }
        so_far = format!("{so_far}/{part}");
    }
    openat2(root.as_fd(), path, libc::O_PATH, 0, IN_ROOT)
}
