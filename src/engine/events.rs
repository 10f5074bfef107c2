//! Events of everything that any program does on this root.

use super::Engine;
use crate::error::Result;
use crate::event::{EventStream, Look};
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
        let look = || -> Look {
            let all = Arc::downgrade(&self.0.containers);
            Box::new(move || {
                if let Some(all) = all.upgrade() {
                    all.bury_lost();
                }
            })
        };
        EventStream::follow(self.0.journal.clone(), query, self.0.containers.alive_path(), &look)
    }
}
