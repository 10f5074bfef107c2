//! Containers: request → spec ([`spec`]), and their life: create, start, stop, exec, attach, inspect, remove.
//!
//! The store holds what a container *is* (a row with its spec, a slot); what it *does* is its monitor's state record
//! ([`crate::store::states`]). An operation that changes a container holds its slot's busy lock; nothing slow is done
//! under a lock that concerns more than one container.

mod archive;
mod attach;
mod auto_remove;
mod build;
mod copy;
mod create;
mod dirs;
mod exec;
mod failure;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod groups;
mod health;
mod inspect;
mod labels;
mod links;
pub(crate) mod list;
mod monitors;
pub(crate) mod names;
mod network;
mod overview;
mod places;
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
pub(crate) mod text;
mod top;
mod update;
mod volumes;

pub use archive::Archive;
pub(crate) use archive::walk::Wanted;
pub(crate) use archive::{Differences, extract};
pub use attach::Io;
pub(crate) use attach::{Connected, Ends, Parked, check_direct, no_terminal};
pub(crate) use auto_remove::Fate;
pub(crate) use copy::{CopiedFiles, copy_place};
pub(crate) use exec::RunningExec;
use groups::Groups;
use monitors::Monitors;
use places::Places;
use register::Register;
pub(crate) use remove::forget_row;
#[cfg(feature = "bundle")]
pub(crate) use spec::rlimit;
pub use stats::StatsStream;
pub(crate) use stop::Stop;

use crate::error::{Error, Result};
use crate::event::Journal;
use crate::image::Images;
use crate::launch::apparmor;
use crate::launch::cgroup::{self, Hierarchies};
use crate::launch::monitor::MonitorProgram;
use crate::launch::seccomp::DefaultFilters;
use crate::launch::selinux;
use crate::network::{Networks, PREDEFINED};
use crate::op::Op;
use crate::options::Options;
use crate::store::containers::{self as table, ContainerRow};
use crate::store::identity::Claim;
use crate::store::states::{Busy, Now, States};
use crate::store::{Db, Kept, Leftovers};
use crate::time::now_ns;
use crate::volume::Volumes;
use parking_lot::Mutex;
use spec::Spec;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    program: MonitorProgram,
    /// The words of SELinux's policy about containers; none: they have no labels.
    policy: Option<selinux::Policy>,
    /// Seccomp filters that were compiled already.
    filters: DefaultFilters,
    /// The rows that the last list read.
    overview: Kept<overview::Overview>,
    /// When exec instances that ended long ago were looked for last.
    swept: Mutex<Option<Instant>>,
    host: Arc<cgroup::HostFacts>,
    images: Arc<Images>,
    /// Directories that removals could not remove.
    pub(crate) leftovers: Arc<Leftovers>,
    pub(crate) networks: Arc<Networks>,
    options: Arc<Options>,
    volumes: Arc<Volumes>,
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
        let all = Containers {
            places,
            register,
            monitors,
            groups,
            program,
            policy,
            filters: DefaultFilters::default(),
            overview: Kept::default(),
            swept: Mutex::default(),
            host,
            images,
            leftovers,
            networks,
            options,
            volumes,
        };
        all.recover()?;
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

    /// Finds a container as people name it.
    pub(crate) fn find(&self, reference: &str) -> Result<Found> {
        self.find_any(reference)?.whole()
    }

    /// The same, also of one whose stored document is damaged.
    fn find_any(&self, reference: &str) -> Result<Found> {
        let found = self.found_settled(reference)?;
        match self.is_gone_by_now(&found) {
            true => Err(no_such(reference)),
            false => Ok(found),
        }
    }

    /// The same, with its end recorded if nobody else did.
    fn found_settled(&self, reference: &str) -> Result<Found> {
        let found = self
            .register
            .found(self.register.db.read(|tx| table::find(tx, reference, &mut self.register.stored()))?)?;
        if !found.now.lost {
            return Ok(found);
        }
        // Whoever works on it now has looked, or will.
        if let Some(_busy) = self.register.states.try_busy(found.row.slot)? {
            let again = self.register.again(found.clone())?;
            if again.now.lost {
                self.bury(&again)?;
            }
        }
        self.register.found(self.register.db.read(|tx| table::find(tx, &found.row.id, &mut self.register.stored()))?)
    }

    /// Finds a container and takes it for a change: what is answered is of the moment in which it was taken.
    fn take(&self, reference: &str, op: Option<&Op>) -> Result<(Busy, Found)> {
        let (busy, found) = self.take_any(reference, op)?;
        if !auto_remove::is_over(&found) || self.register.states.is_end_held(found.row.slot)? {
            return Ok((busy, found.whole()?));
        }
        drop(busy);
        if self.is_gone_by_now(&found) {
            return Err(no_such(reference));
        }
        let (busy, found) = self.take_any(&found.row.id, op)?;
        Ok((busy, found.whole()?))
    }

    /// The same, also of one that has ended and is to be removed for it, and of one whose stored document is damaged.
    fn take_any(&self, reference: &str, op: Option<&Op>) -> Result<(Busy, Found)> {
        let row = self.register.db.read(|tx| table::find(tx, reference, &mut |row, _| Ok(row)))?;
        let busy = self.register.states.busy(row.slot, &row.id, op)?;
        let stored = self.register.db.read(|tx| table::by_id(tx, &row.id, &mut self.register.stored()))?;
        let mut found = self.register.found(stored.ok_or_else(|| no_such(reference))?)?;
        let until = Instant::now() + start::HANDOVER;
        while self.register.is_arriving(&found)? && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            found = self.register.again(found)?;
        }
        if found.now.lost {
            self.bury(&found)?;
            found = self.register.again(found)?;
        }
        Ok((busy, found))
    }
}

fn found_as(mut row: Arc<ContainerRow>, spec: Arc<Spec>, now: Now) -> Found {
    if now.lost && row.error.is_empty() {
        Arc::make_mut(&mut row).error = recover::LOST.into();
    }
    Found { row, spec, now }
}

fn no_such(reference: &str) -> Error {
    Error::not_found(format!("No such container: {reference}"))
}

fn not_running(id: &str) -> Error {
    Error::conflict(format!("Container {id} is not running"))
}
