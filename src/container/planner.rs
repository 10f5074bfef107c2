//! The values for a launch plan: of a container's start, of an exec, of a health check.

use super::failure;
use super::network::{Mode, event_members, mode, relays, requests, servers};
use super::spec::{
    self, CgroupnsMode, DecidedHost, IpcMode, LogDriver, Modes, MountKind, NetworkMode, Owner, PidMode, Propagation,
    RestartPolicy, Spec, TagFacts, UtsMode,
};
use super::{Confinement, Finder, Groups, Labelling, Links, Places, Register, Snapshot, VolumeMounts, dirs};
use crate::error::{Error, Result};
use crate::kernel::mount::Below;
use crate::kernel::{probe, process};
use crate::launch::plan::{self, Log, Mount, Namespace, Program, Rlimit};
use crate::launch::step::Step;
use crate::launch::{capability, cdi, cgroup, devices};
use crate::model::{ExecConfig, HostConfig, StringMap};
use crate::network::{self, Networks};
use crate::options::{Options, ShipLogs};
use crate::store::containers as table;
use crate::walls::Wall;
use coracle_monitor::wire::*;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The init's file in the container's directory, and its path in the container.
pub(super) const INIT: &str = "init";
const INIT_PATH: &str = "/sbin/docker-init";

/// The kernel parameters to set: the requested ones, those of the endpoints' interfaces, and, in a network namespace of the container's own, those that let
/// every user open low ports and send pings, which are harmless there.
fn parameters(
    host: &DecidedHost,
    net: Namespace,
    in_users: bool,
    networks: &network::JoinedEndpoints,
) -> Result<Vec<(String, String)>> {
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
    for end in &networks.endpoints {
        all.extend(end.doc.sysctls()?);
    }
    Ok(all)
}

/// The namespaces of other containers that a container joins: descriptors, and the index of each use.
pub(super) struct JoinedNamespaces {
    pub(super) fds: Vec<OwnedFd>,
    pid: Namespace,
    ipc: Namespace,
    shm_from: Option<u32>,
    net: Namespace,
    /// Index of the other container's user namespace, which is shared.
    users: Option<u32>,
    /// The container whose network, host name and files are shared.
    pub(super) files_of: Option<Box<Snapshot>>,
    /// Index of the two descriptors that reserve the published ports.
    port_reservation: Option<u32>,
}

/// Collects the values that a plan needs: of a start, an exec or a health check.
pub(crate) struct Planner {
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) groups: Arc<Groups>,
    pub(super) finder: Arc<Finder>,
    pub(super) labels: Arc<Labelling>,
    pub(super) confinement: Arc<Confinement>,
    pub(super) mounts: Arc<VolumeMounts>,
    pub(super) links: Arc<Links>,
    pub(super) host: Arc<cgroup::HostFacts>,
    pub(super) networks: Arc<Networks>,
    pub(super) options: Arc<Options>,
}

impl Planner {
    /// The networks of the events "connect" and "disconnect" of a run, including networks without an interface.
    fn event_networks(&self, found: &Snapshot, joined: &network::JoinedEndpoints) -> Result<Vec<(String, String)>> {
        Ok(match found.spec.host_config.modes().network {
            NetworkMode::Host => vec![event_members(self.networks.register.fixed(true)?)],
            NetworkMode::None => vec![event_members(self.networks.register.fixed(false)?)],
            _ => joined.endpoints.iter().map(|end| event_members(&end.network)).collect(),
        })
    }

    /// `State.Error` of inspect: the reason of the failed start as engine or monitor reported it, the fate of the
    /// monitor, or the damage of the stored document.
    pub(super) fn error_text(&self, found: &Snapshot) -> String {
        if !found.spec.is_whole() {
            return found.spec.damage.clone();
        }
        let failed = found.now.state.failure;
        if !found.row.error.is_empty() || failed == Failure::default() {
            return found.row.error.clone();
        }
        let step = match self.present_plan(found) {
            Ok(plan) => plan.step(failed.step),
            // The parts of the plan do not exist any more.
            Err(_) => Step::described("start the container again"),
        };
        failure::of_start(failed, &step, &found.spec).error.message().to_owned()
    }

    /// The plan of a running container with its present networks; steps and descriptors are those of the start.
    pub(super) fn plan_again(&self, found: &Snapshot, networks: &network::JoinedEndpoints) -> Result<plan::Plan> {
        // The monitor has the descriptor that reserves the ports: the plan needs no index any more.
        let joined = self.join(found, None)?;
        Ok(plan::compile(&self.container(found, &joined, networks, self.groups.devices_of_start(found)?)?))
    }

