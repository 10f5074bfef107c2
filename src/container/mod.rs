//! Containers: request → spec ([`spec`]), and their life: create, start, stop, exec, attach, inspect, remove.
//!
//! The store holds the configuration of a container (a row with its spec, a slot); the state record of its monitor
//! ([`crate::store::states`]) holds its state. An operation that changes a container holds its slot's busy lock;
//! nothing slow is done under a lock that concerns more than one container.
//!
//! [`Containers::open`] makes the groups of methods, each with the handles that it needs. A group knows only groups that
//! are made before it: [`Register`] and [`Places`] know no other, [`Finder`] finds and locks for all that come later.

mod archive;
mod attach;
mod auto_remove;
mod beginning;
mod build;
mod confinement;
mod copy;
mod crashes;
mod create;
mod delivery;
mod dirs;
mod exec;
mod exec_records;
mod explain;
mod failure;
mod finder;
mod freeze;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod groups;
mod health;
mod host_files;
mod image_mounts;
mod inspect;
mod labels;
mod lease;
mod links;
pub(crate) mod list;
mod made_for;
mod monitors;
pub(crate) mod names;
mod network;
mod overview;
mod places;
mod planner;
mod recover;
mod register;
mod removal;
mod remove;
mod shipping;
pub(crate) mod spec;
mod spec_cache;
mod start;
mod state;
mod stats;
mod step_mounts;
mod stop;
mod storage;
pub(crate) mod text;
mod top;
mod update;
mod volumes;
mod wait;

pub use archive::Archive;
use archive::Files;
pub(crate) use archive::walk::Wanted;
pub(crate) use archive::{Differences, extract};
use attach::Attach;
pub use attach::Io;
pub(crate) use attach::{Connected, Ends, Parked, check_direct, no_terminal};
pub(crate) use auto_remove::Fate;
pub(crate) use beginning::{Beginning, Run};
use build::BuildSteps;
pub(crate) use build::STEP_ATTRIBUTES;
use confinement::Confinement;
use copy::Copies;
pub(crate) use copy::{CopiedFiles, copy_place};
use crashes::Crashes;
use create::Creator;
pub(crate) use delivery::sums as delivery_sums;
use exec::Execs;
pub(crate) use exec::RunningExec;
use exec_records::ExecRecords;
use explain::Explainer;
use finder::Finder;
use freeze::Freezer;
use groups::Groups;
use host_files::HostFiles;
use inspect::Views;
use labels::Labelling;
pub use lease::Lease;
use lease::Leases;
use links::Links;
pub(crate) use made_for::PluginRun;
use monitors::Monitors;
use network::Connections;
use places::Places;
use planner::Planner;
use recover::Recovery;
use register::Register;
use removal::Removals;
use remove::Remover;
pub(crate) use remove::forget_row;
pub(crate) use shipping::Shipping;
#[cfg(feature = "bundle")]
pub(crate) use spec::rlimit;
use start::Starter;
pub(crate) use start::{Launched, window};
use stats::Sampler;
pub use stats::StatsStream;
pub(crate) use step_mounts::{StepExtras, StepMount, Stub, check_mounts};
use stop::Stopper;
pub(crate) use stop::{PendingStop, RECORDED, StopStep};
use storage::Storage;
use update::Updater;
use volumes::VolumeMounts;
pub(crate) use wait::Stop;
use wait::Waits;

use crate::error::{Error, Result};
use crate::event::Journal;
use crate::image::Images;
use crate::launch::apparmor;
use crate::launch::cgroup::{self, Hierarchies};
use crate::launch::monitor::MonitorProgram;
use crate::launch::seccomp::DefaultFilters;
use crate::launch::selinux;
use crate::network::{Networks, PREDEFINED};
use crate::options::Options;
use crate::plugin::Plugins;
use crate::store::containers::ContainerRow;
use crate::store::identity::Claim;
use crate::store::states::{Now, States};
use crate::store::{Cached, Db, Leftovers};
use crate::time::now_ns;
use crate::volume::Volumes;
use parking_lot::Mutex;
use spec::Spec;
use std::path::PathBuf;
use std::sync::Arc;

