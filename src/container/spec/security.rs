//! Security options, and the paths of /proc and /sys that a container must not see or change.

use crate::error::{Error, Result};
use crate::launch::apparmor::{UNCONFINED, is_on};
use crate::launch::selinux::{self, LabelRequest};
use crate::model::{HostConfig, parse_bool};

/// Which system calls a container may make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seccomp {
    /// The engine's own profile.
    Default,
    /// All.
    Unconfined,
    /// The client's profile: JSON text, not yet read.
    Profile(String),
}

/// The security options in their decided form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Security {
    pub seccomp: Seccomp,
    /// No program in the container can gain privileges.
    pub no_new_privs: bool,
    /// The requested AppArmor profile.
    pub apparmor: Option<String>,
}

/// Reads the security options: `key=value` or, older, `key:value`. A privileged container has no seccomp filter.
/// Errors: an option without value, an unknown one.
pub(crate) fn security(host: &HostConfig) -> Result<Security> {
    let mut security = Security { seccomp: Seccomp::Default, no_new_privs: false, apparmor: None };
    for option in host.security_opt.iter().flatten() {
        if option == "no-new-privileges" {
            security.no_new_privs = true;
            continue;
        }
        let separator = if option.contains('=') { '=' } else { ':' };
        let Some((key, value)) = option.split_once(separator) else {
            return Err(Error::internal_as_dockerd("container", format!("invalid --security-opt 1: {option:?}")));
        };
        let unknown = || Error::internal_as_dockerd("container", format!("invalid --security-opt 2: {option:?}"));
        match (key, value) {
            ("seccomp", "unconfined") => security.seccomp = Seccomp::Unconfined,
            ("seccomp", "") => security.seccomp = Seccomp::Default,
            ("seccomp", profile) => security.seccomp = Seccomp::Profile(profile.to_owned()),
            ("no-new-privileges", value) => security.no_new_privs = parse_bool(value).ok_or_else(unknown)?,
            // See `label_options`.
            ("label", _) => {}
            ("apparmor", profile) => security.apparmor = asked_profile(profile)?,
            _ => return Err(unknown()),
        }
    }
    if host.privileged {
        security.seccomp = Seccomp::Unconfined;
    }
    Ok(security)
}

/// The non-empty values of the options `label=`.
pub(crate) fn label_options(host: &HostConfig) -> Vec<&str> {
    let options = host.security_opt.iter().flatten();
    let value = |option: &'_ String| -> Option<usize> {
        let separator = if option.contains('=') { '=' } else { ':' };
        (option.split_once(separator)?.0 == "label").then_some("label".len() + 1)
    };
    options.filter_map(|option| value(option).map(|at| &option[at..])).filter(|value| !value.is_empty()).collect()
}

/// Checks the options `label=`. On a kernel without SELinux every option is accepted, as by dockerd; [`label_warnings`]
/// reports it. Errors: an unknown option, or options while this engine gives no labels.
pub(super) fn labels_fit(host: &HostConfig, given: bool) -> Result<()> {
    let options = label_options(host);
    if given {
        return LabelRequest::parse(options).map(drop);
    }
    match options.iter().find(|value| **value != "disable") {
        Some(value) if selinux::is_on() => Err(Error::unsupported(format!(
            "SecurityOpt: label={value}: this engine gives no SELinux labels (its option selinux switches them on)"
        ))),
        _ => Ok(()),
    }
}

/// The warnings about labels that a request names on a kernel without SELinux.
pub(super) fn label_warnings(host: &HostConfig) -> Vec<String> {
    if selinux::is_on() {
        return Vec::new();
    }
    let is_label = |option: &&String| option.starts_with("label=") || option.starts_with("label:");
    let asked = host.security_opt.iter().flatten().filter(is_label);
    asked
        .filter(|option| !matches!(&option[6..], "" | "disable"))
        .map(|option| format!("The kernel has no SELinux. SecurityOpt {option} discarded."))
        .collect()
}

/// The profile that a request names; an empty name means the default.
fn asked_profile(profile: &str) -> Result<Option<String>> {
    match profile {
        "" => Ok(None),
        UNCONFINED => Ok(Some(UNCONFINED.to_owned())),
        _ if !is_on() => {
            Err(Error::unsupported(format!("SecurityOpt: apparmor={profile}: this host's kernel has no AppArmor")))
        }
        _ => {
            super::plain("SecurityOpt: apparmor", profile)?;
            Ok(Some(profile.to_owned()))
        }
    }
}

/// The AppArmor profile of a container's processes: the requested one, or `default`, which is absent on a kernel
/// without AppArmor. A privileged container has none, as in dockerd.
pub(crate) fn apparmor(host: &HostConfig, default: Option<&str>) -> Result<String> {
    let Some(default) = default else { return Ok(String::new()) };
    if host.privileged {
        return Ok(UNCONFINED.to_owned());
    }
    Ok(security(host)?.apparmor.unwrap_or_else(|| default.to_owned()))
}

/// Paths that are covered by an empty file or directory, if they exist.
const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Paths that the container must not read; none if it is privileged. `cpus` is the number of CPUs that the host may
/// come to have: each has temperature counters, which can reveal secrets of neighbours. A list in the request replaces
/// this one.
pub(crate) fn masked_paths(host: &HostConfig, cpus: u32) -> Vec<String> {
    if let Some(asked) = &host.masked_paths {
        return asked.clone();
    }
    if host.privileged {
        return Vec::new();
    }
    let heat = (0..cpus).map(|cpu| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle"));
    MASKED.iter().map(|path| path.to_string()).chain(heat).collect()
}

/// Paths that the container must not write; none if it is privileged. A list in the request replaces this one.
pub(crate) fn readonly_paths(host: &HostConfig) -> Vec<String> {
    match &host.readonly_paths {
        Some(asked) => asked.clone(),
        None if host.privileged => Vec::new(),
        None => READ_ONLY.iter().map(|path| path.to_string()).collect(),
    }
}
