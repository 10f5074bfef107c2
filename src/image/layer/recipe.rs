//! The record by which a layer's tar is written again, byte by byte, from its unpacked tree.
//!
//! A recipe is the tar with every file's content replaced by where that content lies. It is written while the layer is
//! unpacked, compressed, and replayed by save; the digest of a replay is checked against the layer's.
//!
//! Form: a line that names the version, then one zlib stream of steps. A step is a tag byte and its fields; numbers are
//! LEB128. `1` length bytes: those bytes. `2` length path, offset, length: that part of the file at path. `3` length
//! path: here the unpacked tree had something in the way at path, which was put aside as `replaced/<count of such steps
//! before>`; parts taken earlier from there are there now. `0` total: the end, after so many bytes of tar.

use super::recorder::Recorder;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::path::{BENEATH_NO_LINKS, openat2};
use crate::kernel::tree;
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Name of the recipe in a layer's directory.
pub(crate) const FILE: &str = "recipe";
/// Name of the directory for what later entries of the layer replaced.
pub(crate) const REPLACED: &str = "replaced";
/// Name of the unpacked tree in a layer's directory.
pub(crate) const DIFF: &str = "diff";

const MAGIC: &[u8] = b"coracle recipe 1\n";
const END: u8 = 0;
const LITERAL: u8 = 1;
const CONTENT: u8 = 2;
const REPLACE: u8 = 3;

/// Literals up to this size are gathered into one step.
const GATHER: usize = 64 << 10;
/// Longest literal and path that a reader takes.
const MAX_FIELD: u64 = 1 << 20;

/// Encodes steps and hands them on in pieces of some 64 KiB.
pub(crate) struct Encoder<F> {
    literal: Vec<u8>,
    steps: Vec<u8>,
    total: u64,
    out: F,
}

impl<F: FnMut(Vec<u8>) -> Result<()>> Encoder<F> {
    /// `out` takes encoded pieces in order: see [`Packer`].
    pub(crate) fn new(out: F) -> Encoder<F> {
        Encoder { literal: Vec::new(), steps: Vec::new(), total: 0, out }
    }

    /// Ends the recipe. Answers how many bytes of tar it stands for.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.flush_literal()?;
        self.steps.push(END);
        put_number(&mut self.steps, self.total);
        (self.out)(self.steps)?;
        Ok(self.total)
    }

    fn flush_literal(&mut self) -> Result<()> {
        if !self.literal.is_empty() {
            self.steps.push(LITERAL);
            put_bytes(&mut self.steps, &self.literal);
            self.literal.clear();
        }
        if self.steps.len() >= GATHER { (self.out)(std::mem::take(&mut self.steps)) } else { Ok(()) }
    }
}

impl<F: FnMut(Vec<u8>) -> Result<()>> Recorder for Encoder<F> {
    fn literal(&mut self, bytes: &[u8]) -> Result<()> {
        self.total += bytes.len() as u64;
        for piece in bytes.chunks(GATHER) {
            self.literal.extend_from_slice(piece);
            if self.literal.len() >= GATHER {
                self.flush_literal()?;
            }
        }
        Ok(())
    }

    fn content(&mut self, path: &[u8], offset: u64, length: u64) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        self.flush_literal()?;
        self.total += length;
        self.steps.push(CONTENT);
        put_bytes(&mut self.steps, path);
        put_number(&mut self.steps, offset);
        put_number(&mut self.steps, length);
        Ok(())
    }

    fn replaced(&mut self, path: &[u8]) -> Result<()> {
        self.flush_literal()?;
        self.steps.push(REPLACE);
        put_bytes(&mut self.steps, path);
        Ok(())
    }
}

/// Compresses encoded pieces into the recipe file.
pub(crate) struct Packer(ZlibEncoder<Out>);

