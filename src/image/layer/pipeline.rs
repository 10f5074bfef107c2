//! Unpacking as a pipeline: the caller reads, one thread decompresses (where needed), one digests, one writes the tree
//! and one compresses the recipe, with a bounded number of buffers between them.

use super::recipe::{self, Encoder, Packer};
use super::unpack::unpack;
use crate::error::{Cause, Error, Result};
use crate::image::decompress::{self, Compression, Gate};
use crate::image::digest::{Digest, Hasher};
use crate::kernel::{thread, tree};
use crate::op::Op;
use crate::options::Options;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::io::{self, BufRead, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

/// How much memory the pipelines of one operation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Size of a buffer.
    chunk: usize,
    /// Buffers that may wait between two threads.
    depth: usize,
    /// Layers at a time.
    pub(crate) at_once: usize,
    /// Pieces of a recipe that may wait, of some 100 KiB.
    pieces: usize,
    /// Largest window of a compressed stream.
    pub(crate) window: u64,
    /// Bytes that the documents of an archive of images and its names may take together.
    pub(crate) documents: usize,
    /// Values that a document may have: each takes much more than its text.
    pub(crate) values: usize,
}

impl Room {
    /// Some 4 MiB for a layer, and what its decoder keeps: no more than 32 MiB together.
    pub(crate) const WIDE: Room = Room {
        chunk: 256 << 10,
        depth: 6,
        at_once: 3,
        pieces: 32,
        window: 32 << 20,
        documents: 16 << 20,
        values: 100_000,
    };
    /// The memory where more may be taken for a large window.
    const LARGE: Room = Room { window: 128 << 20, ..Room::WIDE };
    /// Less than 1 MiB, and a decoder's window.
    pub(crate) const SMALL: Room =
        Room { chunk: 64 << 10, depth: 3, at_once: 1, pieces: 4, window: 8 << 20, documents: 4 << 20, values: 20_000 };

    /// Bytes of one document.
    pub(crate) const fn document(self) -> usize {
        self.documents / 2
    }

    /// The memory that an engine with these options may take.
    pub(crate) fn of(options: &Options) -> Room {
        match (options.small_memory, options.large_windows) {
            (true, _) => Room::SMALL,
            (false, false) => Room::WIDE,
            (false, true) => Room::LARGE,
        }
    }
}

/// Digest of 1024 zeros.
const EMPTY_TAR: &str = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef";

/// Where a layer is staged: an empty directory of ours.
pub(crate) struct Stage {
    pub(crate) dir: OwnedFd,
    pub(crate) room: Room,
    pub(crate) gate: Arc<Gate>,
    /// Whether it will be flushed to the disk.
    pub(crate) flushed: bool,
}

/// A whole layer, staged: `diff/`, `recipe` and maybe `replaced/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Staged {
    /// Digest of the uncompressed tar.
    pub(crate) diff_id: Digest,
    /// Digest of the stream as it was fed.
    pub(crate) raw: Digest,
    /// Bytes of the files.
    pub(crate) size: u64,
    /// Bytes of the uncompressed tar.
    pub(crate) tar: u64,
}

impl Staged {
    /// Whether it is of the tar with nothing in it, as this library and docker write it: no layer is made of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.diff_id.hex() == EMPTY_TAR
    }
}

/// The caller's end of a pipeline: feed it, then [`Feeder::end`] it. Dropping it instead leaves a layer that must not
/// be used.
pub(crate) struct Feeder {
    out: Fan,
    /// Compressed streams have a digest of their own.
    raw: Option<Hasher>,
    /// A buffer that is not full yet: see [`Feeder::push`].
    begun: Option<Chunk>,
}

/// The threads of one layer.
pub(crate) struct Workers<'scope> {
    decompress: Option<ScopedJoinHandle<'scope, Result<()>>>,
    digest: ScopedJoinHandle<'scope, Digest>,
    write: ScopedJoinHandle<'scope, Result<(u64, u64)>>,
    recipe: ScopedJoinHandle<'scope, Result<()>>,
}

