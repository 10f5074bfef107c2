//! Reads the parts of a log that the monitor wrote: times, and escapes of JSON. The library's readers of logs and the
//! crate that delivers them share these.

use crate::text::{civil, days_to};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Nanoseconds since 1970 of an RFC 3339 time; `None`: the text is malformed or outside the years 1678 to 2261.
pub fn parse_rfc3339(text: &[u8]) -> Option<i64> {
    TimeReader::default().parse(text)
}

/// Reads times of which many have the same second: a log's.
#[derive(Default)]
pub struct TimeReader {
    head: [u8; 19],
    seconds: i64,
}

impl TimeReader {
    /// As [`parse_rfc3339`].
    pub fn parse(&mut self, text: &[u8]) -> Option<i64> {
        let (head, tail) = text.split_first_chunk::<19>()?;
        if *head != self.head {
            self.seconds = seconds_of(head)?;
            self.head = *head;
        }
        let (offset, fraction) = offset_and_fraction(tail)?;
        self.seconds.checked_add(offset)?.checked_mul(SECOND)?.checked_add(fraction)
    }
}

/// Seconds since 1970 of `2006-01-02T15:04:05`.
fn seconds_of(text: &[u8]) -> Option<i64> {
    let number = |at: usize, length: usize| {
        text.get(at..at + length)?
            .iter()
            .try_fold(0i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|&(at, mark)| text.get(at) != Some(&mark)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let days = days_to(year, month, day);
    if !(1..=12).contains(&month) || civil(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(days * DAY + hour * 3600 + minute * 60 + second)
}

/// Reads the end of a time after its seconds: `.123Z`, `Z`, `.5+02:00`. Returns the seconds to add for UTC, and
/// nanoseconds.
fn offset_and_fraction(text: &[u8]) -> Option<(i64, i64)> {
    let (nanos, zone) = fraction(text)?;
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    match *zone {
        [b'Z'] => Some((0, nanos)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let offset = (digit(h1)? * 10 + digit(h2)?) * 3600 + (digit(m1)? * 10 + digit(m2)?) * 60;
            Some((if sign == b'+' { -offset } else { offset }, nanos))
        }
        _ => None,
    }
}

/// The nanoseconds of `.123` and the text after it.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = text.strip_prefix(b".") else { return Some((0, text)) };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 || count > 9 {
        return None;
    }
    let value = digits[..count].iter().fold(0i64, |sum, byte| sum * 10 + i64::from(byte - b'0'));
    Some((value * 10i64.pow(9 - count as u32), &digits[count..]))
}

/// Decodes an escape of a JSON string behind its backslash: its character, and the bytes that it takes behind the
/// backslash. Half of a surrogate pair is U+FFFD, as in Go. `None`: it is not an escape.
pub fn escape(rest: &[u8]) -> Option<(char, usize)> {
    let character = match rest.first()? {
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        &byte @ (b'"' | b'\\' | b'/') => char::from(byte),
        b'u' => return unicode(&rest[1..]),
        _ => return None,
    };
    Some((character, 1))
}

/// Decodes four hex digits, or the eight of a surrogate pair, behind `u`.
fn unicode(rest: &[u8]) -> Option<(char, usize)> {
    let first = hex4(rest.get(..4)?)?;
    let low = |rest: &[u8]| hex4(rest.strip_prefix(b"\\u")?.get(..4)?).filter(|low| (0xdc00..0xe000).contains(low));
    let (code, length) = match (first, low(&rest[4..])) {
        (0xd800..0xdc00, Some(low)) => (0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00), 11),
        _ => (first, 5),
    };
    Some((char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), length))
}

fn hex4(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, byte| Some(sum * 16 + char::from(*byte).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        for (text, wanted) in [
            (&b"n\","[..], Some(('\n', 1))),
            (b"\\x", Some(('\\', 1))),
            (b"u003cx", Some(('<', 5))),
            (b"ud83d\\ude00", Some(('\u{1f600}', 11))),
            (b"ud83dx", Some(('\u{fffd}', 5))),
            (b"ud83d\\u0041", Some(('\u{fffd}', 5))),
            (b"u00g0", None),
            (b"u00", None),
            (b"q", None),
            (b"", None),
        ] {
            assert_eq!(escape(text), wanted, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn the_parser_refuses_malformed_times() {
        for text in [
            "",
            "2026-11-21",
            "2026-11-21T12:20:28",
            "2026-13-21T12:20:28Z",
            "2026-02-29T12:20:28Z",
            "2026-11-21T24:20:28Z",
            "2026-11-21T12:20:28.Z",
            "2026-11-21T12:20:28.1234567890Z",
            "2026-11-21T12:20:28Zx",
            "2026-11-21 12:20:28Z",
            "9999-11-21T12:20:28Z",
            "+026-11-21T12:20:28Z",
        ] {
            assert_eq!(parse_rfc3339(text.as_bytes()), None, "{text}");
        }
    }
}
