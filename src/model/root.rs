//! A root as a whole: copying it.

// The fields say what they are.
#![allow(missing_docs)]

use serde::{Deserialize, Serialize};

/// How a root is copied.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::CopyRoot;
///
/// let copy = engine.snapshot_root("/mnt/backup/coracle", CopyRoot { pause: true }, &mut |_progress| Ok(()), None)?;
/// println!("{} images", copy.images);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CopyRoot {
    /// Freeze each running container while its writable layer, or a volume that it uses, is copied.
    pub pause: bool,
}

/// The content of a copy of a root.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::CopyRoot;
///
/// let copy = engine.snapshot_root("/backup/coracle", CopyRoot::default(), &mut |_| Ok(()), None)?;
/// println!("{} images, {} files, {} bytes", copy.images, copy.files, copy.bytes);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RootCopy {
    /// The numbers of images and layers.
    pub images: u64,
    /// Number of layers in the copy.
    pub layers: u64,
    /// The names of the volumes.
    pub volumes: Vec<String>,
    /// The containers in the copy.
    pub containers: Vec<CopiedContainer>,
    /// Names that were made: of files, directories, links, devices.
    pub files: u64,
    /// Bytes of content that were copied.
    pub bytes: u64,
    /// Bytes of content that original and copy share, if the file system supports sharing.
    pub shared: u64,
    /// Parts of the root that the copy does not have, or has in another form.
    pub left: Vec<NotTaken>,
}

/// A container in a copy.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::CopyRoot;
///
/// let copy = engine.snapshot_root("/backup/coracle", CopyRoot::default(), &mut |_| Ok(()), None)?;
/// for container in copy.containers.iter().filter(|container| container.ran) {
///     println!("{} ran while it was copied", container.name);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CopiedContainer {
    /// The container's id.
    pub id: String,
    /// The container's name.
    pub name: String,
    /// The container ran while its files were copied: in the copy it has ended.
    pub ran: bool,
}

/// An object that was not taken as a whole, with the reason.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::CopyRoot;
///
/// let copy = engine.snapshot_root("/backup/coracle", CopyRoot::default(), &mut |_| Ok(()), None)?;
/// for left in copy.left {
///     println!("{} {}: {}", left.kind, left.name, left.reason);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NotTaken {
    /// `image`, `container`, `volume`.
    pub kind: String,
    /// The name or id of the part.
    pub name: String,
    /// Why it was left.
    pub reason: String,
}
