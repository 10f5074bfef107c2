//! Spec → plan: the steps of a start, in order, as bytes that the monitor follows.
//!
//! [`Container`] has all decisions as plain values. The order of the steps is the difficult part; each step has the
//! sentence for its failure, so a plan can also be printed.

use super::devices::DeviceNode;
use super::{apparmor, cgroup};
use crate::kernel::mount::Below;
use crate::walls::Wall;
use coracle_monitor::encode::{Closed, Items, PlanWriter};
use coracle_monitor::ops;
use coracle_monitor::wire::*;
pub(crate) use coracle_monitor::wire::{MAX_VOLUMES, NET_HOST, NET_INSIDE};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The step that opens the container's own `/dev/null`, or its terminal.
const STREAMS: &str = "set up the standard streams";

/// The step that sets the AppArmor profile, whose name follows.
const PROFILE: &str = "apply the AppArmor profile ";

/// The step of operations for the monitor, which its child never reaches.
pub(crate) const READ: &str = "read the plan";

const RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
const NODEV: u64 = libc::MOUNT_ATTR_NODEV;
const NOEXEC: u64 = libc::MOUNT_ATTR_NOEXEC;
const STRICTATIME: u64 = libc::MOUNT_ATTR_STRICTATIME;
const ATIMES: u64 = libc::MOUNT_ATTR__ATIME;

/// CAP_SYS_ADMIN.
const SYS_ADMIN: u64 = 1 << 21;

/// A mount that the caller requested.
pub(crate) enum Mount {
    /// `attributes` are `MOUNT_ATTR_*` of the top mount, `propagation` is `MS_*` and also applies below with
    /// `propagate_below`.
    Bind {
        source: PathBuf,
        target: String,
        attributes: u64,
        propagation: u64,
        propagate_below: bool,
        /// Includes the mounts below the source.
        recursive: bool,
        make_source: bool,
        /// The mounts below the source are read-only, too.
        read_only_below: bool,
        /// The owners of files are ids of the container, if it has a user namespace.
        own_ids: bool,
        /// The path below the source that is bound in its place.
        part: Below,
    },
    /// A file system that all containers with a volume share: `index` of its mount namespace in the boot message.
    /// `attributes` are `MOUNT_ATTR_*` in addition to its own. `part` is the path below its root; empty: all of it.
    Volume { index: u32, name: String, target: String, part: String, attributes: u64, own_ids: bool },
    /// A file system made for the container: options are (key, value), or (key, "") for a word; `propagation` is `MS_*`, 0 for
    /// private.
    FileSystem {
        kind: String,
        source: String,
        target: String,
        attributes: u64,
        propagation: u64,
        options: Vec<(String, String)>,
    },
}

/// A resource limit.
pub(crate) struct Rlimit {
    pub resource: i32,
    pub soft: u64,
    pub hard: u64,
}

/// The origin of a container's namespace, one for each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// A namespace of the container's own.
    New,
    /// The host's.
    Host,
    /// Another container's: index of the namespace descriptor in the boot message.
    Join(u32),
}

/// Netlink requests with holes: see [`ops::Net`].
pub(crate) struct NetRequest {
    /// `NET_*`.
    pub place: u32,
    /// In the container.
    pub interface: String,
    pub acks: u32,
    /// `PATCH_*` and offset.
    pub patches: Vec<(u32, u32)>,
    pub messages: Vec<u8>,
    pub sentence: String,
}

/// The container's resolver: see [`ops::Dns`] and [`ops::Resolver`].
pub(crate) struct Resolver {
    pub port: u16,
    /// netfilter requests for the container's network namespace.
    pub redirect: Vec<u8>,
    /// The servers that the resolver asks.
    pub servers: Vec<Server>,
    /// Files of names below the container's run directory.
    pub names: Vec<String>,
    /// Names that only this container has for others: index of the file, alias, name.
    pub aliases: Vec<(u32, String, String)>,
}

/// A server to which the resolver forwards questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Server {
    pub ip: std::net::IpAddr,
    /// The scope of a link-local address.
    pub scope: u32,
    /// Only the host reaches the server.
    pub outside: bool,
}

/// The identity and the privileges of a process.
pub(crate) struct Rights {
    pub user: String,
    pub groups: Vec<String>,
    /// Capability mask for root; other users get none.
    pub capabilities: u64,
    /// Inheritable and ambient capabilities: the latter also apply to users other than root. The engine gives none.
    pub inheritable: u64,
    pub ambient: u64,
    pub no_new_privs: bool,
    /// The AppArmor profile; empty: the monitor's own, the only choice if the kernel has no AppArmor.
    pub apparmor: String,
    /// The SELinux label; empty: the policy's label for a program that the monitor executes.
    pub label: String,
    /// The SELinux label of the container's files, also of those in memory; empty: files keep their labels on the disk.
    pub mount_label: String,
    /// `struct sock_filter` array; empty: no filter.
    pub seccomp: Arc<[u8]>,
}

/// A program with its environment.
pub(crate) struct Program {
    pub argv: Vec<String>,
    pub env: Vec<String>,
    pub cwd: String,
    /// The directory is not made if it is missing.
    pub cwd_is_there: bool,
}

/// A json-file log.
pub(crate) struct Log {
    pub name: String,
    /// `"attrs":{...},` or empty.
    pub attributes: String,
    /// Bytes of a file; 0: unlimited.
    pub max_size: u64,
    /// Files in all.
    pub max_file: u32,
    /// Whether rotated files are compressed.
    pub compress: bool,
    /// The file of the delivery's cursor, from the container's directory: no file gives way before it is delivered. Empty:
    /// none waits.
    pub cursor: String,
    /// A program delivers the log.
    pub is_shipped: bool,
    /// So many bytes of lines wait for the file at most, and those that have no room are dropped. None: output waits for the file.
    pub buffer: Option<u64>,
}

