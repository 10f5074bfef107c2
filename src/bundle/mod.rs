//! Containers from OCI bundles: an entry point for the command in `tests/oci`, by which the validation programs of the
//! OCI runtime tools test the launch path. Not a part of the API.
//!
//! A bundle is started with the plan and the monitor of the engine's containers; it has no engine root, no image and no
//! database. The root file system of the bundle is the upper directory of the overlay, so the container's files end up
//! in the bundle.

pub mod config;
mod plan;

use crate::container::spec::{parse_signal, signal_exists};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Journal;
use crate::kernel::process;
use crate::kernel::remove::remove_tree;
use crate::kernel::tree::open_dir;
use crate::launch::cgroup::{Hierarchies, Live};
use crate::launch::monitor::{Boot, Control, MonitorProgram, StartError, Streams, late, spawn, start};
use crate::launch::plan::compile;
use crate::op::{Ready, wait_fd};
use crate::store::states::States;
use config::Config;
use coracle_monitor::call::Call;
use coracle_monitor::wire::*;
use sha2::{Digest, Sha256};
use std::fs::DirBuilder;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every container has its own root and run directory, and the first slot in it.
const SLOT: u32 = 0;

/// The directories of one bundle's container.
pub struct Place {
    /// A directory for this container only.
    dir: PathBuf,
    /// Like the engine's ids: 64 hex digits.
    id: String,
    /// The container's control group, below that of all.
    cgroup: (String, String),
}

/// The state of a container's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// The pid in the host's view.
    Running(i32),
    /// With its exit code.
    Ended(i32),
}

impl Place {
    /// The place of the container called `name`, whose files are in `dir`. The bundle that it was made from may be gone.
    pub fn new(dir: &Path, name: &str, config: &Config) -> Place {
        let id: String = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        Place { dir: dir.to_owned(), cgroup: plan::cgroup_of(config, &id), id }
    }

    /// Makes the container and runs `starter` in it: a static program whose arguments are the program of the bundle.
    /// `streams` are stdin, stdout and stderr. Returns the pid.
    ///
    /// # Errors
    /// The configuration is wrong or needs a feature that is missing; a step of the launch failed.
    pub fn create(&self, bundle: &Path, config: &Config, starter: &Path, streams: [OwnedFd; 3]) -> Result<i32> {
        let upper = plan::root_of(bundle, config)?;
        // Beside the upper directory, as overlayfs requires.
        let work = upper.with_file_name(format!(".coracle-oci-{}", &self.id[..12]));
        for dir in [&self.root(), &self.run(), &work, &self.lower()] {
            let mut builder = DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(dir);
            made.map_err(|e| Error::io(format_args!("make directory {}", dir.display()), &e))?;
        }
        symlink(&work, self.work()).map_err(|e| Error::io(format_args!("link {}", self.work().display()), &e))?;
        let states = self.states()?;
        let held = states.lock_alive(SLOT)?;
        let lock = held.ok_or_else(|| Error::conflict("the container is there already"))?;
        let program = MonitorProgram::default();
        let waiting = spawn(&program, false)?;
        let host = Hierarchies::detect()?;
        let made = plan::Made { place: self, bundle, upper, work, config, starter, host: &host };
        let (container, namespaces) = made.container()?;
        let journal = Journal::open(&self.run())?.appender()?;
        let (run_dir, root_dir) = (open_dir(&self.run())?, open_dir(&self.root())?);
        let boot = Boot {
            run_dir: run_dir.as_fd(),
            container_dir: root_dir.as_fd(),
            events: journal.as_fd(),
            run_states: states.run_fd(),
            root_states: states.root_fd(),
            lock,
            namespaces,
            volumes: Vec::new(),
            sessions: vec![Streams { mask: SESSION_STREAMS | SESSION_STREAMS << SESSION_DIRECT, fds: streams.into() }],
            boot_id: states.boot_id(),
            lease: None,
        };
        start(waiting, &compile(&container), boot).map_err(|failed| match failed {
            StartError::Engine(error) | StartError::Unheard(error) => error,
            StartError::Late => late(),
            StartError::Step(failure, step) => Error::os(&step.description, failure.errno),
        })
    }

    /// The container's state now.
    pub fn now(&self) -> Result<Now> {
        let now = self.states()?.now(SLOT, &self.id)?;
        Ok(match now.is_live() {
            true => Now::Running(now.state.pid),
            false => Now::Ended(now.state.exit_code),
        })
    }

    /// Sends a signal to the container's first process, by its monitor. Errors: the container does not run.
    pub fn signal(&self, signal: i32) -> Result<()> {
        let run_dir = open_dir(&self.run())?;
        let control = Control::connect(run_dir.as_fd())?;
        control.ask(Call::Signal { signal: signal as u32, by_hand: true }, None).map(drop)
    }

    /// Removes everything that [`Place::create`] made. Errors: the container's process still exists.
    pub fn remove(&self) -> Result<()> {
        let now = self.states()?.now(SLOT, &self.id)?;
        if now.is_live() {
            return Err(Error::conflict("the container is not stopped"));
        }
        // The monitor may not have released the root file system yet.
        if let Some(monitor) = process::monitor(now.state.monitor_pid)
            && !wait_fd(monitor.as_fd(), Ready::Read, Some(Duration::from_secs(5)), None)?
        {
            return Err(Error::new(ErrorKind::Timeout, "the container's monitor does not end"));
        }
        Live::locate(&Hierarchies::detect()?, &self.cgroup.0, &self.cgroup.1)?.remove()?;
        // Missing if the bundle was removed, or the creation failed earlier.
        let work = std::fs::read_link(self.work()).unwrap_or_else(|_| self.work());
        for dir in [&work, &self.dir] {
            if let (Some(parent), Some(name)) = (dir.parent(), dir.file_name())
                && parent.exists()
            {
                remove_tree(open_dir(parent)?.as_fd(), name.as_bytes())?;
            }
        }
        Ok(())
    }

    fn states(&self) -> Result<States> {
        States::open(&self.root(), &self.run())
    }

    fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    fn run(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// An empty directory below the root file system.
    fn lower(&self) -> PathBuf {
        self.dir.join("lower")
    }

    /// A link to the overlay's working directory.
    fn work(&self) -> PathBuf {
        self.dir.join("work")
    }
}

/// A signal by number or name. Errors: Linux has no such signal.
pub fn signal_number(text: &str) -> Result<i32> {
    let number = parse_signal(text)?;
    signal_exists(number).then_some(number).ok_or_else(|| Error::invalid(format!("Invalid signal: {text}")))
}
