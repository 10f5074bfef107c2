//! Sources of COPY and ADD: the files that a pattern selects, and their digest.

use super::files::{Owner, attributes, open_dir, open_file, resolve, split, stat};
use super::selection::Selection;
use crate::buildfile::{Patterns, glob};
use crate::error::{Error, Result};
use crate::image::Hasher;
use crate::kernel::path::{BENEATH_NO_LINKS, openat2};
use crate::kernel::tree::{self, Stat};
use crate::kernel::walk::{Mounts, Order, Step, Walk, check_path};
use crate::op::Op;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Something to copy.
pub(super) struct SourceFile {
    pub(super) root: Arc<OwnedFd>,
    /// As the instruction names it: what it is called where it goes into a directory.
    pub(super) path: String,
    /// Where that is.
    pub(super) real: String,
    /// The part of the path that `--parents` keeps; without that flag empty.
    pub(super) kept: String,
    /// `--exclude` names it: nothing of it is copied.
    pub(super) left_out: bool,
    /// `file:<hex>` or `dir:<hex>`: what the cache goes by.
    pub(super) hash: String,
    /// An archive of ADD may be unpacked.
    pub(super) may_unpack: bool,
}

/// Where sources are looked for.
pub(super) struct Source<'a> {
    pub(super) root: Arc<OwnedFd>,
    /// Whether `root` is the context, and not an image.
    pub(super) is_context: bool,
    /// Owners come along, so they count.
    pub(super) owners: bool,
    /// Files that are left out. With `parents` the patterns are of the kept path, else of paths in a directory that is
    /// copied, and of the names that a wildcard matches.
    pub(super) excluded: &'a Patterns,
    /// With `--parents`: how many directories at the beginning of a path are not made, those before `/./`.
    pub(super) parents: Option<usize>,
    pub(super) op: Option<&'a Op>,
}

/// A source of `--parents` without its first `/./`, and how many directories stand before that.
pub(super) fn without_pivot(source: &str) -> (String, usize) {
    let path = source.trim_start_matches('/');
    match path.split_once("/./") {
        Some((above, kept)) if !leaves(path) => {
            let above = crate::container::spec::clean(&format!("/{above}"));
            let names = above.split('/').filter(|name| !name.is_empty()).count();
            (format!("{}/{kept}", above.trim_end_matches('/')), names)
        }
        // A path that leads out is refused as it is written.
        _ => (source.to_owned(), 0),
    }
}

