//! Failures of steps that are named here, made from the error numbers of calls. A step of a plan has a `fault` until the
//! walk of the plan adds its number.

use crate::sys::Result;
use crate::wire::{Failure, STEP_MONITOR};

/// A step, which gives nothing.
pub type Step = Outcome<()>;
/// A step that gives something.
pub type Outcome<T> = core::result::Result<T, Failure>;

/// A failure of the step that is being done.
pub fn errno(errno: i32) -> Failure {
    Failure { errno, ..Failure::default() }
}

/// A failure of a step that is named here.
pub fn of_step(step: u32, errno: i32) -> Failure {
    Failure { step, errno, ..Failure::default() }
}

/// A failure of the monitor's own work.
pub fn of_monitor(errno: i32) -> Failure {
    of_step(STEP_MONITOR, errno)
}

/// A call that is a step.
pub fn os<T>(result: Result<T>) -> Outcome<T> {
    result.map_err(errno)
}
