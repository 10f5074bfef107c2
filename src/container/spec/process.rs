//! The process: environment, host name, resource limits, devices, cgroup.

use super::{Spec, clean, plain};
use crate::container::names::short_id;
use crate::error::{Error, Result};
use crate::model::HostConfig;

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The environment without HOME, which the monitor sets from the user's passwd entry if it is missing.
///
/// The configuration's entries override the defaults and those of links, later ones override earlier ones; an entry
/// without `=` unsets the variable.
pub(crate) fn environment(spec: &Spec, hostname: &str, links: &[String]) -> Vec<String> {
    let mut env = vec![PATH.to_owned(), format!("HOSTNAME={hostname}")];
    if spec.config.tty {
        env.push("TERM=xterm".into());
    }
    env.extend_from_slice(links);
    // An image may hold entries without a name, which programs cannot use.
    let named = |entry: &&String| !entry.is_empty() && !entry.starts_with('=');
    for entry in spec.config.env.iter().flatten().filter(named) {
        let key = entry.split_once('=').map(|(key, _)| key);
        let same = |other: &String| other.split_once('=').map(|(key, _)| key) == Some(key.unwrap_or(entry));
        match (env.iter().position(same), key) {
            (Some(at), Some(_)) => env[at].clone_from(entry),
            (None, Some(_)) => env.push(entry.clone()),
            (Some(at), None) => drop(env.remove(at)),
            (None, None) => {
                if let Some(value) = of_the_host(entry) {
                    env.push(format!("{entry}={value}"));
                }
            }
        }
    }
    env
}

/// An environment with further variables, which replace those of their names.
pub(crate) fn with_variables(mut env: Vec<String>, more: &[String]) -> Vec<String> {
    for added in more {
        let name = |entry: &str| entry.split('=').next().unwrap_or_default().to_owned();
        env.retain(|entry| name(entry) != name(added));
        env.push(added.clone());
    }
    env
}

/// The value of a variable of the host program: images get none.
fn of_the_host(_name: &str) -> Option<String> {
    #[cfg(feature = "attacks")]
    if !crate::walls::Wall::EnvironmentOfImages.stands() {
        return std::env::var(_name).ok();
    }
    None
}

/// The container's host name, for its UTS namespace, `/etc/hostname` and `HOSTNAME`.
pub(crate) fn hostname(spec: &Spec, id: &str) -> String {
    match spec.config.hostname.is_empty() {
        true => short_id(id),
        false => spec.config.hostname.clone(),
    }
}

/// A limit as prlimit(2) takes it; `u64::MAX` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rlimit {
    /// `RLIMIT_*`.
    pub resource: i32,
    pub soft: u64,
    pub hard: u64,
}

/// The resource limits; the last one of a name counts. They are read for each start rather than with the decided values,
/// since dockerd creates a container with a bad limit, too, and fails its start.
///
/// Errors: unknown name, soft above hard.
pub(crate) fn ulimits(host: &HostConfig) -> Result<Vec<Rlimit>> {
    let mut limits: Vec<Rlimit> = Vec::new();
    for ulimit in host.resources.ulimits.iter().flatten() {
        let name = &ulimit.name;
        let resource = rlimit(name).ok_or_else(|| {
            Error::internal_as_dockerd("container", format!("wrong rlimit value: RLIMIT_{}", name.to_ascii_uppercase()))
        })?;
        let limit = Rlimit { resource, soft: bound(name, ulimit.soft)?, hard: bound(name, ulimit.hard)? };
        if limit.soft > limit.hard {
            return Err(Error::internal_as_dockerd(
                "container",
                format!(
                    "ulimit {name}: soft limit must be less than or equal to hard limit: {} > {}",
                    ulimit.soft, ulimit.hard
                ),
            ));
        }
        limits.retain(|other| other.resource != resource);
        limits.push(limit);
    }
    Ok(limits)
}

fn bound(name: &str, value: i64) -> Result<u64> {
    match value {
        -1 => Ok(u64::MAX),
        value => u64::try_from(value)
            .map_err(|_| Error::internal_as_dockerd("container", format!("ulimit {name}: {value} is not a limit"))),
    }
}

/// The number of a limit by its lower-case name.
pub(crate) fn rlimit(name: &str) -> Option<i32> {
    let resource = match name {
        "as" => libc::RLIMIT_AS,
        "core" => libc::RLIMIT_CORE,
        "cpu" => libc::RLIMIT_CPU,
        "data" => libc::RLIMIT_DATA,
        "fsize" => libc::RLIMIT_FSIZE,
        "locks" => libc::RLIMIT_LOCKS,
        "memlock" => libc::RLIMIT_MEMLOCK,
        "msgqueue" => libc::RLIMIT_MSGQUEUE,
        "nice" => libc::RLIMIT_NICE,
        "nofile" => libc::RLIMIT_NOFILE,
        "nproc" => libc::RLIMIT_NPROC,
        "rss" => libc::RLIMIT_RSS,
        "rtprio" => libc::RLIMIT_RTPRIO,
        "rttime" => libc::RLIMIT_RTTIME,
        "sigpending" => libc::RLIMIT_SIGPENDING,
        "stack" => libc::RLIMIT_STACK,
        _ => return None,
    };
    i32::try_from(resource).ok()
}

/// A device (or a directory of devices) of the host, and its path in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceNode {
    pub path_on_host: String,
    pub path_in_container: String,
    /// A subset of `rwm`, for the device cgroup.
    pub permissions: String,
}

/// The requested devices, with defaults: the same path, all permissions. Errors: a relative path, unknown permissions.
pub(crate) fn devices(host: &HostConfig) -> Result<Vec<DeviceNode>> {
    host.resources
        .devices
        .iter()
        .flatten()
        .map(|device| {
            let or = |text: &String, default: &str| if text.is_empty() { default.into() } else { text.clone() };
            let path_in_container = or(&device.path_in_container, &device.path_on_host);
            for path in [&device.path_on_host, &path_in_container] {
                plain("Devices", path)?;
                if !path.starts_with('/') {
                    return Err(Error::invalid(format!("Devices: {path:?} is not an absolute path")));
                }
            }
            let permissions: String = or(&device.cgroup_permissions, "rwm");
            if permissions.chars().any(|c| !"rwm".contains(c)) {
                return Err(Error::invalid(format!("invalid device mode: {permissions}")));
            }
            let path_on_host = clean(&device.path_on_host);
            Ok(DeviceNode { path_on_host, path_in_container: clean(&path_in_container), permissions })
        })
        .collect()
}

/// The cgroup above the container's own, absolute and clean; `default` if the request names none.
pub(crate) fn cgroup_parent(host: &HostConfig, default: &str) -> Result<String> {
    let parent = &host.resources.cgroup_parent;
    plain("CgroupParent", parent)?;
    Ok(clean(if parent.is_empty() { default } else { parent }))
}
