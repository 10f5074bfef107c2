//! The oldest form of manifests (schema version 1), for reading: a list of layers, newest first, each with the document
//! that described it then. The configuration made of one is docker's, to the byte, so that the image has the same id
//! (but for those of docker before 1.8.3, whose descriptions it wrote anew).
//!
//! The signatures in such a manifest are by a key that it brings along: they say nothing and are not looked at. The
//! digests of its layers are checked as ever.

use crate::error::{Error, Result};
use crate::image::digest::Digest;
use crate::model::from_base64;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;

/// Most layers, as in configurations.
const MAX_LAYERS: usize = 500;

/// A manifest of the oldest form.
#[derive(Debug)]
pub(super) struct Old {
    /// Of what is signed.
    pub(super) digest: Digest,
    /// Oldest first.
    steps: Vec<Step>,
    /// The description of the newest layer: the image's configuration then.
    top: BTreeMap<String, Box<RawValue>>,
}

#[derive(Debug)]
struct Step {
    /// `None`: it changed no files.
    layer: Option<Digest>,
    history: History,
}

/// A step of the history, as docker writes it.
#[derive(Debug, Serialize)]
struct History {
    created: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    author: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    created_by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    comment: String,
    #[serde(skip_serializing_if = "is_false")]
    empty_layer: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    schema_version: u32,
    #[serde(default)]
    fs_layers: Vec<Layer>,
    #[serde(default)]
    history: Vec<Described>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    blob_sum: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    v1_compatibility: String,
}

/// The facts that a layer's description gives.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Description {
    created: Option<String>,
    author: Option<String>,
    comment: Option<String>,
    throwaway: Option<bool>,
    container_config: Option<Command>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Command {
    cmd: Option<Vec<String>>,
}

impl Old {
    /// Reads a manifest, signed or not.
    pub(super) fn read(bytes: &[u8]) -> Result<Old> {
        let payload = payload(bytes)?;
        let document: Document = json(&payload)?;
        if document.schema_version != 1 {
            return Err(bad("its schemaVersion is not 1"));
        }
        let (layers, history) = (document.fs_layers, document.history);
        if layers.is_empty() || layers.len() != history.len() {
            return Err(bad("fsLayers and history are not of the same length"));
        }
        if layers.len() > MAX_LAYERS {
            return Err(bad(&format!("{} layers, at most {MAX_LAYERS} are taken", layers.len())));
        }
        let mut steps = Vec::new();
        for (layer, described) in layers.iter().zip(&history).rev() {
            let said: Description = json(described.v1_compatibility.as_bytes())?;
            let digest = Digest::parse(&layer.blob_sum, "manifest: fsLayers")?;
            let empty = said.throwaway.unwrap_or(false);
            let command = said.container_config.and_then(|config| config.cmd).unwrap_or_default();
            let history = History {
                created: said.created.unwrap_or_else(|| "0001-01-01T00:00:00Z".into()),
                author: said.author.unwrap_or_default(),
                created_by: command.join(" "),
                comment: said.comment.unwrap_or_default(),
                empty_layer: empty,
            };
            steps.push(Step { layer: (!empty).then_some(digest), history });
        }
        let top = json(history[0].v1_compatibility.as_bytes())?;
        Ok(Old { digest: Digest::of(&payload), steps, top })
    }

    /// The blobs of the layers, bottom first.
    pub(super) fn layers(&self) -> impl Iterator<Item = Digest> {
        self.steps.iter().filter_map(|step| step.layer)
    }

