//! Capabilities by name.

use crate::error::{Error, Result};
use crate::model::HostConfig;
use caps::Capability;

/// What a container has that asks for nothing.
const DEFAULT: [Capability; 14] = [
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_FSETID,
    Capability::CAP_FOWNER,
    Capability::CAP_MKNOD,
    Capability::CAP_NET_RAW,
    Capability::CAP_SETGID,
    Capability::CAP_SETUID,
    Capability::CAP_SETFCAP,
    Capability::CAP_SETPCAP,
    Capability::CAP_NET_BIND_SERVICE,
    Capability::CAP_SYS_CHROOT,
    Capability::CAP_KILL,
    Capability::CAP_AUDIT_WRITE,
];

/// The container's capabilities as a mask (bit = the kernel's number), before the host's own bounds. Errors: a name
/// that is none.
pub(crate) fn capabilities(host: &HostConfig) -> Result<u64> {
    let add = names("CapAdd", host.cap_add.as_deref())?;
    let drop = names("CapDrop", host.cap_drop.as_deref())?;
    let default = DEFAULT.iter().fold(0, |mask, capability| mask | capability.bitmask());
    Ok(match (host.privileged, add.all, drop.all) {
        (true, ..) => all(),
        (_, true, _) => all() & !drop.mask,
        (_, _, true) => add.mask,
        _ => (default & !drop.mask) | add.mask,
    })
}

fn all() -> u64 {
    caps::all().iter().fold(0, |mask, capability| mask | capability.bitmask())
}

#[derive(Default)]
struct Names {
    all: bool,
    mask: u64,
}

fn names(field: &str, list: Option<&[String]>) -> Result<Names> {
    let mut names = Names::default();
    for name in list.unwrap_or_default() {
        let upper = name.to_ascii_uppercase();
        if upper == "ALL" {
            names.all = true;
            continue;
        }
        let full = if upper.starts_with("CAP_") { upper } else { format!("CAP_{upper}") };
        let capability: Capability =
            full.parse().map_err(|_| Error::invalid(format!("invalid {field}: unknown capability: {full:?}")))?;
        names.mask |= capability.bitmask();
    }
    Ok(names)
}
