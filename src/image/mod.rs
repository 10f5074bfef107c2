//! Images: names, configurations, layers; archives in and out.
//!
//! Layers are stored once, unpacked, under their diff id (see [`layer_store`]); configurations and names stand in the
//! database. An archive is staged whole, then its layers become visible by one rename each, then images and names
//! by one transaction: a program killed at any point leaves nothing half visible.
//!
//! [`Images::open`] makes the groups of methods, each with the handles that it needs. A group knows only groups that
//! are made before it: [`Catalog`] knows no other.

mod archive;
mod build_cache;
mod building;
mod catalog;
mod changes;
mod collect;
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
mod layer;
mod layer_store;
mod list;
mod partial_gc;
mod progress;
mod prune;
mod publish;
mod reference;
#[cfg(feature = "registry")]
mod remote;
mod remove;
mod repair;
mod shared_building;
mod squash;
mod verify;

pub(crate) use building::{Builds, Step};
pub(crate) use catalog::Catalog;
pub(crate) use changes::apply as apply_changes;
pub(crate) use commit::{Commit, check_commit_name};
pub(crate) use config::check_values;
pub(crate) use digest::{Digest, Hasher};
pub(crate) use docker_store::{DockerStore, TakenImage, is_plain};

/// Writing archives.
pub(crate) mod archive_writer {
    pub(crate) use super::layer::write::TarWriter;
}

/// Reading archives that are not layers.
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

    /// Records nothing of an archive's structure.
    pub(crate) struct Unrecorded;

    impl super::layer::recorder::Recorder for Unrecorded {
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
#[cfg(feature = "registry")]
pub(crate) use publish::NewPlugin;
pub(crate) use reference::Reference;
#[cfg(feature = "registry")]
pub(crate) use remote::{ProgressReader, ProgressSender, RemotePlugin, UrlImport, beside, login, search};
pub(crate) use remove::ImageUser;
pub(crate) use shared_building::SharedBuilding;
pub(crate) use squash::difference;

use crate::error::Result;
use crate::model::{Event, Progress, StringMap};
use crate::options::Options;
use crate::store::Db;
use crate::store::images::NameRow;
use archive::{Loader, OciSaver, Saver};
use collect::Collector;
use commit::Committer;
use config::ImageConfig;
use copy::Copies;
use docker_store::DockerImporter;
use import::Importer;
use inspect::Views;
use layer::Room;
pub(crate) use layer::Stage;
use layer_store::LayerStore;
use parking_lot::Mutex;
use prune::Pruner;
use publish::Publisher;
#[cfg(feature = "registry")]
use remote::{Flights, Puller, Pusher, Refetcher, UrlImporter};
use remove::Remover;
#[cfg(not(feature = "registry"))]
use repair::Refetcher;
use std::path::Path;
use std::sync::Arc;
use verify::Verifier;

/// Takes progress messages; an error ends the operation.
pub(crate) type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> Result<()>;
/// Takes the events of finished changes, in order.
pub(crate) type Emit<'a> = &'a mut dyn FnMut(Event);

/// The images of one engine root: the groups of methods that others call. Each group has the handles that it needs, and
/// knows only groups that are made before it.
pub(crate) struct Images {
    pub(crate) layers: Arc<LayerStore>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) collector: Arc<Collector>,
    pub(crate) views: Arc<Views>,
    pub(crate) remover: Arc<Remover>,
    pub(crate) pruner: Arc<Pruner>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) importer: Arc<Importer>,
    pub(crate) docker_importer: Arc<DockerImporter>,
    pub(crate) loader: Arc<Loader>,
    pub(crate) saver: Arc<Saver>,
    pub(crate) oci_saver: Arc<OciSaver>,
    pub(crate) builds: Arc<Builds>,
    pub(crate) copies: Arc<Copies>,
    #[cfg(feature = "registry")]
    pub(crate) url_importer: Arc<UrlImporter>,
    #[cfg(feature = "registry")]
    pub(crate) puller: Arc<Puller>,
    #[cfg(feature = "registry")]
    pub(crate) pusher: Arc<Pusher>,
    pub(crate) verifier: Arc<Verifier>,
}

impl Images {
    /// Opens the images of the existing directory `root`, and removes what programs that ended left half done.
    pub(crate) fn open(root: &Path, db: Arc<Db>, options: &Options) -> Result<Images> {
        let layers = Arc::new(LayerStore::open(root, options.durability, Room::of(options))?);
        let catalog = group!(Catalog = db layers; pending: Mutex::default());
        let collector = group!(Collector = db layers catalog);
        let publisher = group!(Publisher = db layers catalog);
        let views = group!(Views = db layers);
        let remover = group!(Remover = db collector);
        let pruner = group!(Pruner = db collector);
        let committer = group!(Committer = db layers publisher);
        let importer = group!(Importer = layers publisher);
        let docker_importer = group!(DockerImporter = db layers catalog publisher);
        let loader = group!(Loader = layers catalog publisher);
        let saver = group!(Saver = db layers);
        let oci_saver = group!(OciSaver = db layers);
        let builds = group!(Builds = db layers catalog collector publisher);
        let copies = group!(Copies = db layers collector);
        #[cfg(feature = "registry")]
        let url_importer = group!(UrlImporter = importer);
        #[cfg(feature = "registry")]
        let puller = group!(Puller = db layers catalog publisher; flights: Flights::default());
        #[cfg(feature = "registry")]
        let pusher = group!(Pusher = db layers);
        #[cfg(feature = "registry")]
        let refetcher = group!(Refetcher = db layers puller);
        #[cfg(not(feature = "registry"))]
        let refetcher = group!(Refetcher =);
        let verifier = group!(Verifier = db layers catalog refetcher);
        collector.collect()?;
        collector.sweep(options)?;
        collector.end_lost_leases()?;
        Ok(Images {
            layers,
            catalog,
            collector,
            views,
            remover,
            pruner,
            committer,
            importer,
            docker_importer,
            loader,
            saver,
            oci_saver,
            builds,
            copies,
            #[cfg(feature = "registry")]
            url_importer,
            #[cfg(feature = "registry")]
            puller,
            #[cfg(feature = "registry")]
            pusher,
            verifier,
        })
    }
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
    crate::model::architecture_name(std::env::consts::ARCH)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
