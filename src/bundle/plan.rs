//! `config.json` → the values for the launch.
//!
//! The launch makes `/proc`, `/dev` and its content, `/sys` and the control groups by itself, in the usual order of
//! configurations; an entry of `mounts` for one of them is already satisfied. A setting that the launch does not
//! support is an error that names the field.

use super::Place;
use super::config::*;
use crate::container::rlimit;
use crate::error::{Error, Result};
use crate::kernel::mount::Below;
use crate::kernel::probe;
use crate::launch::cgroup::{self, Hierarchies, OnError, Version};
use crate::launch::devices::{DeviceKind, DeviceNode, DeviceRules, default_nodes, default_rules, rules_of};
use crate::launch::plan::{Container, Mount, Namespace, Program, Rights, Rlimit, Users};
use crate::launch::{apparmor, capability, seccomp};
use crate::model;
use coracle_monitor::wire::RESTART_NO;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The path of the starter in the container.
const STARTER: &str = "/dev/.coracle-start";

/// The targets that the launch mounts by itself, and the type of each.
const OWN_MOUNTS: &[(&str, &str)] = &[
    ("/proc", "proc"),
    ("/dev", "tmpfs"),
    ("/dev/pts", "devpts"),
    ("/dev/shm", "tmpfs"),
    ("/dev/mqueue", "mqueue"),
    ("/sys", "sysfs"),
    ("/sys/fs/cgroup", "cgroup"),
    ("/sys/fs/cgroup", "cgroup2"),
];

/// The parts of a container.
pub(super) struct Made<'a> {
    pub place: &'a Place,
    pub bundle: &'a Path,
    /// The root file system, and the overlay's working directory.
    pub upper: PathBuf,
    pub work: PathBuf,
    pub config: &'a Config,
    pub starter: &'a Path,
    pub host: &'a Hierarchies,
}

/// The root file system.
pub(super) fn root_of(bundle: &Path, config: &Config) -> Result<PathBuf> {
    let root = config.root.as_ref().ok_or_else(|| Error::invalid("root: a container of Linux needs one"))?;
    let path = bundle.join(&root.path);
    let found = path.canonicalize().map_err(|e| Error::io(format_args!("root.path: find {}", path.display()), &e))?;
    match found.is_dir() && found.parent().is_some() {
        true => Ok(found),
        false => Err(Error::invalid(format!("root.path: {} is not a directory for a root", found.display()))),
    }
}

/// Parent and name of the control group.
pub(super) fn cgroup_of(config: &Config, id: &str) -> (String, String) {
    let path = config.linux.cgroups_path.as_deref().unwrap_or_default().trim_end_matches('/');
    match path.rsplit_once('/') {
        _ if path.is_empty() => ("coracle-oci".into(), id.into()),
        Some((parent, name)) => (parent.into(), name.into()),
        None => (String::new(), path.into()),
    }
}

