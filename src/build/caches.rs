//! The caches of `RUN --mount=type=cache`: directories of the root that survive builds and never come into a layer.
//!
//! `root/caches/<digest>/` has `data/`, which steps mount, and `about`, a line of JSON. Its time is that of the last use. A
//! step holds the lock (flock) of the directory as long as it runs; a prune takes only directories whose lock is free. The
//! monitor of the step has the lock, too, so it lasts if the program of the build is killed and the step runs on.
//! The names of directories that are being made or removed begin with a word: the next call removes
//! those of programs that were killed.

use crate::error::{Error, Result};
use crate::hex::random_bytes;
use crate::image::Digest;
use crate::kernel::mount;
use crate::kernel::remove::remove_tree;
use crate::kernel::size::tree_size;
use crate::kernel::tree::{self, Lock};
use crate::kernel::turn;
use crate::op::Op;
use crate::order::Order as _;
use crate::time::now_ns;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

const CACHES: &str = "caches";
const DATA: &str = "data";
const ABOUT: &str = "about";
const MAKING: &str = "making-";
const REMOVING: &str = "removing-";
/// A step waits for a cache as long as the build that uses it may take.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// How often, and after which pause, a step that may have another cache tries to get one.
const LOOKS: u32 = 5;
const LOOK: Duration = Duration::from_millis(2);

/// The record of a cache beside its files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct About {
    pub(crate) id: String,
    pub(crate) created_ns: i64,
}

/// Which cache a mount means, and what a new one is like.
pub(crate) struct Wanted<'a> {
    pub(crate) id: &'a str,
    /// The digest of the first content of a new cache; may be empty.
    pub(crate) content: &'a str,
    pub(crate) mode: u32,
    /// As the host sees it.
    pub(crate) owner: (u32, u32),
    /// A second user gets another cache of the same name.
    pub(crate) private: bool,
    pub(crate) lock: Lock,
}

/// A cache that a step uses.
pub(crate) struct Used {
    pub(crate) data: OwnedFd,
    /// Held until the step has ended.
    lock: OwnedFd,
}

impl Used {
    /// The lock, to be held by another process as well.
    pub(super) fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Frees the lock, of which other processes may have copies: the step has ended. Without this call the lock lasts as
    /// long as the last copy.
    pub(super) fn free(self) {
        // The monitor may still live a moment, and its copy does not keep the lock. If this fails, the monitor's end frees
        // the lock.
        let _ = tree::unlock(self.lock.as_fd());
    }
}

/// A cache as a list shows it.
pub(crate) struct Listed {
    /// The name of its directory.
    pub(crate) name: String,
    pub(crate) about: About,
    pub(crate) used_ns: i64,
    pub(crate) in_use: bool,
    pub(crate) size: u64,
}

/// The caches of a root.
pub(crate) struct Caches {
    dir: OwnedFd,
    path: PathBuf,
}

impl Caches {
    /// Opens the caches of a root; the first one makes their directory.
    pub(crate) fn open(root: &Path) -> Result<Caches> {
        let path = root.join(CACHES);
        Ok(Caches { dir: tree::make_dir(&path, 0o700)?, path })
    }

    /// The caches of a root, if there ever was one.
    pub(crate) fn known(root: &Path) -> Result<Option<Caches>> {
        match root.join(CACHES).try_exists() {
            Ok(false) => Ok(None),
            Ok(true) => Caches::open(root).map(Some),
            Err(e) => Err(Error::io("look for the caches of builds", &e)),
        }
    }