/// A container to start, in its decided form.
pub(crate) struct Container {
    pub id: String,
    pub slot: u32,
    /// The image's name, for events.
    pub image: String,
    /// Event attributes: JSON members without braces.
    pub attributes: String,
    /// The actors of the mount and unmount events of each volume: `"Actor":{...}`.
    pub volumes: Vec<(String, String)>,
    pub hostname: String,
    pub domainname: String,
    pub tty: bool,
    pub open_stdin: bool,
    pub stdin_once: bool,
    pub rows: u16,
    pub cols: u16,
    /// Layers, topmost first.
    pub lower: Vec<PathBuf>,
    pub upper: PathBuf,
    pub work: PathBuf,
    pub volatile: bool,
    pub readonly_rootfs: bool,
    /// `MS_*` of the root in the container; 0 for private.
    pub root_propagation: u64,
    pub privileged: bool,
    pub mounts: Vec<Mount>,
    pub shm_size: u64,
    pub nodes: Vec<DeviceNode>,
    pub masked: Vec<String>,
    pub readonly: Vec<String>,
    pub sysctls: Vec<(String, String)>,
    pub rlimits: Vec<Rlimit>,
    pub oom_score_adj: i64,
    pub pid: Namespace,
    pub ipc: Namespace,
    /// Index of the mount namespace whose `/dev/shm` is shared, with a joined IPC namespace.
    pub shm_from: Option<u32>,
    /// The container has no `/dev/shm` at all.
    pub no_shm: bool,
    pub uts: Namespace,
    pub net: Namespace,
    /// The container has a cgroup namespace of its own.
    pub own_cgroups: bool,
    /// A new network namespace gets its loopback interface: this takes CAP_NET_ADMIN.
    pub loopback: bool,
    /// Messages that make the interfaces of a new network namespace.
    pub net_requests: Vec<NetRequest>,
    /// Answers names in the container.
    pub resolver: Option<Resolver>,
    /// The network namespace survives restarts.
    pub keep_net: bool,
    /// The place on the host of the socket at which the program listens: one that is left there goes before each start.
    pub stale_socket: Option<PathBuf>,
    /// The networks in events: id, JSON members without braces.
    pub networks: Vec<(String, String)>,
    /// Netfilter requests that the monitor sends at the end; empty: none.
    pub firewall_end: Vec<u8>,
    /// The index of the descriptor that keeps the reserved ports until the container's end. The descriptor after it holds the
    /// sockets of [`Container::relays`].
    pub port_reservation: Option<u32>,
    /// Ports whose connections the monitor forwards: their keys, the container's addresses and ports.
    pub relays: Vec<Relay>,
    pub namespace_count: u32,
    pub cgroups: cgroup::Plan,
    pub rights: Rights,
    pub program: Program,
    /// The user namespace; absent: the host's.
    pub users: Option<Users>,
    /// The log, if there is one.
    pub log: Option<Log>,
    /// `RESTART_*` and its count.
    pub restart: (u32, u32),
    pub health: Option<Health>,
    /// The kernel has no mount_setattr(2).
    pub remounts: bool,
}

/// A user namespace: the host's ids of its root, and the numbers of ids of users and of groups from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Users {
    pub uid: u32,
    pub gid: u32,
    pub count: u32,
    /// The number of group ids, if it differs.
    pub group_count: u32,
    /// Index of the namespace's descriptor, if it belongs to another container.
    pub join: Option<u32>,
}

/// A health check; times in nanoseconds.
pub(crate) struct Health {
    pub interval: u64,
    pub timeout: u64,
    pub start_period: u64,
    pub start_interval: u64,
    /// Consecutive failures that mean unhealthy.
    pub retries: u32,
    /// The command in events.
    pub command: String,
    pub check: Exec,
}

/// A compiled plan: the bytes for the monitor, and a sentence for each step.
#[derive(Default)]
pub(crate) struct Plan {
    pub bytes: Vec<u8>,
    pub steps: Vec<String>,
}

/// Compiles a start.
pub(crate) fn compile(c: &Container) -> Plan {
    let mut plan = PlanWriter::new();
    strings(&mut plan, c);
    cgroups(&mut plan, &c.cgroups);
    if let Some(health) = &c.health {
        self::health(&mut plan, health);
    }
    users(&mut plan, c);
    join(&mut plan, c);
    names(&mut plan, c);
    networks(&mut plan, c);
    if !changes_profile(c) {
        profile(&mut plan, &c.rights);
    }
    label(&mut plan, &c.rights);
    oom_score(&mut plan, c.oom_score_adj);
    let kind = (libc::MS_REC | propagation_of_root(c)) as u32;
    plan.push(ops::Propagation { kind }, "make the mounts private");
    root(&mut plan, c);
    proc(&mut plan);
    match bound(c, "/dev") {
        None => dev(&mut plan, c),
        // No node is made in a directory of the host.
        Some(_) => nodes(&mut plan, c.nodes.iter().filter(|node| !node.path.starts_with("/dev/"))),
    }
    sys(&mut plan, c);
    user_mounts(&mut plan, c);
    foreign_dev(&mut plan, c);
    sysctls(&mut plan, &c.sysctls);
    for path in c.readonly.iter().filter(|_| Wall::ReadonlyPaths.stands()) {
        plan.push(ops::Readonly { path: closed(path).text() }, format!("make {path} read-only"));
    }
    for path in c.masked.iter().filter(|_| Wall::MaskedPaths.stands()) {
        plan.push(ops::Mask { path: closed(path).text() }, format!("mask {path}"));
    }
    plan.push(ops::Stdio {}, STREAMS);
    let attributes = if c.readonly_rootfs { RDONLY } else { 0 };
    let pivot = ops::Pivot { attributes, propagation: c.root_propagation as u32 };
    plan.push(pivot, "change to the root file system");
    limits(&mut plan, &c.rlimits);
    if let Some(users) = &c.users {
        // A container without the right to mount needs no locked mounts; an archive could not be extracted into locked
        // ones.
        let own_mounts = c.rights.capabilities & SYS_ADMIN != 0;
        plan.push(ops::UserNs { uid: users.uid, gid: users.gid, own_mounts }, "enter the user namespace");
    }
    if changes_profile(c) {
        let word = format!("changeprofile {}", c.rights.apparmor);
        plan.push(ops::ChangeProfile { word: word.as_bytes() }, format!("{PROFILE}{}", c.rights.apparmor));
    }
    process(&mut plan, &c.rights, &c.program);
    for_the_monitor(&mut plan, c);
    let (bytes, steps) = plan.finish(header(c));
    Plan { bytes, steps }
}

