//! Containers: request → spec ([`spec`]), and their life: create, start, stop, exec, attach, inspect, remove.
//!
//! The store holds what a container *is* (a row with its spec, a slot); what it *does* is its monitor's state record
//! ([`crate::store::states`]). An operation that changes a container holds its slot's busy lock; nothing slow is done
//! under a lock that concerns more than one container.

mod archive;
mod attach;
mod auto_remove;
mod build;
mod confinement;
mod copy;
mod crashes;
mod create;
mod dirs;
mod exec;
mod exec_records;
mod failure;
mod finder;
mod freeze;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod groups;
mod health;
mod host_files;
mod inspect;
mod labels;
mod links;
pub(crate) mod list;
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
pub(crate) mod spec;
mod specs;
mod start;
mod state;
mod stats;
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
use build::BuildSteps;
use confinement::Confinement;
use copy::Copies;
pub(crate) use copy::{CopiedFiles, copy_place};
use crashes::Crashes;
use create::Creator;
use exec::Execs;
pub(crate) use exec::RunningExec;
use exec_records::ExecRecords;
use finder::Finder;
use freeze::Freezer;
use groups::Groups;
use host_files::HostFiles;
use inspect::Views;
use labels::Labelling;
use links::Links;
use monitors::Monitors;
use network::Connections;
use places::Places;
use planner::Planner;
use recover::Recovery;
use register::Register;
use removal::Removals;
use remove::Remover;
pub(crate) use remove::forget_row;
#[cfg(feature = "bundle")]
pub(crate) use spec::rlimit;
use start::Starter;
use stats::Sampler;
pub use stats::StatsStream;
use stop::Stopper;
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
use crate::store::containers::ContainerRow;
use crate::store::identity::Claim;
use crate::store::states::{Now, States};
use crate::store::{Db, Kept, Leftovers};
use crate::time::now_ns;
use crate::volume::Volumes;
use parking_lot::Mutex;
use spec::Spec;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long a monitor that nobody can reach any more may take until its end is recorded.
const PARTING: Duration = Duration::from_secs(2);

/// The parts of an open root that containers share with the engine.
pub(crate) struct Shared {
    pub db: Arc<Db>,
    pub images: Arc<Images>,
    pub journal: Arc<Journal>,
    pub volumes: Arc<Volumes>,
}

/// All containers of a root.
pub(crate) struct Containers {
    pub(crate) places: Arc<Places>,
    pub(crate) register: Arc<Register>,
    pub(crate) monitors: Arc<Monitors>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) storage: Arc<Storage>,
    pub(crate) exec_records: Arc<ExecRecords>,
    pub(crate) crashes: Arc<Crashes>,
    pub(crate) removals: Arc<Removals>,
    pub(crate) finder: Arc<Finder>,
    pub(crate) waits: Arc<Waits>,
    pub(crate) freezer: Arc<Freezer>,
    pub(crate) attach: Arc<Attach>,
    pub(crate) labels: Arc<Labelling>,
    pub(crate) confinement: Arc<Confinement>,
    pub(crate) mounts: Arc<VolumeMounts>,
    pub(crate) files: Arc<Files>,
    pub(crate) links: Arc<Links>,
    pub(crate) host_files: Arc<HostFiles>,
    pub(crate) planner: Arc<Planner>,
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
    pub(crate) recovery: Arc<Recovery>,
    /// Directories that removals could not remove.
    pub(crate) leftovers: Arc<Leftovers>,
    pub(crate) networks: Arc<Networks>,
    options: Arc<Options>,
}

/// A container as found: its row, its spec, what it does now.
#[derive(Clone)]
pub(crate) struct Found {
    pub row: Arc<ContainerRow>,
    /// Shared with the others that found it: to be changed as a copy.
    pub spec: Arc<Spec>,
    pub now: Now,
}

/// A container's row and its spec.
type Stored = (Arc<ContainerRow>, Arc<Spec>);

impl Found {
    /// The container, if its stored document is whole. Errors: what is wrong with it.
    fn whole(self) -> Result<Found> {
        match self.spec.damage.as_str() {
            "" => Ok(self),
            damage => Err(Error::corrupt(damage)),
        }
    }
}

