//! The place in the journal of events at which a session of a container begins.

use super::Snapshot;
use crate::error::Result;
use crate::event::Journal;
use crate::model::Event;
use crate::store::states::Now;

/// Where a session of a container begins.
#[derive(Clone, Copy)]
pub(crate) struct Beginning {
    /// The end of the journal then.
    pub position: u64,
    /// When the last run before had begun; 0: there was none.
    pub started_ns: i64,
    /// From when on the session is for the next run (nanoseconds since 1970); absent: the container ran.
    pub waits_from: Option<i64>,
    /// The run of the session, if the engine has seen the run begin.
    pub run: Option<Run>,
}

/// A run of a container.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// When the run began (`started_ns` of its record).
    pub started_ns: i64,
    /// The exit code, if the run is over.
    pub code: Option<i32>,
}

impl Run {
    /// The last run that a record tells of. `None`: the container did not run.
    pub(crate) fn of(now: &Now) -> Option<Run> {
        let state = now.state;
        (state.started_ns != 0)
            .then_some(Run { started_ns: state.started_ns, code: now.run_is_over().then_some(state.exit_code) })
    }
}

impl Beginning {
    /// Of a session for the next run of a container. The caller holds the container's lock: the next run has not begun.
    pub(super) fn of_next(journal: &Journal, found: &Snapshot) -> Result<Beginning> {
        let (position, started_ns) = (journal.end()?, found.now.state.started_ns);
        Ok(Beginning { position, started_ns, waits_from: Some(super::now_ns()), run: None })
    }

    /// Whether an event is the end of the run before: a monitor appends it right after it has recorded the end, and so perhaps behind
    /// the position.
    pub(super) fn is_of_before(&self, die: &Event, before: &Snapshot) -> bool {
        let end = before.now.state.finished_ns;
        self.waits_from.is_some_and(|from| (end..=from).contains(&die.time_nano) && end > 0)
    }
}