fn sysctls(plan: &mut PlanWriter, parameters: &[(String, String)]) {
    for (name, value) in parameters {
        plan.push(
            ops::Sysctl { name: closed(name).text(), value: value.as_bytes() },
            format!("set sysctl {name} to {value}"),
        );
    }
}

/// Compiles only the limits, to replace those of a running container from its next start on.
pub(crate) fn compile_limits(cgroups: &cgroup::Plan) -> Vec<u8> {
    let mut plan = PlanWriter::new();
    self::cgroups(&mut plan, cgroups);
    plan.finish(empty_header()).0
}

/// Compiles the changes of a running container's network namespace.
pub(crate) fn compile_network(
    requests: &[NetRequest],
    parameters: &[(String, String)],
    dns: Option<&Resolver>,
) -> Plan {
    let mut plan = PlanWriter::new();
    plan.push(ops::Enter { namespaces: libc::CLONE_NEWNET as u32 }, "enter the container's network");
    requests.iter().for_each(|request| net_request(&mut plan, request));
    sysctls(&mut plan, parameters);
    if let Some(dns) = dns {
        resolver(&mut plan, dns);
    }
    plan.push(ops::Done {}, "end");
    let (bytes, steps) = plan.finish(empty_header());
    Plan { bytes, steps }
}

/// A port of the host whose connections the monitor forwards.
pub(crate) struct Relay {
    pub key: [u8; RELAY_KEY],
    pub to: std::net::IpAddr,
    pub port: u16,
}

/// The values that an exec needs.
pub(crate) struct Exec {
    pub tty: bool,
    pub rows: u16,
    pub cols: u16,
    /// `CLONE_NEW*` of the namespaces to enter.
    pub enter: u32,
    /// The container's user namespace, if it has one.
    pub users: Option<Users>,
    pub oom_score_adj: i64,
    pub rlimits: Vec<Rlimit>,
    pub rights: Rights,
    pub program: Program,
}

/// Compiles an additional process of a running container.
pub(crate) fn compile_exec(e: &Exec) -> Plan {
    let mut plan = PlanWriter::new();
    profile(&mut plan, &e.rights);
    label(&mut plan, &e.rights);
    oom_score(&mut plan, e.oom_score_adj);
    if let Some(users) = &e.users {
        plan.push(ops::OwnStreams { uid: users.uid, gid: users.gid }, "give the streams to the container");
    }
    plan.push(ops::Enter { namespaces: e.enter }, "enter the container's namespaces");
    plan.push(ops::Stdio {}, STREAMS);
    limits(&mut plan, &e.rlimits);
    process(&mut plan, &e.rights, &e.program);
    let flags = if e.tty { FLAG_TTY } else { 0 };
    let (bytes, steps) = plan.finish(Header { flags, rows: e.rows, cols: e.cols, ..empty_header() });
    Plan { bytes, steps }
}

fn closed(text: impl AsRef<[u8]>) -> Closed {
    Closed::of(text)
}

fn health(plan: &mut PlanWriter, health: &Health) {
    plan.push(
        ops::Health {
            interval: health.interval,
            timeout: health.timeout,
            start_period: health.start_period,
            start_interval: health.start_interval,
            retries: health.retries,
            command: json_inside(&health.command).as_bytes(),
            plan: &compile_exec(&health.check).bytes,
        },
        READ,
    );
}

pub(super) fn empty_header() -> Header {
    Header {
        magic: PLAN_MAGIC,
        version: VERSION,
        length: 0,
        flags: 0,
        slot: 0,
        clone_flags: 0,
        restart: RESTART_NO,
        restart_max: 0,
        log_max_size: 0,
        log_max_file: 0,
        rows: 0,
        cols: 0,
        namespaces: 0,
        reserved: 0,
    }
}

