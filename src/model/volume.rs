//! Volumes.
// The fields are the specification's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use super::{Filters, StringMap, VolumeUsage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A volume in the answers of create, inspect and list.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let volume = engine.volume_inspect("hold")?;
/// println!("{} {} {}", volume.name, volume.driver, volume.mountpoint);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Volume {
    /// RFC 3339, in seconds.
    pub created_at: String,
    /// The volume's driver.
    pub driver: String,
    /// The volume's labels.
    pub labels: Option<StringMap>,
    /// The directory on the host. The content of a volume with driver options is mounted only in its containers.
    pub mountpoint: String,
    /// The volume's name.
    pub name: String,
    /// The driver's options.
    pub options: Option<StringMap>,
    /// `local`, or `global` where the plugin says so.
    pub scope: String,
    /// The plugin's own facts about the volume, if the plugin has any: only in the answer of an inspect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<BTreeMap<String, serde_json::Value>>,
    /// Only in the answer of a disk usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_data: Option<VolumeUsage>,
}

/// Body of a volume's creation.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::CreateVolume;
///
/// let volume = engine.volume_create(&CreateVolume { name: "data".into(), ..Default::default() })?;
/// println!("{}", volume.mountpoint);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CreateVolume {
    /// Empty: the engine makes up 64 hex digits.
    #[serde(deserialize_with = "super::null_default")]
    pub name: String,
    /// Empty: `local`, the only driver.
    #[serde(deserialize_with = "super::null_default")]
    pub driver: String,
    /// The driver's options.
    pub driver_opts: Option<StringMap>,
    /// The volume's labels.
    pub labels: Option<StringMap>,
}

/// The volumes that a list shows.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ListVolumes;
///
/// // Those that no container uses.
/// let mut query = ListVolumes::default();
/// query.filters.insert("dangling".into(), vec!["true".into()]);
/// let unused = engine.volume_list(&query)?.volumes;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListVolumes {
    /// `name` (a pattern), `driver` (a part), `dangling` (`true`, `1`, `false`, `0`), `label`.
    pub filters: Filters,
}

/// Answer of a list, by name.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let list = engine.volume_list(&Default::default())?;
/// for volume in &list.volumes {
///     println!("{}", volume.name);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VolumeList {
    /// The volumes.
    pub volumes: Vec<Volume>,
    /// Drivers that did not answer, in words; absent: none.
    pub warnings: Option<Vec<String>>,
}
