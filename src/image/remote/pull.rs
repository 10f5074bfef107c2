//! Pulling: manifest, configuration, layers that are missing, then all at once visible.

use super::blob::BlobReader;
use super::manifest::{ACCEPT, Document, Manifest, Wanted, read_as};
use super::partial_download::{Awaited, Part};
use super::schema1::Old;
use super::singleflight::{Claims, Flights};
use super::{ProgressSender, beside, in_parallel};
use crate::error::{Cause, Error, ErrorKind, Result};
use crate::image::catalog::Catalog;
use crate::image::config::{ImageConfig, ImageConfigView};
use crate::image::digest::Digest;
use crate::image::layer::{Staged, Workers};
use crate::image::layer_store::{LayerStore, Staging};
use crate::image::publish::{NewImage, Publisher, StagedLayers};
use crate::image::reference::Reference;
use crate::image::{Emit, OnProgress, progress};
use crate::model::{Event, PullImage, RegistryOptions};
use crate::notes::{LogLevel, note};
use crate::op::Op;
use crate::registry::{Client, Repository, Transport};
use crate::store::blobs::{self, BlobRow};
use crate::store::{Db, Flush, images as rows};
use crate::walls::Wall;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

/// Lists in lists.
const MAX_DEPTH: u32 = 3;

/// Pulls images.
pub(crate) struct Puller {
    pub(in crate::image) db: Arc<Db>,
    pub(in crate::image) layers: Arc<LayerStore>,
    pub(in crate::image) catalog: Arc<Catalog>,
    pub(in crate::image) publisher: Arc<Publisher>,
    /// The layers that pulls of this program are fetching.
    pub(in crate::image) flights: Flights,
}

impl Puller {
    /// Pulls an image, or every tag of a repository. Answers the references as they are stored.
    pub(crate) fn pull(
        &self,
        options: &RegistryOptions,
        request: &PullImage,
        on_progress: OnProgress<'_>,
        emit: Emit<'_>,
        op: Option<&Op>,
    ) -> Result<Vec<String>> {
        let reference = asked(request)?;
        let transport = Transport::new(options.clone());
        let mut events = Vec::new();
        let result = beside(&transport, on_progress, op, |sender| {
            let attempt = |client: Client<'_>, events: &mut Vec<Event>| {
                let repository = client.repository(reference.path(), false);
                let pull = Pull {
                    puller: self,
                    transport: &transport,
                    repository: &repository,
                    sender: &sender,
                    parts_limit: options.parts_limit,
                    wanted: Wanted::Image(request.platform.as_ref()),
                };
                pull.all(&reference, events)
            };
            for mirror in transport.mirrors(reference.domain()) {
                let client = Client::of_mirror(&transport, reference.domain(), &mirror.url);
                match client.and_then(|client| attempt(client, &mut events)) {
                    Err(error) if error.kind() != ErrorKind::Cancelled => {
                        note(LogLevel::Info, "image", None, || format!("pull from mirror {}: {error}", mirror.url));
                        transport.revive()?;
                    }
                    other => return other,
                }
            }
            let client = Client::connect(&transport, reference.domain(), request.auth.clone())?;
            attempt(client, &mut events).map_err(|error| explain(error, &reference))
        });
        if result.is_err() {
            self.layers.sweep_parts_now(options.parts_limit)?;
        }
        events.into_iter().for_each(emit);
        result
    }
}

/// The reference that a request means; neither tag nor digest: all tags.
fn asked(request: &PullImage) -> Result<Reference> {
    let reference = Reference::parse(&request.name)?;
    match request.tag.as_str() {
        "" => Ok(reference),
        digest if digest.contains(':') => reference.with_digest(digest),
        tag => reference.with_tag(tag),
    }
}

/// docker's words for what a registry does not let one see.
pub(super) fn explain(error: Error, reference: &Reference) -> Error {
    let denied = matches!(error.kind(), ErrorKind::Unauthorized | ErrorKind::Forbidden)
        && error.cause() != Some(Cause::NoCredentials);
    let unknown = error.cause() == Some(Cause::NameUnknown);
    if !denied && !unknown {
        return error;
    }
    Error::not_found(format!(
        "pull access denied for {}, repository does not exist or may require 'docker login': {}",
        reference.repository(),
        error.message()
    ))
}

