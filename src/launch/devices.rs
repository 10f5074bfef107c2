//! Devices of a container: the nodes in its `/dev` and the rules of its device cgroup.

use super::cdi;
use crate::error::{Error, Result};
use crate::kernel::path::clean;
use crate::model::{DeviceMapping, Resources};
use crate::order::Order as _;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The two kinds of device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DeviceKind {
    /// A character device.
    Char,
    /// A block device.
    Block,
    /// A named pipe, which only bundles request: not a device, but made like one.
    #[cfg(feature = "bundle")]
    Pipe,
}

impl DeviceKind {
    /// The letter in the device cgroup's rules.
    pub(crate) fn letter(self) -> char {
        match self {
            DeviceKind::Char => 'c',
            DeviceKind::Block => 'b',
            #[cfg(feature = "bundle")]
            DeviceKind::Pipe => 'p',
        }
    }

    /// The type bits of `st_mode`.
    pub(crate) fn type_bits(self) -> u32 {
        match self {
            DeviceKind::Char => libc::S_IFCHR,
            DeviceKind::Block => libc::S_IFBLK,
            #[cfg(feature = "bundle")]
            DeviceKind::Pipe => libc::S_IFIFO,
        }
    }
}

/// A set of the three permissions of a device cgroup, the letters `r`, `w` and `m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Access(u8);

impl Access {
    const LETTERS: [(char, Access); 3] = [('r', Access::READ), ('w', Access::WRITE), ('m', Access::MKNOD)];
    pub(crate) const READ: Access = Access(1);
    pub(crate) const WRITE: Access = Access(2);
    pub(crate) const MKNOD: Access = Access(4);
    pub(crate) const ALL: Access = Access(7);

    /// Whether the set has all of `other`.
    pub(crate) fn has(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set of these letters; a letter may occur twice. None: another letter, or no letter.
    fn parse(letters: &str) -> Option<Access> {
        let mut set = 0;
        for letter in letters.chars() {
            set |= Access::LETTERS.iter().find(|(known, _)| *known == letter)?.1.0;
        }
        (set != 0).then_some(Access(set))
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Access::LETTERS.iter().filter(|(_, bit)| self.has(*bit)).try_for_each(|(letter, _)| write!(f, "{letter}"))
    }
}

/// A node to make in the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceNode {
    /// Absolute in the container, without `.`, `..` or doubled slashes.
    pub path: String,
    pub kind: DeviceKind,
    pub major: u32,
    pub minor: u32,
    /// Permission bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// A rule of a device cgroup. An absent number stands for every number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceRule {
    pub kind: DeviceKind,
    pub major: Option<u32>,
    pub minor: Option<u32>,
    pub access: Access,
}

impl DeviceRule {
    const fn new(kind: DeviceKind, major: Option<u32>, minor: Option<u32>, access: Access) -> DeviceRule {
        DeviceRule { kind, major, minor, access }
    }

    fn of(node: &DeviceNode, access: Access) -> DeviceRule {
        DeviceRule::new(node.kind, Some(node.major), Some(node.minor), access)
    }
}

impl fmt::Display for DeviceRule {
    /// The line for cgroup v1, such as `c 136:* rwm`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |number: Option<u32>| number.map_or("*".to_owned(), |number| number.to_string());
        write!(f, "{} {}:{} {}", self.kind.letter(), number(self.major), number(self.minor), self.access)
    }
}

/// The devices that a device cgroup permits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceRules {
    /// All devices (a privileged container); the list is ignored then.
    pub default_allow: bool,
    /// The allowed devices; all others are refused.
    pub allow: Vec<DeviceRule>,
}

/// A container's devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Devices {
    pub nodes: Vec<DeviceNode>,
    pub rules: DeviceRules,
}

/// The devices of a container: the default nodes and rules, those of `HostConfig.Devices` and those of `cdi`; a privileged one gets
/// every device of the host and no rule. Of two nodes at one path the requested one counts.
///
/// # Errors
/// A mapping that names no device or has wrong permissions, with dockerd's text.
pub(crate) fn for_container(privileged: bool, asked: &Resources, cdi: &[cdi::Node]) -> Result<Devices> {
    let mappings = asked.devices.as_deref().unwrap_or_default();
    let mut nodes = default_nodes();
    let mut rules = default_rules();
    if privileged {
        rules = DeviceRules { default_allow: true, allow: Vec::new() };
        host_devices(Path::new("/dev"), "/dev", &mut nodes)
            .map_err(|error| Error::io("list the devices of the host", &error))?;
    }
    for mapping in mappings {
        let (added, access) = resolve(mapping)?;
        if !privileged {
            rules.allow.extend(added.iter().map(|node| DeviceRule::of(node, access)));
        }
        nodes.extend(added);
    }
    for node in cdi {
        let added = of_cdi(node, privileged, &mut rules)?;
        nodes.extend(added);
    }
    for text in &asked.device_cgroup_rules {
        let added = rules_of(text)?;
        if !privileged {
            rules.allow.extend(added);
        }
    }
    Ok(Devices { nodes: last_of_each_path(nodes), rules })
}

