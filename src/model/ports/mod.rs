//! The ports of requests and answers, small in memory: a container may name all 65,535.
//!
//! A document writes each port as a text and each binding as two, which would take twenty times their size in memory.
//! So a port in its usual form (`80/tcp`) is stored as one number, as are the host's ports; only unusual texts are
//! kept.

mod list;
mod map;
pub(crate) mod runs;
mod set;

pub use list::PortList;
pub use map::{Bindings, PortMap};
pub use set::PortSet;

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

/// The transports in the order of their names, which is the order of codes.
const PROTOCOLS: [&str; 3] = ["sctp", "tcp", "udp"];
/// The positions of a port's digits in its code, four bits each; the two lowest bits are the protocol's.
const PLACES: [u32; 5] = [18, 14, 10, 6, 2];
/// Codes from here on are indices in a list of unusual texts.
const ODD: u32 = 1 << 22;

/// The code of a port in its usual form: codes sort like the texts. `None`: the form is unusual.
fn code_of_port(text: &str) -> Option<u32> {
    let (digits, protocol) = text.split_once('/')?;
    let protocol = PROTOCOLS.iter().position(|name| *name == protocol)?;
    number_of(digits).filter(|number| *number != 0)?;
    // A missing digit sorts before all others, as does the slash after the digits.
    let places = digits.bytes().zip(PLACES).map(|(digit, place)| (u32::from(digit - b'0') + 1) << place);
    Some(places.sum::<u32>() | protocol as u32)
}

/// The text for [`code_of_port`].
fn port_of_code(code: u32) -> Short {
    let mut text = Short::default();
    for place in PLACES {
        match code >> place & 15 {
            0 => break,
            digit => text.push(b'0' + (digit - 1) as u8),
        }
    }
    text.push(b'/');
    PROTOCOLS[(code & 3) as usize % PROTOCOLS.len()].bytes().for_each(|byte| text.push(byte));
    text
}

/// A number from 0 to 65535 without leading zeros.
fn number_of(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_shortest = text == "0" || !text.starts_with('0');
    text.parse::<u16>().ok().filter(|_| is_plain && is_shortest).map(u32::from)
}

/// The text for [`number_of`].
fn text_of_number(mut number: u32) -> Short {
    let mut digits = [0; 5];
    let mut from = digits.len();
    loop {
        from -= 1;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 || from == 0 {
            break;
        }
    }
    let mut text = Short::default();
    digits[from..].iter().for_each(|digit| text.push(*digit));
    text
}

/// Up to ten ASCII characters: `65535/sctp` is the longest.
#[derive(Clone, Copy, Default)]
struct Short {
    bytes: [u8; 10],
    length: u8,
}

impl Short {
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(usize::from(self.length)) {
            *place = byte;
            self.length += 1;
        }
    }
}

/// The text of a port, or of the host's address or port, in its original spelling.
///
/// ```
/// use coracle::model::PortMap;
///
/// let ports = PortMap::of_rows([("80/tcp", Some(("", "8080")))]);
/// let (address, port) = ports.bindings().next().expect("one binding");
/// assert_eq!(address, "");
/// assert_eq!(port.to_string(), "8080");
/// ```
#[derive(Clone, Copy)]
pub struct PortText<'a>(Form<'a>);

#[derive(Clone, Copy)]
enum Form<'a> {
    Usual(Short),
    Odd(&'a str),
}

impl Deref for PortText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Form::Usual(text) => std::str::from_utf8(&text.bytes[..usize::from(text.length)]).unwrap_or_default(),
            Form::Odd(text) => text,
        }
    }
}

impl AsRef<str> for PortText<'_> {
    fn as_ref(&self) -> &str {
        self
    }
}

impl fmt::Display for PortText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for PortText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl PartialEq for PortText<'_> {
    fn eq(&self, other: &PortText<'_>) -> bool {
        **self == **other
    }
}

impl PartialEq<str> for PortText<'_> {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for PortText<'_> {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

/// The unusual texts of a set or map.
#[derive(Clone, Default)]
struct Odd(Vec<Box<str>>);

/// This many of the last unusual texts are searched for an equal one: bindings have few different addresses.
const LOOK_BACK: usize = 8;

impl Odd {
    /// The code of a port.
    fn port(&mut self, text: &str) -> u32 {
        code_of_port(text).unwrap_or_else(|| self.place(text))
    }

    /// The code of a host's port or address.
    fn number(&mut self, text: &str) -> u32 {
        number_of(text).unwrap_or_else(|| self.place(text))
    }

    fn place(&mut self, text: &str) -> u32 {
        let last = self.0.len().saturating_sub(LOOK_BACK);
        let place = self.0[last..].iter().position(|known| **known == *text).map(|at| last + at);
        let place = place.unwrap_or_else(|| {
            self.0.push(text.into());
            self.0.len() - 1
        });
        ODD + place as u32
    }

    fn text(&self, code: u32, usual: fn(u32) -> Short) -> PortText<'_> {
        match code.checked_sub(ODD) {
            Some(place) => PortText(Form::Odd(self.0.get(place as usize).map_or("", |text| text))),
            None => PortText(Form::Usual(usual(code))),
        }
    }

    fn port_text(&self, code: u32) -> PortText<'_> {
        self.text(code, port_of_code)
    }

    fn number_text(&self, code: u32) -> PortText<'_> {
        self.text(code, text_of_number)
    }

    /// Ports sort like their texts.
    fn order(&self, a: u32, b: u32) -> Ordering {
        if a < ODD && b < ODD { a.cmp(&b) } else { self.port_text(a).cmp(&*self.port_text(b)) }
    }
}

#[cfg(test)]
mod tests;
