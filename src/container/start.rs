//! Starting a container: spec → plan → monitor.

use super::attach::parked_sessions;
use super::failure::{self, StartFailure};
use super::network::endpoint_requests;
use super::network::{Mode, mode};
use super::planner::{INIT, has_init};
use super::spec::{self, Spec, Users};
use super::state::{Verb, Way, decide};
use super::step_mounts::StepExtras;
use super::{
    Beginning, Confinement, Crashes, Finder, Groups, HostFiles, Labelling, Links, Monitors, Places, Planner, Register,
    Run, Shipping, Snapshot, VolumeMounts, delivery, dirs,
};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{probe, process};
use crate::launch::monitor::{Boot, Failure, MonitorProgram, START_LIMIT, StartError, Streams, late, spawn, start};
use crate::launch::plan::{self};
use crate::launch::{apparmor, selinux};
use crate::network;
use crate::network::{JoinedEndpoints, Joining, Networks};
use crate::notes::{LogLevel, note, note_since};
use crate::op::Changed;
use crate::op::{Op, Ready, wait_fd};
use crate::options::Options;
use crate::plugin::Plugins;
use crate::store::states::{STATE_AFTER_BOOT, State, id_head};
use crate::store::{Flush, containers as table};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a start waits for a monitor that has recorded its container's end and is about to exit.
pub(super) const HANDOVER: Duration = Duration::from_secs(5);

/// The requests of one start.
pub(super) struct Begin {
    /// The session that is attached before the process runs.
    pub(super) session: Option<Streams>,
    /// Rows and columns of the terminal.
    pub(super) size: (u16, u16),
    pub(super) step: StepExtras,
}

/// The result of a request to start a container.
pub(crate) struct Launched {
    pub(crate) changed: Changed,
    /// The container before.
    pub(crate) found: Snapshot,
    /// Where the session begins that was attached.
    pub(crate) beginning: Option<Beginning>,
}

/// Starts containers.
pub(crate) struct Starter {
    pub(super) program: MonitorProgram,
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) crashes: Arc<Crashes>,
    pub(super) finder: Arc<Finder>,
    pub(super) labels: Arc<Labelling>,
    pub(super) confinement: Arc<Confinement>,
    pub(super) mounts: Arc<VolumeMounts>,
    pub(super) links: Arc<Links>,
    pub(super) host_files: Arc<HostFiles>,
    pub(super) planner: Arc<Planner>,
    pub(super) groups: Arc<Groups>,
    pub(super) networks: Arc<Networks>,
    pub(super) options: Arc<Options>,
    pub(super) shipping: Arc<Shipping>,
    pub(super) plugins: Arc<Plugins>,
}

impl Starter {
    /// Starts a container. `session` is attached before its process runs, as are the clients that wait for its start.
    pub(crate) fn start(
        &self,
        reference: &str,
        session: Option<Streams>,
        size: (u16, u16),
        op: Option<&Op>,
    ) -> Result<Launched> {
        self.start_with(reference, Begin { session, size, step: StepExtras::default() }, op)
    }

    /// As [`Starter::start`], of a step of a build, which has more than its container's spec says.
    pub(super) fn start_with(&self, reference: &str, begin: Begin, op: Option<&Op>) -> Result<Launched> {
        let (busy, found) = self.finder.lock(reference, op)?;
        if decide(Verb::Start, &found)? == Way::Nothing {
            return Ok(Launched { changed: Changed::No, found, beginning: None });
        }
        let mut beginning = None;
        if begin.session.is_some() {
            self.register.event(&found, "attach", &[])?;
            beginning = Some(Beginning::of_next(&self.register.journal, &found)?);
        }
        let started = self.start_taken(&found, begin);
        if let Some(beginning) = &mut beginning {
            beginning.run = self.first_run(&found);
        }
        drop(busy);
        if started.is_err() && found.spec.host_config.auto_remove {
            // A failed start counts as an end. The next look removes the container otherwise.
            let _ = self.finder.reap_soon(&found.row);
        }
        started.map(|()| Launched { changed: Changed::Yes, found, beginning })
    }

