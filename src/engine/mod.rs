//! The façade: one file per noun of the API.

mod archive;
mod check;
mod containers;
mod copy;
mod dirs;
pub(crate) mod docker;
mod ending;
mod ends;
mod events;
mod exec;
mod handle;
mod images;
mod iterate;
mod leases;
mod metrics;
mod networks;
mod plugins;
mod prune;
mod reaper;
mod report;
mod session;
mod shipper;
mod swarm;
mod system;
mod volumes;
mod wait;

pub use crate::container::{Io, Lease};
pub use crate::op::Changed;
pub use crate::options::{Options, Outbox, ShipLogs, UsernsRemap};
pub use crate::store::Durability;
pub use ends::{BegunStop, ContainerRestart, ContainerStop, ExecWait};
pub use handle::Container;
pub use iterate::Items;
pub use report::host_report;
pub use session::{Session, SessionRead};
pub use system::version;
pub use wait::ContainerWait;

use self::metrics::Work;
use crate::container::{Containers, Shared};
use crate::error::Result;
use crate::event::Journal;
use crate::image::Images;
use crate::launch::{apparmor, selinux};
use crate::managed::{self, ManagedPlugins};
use crate::model::{AttachStreams, Leftover};
use crate::notes::{LogLevel, note_since};
use crate::plugin::Plugins;
use crate::store::Db;
use crate::swarm::Swarm;
use crate::volume::Volumes;
use parking_lot::RwLock;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// An opened engine root. Clones share it; every method may be called from any thread.
///
/// ```no_run
/// use coracle::Engine;
/// use coracle::model::{ContainerConfig, CreateBody};
///
/// let engine = Engine::open("/var/lib/coracle")?;
/// let config = ContainerConfig {
///     image: "busybox".into(),
///     cmd: Some(vec!["date".into()]),
///     ..Default::default()
/// };
/// let id = engine.container_create(Some("clock"), &CreateBody { config, ..Default::default() })?.id;
/// engine.container_start(&id, None, None)?;
/// println!("exit code {}", engine.container_wait(&id, None)?);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) options: Options,
    /// The engine's labels: those of the options, until a reload sets others.
    pub(crate) labels: RwLock<Vec<String>>,
    /// The journal of all events of the root.
    pub(crate) journal: Arc<Journal>,
    pub(crate) images: Arc<Images>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) containers: Arc<Containers>,
    pub(crate) plugins: Arc<Plugins>,
    pub(crate) managed: ManagedPlugins,
    /// The way to the program of a root that is in a swarm.
    pub(crate) swarm: Swarm,
    /// Dropped with the last handle, which ends the following of containers.
    reaper: reaper::Reaper,
    /// The damage that was found in the store when the root was opened.
    damage: Vec<String>,
    pub(crate) counters: metrics::Counters,
    /// Dropped with the last handle, which ends the delivery of logs.
    _shipper: Option<shipper::Shipper>,
    /// Ends the containers of an ephemeral engine when it is dropped.
    _lease: Option<Lease>,
    /// Descriptors that keep the library's files off the numbers 0 to 2.
    _standard_places: Vec<OwnedFd>,
}

impl Engine {
    /// Opens `root` with default options, making it if it is not there.
    ///
    /// Errors: root not writable, a capability missing (named), a kernel call missing (named), a store newer than the
    /// library.
    pub fn open(root: impl AsRef<Path>) -> Result<Engine> {
        Engine::open_with(Options::new(root))
    }

    /// Opens a root with options: see [`Engine::open`].
    pub fn open_with(options: Options) -> Result<Engine> {
        Engine::opened(options).map_err(report::pointed)
    }

    fn opened(mut options: Options) -> Result<Engine> {
        let began = Instant::now();
        #[cfg(feature = "attacks")]
        crate::options::switch_walls_off()?;
        options.registry.proxies = options.registry.proxies.or_of_environment();
        #[cfg(feature = "registry")]
        crate::tls::read_environment();
        let release = crate::kernel::probe::release();
        check_host(&options, release)?;
        let _standard_places = crate::kernel::fd::occupy_standard_places()?;
        let root = dirs::root(&options)?;
        crate::kernel::probe::holds_layers(&root)?;
        options.userns_remap.map_or(Ok(()), |_| UsernsRemap::check_root(&root, release))?;
        let db = Arc::new(Db::open(&root, options.durability)?);
        let claim = dirs::claim(&options, &root, &db)?;
        let journal = Arc::new(Journal::open(&claim.run)?);
        let images = Arc::new(Images::open(&root, db.clone(), &options)?);
        let damage = images.verifier.damage_seen()?;
        let (plugins, plugin_places) = managed::plugins(&options.plugin_dirs, &db, (&root, &claim.run));
        let volumes = Arc::new(Volumes::open(&root, db.clone(), journal.clone(), &options, plugins.clone())?);
        let shared = Shared {
            db: db.clone(),
            images: images.clone(),
            journal: journal.clone(),
            volumes: volumes.clone(),
            plugins: plugins.clone(),
        };
        let lease = options.ephemeral.then(|| Lease::of_engine(&claim.run)).transpose()?;
        let own = lease.as_ref().map(|lease| lease.name().to_owned());
        let (containers, wanted) = Containers::open(root, claim, options.clone(), shared, own)?;
        let containers = Arc::new(containers);
        let parts = (db, images.clone(), volumes.clone(), journal.clone());
        let managed = open_plugins(parts, plugin_places, &containers, (options.restart_containers, wanted))?;
        let ship = || shipper::Shipper::start(&containers.shipping);
        let _shipper = (options.ship_logs == ShipLogs::Thread).then(ship).transpose()?;
        containers.shipping.resume();
        let swarm = Swarm::resumed((containers.places.root(), containers.places.run()), &options);
        note_since(LogLevel::Info, "store", None, began, || format!("open {}: done", options.root.display()));
        let reaper = reaper::Reaper::new()?;
        for found in containers.finder.reap_all()? {
            reaper.follow(&containers, &found);
        }
        Ok(Engine(Arc::new(Inner {
            labels: RwLock::new(options.labels.clone()),
            options,
            journal,
            images,
            volumes,
            containers,
            plugins,
            managed,
            swarm,
            reaper,
            damage,
            counters: metrics::Counters::default(),
            _shipper,
            _lease: lease,
            _standard_places,
        })))
    }

