//! The images that a build makes: they stand on each other, and this build alone sees them until all of them become visible at
//! once, with one flush.

use super::archive::stage_written;
use super::config::{History, ImageConfig, MAX_CONFIG};
use super::digest::Digest;
use super::document::{self, Document, Next, created_by};
use super::layer::{Stage, describe, recipe};
use super::layers::Staging;
use super::reference::Reference;
use super::{Images, NewImage, Pending, StagedLayers, no_such, stored_digest};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::tree;
use crate::model::{ContainerConfig, Event};
use crate::op::Op;
use crate::store::Flush;
use crate::store::images as rows;
use crate::time::now_ns;
use crate::walls::Wall;
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// One build's images. Dropping it forgets them.
pub(crate) struct Building<'a> {
    images: &'a Images,
    staging: Staging<'a>,
    staged: StagedLayers,
    made: Vec<NewImage>,
    /// Bytes of their configurations.
    documents: usize,
    /// Images whose parent is found out to be another.
    adopted: Vec<(String, String)>,
    /// The cache is only taken from `sources`; else from everything that is here.
    restricted: bool,
    sources: Vec<Sourced>,
    /// Images of the store that stay as long as the build does.
    held: HashSet<String>,
}

/// An image to take steps from.
struct Sourced {
    id: String,
    config: ImageConfig,
    layers: Vec<Digest>,
}

/// The change from a step's parent to its image.
pub(crate) struct Step<'a> {
    /// The image below; absent: none.
    pub(crate) parent: Option<&'a str>,
    /// The configuration of containers of the new image.
    pub(crate) config: &'a ContainerConfig,
    /// The configuration that was run: the history shows its command, and the cache compares it.
    pub(crate) container_config: &'a ContainerConfig,
    /// The container's id; may be empty.
    pub(crate) container: &'a str,
    pub(crate) author: &'a str,
}

/// The facts of an image that follow from its step and from what the step stands on.
struct Made {
    architecture: Option<String>,
    /// Nanoseconds since 1970.
    created: i64,
    history: Vec<History>,
    layers: Vec<Digest>,
    /// The build made it; else it is another's, which it found.
    here: bool,
}

impl Images {
    /// Begins a build. `sources`: images (by name) that its cache is restricted to; what is not here is passed over.
    pub(crate) fn building(&self, sources: &[String]) -> Result<Building<'_>> {
        let mut building = Building {
            images: self,
            staging: self.layers.stage()?,
            staged: StagedLayers::new(),
            made: Vec::new(),
            documents: 0,
            adopted: Vec::new(),
            restricted: !sources.is_empty(),
            sources: Vec::new(),
            held: HashSet::new(),
        };
        for name in sources {
            let id = match self.resolve(name) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                other => other?,
            };
            let (config, layers) = building.read(&id)?;
            building.sources.push(Sourced { id, config, layers });
        }
        Ok(building)
    }
}

