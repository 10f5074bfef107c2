//! The worker gives up its rights for good, before it reads a byte that a container made.
//!
//! The worker has no capabilities, and no program can give it any; a filter allows only the calls that it makes
//! (`src/filter.rs`); it can open only the files of the run directory, for reading. No process of a container descends
//! from it, so none inherits these limits.

use crate::fault::Fault;
use crate::filter::{Filter, Rule};
use crate::privileges::{drop_bounding, load_filter, set_capabilities};
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
    let filter = Filter::of(rules);
    // SAFETY: the filter has so many instructions.
    unsafe { load_filter(filter.code.as_ptr().cast(), filter.length) }
}

fn drop_capabilities() -> Result<()> {
    // The kernel may refuse this. The sets of this process are emptied next.
    let _ = drop_bounding(0);
    set_capabilities(0, 0, 0).map_err(Fault::errno)
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
