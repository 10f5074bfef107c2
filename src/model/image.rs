//! Images: list item, inspect answer, history, removal, progress.
// The fields are the specification's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use super::{ContainerConfig, Filters, GraphDriver, RegistryAuth, StringMap, null_default};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// A request for a list of images.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ListImages;
///
/// for image in engine.image_list(&ListImages::default())? {
///     println!("{} {} bytes", image.id, image.size);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListImages {
    /// Intermediate images too.
    pub all: bool,
    /// A shell glob on the repository, or an exact `repository:tag`.
    pub filter: String,
    /// Only images that fit: `before`, `dangling`, `label`, `reference`, `since`, `until`.
    pub filters: Filters,
    /// Counts the bytes that each image shares with others of the list (`shared_size`; else -1).
    pub shared_size: bool,
    /// Counts the containers of each image (`containers`; else -1).
    pub containers: bool,
}

/// One image of the list; sizes in bytes.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for image in engine.image_list(&Default::default())? {
///     println!("{} {:?} {} bytes", image.id, image.repo_tags, image.size);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ImageSummary {
    /// The image's id, `sha256:` and 64 hex digits.
    pub id: String,
    /// The id of the image that this one was built on; empty: none is known.
    pub parent_id: String,
    /// The image's names, `name:tag`.
    pub repo_tags: Option<Vec<String>>,
    /// The image's digests in registries, `name@sha256:...`.
    pub repo_digests: Option<Vec<String>>,
    /// Unix seconds.
    pub created: i64,
    /// Bytes of the image's layers, unpacked.
    pub size: i64,
    /// As `Size`; kept for old clients.
    pub virtual_size: i64,
    /// -1: not counted, as in dockerd's list. Clients of later versions (bollard) require the member.
    pub shared_size: i64,
    /// -1, likewise.
    pub containers: i64,
    /// The image's labels.
    pub labels: Option<StringMap>,
}

/// `RootFS` of image inspect.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for layer in engine.image_inspect("busybox")?.root_fs.layers.iter().flatten() {
///     println!("{layer}");
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RootFs {
    /// `layers`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Digests of the layers' archives, lowest first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub layers: Option<Vec<String>>,
}

/// Answer of image inspect.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let image = engine.image_inspect("busybox")?;
/// println!("{} {}/{} {} bytes", image.id, image.os, image.architecture, image.size);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ImageDetail {
    /// The image's id, `sha256:` and 64 hex digits.
    pub id: String,
    /// The image's names, `name:tag`.
    pub repo_tags: Vec<String>,
    /// The image's digests in registries, `name@sha256:...`.
    pub repo_digests: Vec<String>,
    /// The id of the image that this one was built on; empty: none is known.
    pub parent: String,
    /// The comment of a commit or an import.
    pub comment: String,
    /// Time of the creation, RFC 3339.
    pub created: String,
    /// The container that the image was committed from.
    pub container: String,
    /// The configuration of that container.
    #[serde(serialize_with = "of_image")]
    pub container_config: Option<ContainerConfig>,
    /// The version of the engine that made the image.
    pub docker_version: String,
    /// The author.
    pub author: String,
    /// The configuration that containers of this image begin with.
    #[serde(serialize_with = "of_image")]
    pub config: Option<ContainerConfig>,
    /// The processor's architecture, such as `amd64`.
    pub architecture: String,
    /// The processor's variant, such as `v7`; absent: the image names none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// `linux`.
    pub os: String,
    /// Bytes of the image's layers, unpacked.
    pub size: i64,
    /// As `Size`; kept for old clients.
    pub virtual_size: i64,
    /// Where the image's layers are.
    pub graph_driver: GraphDriver,
    /// The image's layers.
    #[serde(rename = "RootFS")]
    pub root_fs: RootFs,
}

/// A configuration as images show it: missing labels are `null`, not an empty object as in containers.
pub(crate) fn of_image<S: Serializer>(config: &Option<ContainerConfig>, to: S) -> Result<S::Ok, S::Error> {
    let mut document = serde_json::to_value(config).map_err(serde::ser::Error::custom)?;
    if config.as_ref().is_some_and(|config| config.labels.is_empty()) {
        document["Labels"] = serde_json::Value::Null;
    }
    document.serialize(to)
}

