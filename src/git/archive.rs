//! The files of a commit as a tar, so that they become a context as any other does.

use super::object::{List, Mode, Named, shown};
use super::pack::{Kind, Limits, Pack};
use super::{Id, object};
use crate::error::{Error, Result};
use std::io::{Cursor, Read};
use tar::{EntryType, Header};

/// Longest path, and longest target of a link: the kernel's.
const MAX_PATH: usize = 4096;
const BLOCK: u64 = 512;

/// A tar of a directory of a commit: all in it is root's, of the time of the commit.
pub(crate) struct Files<'a> {
    pack: &'a Pack,
    limits: Limits,
    /// Submodules are empty directories, and no error.
    skips_modules: bool,
    time: u64,
    levels: Vec<Level>,
    path: Vec<u8>,
    /// Heads and padding that are to be read.
    head: Cursor<Vec<u8>>,
    content: Option<Content<'a>>,
    is_ended: bool,
    failed: Option<Error>,
}

struct Level {
    list: List,
    /// The length of the directory's path.
    path: usize,
}

struct Content<'a> {
    input: Box<dyn Read + 'a>,
    left: u64,
    padding: u64,
}

impl<'a> Files<'a> {
    /// The files in `directory` of a commit.
    pub(crate) fn new(pack: &'a Pack, commit: &Id, directory: &str, limits: Limits) -> Result<Files<'a>> {
        let object::Root { mut tree, time, .. } = pack.root(commit)?;
        for name in directory.split('/').filter(|name| !matches!(*name, "" | ".")) {
            tree = inside(pack, &tree, name, &limits).map_err(|e| e.context(format_args!("{directory:?}")))?;
        }
        let mut files = Files {
            pack,
            limits,
            skips_modules: false,
            time,
            levels: vec![],
            path: vec![],
            head: Cursor::default(),
            content: None,
            is_ended: false,
            failed: None,
        };
        files.enter(&tree)?;
        Ok(files)
    }

    /// Leaves submodules out: each is an empty directory.
    pub(crate) fn without_modules(self, skips_modules: bool) -> Files<'a> {
        Files { skips_modules, ..self }
    }

    /// The error that ended the reading, if one did.
    pub(crate) fn failed(self) -> Result<()> {
        self.failed.map_or(Ok(()), Err)
    }

    fn enter(&mut self, tree: &Id) -> Result<()> {
        let held: usize = self.levels.iter().map(|level| level.list.size()).sum();
        let left = self.limits.lists.saturating_sub(held);
        let object = self.pack.of_kind(tree, Kind::Tree)?;
        let list = List::new(self.pack.bytes(object, left as u64)?);
        self.levels.push(Level { list, path: self.path.len() });
        Ok(())
    }

