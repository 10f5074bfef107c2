//! The user of a request, as authorization plugins are told.

use std::sync::Arc;

/// The user of a request and the method by which the user was known. A server that speaks TLS names the client by the common
/// name of the client's certificate (method `TLS`); a host program with a door of its own may name users otherwise.
///
/// ```
/// use coracle_http::{Client, User};
///
/// let client = Client::patient().with_user(User::new("alice", "Session"));
/// assert_eq!(client.user().map(User::name), Some("alice"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    method: String,
    /// The client's certificates in DER, the client's own first.
    certificates: Arc<Vec<Vec<u8>>>,
}

impl User {
    /// A user that the method `method` (`TLS`, or a word of the host program) has made sure of.
    pub fn new(name: impl Into<String>, method: impl Into<String>) -> User {
        User { name: name.into(), method: method.into(), certificates: Arc::default() }
    }

    /// The user of a chain of certificates in DER, the client's own first.
    #[cfg(any(feature = "tls", test))]
    pub(crate) fn of_certificates(certificates: Vec<Vec<u8>>) -> User {
        let name = certificates.first().and_then(|der| common_name(der)).unwrap_or_default();
        User { name, method: "TLS".into(), certificates: Arc::new(certificates) }
    }

    /// The user's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The method by which the user was known.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    pub(crate) fn certificates(&self) -> impl Iterator<Item = &[u8]> {
        self.certificates.iter().map(Vec::as_slice)
    }
}

/// The tags of DER that lead to a subject's common name.
#[cfg(any(feature = "tls", test))]
mod tag {
    pub(super) const SEQUENCE: u8 = 0x30;
    pub(super) const SET: u8 = 0x31;
    pub(super) const VERSION: u8 = 0xa0;
    pub(super) const OBJECT: u8 = 0x06;
    /// UTF8String, PrintableString, TeletexString, IA5String.
    pub(super) const TEXTS: [u8; 4] = [0x0c, 0x13, 0x14, 0x16];
}

/// The last common name of a certificate's subject, as Go reads it. The certificate's signature was verified already.
#[cfg(any(feature = "tls", test))]
fn common_name(der: &[u8]) -> Option<String> {
    let (certificate, _) = element(der, tag::SEQUENCE)?;
    let (mut rest, _) = element(certificate, tag::SEQUENCE)?;
    if let Some((_, after)) = element(rest, tag::VERSION) {
        rest = after;
    }
    // Serial number, signature, issuer, validity.
    for _ in 0..4 {
        rest = any(rest)?.2;
    }
    let (mut names, _) = element(rest, tag::SEQUENCE)?;
    let mut found = None;
    while let Some((mut set, after)) = element(names, tag::SET) {
        while let Some((pair, next)) = element(set, tag::SEQUENCE) {
            let (object, value) = element(pair, tag::OBJECT)?;
            let (kind, text, _) = any(value)?;
            if object == [0x55, 4, 3] && tag::TEXTS.contains(&kind) {
                found = Some(String::from_utf8(text.to_vec()).ok()?);
            }
            set = next;
        }
        names = after;
    }
    found
}

/// The content of the first element, which must have that tag, and the bytes behind it.
#[cfg(any(feature = "tls", test))]
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    any(bytes).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

#[cfg(any(feature = "tls", test))]
fn any(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let length = match first {
        0..=0x7f => usize::from(first),
        0x81..=0x84 => {
            let (digits, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
            rest = after;
            digits.iter().fold(0, |all, &digit| all << 8 | usize::from(digit))
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut all = vec![tag, 0x82, (content.len() >> 8) as u8, content.len() as u8];
        all.extend_from_slice(content);
        all
    }

    fn name(pairs: &[(u8, &[u8])]) -> Vec<u8> {
        let one = |(last, text): &(u8, &[u8])| {
            let pair = [der(6, &[0x55, 4, *last]), der(0x0c, text)].concat();
            der(tag::SET, &der(tag::SEQUENCE, &pair))
        };
        der(tag::SEQUENCE, &pairs.iter().flat_map(one).collect::<Vec<u8>>())
    }

    #[test]
    fn the_subject_has_the_name_and_the_issuer_has_not() {
        let issuer = name(&[(3, b"authority")]);
        let subject = name(&[(10, b"unit"), (3, b"first"), (3, b"alice")]);
        let body = [der(tag::VERSION, &[]), der(2, &[1]), der(0x30, &[]), issuer, der(0x30, &[]), subject].concat();
        let certificate = der(tag::SEQUENCE, &der(tag::SEQUENCE, &body));
        let user = User::of_certificates(vec![certificate.clone()]);
        assert_eq!((user.name(), user.method()), ("alice", "TLS"));
        for length in 0..certificate.len() {
            assert_eq!(User::of_certificates(vec![certificate[..length].to_vec()]).name(), "", "{length}");
        }
        assert_eq!(User::of_certificates(vec![vec![0x30, 0x84, 255, 255, 255, 255]]).name(), "");
    }
}