    pub(super) fn resolver(
        &self,
        found: &Snapshot,
        networks: &network::JoinedEndpoints,
    ) -> Result<Option<plan::Resolver>> {
        let Some(resolver) = self.networks.names.resolver(networks)? else { return Ok(None) };
        let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let servers = if resolver.forwards { servers(&found.spec, &text) } else { Vec::new() };
        let network::Resolver { port, redirect, names, aliases, .. } = resolver;
        Ok(Some(plan::Resolver { port, redirect, servers, names, aliases }))
    }

    /// Opens the namespaces of `container:` modes. Errors: the other container does not run.
    pub(super) fn join(
        &self,
        found: &Snapshot,
        reservation: Option<network::PortReservation>,
    ) -> Result<JoinedNamespaces> {
        let mut joined = JoinedNamespaces {
            port_reservation: None,
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
        if let Some(network::PortReservation { reserved, relayed }) = reservation {
            joined.port_reservation = Some(joined.fds.len() as u32);
            joined.fds.extend([reserved, relayed]);
        }
        Ok(joined)
    }

    /// A container that shares any namespace of another one also shares its user namespace, because that namespace owns
    /// the others.
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

    pub(super) fn namespace(
        &self,
        owner: Owner<'_>,
        kind: &str,
        name: &str,
        fds: &mut Vec<OwnedFd>,
    ) -> Result<Namespace> {
        let other = match owner {
            Owner::Own => return Ok(Namespace::New),
            Owner::Host => return Ok(Namespace::Host),
            Owner::Container(reference) => self.finder.find(reference)?,
        };
        let pid = other.now.state.pid;
        if !other.now.is_live() || pid == 0 {
            return Err(not_running(name, &other.row.id));
        }
        let path = format!("/proc/{pid}/ns/{kind}");
        let file = File::open(&path).map_err(|e| Error::io(format_args!("open {path}"), &e))?;
        // The process may have ended meanwhile, and another one may have its number.
        if process::start_time(pid) != Some(other.now.state.pid_start) {
            return Err(not_running(name, &other.row.id));
        }
        fds.push(file.into());
        Ok(Namespace::Join(fds.len() as u32 - 1))
    }

    /// All values for the plan of a container's start.
    pub(super) fn container(
        &self,
        found: &Snapshot,
        joined: &JoinedNamespaces,
        networks: &network::JoinedEndpoints,
        cdi: cdi::Edits,
    ) -> Result<plan::Container> {
        let Snapshot { row, spec, .. } = found;
        let host = &spec.host_config;
        let devices = devices::for_container(host.privileged, &host.resources, &cdi.nodes)?;
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
            // Files of a build's container are flushed together with the build.
            volatile: self.register.db.read(|tx| table::has_builder(tx, &row.id))?,
            readonly_rootfs: host.readonly_rootfs,
            root_propagation: 0,
            privileged: host.privileged,
            mounts: self.mounts(found, id, cdi.mounts)?,
            shm_size: host.shm_size.and_then(|size| u64::try_from(size).ok()).unwrap_or(spec::DEFAULT_SHM_SIZE as u64),
            nodes: devices.nodes,
            masked: spec::masked_paths(host, self.host.cpu_count),
            readonly: spec::readonly_paths(host),
            sysctls: parameters(host, joined.net, self.confinement.users(spec).is_some(), networks)?,
            rlimits: rlimits(host)?,
            oom_score_adj: host.oom_score_adj,
            pid: joined.pid,
            ipc: joined.ipc,
            shm_from: joined.shm_from,
            no_shm: host.modes().ipc == IpcMode::None,
            uts: if host.modes().uts == UtsMode::Host { Namespace::Host } else { Namespace::New },
            net: joined.net,
            own_cgroups: host.modes().cgroupns == CgroupnsMode::Private,
            // A user namespace of the container's has the right by itself.
            loopback: self.confinement.users(spec).is_some() || probe::may_change_networks(),
            net_requests: requests(networks),
            resolver: self.resolver(found, networks)?,
            // A monitor does not talk to plugins: interfaces that plugins made stay.
            keep_net: networks.endpoints.iter().any(|end| end.doc.remote.is_some()),
            stale_socket: spec.plugin_socket.as_ref().map(PathBuf::from),
            networks: self.event_networks(found, networks)?,
            firewall_end: networks.firewall_end.clone(),
            port_reservation: joined.port_reservation,
            relays: relays(networks),
            namespace_count: joined.fds.len() as u32,
            cgroups,
            rights: with_groups(self.confinement.rights(spec)?, &cdi.groups),
            users: self.confinement.users(spec).map(|users| plan::Users { join: joined.users, ..users }),
            program: Program {
                argv: self.argv(spec),
                env: spec::with_variables(
                    spec::environment(spec, &hostname, &self.links.link_variables(found)?),
                    &cdi.env,
                ),
                cwd: spec.config.working_dir.clone(),
                cwd_is_there: false,
            },
            hostname,
            log: log(found, self.options.ship_logs)?,
            restart: policy_words(spec),
            health: self.health_plan(found)?,
            remounts: !probe::sets_attributes(),
        })
    }

    /// The command; after an init if one is wanted, unless the first process belongs to another container or the host
    /// anyway.
    pub(super) fn argv(&self, spec: &Spec) -> Vec<String> {
        let init: &[&str] = if has_init(spec) { &[INIT_PATH, "--"] } else { &[] };
        init.iter().map(|word| word.to_string()).chain([spec.path.clone()]).chain(spec.args.iter().cloned()).collect()
    }

    /// The three files, then the caller's mounts; a mount of the caller's may replace a file.
    pub(super) fn mounts(&self, found: &Snapshot, files_of: &str, of_devices: Vec<cdi::Mount>) -> Result<Vec<Mount>> {
        let table = spec::mount_table(&found.spec, of_devices.into_iter().map(cdi_mount).collect())?;
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
                read_only_below: false,
                own_ids: true,
                part: Below::default(),
            })
            .collect();
        // A mount on the directory of a file is made before the file's own mount.
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
                read_only_below: false,
                own_ids: true,
                part: Below::default(),
            });
        }
        for mount in below {
            mounts.push(self.mount(found, mount)?);
        }
        Ok(mounts)
    }

    pub(super) fn mount(&self, found: &Snapshot, mount: spec::Mount) -> Result<Mount> {
        match mount.kind {
            MountKind::Volume => self.mounts.volume_mount(found, mount),
            MountKind::Image => self.mounts.image_mount(found, mount),
            MountKind::Bind => Ok(bind_mount(mount)),
            MountKind::Tmpfs => Ok(tmpfs_mount(mount, self.labels.mount_label(&found.spec))),
        }
    }

    pub(super) fn exec_plan(
        &self,
        found: &Snapshot,
        config: &ExecConfig,
        (rows, cols): (u16, u16),
    ) -> Result<plan::Exec> {
        let spec = &found.spec;
        let host = &spec.host_config;
        let mut rights = self.confinement.rights(spec)?;
        if config.privileged && !host.privileged {
            rights.capabilities = capability::host_bounding()?;
        }
        if !config.user.is_empty() {
            rights.user = config.user.clone();
        }
        let mut enter = libc::CLONE_NEWNS | libc::CLONE_NEWCGROUP;
        let modes = host.modes();
        for (of_host, kind) in [
            (modes.ipc == IpcMode::Host, libc::CLONE_NEWIPC),
            (modes.uts == UtsMode::Host, libc::CLONE_NEWUTS),
            (modes.network == NetworkMode::Host, libc::CLONE_NEWNET),
        ] {
            if !of_host {
                enter |= kind;
            }
        }
        let users = self.confinement.users(spec);
        if users.is_some() {
            enter |= libc::CLONE_NEWUSER;
        }
        let own_cwd = !config.working_dir.is_empty();
        Ok(plan::Exec {
            users,
            tty: config.tty,
            rows,
            cols,
            enter: enter as u32,
            oom_score_adj: host.oom_score_adj,
            rlimits: rlimits(host)?,
            rights,
            program: Program {
                argv: config.cmd.clone().unwrap_or_default(),
                env: exec_environment(found, config, &self.links.link_variables(found)?),
                cwd: if own_cwd { &config.working_dir } else { &spec.config.working_dir }.clone(),
                cwd_is_there: own_cwd,
            },
        })
    }

    /// The health check for the plan.
    fn health_plan(&self, found: &Snapshot) -> Result<Option<plan::Health>> {
        let Some(check) = spec::health_check(&found.spec) else { return Ok(None) };
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(Some(plan::Health {
            interval: ns(check.interval),
            timeout: ns(check.timeout),
            start_period: ns(check.start_period),
            start_interval: ns(check.start_interval),
            retries: check.retries,
            command: super::exec::shown_argv(&check.argv),
            check: self.check_plan(found, &check)?,
        }))
    }

    pub(super) fn check_plan(&self, found: &Snapshot, check: &spec::HealthCheck) -> Result<plan::Exec> {
        self.exec_plan(found, &ExecConfig { cmd: Some(check.argv.clone()), ..ExecConfig::default() }, (0, 0))
    }
}

