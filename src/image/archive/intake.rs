//! Taking in an archive in one pass.
//!
//! Which file is what stands in documents that may come last, so everything that looks like a layer is unpacked into
//! staging as it streams by, small files are kept in memory (bounded), links are remembered, and the documents are read
//! afterwards.

use super::{inside, parent};
use crate::error::{Error, Result};
use crate::image::archive_reader::Unrecorded;
use crate::image::catalog::Catalog;
use crate::image::config::check_values;
use crate::image::decompress::{self, Compression};
use crate::image::digest::{Digest, Hasher};
use crate::image::layer::entry::{self, Entry, Kind, TarReader};
use crate::image::layer::{Room, Staged, Workers};
use crate::image::layer_store::{LayerStore, Staging};
use crate::op::Op;
use crate::walls::Wall;
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::thread::Scope;

/// Most files.
const MAX_FILES: usize = 100_000;
/// Memory that a file takes beside its paths and its content.
const FILE_COST: usize = 128;
/// Most layers in the pipeline at a time.
const LAYERS_AT_ONCE: usize = 2;
/// Links followed to one file.
const MAX_LINKS: usize = 16;

/// One file of the archive.
enum Item {
    Small(Vec<u8>),
    /// Staged under that name.
    Layer(Box<(String, Staged)>),
    /// A layer that the store has already; its content had that digest.
    Known(Digest),
    /// Another path.
    Link(String),
    TooLarge(u64),
}

/// A file of the archive as it streams by.
struct Content<'a> {
    path: String,
    /// As its header says.
    size: u64,
    bytes: &'a mut dyn Read,
}

/// The layers that are being unpacked, in their order, and where their threads run.
struct Running<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    pending: VecDeque<Pending<'scope>>,
}

/// An archive taken in.
pub(super) struct Intake<'a> {
    layers: &'a LayerStore,
    catalog: &'a Catalog,
    staging: &'a Staging<'a>,
    items: HashMap<String, Item>,
    /// Bytes that the files kept in memory take, with their paths.
    memory: usize,
}

/// A layer of the archive, found again by its path.
#[derive(Debug, Clone)]
pub(super) struct FoundLayer {
    pub(super) diff_id: Digest,
    /// Digest of the file as it stands in the archive.
    pub(super) raw: Digest,
    /// Where it is staged; absent: the store has it.
    pub(super) staged: Option<(String, Staged)>,
}

