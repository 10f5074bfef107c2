//! The proxies of a program, and the hosts that are used without one: for receivers and for registries alike.
//!
//! Only a program that is alone in its process reads its environment. In a program of somebody else other threads may change the
//! environment, so the library reads it once and passes the texts along.

use std::fmt;

/// The texts that say which proxy a connection with TLS uses.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// The proxy's address, which may hold a password; empty: none.
    pub https: String,
    /// Hosts that are used without a proxy, separated by commas.
    pub exempt: String,
}

/// Without the password.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxies {{ https: {} }}", !self.https.is_empty())
    }
}

impl Proxies {
    /// The proxies of this program's environment.
    #[cfg(feature = "program")]
    pub(crate) fn of_environment() -> Proxies {
        let word = |name| std::env::var(name).unwrap_or_default();
        Proxies { https: word("HTTPS_PROXY"), exempt: word("NO_PROXY") }
    }
}

/// Whether a host is used without a proxy: it is this machine, or an entry of the list names it. An entry is `*`, a host, the end of a
/// host's name, or an address of IPv6, also in brackets; a port behind it limits it to that port.
pub fn is_exempt(host: &str, port: u16, list: &str) -> bool {
    let host = without_brackets(host).to_ascii_lowercase();
    let mut entries = list.split(',').map(str::trim);
    matches!(host.as_str(), "localhost" | "::1")
        || host.starts_with("127.")
        || entries.any(|entry| names(&entry.to_ascii_lowercase(), &host, port))
}

fn names(entry: &str, host: &str, port: u16) -> bool {
    let (name, only) = match entry.rsplit_once(':') {
        // The colons of an address without brackets are its own.
        Some((name, only)) if !name.contains(':') || name.ends_with(']') => (name, Some(only)),
        _ => (entry, None),
    };
    let suffix = without_brackets(name).trim_start_matches('*').trim_start_matches('.');
    let is_named = || !suffix.is_empty() && (host == suffix || host.ends_with(&format!(".{suffix}")));
    only.is_none_or(|only| only.parse() == Ok(port)) && (name == "*" || is_named())
}

fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_exempt_by_name_end_address_and_port() {
        for (list, host) in [
            ("example", "logs.example"),
            ("*.example", "LOGS.example"),
            (".Example", "logs.example"),
            ("other, logs.example ", "logs.example"),
            ("logs.example:8088", "logs.example"),
            (".example:8088", "logs.example"),
            ("*", "a"),
            ("*:8088", "a"),
            ("10.0.0.1:8088", "10.0.0.1"),
            ("[fd00::2]", "fd00::2"),
            ("[FD00::2]:8088", "[fd00::2]"),
            ("fd00::2", "[fd00::2]"),
            ("", "127.0.0.1"),
            ("", "localhost"),
            ("", "::1"),
            ("", "[::1]"),
        ] {
            assert!(is_exempt(host, 8088, list), "{list} {host}");
        }
        for (list, host) in [
            ("", "logs.example"),
            (",", "logs.example"),
            (".", "logs.example."),
            ("logs.example:443", "logs.example"),
            ("logs.example:", "logs.example"),
            ("gs.example", "logs.example"),
            ("[fd00::2]:443", "fd00::2"),
            ("fd00::2:8088", "fd00::2"),
            ("::2", "fd00::2"),
        ] {
            assert!(!is_exempt(host, 8088, list), "{list} {host}");
        }
    }
}
