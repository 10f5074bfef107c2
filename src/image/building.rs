//! The images that a build makes: they stand on each other, and this build alone sees them until all of them become
//! visible at once, with one flush.

use super::archive::stage_written;
use super::build_cache::{Made, SourceStep, Sourced, Visible};
use super::catalog::{Catalog, Pending, no_such};
use super::collect::Collector;
use super::config::MAX_CONFIG;
use super::digest::Digest;
use super::document::{self, Document, Next, created_by};
use super::layer::{Stage, Staged, recipe};
use super::layer_store::{LayerStore, Staging};
use super::publish::{NewImage, Publisher, StagedLayers};
use super::reference::Reference;
use super::stored_digest;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{ContainerConfig, Event};
use crate::store::images as rows;
use crate::store::{Db, Flush};
use crate::time::now_ns;
use crate::walls::Wall;
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Begins builds, and knows which are at work.
pub(crate) struct Builds {
    pub(super) db: Arc<Db>,
    pub(super) layers: Arc<LayerStore>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) collector: Arc<Collector>,
    pub(super) publisher: Arc<Publisher>,
}

/// One build's images. Dropping it forgets them.
pub(crate) struct Building<'a> {
    builds: &'a Builds,
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

impl Builds {
    /// Whether the program of a build is at work, by the name of its staging directory.
    pub(crate) fn is_building(&self, builder: &str) -> bool {
        self.layers.is_staging(builder)
    }

    /// Begins a build. `sources`: images (by name) that its cache is restricted to; what is not here is passed over.
    pub(crate) fn begin(&self, sources: &[String]) -> Result<Building<'_>> {
        let mut building = Building {
            builds: self,
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
            let id = match self.catalog.resolve(name) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                other => other?,
            };
            let (config, layers) = building.visible().read(&id)?;
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
        self.builds.db.write(Flush::Lazy, |tx| match rows::any(tx, id)? {
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

    /// Takes the directory `name` as a layer; `None`: nothing was written there, so it goes.
    pub(super) fn described(&mut self, name: &str, staged: Option<Staged>) -> Result<Option<Digest>> {
        let Some(staged) = staged else {
            self.staging.discard(name)?;
            return Ok(None);
        };
        self.keep(name.to_owned(), staged).map(Some)
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
        self.keep(name, staged).map(Some)
    }

    /// Makes a layer of a tar, also where nothing is in it.
    pub(crate) fn layer_of_tar_or_nothing(
        &mut self,
        write: &mut dyn FnMut(&mut dyn Write) -> Result<()>,
    ) -> Result<Digest> {
        let (name, staged) = stage_written(&self.staging, write)?;
        self.keep(name, staged)
    }

    fn keep(&mut self, name: String, staged: Staged) -> Result<Digest> {
        match self.staged.entry(staged.diff_id) {
            Entry::Occupied(_) => self.staging.discard(&name)?,
            Entry::Vacant(place) => drop(place.insert((name, staged))),
        }
        Ok(staged.diff_id)
    }

    /// Makes an image; answers its id.
    pub(crate) fn image(&mut self, step: &Step<'_>, layer: Option<Digest>) -> Result<String> {
        let (below, mut layers) = self.visible().below(step.parent)?;
        layers.extend(layer);
        let created = now_ns();
        let (author, container_config, has_layer) = (step.author, step.container_config, layer.is_some());
        let next = Next { author, comment: "", container_config, created, has_layer };
        let history = document::history(&below, &next);
        let architecture = below.architecture;
        self.add(step, Made { architecture, created, history, layers, here: true })
    }

    pub(super) fn add(&mut self, step: &Step<'_>, made: Made) -> Result<String> {
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
            None => self.builds.layers.diff_path(digest),
        };
        let pending = Pending { config: config.clone(), layers: layers.iter().map(path).collect() };
        self.builds.catalog.pending.lock().insert(id.to_string(), pending);
        let parent = step.parent.map(stored_digest).transpose()?;
        self.made.push(NewImage {
            id,
            config,
            created,
            layers,
            parent,
            names: Vec::new(),
            made_here: here,
            plugin: None,
        });
        Ok(id.to_string())
    }

    /// Counts a configuration that is kept until the build is over. Each lists all steps before.
    fn count(&mut self, bytes: usize) -> Result<()> {
        self.documents += bytes;
        let most = self.builds.layers.room.documents;
        match (bytes > MAX_CONFIG || self.documents > most) && Wall::BuildWords.stands() {
            true => Err(Error::invalid(format!(
                "the configurations of this build's images take more than {most} bytes, or that of one more than {MAX_CONFIG}"
            ))),
            false => Ok(()),
        }
    }

    /// An image that is this step on this parent, where there is one: of this build, or of an earlier one.
    ///
    /// `config`: what containers of it are made from, for an image that names only its last step's.
    pub(crate) fn cached(
        &mut self,
        parent: Option<&str>,
        wanted: &ContainerConfig,
        config: &ContainerConfig,
    ) -> Result<Option<String>> {
        let local = self.visible().local(parent, wanted)?;
        if !self.restricted {
            return Ok(local);
        }
        if let Some(id) = local
            && self.visible().leads_to(&self.sources, &id)?
        {
            return Ok(Some(id));
        }
        self.restored(parent, wanted, config)
    }

    /// The step as an image from elsewhere has it: its last step is that image, any other is made again from what it
    /// says and holds.
    fn restored(
        &mut self,
        parent: Option<&str>,
        wanted: &ContainerConfig,
        config: &ContainerConfig,
    ) -> Result<Option<String>> {
        let (below, below_layers) = self.visible().below(parent)?;
        let text = created_by(wanted);
        for index in 0..self.sources.len() {
            let Some(step) = self.sources[index].step_after(&below, &below_layers, &text) else { continue };
            let id = self.sources[index].id.clone();
            let (author, made) = match step {
                SourceStep::Last => {
                    self.adopted.extend(parent.map(|parent| (id.clone(), parent.to_owned())));
                    return Ok(Some(id));
                }
                SourceStep::Earlier(author, made) => (author, made),
            };
            self.sources.swap(0, index);
            self.sources.truncate(1);
            self.hold(&id)?;
            let step = Step { parent, config, container_config: wanted, container: "", author: &author };
            return self.add(&step, made).map(Some);
        }
        Ok(None)
    }

    /// The images that this build sees.
    pub(super) fn visible(&self) -> Visible<'_> {
        Visible { catalog: &self.builds.catalog, made: &self.made }
    }

