//! The report of a host, and the launch of a container in words.

use crate::arg::{self, Out};
use crate::entry::enter;
use crate::root::{self, Access, with_root};
use crate::types::*;
use libc::c_char;

/// Looks at everything that an engine needs of the host: kernel, capabilities, control groups, the directories, firewalls of
/// other programs, certificates. coracle_open stops at the first need that is missing.
///
/// root, opt: as of coracle_open; no root is made or opened. *out_json: an object with "Version", "Kernel", "Ready" (nothing is
/// missing) and "Needs", a list of {"Area", "Name", "State" ("met", "reduced" or "missing"), "Found", "Loss", "Cure"}; free it
/// with coracle_free.
///
/// Errors: EINVALID (an option).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_host_report(
    root: *const c_char,
    opt: *const coracle_open_options,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    enter(err, || {
        out.check("out_json")?;
        out.give_json(&engine::host_report(&root::options(root, opt)?))?;
        Ok(CORACLE_OK)
    })
}

/// A container's launch in words, one line a step, with the kernel's answer to the step at which the last start failed.
///
/// *out_json: an object with "Id", "Name", "Steps" (a list of {"Number", "Text"}, and "Failed" where it failed), "Error" (why the
/// last start failed, or ""), "FailedStep", "Errno" (0: none) and "ErrnoName"; free it with coracle_free.
///
/// Errors: ENOT_FOUND, ECONFLICT (a container whose namespaces it shares does not run).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_container_explain(
    c: *mut coracle,
    id: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        out.give_json(&root.engine().container_explain(arg::text(id, "id")?)?)?;
        Ok(CORACLE_OK)
    })
}
