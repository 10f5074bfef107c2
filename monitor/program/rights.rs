//! The capabilities that the launcher has in effect: only those that it uses itself. The others stay permitted, because
//! its children need them: a child that walks a plan puts all of them into effect again, and gives up those that the
//! plan names.

use crate::sys::{self, *};
use crate::walls::Wall;

const DAC_OVERRIDE: u64 = 1 << 1;
const KILL: u64 = 1 << 5;
const SETGID: u64 = 1 << 6;
const SETUID: u64 = 1 << 7;
const SETPCAP: u64 = 1 << 8;
const NET_ADMIN: u64 = 1 << 12;
const SYS_CHROOT: u64 = 1 << 18;
const SYS_PTRACE: u64 = 1 << 19;
const SYS_ADMIN: u64 = 1 << 21;

/// ARCHITECTURE.md says what each is for.
const USED: u64 = DAC_OVERRIDE | KILL | SETGID | SETUID | SETPCAP | NET_ADMIN | SYS_CHROOT | SYS_PTRACE | SYS_ADMIN;

const VERSION_3: u32 = 0x2008_0522;

/// Sets the launcher's capabilities, once it has reset everything that it inherited.
pub fn keep_used() {
    if Wall::LauncherRights.stands() {
        // If the kernel refuses, all stay in effect.
        let _ = in_effect(USED);
    }
}

/// Puts all permitted capabilities into effect, in a child that walks a plan.
pub fn take_all() -> Result<()> {
    in_effect(u64::MAX)
}

fn in_effect(wanted: u64) -> Result<()> {
    let header = [VERSION_3, 0];
    // Effective, permitted and inheritable: the lower halves, then the upper ones.
    let mut sets = [0u32; 6];
    // SAFETY: both arrays live over the calls.
    unsafe {
        sys::call(nr::CAPGET, &[header.as_ptr() as usize, sets.as_mut_ptr() as usize])?;
        sets[0] = sets[1] & wanted as u32;
        sets[3] = sets[4] & (wanted >> 32) as u32;
        sys::call(nr::CAPSET, &[header.as_ptr() as usize, sets.as_ptr() as usize]).map(|_| ())
    }
}
