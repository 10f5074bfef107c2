//! Pulling: manifest, configuration, layers that are missing, then all at once visible.

use super::blob::BlobReader;
use super::manifest::{ACCEPT, Descriptor, Document, Manifest, read};
use super::{Say, beside, in_parallel};
use crate::error::{Error, ErrorKind, Result};
use crate::image::config::{ImageConfig, MAX_CONFIG};
use crate::image::digest::Digest;
use crate::image::layer::{Stage, Staged, Workers};
use crate::image::layers::Staging;
use crate::image::reference::Reference;
use crate::image::{Emit, Images, NewImage, StagedLayers, Tell, progress};
use crate::model::{Event, PullImage, RegistryOptions};
use crate::op::Op;
use crate::registry::{Client, Repository, Transport};
use crate::store::blobs::{self, BlobRow};
use crate::store::{Flush, images as rows};
use std::collections::HashSet;
use std::io::Read;

/// Lists in lists.
const MAX_DEPTH: u32 = 3;

impl Images {
    /// Pulls an image, or every tag of a repository. Answers the references as they are stored.
    pub(crate) fn pull(
        &self,
        options: &RegistryOptions,
        request: &PullImage,
        tell: Tell<'_>,
        emit: Emit<'_>,
        op: Option<&Op>,
    ) -> Result<Vec<String>> {
        let reference = asked(request)?;
        let transport = Transport::new(options.clone());
        let mut events = Vec::new();
        let result = beside(&transport, tell, op, |say| {
            let client = Client::connect(&transport, reference.domain(), request.auth.clone())?;
            let repository = client.repository(reference.path(), false);
            let pull = Pull { images: self, transport: &transport, repository: &repository, say: &say };
            pull.all(&reference, &mut events).map_err(|error| explain(error, &reference))
        });
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
fn explain(error: Error, reference: &Reference) -> Error {
    let denied = matches!(error.kind(), ErrorKind::Unauthorized | ErrorKind::Forbidden)
        && !error.message().contains("no basic auth credentials");
    let unknown = error.message().contains("name unknown");
    if !denied && !unknown {
        return error;
    }
    Error::not_found(format!(
        "pull access denied for {}, repository does not exist or may require 'docker login': {}",
        reference.repository(),
        error.message()
    ))
}

struct Pull<'a> {
    images: &'a Images,
    transport: &'a Transport,
    repository: &'a Repository<'a>,
    say: &'a Say,
}

/// A layer to be fetched into its place.
struct Job {
    layer: Descriptor,
    digest: Digest,
    diff_id: Digest,
    name: String,
    stage: Stage,
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
        self.say.tell(progress::line(format!("Status: {what} {name}"), ""));
    }

    /// Pulls one tag or digest; answers whether it brought anything new.
    fn one(&self, reference: &Reference, events: &mut Vec<Event>) -> Result<bool> {
        let id = match (reference.digest(), reference.tag()) {
            (Some(_), _) => reference.to_string(),
            (None, tag) => tag.unwrap_or_default().to_owned(),
        };
        self.say.tell(progress::line(format!("Pulling from {}", self.repository.path), &id));
        let (digest, manifest) = self.manifest(reference)?;
        let (image, staged) = self.content(&manifest)?;
        let mut names = vec![reference.clone().with_digest(&digest.to_string())?];
        // By digest there is no tag to set.
        if reference.digest().is_none() {
            names.push(reference.clone());
        }
        let stored = reference.to_string();
        let id = image.id.to_string();
        let before = self.images.db.read(|tx| rows::named(tx, &stored))?;
        let labels = crate::image::labels(&image.config);
        let (staging, layers, _claims) = staged;
        let diff_ids = image.layers.clone();
        self.images.commit(&staging, &layers, &[NewImage { names, ..image }])?;
        self.note(&manifest, &diff_ids)?;
        self.say.tell(progress::line(format!("Digest: {digest}"), ""));
        events.push(Event::image("pull", &stored, &reference.repository(), &labels));
        Ok(before.as_deref() != Some(&id))
    }

    /// The manifest for this machine, and the digest of what the reference names: that one, or the list that it is in.
    fn manifest(&self, reference: &Reference) -> Result<(Digest, Manifest)> {
        let tag = reference.tag().unwrap_or("latest");
        let mut wanted = reference.digest().map(|d| Digest::parse(d, "digest")).transpose()?;
        let mut first = None;
        for _ in 0..MAX_DEPTH {
            let ask = wanted.map_or_else(|| tag.to_owned(), |digest| digest.to_string());
            let fetched = self.repository.manifest(&ask, ACCEPT).map_err(|error| match error.kind() {
                ErrorKind::NotFound if error.message().contains("manifest unknown") => {
                    error.context(format_args!("manifest for {reference} not found"))
                }
                _ => error,
            })?;
            let found = Digest::of(&fetched.bytes);
            let promised = fetched.digest.as_deref().and_then(|text| Digest::parse(text, "").ok());
            if let Some(expected) = wanted.or(promised)
                && expected != found
            {
                return Err(Error::invalid(format!("manifest verification failed for digest {expected}")));
            }
            let first = *first.get_or_insert(found);
            match read(&fetched.media_type, &fetched.bytes)? {
                Document::Image(manifest) => return Ok((first, manifest)),
                Document::Chosen(digest) => wanted = Some(digest),
            }
        }
        Err(Error::invalid(format!("{reference}: manifest lists are nested too deep")))
    }

