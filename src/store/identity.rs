//! The identity of a root: its engine id, and the one run directory that all of its programs share.
//!
//! `root/identity` holds the id of the engine, the boot in which the file was written last, the device and inode of the
//! file itself, and the run directory. `run/identity` says the same of the run directory. With both, an open distinguishes:
//!
//! - the root that others use at this moment, under whatever path: the open takes the run directory that they use, or is
//!   refused where it cannot see that directory. Containers are never taken for dead because the directory is another.
//! - a copy of a root. Within one boot the inode shows it: a copy gets an id of its own, so that its control groups and its
//!   firewall are its own, and none of its containers counts as running. After a boot nothing can live, so the id stays,
//!   unless another root that is in use on this host has the same ([`REGISTRY`]).
//! - a run directory that another root uses: refused.
//!
//! Whether a root is in use is a matter of locks, as everywhere: every engine holds a shared lock on `root/identity` as
//! long as it is open, and every monitor one on `root/alive`.

use super::slot_locks::open;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::file;
use crate::kernel::remove::remove_tree;
use crate::kernel::tree;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The name of both files.
pub(crate) const NAME: &str = "identity";

/// The file of the id that `info` shows.
pub(crate) const SHOWN_ID: &str = "engine-id";

/// The byte of `root/identity` that an open locks while it decides.
const TURN: u64 = 0;
/// The byte that every engine shares as long as it is open.
const USERS: u64 = 1;

/// Where the roots of this boot that are in use stand by their ids.
const REGISTRY: &str = "/run/coracle-host/roots";

/// The name of a file system's own directory, which is there before a root is.
const KEPT: &str = "lost+found";

/// The longest record: a path and some numbers.
const MOST: u64 = 16 << 10;

/// A file's device and inode.
type Place = (u64, u64);

/// The document `root/identity`.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
struct Record {
    id: String,
    boot: String,
    file: Place,
    run: PathBuf,
    run_file: Place,
    /// Monitors of a version that locked `run/alive` may live.
    #[serde(default)]
    older: bool,
}

/// The document `run/identity`, also of a file of [`REGISTRY`].
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
struct User {
    id: String,
    boot: String,
    root: PathBuf,
    root_file: Place,
}

/// The request of an open.
pub(crate) struct Ask<'a> {
    pub root: &'a Path,
    /// The run directory that the program names.
    pub run: Option<&'a Path>,
    /// The run directory of this root where the program names none.
    pub default_run: &'a Path,
    /// The id for a root without one: the id of its default network. Roots of older versions named their firewall after
    /// that network.
    pub first_id: &'a str,
    /// The boot of this moment.
    pub boot: [u8; 16],
}

/// A root that this engine uses until the value is dropped.
pub(crate) struct Claim {
    /// The engine's id: 64 hexadecimal digits.
    pub id: String,
    /// The run directory.
    pub run: PathBuf,
    /// The id is the one that the root had from its beginning.
    pub is_first: bool,
    root: PathBuf,
    file: File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A program that opens the root at this moment registers it again.
        if let Ok(true) = file::try_lock_byte(&self.file, TURN)
            && !in_use(&self.file, &self.root)
        {
            let _ = std::fs::remove_file(Path::new(REGISTRY).join(&self.id));
        }
    }
}

/// Files that an engine makes in a new root, in the order in which they are removed: the one that shows that the
/// directory is a root goes last.
const OF_NEW_ROOTS: [&str; 17] = [
    "base",
    "caches",
    "containers",
    "layers",
    "outbox",
    "plugins",
    "tmp",
    "volumes",
    SHOWN_ID,
    "reserve",
    super::states::NAME,
    super::states::ALIVE,
    "coracle.db-wal",
    "coracle.db-shm",
    super::Db::NAME,
    NAME,
    KEPT,
];
/// Files that an engine makes in a new run directory.
const OF_NEW_RUNS: [&str; 15] = [
    "ship.lock",
    "ship.program",
    "ship.words",
    "x",
    "c",
    "leases",
    "logging",
    "plugins",
    "net",
    "net.lock",
    "events",
    "making",
    "busy",
    super::states::NAME,
    NAME,
];

impl Claim {
    /// Removes the files of a root that nobody else uses, and in which nothing is but what its first open made; answers
    /// whether. `is_empty` looks into its database. An open at this moment gets an error.
    pub(crate) fn discard(&self, is_empty: impl FnOnce() -> Result<bool>) -> Result<bool> {
        file::lock_byte(&self.file, TURN, self.root.join(NAME).display())?;
        let discarded = self.discard_held(is_empty);
        file::unlock_byte(&self.file, TURN)?;
        discarded
    }

    fn discard_held(&self, is_empty: impl FnOnce() -> Result<bool>) -> Result<bool> {
        if in_use(&self.file, &self.root) || !is_empty()? || !self.holds_nothing()? {
            return Ok(false);
        }
        let root = tree::open_dir(&self.root)?;
        let run = tree::open_dir(&self.run)?;
        OF_NEW_RUNS.iter().try_for_each(|name| remove_tree(run.as_fd(), name))?;
        let kept = |name: &&&str| **name != KEPT;
        OF_NEW_ROOTS.iter().filter(kept).try_for_each(|name| remove_tree(root.as_fd(), name))?;
        let _ = std::fs::remove_file(Path::new(REGISTRY).join(&self.id));
        // Where the host program keeps something of its own in it, it stays.
        let _ = std::fs::remove_dir(&self.run);
        Ok(true)
    }