/// The nodes of a device of CDI, which the container may open.
fn of_cdi(asked: &cdi::Node, privileged: bool, rules: &mut DeviceRules) -> Result<Vec<DeviceNode>> {
    let (path_on_host, path_in_container) = (asked.on_host.clone(), asked.in_container.clone());
    let mapping = DeviceMapping { path_on_host, path_in_container, cgroup_permissions: asked.permissions.clone() };
    let (added, access) = resolve(&mapping)?;
    if !privileged {
        rules.allow.extend(added.iter().map(|node| DeviceRule::of(node, access)));
    }
    // The specification may give another owner and mode.
    let owned = |node: DeviceNode| DeviceNode {
        mode: asked.mode.unwrap_or(node.mode),
        uid: asked.uid.unwrap_or(node.uid),
        gid: asked.gid.unwrap_or(node.gid),
        ..node
    };
    Ok(added.into_iter().map(owned).collect())
}

/// A line of `DeviceCgroupRules`: `c`, `b`, or `a` for both; major and minor, `*` for all; letters of [`Access`].
///
/// # Errors
/// A malformed line, with dockerd's text.
pub(crate) fn rules_of(text: &str) -> Result<Vec<DeviceRule>> {
    let bad = || Error::invalid(format!("invalid device cgroup rule format: '{text}'"));
    let number = |word: &str| match word {
        "*" => Ok(None),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().map(Some).map_err(|_| bad()),
        _ => Err(bad()),
    };
    let words: Vec<&str> = text.split(' ').collect();
    let [kind, numbers, letters] = words[..] else { return Err(bad()) };
    let kinds: &[DeviceKind] = match kind {
        "c" => &[DeviceKind::Char],
        "b" => &[DeviceKind::Block],
        "a" => &[DeviceKind::Char, DeviceKind::Block],
        _ => return Err(bad()),
    };
    let (major, minor) = numbers.split_once(':').ok_or_else(bad)?;
    let (major, minor) = (number(major)?, number(minor)?);
    let access = Access::parse(letters).filter(|_| letters.len() <= 3).ok_or_else(bad)?;
    Ok(kinds.iter().map(|kind| DeviceRule::new(*kind, major, minor, access)).collect())
}

/// The nodes that every container has: null, zero, full, random, urandom and tty, open to all.
pub(crate) fn default_nodes() -> Vec<DeviceNode> {
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)]
        .map(|(name, major, minor)| DeviceNode {
            path: format!("/dev/{name}"),
            kind: DeviceKind::Char,
            major,
            minor,
            mode: 0o666,
            uid: 0,
            gid: 0,
        })
        .into()
}

/// The devices that every container may use: the default nodes, console, ptmx, the pseudo terminals, tun, and making
/// (not opening) any node.
pub(crate) fn default_rules() -> DeviceRules {
    const fn char(major: u32, minor: Option<u32>) -> DeviceRule {
        DeviceRule::new(DeviceKind::Char, Some(major), minor, Access::ALL)
    }
    let mut allow = vec![
        DeviceRule::new(DeviceKind::Char, None, None, Access::MKNOD),
        DeviceRule::new(DeviceKind::Block, None, None, Access::MKNOD),
    ];
    allow.extend(default_nodes().iter().map(|node| DeviceRule::of(node, Access::ALL)));
    allow.extend([char(5, Some(1)), char(5, Some(2)), char(136, None), char(10, Some(200))]);
    DeviceRules { default_allow: false, allow }
}

/// The nodes and permissions of one entry of `HostConfig.Devices`. `PathOnHost` may be a link to a device, or a
/// directory with devices at any depth. Without `PathInContainer` the host's path is used, without `CgroupPermissions`
/// all are given.
///
/// # Errors
/// `PathOnHost` is neither a device nor a directory with one; `CgroupPermissions` has other letters than r, w
/// and m.
fn resolve(mapping: &DeviceMapping) -> Result<(Vec<DeviceNode>, Access)> {
    let access = match mapping.cgroup_permissions.as_str() {
        "" => Access::ALL,
        letters => Access::parse(letters).ok_or_else(|| Error::invalid(format!("invalid device mode: {letters}")))?,
    };
    let inside = match mapping.path_in_container.as_str() {
        "" => clean(&mapping.path_on_host),
        path => clean(path),
    };
    if inside == "/" {
        let path = &mapping.path_in_container;
        return Err(Error::invalid(format!("invalid PathInContainer {path:?}: a device cannot be the root directory")));
    }
    let refuse = |why: String| {
        let host = &mapping.path_on_host;
        Error::internal(format!("error gathering device information while adding custom device {host:?}: {why}"))
    };
    let host = PathBuf::from(&mapping.path_on_host);
    let found = fs::metadata(&host).map_err(|error| refuse(reason(&error)))?;
    if let Some(node) = node_of(&found, inside.clone()) {
        return Ok((vec![node], access));
    }
    let mut nodes = Vec::new();
    if found.is_dir() {
        walk(&host, &inside, &|_| false, &mut nodes).map_err(|error| refuse(reason(&error)))?;
    }
    if nodes.is_empty() {
        return Err(refuse("not a device node".into()));
    }
    Ok((nodes, access))
}