    /// Fetches the configuration and the layers that the store lacks.
    fn content(&self, manifest: &Manifest) -> Result<(NewImage, Fetched<'_>)> {
        if manifest.config.size > MAX_CONFIG as u64 {
            return Err(Error::invalid(format!("an image configuration of {} bytes", manifest.config.size)));
        }
        let id = manifest.config.digest()?;
        let config = BlobReader::new(self.transport, self.repository, id, manifest.config.size, None).small()?;
        let (parsed, diff_ids) = ImageConfig::read(&config)?;
        if diff_ids.len() != manifest.layers.len() {
            return Err(Error::invalid("layers from manifest don't match image configuration"));
        }
        let mut short = Vec::new();
        for layer in &manifest.layers {
            short.push(layer.digest()?.short());
        }
        let has = |diff_id: &Digest| self.images.has_layer(diff_id);
        for (diff_id, id) in diff_ids.iter().zip(&short) {
            let status = if has(diff_id)? { "Already exists" } else { "Pulling fs layer" };
            self.say.tell(progress::step(status, id));
        }
        let claims = self.images.flights.claim(diff_ids.iter().copied(), has, || self.transport.check())?;
        let staging = self.images.layers.stage()?;
        let (mut jobs, mut seen) = (Vec::new(), HashSet::new());
        for ((layer, diff_id), id) in manifest.layers.iter().zip(&diff_ids).zip(&short) {
            if !claims.held.contains(diff_id) || !seen.insert(*diff_id) {
                continue;
            }
            if jobs.len() >= super::AT_ONCE {
                self.say.tell(progress::step("Waiting", id));
            }
            let (name, stage) = staging.layer()?;
            jobs.push(Job { layer: layer.clone(), digest: layer.digest()?, diff_id: *diff_id, name, stage });
        }
        let done = in_parallel(self.transport, jobs, |job| self.layer(job))?;
        let created = parsed.created_ns();
        let image = NewImage { id, config, created, layers: diff_ids, parent: None, names: Vec::new() };
        Ok((image, (staging, StagedLayers::from_iter(done), claims)))
    }

    /// Downloads, checks and unpacks one layer, all at once.
    fn layer(&self, job: Job) -> Result<(Digest, (String, Staged))> {
        let id = job.digest.short();
        let tell = Some((self.say, id.clone()));
        let mut blob = BlobReader::new(self.transport, self.repository, job.digest, job.layer.size, tell);
        let mut head = Vec::with_capacity(512);
        let staged = std::thread::scope(|scope| {
            if let Err(error) = blob.by_ref().take(512).read_to_end(&mut head) {
                return Err(blob.drain().err().unwrap_or_else(|| Error::from(error)));
            }
            let (mut feeder, workers) = Workers::start(scope, job.stage, &head)?;
            let fed = feeder.feed(&mut (&head[..]).chain(&mut blob), None);
            // A digest that is wrong is the reason for whatever the unpacking says.
            if !matches!(fed, Ok(true)) {
                blob.drain()?;
            }
            fed?;
            let raw = feeder.end();
            workers.join(raw).map_err(|error| error.context(job.digest))
        })?;
        for status in ["Verifying Checksum", "Download complete"] {
            self.say.tell(progress::step(status, &id));
        }
        if staged.diff_id != job.diff_id {
            return Err(Error::invalid(format!(
                "layers from manifest don't match image configuration: {} unpacks to {}, not {}",
                job.digest, staged.diff_id, job.diff_id
            )));
        }
        self.say.tell(progress::bar("Extracting", &id, job.layer.size, job.layer.size));
        self.say.tell(progress::step("Pull complete", &id));
        Ok((job.diff_id, (job.name, staged)))
    }

    /// Remembers which blobs the repository has, for a push. What we did not see is taken for what it says it is.
    fn note(&self, manifest: &Manifest, diff_ids: &[Digest]) -> Result<()> {
        let (domain, repository) = (self.repository.domain(), &self.repository.path);
        self.images.db.write(Flush::Lazy, |tx| {
            for (layer, diff_id) in manifest.layers.iter().zip(diff_ids) {
                if !layer.media_type.ends_with("gzip") {
                    continue;
                }
                let blob = BlobRow { repository: repository.clone(), digest: layer.digest.clone(), size: layer.size };
                blobs::put(tx, &diff_id.to_string(), domain, &blob)?;
            }
            Ok(())
        })
    }
}

/// What holds the fetched layers until they are visible.
type Fetched<'a> = (Staging<'a>, StagedLayers, super::flights::Claims<'a>);