fn bind_mount(mount: spec::Mount) -> Mount {
    Mount::Bind {
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
        make_source: !mount.long || mount.make_source,
        read_only_below: mount.read_only && mount.read_only_below == Some(true),
        own_ids: false,
        part: Below::default(),
    }
}

fn tmpfs_mount(mount: spec::Mount, label: &str) -> Mount {
    let options = mount.options.split(',').filter(|option| !option.is_empty());
    let pair = |option: &str| {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        (key.to_owned(), value.to_owned())
    };
    let label = (!label.is_empty()).then(|| ("context".to_owned(), label.to_owned()));
    Mount::FileSystem {
        kind: "tmpfs".into(),
        source: "tmpfs".into(),
        target: mount.target,
        attributes: mount.flags,
        propagation: 0,
        options: options.map(pair).chain(label).collect(),
    }
}

/// A mount that comes with a device.
fn cdi_mount(mount: cdi::Mount) -> spec::Mount {
    let cdi::Mount { source, target, attributes, recursive } = mount;
    spec::Mount {
        source,
        target,
        flags: attributes,
        recursive: true,
        top_only: !recursive,
        // No source is made on the host.
        long: true,
        ..spec::Mount::default()
    }
}

/// The rights with further groups, those of devices.
fn with_groups(mut rights: plan::Rights, groups: &[u32]) -> plan::Rights {
    rights.groups.extend(groups.iter().map(u32::to_string));
    rights
}