impl<'scope> Workers<'scope> {
    /// Starts the threads for a stream that begins with `head` (at least six bytes, or all).
    pub(crate) fn start(scope: &'scope Scope<'scope, '_>, stage: Stage, head: &[u8]) -> Result<(Feeder, Self)> {
        let (compression, room, gate) = (Compression::of(head), stage.room, stage.gate.clone());
        tree::mkdir_at(stage.dir.as_fd(), recipe::DIFF, 0o755)?;
        let diff = tree::open_dir_at(stage.dir.as_fd(), recipe::DIFF)?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let file = tree::open_at(stage.dir.as_fd(), recipe::FILE, flags, 0o600)?;
        let packer = Packer::new(file, gate.packers.lock().pop())?;

        let (steps_out, steps_in) = bounded::<Vec<u8>>(room.pieces);
        let own = gate.clone();
        let recipe = thread::spawn(scope, "layer-recipe", move || pack(packer, &steps_in, &own))?;
        let (digest_out, digest_in) = bounded(room.depth);
        let digest = thread::spawn(scope, "layer-digest", move || digest_all(&digest_in))?;
        let (write_out, write_in) = bounded(room.depth);
        let write = thread::spawn(scope, "layer-write", move || write_all(&write_in, diff, &stage, &steps_out))?;
        let plain = Fan { outs: vec![digest_out, write_out], pool: Pool::new(room) };

        let (out, decompress, raw) = match compression {
            Compression::None => (plain, None, None),
            other => {
                let (raw_out, raw_in) = bounded(room.depth);
                let work = move || decompress_all(raw_in, other, plain, room.window, &gate);
                let handle = thread::spawn(scope, "layer-inflate", work)?;
                (Fan { outs: vec![raw_out], pool: Pool::new(room) }, Some(handle), Some(Hasher::new()))
            }
        };
        Ok((Feeder { out, raw, begun: None }, Workers { decompress, digest, write, recipe }))
    }

    /// Waits for the layer; `raw` is what [`Feeder::end`] answered.
    pub(crate) fn join(self, raw: Option<Digest>) -> Result<Staged> {
        let inflated = self.decompress.map(|handle| joined(handle.join()).and_then(|r| r));
        let diff_id = joined(self.digest.join());
        let size = joined(self.write.join()).and_then(|r| r);
        let recipe = joined(self.recipe.join()).and_then(|r| r);
        // The first cause first: a decoder's error makes the writer see a cut stream.
        match inflated {
            Some(Err(error)) if error.cause() != Some(Cause::HungUp) => return Err(error),
            _ => {}
        }
        recipe?;
        let (diff_id, (size, tar)) = (diff_id?, size?);
        Ok(Staged { diff_id, raw: raw.unwrap_or(diff_id), size, tar })
    }
}

impl Feeder {
    /// Feeds all of `input`. Answers false when the pipeline ended early: [`Workers::join`] then says why.
    pub(crate) fn feed(&mut self, input: &mut dyn Read, op: Option<&Op>) -> Result<bool> {
        loop {
            if let Some(op) = op {
                op.check()?;
            }
            let mut chunk = self.out.pool.take();
            let full = fill(input, &mut chunk)?;
            if let Some(raw) = &mut self.raw {
                raw.update(&chunk.bytes);
            }
            if !chunk.bytes.is_empty() && self.out.send(chunk).is_err() {
                return Ok(false);
            }
            if !full {
                return Ok(true);
            }
        }
    }

    /// Feeds some bytes of a stream that is not compressed. Answers false as [`Feeder::feed`] does.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let mut chunk = self.begun.take().unwrap_or_else(|| self.out.pool.empty());
            let n = bytes.len().min(chunk.size - chunk.bytes.len());
            chunk.bytes.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if chunk.bytes.len() < chunk.size {
                self.begun = Some(chunk);
            } else if self.out.send(chunk).is_err() {
                return false;
            }
        }
        true
    }

    /// Ends the stream; answers its digest where it was compressed.
    pub(crate) fn end(mut self) -> Option<Digest> {
        if let Some(last) = self.begun.take() {
            // If the receiver is gone, joining it shows why.
            let _ = self.out.send(last);
        }
        self.raw.map(Hasher::finish)
    }
}