/// One step of an image's history, newest first.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for item in engine.image_history("busybox")? {
///     println!("{} bytes by {}", item.size, item.created_by);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct HistoryItem {
    /// `<missing>` if the intermediate image is not stored here.
    pub id: String,
    /// Unix seconds.
    pub created: i64,
    /// The instruction or command that made the layer.
    pub created_by: String,
    /// Names of the image at this point; absent: none.
    pub tags: Option<Vec<String>>,
    /// Bytes of the layer, unpacked; 0: it changed no file.
    pub size: i64,
    /// The comment of a commit or an import.
    pub comment: String,
}

/// One line of an image removal: a reference or an id.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::RemovedImage;
///
/// for removed in engine.image_remove("busybox", Default::default())? {
///     match removed {
///         RemovedImage::Untagged(name) => println!("untagged {name}"),
///         RemovedImage::Deleted(id) => println!("deleted {id}"),
///     }
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RemovedImage {
    /// The name that was removed.
    Untagged(String),
    /// The id of the image that was deleted.
    Deleted(String),
}

/// Answer of a distribution inspect: an image as a registry has it.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let found = engine.distribution_inspect("registry.example/app:1", &Default::default(), None)?;
/// println!("{} is there for {} platforms", found.descriptor.digest, found.platforms.len());
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Distribution {
    /// The manifest.
    pub descriptor: DistributionDescriptor,
    /// Of the image, or of each image of a list.
    pub platforms: Vec<ImagePlatform>,
}

/// A manifest, or a list of manifests, as a registry has it.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let found = engine.distribution_inspect("registry.example/app:1", &Default::default(), None)?;
/// let manifest = found.descriptor;
/// println!("{} {} {} bytes", manifest.media_type, manifest.digest, manifest.size);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DistributionDescriptor {
    /// The manifest's media type.
    pub media_type: String,
    /// Of its bytes: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Bytes.
    pub size: i64,
}

/// A platform that an image is for.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let found = engine.distribution_inspect("registry.example/app:1", &Default::default(), None)?;
/// for platform in found.platforms {
///     println!("{}/{} {}", platform.os, platform.architecture, platform.variant);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImagePlatform {
    /// The processor's architecture, such as `arm64`.
    #[serde(deserialize_with = "null_default")]
    pub architecture: String,
    /// The operating system, such as `linux`.
    #[serde(deserialize_with = "null_default")]
    pub os: String,
    /// The version of the operating system; absent: the image names none.
    #[serde(rename = "os.version", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub os_version: String,
    /// Features of the operating system that the image needs.
    #[serde(rename = "os.features", deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub os_features: Vec<String>,
    /// The processor's variant, such as `v8`; absent: the image names none.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub variant: String,
}

/// How an image is removed.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::{RemoveImage, RemovedImage};
///
/// for line in engine.image_remove("site:1", RemoveImage::default())? {
///     match line {
///         RemovedImage::Untagged(name) => println!("{name} was untagged"),
///         RemovedImage::Deleted(id) => println!("{id} is deleted"),
///     }
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoveImage {
    /// Whether an image that has further names, or stopped containers, goes too.
    pub force: bool,
    /// Keep untagged parents.
    pub no_prune: bool,
}

/// The objects that a prune removed.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let pruned = engine.images_prune(&Default::default(), None)?;
/// println!("{} bytes of {} images and names", pruned.space_reclaimed, pruned.images_deleted.map_or(0, |list| list.len()));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PrunedImages {
    /// In the order of the removal; `null` if there was nothing to remove.
    pub images_deleted: Option<Vec<RemovedImage>>,
    /// Bytes of the removed files.
    pub space_reclaimed: u64,
}

