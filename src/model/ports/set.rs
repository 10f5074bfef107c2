//! `ExposedPorts`.

use super::runs::{Port, Range, Runs, is_usual, lengths};
use super::{Odd, PortText};
use crate::model::Empty;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use std::fmt::{self, Write};
use std::sync::Arc;

/// A set of ports, ordered by their texts; in a document an object of empty objects. A port takes four bytes unless it is
/// written in another form than `80/tcp`. Clones share it.
///
/// ```
/// use coracle::model::PortSet;
///
/// let ports: PortSet = ["80/tcp", "53/udp"].into_iter().collect();
/// assert!(ports.contains("80/tcp"));
/// assert_eq!(serde_json::to_string(&ports).unwrap(), r#"{"53/udp":{},"80/tcp":{}}"#);
/// ```
#[derive(Clone, Default)]
pub struct PortSet(Option<Arc<Ports>>);

#[derive(Clone, Default)]
struct Ports {
    codes: Vec<u32>,
    odd: Odd,
}

impl Ports {
    fn sort(&mut self) {
        let Ports { codes, odd } = self;
        if !codes.is_sorted_by(|a, b| odd.order(*a, *b).is_lt()) {
            codes.sort_unstable_by(|a, b| odd.order(*a, *b));
            codes.dedup_by(|a, b| odd.order(*a, *b).is_eq());
        }
        codes.shrink_to_fit();
    }

    fn find(&self, port: &str) -> Result<usize, usize> {
        self.codes.binary_search_by(|code| self.odd.port_text(*code).as_ref().cmp(port))
    }
}

impl PortSet {
    /// No ports.
    pub fn new() -> PortSet {
        PortSet::default()
    }

    /// The number of ports.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |ports| ports.codes.len())
    }

    /// Whether there is no port.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `port`, in this spelling, is in the set.
    pub fn contains(&self, port: &str) -> bool {
        self.0.as_ref().is_some_and(|ports| ports.find(port).is_ok())
    }

    /// Adds `port`. [`Extend`] adds many at once.
    pub fn insert(&mut self, port: &str) {
        let ports = Arc::make_mut(self.0.get_or_insert_default());
        if let Err(place) = ports.find(port) {
            let code = ports.odd.port(port);
            ports.codes.insert(place, code);
        }
    }

    /// The ports, in the order of their texts.
    pub fn iter(&self) -> impl Iterator<Item = PortText<'_>> {
        let ports = self.0.as_deref().into_iter();
        ports.flat_map(|ports| ports.codes.iter().map(|code| ports.odd.port_text(*code)))
    }
}

impl<S: AsRef<str>> Extend<S> for PortSet {
    fn extend<I: IntoIterator<Item = S>>(&mut self, more: I) {
        let mut more = more.into_iter().peekable();
        if more.peek().is_none() {
            return;
        }
        let ports = Arc::make_mut(self.0.get_or_insert_default());
        for port in more {
            let code = ports.odd.port(port.as_ref());
            ports.codes.push(code);
        }
        ports.sort();
    }
}

impl<S: AsRef<str>> FromIterator<S> for PortSet {
    fn from_iter<I: IntoIterator<Item = S>>(all: I) -> PortSet {
        let mut set = PortSet::new();
        set.extend(all);
        set
    }
}

impl PartialEq for PortSet {
    fn eq(&self, other: &PortSet) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for PortSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        self.iter().try_for_each(|port| map.serialize_entry(&*port, &Empty {}))?;
        map.end()
    }
}

impl<'de> serde::Deserialize<'de> for PortSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PortSet, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = PortSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<PortSet, A::Error> {
        let mut ports = Ports::default();
        while let Some(code) = members.next_key_seed(Name(&mut ports.odd))? {
            members.next_value::<Empty>()?;
            ports.codes.push(code);
        }
        ports.sort();
        Ok(PortSet((!ports.codes.is_empty()).then(|| Arc::new(ports))))
    }
}

/// In one text with spaces between: `80-89/tcp 53/udp`.
impl Runs for PortSet {
    fn count(&self) -> usize {
        self.len()
    }

    fn odd(&self) -> PortSet {
        let ports = self.0.as_deref().into_iter();
        let odd = ports
            .flat_map(|ports| ports.codes.iter().filter(|code| !is_usual(**code)).map(|c| ports.odd.port_text(*c)));
        odd.collect()
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let codes = self.0.as_deref().map_or(&[][..], |ports| &ports.codes);
        let mut ports: Vec<Port> = codes.iter().copied().filter(|code| is_usual(*code)).map(Port::of_code).collect();
        ports.sort_unstable();
        let mut text = String::new();
        for run in lengths(ports.len(), |from, at| ports[at].follows(ports[from], at - from)) {
            let space = if text.is_empty() { "" } else { " " };
            let range = Range { first: ports[run.start], count: run.len() as u16 };
            write!(text, "{space}{range}").map_err(S::Error::custom)?;
        }
        serializer.serialize_str(&text)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PortSet, D::Error> {
        deserializer.deserialize_str(Text)
    }

    fn joined(mut self, odd: PortSet) -> PortSet {
        self.extend(odd.iter());
        self
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = PortSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ranges of ports")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PortSet, E> {
        let mut ports = Ports::default();
        for range in text.split_ascii_whitespace() {
            let range: Range = range.parse().map_err(E::custom)?;
            ports.codes.extend(range.codes().map(|(_, code)| code));
        }
        ports.sort();
        Ok(PortSet((!ports.codes.is_empty()).then(|| Arc::new(ports))))
    }
}

/// A member's name that is converted to a port's code while it is read.
pub(super) struct Name<'a>(pub &'a mut Odd);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = u32;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u32, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<u32, E> {
        Ok(self.0.port(text))
    }
}
