//! The engine itself: version and information.
// The fields are the specification's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Answer of version.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Version {
    pub version: String,
    pub api_version: String,
    #[serde(rename = "MinAPIVersion")]
    pub min_api_version: String,
    pub git_commit: String,
    /// The compiler, under the name that clients look for.
    pub go_version: String,
    pub os: String,
    pub arch: String,
    pub kernel_version: String,
    pub experimental: bool,
    pub build_time: String,
}

/// Answer of info: a document whose keys are the specification's.
pub type Info = BTreeMap<String, serde_json::Value>;