fn header(c: &Container) -> Header {
    let mut flags = 0;
    let mut set = |on: bool, flag: u32| flags |= if on { flag } else { 0 };
    set(c.tty, FLAG_TTY);
    set(c.open_stdin, FLAG_OPEN_STDIN);
    set(c.stdin_once, FLAG_STDIN_ONCE);
    set(c.log.is_some(), FLAG_LOG);
    set(c.log.as_ref().is_some_and(|log| log.compress), FLAG_LOG_COMPRESS);
    set(c.pid != Namespace::New, FLAG_SHARED_PIDS);
    set(c.remounts, FLAG_REMOUNT);
    let pids = if c.pid == Namespace::New { libc::CLONE_NEWPID } else { 0 };
    // Namespaces that belong to a user namespace are made with it.
    let others = if c.users.is_some() { 0 } else { new_namespaces(c) };
    let new = libc::CLONE_NEWNS | pids | others;
    Header {
        flags,
        slot: c.slot,
        clone_flags: new as u64,
        restart: c.restart.0,
        restart_max: c.restart.1,
        log_max_size: c.log.as_ref().map_or(0, |log| log.max_size),
        log_max_file: c.log.as_ref().map_or(0, |log| log.max_file),
        rows: c.rows,
        cols: c.cols,
        namespaces: c.namespace_count,
        ..empty_header()
    }
}

/// `CLONE_NEW*` of the new namespaces that belong to the user namespace.
fn new_namespaces(c: &Container) -> libc::c_int {
    let kinds = [(c.ipc, libc::CLONE_NEWIPC), (c.uts, libc::CLONE_NEWUTS), (c.net, libc::CLONE_NEWNET)];
    kinds.iter().filter(|(from, _)| *from == Namespace::New).fold(0, |all, (_, kind)| all | kind)
}

/// The user namespace; everything that later steps make belongs to its root.
fn users(plan: &mut PlanWriter, c: &Container) {
    let Some(users) = &c.users else { return };
    let map = |first: u32, count: u32| format!("0 {first} {count}\n");
    plan.push(
        ops::UserMap {
            namespaces: new_namespaces(c) as u32,
            join: users.join,
            uids: map(users.uid, users.count).as_bytes(),
            gids: map(users.gid, users.group_count).as_bytes(),
        },
        "make the user namespace",
    );
    plan.push(ops::FsOwner { uid: users.uid, gid: users.gid }, "make files the container's");
}

fn strings(plan: &mut PlanWriter, c: &Container) {
    let mut string = |kind: u32, text: &str| {
        plan.push(ops::Note { kind, text: closed(text).text() }, READ);
    };
    string(STRING_ID, &c.id);
    string(STRING_FROM, &json_inside(&c.image));
    string(STRING_ATTRIBUTES, &c.attributes);
    for (mounted, unmounted) in &c.volumes {
        string(STRING_MOUNTED, mounted);
        string(STRING_UNMOUNTED, unmounted);
    }
    if let Some(log) = &c.log {
        string(STRING_LOG_NAME, &log.name);
        string(STRING_LOG_ATTRS, &log.attributes);
        if !log.cursor.is_empty() {
            string(STRING_LOG_CURSOR, &log.cursor);
        }
        if log.is_shipped {
            string(STRING_LOG_SHIPPED, "");
        }
        if let Some(most) = log.buffer {
            plan.push(ops::LogBuffer { most }, READ);
        }
    }
}

