//! Times as text: RFC 3339 with up to nine digits of a second, as Go writes and reads them.

pub(crate) use coracle_monitor::text::civil as date_of;
use coracle_monitor::text::{days_to, rfc3339};
use std::time::SystemTime;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> i64 {
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    }
}

/// `2006-01-02T15:04:05.999999999Z`: the fraction without trailing zeros, left out if it is zero.
pub(crate) fn rfc3339_nano(time_ns: i64) -> String {
    let fixed = rfc3339_fixed(time_ns);
    let fixed = std::str::from_utf8(&fixed[..29]).unwrap_or_default();
    format!("{}Z", fixed.trim_end_matches('0').trim_end_matches('.'))
}

/// `2006-01-02T15:04:05.000000000Z`: always nine digits.
pub(crate) fn rfc3339_fixed(time_ns: i64) -> [u8; 30] {
    let mut text = [0; 30];
    rfc3339(&mut text, time_ns);
    text
}

/// Nanoseconds since 1970 of an RFC 3339 time; `None`: the text is malformed or outside the years 1678 to 2261.
pub(crate) fn parse_rfc3339(text: &[u8]) -> Option<i64> {
    Reader::default().parse(text)
}

/// Reads times of which many have the same second: a log's.
#[derive(Default)]
pub(crate) struct Reader {
    head: [u8; 19],
    seconds: i64,
}

impl Reader {
    /// As [`parse_rfc3339`].
    pub(crate) fn parse(&mut self, text: &[u8]) -> Option<i64> {
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
    if !(1..=12).contains(&month) || date_of(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        for (text, ns) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59.999999999Z", -1),
            ("2000-02-29T00:00:00.000000005Z", 951_782_400_000_000_005),
            ("2026-11-21T12:20:28.1234Z", 1_795_263_628_123_400_000),
        ] {
            assert_eq!(rfc3339_nano(ns), text);
            assert_eq!(parse_rfc3339(text.as_bytes()), Some(ns), "{text}");
            assert_eq!(Reader::default().parse(text.as_bytes()), Some(ns), "{text}");
        }
        assert_eq!(&rfc3339_fixed(1_500_000_000), b"1970-01-01T00:00:01.500000000Z");
        assert_eq!(parse_rfc3339(b"1970-01-01T02:00:00+02:00"), Some(0));
        assert_eq!(parse_rfc3339(b"1969-12-31T23:00:00.5-01:00"), Some(500_000_000));
    }

    #[test]
    fn every_day_goes_both_ways() {
        let mut expected = (1600, 1, 1);
        for days in days_to(1600, 1, 1)..days_to(2401, 1, 1) {
            assert_eq!(date_of(days), expected);
            assert_eq!(days_to(expected.0, expected.1, expected.2), days);
            let (y, m, d) = expected;
            let leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
            let last = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][m as usize - 1];
            expected = if d < last {
                (y, m, d + 1)
            } else if m < 12 {
                (y, m + 1, 1)
            } else {
                (y + 1, 1, 1)
            };
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