    /// The configuration of an image with these layers.
    pub(super) fn config(&self, diff_ids: &[Digest]) -> Result<Vec<u8>> {
        #[derive(Serialize)]
        struct RootFs {
            r#type: &'static str,
            diff_ids: Vec<String>,
        }
        let mut document: BTreeMap<&str, &RawValue> = self.top.iter().map(|(key, value)| (&**key, &**value)).collect();
        for key in ["id", "parent", "Size", "parent_id", "layer_id", "throwaway"] {
            document.remove(key);
        }
        let raw = |value: serde_json::Result<Box<RawValue>>| value.map_err(|e| bad(&e.to_string()));
        let rootfs = RootFs { r#type: "layers", diff_ids: diff_ids.iter().map(Digest::to_string).collect() };
        let rootfs = raw(to_raw_value(&rootfs))?;
        let history: Vec<&History> = self.steps.iter().map(|step| &step.history).collect();
        let history = raw(to_raw_value(&history))?;
        document.insert("rootfs", &rootfs);
        document.insert("history", &history);
        let text = serde_json::to_string(&document).map_err(|e| bad(&e.to_string()))?;
        Ok(escaped(&text).into_bytes())
    }
}

/// The signed bytes: the manifest without its signatures, which say how it ended before they were put in.
fn payload(bytes: &[u8]) -> Result<Vec<u8>> {
    #[derive(Deserialize)]
    struct Signed {
        #[serde(default)]
        signatures: Vec<Signature>,
    }
    #[derive(Deserialize)]
    struct Signature {
        protected: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Protected {
        format_length: usize,
        format_tail: String,
    }
    let signed: Signed = json(bytes)?;
    let Some(signature) = signed.signatures.first() else { return Ok(bytes.to_vec()) };
    let decoded = |text: &str| from_base64(text).ok_or_else(|| bad("a signature that is not base64"));
    let protected: Protected = json(&decoded(&signature.protected)?)?;
    let head = bytes.get(..protected.format_length).ok_or_else(|| bad("a signature of something longer"))?;
    Ok([head, &decoded(&protected.format_tail)?].concat())
}

/// Go's encoder writes these characters so, and the id of an image is the digest of its document.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

fn json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    crate::document::read(bytes).map_err(|e| bad(&e.to_string()))
}

fn bad(why: &str) -> Error {
    Error::invalid(format!("manifest of schema version 1: {why}"))
}

fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn blob(digit: char) -> String {
        format!("sha256:{}", digit.to_string().repeat(64))
    }

    fn manifest() -> serde_json::Value {
        let top = r#"{"id":"c","parent":"b","created":"2020-01-02T03:04:05.6Z","os":"linux","config":{"Env":["B=1","A=2"],"Cmd":null},"container_config":{"Cmd":["sh","-c","a <b"]},"throwaway":true}"#;
        let bottom = r#"{"id":"b","created":"2020-01-01T00:00:00Z","author":"me","container_config":{"Cmd":null}}"#;
        json!({ "schemaVersion": 1, "name": "x", "tag": "y", "architecture": "amd64",
            "fsLayers": [{ "blobSum": blob('2') }, { "blobSum": blob('1') }],
            "history": [{ "v1Compatibility": top }, { "v1Compatibility": bottom }] })
    }

    #[test]
    fn a_manifest_of_schema_1_becomes_docker_s_configuration() {
        let old = Old::read(manifest().to_string().as_bytes()).unwrap();
        let layers: Vec<String> = old.layers().map(|digest| digest.to_string()).collect();
        assert_eq!(layers, [blob('1')], "the newest changed no files");
        let config = old.config(&[Digest::of(b"x")]).unwrap();
        let want = format!(
            concat!(
                r#"{{"config":{{"Env":["B=1","A=2"],"Cmd":null}},"container_config":{{"Cmd":["sh","-c","a \u003cb"]}},"#,
                r#""created":"2020-01-02T03:04:05.6Z","history":[{{"created":"2020-01-01T00:00:00Z","author":"me"}},"#,
                r#"{{"created":"2020-01-02T03:04:05.6Z","created_by":"sh -c a \u003cb","empty_layer":true}}],"#,
                r#""os":"linux","rootfs":{{"type":"layers","diff_ids":["{}"]}}}}"#
            ),
            Digest::of(b"x")
        );
        assert_eq!(String::from_utf8(config).unwrap(), want);
    }

    #[test]
    fn signatures_are_not_part_of_the_digest() {
        let text = serde_json::to_string_pretty(&manifest()).unwrap();
        let whole = Old::read(text.as_bytes()).unwrap().digest;
        let head = text.trim_end().strip_suffix("\n}").unwrap();
        let protected = json!({ "formatLength": head.len(), "formatTail": crate::model::to_base64(b"\n}") });
        let protected = crate::model::to_base64(protected.to_string().as_bytes());
        let signed = format!("{head},\n\"signatures\": [{{\"protected\": \"{protected}\", \"signature\": \"x\"}}]\n}}");
        assert_eq!(Old::read(signed.as_bytes()).unwrap().digest, whole);
    }

    #[test]
    fn the_reader_refuses_malformed_manifests() {
        let mut uneven = manifest();
        uneven["history"] = json!([]);
        let mut tall = manifest();
        tall["signatures"] =
            json!([{ "protected": crate::model::to_base64(br#"{"formatLength":99999,"formatTail":"fQ"}"#) }]);
        for bad in [json!({}), json!({ "schemaVersion": 2 }), json!([]), uneven, tall] {
            assert!(Old::read(bad.to_string().as_bytes()).is_err(), "{bad}");
        }
    }
}
