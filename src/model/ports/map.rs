//! `PortBindings` and `Ports`.

use super::runs::{Port, Range, Runs, is_usual, lengths};
use super::set::Name;
use super::{Form, ODD, Odd, PortText, code_of_port, number_of, text_of_number};
use crate::model::PortBinding;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use std::fmt;
use std::sync::Arc;

/// Ports, each with its host addresses and ports, ordered by their texts; in a document an object of lists, or of null
/// if a port is only exposed. A port takes twelve bytes and each binding eight, unless they are written in unusual
/// forms. Clones share it.
///
/// ```
/// use coracle::model::PortMap;
///
/// let ports = PortMap::of_rows([("80/tcp", Some(("127.0.0.1", "8080"))), ("53/udp", None)]);
/// assert_eq!(ports.get("80/tcp").flatten().unwrap()[0].host_port, "8080");
/// assert_eq!(ports.get("53/udp"), Some(None), "exposed, and not published");
/// ```
#[derive(Clone, Default)]
pub struct PortMap(Option<Arc<Ports>>);

#[derive(Clone, Default)]
struct Ports {
    entries: Vec<Entry>,
    /// The codes of each binding's address and port.
    bindings: Vec<(u32, u32)>,
    odd: Odd,
}

/// A port, and the index of its bindings.
#[derive(Clone, Copy)]
struct Entry {
    port: u32,
    first: u32,
    /// The number of bindings; [`NONE`]: null in the document.
    count: u32,
}

const NONE: u32 = u32::MAX;

/// Whether earlier bindings of a repeated port stay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    Replaces,
    Adds,
}

impl Ports {
    /// Adds a port after all others, without bindings.
    fn begin(&mut self, port: u32) {
        self.entries.push(Entry { port, first: self.bindings.len() as u32, count: NONE });
    }

    /// Gives the last port a list, which may stay empty.
    fn listed(&mut self) {
        if let Some(entry) = self.entries.last_mut()
            && entry.count == NONE
        {
            entry.count = 0;
        }
    }

    /// Adds a binding to the last port.
    fn bind(&mut self, host_ip: &str, host_port: &str) {
        let binding = (self.odd.number(host_ip), self.odd.number(host_port));
        self.bindings.push(binding);
        self.listed();
        if let Some(entry) = self.entries.last_mut() {
            entry.count += 1;
        }
    }

    /// Like [`Ports::bind`], to the host's port `by` after `host_port`. None: no such port exists.
    fn bind_further(&mut self, host_ip: &str, host_port: &str, by: u32) -> Option<()> {
        if by == 0 {
            self.bind(host_ip, host_port);
            return Some(());
        }
        let port = number_of(host_port)?.checked_add(by).filter(|port| *port <= u32::from(u16::MAX))?;
        self.bind(host_ip, &PortText(Form::Usual(text_of_number(port))));
        Some(())
    }

    /// Whether the bindings of `b` are those of `a` with host ports higher by `by`.
    fn leads(&self, a: &Entry, b: &Entry, by: u32) -> bool {
        let of = |entry| self.of(entry).map_or(&[][..], |bindings| bindings.codes);
        let leads = |((ip, port), (other_ip, other_port)): (&(u32, u32), &(u32, u32))| {
            ip == other_ip && port + by == *other_port && (by == 0 || *other_port < ODD)
        };
        a.count == b.count && of(a).iter().zip(of(b)).all(leads)
    }

    /// Sorts the ports. Repeated ports become one.
    fn sort(&mut self, again: Again) {
        let Ports { entries, bindings, odd } = self;
        if !entries.is_sorted_by(|a, b| odd.order(a.port, b.port).is_lt()) {
            // Stable: of a repeated port the last entry comes last.
            entries.sort_by(|a, b| odd.order(a.port, b.port));
            entries.dedup_by(|later, kept| {
                let same = odd.order(later.port, kept.port).is_eq();
                if same {
                    *kept = if again == Again::Replaces { *later } else { joined(bindings, *kept, *later) };
                }
                same
            });
        }
        entries.shrink_to_fit();
        bindings.shrink_to_fit();
    }

    fn of(&self, entry: &Entry) -> Option<Bindings<'_>> {
        let (first, count) = (entry.first as usize, entry.count as usize);
        (entry.count != NONE).then(|| Bindings { codes: &self.bindings[first..first + count], odd: &self.odd })
    }

    fn find(&self, port: &str) -> Option<&Entry> {
        let order = |entry: &Entry| self.odd.port_text(entry.port).as_ref().cmp(port);
        self.entries.binary_search_by(order).ok().map(|at| &self.entries[at])
    }
}

