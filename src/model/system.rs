//! The engine itself: version and information.
// The fields are the specification's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Answer of version.
///
/// ```
/// let version = coracle::version();
/// assert_eq!(version.os, "linux");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Version {
    /// The library's version.
    pub version: String,
    /// The newest API version that is the contract.
    pub api_version: String,
    /// The oldest API version.
    #[serde(rename = "MinAPIVersion")]
    pub min_api_version: String,
    /// The source's commit; empty: it is not known.
    pub git_commit: String,
    /// The compiler, under the name that clients look for.
    pub go_version: String,
    /// `linux`.
    pub os: String,
    /// The processor's architecture, such as `amd64`.
    pub arch: String,
    /// The kernel's release.
    pub kernel_version: String,
    /// Always false.
    pub experimental: bool,
    /// Time of the build; empty: it is not known.
    pub build_time: String,
}

/// A file or directory of the root that a removal could not remove.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for leftover in engine.sweep()? {
///     println!("{}: {}", leftover.path, leftover.reason);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Leftover {
    /// Where it lies.
    pub path: String,
    /// The reason why the removal failed, in one line.
    pub reason: String,
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is left of something that was removed: {}", self.path, self.reason)
    }
}

/// Answer of info: a document whose keys are the specification's.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let info = engine.info()?;
/// println!("{} containers", info["Containers"]);
/// # Ok::<(), coracle::Error>(())
/// ```
pub type Info = BTreeMap<String, serde_json::Value>;