    /// Makes everything visible, and gives `image` its names. Answers the events. The build's directory stays until
    /// this is dropped.
    pub(crate) fn finish(&mut self, image: Option<&str>, names: &[Reference]) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        let mut labels = Default::default();
        let made_now = image.is_some_and(|id| self.made.iter().any(|made| made.id.to_string() == id));
        // Of an attempt that failed.
        self.made.iter_mut().for_each(|made| made.names.clear());
        if let Some(id) = image {
            let (config, layers) = self.visible().read(id)?;
            labels = config.config.map(|config| config.labels).unwrap_or_default();
            let own = self.made.iter().position(|made| made.id.to_string() == id);
            match own {
                Some(own) => self.made[own].names = names.to_vec(),
                None if names.is_empty() || self.has_names(id, names)? => {}
                None => {
                    // The store has this image already; the build only adds names.
                    let row = self.builds.db.read(|tx| rows::get(tx, id)?.ok_or_else(|| no_such(id)))?;
                    self.made.push(NewImage {
                        id: stored_digest(id)?,
                        config: row.config,
                        created: row.created,
                        layers,
                        parent: row.parent.as_deref().map(stored_digest).transpose()?,
                        names: names.to_vec(),
                        made_here: false,
                        plugin: None,
                    });
                }
            }
        }
        if !self.made.is_empty() {
            self.builds.publisher.publish(&self.staging, &self.staged, &self.made)?;
        }
        if !self.adopted.is_empty() {
            self.builds.db.write(Flush::Lazy, |tx| {
                self.adopted.iter().try_for_each(|(id, parent)| rows::set_parent(tx, id, parent))
            })?;
        }
        if let Some(id) = image {
            if made_now {
                events.push(Event::image("create", id, id, &labels));
            }
            events.extend(names.iter().map(|name| Event::image("tag", id, &name.to_string(), &labels)));
        }
        Ok(events)
    }

    fn has_names(&self, id: &str, names: &[Reference]) -> Result<bool> {
        self.builds.db.read(|tx| {
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
        let mut pending = self.builds.catalog.pending.lock();
        for image in &self.made {
            pending.remove(&image.id.to_string());
        }
        drop(pending);
        if !self.held.is_empty() {
            // If this fails, the next open does it.
            let builder = self.staging.name();
            let ended = self.builds.db.write(Flush::Lazy, |tx| rows::end_leases(tx, builder));
            let _ = ended.and_then(|()| self.builds.collector.collect());
        }
    }
}