fn rlimits(host: &HostConfig) -> Result<Vec<Rlimit>> {
    let limits = spec::ulimits(host)?;
    Ok(limits.into_iter().map(|l| Rlimit { resource: l.resource, soft: l.soft, hard: l.hard }).collect())
}

/// The log in the form of the plan. If this program delivers logs, a log that waits for its delivery waits for a program that is there.
fn log(found: &Snapshot, ships: ShipLogs) -> Result<Option<Log>> {
    let (row, spec) = (&found.row, &found.spec);
    let (max_size, max_file, compress, buffer) = match *spec.host_config.log() {
        LogDriver::None => return Ok(None),
        LogDriver::Local { max_size, max_file, compress, buffer }
        | LogDriver::Delivered { max_size, max_file, compress, buffer, .. } => (max_size, max_file, compress, buffer),
        LogDriver::JsonFile { max_size, max_file, compress, buffer } => {
            (max_size.unwrap_or(0), max_file, compress, buffer)
        }
    };
    let attributes = match *spec.host_config.log() {
        LogDriver::JsonFile { .. } => {
            let host = spec::host_name();
            spec::log_attributes(&TagFacts { id: &row.id, name: &row.name, host: &host, spec })?
        }
        _ => StringMap::new(),
    };
    let attributes = match attributes.is_empty() {
        true => String::new(),
        false => serde_json::to_string(&attributes)
            .map(|text| format!("\"attrs\":{text},"))
            .map_err(|e| Error::internal(format!("write log attributes: {e}")))?,
    };
    let is_delivered = matches!(spec.host_config.log(), LogDriver::Delivered { .. });
    let waits = ships != ShipLogs::None && is_delivered && buffer.is_none();
    let cursor = if waits { super::delivery::cursor_from_container(&row.id) } else { String::new() };
    let is_shipped = ships == ShipLogs::Program && is_delivered;
    Ok(Some(Log { name: dirs::log_name(found), attributes, max_size, max_file, compress, cursor, is_shipped, buffer }))
}

/// Whether the container's first process is an init. In another container's PID namespace it would not be the first.
pub(super) fn has_init(spec: &Spec) -> bool {
    spec.host_config.init == Some(true) && spec.host_config.modes().pid == PidMode::Private
}

/// The container's environment, then the request's.
fn exec_environment(found: &Snapshot, config: &ExecConfig, links: &[String]) -> Vec<String> {
    let mut spec = spec::Spec::clone(&found.spec);
    spec.config.tty = config.tty;
    let mut env = spec::environment(&spec, &spec::hostname(&spec, &found.row.id), links);
    for added in config.env.iter().flatten() {
        let key = added.split('=').next().unwrap_or_default();
        env.retain(|old| old.split('=').next() != Some(key));
        if added.contains('=') {
            env.push(added.clone());
        }
    }
    env
}

/// The attributes of the container's events, as the monitor writes them: JSON members without braces. Their size is
/// limited; labels beyond it are left out, the largest first.
pub(super) fn attributes(found: &Snapshot) -> String {
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

/// The error of a container whose namespace cannot be joined, as it does not run.
fn not_running(namespace: &str, id: &str) -> Error {
    Error::conflict(format!("cannot join {namespace} of a non running container: {id}")).with_other(id)
}

/// The restart policy and its count in the form of the monitor.
pub(super) fn policy_words(spec: &Spec) -> (u32, u32) {
    match spec.host_config.restart() {
        RestartPolicy::No => (RESTART_NO, 0),
        RestartPolicy::Always => (RESTART_ALWAYS, 0),
        RestartPolicy::UnlessStopped => (RESTART_UNLESS_STOPPED, 0),
        RestartPolicy::OnFailure { max } => (RESTART_ON_FAILURE, max.unwrap_or(0)),
    }
}