    /// Removes the files of the root and the engine's files in the run directory, if no other program uses the root and
    /// the root is empty: no image, container, volume, user's network, or partial download. Returns whether it removed
    /// them. A program calls it if its work failed after it had made the root. The root's directory itself stays. Drop
    /// all clones of this engine afterwards.
    pub fn discard_if_empty(self) -> Result<bool> {
        self.0.containers.discard_root()
    }

    /// The damage of the store when the root was opened: one line for each layer whose directory or recipe is missing
    /// or empty. Only [`Engine::verify`] reads the content. `info` checks again, and warns of the damage.
    pub fn damage_at_open(&self) -> &[String] {
        &self.0.damage
    }
}

/// Checks that the kernel, which has this release, has everything that the options need: before anything is made.
fn check_host(options: &Options, release: (u32, u32)) -> Result<()> {
    crate::kernel::probe::check()?;
    options.userns_remap.map_or(Ok(()), |remap| remap.check(release))?;
    apparmor::check(options.apparmor.as_deref())?;
    // The policy's users read it again.
    options.selinux.then(selinux::Policy::read).transpose().map(drop)
}

/// Opens the plugins of a root. Starts, if `starts`, enabled ones that do not run, and then the `wanted` containers, which ran
/// before the boot: they may need plugins.
fn open_plugins(
    parts: (Arc<Db>, Arc<Images>, Arc<Volumes>, Arc<Journal>),
    places: managed::Places,
    containers: &Arc<Containers>,
    (starts, wanted): (bool, Vec<String>),
) -> Result<ManagedPlugins> {
    let (managed, begun) = ManagedPlugins::open(parts, places, Arc::clone(containers), starts)?;
    if !wanted.is_empty() {
        managed.await_arrival(&begun);
    }
    containers.recovery.start_after_boot(wanted);
    Ok(managed)
}

/// The most leftovers that are listed one by one in texts with a line for each.
const LEFTOVERS_TOLD: usize = 8;

impl Engine {
    /// The files that this engine's removals and its open could not remove, with the reasons: an immutable file, a
    /// mount in the way. Their container, volume or layer is gone; every open tries again, and so does
    /// [`Engine::sweep`].
    pub fn leftovers(&self) -> Vec<Leftover> {
        let (images, volumes, containers) = (&self.0.images, &self.0.volumes, &self.0.containers);
        [images.collector.leftovers(), volumes.dirs.leftovers.all(), containers.leftovers.all()].concat()
    }

    /// Frees all caches: pages of the database, parsed documents. The next calls are slower. For a server at rest.
    pub fn forget_what_was_read(&self) {
        self.0.containers.views.forget_what_was_read();
    }

    /// Removes files that ended programs and earlier removals left in the root, as each open does; returns the files
    /// that remain.
    pub fn sweep(&self) -> Result<Vec<Leftover>> {
        self.0.counters.count(Work::Sweep, None, || {
            self.0.images.collector.sweep(&self.0.options)?;
            self.0.volumes.sweeper.sweep()?;
            self.0.containers.recovery.sweep()
        })?;
        Ok(self.leftovers())
    }

    /// [`Engine::leftovers`] as lines for people: the first ones, and how many more there are.
    pub fn leftover_lines(&self) -> Vec<String> {
        let all = self.leftovers();
        let mut lines: Vec<String> = all.iter().take(LEFTOVERS_TOLD).map(ToString::to_string).collect();
        if let Some(more) = all.len().checked_sub(LEFTOVERS_TOLD).filter(|more| *more > 0) {
            lines.push(format!("{more} more files or directories could not be removed"));
        }
        lines
    }
}

/// Answer of a start.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::{Changed, Io};
///
/// let started = engine.container_start("clock", Some(Io::default()), None)?;
/// match started.session {
///     Some(session) => println!("exit code {}", session.wait(None)?),
///     None => assert_eq!(started.changed, Changed::No),
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug)]
pub struct Started {
    /// `No`: the container was running already.
    pub changed: Changed,
    /// The attached session, if the call asked for one.
    pub session: Option<Session>,
}

/// How an attach is made.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::AttachStreams;
/// use coracle::{AttachOptions, Io};
///
/// // The output alone, from the first byte on: the container is started later.
/// let streams = AttachStreams { stdin: false, ..Default::default() };
/// let session = engine.container_attach("clock", Io::default(), AttachOptions { streams, wait_for_start: true }, None)?;
/// engine.container_start("clock", None, None)?;
/// println!("exit code {}", session.wait(None)?);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct AttachOptions {
    /// The streams of the process that the session gets, and whether the session begins with the log.
    pub streams: AttachStreams,
    /// Answer before the container runs: the session gets its output from the first byte on once it starts.
    pub wait_for_start: bool,
}