    /// The run that began with a start, as long as the container's lock is held: no other program starts the container meanwhile.
    /// `None`: the restart policy has begun another run already, or the container is gone.
    fn first_run(&self, before: &Snapshot) -> Option<Run> {
        let now = self.register.states.now(before.row.slot, &before.row.id).ok()?;
        let is_first = now.state.restarts == 0 && now.state.started_ns != before.now.state.started_ns;
        Run::of(&now).filter(|_| is_first)
    }

    /// Starts a container that waits for its start after a boot. Its flag goes first, under the container's lock: an engine that opens
    /// the root beside this one, and the next open, find the start done, however it ends.
    pub(super) fn start_after_boot(&self, id: &str) -> Result<()> {
        let (_busy, mut found) = self.finder.lock(id, None)?;
        if found.now.state.flags & STATE_AFTER_BOOT == 0 {
            return Ok(());
        }
        found.now.state.flags &= !STATE_AFTER_BOOT;
        let state = State { id: id_head(&found.row.id), ..found.now.state };
        self.register.states.write(found.row.slot, state)?;
        if decide(Verb::Start, &found)? == Way::Nothing {
            return Ok(());
        }
        note(LogLevel::Info, "container", Some(id), || "start after the boot, by its restart policy".into());
        self.start_taken(&found, Begin { session: None, size: (0, 0), step: StepExtras::default() })
    }

    /// Starts a stopped container whose lock is held.
    fn start_taken(&self, found: &Snapshot, begin: Begin) -> Result<()> {
        let started = self.try_start(found, begin);
        match started {
            Ok(()) => {
                self.shipping.after_start(found);
                self.register.set_error(found, "")
            }
            Err(StartFailure { error, exit_code: code, failure }) => {
                // The end of their streams shows waiting clients that the start failed.
                let _ = parked_sessions(&self.places, &found.row.id);
                let state = State { exit_code: code, failure, ..found.now.state };
                self.register.states.write(found.row.slot, State { id: id_head(&found.row.id), ..state })?;
                self.register.set_error(found, error.message())?;
                // As engine 1.12 did: clients remove the container after this event.
                self.register.event(found, "die", &[("exitCode", &code.to_string())])?;
                Err(error)
            }
        }
    }

    fn try_start(&self, found: &Snapshot, begin: Begin) -> std::result::Result<(), StartFailure> {
        let lock = self.monitors.lock_alive(found)?;
        self.register.leases.reader(found.spec.lease.as_ref())?;
        let found = &self.decide(found)?;
        self.links.check_links(found)?;
        self.monitors.let_go_of_root(found)?;
        self.labels.relabel_sources(found)?;
        let began = Instant::now();
        let mut networks = self.join_networks(found)?;
        let id = Some(found.row.id.as_str());
        note_since(LogLevel::Debug, "network", id, began, || format!("on {} networks", networks.endpoints.len()));
        let started = self.start_on(found, begin, lock, &mut networks);
        if started.is_err() {
            // Best effort: the next call that finds the container dead repeats it.
            let _ = self.networks.endpoints.detach(&found.row.id, &networks);
        } else {
            self.host_files.rewrite_parents(&found.row.id);
        }
        started
    }

