//! Pushing: the layers that the registry lacks, the configuration, and last the manifest.

use super::manifest::{CONFIG, Descriptor, LAYER, Manifest, SCHEMA2};
use super::{ATTEMPTS, ProgressSender, back_off, beside, in_parallel, is_passing};
use crate::error::{Cause, Error, ErrorKind, Result};
use crate::image::catalog::no_such;
use crate::image::digest::{Digest, Hasher};
use crate::image::gzip::Gzip;
use crate::image::layer::recipe;
use crate::image::layer_store::LayerStore;
use crate::image::reference::Reference;
use crate::image::{Emit, OnProgress, labels, name_row, progress, stored_digest};
use crate::kernel::thread;
use crate::model::{Event, Progress, ProgressDetail, PushImage, RegistryOptions};
use crate::op::Op;
use crate::registry::{Client, Repository, Transport, Upload, Url};
use crate::store::blobs::{self, BlobRow};
use crate::store::{Db, Flush, images as rows};
use crate::time::now_ns;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Speed counts for more than the last percent here.
const LEVEL: u32 = 4;
/// Compressed pieces on their way, and their size.
const DEPTH: usize = 8;
const PIECE: usize = 128 << 10;
/// How often progress is reported.
const EVERY: Duration = Duration::from_millis(100);
/// Digests of a layer that are looked for in the registry.
const CANDIDATES: usize = 3;

/// An image under one of its names.
struct Named {
    reference: Reference,
    id: Digest,
    config: Vec<u8>,
    /// Diff ids and sizes of the tars, bottom first.
    layers: Vec<(Digest, u64)>,
}

/// Pushes images.
pub(crate) struct Pusher {
    pub(in crate::image) db: Arc<Db>,
    pub(in crate::image) layers: Arc<LayerStore>,
}

impl Pusher {
    /// Pushes one tag, or every tag of a repository that is here.
    pub(crate) fn push(
        &self,
        options: &RegistryOptions,
        request: &PushImage,
        on_progress: OnProgress<'_>,
        emit: Emit<'_>,
        op: Option<&Op>,
    ) -> Result<()> {
        let images = self.named(request)?;
        let transport = Transport::new(options.clone());
        let mut events = Vec::new();
        let result = beside(&transport, on_progress, op, |sender| {
            let Some(first) = images.first() else { return Ok(()) };
            let reference = &first.reference;
            let full = format!("{}/{}", reference.domain(), reference.path());
            sender.emit(progress::line(format!("The push refers to repository [{full}]"), ""));
            let client = Client::connect(&transport, reference.domain(), request.auth.clone())?;
            let repository = client.repository(reference.path(), true);
            let push = Push { pusher: self, transport: &transport, repository: &repository, sender: &sender };
            images.iter().try_for_each(|image| push.one(image, &mut events))
        });
        events.into_iter().for_each(emit);
        result
    }

    fn named(&self, request: &PushImage) -> Result<Vec<Named>> {
        let reference = Reference::parse(&request.name)?;
        if reference.digest().is_some() {
            return Err(Error::invalid("cannot push a digest reference"));
        }
        let reference = match request.tag.as_str() {
            "" => reference,
            tag => reference.with_tag(tag)?,
        };
        self.db.read(|tx| {
            let names = rows::all_names(tx)?;
            let repository = reference.repository();
            let mut images = Vec::new();
            for row in names.iter().filter(|row| row.repository == repository && !row.is_digest) {
                if reference.tag().is_some() && row.name != reference.to_string() {
                    continue;
                }
                let image = rows::get(tx, &row.image_id)?.ok_or_else(|| no_such(&row.name))?;
                let mut layers = Vec::new();
                for (diff_id, size) in rows::tars(tx, &image.id)? {
                    layers.push((stored_digest(&diff_id)?, u64::try_from(size).unwrap_or(0)));
                }
                let id = stored_digest(&image.id)?;
                images.push(Named { reference: Reference::parse(&row.name)?, id, config: image.config, layers });
            }
            match (images.is_empty(), reference.tag()) {
                (false, _) => Ok(images),
                (true, Some(_)) if names.iter().any(|row| row.repository == repository) => {
                    Err(Error::not_found(format!("tag does not exist: {reference}")))
                }
                (true, _) => {
                    let text = format!("An image does not exist locally with the tag: {repository}");
                    Err(Error::not_found(text))
                }
            }
        })
    }
}

struct Push<'a> {
    pusher: &'a Pusher,
    transport: &'a Transport,
    repository: &'a Repository<'a>,
    sender: &'a ProgressSender,
}

