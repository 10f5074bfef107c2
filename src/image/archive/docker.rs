//! The docker save layout with `manifest.json`.

use super::intake::Intake;
use super::loading::Loading;
use super::{MAX_MANIFEST, inside, json};
use crate::error::{Error, Result};
use crate::image::config::{ImageConfig, MAX_CONFIG};
use crate::image::digest::Digest;
use crate::image::publish::NewImage;
use crate::image::reference::Reference;
use serde::Deserialize;

pub(super) const MANIFEST: &str = "manifest.json";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Item {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    #[serde(default)]
    layers: Option<Vec<String>>,
    #[serde(default)]
    parent: Option<String>,
}

/// The images of `manifest.json`; `None`: the archive has none.
pub(super) fn images(intake: &mut Intake<'_>, loading: &mut Loading) -> Result<Option<Vec<NewImage>>> {
    let Some(manifest) = intake.document(MANIFEST, MAX_MANIFEST)? else { return Ok(None) };
    // `null` is what saving no image gives.
    let items: Option<Vec<Item>> = json(MANIFEST, manifest)?;
    let mut images = Vec::new();
    for item in items.unwrap_or_default() {
        let image = image(intake, loading, &item)?;
        loading.image(intake, &image)?;
        images.push(image);
    }
    Ok(Some(images))
}

fn image(intake: &mut Intake<'_>, loading: &mut Loading, item: &Item) -> Result<NewImage> {
    let path = inside("", &item.config)?;
    let bytes = intake
        .document(&path, MAX_CONFIG)?
        .ok_or_else(|| Error::invalid(format!("archive: {MANIFEST} names {path:?}, which is not there")))?
        .to_vec();
    let id = Digest::of(&bytes);
    if promised(&path).is_some_and(|want| want != id) {
        return Err(Error::invalid(format!("archive: the configuration {path:?} has the digest {id}")));
    }
    let (config, diff_ids) = ImageConfig::read(&bytes, intake.room().values)?;
    let layers = item.layers.as_deref().unwrap_or_default();
    if layers.len() != diff_ids.len() {
        return Err(Error::invalid(format!(
            "invalid manifest, layers length mismatch: expected {}, got {}",
            layers.len(),
            diff_ids.len()
        )));
    }
    for (i, (path, expected)) in layers.iter().zip(&diff_ids).enumerate() {
        let path = inside("", path)?;
        let found = intake.layer_at(&path)?;
        if let (Some(found), Some(want)) = (&found, blob(&path))
            && found.raw != want
        {
            return Err(Error::invalid(format!("archive: {path:?} has the digest {}", found.raw)));
        }
        loading.layer(intake, i, &path, found, expected)?;
    }
    let names = item.repo_tags.iter().flatten().map(|tag| {
        let reference = Reference::parse(tag).map_err(|e| e.context(format_args!("invalid tag {tag:?}")))?;
        match reference.tag() {
            Some(_) if reference.digest().is_none() => Ok(reference),
            _ => Err(Error::invalid(format!("invalid tag {tag:?}"))),
        }
    });
    let parent = item.parent.as_deref().filter(|p| !p.is_empty());
    Ok(NewImage {
        id,
        created: config.created_ns(),
        config: bytes,
        layers: diff_ids,
        parent: parent.map(|p| Digest::parse(p, "manifest.json: Parent")).transpose()?,
        names: names.collect::<Result<_>>()?,
        made_here: false,
        plugin: None,
    })
}

/// The digest that a configuration's name promises: `<hex>.json`, `sha256:<hex>` or `blobs/sha256/<hex>`.
fn promised(path: &str) -> Option<Digest> {
    let name = path.strip_suffix(".json").or(path.strip_prefix("sha256:"));
    name.and_then(Digest::from_hex).or_else(|| blob(path))
}

fn blob(path: &str) -> Option<Digest> {
    path.strip_prefix("blobs/sha256/").and_then(Digest::from_hex)
}