    /// Takes a cache for a step; a new one is filled by `fill`.
    pub(crate) fn take(
        &self,
        wanted: &Wanted<'_>,
        fill: &dyn Fn(&OwnedFd) -> Result<()>,
        op: Option<&Op>,
    ) -> Result<Used> {
        self.sweep()?;
        let name = wanted.name();
        if !wanted.private {
            let what = format!("the cache {} of builds", wanted.id);
            return turn::wait_for(what, LONGEST, op, || self.try_take(&name, wanted, fill));
        }
        let mut number = 0u32;
        loop {
            let name = if number == 0 { name.clone() } else { format!("{name}.{number}") };
            for _ in 0..LOOKS {
                if let Some(used) = self.try_take(&name, wanted, fill)? {
                    return Ok(used);
                }
                // A list locks each cache for a moment.
                std::thread::sleep(LOOK);
            }
            op.map_or(Ok(()), Op::check)?;
            number += 1;
        }
    }

    /// `None`: another step has it.
    fn try_take(&self, name: &str, wanted: &Wanted<'_>, fill: &dyn Fn(&OwnedFd) -> Result<()>) -> Result<Option<Used>> {
        if tree::stat_at(self.dir.as_fd(), name)?.is_none() {
            self.make(name, wanted, fill)?;
        }
        let Some(cache) = self.locked(name, wanted.lock)? else { return Ok(None) };
        if let Some(about) = tree::stat_at(cache.as_fd(), ABOUT)?.filter(|about| about.is_file()) {
            let now = now_ns();
            let time = tree::Time { seconds: now / 1_000_000_000, nanos: (now % 1_000_000_000) as u32 };
            // A prune compares the time of the last use. A cache with an older time works all the same.
            let _ = (about, tree::utime_at(cache.as_fd(), ABOUT, time));
        }
        let data = tree::open_dir_at(cache.as_fd(), DATA)?;
        Ok(Some(Used { data, lock: cache }))
    }

    /// A cache's directory with its lock. `None`: another one has the lock, or a prune took the directory away meanwhile.
    fn locked(&self, name: &str, lock: Lock) -> Result<Option<OwnedFd>> {
        let cache = match tree::open_dir_at(self.dir.as_fd(), name) {
            Err(error) if error.is(libc::ENOENT) => return Ok(None),
            other => other?,
        };
        if !tree::try_lock(cache.as_fd(), lock)? {
            return Ok(None);
        }
        let (own, now) = (tree::stat_fd(cache.as_fd())?, tree::stat_at(self.dir.as_fd(), name)?);
        Ok(now.is_some_and(|now| (now.dev, now.ino) == (own.dev, own.ino)).then_some(cache))
    }

    /// Makes a cache, whole or not at all.
    fn make(&self, name: &str, wanted: &Wanted<'_>, fill: &dyn Fn(&OwnedFd) -> Result<()>) -> Result<()> {
        let making = format!("{MAKING}{:016x}", u64::from_le_bytes(random_bytes()?));
        tree::mkdir_at(self.dir.as_fd(), &making, 0o700)?;
        let dir = match tree::open_dir_at(self.dir.as_fd(), &making) {
            // A sweep took it, because it was not locked yet: the caller looks again.
            Err(error) if error.is(libc::ENOENT) => return Ok(()),
            other => other?,
        };
        tree::lock(dir.as_fd(), Lock::Exclusive, &making)?;
        let filled = self.fill(&dir, wanted, fill);
        let placed = filled.and_then(|()| tree::rename_at(self.dir.as_fd(), &making, self.dir.as_fd(), name));
        match placed {
            Ok(()) => Ok(()),
            // Another build was faster, or a sweep took a directory that was not locked yet.
            Err(error) if error.is(libc::EEXIST) || error.is(libc::ENOTEMPTY) || error.is(libc::ENOENT) => {
                remove_tree(self.dir.as_fd(), &making)
            }
            Err(error) => remove_tree(self.dir.as_fd(), &making).and(Err(error)),
        }
    }