/// A text, escaped for a JSON string.
pub(crate) fn json_inside(text: &str) -> String {
    let quoted = serde_json::Value::String(text.to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn cgroups(plan: &mut PlanWriter, cgroups: &cgroup::Plan) {
    // A process is created in its v2 group; v1 groups are joined later.
    let (early, late): (Vec<_>, Vec<_>) = cgroups.groups.iter().partition(|group| group.version == cgroup::Version::V2);
    groups(plan, cgroups, &early);
    plan.push(ops::CgroupLate {}, READ);
    groups(plan, cgroups, &late);
}

fn groups(plan: &mut PlanWriter, cgroups: &cgroup::Plan, groups: &[&cgroup::Group]) {
    for group in groups {
        if !group.parent_writes.is_empty() {
            make_group(plan, group.dir.parent().unwrap_or(&group.mount), false);
        }
        for write in &group.parent_writes {
            write_value(plan, &group.mount, write);
        }
        make_group(plan, &group.dir, true);
        for write in &group.writes {
            write_value(plan, &group.dir, write);
        }
        if !group.device_program.is_empty() {
            let path = closed(bytes(&group.dir));
            plan.push(
                ops::CgroupDevices { path: path.text(), program: &group.device_program },
                format!("rule devices in {}", group.dir.display()),
            );
        }
        control_files(plan, group, cgroups.v2);
    }
}

fn control_files(plan: &mut PlanWriter, group: &cgroup::Group, pure_v2: bool) {
    let has = |name: &str| group.controllers.iter().any(|c| c == name);
    let v2 = group.version == cgroup::Version::V2;
    let file = |name: &str| closed(bytes(&group.dir.join(name)));
    if has("freezer") && !v2 {
        plan.push(ops::CgroupFreezer { path: file("freezer.state").text() }, "find the freezer");
    } else if pure_v2 {
        plan.push(ops::CgroupFreezer { path: file("cgroup.freeze").text() }, "find the freezer");
    }
    if has("memory") {
        let name = if v2 { "memory.events" } else { "memory.oom_control" };
        plan.push(ops::CgroupOom { path: file(name).text() }, "find the memory events");
    }
}

fn make_group(plan: &mut PlanWriter, dir: &Path, join: bool) {
    plan.push(ops::CgroupDir { join, path: closed(bytes(dir)).text() }, format!("make cgroup {}", dir.display()));
}

fn write_value(plan: &mut PlanWriter, base: &Path, write: &cgroup::Write) {
    let path = base.join(&write.file);
    let ignore = write.on_error == cgroup::OnError::Ignore;
    let sentence = format!("write {:?} to {}", write.value, path.display());
    let path = closed(bytes(&path));
    plan.push(ops::CgroupWrite { ignore, path: path.text(), value: write.value.as_bytes() }, sentence);
}

fn bytes(path: &Path) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes()
}

fn join(plan: &mut PlanWriter, c: &Container) {
    // Other processes in a shared PID namespace must show their own namespaces.
    let kinds = [
        ("ipc", c.ipc, libc::CLONE_NEWIPC),
        ("uts", c.uts, libc::CLONE_NEWUTS),
        ("net", c.net, libc::CLONE_NEWNET),
        ("pid", c.pid, libc::CLONE_NEWPID),
    ];
    for (name, from, kind) in kinds {
        if let Namespace::Join(index) = from {
            plan.push(ops::JoinNs { index, kind: kind as u32 }, format!("join the {name} namespace"));
        }
    }
}

fn names(plan: &mut PlanWriter, c: &Container) {
    if c.uts == Namespace::New {
        if !c.hostname.is_empty() {
            let op = ops::Hostname { name: c.hostname.as_bytes() };
            plan.push(op, format!("set the host name {}", c.hostname));
        }
        if !c.domainname.is_empty() {
            let op = ops::Domainname { name: c.domainname.as_bytes() };
            plan.push(op, format!("set the domain name {}", c.domainname));
        }
    }
    if c.net == Namespace::New && c.loopback {
        plan.push(ops::Loopback {}, "bring the loopback interface up");
    }
}

fn networks(plan: &mut PlanWriter, c: &Container) {
    c.net_requests.iter().for_each(|request| net_request(plan, request));
    if let Some(dns) = &c.resolver {
        resolver(plan, dns);
    }
}

fn net_request(plan: &mut PlanWriter, request: &NetRequest) {
    plan.push(
        ops::Net {
            place: request.place,
            acks: request.acks,
            interface: closed(&request.interface).text(),
            holes: Items::of(request.patches.iter().copied()).list(),
            messages: &request.messages,
        },
        request.sentence.clone(),
    );
}

fn resolver(plan: &mut PlanWriter, resolver: &Resolver) {
    plan.push(ops::Dns { port: u32::from(resolver.port) }, "make the sockets of the resolver");
    plan.push(
        ops::Net {
            place: NET_INSIDE_FILTER,
            acks: 1,
            interface: closed("").text(),
            holes: Items::of([]).list(),
            messages: &resolver.redirect,
        },
        "lead questions to the resolver",
    );
}

/// Steps for the monitor, which its child never reaches: they come last, so that the earlier steps are equal in every
/// start of a container.
fn for_the_monitor(plan: &mut PlanWriter, c: &Container) {
    for (id, members) in &c.networks {
        plan.push(ops::Network { id: id.as_bytes(), attributes: members.as_bytes() }, READ);
    }
    if let Some(resolver) = &c.resolver {
        names_of(plan, resolver);
    }
    if c.keep_net {
        plan.push(ops::KeepNet {}, READ);
    }
    if let Some(socket) = &c.stale_socket {
        let (dir, name) = (socket.parent().unwrap_or(Path::new("/")), socket.file_name().unwrap_or_default());
        let (dir, name) = (closed(bytes(dir)), closed(name.as_encoded_bytes()));
        plan.push(ops::StaleSocket { dir: dir.text(), name: name.text() }, READ);
    }
    if !c.firewall_end.is_empty() {
        plan.push(ops::FirewallEnd { messages: &c.firewall_end }, READ);
    }
    if let Some(index) = c.port_reservation {
        plan.push(ops::Hold { index }, READ);
        plan.push(ops::RelayQueue { index: index + 1 }, READ);
    }
    if !c.relays.is_empty() {
        let ips: Vec<_> = c.relays.iter().map(|relay| mapped(relay.to)).collect();
        let port = |(relay, ip)| {
            let Relay { key, port, .. }: &Relay = relay;
            ops::RelayPort { key, ip, port: u32::from(*port) }
        };
        plan.push(ops::Relay { ports: Items::of(c.relays.iter().zip(&ips).map(port)).list() }, READ);
    }
}

fn names_of(plan: &mut PlanWriter, resolver: &Resolver) {
    let old: Vec<_> = resolver.servers.iter().filter_map(old_server).collect();
    let old = Items::of(old.iter().map(|(ip, outside)| ops::OldServer { ip, outside: *outside }));
    plan.push(ops::Resolver { servers: old.list(), names: Items::texts(&resolver.names).list() }, READ);
    let ips: Vec<_> = resolver.servers.iter().map(|server| mapped(server.ip)).collect();
    let servers = resolver.servers.iter().zip(&ips);
    let servers = servers.map(|(server, ip)| ops::Server { ip, outside: server.outside, scope: server.scope });
    plan.push(ops::Servers { servers: Items::of(servers).list() }, READ);
    if !resolver.aliases.is_empty() {
        let aliases = resolver.aliases.iter().map(|(network, alias, name)| ops::Alias {
            network: *network,
            alias: alias.as_bytes(),
            name: name.as_bytes(),
        });
        plan.push(ops::Aliases { aliases: Items::of(aliases).list() }, READ);
    }
}

/// Monitors of earlier versions only know IPv4 servers.
fn old_server(server: &Server) -> Option<([u8; 4], bool)> {
    match server.ip {
        std::net::IpAddr::V4(ip) => Some((ip.octets(), server.outside)),
        std::net::IpAddr::V6(_) => None,
    }
}

fn mapped(ip: std::net::IpAddr) -> [u8; 16] {
    match ip {
        std::net::IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(ip) => ip.octets(),
    }
}

/// Whether the first process gets its profile before its exec: a change of profile at the exec makes the kernel clear
/// the parent-death signal. Only the engine's own profile allows this, because it permits any exec and does not change
/// at one; another profile may permit only the container's program. In a shared PID namespace the process is confined
/// differently.
fn changes_profile(c: &Container) -> bool {
    c.rights.apparmor == apparmor::DEFAULT && !matches!(c.pid, Namespace::Join(_)) && Wall::AppArmorLabel.stands()
}

/// Requires the host's procfs, so it comes before the container's.
fn profile(plan: &mut PlanWriter, rights: &Rights) {
    if rights.apparmor.is_empty() || !Wall::AppArmorLabel.stands() {
        return;
    }
    // A host program that is itself confined may be unable to run a container unconfined: then its own profile stays.
    let required = rights.apparmor != apparmor::UNCONFINED;
    let word = format!("exec {}", rights.apparmor);
    plan.push(ops::Profile { required, word: word.as_bytes() }, format!("{PROFILE}{}", rights.apparmor));
}

/// Requires the host's procfs, so it comes before the container's.
fn label(plan: &mut PlanWriter, rights: &Rights) {
    if !rights.label.is_empty() && Wall::SelinuxLabel.stands() {
        plan.push(ops::Label { label: rights.label.as_bytes() }, format!("apply the SELinux label {}", rights.label));
    }
    if !rights.mount_label.is_empty() {
        plan.push(ops::MountLabel { label: closed(&rights.mount_label).text() }, READ);
    }
}

fn oom_score(plan: &mut PlanWriter, value: i64) {
    // A host that may not lower its own score cannot lower its containers' either; only a requested value makes this an
    // error.
    let op = ops::OomScore { value: value as i32, required: value != 0 };
    plan.push(op, format!("set oom_score_adj to {value}"));
}

/// Private, unless a bind mount needs the host's later mounts.
fn propagation_of_root(c: &Container) -> u64 {
    let listens = |mount: &Mount| matches!(mount, Mount::Bind { propagation, .. } if *propagation & (libc::MS_SLAVE | libc::MS_SHARED) != 0);
    match c
        .mounts
        .iter()
        .any(|mount| matches!(mount, Mount::Bind { propagation, .. } if *propagation == libc::MS_SHARED))
    {
        true => libc::MS_SHARED,
        false if c.mounts.iter().any(listens) => libc::MS_SLAVE,
        false => libc::MS_PRIVATE,
    }
}

fn root(plan: &mut PlanWriter, c: &Container) {
    let volatile = if c.volatile { OVERLAY_VOLATILE } else { 0 };
    let mapped = if c.users.is_some() { OVERLAY_IDMAP } else { 0 };
    plan.push(
        ops::Overlay {
            upper: closed(bytes(&c.upper)).text(),
            work: closed(bytes(&c.work)).text(),
            flags: volatile | mapped,
            lower: Items::texts(c.lower.iter().map(|layer| bytes(layer))).list(),
        },
        "mount the root file system",
    );
}

/// A new file system at a target that must not be reached through a link.
fn mount(plan: &mut PlanWriter, special: u32, kind: &str, target: &str, attributes: u64, options: &[(&str, &str)]) {
    plan.push(
        ops::Mount {
            special: special | SPECIAL_FIXED,
            attributes: attributes as u32,
            kind: closed(kind).text(),
            source: closed(kind).text(),
            target: closed(target).text(),
            options: Items::pairs(options.iter().copied()).list(),
        },
        format!("mount {kind} on {target}"),
    );
}

fn proc(plan: &mut PlanWriter) {
    mount(plan, SPECIAL_PROC, "proc", "/proc", NOSUID | NODEV | NOEXEC, &[]);
}

/// A new file system in the current place.
fn mount_here(plan: &mut PlanWriter, kind: &str, place: &str, name: &str, flags: u64, options: &str) {
    plan.push(
        ops::MountHere {
            flags: flags as u32,
            kind: closed(kind).text(),
            options: closed(options).text(),
            name: closed(name).text(),
        },
        format!("mount {kind} on {place}/{name}"),
    );
}

/// The name of a path: relative if it lies directly in the current place.
fn in_place<'a>(path: &'a str, place: &str) -> &'a str {
    let name = path.strip_prefix(place).and_then(|rest| rest.strip_prefix('/'));
    name.filter(|name| !name.contains('/')).unwrap_or(path)
}

