//! The mounts of a request: binds, volumes and tmpfs, parsed and in the order in which they are made.

use super::{Spec, clean, plain};
use crate::error::{Error, Result};
use crate::model::{HostConfig, MountPoint, VolumeOptions};
use crate::order::Order as _;
use crate::volume;
use crate::walls::Wall;
use serde::{Deserialize, Serialize};

/// The source of a mount.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MountKind {
    /// A directory or file of the host.
    #[default]
    Bind,
    /// Memory.
    Tmpfs,
    /// A volume of the engine.
    Volume,
    /// The files of an image.
    Image,
}

/// The direction in which mounts that are made below it later propagate; `recursive` of the mount says whether this
/// holds for its sub-mounts, too.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Propagation {
    #[default]
    Private,
    Shared,
    Slave,
    Unbindable,
}

/// One mount of a container.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub(crate) struct Mount {
    pub kind: MountKind,
    /// Bind: clean absolute path on the host. Volume: its directory, once the container exists. Tmpfs: empty. Image: its id,
    /// once the container exists.
    pub source: String,
    /// Volume: its name; for an anonymous one empty until the container exists. Image: its name in the request.
    pub name: String,
    /// Volume: anonymous, so it may be removed with its container.
    pub anonymous: bool,
    /// Volume: the image's files at the target are not copied into it.
    pub no_copy: bool,
    /// Volume, image: the clean relative path that is mounted in place of the whole; empty: the whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// Clean absolute path in the container.
    pub target: String,
    pub read_only: bool,
    pub propagation: Propagation,
    /// Whether the propagation has its `r` form (the default) and so applies to sub-mounts, too. The bind itself always
    /// includes its sub-mounts.
    pub recursive: bool,
    /// The mode as the client spelled it; inspect shows it.
    pub mode_text: String,
    /// Tmpfs: options of the file system, separated by commas, each `key=value` or a word (`sync`).
    pub options: String,
    /// `MOUNT_ATTR_*` of mount_setattr(2), read-only included. A bind's flags apply to its top mount only.
    pub flags: u64,
    /// Bind: excludes the mounts below its source.
    pub top_only: bool,
    /// Read-only bind: whether the mounts below it are read-only, too. `None` until the version of the request decides.
    pub read_only_below: Option<bool>,
    /// Bind in the long form: whether a missing source is made.
    pub make_source: bool,
    /// Whether the request had the long form. In that form no source is made on the host, and a tmpfs appears in the list of
    /// mounts.
    pub long: bool,
    /// Volume: the options of a volume that is made for this mount.
    #[serde(skip)]
    pub made_with: VolumeOptions,
    /// Volume: the plugin that has it; empty: the volume is local.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plugin: String,
}

impl Mount {
    /// The driver of a volume; of other mounts there is none.
    pub(crate) fn driver(&self) -> &str {
        match self.kind {
            MountKind::Volume if !self.plugin.is_empty() => &self.plugin,
            MountKind::Volume => volume::LOCAL,
            _ => "",
        }
    }

    /// The propagation as inspect shows it; volumes and images have none.
    pub(crate) fn propagation_text(&self) -> String {
        if matches!(self.kind, MountKind::Volume | MountKind::Image) {
            return String::new();
        }
        let word = match self.propagation {
            Propagation::Private => "private",
            Propagation::Shared => "shared",
            Propagation::Slave => "slave",
            Propagation::Unbindable => "unbindable",
        };
        format!("{}{word}", if self.recursive { "r" } else { "" })
    }
}

/// All mounts of a start, those of devices included, parents before children. Errors: a bad tmpfs option (reported at the
/// start, as by dockerd); a device's mount on a target that a request may not name either.
pub(crate) fn mount_table(spec: &Spec, of_devices: Vec<Mount>) -> Result<Vec<Mount>> {
    of_devices.iter().try_for_each(target_allowed)?;
    let mut table = spec.mounts.clone();
    table.extend(tmpfs_mounts(&spec.host_config)?);
    table.extend(of_devices);
    sort(&mut table);
    Ok(table)
}

