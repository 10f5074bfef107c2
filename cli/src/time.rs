//! Times as people write and read them: RFC 3339, unix seconds, durations, ages.

use std::time::{SystemTime, UNIX_EPOCH};

const SECOND: i64 = 1_000_000_000;

/// Nanoseconds since 1970.
pub fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64)
}

/// `2026-01-02T03:04:05.000000006Z`.
pub fn rfc3339(ns: i64) -> String {
    let (seconds, fraction) = (ns.div_euclid(SECOND), ns.rem_euclid(SECOND));
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = coracle::date_of(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:09}Z")
}

/// `2026-01-02 03:04:05.6 +0000 UTC`, as docker's lists have it.
pub fn stamp(ns: i64) -> String {
    let text = rfc3339(ns);
    let clock = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
    format!("{} +0000 UTC", clock.replacen('T', " ", 1))
}

/// Reads a time in one of the forms of `--since`: unix seconds with a fraction, RFC 3339 or a part of it, or an age
/// (`10m`, `1h30m`). Returns nanoseconds since 1970.
pub fn parse(text: &str) -> Option<i64> {
    unix(text).or_else(|| date(text)).or_else(|| Some(now_ns() - duration(text)?))
}

/// How long ago, as docker says it.
pub fn ago(ns: i64) -> String {
    let seconds = (now_ns() - ns).max(0) / SECOND;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let age = match () {
        () if seconds < 1 => "Less than a second".into(),
        () if seconds == 1 => "1 second".into(),
        () if seconds < 60 => format!("{seconds} seconds"),
        () if minutes == 1 => "About a minute".into(),
        () if minutes < 60 => format!("{minutes} minutes"),
        () if hours == 1 => "About an hour".into(),
        () if hours < 48 => format!("{hours} hours"),
        () if days < 14 => format!("{days} days"),
        () if days < 90 => format!("{} weeks", days / 7),
        () if days < 730 => format!("{} months", days / 30),
        () => format!("{} years", days / 365),
    };
    format!("{age} ago")
}

fn unix(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    whole.parse::<i64>().ok()?.checked_mul(SECOND)?.checked_add(fraction_ns(fraction)?)
}

/// The digits after a decimal point as nanoseconds.
fn fraction_ns(digits: &str) -> Option<i64> {
    if digits.len() > 9 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<9}").parse().ok()
}

fn date(text: &str) -> Option<i64> {
    let (day, clock) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let mut parts = day.split('-').map(|p| p.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (clock, offset) = zone(clock)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = clock.split(':').map(|p| p.parse::<i64>().ok());
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    let seconds = coracle::days_to(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    seconds.checked_mul(SECOND)?.checked_add(fraction_ns(fraction)?)
}

/// Cuts the zone off a clock time; returns its offset in seconds. Without a zone it is UTC.
fn zone(clock: &str) -> Option<(&str, i64)> {
    if let Some(clock) = clock.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = clock.rfind(['+', '-']) else { return Some((clock, 0)) };
    let (hours, minutes) = clock[at + 1..].split_once(':')?;
    let offset = hours.parse::<i64>().ok()? * 3600 + minutes.parse::<i64>().ok()? * 60;
    Some((&clock[..at], if clock.as_bytes()[at] == b'-' { -offset } else { offset }))
}

/// `1h30m`, `1.5h`, `300ms` in nanoseconds.
pub fn duration(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        total += amount * unit;
        rest = &rest[letters..];
    }
    (!text.is_empty()).then_some(total as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_there_and_back() {
        for (ns, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400 * SECOND + 7, "2000-02-29T00:00:00.000000007Z"),
            (1_700_000_000 * SECOND, "2023-11-14T22:13:20.000000000Z"),
            (-SECOND, "1969-12-31T23:59:59.000000000Z"),
        ] {
            assert_eq!(rfc3339(ns), text);
            assert_eq!(parse(text), Some(ns));
        }
        assert_eq!(stamp(1_700_000_000 * SECOND), "2023-11-14 22:13:20 +0000 UTC");
        assert_eq!(stamp(SECOND / 2), "1970-01-01 00:00:00.5 +0000 UTC");
        assert_eq!(parse("2023-11-14"), Some(1_699_920_000 * SECOND));
        assert_eq!(parse("2023-11-14T23:13:20+01:00"), Some(1_700_000_000 * SECOND));
        assert_eq!(parse("1700000000.5"), Some(1_700_000_000 * SECOND + SECOND / 2));
        for bad in ["", "yesterday", "2023-13-01", "10x", "1.2.3"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("1h30m"), Some(5400 * SECOND));
        assert_eq!(duration("1.5s"), Some(SECOND * 3 / 2));
        assert_eq!(duration("10"), None);
        assert_eq!(ago(now_ns() - 3 * 86_400 * SECOND), "3 days ago");
    }
}
