//! The worker gives up its rights for good, before it reads a byte that a container made.
//!
//! The worker has no capabilities, and no program can give it any; a filter allows only the calls that it makes
//! (`src/filter.rs`); it can open only the files of the run directory, for reading. No process of a container descends
//! from it, so none inherits these limits.

use crate::filter::{Filter, Instruction, Rule};
use crate::sys::{self, *};
use crate::walls::Wall;

/// Makes a directory the root, so that nothing above it can be named.
pub fn enter_root(dir: i32) -> Result<()> {
    if !Wall::ConfinedWorker.stands() {
        return Ok(());
    }
    sys::fchdir(dir)?;
    // SAFETY: a path that ends with a NUL.
    unsafe { sys::call(nr::CHROOT, &[c".".as_ptr() as usize]) }.map(|_| ())
}

/// Gives up all rights except the calls of the list. `readable`: the directory below which files may be read; below 0
/// if no file may be read.
pub fn give_up(rules: &[Rule], readable: i32) -> Result<()> {
    if !Wall::ConfinedWorker.stands() {
        return Ok(());
    }
    drop_capabilities()?;
    const PR_SET_NO_NEW_PRIVS: usize = 38;
    sys::prctl(PR_SET_NO_NEW_PRIVS, 1)?;
    // If the kernel has no Landlock, the filter and the root are the only wall.
    let _ = fence(readable);
    load(&Filter::of(rules))
}

fn drop_capabilities() -> Result<()> {
    const PR_CAPBSET_DROP: usize = 24;
    const VERSION_3: u32 = 0x2008_0522;
    // The first number that the kernel does not know ends the list.
    for capability in 0..64 {
        if sys::prctl(PR_CAPBSET_DROP, capability).is_err() {
            break;
        }
    }
    let head = [VERSION_3, 0];
    let none = [0u32; 6];
    // SAFETY: both live over the call.
    unsafe { sys::call(nr::CAPSET, &[head.as_ptr() as usize, none.as_ptr() as usize]) }.map(|_| ())
}

/// Landlock allows reads of files below one directory, and nothing else.
fn fence(readable: i32) -> Result<()> {
    const READ_FILE: u64 = 1 << 2;
    const VERSION: usize = 1;
    const PATH_BENEATH: usize = 1;
    // SAFETY: no pointers.
    let version = unsafe { sys::call(nr::LANDLOCK_CREATE_RULESET, &[0, 0, VERSION]) }?;
    // All rights that each version knows: later versions added refer, truncate, and (with the fifth) ioctl of devices.
    let handled: u64 = match version {
        1 => (1 << 13) - 1,
        2 => (1 << 14) - 1,
        3 | 4 => (1 << 15) - 1,
        _ => (1 << 16) - 1,
    };
    // SAFETY: the number lives over the call.
    let rules = unsafe { sys::call(nr::LANDLOCK_CREATE_RULESET, &[(&raw const handled) as usize, 8, 0]) }? as i32;
    let fenced = (|| {
        if readable >= 0 {
            #[repr(C, packed)]
            struct Beneath {
                allowed: u64,
                parent: i32,
            }
            let beneath = Beneath { allowed: READ_FILE, parent: readable };
            // SAFETY: the rule lives over the call.
            unsafe {
                sys::call(nr::LANDLOCK_ADD_RULE, &[rules as usize, PATH_BENEATH, (&raw const beneath) as usize, 0])
            }?;
        }
        // SAFETY: no pointers.
        unsafe { sys::call(nr::LANDLOCK_RESTRICT_SELF, &[rules as usize, 0]) }.map(|_| ())
    })();
    sys::close(rules);
    fenced
}

fn load(filter: &Filter) -> Result<()> {
    const SET_MODE_FILTER: usize = 1;
    #[repr(C)]
    struct Program {
        length: u16,
        code: *const Instruction,
    }
    let program = Program { length: filter.length as u16, code: filter.code.as_ptr() };
    // SAFETY: program and instructions live over the call.
    unsafe { sys::call(nr::SECCOMP, &[SET_MODE_FILTER, 0, (&raw const program) as usize]) }.map(|_| ())
}