    /// Whether there are no files in the root but those of its first open.
    fn holds_nothing(&self) -> Result<bool> {
        let names = |dir: &Path| tree::open_dir(dir).and_then(|dir| tree::names(dir.as_fd()));
        let known = |name: &Vec<u8>| OF_NEW_ROOTS.iter().any(|known| known.as_bytes() == name);
        if !names(&self.root)?.iter().all(known) {
            return Ok(false);
        }
        // The outbox is there once a log was delivered, caches once a build had one, plugins once one was enabled.
        let dirs = ["containers", "layers", "volumes", "tmp", "outbox", "caches", "plugins"].into_iter();
        for dir in dirs.filter(|dir| !matches!(*dir, "outbox" | "caches" | "plugins") || self.root.join(dir).exists()) {
            // The bounds of the outbox are an option of the root, and no content.
            let is_of_opens =
                |name: &Vec<u8>| (dir == "tmp" && name == b"empty") || (dir == "outbox" && name == b"bounds");
            if !names(&self.root.join(dir))?.iter().all(is_of_opens) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Decides who a root is and which run directory it uses, and says both to those who come later.
///
/// # Errors
/// [`ErrorKind::Conflict`]: programs or containers use the root with a run directory that this open cannot see, or the run
/// directory is another root's.
pub(crate) fn claim(ask: &Ask<'_>) -> Result<Claim> {
    let path = ask.root.join(NAME);
    let file = open(&path)?;
    file::lock_byte(&file, TURN, path.display())?;
    let own = place(&file, &path)?;
    if file.metadata().is_ok_and(|there| there.nlink() == 0) {
        let text = format!("engine root {} was removed at this moment: open it again", ask.root.display());
        return Err(Error::new(ErrorKind::Unavailable, text).in_area("root"));
    }
    let boot = crate::hex::encode(&ask.boot);
    let record: Option<Record> = read(&file);
    let this = |record: &&Record| record.boot == boot && record.file == own;
    let used = record.as_ref().filter(this).filter(|record| in_use(&file, ask.root) || record.has_older());
    let kept = record.as_ref().filter(|record| this(record) || record.boot != boot && !held_elsewhere(record, own));
    let copied = record.is_some() && kept.is_none();
    let id = match kept {
        Some(record) => record.id.clone(),
        None if copied => crate::hex::random_id()?,
        None => ask.first_id.to_owned(),
    };
    let run = match used {
        Some(record) => record.run_seen_by(ask)?,
        None => made(ask.run.unwrap_or(ask.default_run))?,
    };
    let me = User { id: id.clone(), boot: boot.clone(), root: ask.root.to_owned(), root_file: own };
    let run_file = take_run(&run, &me)?;
    let of_older = record.is_none() && ask.root.join(super::states::NAME).exists();
    if of_older && super::states::run_elsewhere(ask.root, &run, ask.boot)? {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "containers run on engine root {} with another run directory than {}: open it with that run directory",
                ask.root.display(),
                run.display()
            ),
        )
        .in_area("root"));
    }
    let older = of_older || kept.is_some_and(|record| record.older && record.boot == boot);
    let now = Record { id: id.clone(), boot, file: own, run: run.clone(), run_file, older };
    if copied {
        // Before the record: a copy that is not known as one yet is found to be one again.
        super::states::forget_boot(ask.root)?;
        match std::fs::remove_file(ask.root.join(SHOWN_ID)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Error::io("forget a copied id", &e)),
            _ => {}
        }
    }
    if record.as_ref() != Some(&now) {
        write(&file, &path, &now)?;
        file.sync_all().map_err(|e| Error::io(format_args!("write {}", path.display()), &e))?;
    }
    register(&me);
    file::share_byte(&file, USERS, path.display())?;
    file::unlock_byte(&file, TURN)?;
    let is_first = id == ask.first_id;
    Ok(Claim { id, run, is_first, root: ask.root.to_owned(), file })
}

impl Record {
    /// Whether a monitor of an older version lives, as far as that can be seen; where it cannot, it counts as living.
    fn has_older(&self) -> bool {
        if !self.older {
            return false;
        }
        match File::open(self.run.join("alive")) {
            Ok(alive) => file::is_locked(&alive).unwrap_or(true),
            Err(_) => !self.is_run(&self.run),
        }
    }

    /// Whether this directory is the run directory, under whatever path.
    fn is_run(&self, dir: &Path) -> bool {
        std::fs::metadata(dir.join(NAME)).is_ok_and(|there| (there.dev(), there.ino()) == self.run_file)
    }