/// A request for a verification.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::VerifyImages;
///
/// let report = engine.verify(&VerifyImages::default(), &mut |_progress| Ok(()), None)?;
/// for damage in report.damage {
///     println!("{}: {}", damage.id, damage.reason);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerifyImages {
    /// Repair damage: metadata from the layer's own recipe, content by another download.
    pub repair: bool,
    /// Credentials for fetching, by registry.
    pub auths: BTreeMap<String, RegistryAuth>,
}

/// The result of a verification.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let report = engine.verify(&Default::default(), &mut |_| Ok(()), None)?;
/// println!("{} layers of {} images, {} damaged", report.layers, report.images, report.damage.len());
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct VerifyReport {
    /// The number of checked layers and images.
    pub layers: u64,
    /// Number of images.
    pub images: u64,
    /// The damage, repaired or not.
    pub damage: Vec<Damage>,
}

/// A damaged part of the store.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let report = engine.verify(&Default::default(), &mut |_| Ok(()), None)?;
/// for damage in report.damage {
///     println!("{}: {} ({})", damage.id, damage.reason, damage.images.join(", "));
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Damage {
    /// The kind of the damaged part.
    pub part: DamagedPart,
    /// Diff id of a layer, id of an image.
    pub id: String,
    /// Names (or ids) of the affected images.
    pub images: Vec<String>,
    /// Why the part counts as damaged.
    pub reason: String,
    /// Whether the part is whole again.
    pub repaired: bool,
    /// The reason why a requested repair failed.
    pub unrepaired: String,
}

/// Kinds of [`Damage`].
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let report = engine.verify(&Default::default(), &mut |_| Ok(()), None)?;
/// for damage in report.damage {
///     println!("{:?} {}", damage.part, damage.id);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DamagedPart {
    Database,
    Layer,
    Image,
}

/// A request to make an image from a root file system tar.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ImportImage;
///
/// let how = ImportImage { repo: "site".into(), tag: "1".into(), ..Default::default() };
/// let mut tar = std::fs::File::open("rootfs.tar")?;
/// let id = engine.image_import(&mut tar, &how, &mut |_progress| Ok(()), None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportImage {
    /// The new image's name; empty: none.
    pub repo: String,
    /// The new image's tag; empty: `latest`.
    pub tag: String,
    /// History comment; empty: `Imported from <source>`.
    pub message: String,
    /// The source's name in messages; `-` for a request body.
    pub source: String,
    /// Build instructions applied to the configuration (CMD, ENTRYPOINT, ENV, EXPOSE, LABEL, USER, VOLUME, WORKDIR, ...).
    pub changes: Vec<String>,
}

/// A progress message of load, import, pull, push or build, in the form of the HTTP answer.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::{Progress, PullImage};
///
/// let pull = PullImage { name: "registry.example/app".into(), tag: "1".into(), ..Default::default() };
/// engine.image_pull(&pull, &mut |progress: Progress| {
///     println!("{} {} {}", progress.id, progress.status, progress.progress);
///     Ok(())
/// }, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Text of a build or a load, for people.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub stream: String,
    /// The step that the part is at, such as `Downloading`.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub status: String,
    /// How far the part is.
    #[serde(rename = "progressDetail", skip_serializing_if = "Option::is_none", default)]
    pub progress_detail: Option<ProgressDetail>,
    /// The bar for people.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub progress: String,
    /// The part, such as a layer's short id.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub id: String,
    /// For programs: the result of a push.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aux: Option<serde_json::Value>,
}

/// Numbers of a progress message, in bytes; both 0 serialise as `{}`.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::PullImage;
///
/// let pull = PullImage { name: "registry.example/app".into(), tag: "1".into(), ..Default::default() };
/// engine.image_pull(&pull, &mut |progress| {
///     if let Some(detail) = progress.progress_detail {
///         println!("{} of {} bytes", detail.current, detail.total);
///     }
///     Ok(())
/// }, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgressDetail {
    /// Bytes so far.
    #[serde(skip_serializing_if = "zero")]
    pub current: i64,
    /// Bytes in all; 0: they are not known.
    #[serde(skip_serializing_if = "zero")]
    pub total: i64,
}

fn zero(value: &i64) -> bool {
    *value == 0
}
