//! Starting a container: spec → plan → monitor.

use super::attach::parked_sessions;
use super::failure::{self, StartFailure};
use super::network::{Mode, addresses, mode, relays, requests, servers};
use super::spec::{
    self, DecidedHost, IpcMode, LogDriver, Modes, MountKind, Owner, PidMode, Propagation, RestartPolicy, Spec,
    TagFacts, UsernsMode, Users, UtsMode,
};
use super::state::{Verb, Way, decide};
use super::{Containers, Found, dirs};
use crate::error::{Error, Result};
use crate::kernel::process;
use crate::kernel::tree::{self, Lock};
use crate::launch::monitor::{Boot, START_LIMIT, StartError, Streams, late, sentence, spawn, start};
use crate::launch::plan::{self, Log, Mount, Namespace, Program, Rlimit};
use crate::launch::{apparmor, cgroup, devices, selinux};
use crate::model::{ContainerConfig, CreateBody, HostConfig, StringMap};
use crate::network;
use crate::op::Changed;
use crate::op::{Op, Ready, wait_fd};
use crate::options::UsernsRemap;
use crate::store::states::id_head;
use crate::store::{Flush, containers as table};
use crate::walls::Wall;
use coracle_monitor::wire::*;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a start waits for a monitor that has recorded its container's end and is about to go.
pub(super) const HANDOVER: Duration = Duration::from_secs(5);

/// The init's file in the container's directory, and where the container has it.
const INIT: &str = "init";
const INIT_PATH: &str = "/sbin/docker-init";

/// Kernel parameters that are set: those that are asked for, and, in a network of its own, those that let every user open
/// low ports and send pings, which nobody there needs to be kept from.
fn parameters(host: &DecidedHost, net: Namespace, in_users: bool) -> Result<Vec<(String, String)>> {
    let mut all = spec::sysctls(host)?;
    if net == Namespace::New {
        let mut add = |name: &str, value: &str| {
            if all.iter().all(|(other, _)| other != name) {
                all.push((name.into(), value.into()));
            }
        };
        add("net/ipv4/ip_unprivileged_port_start", "0");
        if !in_users {
            add("net/ipv4/ping_group_range", "0 2147483647");
        }
    }
    Ok(all)
}

/// Namespaces of other containers that a container joins, and who uses which.
struct Joined {
    fds: Vec<OwnedFd>,
    pid: Namespace,
    ipc: Namespace,
    shm_from: Option<u32>,
    net: Namespace,
    /// Index of another container's user namespace, which this one's is.
    users: Option<u32>,
    /// The container whose network, host name and files are this one's too.
    files_of: Option<Box<Found>>,
    /// Index of the two descriptors that keep published ports from others.
    hold: Option<u32>,
}

impl Containers {
    /// Starts a container, with `session` attached before its process runs, and with whoever waits for its start.
    pub(crate) fn start(
        &self,
        reference: &str,
        session: Option<Streams>,
        size: (u16, u16),
        op: Option<&Op>,
    ) -> Result<(Changed, Found)> {
        let (busy, found) = self.finder.take(reference, op)?;
        if decide(Verb::Start, &found)? == Way::Nothing {
            return Ok((Changed::No, found));
        }
        if session.is_some() {
            self.register.event(&found, "attach", &[])?;
        }
        let started = self.start_taken(&found, session, size);
        drop(busy);
        if started.is_err() && found.spec.host_config.auto_remove {
            // A failed start is an end, too. Else by the next look.
            let _ = self.finder.reap_soon(&found.row);
        }
        started.map(|()| (Changed::Yes, found))
    }

    /// Starts a container that is held and does not run.
    pub(super) fn start_taken(&self, found: &Found, session: Option<Streams>, size: (u16, u16)) -> Result<()> {
        let started = self.try_start(found, session, size);
        match started {
            Ok(()) => self.register.set_error(found, ""),
            Err(StartFailure { error, exit_code: code }) => {
                // Clients that waited for the start learn of its failure by the end of the streams.
                let _ = parked_sessions(&self.places, &found.row.id);
                let state = State { exit_code: code, ..found.now.state };
                self.register.states.write(found.row.slot, State { id: id_head(&found.row.id), ..state })?;
                self.register.set_error(found, error.message())?;
                // As engine 1.12 did: a client that waits for the end to remove the container waits for this.
                self.register.event(found, "die", &[("exitCode", &code.to_string())])?;
                Err(error)
            }
        }
    }

