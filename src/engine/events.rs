//! Events of everything that any program does on this root.

use super::Engine;
use crate::error::Result;
use crate::event::EventStream;
use crate::model::EventQuery;

impl Engine {
    /// Follows (and replays) the events of the root.
    ///
    /// Without `since_ns`, `until_ns` and `after` only new ones come. Filters are those of the HTTP API; keys that
    /// mean nothing for events are ignored.
    ///
    /// Errors: [`crate::ErrorKind::Invalid`] when `since_ns` is after `until_ns`.
    pub fn events(&self, query: &EventQuery) -> Result<EventStream> {
        EventStream::open(self.0.journal.clone(), query)
    }
}
