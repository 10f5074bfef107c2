//! Many ports in the store's form: consecutive ports are one element, so the text of all 65,535 is short.
//!
//! Only ports in their usual form become runs; the others stay in the set or map beside them.

use super::{ODD, PLACES, PROTOCOLS, Short, text_of_number};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A set or map of ports that can be written as runs.
pub(crate) trait Runs: Sized {
    /// The number of ports.
    fn count(&self) -> usize;

    /// The ports that do not fit into runs.
    fn odd(&self) -> Self;

    /// Writes the other ports, as runs.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Reads runs.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// The union of two disjoint sets or maps.
    fn joined(self, odd: Self) -> Self;
}

/// Ports as runs: in a document the element that [`Runs`] writes and reads.
pub(crate) struct AsRuns<T>(pub(crate) T);

impl<T: Runs> Serialize for AsRuns<&T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(serializer)
    }
}

impl<'de, T: Runs> Deserialize<'de> for AsRuns<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AsRuns<T>, D::Error> {
        T::read(deserializer).map(AsRuns)
    }
}

/// Whether a port's code is that of a usual form.
pub(super) fn is_usual(code: u32) -> bool {
    code < ODD
}

/// A port in its usual form as numbers: in this order consecutive ports are neighbours, unlike in the order of their
/// texts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    protocol: u8,
    number: u16,
}

impl Port {
    pub(super) fn of_code(code: u32) -> Port {
        let digits = PLACES.into_iter().map(|place| code >> place & 15).filter(|digit| *digit != 0);
        let number = digits.fold(0, |number, digit| number * 10 + digit - 1);
        Port { protocol: (code & 3) as u8, number: number as u16 }
    }

    fn code(self) -> u32 {
        let Short { bytes, length } = text_of_number(u32::from(self.number));
        let digits = bytes[..usize::from(length)].iter().zip(PLACES);
        digits.map(|(digit, place)| (u32::from(digit - b'0') + 1) << place).sum::<u32>() | u32::from(self.protocol)
    }

    /// Whether the port is the one `by` after `first`.
    pub(super) fn follows(self, first: Port, by: usize) -> bool {
        self.protocol == first.protocol && usize::from(self.number) == usize::from(first.number) + by
    }
}

/// Consecutive ports: `80-89/tcp`, or `80/tcp` for a single one.
pub(super) struct Range {
    pub(super) first: Port,
    pub(super) count: u16,
}

impl Range {
    /// The codes of the range's ports, with the index of each.
    pub(super) fn codes(&self) -> impl Iterator<Item = (u32, u32)> {
        let Port { protocol, number } = self.first;
        (0..self.count).map(move |place| (u32::from(place), Port { protocol, number: number + place }.code()))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Port { protocol, number } = self.first;
        write!(f, "{number}")?;
        if self.count > 1 {
            write!(f, "-{}", number + (self.count - 1))?;
        }
        write!(f, "/{}", PROTOCOLS[usize::from(protocol) % PROTOCOLS.len()])
    }
}

/// A text that is not a range.
#[derive(Debug)]
pub(super) struct NoRange(String);

impl fmt::Display for NoRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a range of ports", self.0)
    }
}

impl FromStr for Range {
    type Err = NoRange;

    fn from_str(text: &str) -> Result<Range, NoRange> {
        let read = || {
            let (numbers, name) = text.split_once('/')?;
            let protocol = PROTOCOLS.iter().position(|known| *known == name)? as u8;
            let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
            let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
            let count = last.checked_sub(first)?.checked_add(1).filter(|_| first != 0)?;
            Some(Range { first: Port { protocol, number: first }, count })
        };
        read().ok_or_else(|| NoRange(text.to_owned()))
    }
}

/// The lengths of the runs in this many elements: `goes_on(from, at)` says whether the element at `at` belongs to the
/// run that begins at `from`.
pub(super) fn lengths(
    all: usize,
    mut goes_on: impl FnMut(usize, usize) -> bool,
) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from;
        (start < all).then(|| {
            from = (start + 1..all).find(|at| !goes_on(start, *at)).unwrap_or(all);
            start..from
        })
    })
}
