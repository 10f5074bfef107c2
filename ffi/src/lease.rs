//! Leases: containers that end with the last holder of a lease.

use crate::arg::{self, Out};
use crate::root::{Access, with_root};
use crate::types::*;
use libc::c_char;
use std::os::fd::{IntoRawFd, OwnedFd};

/// Holds a lease: a descriptor that ends containers when the last process that has it open closes it or ends, also by
/// SIGKILL.
///
/// name: at most 128 letters, digits, '_', '.' and '-'. *out_fd: the caller's to close (close-on-exec); -1 on failure. Any
/// number of programs may hold one lease; a child that inherits the descriptor holds it too. A container that is created
/// with the label "coracle.lease" and the name as its value is created and started only while somebody holds the lease.
/// When the last holder is gone, the container's monitor ends it with SIGKILL, and the next look at it removes it. The
/// containers of a root opened with CORACLE_OPEN_EPHEMERAL have a lease of that handle in the same way.
///
/// Errors: EINVALID (name).
///
/// Threads: any. Blocks: no. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_lease_hold(
    c: *mut coracle,
    name: *const c_char,
    out_fd: *mut i32,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::new(out_fd, -1);
    with_root(c, Access::Change, err, |root| {
        out.check("out_fd")?;
        let lease = root.engine().lease(arg::text(name, "name")?)?;
        out.set(OwnedFd::from(lease).into_raw_fd());
        Ok(CORACLE_OK)
    })
}