fn joined(bindings: &mut Vec<(u32, u32)>, a: Entry, b: Entry) -> Entry {
    if a.count == NONE || b.count == NONE {
        return if a.count == NONE { b } else { a };
    }
    if a.first + a.count != b.first {
        let first = bindings.len() as u32;
        for entry in [a, b] {
            bindings.extend_from_within(entry.first as usize..(entry.first + entry.count) as usize);
        }
        return Entry { port: a.port, first, count: a.count + b.count };
    }
    Entry { count: a.count + b.count, ..a }
}

/// The host's addresses of one port.
///
/// ```
/// use coracle::model::PortMap;
///
/// let ports = PortMap::of_rows([("80/tcp", Some(("127.0.0.1", "8080")))]);
/// for (port, bindings) in ports.iter() {
///     let bindings = bindings.expect("the port has a binding");
///     assert_eq!((&*port, bindings.len()), ("80/tcp", 1));
///     assert_eq!(bindings.to_vec()[0].host_port, "8080");
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Bindings<'a> {
    codes: &'a [(u32, u32)],
    odd: &'a Odd,
}

impl<'a> Bindings<'a> {
    /// The host's address and port of each binding.
    pub fn iter(self) -> impl Iterator<Item = (PortText<'a>, PortText<'a>)> {
        self.codes.iter().map(move |(ip, port)| (self.odd.number_text(*ip), self.odd.number_text(*port)))
    }

    /// The number of bindings.
    pub fn len(self) -> usize {
        self.codes.len()
    }

    /// Whether there is no binding.
    pub fn is_empty(self) -> bool {
        self.codes.is_empty()
    }

    /// Each binding as a document of its own.
    pub fn to_vec(self) -> Vec<PortBinding> {
        let binding = |(ip, port): (PortText<'_>, PortText<'_>)| PortBinding {
            host_ip: ip.as_ref().to_owned(),
            host_port: port.as_ref().to_owned(),
        };
        self.iter().map(binding).collect()
    }
}

impl PortMap {
    /// No ports.
    pub fn new() -> PortMap {
        PortMap::default()
    }

    /// The number of ports.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |ports| ports.entries.len())
    }

    /// Whether there is no port.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bindings of `port` in this spelling; the inner `None` is null in a document.
    pub fn get(&self, port: &str) -> Option<Option<Vec<PortBinding>>> {
        let ports = self.0.as_ref()?;
        ports.find(port).map(|entry| ports.of(entry).map(Bindings::to_vec))
    }

    /// The ports, in the order of their texts.
    pub fn keys(&self) -> impl Iterator<Item = PortText<'_>> {
        self.iter().map(|(port, _)| port)
    }

    /// The ports with their bindings, in the order of their texts.
    pub fn iter(&self) -> impl Iterator<Item = (PortText<'_>, Option<Bindings<'_>>)> {
        let ports = self.0.as_deref().into_iter();
        ports.flat_map(|ports| ports.entries.iter().map(|entry| (ports.odd.port_text(entry.port), ports.of(entry))))
    }

    /// Every binding of every port.
    pub fn bindings(&self) -> impl Iterator<Item = (PortText<'_>, PortText<'_>)> {
        self.iter().filter_map(|(_, bindings)| bindings).flat_map(Bindings::iter)
    }

    /// A map of rows in any order: a port with the host's address and port, or without them if it is only exposed. Rows
    /// of one port become one list.
    pub fn of_rows<P: AsRef<str>, T: AsRef<str>>(rows: impl IntoIterator<Item = (P, Option<(T, T)>)>) -> PortMap {
        let mut ports = Ports::default();
        for (port, binding) in rows {
            let code = ports.odd.port(port.as_ref());
            ports.begin(code);
            if let Some((ip, host_port)) = binding {
                ports.bind(ip.as_ref(), host_port.as_ref());
            }
        }
        PortMap::sorted(ports, Again::Adds)
    }

    fn sorted(mut ports: Ports, again: Again) -> PortMap {
        ports.sort(again);
        PortMap((!ports.entries.is_empty()).then(|| Arc::new(ports)))
    }
}

impl<S: AsRef<str>> FromIterator<(S, Option<Vec<PortBinding>>)> for PortMap {
    fn from_iter<I: IntoIterator<Item = (S, Option<Vec<PortBinding>>)>>(all: I) -> PortMap {
        let mut ports = Ports::default();
        for (port, bindings) in all {
            let code = ports.odd.port(port.as_ref());
            ports.begin(code);
            add(&mut ports, bindings.as_deref());
        }
        PortMap::sorted(ports, Again::Replaces)
    }
}

fn add(ports: &mut Ports, bindings: Option<&[PortBinding]>) {
    let Some(bindings) = bindings else { return };
    ports.listed();
    bindings.iter().for_each(|binding| ports.bind(&binding.host_ip, &binding.host_port));
}