/// The options of a file system of the container's own, including its label.
fn labelled<'a>(c: &'a Container, options: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let label = (!c.rights.mount_label.is_empty()).then_some(("context", c.rights.mount_label.as_str()));
    options.iter().copied().chain(label).collect()
}

fn dev(plan: &mut PlanWriter, c: &Container) {
    let options = labelled(c, &[("mode", "755"), ("size", "65536k")]);
    mount(plan, SPECIAL_PLACE, "tmpfs", "/dev", NOSUID | STRICTATIME, &options);
    // The group of terminals, and the container's root if it is not the host's.
    let (uid, gid) = c.users.map_or((0, 5), |users| (users.uid, users.gid + 5));
    let (uid, gid) = (uid.to_string(), gid.to_string());
    let pts = [("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620"), ("gid", &gid), ("uid", &uid)];
    let pts = if c.users.is_some() { &pts[..] } else { &pts[..4] };
    if bound(c, "/dev/pts").is_none() {
        mount(plan, SPECIAL_DEVPTS, "devpts", "pts", NOSUID | NOEXEC, &labelled(c, pts));
    }
    shared_memory(plan, c);
    mount_here(plan, "mqueue", "/dev", "mqueue", NOSUID | NODEV | NOEXEC, "");
    nodes(plan, c.nodes.iter());
    let links = [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("core", "/proc/kcore"),
    ];
    for (name, text) in links {
        symlink(plan, "/dev", name, text);
    }
}

