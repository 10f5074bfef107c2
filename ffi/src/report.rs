//! The report of a host.

use crate::arg::Out;
use crate::entry::enter;
use crate::root;
use crate::types::*;
use libc::c_char;

/// Looks at everything that an engine needs of the host: kernel, capabilities, control groups, the directories, firewalls of
/// other programs, certificates. coracle_open stops at the first need that is missing.
///
/// root, opt: as of coracle_open; no root is made or opened. *out_json: an object with "Version", "Kernel", "Ready" (nothing is
/// missing) and "Needs", a list of {"Area", "Name", "State" ("met", "reduced" or "missing"), "Found", "Loss", "Cure"}; free it
/// with coracle_free.
///
/// Schemas: opt.config_json open-config, out_json host-report.
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
