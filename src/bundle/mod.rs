//! Containers from OCI bundles: a door for the command in `tests/oci`, with which the launch path stands the validation
//! programs of the OCI runtime tools. No part of the API.
//!
//! A bundle is started by the very plan and monitor that the engine's containers have; there is no engine root, no image
//! and no database. The root file system of the bundle is the upper directory of the overlay, so that what the container
//! writes is in the bundle.

pub mod config;
mod plan;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Journal;
use crate::kernel::process;
use crate::launch::cgroup::{Hierarchies, Live};
use crate::launch::monitor::{Boot, Control, MonitorProgram, StartError, Streams, request, spawn, start};
use crate::launch::plan::compile;
use crate::op::{Ready, wait_fd};
use crate::store::states::States;
use config::Config;
use coracle_monitor::wire::*;
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every container has a root and a run directory of its own: it is in the first slot.
const SLOT: u32 = 0;

/// What there is of one container of a bundle.
pub struct Place {
    /// A directory for nothing else.
    dir: PathBuf,
    /// As the engine's ids: 64 hex digits.
    id: String,
    /// Its control group, below that of all.
    cgroup: (String, String),
    /// Beside the upper directory, as overlays want it.
    work: PathBuf,
}

/// Whether a container's process is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// With its pid, as the host sees it.
    Running(i32),
    /// With its exit code.
    Ended(i32),
}

impl Place {
    /// That of the container called `name`, with `dir` for its files. Errors: the bundle has no root file system, or a
    /// `cgroupsPath` that cannot be.
    pub fn new(dir: &Path, name: &str, bundle: &Path, config: &Config) -> Result<Place> {
        let id: String = Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let root = plan::root_of(bundle, config)?;
        let work = root.with_file_name(format!(".coracle-oci-{}", &id[..12]));
        Ok(Place { dir: dir.to_owned(), cgroup: plan::cgroup_of(config, &id), id, work })
    }

    /// Makes the container, in which `starter` runs: a static program, which gets the program of the bundle as its
    /// arguments. `streams` are stdin, stdout and stderr. Answers the pid.
    ///
    /// # Errors
    /// What the configuration asks for is wrong or not to be had; a step of the launch failed.
    pub fn create(&self, bundle: &Path, config: &Config, starter: &Path, streams: [OwnedFd; 3]) -> Result<i32> {
        for dir in [self.root(), self.run(), self.work.clone(), self.dir.join("lower")] {
            let mut builder = DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(&dir);
            made.map_err(|e| Error::io(format_args!("make directory {}", dir.display()), &e))?;
        }
        let states = self.states()?;
        let held = states.lock_alive(SLOT)?;
        let lock = held.ok_or_else(|| Error::conflict("the container is there already"))?;
        let program = MonitorProgram::default();
        let waiting = spawn(&program)?;
        let host = Hierarchies::detect()?;
        let made = plan::Made { place: self, bundle, config, starter, host: &host };
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
            sessions: vec![Streams { mask: SESSION_STREAMS | SESSION_STREAMS << SESSION_DIRECT, fds: streams.into() }],
            boot_id: states.boot_id(),
        };
        start(waiting, &compile(&container), boot).map_err(|failed| match failed {
            StartError::Engine(error) => error,
            StartError::Step(failure, sentence) => Error::os(&sentence, failure.errno),
        })
    }

    /// What became of it.
    pub fn now(&self) -> Result<Now> {
        let now = self.states()?.now(SLOT, &self.id)?;
        Ok(match now.is_live() {
            true => Now::Running(now.state.pid),
            false => Now::Ended(now.state.exit_code),
        })
    }

    /// Sends a signal to its first process, by its monitor.
    pub fn signal(&self, signal: i32) -> Result<()> {
        let run_dir = open_dir(&self.run())?;
        let control = Control::connect(run_dir.as_fd())?;
        control.ask(Request { a: signal as u32, b: 1, ..request(DO_SIGNAL) }, None).map(drop)
    }

    /// Takes away everything that [`Place::create`] made. Errors: its process is there.
    pub fn remove(&self) -> Result<()> {
        let now = self.states()?.now(SLOT, &self.id)?;
        if now.is_live() {
            return Err(Error::conflict("the container is not stopped"));
        }
        // The monitor may not have let the root file system go yet.
        if let Ok(monitor) = process::pidfd(now.state.monitor_pid)
            && process::name(now.state.monitor_pid).is_some_and(|name| name == "coracle-monitor")
            && !wait_fd(monitor.as_fd(), Ready::Read, Some(Duration::from_secs(5)), None)?
        {
            return Err(Error::new(ErrorKind::Timeout, "the container's monitor does not end"));
        }
        Live::locate(&Hierarchies::detect()?, &self.cgroup.0, &self.cgroup.1)?.remove()?;
        for dir in [&self.work, &self.dir] {
            std::fs::remove_dir_all(dir).map_err(|e| Error::io(format_args!("remove {}", dir.display()), &e))?;
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
}

fn open_dir(dir: &Path) -> Result<File> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(dir);
    opened.map_err(|e| Error::io(format_args!("open {}", dir.display()), &e))
}