impl Building<'_> {
    /// The build's own directory, and its name: it is there as long as the build lives.
    pub(crate) fn place(&self) -> (PathBuf, &str) {
        (self.staging.path(), self.staging.name())
    }

    /// Keeps an image, and so its layers, until the build is over. Errors: it is gone.
    pub(crate) fn hold(&mut self, id: &str) -> Result<()> {
        if self.held.contains(id) || self.is_own(id) {
            return Ok(());
        }
        let builder = self.staging.name();
        self.images.db.write(Flush::Lazy, |tx| match rows::any(tx, id)? {
            Some(_) => rows::lease(tx, builder, id),
            None => Err(no_such(id)),
        })?;
        self.held.insert(id.to_owned());
        Ok(())
    }

    fn is_own(&self, id: &str) -> bool {
        self.made.iter().any(|made| made.id.to_string() == id)
    }

    /// A new directory of the build's.
    pub(crate) fn directory(&self) -> Result<(String, Stage)> {
        self.staging.layer()
    }

    /// Removes one.
    pub(crate) fn discard(&self, name: &str) -> Result<()> {
        self.staging.discard(name)
    }

    /// The directory `name`, in which a writable directory of overlayfs lies as `diff`, becomes a layer. `None`: nothing
    /// was written.
    pub(crate) fn layer(&mut self, name: &str, op: Option<&Op>) -> Result<Option<Digest>> {
        let dir = tree::open_dir(&self.staging.path().join(name))?;
        let Some(staged) = describe(&dir, op)? else {
            self.staging.discard(name)?;
            return Ok(None);
        };
        match self.staged.entry(staged.diff_id) {
            Entry::Occupied(_) => self.staging.discard(name)?,
            Entry::Vacant(place) => drop(place.insert((name.to_owned(), staged))),
        }
        Ok(Some(staged.diff_id))
    }

    /// Makes a layer of a directory that lies elsewhere on this file system, and is moved.
    pub(crate) fn layer_of(&mut self, dir: impl AsFd, name: &str, op: Option<&Op>) -> Result<Option<Digest>> {
        let (own, stage) = self.staging.layer()?;
        tree::rename_at(dir.as_fd(), name, stage.dir.as_fd(), recipe::DIFF)?;
        self.layer(&own, op)
    }

    /// Makes a layer of a tar, which `write` writes.
    pub(crate) fn layer_of_tar(
        &mut self,
        write: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
    ) -> Result<Option<Digest>> {
        let (name, staged) = stage_written(&self.staging, write)?;
        if staged.is_empty() {
            self.staging.discard(&name)?;
            return Ok(None);
        }
        match self.staged.entry(staged.diff_id) {
            Entry::Occupied(_) => self.staging.discard(&name)?,
            Entry::Vacant(place) => drop(place.insert((name, staged))),
        }
        Ok(Some(staged.diff_id))
    }

    /// Makes an image; answers its id.
    pub(crate) fn image(&mut self, step: &Step<'_>, layer: Option<Digest>) -> Result<String> {
        let (below, mut layers) = self.below(step.parent)?;
        layers.extend(layer);
        let created = now_ns();
        let (author, container_config, has_layer) = (step.author, step.container_config, layer.is_some());
        let next = Next { author, comment: "", container_config, created, has_layer };
        let history = document::history(&below, &next);
        let architecture = below.architecture;
        self.add(step, Made { architecture, created, history, layers, here: true })
    }

    fn add(&mut self, step: &Step<'_>, made: Made) -> Result<String> {
        let Made { architecture, created, history, layers, here } = made;
        let document = Document {
            architecture,
            author: step.author,
            comment: "",
            config: step.config,
            container: step.container,
            container_config: step.container_config,
            created,
            history,
            layers: &layers,
        };
        let (id, config) = document.write()?;
        self.count(config.len())?;
        let place = self.staging.path();
        let path = |digest: &Digest| match self.staged.get(digest) {
            Some((name, _)) => place.join(name).join(recipe::DIFF),
            None => self.images.layers.diff_path(digest),
        };
        let pending = Pending { config: config.clone(), layers: layers.iter().map(path).collect() };
        self.images.pending.lock().insert(id.to_string(), pending);
        let parent = step.parent.map(stored_digest).transpose()?;
        self.made.push(NewImage { id, config, created, layers, parent, names: Vec::new(), made_here: here });
        Ok(id.to_string())
    }

    /// Counts a configuration that is kept until the build is over. Each tells of all steps before.
    fn count(&mut self, bytes: usize) -> Result<()> {
        self.documents += bytes;
        let most = self.images.layers.room.documents;
        match (bytes > MAX_CONFIG || self.documents > most) && Wall::BuildWords.stands() {
            true => Err(Error::invalid(format!(
                "the configurations of this build's images take more than {most} bytes, or that of one more than {MAX_CONFIG}"
            ))),
            false => Ok(()),
        }
    }

    /// An image that is this step on this parent, where there is one: of this build, or of an earlier one.
    ///
    /// `config`: what containers of it are made from, for an image that tells only of its last step's.
    pub(crate) fn cached(
        &mut self,
        parent: Option<&str>,
        wanted: &ContainerConfig,
        config: &ContainerConfig,
    ) -> Result<Option<String>> {
        let local = self.local(parent, wanted)?;
        if !self.restricted {
            return Ok(local);
        }
        if let Some(id) = local
            && self.leads_to_source(&id)?
        {
            return Ok(Some(id));
        }
        self.restored(parent, wanted, config)
    }

    fn local(&self, parent: Option<&str>, wanted: &ContainerConfig) -> Result<Option<String>> {
        // A configuration that cannot be read is no match.
        let looks_it = |config: &[u8]| {
            ImageConfig::parse(config)
                .ok()
                .filter(|have| have.container_config.as_ref().is_some_and(|have| is_same(have, wanted)))
        };
        for image in self.made.iter().rev() {
            if image.parent.map(|id| id.to_string()).as_deref() == parent
                && let Some(config) = looks_it(&image.config)
                && self.is_next(parent, &config, &image.layers)?
            {
                return Ok(Some(image.id.to_string()));
            }
        }
        for row in self.images.db.read(|tx| rows::children(tx, parent))? {
            let Some(config) = looks_it(&row.config) else { continue };
            let layers = self.images.db.read(|tx| rows::layers(tx, &row.id))?;
            let layers = layers.iter().map(|id| stored_digest(id)).collect::<Result<Vec<_>>>()?;
            if self.is_next(parent, &config, &layers)? {
                return Ok(Some(row.id));
            }
        }
        Ok(None)
    }

    /// Whether an image is one step on `parent`. One that came from elsewhere has no parent here, and is any number of
    /// steps on nothing.
    fn is_next(&self, parent: Option<&str>, config: &ImageConfig, layers: &[Digest]) -> Result<bool> {
        let (below, below_layers) = self.below(parent)?;
        Ok(config.steps().count() == below.steps().count() + 1
            && layers.starts_with(&below_layers)
            && layers.len() <= below_layers.len() + 1)
    }

    /// Whether an image is a source, or one is made of it.
    fn leads_to_source(&self, id: &str) -> Result<bool> {
        self.images.db.read(|tx| {
            for source in &self.sources {
                let mut at = Some(source.id.clone());
                while let Some(image) = at {
                    if image == id {
                        return Ok(true);
                    }
                    at = rows::get(tx, &image)?.and_then(|row| row.parent);
                }
            }
            Ok(false)
        })
    }

    /// The step as an image from elsewhere has it: its last step is that image, any other is made again from what it
    /// says and holds.
    fn restored(
        &mut self,
        parent: Option<&str>,
        wanted: &ContainerConfig,
        config: &ContainerConfig,
    ) -> Result<Option<String>> {
        let (below, below_layers) = self.below(parent)?;
        let before: Vec<History> = below.steps().cloned().collect();
        let text = created_by(wanted);
        for index in 0..self.sources.len() {
            let source = &self.sources[index];
            let steps: Vec<History> = source.config.steps().cloned().collect();
            let same = |a: &History, b: &History| {
                (&a.created, &a.created_by, a.empty_layer) == (&b.created, &b.created_by, b.empty_layer)
            };
            let fits = steps.len() > before.len()
                && steps.iter().zip(&before).all(|(a, b)| same(a, b))
                && source.layers.starts_with(&below_layers)
                && steps[before.len()].created_by.as_deref() == Some(&text);
            if !fits {
                continue;
            }
            let id = source.id.clone();
            if steps.len() == before.len() + 1 {
                if let Some(parent) = parent {
                    self.adopted.push((id.clone(), parent.to_owned()));
                }
                return Ok(Some(id));
            }
            let step = &steps[before.len()];
            let mut layers = below_layers.clone();
            if step.empty_layer != Some(true) {
                let Some(layer) = source.layers.get(layers.len()) else { continue };
                layers.push(*layer);
            }
            let created = step.created.as_deref().and_then(|text| crate::time::parse_rfc3339(text.as_bytes()));
            let author = step.author.clone().unwrap_or_default();
            let history = steps[..=before.len()].to_vec();
            let architecture = source.config.architecture.clone();
            self.sources.swap(0, index);
            self.sources.truncate(1);
            self.hold(&id)?;
            let step = Step { parent, config, container_config: wanted, container: "", author: &author };
            // Another's content: later builds that do not name its image do not take it.
            let made = Made { architecture, created: created.unwrap_or_default(), history, layers, here: false };
            return self.add(&step, made).map(Some);
        }
        Ok(None)
    }

    /// The configuration and the layers that a step stands on.
    fn below(&self, parent: Option<&str>) -> Result<(ImageConfig, Vec<Digest>)> {
        parent.map_or_else(|| Ok(Default::default()), |parent| self.read(parent))
    }

    fn read(&self, id: &str) -> Result<(ImageConfig, Vec<Digest>)> {
        if let Some(image) = self.made.iter().find(|image| image.id.to_string() == id) {
            return Ok((ImageConfig::parse(&image.config)?, image.layers.clone()));
        }
        let (row, layers) = self.images.db.read(|tx| {
            let row = rows::any(tx, id)?.ok_or_else(|| no_such(id))?;
            Ok((row, rows::layers(tx, id)?))
        })?;
        let layers = layers.iter().map(|id| stored_digest(id)).collect::<Result<_>>()?;
        Ok((ImageConfig::parse(&row.config)?, layers))
    }

    /// Makes everything visible, and gives `image` its names. Answers the events. The build's directory stays until
    /// this is dropped.
    pub(crate) fn finish(&mut self, image: Option<&str>, names: &[Reference]) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        let mut labels = Default::default();
        // Of an attempt that failed.
        self.made.iter_mut().for_each(|made| made.names.clear());
        if let Some(id) = image {
            let (config, layers) = self.read(id)?;
            labels = config.config.map(|config| config.labels).unwrap_or_default();
            let own = self.made.iter().position(|made| made.id.to_string() == id);
            match own {
                Some(own) => self.made[own].names = names.to_vec(),
                None if names.is_empty() || self.has_names(id, names)? => {}
                None => {
                    // It is here already, and only gets its names.
                    let row = self.images.db.read(|tx| rows::get(tx, id)?.ok_or_else(|| no_such(id)))?;
                    self.made.push(NewImage {
                        id: stored_digest(id)?,
                        config: row.config,
                        created: row.created,
                        layers,
                        parent: row.parent.as_deref().map(stored_digest).transpose()?,
                        names: names.to_vec(),
                        made_here: false,
                    });
                }
            }
        }
        if !self.made.is_empty() {
            self.images.commit(&self.staging, &self.staged, &self.made)?;
        }
        if !self.adopted.is_empty() {
            self.images.db.write(Flush::Lazy, |tx| {
                self.adopted.iter().try_for_each(|(id, parent)| rows::set_parent(tx, id, parent))
            })?;
        }
        if let Some(id) = image {
            events.extend(names.iter().map(|name| Event::image("tag", id, &name.to_string(), &labels)));
        }
        Ok(events)
    }

    fn has_names(&self, id: &str, names: &[Reference]) -> Result<bool> {
        self.images.db.read(|tx| {
            for name in names {
                if rows::named(tx, &name.to_string())?.as_deref() != Some(id) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        let mut pending = self.images.pending.lock();
        for image in &self.made {
            pending.remove(&image.id.to_string());
        }
        drop(pending);
        if !self.held.is_empty() {
            // If this fails, the next open does it.
            let builder = self.staging.name();
            let ended = self.images.db.write(Flush::Lazy, |tx| rows::end_leases(tx, builder));
            let _ = ended.and_then(|()| self.images.collect());
        }
    }
}

/// Whether what was run is what would be run: what dockerd compares.
fn is_same(a: &ContainerConfig, b: &ContainerConfig) -> bool {
    let words = |words: &Option<Vec<String>>| words.clone().unwrap_or_default();
    let volumes = |config: &ContainerConfig| config.volumes.clone().unwrap_or_default();
    !a.open_stdin
        && !b.open_stdin
        && (a.attach_stdout, a.attach_stderr, a.tty, &a.user) == (b.attach_stdout, b.attach_stderr, b.tty, &b.user)
        && words(&a.cmd) == words(&b.cmd)
        && words(&a.env) == words(&b.env)
        && words(&a.entrypoint) == words(&b.entrypoint)
        && a.labels == b.labels
        && a.exposed_ports == b.exposed_ports
        && a.healthcheck == b.healthcheck
        && words(&a.on_build) == words(&b.on_build)
        && volumes(a) == volumes(b)
}
