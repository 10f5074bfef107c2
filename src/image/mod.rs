//! Images: names, configurations, layers; archives in and out.
//!
//! Layers are stored once, unpacked, under their diff id (see [`layers`]); configurations and names stand in the
//! database. What is loaded is staged whole, then its layers become visible by one rename each, then images and names
//! by one transaction: a program killed at any point leaves nothing half visible.

mod archive;
mod building;
mod changes;
mod commit;
mod config;
mod copy;
mod decompress;
mod digest;
mod docker_store;
mod document;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
#[cfg(feature = "registry")]
mod gzip;
mod import;
mod inspect;
mod kin;
mod layer;
mod layers;
mod list;
mod parts;
mod progress;
mod prune;
mod reference;
#[cfg(feature = "registry")]
mod remote;
mod remove;
mod verify;

pub(crate) use building::{Building, Step};
pub(crate) use changes::apply as apply_changes;
pub(crate) use commit::{Commit, check_commit_name};
pub(crate) use config::{ImageConfigView, check_values};
pub(crate) use digest::{Digest, Hasher};
pub(crate) use docker_store::{DockerStore, TakenImage, is_plain};

/// Writing archives.
pub(crate) mod archive_writer {
    pub(crate) use super::layer::write::TarWriter;
}

/// Reading archives, for those that extract what is no layer.
pub(crate) mod archive_reader {
    pub(crate) use super::layer::Room;
    pub(crate) use super::layer::entry::{Entry, Kind, TarReader};
    pub(crate) use super::layer::later::{Later, LaterDir};
    use crate::error::Result;
    use std::io::{BufRead, Read};

    /// The decompressed stream of `input`, whatever its compression, in the memory that an operation may take.
    pub(crate) fn decompressed<'a>(input: impl BufRead + 'a, room: Room) -> Result<Box<dyn Read + 'a>> {
        super::decompress::reader(input, room.window)
    }

    /// Keeps nothing of what an archive is made of.
    pub(crate) struct Unrecorded;

    impl super::layer::recipe::Recorder for Unrecorded {
        fn literal(&mut self, _: &[u8]) -> Result<()> {
            Ok(())
        }
        fn content(&mut self, _: &[u8], _: u64, _: u64) -> Result<()> {
            Ok(())
        }
        fn replaced(&mut self, _: &[u8]) -> Result<()> {
            Ok(())
        }
    }
}
pub(crate) use reference::Reference;
#[cfg(feature = "registry")]
pub(crate) use remote::{Say, Told, beside};
pub(crate) use remove::ImageUser;

use crate::error::{Error, Result};
use crate::hex::{is_hex, is_hex_id};
use crate::model::{Event, Leftover, Progress, StringMap};
use crate::options::Options;
use crate::store::images::{self as rows, ImageRow, NameRow};
use crate::store::{Db, Flush};
use crate::time::now_ns;
use config::ImageConfig;
pub(crate) use layer::Stage;
use layer::{Room, Staged};
use layers::{Layers, Staging};
use parking_lot::Mutex;
use rusqlite::Transaction;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Takes progress messages; an error ends the operation.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(Progress) -> Result<()>;
/// Takes the events of what was done, in order.
pub(crate) type Emit<'a> = &'a mut dyn FnMut(Event);

/// The images of one engine root.
pub(crate) struct Images {
    db: Arc<Db>,
    layers: Layers,
    /// The layers that pulls of this program are fetching.
    #[cfg(feature = "registry")]
    flights: remote::Flights,
    /// The images that builds of this program have made and nobody else sees yet, by id.
    pending: Mutex<HashMap<String, Pending>>,
}

/// An image of a build that is not over.
#[derive(Clone)]
struct Pending {
    config: Vec<u8>,
    /// Its unpacked layers, bottom first.
    layers: Vec<PathBuf>,
}

impl Images {
    /// A file without a name, for what an operation must remember.
    pub(crate) fn unnamed_file(&self) -> Result<std::os::fd::OwnedFd> {
        crate::kernel::tree::unnamed_file(self.layers.tmp())
    }

