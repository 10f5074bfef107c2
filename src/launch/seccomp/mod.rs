//! Seccomp: system call profiles compiled to the kernel's classic BPF.
//!
//! A profile is JSON in Docker's format (`defaultAction`, `archMap`, `syscalls` with conditions on arguments,
//! capabilities, architecture and kernel); `default.json` is the profile of containers that name none. A rule has the
//! same meaning as in libseccomp and runc:
//!
//! - The first matching rule of a call applies, but one without arguments wins over those with arguments. A rule with
//!   the default action has no effect. All conditions of a rule must hold; if two are on one argument, any of them.
//! - Names that no architecture knows are ignored, so a profile may be newer than this table.
//! - A call newer than all that the profile names gives `ENOSYS`, not the default error, so that programs fall back
//!   (only if the default refuses).
//! - Arguments are compared with all their 64 bits, on 32-bit architectures by their low halves; i386 calls that also go
//!   through `socketcall` and `ipc` are matched there too.
//!
//! The kernel reads `int` arguments by their low halves, so a bit of the upper half would defeat a comparison of 64
//! bits. A caller's profile stays as it is; the default one compares such arguments under masks (`SCMP_CMP_MASKED_EQ`)
//! without the upper half. It treats x32 calls like a kernel that was built without them.

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

/// A rule that allows a call if its first argument, with all its 64 bits, compares like `LT 38`.
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

/// The filter of a caller's profile. None: it allows everything, and no filter is needed.
///
/// # Errors
/// The JSON is wrong (the message names the field), or needs an unsupported feature; the filter exceeds the
/// kernel's 4096 instructions.
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

/// The machine that an image was made for, as far as the default profile depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    /// Programs make sockets by the call `socket`, whose arguments a filter can see.
    Usual,
    /// A 32-bit x86: its older programs only know `socketcall`, whose arguments lie in memory, where a filter cannot
    /// look.
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

/// The default filters that an engine has compiled, by capabilities: compiling takes about 0.3 ms, and nearly all
/// containers have one of a few sets.
#[derive(Debug, Default)]
pub(crate) struct DefaultFilters {
    compiled: Mutex<Vec<(Key, Arc<[u8]>)>>,
}

impl DefaultFilters {
    /// The most filters that are kept; one more drops the oldest.
    const KEPT: usize = 16;

    /// Like [`default_filter`], but reuses the filters that are kept.
    pub(crate) fn get(&self, caps: u64, machine: Machine) -> Result<Arc<[u8]>> {
        let key = (caps, machine);
        if let Some((_, filter)) = self.compiled.lock().iter().find(|(one, _)| *one == key) {
            return Ok(filter.clone());
        }
        // Not under the lock: two threads may compile the same filter, which is harmless.
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