    /// The run directory in use, as the opener sees it.
    fn run_seen_by(&self, ask: &Ask<'_>) -> Result<PathBuf> {
        let candidates = match ask.run {
            Some(asked) => vec![asked],
            None => vec![self.run.as_path(), ask.default_run],
        };
        match candidates.into_iter().find(|dir| self.is_run(dir)) {
            Some(dir) => made(dir),
            None => Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "engine root {} is in use with the run directory {}, which {}: open it with that run directory, or \
                     end its programs and containers first",
                    ask.root.display(),
                    self.run.display(),
                    match ask.run {
                        // Another mount namespace, or another directory since.
                        Some(asked) if asked == self.run => "is another directory than this path names here".to_owned(),
                        Some(asked) => format!("is not {}", asked.display()),
                        None => "cannot be seen here".to_owned(),
                    }
                ),
            )
            .in_area("root")),
        }
    }
}

/// Makes the run directory this root's, and answers where its identity stands.
fn take_run(run: &Path, me: &User) -> Result<Place> {
    let path = run.join(NAME);
    let file = open(&path)?;
    file::lock_byte(&file, TURN, path.display())?;
    let before: Option<User> = read(&file);
    let others =
        before.as_ref().filter(|user| user.boot == me.boot && (&user.id, user.root_file) != (&me.id, me.root_file));
    if let Some(user) = others.filter(|user| user.lives() || anybody_listens(run)) {
        let (run, root, mine) = (run.display(), user.root.display(), me.root.display());
        return Err(Error::new(
            ErrorKind::Conflict,
            format!("run directory {run} belongs to the engine root {root}: give {mine} a run directory of its own"),
        )
        .in_area("root"));
    }
    if before.as_ref() != Some(me) {
        write(&file, &path, me)?;
    }
    place(&file, &path)
}

impl User {
    /// Whether the root is still there, with this id. Programs that have it open, or will, count on the run directory.
    fn lives(&self) -> bool {
        self.open_root().is_some()
    }

    fn open_root(&self) -> Option<File> {
        let path = self.root.join(NAME);
        let file = OpenOptions::new().read(true).write(true).open(&path).ok()?;
        let record: Record = read(&file)?;
        (place(&file, &path).ok()? == self.root_file && record.id == self.id).then_some(file)
    }
}

/// Whether a monitor in this run directory takes connections: the root that it is of may have been moved.
fn anybody_listens(run: &Path) -> bool {
    let dirs = std::fs::read_dir(run.join("c")).into_iter().flatten().flatten();
    dirs.into_iter().any(|dir| UnixStream::connect(dir.path().join("ctl")).is_ok())
}

/// Whether a program or a container uses a root.
fn in_use(identity: &File, root: &Path) -> bool {
    let alive =
        || File::open(root.join(super::states::ALIVE)).is_ok_and(|alive| file::is_locked(&alive).unwrap_or(true));
    file::byte_is_locked(identity, USERS).unwrap_or(true) || alive()
}

/// Whether another root that is in use on this host has the id of this record.
fn held_elsewhere(record: &Record, own: Place) -> bool {
    let Ok(file) = File::open(Path::new(REGISTRY).join(&record.id)) else { return false };
    let holder: Option<User> = read(&file);
    holder.is_some_and(|user| {
        user.root_file != own && user.open_root().is_some_and(|identity| in_use(&identity, &user.root))
    })
}

/// Says which root of this boot has the id. Best effort: a host without a writable `/run` loses no more than the proof
/// that a copy of a root from an earlier boot is one.
fn register(me: &User) {
    let path = Path::new(REGISTRY).join(&me.id);
    let there: Option<User> = File::open(&path).ok().and_then(|file| read(&file));
    if there.as_ref() == Some(me) {
        return;
    }
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(REGISTRY);
    let _ = open(&path).and_then(|file| write(&file, &path, me));
}

/// A directory by its one true name, made (mode 0700) if missing.
pub(crate) fn made(path: &Path) -> Result<PathBuf> {
    let failed = |e: &std::io::Error| Error::io(format_args!("make directory {}", path.display()), e);
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|e| failed(&e))?;
    path.canonicalize().map_err(|e| failed(&e))
}

fn place(file: &File, path: &Path) -> Result<Place> {
    let there = file.metadata().map_err(|e| Error::io(format_args!("look at {}", path.display()), &e))?;
    Ok((there.dev(), there.ino()))
}

/// The first line of a file. A file that a power cut tore says nothing.
fn read<T: for<'a> Deserialize<'a>>(file: &File) -> Option<T> {
    let mut bytes = vec![0; MOST as usize];
    let length = file.read_at(&mut bytes, 0).ok()?;
    let line = bytes[..length].split(|&byte| byte == b'\n').next()?;
    crate::document::read(line).ok()
}

/// In place, since the inode is what shows a copy: a record is one write, and a longer one's rest is behind its line.
fn write<T: Serialize>(file: &File, path: &Path, record: &T) -> Result<()> {
    let failed = |e: &std::io::Error| Error::io(format_args!("write {}", path.display()), e);
    let mut line = serde_json::to_vec(record).map_err(|e| Error::internal(format!("an identity: {e}")))?;
    line.push(b'\n');
    file.write_all_at(&line, 0).map_err(|e| failed(&e))?;
    file.set_len(line.len() as u64).map_err(|e| failed(&e))
}
