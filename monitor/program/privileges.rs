//! A process's rights, given up one by one: capabilities, ids, and a filter of system calls.

use crate::fault::{Step, errno, os};
use crate::sys::{self, *};

pub const CAP_SYS_PTRACE: u64 = 1 << 19;
pub const CAP_SYS_ADMIN: u64 = 1 << 21;

/// Drops the capabilities that neither the process nor its programs may get again: all but those of `keep`.
pub fn drop_bounding(keep: u64) -> Step {
    const PR_CAPBSET_DROP: usize = 24;
    for capability in 0..64 {
        if keep & (1 << capability) == 0 {
            match sys::prctl(PR_CAPBSET_DROP, capability) {
                Ok(_) => {}
                // Beyond the kernel's last capability.
                Err(EINVAL) => break,
                Err(error) => return Err(errno(error)),
            }
        }
    }
    Ok(())
}

/// All three ids of each kind, and the groups.
pub fn set_ids(uid: u32, gid: u32, groups: &[u32]) -> Step {
    let (uid, gid) = (uid as usize, gid as usize);
    // SAFETY: the list lives over the call; the other two take numbers.
    let set = unsafe {
        sys::call(nr::SETGROUPS, &[groups.len(), groups.as_ptr() as usize])
            .and_then(|_| sys::call(nr::SETRESGID, &[gid, gid, gid]))
            .and_then(|_| sys::call(nr::SETRESUID, &[uid, uid, uid]))
    };
    os(set).map(|_| ())
}

/// Permitted capabilities are effective. Ambient ones must be permitted and inheritable.
pub fn set_capabilities(permitted: u64, inheritable: u64, ambient: u64) -> Step {
    const VERSION_3: u32 = 0x2008_0522;
    const PR_CAP_AMBIENT: usize = 47;
    const CLEAR_ALL: usize = 4;
    const RAISE: usize = 2;
    let header = [VERSION_3, 0];
    let (low, high) = (permitted as u32, (permitted >> 32) as u32);
    let data = [low, low, inheritable as u32, high, high, (inheritable >> 32) as u32];
    let _ = sys::prctl(PR_CAP_AMBIENT, CLEAR_ALL);
    // SAFETY: both structures live over the call.
    os(unsafe { sys::call(nr::CAPSET, &[header.as_ptr() as usize, data.as_ptr() as usize]) })?;
    for capability in (0..64).filter(|bit| ambient & (1 << bit) != 0) {
        // SAFETY: takes numbers; the last two must be zero.
        os(unsafe { sys::call(nr::PRCTL, &[PR_CAP_AMBIENT, RAISE, capability, 0, 0]) })?;
    }
    Ok(())
}

/// Sets a filter of system calls, unless it is empty.
pub fn set_filter(filter: &[u8]) -> Step {
    const INSTRUCTION_LEN: usize = 8;
    if filter.is_empty() {
        return Ok(());
    }
    // SAFETY: the slice has so many instructions.
    os(unsafe { load_filter(filter.as_ptr(), filter.len() / INSTRUCTION_LEN) })
}

/// Sets a filter of `count` instructions; the kernel copies and checks them.
///
/// # Safety
/// `code` points at so many instructions of 8 bytes.
pub unsafe fn load_filter(code: *const u8, count: usize) -> Result<()> {
    const SET_MODE_FILTER: usize = 1;
    #[repr(C)]
    struct Program {
        length: u16,
        code: *const u8,
    }
    let program = Program { length: count as u16, code };
    // SAFETY: the program lives over the call, and so do the instructions of the caller.
    unsafe { sys::call(nr::SECCOMP, &[SET_MODE_FILTER, 0, (&raw const program) as usize]) }.map(|_| ())
}