    fn fill(&self, dir: &OwnedFd, wanted: &Wanted<'_>, fill: &dyn Fn(&OwnedFd) -> Result<()>) -> Result<()> {
        let about = About { id: wanted.id.to_owned(), created_ns: now_ns() };
        let text = serde_json::to_vec(&about).map_err(|e| Error::internal(format!("write about a cache: {e}")))?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let mut file = std::fs::File::from(tree::open_at(dir.as_fd(), ABOUT, flags, 0o600)?);
        std::io::Write::write_all(&mut file, &text).map_err(|e| Error::io("write about a cache", &e))?;
        tree::mkdir_at(dir.as_fd(), DATA, 0o700)?;
        let data = tree::open_dir_at(dir.as_fd(), DATA)?;
        fill(&data)?;
        tree::chown_fd(data.as_fd(), wanted.owner.0, wanted.owner.1)?;
        tree::chmod_fd(data.as_fd(), wanted.mode)
    }

    /// Removes what makers and prunes left that were killed.
    fn sweep(&self) -> Result<()> {
        for name in self.names()? {
            let of_maker = name.starts_with(MAKING);
            if !of_maker && !name.starts_with(REMOVING) {
                continue;
            }
            let dir = match tree::open_dir_at(self.dir.as_fd(), &name) {
                Err(error) if error.is(libc::ENOENT) => continue,
                other => other?,
            };
            if tree::try_lock(dir.as_fd(), Lock::Exclusive)? {
                remove_tree(self.dir.as_fd(), &name)?;
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = tree::names(self.dir.as_fd())?
            .into_iter()
            .map(|name| String::from_utf8_lossy(&name).into_owned())
            .collect();
        names.order();
        Ok(names)
    }

    /// The free bytes of the file system that has the caches.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        mount::free_bytes(self.dir.as_fd())
    }

    /// All caches; their files are counted.
    pub(crate) fn list(&self, op: Option<&Op>) -> Result<Vec<Listed>> {
        self.sweep()?;
        let mut all = Vec::new();
        for name in self.names()? {
            op.map_or(Ok(()), Op::check)?;
            if name.starts_with(MAKING) || name.starts_with(REMOVING) {
                continue;
            }
            let cache = match tree::open_dir_at(self.dir.as_fd(), &name) {
                Err(error) if error.is(libc::ENOENT) => continue,
                other => other?,
            };
            let used = tree::stat_at(cache.as_fd(), ABOUT)?.map_or(0, |about| {
                about.mtime.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(about.mtime.nanos))
            });
            let text = std::fs::read(self.path.join(&name).join(ABOUT)).unwrap_or_default();
            // A power cut may leave an empty one: the cache is shown without its id.
            let about = crate::document::read(&text).unwrap_or_default();
            let in_use = !tree::try_lock(cache.as_fd(), Lock::Exclusive)?;
            drop(cache);
            let size = u64::try_from(tree_size(&self.path.join(&name).join(DATA), op)?).unwrap_or(0);
            all.push(Listed { name, about, used_ns: used, in_use, size });
        }
        Ok(all)
    }

    /// Removes a cache that no step uses; answers whether.
    pub(crate) fn remove(&self, name: &str) -> Result<bool> {
        let Some(_cache) = self.locked(name, Lock::Exclusive)? else { return Ok(false) };
        let removing = format!("{REMOVING}{:016x}", u64::from_le_bytes(random_bytes()?));
        tree::rename_at(self.dir.as_fd(), name, self.dir.as_fd(), &removing)?;
        remove_tree(self.dir.as_fd(), &removing).map(|()| true)
    }
}