/// The parts of an open root that containers share with the rest of the engine.
pub(crate) struct Shared {
    pub db: Arc<Db>,
    pub images: Arc<Images>,
    pub journal: Arc<Journal>,
    pub volumes: Arc<Volumes>,
    pub plugins: Arc<Plugins>,
}

/// All containers of a root: the groups of methods that the engine calls. Each group has the handles that it needs, and
/// knows only groups that are made before it.
pub(crate) struct Containers {
    pub(crate) places: Arc<Places>,
    pub(crate) register: Arc<Register>,
    pub(crate) finder: Arc<Finder>,
    pub(crate) waits: Arc<Waits>,
    pub(crate) freezer: Arc<Freezer>,
    pub(crate) exec_records: Arc<ExecRecords>,
    pub(crate) attach: Arc<Attach>,
    pub(crate) labels: Arc<Labelling>,
    pub(crate) files: Arc<Files>,
    pub(crate) execs: Arc<Execs>,
    pub(crate) starter: Arc<Starter>,
    pub(crate) creator: Arc<Creator>,
    pub(crate) updater: Arc<Updater>,
    pub(crate) stopper: Arc<Stopper>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) views: Arc<Views>,
    pub(crate) remover: Arc<Remover>,
    pub(crate) build_steps: Arc<BuildSteps>,
    pub(crate) copies: Arc<Copies>,
    pub(crate) sampler: Arc<Sampler>,
    pub(crate) explainer: Arc<Explainer>,
    pub(crate) recovery: Arc<Recovery>,
    /// Directories that could not be removed.
    pub(crate) leftovers: Arc<Leftovers>,
    pub(crate) networks: Arc<Networks>,
    pub(crate) shipping: Arc<Shipping>,
    options: Arc<Options>,
}

/// A container at one moment: its row, its spec, its state.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub row: Arc<ContainerRow>,
    /// Shared with other snapshots: changes need a copy.
    pub spec: Arc<Spec>,
    pub now: Now,
}

/// A container's row and its spec.
type Stored = (Arc<ContainerRow>, Arc<Spec>);

impl Snapshot {
    /// The container, if its stored document is whole. Errors: the damage of the document.
    fn whole(self) -> Result<Snapshot> {
        match self.spec.damage.as_str() {
            "" => Ok(self),
            damage => Err(Error::corrupt(damage)),
        }
    }
}

