//! One line of a json-file log.
//!
//! The monitor writes one fixed form (`log`, `stream`, `attrs` if there are any, `time`), which is read without a
//! general parser; any other JSON with these members goes through serde_json.

use super::{Channel, LogView};
use crate::model::StringMap;
use crate::time::TimeReader;
use coracle_monitor::read_log::escape;
use memchr::memmem;
use serde::Deserialize;
use std::ops::Range;

/// The beginning of every record. It occurs only once before a record's attributes, because quotes in strings are
/// escaped.
const OPENING: &[u8] = br#"{"log":""#;

/// Reads lines; keeps the facts that consecutive lines share.
#[derive(Default)]
pub(super) struct Parser {
    /// The line's text, if it has escapes and so differs from the bytes of the line.
    text: Vec<u8>,
    /// The last attributes, and the JSON that they were read from.
    attrs: StringMap,
    attrs_json: Vec<u8>,
    none: StringMap,
    time: TimeReader,
}

/// The parts of a line: see [`Parser::view`].
pub(super) struct Parts {
    channel: Channel,
    time_ns: i64,
    text: Text,
    attrs: bool,
}

/// The place of the text.
enum Text {
    InLine(Range<usize>),
    InParser,
}

impl Parser {
    /// Splits a line (without its newline) into its parts; `None`: it is damaged.
    pub(super) fn parse(&mut self, line: &[u8]) -> Option<Parts> {
        self.fixed(line).or_else(|| self.any(line))
    }

    /// The record of the line that was split last.
    pub(super) fn view<'a>(&'a self, line: &'a [u8], parts: Parts) -> LogView<'a> {
        LogView {
            channel: parts.channel,
            time_ns: parts.time_ns,
            data: match parts.text {
                Text::InLine(range) => &line[range],
                Text::InParser => &self.text,
            },
            attrs: if parts.attrs { &self.attrs } else { &self.none },
        }
    }