    /// The container with its user namespace, AppArmor profile, SELinux label and control group's name decided.
    /// Requests that conflict with the user namespace are dropped.
    fn decide(&self, found: &Snapshot) -> Result<Snapshot> {
        let mut found = found.clone();
        let default = apparmor::for_containers(self.options.apparmor.as_deref());
        let profile = spec::apparmor(&found.spec.host_config, default)?;
        if profile == apparmor::DEFAULT {
            apparmor::load_default()?;
        }
        let old = &found.spec;
        if !old.process_label.is_empty() && !selinux::is_on() {
            return Err(Error::unsupported(format!(
                "the container has the SELinux label {}, and this host's kernel has no SELinux",
                old.process_label
            )));
        }
        let unlabelled = self.labels.are_labelled() && old.mount_label.is_empty();
        if old.users == Users::Undecided || old.engine != self.places.engine() || old.apparmor != profile || unlabelled
        {
            let users = match old.users {
                Users::Undecided => Users::of(old.host_config.modes().userns, self.options.userns_remap),
                decided => decided,
            };
            let mut spec =
                Spec { users, engine: self.places.engine().to_owned(), apparmor: profile, ..Spec::clone(old) };
            spec = self.register.db.write(Flush::Durable, |tx| {
                let labels = if unlabelled { self.labels.new_labels(tx, &spec.host_config)? } else { None };
                if let Some(labels) = labels {
                    self.labels.keep_level(tx, &found.row.id, &labels)?;
                    spec = spec.with_labels(&labels);
                }
                let text = serde_json::to_string(&spec).map_err(|e| Error::internal(format!("write a spec: {e}")))?;
                table::set_spec(tx, &found.row.id, &text).map(|()| spec)
            })?;
            found.spec = spec.into();
        }
        let host = &found.spec.host_config;
        spec::users_fit(host.privileged, host.modes(), found.spec.users)?;
        Ok(found)
    }

    /// Starts the container on networks on which it has its addresses.
    fn start_on(
        &self,
        found: &Snapshot,
        begin: Begin,
        lock: OwnedFd,
        networks: &mut network::JoinedEndpoints,
    ) -> std::result::Result<(), StartFailure> {
        let reservation = networks.port_reservation.take();
        let own_network = matches!(mode(&found.spec), Mode::None | Mode::Networks);
        let waiting = spawn(&self.program, own_network && self.confinement.users(&found.spec).is_none())?;
        self.host_files.write_files(found, networks)?;
        if has_init(&found.spec) {
            dirs::replace(&self.places.dir(&found.row.id).join(INIT), coracle_monitor::INIT, 0o755)?;
        }
        let joined = self.planner.join(found, reservation)?;
        let files_of = joined.files_of.as_ref().map_or(&found.row.id, |other| &other.row.id);
        let init = has_init(&found.spec).then(|| self.places.dir(&found.row.id).join(INIT));
        self.labels.label_files(found, files_of, init.as_deref())?;
        let held = self.mounts.hold_volumes(found)?;
        let mut container = self.planner.container(found, &joined, networks, self.groups.begin_devices(found)?)?;
        (container.rows, container.cols) = window(begin.size, found.spec.host_config.console_size);
        let namespaces = begin.step.add_to(&mut container, held.len())?;
        let plan = plan::compile(&container);
        delivery::begin(&self.places, &self.plugins, self.shipping.proxies(), found)?;
        let run_dir = self.places.open_run_dir(&found.row.id)?;
        let container_dir = dirs::open(&self.places.dir(&found.row.id))?;
        let events = match &found.spec.plugin {
            None => self.register.journal.appender()?,
            // Nobody else sees the container of a plugin.
            Some(_) => dirs::nowhere()?,
        };
        // Looked at as late as can be: from here on the monitor looks.
        let lease = self.register.leases.reader(found.spec.lease.as_ref())?;
        let mut sessions = parked_sessions(&self.places, &found.row.id)?;
        sessions.extend(begin.session);
        let boot = Boot {
            run_dir: run_dir.as_fd(),
            container_dir: container_dir.as_fd(),
            events: events.as_fd(),
            run_states: self.register.states.run_fd(),
            root_states: self.register.states.root_fd(),
            lock,
            namespaces: joined.fds,
            volumes: held.iter().map(|volume| &volume.namespace).chain(&namespaces).collect(),
            lease,
            sessions,
            boot_id: self.register.states.boot_id(),
        };
        match start(waiting, &plan, boot) {
            Ok(_) => Ok(()),
            Err(StartError::Engine(error)) => Err(error.into()),
            Err(StartError::Step(failed, step)) => {
                let id = Some(found.row.id.as_str());
                note(LogLevel::Debug, "launch", id, || failed_step(failed, &step.description));
                Err(failure::of_start(failed, &step, &found.spec))
            }
            Err(StartError::Late) => Err(self.end_late_start(found).into()),
            Err(StartError::Unheard(error)) => self.recorded_start(found, &plan, error),
        }
    }

