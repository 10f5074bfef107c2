//! One record of the spool: a line of JSON as the monitor writes it.

use coracle_monitor::read_log::{escape, parse_rfc3339};
use memchr::{memchr2, memmem};

const OPENING: &[u8] = br#"{"log":""#;

/// The parts of a record but its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The process wrote it to standard error.
    pub stderr: bool,
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    /// The text ended with a newline.
    pub whole: bool,
}

/// Reads a record without its newline, and appends its text, without the text's newline, to `text`. `None`: it is
/// damaged, and `text` is as before.
pub fn parse(line: &[u8], text: &mut Vec<u8>) -> Option<Head> {
    let start = text.len();
    let head = fixed(line, text).or_else(|| {
        text.truncate(start);
        any(line, text)
    });
    let Some((stderr, time_ns)) = head else {
        text.truncate(start);
        return None;
    };
    let whole = text.len() > start && text.ends_with(b"\n");
    text.truncate(text.len() - usize::from(whole));
    Some(Head { stderr, time_ns, whole })
}

fn fixed(line: &[u8], text: &mut Vec<u8>) -> Option<(bool, i64)> {
    let rest = string(line.strip_prefix(OPENING)?, text)?;
    let rest = rest.strip_prefix(br#","stream":"std"#)?;
    let (stderr, rest) = match rest.strip_prefix(b"out\"") {
        Some(rest) => (false, rest),
        None => (true, rest.strip_prefix(b"err\"")?),
    };
    // A spool's records have no attributes; those of another log do.
    let rest = &rest[memmem::rfind(rest, br#","time":""#)?..];
    let time = rest.strip_prefix(br#","time":""#)?.strip_suffix(br#""}"#)?;
    Some((stderr, parse_rfc3339(time)?))
}

/// Decodes a JSON string behind its opening quote; returns the rest behind the closing one.
fn string<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let at = memchr2(b'"', b'\\', rest)?;
        text.extend_from_slice(&rest[..at]);
        if rest[at] == b'"' {
            return Some(&rest[at + 1..]);
        }
        let (character, length) = escape(&rest[at + 1..])?;
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[at + 1 + length..];
    }
}

/// Other JSON of the same members.
fn any(line: &[u8], text: &mut Vec<u8>) -> Option<(bool, i64)> {
    let record: serde_json::Value = serde_json::from_slice(line).ok()?;
    let member = |name: &str| record.get(name)?.as_str();
    let stderr = match member("stream")? {
        "stdout" => false,
        "stderr" => true,
        _ => return None,
    };
    text.extend_from_slice(member("log")?.as_bytes());
    Some((stderr, parse_rfc3339(member("time")?.as_bytes())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<(Head, String)> {
        let mut text = b"before".to_vec();
        let head = parse(line.as_bytes(), &mut text);
        let text = String::from_utf8(text).unwrap();
        let text = text.strip_prefix("before").unwrap().to_owned();
        assert!(head.is_some() || text.is_empty());
        head.map(|head| (head, text))
    }

    #[test]
    fn the_two_forms_mean_the_same() {
        let time = r#""time":"2026-11-21T12:20:28.123456789Z""#;
        for (log, text, whole) in [
            (r"plain\n", "plain", true),
            ("part", "part", false),
            ("", "", false),
            (r"\n", "", true),
            (r#"a\tb\\c\"d\"\/\b\f\r\n"#, "a\tb\\c\"d\"/\u{8}\u{c}\r", true),
            (r"\u003cé\ufffd\ud83d\ude00\u0000\ud83d\n", "<é\u{fffd}😀\0\u{fffd}", true),
        ] {
            let wanted = (Head { stderr: true, time_ns: 1_795_263_628_123_456_789, whole }, text.to_owned());
            let ours = format!(r#"{{"log":"{log}","stream":"stderr",{time}}}"#);
            assert_eq!(parsed(&ours), Some(wanted.clone()), "{ours}");
            // serde_json refuses half of a pair.
            let other = format!(r#"{{ "stream":"stderr", "log":"{}", {time}}}"#, log.replace(r"\ud83d\n", r"\ufffd\n"));
            assert_eq!(parsed(&other), Some(wanted), "{other}");
        }
    }

    #[test]
    fn damaged_records_are_none() {
        for line in [
            "",
            "text",
            r#"{"log":"x","stream":"stdout","time":"2026-11-21T12:20:28Z""#,
            r#"{"log":"x","stream":"stdin","time":"2026-11-21T12:20:28Z"}"#,
            r#"{"log":"x","stream":"stdout","time":"yesterday"}"#,
            r#"{"log":"\q","stream":"stdout","time":"2026-11-21T12:20:28Z"}"#,
            r#"{"log":"x\"#,
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}