impl Source<'_> {
    /// The files of one source: itself, or all files that it matches.
    pub(super) fn find(&self, source: &str) -> Result<Vec<SourceFile>> {
        let path = source.strip_prefix('/').unwrap_or(source);
        let path = path.strip_prefix("./").unwrap_or(path);
        if leaves(path) {
            return Err(Error::invalid(format!("forbidden path outside the build context: {path} ()")));
        }
        if !has_wildcards(path) {
            return self.one(path).map(|found| vec![found]);
        }
        let mut matches = Vec::new();
        self.matching(path, &mut matches)?;
        let one = |path: &String| {
            let left_out = self.parents.is_none() && self.excluded.along(split(path).1).0;
            self.one(path).map(|found| SourceFile { left_out: left_out || found.left_out, ..found })
        };
        matches.iter().map(one).collect()
    }

    fn matching(&self, pattern: &str, matches: &mut Vec<String>) -> Result<()> {
        let depth = pattern.matches('/').count();
        let mut walk = Walk::new(self.root.as_fd(), Order::ByName, Mounts::Crossed)?;
        while let Some(step) = walk.next()? {
            self.op.map_or(Ok(()), Op::check)?;
            let Ok(path) = str::from_utf8(walk.path()) else { continue };
            if step == Step::Left {
                continue;
            }
            check_path(walk.path())?;
            if glob(pattern, path) {
                matches.push(path.to_owned());
            }
            // A star takes no slash: deeper than the pattern nothing matches.
            if walk.is_dir()
                && walk.depth() < depth
                && let Some(dir) = walk.open()?
            {
                walk.enter(dir)?;
            }
        }
        Ok(())
    }

    /// The file at a path.
    pub(super) fn one(&self, path: &str) -> Result<SourceFile> {
        let real = match self.parents {
            None => resolve(&self.root, path)?,
            // The way there is kept, so the last name is copied as it is, be it a link.
            Some(_) => match split(path) {
                (_, "" | "." | "..") => resolve(&self.root, path)?,
                (above, name) => format!("{}/{name}", resolve(&self.root, above)?.trim_end_matches('/')),
            },
        };
        let Some(there) = stat(&self.root, &real)? else {
            let missing = Error::not_found(format!("stat {path}: file does not exist"));
            return Err(match self.is_context {
                true => missing.context("file not found in build context or excluded by .dockerignore"),
                false => missing,
            });
        };
        let kept = self.parents.map_or(String::new(), |dropped| {
            path.trim_matches('/').split('/').skip(dropped).collect::<Vec<_>>().join("/")
        });
        let mut left_out = self.excluded.along(&kept).0;
        let mut hasher = Hasher::new();
        let kind = if there.is_dir() {
            let dir = open_dir(&self.root, &real)?;
            let selection = Selection::of_tree(dir.as_fd(), self.excluded, &kept, self.op)?;
            left_out = left_out && !selection.takes_something();
            self.tree(dir.as_fd(), selection, &mut hasher)?;
            "dir"
        } else {
            let (above, name) = split(&real);
            let parent = open_dir(&self.root, above)?;
            self.object(parent.as_fd(), name.as_bytes(), path.as_bytes(), &there, &mut hasher)?;
            "file"
        };
        let hash = format!("{kind}:{}", hasher.finish().hex());
        Ok(SourceFile { root: self.root.clone(), path: path.to_owned(), real, kept, left_out, hash, may_unpack: true })
    }

    fn tree(&self, dir: BorrowedFd<'_>, mut selection: Selection<'_>, hasher: &mut Hasher) -> Result<()> {
        let mut walk = Walk::new(dir, Order::ByName, Mounts::Crossed)?;
        while let Some(step) = walk.next()? {
            if step == Step::Left {
                selection.leave();
                continue;
            }
            let Some(stat) = walk.stat()? else { continue };
            check_path(walk.path())?;
            if !selection.takes(walk.path()) {
                continue;
            }
            let path = [b"/", walk.path()].concat();
            self.object(walk.dir()?, walk.name(), &path, &stat, hasher)?;
            if stat.is_dir()
                && let Some(below) = walk.open()?
            {
                selection.enter();
                walk.enter(below)?;
            }
        }
        Ok(())
    }

    /// Everything of an object that comes to be in the image, but its time.
    fn object(&self, dir: BorrowedFd<'_>, name: &[u8], path: &[u8], stat: &Stat, hasher: &mut Hasher) -> Result<()> {
        self.op.map_or(Ok(()), Op::check)?;
        let owner: Owner = if self.owners { (stat.uid, stat.gid) } else { (0, 0) };
        let size = if stat.is_file() { stat.size } else { 0 };
        let mut head = path.to_vec();
        head.extend_from_slice(format!("\0{:o} {} {} {size} {}\0", stat.mode, owner.0, owner.1, stat.rdev).as_bytes());
        hasher.update(&head);
        match stat.mode & libc::S_IFMT {
            libc::S_IFLNK => hasher.update(&tree::read_link_at(dir, name)?),
            libc::S_IFREG => {
                let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
                let mut file = std::fs::File::from(openat2(dir, name, flags, 0, BENEATH_NO_LINKS)?);
                hash_attributes(file.as_fd(), hasher)?;
                let mut buffer = vec![0; 128 << 10];
                loop {
                    let read = file.read(&mut buffer).map_err(|e| Error::io("read a source", &e))?;
                    if read == 0 {
                        break;
                    }
                    self.op.map_or(Ok(()), Op::check)?;
                    hasher.update(&buffer[..read]);
                }
            }
            libc::S_IFDIR => hash_attributes(tree::open_dir_at(dir, name)?.as_fd(), hasher)?,
            _ => {}
        }
        hasher.update(b"\0");
        Ok(())
    }
}