impl Wanted<'_> {
    /// Caches that begin differently are different ones, as BuildKit has it.
    pub(super) fn name(&self) -> String {
        let (uid, gid) = self.owner;
        let key = format!("{}\0{}\0{:o} {uid} {gid}", self.id, self.content, self.mode);
        Digest::of(key.as_bytes()).hex()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(id: &str) -> Wanted<'_> {
        Wanted { id, content: "", mode: 0o750, owner: (0, 0), private: false, lock: Lock::Shared }
    }

    #[test]
    fn a_cache_is_made_once_and_goes_only_when_nobody_uses_it() {
        let root = std::env::temp_dir().join(format!("coracle-caches-{}", std::process::id()));
        std::fs::create_dir(&root).unwrap();
        assert!(Caches::known(&root).unwrap().is_none());
        let caches = Caches::open(&root).unwrap();
        let nothing = |_: &OwnedFd| Ok(());
        let used = caches.take(&wanted("a"), &nothing, None).unwrap();
        let again = caches.take(&wanted("a"), &|_| panic!("it is there"), None).unwrap();
        tree::mkdir_at(used.data.as_fd(), "x", 0o700).unwrap();
        assert!(tree::stat_at(again.data.as_fd(), "x").unwrap().is_some());
        let private = Wanted { private: true, lock: Lock::Exclusive, ..wanted("a") };
        let other = caches.take(&private, &nothing, None).unwrap();
        assert!(tree::stat_at(other.data.as_fd(), "x").unwrap().is_none());

        let list = caches.list(None).unwrap();
        assert!(list.len() == 2 && list.iter().all(|one| one.in_use && one.about.id == "a"));
        assert!(!caches.remove(&list[0].name).unwrap());
        drop((used, again, other));
        assert!(caches.remove(&list[0].name).unwrap() && !caches.remove(&list[0].name).unwrap());

        // The next look removes the directories of programs that were killed.
        tree::mkdir_at(caches.dir.as_fd(), format!("{MAKING}1"), 0o700).unwrap();
        tree::mkdir_at(caches.dir.as_fd(), format!("{REMOVING}1"), 0o700).unwrap();
        assert_eq!(caches.list(None).unwrap().len(), 1);
        assert_eq!(caches.names().unwrap().len(), 1);
        std::fs::remove_dir_all(&root).unwrap();
    }

    /// The monitor of a step that may still run has a copy of the lock's descriptor.
    #[test]
    fn a_copy_of_the_lock_keeps_it_unless_the_step_has_ended() {
        let root = std::env::temp_dir().join(format!("coracle-copies-{}", std::process::id()));
        std::fs::create_dir(&root).unwrap();
        let caches = Caches::open(&root).unwrap();
        let name = wanted("a").name();
        let take = || caches.take(&wanted("a"), &|_| Ok(()), None).unwrap();
        let used = take();
        let copy = used.lock().try_clone_to_owned().unwrap();
        drop(used);
        assert!(!caches.remove(&name).unwrap(), "a cache of a step that may still run");
        drop(copy);
        let used = take();
        let _copy = used.lock().try_clone_to_owned().unwrap();
        used.free();
        assert!(caches.remove(&name).unwrap(), "a cache of a step that has ended");
        std::fs::remove_dir_all(&root).unwrap();
    }

    /// Makers, sweeps and removals of many threads: each taker gets a cache.
    #[test]
    fn a_cache_is_taken_beside_those_who_make_and_remove_it() {
        let root = std::env::temp_dir().join(format!("coracle-crowd-{}", std::process::id()));
        std::fs::create_dir(&root).unwrap();
        let work = |number: usize| {
            let caches = Caches::open(&root).unwrap();
            for turn in 0..60 {
                let id = ["a", "b"][turn % 2];
                let lock = if number.is_multiple_of(2) { Lock::Shared } else { Lock::Exclusive };
                let private = number == 5;
                let one = Wanted { lock, private, ..wanted(id) };
                let used = caches.take(&one, &|_| Ok(()), None).unwrap();
                tree::stat_fd(used.data.as_fd()).unwrap();
                drop(used);
                caches.remove(&one.name()).unwrap();
                caches.list(None).unwrap();
            }
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..6).map(|number| scope.spawn(move || work(number))).collect();
            all.into_iter().for_each(|one| one.join().unwrap());
        });
        std::fs::remove_dir_all(&root).unwrap();
    }
}
