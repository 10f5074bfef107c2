//! Times as text: RFC 3339 with up to nine digits of a second, as Go writes and reads them.

pub(crate) use coracle_monitor::read_log::{TimeReader, parse_rfc3339};
pub(crate) use coracle_monitor::text::civil as date_of;
use coracle_monitor::text::rfc3339;
use std::time::SystemTime;

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

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_monitor::text::days_to;

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
            assert_eq!(TimeReader::default().parse(text.as_bytes()), Some(ns), "{text}");
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
}
