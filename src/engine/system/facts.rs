//! Facts of the host, from files and names. A fact that cannot be read is empty or zero: `info` never fails for it.

use crate::container::Containers;
use crate::kernel::probe::on_tmpfs;
use crate::launch::cgroup::host_memory;
use nix::sys::statfs::statfs;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The facts of uname(2).
pub(in crate::engine) struct Names {
    pub host: String,
    pub release: String,
    pub machine: String,
}

impl Names {
    pub(in crate::engine) fn read() -> Names {
        let text = |name: &std::ffi::OsStr| name.to_string_lossy().into_owned();
        match nix::sys::utsname::uname() {
            Ok(names) => {
                Names { host: text(names.nodename()), release: text(names.release()), machine: text(names.machine()) }
            }
            Err(_) => Names { host: String::new(), release: String::new(), machine: std::env::consts::ARCH.into() },
        }
    }
}

/// The facts of os-release.
pub(in crate::engine) struct OsRelease {
    /// `PRETTY_NAME`, or `Linux`.
    pub pretty: String,
    /// `VERSION_ID`.
    pub version: String,
}

impl OsRelease {
    pub(in crate::engine) fn read() -> OsRelease {
        let text = fs::read_to_string("/etc/os-release").or_else(|_| fs::read_to_string("/usr/lib/os-release"));
        OsRelease::parse(&text.unwrap_or_default())
    }

    fn parse(text: &str) -> OsRelease {
        let value = |key: &str| {
            let line = text.lines().rev().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
            line.map(|value| unquoted(value.trim()))
        };
        OsRelease {
            pretty: value("PRETTY_NAME").unwrap_or_else(|| "Linux".into()),
            version: value("VERSION_ID").unwrap_or_default(),
        }
    }
}

/// The value of a shell assignment: without its quotes and without the backslash before a character.
fn unquoted(word: &str) -> String {
    let inner = ['"', '\''].iter().find_map(|&quote| word.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(word);
    let mut out = String::new();
    let mut rest = inner.chars();
    while let Some(character) = rest.next() {
        out.extend(if character == '\\' && !word.starts_with('\'') { rest.next() } else { Some(character) });
    }
    out
}

/// The number of CPUs that this process may use.
pub(in crate::engine) fn cpus() -> usize {
    use nix::sched::{CpuSet, sched_getaffinity};
    let Ok(set) = sched_getaffinity(nix::unistd::Pid::from_raw(0)) else { return 1 };
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).count().max(1)
}

/// Whether a kernel setting is not zero.
pub(in crate::engine) fn is_set(path: &str) -> bool {
    fs::read_to_string(path).is_ok_and(|text| !matches!(text.trim(), "" | "0"))
}

/// The number of entries in a directory.
pub(in crate::engine) fn entries(path: &str) -> usize {
    fs::read_dir(path).map_or(0, Iterator::count)
}

/// Members of `info` about the machine and its system.
pub(super) fn of_host(names: &Names) -> Value {
    let system = OsRelease::read();
    json!({
        "KernelVersion": names.release,
        "OperatingSystem": system.pretty,
        "OSVersion": system.version,
        "OSType": std::env::consts::OS,
        "Architecture": names.machine,
        "NCPU": cpus(),
        "MemTotal": host_memory(),
        "IPv4Forwarding": is_set("/proc/sys/net/ipv4/ip_forward"),
        "BridgeNfIptables": is_set("/proc/sys/net/bridge/bridge-nf-call-iptables"),
        "BridgeNfIp6tables": is_set("/proc/sys/net/bridge/bridge-nf-call-ip6tables"),
    })
}

/// The means that confine containers here, beside capabilities and the other namespaces: a name and its settings each.
pub(super) fn security_options(containers: &Containers) -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let seccomp = status.lines().any(|line| line.starts_with("Seccomp:"));
    [
        (containers.are_profiled(), "name=apparmor"),
        (seccomp, "name=seccomp,profile=builtin"),
        (containers.labels.are_labelled(), "name=selinux"),
        (containers.is_remapped(), "name=userns"),
        // Each container has a control group namespace of its own.
        (true, "name=cgroupns"),
    ]
    .into_iter()
    .filter(|(on, _)| *on)
    .map(|(_, name)| name)
    .collect()
}

/// A file system's name, as docker info shows it.
pub(in crate::engine) fn file_system(path: &Path) -> String {
    // The kernel's numbers (linux/magic.h and the file systems' own).
    const NAMES: [(i64, &str); 9] = [
        (0xef53, "extfs"),
        (0x5846_5342, "xfs"),
        (0x9123_683e, "btrfs"),
        (0x0102_1994, "tmpfs"),
        (0x2fc1_2fc1, "zfs"),
        (0xf2f5_2010, "f2fs"),
        (0x794c_7630, "overlayfs"),
        (0x6969, "nfs"),
        (0x6573_5546, "fuse"),
    ];
    let Ok(facts) = statfs(path) else { return "<unknown>".into() };
    let kind = facts.filesystem_type().0;
    NAMES.iter().find(|(magic, _)| *magic == kind).map_or("<unknown>", |(_, name)| name).into()
}

/// A warning if a directory that must end with the boot may survive it.
pub(in crate::engine) fn not_on_tmpfs(path: &Path) -> Option<String> {
    (!on_tmpfs(path)).then(|| format!("WARNING: The run directory {} is not on a tmpfs", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_is_read_as_a_shell_would() {
        let read = |text| {
            let release = OsRelease::parse(text);
            (release.pretty, release.version)
        };
        let text = "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\n";
        assert_eq!(read(text), ("Debian GNU/Linux 12 (bookworm)".into(), "12".into()));
        assert_eq!(read("PRETTY_NAME='A \\ B'\nVERSION_ID=3.1\n"), ("A \\ B".into(), "3.1".into()));
        assert_eq!(read("PRETTY_NAME=\"A \\\"B\\\"\"\n"), ("A \"B\"".into(), String::new()));
        assert_eq!(read(""), ("Linux".into(), String::new()));
    }

    #[test]
    fn this_host_has_the_usual() {
        assert!(cpus() >= 1 && entries("/proc/self/fd") > 2);
        assert!(!Names::read().release.is_empty());
        assert_eq!(file_system(Path::new("/proc")), "<unknown>");
    }
}
