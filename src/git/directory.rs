//! The directory `.git` of a commit that was fetched without its history: what a shallow clone leaves, with each object in a
//! file of its own, the branch or tag that was wanted, and the commit itself as HEAD.
//!
//! git's programs read it: `git status` finds no change, `git rev-parse HEAD` the commit.

use super::object::{List, Mode};
use super::pack::{Kind, Limits, Object, Pack};
use super::{Fetched, Id, Remote};
use crate::error::{Error, Result};
use crate::hex;
use crate::kernel::tree;
use crate::op::Op;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use sha1dc::Hasher;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The directory of git's own files.
const GIT: &str = ".git";
/// Directories without which git does not recognise a repository, and those of branches and tags: the file `packed-refs` has the
/// one that was wanted, for no name can lead out of a file.
const DIRECTORIES: [&str; 2] = ["heads", "tags"];
/// The flags of an entry of the index hold the length of its path, up to this one.
const MAX_LENGTH: usize = 0xfff;

/// The parts of which a directory `.git` is made.
pub(crate) struct GitDir<'a> {
    pub(crate) pack: &'a Pack,
    pub(crate) fetched: &'a Fetched,
    pub(crate) remote: &'a Remote,
    pub(crate) limits: Limits,
    pub(crate) op: Option<&'a Op>,
}

/// Takes a file's path, its mode as the index has it, and its id.
type OnFile<'f> = &'f mut dyn FnMut(&[u8], u32, &Id) -> Result<()>;

impl GitDir<'_> {
    /// Makes the directory in `root`, which has the files of the commit.
    pub(crate) fn make(&self, root: BorrowedFd<'_>) -> Result<()> {
        if self.pack.objects.len() > self.limits.files {
            return Err(Error::invalid("the commit has too many objects for --keep-git-dir"));
        }
        let git = directory(root, GIT)?;
        let refs = directory(git.as_fd(), "refs")?;
        for name in DIRECTORIES {
            directory(refs.as_fd(), name)?;
        }
        self.objects(&directory(git.as_fd(), "objects")?)?;
        let found = self.pack.root(&self.fetched.id)?;
        let commit = format!("{}\n", hex::encode(&found.commit));
        write(&git, "HEAD", commit.as_bytes())?;
        if let Some(name) = &self.fetched.name {
            write(&git, "packed-refs", self.reference(name, &found.commit).as_bytes())?;
        }
        if self.pack.lacks_parent(&found.commit)? {
            write(&git, "shallow", commit.as_bytes())?;
        }
        write(&git, "config", self.config().as_bytes())?;
        self.index(&git, &found.tree)
    }

    /// The line of a branch or tag; that of a tag with words of its own has the commit in a second line.
    fn reference(&self, name: &str, commit: &Id) -> String {
        let id = &self.fetched.id;
        let line = format!("{} {name}\n", hex::encode(id));
        if id == commit { line } else { format!("{line}^{}\n", hex::encode(commit)) }
    }

    fn config(&self) -> String {
        let mut address = String::new();
        for letter in self.remote.shown.chars().filter(|letter| !letter.is_control()) {
            if matches!(letter, '"' | '\\') {
                address.push('\\');
            }
            address.push(letter);
        }
        format!(
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
             [remote \"origin\"]\n\turl = \"{address}\"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
        )
    }

    /// Each object, in a file that its name names.
    fn objects(&self, dir: &OwnedFd) -> Result<()> {
        // The objects are sorted by their names, so that those of one directory follow each other.
        let mut here: Option<(u8, OwnedFd)> = None;
        // A pack may have an object twice.
        for object in self.pack.objects.chunk_by(|a, b| a.id == b.id).filter_map(<[Object]>::first) {
            self.op.map_or(Ok(()), Op::check)?;
            let first = object.id[0];
            let place = match here.take() {
                Some(place) if place.0 == first => place,
                _ => (first, directory(dir.as_fd(), &format!("{first:02x}"))?),
            };
            self.object(&place.1, object)?;
            here = Some(place);
        }
        Ok(())
    }

    fn object(&self, dir: &OwnedFd, object: &Object) -> Result<()> {
        let kind = object.kind.ok_or_else(|| Error::internal("an object without a kind"))?;
        let written = |e: std::io::Error| Error::io("write an object of git", &e);
        let file = create(dir, &hex::encode(&object.id[1..]), 0o444)?;
        let mut packed = ZlibEncoder::new(BufWriter::new(file), Compression::fast());
        packed.write_all(format!("{} {}\0", kind.name(), object.size).as_bytes()).map_err(written)?;
        std::io::copy(&mut self.pack.content(object), &mut packed).map_err(written)?;
        packed.finish().and_then(|mut file| file.flush()).map_err(written)
    }

    /// The index: the files of the commit by their paths. Times and sizes are zero, so that git compares the files
    /// themselves.
    fn index(&self, git: &OwnedFd, tree: &Id) -> Result<()> {
        let mut count = 0u32;
        self.each(tree, &mut |_, _, _| {
            count += 1;
            Ok(())
        })?;
        let mut index = Index { file: BufWriter::new(create(git, "index", 0o644)?), hash: Hasher::new() };
        index.add(b"DIRC\0\0\0\x02")?;
        index.add(&count.to_be_bytes())?;
        self.each(tree, &mut |path, mode, id| index.entry(path, mode, id))?;
        index.end()
    }

    /// All files of a directory, in the order of their paths. Their reading for the checkout has checked the bounds of the
    /// same directories.
    fn each(&self, tree: &Id, file: OnFile<'_>) -> Result<()> {
        let list = |id: &Id| {
            let object = self.pack.of_kind(id, Kind::Tree)?;
            Ok::<List, Error>(List::new(self.pack.bytes(object, self.limits.lists as u64)?))
        };
        let (mut levels, mut path) = (vec![(list(tree)?, 0)], Vec::new());
        while let Some((level, length)) = levels.last_mut() {
            self.op.map_or(Ok(()), Op::check)?;
            path.truncate(*length);
            let Some(named) = level.next()? else {
                levels.pop();
                continue;
            };
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(named.name);
            let (mode, id) = (named.mode, named.id);
            match mode {
                Mode::Directory => levels.push((list(&id)?, path.len())),
                Mode::File => file(&path, 0o100_644, &id)?,
                Mode::Program => file(&path, 0o100_755, &id)?,
                Mode::Link => file(&path, 0o120_000, &id)?,
                Mode::Module => file(&path, 0o160_000, &id)?,
            }
        }
        Ok(())
    }
}

