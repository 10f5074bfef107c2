//! The few URLs that a registry client needs: http and https, no user in them.

use crate::error::{Error, Result};
use crate::walls::Wall;
use std::net::IpAddr;

/// A URL in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) https: bool,
    /// `host` or `host:port`, lower-case.
    pub(crate) authority: String,
    /// Path and query, beginning with a slash.
    pub(crate) target: String,
}

impl Url {
    /// Reads an absolute URL. The error does not repeat it: there may be secrets in it.
    pub(crate) fn parse(text: &str) -> Result<Url> {
        let bad = || Error::internal("the registry named an address that is not an http or https URL");
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(bad()),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.is_empty() || !authority.bytes().all(is_host_byte) || !target.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(bad());
        }
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Url { https, authority: authority.to_ascii_lowercase(), target })
    }

    /// The URL that the header `Location` of an answer to this one means.
    pub(crate) fn join(&self, location: &str) -> Result<Url> {
        if location.contains("://") {
            return Url::parse(location);
        }
        let scheme = if self.https { "https" } else { "http" };
        if let Some(rest) = location.strip_prefix("//") {
            return Url::parse(&format!("{scheme}://{rest}"));
        }
        let path = self.target.split('?').next().unwrap_or_default();
        let base = path.rfind('/').map_or("/", |at| &path[..=at]);
        let target = if location.starts_with('/') { location.to_owned() } else { format!("{base}{location}") };
        Url::parse(&format!("{scheme}://{}{target}", self.authority))
    }

    /// This server with another path and query.
    pub(crate) fn at(&self, target: &str) -> Url {
        Url { target: target.to_owned(), ..self.clone() }
    }

    /// This address with one more query parameter.
    pub(crate) fn with(mut self, key: &str, value: &str) -> Url {
        let mark = if self.target.contains('?') { '&' } else { '?' };
        self.target.push_str(&format!("{mark}{key}={}", escape(value)));
        self
    }

    /// Whether credentials for one are good for the other: same scheme, host and port.
    pub(crate) fn same_origin(&self, other: &Url) -> bool {
        if !Wall::CredentialsAtHome.stands() {
            return true;
        }
        self.is_origin_of(other)
    }

    /// Whether another server named this address: one that is not on this machine, whose own addresses it may not name.
    pub(crate) fn is_redirected_from(&self, server: &Url) -> bool {
        !self.is_origin_of(server) && !server.address().is_some_and(|address| address.is_loopback())
    }

    /// The host as an address, where it is written as one.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        let host = self.host().trim_start_matches('[').trim_end_matches(']');
        host.parse().ok().map(|address: IpAddr| address.to_canonical())
    }

    fn is_origin_of(&self, other: &Url) -> bool {
        self.https == other.https && self.host() == other.host() && self.port_text() == other.port_text()
    }

    /// The host without its port.
    pub(crate) fn host(&self) -> &str {
        host_of(&self.authority)
    }

    /// The port, where the address has one.
    pub(crate) fn port(&self) -> Option<&str> {
        self.authority[self.host().len()..].strip_prefix(':')
    }

    fn port_text(&self) -> &str {
        self.port().unwrap_or(if self.https { "443" } else { "80" })
    }

    /// The port, also where the address names none. 0: the text is not a number.
    pub(crate) fn port_or_usual(&self) -> u16 {
        self.port_text().parse().unwrap_or(0)
    }

    /// The whole, to be sent.
    pub(crate) fn text(&self) -> String {
        format!("{}://{}{}", if self.https { "https" } else { "http" }, self.authority, self.target)
    }

    /// For messages: without the query, where signed URLs have their secrets.
    pub(crate) fn shown(&self) -> String {
        self.text().split('?').next().unwrap_or_default().to_owned()
    }
}

/// The host of `host[:port]`; an IPv6 address keeps its brackets.
pub(crate) fn host_of(authority: &str) -> &str {
    match authority.find(']') {
        Some(end) => &authority[..=end],
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Splits `user:password` off an address that somebody gave.
pub(crate) fn split_user(text: &str) -> (String, Option<&str>) {
    let Some((scheme, rest)) = text.split_once("://") else { return (text.to_owned(), None) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => (format!("{scheme}://{}", &rest[at + 1..]), Some(&rest[..at])),
        None => (text.to_owned(), None),
    }
}

/// An address that somebody gave, for messages: without user and password, and without the query, where signed ones
/// have their secrets.
pub(crate) fn without_secrets(text: &str) -> String {
    if !Wall::UrlSecrets.stands() {
        return text.to_owned();
    }
    let (address, _) = split_user(text);
    // In a text that is not an address, anything may stand before the `@`.
    let whole = |url: Url| url.port().is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit()));
    if text.contains('@') && !Url::parse(&address).is_ok_and(whole) {
        return text.split("://").next().filter(|scheme| !scheme.contains('@')).unwrap_or_default().to_owned()
            + "://...";
    }
    address.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// Decodes percent-encoded text; other text stays as it is.
pub(crate) fn unescape(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                rest = &after[2..];
            }
            _ => {
                out.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn is_host_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']')
}

/// Percent-encodes what has a meaning in a query.
pub(crate) fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn locations_are_resolved() {
        let base = url("https://Host:5000/v2/a/blobs/uploads/");
        for (location, want) in [
            ("/v2/x?y=1", "https://host:5000/v2/x?y=1"),
            ("uuid?s=1", "https://host:5000/v2/a/blobs/uploads/uuid?s=1"),
            ("http://other/x", "http://other/x"),
            ("//other/x", "https://other/x"),
        ] {
            assert_eq!(base.join(location).unwrap().text(), want);
        }
        assert_eq!(url("http://h?q=s").with("digest", "a:b/c").text(), "http://h/?q=s&digest=a%3Ab%2Fc");
        assert_eq!(url("http://h/p?secret=s").shown(), "http://h/p");
    }

    #[test]
    fn origins_are_scheme_host_and_port() {
        assert!(url("https://h/x").same_origin(&url("https://h:443/y")));
        assert!(!url("https://h/x").same_origin(&url("http://h/x")));
        assert!(!url("https://h/x").same_origin(&url("https://h:444/x")));
        assert_eq!(url("http://[::1]:5000/").host(), "[::1]");
    }

    #[test]
    fn addresses_are_shown_without_secrets() {
        for (given, user, shown) in [
            ("http://h/@types/x", None, "http://h/@types/x"),
            ("https://me:p%40ss@h:1/a?sig=secret#x", Some("me:p%40ss"), "https://h:1/a"),
            ("https://me:a@b@h", Some("me:a@b"), "https://h"),
            ("https://me:sec/ret@h/x", None, "https://..."),
            ("https://me:sec?ret@h/x", None, "https://..."),
            ("https://me:sec ret@h/ x", Some("me:sec ret"), "https://..."),
            ("foo?x", None, "foo"),
        ] {
            assert_eq!(split_user(given).1, user, "{given}");
            assert_eq!(without_secrets(given), shown, "{given}");
        }
        assert_eq!(unescape("p%40ss%2fx%zz%4"), "p@ss/x%zz%4");
    }

    #[test]
    fn the_parser_refuses_malformed_urls_and_does_not_repeat_the_url() {
        for bad in ["", "x", "ftp://h/", "http://", "http://u:secret@h/", "http://h/a b", "https:///x"] {
            let error = Url::parse(bad).unwrap_err();
            assert!(!error.message().contains("secret"), "{error}");
        }
    }
}