    fn try_start(
        &self,
        found: &Found,
        session: Option<Streams>,
        (rows, cols): (u16, u16),
    ) -> std::result::Result<(), StartFailure> {
        let lock = self.monitors.lock_alive(found)?;
        let found = &self.decide(found)?;
        self.check_links(found)?;
        self.monitors.let_go_of_root(found)?;
        self.labels.relabel_sources(found)?;
        let mut networks = self.join_networks(found)?;
        let started = self.start_on(found, session, (rows, cols), lock, &mut networks);
        if started.is_err() {
            // Best effort: whoever finds the container dead does the same.
            let _ = self.networks.part(&found.row.id, &networks);
        } else {
            self.tell_parents(&found.row.id);
        }
        started
    }

    /// The container with its user namespace, its AppArmor profile and its SELinux label decided and its control group named, and nothing asked
    /// for that does not go with the user namespace.
    fn decide(&self, found: &Found) -> Result<Found> {
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

    /// Starts it on networks that it has its place on.
    fn start_on(
        &self,
        found: &Found,
        session: Option<Streams>,
        (rows, cols): (u16, u16),
        lock: OwnedFd,
        networks: &mut network::Joined,
    ) -> std::result::Result<(), StartFailure> {
        let hold = networks.hold.take();
        let own_network = matches!(mode(&found.spec), Mode::None | Mode::Networks);
        let waiting = spawn(&self.program, own_network && self.confinement.users(&found.spec).is_none())?;
        self.write_files(found, networks)?;
        if has_init(&found.spec) {
            dirs::write_program(&self.places.dir(&found.row.id).join(INIT), coracle_monitor::INIT)?;
        }
        let joined = self.join(found, hold)?;
        let files_of = joined.files_of.as_ref().map_or(&found.row.id, |other| &other.row.id);
        let init = has_init(&found.spec).then(|| self.places.dir(&found.row.id).join(INIT));
        self.labels.label_files(found, files_of, init.as_deref())?;
        let held = self.mounts.hold_volumes(found)?;
        let mut container = self.container(found, &joined, networks)?;
        (container.rows, container.cols) = (rows, cols);
        let plan = plan::compile(&container);
        let run_dir = self.places.open_run_dir(&found.row.id)?;
        let container_dir = dirs::open(&self.places.dir(&found.row.id))?;
        let events = self.register.journal.appender()?;
        let mut sessions = parked_sessions(&self.places, &found.row.id)?;
        sessions.extend(session);
        let boot = Boot {
            run_dir: run_dir.as_fd(),
            container_dir: container_dir.as_fd(),
            events: events.as_fd(),
            run_states: self.register.states.run_fd(),
            root_states: self.register.states.root_fd(),
            lock,
            namespaces: joined.fds,
            volumes: held.iter().map(|volume| &volume.namespace).collect(),
            sessions,
            boot_id: self.register.states.boot_id(),
        };
        match start(waiting, &plan, boot) {
            Ok(_) => Ok(()),
            Err(StartError::Engine(error)) => Err(error.into()),
            Err(StartError::Step(failed, sentence)) => Err(failure::of_start(failed, &sentence, &found.spec)),
            Err(StartError::Late) => Err(self.end_late_start(found).into()),
            Err(StartError::Unheard(error)) => self.recorded_start(found, &plan, error),
        }
    }

    /// Ends a monitor that is still at a start, and what it has made; answers the error. Its record is whoever's holds the
    /// container from here on: a process that has SIGKILL pending writes no more, however long it hangs.
    fn end_late_start(&self, found: &Found) -> Error {
        let state = match self.register.states.recorded(found.row.slot, &found.row.id) {
            Ok(Some(state)) if state.monitor_pid > 0 && state.monitor_pid != found.now.state.monitor_pid => state,
            Ok(_) => return late(),
            Err(error) => return late().context(error),
        };
        if let Some(monitor) = process::monitor(state.monitor_pid)
            && self.register.states.has_monitor(found.row.slot).unwrap_or_default()
        {
            // Its first process goes with it.
            let _ = process::pidfd_signal(monitor.as_fd(), libc::SIGKILL);
            let _ = wait_fd(monitor.as_fd(), Ready::Read, Some(HANDOVER), None);
        }
        self.crashes.end_groups(found);
        late()
    }

    /// How a start went whose monitor could not be heard, by its record: it writes that before it answers.
    fn recorded_start(
        &self,
        found: &Found,
        plan: &plan::Plan,
        unheard: Error,
    ) -> std::result::Result<(), StartFailure> {
        let (slot, before) = (found.row.slot, &found.now.state);
        let until = Instant::now() + START_LIMIT;
        while Instant::now() < until {
            // In this order: the record of a monitor that is gone is its last.
            let lives = self.register.states.has_monitor(slot);
            if let (Ok(lives), Ok(Some(state))) = (lives, self.register.states.recorded(slot, &found.row.id)) {
                if state.started_ns != 0 && state.started_ns != before.started_ns {
                    return Ok(());
                }
                if !lives && state.monitor_pid != before.monitor_pid && state.failure != Failure::default() {
                    let step = sentence(&plan.steps, state.failure.step);
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

    /// `State.Error` of inspect: why the last start failed, an engine's or its monitor's own, what became of the monitor,
    /// or what is wrong with the stored document.
    pub(super) fn error_text(&self, found: &Found) -> String {
        if !found.spec.is_whole() {
            return found.spec.damage.clone();
        }
        let failed = found.now.state.failure;
        if !found.row.error.is_empty() || failed == Failure::default() {
            return found.row.error.clone();
        }
        let plan = self.networks.recall(&found.row.id).and_then(|networks| self.plan_again(found, &networks));
        let sentence = match &plan {
            Ok(plan) => sentence(&plan.steps, failed.step),
            // The parts of the plan are not there any more.
            Err(_) => "start the container again".into(),
        };
        failure::of_start(failed, &sentence, &found.spec).error.message().to_owned()
    }

    /// The plan of a container that was started, as its networks are now; its steps and descriptors are those of the start.
    pub(super) fn plan_again(&self, found: &Found, networks: &network::Joined) -> Result<plan::Plan> {
        // The monitor has taken the descriptor that keeps the ports: the plan needs no index any more.
        let joined = self.join(found, None)?;
        Ok(plan::compile(&self.container(found, &joined, networks)?))
    }

    /// Replaces the host configuration of a container that does not run: checked as a new one's.
    pub(crate) fn set_host_config(&self, reference: &str, host_config: &HostConfig) -> Result<()> {
        let (_busy, found) = self.finder.take(reference, None)?;
        if found.now.is_live() {
            return Ok(());
        }
        let mut changed = self.resolve_changed(&found, host_config)?;
        let mut volumes = self.mounts.stage_volumes(&mut changed)?;
        self.storage.rebound_storage(&found.row.id, &found.spec, &changed)?;
        keep_decided(&mut changed, &found.spec);
        let text = serde_json::to_string(&changed).map_err(|e| Error::internal(format!("write a spec: {e}")))?;
        let new = self.register.db.write(Flush::Durable, |tx| {
            table::set_spec(tx, &found.row.id, &text)?;
            crate::store::volumes::clear_uses(tx, &found.row.id)?;
            if host_config.links.is_some() {
                crate::store::links::clear(tx, &found.row.id)?;
            }
            self.add_links(tx, &found.row.id, host_config.links.as_deref().unwrap_or_default(), &changed)?;
            self.mounts.take_volumes(tx, &found.row.id, &mut volumes)
        })?;
        self.mounts.tell_of_volumes(&new)
    }

    /// The spec of a container with another host configuration. Errors: as for a new container.
    fn resolve_changed(&self, found: &Found, host_config: &HostConfig) -> Result<Spec> {
        let body = CreateBody {
            config: found.spec.config.clone(),
            host_config: host_config.clone(),
            // Its host name was looked at when it was created, by the rule of then.
            any_hostname: true,
            ..CreateBody::default()
        };
        let mut defaults = self.defaults();
        // It stays where it is, unless its mode says otherwise.
        defaults.remap = match found.spec.users {
            Users::Own { uid, gid, count } => Some(UsernsRemap { uid, gid, count }),
            Users::Host if found.spec.host_config.modes().userns != UsernsMode::Host => None,
            Users::Host | Users::Undecided => defaults.remap,
        };
        spec::validate(&body, &defaults)?;
        super::links::check(&body)?;
        let image = spec::ImageView {
            id: found.row.image_id.clone(),
            architecture: found.spec.architecture.clone(),
            config: ContainerConfig::default(),
        };
        // Mounts that are there stay, unless a new one takes their place.
        let mut inherited = found.spec.mounts.clone();
        for mount in self.mounts.inherited(host_config)? {
            inherited.retain(|other| other.target != mount.target);
            inherited.push(mount);
        }
        let (changed, _) = spec::resolve(&body, &image, &found.row.id, &inherited, &defaults)?;
        // As dockerd has a configuration that came with a start.
        let host_config = changed.host_config.changed(|host| {
            for list in [&mut host.dns, &mut host.dns_search, &mut host.dns_options] {
                list.get_or_insert_default();
            }
        })?;
        Ok(Spec { host_config, ..changed })
    }

    /// hosts, hostname and resolv.conf as they are to be now.
    pub(super) fn write_files(&self, found: &Found, networks: &network::Joined) -> Result<()> {
        if let Mode::Container(_) = mode(&found.spec) {
            // It shows those of the container whose network it shares.
            return Ok(());
        }
        let dir = self.places.dir(&found.row.id);
        // Several programs may rewrite these files: the last write must reflect the newest state, so writers take turns.
        let _one_at_a_time = self.lock_files(&found.row.id)?;
        let host = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let spec = &found.spec;
        let host_network = mode(spec) == Mode::Host;
        let hosts = if host_network { host("/etc/hosts") } else { String::new() };
        let links: Vec<_> = self.seen_links(found)?.iter().flat_map(super::links::Seen::hosts).collect();
        let gateway = match spec::wants_host_gateway(&spec.host_config) {
            true => self.host_gateway(networks)?,
            false => String::new(),
        };
        dirs::write(&dir.join("hosts"), &spec::hosts_file(spec, &hosts, &gateway, &links, &addresses(networks)))?;
        dirs::write(&dir.join("hostname"), &spec::hostname_file(spec))?;
        let resolvers = host("/etc/resolv.conf");
        let named = networks.endpoints.iter().any(|end| !end.network.is_predefined());
        let text = match named {
            true => spec::embedded_resolv_conf(&resolvers, &spec.host_config),
            false => spec::resolv_conf(&resolvers, &spec.host_config),
        };
        dirs::write(&dir.join("resolv.conf"), &text)
    }

    fn lock_files(&self, id: &str) -> Result<File> {
        let path = self.places.dir(id);
        let dir = File::open(&path).map_err(|e| Error::io(format_args!("open {}", path.display()), &e))?;
        tree::lock(dir.as_fd(), Lock::Exclusive, path.display())?;
        Ok(dir)
    }

    pub(super) fn resolver(&self, found: &Found, networks: &network::Joined) -> Result<Option<plan::Resolver>> {
        let Some(resolver) = self.networks.resolver(networks)? else { return Ok(None) };
        let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let servers = if resolver.forwards { servers(&found.spec, &text) } else { Vec::new() };
        let network::Resolver { port, redirect, names, aliases, .. } = resolver;
        Ok(Some(plan::Resolver { port, redirect, servers, names, aliases }))
    }

    /// Opens the namespaces of `container:` modes. Errors: that container does not run.
    fn join(&self, found: &Found, hold: Option<network::Hold>) -> Result<Joined> {
        let mut joined = Joined {
            hold: None,
            fds: Vec::new(),
            pid: Namespace::New,
            ipc: Namespace::New,
            net: Namespace::New,
            users: None,
            shm_from: None,
            files_of: None,
        };
        let host = &found.spec.host_config;
        joined.pid = self.namespace(host.modes().pid.owner(), "pid", "PID", &mut joined.fds)?;
        joined.ipc = self.namespace(host.modes().ipc.owner(), "ipc", "IPC", &mut joined.fds)?;
        joined.net = match mode(&found.spec) {
            Mode::Host => Namespace::Host,
            Mode::None | Mode::Networks => Namespace::New,
            Mode::Container(other) => {
                let other_one = self.finder.find(other)?;
                if other_one.row.id == found.row.id {
                    return Err(Error::internal("cannot join own network"));
                }
                joined.files_of = Some(Box::new(other_one));
                self.namespace(Owner::Container(other), "net", "network", &mut joined.fds)?
            }
        };
        if let donor @ Owner::Container(name) = host.modes().ipc.owner() {
            self.shares_ipc(name)?;
            joined.shm_from = match self.namespace(donor, "mnt", "IPC", &mut joined.fds)? {
                Namespace::Join(index) => Some(index),
                _ => None,
            };
        }
        if let Some(own) = self.confinement.users(&found.spec) {
            joined.users = self.joined_users(host.modes(), own, &mut joined.fds)?;
        }
        if let Some(network::Hold { held, relayed }) = hold {
            joined.hold = Some(joined.fds.len() as u32);
            joined.fds.extend([held, relayed]);
        }
        Ok(joined)
    }

    /// To share another namespace of a container, its user namespace is shared, too: that is what the others belong to.
    fn joined_users(&self, modes: &Modes, own: plan::Users, fds: &mut Vec<OwnedFd>) -> Result<Option<u32>> {
        for owner in [modes.network.owner(), modes.ipc.owner(), modes.pid.owner()] {
            let Owner::Container(other) = owner else { continue };
            let theirs = self.confinement.users(&self.finder.find(other)?.spec);
            if theirs.is_none() {
                return Err(Error::conflict(format!("container {other} is not in a user namespace, as this one is")));
            }
            if theirs != Some(own) {
                return Err(Error::conflict(format!(
                    "container {other} has other ids in its user namespace than this one"
                )));
            }
            if let Namespace::Join(index) = self.namespace(owner, "user", "user", fds)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn shares_ipc(&self, donor: &str) -> Result<()> {
        let other = self.finder.find(donor)?;
        match other.spec.host_config.modes().ipc.is_shareable() {
            true => Ok(()),
            false => Err(Error::internal(format!(
                "can't join IPC of container {donor}: non-shareable IPC (hint: use IpcMode:shareable for the donor \
                 container)"
            ))),
        }
    }

    fn namespace(&self, owner: Owner<'_>, kind: &str, name: &str, fds: &mut Vec<OwnedFd>) -> Result<Namespace> {
        let other = match owner {
            Owner::Own => return Ok(Namespace::New),
            Owner::Host => return Ok(Namespace::Host),
            Owner::Container(reference) => self.finder.find(reference)?,
        };
        let pid = other.now.state.pid;
        if !other.now.is_live() || pid == 0 {
            return Err(Error::conflict(format!("cannot join {name} of a non running container: {}", other.row.id)));
        }
        let path = format!("/proc/{pid}/ns/{kind}");
        let file = File::open(&path).map_err(|e| Error::io(format_args!("open {path}"), &e))?;
        // The process may have ended and its number been given away meanwhile.
        if process::start_time(pid) != Some(other.now.state.pid_start) {
            return Err(Error::conflict(format!("cannot join {name} of a non running container: {}", other.row.id)));
        }
        fds.push(file.into());
        Ok(Namespace::Join(fds.len() as u32 - 1))
    }

    /// Everything that the plan needs, as plain values.
    fn container(&self, found: &Found, joined: &Joined, networks: &network::Joined) -> Result<plan::Container> {
        let Found { row, spec, .. } = found;
        let host = &spec.host_config;
        let devices = devices::for_container(host.privileged, &host.resources)?;
        let cgroups = cgroup::compile(
            &self.groups.hierarchies,
            &spec.cgroup_parent,
            &self.groups.group(found),
            &host.resources,
            &devices.rules,
        )?;
        let dir = self.places.dir(&row.id);
        // A container that shares another's network has its host name, too.
        let (named, id) = joined.files_of.as_ref().map_or((spec, &row.id), |other| (&other.spec, &other.row.id));
        let hostname = spec::hostname(named, id);
        Ok(plan::Container {
            id: row.id.clone(),
            slot: row.slot,
            image: spec.image_name.clone(),
            attributes: attributes(found),
            volumes: super::volumes::actors(found),
            domainname: named.config.domainname.clone(),
            tty: spec.config.tty,
            open_stdin: spec.config.open_stdin,
            stdin_once: spec.config.stdin_once,
            rows: 0,
            cols: 0,
            lower: self.places.lower(&row.image_id)?,
            upper: dir.join("upper"),
            work: dir.join("work"),
            // Files of a build's container are flushed with the build.
            volatile: self.register.db.read(|tx| table::has_builder(tx, &row.id))?,
            readonly_rootfs: host.readonly_rootfs,
            root_propagation: 0,
            privileged: host.privileged,
            mounts: self.mounts(found, id)?,
            shm_size: host.shm_size.and_then(|size| u64::try_from(size).ok()).unwrap_or(spec::DEFAULT_SHM_SIZE as u64),
            nodes: devices.nodes,
            masked: spec::masked_paths(host, self.host.cpu_count),
            readonly: spec::readonly_paths(host),
            sysctls: parameters(host, joined.net, self.confinement.users(spec).is_some())?,
            rlimits: rlimits(host)?,
            oom_score_adj: host.oom_score_adj,
            pid: joined.pid,
            ipc: joined.ipc,
            shm_from: joined.shm_from,
            no_shm: host.modes().ipc == IpcMode::None,
            uts: if host.modes().uts == UtsMode::Host { Namespace::Host } else { Namespace::New },
            net: joined.net,
            own_cgroups: true,
            net_requests: requests(networks),
            resolver: self.resolver(found, networks)?,
            // No monitor speaks to plugins: what they made stays.
            keep_net: networks.endpoints.iter().any(|end| end.doc.remote.is_some()),
            networks: self.told_networks(found, networks)?,
            firewall_end: networks.firewall_end.clone(),
            hold: joined.hold,
            relays: relays(networks),
            namespace_count: joined.fds.len() as u32,
            cgroups,
            rights: self.confinement.rights(spec)?,
            users: self.confinement.users(spec).map(|users| plan::Users { join: joined.users, ..users }),
            program: Program {
                argv: self.words(spec),
                env: spec::environment(spec, &hostname, &self.link_variables(found)?),
                cwd: spec.config.working_dir.clone(),
                cwd_is_there: false,
            },
            hostname,
            log: log(found)?,
            restart: policy_words(spec)?,
            health: self.health_plan(found)?,
        })
    }

    /// The command; with an init before it, unless the first process is another container's or the host's anyway.
    fn words(&self, spec: &Spec) -> Vec<String> {
        let init: &[&str] = if has_init(spec) { &[INIT_PATH, "--"] } else { &[] };
        init.iter().map(|word| word.to_string()).chain([spec.path.clone()]).chain(spec.args.iter().cloned()).collect()
    }

    /// The three files, then the caller's mounts; one of those may stand in for a file.
    fn mounts(&self, found: &Found, files_of: &str) -> Result<Vec<Mount>> {
        let table = spec::mount_table(&found.spec)?;
        let dir = self.places.dir(files_of);
        let access = if found.spec.host_config.readonly_rootfs { libc::MOUNT_ATTR_RDONLY } else { 0 };
        let files: Vec<Mount> = ["resolv.conf", "hostname", "hosts"]
            .into_iter()
            .map(|name| (dir.join(name), format!("/etc/{name}")))
            .filter(|(_, target)| table.iter().all(|mount| mount.target != *target))
            .map(|(source, target)| Mount::Bind {
                source,
                target,
                attributes: access,
                propagation: libc::MS_PRIVATE,
                propagate_below: true,
                recursive: true,
                make_source: false,
                own_ids: true,
            })
            .collect();
        // A mount on the directory of a file comes before the file's own mount.
        let (above, below): (Vec<_>, Vec<_>) =
            table.into_iter().partition(|mount| mount.target.matches('/').count() < 2);
        let mut mounts = Vec::new();
        for mount in above {
            mounts.push(self.mount(found, mount)?);
        }
        mounts.extend(files);
        if has_init(&found.spec) {
            mounts.push(Mount::Bind {
                source: self.places.dir(&found.row.id).join(INIT),
                target: INIT_PATH.into(),
                attributes: libc::MOUNT_ATTR_RDONLY,
                propagation: libc::MS_PRIVATE,
                propagate_below: true,
                recursive: true,
                make_source: false,
                own_ids: true,
            });
        }
        for mount in below {
            mounts.push(self.mount(found, mount)?);
        }
        Ok(mounts)
    }

    fn mount(&self, found: &Found, mount: spec::Mount) -> Result<Mount> {
        match mount.kind {
            MountKind::Volume => self.mounts.volume_mount(found, mount),
            _ => Ok(plan_mount(mount, self.labels.mount_label(&found.spec))),
        }
    }
}

/// Gives a spec that a request changed the decisions of the old one that still hold.
fn keep_decided(changed: &mut Spec, old: &Spec) {
    changed.image_name = old.image_name.clone();
    // Else its start decides anew.
    let label_of = |host: &DecidedHost| {
        (host.security_opt.clone(), host.privileged, host.modes().pid.clone(), host.modes().ipc.clone())
    };
    if label_of(&changed.host_config) == label_of(&old.host_config) {
        changed.process_label.clone_from(&old.process_label);
        changed.mount_label.clone_from(&old.mount_label);
    }
    if changed.host_config.modes().network == old.host_config.modes().network {
        changed.networks = old.networks.clone();
    }
}

/// Whether the container's first process is an init. In the processes of another it would not be the first.
fn has_init(spec: &Spec) -> bool {
    spec.host_config.init == Some(true) && spec.host_config.modes().pid == PidMode::Private
}

fn plan_mount(mount: spec::Mount, label: &str) -> Mount {
    match mount.kind {
        MountKind::Bind | MountKind::Volume => Mount::Bind {
            source: PathBuf::from(mount.source),
            target: mount.target,
            attributes: mount.flags,
            propagation: match mount.propagation {
                Propagation::Private => libc::MS_PRIVATE,
                Propagation::Shared => libc::MS_SHARED,
                Propagation::Slave => libc::MS_SLAVE,
                Propagation::Unbindable => libc::MS_UNBINDABLE,
            },
            propagate_below: mount.recursive,
            recursive: !mount.top_only,
            make_source: !mount.long,
            own_ids: false,
        },
        MountKind::Tmpfs => {
            let options = mount.options.split(',').filter(|option| !option.is_empty());
            let pair = |option: &str| {
                let (key, value) = option.split_once('=').unwrap_or((option, ""));
                (key.to_owned(), value.to_owned())
            };
            Mount::FileSystem {
                kind: "tmpfs".into(),
                source: "tmpfs".into(),
                target: mount.target,
                attributes: mount.flags,
                propagation: 0,
                options: options
                    .map(pair)
                    .chain((!label.is_empty()).then(|| ("context".to_owned(), label.to_owned())))
                    .collect(),
            }
        }
    }
}

/// The attributes of the container's events, as the monitor writes them: JSON members without braces. It has room for so
/// many bytes; labels that take more are left out, the largest first.
pub(super) fn attributes(found: &Found) -> String {
    let mut own = StringMap::new();
    own.insert("image".into(), found.spec.image_name.clone());
    own.insert("name".into(), found.row.name.clone());
    let left = MAX_TEXT.saturating_sub(members(&own).len() + 1);
    let mut all = match Wall::LargeEvents.stands() {
        true => crate::event::cut_attributes(&found.spec.config.labels, left),
        false => found.spec.config.labels.clone(),
    };
    all.extend(own);
    members(&all)
}

fn members(all: &StringMap) -> String {
    let text = serde_json::to_string(all).unwrap_or_default();
    text.trim_start_matches('{').trim_end_matches('}').to_owned()
}

pub(super) fn rlimits(host: &HostConfig) -> Result<Vec<Rlimit>> {
    let limits = spec::ulimits(host)?;
    Ok(limits.into_iter().map(|l| Rlimit { resource: l.resource, soft: l.soft, hard: l.hard }).collect())
}

/// The log as the plan has it.
fn log(found: &Found) -> Result<Option<Log>> {
    let (row, spec) = (&found.row, &found.spec);
    let (max_size, max_file, compress, attributes) = match spec::log_options(&spec.host_config.log_config)?.driver {
        LogDriver::None => return Ok(None),
        LogDriver::Local { max_size, max_file, compress } => (max_size, max_file, compress, StringMap::new()),
        LogDriver::JsonFile { max_size, max_file, compress } => {
            let host = spec::host_name();
            let attributes = spec::log_attributes(&TagFacts { id: &row.id, name: &row.name, host: &host, spec })?;
            (max_size.unwrap_or(0), max_file, compress, attributes)
        }
    };
    let attributes = match attributes.is_empty() {
        true => String::new(),
        false => serde_json::to_string(&attributes)
            .map(|text| format!("\"attrs\":{text},"))
            .map_err(|e| Error::internal(format!("write log attributes: {e}")))?,
    };
    Ok(Some(Log { name: dirs::log_name(found), attributes, max_size, max_file, compress }))
}

/// The restart policy and its bound as monitors know them.
pub(super) fn policy_words(spec: &Spec) -> Result<(u32, u32)> {
    Ok(match spec::restart_policy(&spec.host_config.restart_policy)? {
        RestartPolicy::No => (RESTART_NO, 0),
        RestartPolicy::Always => (RESTART_ALWAYS, 0),
        RestartPolicy::UnlessStopped => (RESTART_UNLESS_STOPPED, 0),
        RestartPolicy::OnFailure { max } => (RESTART_ON_FAILURE, max.unwrap_or(0)),
    })
}
