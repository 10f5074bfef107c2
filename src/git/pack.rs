//! A pack: many objects in one file, compressed, some of them stored as their difference to another.
//!
//! A pack is read once from its beginning to its end. Objects that are stored as differences, and those that others
//! differ from, are then written in full into a second file. So no object is in memory that is not small, whatever a
//! pack says.

use super::Id;
use super::delta;
use super::output::{Body, Name, Output, PIECE, Work, damaged};
use crate::error::{Error, Result};
use crate::op::Op;
use crate::walls::Wall;
use flate2::{Decompress, FlushDecompress, Status};
use std::borrow::BorrowMut;
use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Longest chain of differences: git makes chains of 50, and none above this.
pub(super) const MAX_DEPTH: usize = 4095;
/// A base of at most this size is also kept in memory; behind other differences, less.
/// Of 4,095 that build on each other the bodies take 9 times as much together.
const IN_MEMORY: u64 = 128 << 10;
/// The bounds of a pack, and of the files in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Objects of a pack.
    pub(crate) objects: usize,
    /// Bytes of all objects, in full, and of all that is read for them.
    pub(crate) bytes: u64,
    /// Bytes of the directories between the root and a file, as they are listed.
    pub(crate) lists: usize,
    /// Files and directories.
    pub(crate) files: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Commit,
    Tree,
    Blob,
    Tag,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Commit => "commit",
            Kind::Tree => "tree",
            Kind::Blob => "blob",
            Kind::Tag => "tag",
        }
    }
}

/// Where an object is.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Compressed, at an offset of the pack.
    Packed(u64),
    /// In full, at an offset of the second file.
    Full(u64),
}

/// An object. Of a difference kind, name and size are known once its base is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object {
    pub(super) id: Id,
    pub(super) kind: Option<Kind>,
    place: Place,
    pub(super) size: u64,
}

/// A pack whose objects all have names.
pub(crate) struct Pack {
    file: File,
    full: File,
    /// By name.
    pub(super) objects: Vec<Object>,
}

impl Pack {
    /// Reads the pack in `file`; `full` is an empty file for objects in full. Errors: it is damaged or too large, or
    /// two objects were made to have one name.
    pub(crate) fn read(file: File, full: File, limits: &Limits, op: Option<&Op>) -> Result<Pack> {
        let work = Work { left: Cell::new(limits.bytes), most: limits.bytes, op };
        let mut reading = Reading {
            file: &file,
            full: &full,
            end: 0,
            inflater: Inflater::new(&file),
            work,
            objects: vec![],
            begins: vec![],
            offsets: vec![],
            names: vec![],
        };
        reading.all(limits)?;
        reading.resolve()?;
        let mut objects = reading.objects;
        objects.sort_unstable_by_key(|object| object.id);
        Ok(Pack { file, full, objects })
    }

    /// An object.
    pub(super) fn find(&self, id: &Id) -> Option<&Object> {
        self.objects.binary_search_by_key(id, |object| object.id).ok().map(|at| &self.objects[at])
    }

    /// The content of an object.
    pub(super) fn content(&self, object: &Object) -> Box<dyn Read + '_> {
        match object.place {
            Place::Packed(offset) => {
                let input = BufReader::with_capacity(AT_ONCE, At { file: &self.file, offset });
                Box::new(Inflated { zlib: Decompress::new(true), input }.take(object.size))
            }
            Place::Full(offset) => Box::new(At { file: &self.full, offset }.take(object.size)),
        }
    }
}

/// Reads a file from an offset on, wherever others read it.
struct At<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// Bytes of a compressed content that are read at once.
const AT_ONCE: usize = 16 << 10;

/// Decompresses the contents of a pack one after the other, with one state and one buffer. A state for each content would
/// be freed between contents that stay in memory, and leave holes there.
struct Inflater<'a> {
    zlib: Decompress,
    input: BufReader<At<'a>>,
}

impl<'a> Inflater<'a> {
    fn new(file: &'a File) -> Inflater<'a> {
        let input = BufReader::with_capacity(AT_ONCE, At { file, offset: 0 });
        Inflater { zlib: Decompress::new(true), input }
    }

    /// The content at an offset of the pack.
    fn at(&mut self, offset: u64) -> Inflated<&mut Decompress, &mut BufReader<At<'a>>> {
        self.input.consume(self.input.buffer().len());
        self.input.get_mut().offset = offset;
        self.zlib.reset(true);
        Inflated { zlib: &mut self.zlib, input: &mut self.input }
    }

    /// The content that comes next in `input`, which then stands behind it.
    fn next<R: BufRead>(&mut self, input: R) -> Inflated<&mut Decompress, R> {
        self.zlib.reset(true);
        Inflated { zlib: &mut self.zlib, input }
    }
}

/// Reads a compressed content, and no byte behind it.
struct Inflated<Z, R> {
    zlib: Z,
    input: R,
}

