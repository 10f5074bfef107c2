//! Images: load, save, import, list, inspect, tag, remove.

use super::Engine;
use super::metrics::Work;
use crate::build::{Context, Workshop};
use crate::error::Result;
use crate::event::written;
#[cfg(feature = "registry")]
use crate::image::UrlImport;
use crate::model::*;
use crate::op::Op;
use crate::parts::Part;
#[cfg(feature = "registry")]
use serde::Deserialize;
use std::io::{Read, Write};

/// Takes progress messages; an error ends the operation with that error.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let mut archive = std::fs::File::open("images.tar")?;
/// let images = engine.image_load(&mut archive, &mut |progress| {
///     print!("{}", progress.stream);
///     Ok(())
/// }, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> Result<()>;

impl Engine {
    /// Runs `work`; its events go to the journal when it is over, also those before an error.
    pub(super) fn with_events<T>(&self, work: impl FnOnce(&mut dyn FnMut(Event)) -> Result<T>) -> Result<T> {
        let mut events = Vec::new();
        let result = work(&mut |event| events.push(written(&event)));
        for event in events {
            self.0.journal.append_written(&event?)?;
        }
        result
    }
}

impl Engine {
    /// Lists images, newest first.
    pub fn image_list(&self, query: &ListImages) -> Result<Vec<ImageSummary>> {
        if !query.shared_size && !query.containers {
            return self.0.images.views.list(query);
        }
        let users = |image_id: &str| self.0.containers.register.of_image(image_id).map(|users| users.len());
        let mut images = self.0.images.views.list_with_usage(query, &users)?;
        for image in &mut images {
            image.shared_size = if query.shared_size { image.shared_size } else { -1 };
            image.containers = if query.containers { image.containers } else { -1 };
        }
        Ok(images)
    }
    /// Everything about one image.
    pub fn image_inspect(&self, name: &str) -> Result<ImageDetail> {
        self.0.images.views.inspect(name)
    }
    /// The image's steps, newest first.
    pub fn image_history(&self, name: &str) -> Result<Vec<HistoryItem>> {
        self.0.images.views.history(name)
    }
    /// Gives the image another name: `reference` is `repository[:tag]`.
    pub fn image_tag(&self, name: &str, reference: &str) -> Result<()> {
        self.with_events(|emit| self.0.images.catalog.tag(name, reference, emit))
    }
    /// Removes a name of the image and, if nothing else uses the image, deletes it.
    pub fn image_remove(&self, name: &str, how: RemoveImage) -> Result<Vec<RemovedImage>> {
        let usage = |image_id: &str| self.0.containers.register.of_image(image_id);
        self.with_events(|emit| self.0.images.remover.remove(name, how, &usage, emit))
    }
    /// Checks every layer, configuration and the database itself; repairs damage if `verify` requests it.
    ///
    /// A verification that finds damage succeeds, too; the report lists the damage. A verification takes as long as
    /// reading and unpacking all layers, and for a moment the disk space of the largest. A layer of a running container is not repaired.
    pub fn verify(&self, verify: &VerifyImages, progress: OnProgress<'_>, op: Option<&Op>) -> Result<VerifyReport> {
        let usage = |image_id: &str| self.0.containers.register.of_image(image_id);
        self.0.images.verifier.verify(&self.0.options.registry, verify, &usage, progress, op)
    }
    /// Loads every image of an archive (docker save, both layouts, or OCI layout; plain or compressed).
    pub fn image_load(&self, archive: &mut dyn Read, progress: OnProgress<'_>, op: Option<&Op>) -> Result<Vec<String>> {
        self.0
            .counters
            .count(Work::Load, None, || self.with_events(|emit| self.0.images.loader.load(archive, progress, emit, op)))
    }
    /// Writes the named images as a docker save archive.
    pub fn image_save(&self, names: &[String], archive: &mut dyn Write, op: Option<&Op>) -> Result<()> {
        self.with_events(|emit| self.0.images.saver.save(names, archive, emit, op))
    }
    /// Writes the named images as an OCI layout in a tar (`index.json`, `oci-layout`, `blobs/`), layers not compressed.
    pub fn image_save_oci(&self, names: &[String], archive: &mut dyn Write, op: Option<&Op>) -> Result<()> {
        self.with_events(|emit| self.0.images.oci_saver.save(names, archive, emit, op))
    }
    /// Makes an image of a root file system tar (plain or compressed); returns its id.
    pub fn image_import(
        &self,
        rootfs: &mut dyn Read,
        how: &ImportImage,
        progress: OnProgress<'_>,
        op: Option<&Op>,
    ) -> Result<String> {
        self.with_events(|emit| self.0.images.importer.import(rootfs, how, progress, emit, op))
    }
}