    /// Opens the images of the existing directory `root`, and removes what programs that ended left half done.
    pub(crate) fn open(root: &Path, db: Arc<Db>, options: &Options) -> Result<Images> {
        let room = Room::of(options);
        let images = Images {
            db,
            layers: Layers::open(root, options.durability, room)?,
            #[cfg(feature = "registry")]
            flights: remote::Flights::default(),
            pending: Mutex::default(),
        };
        images.collect()?;
        images.sweep(options)?;
        images.end_lost_leases()?;
        Ok(images)
    }

    /// Removes what programs that ended left half done, as far as it can be.
    pub(crate) fn sweep(&self, options: &Options) -> Result<()> {
        let known = || self.known_layers()?.into_iter().map(Ok).collect();
        self.layers.sweep(known, options.registry.parts_limit)
    }

    /// The directories that could not be removed.
    pub(crate) fn leftovers(&self) -> Vec<Leftover> {
        self.layers.leftovers.all()
    }

    fn known_layers(&self) -> Result<Vec<Digest>> {
        self.db.read(rows::all_layers)?.iter().map(|id| stored_digest(id)).collect()
    }

    /// The damage of layers, as far as one look at each one's directory shows; a line each. Microseconds a layer.
    pub(crate) fn damage_seen(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for diff_id in self.known_layers()? {
            // It may have been removed in between.
            if let Some(what) = self.layers.look(&diff_id)
                && self.has_layer(&diff_id)?
            {
                found.push(format!("layer {diff_id}: {what}; `coracle verify --repair` may bring it back"));
            }
        }
        Ok(found)
    }

    /// The id (`sha256:...`) of the image that `name` means: an id, a reference, or the beginning of an id.
    pub(crate) fn resolve(&self, name: &str) -> Result<String> {
        self.db.read(|tx| find(tx, name)).map(|found| found.id)
    }

    /// The id of the image that `name` means, and what a container of it is made from.
    pub(crate) fn config(&self, name: &str) -> Result<(String, ImageConfigView)> {
        if let Some(pending) = self.pending.lock().get(name) {
            return Ok((name.to_owned(), ImageConfig::parse(&pending.config)?.into()));
        }
        let row = self.db.read(|tx| {
            let id = find(tx, name)?.id;
            rows::get(tx, &id)?.ok_or_else(|| no_such(name))
        })?;
        Ok((row.id, ImageConfig::parse(&row.config)?.into()))
    }

    /// Whether an image's configuration asks for all rights, and is heard: never.
    #[cfg(feature = "attacks")]
    pub(crate) fn asks_for_rights(&self, id: &str) -> Result<bool> {
        if crate::walls::Wall::ImageRights.stands() {
            return Ok(false);
        }
        let config = self.db.read(|tx| Ok(rows::any(tx, id)?.map(|row| row.config).unwrap_or_default()))?;
        let config: serde_json::Value = serde_json::from_slice(&config).unwrap_or_default();
        Ok(config["config"]["HostConfig"]["Privileged"] == true)
    }

    /// The unpacked layers of an image by its whole id, topmost first: overlayfs's order of lower directories.
    ///
    /// Works too for an image that was removed by force while a container still needs it, and for none: it has no layers.
    pub(crate) fn rootfs(&self, image_id: &str) -> Result<Vec<PathBuf>> {
        if image_id.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(pending) = self.pending.lock().get(image_id) {
            return Ok(topmost_first(pending.layers.clone()));
        }
        let layers = self.db.read(|tx| match rows::any(tx, image_id)? {
            Some(_) => rows::layers(tx, image_id),
            None => Err(no_such(image_id)),
        })?;
        let paths = layers.iter().map(|diff_id| self.layers.present(&stored_digest(diff_id)?));
        Ok(topmost_first(paths.collect::<Result<_>>()?))
    }

    /// Whether a container may be made of an image, by its whole id: asked in the transaction that makes it.
    pub(crate) fn is_there(&self, tx: &Transaction<'_>, image_id: &str) -> Result<bool> {
        Ok(self.pending.lock().contains_key(image_id) || rows::get(tx, image_id)?.is_some())
    }