impl<Z: BorrowMut<Decompress>, R: BufRead> Read for Inflated<Z, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let zlib = self.zlib.borrow_mut();
        loop {
            let input = self.input.fill_buf()?;
            let is_end = input.is_empty();
            let flush = if is_end { FlushDecompress::Finish } else { FlushDecompress::None };
            let (taken, given) = (zlib.total_in(), zlib.total_out());
            let status = zlib.decompress(input, buffer, flush)?;
            self.input.consume((zlib.total_in() - taken) as usize);
            let given = (zlib.total_out() - given) as usize;
            if given > 0 || is_end || buffer.is_empty() || status == Status::StreamEnd {
                return Ok(given);
            }
        }
    }
}

/// A pack that is being read.
struct Reading<'a> {
    file: &'a File,
    full: &'a File,
    /// Of the second file.
    end: u64,
    inflater: Inflater<'a>,
    work: Work<'a>,
    /// In the order of the pack.
    objects: Vec<Object>,
    /// Where each begins.
    begins: Vec<u64>,
    /// Differences to an object of this pack: base and difference.
    offsets: Vec<(u32, u32)>,
    /// Differences to an object of this name.
    names: Vec<(Id, u32)>,
}

/// A base whose differences are being worked off.
struct Level<'a> {
    body: Body<'a>,
    kind: Kind,
    offsets: Range<usize>,
    names: Range<usize>,
}

impl<'a> Reading<'a> {
    /// Reads every object to its end, and names those that are stored in full.
    fn all(&mut self, limits: &Limits) -> Result<()> {
        let mut input = BufReader::with_capacity(PIECE, At { file: self.file, offset: 0 });
        let mut head = [0; 12];
        input.read_exact(&mut head).map_err(|_| damaged("it has no head"))?;
        let number = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if &head[..4] != b"PACK" || number(4) != 2 {
            return Err(damaged("it is not a pack of version 2"));
        }
        let count = number(8) as usize;
        if count > limits.objects {
            return Err(Error::invalid(format!("the commit has {count} objects: more than {}", limits.objects)));
        }
        // Exactly: a table that grows by doubling takes three times its size at times.
        self.objects.reserve_exact(count);
        self.begins.reserve_exact(count);
        for _ in 0..count {
            self.one(&mut input)?;
        }
        self.offsets.sort_unstable();
        self.names.sort_unstable();
        Ok(())
    }

    fn one(&mut self, input: &mut BufReader<At<'_>>) -> Result<()> {
        let (begin, index) = (position(input), self.objects.len() as u32);
        let (code, size) = head(input)?;
        let kind = match code {
            1 => Some(Kind::Commit),
            2 => Some(Kind::Tree),
            3 => Some(Kind::Blob),
            4 => Some(Kind::Tag),
            6 => {
                let base = begin.checked_sub(distance(input)?).ok_or_else(|| damaged("a base is before it"))?;
                let base = self.begins.binary_search(&base).map_err(|_| damaged("a base is not an object"))?;
                self.offsets.push((base as u32, index));
                None
            }
            7 => {
                let mut id = Id::default();
                input.read_exact(&mut id).map_err(|_| damaged("it ends early"))?;
                if self.names.is_empty() {
                    self.names.reserve_exact(self.objects.capacity() - self.objects.len());
                }
                self.names.push((id, index));
                None
            }
            _ => return Err(damaged("an object of no known kind")),
        };
        let offset = position(input);
        let mut name = kind.map(|kind| Name::new(kind.name(), size));
        drain(self.inflater.next(&mut *input), size, |bytes| {
            if let Some(name) = &mut name {
                name.update(bytes);
            }
            self.work.spend(bytes.len())
        })?;
        let id = name.map_or(Ok(Id::default()), Name::end)?;
        self.objects.push(Object { id, kind, place: Place::Packed(offset), size });
        self.begins.push(begin);
        Ok(())
    }

    /// Gives every difference its content and its name: from each object that is stored in full to what differs from it,
    /// and on to what differs from that.
    fn resolve(&mut self) -> Result<()> {
        for index in 0..self.objects.len() {
            let Object { id, kind, size, .. } = self.objects[index];
            let (Some(kind), Some((offsets, names))) = (kind, self.differences(index, &id)) else { continue };
            // A difference that was done has come to its turn.
            if !matches!(self.objects[index].place, Place::Packed(_)) {
                continue;
            }
            let body = self.unpacked(index, size)?;
            self.below(Level { body, kind, offsets, names })?;
        }
        match self.objects.iter().all(|object| object.kind.is_some()) {
            true => Ok(()),
            false => Err(damaged("an object that another one differs from is not in it")),
        }
    }

