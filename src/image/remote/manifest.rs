//! Manifests and indexes of registries: what an image is made of.

use crate::error::{Error, Result};
use crate::image::config::check_values;
use crate::image::digest::Digest;
use crate::model::{ImagePlatform, json_words};
use crate::walls::Wall;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

pub(super) const SCHEMA2: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(super) const LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const OCI: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const SCHEMA1: &str = "application/vnd.docker.distribution.manifest.v1+json";
const SIGNED1: &str = "application/vnd.docker.distribution.manifest.v1+prettyjws";

/// The media types that we accept, best first.
pub(super) const ACCEPT: &[&str] = &[SCHEMA2, LIST, OCI, INDEX, SIGNED1, SCHEMA1];

pub(super) const CONFIG: &str = "application/vnd.docker.container.image.v1+json";
/// The configurations of plugins have types that begin so.
const PLUGIN_CONFIG: &str = "application/vnd.docker.plugin";
const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// A layer as we push it.
pub(super) const LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// A blob as a manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) size: u64,
    pub(super) digest: String,
}

impl Descriptor {
    pub(super) fn digest(&self) -> Result<Digest> {
        Digest::parse(&self.digest, "manifest: digest")
    }
}

/// An image's manifest (schema 2 or OCI), as we write it too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) schema_version: u32,
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) config: Descriptor,
    #[serde(default)]
    pub(super) layers: Vec<Descriptor>,
}

/// The manifests that a list names, at most `most`; none if the document is not a list.
pub(super) fn listed(bytes: &[u8], most: usize) -> Result<Vec<Digest>> {
    check_values(bytes, MAX_VALUES).map_err(|e| e.context("manifest"))?;
    let index: Index = json(bytes)?;
    index.manifests.iter().take(most).map(|listed| Digest::parse(&listed.digest, "manifest list: digest")).collect()
}

/// The platforms of the images in a list.
pub(super) fn platforms(bytes: &[u8]) -> Result<Vec<ImagePlatform>> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        manifests: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        platform: Option<ImagePlatform>,
    }
    check_values(bytes, MAX_VALUES).map_err(|e| e.context("manifest"))?;
    let list: List = json(bytes)?;
    Ok(list.manifests.into_iter().filter_map(|item| item.platform).collect())
}

#[derive(Debug, Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Listed>,
}

#[derive(Debug, Deserialize)]
struct Listed {
    digest: String,
    platform: Option<ImagePlatform>,
}

/// Most values of a manifest, and most layers of an image: overlayfs stacks no more.
const MAX_VALUES: usize = 20_000;
const MAX_LAYERS: usize = 500;

/// A manifest, by its kind.
#[derive(Debug)]
pub(super) enum Document {
    Image(Manifest),
    /// In the oldest form: to be read by [`super::schema1`].
    Old,
    /// Several; this is the digest of the one for the wanted platform.
    Chosen(Digest),
}

/// The thing that a pull fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted<'a> {
    /// An image: of this platform, or of this machine's.
    Image(Option<&'a ImagePlatform>),
    Plugin,
}

/// Reads an image's manifest by its media type, or by its looks where the registry names none.
pub(super) fn read(media_type: &str, bytes: &[u8]) -> Result<Document> {
    read_as(media_type, bytes, Wanted::Image(None))
}

