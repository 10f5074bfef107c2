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
mod health;
mod inspect;
mod labels;
mod links;
pub(crate) mod list;
pub(crate) mod names;
mod network;
mod overview;
mod recover;
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
pub(crate) use remove::forget_row;
#[cfg(feature = "bundle")]
pub(crate) use spec::rlimit;
pub use stats::StatsStream;
pub(crate) use stop::Stop;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Journal;
use crate::image::{ImageUser, Images};
use crate::kernel::process;
use crate::launch::apparmor;
use crate::launch::cgroup::{self, Hierarchies, Live};
use crate::launch::monitor::{Control, MonitorProgram};
use crate::launch::seccomp::DefaultFilters;
use crate::launch::selinux;
use crate::model::Event;
use crate::network::{Networks, PREDEFINED};
use crate::op::Op;
use crate::options::Options;
use crate::store::containers::{self as table, ContainerRow};
use crate::store::identity::Claim;
use crate::store::states::{Busy, Now, States};
use crate::store::{Db, Flush, Kept, Leftovers};
use crate::time::now_ns;
use crate::volume::Volumes;
use coracle_monitor::wire::Status;
use parking_lot::Mutex;
use spec::Spec;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much of the engine's id names its control groups.
const ENGINE_LENGTH: usize = 12;
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
    root: PathBuf,
    /// The root's identity, and its run directory; held as long as this is open.
    claim: Claim,
    options: Options,
    db: Arc<Db>,
    images: Arc<Images>,
    /// The layer below every image's.
    base: PathBuf,
    journal: Arc<Journal>,
    volumes: Arc<Volumes>,
    states: Arc<States>,
    pub(crate) networks: Arc<Networks>,
    program: MonitorProgram,
    hierarchies: Hierarchies,
    host: cgroup::HostFacts,
    /// The words of SELinux's policy about containers; none: they have no labels.
    policy: Option<selinux::Policy>,
    /// Seccomp filters that were compiled already.
    filters: DefaultFilters,
    /// Specs that were parsed already.
    specs: specs::Specs,
    /// The rows that the last list read.
    overview: Kept<overview::Overview>,
    /// When exec instances that ended long ago were looked for last.
    swept: Mutex<Option<Instant>>,
    /// Directories that removals could not remove.
    pub(crate) leftovers: Leftovers,
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
        let handles = (db.clone(), states.clone(), journal.clone());
        let networks = Arc::new(Networks::open(handles, &root, &claim, &options)?);
        let hierarchies = Hierarchies::detect()?;
        let host = cgroup::HostFacts::probe(&hierarchies);
        let policy = options.selinux.then(selinux::Policy::read).transpose()?;
        let program = MonitorProgram::with_switches(options.switches());
        let filters = DefaultFilters::default();
        let all = Containers {
            root,
            claim,
            options,
            db,
            images,
            base,
            journal,
            volumes,
            states,
            networks,
            program,
            hierarchies,
            host,
            policy,
            filters,
            specs: specs::Specs::default(),
            overview: Kept::default(),
            swept: Mutex::default(),
            leftovers: Leftovers::default(),
        };
        all.recover()?;
        Ok(all)
    }

    /// The run directory.
    pub(crate) fn run(&self) -> &Path {
        &self.claim.run
    }

    /// Removes the files of the root, if nobody else uses it and it holds nothing; answers whether.
    pub(crate) fn discard_root(&self) -> Result<bool> {
        self.claim.discard(|| self.db.read(|tx| crate::store::is_empty(tx, PREDEFINED.len())))
    }

    /// The beginning of the engine's id, which names its control groups.
    fn engine(&self) -> &str {
        &self.claim.id[..ENGINE_LENGTH]
    }

    /// The name of a container's control group; `None`: it never ran as one of this engine's, since the root is a copy.
    fn group_name(&self, found: &Found) -> Option<String> {
        let (engine, id) = (found.spec.engine.as_str(), &found.row.id);
        match engine {
            // Whoever made the root named groups so, and a copy of the root has another id.
            "" => self.claim.is_first.then(|| id.clone()),
            _ => (engine == self.engine()).then(|| format!("{engine}-{id}")),
        }
    }

    /// The control groups of a container that runs.
    fn live_groups(&self, found: &Found) -> Result<Live> {
        Live::locate(&self.hierarchies, &found.spec.cgroup_parent, &self.group(found))
    }

    /// The name of the control group that a container has, or will have.
    fn group(&self, found: &Found) -> String {
        self.group_name(found).unwrap_or_else(|| format!("{}-{}", self.engine(), found.row.id))
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
        let found = self.found(self.db.read(|tx| table::find(tx, reference, &mut self.stored()))?)?;
        if !found.now.lost {
            return Ok(found);
        }
        // Whoever works on it now has looked, or will.
        if let Some(_busy) = self.states.try_busy(found.row.slot)? {
            let again = self.again(found.clone())?;
            if again.now.lost {
                self.bury(&again)?;
            }
        }
        self.found(self.db.read(|tx| table::find(tx, &found.row.id, &mut self.stored()))?)
    }

    /// The value that was read of a container's directories without its lock, if the container is still there: a removal
    /// takes the row first.
    fn if_there<T>(&self, found: &Found, read: Result<T>) -> Result<T> {
        match self.db.read(|tx| table::is_there(tx, &found.row.id))? {
            true => read,
            false => Err(no_such(&found.row.id)),
        }
    }

    /// Reads a container whole, or with what can be found of its damaged document, where that lies.
    fn stored(&self) -> impl FnMut(ContainerRow, &str) -> Result<Stored> {
        |row, text| {
            let spec = self.spec_of(&row, text)?;
            Ok((Arc::new(row), spec))
        }
    }

    /// A container with what it does now.
    fn found(&self, (row, spec): Stored) -> Result<Found> {
        let now = self.states.now(row.slot, &row.id)?;
        Ok(found_as(row, spec, now))
    }

    /// A container that was found before, with what it does by now.
    fn again(&self, found: Found) -> Result<Found> {
        self.found((found.row, found.spec))
    }

    /// The spec that a container's row holds as `text`, or what could be found of a damaged one.
    fn spec_of(&self, row: &ContainerRow, text: &str) -> Result<Arc<Spec>> {
        match self.specs.of(&row.id, text) {
            Err(error) if error.kind() == ErrorKind::Corrupt => self.salvaged(row, text, &error).map(Arc::new),
            spec => spec,
        }
    }

    /// The parts that can be found of a damaged spec, and where the container's own would be if it was made as most are.
    fn salvaged(&self, row: &ContainerRow, text: &str, error: &Error) -> Result<Spec> {
        let mut spec = specs::salvage(text);
        let or = |value: &mut String, other: &str| {
            if value.is_empty() {
                other.clone_into(value);
            }
        };
        or(&mut spec.image_id, &row.image_id);
        or(&mut spec.image_name, &row.image_id);
        or(&mut spec.cgroup_parent, &self.options.cgroup_parent);
        or(&mut spec.engine, self.engine());
        spec.host_config = spec.host_config.changed(|host| or(&mut host.log_config.kind, "json-file"))?;
        error.message().clone_into(&mut spec.damage);
        Ok(spec)
    }

    /// Finds a container and takes it for a change: what is answered is of the moment in which it was taken.
    fn take(&self, reference: &str, op: Option<&Op>) -> Result<(Busy, Found)> {
        let (busy, found) = self.take_any(reference, op)?;
        if !auto_remove::is_over(&found) || self.states.is_end_held(found.row.slot)? {
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
        let row = self.db.read(|tx| table::find(tx, reference, &mut |row, _| Ok(row)))?;
        let busy = self.states.busy(row.slot, &row.id, op)?;
        let stored = self.db.read(|tx| table::by_id(tx, &row.id, &mut self.stored()))?;
        let mut found = self.found(stored.ok_or_else(|| no_such(reference))?)?;
        let until = Instant::now() + start::HANDOVER;
        while self.is_arriving(&found)? && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            found = self.again(found)?;
        }
        if found.now.lost {
            self.bury(&found)?;
            found = self.again(found)?;
        }
        Ok((busy, found))
    }

    /// Whether a start is under way whose program was killed: a monitor holds the container, and has not told how it went,
    /// or not written its record yet. (The record of one that is on its way out is its own.)
    fn is_arriving(&self, found: &Found) -> Result<bool> {
        let state = &found.now.state;
        if state.status() == Status::Starting {
            return Ok(!found.now.lost);
        }
        Ok(!found.now.is_live() && self.states.has_monitor(found.row.slot)? && !process::is_monitor(state.monitor_pid))
    }

    /// The containers made from an image, by its id.
    pub(crate) fn of_image(&self, image_id: &str) -> Result<Vec<ImageUser>> {
        let users = self.db.read(|tx| table::of_image(tx, image_id))?;
        users
            .into_iter()
            .map(|(id, slot)| Ok(ImageUser { running: self.states.now(slot, &id)?.is_live(), id }))
            .collect()
    }

    /// Appends an event of a container. Errors: the run directory is full, even after old events were given up.
    fn event(&self, found: &Found, action: &str, extras: &[(&str, &str)]) -> Result<()> {
        self.journal.append(&Self::event_of(found, action, extras)).map(|_| ())
    }

    fn event_of(found: &Found, action: &str, extras: &[(&str, &str)]) -> Event {
        let (row, spec) = (&found.row, &found.spec);
        Event::container(action, &row.id, &spec.image_name, &row.name, &spec.config.labels, extras)
    }

    /// A connection to the container's monitor. Errors: it does not run.
    fn control(&self, found: &Found) -> Result<Control> {
        // Where the directory is gone, the container is removed, or not started since the boot: it is not made here.
        let connected = dirs::open(&self.run_dir(&found.row.id)).and_then(|dir| Control::connect(dir.as_fd()));
        connected.map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::ECONNREFUSED) => self.unheard(found),
            _ => error,
        })
    }

    /// Why nobody listens where a container's monitor should: it has ended, or it cannot be reached.
    fn unheard(&self, found: &Found) -> Error {
        let until = Instant::now() + PARTING;
        loop {
            match self.states.now(found.row.slot, &found.row.id) {
                Ok(now) if now.is_live() && Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                Ok(now) if now.is_live() => return self.out_of_reach(found),
                Ok(_) => return not_running(&found.row.id),
                Err(error) => return error,
            }
        }
    }

    /// Whether the name of the monitor's socket is gone.
    fn is_out_of_reach(&self, found: &Found) -> bool {
        std::fs::symlink_metadata(self.run_dir(&found.row.id).join("ctl")).is_err()
    }

    fn out_of_reach(&self, found: &Found) -> Error {
        let text = format!(
            "container {} runs, but its monitor cannot be reached: nobody listens at {}/ctl any more; the removal of the \
             container by force ends it",
            found.row.id,
            self.run_dir(&found.row.id).display()
        );
        Error::internal(text).in_area("launch")
    }

    fn set_error(&self, found: &Found, text: &str) -> Result<()> {
        if found.row.error == text && !found.now.lost {
            return Ok(());
        }
        self.db.write(Flush::Lazy, |tx| table::set_error(tx, &found.row.id, text))
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
