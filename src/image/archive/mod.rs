//! Archives of images: reading (docker save in both layouts, OCI layout) and writing (docker save, OCI layout).

mod docker;
mod intake;
mod legacy;
mod load;
mod loading;
mod oci;
mod save;
mod save_oci;

pub(super) use intake::{stage_stream, stage_written};
pub(crate) use load::Loader;
pub(crate) use save::Saver;
pub(crate) use save_oci::OciSaver;

use crate::error::{Error, Result};
use crate::model::json_words;

/// Most bytes of a manifest or index.
const MAX_MANIFEST: usize = 4 << 20;

/// A path inside of an archive, made relative to its root; `base` is the directory that it is relative to.
fn inside(base: &str, path: &str) -> Result<String> {
    let joined = if path.starts_with('/') || base.is_empty() { path.to_owned() } else { format!("{base}/{path}") };
    let clean = crate::image::layer::entry::clean(joined.as_bytes())?;
    String::from_utf8(clean).map_err(|_| Error::invalid(format!("archive: {path:?} is not UTF-8")))
}

/// The directory part of a path.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Reads a JSON document of an archive.
fn json<T: serde::de::DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T> {
    crate::document::read(bytes).map_err(|e| Error::invalid(format!("archive: {name}: {}", json_words(&e))))
}
