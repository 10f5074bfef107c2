//! The part of a call that may last.

use crate::answer::{Answer, Run, Wait};
use crate::failure::Outcome;
use crate::using::Using;
use engine::Op;
use std::os::fd::BorrowedFd;
use std::time::Instant;

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