impl Containers {
    /// Opens the containers of a root: makes missing directories, and repairs the consequences of a crash or a reboot.
    /// `lease`: the name of the engine's own lease, with which its containers end.
    pub(crate) fn open(
        root: PathBuf,
        claim: Claim,
        options: Options,
        shared: Shared,
        lease: Option<String>,
    ) -> Result<(Containers, Vec<String>)> {
        let Shared { db, images, journal, volumes, plugins } = shared;
        let run = &claim.run;
        for dir in [root.join("containers"), run.join("c"), run.join("x")] {
            dirs::make(&dir)?;
        }
        let base = dirs::base_layer(&root)?;
        let leases = Leases::open(run)?;
        let states = Arc::new(States::open(&root, run)?);
        let stored = (db.clone(), states.clone(), journal.clone());
        let networks = Arc::new(Networks::open(stored, &root, &claim, &options, plugins.clone()));
        let hierarchies = Hierarchies::detect()?;
        let host = Arc::new(cgroup::HostFacts::probe(&hierarchies));
        let policy = options.selinux.then(selinux::Policy::read).transpose()?;
        let program = MonitorProgram::with_switches(options.switches());
        let (options, leftovers) = (Arc::new(options), Arc::new(Leftovers::default()));
        let places = group!(Places = images; root, claim, base);
        let register =
            group!(Register = places options; db, states, journal, specs: spec_cache::SpecCache::default(), leases);
        let monitors = group!(Monitors = places register);
        let groups = group!(Groups = places; hierarchies, cdi_dirs: options.cdi_dirs.clone());
        let storage = group!(Storage = places);
        let exec_records = group!(ExecRecords = places);
        let crashes = group!(Crashes = register groups networks);
        let removals = group!(Removals = places register monitors groups storage exec_records images leftovers
            networks volumes);
        let finder = group!(Finder = register crashes removals);
        let waits = group!(Waits = register monitors finder);
        let freezer = group!(Freezer = register monitors finder);
        let attach = group!(Attach = places register monitors finder);
        let labels = group!(Labelling = places volumes; policy);
        let confinement = group!(Confinement = labels options; filters: DefaultFilters::default());
        let mounts = group!(VolumeMounts = places register monitors finder labels confinement volumes);
        let files = group!(Files = places register monitors finder freezer confinement mounts images options volumes);
        let links = group!(Links = register finder networks);
        let host_files = group!(HostFiles = places register finder links networks);
        let planner =
            group!(Planner = places register groups finder labels confinement mounts links host networks options);
        let execs = group!(Execs = register monitors exec_records finder planner; swept: Mutex::default());
        let shipping = Arc::new(Shipping::new(&places, &options)?);
        let starter = group!(Starter = places register monitors crashes finder labels confinement mounts links
            host_files planner groups networks options plugins shipping; program);
        let creator =
            group!(Creator = places register storage finder labels mounts links host images options plugins; lease);
        let updater = group!(Updater = register monitors groups finder host);
        let stopper = group!(Stopper = register monitors finder starter networks);
        let connections = group!(Connections = register monitors finder host_files planner networks);
        let views = group!(Views = places register groups finder planner execs images;
            overview: Cached::default());
        let remover = group!(Remover = register monitors removals finder host_files stopper views networks);
        let build_steps = group!(BuildSteps = places register monitors finder files starter waits creator
            remover images);
        let copies = group!(Copies = places register finder freezer);
        let explainer = group!(Explainer = finder planner);
        let sampler = group!(Sampler = groups finder);
        let recovery = group!(Recovery = places register removals finder starter connections build_steps
            networks options);
        let wanted = recovery.recover()?;
        let containers = Containers {
            places,
            register,
            finder,
            waits,
            freezer,
            exec_records,
            attach,
            labels,
            files,
            execs,
            starter,
            creator,
            updater,
            stopper,
            connections,
            views,
            remover,
            build_steps,
            copies,
            sampler,
            explainer,
            recovery,
            leftovers,
            networks,
            shipping,
            options,
        };
        Ok((containers, wanted))
    }

    /// Removes the files of the root, if no other program uses it and it holds nothing; returns whether it did.
    pub(crate) fn discard_root(&self) -> Result<bool> {
        self.places.claim.discard(|| self.register.db.read(|tx| crate::store::is_empty(tx, PREDEFINED.len())))
    }

    /// Whether containers get an AppArmor profile unless they opt out.
    pub(crate) fn are_profiled(&self) -> bool {
        apparmor::for_containers(self.options.apparmor.as_deref())
            .is_some_and(|profile| profile != apparmor::UNCONFINED)
    }

    /// Whether containers get a user namespace unless they opt out.
    pub(crate) fn is_remapped(&self) -> bool {
        self.options.userns_remap.is_some()
    }
}

fn snapshot_of(mut row: Arc<ContainerRow>, spec: Arc<Spec>, now: Now) -> Snapshot {
    if now.lost && row.error.is_empty() {
        Arc::make_mut(&mut row).error = crashes::LOST.into();
    }
    Snapshot { row, spec, now }
}

fn no_such(reference: &str) -> Error {
    Error::not_found(format!("No such container: {reference}"))
}

fn not_running(id: &str) -> Error {
    Error::conflict(format!("Container {id} is not running"))
}
