//! The OCI image layout: `oci-layout`, `index.json`, `blobs/`.

use super::intake::Intake;
use super::loading::Loading;
use super::{MAX_MANIFEST, json};
use crate::error::{Error, Result};
use crate::image::config::{ImageConfig, MAX_CONFIG};
use crate::image::digest::Digest;
use crate::image::publish::NewImage;
use crate::image::reference::Reference;
use crate::model::StringMap;
use serde::Deserialize;

const INDEX: &str = "index.json";
/// Indexes in indexes.
const MAX_DEPTH: u32 = 4;
/// Most entries of all indexes: one can be listed again and again.
const MAX_LISTED: usize = 10_000;
const NAME: &str = "io.containerd.image.name";
const REF_NAME: &str = "org.opencontainers.image.ref.name";

#[derive(Debug, Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    #[serde(default)]
    platform: Option<Platform>,
    #[serde(default)]
    annotations: Option<StringMap>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

#[derive(Debug, Deserialize)]
struct Manifest {
    config: Descriptor,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
}

/// The images of `index.json`; `None`: the archive has none.
pub(super) fn images(intake: &mut Intake<'_>, loading: &mut Loading) -> Result<Option<Vec<NewImage>>> {
    let Some(bytes) = intake.document(INDEX, MAX_MANIFEST)? else { return Ok(None) };
    let index: Index = json(INDEX, bytes)?;
    let mut chosen = Vec::new();
    choose(intake, index, None, 0, &mut 0, &mut chosen)?;
    let mut images: Vec<NewImage> = Vec::new();
    for (digest, name) in chosen {
        let image = image(intake, loading, &digest, name)?;
        loading.image(intake, &image)?;
        match images.iter_mut().find(|have| have.id == image.id) {
            Some(have) => have.names.extend(image.names),
            None => images.push(image),
        }
    }
    Ok(Some(images))
}

/// Gathers the manifests that are images for this machine, each with the name that its annotations give it.
fn choose(
    intake: &Intake<'_>,
    index: Index,
    name: Option<&Reference>,
    depth: u32,
    seen: &mut usize,
    chosen: &mut Vec<(Digest, Option<Reference>)>,
) -> Result<()> {
    if depth >= MAX_DEPTH {
        return Err(Error::invalid(format!("archive: {INDEX}: indexes are nested too deep")));
    }
    let all = index.manifests.unwrap_or_default();
    // With one image, its platform is the caller's business; of several, ours is meant.
    let one = all.len() == 1;
    for descriptor in all {
        if !one && !descriptor.platform.as_ref().is_none_or(Platform::is_ours) {
            continue;
        }
        let name = named(&descriptor).or_else(|| name.cloned());
        let digest = descriptor.digest()?;
        *seen += 1;
        if *seen > MAX_LISTED {
            return Err(Error::invalid(format!(
                "archive: {INDEX} and the indexes in it list more than {MAX_LISTED} images"
            )));
        }
        if is_index(&descriptor.media_type) {
            let (path, bytes) = blob(intake, &digest, MAX_MANIFEST)?;
            choose(intake, json(&path, bytes)?, name.as_ref(), depth + 1, seen, chosen)?;
        } else {
            chosen.push((digest, name));
        }
    }
    Ok(())
}

fn image(intake: &mut Intake<'_>, loading: &mut Loading, digest: &Digest, name: Option<Reference>) -> Result<NewImage> {
    let (path, bytes) = blob(intake, digest, MAX_MANIFEST)?;
    let manifest: Manifest = json(&path, bytes)?;
    let (_, config_bytes) = blob(intake, &manifest.config.digest()?, MAX_CONFIG)?;
    let config_bytes = config_bytes.to_vec();
    let (config, diff_ids) = ImageConfig::read(&config_bytes, intake.room().values)?;
    let layers = manifest.layers.unwrap_or_default();
    if layers.len() != diff_ids.len() {
        return Err(Error::invalid(format!(
            "invalid manifest, layers length mismatch: expected {}, got {}",
            layers.len(),
            diff_ids.len()
        )));
    }
    for (i, (layer, expected)) in layers.iter().zip(&diff_ids).enumerate() {
        let digest = Digest::parse(&layer.digest, "archive: layer")?;
        let path = blob_path(&digest);
        let found = intake.layer_at(&path)?;
        if let Some(found) = &found
            && found.raw != digest
        {
            return Err(Error::invalid(format!("archive: {path:?} has the digest {}", found.raw)));
        }
        loading.layer(intake, i, &path, found, expected)?;
    }
    Ok(NewImage {
        id: Digest::of(&config_bytes),
        created: config.created_ns(),
        config: config_bytes,
        layers: diff_ids,
        parent: None,
        names: name.into_iter().collect(),
        made_here: false,
        plugin: None,
    })
}

/// The content of a blob, checked against its digest.
fn blob<'a>(intake: &'a Intake<'_>, digest: &Digest, limit: usize) -> Result<(String, &'a [u8])> {
    let path = blob_path(digest);
    let bytes =
        intake.document(&path, limit)?.ok_or_else(|| Error::invalid(format!("archive: {path:?} is missing")))?;
    let found = Digest::of(bytes);
    if found != *digest {
        return Err(Error::invalid(format!("archive: {path:?} has the digest {found}")));
    }
    Ok((path, bytes))
}

fn blob_path(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// The name in the annotations. A bare tag names no repository, so it names nothing here.
fn named(descriptor: &Descriptor) -> Option<Reference> {
    let annotations = descriptor.annotations.as_ref()?;
    let full = annotations.get(NAME).map(String::as_str);
    let short = annotations.get(REF_NAME).map(String::as_str).filter(|name| name.contains(['/', ':']));
    Reference::parse_tag(full.or(short)?).ok()
}

fn is_index(media_type: &str) -> bool {
    matches!(
        media_type,
        "application/vnd.oci.image.index.v1+json" | "application/vnd.docker.distribution.manifest.list.v2+json"
    )
}

impl Descriptor {
    fn digest(&self) -> Result<Digest> {
        Digest::parse(&self.digest, "archive: digest")
    }
}

impl Platform {
    fn is_ours(&self) -> bool {
        self.os == "linux" && self.architecture == super::super::host_architecture()
    }
}