impl<'a> Intake<'a> {
    /// Reads the whole archive.
    pub(super) fn read(
        layers: &'a LayerStore,
        catalog: &'a Catalog,
        staging: &'a Staging<'a>,
        archive: &mut dyn Read,
        op: Option<&Op>,
    ) -> Result<Intake<'a>> {
        let mut intake = Intake { layers, catalog, staging, items: HashMap::new(), memory: 0 };
        let window = layers.room.window;
        let stream = decompress::reader(BufReader::with_capacity(256 << 10, archive), window)?;
        let mut unrecorded = Unrecorded;
        let mut tar = TarReader::new(BufReader::with_capacity(64 << 10, stream), &mut unrecorded);
        std::thread::scope(|scope| {
            let mut running = Running { scope, pending: VecDeque::new() };
            while let Some(entry) = tar.next().map_err(|e| e.context("archive"))? {
                if let Some(op) = op {
                    op.check()?;
                }
                intake.entry(&mut running, &mut tar, &entry, op)?;
            }
            while let Some(next) = running.pending.pop_front() {
                intake.join_worker(next)?;
            }
            Ok::<(), Error>(())
        })?;
        Ok(intake)
    }

    fn entry<R: BufRead>(
        &mut self,
        running: &mut Running<'_, '_>,
        tar: &mut TarReader<'_, R>,
        entry: &Entry,
        op: Option<&Op>,
    ) -> Result<()> {
        let path = text(&entry.path)?;
        match &entry.kind {
            Kind::File if entry.sparse => Err(Error::invalid(format!("archive: {path:?} is stored as a sparse file"))),
            Kind::File => {
                tar.stream(entry, |content| self.file(running, Content { path, size: entry.size, bytes: content }, op))
            }
            Kind::Link(target) => self.link(path, "", target),
            Kind::Symlink(target) => {
                let base = parent(&path).to_owned();
                self.link(path, &base, target)
            }
            _ => Ok(()),
        }
    }

    fn link(&mut self, path: String, base: &str, target: &[u8]) -> Result<()> {
        #[cfg(feature = "attacks")]
        if !Wall::ArchiveLinks.stands()
            && let Ok(bytes) = std::fs::read(text(target)?)
        {
            return self.put(path, Item::Small(bytes));
        }
        let target = inside(base, &text(target)?);
        let target = target.map_err(|e| e.context(format_args!("archive: link {path:?}")))?;
        self.put(path, Item::Link(target))
    }

    fn file(&mut self, running: &mut Running<'_, '_>, file: Content<'_>, op: Option<&Op>) -> Result<()> {
        let mut head = Vec::with_capacity(512);
        (&mut *file.bytes).take(512).read_to_end(&mut head).map_err(|e| cut(&file.path, &e))?;
        if Compression::of(&head) != Compression::None || entry::is_header(&head) {
            return self.layer(running, file, head, op);
        }
        let Content { path, size, bytes } = file;
        let most = self.room().document();
        let Some(small) = usize::try_from(size).ok().filter(|size| *size <= most) else {
            return self.put(path, Item::TooLarge(size));
        };
        self.remember(small)?;
        head.reserve_exact(small.saturating_sub(head.len()));
        bytes.read_to_end(&mut head).map_err(|e| cut(&path, &e))?;
        whole(&path, head.len() as u64, size)?;
        self.put(path, Item::Small(head))
    }

    /// Counts what is kept in memory.
    fn remember(&mut self, bytes: usize) -> Result<()> {
        self.memory = self.memory.saturating_add(bytes);
        let most = self.room().documents;
        match self.memory > most && Wall::ArchiveDocuments.stands() {
            true => Err(Error::invalid(format!(
                "archive: its documents and the names of its files take more than {most} bytes"
            ))),
            false => Ok(()),
        }
    }

    /// Unpacks a layer, of which `head` was read already.
    fn layer(
        &mut self,
        running: &mut Running<'_, '_>,
        file: Content<'_>,
        head: Vec<u8>,
        op: Option<&Op>,
    ) -> Result<()> {
        if let Some(known) = self.known(&file.path)? {
            return self.check_known(known, file, &head, op);
        }
        while running.pending.len() >= LAYERS_AT_ONCE.min(self.layers.room.at_once) {
            if let Some(next) = running.pending.pop_front() {
                self.join_worker(next)?;
            }
        }
        let (name, stage) = self.staging.layer()?;
        let (mut feeder, workers) = Workers::start(running.scope, stage, &head)?;
        let Content { path, size, bytes } = file;
        let mut counted = Counted { input: (&head[..]).chain(bytes), count: 0 };
        if feeder.feed(&mut counted, op)? {
            whole(&path, counted.count, size)?;
        }
        let raw = feeder.end();
        running.pending.push_back(Pending { path, name, workers, raw });
        Ok(())
    }

    fn join_worker(&mut self, pending: Pending<'_>) -> Result<()> {
        let staged = pending.workers.join(pending.raw).map_err(|e| e.context(format_args!("{:?}", pending.path)))?;
        self.put(pending.path, Item::Layer(Box::new((pending.name, staged))))
    }

    /// The digest that the path of a blob promises, where the store has a layer of it: then unpacking is not needed.
    fn known(&self, path: &str) -> Result<Option<Digest>> {
        let digest = path.strip_prefix("blobs/sha256/").and_then(Digest::from_hex);
        Ok(match digest {
            Some(digest) if self.catalog.has_layer(&digest)? => Some(digest),
            _ => None,
        })
    }

    /// Reads a layer that the store has, of which `head` was read already. Errors: its digest is not `known`.
    fn check_known(&mut self, known: Digest, file: Content<'_>, head: &[u8], op: Option<&Op>) -> Result<()> {
        let Content { path, size, bytes: rest } = file;
        let (mut hasher, mut buffer, mut read) = (Hasher::new(), vec![0; 256 << 10], head.len() as u64);
        hasher.update(head);
        loop {
            if let Some(op) = op {
                op.check()?;
            }
            let n = rest.read(&mut buffer).map_err(|e| cut(&path, &e))?;
            if n == 0 {
                break;
            }
            hasher.update(&buffer[..n]);
            read += n as u64;
        }
        whole(&path, read, size)?;
        let digest = hasher.finish();
        if digest != known {
            return Err(Error::invalid(format!("archive: {path:?} has the digest {digest}")));
        }
        self.put(path, Item::Known(digest))
    }

    fn put(&mut self, path: String, item: Item) -> Result<()> {
        if self.items.len() >= MAX_FILES {
            return Err(Error::invalid(format!("archive: more than {MAX_FILES} files")));
        }
        let target = if let Item::Link(target) = &item { target.len() } else { 0 };
        self.remember(path.len() + target + FILE_COST)?;
        // A path that comes twice could mean one thing here and another elsewhere.
        match self.items.insert(path, item) {
            None => Ok(()),
            Some(_) => Err(Error::invalid("archive: a path comes twice")),
        }
    }

    /// The images of the engine that takes it in.
    pub(super) fn catalog(&self) -> &Catalog {
        self.catalog
    }

    /// Every path.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.items.keys().map(String::as_str)
    }

    /// How much memory the operation may take.
    pub(super) fn room(&self) -> Room {
        self.layers.room
    }

    /// The JSON document at `path`, of at most `limit` bytes; `None`: there is none.
    pub(super) fn document(&self, path: &str, limit: usize) -> Result<Option<&[u8]>> {
        let large =
            |size: u64| Error::invalid(format!("archive: {path:?} has {size} bytes, at most {limit} are taken"));
        match self.follow(path)?.map(|(_, item)| item) {
            None => Ok(None),
            Some(Item::Small(bytes)) if bytes.len() <= limit => {
                check_values(bytes, self.room().values).map_err(|e| e.context(format_args!("archive: {path:?}")))?;
                Ok(Some(bytes))
            }
            Some(Item::Small(bytes)) => Err(large(bytes.len() as u64)),
            Some(Item::TooLarge(size)) => Err(large(*size)),
            Some(_) => Err(Error::invalid(format!("archive: {path:?} is a layer, not a document"))),
        }
    }

    /// The layer at `path`; `None`: there is none.
    pub(super) fn layer_at(&mut self, path: &str) -> Result<Option<FoundLayer>> {
        let Some((real, item)) = self.follow(path)? else { return Ok(None) };
        let found = |(name, staged): &(String, Staged)| FoundLayer {
            diff_id: staged.diff_id,
            raw: staged.raw,
            staged: Some((name.clone(), *staged)),
        };
        match item {
            Item::Layer(layer) => Ok(Some(found(layer))),
            Item::Known(digest) => Ok(Some(FoundLayer { diff_id: *digest, raw: *digest, staged: None })),
            Item::Small(bytes) => {
                // A layer without entries: too little to be known by its looks.
                let (real, bytes) = (real.to_owned(), bytes.clone());
                let layer = self.stage_bytes(&bytes).map_err(|e| e.context(format_args!("{path:?}")))?;
                let answer = found(&layer);
                self.items.insert(real, Item::Layer(Box::new(layer)));
                Ok(Some(answer))
            }
            _ => Err(Error::invalid(format!("archive: {path:?} is not a layer"))),
        }
    }

    fn stage_bytes(&self, bytes: &[u8]) -> Result<(String, Staged)> {
        stage_stream(self.staging, &mut &bytes[..], &[], None)
    }

    fn follow(&self, path: &str) -> Result<Option<(&str, &Item)>> {
        let mut path = path;
        for _ in 0..MAX_LINKS {
            match self.items.get_key_value(path) {
                None => return Ok(None),
                Some((_, Item::Link(target))) => path = target,
                Some((real, item)) => return Ok(Some((real, item))),
            }
        }
        Err(Error::invalid(format!("archive: {path:?}: too many links")))
    }
}

