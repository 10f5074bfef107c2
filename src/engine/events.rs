//! Events of all programs on this root.

use super::Engine;
use crate::error::Result;
use crate::event::{EventStream, Look};
use crate::model::EventQuery;

impl Engine {
    /// Follows (and replays) the events of the root.
    ///
    /// Without `since_ns`, `until_ns` and `after` the stream has only new events. Filters are those of the HTTP API;
    /// keys without a meaning for events are ignored.
    ///
    /// The stream keeps the root open, like another handle of the engine: it continues after this handle is dropped.
    ///
    /// Errors: [`crate::ErrorKind::Invalid`] when `since_ns` is after `until_ns`.
    pub fn events(&self, query: &EventQuery) -> Result<EventStream> {
        let look = || -> Look {
            // The engine holds no reference to its streams, so a stream does not keep itself alive by this one.
            let engine = self.clone();
            Box::new(move || engine.0.containers.recovery.reap_crashed())
        };
        EventStream::follow(self.0.journal.clone(), query, self.0.containers.register.alive_path(), &look)
    }
}