impl Made<'_> {
    /// The container, and the namespaces that it joins.
    pub(super) fn container(&self) -> Result<(Container, Vec<OwnedFd>)> {
        let (config, process) = (self.config, self.config.process.as_ref());
        self.check()?;
        let namespaces = Namespaces::of(&config.linux.namespaces)?;
        let ((nodes, rules), users) = (devices(&config.linux)?, users(&config.linux, &namespaces)?);
        let container = Container {
            id: self.place.id.clone(),
            slot: super::SLOT,
            image: String::new(),
            attributes: "\"image\":\"\"".into(),
            volumes: Vec::new(),
            relays: Vec::new(),
            hostname: config.hostname.clone().unwrap_or_default(),
            domainname: String::new(),
            tty: false,
            open_stdin: true,
            stdin_once: false,
            rows: 0,
            cols: 0,
            lower: vec![self.place.lower()],
            upper: self.upper.clone(),
            work: self.work.clone(),
            volatile: false,
            readonly_rootfs: config.root.as_ref().is_some_and(|root| root.readonly),
            root_propagation: propagation_of_root(config.linux.rootfs_propagation.as_deref())?,
            privileged: false,
            mounts: self.mounts()?,
            shm_size: 64 << 20,
            nodes,
            masked: config.linux.masked_paths.clone(),
            readonly: config.linux.readonly_paths.clone(),
            sysctls: config.linux.sysctl.iter().map(|(name, value)| (path_of(name), value.clone())).collect(),
            rlimits: process.map_or(Ok(Vec::new()), |process| rlimits(&process.rlimits))?,
            oom_score_adj: process.and_then(|process| process.oom_score_adj).unwrap_or(0),
            pid: namespaces.pid,
            ipc: namespaces.ipc,
            shm_from: None,
            no_shm: false,
            uts: namespaces.uts,
            net: namespaces.net,
            keep_net: false,
            stale_socket: None,
            own_cgroups: namespaces.own_cgroups,
            loopback: true,
            net_requests: Vec::new(),
            resolver: None,
            networks: Vec::new(),
            firewall_end: Vec::new(),
            port_reservation: None,
            namespace_count: namespaces.fds.len() as u32,
            cgroups: self.cgroups(&rules)?,
            rights: rights(process, config.linux.seccomp.as_ref())?,
            users,
            program: self.program(process),
            log: None,
            restart: (RESTART_NO, 0),
            health: None,
            remounts: !probe::sets_attributes(),
        };
        Ok((container, namespaces.fds))
    }

    fn check(&self) -> Result<()> {
        let config = self.config;
        let mut parts = config.oci_version.split(['.', '-']).map(str::parse::<u32>);
        if !matches!((parts.next(), parts.next(), parts.next()), (Some(Ok(1)), Some(Ok(_)), Some(Ok(_)))) {
            return Err(Error::invalid(format!("ociVersion: {:?} is not a known version", config.oci_version)));
        }
        for (field, paths) in
            [("maskedPaths", &config.linux.masked_paths), ("readonlyPaths", &config.linux.readonly_paths)]
        {
            if let Some(path) = paths.iter().find(|path| !path.starts_with('/')) {
                return Err(Error::invalid(format!("linux.{field}: {path:?} is not an absolute path")));
            }
        }
        if config.linux.mount_label.as_ref().is_some_and(|label| !label.is_empty()) {
            return Err(Error::unsupported("linux.mountLabel is not supported"));
        }
        let Some(process) = &config.process else { return Ok(()) };
        let given = |value: &Option<String>| value.as_ref().is_some_and(|text| !text.is_empty());
        let refused = [("terminal", process.terminal), ("selinuxLabel", given(&process.selinux_label))];
        if let Some((field, _)) = refused.iter().find(|(_, refused)| *refused) {
            return Err(Error::unsupported(format!("process.{field} is not supported")));
        }
        if given(&process.apparmor_profile) && !apparmor::is_on() {
            return Err(Error::unsupported("process.apparmorProfile: this host's kernel has no AppArmor"));
        }
        match process.cwd.starts_with('/') {
            true => Ok(()),
            false => Err(Error::invalid(format!("process.cwd: {:?} is not an absolute path", process.cwd))),
        }
    }

    fn program(&self, process: Option<&Process>) -> Program {
        Program {
            argv: [STARTER.to_owned()].into_iter().chain(process.into_iter().flat_map(|p| p.args.clone())).collect(),
            env: process.map_or_else(Vec::new, |process| process.env.clone()),
            cwd: process.map_or_else(|| "/".into(), |process| process.cwd.clone()),
            cwd_is_there: false,
        }
    }

    fn mounts(&self) -> Result<Vec<Mount>> {
        let mut mounts = vec![Mount::Bind {
            source: self.starter.to_owned(),
            target: STARTER.into(),
            attributes: libc::MOUNT_ATTR_RDONLY,
            propagation: libc::MS_PRIVATE,
            propagate_below: false,
            recursive: false,
            make_source: false,
            read_only_below: false,
            own_ids: false,
            part: Below::default(),
        }];
        for mount in &self.config.mounts {
            let target = mount.destination.trim_end_matches('/');
            if !target.starts_with('/') {
                return Err(Error::invalid(format!("mounts: {:?} is not an absolute path", mount.destination)));
            }
            if !OWN_MOUNTS.contains(&(target, &mount.kind)) {
                mounts.push(self.mount(mount)?);
            }
        }
        Ok(mounts)
    }

    fn mount(&self, mount: &super::config::Mount) -> Result<Mount> {
        let options = Options::of(&mount.options)?;
        let target = mount.destination.clone();
        if options.bind || mount.kind == "bind" {
            return Ok(Mount::Bind {
                source: self.bundle.join(&mount.source),
                target,
                attributes: options.attributes,
                propagation: if options.propagation == 0 { libc::MS_PRIVATE } else { options.propagation },
                propagate_below: options.propagate_below,
                recursive: options.recursive,
                make_source: false,
                read_only_below: false,
                own_ids: false,
                part: Below::default(),
            });
        }
        Ok(Mount::FileSystem {
            kind: mount.kind.clone(),
            source: mount.source.clone(),
            target,
            attributes: options.attributes,
            propagation: options.propagation,
            options: options.data,
        })
    }

    fn cgroups(&self, rules: &DeviceRules) -> Result<cgroup::Plan> {
        let asked = &self.config.linux.resources;
        let (parent, name) = &self.place.cgroup;
        let mut plan = cgroup::compile(self.host, parent, name, &resources(asked), rules)?;
        for (field, controller, file, value) in more_limits(asked)? {
            let has = |group: &&mut cgroup::Group| {
                group.version == Version::V1 && group.controllers.iter().any(|one| one == controller)
            };
            let group = plan.groups.iter_mut().find(has);
            let group = group.ok_or_else(|| {
                Error::unsupported(format!(
                    "linux.resources.{field}: this host has no {controller} cgroup of version 1"
                ))
            })?;
            group.writes.push(cgroup::Write { file, value, on_error: OnError::Fail });
        }
        Ok(plan)
    }
}