impl Push<'_> {
    fn one(&self, image: &Named, events: &mut Vec<Event>) -> Result<()> {
        let mut seen = HashSet::new();
        let unique: Vec<(Digest, u64)> = image.layers.iter().copied().filter(|(id, _)| seen.insert(*id)).collect();
        for (i, (diff_id, _)) in unique.iter().enumerate() {
            let status = if i < self.pusher.layers.room.at_once { "Preparing" } else { "Waiting" };
            self.sender.emit(progress::step(status, &diff_id.short()));
        }
        let done = in_parallel(self.transport, self.pusher.layers.room.at_once, unique.clone(), |(diff_id, size)| {
            self.layer(&diff_id, size).inspect_err(|_| {
                self.sender.emit(progress::step("Image push failed", &diff_id.short()));
            })
        })?;
        let blob = |diff_id: &Digest| {
            let index = unique.iter().position(|(id, _)| id == diff_id);
            index.and_then(|index| done.get(index).cloned()).ok_or_else(|| Error::internal("push: a layer is missing"))
        };
        let layers = image.layers.iter().map(|(diff_id, _)| blob(diff_id)).collect::<Result<Vec<_>>>()?;
        let config = self.document(&image.id, &image.config)?;
        let manifest = Manifest { schema_version: 2, media_type: SCHEMA2.into(), config, layers };
        let bytes = serde_json::to_vec(&manifest).map_err(|e| Error::internal(format!("manifest: {e}")))?;
        let digest = Digest::of(&bytes).to_string();
        let tag = image.reference.tag().unwrap_or("latest");
        self.repository.put_manifest(tag, SCHEMA2, &bytes, &digest)?;
        self.remember(image, &digest)?;
        let size = bytes.len();
        self.sender.emit(progress::line(format!("{tag}: digest: {digest} size: {size}"), ""));
        self.sender.emit(Progress {
            progress_detail: Some(ProgressDetail::default()),
            aux: Some(serde_json::json!({ "Tag": tag, "Digest": digest, "Size": size })),
            ..Progress::default()
        });
        let name = image.reference.repository();
        events.push(Event::image("push", &image.reference.to_string(), &name, &labels(&image.config)));
        Ok(())
    }

    /// The image is known by this digest too from now on.
    fn remember(&self, image: &Named, digest: &str) -> Result<()> {
        let reference = image.reference.clone().with_digest(digest)?;
        self.pusher.db.write(Flush::Durable, |tx| {
            let id = image.id.to_string();
            if rows::get(tx, &id)?.is_some() {
                rows::set_name(tx, &name_row(&reference, &id), now_ns())?;
            }
            Ok(())
        })
    }

    /// Brings one layer there, whichever way is cheapest.
    fn layer(&self, diff_id: &Digest, tar_size: u64) -> Result<Descriptor> {
        let id = diff_id.short();
        let known = self.pusher.db.read(|tx| blobs::of(tx, &diff_id.to_string(), self.repository.domain()))?;
        if let Some(blob) = self.there_already(diff_id, &known)? {
            self.sender.emit(progress::step("Layer already exists", &id));
            return self.noted(diff_id, blob);
        }
        let mut upload = None;
        for blob in known.iter().filter(|blob| blob.repository != self.repository.path).take(CANDIDATES) {
            let mount = (blob.digest.as_str(), blob.repository.as_str());
            match self.repository.begin_upload(Some(mount)) {
                Ok(Upload::Mounted) => {
                    self.sender.emit(progress::step(&format!("Mounted from {}", blob.repository), &id));
                    return self.noted(diff_id, blob.clone());
                }
                Ok(Upload::To(url)) => {
                    upload = Some(url);
                    break;
                }
                // Not ours to read there: it is sent as any other.
                Err(error) if matches!(error.kind(), ErrorKind::Unauthorized | ErrorKind::Forbidden) => {}
                Err(error) => return Err(error),
            }
        }
        let mut failures = 0;
        loop {
            match self.send(diff_id, tar_size, upload.take()) {
                Ok(blob) => {
                    self.sender.emit(progress::step("Pushed", &id));
                    return self.noted(diff_id, blob);
                }
                Err(error) if is_passing(&error) && failures + 1 < ATTEMPTS => {
                    failures += 1;
                    back_off(self.transport, self.sender, &id, failures)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn there_already(&self, diff_id: &Digest, known: &[BlobRow]) -> Result<Option<BlobRow>> {
        let mut asked: Vec<&str> = Vec::new();
        for blob in known {
            if asked.contains(&blob.digest.as_str()) || asked.len() >= CANDIDATES {
                continue;
            }
            asked.push(&blob.digest);
            match self.repository.has_blob(&blob.digest)? {
                Some(size) if size.is_none_or(|size| size == blob.size) => return Ok(Some(blob.clone())),
                _ if blob.repository == self.repository.path => self.pusher.db.write(Flush::Lazy, |tx| {
                    blobs::remove(tx, &diff_id.to_string(), self.repository.domain(), &blob.repository)
                })?,
                _ => {}
            }
        }
        Ok(None)
    }

    /// Notes that this repository has the blob; answers how a manifest names it.
    fn noted(&self, diff_id: &Digest, blob: BlobRow) -> Result<Descriptor> {
        let blob = BlobRow { repository: self.repository.path.clone(), ..blob };
        self.pusher
            .db
            .write(Flush::Lazy, |tx| blobs::put(tx, &diff_id.to_string(), self.repository.domain(), &blob))?;
        Ok(Descriptor { media_type: LAYER.into(), size: blob.size, digest: blob.digest })
    }

    /// Writes the layer's tar again, compresses it and sends it, all at once.
    fn send(&self, diff_id: &Digest, tar_size: u64, upload: Option<Url>) -> Result<BlobRow> {
        let upload = match upload {
            Some(url) => url,
            None => self.begin()?,
        };
        let (out, pieces) = bounded(DEPTH);
        let (sent, made) = std::thread::scope(|scope| -> Result<_> {
            let maker = thread::spawn(scope, "layer-deflate", || self.compress(diff_id, tar_size, out))?;
            let mut body = Body { pieces, piece: Vec::new(), at: 0 };
            let sent = self.repository.send(upload.clone(), &mut body);
            // Without its reader the maker ends by itself.
            drop(body);
            let made = maker.join().map_err(|_| Error::new(ErrorKind::Panic, "a worker thread of a push failed"))?;
            Ok((sent, made))
        })?;
        // A layer that cannot be made is the reason for an upload that fails; a failed upload for one that is cut off.
        let (digest, size, next) = match (made, sent) {
            (Ok((digest, size)), Ok(next)) => (digest, size, next),
            (Err(error), _) if error.cause() != Some(Cause::HungUp) => {
                self.repository.abandon(upload);
                return Err(error);
            }
            (_, Err(error)) | (Err(error), _) => return Err(error),
        };
        let digest = digest.to_string();
        self.repository.finish(next, &digest, b"")?;
        Ok(BlobRow { repository: self.repository.path.clone(), digest, size })
    }

    fn begin(&self) -> Result<Url> {
        match self.repository.begin_upload(None)? {
            Upload::To(url) => Ok(url),
            Upload::Mounted => Err(Error::internal("the registry mounted what nobody asked for")),
        }
    }

    /// The gzip form of a layer, as pieces to `out`. Answers its digest and size.
    fn compress(&self, diff_id: &Digest, tar_size: u64, out: Sender<Vec<u8>>) -> Result<(Digest, u64)> {
        let layer = self.pusher.layers.open_layer(diff_id)?;
        let pieces = Pieces { out, piece: Vec::with_capacity(PIECE), hasher: Hasher::new(), size: 0 };
        let mut gzip = Gzip::new(pieces, LEVEL);
        let (mut hasher, mut done, mut reported) = (Hasher::new(), 0u64, Instant::now());
        let id = diff_id.short();
        recipe::replay(&layer, &mut |bytes| {
            self.transport.check()?;
            hasher.update(bytes);
            done += bytes.len() as u64;
            if reported.elapsed() >= EVERY {
                reported = Instant::now();
                self.sender.emit(progress::bar("Pushing", &id, done, tar_size));
            }
            gzip.write(bytes).map_err(cut)
        })?;
        if hasher.finish() != *diff_id {
            return Err(Error::corrupt(format!(
                "layer {diff_id} in the store is damaged: its content does not have this digest"
            )));
        }
        self.sender.emit(progress::bar("Pushing", &id, done, tar_size));
        let mut pieces = gzip.finish().map_err(cut)?;
        pieces.flush().map_err(cut)?;
        Ok((pieces.hasher.finish(), pieces.size))
    }

    /// Uploads a small document, unless it is there.
    fn document(&self, digest: &Digest, bytes: &[u8]) -> Result<Descriptor> {
        let text = digest.to_string();
        if self.repository.has_blob(&text)?.is_none() {
            self.repository.finish(self.begin()?, &text, bytes)?;
        }
        Ok(Descriptor { media_type: CONFIG.into(), size: bytes.len() as u64, digest: text })
    }
}

/// The error of a layer's stream that nobody reads any more.
fn cut(_: io::Error) -> Error {
    Error::internal("the upload ended").caused_by(Cause::HungUp)
}

/// Gathers compressed bytes into pieces, and their digest.
struct Pieces {
    out: Sender<Vec<u8>>,
    piece: Vec<u8>,
    hasher: Hasher,
    size: u64,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        self.out.send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The pieces as the body of a request.
struct Body {
    pieces: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for Body {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            match self.pieces.recv() {
                Ok(piece) => (self.piece, self.at) = (piece, 0),
                Err(_) => return Ok(0),
            }
        }
        let n = out.len().min(self.piece.len() - self.at);
        out[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
