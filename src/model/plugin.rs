//! Managed plugins: pulled from registries, and run by the engine.

use super::{Filters, RegistryAuth, null_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An installed plugin.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for plugin in engine.plugin_list(&Default::default())? {
///     println!("{} {}", plugin.name, if plugin.enabled { "enabled" } else { "disabled" });
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Plugin {
    /// The plugin's configuration, in docker's form: entrypoint, interface, mounts, devices, environment.
    pub config: Value,
    /// Whether the plugin runs.
    pub enabled: bool,
    /// 64 hexadecimal digits.
    pub id: String,
    /// The name of the installation, with its tag.
    pub name: String,
    /// The reference that the plugin was pulled by.
    pub plugin_reference: String,
    /// The settings, which [`crate::Engine::plugin_set`] changes.
    pub settings: PluginSettings,
}

/// The settings of a plugin: those of its configuration, and what was set since.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// engine.plugin_set("sshfs", &["DEBUG=1".to_owned()])?;
/// assert!(engine.plugin_inspect("sshfs")?.settings.env.contains(&"DEBUG=1".to_owned()));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PluginSettings {
    /// The arguments behind the entrypoint.
    #[serde(deserialize_with = "null_default")]
    pub args: Vec<String>,
    /// The devices of the host.
    #[serde(deserialize_with = "null_default")]
    pub devices: Vec<PluginDevice>,
    /// The environment: `NAME=VALUE`.
    #[serde(deserialize_with = "null_default")]
    pub env: Vec<String>,
    /// The mounts.
    #[serde(deserialize_with = "null_default")]
    pub mounts: Vec<PluginMount>,
}

/// A device of the host for a plugin.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for device in engine.plugin_inspect("sshfs")?.settings.devices {
///     println!("{}: {}", device.name, device.path.unwrap_or_default());
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PluginDevice {
    /// The purpose.
    #[serde(deserialize_with = "null_default")]
    pub description: String,
    /// The name of the setting.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// The path on the host and in the plugin; absent: it must be set before the plugin is enabled.
    pub path: Option<String>,
    /// The fields that can be set: `path`.
    pub settable: Option<Vec<String>>,
}

/// A mount of a plugin.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for mount in engine.plugin_inspect("sshfs")?.settings.mounts {
///     println!("{} at {}", mount.source.unwrap_or_default(), mount.destination);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PluginMount {
    /// The purpose.
    #[serde(deserialize_with = "null_default")]
    pub description: String,
    /// The path in the plugin.
    #[serde(deserialize_with = "null_default")]
    pub destination: String,
    /// The name of the setting.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// The options of the mount.
    #[serde(deserialize_with = "null_default")]
    pub options: Vec<String>,
    /// The fields that can be set: `source`.
    pub settable: Option<Vec<String>>,
    /// The path on the host; absent: it must be set before the plugin is enabled.
    pub source: Option<String>,
    /// `bind` or `tmpfs`.
    #[serde(rename = "Type", deserialize_with = "null_default")]
    pub kind: String,
}

/// A right on the host that a plugin needs, and that its installation grants.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for privilege in engine.plugin_privileges("vieux/sshfs", &Default::default(), None)? {
///     println!("{} {:?}: {}", privilege.name, privilege.value, privilege.description);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PluginPrivilege {
    /// `network`, `host ipc namespace`, `host pid namespace`, `mount`, `device`, `allow-all-devices` or `capabilities`.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// The meaning.
    #[serde(deserialize_with = "null_default")]
    pub description: String,
    /// The network, paths or capabilities.
    #[serde(deserialize_with = "null_default")]
    pub value: Vec<String>,
}

/// The installation of a plugin, or its upgrade.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::PullPlugin;
///
/// let granted = engine.plugin_privileges("vieux/sshfs", &Default::default(), None)?;
/// let request = PullPlugin { remote: "vieux/sshfs".into(), privileges: Some(granted), ..Default::default() };
/// engine.plugin_pull(&request, &mut |_| Ok(()), None)?;
/// engine.plugin_enable("vieux/sshfs", None, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PullPlugin {
    /// The reference in a registry.
    #[serde(deserialize_with = "null_default")]
    pub remote: String,
    /// The name of the installation; empty: `Remote`.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// The privileges that are granted: exactly those that the plugin needs. Absent: all that it needs.
    pub privileges: Option<Vec<PluginPrivilege>>,
    /// The login.
    #[serde(deserialize_with = "null_default")]
    pub auth: RegistryAuth,
}

/// The plugins that a list wants.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::ListPlugins;
///
/// let volumes = ("capability".to_owned(), vec!["volumedriver".to_owned()]);
/// let plugins = engine.plugin_list(&ListPlugins { filters: [volumes].into() })?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListPlugins {
    /// `capability` (a kind such as `volumedriver`) and `enabled` (`true` or `false`).
    pub filters: Filters,
}