impl Pack {
    /// Whether the history of a commit goes on with commits that are not here.
    fn lacks_parent(&self, commit: &Id) -> Result<bool> {
        let text = self.bytes(self.of_kind(commit, Kind::Commit)?, super::object::MAX_WORDS)?;
        let head = text.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
        let mut parents = head.filter_map(|line| line.strip_prefix(b"parent ")).filter_map(super::parse_id);
        Ok(parents.any(|parent| self.find(&parent).is_none()))
    }
}

/// The index while it is written: its hash stands at its end.
struct Index {
    file: BufWriter<File>,
    hash: Hasher,
}

impl Index {
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(|e| Error::io("write the index of git", &e))
    }

    fn entry(&mut self, path: &[u8], mode: u32, id: &Id) -> Result<()> {
        // Two times of 8 bytes, device and inode, then mode, user, group and size.
        let mut head = [0; 40];
        head[24..28].copy_from_slice(&mode.to_be_bytes());
        self.add(&head)?;
        self.add(id)?;
        self.add(&(path.len().min(MAX_LENGTH) as u16).to_be_bytes())?;
        self.add(path)?;
        // At least one zero ends the path, and an entry is a multiple of 8 bytes.
        let length = head.len() + id.len() + 2 + path.len();
        self.add(&[0; 8][..8 - length % 8])
    }

    fn end(mut self) -> Result<()> {
        let hash: Id = self.hash.finalize().map_err(|_| Error::invalid("an index with a forged SHA-1"))?.into();
        let written = self.file.write_all(&hash).and_then(|()| self.file.flush());
        written.map_err(|e| Error::io("write the index of git", &e))
    }
}

fn directory(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd> {
    tree::mkdir_at(at, name, 0o755)?;
    let dir = tree::open_dir_at(at, name)?;
    // Whatever the umask is.
    tree::chmod_fd(dir.as_fd(), 0o755)?;
    Ok(dir)
}

fn create(dir: &OwnedFd, name: &str, mode: u32) -> Result<File> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    let file = tree::open_at(dir.as_fd(), name, flags, mode)?;
    tree::chmod_fd(file.as_fd(), mode)?;
    Ok(File::from(file))
}

fn write(dir: &OwnedFd, name: &str, text: &[u8]) -> Result<()> {
    create(dir, name, 0o644)?.write_all(text).map_err(|e| Error::io("write a file of git", &e))
}