/// A symbolic link in the current place.
fn symlink(plan: &mut PlanWriter, place: &str, name: &str, text: &str) {
    plan.push(
        ops::Symlink { target: closed(name).text(), text: closed(text).text() },
        format!("make link {place}/{name}"),
    );
}

fn nodes<'a>(plan: &mut PlanWriter, nodes: impl Iterator<Item = &'a DeviceNode>) {
    for node in nodes {
        plan.push(
            ops::Node {
                mode: node.mode | node.kind.type_bits(),
                major: node.major,
                minor: node.minor,
                uid: node.uid,
                gid: node.gid,
                target: closed(in_place(&node.path, "/dev")).text(),
            },
            format!("make device {}", node.path),
        );
    }
}

/// The propagation (`MS_*`) of a bind mount that replaces the container's own `/dev`, or a file in it.
fn bound(c: &Container, path: &str) -> Option<u64> {
    c.mounts.iter().find_map(|mount| match mount {
        Mount::Bind { target, propagation, .. } if target == path => Some(*propagation),
        _ => None,
    })
}

/// The sources of terminals and the console's mount point, if they are not the container's own.
fn foreign_dev(plan: &mut PlanWriter, c: &Container) {
    let [dev, pts, console] = ["/dev", "/dev/pts", "/dev/console"].map(|path| bound(c, path));
    if dev.or(pts).or(console).is_none() {
        return;
    }
    // The host would see the mount on its console.
    let seen = dev.into_iter().chain(console).any(|propagation| propagation & libc::MS_SHARED != 0);
    let terminals = if dev.or(pts).is_some() { FOREIGN_PTS } else { 0 };
    let console = match dev {
        _ if seen => 0,
        Some(_) => FOREIGN_CONSOLE,
        None => FOREIGN_NOT_CONSOLE,
    };
    plan.push(ops::ForeignDev { parts: terminals | console }, "use what was bound in /dev");
}

fn shared_memory(plan: &mut PlanWriter, c: &Container) {
    let own = |mount: &Mount| match mount {
        Mount::Bind { target, .. } | Mount::FileSystem { target, .. } | Mount::Volume { target, .. } => {
            target == "/dev/shm"
        }
    };
    if c.no_shm || c.mounts.iter().any(own) {
        return;
    }
    match (c.ipc, c.shm_from) {
        (Namespace::Join(_), Some(index)) => {
            plan.push(ops::SharedShm { index }, "share /dev/shm");
        }
        (Namespace::Host, _) => {
            bind(plan, Path::new("/dev/shm"), "/dev/shm", NOSUID | NODEV | NOEXEC, libc::MS_PRIVATE, 0)
        }
        _ => {
            let size = if Wall::ShmSize.stands() { format!(",size={}", c.shm_size) } else { String::new() };
            // In quotation marks, because the label has commas.
            let label = match c.rights.mount_label.as_str() {
                "" => String::new(),
                label => format!(",context=\"{label}\""),
            };
            let options = format!("mode=1777{size}{label}");
            mount_here(plan, "tmpfs", "/dev", "shm", NOSUID | NODEV | NOEXEC, &options);
        }
    }
}

fn sys(plan: &mut PlanWriter, c: &Container) {
    let access = if c.privileged { 0 } else { RDONLY };
    let attributes = NOSUID | NODEV | NOEXEC;
    mount(plan, SPECIAL_NONE, "sysfs", "/sys", attributes | access, &[]);
    if c.own_cgroups {
        plan.push(ops::CgroupNs {}, "make a cgroup namespace");
    }
    const BASE: &str = "/sys/fs/cgroup";
    let access = if Wall::CgroupReadOnly.stands() { access } else { 0 };
    if c.cgroups.v2 {
        return mount(plan, SPECIAL_NONE, "cgroup2", BASE, attributes | access, &[]);
    }
    mount(plan, SPECIAL_PLACE, "tmpfs", BASE, attributes, &labelled(c, &[("mode", "755")]));
    for group in c.cgroups.groups.iter().filter(|group| !group.mount_name.is_empty()) {
        mount_here(plan, "cgroup", BASE, &group.mount_name, attributes | access, &group.mount_options);
        for link in &group.links {
            symlink(plan, BASE, link, &group.mount_name);
        }
    }
    if !c.privileged {
        plan.push(
            ops::Attr { set: RDONLY, path: closed(BASE).text(), propagation: 0 },
            format!("make {BASE} read-only"),
        );
    }
}

