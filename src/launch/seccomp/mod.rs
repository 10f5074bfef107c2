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
use parking_lot::Mutex;
use std::sync::Arc;

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

/// The default filters that an engine has compiled, by capabilities: a compilation takes about 0.3 ms, and nearly all
/// containers have one of a few sets.
#[derive(Debug, Default)]
pub(crate) struct DefaultFilters {
    compiled: Mutex<Vec<(u64, Arc<[u8]>)>>,
}

impl DefaultFilters {
    /// As many sets as are kept; one more drops the oldest.
    const KEPT: usize = 16;

    /// As [`default_filter`], compiled at most once for a set that is in use.
    pub(crate) fn get(&self, caps: u64) -> Result<Arc<[u8]>> {
        if let Some((_, filter)) = self.compiled.lock().iter().find(|(set, _)| *set == caps) {
            return Ok(filter.clone());
        }
        // Not under the lock: two at once compile the same, which harms nothing.
        let filter: Arc<[u8]> = default_filter(caps)?.into();
        let mut compiled = self.compiled.lock();
        compiled.retain(|(set, _)| *set != caps);
        if compiled.len() == Self::KEPT {
            compiled.remove(0);
        }
        compiled.push((caps, filter.clone()));
        Ok(filter)
    }
}

#[cfg(test)]
mod tests;
