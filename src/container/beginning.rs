//! The place in the journal of events at which a session of a container begins.

use super::Snapshot;
use crate::model::Event;

/// Where a session of a container begins.
#[derive(Clone, Copy)]
pub(crate) struct Beginning {
    /// The end of the journal then.
    pub position: u64,
    /// When the last run before had begun; 0: there was none.
    pub started_ns: i64,
    /// When the session's streams began to wait for a start (nanoseconds since 1970); absent: the container ran.
    pub waits_from: Option<i64>,
}

impl Beginning {
    /// Whether an event is the end of the run before: a monitor appends it right after it has recorded the end, and so perhaps behind
    /// the position.
    pub(super) fn is_of_before(&self, die: &Event, before: &Snapshot) -> bool {
        let end = before.now.state.finished_ns;
        self.waits_from.is_some_and(|from| (end..=from).contains(&die.time_nano) && end > 0)
    }
}
