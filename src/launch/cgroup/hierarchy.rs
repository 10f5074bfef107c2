//! The cgroup hierarchies of this host, from its mount table.

use crate::error::{Error, Result};
use crate::order::Order as _;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Controllers of cgroup v1 in mount options; /proc/cgroups adds to them but is no longer complete.
const KNOWN: [&str; 14] = [
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "debug",
    "devices",
    "freezer",
    "hugetlb",
    "memory",
    "misc",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
];

/// The kernel's two interfaces of hierarchies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// One mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub version: Version,
    /// The host's mount point.
    pub mount: PathBuf,
    /// The controllers of the hierarchy, in the kernel's order; none for a named v1 hierarchy.
    pub controllers: Vec<String>,
    /// The name of a v1 hierarchy without controllers, such as `systemd`.
    pub name: Option<String>,
}

/// All hierarchies of the host: v1 ones in the order of the mount table, then the v2 one if there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Hierarchies {
    pub list: Vec<Hierarchy>,
}

impl Hierarchies {
    /// The hierarchies of this host.
    ///
    /// # Errors
    /// The mount table cannot be read, or no cgroup hierarchy is mounted.
    pub(crate) fn detect() -> Result<Hierarchies> {
        let mounts =
            fs::read("/proc/self/mountinfo").map_err(|error| Error::io("read /proc/self/mountinfo", &error))?;
        // The file is missing on a kernel without v1, as are the controllers that it would add.
        let controllers = fs::read_to_string("/proc/cgroups").unwrap_or_default();
        let found = Hierarchies::parse(&mounts, &controllers);
        if found.list.is_empty() {
            return Err(Error::unsupported("no cgroup hierarchy is mounted on this host"));
        }
        Ok(found)
    }

    /// From the texts of /proc/self/mountinfo and /proc/cgroups. The first mount of each hierarchy counts.
    fn parse(mountinfo: &[u8], cgroups: &str) -> Hierarchies {
        let mut known: BTreeSet<&str> = KNOWN.into();
        known.extend(cgroups.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split('\t').next()));
        let mut list: Vec<Hierarchy> = Vec::new();
        for line in mountinfo.split(|byte| *byte == b'\n') {
            let Some(found) = Hierarchy::of_line(line, &known) else { continue };
            let same = |other: &Hierarchy| {
                (other.version, &other.controllers, &other.name) == (found.version, &found.controllers, &found.name)
            };
            if !list.iter().any(same) {
                list.push(found);
            }
        }
        list.order_by_key(|hierarchy| hierarchy.version == Version::V2);
        for hierarchy in list.iter_mut().filter(|hierarchy| hierarchy.version == Version::V2) {
            hierarchy.controllers = words_of(&hierarchy.mount.join("cgroup.controllers"));
        }
        Hierarchies { list }
    }

    /// The hierarchy of a controller.
    pub(crate) fn with(&self, controller: &str) -> Option<&Hierarchy> {
        self.list.iter().find(|hierarchy| hierarchy.has(controller))
    }

    /// The v2 hierarchy, alone or beside v1 ones.
    pub(crate) fn unified(&self) -> Option<&Hierarchy> {
        self.list.iter().find(|hierarchy| hierarchy.version == Version::V2)
    }

    /// Whether everything is v2: no controller is in a v1 hierarchy.
    pub(crate) fn pure_v2(&self) -> bool {
        self.unified().is_some() && self.list.iter().all(|one| one.version == Version::V2 || one.controllers.is_empty())
    }
}