/// The recipe file; absent: between two of them.
struct Out(Option<File>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.as_mut().map_or(Ok(bytes.len()), |file| file.write(bytes))
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Packer {
    /// `spare`: one that is done, whose memory serves again: the allocator would put the next one's atop of it.
    pub(crate) fn new(file: OwnedFd, spare: Option<Packer>) -> Result<Packer> {
        let failed = |e: &std::io::Error| Error::io("write a recipe", e);
        let mut file = File::from(file);
        file.write_all(MAGIC).map_err(|e| failed(&e))?;
        let out = Out(Some(file));
        match spare {
            Some(Packer(mut encoder)) => {
                encoder.reset(out).map_err(|e| failed(&e))?;
                Ok(Packer(encoder))
            }
            None => Ok(Packer(ZlibEncoder::new(out, Compression::new(1)))),
        }
    }

    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<()> {
        self.0.write_all(piece).map_err(|e| Error::io("write a recipe", &e))
    }

    /// Ends the file; answers what may serve again.
    pub(crate) fn finish(mut self) -> Result<Packer> {
        self.0.reset(Out(None)).map_err(|e| Error::io("write a recipe", &e))?;
        Ok(self)
    }
}

/// Writes the tar of the layer whose directory is `layer` to `out`. The caller checks the digest of the tar.
pub(crate) fn replay(layer: &OwnedFd, out: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let diff = tree::open_dir_at(layer.as_fd(), DIFF)?;
    let moves = moves(layer)?;
    let mut steps = Steps::open(layer)?;
    let (mut buffer, mut total, mut replaced) = (vec![0; 256 << 10], 0u64, 0usize);
    let mut open: Option<(Vec<u8>, usize, File)> = None;
    loop {
        match steps.next()? {
            Step::Literal(bytes) => {
                total += bytes.len() as u64;
                out(&bytes)?;
            }
            Step::Replace(_) => replaced += 1,
            Step::Content { path, offset, length } => {
                let file = match &open {
                    Some((have, at, file)) if *have == path && *at == replaced => file,
                    _ => {
                        let file = locate(layer, &diff, &moves[replaced.min(moves.len())..], replaced, &path)?;
                        &open.insert((path, replaced, file)).2
                    }
                };
                total += length;
                copy_part(file, offset, length, &mut buffer, out)?;
            }
            Step::End(expected) if expected == total => return Ok(()),
            Step::End(_) => return Err(damaged("its length is wrong")),
        }
    }
}

/// The paths of the replace steps, in order: read ahead, as earlier steps need them.
fn moves(layer: &OwnedFd) -> Result<Vec<Vec<u8>>> {
    if tree::stat_at(layer.as_fd(), REPLACED)?.is_none() {
        return Ok(Vec::new());
    }
    let (mut steps, mut moves) = (Steps::open(layer)?, Vec::new());
    loop {
        match steps.next()? {
            Step::Replace(path) => moves.push(path),
            Step::End(_) => return Ok(moves),
            _ => {}
        }
    }
}

/// Opens the file that stood at `path` after `done` replacements; `later` are the ones still to come.
fn locate(layer: &OwnedFd, diff: &OwnedFd, later: &[Vec<u8>], done: usize, path: &[u8]) -> Result<File> {
    let moved = later.iter().position(|moved| {
        path.strip_prefix(moved.as_slice()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    });
    let (root, path) = match moved {
        None => (diff, path.to_vec()),
        Some(i) => (layer, [format!("{REPLACED}/{}", done + i).as_bytes(), &path[later[i].len()..]].concat()),
    };
    let file = openat2(root.as_fd(), &path, libc::O_RDONLY | libc::O_NOFOLLOW, 0, BENEATH_NO_LINKS)?;
    let file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(damaged(&format!("{} is not a file", super::entry::show(&path))));
    }
    Ok(file)
}

fn copy_part(
    file: &File,
    mut offset: u64,
    mut length: u64,
    buffer: &mut [u8],
    out: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    while length > 0 {
        let want = buffer.len().min(usize::try_from(length).unwrap_or(usize::MAX));
        let got = file.read_at(&mut buffer[..want], offset).map_err(|e| Error::io("read a layer's file", &e))?;
        if got == 0 {
            return Err(damaged("a file is shorter than it was"));
        }
        out(&buffer[..got])?;
        offset += got as u64;
        length -= got as u64;
    }
    Ok(())
}

enum Step {
    Literal(Vec<u8>),
    Content { path: Vec<u8>, offset: u64, length: u64 },
    Replace(Vec<u8>),
    End(u64),
}

struct Steps(BufReader<ZlibDecoder<BufReader<File>>>);

impl Steps {
    fn open(layer: &OwnedFd) -> Result<Steps> {
        let mut file = BufReader::new(File::from(tree::open_at(layer.as_fd(), FILE, libc::O_RDONLY, 0)?));
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic).map_err(|_| damaged("it is too short"))?;
        if magic != MAGIC {
            return Err(damaged("it is not a recipe, or of another version"));
        }
        Ok(Steps(BufReader::with_capacity(128 << 10, ZlibDecoder::new(file))))
    }

    fn next(&mut self) -> Result<Step> {
        Ok(match self.byte()? {
            LITERAL => Step::Literal(self.bytes()?),
            CONTENT => Step::Content { path: self.bytes()?, offset: self.number()?, length: self.number()? },
            REPLACE => Step::Replace(self.bytes()?),
            END => Step::End(self.number()?),
            other => return Err(damaged(&format!("unknown step {other}"))),
        })
    }

    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.0.read_exact(&mut byte).map_err(|e| damaged(&e.to_string()))?;
        Ok(byte[0])
    }

    fn number(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged("a number is too long"))
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        let length = self.number()?;
        if length > MAX_FIELD {
            return Err(damaged("a field is too long"));
        }
        let mut bytes = vec![0; length as usize];
        self.0.read_exact(&mut bytes).map_err(|e| damaged(&e.to_string()))?;
        Ok(bytes)
    }
}

fn damaged(why: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a layer's recipe is damaged: {why}"))
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