    fn below(&mut self, first: Level<'a>) -> Result<()> {
        let mut levels = vec![first];
        while let Some(level) = levels.last_mut() {
            let next =
                level.offsets.next().map(|at| self.offsets[at].1).or_else(|| Some(self.names[level.names.next()?].1));
            let Some(index) = next.map(|index| index as usize) else {
                levels.pop();
                continue;
            };
            // A pack may have a base twice.
            if self.objects[index].kind.is_some() {
                continue;
            }
            let depth = levels.len();
            if depth > MAX_DEPTH {
                return Err(damaged(&format!("a chain of more than {MAX_DEPTH} differences")));
            }
            let Some(level) = levels.last() else { break };
            let (kind, Object { place: Place::Packed(at), size, .. }) = (level.kind, self.objects[index]) else {
                continue;
            };
            let in_memory = if Wall::GitMemory.stands() { IN_MEMORY / (depth as u64 + 1) } else { u64::MAX };
            let (body, id) = self.difference(at, size, level, in_memory)?;
            self.objects[index] = Object { id, kind: Some(kind), place: Place::Full(body.offset), size: body.size };
            if let Some((offsets, names)) = self.differences(index, &id) {
                levels.push(Level { body, kind, offsets, names });
            }
        }
        Ok(())
    }

    /// The differences to an object, if there are any.
    fn differences(&self, index: usize, id: &Id) -> Option<(Range<usize>, Range<usize>)> {
        let index = index as u32;
        let from = self.offsets.partition_point(|(base, _)| *base < index);
        let offsets = from..self.offsets.partition_point(|(base, _)| *base <= index);
        let from = self.names.partition_point(|(base, _)| base < id);
        let names = from..self.names.partition_point(|(base, _)| base <= id);
        (!offsets.is_empty() || !names.is_empty()).then_some((offsets, names))
    }

    /// Puts an object that is stored in full where pieces of it can be copied from.
    fn unpacked(&mut self, index: usize, size: u64) -> Result<Body<'a>> {
        let Object { place: Place::Packed(at), kind: Some(kind), .. } = self.objects[index] else {
            return Err(damaged("a base is a difference"));
        };
        let mut output = Output::new(self.full, self.end, Name::new(kind.name(), size), size, IN_MEMORY, &self.work);
        drain(self.inflater.at(at), size, |bytes| output.write(bytes))?;
        let (body, _) = output.end()?;
        self.end += body.size;
        self.objects[index].place = Place::Full(body.offset);
        Ok(body)
    }

    fn difference(&mut self, at: u64, size: u64, level: &Level<'_>, in_memory: u64) -> Result<(Body<'a>, Id)> {
        let mut difference = BufReader::with_capacity(4 << 10, self.inflater.at(at).take(size));
        let (from, to) = delta::sizes(&mut difference)?;
        if from != level.body.size {
            return Err(delta::damaged());
        }
        let mut output = Output::new(self.full, self.end, Name::new(level.kind.name(), to), to, in_memory, &self.work);
        delta::apply(&mut difference, &level.body, &mut output)?;
        let done = output.end()?;
        self.end += done.0.size;
        Ok(done)
    }
}

fn position(input: &BufReader<At<'_>>) -> u64 {
    input.get_ref().offset - input.buffer().len() as u64
}

fn byte(input: &mut impl BufRead) -> Result<u8> {
    let mut byte = [0];
    input.read_exact(&mut byte).map_err(|_| damaged("it ends early"))?;
    Ok(byte[0])
}

/// The kind of an object and the size of its content, which is compressed behind them.
fn head(input: &mut impl BufRead) -> Result<(u8, u64)> {
    let first = byte(input)?;
    let (mut size, mut shift, mut more) = (u64::from(first & 0x0f), 4, first & 0x80 != 0);
    while more {
        let next = byte(input)?;
        if shift > 56 {
            return Err(damaged("an object is too large"));
        }
        size |= u64::from(next & 0x7f) << shift;
        (shift, more) = (shift + 7, next & 0x80 != 0);
    }
    Ok((first >> 4 & 7, size))
}

/// How far before an object the base is that it differs from.
fn distance(input: &mut impl BufRead) -> Result<u64> {
    let mut next = byte(input)?;
    let mut value = u64::from(next & 0x7f);
    while next & 0x80 != 0 {
        next = byte(input)?;
        let more = value.checked_add(1).filter(|value| value >> 56 == 0);
        value = more.ok_or_else(|| damaged("a base is too far away"))? << 7 | u64::from(next & 0x7f);
    }
    Ok(value)
}

/// Reads a compressed content to its end, which is where it says.
fn drain(mut content: impl Read, size: u64, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (mut buffer, mut taken) = ([0; 32 << 10], 0u64);
    loop {
        let read = content.read(&mut buffer).map_err(|_| damaged("a content that cannot be unpacked"))?;
        taken += read as u64;
        if taken > size || read == 0 && taken < size {
            return Err(damaged("an object has another size than it says"));
        }
        if read == 0 {
            return Ok(());
        }
        take(&buffer[..read])?;
    }
}
