//! Times of records and of protocols.

use crate::sys::{Local, local};
use coracle_monitor::text::{days_to, rfc3339};

const SECOND: i64 = 1_000_000_000;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX))
}

/// `2006-01-02T15:04:05.000000000Z`.
pub(crate) fn utc(time_ns: i64) -> String {
    let mut text = [0; 30];
    rfc3339(&mut text, time_ns);
    String::from_utf8_lossy(&text).into_owned()
}

/// Reads a time as the monitor writes it: in UTC, with up to nine digits behind the second.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    let number = |from: usize, length: usize| -> Option<i64> {
        let digits = text.get(from..from + length)?;
        digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| text.get(*at) != Some(mark)) {
        return None;
    }
    let (month, day) = (number(5, 2)?, number(8, 2)?);
    let clock = number(11, 2)? * 3600 + number(14, 2)? * 60 + number(17, 2)?;
    let fraction = match text.get(19..)?.strip_suffix(b"Z")? {
        [] => 0,
        [b'.', digits @ ..] if (1..=9).contains(&digits.len()) => {
            number(20, digits.len())? * 10_i64.pow(9 - u32::try_from(digits.len()).ok()?)
        }
        _ => return None,
    };
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || clock > 86_400 {
        return None;
    }
    Some((days_to(number(0, 4)?, month, day) * 86_400 + clock) * SECOND + fraction)
}

/// The times of one second in the host's zone, in the two forms of syslog. Records of one second share them.
pub(crate) struct Stamps {
    second: i64,
    /// `Jan _2 15:04:05`
    pub(crate) old: String,
    /// `2006-01-02T15:04:05`
    pub(crate) new: String,
    /// `Z` or `+02:00`
    pub(crate) zone: String,
}

impl Stamps {
    pub(crate) fn new() -> Stamps {
        Stamps { second: i64::MIN, old: String::new(), new: String::new(), zone: String::new() }
    }

    /// Turns to the second of a record; returns its microseconds.
    pub(crate) fn turn_to(&mut self, time_ns: i64) -> i64 {
        let second = time_ns.div_euclid(SECOND);
        if second != self.second {
            self.second = second;
            let Local { month, day, hour, minute, second, year, offset } = local(second);
            let name = MONTHS[usize::try_from(month - 1).unwrap_or(0).min(11)];
            self.old = format!("{name} {day:2} {hour:02}:{minute:02}:{second:02}");
            self.new = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
            let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
            self.zone = if offset == 0 { "Z".into() } else { format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60) };
        }
        time_ns.rem_euclid(SECOND) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_times_are_read() {
        for ns in [0, 1_795_263_628_123_456_789, 951_782_400_000_000_005] {
            assert_eq!(parse(utc(ns).as_bytes()), Some(ns));
        }
        assert_eq!(parse(b"2026-11-21T12:20:28.1234Z"), Some(1_795_263_628_123_400_000));
        assert_eq!(parse(b"1970-01-01T00:00:01Z"), Some(SECOND));
        for bad in ["", "yesterday", "2026-11-21T12:20:28", "2026-13-21T12:20:28Z", "2026-11-21T12:20:28.Z"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
