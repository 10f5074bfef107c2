//! Calls that may last: on the caller's thread, or, with an operation that does not block, on a thread of the library.

use crate::answer::Outs;
use crate::entry::{Area, enter};
use crate::failure::Outcome;
use crate::op;
use crate::root::{Access, Root, with_root};
use crate::types::*;
use crate::using::Using;
use crate::work::Work;

/// Runs an entry point of an engine handle that takes an operation. `prepare` reads the arguments and has no effect.
#[track_caller]
pub(crate) fn call(
    c: *const coracle,
    access: Access,
    op: *const coracle_op,
    outs: Outs,
    err: *mut *mut coracle_error,
    prepare: &mut dyn FnMut(&Root) -> Outcome<Work>,
) -> coracle_status {
    let area = Area::of_caller();
    with_root(c, access, err, |root| perform(area, op, &outs, Some(root), &mut |_| prepare(root)))
}

/// Runs an entry point that takes an operation, and no engine handle.
#[track_caller]
pub(crate) fn call_without_root(
    op: *const coracle_op,
    outs: Outs,
    err: *mut *mut coracle_error,
    prepare: &mut dyn FnMut(&Using) -> Outcome<Work>,
) -> coracle_status {
    let area = Area::of_caller();
    enter(err, || perform(area, op, &outs, None, prepare))
}

fn perform(
    area: Area,
    op: *const coracle_op,
    outs: &Outs,
    root: Option<&Root>,
    prepare: &mut dyn FnMut(&Using) -> Outcome<Work>,
) -> Outcome<coracle_status> {
    let using = op::using(op)?;
    if using.is_nonblocking() {
        let work = prepare(&using)?;
        using.check_unwatched()?;
        op::begin(op, area, root.cloned(), work)?;
        return Ok(CORACLE_AGAIN);
    }
    outs.check()?;
    let work = prepare(&using)?;
    using.done(using.check())?;
    Ok(outs.give(work.run(&using)?))
}