struct Namespaces {
    pid: Namespace,
    ipc: Namespace,
    uts: Namespace,
    net: Namespace,
    own_cgroups: bool,
    /// None: the host's.
    user: Option<Namespace>,
    fds: Vec<OwnedFd>,
}

impl Namespaces {
    /// A namespace that is not listed is the host's.
    fn of(list: &[super::config::Namespace]) -> Result<Namespaces> {
        let host = Namespace::Host;
        let mut all =
            Namespaces { pid: host, ipc: host, uts: host, net: host, own_cgroups: false, user: None, fds: Vec::new() };
        let mut own_mounts = false;
        for (index, one) in list.iter().enumerate() {
            if list[..index].iter().any(|other| other.kind == one.kind) {
                return Err(Error::invalid(format!("linux.namespaces: {} stands there twice", one.kind)));
            }
            let from = all.from(one)?;
            match (one.kind.as_str(), from) {
                ("pid", from) => all.pid = from,
                ("ipc", from) => all.ipc = from,
                ("uts", from) => all.uts = from,
                ("network", from) => all.net = from,
                ("user", from) => all.user = Some(from),
                ("mount", Namespace::New) => own_mounts = true,
                ("cgroup", Namespace::New) => all.own_cgroups = true,
                ("mount" | "cgroup", _) => {
                    return Err(Error::unsupported(format!(
                        "linux.namespaces: joining a {} namespace is not supported",
                        one.kind
                    )));
                }
                (kind, _) => return Err(Error::invalid(format!("linux.namespaces: {kind:?} is not a type"))),
            }
        }
        match own_mounts {
            true => Ok(all),
            false => {
                Err(Error::unsupported("linux.namespaces: a container without a mount namespace is not supported"))
            }
        }
    }

