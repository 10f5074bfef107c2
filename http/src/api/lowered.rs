//! Inspect of a container in the shape of an older version. Its ports, which may be 65,535, go past the form in which the other
//! members are changed.

use crate::answer::as_object;
use crate::versions::{Noun, Version};
use coracle::Result;
use coracle::model::{ContainerDetail, PortMap, PortSet};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// The answer to an older client.
pub(super) struct Lowered {
    members: Map<String, Value>,
    exposed: PortSet,
    bindings: PortMap,
    ports: PortMap,
}

/// A container as a version shows it that has not the newest shape.
pub(super) fn lowered(mut detail: ContainerDetail, version: &Version) -> Result<Lowered> {
    let exposed = std::mem::take(&mut detail.config.exposed_ports);
    let bindings = std::mem::take(&mut detail.host_config.port_bindings);
    let ports = std::mem::take(&mut detail.network_settings.ports);
    let mut members = as_object(&detail)?;
    if let Some(Value::Object(config)) = members.get_mut("Config").filter(|_| !exposed.is_empty()) {
        config.insert("ExposedPorts".into(), Value::Null);
    }
    version.lower(Noun::Container, &mut members);
    Ok(Lowered { members, exposed, bindings, ports })
}

impl Serialize for Lowered {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.members.len()))?;
        for (name, value) in &self.members {
            match (name.as_str(), value) {
                ("Config", Value::Object(of)) if !self.exposed.is_empty() => {
                    map.serialize_entry(name, &With { of, name: "ExposedPorts", value: &self.exposed })?;
                }
                ("HostConfig", Value::Object(of)) => {
                    map.serialize_entry(name, &With { of, name: "PortBindings", value: &self.bindings })?;
                }
                ("NetworkSettings", Value::Object(of)) => {
                    map.serialize_entry(name, &With { of, name: "Ports", value: &self.ports })?;
                }
                _ => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

/// An object of which one member has another value.
struct With<'a, T> {
    of: &'a Map<String, Value>,
    name: &'a str,
    value: &'a T,
}

impl<T: Serialize> Serialize for With<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.of.len()))?;
        for (name, value) in self.of {
            match name == self.name {
                true => map.serialize_entry(name, self.value)?,
                false => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

/// An answer that holds the container whole, as inspect of an exec did before it named the container.
pub(super) struct Holding {
    pub(super) members: Map<String, Value>,
    pub(super) container: Lowered,
}

impl Holding {
    /// Where the container stands among the members.
    pub(super) const NAME: &str = "Container";
}

impl Serialize for Holding {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        With { of: &self.members, name: Holding::NAME, value: &self.container }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ports_stand_where_they_stood() {
        let mut detail = ContainerDetail::default();
        for number in 18..22 {
            let version = Version::parse(&format!("1.{number}"));
            for ports in [None, Some(["80/tcp", "53/udp"])] {
                let ports = ports.into_iter().flatten();
                detail.config.exposed_ports = ports.clone().collect();
                detail.host_config.port_bindings =
                    PortMap::of_rows(ports.clone().map(|port| (port, Some(("", "8080")))));
                detail.network_settings.ports = PortMap::of_rows(ports.map(|port| (port, None::<(&str, &str)>)));
                let mut plain = as_object(&detail).unwrap();
                version.lower(Noun::Container, &mut plain);
                let lowered = lowered(detail.clone(), &version).unwrap();
                assert_eq!(serde_json::to_string(&lowered).unwrap(), json!(plain).to_string(), "1.{number}");
            }
        }
    }
}
