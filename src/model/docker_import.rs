//! Import from a dockerd.
// The fields explain themselves.
#![allow(missing_docs)]

use super::NotTaken;
use serde::{Deserialize, Serialize};

/// The objects to import, and their origin.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ImportDocker;
///
/// let report = engine.import_docker(&ImportDocker::default(), &mut |_progress| Ok(()), None)?;
/// for left in report.left {
///     println!("{} {}: {}", left.kind, left.name, left.reason);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImportDocker {
    /// dockerd's directory, with no dockerd running on it; empty: `/var/lib/docker`.
    pub directory: String,
    /// dockerd's socket, at which a dockerd answers. Empty: the directory is read.
    pub socket: String,
    /// Images, volumes and containers by their names or ids; empty: all.
    pub names: Vec<String>,
}

/// The imported objects, and those that were not imported.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ImportDocker;
///
/// let how = ImportDocker { directory: "/var/lib/docker".into(), ..Default::default() };
/// let import = engine.import_docker(&how, &mut |_| Ok(()), None)?;
/// for left in &import.left {
///     println!("{} {} was left: {}", left.kind, left.name, left.reason);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct DockerImport {
    /// The objects that were taken over.
    pub taken: Vec<TakenOver>,
    /// Objects that were not imported, or only in part, each with the reason.
    pub left: Vec<NotTaken>,
}

/// An object that exists here now.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ImportDocker;
///
/// let how = ImportDocker { directory: "/var/lib/docker".into(), ..Default::default() };
/// for taken in engine.import_docker(&how, &mut |_| Ok(()), None)?.taken {
///     println!("{} {} is {}", taken.kind, taken.name, taken.id);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TakenOver {
    /// `image`, `volume`, `container`.
    pub kind: String,
    /// The name there and here.
    pub name: String,
    /// The id here; empty for a volume.
    pub id: String,
    /// The object existed here before: nothing was done.
    pub was_here: bool,
}