/// Mounts as inspect and list show them, by target; a tmpfs of the short form is not shown.
pub(crate) fn mount_points(spec: &Spec) -> Vec<MountPoint> {
    let mut points: Vec<MountPoint> = spec
        .mounts
        .iter()
        .map(|mount| MountPoint {
            kind: match mount.kind {
                MountKind::Bind => "bind",
                MountKind::Tmpfs => "tmpfs",
                MountKind::Volume => "volume",
                MountKind::Image => "image",
            }
            .into(),
            name: mount.name.clone(),
            driver: mount.driver().into(),
            source: mount.source.clone(),
            destination: mount.target.clone(),
            mode: mount.mode_text.clone(),
            rw: !mount.read_only,
            propagation: if mount.kind == MountKind::Tmpfs { String::new() } else { mount.propagation_text() },
        })
        .collect();
    points.order_by(|a, b| a.destination.cmp(&b.destination));
    points
}

/// The containers whose mounts a request takes over: name, and whether the mounts are writable. Errors: a bad mode.
pub(crate) fn volumes_from(host: &HostConfig) -> Result<Vec<(String, bool)>> {
    let mut sources = Vec::new();
    for text in host.volumes_from.iter().flatten() {
        let (name, mode) = text.split_once(':').unwrap_or((text, "rw"));
        if name.is_empty() {
            return Err(Error::invalid("volumes-from specification cannot be an empty string"));
        }
        let modes = parse_mode(mode).filter(|modes| modes.propagation.is_none() && !modes.no_copy);
        let modes = modes.ok_or_else(|| Error::invalid(format!("invalid mode: {mode}")))?;
        sources.push((name.to_owned(), !modes.read_only));
    }
    Ok(sources)
}

/// A mount of another container in the form for a container that takes it over.
pub(crate) fn taken_over(mount: &Mount, writable: bool) -> Mount {
    let mut taken = Mount { no_copy: true, mode_text: String::new(), ..mount.clone() };
    if !writable && !taken.read_only {
        taken.read_only = true;
        taken.flags |= libc::MOUNT_ATTR_RDONLY;
    }
    taken
}

/// The tmpfs mounts of a request. Errors: an option that tmpfs does not have.
pub(crate) fn tmpfs_mounts(host: &HostConfig) -> Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    for (target, options) in &host.tmpfs {
        mounts.push(tmpfs(target_path(target)?, options)?);
    }
    sort(&mut mounts);
    Ok(mounts)
}

pub(super) fn sort(mounts: &mut [Mount]) {
    mounts.order_by(|a, b| (depth(&a.target), &a.target).cmp(&(depth(&b.target), &b.target)));
}

fn depth(path: &str) -> usize {
    path.split('/').filter(|part| !part.is_empty()).count()
}

/// `[source:]target[:mode]`.
pub(super) fn parse_bind(text: &str) -> Result<Mount> {
    plain("Binds", text)?;
    let invalid = || format!("invalid volume specification: '{text}'");
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, mode) = match parts[..] {
        [target] if !target.is_empty() => ("", target, ""),
        [source, target] if !source.is_empty() && parse_mode(target).is_none() => (source, target, ""),
        [source, target, mode] if !source.is_empty() => (source, target, mode),
        _ => return Err(Error::internal_as_dockerd("container", invalid())),
    };
    let modes =
        parse_mode(mode).ok_or_else(|| Error::internal_as_dockerd("container", format!("invalid mode: {mode}")))?;
    let kind = if source.starts_with('/') { "bind" } else { "volume" };
    let config = |why: String| {
        Error::internal_as_dockerd(
            "container",
            format!("{}: invalid mount config for type \"{kind}\": {why}", invalid()),
        )
    };
    if target.is_empty() {
        return Err(config("field Target must not be empty".into()));
    }
    let target = target_path(target).map_err(|error| config(error.message().into()))?;
    if kind == "bind" && modes.no_copy {
        return Err(config("field VolumeOptions must not be specified".into()));
    }
    if kind == "volume" && modes.propagation.is_some() {
        return Err(config("field BindOptions must not be specified".into()));
    }
    let volume = kind == "volume";
    if volume && !source.is_empty() {
        volume::check_name(source).map_err(|error| error.context(format_args!("create {source}")))?;
    }
    Ok(Mount {
        kind: if volume { MountKind::Volume } else { MountKind::Bind },
        source: if volume { String::new() } else { clean(source) },
        name: if volume { source.into() } else { String::new() },
        anonymous: volume && source.is_empty(),
        no_copy: modes.no_copy,
        target,
        read_only: modes.read_only,
        propagation: modes.propagation.map_or(Propagation::Private, |(propagation, _)| propagation),
        recursive: modes.propagation.is_none_or(|(_, recursive)| recursive),
        mode_text: mode.into(),
        options: String::new(),
        flags: if modes.read_only { libc::MOUNT_ATTR_RDONLY } else { 0 },
        ..Mount::default()
    })
}