    /// Goes on to the next file; after the last one comes the tar's end.
    fn advance(&mut self) -> Result<()> {
        let Some(level) = self.levels.last_mut() else {
            self.head = Cursor::new(vec![0; 2 * BLOCK as usize]);
            self.is_ended = true;
            return Ok(());
        };
        self.path.truncate(level.path);
        let Some(Named { mode, name, id }) = level.list.next()? else {
            self.levels.pop();
            return Ok(());
        };
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name);
        if self.path.len() >= MAX_PATH {
            return Err(Error::invalid(format!("a path of more than {MAX_PATH} bytes: {}", shown(&self.path))));
        }
        let limit = self.limits.files;
        self.limits.files = limit.checked_sub(1).ok_or_else(|| Error::invalid("the commit has too many files"))?;
        self.file(mode, &id)
    }

    fn file(&mut self, mode: Mode, id: &Id) -> Result<()> {
        match mode {
            Mode::Directory => {
                self.head = self.header(EntryType::Directory, 0o755, 0, b"");
                self.enter(id)
            }
            Mode::Link => {
                let object = self.pack.of_kind(id, Kind::Blob)?;
                let target = self.pack.bytes(object, MAX_PATH as u64 - 1)?;
                if target.is_empty() || target.contains(&0) {
                    return Err(Error::invalid(format!("the link {} leads nowhere", shown(&self.path))));
                }
                self.head = self.header(EntryType::Symlink, 0o777, 0, &target);
                Ok(())
            }
            Mode::File | Mode::Program => {
                let object = self.pack.of_kind(id, Kind::Blob)?;
                let left = self.limits.bytes.checked_sub(object.size);
                self.limits.bytes =
                    left.ok_or_else(|| Error::invalid("the files of the commit are too large together"))?;
                let mode = if mode == Mode::Program { 0o755 } else { 0o644 };
                self.head = self.header(EntryType::Regular, mode, object.size, b"");
                let padding = object.size.next_multiple_of(BLOCK) - object.size;
                self.content = Some(Content { input: self.pack.content(object), left: object.size, padding });
                Ok(())
            }
            Mode::Module if self.skips_modules => {
                self.head = self.header(EntryType::Directory, 0o755, 0, b"");
                Ok(())
            }
            Mode::Module => Err(Error::unsupported(format!(
                "{} is another repository (a submodule), and this engine fetches none",
                shown(&self.path)
            ))),
        }
    }

    fn header(&self, kind: EntryType, mode: u32, size: u64, target: &[u8]) -> Cursor<Vec<u8>> {
        let mut bytes = vec![];
        if target.len() > 100 {
            bytes.extend(long(EntryType::GNULongLink, target));
        }
        if self.path.len() > 100 {
            bytes.extend(long(EntryType::GNULongName, &self.path));
        }
        bytes.extend(block(kind, &self.path, target, mode, size, self.time));
        Cursor::new(bytes)
    }

    fn some(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let read = Read::read(&mut self.head, buffer).unwrap_or(0);
            if read > 0 || buffer.is_empty() || self.is_ended {
                return Ok(read);
            }
            let Some(content) = &mut self.content else {
                self.advance()?;
                continue;
            };
            let most = buffer.len().min(usize::try_from(content.left).unwrap_or(usize::MAX));
            if most == 0 {
                self.head = Cursor::new(vec![0; content.padding as usize]);
                self.content = None;
                continue;
            }
            let read = content.input.read(&mut buffer[..most]).map_err(|e| Error::io("read a pack", &e))?;
            if read == 0 {
                return Err(Error::internal("the pack is damaged: a file ends early"));
            }
            content.left -= read as u64;
            return Ok(read);
        }
    }
}

impl Read for Files<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.some(buffer).map_err(|error| {
            let reported = std::io::Error::other(error.message().to_owned());
            self.failed.get_or_insert(error);
            reported
        })
    }
}

/// The directory `name` in another one.
fn inside(pack: &Pack, tree: &Id, name: &str, limits: &Limits) -> Result<Id> {
    let mut list = List::new(pack.bytes(pack.of_kind(tree, Kind::Tree)?, limits.lists as u64)?);
    while let Some(named) = list.next()? {
        if named.name == name.as_bytes() {
            return match named.mode {
                Mode::Directory => Ok(named.id),
                Mode::Link => Err(Error::invalid(format!("{name:?} is a link, and is not followed"))),
                _ => Err(Error::invalid(format!("{name:?} is not a directory"))),
            };
        }
    }
    Err(Error::invalid(format!("the commit has no directory {name:?}")))
}

/// An entry that holds the path, or the target, of the next one.
fn long(kind: EntryType, text: &[u8]) -> Vec<u8> {
    let size = text.len() as u64 + 1;
    let mut bytes = block(kind, b"././@LongLink", b"", 0, size, 0);
    bytes.extend(text);
    bytes.resize((BLOCK + size.next_multiple_of(BLOCK)) as usize, 0);
    bytes
}

fn block(kind: EntryType, path: &[u8], target: &[u8], mode: u32, size: u64, time: u64) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    if let Some(gnu) = header.as_gnu_mut() {
        for (field, text) in [(&mut gnu.name, path), (&mut gnu.linkname, target)] {
            let length = text.len().min(field.len());
            field[..length].copy_from_slice(&text[..length]);
        }
    }
    header.set_cksum();
    header.as_bytes().to_vec()
}