impl Containers {
    /// Opens the containers of a root: makes what is missing, and puts right what a crash or a reboot left.
    pub(crate) fn open(root: PathBuf, claim: Claim, options: Options, shared: Shared) -> Result<Containers> {
        let Shared { db, images, journal, volumes } = shared;
        let run = &claim.run;
        for dir in [root.join("containers"), run.join("c"), run.join("x")] {
            dirs::make(&dir)?;
        }
        let base = dirs::base_layer(&root)?;
        let states = Arc::new(States::open(&root, run)?);
        let stored = (db.clone(), states.clone(), journal.clone());
        let networks = Arc::new(Networks::open(stored, &root, &claim, &options)?);
        let hierarchies = Hierarchies::detect()?;
        let host = Arc::new(cgroup::HostFacts::probe(&hierarchies));
        let policy = options.selinux.then(selinux::Policy::read).transpose()?;
        let program = MonitorProgram::with_switches(options.switches());
        let (options, leftovers) = (Arc::new(options), Arc::new(Leftovers::default()));
        let places = Arc::new(Places { root, claim, base, images: images.clone() });
        let register = Arc::new(Register {
            db,
            states,
            journal,
            specs: specs::Specs::default(),
            places: places.clone(),
            options: options.clone(),
        });
        let monitors = Arc::new(Monitors { places: places.clone(), register: register.clone() });
        let groups = Arc::new(Groups { hierarchies, places: places.clone() });
        let storage = Arc::new(Storage { places: places.clone() });
        let exec_records = Arc::new(ExecRecords { places: places.clone() });
        let crashes =
            Arc::new(Crashes { register: register.clone(), groups: groups.clone(), networks: networks.clone() });
        let removals = Arc::new(Removals {
            places: places.clone(),
            register: register.clone(),
            monitors: monitors.clone(),
            groups: groups.clone(),
            storage: storage.clone(),
            exec_records: exec_records.clone(),
            images: images.clone(),
            leftovers: leftovers.clone(),
            networks: networks.clone(),
            volumes: volumes.clone(),
        });
        let finder =
            Arc::new(Finder { register: register.clone(), crashes: crashes.clone(), removals: removals.clone() });
        let waits = Arc::new(Waits { register: register.clone(), monitors: monitors.clone(), finder: finder.clone() });
        let freezer =
            Arc::new(Freezer { register: register.clone(), monitors: monitors.clone(), finder: finder.clone() });
        let attach = Arc::new(Attach {
            places: places.clone(),
            register: register.clone(),
            monitors: monitors.clone(),
            finder: finder.clone(),
        });
        let labels = Arc::new(Labelling { policy, places: places.clone(), volumes: volumes.clone() });
        let confinement = Arc::new(Confinement {
            filters: DefaultFilters::default(),
            labels: labels.clone(),
            options: options.clone(),
        });
        let mounts = Arc::new(VolumeMounts {
            places: places.clone(),
            register: register.clone(),
            monitors: monitors.clone(),
            finder: finder.clone(),
            labels: labels.clone(),
            confinement: confinement.clone(),
            volumes: volumes.clone(),
        });
        let files = Arc::new(Files {
            places: places.clone(),
            register: register.clone(),
            monitors: monitors.clone(),
            finder: finder.clone(),
            freezer: freezer.clone(),
            confinement: confinement.clone(),
            mounts: mounts.clone(),
            images: images.clone(),
            options: options.clone(),
            volumes: volumes.clone(),
        });
        let links = Arc::new(Links { register: register.clone(), finder: finder.clone(), networks: networks.clone() });
        let host_files = Arc::new(HostFiles {
            places: places.clone(),
            register: register.clone(),
            finder: finder.clone(),
            links: links.clone(),
            networks: networks.clone(),
        });
        let planner = Arc::new(Planner {
            places: places.clone(),
            register: register.clone(),
            groups: groups.clone(),
            finder: finder.clone(),
            labels: labels.clone(),
            confinement: confinement.clone(),
            mounts: mounts.clone(),
            links: links.clone(),
            host: host.clone(),
            networks: networks.clone(),
        });
        let execs = Arc::new(Execs {
            swept: Mutex::default(),
            register: register.clone(),
            monitors: monitors.clone(),
            exec_records: exec_records.clone(),
            finder: finder.clone(),
            planner: planner.clone(),
        });
        let starter = Arc::new(Starter {
            program,
            places: places.clone(),
            register: register.clone(),
            monitors: monitors.clone(),
            crashes: crashes.clone(),
            finder: finder.clone(),
            labels: labels.clone(),
            confinement: confinement.clone(),
            mounts: mounts.clone(),
            links: links.clone(),
            host_files: host_files.clone(),
            planner: planner.clone(),
            networks: networks.clone(),
            options: options.clone(),
        });
        let creator = Arc::new(Creator {
            places: places.clone(),
            register: register.clone(),
            storage: storage.clone(),
            finder: finder.clone(),
            labels: labels.clone(),
            mounts: mounts.clone(),
            links: links.clone(),
            host: host.clone(),
            images: images.clone(),
            options: options.clone(),
        });
        let updater = Arc::new(Updater {
            register: register.clone(),
            monitors: monitors.clone(),
            groups: groups.clone(),
            finder: finder.clone(),
            host: host.clone(),
        });
        let stopper = Arc::new(Stopper {
            register: register.clone(),
            monitors: monitors.clone(),
            finder: finder.clone(),
            starter: starter.clone(),
            networks: networks.clone(),
        });
        let connections = Arc::new(Connections {
            register: register.clone(),
            monitors: monitors.clone(),
            finder: finder.clone(),
            host_files: host_files.clone(),
            planner: planner.clone(),
            networks: networks.clone(),
        });
        let views = Arc::new(Views {
            overview: Kept::default(),
            places: places.clone(),
            register: register.clone(),
            groups: groups.clone(),
            finder: finder.clone(),
            links: links.clone(),
            planner: planner.clone(),
            execs: execs.clone(),
            images: images.clone(),
            networks: networks.clone(),
        });
        let remover = Arc::new(Remover {
            register: register.clone(),
            monitors: monitors.clone(),
            removals: removals.clone(),
            finder: finder.clone(),
            host_files: host_files.clone(),
            stopper: stopper.clone(),
            views: views.clone(),
            networks: networks.clone(),
        });
        let build_steps = Arc::new(BuildSteps {
            places: places.clone(),
            register: register.clone(),
            monitors: monitors.clone(),
            finder: finder.clone(),
            files: files.clone(),
            starter: starter.clone(),
            waits: waits.clone(),
            creator: creator.clone(),
            remover: remover.clone(),
            images: images.clone(),
        });
        let copies = Arc::new(Copies {
            places: places.clone(),
            register: register.clone(),
            finder: finder.clone(),
            freezer: freezer.clone(),
        });
        let sampler = Arc::new(Sampler { groups: groups.clone(), finder: finder.clone() });
        let recovery = Arc::new(Recovery {
            places: places.clone(),
            register: register.clone(),
            removals: removals.clone(),
            finder: finder.clone(),
            starter: starter.clone(),
            connections: connections.clone(),
            build_steps: build_steps.clone(),
            networks: networks.clone(),
            options: options.clone(),
        });
        let all = Containers {
            places,
            register,
            monitors,
            groups,
            storage,
            exec_records,
            crashes,
            removals,
            finder,
            waits,
            freezer,
            attach,
            labels,
            confinement,
            mounts,
            files,
            links,
            host_files,
            planner,
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
            recovery,
            leftovers,
            networks,
            options,
        };
        all.recovery.recover()?;
        Ok(all)
    }

    /// Removes the files of the root, if nobody else uses it and it holds nothing; answers whether.
    pub(crate) fn discard_root(&self) -> Result<bool> {
        self.places.claim.discard(|| self.register.db.read(|tx| crate::store::is_empty(tx, PREDEFINED.len())))
    }

    /// Whether containers are in a user namespace unless they ask not to be.
    pub(crate) fn are_profiled(&self) -> bool {
        apparmor::for_containers(self.options.apparmor.as_deref())
            .is_some_and(|profile| profile != apparmor::UNCONFINED)
    }

    pub(crate) fn is_remapped(&self) -> bool {
        self.options.userns_remap.is_some()
    }
}

fn found_as(mut row: Arc<ContainerRow>, spec: Arc<Spec>, now: Now) -> Found {
    if now.lost && row.error.is_empty() {
        Arc::make_mut(&mut row).error = crashes::LOST.into();
    }
    Found { row, spec, now }
}

fn no_such(reference: &str) -> Error {
    Error::not_found(format!("No such container: {reference}"))
}

fn not_running(id: &str) -> Error {
    Error::conflict(format!("Container {id} is not running"))
}