/// Every device below the host's `/dev`, except those that each container has of its own: terminals, shared memory,
/// message queues, the links to descriptors, the console.
fn host_devices(dir: &Path, inside: &str, nodes: &mut Vec<DeviceNode>) -> io::Result<()> {
    const OWN: [&str; 7] = ["pts", "shm", "fd", "mqueue", "console", ".lxc", ".udev"];
    let skip = |path: &Path| {
        path.parent() == Some(dir) && path.file_name().is_some_and(|name| OWN.iter().any(|own| name == *own))
    };
    walk(dir, inside, &skip, nodes)
}

/// Adds the devices below `dir` in the order of their names, without following links. Files that vanish meanwhile are
/// left out. Not recursive, because users who may write below `/dev/shm` decide the depth of the directories.
fn walk(dir: &Path, inside: &str, skip: &dyn Fn(&Path) -> bool, nodes: &mut Vec<DeviceNode>) -> io::Result<()> {
    let mut left = entries_of(dir, inside)?;
    while let Some((path, inside)) = left.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if skip(&path) {
            continue;
        }
        if found.is_dir() {
            // An unreadable directory (a mount that is gone) only hides its own devices.
            left.extend(entries_of(&path, &inside).unwrap_or_default());
        } else {
            nodes.extend(node_of(&found, inside));
        }
    }
    Ok(())
}

/// The entries of a directory, the last name first, each with its path in the container.
fn entries_of(dir: &Path, inside: &str) -> io::Result<Vec<(PathBuf, String)>> {
    let mut entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    entries.order_by_key(|entry| std::cmp::Reverse(entry.file_name()));
    let named = entries.into_iter().filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)));
    Ok(named.map(|(path, name)| (path, clean(&format!("{inside}/{name}")))).collect())
}

fn node_of(found: &Metadata, path: String) -> Option<DeviceNode> {
    let kind = match found.file_type() {
        kind if kind.is_char_device() => DeviceKind::Char,
        kind if kind.is_block_device() => DeviceKind::Block,
        _ => return None,
    };
    let (major, minor) = (libc::major(found.rdev()), libc::minor(found.rdev()));
    // 0:0 is overlayfs's whiteout: never a device for a container.
    if kind == DeviceKind::Char && (major, minor) == (0, 0) {
        return None;
    }
    Some(DeviceNode { path, kind, major, minor, mode: found.mode() & 0o7777, uid: found.uid(), gid: found.gid() })
}

fn last_of_each_path(nodes: Vec<DeviceNode>) -> Vec<DeviceNode> {
    let mut kept: Vec<DeviceNode> = Vec::new();
    for node in nodes {
        match kept.iter_mut().find(|other| other.path == node.path) {
            Some(other) => *other = node,
            None => kept.push(node),
        }
    }
    kept
}

