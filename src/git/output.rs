//! Objects in full: written into a second file, named, and counted against the bounds of their pack.

use super::Id;
use crate::error::{Error, Result};
use crate::op::Op;
use sha1dc::Hasher;
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Written to the second file at once.
pub(super) const PIECE: usize = 64 << 10;

/// An object whose bytes can be copied from anywhere.
pub(super) struct Body<'a> {
    pub(super) file: &'a File,
    pub(super) offset: u64,
    pub(super) size: u64,
    /// All of it, if that is little.
    pub(super) memory: Option<Vec<u8>>,
}

/// The work that a pack may still make.
pub(super) struct Work<'a> {
    pub(super) left: Cell<u64>,
    pub(super) most: u64,
    pub(super) op: Option<&'a Op>,
}

impl Work<'_> {
    pub(super) fn spend(&self, bytes: usize) -> Result<()> {
        self.op.map_or(Ok(()), Op::check)?;
        let left = self.left.get().checked_sub(bytes as u64);
        self.left.set(left.ok_or_else(|| {
            Error::invalid(format!("the objects of the commit have more than {} bytes together", self.most))
        })?);
        Ok(())
    }
}

/// The name of an object, from its content.
pub(super) struct Name(Hasher);

impl Name {
    pub(super) fn new(kind: &str, size: u64) -> Name {
        let mut hash = Hasher::new();
        hash.update(format!("{kind} {size}\0").as_bytes());
        Name(hash)
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The error is that of a content made so that another one has its name.
    pub(super) fn end(self) -> Result<Id> {
        let made = |_| Error::invalid("an object was made so that another one has the same SHA-1");
        self.0.finalize().map(Into::into).map_err(made)
    }
}

/// An object that is being written into the second file.
pub(super) struct Output<'a, 'w> {
    file: &'a File,
    offset: u64,
    written: u64,
    size: u64,
    name: Name,
    held: Vec<u8>,
    in_memory: bool,
    work: &'w Work<'w>,
}

impl<'a, 'w> Output<'a, 'w> {
    pub(super) fn new(
        file: &'a File,
        offset: u64,
        name: Name,
        size: u64,
        most: u64,
        work: &'w Work<'w>,
    ) -> Output<'a, 'w> {
        let in_memory = size <= most;
        let held = Vec::with_capacity(if in_memory { size as usize } else { 0 });
        Output { file, offset, written: 0, size, name, held, in_memory, work }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.work.spend(bytes.len())?;
        if self.written + (self.held.len() + bytes.len()) as u64 > self.size {
            return Err(damaged("an object is longer than it says"));
        }
        self.held.extend_from_slice(bytes);
        if !self.in_memory && self.held.len() >= PIECE {
            self.flush()?;
            self.held.clear();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.file.write_all_at(&self.held, self.offset + self.written);
        written.map_err(|e| Error::io("write a pack", &e))?;
        self.name.update(&self.held);
        self.written += self.held.len() as u64;
        Ok(())
    }

    pub(super) fn end(mut self) -> Result<(Body<'a>, Id)> {
        self.flush()?;
        if self.written != self.size {
            return Err(damaged("an object is shorter than it says"));
        }
        let memory = self.in_memory.then_some(self.held);
        Ok((Body { file: self.file, offset: self.offset, size: self.size, memory }, self.name.end()?))
    }
}

pub(super) fn damaged(why: &str) -> Error {
    Error::internal(format!("the pack is damaged: {why}"))
}
