//! The words: documents of API 1.24 as Rust types.
//!
//! Field names are the specification's in upper camel case on the wire. Requests keep what the client left out apart
//! from what it set (`Option`, empty collections); answers serialise every field that a 1.24 client may look for.
//! Older and newer shapes are made in the HTTP layer alone.

mod archive;
mod base64;
mod build;
mod container;
mod detach;
mod docker_config;
mod event;
mod exec;
mod image;
mod network;
mod registry;
mod stats;
mod system;
mod volume;

pub use archive::*;
#[cfg(feature = "registry")]
pub(crate) use base64::from_base64;
pub use base64::to_base64;
pub use build::*;
pub use container::*;
pub use detach::DetachKeys;
pub use docker_config::{CredentialHelper, DockerConfig};
pub use event::*;
pub use exec::*;
pub use image::*;
pub use network::*;
pub use registry::*;
pub use stats::*;
pub use system::*;
pub use volume::*;

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// A map of strings, ordered so that answers are stable.
pub type StringMap = BTreeMap<String, String>;

/// `filters` of list operations: filter name to its values.
pub type Filters = BTreeMap<String, Vec<String>>;

/// A truth value as Go's `strconv.ParseBool` reads it; `None` for any other text.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// `null` is the default, as an absent field is.
fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
