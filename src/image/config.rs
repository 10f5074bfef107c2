//! The configuration document of an image: what we read of it. The stored bytes stay as they came.

use super::digest::Digest;
use crate::error::{Error, Result};
use crate::model::{ContainerConfig, ImagePlatform, json_words};
use crate::time::parse_rfc3339;
use crate::walls::Wall;
use serde::{Deserialize, Serialize};

/// Largest configuration taken.
pub(crate) const MAX_CONFIG: usize = 8 << 20;
/// Most layers of an image: overlayfs stacks no more.
const MAX_LAYERS: usize = 500;

/// An image's configuration. Unknown fields are ignored, whatever they ask for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ImageConfig {
    pub(crate) architecture: Option<String>,
    pub(crate) variant: Option<String>,
    pub(crate) os: Option<String>,
    pub(crate) created: Option<String>,
    pub(crate) author: Option<String>,
    pub(crate) comment: Option<String>,
    pub(crate) container: Option<String>,
    pub(crate) container_config: Option<ContainerConfig>,
    pub(crate) docker_version: Option<String>,
    pub(crate) config: Option<ContainerConfig>,
    pub(crate) rootfs: Option<RootFs>,
    pub(crate) history: Option<Vec<Option<History>>>,
}

/// `rootfs` of the configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct RootFs {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) diff_ids: Option<Vec<String>>,
}

/// One step of `history`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct History {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) author: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) comment: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) empty_layer: Option<bool>,
}

impl ImageConfig {
    /// Reads a configuration that came from outside: well-formed, for Linux, with layers that can be named, of at most
    /// `most` values.
    pub(crate) fn read(bytes: &[u8], most: usize) -> Result<(ImageConfig, Vec<Digest>)> {
        if bytes.len() > MAX_CONFIG {
            return Err(Error::invalid(format!("an image configuration of more than {MAX_CONFIG} bytes")));
        }
        check_values(bytes, most).map_err(|e| e.context("image configuration"))?;
        let config = ImageConfig::parse(bytes)?;
        let Some(rootfs) = &config.rootfs else {
            return Err(Error::invalid("invalid image JSON, no RootFS key"));
        };
        if rootfs.kind != "layers" {
            return Err(Error::invalid(format!(
                "image configuration: rootfs.type {:?} is not \"layers\"",
                rootfs.kind
            )));
        }
        match config.os.as_deref() {
            None | Some("" | "linux") => {}
            Some(other) => return Err(Error::invalid(format!("cannot load {other} image on linux"))),
        }
        let ids = rootfs.diff_ids.as_deref().unwrap_or_default();
        if ids.len() > MAX_LAYERS {
            return Err(Error::invalid(format!("an image of {} layers, at most {MAX_LAYERS} are taken", ids.len())));
        }
        let ids = ids.iter().map(|id| Digest::parse(id, "image configuration: rootfs.diff_ids"));
        let ids = ids.collect::<Result<Vec<_>>>()?;
        Ok((config, ids))
    }

    /// Reads a configuration that we stored.
    pub(crate) fn parse(bytes: &[u8]) -> Result<ImageConfig> {
        crate::document::read(bytes).map_err(|e| Error::invalid(format!("image configuration: {}", json_words(&e))))
    }

    /// When the image was made, in Unix nanoseconds; 0 where it does not say.
    pub(crate) fn created_ns(&self) -> i64 {
        self.created.as_deref().and_then(|text| parse_rfc3339(text.as_bytes())).unwrap_or(0)
    }

    /// The history's steps, oldest first, without the gaps that some tools leave.
    pub(crate) fn steps(&self) -> impl DoubleEndedIterator<Item = &History> {
        self.history.iter().flatten().flatten()
    }
}

/// Refuses a JSON document of more than `most` values: each takes, when it is read, much more than its text.
pub(crate) fn check_values(document: &[u8], most: usize) -> Result<()> {
    let (mut values, mut in_string, mut escaped) = (1usize, false, false);
    for byte in document {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' if !in_string => values += 1,
            _ => {}
        }
    }
    match values > most && Wall::DocumentValues.stands() {
        true => Err(Error::invalid(format!("a document of {values} values, at most {most} are taken"))),
        false => Ok(()),
    }
}

/// The configuration that a container is made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ImageConfigView {
    pub(crate) config: ContainerConfig,
    pub(crate) architecture: String,
    pub(crate) variant: String,
    pub(crate) os: String,
    /// As the configuration writes it; may be empty.
    pub(crate) created: String,
}

impl From<ImageConfig> for ImageConfigView {
    fn from(config: ImageConfig) -> ImageConfigView {
        ImageConfigView {
            config: config.config.unwrap_or_default(),
            architecture: config.architecture.unwrap_or_default(),
            variant: config.variant.unwrap_or_default(),
            os: config.os.filter(|os| !os.is_empty()).unwrap_or_else(|| "linux".into()),
            created: config.created.unwrap_or_default(),
        }
    }
}

impl ImageConfigView {
    /// The platform of the image.
    pub(crate) fn platform(&self) -> ImagePlatform {
        ImagePlatform::of_words(&self.os, &self.architecture, &self.variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        let count = |text: &str| (1..100).find(|most| check_values(text.as_bytes(), *most).is_ok()).unwrap();
        for (text, want) in
            [("null", 1), ("[1,2,3]", 3), (r#"{"a,b":"c,d","e":["\",",\\",","]}"#, 4), (r#"["\\",1]"#, 2), (",,,", 4)]
        {
            assert_eq!(count(text), want, "{text}");
        }
    }
}