    /// Gives the image `name` another name, moving it where another image has it.
    pub(crate) fn tag(&self, name: &str, reference: &str, emit: Emit<'_>) -> Result<()> {
        let reference = Reference::parse_tag(reference)?;
        let row = self.db.write(Flush::Durable, |tx| {
            let id = find(tx, name)?.id;
            rows::set_name(tx, &name_row(&reference, &id), now_ns())?;
            rows::get(tx, &id)?.ok_or_else(|| no_such(name))
        })?;
        emit(Event::image("tag", &row.id, &reference.to_string(), &labels(&row.config)));
        Ok(())
    }

    /// Frees what only containers that are gone had needed. To be called after a container was removed, and cheap.
    pub(crate) fn collect(&self) -> Result<()> {
        if !self.db.read(rows::any_hidden)? {
            return Ok(());
        }
        let gone = self.db.write_to_free(Flush::Lazy, |tx| match rows::remove_unheld(tx)? {
            true => rows::drop_unused_layers(tx),
            false => Ok(Vec::new()),
        })?;
        self.free(&gone)
    }

    /// Whether the program of a build is at work, by the name of its staging directory.
    pub(crate) fn is_building(&self, builder: &str) -> bool {
        self.layers.is_staging(builder)
    }

    /// Ends the leases of builds whose program was killed: nobody is at work in their directories.
    fn end_lost_leases(&self) -> Result<()> {
        let holders = self.db.read(rows::lease_holders)?;
        let lost: Vec<String> = holders.into_iter().filter(|builder| !self.layers.is_staging(builder)).collect();
        if lost.is_empty() {
            return Ok(());
        }
        self.db.write(Flush::Lazy, |tx| lost.iter().try_for_each(|builder| rows::end_leases(tx, builder)))?;
        self.collect()
    }

    /// Removes the files of layers whose rows are gone, unless they came back.
    fn free(&self, gone: &[String]) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let moving = self.layers.moving()?;
        let gone = self.db.read(|tx| {
            let mut free = Vec::new();
            for diff_id in gone {
                if !rows::has_layer(tx, diff_id)? {
                    free.push(stored_digest(diff_id)?);
                }
            }
            Ok(free)
        })?;
        moving.remove(&gone)?;
        self.db.restock();
        Ok(())
    }

    /// Makes images and their layers visible, all or nothing.
    fn commit(&self, staging: &Staging<'_>, staged: &StagedLayers, images: &[NewImage]) -> Result<Committed> {
        if !staged.is_empty() {
            staging.flush()?;
        }
        let moving = self.layers.moving()?;
        let now = now_ns();
        let mut moved = Vec::new();
        let result = self.db.write(Flush::Durable, |tx| {
            let mut done = Committed::default();
            for image in images {
                for diff_id in &image.layers {
                    let text = diff_id.to_string();
                    if rows::has_layer(tx, &text)? {
                        continue;
                    }
                    let (name, layer) = staged.get(diff_id).ok_or_else(|| {
                        Error::internal(format!("layer {diff_id} was removed by another program, try again"))
                    })?;
                    moving.publish(staging, name, diff_id)?;
                    moved.push(*diff_id);
                    rows::insert_layer(tx, &text, signed(layer.size), signed(layer.tar))?;
                }
                let layers: Vec<String> = image.layers.iter().map(Digest::to_string).collect();
                let row = ImageRow {
                    id: image.id.to_string(),
                    config: image.config.clone(),
                    created: image.created,
                    parent: image.parent.map(|id| id.to_string()),
                };
                rows::insert(tx, &row, &layers)?;
                if image.made_here {
                    rows::made_here(tx, &row.id)?;
                }
                for name in &image.names {
                    if let Some(old) = rows::set_name(tx, &name_row(name, &row.id), now)? {
                        done.renamed.push((name.to_string(), old));
                    }
                }
            }
            if !moved.is_empty() {
                moving.settle()?;
            }
            Ok(done)
        });
        if result.is_err() {
            for diff_id in &moved {
                // Only what surely has no row: a commit may fail late. The rest is the sweep's.
                if matches!(self.has_layer(diff_id), Ok(false)) {
                    let _ = moving.take_back(staging, diff_id);
                }
            }
        }
        result
    }

    /// Whether the store has a layer.
    fn has_layer(&self, diff_id: &Digest) -> Result<bool> {
        self.db.read(|tx| rows::has_layer(tx, &diff_id.to_string()))
    }
}