#[derive(Default)]
struct Modes {
    read_only: bool,
    no_copy: bool,
    propagation: Option<(Propagation, bool)>,
}

/// A list of words with commas, at most one of each group. The consistency words of other platforms and the labels of
/// SELinux are ignored here.
fn parse_mode(text: &str) -> Option<Modes> {
    let mut modes = Modes::default();
    let mut groups = [0; 5];
    for word in text.split(',').filter(|_| !text.is_empty()) {
        let group = match word {
            "rw" | "ro" => {
                modes.read_only = word == "ro";
                0
            }
            "z" | "Z" => 1,
            "nocopy" => {
                modes.no_copy = true;
                2
            }
            "consistent" | "cached" | "delegated" => 3,
            word => {
                modes.propagation = Some(propagation(word).filter(|(kind, _)| *kind != Propagation::Unbindable)?);
                4
            }
        };
        groups[group] += 1;
    }
    groups.iter().all(|count| *count <= 1).then_some(modes)
}

pub(super) fn propagation(word: &str) -> Option<(Propagation, bool)> {
    let recursive = word.strip_prefix('r');
    let kind = match recursive.unwrap_or(word) {
        "private" => Propagation::Private,
        "shared" => Propagation::Shared,
        "slave" => Propagation::Slave,
        "unbindable" => Propagation::Unbindable,
        _ => return None,
    };
    Some((kind, recursive.is_some()))
}

pub(super) fn target_path(target: &str) -> Result<String> {
    if target.starts_with('/') && clean(target) == "/" {
        return Err(Error::invalid("invalid specification: destination can't be '/'"));
    }
    match target.starts_with('/') {
        true => Ok(clean(target)),
        false => Err(Error::invalid(format!("invalid mount path: '{target}' mount path must be absolute"))),
    }
}

/// Single files of procfs that a mount may cover: those that virtualise the container's view of its machine.
const PROC_FILES: [&str; 10] = [
    "/proc/cpuinfo",
    "/proc/diskstats",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/net/dev",
    "/proc/slabinfo",
    "/proc/stat",
    "/proc/swaps",
    "/proc/uptime",
    "/proc/sys/kernel/ns_last_pid",
];

/// Device files and directories that the engine makes and that its own steps use; with the binds that may replace them.
const OWN_DEVICES: [(&str, Instead); 4] = [
    // The engine checks it when it takes a terminal from there.
    ("/dev/pts", Instead::Any),
    ("/dev/console", Instead::Any),
    // The engine opens it for an absent stdin.
    ("/dev/null", Instead::Same),
    ("/dev/ptmx", Instead::Nothing),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Instead {
    Any,
    /// The host's own file at this path.
    Same,
    Nothing,
}

/// Refuses targets over the engine's own /proc, /sys and /dev: the engine trusts these files during a start (labels,
/// sysctls, masks, the terminal).
pub(super) fn target_allowed(mount: &Mount) -> Result<()> {
    if !Wall::ProcfsTargets.stands() {
        return Ok(());
    }
    let target = mount.target.as_str();
    let below = |dir: &str| target.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let why = if below("/proc") {
        let file = mount.kind == MountKind::Bind && PROC_FILES.contains(&target);
        (!file).then_some(if target == "/proc" { "it is not of type proc" } else { "it is inside /proc" })
    } else if target == "/sys" {
        (mount.source != "/sys").then_some("it is not of type sysfs")
    } else if target == "/dev" {
        // For the host's own tree, or another tree of devices, the engine makes no files in it.
        (mount.kind != MountKind::Bind)
            .then_some("it is the container's own /dev: bind a directory, or name the devices in Devices")
    } else {
        OWN_DEVICES.iter().find(|(own, _)| below(own)).and_then(|(own, instead)| not_instead(mount, own, *instead))
    };
    match why {
        Some(why) => Err(Error::invalid(format!("{target:?} cannot be mounted because {why}"))),
        None => Ok(()),
    }
}

/// Why a mount at `own`, or below it, cannot replace it.
fn not_instead(mount: &Mount, own: &str, instead: Instead) -> Option<&'static str> {
    let bound = mount.kind == MountKind::Bind && mount.target == own;
    match instead {
        Instead::Any if bound => None,
        Instead::Same if bound && mount.source == own => None,
        Instead::Same if bound => Some("only the host's own may take its place"),
        _ => Some("it is the container's own device"),
    }
}