    fn from(&mut self, one: &super::config::Namespace) -> Result<Namespace> {
        let Some(path) = one.path.as_deref().filter(|path| !path.is_empty()) else { return Ok(Namespace::New) };
        let wrong = |e| Error::io(format_args!("linux.namespaces: open {path}"), &e);
        let file = File::open(path).map_err(wrong)?;
        let name = if one.kind == "network" { "net" } else { &one.kind };
        let own =
            std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file))).map_err(wrong)?;
        if !own.to_string_lossy().starts_with(&format!("{name}:[")) {
            return Err(Error::invalid(format!("linux.namespaces: {path} is not a namespace of type {}", one.kind)));
        }
        self.fds.push(file.into());
        Ok(Namespace::Join(self.fds.len() as u32 - 1))
    }
}

fn users(linux: &Linux, namespaces: &Namespaces) -> Result<Option<Users>> {
    let Some(from) = namespaces.user else { return Ok(None) };
    probe::needs_attributes().map_err(|error| error.context("linux.namespaces: user"))?;
    let first = |field: &str, list: &[IdMapping]| match list {
        [one] if one.container_id == 0 => Ok((one.host_id, one.size)),
        _ => Err(Error::unsupported(format!("linux.{field}: only one range, from 0 on, is supported"))),
    };
    let ((uid, count), (gid, group_count)) =
        (first("uidMappings", &linux.uid_mappings)?, first("gidMappings", &linux.gid_mappings)?);
    let join = match from {
        Namespace::Join(index) => Some(index),
        _ => None,
    };
    Ok(Some(Users { uid, gid, count, group_count, join }))
}

/// The options of a mount, by kind.
#[derive(Default)]
struct Options {
    attributes: u64,
    /// `MS_*`; 0: not given.
    propagation: u64,
    propagate_below: bool,
    bind: bool,
    recursive: bool,
    data: Vec<(String, String)>,
}

impl Options {
    fn of(words: &[String]) -> Result<Options> {
        let mut options = Options::default();
        for word in words {
            let attribute = match word.as_str() {
                "ro" => libc::MOUNT_ATTR_RDONLY,
                "nosuid" => libc::MOUNT_ATTR_NOSUID,
                "nodev" => libc::MOUNT_ATTR_NODEV,
                "noexec" => libc::MOUNT_ATTR_NOEXEC,
                "noatime" => libc::MOUNT_ATTR_NOATIME,
                "strictatime" => libc::MOUNT_ATTR_STRICTATIME,
                "nodiratime" => libc::MOUNT_ATTR_NODIRATIME,
                "rw" | "suid" | "dev" | "exec" | "relatime" | "defaults" | "async" => 0,
                _ => {
                    options.other(word)?;
                    continue;
                }
            };
            options.attributes |= attribute;
        }
        Ok(options)
    }

    fn other(&mut self, word: &str) -> Result<()> {
        match word {
            "bind" => self.bind = true,
            "rbind" => (self.bind, self.recursive) = (true, true),
            _ if propagation(word.strip_prefix('r').unwrap_or(word)).is_some() => {
                let (below, word) = word.strip_prefix('r').map_or((false, word), |rest| (true, rest));
                (self.propagate_below, self.propagation) = (below, propagation(word).unwrap_or(0));
            }
            "remount" | "sync" | "dirsync" | "mand" | "iversion" | "tmpcopyup" => {
                return Err(Error::unsupported(format!("mounts: the option {word:?} is not supported")));
            }
            _ => {
                let (key, value) = word.split_once('=').unwrap_or((word, ""));
                self.data.push((key.into(), value.into()));
            }
        }
        Ok(())
    }
}

fn propagation(word: &str) -> Option<u64> {
    Some(match word {
        "shared" => libc::MS_SHARED,
        "slave" => libc::MS_SLAVE,
        "private" => libc::MS_PRIVATE,
        "unbindable" => libc::MS_UNBINDABLE,
        _ => return None,
    })
}

fn propagation_of_root(word: Option<&str>) -> Result<u64> {
    let Some(word) = word.filter(|word| !word.is_empty()) else { return Ok(0) };
    propagation(word.strip_prefix('r').unwrap_or(word))
        .ok_or_else(|| Error::invalid(format!("linux.rootfsPropagation: {word:?} is not a propagation")))
}

/// The path of a sysctl whose name has dots.
fn path_of(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { name.replace('.', "/") }
}