impl Engine {
    /// Builds an image of a build file, as docker's classic builder does; returns its id.
    ///
    /// Nothing is visible before the build's end; then everything is on disk. The next build can use the completed
    /// steps of a failed one. Steps run in containers of this engine. A cancelled build leaves no container.
    ///
    /// Errors: a mistake in the build file, before anything is run ([`crate::ErrorKind::Invalid`], with the line); a
    /// command that fails ([`crate::Error::exit_code`]); a source that is not in the context.
    pub fn image_build(
        &self,
        build: &BuildImage,
        context: Context<'_>,
        progress: OnProgress<'_>,
        op: Option<&Op>,
    ) -> Result<String> {
        Part::Build.need()?;
        let inner = &self.0;
        let (images, containers) = (&*inner.images, &*inner.containers);
        let shop = Workshop { images, containers, journal: &inner.journal, options: &inner.options };
        self.0.counters.count(Work::Build, None, || crate::build::build(shop, build, context, progress, op))
    }
}

#[cfg(feature = "registry")]
impl Engine {
    /// Pulls one image from its registry; returns the image's id. A name without a tag and a digest means the tag `latest`.
    ///
    /// Nothing is visible before the whole image is checked and on disk. Errors: not found or no access
    /// ([`crate::ErrorKind::NotFound`]), credentials missing ([`crate::ErrorKind::Unauthorized`]), content whose digest
    /// is wrong ([`crate::ErrorKind::Invalid`]).
    pub fn image_pull(&self, pull: &PullImage, progress: OnProgress<'_>, op: Option<&Op>) -> Result<String> {
        let pull = PullImage { tag: one_tag(&pull.name, &pull.tag), ..pull.clone() };
        let names = self.image_pull_tags(&pull, progress, op)?;
        self.image_inspect(names.first().unwrap_or(&pull.name)).map(|image| image.id)
    }
    /// Pulls an image as [`Engine::image_pull`] does, or every tag of a repository, if neither name nor request has a tag; returns
    /// the stored references.
    pub fn image_pull_tags(&self, pull: &PullImage, progress: OnProgress<'_>, op: Option<&Op>) -> Result<Vec<String>> {
        let options = &self.0.options.registry;
        self.0.counters.count(Work::Pull, Some(pull.name.as_str()), || {
            self.with_events(|emit| self.0.images.puller.pull(options, pull, progress, emit, op))
        })
    }
    /// Makes an image of a root file system tar (plain or compressed) from a server; returns its id.
    ///
    /// The server is used like the sources of builds: settings of registries do not apply. Errors: no answer, or a
    /// refusal ([`crate::ErrorKind::Internal`]).
    pub fn image_import_url(
        &self,
        url: &str,
        how: &ImportImage,
        progress: OnProgress<'_>,
        op: Option<&Op>,
    ) -> Result<String> {
        let options = &self.0.options.registry;
        self.with_events(|emit| self.0.images.url_importer.import(options, UrlImport { url, how }, progress, emit, op))
    }
    /// Pushes one image to the registry of its name; returns the digest of its manifest there. A name without a tag means the tag
    /// `latest`.
    ///
    /// Errors: no such image ([`crate::ErrorKind::NotFound`]), credentials missing ([`crate::ErrorKind::Unauthorized`]).
    pub fn image_push(&self, push: &PushImage, progress: OnProgress<'_>, op: Option<&Op>) -> Result<Pushed> {
        let push = PushImage { tag: one_tag(&push.name, &push.tag), ..push.clone() };
        let mut pushed = None;
        let mut watched = |message: Progress| {
            let told = message.aux.as_ref().and_then(|aux| Pushed::deserialize(aux).ok());
            pushed = told.or(pushed.take());
            progress(message)
        };
        self.image_push_tags(&push, &mut watched, op)?;
        pushed.ok_or_else(|| crate::Error::internal("push: the manifest has no digest"))
    }
    /// Pushes an image, or every local tag of a repository, if neither name nor request has a tag, to the registry of its name.
    pub fn image_push_tags(&self, push: &PushImage, progress: OnProgress<'_>, op: Option<&Op>) -> Result<()> {
        let options = &self.0.options.registry;
        self.0.counters.count(Work::Push, Some(push.name.as_str()), || {
            self.with_events(|emit| self.0.images.pusher.push(options, push, progress, emit, op))
        })
    }
    /// Searches the registry that the term names (or the default one) for images: by its search, or else in the names
    /// of its catalog.
    pub fn image_search(&self, search: &SearchImages, op: Option<&Op>) -> Result<Vec<SearchResult>> {
        crate::image::search(&self.0.options.registry, search, op)
    }
    /// Asks the registry of a name what the name is: the digest of its manifest or list, and its platforms. Nothing is
    /// pulled. Errors: as of a pull.
    pub fn distribution_inspect(&self, name: &str, auth: &RegistryAuth, op: Option<&Op>) -> Result<Distribution> {
        self.0.images.puller.distribution(&self.0.options.registry, name, auth, op)
    }
    /// Checks credentials against the registry that they are for; wrong ones are [`crate::ErrorKind::Unauthorized`].
    pub fn registry_auth(&self, auth: &RegistryAuth, op: Option<&Op>) -> Result<AuthStatus> {
        crate::image::login(&self.0.options.registry, auth, op)
    }
}

