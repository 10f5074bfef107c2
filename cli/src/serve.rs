//! `serve`: the HTTP API on a socket.

use crate::Entry;

pub const ENTRIES: &[Entry] = &[];
