//! Seccomp: system call profiles compiled to the kernel's classic BPF.
//!
//! A profile is the field's JSON (`defaultAction`, `archMap`, `syscalls` with conditions on arguments, capabilities,
//! architecture and kernel); `default.json` is the one that a container has which asks for nothing. A rule means here
//! what it means to libseccomp and runc:
//!
//! - Of one call's rules the first that fits counts, but one without arguments beats those with arguments. A rule with
//!   the default action says nothing. The conditions of a rule must all hold, unless two are on one argument: then any.
//! - Names that no architecture has are ignored, so that a profile may be newer than this table.
//! - A call that is newer than every one that the profile names gives `ENOSYS`, not the default error, so that programs
//!   fall back (only where the default refuses).
//! - On 32-bit architectures arguments are compared by their low halves; i386 calls that also go through `socketcall`
//!   and `ipc` are matched there too.

mod arch;
mod bpf;
mod compile;
mod decode;
mod profile;
mod table;

use crate::error::{Error, Result};
use arch::Arch;

const DEFAULT: &str = include_str!("default.json");

/// The default profile for a container with the capabilities `caps`: `struct sock_filter` one after the other, in host
/// order.
pub(crate) fn default_filter(caps: u64) -> Result<Vec<u8>> {
    profile_filter(DEFAULT, caps)?.ok_or_else(|| Error::internal("the default seccomp profile refuses nothing"))
}

/// A caller's profile in the same form. None: it allows everything, and no filter is needed.
///
/// # Errors
/// The JSON is wrong (the message names the field), or asks for what is not built; the filter does not fit the kernel's
/// 4096 instructions.
pub(crate) fn profile_filter(json: &str, caps: u64) -> Result<Option<Vec<u8>>> {
    let Some(native) = Arch::NATIVE else {
        return Err(Error::unsupported("seccomp profiles are not supported on this machine's architecture"));
    };
    let wrong = |error: Error| error.context("invalid seccomp profile");
    let said = decode::decode(json).map_err(wrong)?;
    let policy = profile::resolve(&said, native, caps).map_err(wrong)?;
    policy.map(|policy| compile::compile(&policy)).transpose()
}

#[cfg(test)]
mod tests;