#[cfg(not(feature = "registry"))]
impl Engine {
    /// Not in this build: the library was made without its registry client.
    pub fn image_pull(&self, _: &PullImage, _: OnProgress<'_>, _: Option<&Op>) -> Result<String> {
        Err(no_client())
    }
    /// Not in this build: the library was made without its registry client.
    pub fn image_pull_tags(&self, _: &PullImage, _: OnProgress<'_>, _: Option<&Op>) -> Result<Vec<String>> {
        Err(no_client())
    }
    /// Not in this build: the library was made without its registry client.
    pub fn image_import_url(&self, _: &str, _: &ImportImage, _: OnProgress<'_>, _: Option<&Op>) -> Result<String> {
        Err(no_client())
    }
    /// Not in this build: the library was made without its registry client.
    pub fn image_push(&self, _: &PushImage, _: OnProgress<'_>, _: Option<&Op>) -> Result<Pushed> {
        Err(no_client())
    }
    /// Not in this build: the library was made without its registry client.
    pub fn image_push_tags(&self, _: &PushImage, _: OnProgress<'_>, _: Option<&Op>) -> Result<()> {
        Err(no_client())
    }
    /// Not in this build: the library was made without its registry client.
    pub fn image_search(&self, _: &SearchImages, _: Option<&Op>) -> Result<Vec<SearchResult>> {
        Err(no_client())
    }
    /// Not in this build: the library was made without its registry client.
    pub fn distribution_inspect(&self, _: &str, _: &RegistryAuth, _: Option<&Op>) -> Result<Distribution> {
        Err(no_client())
    }
    /// Not in this build: the library was made without its registry client.
    pub fn registry_auth(&self, _: &RegistryAuth, _: Option<&Op>) -> Result<AuthStatus> {
        Err(no_client())
    }
}

/// The tag of a request for one image.
#[cfg(feature = "registry")]
fn one_tag(name: &str, tag: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or_default();
    if tag.is_empty() && !last.contains([':', '@']) { "latest".into() } else { tag.into() }
}

#[cfg(not(feature = "registry"))]
pub(super) fn no_client() -> crate::Error {
    crate::Error::unsupported("this build of the library has no registry client (feature \"registry\")")
}