fn user_mounts(plan: &mut PlanWriter, c: &Container) {
    for mount in &c.mounts {
        match mount {
            Mount::Bind {
                source,
                target,
                attributes,
                propagation,
                propagate_below,
                recursive,
                make_source,
                read_only_below,
                own_ids,
                part,
            } => {
                let flags = if *propagate_below { BIND_PROPAGATE_BELOW } else { 0 }
                    | if *make_source { BIND_MAKE_SOURCE } else { 0 }
                    | if *read_only_below { BIND_READ_ONLY_BELOW } else { 0 }
                    | if *recursive { BIND_RECURSIVE } else { 0 }
                    | if *own_ids { BIND_OWN } else { 0 }
                    | if *own_ids && c.users.is_some() { BIND_IDMAP } else { 0 };
                let Below { path, no_links } = part;
                let flags = flags | if *no_links { BIND_NO_LINKS } else { 0 };
                match path.as_str() {
                    "" => bind(plan, source, target, *attributes, *propagation, flags),
                    part => bind_part(plan, (source, part), target, *attributes, *propagation, flags),
                }
            }
            Mount::Volume { index, name, target, part, attributes, own_ids } => {
                let flags = if *own_ids && c.users.is_some() { BIND_IDMAP } else { 0 };
                volume(plan, (*index, name, part), target, *attributes, flags);
            }
            Mount::FileSystem { kind, source, target, attributes, propagation, options } => {
                let users = c.users.as_ref();
                let options = options.iter().map(|(key, value)| (key, owner(users, kind, key, value)));
                plan.push(
                    ops::Mount {
                        special: SPECIAL_NONE,
                        attributes: *attributes as u32,
                        kind: closed(kind).text(),
                        source: closed(source).text(),
                        target: closed(target).text(),
                        options: Items::pairs(options).list(),
                    },
                    format!("mount {kind} on {target}"),
                );
                if *propagation != 0 {
                    let propagation = *propagation as u32;
                    plan.push(
                        ops::Attr { set: 0, path: closed(target).text(), propagation },
                        format!("set the propagation of {target}"),
                    );
                }
            }
        }
    }
}

/// `from`: the index of the volume's mount namespace, the volume's name, and the part of it; empty: the whole volume.
fn volume(plan: &mut PlanWriter, from: (u32, &str, &str), target: &str, attributes: u64, flags: u32) {
    let (index, name, part) = from;
    let (set, clear, at, below) = (attributes, cleared(attributes), closed(target), closed(part));
    let place = at.text();
    match part {
        "" => plan.push(
            ops::Volume { index, flags, set, clear, target: place, name: name.as_bytes() },
            format!("mount volume {name} on {target}"),
        ),
        _ => plan.push(
            ops::VolumePart { index, flags, set, clear, target: place, part: below.text(), name: name.as_bytes() },
            format!("mount {part} of volume {name} on {target}"),
        ),
    }
}

/// The kernel takes the owner of a file system in memory as an id of the host.
fn owner(users: Option<&Users>, kind: &str, key: &str, value: &str) -> String {
    let first = match (users, key) {
        (Some(users), "uid") => users.uid,
        (Some(users), "gid") => users.gid,
        _ => return value.to_owned(),
    };
    let shifted = value.parse::<u32>().ok().filter(|_| kind == "tmpfs").and_then(|id| id.checked_add(first));
    shifted.map_or(value.to_owned(), |id| id.to_string())
}

fn bind(plan: &mut PlanWriter, source: &Path, target: &str, attributes: u64, propagation: u64, flags: u32) {
    plan.push(
        ops::Bind {
            flags,
            propagation: propagation as u32,
            set: attributes,
            clear: cleared(attributes),
            source: closed(bytes(source)).text(),
            target: closed(target).text(),
        },
        format!("bind {} to {target}", source.display()),
    );
}

/// As [`bind`], of a path below a directory.
fn bind_part(
    plan: &mut PlanWriter,
    (dir, part): (&Path, &str),
    target: &str,
    attributes: u64,
    propagation: u64,
    flags: u32,
) {
    plan.push(
        ops::BindPart {
            flags,
            propagation: propagation as u32,
            set: attributes,
            clear: cleared(attributes),
            source: closed(bytes(dir)).text(),
            part: closed(part).text(),
            target: closed(target).text(),
        },
        format!("bind {part} of {} to {target}", dir.display()),
    );
}

/// Access time modes exclude each other: a new one replaces the old one.
fn cleared(attributes: u64) -> u64 {
    if attributes & ATIMES != 0 { ATIMES } else { 0 }
}

fn limits(plan: &mut PlanWriter, rlimits: &[Rlimit]) {
    for limit in rlimits {
        let sentence = format!("set resource limit {} to {}:{}", limit.resource, limit.soft, limit.hard);
        let resource = limit.resource as u32;
        plan.push(ops::Rlimit { resource, reserved: 0, soft: limit.soft, hard: limit.hard }, sentence);
    }
}

/// The last steps of any process: working directory, identity, program.
fn process(plan: &mut PlanWriter, rights: &Rights, program: &Program) {
    plan.push(ops::Keyring {}, "make a session keyring");
    let cwd = if program.cwd.is_empty() { "/" } else { &program.cwd };
    let path = closed(cwd);
    let sentence = format!("change to directory {cwd}");
    match program.cwd_is_there {
        true => plan.push(ops::Chdir { path: path.text() }, sentence),
        false => plan.push(ops::Workdir { path: path.text() }, sentence),
    }
    identity(plan, rights);
    let name = program.argv.first().map_or("", String::as_str);
    let (argv, env) = (Items::texts(&program.argv), Items::texts(&program.env));
    let words = ops::Words { argv: argv.list(), env: env.list() };
    plan.push(ops::Exec { words }, format!("exec: {name:?}"));
}

fn identity(plan: &mut PlanWriter, rights: &Rights) {
    let groups = Items::of(rights.groups.iter().map(String::as_bytes));
    let credentials = ops::Credentials {
        bounding: rights.capabilities,
        for_root: rights.capabilities,
        for_others: rights.ambient,
        user: rights.user.as_bytes(),
        groups: groups.list(),
    };
    let op = ops::Identity {
        flags: if rights.no_new_privs { ID_NO_NEW_PRIVS } else { 0 },
        credentials,
        filter: &rights.seccomp,
        inheritable: rights.inheritable,
        ambient: rights.ambient,
    };
    plan.push(op, format!("become user {:?}", rights.user));
}
