//! The socket that the last run of the container's program left behind ([`StaleSocket`]).

use crate::fd::Fd;
use crate::ops::{Plan, StaleSocket};
use crate::sys::{self, *};

/// Removes the socket of a plan, if there is one. A socket that stays is the program's failure: the program reports that it
/// cannot listen, and another start tries again.
pub fn remove(plan: Plan) {
    if let Some(StaleSocket { dir, name }) = plan.find()
        && !name.bytes().contains(&b'/')
    {
        let _ = remove_at(dir.cstr(), name.cstr());
    }
}

/// The container may have written in the directory: no link in the place of the socket is followed, and nothing but a socket is
/// removed.
fn remove_at(dir: &[u8], name: &[u8]) -> Result<()> {
    let dir = Fd::new(sys::openat(AT_FDCWD, dir, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0)?);
    let found = Fd::new(sys::openat(dir.raw(), name, O_PATH | O_NOFOLLOW, 0)?);
    match sys::fstat(found.raw())?.mode & S_IFMT {
        S_IFSOCK => sys::unlinkat(dir.raw(), name, 0),
        _ => Ok(()),
    }
}