impl PartialEq for PortMap {
    fn eq(&self, other: &PortMap) -> bool {
        let same = |a: Option<Bindings<'_>>, b: Option<Bindings<'_>>| match (a, b) {
            (Some(a), Some(b)) => a.iter().eq(b.iter()),
            (a, b) => a.is_none() == b.is_none(),
        };
        self.len() == other.len() && self.iter().zip(other.iter()).all(|((a, at), (b, bt))| a == b && same(at, bt))
    }
}

impl fmt::Debug for PortMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(port, bindings)| (port, bindings.map(Bindings::to_vec)))).finish()
    }
}

/// A [`PortBinding`] with borrowed texts.
#[derive(serde::Serialize)]
#[serde(rename_all = "PascalCase")]
struct Shown<'a> {
    host_ip: &'a str,
    host_port: &'a str,
}

impl Serialize for Bindings<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct One<'a>((PortText<'a>, PortText<'a>));
        impl Serialize for One<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Shown { host_ip: &self.0.0, host_port: &self.0.1 }.serialize(serializer)
            }
        }
        serializer.collect_seq(self.iter().map(One))
    }
}

impl Serialize for PortMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        self.iter().try_for_each(|(port, bindings)| map.serialize_entry(&*port, &bindings))?;
        map.end()
    }
}

impl<'de> serde::Deserialize<'de> for PortMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PortMap, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = PortMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<PortMap, A::Error> {
        let mut ports = Ports::default();
        while let Some(code) = members.next_key_seed(Name(&mut ports.odd))? {
            ports.begin(code);
            let bindings = members.next_value::<Option<Vec<PortBinding>>>()?;
            add(&mut ports, bindings.as_deref());
        }
        Ok(PortMap::sorted(ports, Again::Replaces))
    }
}

/// A range; the step of the host's ports from port to port, 0 or 1; the host's address and port of each binding of the
/// first port.
type Row = (String, u32, Option<Vec<(String, String)>>);

/// In rows: `["80-89/tcp", 1, [["127.0.0.1", "8080"]]]` maps 8080 to 80, 8081 to 81, and so on.
impl Runs for PortMap {
    fn count(&self) -> usize {
        self.len()
    }

    fn odd(&self) -> PortMap {
        let odd = self.iter().filter(|(port, _)| code_of_port(port).is_none());
        odd.map(|(port, bindings)| (port, bindings.map(Bindings::to_vec))).collect()
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let none = Ports::default();
        let ports = self.0.as_deref().unwrap_or(&none);
        let mut entries: Vec<&Entry> = ports.entries.iter().filter(|entry| is_usual(entry.port)).collect();
        entries.sort_unstable_by_key(|entry| Port::of_code(entry.port));
        // The second port of a run shows the step of the host's ports.
        let grows = |from: usize| u32::from(!ports.leads(entries[from], entries[from + 1], 0));
        let runs = lengths(entries.len(), |from, at| {
            let (first, next, by) = (entries[from], entries[at], at - from);
            let neighbours = Port::of_code(next.port).follows(Port::of_code(first.port), by);
            neighbours && ports.leads(first, next, grows(from) * by as u32)
        });
        let mut rows = serializer.serialize_seq(None)?;
        for run in runs {
            let (first, count) = (entries[run.start], run.len());
            let range = Range { first: Port::of_code(first.port), count: count as u16 };
            let texts = |(ip, port): (PortText<'_>, PortText<'_>)| (ip.to_string(), port.to_string());
            let bindings = ports.of(first).map(|bindings| bindings.iter().map(texts).collect());
            let row: Row = (range.to_string(), if count > 1 { grows(run.start) } else { 0 }, bindings);
            rows.serialize_element(&row)?;
        }
        rows.end()
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PortMap, D::Error> {
        deserializer.deserialize_seq(Rows)
    }

    fn joined(self, odd: PortMap) -> PortMap {
        if odd.is_empty() {
            return self;
        }
        let both = self.iter().chain(odd.iter());
        both.map(|(port, bindings)| (port, bindings.map(Bindings::to_vec))).collect()
    }
}

struct Rows;

impl<'de> Visitor<'de> for Rows {
    type Value = PortMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows of ports")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<PortMap, A::Error> {
        let mut ports = Ports::default();
        while let Some((range, step, bindings)) = rows.next_element::<Row>()? {
            let range: Range = range.parse().map_err(A::Error::custom)?;
            for (place, code) in range.codes() {
                ports.begin(code);
                if let Some(bindings) = &bindings {
                    ports.listed();
                    let by = step.saturating_mul(place);
                    let bound = bindings.iter().try_for_each(|(ip, port)| ports.bind_further(ip, port, by));
                    bound.ok_or_else(|| A::Error::custom("a run's ports of the host are not numbers up to 65535"))?;
                }
            }
        }
        Ok(PortMap::sorted(ports, Again::Replaces))
    }
}
