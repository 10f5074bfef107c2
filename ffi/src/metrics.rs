//! Numbers about an engine.

use crate::arg::Out;
use crate::root::{Access, with_root};
use crate::types::*;
use libc::c_char;

/// Counts what the root holds, and what this handle's engine did since it was opened.
///
/// *out_json: an object with "Version", "Containers" (state to count), "Restarts", "LogLost" (lines), "Images", "LayerBytes",
/// "Operations" (a list of {"Operation", "Done", "Failed", "Seconds"}) and "EventListeners"; free it with coracle_free. GET
/// /metrics has the same in the form that Prometheus reads.
///
/// Schemas: out_json metrics.
///
/// Errors: none but those of every function.
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_engine_metrics(
    c: *mut coracle,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        out.give_json(&root.engine().metrics()?)?;
        Ok(CORACLE_OK)
    })
}
