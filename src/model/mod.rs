//! The documents of API 1.24 as Rust types.
//!
//! Field names are the specification's in upper camel case on the wire. Requests distinguish absent fields from given
//! ones (`Option`, empty collections); answers serialise every field that a 1.24 client may look for. Only the HTTP
//! layer makes older and newer forms.
//!
//! Make a request from its default; read an answer by its fields, or turn it into a document by serde:
//!
//! ```no_run
//! use coracle::Engine;
//! use coracle::model::{ContainerConfig, CreateBody, ListContainers};
//!
//! let engine = Engine::open("/var/lib/coracle")?;
//! let config = ContainerConfig { image: "busybox".into(), ..Default::default() };
//! let created = engine.container_create(None, &CreateBody { config, ..Default::default() })?;
//! let detail = engine.container_inspect(&created.id, false)?;
//! println!("{} is {}", detail.name, detail.state.status);
//! for container in engine.container_list(&ListContainers { all: true, ..Default::default() })? {
//!     println!("{}", serde_json::to_string(&container).unwrap());
//! }
//! # Ok::<(), coracle::Error>(())
//! ```

mod archive;
mod base64;
mod build;
mod builders;
mod container;
mod detach;
mod docker_config;
mod docker_import;
mod event;
mod exec;
mod image;
mod kinds;
mod metrics;
mod network;
mod platform;
mod plugin;
pub(crate) mod ports;
mod prune;
mod registry;
mod report;
mod root;
mod stats;
mod system;
mod volume;

pub use archive::*;
pub(crate) use base64::from_base64;
pub use base64::to_base64;
pub use build::*;
pub use container::*;
pub use detach::DetachKeys;
pub use docker_config::{CredentialHelper, DockerConfig};
pub use docker_import::*;
pub use event::*;
pub use exec::*;
pub use image::*;
pub use kinds::json_words;
pub use metrics::*;
pub use network::*;
pub(crate) use platform::architecture_name;
pub use plugin::*;
pub use ports::*;
pub use prune::*;
pub use registry::*;
pub use report::*;
pub use root::*;
pub use stats::*;
pub use system::*;
pub use volume::*;

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// A map of strings, ordered so that answers are stable.
///
/// ```
/// let labels: coracle::model::StringMap = [("site".to_owned(), "north".to_owned())].into();
/// assert_eq!(labels["site"], "north");
/// ```
pub type StringMap = BTreeMap<String, String>;

/// `filters` of list operations: filter name to its values.
///
/// ```
/// use coracle::model::{Filters, ListContainers};
///
/// // Containers that have this label and are in one of these states.
/// let filters: Filters = [
///     ("label".to_owned(), vec!["site=north".to_owned()]),
///     ("status".to_owned(), vec!["created".to_owned(), "exited".to_owned()]),
/// ]
/// .into();
/// let query = ListContainers { filters, ..Default::default() };
/// assert_eq!(query.filters["status"].len(), 2);
/// ```
pub type Filters = BTreeMap<String, Vec<String>>;

/// A truth value as Go's `strconv.ParseBool` reads it; `None` for any other text.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// `null` means the default, like an absent field.
fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Serialize, de::DeserializeOwned};
    use serde_json::{Value, json};

    /// Clients in many languages send `null` for absent values, at any depth: it means the default everywhere.
    fn takes_null<T: Serialize + DeserializeOwned + PartialEq + Default>(whole: &Value) {
        fn places(value: &Value, at: &str, all: &mut Vec<String>) {
            let Value::Object(fields) = value else { return };
            for (name, value) in fields {
                let place = format!("{at}/{}", name.replace('/', "~1"));
                places(value, &place, all);
                if let Some(list) = value.as_array() {
                    list.iter().enumerate().for_each(|(n, value)| places(value, &format!("{place}/{n}"), all));
                }
                all.push(place);
            }
        }
        let mut all = Vec::new();
        places(whole, "", &mut all);
        assert!(!all.is_empty());
        for place in all {
            let mut body = whole.clone();
            *body.pointer_mut(&place).unwrap() = Value::Null;
            let read: Result<T, _> = serde_json::from_value(body);
            assert!(read.is_ok(), "{place}: {:?}", read.err());
        }
    }

    #[test]
    fn null_is_what_was_left_out() {
        let mut body = serde_json::to_value(CreateBody::default()).unwrap();
        body["ExposedPorts"] = json!({ "80/tcp": {} });
        body["Volumes"] = json!({ "/v": {} });
        body["Healthcheck"] = json!({ "Test": ["NONE"], "Interval": 0, "Timeout": 0, "Retries": 0, "StartPeriod": 0 });
        let host = &mut body["HostConfig"];
        host["Devices"] = json!([DeviceMapping::default()]);
        host["Ulimits"] = json!([Ulimit::default()]);
        host["BlkioWeightDevice"] = json!([WeightDevice::default()]);
        host["BlkioDeviceReadBps"] = json!([ThrottleDevice::default()]);
        host["PortBindings"] = json!({ "80/tcp": [PortBinding::default()] });
        host["Mounts"] = json!([{ "Type": "", "Source": "", "Target": "", "ReadOnly": false, "Consistency": "",
            "BindOptions": { "Propagation": "", "NonRecursive": false }, "TmpfsOptions": { "SizeBytes": 0, "Mode": 0 },
            "VolumeOptions": { "NoCopy": false, "Labels": {}, "DriverConfig": { "Name": "", "Options": {} } } }]);
        let end = EndpointSettings { ipam_config: Some(EndpointIpamConfig::default()), ..EndpointSettings::default() };
        body["NetworkingConfig"]["EndpointsConfig"] = json!({ "net": end });
        takes_null::<CreateBody>(&body);
        takes_null::<ExecConfig>(&serde_json::to_value(ExecConfig::default()).unwrap());
        takes_null::<UpdateContainer>(&serde_json::to_value(UpdateContainer::default()).unwrap());
    }
}