impl Hierarchy {
    /// Whether the hierarchy has a controller.
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|one| one == controller)
    }

    /// Whether groups of this hierarchy have a file. Many files are missing in the root group alone, so an existing
    /// group below it is checked too; if there is none, a group is made for the check.
    pub(crate) fn offers(&self, file: &str) -> bool {
        self.mount.join(file).exists() || self.sample().is_some_and(|sample| sample.path().join(file).exists())
    }

    /// Any group below the root.
    fn sample(&self) -> Option<Sample> {
        let below = fs::read_dir(&self.mount).ok()?.flatten().find(|entry| entry.path().is_dir());
        if let Some(group) = below {
            return Some(Sample::Existing(group.path()));
        }
        let own = self.mount.join(format!("coracle-probe-{}", std::process::id()));
        fs::create_dir(&own).ok().map(|()| Sample::Own(own))
    }

    fn of_line(line: &[u8], known: &BTreeSet<&str>) -> Option<Hierarchy> {
        let mut fields = line.split(|byte| *byte == b' ');
        let mount = unescape(fields.nth(4)?);
        let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
        let (kind, options) = (rest.next()?, std::str::from_utf8(rest.nth(1)?).ok()?);
        let words = || options.split(',');
        let version = match kind {
            b"cgroup" => Version::V1,
            b"cgroup2" => return Some(Hierarchy { version: Version::V2, mount, controllers: Vec::new(), name: None }),
            _ => return None,
        };
        let controllers = words().filter(|word| known.contains(word)).map(str::to_owned).collect();
        let name = words().find_map(|word| word.strip_prefix("name=")).map(str::to_owned);
        Some(Hierarchy { version, mount, controllers, name })
    }
}

/// A group for a check; removed afterwards if it was made for it.
enum Sample {
    Existing(PathBuf),
    Own(PathBuf),
}

impl Sample {
    fn path(&self) -> &Path {
        match self {
            Sample::Existing(path) | Sample::Own(path) => path,
        }
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        if let Sample::Own(path) = self {
            // An empty group that stays is harmless; the next probe uses it.
            let _ = fs::remove_dir(path);
        }
    }
}

/// The words of a file, none if it cannot be read.
pub(super) fn words_of(file: &Path) -> Vec<String> {
    crate::kernel::file::read_text(file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// mountinfo writes blanks and backslashes as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| *first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEMD_HYBRID: &[u8] = b"\
24 30 0:22 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755
25 24 0:23 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate
26 24 0:24 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,xattr,name=systemd
31 24 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:16 - cgroup cgroup rw,cpu,cpuacct
32 24 0:30 / /sys/fs/cgroup/net_cls,net_prio rw shared:17 master:3 - cgroup cgroup rw,net_cls,net_prio
33 24 0:31 / /sys/fs/cgroup/rdma rw shared:18 - cgroup cgroup rw,rdma
34 24 0:31 / /mnt/second\\040view rw - cgroup cgroup rw,rdma
";

    #[test]
    fn hybrid_with_joint_controllers() {
        let found = Hierarchies::parse(SYSTEMD_HYBRID, "#subsys_name\thierarchy\nrdma\t3\t1\t1\n");
        let mounts: Vec<&str> = found.list.iter().map(|one| one.mount.to_str().unwrap()).collect();
        let under = ["systemd", "cpu,cpuacct", "net_cls,net_prio", "rdma", "unified"];
        assert_eq!(mounts, under.map(|name| format!("/sys/fs/cgroup/{name}")));
        assert_eq!(found.with("cpuacct").unwrap().controllers, ["cpu", "cpuacct"]);
        assert_eq!(found.list[0].name.as_deref(), Some("systemd"));
        assert!(found.list[0].controllers.is_empty());
        assert!(!found.pure_v2());
    }

    #[test]
    fn blanks_in_mount_points() {
        let found = Hierarchies::parse(b"1 2 0:3 / /a\\040b\\134 rw - cgroup x rw,pids\n", "");
        assert_eq!(found.list[0].mount, Path::new("/a b\\"));
    }

    #[test]
    fn this_host() {
        let found = Hierarchies::detect().unwrap();
        assert!(found.with("memory").is_some() || found.unified().is_some());
        for one in &found.list {
            assert!(one.mount.join("cgroup.procs").exists(), "{one:?}");
        }
    }
}