fn rlimits(list: &[super::config::Rlimit]) -> Result<Vec<Rlimit>> {
    let mut limits: Vec<Rlimit> = Vec::new();
    for one in list {
        let name = one.kind.strip_prefix("RLIMIT_").map(str::to_ascii_lowercase);
        let resource = name.and_then(|name| rlimit(&name));
        let resource =
            resource.ok_or_else(|| Error::invalid(format!("process.rlimits: {:?} is not a limit", one.kind)))?;
        if limits.iter().any(|other| other.resource == resource) {
            return Err(Error::invalid(format!("process.rlimits: {} stands there twice", one.kind)));
        }
        limits.push(Rlimit { resource, soft: one.soft, hard: one.hard });
    }
    Ok(limits)
}

fn rights(process: Option<&Process>, profile: Option<&serde_json::Value>) -> Result<Rights> {
    let none = (User::default(), Capabilities::default());
    let (user, sets) = match process {
        Some(process) => (&process.user, process.capabilities.as_ref().unwrap_or(&none.1)),
        None => (&none.0, &none.1),
    };
    let bounding = set("bounding", &sets.bounding)?;
    let permitted = set("permitted", &sets.permitted)?;
    if permitted != bounding || set("effective", &sets.effective)? != permitted {
        return Err(Error::unsupported(
            "process.capabilities: other permitted and effective capabilities than bounding ones are not supported",
        ));
    }
    let filter = match profile {
        Some(profile) => seccomp::profile_filter(&profile.to_string(), bounding)?.unwrap_or_default(),
        None => Vec::new(),
    };
    Ok(Rights {
        user: format!("{}:{}", user.uid, user.gid),
        groups: user.additional_gids.iter().map(u32::to_string).collect(),
        capabilities: bounding,
        inheritable: set("inheritable", &sets.inheritable)?,
        ambient: set("ambient", &sets.ambient)?,
        no_new_privs: process.is_some_and(|process| process.no_new_privileges),
        apparmor: process.and_then(|process| process.apparmor_profile.clone()).unwrap_or_default(),
        label: String::new(),
        mount_label: String::new(),
        seccomp: filter.into(),
    })
}

fn set(field: &str, names: &[String]) -> Result<u64> {
    let bit =
        |name: &String| capability::number(name).filter(|_| name.starts_with("CAP_")).map(|number| 1u64 << number);
    names.iter().try_fold(0, |set, name| {
        let bit = bit(name)
            .ok_or_else(|| Error::invalid(format!("process.capabilities.{field}: {name:?} is not a capability")))?;
        Ok(set | bit)
    })
}

fn devices(linux: &Linux) -> Result<(Vec<DeviceNode>, DeviceRules)> {
    let mut nodes = default_nodes();
    for one in &linux.devices {
        let kind = match one.kind.as_str() {
            "c" | "u" => DeviceKind::Char,
            "b" => DeviceKind::Block,
            "p" => DeviceKind::Pipe,
            kind => return Err(Error::invalid(format!("linux.devices: {kind:?} is not a type of device"))),
        };
        let (major, minor) = if kind == DeviceKind::Pipe { (0, 0) } else { (one.major, one.minor) };
        nodes.retain(|node| node.path != one.path);
        let mode = one.file_mode.unwrap_or(0o666) & 0o7777;
        nodes.push(DeviceNode { path: one.path.clone(), kind, major, minor, mode, uid: one.uid, gid: one.gid });
    }
    let mut rules = DeviceRules { default_allow: false, allow: Vec::new() };
    for rule in &linux.resources.devices {
        device_rule(rule, &mut rules)?;
    }
    if !rules.default_allow {
        rules.allow.extend(default_rules().allow);
    }
    Ok((nodes, rules))
}

