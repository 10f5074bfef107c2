//! `Ports` of a container in a list.

use super::{PortMap, PortText};
use crate::model::PortSummary;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::fmt;

/// The ports of one container in the list: one element for each exposed port, and one for each binding of a published
/// port. Stored as a [`PortMap`].
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// for container in engine.container_list(&Default::default())? {
///     println!("{} has {} ports", container.id, container.ports.len());
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Clone, Default, PartialEq)]
pub struct PortList(PortMap);

/// A [`PortSummary`] with borrowed texts.
#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(rename = "IP", skip_serializing_if = "str::is_empty")]
    ip: &'a str,
    #[serde(rename = "PrivatePort")]
    private_port: u16,
    #[serde(rename = "PublicPort", skip_serializing_if = "Option::is_none")]
    public_port: Option<u16>,
    #[serde(rename = "Type")]
    kind: &'a str,
}

impl PortList {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.elements().count()
    }

    /// Whether the list has no elements.
    pub fn is_empty(&self) -> bool {
        self.elements().next().is_none()
    }

    /// The elements, each as a document of its own.
    pub fn iter(&self) -> impl Iterator<Item = PortSummary> {
        self.elements().map(|element| {
            element.show(|shown| PortSummary {
                ip: shown.ip.to_owned(),
                private_port: shown.private_port,
                public_port: shown.public_port,
                kind: shown.kind.to_owned(),
            })
        })
    }

    fn elements(&self) -> impl Iterator<Item = Element<'_>> {
        let usual = |port: &PortText<'_>| port.split('/').next().is_some_and(|number| number.parse::<u16>().is_ok());
        self.0.iter().filter(move |(port, _)| usual(port)).flat_map(|(port, bindings)| {
            let bare = bindings.is_none().then_some(Element { port, host: None });
            let bound = bindings.into_iter().flat_map(|bindings| bindings.iter());
            bare.into_iter().chain(bound.map(move |host| Element { port, host: Some(host) }))
        })
    }
}

/// A port, and one of its bindings.
struct Element<'a> {
    port: PortText<'a>,
    host: Option<(PortText<'a>, PortText<'a>)>,
}

impl Element<'_> {
    fn show<T>(&self, take: impl FnOnce(Shown<'_>) -> T) -> T {
        let (number, kind) = self.port.split_once('/').unwrap_or((&self.port, "tcp"));
        take(Shown {
            ip: self.host.as_ref().map_or("", |(ip, _)| ip),
            private_port: number.parse().unwrap_or_default(),
            public_port: self.host.as_ref().and_then(|(_, port)| port.parse().ok()),
            kind,
        })
    }
}

impl Serialize for Element<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.show(|shown| shown.serialize(serializer))
    }
}

impl From<PortMap> for PortList {
    fn from(ports: PortMap) -> PortList {
        PortList(ports)
    }
}

impl FromIterator<PortSummary> for PortList {
    fn from_iter<I: IntoIterator<Item = PortSummary>>(all: I) -> PortList {
        let row = |port: PortSummary| {
            let host = port.public_port.map(|public| (port.ip, public.to_string()));
            (format!("{}/{}", port.private_port, port.kind), host)
        };
        PortList(PortMap::of_rows(all.into_iter().map(row)))
    }
}

impl fmt::Debug for PortList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for PortList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.elements())
    }
}

impl<'de> serde::Deserialize<'de> for PortList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PortList, D::Error> {
        deserializer.deserialize_seq(Elements)
    }
}

struct Elements;

impl<'de> Visitor<'de> for Elements {
    type Value = PortList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<PortList, A::Error> {
        let mut failed = None;
        let ports = std::iter::from_fn(|| {
            elements.next_element::<PortSummary>().unwrap_or_else(|e| {
                failed = Some(e);
                None
            })
        });
        let list = ports.collect();
        failed.map_or(Ok(list), Err)
    }
}