fn reason(error: &io::Error) -> String {
    let text = error.to_string().to_lowercase();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(host: &str, inside: &str, permissions: &str) -> DeviceMapping {
        DeviceMapping {
            path_on_host: host.into(),
            path_in_container: inside.into(),
            cgroup_permissions: permissions.into(),
        }
    }

    fn with(mappings: &[DeviceMapping]) -> Resources {
        Resources { devices: Some(mappings.to_vec()), ..Resources::default() }
    }

    #[test]
    fn lines_of_rules() {
        let text = |line: &str| rules_of(line).unwrap().iter().map(DeviceRule::to_string).collect::<Vec<_>>();
        assert_eq!(text("c 10:200 rw"), ["c 10:200 rw"]);
        assert_eq!(text("a *:* rwm"), ["c *:* rwm", "b *:* rwm"]);
        assert_eq!(text("b 8:* m"), ["b 8:* m"]);
        for bad in ["", "c", "c 1:3", "x 1:3 r", "c 1 r", "c 1:3 rwx", "c -1:3 r", "c 1:3  r", "c +1:3 r", "c 1:3 rwmr"]
        {
            let text = rules_of(bad).unwrap_err().message().to_owned();
            assert_eq!(text, format!("invalid device cgroup rule format: '{bad}'"));
        }
        let asked = Resources { device_cgroup_rules: vec!["c 4:1 r".into()], ..Resources::default() };
        assert_eq!(for_container(false, &asked, &[]).unwrap().rules.allow.last().unwrap().to_string(), "c 4:1 r");
        assert!(for_container(true, &asked, &[]).unwrap().rules.default_allow);
    }

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("coracle-devices-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn rules_as_cgroup_lines() {
        let lines: Vec<String> = default_rules().allow.iter().map(DeviceRule::to_string).collect();
        let wanted = [
            "c *:* m",
            "b *:* m",
            "c 1:3 rwm",
            "c 1:5 rwm",
            "c 1:7 rwm",
            "c 1:8 rwm",
            "c 1:9 rwm",
            "c 5:0 rwm",
            "c 5:1 rwm",
            "c 5:2 rwm",
            "c 136:* rwm",
            "c 10:200 rwm",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn default_nodes_are_the_hosts() {
        for node in default_nodes() {
            let host = node_of(&fs::metadata(&node.path).unwrap(), node.path.clone()).unwrap();
            assert_eq!((host.kind, host.major, host.minor), (node.kind, node.major, node.minor), "{}", node.path);
        }
    }

    #[test]
    fn one_device_under_another_name() {
        let devices = for_container(false, &with(&[mapping("/dev/null", "/dev//x/../void", "rm")]), &[]).unwrap();
        let node = devices.nodes.last().unwrap();
        assert_eq!((node.path.as_str(), node.major, node.minor), ("/dev/void", 1, 3));
        assert_eq!(devices.rules.allow.last().unwrap().to_string(), "c 1:3 rm");
        assert!(!devices.rules.default_allow);
    }

    #[test]
    fn asked_for_wins_over_default() {
        let devices = for_container(false, &with(&[mapping("/dev/zero", "/dev/null", "")]), &[]).unwrap();
        let found: Vec<&DeviceNode> = devices.nodes.iter().filter(|node| node.path == "/dev/null").collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].minor, 5);
    }

    #[test]
    fn link_to_a_device() {
        let dir = scratch("link");
        let link = dir.join("link");
        std::os::unix::fs::symlink("/dev/full", &link).unwrap();
        let (nodes, _) = resolve(&mapping(link.to_str().unwrap(), "", "")).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!((nodes[0].major, nodes[0].minor), (1, 7));
        assert_eq!(nodes[0].path, link.to_str().unwrap());
    }

    #[test]
    fn directory_of_devices() {
        let (nodes, access) = resolve(&mapping("/dev", "/host", "r")).unwrap();
        assert_eq!(access.to_string(), "r");
        assert!(nodes.iter().any(|node| node.path == "/host/null" && node.minor == 3));
        assert!(nodes.iter().all(|node| node.path.starts_with("/host/")));
    }

    #[test]
    fn privileged_gets_the_host() {
        let devices = for_container(true, &with(&[]), &[]).unwrap();
        assert!(devices.rules.default_allow);
        assert!(devices.nodes.iter().any(|node| node.path == "/dev/kmsg" || node.path == "/dev/null"));
        assert!(!devices.nodes.iter().any(|node| node.path.starts_with("/dev/pts") || node.path == "/dev/console"));
        let mut paths: Vec<&str> = devices.nodes.iter().map(|node| node.path.as_str()).collect();
        let all = paths.len();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), all);
    }

    #[test]
    fn mistakes() {
        let text = |host: &str, permissions: &str| {
            for_container(false, &with(&[mapping(host, "/dev/x", permissions)]), &[]).unwrap_err().message().to_owned()
        };
        let missing = "error gathering device information while adding custom device \"/dev/nope\": \
                       no such file or directory";
        assert_eq!(text("/dev/nope", "rwm"), missing);
        let no_device = "error gathering device information while adding custom device \"/proc/version\": \
                         not a device node";
        assert_eq!(text("/proc/version", "rwm"), no_device);
        assert_eq!(text("/dev/null", "rwx"), "invalid device mode: rwx");
        let root = for_container(false, &with(&[mapping("/dev/null", "/..", "")]), &[]).unwrap_err();
        assert!(root.message().contains("PathInContainer"), "{root}");
        let dir = scratch("empty");
        let found = text(dir.to_str().unwrap(), "");
        fs::remove_dir(&dir).unwrap();
        assert!(found.ends_with("not a device node"), "{found}");
    }

    #[test]
    fn paths() {
        assert_eq!(clean("dev/../../x/./y//z/"), "/x/y/z");
        assert_eq!(clean(""), "/");
    }
}