/// Stages one layer from a stream, which begins with `head`. Answers its name in the staging.
pub(in crate::image) fn stage_stream(
    staging: &Staging<'_>,
    input: &mut dyn Read,
    head: &[u8],
    op: Option<&Op>,
) -> Result<(String, Staged)> {
    let (name, stage) = staging.layer()?;
    let staged = std::thread::scope(|scope| {
        let (mut feeder, workers) = Workers::start(scope, stage, head)?;
        feeder.feed(&mut head.chain(input), op)?;
        let raw = feeder.end();
        workers.join(raw)
    })?;
    Ok((name, staged))
}

/// Stages one layer whose tar `write` writes. Answers its name in the staging.
pub(in crate::image) fn stage_written(
    staging: &Staging<'_>,
    write: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
) -> Result<(String, Staged)> {
    let (name, stage) = staging.layer()?;
    let staged = std::thread::scope(|scope| {
        let (mut feeder, workers) = Workers::start(scope, stage, &[])?;
        let written = write(&mut feeder);
        let raw = feeder.end();
        match (written, workers.join(raw)) {
            // Where the pipeline ended early, it knows why.
            (Err(error), Err(why)) if error.is(libc::EPIPE) => Err(why),
            (Err(error), _) => Err(error),
            (Ok(()), staged) => staged,
        }
    })?;
    Ok((name, staged))
}

/// A layer that the pipeline still works on.
struct Pending<'scope> {
    path: String,
    name: String,
    workers: Workers<'scope>,
    raw: Option<Digest>,
}

struct Counted<R> {
    input: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.input.read(out)?;
        self.count += n as u64;
        Ok(n)
    }
}

fn whole(path: &str, read: u64, size: u64) -> Result<()> {
    match read == size {
        true => Ok(()),
        false => Err(Error::invalid(format!("archive: unexpected end in {path:?}: {read} of {size} bytes"))),
    }
}

fn cut(path: &str, error: &std::io::Error) -> Error {
    Error::invalid(format!("archive: {path:?}: {error}"))
}

fn text(bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::invalid("archive: a name that is not UTF-8"))?;
    Ok(text.to_owned())
}
