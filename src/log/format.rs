//! A log line as clients see it.

use super::LogView;
use crate::time::rfc3339_fixed;

/// The head of a line, before its text.
///
/// ```
/// use coracle::{Channel, LogFormat, LogLine};
///
/// let line = LogLine { channel: Channel::Stdout, time_ns: 0, data: b"hello\n".to_vec(), attrs: Default::default() };
/// let mut text = Vec::new();
/// LogFormat { timestamps: true, details: false }.append(line.view(), &mut text);
/// assert_eq!(text, b"1970-01-01T00:00:00.000000000Z hello\n");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogFormat {
    /// The time, always with nine digits: `2006-01-02T15:04:05.000000000Z `.
    pub timestamps: bool,
    /// The attributes: `k=v,k2=v2 `, sorted and percent-encoded as in a query (`b%2C%3Dc`); a single space if there are
    /// none.
    pub details: bool,
}

impl LogFormat {
    /// Appends the line with its prefixes to `out`.
    pub fn append(self, line: LogView<'_>, out: &mut Vec<u8>) {
        if self.timestamps {
            out.extend_from_slice(&rfc3339_fixed(line.time_ns));
            out.push(b' ');
        }
        if self.details {
            for (i, (key, value)) in line.attrs.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                encode(key, out);
                out.push(b'=');
                encode(value, out);
            }
            out.push(b' ');
        }
        out.extend_from_slice(line.data);
    }
}

fn encode(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte),
            b' ' => out.push(b'+'),
            _ => out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Channel;
    use crate::model::StringMap;

    fn text(timestamps: bool, details: bool, attrs: &[(&str, &str)]) -> String {
        let attrs: StringMap = attrs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let line = LogView { channel: Channel::Stdout, time_ns: 1_500_000_000, data: b"hi\n", attrs: &attrs };
        let mut out = Vec::new();
        LogFormat { timestamps, details }.append(line, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn prefixes_stand_in_dockers_order() {
        assert_eq!(text(false, false, &[("a", "b")]), "hi\n");
        assert_eq!(text(true, false, &[]), "1970-01-01T00:00:01.500000000Z hi\n");
        assert_eq!(text(false, true, &[]), " hi\n");
        let attrs = [("z", "1"), ("a b", "b,=c")];
        assert_eq!(text(true, true, &attrs), "1970-01-01T00:00:01.500000000Z a+b=b%2C%3Dc,z=1 hi\n");
    }
}