    /// Ends a monitor that has not completed the start, and its resources; returns the error. From here on the holder
    /// of the lock writes the record: a process with a pending SIGKILL writes nothing more, however long it hangs.
    fn end_late_start(&self, found: &Snapshot) -> Error {
        let state = match self.register.states.recorded(found.row.slot, &found.row.id) {
            Ok(Some(state)) if state.monitor_pid > 0 && state.monitor_pid != found.now.state.monitor_pid => state,
            Ok(_) => return late(),
            Err(error) => return late().context(error),
        };
        if let Some(monitor) = process::monitor(state.monitor_pid)
            && self.register.states.has_monitor(found.row.slot).unwrap_or_default()
        {
            // The kernel kills the first process with the monitor.
            let _ = process::pidfd_signal(monitor.as_fd(), libc::SIGKILL);
            let _ = wait_fd(monitor.as_fd(), Ready::Read, Some(HANDOVER), None);
        }
        self.crashes.end_groups(found);
        late()
    }

    /// The outcome of a start whose monitor could not answer, from its record: the monitor writes the record before it
    /// answers.
    fn recorded_start(
        &self,
        found: &Snapshot,
        plan: &plan::Plan,
        unheard: Error,
    ) -> std::result::Result<(), StartFailure> {
        let (slot, before) = (found.row.slot, &found.now.state);
        let until = Instant::now() + START_LIMIT;
        while Instant::now() < until {
            // In this order: a record that is read after the monitor's end is final.
            let lives = self.register.states.has_monitor(slot);
            if let (Ok(lives), Ok(Some(state))) = (lives, self.register.states.recorded(slot, &found.row.id)) {
                if state.started_ns != 0 && state.started_ns != before.started_ns {
                    return Ok(());
                }
                if !lives && state.monitor_pid != before.monitor_pid && state.failure != Failure::default() {
                    let step = plan.step(state.failure.step);
                    return Err(failure::of_start(state.failure, &step, &found.spec));
                }
                if !lives {
                    break;
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(unheard.into())
    }

    /// Gives a container that is about to start its addresses and ports.
    fn join_networks(&self, found: &Snapshot) -> Result<JoinedEndpoints> {
        if mode(&found.spec) != Mode::Networks {
            return Ok(JoinedEndpoints::default());
        }
        if !probe::may_change_networks() {
            let text = "CAP_NET_ADMIN is missing, which networks take: the network modes none and host work without";
            return Err(Error::new(ErrorKind::Forbidden, text).in_area("network"));
        }
        let host = &found.spec.host_config;
        self.networks.endpoints.join(&Joining {
            id: &found.row.id,
            slot: found.row.slot,
            name: &found.row.name,
            hostname: &spec::hostname(&found.spec, &found.row.id),
            mac: &found.spec.config.mac_address,
            mode: &host.network_mode,
            networks: endpoint_requests(&found.spec),
            bindings: &host.port_bindings,
            exposed: &found.spec.config.exposed_ports,
            publish_all: host.publish_all_ports,
        })
    }
}

/// Rows and columns of a terminal: the start's own, else those of the create request.
pub(crate) fn window(named: (u16, u16), asked: [u32; 2]) -> (u16, u16) {
    let [rows, cols] = asked.map(|size| u16::try_from(size).unwrap_or(u16::MAX));
    if named == (0, 0) { (rows, cols) } else { named }
}

/// A failing step for the log: number, words, and the kernel's answer.
fn failed_step(failed: Failure, description: &str) -> String {
    let errno = nix::errno::Errno::from_raw(failed.errno);
    format!("step {} failed: {description}: {errno:?} ({}), detail {}", failed.step, failed.errno, failed.detail)
}
