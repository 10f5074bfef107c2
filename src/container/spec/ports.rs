//! The parts of a spec that hold ports, in their stored form: many ports are stored as runs, beside the rest of the
//! part.
//!
//! As a full list, 65,535 ports are a document of megabytes, which SQLite copies several times. Specs with few ports
//! keep their old form. To a version without runs, a spec with runs is damaged, never a spec without ports.

use crate::model::ports::runs::{AsRuns, Runs};
use crate::model::{ContainerConfig, PortSet};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;

/// More ports than this are stored as runs.
const MANY: usize = 1024;

/// A part of a spec that holds ports.
pub(super) trait HoldsPorts: Serialize + Clone + Default {
    type Ports: Runs + Default;

    fn ports(&self) -> &Self::Ports;

    fn ports_mut(&mut self) -> &mut Self::Ports;
}

impl HoldsPorts for ContainerConfig {
    type Ports = PortSet;

    fn ports(&self) -> &PortSet {
        &self.exposed_ports
    }

    fn ports_mut(&mut self) -> &mut PortSet {
        &mut self.exposed_ports
    }
}

pub(super) fn serialize<T: HoldsPorts, S: Serializer>(part: &T, serializer: S) -> Result<S::Ok, S::Error> {
    if part.ports().count() <= MANY {
        return part.serialize(serializer);
    }
    let mut rest = part.clone();
    *rest.ports_mut() = part.ports().odd();
    (rest, AsRuns(part.ports())).serialize(serializer)
}

pub(super) fn deserialize<'de, T: HoldsPorts + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(Part(PhantomData))
}

struct Part<T>(PhantomData<T>);

impl<'de, T: HoldsPorts + Deserialize<'de>> Visitor<'de> for Part<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map, or a pair of a map and runs of ports")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<T, A::Error> {
        let none = |place| A::Error::invalid_length(place, &self);
        let mut part: T = pair.next_element()?.ok_or_else(|| none(0))?;
        let AsRuns(runs): AsRuns<T::Ports> = pair.next_element()?.ok_or_else(|| none(1))?;
        let odd = std::mem::take(part.ports_mut());
        *part.ports_mut() = runs.joined(odd);
        Ok(part)
    }
}