    fn fixed(&mut self, line: &[u8]) -> Option<Parts> {
        let rest = line.strip_prefix(OPENING)?;
        let (text, rest) = self.string(rest)?;
        let rest = rest.strip_prefix(br#","stream":"std"#)?;
        let (channel, rest) = match rest.strip_prefix(b"out\"") {
            Some(rest) => (Channel::Stdout, rest),
            None => (Channel::Stderr, rest.strip_prefix(b"err\"")?),
        };
        let (attrs, rest) = match rest.strip_prefix(br#","attrs":"#) {
            None => (false, rest),
            Some(rest) => {
                let end = memmem::rfind(rest, br#","time":""#)?;
                (self.read_attrs(&rest[..end])?, &rest[end..])
            }
        };
        let time = rest.strip_prefix(br#","time":""#)?.strip_suffix(br#""}"#)?;
        Some(Parts { channel, time_ns: self.time.parse(time)?, text, attrs })
    }

    /// Reads a JSON string after its opening quote; returns it and the rest after the closing one.
    fn string<'a>(&mut self, rest: &'a [u8]) -> Option<(Text, &'a [u8])> {
        let mut at = memchr::memchr2(b'"', b'\\', rest)?;
        if rest[at] == b'"' {
            return Some((Text::InLine(OPENING.len()..OPENING.len() + at), &rest[at + 1..]));
        }
        self.text.clear();
        self.text.extend_from_slice(&rest[..at]);
        // Nearly all lines: the newline is the only escape.
        if rest[at..].starts_with(br#"\n""#) {
            self.text.push(b'\n');
            return Some((Text::InParser, &rest[at + 3..]));
        }
        while rest[at] == b'\\' {
            let (character, length) = escape(&rest[at + 1..])?;
            self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            at += 1 + length;
            let next = at + memchr::memchr2(b'"', b'\\', &rest[at..])?;
            self.text.extend_from_slice(&rest[at..next]);
            at = next;
        }
        Some((Text::InParser, &rest[at + 1..]))
    }

    fn read_attrs(&mut self, json: &[u8]) -> Option<bool> {
        if json != self.attrs_json {
            self.attrs_json.clear();
            self.attrs = serde_json::from_slice(json).ok()?;
            self.attrs_json.extend_from_slice(json);
        }
        Some(true)
    }

    fn any(&mut self, line: &[u8]) -> Option<Parts> {
        #[derive(Deserialize)]
        struct Record {
            log: String,
            stream: String,
            #[serde(default)]
            attrs: Option<StringMap>,
            time: String,
        }
        let record: Record = serde_json::from_slice(line).ok()?;
        let channel = match record.stream.as_str() {
            "stdout" => Channel::Stdout,
            "stderr" => Channel::Stderr,
            _ => return None,
        };
        let time_ns = self.time.parse(record.time.as_bytes())?;
        self.text.clear();
        self.text.extend_from_slice(record.log.as_bytes());
        self.attrs_json.clear();
        let attrs = record.attrs.is_some();
        self.attrs = record.attrs.unwrap_or_default();
        Some(Parts { channel, time_ns, text: Text::InParser, attrs })
    }
}

/// The offsets in a damaged line at which a later record may begin: after a torn record, the next writer did not know
/// that the file ended within a line.
pub(super) fn later_openings(line: &[u8]) -> impl Iterator<Item = usize> + '_ {
    memmem::find_iter(line, OPENING).filter(|&at| at > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<(Channel, i64, String, StringMap)> {
        let mut parser = Parser::default();
        let parts = parser.parse(line.as_bytes())?;
        let view = parser.view(line.as_bytes(), parts);
        Some((view.channel, view.time_ns, String::from_utf8(view.data.to_vec()).unwrap(), view.attrs.clone()))
    }

    /// The general parser's result for a line.
    fn general(line: &str) -> Option<(Channel, i64, String, StringMap)> {
        let mut parser = Parser::default();
        let parts = parser.any(line.as_bytes())?;
        Some((parts.channel, parts.time_ns, String::from_utf8(parser.text.clone()).unwrap(), parser.attrs.clone()))
    }

    fn is_fixed(line: &str) -> bool {
        Parser::default().fixed(line.as_bytes()).is_some()
    }

    #[test]
    fn the_written_shape_needs_no_general_parser_and_means_the_same() {
        let time = r#""time":"2026-11-21T12:20:28.123456789Z"}"#;
        for (head, text) in [
            (r#"{"log":"plain\n","stream":"stdout","#, "plain\n"),
            (r#"{"log":"part of a long line","stream":"stderr","#, "part of a long line"),
            (r#"{"log":"","stream":"stdout","#, ""),
            (r#"{"log":"a\tb\\c\"d\"\/\b\f\r\n","stream":"stdout","#, "a\tb\\c\"d\"/\u{8}\u{c}\r\n"),
            (r#"{"log":"\u003cé\ufffd\ud83d\ude00\u0000\u2028\n","stream":"stdout","#, "<é\u{fffd}😀\0\u{2028}\n"),
            (r#"{"log":"x\n","stream":"stdout","attrs":{"a":"b","time":"x, \"time\":\""},"#, "x\n"),
        ] {
            let line = format!("{head}{time}");
            let got = parsed(&line).unwrap();
            assert_eq!(got.2, text);
            assert_eq!(got.1, 1_795_263_628_123_456_789);
            assert!(is_fixed(&line), "{line}");
            assert_eq!(Some(got), general(&line), "{line}");
        }
    }

    #[test]
    fn other_json_of_the_same_members_is_read_too() {
        let line =
            r#"{ "time":"2026-11-21T12:20:28Z", "stream":"stderr", "log":"x\n", "more":[1], "attrs":{"k":"v"} }"#;
        assert!(!is_fixed(line));
        let (channel, _, text, attrs) = parsed(line).unwrap();
        assert_eq!((channel, text.as_str()), (Channel::Stderr, "x\n"));
        assert_eq!(attrs, StringMap::from([("k".into(), "v".into())]));
    }

    #[test]
    fn attributes_do_not_stay_from_one_line_to_the_next() {
        let mut parser = Parser::default();
        let line = |attrs| format!(r#"{{"log":"x","stream":"stdout"{attrs},"time":"2026-11-21T12:20:28Z"}}"#);
        for (attrs, count) in
            [(r#","attrs":{"a":"1"}"#, 1), ("", 0), (r#","attrs":{"a":"1"}"#, 1), (r#","attrs":{}"#, 0)]
        {
            let line = line(attrs);
            let parts = parser.parse(line.as_bytes()).unwrap();
            assert_eq!(parser.view(line.as_bytes(), parts).attrs.len(), count, "{attrs}");
        }
    }

    #[test]
    fn damaged_lines_are_none() {
        for line in [
            "",
            "text",
            r#"{"log":"x","stream":"stdout","time":"2026-11-21T12:20:28Z""#,
            r#"{"log":"x","stream":"stdin","time":"2026-11-21T12:20:28Z"}"#,
            r#"{"log":"x","stream":"stdout","time":"yesterday"}"#,
            r#"{"log":"\q","stream":"stdout","time":"2026-11-21T12:20:28Z"}"#,
            r#"{"log":"\u12","stream":"stdout","time":"2026-11-21T12:20:28Z"}"#,
            r#"{"log":"x\"#,
            r#"{"log":"x","stream":"stdout","attrs":{"a":1},"time":"2026-11-21T12:20:28Z"}"#,
            r#"{"stream":"stdout","time":"2026-11-21T12:20:28Z"}"#,
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }

    #[test]
    fn a_record_after_a_torn_one_is_found() {
        let torn = r#"{"log":"ab{"log":"x\n","stream":"stdout","time":"2026-11-21T12:20:28Z"}"#;
        assert_eq!(parsed(torn), None);
        let at = later_openings(torn.as_bytes()).next().unwrap();
        assert_eq!(parsed(&torn[at..]).unwrap().2, "x\n");
    }
}