/// As [`read`], also of a plugin.
pub(super) fn read_as(media_type: &str, bytes: &[u8], wanted: Wanted<'_>) -> Result<Document> {
    #[derive(Deserialize)]
    struct Looks {
        #[serde(rename = "schemaVersion", default)]
        version: u32,
        #[serde(rename = "mediaType", default)]
        media_type: String,
        manifests: Option<IgnoredAny>,
        config: Option<IgnoredAny>,
        layers: Option<IgnoredAny>,
        #[serde(rename = "fsLayers")]
        fs_layers: Option<IgnoredAny>,
    }
    check_values(bytes, MAX_VALUES).map_err(|e| e.context("manifest"))?;
    let looks: Looks = json(bytes)?;
    let known = |kind: &&str| [SCHEMA2, LIST, OCI, INDEX, SCHEMA1, SIGNED1].contains(kind);
    let kind = [media_type, &looks.media_type].into_iter().find(known).unwrap_or(match looks {
        Looks { version: 1, .. } => SCHEMA1,
        Looks { manifests: Some(_), .. } => INDEX,
        _ => OCI,
    });
    // One document must not be an image to one reader and a list to another.
    let (image, old) = (looks.config.is_some() || looks.layers.is_some(), looks.fs_layers.is_some());
    let forms = usize::from(looks.manifests.is_some()) + usize::from(image) + usize::from(old);
    let is_first = matches!(kind, SCHEMA1 | SIGNED1);
    let other_version = if is_first { looks.version > 1 } else { looks.version == 1 };
    if (forms > 1 || other_version) && Wall::ManifestKind.stands() {
        return Err(Error::invalid("the manifest can be read as two kinds of document"));
    }
    let says = !looks.media_type.is_empty() && looks.media_type != kind && known(&&*looks.media_type);
    if says && Wall::ManifestKind.stands() {
        return Err(Error::invalid(format!(
            "the manifest says that it is {:?}, its sender {kind:?}",
            looks.media_type
        )));
    }
    match kind {
        LIST | INDEX => choose(json(bytes)?, wanted).map(Document::Chosen),
        SCHEMA1 | SIGNED1 => Ok(Document::Old),
        _ => {
            let manifest: Manifest = json(bytes)?;
            check_kind(&manifest.config.media_type, wanted)?;
            check(&manifest)?;
            Ok(Document::Image(manifest))
        }
    }
}

fn json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let read = crate::document::read(bytes);
    assert!(read.is_ok() || Wall::MalformedDocuments.stands(), "a malformed manifest");
    read.map_err(|e| Error::invalid(format!("manifest: {}", json_words(&e))))
}

/// The first one of those that fit the platform best, else the first that does not say for which it is: a list in the
/// list, or the image of somebody who makes one kind only.
fn choose(index: Index, wanted: Wanted<'_>) -> Result<Digest> {
    let here = ImagePlatform::of_this_machine();
    let (platform, named) = match wanted {
        Wanted::Image(Some(platform)) => (platform, true),
        Wanted::Image(None) | Wanted::Plugin => (&here, false),
    };
    let distance = |listed: &&Listed| {
        let of = listed.platform.as_ref()?;
        // Nobody asked for an image of fewer bits than this machine's.
        platform.distance(of).filter(|_| named || of.normal().architecture == here.architecture)
    };
    let best = index.manifests.iter().filter(|listed| distance(listed).is_some()).min_by_key(distance);
    match best.or(index.manifests.iter().find(|listed| listed.platform.is_none())) {
        Some(listed) => Digest::parse(&listed.digest, "manifest list: digest"),
        None => Err(Error::not_found(format!("no matching manifest for {platform} in the manifest list entries"))),
    }
}

/// Refuses manifests of other things than those that are wanted.
fn check_kind(kind: &str, wanted: Wanted<'_>) -> Result<()> {
    let is_plugin = kind.starts_with(PLUGIN_CONFIG);
    let is_image = matches!(kind, "" | CONFIG | OCI_CONFIG | "application/octet-stream" | "application/json");
    match wanted {
        Wanted::Image(_) if is_plugin => Err(Error::invalid("target is a plugin")),
        Wanted::Image(_) if is_image => Ok(()),
        Wanted::Plugin if is_plugin => Ok(()),
        Wanted::Image(_) => {
            Err(Error::invalid(format!("Encountered remote {kind:?} when fetching: it is not an image")))
        }
        Wanted::Plugin => Err(Error::invalid(format!("Encountered remote {kind:?} when fetching: it is not a plugin"))),
    }
}

