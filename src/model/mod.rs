//! The words: documents of API 1.24 as Rust types.
//!
//! Field names are the specification's in upper camel case on the wire. Requests keep what the client left out apart
//! from what it set (`Option`, empty collections); answers serialise every field that a 1.24 client may look for.
//! Older and newer shapes are made in the HTTP layer alone.

mod container;
mod event;
mod exec;
mod image;
mod stats;
mod system;

pub use container::*;
pub use event::*;
pub use exec::*;
pub use image::*;
pub use stats::*;
pub use system::*;

use std::collections::BTreeMap;

/// A map of strings, ordered so that answers are stable.
pub type StringMap = BTreeMap<String, String>;

/// `filters` of list operations: filter name to its values.
pub type Filters = BTreeMap<String, Vec<String>>;
