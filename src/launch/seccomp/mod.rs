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
//! - Arguments are compared with all their 64 bits, on 32-bit architectures by their low halves; i386 calls that also go
//!   through `socketcall` and `ipc` are matched there too.
//!
//! The kernel reads `int` arguments by their low halves, so a comparison of 64 bits is passed by a bit of the upper half.
//! A caller's profile stays as it is written; the default one compares such arguments under masks (`SCMP_CMP_MASKED_EQ`)
//! that leave the upper half out. x32 calls are to it as to a kernel that was built without them.

mod arch;
mod bpf;
mod compile;
mod decode;
mod profile;
mod table;

use crate::error::{Error, Result};
use crate::walls::Wall;
use arch::Arch;
use decode::{SaidArgument, SaidRule};
use parking_lot::Mutex;
use profile::{NO_SUCH_CALL, Policy};
use std::sync::Arc;

const DEFAULT: &str = include_str!("default.json");

/// The default profile for a container with the capabilities `caps` and an image of this kind of machine: `struct
/// sock_filter` one after the other, in host order.
fn default_filter(caps: u64, machine: Machine) -> Result<Vec<u8>> {
    let native = native()?;
    let mut said = decode::decode(DEFAULT)?;
    let mut more = Vec::new();
    if machine == Machine::I386 || !Wall::SeccompSocketcall.stands() {
        more.push(allowed("socketcall", None));
    }
    if !Wall::SeccompX32.stands() {
        let lists = said.arch_map.iter_mut().flatten().map(|entry| &mut entry.sub_architectures);
        lists.for_each(|list| list.get_or_insert_default().push("SCMP_ARCH_X32".into()));
    }
    if !Wall::SeccompHalves.stands() {
        more.extend(["LT 38", "EQ 39", "GT 40"].map(|compare| allowed("socket", Some(compare))));
    }
    said.syscalls.get_or_insert_default().extend(more);
    let policy = profile::resolve(&said, native, caps)?;
    let policy = policy.ok_or_else(|| Error::internal("the default seccomp profile refuses nothing"))?;
    compile::compile(&Policy { without_x32: NO_SUCH_CALL, ..policy })
}

/// A rule that allows a call, where its first argument compares like `LT 38` with all its 64 bits.
fn allowed(name: &str, compare: Option<&str>) -> SaidRule {
    let argument = |(op, value): (&str, &str)| SaidArgument {
        value: value.parse().unwrap_or_default(),
        op: format!("SCMP_CMP_{op}"),
        ..SaidArgument::default()
    };
    SaidRule {
        name: Some(name.into()),
        action: Some("SCMP_ACT_ALLOW".into()),
        args: compare.and_then(|compare| compare.split_once(' ')).map(|pair| vec![argument(pair)]),
        ..SaidRule::default()
    }
}

/// A caller's profile in the same form. None: it allows everything, and no filter is needed.
///
/// # Errors
/// The JSON is wrong (the message names the field), or asks for what is not built; the filter does not fit the kernel's
/// 4096 instructions.
pub(crate) fn profile_filter(json: &str, caps: u64) -> Result<Option<Vec<u8>>> {
    let native = native()?;
    let wrong = |error: Error| error.context("invalid seccomp profile");
    let said = decode::decode(json).map_err(wrong)?;
    let policy = profile::resolve(&said, native, caps).map_err(wrong)?;
    policy.map(|policy| compile::compile(&policy)).transpose()
}

fn native() -> Result<Arch> {
    Arch::NATIVE.ok_or_else(|| Error::unsupported("seccomp profiles are not supported on this machine's architecture"))
}

/// The machine that an image was made for, so far as the default profile differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    /// Programs make sockets by the call `socket`, whose arguments a filter sees.
    Usual,
    /// A 32-bit x86: its older programs know `socketcall` alone, whose arguments lie in memory, where no filter can look.
    I386,
}

impl Machine {
    /// By the name that an image's configuration gives.
    pub(crate) fn of(architecture: &str) -> Machine {
        if architecture == "386" { Machine::I386 } else { Machine::Usual }
    }
}

/// The facts that a default filter is compiled for.
type Key = (u64, Machine);

/// The default filters that an engine has compiled, by capabilities: a compilation takes about 0.3 ms, and nearly all
/// containers have one of a few sets.
#[derive(Debug, Default)]
pub(crate) struct DefaultFilters {
    compiled: Mutex<Vec<(Key, Arc<[u8]>)>>,
}

impl DefaultFilters {
    /// As many sets as are kept; one more drops the oldest.
    const KEPT: usize = 16;

    /// As [`default_filter`], compiled at most once for what is in use.
    pub(crate) fn get(&self, caps: u64, machine: Machine) -> Result<Arc<[u8]>> {
        let key = (caps, machine);
        if let Some((_, filter)) = self.compiled.lock().iter().find(|(one, _)| *one == key) {
            return Ok(filter.clone());
        }
        // Not under the lock: two at once compile the same, which harms nothing.
        let filter: Arc<[u8]> = default_filter(caps, machine)?.into();
        let mut compiled = self.compiled.lock();
        compiled.retain(|(one, _)| *one != key);
        if compiled.len() == Self::KEPT {
            compiled.remove(0);
        }
        compiled.push((key, filter.clone()));
        Ok(filter)
    }
}

#[cfg(test)]
mod tests;
