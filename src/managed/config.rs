//! The configuration of a plugin, as its maker wrote it.

use crate::error::{Error, Result};
use crate::model::{PluginDevice, PluginMount, PluginPrivilege, PluginSettings, json_words};
use crate::order::Order as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The members that programs in Go read whatever the case of their letters is.
const NAMES: [&str; 34] = [
    "Args",
    "Description",
    "DockerVersion",
    "Documentation",
    "Entrypoint",
    "Env",
    "Interface",
    "IpcHost",
    "Linux",
    "Mounts",
    "Network",
    "PidHost",
    "PropagatedMount",
    "User",
    "WorkDir",
    "rootfs",
    "Name",
    "Settable",
    "Value",
    "Socket",
    "ProtocolScheme",
    "Types",
    "AllowAllDevices",
    "Capabilities",
    "Devices",
    "Path",
    "Destination",
    "Options",
    "Source",
    "Type",
    "UID",
    "GID",
    "Prefix",
    "Capability",
];

/// docker's `PluginConfig`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Config {
    pub args: Args,
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub docker_version: String,
    #[serde(deserialize_with = "or_default")]
    pub documentation: String,
    #[serde(deserialize_with = "or_default", serialize_with = "or_null")]
    pub entrypoint: Vec<String>,
    #[serde(deserialize_with = "or_default", serialize_with = "or_null")]
    pub env: Vec<Variable>,
    pub interface: Interface,
    pub ipc_host: bool,
    pub linux: Linux,
    #[serde(deserialize_with = "or_default", serialize_with = "or_null")]
    pub mounts: Vec<PluginMount>,
    pub network: Network,
    pub pid_host: bool,
    #[serde(deserialize_with = "or_default")]
    pub propagated_mount: String,
    pub user: User,
    #[serde(deserialize_with = "or_default")]
    pub work_dir: String,
    #[serde(rename = "rootfs", skip_serializing_if = "Value::is_null")]
    pub rootfs: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Args {
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    pub settable: Option<Vec<String>>,
    pub value: Option<Vec<String>>,
}

