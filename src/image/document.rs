//! The configuration document of an image that is made here: by a commit, by a step of a build.

use super::config::{History, ImageConfig, RootFs};
use super::digest::Digest;
use super::host_architecture;
use crate::error::{Error, Result};
use crate::model::ContainerConfig;
use crate::time::rfc3339_nano;
use serde::{Serialize, Serializer};

/// The facts that an image's document holds.
pub(super) struct Document<'a> {
    /// Absent: this machine's.
    pub(super) architecture: Option<String>,
    pub(super) author: &'a str,
    pub(super) comment: &'a str,
    /// The configuration of containers of the image.
    pub(super) config: &'a ContainerConfig,
    /// The container that it was made of; may be empty.
    pub(super) container: &'a str,
    pub(super) container_config: &'a ContainerConfig,
    /// Unix nanoseconds.
    pub(super) created: i64,
    pub(super) history: Vec<History>,
    pub(super) layers: &'a [Digest],
}

/// The document as it is written.
#[derive(Serialize)]
struct Written<'a> {
    architecture: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    author: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    comment: &'a str,
    #[serde(serialize_with = "as_image")]
    config: &'a ContainerConfig,
    #[serde(skip_serializing_if = "str::is_empty")]
    container: &'a str,
    #[serde(serialize_with = "as_image")]
    container_config: &'a ContainerConfig,
    created: String,
    docker_version: &'a str,
    history: Vec<History>,
    os: &'a str,
    rootfs: RootFs,
}

impl Document<'_> {
    /// The bytes that are stored, and the image's id, which is their digest.
    pub(super) fn write(self) -> Result<(Digest, Vec<u8>)> {
        let layers: Vec<String> = self.layers.iter().map(Digest::to_string).collect();
        let written = Written {
            architecture: self.architecture.filter(|a| !a.is_empty()).unwrap_or_else(|| host_architecture().into()),
            author: self.author,
            comment: self.comment,
            config: self.config,
            container: self.container,
            container_config: self.container_config,
            created: rfc3339_nano(self.created),
            docker_version: env!("CARGO_PKG_VERSION"),
            history: self.history,
            os: "linux",
            rootfs: RootFs { kind: "layers".into(), diff_ids: Some(layers).filter(|ids| !ids.is_empty()) },
        };
        let bytes = serde_json::to_vec(&written).map_err(|e| Error::internal(format!("image configuration: {e}")))?;
        Ok((Digest::of(&bytes), bytes))
    }
}

/// One more step.
pub(super) struct Next<'a> {
    pub(super) author: &'a str,
    pub(super) comment: &'a str,
    pub(super) container_config: &'a ContainerConfig,
    /// Unix nanoseconds.
    pub(super) created: i64,
    pub(super) has_layer: bool,
}

/// The history of an image that is one step on `below`.
pub(super) fn history(below: &ImageConfig, next: &Next<'_>) -> Vec<History> {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let step = History {
        created: Some(rfc3339_nano(next.created)),
        author: some(next.author),
        created_by: some(&created_by(next.container_config)),
        comment: some(next.comment),
        empty_layer: (!next.has_layer).then_some(true),
    };
    below.steps().cloned().chain([step]).collect()
}

/// A step as the history describes it.
pub(super) fn created_by(config: &ContainerConfig) -> String {
    config.cmd.as_deref().unwrap_or_default().join(" ")
}

fn as_image<S: Serializer>(config: &ContainerConfig, to: S) -> std::result::Result<S::Ok, S::Error> {
    crate::model::of_image(&Some(config.clone()), to)
}
