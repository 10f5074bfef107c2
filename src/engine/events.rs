//! Events of everything that any program does on this root.

use super::Engine;
use crate::error::{Error, Result};
use crate::event::EventStream;
use crate::model::EventQuery;

impl Engine {
    /// Follows (and replays) the events of the root.
    pub fn events(&self, query: &EventQuery) -> Result<EventStream> {
        let _ = query;
        Err(Error::unsupported("not built"))
    }
}
