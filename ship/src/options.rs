//! Options of log drivers, checked in dockerd's words.

use std::collections::BTreeMap;

/// The options of a log configuration.
pub type Options = BTreeMap<String, String>;

/// A refused option: the text names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Refuses with a text.
pub(crate) fn refused<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error(text.into()))
}

/// The options that name labels, variables and the tag: the engine reads them.
pub(crate) const COMMON: [&str; 5] = ["env", "env-regex", "labels", "labels-regex", "tag"];

/// The options of every driver that delivers: how the spool is bounded.
pub const SPOOL: [&str; 7] = [
    "mode",
    "max-buffer-size",
    "max-line-size",
    "cache-disabled",
    "cache-max-size",
    "cache-max-file",
    "cache-compress",
];

/// The bounds of the option `max-line-size`: the part of a line that one record of the log has, and 1 MiB.
const LINE: (u64, u64) = (16 << 10, 1 << 20);

/// The first option that does not stand in the lists.
pub(crate) fn unknown<'a>(options: &'a Options, known: &[&str]) -> Option<&'a String> {
    let is_known = |key: &&str| COMMON.contains(key) || SPOOL.contains(key) || known.contains(key);
    options.keys().find(|key| !is_known(&key.as_str()))
}

/// An option's text; an empty one counts as absent.
pub(crate) fn text<'a>(options: &'a Options, key: &str) -> Option<&'a str> {
    options.get(key).map(String::as_str).filter(|text| !text.is_empty())
}

/// A truth value as Go reads it; absent: false.
pub(crate) fn flag(options: &Options, key: &str) -> Result<bool, Error> {
    match text(options, key) {
        None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Some(other) => {
            refused(format!("invalid value for {key}: strconv.ParseBool: parsing {other:?}: invalid syntax"))
        }
    }
}

/// Whether a text is a number of bytes as Go's units read it: `512`, `1m`, `1.5 MiB`.
pub(crate) fn is_size(text: &str) -> bool {
    size(text).is_some()
}

/// The bytes of such a text; `None`: it is another one.
pub fn size(text: &str) -> Option<u64> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - unit.len()];
    let unit = unit.strip_prefix(' ').unwrap_or(unit).to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|one| *one == unit.strip_suffix('i').unwrap_or(unit))?;
    let number: f64 = number.parse().ok()?;
    Some((number * 1024_f64.powi(i32::try_from(power).ok()?)) as u64)
}

/// The option `max-line-size`: up to so many bytes the parts of a line are joined. `None`: they are not. Errors: no size, or one
/// out of bounds.
pub(crate) fn line_size(options: &Options) -> Result<Option<usize>, Error> {
    let Some(text) = options.get("max-line-size") else { return Ok(None) };
    match size(text).filter(|size| (LINE.0..=LINE.1).contains(size)).and_then(|size| usize::try_from(size).ok()) {
        Some(size) => Ok(Some(size)),
        None => refused(format!("invalid value for max-line-size: '{text}': it takes a size from 16k to 1m")),
    }
}

/// Where a receiver is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// `udp://`
    Udp(String, u16),
    /// `tcp://`
    Tcp(String, u16),
    /// `tcp+tls://` or `tls://`
    Tls(String, u16),
    /// `unix://`
    Unix(String),
    /// The path of a stream socket; a link is refused.
    Own(String),
    /// `unixgram://`
    UnixDatagram(String),
    /// The log plugin that the plan in this file names.
    Plugin(String),
    /// The host's own syslog: the first of its usual sockets that is there.
    LocalSyslog,
}

impl Address {
    /// Reads `proto://address`; `None`: another form. A missing port is `port`, if that is given.
    pub(crate) fn parse(text: &str, port: Option<u16>) -> Option<Address> {
        let (proto, rest) = text.split_once("://")?;
        // No path of a socket and no host has these.
        if rest.contains(char::is_control) {
            return None;
        }
        match proto {
            "unix" if rest.starts_with('/') => return Some(Address::Unix(rest.to_owned())),
            "unixgram" if rest.starts_with('/') => return Some(Address::UnixDatagram(rest.to_owned())),
            _ => {}
        }
        let (host, port) = host_port(rest.split(['/', '?', '#']).next().unwrap_or_default(), port)?;
        match proto {
            "udp" => Some(Address::Udp(host, port)),
            "tcp" => Some(Address::Tcp(host, port)),
            "tcp+tls" | "tls" => Some(Address::Tls(host, port)),
            _ => None,
        }
    }
}

/// Reads `host`, `host:port` or `[v6]:port`.
pub(crate) fn host_port(text: &str, default: Option<u16>) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return None,
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok()?,
        None => default?,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_each_kind() {
        let tcp = |host: &str, port| Some(Address::Tcp(host.into(), port));
        assert_eq!(Address::parse("tcp://logs:601", None), tcp("logs", 601));
        assert_eq!(Address::parse("tcp://[::1]:601", None), tcp("::1", 601));
        assert_eq!(Address::parse("tcp://logs", Some(514)), tcp("logs", 514));
        assert_eq!(Address::parse("unix:///dev/log", None), Some(Address::Unix("/dev/log".into())));
        assert_eq!(Address::parse("tcp+tls://a:1", None), Some(Address::Tls("a".into(), 1)));
        for bad in [
            "logs:601",
            "tcp://logs",
            "tcp://:1",
            "tcp://a:b",
            "tcp://a:70000",
            "tcp://::1:5",
            "http://a:1",
            "unix:///a\0b",
            "tcp://a\nb:1",
        ] {
            assert_eq!(Address::parse(bad, None), None, "{bad}");
        }
    }
}