const TMPFS_DEFAULTS: u64 = libc::MOUNT_ATTR_NOEXEC | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const ATIMES: u64 = libc::MOUNT_ATTR_NOATIME | libc::MOUNT_ATTR_STRICTATIME;

/// The user's options come after the defaults; the last option of its kind wins.
pub(super) fn tmpfs(target: String, text: &str) -> Result<Mount> {
    let mut mount =
        Mount { kind: MountKind::Tmpfs, target, recursive: true, flags: TMPFS_DEFAULTS, ..Mount::default() };
    let mut data: Vec<(&str, Option<&str>)> = Vec::new();
    let mut bad = None;
    for option in text.split(',').filter(|_| !text.is_empty()) {
        let (key, value) = option.split_once('=').map_or((option, None), |(key, value)| (key, Some(value)));
        if value.is_none() && flag(&mut mount, option) {
            continue;
        }
        match (key, value) {
            ("size" | "mode" | "uid" | "gid" | "nr_inodes" | "nr_blocks" | "mpol", Some(_)) => {}
            ("sync" | "dirsync", None) => {}
            ("async", None) => {
                data.retain(|(key, _)| *key != "sync");
                continue;
            }
            _ => {
                bad = Some(value.map_or(format!("[{key:?}]"), |value| format!("[{key:?} {value:?}]")));
                continue;
            }
        }
        data.retain(|(other, _)| *other != key);
        data.push((key, value));
    }
    if let Some(option) = bad {
        return Err(Error::internal_as_dockerd("container", format!("invalid tmpfs option {option}")));
    }
    let words: Vec<String> =
        data.iter().map(|(key, value)| value.map_or(key.to_string(), |value| format!("{key}={value}"))).collect();
    mount.options = words.join(",");
    mount.read_only = mount.flags & libc::MOUNT_ATTR_RDONLY != 0;
    mount.mode_text = text.to_owned();
    Ok(mount)
}

/// Applies an option that is an attribute of the mount; returns whether it was one.
fn flag(mount: &mut Mount, word: &str) -> bool {
    let (clear, set) = match word {
        "defaults" => (0, 0),
        "ro" => (0, libc::MOUNT_ATTR_RDONLY),
        "rw" => (libc::MOUNT_ATTR_RDONLY, 0),
        "nosuid" => (0, libc::MOUNT_ATTR_NOSUID),
        "suid" => (libc::MOUNT_ATTR_NOSUID, 0),
        "nodev" => (0, libc::MOUNT_ATTR_NODEV),
        "dev" => (libc::MOUNT_ATTR_NODEV, 0),
        "noexec" => (0, libc::MOUNT_ATTR_NOEXEC),
        "exec" => (libc::MOUNT_ATTR_NOEXEC, 0),
        "noatime" => (ATIMES, libc::MOUNT_ATTR_NOATIME),
        "strictatime" => (ATIMES, libc::MOUNT_ATTR_STRICTATIME),
        "atime" | "relatime" | "norelatime" | "nostrictatime" => (ATIMES, 0),
        "nodiratime" => (0, libc::MOUNT_ATTR_NODIRATIME),
        "diratime" => (libc::MOUNT_ATTR_NODIRATIME, 0),
        word => {
            let Some((kind, recursive)) = propagation(word) else { return false };
            (mount.propagation, mount.recursive) = (kind, recursive);
            (0, 0)
        }
    };
    mount.flags = mount.flags & !clear | set;
    true
}
