//! How Go writes values: history texts have that form, and caches compare them.

use crate::error::{Error, Result};

/// `%q` of a string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `%q` of a list of strings: `["a" "b"]`.
pub(crate) fn quoted_list(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

/// `%v` of a list of strings: `[a b]`.
pub(crate) fn shown_list(words: &[String]) -> String {
    format!("[{}]", words.join(" "))
}

const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];

/// A duration (`1m30s`, `1.5h`) in nanoseconds.
pub(crate) fn duration(text: &str) -> Result<i64> {
    let bad = |what: &str| Error::invalid(format!("time: {what} duration {}", quoted(text)));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(bad("invalid"));
    }
    let mut total = 0f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let value: f64 = rest[..digits].parse().map_err(|_| bad("invalid"))?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let word = &rest[..unit];
        if word.is_empty() {
            return Err(bad("missing unit in"));
        }
        let factor = UNITS.iter().find(|(name, _)| *name == word).map(|(_, factor)| factor);
        let factor = factor.ok_or_else(|| {
            Error::invalid(format!("time: unknown unit {} in duration {}", quoted(word), quoted(text)))
        })?;
        total += value * factor;
        rest = &rest[unit..];
    }
    match total < 9.2e18 {
        true => Ok(if negative { -(total as i64) } else { total as i64 }),
        false => Err(bad("invalid")),
    }
}

/// A duration as Go shows it: `1m30s`, `1.5s`, `0s`.
pub(crate) fn shown_duration(ns: i64) -> String {
    let fraction = |value: f64, unit: &str| {
        let text = format!("{value:.9}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match ns {
        0 => "0s".into(),
        1..1_000 => format!("{ns}ns"),
        1_000..1_000_000 => fraction(ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => fraction(ns as f64 / 1e6, "ms"),
        _ => {
            let (minutes, rest) = (ns / 60_000_000_000, ns % 60_000_000_000);
            let seconds = fraction(rest as f64 / 1e9, "s");
            match (minutes / 60, minutes % 60) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_go_both_ways() {
        for (text, ns, shown) in [
            ("90s", 90_000_000_000, "1m30s"),
            ("1.5h", 5_400_000_000_000, "1h30m0s"),
            ("1500ms", 1_500_000_000, "1.5s"),
            ("250us", 250_000, "250µs"),
            ("0", 0, "0s"),
        ] {
            assert_eq!((duration(text).unwrap(), shown_duration(ns).as_str()), (ns, shown));
        }
        assert_eq!(duration("5").unwrap_err().message(), "time: missing unit in duration \"5\"");
        assert_eq!(duration("5x").unwrap_err().message(), "time: unknown unit \"x\" in duration \"5x\"");
        assert_eq!(duration("").unwrap_err().message(), "time: invalid duration \"\"");
    }

    #[test]
    fn quotes_as_go() {
        assert_eq!(quoted("a\"b\\c\n\u{1}é"), "\"a\\\"b\\\\c\\n\\x01é\"");
        assert_eq!(quoted_list(&["a".into(), "b c".into()]), "[\"a\" \"b c\"]");
        assert_eq!(shown_list(&["a".into(), "b c".into()]), "[a b c]");
    }
}