/// The layers of an overlay: one that comes twice hides its lower self, and overlayfs takes no directory twice.
fn topmost_first(layers: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut paths = Vec::with_capacity(layers.len());
    for path in layers.into_iter().rev() {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// Staged layers by diff id: name of the directory in the staging, and what it holds.
type StagedLayers = HashMap<Digest, (String, Staged)>;

/// An image about to become visible.
#[derive(Debug)]
struct NewImage {
    id: Digest,
    config: Vec<u8>,
    created: i64,
    layers: Vec<Digest>,
    parent: Option<Digest>,
    names: Vec<Reference>,
    /// It was made by this engine: a build may take it for the step that it says it is.
    made_here: bool,
}

/// The changes that [`Images::commit`] made beside those that it was asked for.
#[derive(Debug, Default)]
struct Committed {
    /// Names that other images had, and their ids.
    renamed: Vec<(String, String)>,
}

/// How a name led to an image.
struct Found {
    id: String,
    /// The reference, where the name was one (not an id).
    reference: Option<Reference>,
}

/// Looks an image up: whole id; exact reference; `repository:<beginning of an id>`; beginning of an id.
fn find(tx: &Transaction<'_>, name: &str) -> Result<Found> {
    let by_id = |id: String| Found { id, reference: None };
    let hex = name.strip_prefix("sha256:").unwrap_or(name);
    if is_hex_id(hex) {
        let id = format!("sha256:{hex}");
        return rows::get(tx, &id)?.map(|row| by_id(row.id)).ok_or_else(|| no_such(&id));
    }
    let reference = Reference::parse(name)?.or_latest();
    if let Some(id) = rows::named(tx, &reference.to_string())? {
        return Ok(Found { id, reference: Some(reference) });
    }
    if let Some(prefix) = reference.tag().filter(|tag| is_hex(tag) && !name.starts_with("sha256:")) {
        let repository = reference.repository();
        let mut fits = Vec::new();
        for id in rows::by_prefix(tx, prefix, 32)? {
            if rows::names(tx, &id)?.iter().any(|n| n.repository == repository) {
                fits.push(id);
            }
        }
        if let [id] = fits.as_slice() {
            return Ok(by_id(id.clone()));
        }
    }
    if is_hex(hex) {
        match rows::by_prefix(tx, hex, 2)?.as_slice() {
            [] => {}
            [id] => return Ok(by_id(id.clone())),
            _ => {
                let message = format!("No such image: {reference} (several image ids begin with {hex})");
                return Err(Error::not_found(message));
            }
        }
    }
    Err(Error::not_found(format!("No such image: {reference}")))
}

/// dockerd's error for a name that means no image.
fn no_such(name: &str) -> Error {
    Error::not_found(format!("No such image: {name}"))
}

fn name_row(reference: &Reference, image_id: &str) -> NameRow {
    NameRow {
        name: reference.to_string(),
        repository: reference.repository(),
        is_digest: reference.digest().is_some(),
        image_id: image_id.to_owned(),
    }
}

/// A digest that the database holds.
fn stored_digest(text: &str) -> Result<Digest> {
    Digest::parse(text, "metadata store").map_err(|e| e.with_kind(crate::error::ErrorKind::Corrupt))
}

/// The labels of a stored configuration.
fn labels(config: &[u8]) -> StringMap {
    ImageConfig::parse(config).ok().and_then(|c| c.config).map(|c| c.labels).unwrap_or_default()
}

/// This machine's architecture in the names of images.
pub(crate) fn host_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
