//! Taking over what a dockerd has.
// The fields say what they are.
#![allow(missing_docs)]

use super::NotTaken;
use serde::{Deserialize, Serialize};

/// The objects to take over, and the place where they are.
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

/// The objects that were taken over, and those that were not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct DockerImport {
    pub taken: Vec<TakenOver>,
    /// Objects that were not taken, or in a part, each with the reason.
    pub left: Vec<NotTaken>,
}

/// An object that is here now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TakenOver {
    /// `image`, `volume`, `container`.
    pub kind: String,
    pub name: String,
    /// The id here; empty of a volume.
    pub id: String,
    /// It was here before: nothing was done.
    pub was_here: bool,
}
