//! Events of everything that any program does on this root.

use super::Engine;
use crate::error::Result;
use crate::event::EventStream;
use crate::model::EventQuery;
use std::sync::Arc;

impl Engine {
    /// Follows (and replays) the events of the root.
    ///
    /// Without `since_ns`, `until_ns` and `after` only new ones come. Filters are those of the HTTP API; keys that
    /// mean nothing for events are ignored.
    ///
    /// Errors: [`crate::ErrorKind::Invalid`] when `since_ns` is after `until_ns`.
    pub fn events(&self, query: &EventQuery) -> Result<EventStream> {
        let mut stream = EventStream::open(self.0.journal.clone(), query)?;
        let all = Arc::downgrade(&self.0.containers);
        let look = move || {
            if let Some(all) = all.upgrade() {
                all.bury_lost();
            }
        };
        stream.watch_deaths(self.0.containers.alive_path(), Box::new(look))?;
        Ok(stream)
    }
}