fn device_rule(rule: &DeviceRule, rules: &mut DeviceRules) -> Result<()> {
    let kind = rule.kind.as_deref().unwrap_or("a");
    let number = |number: Option<i64>| number.filter(|n| *n >= 0).map_or("*".to_owned(), |n| n.to_string());
    let (major, minor) = (number(rule.major), number(rule.minor));
    let access = if rule.access.is_empty() { "rwm" } else { &rule.access };
    let everything = kind == "a" && major == "*" && minor == "*" && access.len() == 3;
    match (rule.allow, everything) {
        (true, true) => *rules = DeviceRules { default_allow: true, allow: Vec::new() },
        // The default devices of every container come after these.
        (false, true) => *rules = DeviceRules { default_allow: false, allow: Vec::new() },
        (true, false) => rules.allow.extend(rules_of(&format!("{kind} {major}:{minor} {access}"))?),
        (false, false) => {
            return Err(Error::unsupported("linux.resources.devices: refusing single devices is not supported"));
        }
    }
    Ok(())
}

/// The limits that the API has, too.
fn resources(asked: &Resources) -> model::Resources {
    let (memory, cpu) = (&asked.memory, &asked.cpu);
    model::Resources {
        memory: memory.limit,
        memory_reservation: memory.reservation,
        memory_swap: memory.swap,
        kernel_memory: Some(memory.kernel),
        memory_swappiness: memory.swappiness,
        oom_kill_disable: memory.disable_oom_killer,
        cpu_shares: cpu.shares,
        cpu_quota: cpu.quota,
        cpu_period: cpu.period,
        cpuset_cpus: cpu.cpus.clone(),
        cpuset_mems: cpu.mems.clone(),
        pids_limit: asked.pids.limit,
        ..model::Resources::default()
    }
}

/// The other limits: field, controller of cgroup v1, its file, the value.
fn more_limits(asked: &Resources) -> Result<Vec<(&'static str, &'static str, String, String)>> {
    let mut all = Vec::new();
    let mut add = |field: &'static str, controller: &'static str, file: &str, value: String| {
        all.push((field, controller, file.to_owned(), value));
    };
    let io = &asked.block_io;
    let weights = [("blkio.weight", io.weight), ("blkio.leaf_weight", io.leaf_weight)];
    for (file, weight) in weights {
        if let Some(weight) = weight {
            add("blockIO", "blkio", file, weight.to_string());
        }
    }
    for one in &io.weight_device {
        let files = [("blkio.weight_device", one.weight), ("blkio.leaf_weight_device", one.leaf_weight)];
        for (file, weight) in files {
            if let Some(weight) = weight {
                add("blockIO", "blkio", file, format!("{}:{} {weight}", one.major, one.minor));
            }
        }
    }
    let throttles = [
        ("read_bps", &io.throttle_read_bps_device),
        ("write_bps", &io.throttle_write_bps_device),
        ("read_iops", &io.throttle_read_iops_device),
        ("write_iops", &io.throttle_write_iops_device),
    ];
    for (what, list) in throttles {
        for one in list {
            let value = format!("{}:{} {}", one.major, one.minor, one.rate);
            add("blockIO", "blkio", &format!("blkio.throttle.{what}_device"), value);
        }
    }
    for one in &asked.hugepage_limits {
        if one.page_size.contains('/') {
            return Err(Error::invalid(format!("linux.resources.hugepageLimits: {:?} is not a size", one.page_size)));
        }
        let file = format!("hugetlb.{}.limit_in_bytes", one.page_size);
        add("hugepageLimits", "hugetlb", &file, one.limit.to_string());
    }
    if let Some(class) = asked.network.class_id {
        add("network", "net_cls", "net_cls.classid", class.to_string());
    }
    for one in &asked.network.priorities {
        add("network", "net_prio", "net_prio.ifpriomap", format!("{} {}", one.name, one.priority));
    }
    if let Some(bytes) = asked.memory.kernel_tcp {
        add("memory", "memory", "memory.kmem.tcp.limit_in_bytes", bytes.to_string());
    }
    for (file, value) in
        [("cpu.rt_period_us", asked.cpu.realtime_period), ("cpu.rt_runtime_us", asked.cpu.realtime_runtime)]
    {
        if let Some(value) = value {
            add("cpu", "cpu", file, value.to_string());
        }
    }
    Ok(all)
}
