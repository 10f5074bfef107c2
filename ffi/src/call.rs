//! Calls that may last: on the caller's thread, or, with an operation that does not block, on a thread of the library.

use crate::answer::{Answer, Outs};
use crate::begun::Wait;
use crate::entry::{Area, Outcome, enter};
use crate::op::Using;
use crate::root::{Access, Root, with_root};
use crate::types::*;
use engine::Op;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// The work of a thread.
pub(crate) type Run = Box<dyn FnOnce(&Using) -> Outcome<Answer> + Send>;

/// The part of a call that may last. It owns whatever it needs, as it may outlive the call. Boxed: one form for all calls
/// keeps the library small.
pub(crate) enum Work {
    /// Work for a thread; whether it lasts as long as somebody else likes.
    Run(Run, bool),
    /// A wait, which needs none.
    Wait(Box<dyn Wait>),
}

impl Work {
    /// Work that lasts as long as somebody else likes.
    pub(crate) fn long(self) -> Work {
        match self {
            Work::Run(run, _) => Work::Run(run, true),
            wait => wait,
        }
    }

    pub(crate) fn is_long(&self) -> bool {
        matches!(self, Work::Run(_, true))
    }

    /// Does it on this thread.
    pub(crate) fn run(self, using: &Using) -> Outcome<Answer> {
        match self {
            Work::Run(run, _) => run(using),
            Work::Wait(wait) => wait_here(wait, using),
        }
    }
}

/// The work of a call.
pub(crate) fn work(run: impl FnOnce(&Using) -> Outcome<Answer> + Send + 'static) -> Outcome<Work> {
    Ok(Work::Run(Box::new(run), false))
}

/// The work of a call that waits and does nothing else.
pub(crate) fn wait(wait: impl Wait + 'static) -> Outcome<Work> {
    Ok(Work::Wait(Box::new(wait)))
}

fn wait_here(mut wait: Box<dyn Wait>, using: &Using) -> Outcome<Answer> {
    loop {
        let limit = wait.deadline().map(|due| due.saturating_duration_since(Instant::now()));
        // SAFETY: the wait has the descriptor open until its next step.
        let fd = unsafe { BorrowedFd::borrow_raw(wait.fd()) };
        using.done(Op::wait_readable(using.op(), fd, limit))?;
        match wait.step()? {
            Some(Answer { then: Some(run), .. }) => return run(using),
            Some(answer) => return Ok(answer),
            None => {}
        }
    }
}

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
    let using = Using::new(op)?;
    if using.is_nonblocking() {
        using.begin(area, root.cloned(), prepare(&using)?)?;
        return Ok(CORACLE_AGAIN);
    }
    outs.check()?;
    let work = prepare(&using)?;
    using.done(using.check())?;
    Ok(outs.give(work.run(&using)?))
}