fn hash_attributes(fd: BorrowedFd<'_>, hasher: &mut Hasher) -> Result<()> {
    for (key, value) in attributes(fd)? {
        hasher.update(format!("{key}={}:", value.len()).as_bytes());
        hasher.update(&value);
    }
    Ok(())
}

/// One digest of all sources.
pub(super) fn hash_of(all: &[SourceFile]) -> String {
    if let [one] = all {
        return one.hash.clone();
    }
    let hashes: Vec<&str> = all.iter().map(|found| found.hash.as_str()).collect();
    let mut hasher = Hasher::new();
    hasher.update(hashes.join(",").as_bytes());
    format!("multi:{}", hasher.finish().hex())
}

/// One digest of all sources that keep the directories above them: their paths count.
pub(super) fn hash_with_paths(all: &[SourceFile]) -> String {
    let mut hasher = Hasher::new();
    all.iter().for_each(|found| hasher.update(format!("{}\0{}\0", found.kept, found.hash).as_bytes()));
    format!("multi:{}", hasher.finish().hex())
}

/// Whether a path, by its words alone, is above where it begins.
fn leaves(path: &str) -> bool {
    let mut depth = 0;
    path.split('/').any(|part| {
        depth += match part {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

fn has_wildcards(path: &str) -> bool {
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '*' | '?' | '[' => return true,
            _ => {}
        }
    }
    false
}

/// The ids of `user[:group]` in an image: numbers as they are, names by the image's files.
pub(super) fn owner(root: &OwnedFd, text: &str) -> Result<Owner> {
    let parts: Vec<&str> = text.split(':').collect();
    let (user, group) = match parts.as_slice() {
        [user] => (*user, *user),
        [user, group] => (*user, *group),
        _ => return Err(Error::invalid(format!("invalid chown string format: {text}"))),
    };
    let user = id_of(root, user, "/etc/passwd", "user")?;
    let group = id_of(root, group, "/etc/group", "group")?;
    Ok((user, group))
}

/// Largest file of users or groups that is read.
const MAX_USERS: u64 = 4 << 20;

fn id_of(root: &OwnedFd, name: &str, file: &str, what: &str) -> Result<u32> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    let letter = &what[..1];
    let unknown = |why: String| Error::invalid(format!("can't find {letter}id for {what} {name}: {why}"));
    let mut text = String::new();
    open_file(root, &resolve(root, file)?)
        .and_then(|file| Ok(file.take(MAX_USERS).read_to_string(&mut text)?))
        .map_err(|_| unknown(format!("open {file}: no such file or directory")))?;
    let of_name = text.lines().filter(|line| line.split(':').next() == Some(name));
    let id = of_name.filter_map(|line| line.split(':').nth(2)?.parse().ok()).next();
    id.ok_or_else(|| unknown(format!("no such {what}: {name}")))
}

/// A tree of the build's own as a source.
#[cfg(feature = "registry")]
pub(super) fn own_tree(root: Arc<OwnedFd>, excluded: &Patterns, op: Option<&Op>) -> Result<SourceFile> {
    let mut one = Source { root, is_context: false, owners: false, excluded, parents: None, op }.one(".")?;
    one.may_unpack = false;
    Ok(one)
}

/// A file of the build's own as a source; `kind`: where it is from.
pub(super) fn own_file(root: OwnedFd, name: &str, kind: &str, op: Option<&Op>) -> Result<SourceFile> {
    let excluded = &Patterns::default();
    let from = Source { root: Arc::new(root), is_context: false, owners: false, excluded, parents: None, op };
    let mut one = from.one(name)?;
    // ADD unpacks the same file where the context has it: that is another step.
    let mut hasher = Hasher::new();
    hasher.update(format!("{kind}\0{}", one.hash).as_bytes());
    (one.may_unpack, one.hash) = (false, format!("file:{}", hasher.finish().hex()));
    Ok(one)
}
