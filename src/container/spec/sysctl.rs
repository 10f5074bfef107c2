//! Kernel parameters: only those that belong to the container's own namespaces.

use super::{DecidedHost, IpcMode, Modes, NetworkMode, UtsMode};
use crate::error::{Error, Result};
use crate::walls::Wall;

const IPC: [&str; 8] = ["msgmax", "msgmnb", "msgmni", "sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced"];

/// The parameters as paths below `/proc/sys` with their values, in the order of their names.
///
/// Errors: a malformed name, a parameter without a namespace of its own, or one of a namespace that the container
/// shares with the host.
pub(crate) fn sysctls(host: &DecidedHost) -> Result<Vec<(String, String)>> {
    if !Wall::SysctlCheck.stands() {
        return Ok(host.sysctls.iter().map(|(name, value)| (name.replace('.', "/"), value.clone())).collect());
    }
    host.sysctls.iter().map(|(name, value)| Ok((path(name, host.modes())?, checked_value(name, value)?))).collect()
}

fn path(name: &str, modes: &Modes) -> Result<String> {
    let Some(parts) = parts(name) else {
        return Err(Error::internal_as_dockerd("container", format!("sysctl {name:?} is not a valid name")));
    };
    let parts_ref: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts_ref[..] {
        ["net", _, ..] if modes.network == NetworkMode::Host => Err(Error::internal_as_dockerd(
            "container",
            format!("sysctl {name:?} not allowed in host network namespace"),
        )),
        ["net", _, ..] => Ok(parts.join("/")),
        ["kernel", key] if IPC.contains(&key) => ipc(name, &modes.ipc, parts),
        ["fs", "mqueue", _] => ipc(name, &modes.ipc, parts),
        ["kernel", "domainname"] if modes.uts == UtsMode::Host => Err(Error::internal_as_dockerd(
            "container",
            format!("sysctl {name:?} is not allowed in the host's uts namespace"),
        )),
        ["kernel", "domainname"] => Ok(parts.join("/")),
        ["kernel", "hostname"] => Err(Error::internal_as_dockerd(
            "container",
            format!("sysctl {name:?} is not allowed as it conflicts with the Hostname field"),
        )),
        _ => Err(Error::internal_as_dockerd(
            "container",
            format!("sysctl {name:?} is not in a separate kernel namespace"),
        )),
    }
}

fn ipc(name: &str, mode: &IpcMode, parts: Vec<String>) -> Result<String> {
    match mode {
        IpcMode::Host => Err(Error::internal_as_dockerd(
            "container",
            format!("sysctl {name:?} is not allowed in the hosts ipc namespace"),
        )),
        _ => Ok(parts.join("/")),
    }
}

/// The parts of the name. The first `.` or `/` decides which of the two separates; the other one then stands for it
/// inside a part (`net.ipv4.conf.eth0/100.forwarding`).
fn parts(name: &str) -> Option<Vec<String>> {
    let separator = name.chars().find(|c| matches!(c, '.' | '/'))?;
    let parts: Vec<String> = name
        .split(separator)
        .map(|part| if separator == '.' { part.replace('/', ".") } else { part.to_owned() })
        .collect();
    let good = |part: &String| {
        !matches!(part.as_str(), "" | "." | "..")
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
    };
    parts.iter().all(good).then_some(parts)
}

/// A value is one line. `+` and `=`, which no parameter here takes, once smuggled a second parameter into an engine.
fn checked_value(name: &str, value: &str) -> Result<String> {
    match value.chars().any(|c| (c.is_control() && c != '\t') || matches!(c, '+' | '=')) {
        true => {
            Err(Error::internal_as_dockerd("container", format!("sysctl {name:?}: {value:?} is not a valid value")))
        }
        false => Ok(value.to_owned()),
    }
}