/// Refuses layers that cannot or must not be fetched, before any download.
fn check(manifest: &Manifest) -> Result<()> {
    if manifest.layers.len() > MAX_LAYERS && Wall::DocumentValues.stands() {
        let count = manifest.layers.len();
        return Err(Error::invalid(format!("an image of {count} layers, at most {MAX_LAYERS} are taken")));
    }
    for layer in &manifest.layers {
        let kind = layer.media_type.as_str();
        let foreign = kind.contains("foreign") || kind.contains("nondistributable");
        if foreign && Wall::ForeignLayers.stands() {
            return Err(Error::unsupported(format!(
                "foreign layer {}: layers whose content is not in the registry are not supported",
                layer.digest
            )));
        }
        // The first bytes show the compression.
        let tar = kind.contains(".tar") || kind.is_empty();
        if !tar || kind.contains("+encrypted") {
            return Err(Error::invalid(format!("layer {}: {kind:?} is not a kind of layer", layer.digest)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use serde_json::json;

    fn digest(digit: char) -> String {
        format!("sha256:{}", digit.to_string().repeat(64))
    }

    fn image(config: &str, layer: &str) -> serde_json::Value {
        json!({ "schemaVersion": 2, "config": { "mediaType": config, "size": 2, "digest": digest('1') },
            "layers": [{ "mediaType": layer, "size": 3, "digest": digest('2') }] })
    }

    fn read_value(kind: &str, value: &serde_json::Value) -> Result<Document> {
        read(kind, value.to_string().as_bytes())
    }

    #[test]
    fn lists_give_the_one_for_this_machine() {
        let entry = |digit, os: &str, architecture: &str| json!({ "digest": digest(digit), "size": 1, "platform": { "os": os, "architecture": architecture } });
        let ours = ImagePlatform::of_this_machine().architecture;
        let ours = ours.as_str();
        let list = json!({ "schemaVersion": 2, "manifests": [
            entry('3', "linux", "s390x"), entry('4', "windows", ours), entry('5', "linux", ours), entry('6', "linux", ours)
        ] });
        for kind in [LIST, INDEX, "", "text/plain"] {
            match read_value(kind, &list).unwrap() {
                Document::Chosen(chosen) => assert_eq!(chosen.to_string(), digest('5')),
                other => panic!("{other:?}"),
            }
        }
        let none = json!({ "schemaVersion": 2, "manifests": [entry('3', "linux", "s390x")] });
        assert_eq!(read_value(LIST, &none).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn lists_give_the_best_one_for_the_wanted_platform() {
        let entry = |digit, platform: &str| {
            let platform: ImagePlatform = platform.parse().unwrap();
            json!({ "digest": digest(digit), "size": 1, "platform": platform })
        };
        let list = json!({ "schemaVersion": 2, "manifests": [
            entry('1', "linux/386"), entry('2', "linux/amd64"), entry('3', "linux/arm/v5"), entry('4', "linux/arm/v6"),
            entry('5', "linux/arm/v7"), entry('6', "linux/arm64/v8"), entry('7', "windows/amd64"), entry('8', "linux/s390x")
        ] });
        let chosen = |platform: &str| {
            let platform: ImagePlatform = platform.parse().unwrap();
            read_as(LIST, list.to_string().as_bytes(), Wanted::Image(Some(&platform)))
        };
        for (platform, digit) in [
            ("linux/amd64", '2'),
            ("linux/386", '1'),
            ("linux/arm", '5'),
            ("linux/arm/v6", '4'),
            ("linux/arm64", '6'),
            ("linux/s390x", '8'),
        ] {
            match chosen(platform).unwrap() {
                Document::Chosen(found) => assert_eq!(found.to_string(), digest(digit), "{platform}"),
                other => panic!("{platform}: {other:?}"),
            }
        }
        let error = chosen("linux/riscv64").unwrap_err();
        assert_eq!(error.message(), "no matching manifest for linux/riscv64 in the manifest list entries");
    }

    #[test]
    fn the_reader_refuses_foreign_layers_and_other_kinds_of_content() {
        assert!(matches!(read_value(SCHEMA2, &image(CONFIG, LAYER)).unwrap(), Document::Image(_)));
        let foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
        assert_eq!(read_value(SCHEMA2, &image(CONFIG, foreign)).unwrap_err().kind(), ErrorKind::Unsupported);
        let plugin = "application/vnd.docker.plugin.v1+json";
        assert_eq!(read_value(SCHEMA2, &image(plugin, LAYER)).unwrap_err().message(), "target is a plugin");
        let as_plugin = |kind| read_as(SCHEMA2, image(kind, LAYER).to_string().as_bytes(), Wanted::Plugin);
        assert!(matches!(as_plugin(plugin).unwrap(), Document::Image(_)));
        assert!(as_plugin(CONFIG).unwrap_err().message().ends_with("it is not a plugin"));
        assert!(read_value(SCHEMA2, &image(CONFIG, "text/html")).is_err());
        assert!(matches!(read_value("", &json!({ "schemaVersion": 1 })).unwrap(), Document::Old));
        assert!(read(SCHEMA2, b"<html>").is_err());
        let mut two = image(CONFIG, LAYER);
        two["mediaType"] = LIST.into();
        assert!(read_value(SCHEMA2, &two).unwrap_err().message().contains("its sender"));
    }
}