/// A variable of the environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Variable {
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    pub settable: Option<Vec<String>>,
    pub value: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Interface {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "or_default")]
    pub protocol_scheme: String,
    #[serde(deserialize_with = "or_default")]
    pub socket: String,
    /// The kinds, such as `docker.volumedriver/1.0`.
    #[serde(deserialize_with = "or_default", serialize_with = "or_null")]
    pub types: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Linux {
    pub allow_all_devices: bool,
    #[serde(deserialize_with = "or_default", serialize_with = "or_null")]
    pub capabilities: Vec<String>,
    #[serde(deserialize_with = "or_default", serialize_with = "or_null")]
    pub devices: Vec<PluginDevice>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Network {
    #[serde(rename = "Type", deserialize_with = "or_default")]
    pub kind: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE", default)]
pub(super) struct User {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> std::result::Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// As programs in Go write it: a list that was left out is null.
fn or_null<T: Serialize, S: Serializer>(list: &[T], to: S) -> std::result::Result<S::Ok, S::Error> {
    if list.is_empty() { to.serialize_none() } else { list.serialize(to) }
}

impl Config {
    /// Reads a configuration. Errors: it is malformed, or has no entrypoint or socket.
    pub(super) fn read(bytes: &[u8]) -> Result<Config> {
        let wrong = |why: String| Error::invalid(format!("the plugin's configuration: {why}"));
        let mut value: Value = crate::document::read(bytes).map_err(|e| wrong(json_words(&e)))?;
        canonical(&mut value);
        let config: Config = serde_json::from_value(value).map_err(|e| wrong(json_words(&e)))?;
        if config.entrypoint.is_empty() {
            return Err(wrong("entrypoint is empty".into()));
        }
        let socket = &config.interface.socket;
        if socket.is_empty() || socket.contains(['/', '\0']) || socket.starts_with('.') || socket.len() > 40 {
            return Err(wrong(format!("interface.socket: {socket:?} is not the name of a file")));
        }
        let mount = &config.propagated_mount;
        let climbs = mount.split('/').any(|part| part == "..");
        if !mount.is_empty() && (!mount.starts_with('/') || mount.trim_matches('/').is_empty() || climbs) {
            return Err(wrong(format!("propagatedMount: {mount:?} is not the path of a directory")));
        }
        Ok(config)
    }

    /// The document that inspect shows.
    pub(super) fn shown(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The kinds in small letters, such as `volumedriver`.
    pub(super) fn kinds(&self) -> Vec<String> {
        let kind = |text: &String| Some(text.strip_prefix("docker.")?.split('/').next()?.to_ascii_lowercase());
        self.interface.types.iter().filter_map(kind).collect()
    }

    /// The settings of a new installation.
    #[cfg_attr(not(feature = "registry"), expect(dead_code, reason = "plugins come from registries"))]
    pub(super) fn settings(&self) -> PluginSettings {
        let text = |one: &Variable| Some(format!("{}={}", one.name, one.value.as_deref()?));
        PluginSettings {
            args: self.args.value.clone().unwrap_or_default(),
            devices: self.linux.devices.clone(),
            env: self.env.iter().filter_map(text).collect(),
            mounts: self.mounts.clone(),
        }
    }

    /// The rights on the host that the plugin needs, in dockerd's order and words.
    pub(super) fn privileges(&self) -> Vec<PluginPrivilege> {
        let one = |name: &str, description: &str, value: Vec<String>| PluginPrivilege {
            name: name.into(),
            description: description.into(),
            value,
        };
        let yes = || vec!["true".to_owned()];
        let mut all = Vec::new();
        if !["null", "bridge", ""].contains(&self.network.kind.as_str()) {
            all.push(one("network", "permissions to access a network", vec![self.network.kind.clone()]));
        }
        if self.ipc_host {
            all.push(one("host ipc namespace", "allow access to host ipc namespace", yes()));
        }
        if self.pid_host {
            all.push(one("host pid namespace", "allow access to host pid namespace", yes()));
        }
        for source in self.mounts.iter().filter_map(|mount| mount.source.clone()) {
            all.push(one("mount", "host path to mount", vec![source]));
        }
        for path in self.linux.devices.iter().filter_map(|device| device.path.clone()) {
            all.push(one("device", "host device to access", vec![path]));
        }
        if self.linux.allow_all_devices {
            all.push(one("allow-all-devices", "allow 'rwm' access to all devices", yes()));
        }
        if !self.linux.capabilities.is_empty() {
            let capabilities = self.linux.capabilities.clone();
            all.push(one("capabilities", "list of additional capabilities required", capabilities));
        }
        all
    }
}

/// Whether the granted rights are those that are needed, in whatever order.
#[cfg_attr(not(feature = "registry"), expect(dead_code, reason = "plugins come from registries"))]
pub(super) fn are_granted(needed: &[PluginPrivilege], granted: &[PluginPrivilege]) -> bool {
    let sorted = |all: &[PluginPrivilege]| {
        let mut all: Vec<_> = all
            .iter()
            .map(|one| {
                let mut value = one.value.clone();
                value.order();
                (one.name.clone(), value)
            })
            .collect();
        all.order();
        all
    };
    sorted(needed) == sorted(granted)
}

/// Gives members their canonical names.
fn canonical(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(canonical),
        Value::Object(members) => {
            for (key, mut member) in std::mem::take(members) {
                let known = NAMES.iter().find(|name| **name == key);
                let known = known.or_else(|| NAMES.iter().find(|name| name.eq_ignore_ascii_case(&key)));
                let name = known.map_or(key.clone(), |name| (*name).to_owned());
                if name != "rootfs" {
                    canonical(&mut member);
                }
                members.insert(name, member);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TOY: &str = r#"{"description":"toy","entrypoint":["/toy"],"workdir":"/bin",
        "interface":{"socket":"toy.sock","types":["docker.volumedriver/1.0","docker.authz/1.0"]},"network":{"type":"host"},
        "mounts":[{"name":"state","source":"/tmp","destination":"/mnt","type":"bind","options":["rbind"],"settable":["source"]},
        {"name":"later","destination":"/x","type":"bind"}],
        "linux":{"capabilities":["CAP_SYS_ADMIN"],"devices":[{"name":"fuse","path":"/dev/fuse"}],"allowAllDevices":true},
        "env":[{"name":"A","value":"1","settable":["value"]},{"name":"B"}],"args":{"name":"args","value":["-x"]},
        "propagatedMount":"/mnt/volumes","ipchost":true,"PidHost":true,"User":null}"#;

    #[test]
    fn a_configuration_is_read_whatever_the_case_of_its_letters_is() {
        let null = TOY.replace("\"User\":null", "\"User\":{\"Uid\":3}");
        let config = Config::read(null.as_bytes()).unwrap();
        assert_eq!((config.work_dir.as_str(), config.user.uid, config.kinds().len()), ("/bin", Some(3), 2));
        assert_eq!(config.kinds(), ["volumedriver", "authz"]);
        let shown = config.shown();
        assert_eq!((&shown["Mounts"][1]["Source"], &shown["Env"][1]["Value"]), (&Value::Null, &Value::Null));
        let settings = config.settings();
        assert_eq!((settings.env, settings.args), (vec!["A=1".to_owned()], vec!["-x".to_owned()]));
        let names: Vec<_> = config.privileges().into_iter().map(|one| (one.name, one.value.join(","))).collect();
        let wanted = [
            ("network", "host"),
            ("host ipc namespace", "true"),
            ("host pid namespace", "true"),
            ("mount", "/tmp"),
            ("device", "/dev/fuse"),
            ("allow-all-devices", "true"),
            ("capabilities", "CAP_SYS_ADMIN"),
        ];
        assert_eq!(names, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn privileges_are_granted_exactly() {
        let one = |name: &str, value: &[&str]| PluginPrivilege {
            name: name.into(),
            value: value.iter().map(|text| (*text).to_owned()).collect(),
            ..PluginPrivilege::default()
        };
        let (a, b) = (one("capabilities", &["A", "B"]), one("mount", &["/x"]));
        assert!(are_granted(&[a.clone(), b.clone()], &[b.clone(), one("capabilities", &["B", "A"])]));
        assert!(!are_granted(&[a.clone(), b.clone()], std::slice::from_ref(&a)));
        assert!(!are_granted(std::slice::from_ref(&a), &[a.clone(), b]));
        assert!(!are_granted(&[a], &[one("capabilities", &["A"])]));
    }

    #[test]
    fn impossible_configurations_are_refused() {
        let entry = json!({ "entrypoint": ["/a"], "interface": { "socket": "a.sock" } });
        assert!(Config::read(entry.to_string().as_bytes()).is_ok());
        for (key, value) in [
            ("entrypoint", json!([])),
            ("interface", json!({ "socket": "../a" })),
            ("interface", json!({})),
            ("propagatedMount", json!("/a/../b")),
            ("propagatedMount", json!("/")),
            ("mounts", json!("x")),
        ] {
            let mut bad = entry.clone();
            bad[key] = value;
            assert!(Config::read(bad.to_string().as_bytes()).is_err(), "{bad}");
        }
    }
}