/// A pull under way.
pub(super) struct Pull<'a> {
    pub(super) puller: &'a Puller,
    pub(super) transport: &'a Transport,
    pub(super) repository: &'a Repository<'a>,
    pub(super) sender: &'a ProgressSender,
    pub(super) parts_limit: u64,
    pub(super) wanted: Wanted<'a>,
}

/// A layer as its manifest names it.
pub(super) struct Layer {
    /// Of the blob.
    pub(super) digest: Digest,
    pub(super) size: u64,
    /// Of what it unpacks to; the oldest form does not say.
    pub(super) diff_id: Option<Digest>,
}

impl Layer {
    /// The key on which two pulls that need the same layer agree.
    fn key(&self) -> Digest {
        self.diff_id.unwrap_or(self.digest)
    }
}

/// An image as its manifest describes it.
pub(super) enum Described {
    Image(Manifest),
    Old(Old),
}

impl Pull<'_> {
    fn all(&self, reference: &Reference, events: &mut Vec<Event>) -> Result<Vec<String>> {
        if reference.tag().is_some() || reference.digest().is_some() {
            let newer = self.one(reference, events)?;
            self.status(&reference.to_string(), newer);
            return Ok(vec![reference.to_string()]);
        }
        let (mut names, mut newer) = (Vec::new(), false);
        for tag in self.repository.tags()? {
            let tagged = reference.clone().with_tag(&tag)?;
            newer |= self.one(&tagged, events)?;
            names.push(tagged.to_string());
        }
        if names.is_empty() {
            return Err(Error::not_found(format!("{}: the repository has no tags", reference.repository())));
        }
        self.status(&reference.repository(), newer);
        Ok(names)
    }

    fn status(&self, name: &str, newer: bool) {
        let what = if newer { "Downloaded newer image for" } else { "Image is up to date for" };
        self.sender.emit(progress::line(format!("Status: {what} {name}"), ""));
    }

    /// Pulls one tag or digest; answers whether it brought anything new.
    fn one(&self, reference: &Reference, events: &mut Vec<Event>) -> Result<bool> {
        let id = match (reference.digest(), reference.tag()) {
            (Some(_), _) => reference.to_string(),
            (None, tag) => tag.unwrap_or_default().to_owned(),
        };
        self.sender.emit(progress::line(format!("Pulling from {}", self.repository.path), &id));
        let (digest, described) = self.manifest(reference)?;
        let (image, mut fetched) = match &described {
            Described::Image(manifest) => self.content(manifest)?,
            Described::Old(old) => self.old_content(old)?,
        };
        let mut names = vec![reference.clone().with_digest(&digest.to_string())?];
        // By digest there is no tag to set.
        if reference.digest().is_none() {
            names.push(reference.clone());
        }
        let stored = reference.to_string();
        let id = image.id.to_string();
        let before = self.puller.db.read(|tx| rows::named(tx, &stored))?;
        let labels = crate::image::labels(&image.config);
        let other_platform = self.other_platform(reference, &image)?;
        let diff_ids = image.layers.clone();
        // Before the flush: content that nobody needs any more need not go to the disk. The parts stay locked until the
        // layers are there for everybody: a pull that waits for one would download it again.
        fetched.parts.iter_mut().for_each(Part::reset);
        self.puller.publisher.publish(&fetched.staging, &fetched.layers, &[NewImage { names, ..image }])?;
        if let Described::Image(manifest) = &described {
            self.note(manifest, &diff_ids, &fetched.unpacked)?;
        }
        self.sender.emit(progress::line(format!("Digest: {digest}"), ""));
        if let Some(warning) = other_platform {
            self.sender.emit(progress::line(format!("WARNING: {warning}"), ""));
        }
        events.push(Event::image("pull", &stored, &reference.repository(), &labels));
        Ok(before.as_deref() != Some(&id))
    }

    /// Why the image is not one of the wanted platform: a registry that has no list of the name has one image of it, and
    /// clients take that.
    fn other_platform(&self, reference: &Reference, image: &NewImage) -> Result<Option<String>> {
        let Wanted::Image(Some(wanted)) = self.wanted else { return Ok(None) };
        let found = ImageConfigView::from(ImageConfig::parse(&image.config)?).platform();
        Ok(wanted.check(&reference.to_string(), &found).err().map(|error| error.message().to_owned()))
    }

    /// The manifest for the wanted platform, and the digest of the document that the reference names: this manifest, or the
    /// list that it is in.
    pub(super) fn manifest(&self, reference: &Reference) -> Result<(Digest, Described)> {
        let tag = reference.tag().unwrap_or("latest");
        let mut wanted = reference.digest().map(|d| Digest::parse(d, "digest")).transpose()?;
        let mut first = None;
        for _ in 0..MAX_DEPTH {
            let ask = wanted.map_or_else(|| tag.to_owned(), |digest| digest.to_string());
            let fetched = self.repository.manifest(&ask, ACCEPT).map_err(|error| match error.cause() {
                Some(Cause::ManifestUnknown) if error.kind() == ErrorKind::NotFound => {
                    error.context(format_args!("manifest for {reference} not found"))
                }
                _ => error,
            })?;
            let document = read_as(&fetched.media_type, &fetched.bytes, self.wanted)?;
            let old = match &document {
                Document::Old => Some(Old::read(&fetched.bytes)?),
                _ => None,
            };
            // In the oldest form the digest does not cover the signatures.
            let found = old.as_ref().map_or_else(|| Digest::of(&fetched.bytes), |old| old.digest);
            let promised = fetched.digest.as_deref().and_then(|text| Digest::parse(text, "").ok());
            if let Some(expected) = wanted.or(promised)
                && expected != found
                && Wall::DigestPinned.stands()
            {
                return Err(Error::invalid(format!("manifest verification failed for digest {expected}")));
            }
            let first = *first.get_or_insert(found);
            match (document, old) {
                (Document::Image(manifest), _) => return Ok((first, Described::Image(manifest))),
                (Document::Chosen(digest), _) => wanted = Some(digest),
                (Document::Old, old) => {
                    let old = old.ok_or_else(|| Error::internal("pull: a manifest was lost"))?;
                    return Ok((first, Described::Old(old)));
                }
            }
        }
        Err(Error::invalid(format!("{reference}: manifest lists are nested too deep")))
    }

    /// The configuration that a manifest names.
    pub(super) fn config(&self, manifest: &Manifest) -> Result<Vec<u8>> {
        let size = manifest.config.size;
        if size > self.puller.layers.room.document() as u64 {
            return Err(Error::invalid(format!("an image configuration of {size} bytes")));
        }
        BlobReader::new(self.transport, self.repository, manifest.config.digest()?, size, None, None).small()
    }

    /// Fetches the configuration and the layers that the store lacks.
    pub(super) fn content(&self, manifest: &Manifest) -> Result<(NewImage, Fetched<'_>)> {
        let (id, config) = (manifest.config.digest()?, self.config(manifest)?);
        let (parsed, diff_ids) = ImageConfig::read(&config, self.puller.layers.room.values)?;
        if diff_ids.len() != manifest.layers.len() {
            return Err(Error::invalid("layers from manifest don't match image configuration"));
        }
        let mut layers = Vec::new();
        for (layer, diff_id) in manifest.layers.iter().zip(&diff_ids) {
            layers.push(Layer { digest: layer.digest()?, size: layer.size, diff_id: Some(*diff_id) });
        }
        let fetched = self.fetch(&layers)?;
        let created = parsed.created_ns();
        Ok((
            NewImage {
                id,
                config,
                created,
                layers: diff_ids,
                parent: None,
                names: Vec::new(),
                made_here: false,
                plugin: None,
            },
            fetched,
        ))
    }

    /// Fetches an image in the oldest form, whose configuration is known only when its layers are here.
    fn old_content(&self, old: &Old) -> Result<(NewImage, Fetched<'_>)> {
        let mut layers = Vec::new();
        for digest in old.layers() {
            let size = self.repository.has_blob(&digest.to_string())?.flatten();
            let size =
                size.ok_or_else(|| Error::not_found(format!("layer {digest}: the registry has no such blob")))?;
            layers.push(Layer { digest, size, diff_id: None });
        }
        let fetched = self.fetch(&layers)?;
        let missing = || Error::internal("pull: a layer was lost");
        let diff_ids = layers.iter().map(|layer| fetched.unpacked.get(&layer.digest).copied().ok_or_else(missing));
        let diff_ids = diff_ids.collect::<Result<Vec<Digest>>>()?;
        let config = old.config(&diff_ids)?;
        let (parsed, diff_ids) = ImageConfig::read(&config, self.puller.layers.room.values)?;
        let (id, created) = (Digest::of(&config), parsed.created_ns());
        Ok((
            NewImage {
                id,
                config,
                created,
                layers: diff_ids,
                parent: None,
                names: Vec::new(),
                made_here: false,
                plugin: None,
            },
            fetched,
        ))
    }

    /// Fetches the layers that the store lacks.
    fn fetch(&self, layers: &[Layer]) -> Result<Fetched<'_>> {
        let has = |layer: &Layer| layer.diff_id.map_or(Ok(false), |diff_id| self.puller.catalog.has_layer(&diff_id));
        for layer in layers {
            let status = if has(layer)? { "Already exists" } else { "Pulling fs layer" };
            self.sender.emit(progress::step(status, &layer.digest.short()));
        }
        let claims = self.puller.flights.claim(
            layers.iter().map(Layer::key),
            |key| layers.iter().find(|layer| layer.key() == *key).map_or(Ok(true), has),
            |key| {
                let digest = layers.iter().find(|layer| layer.key() == *key).map_or(*key, |layer| layer.digest);
                let mut awaited = Awaited::of(&self.puller.layers, digest);
                move || self.transport.check().and_then(|()| awaited.check(Instant::now()))
            },
        )?;
        let mut seen = HashSet::new();
        let mut wanted: Vec<&Layer> = layers.iter().filter(|layer| claims.held.contains(&layer.key())).collect();
        wanted.retain(|layer| seen.insert(layer.key()));
        let parts = self.parts(&wanted, has)?;
        let staging = self.puller.layers.stage()?;
        let mut jobs = Vec::new();
        for layer in wanted {
            let Some((_, part)) = parts.iter().find(|(digest, _)| *digest == layer.digest) else { continue };
            if jobs.len() >= self.puller.layers.room.at_once {
                self.sender.emit(progress::step("Waiting", &layer.digest.short()));
            }
            jobs.push((layer, part));
        }
        let done = in_parallel(self.transport, self.puller.layers.room.at_once, jobs, |(layer, part)| {
            self.layer(&staging, layer, &mut part.lock())
        })?;
        let mut unpacked = HashMap::new();
        let mut staged = StagedLayers::new();
        for (digest, name, layer) in done {
            unpacked.insert(digest, layer.diff_id);
            staged.insert(layer.diff_id, (name, layer));
        }
        let parts = parts.into_iter().map(|(_, part)| part.into_inner()).collect();
        Ok(Fetched { staging, layers: staged, unpacked, parts, _claims: claims })
    }

    /// The rights to download blobs, each once, waiting where other programs download them. Layers that they
    /// bring meanwhile are left out.
    fn parts(&self, wanted: &[&Layer], has: impl Fn(&Layer) -> Result<bool>) -> Result<Vec<(Digest, Mutex<Part<'_>>)>> {
        // Everyone takes them in the same order, so that no two wait for each other.
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable_by_key(|layer| layer.digest);
        wanted.dedup_by_key(|layer| layer.digest);
        let mut parts = Vec::new();
        for layer in wanted {
            let part = self.puller.layers.part(self.transport, &layer.digest, layer.size, self.parts_limit)?;
            // The program that held the lock before may have brought the layer.
            if !has(layer)? {
                parts.push((layer.digest, part.into()));
            }
        }
        Ok(parts)
    }

    /// Downloads, checks and unpacks one layer, all at once; again where what was here of it was damaged.
    pub(super) fn layer(
        &self,
        staging: &Staging<'_>,
        layer: &Layer,
        part: &mut Part<'_>,
    ) -> Result<(Digest, String, Staged)> {
        let resumed = part.have() > 0;
        match self.layer_once(staging, layer, part) {
            // The part was forgotten when it turned out to be wrong.
            Err(error) if resumed && part.have() == 0 && error.kind() != ErrorKind::Cancelled => {
                self.layer_once(staging, layer, part)
            }
            other => other,
        }
    }

    fn layer_once(
        &self,
        staging: &Staging<'_>,
        layer: &Layer,
        part: &mut Part<'_>,
    ) -> Result<(Digest, String, Staged)> {
        let id = layer.digest.short();
        let (name, stage) = staging.layer()?;
        let sender = Some((self.sender, id.clone()));
        let mut blob = BlobReader::new(self.transport, self.repository, layer.digest, layer.size, sender, Some(part));
        let mut head = Vec::with_capacity(512);
        let staged = std::thread::scope(|scope| {
            if let Err(error) = blob.by_ref().take(512).read_to_end(&mut head) {
                return Err(blob.drain().err().unwrap_or_else(|| Error::from(error)));
            }
            let (mut feeder, workers) = Workers::start(scope, stage, &head)?;
            let fed = feeder.feed(&mut (&head[..]).chain(&mut blob), None);
            // A digest that is wrong is the reason for whatever the unpacking says.
            if !matches!(fed, Ok(true)) {
                blob.drain()?;
            }
            fed?;
            let raw = feeder.end();
            workers.join(raw).map_err(|error| error.context(layer.digest))
        })?;
        for status in ["Verifying Checksum", "Download complete"] {
            self.sender.emit(progress::step(status, &id));
        }
        if layer.diff_id.is_some_and(|diff_id| staged.diff_id != diff_id) {
            return Err(Error::invalid(format!(
                "layers from manifest don't match image configuration: {} unpacks to {}, not {}",
                layer.digest,
                staged.diff_id,
                layer.key()
            )));
        }
        self.sender.emit(progress::bar("Extracting", &id, layer.size, layer.size));
        self.sender.emit(progress::step("Pull complete", &id));
        Ok((layer.digest, name, staged))
    }

    /// Remembers which blobs the repository has, for a push: those that were unpacked here, now (`unpacked`, diff ids
    /// by blobs) or once. Of a layer that the store had already, the manifest alone says so, and may lie.
    fn note(&self, manifest: &Manifest, diff_ids: &[Digest], unpacked: &HashMap<Digest, Digest>) -> Result<()> {
        let (domain, repository) = (self.repository.domain(), &self.repository.path);
        self.puller.db.write(Flush::Lazy, |tx| {
            for (layer, diff_id) in manifest.layers.iter().zip(diff_ids) {
                if !layer.media_type.ends_with("gzip") {
                    continue;
                }
                let (size, known) = (layer.size, diff_id.to_string());
                let seen = unpacked.get(&layer.digest()?) == Some(diff_id);
                if seen || blobs::is_known(tx, &known, &layer.digest)? {
                    let blob = BlobRow { repository: repository.clone(), digest: layer.digest.clone(), size };
                    blobs::put(tx, &known, domain, &blob)?;
                }
            }
            Ok(())
        })
    }
}

/// Holds the fetched layers until they are visible.
pub(super) struct Fetched<'a> {
    pub(super) staging: Staging<'a>,
    pub(super) layers: StagedLayers,
    /// The diff ids of the fetched blobs.
    unpacked: HashMap<Digest, Digest>,
    pub(super) parts: Vec<Part<'a>>,
    _claims: Claims<'a>,
}