/// A stream that is not compressed, written.
impl Write for Feeder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.push(bytes) {
            true => Ok(bytes.len()),
            false => Err(io::Error::from_raw_os_error(libc::EPIPE)),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn pack(mut packer: Packer, steps: &Receiver<Vec<u8>>, gate: &Gate) -> Result<()> {
    for piece in steps {
        packer.push(&piece)?;
    }
    gate.packers.lock().push(packer.finish()?);
    Ok(())
}

fn digest_all(input: &Receiver<Arc<Chunk>>) -> Digest {
    let mut hasher = Hasher::new();
    for chunk in input {
        hasher.update(&chunk.bytes);
    }
    hasher.finish()
}

fn write_all(
    input: &Receiver<Arc<Chunk>>,
    diff: OwnedFd,
    stage: &Stage,
    steps: &Sender<Vec<u8>>,
) -> Result<(u64, u64)> {
    thread::zero_umask()?;
    let mut encoder = Encoder::new(|piece| steps.send(piece).map_err(|_| hang_up()));
    let replaced = || {
        tree::mkdir_at(stage.dir.as_fd(), recipe::REPLACED, 0o700)?;
        tree::open_dir_at(stage.dir.as_fd(), recipe::REPLACED)
    };
    let done = unpack(Chunks { input: input.clone(), now: None, at: 0 }, diff, stage.flushed, &replaced, &mut encoder)?;
    Ok((done.size, encoder.finish()?))
}

fn decompress_all(
    input: Receiver<Arc<Chunk>>,
    compression: Compression,
    mut out: Fan,
    window: u64,
    gate: &Gate,
) -> Result<()> {
    let mut decoder = decompress::decoder(Chunks { input, now: None, at: 0 }, compression, window, Some(gate))?;
    loop {
        let mut chunk = out.pool.take();
        let full = fill(&mut decoder, &mut chunk).map_err(|e| e.context("decompress a layer"))?;
        if !chunk.bytes.is_empty() {
            out.send(chunk).map_err(|()| hang_up())?;
        }
        if !full {
            return Ok(());
        }
    }
}

/// Fills a buffer; answers whether it is full (else the stream ended).
fn fill(input: &mut (impl Read + ?Sized), chunk: &mut Chunk) -> Result<bool> {
    chunk.bytes.resize(chunk.size, 0);
    let mut filled = 0;
    while filled < chunk.size {
        match input.read(&mut chunk.bytes[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::from(e)),
        }
    }
    chunk.bytes.truncate(filled);
    Ok(filled == chunk.size)
}

fn hang_up() -> Error {
    Error::internal("the next stage of the pipeline ended").caused_by(Cause::HungUp)
}

fn joined<T>(result: std::thread::Result<T>) -> Result<T> {
    result.map_err(|_| Error::new(crate::error::ErrorKind::Panic, "a worker thread of an image operation failed"))
}

/// A buffer of the stream, which goes back to its pool when the last reader is done.
struct Chunk {
    bytes: Vec<u8>,
    /// How many it takes.
    size: usize,
    home: Sender<Vec<u8>>,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // A full or closed pool: the memory is freed.
        let _ = self.home.try_send(std::mem::take(&mut self.bytes));
    }
}

struct Pool {
    home: Sender<Vec<u8>>,
    idle: Receiver<Vec<u8>>,
    chunk: usize,
}

impl Pool {
    fn new(room: Room) -> Pool {
        let (home, idle) = bounded(2 * room.depth);
        Pool { home, idle, chunk: room.chunk }
    }
    /// A buffer with whatever is in it.
    fn take(&self) -> Chunk {
        let bytes = self.idle.try_recv().unwrap_or_default();
        Chunk { bytes, size: self.chunk, home: self.home.clone() }
    }
    fn empty(&self) -> Chunk {
        let mut chunk = self.take();
        chunk.bytes.clear();
        chunk
    }
}

/// Sends each buffer to several readers.
struct Fan {
    outs: Vec<Sender<Arc<Chunk>>>,
    pool: Pool,
}

impl Fan {
    /// Fails when any reader is gone: then the layer is lost anyway.
    fn send(&mut self, chunk: Chunk) -> std::result::Result<(), ()> {
        let chunk = Arc::new(chunk);
        for out in &self.outs {
            out.send(chunk.clone()).map_err(drop)?;
        }
        Ok(())
    }
}

/// The buffers as one stream.
struct Chunks {
    input: Receiver<Arc<Chunk>>,
    now: Option<Arc<Chunk>>,
    at: usize,
}

impl BufRead for Chunks {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.now.as_ref().is_none_or(|chunk| self.at >= chunk.bytes.len()) {
            self.now = self.input.recv().ok();
            self.at = 0;
        }
        Ok(self.now.as_ref().map_or(&[], |chunk| &chunk.bytes[self.at..]))
    }
    fn consume(&mut self, n: usize) {
        self.at += n;
    }
}

impl Read for Chunks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let have = self.fill_buf()?;
        let n = have.len().min(out.len());
        out[..n].copy_from_slice(&have[..n]);
        self.consume(n);
        Ok(n)
    }
}
