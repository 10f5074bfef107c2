//! The oldest layout: one directory per layer with `json` and `layer.tar`, and `repositories`.
//!
//! An archive in this layout has no image configurations: each layer's `json` describes the image that ends with it,
//! and names its parent. As docker does, an image is made of each.

use super::intake::{FoundLayer, Intake};
use super::loading::Loading;
use super::{MAX_MANIFEST, json};
use crate::error::{Error, Result};
use crate::hex::is_hex_id;
use crate::image::config::{History, ImageConfig, MAX_CONFIG, RootFs};
use crate::image::digest::Digest;
use crate::image::publish::NewImage;
use crate::image::reference::Reference;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const REPOSITORIES: &str = "repositories";
/// Longest chain of parents.
const MAX_CHAIN: usize = 500;

/// The images of an archive without manifest; `None`: the archive has none.
pub(super) fn images(intake: &mut Intake<'_>, loading: &mut Loading) -> Result<Option<Vec<NewImage>>> {
    let ids: Vec<String> = intake.paths().filter_map(|path| path.strip_suffix("/json")).map(str::to_owned).collect();
    let repositories: Option<BTreeMap<String, BTreeMap<String, String>>> =
        intake.document(REPOSITORIES, MAX_MANIFEST)?.map(|bytes| json(REPOSITORIES, bytes)).transpose()?;
    if ids.is_empty() && repositories.is_none() {
        return Ok(None);
    }
    let mut made = BTreeMap::new();
    let mut order = Vec::new();
    for id in ids {
        make(intake, loading, &id, &mut made, &mut order)?;
    }
    for (repository, tags) in repositories.unwrap_or_default() {
        for (tag, id) in tags {
            let wrong = |why: &str| Error::invalid(format!("archive: {REPOSITORIES}: {repository}:{tag}: {why}"));
            let reference =
                Reference::parse(&repository).and_then(|r| r.with_tag(&tag)).map_err(|e| wrong(e.message()))?;
            let target = made.get_mut(&id).ok_or_else(|| wrong(&format!("no layer {id:?}")))?;
            target.names.push(reference);
        }
    }
    Ok(Some(order.iter().filter_map(|id| made.remove(id)).collect()))
}

/// Makes the image of `id` and, first, those of its parents.
fn make(
    intake: &mut Intake<'_>,
    loading: &mut Loading,
    id: &str,
    made: &mut BTreeMap<String, NewImage>,
    order: &mut Vec<String>,
) -> Result<()> {
    // The documents are read twice, so that one at a time is more than its text.
    let mut chain: Vec<(String, Option<String>)> = Vec::new();
    let mut next = Some(id.to_owned());
    while let Some(id) = next.take().filter(|id| !made.contains_key(id)) {
        if !is_hex_id(&id) {
            return Err(Error::invalid(format!("image ID {id:?} is invalid")));
        }
        if chain.len() >= MAX_CHAIN || chain.iter().any(|(have, _)| *have == id) {
            return Err(Error::invalid(format!("archive: the parents of {id} have no end")));
        }
        next = parent(&id, &document(intake, &id)?)?;
        chain.push((id, next.clone()));
    }
    for (id, below) in chain.into_iter().rev() {
        let path = format!("{id}/layer.tar");
        let layer = intake.layer_at(&path)?;
        let layer = layer.ok_or_else(|| Error::invalid(format!("archive: {path:?} is missing")))?;
        let next = one(document(intake, &id)?, layer.clone(), below.and_then(|id| made.get(&id)))?;
        loading.image(intake, &next)?;
        let diff_id = layer.diff_id;
        loading.layer(intake, next.layers.len() - 1, &path, Some(layer), &diff_id)?;
        made.insert(id.clone(), next);
        order.push(id);
    }
    Ok(())
}

/// The document of an image, from its directory.
fn document(intake: &Intake<'_>, id: &str) -> Result<Map<String, Value>> {
    let path = format!("{id}/json");
    let bytes = intake.document(&path, MAX_CONFIG)?;
    json(&path, bytes.ok_or_else(|| Error::invalid(format!("archive: {path:?} is missing")))?)
}

/// The id of the image that one stands on.
fn parent(id: &str, document: &Map<String, Value>) -> Result<Option<String>> {
    match document.get("parent") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(parent)) if parent.is_empty() => Ok(None),
        Some(Value::String(parent)) => Ok(Some(parent.strip_prefix("sha256:").unwrap_or(parent).to_owned())),
        Some(_) => Err(Error::invalid(format!("archive: \"{id}/json\": parent is not a string"))),
    }
}

fn one(mut document: Map<String, Value>, layer: FoundLayer, below: Option<&NewImage>) -> Result<NewImage> {
    let text = |document: &Map<String, Value>, key: &str| {
        document.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let command = document.get("container_config").and_then(|c| c.get("Cmd")).and_then(Value::as_array);
    let command = command.map(|words| words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    let before = below.map(|below| ImageConfig::parse(&below.config)).transpose()?.unwrap_or_default();
    let mut history: Vec<History> = before.steps().cloned().collect();
    history.push(History {
        created: text(&document, "created"),
        author: text(&document, "author"),
        created_by: command.filter(|c| !c.is_empty()),
        comment: text(&document, "comment"),
        empty_layer: None,
    });
    let mut layers = below.map(|b| b.layers.clone()).unwrap_or_default();
    layers.push(layer.diff_id);
    if layers.len() > MAX_CHAIN {
        return Err(Error::invalid(format!("an image of {} layers, at most {MAX_CHAIN} are taken", layers.len())));
    }
    // These members describe the directory, not the image.
    for key in ["id", "parent", "Size", "parent_id", "layer_id", "throwaway"] {
        document.remove(key);
    }
    let rootfs = RootFs { kind: "layers".into(), diff_ids: Some(layers.iter().map(Digest::to_string).collect()) };
    let value = |v: serde_json::Result<Value>| v.map_err(|e| Error::internal(format!("image configuration: {e}")));
    document.insert("rootfs".into(), value(serde_json::to_value(&rootfs))?);
    document.insert("history".into(), value(serde_json::to_value(&history))?);
    let bytes = serde_json::to_vec(&document).map_err(|e| Error::internal(format!("image configuration: {e}")))?;
    let (config, layers) = ImageConfig::read(&bytes, usize::MAX)?;
    Ok(NewImage {
        id: Digest::of(&bytes),
        created: config.created_ns(),
        config: bytes,
        layers,
        parent: below.map(|b| b.id),
        names: Vec::new(),
        made_here: false,
        plugin: None,
    })
}
