//! Names of images: the grammar of docker/distribution and its familiar form.

use crate::error::{Error, Result};
use crate::hex::{is_hex, is_hex_id};
use crate::model::split_registry;
use std::fmt;

/// The registry that a name without a host means.
const DEFAULT_DOMAIN: &str = "docker.io";
/// The tag that a name without one means.
const DEFAULT_TAG: &str = "latest";

/// A parsed image name: `[domain/]path[:tag][@digest]`, the domain always filled in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    domain: String,
    path: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl Reference {
    /// Reads a name as a person writes it: `busybox`, `user/app:1`, `host:5000/app@sha256:...`.
    pub(crate) fn parse(text: &str) -> Result<Reference> {
        if is_hex_id(text) {
            return Err(Error::invalid(format!(
                "invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
            )));
        }
        let (domain, rest) = split_domain(text);
        let domain = if domain == "index.docker.io" { DEFAULT_DOMAIN } else { domain };
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (rest, None),
        };
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        if path.chars().any(char::is_uppercase) {
            return Err(Error::invalid("invalid reference format: repository name must be lowercase"));
        }
        let path = match domain == DEFAULT_DOMAIN && !path.contains('/') {
            true => format!("library/{path}"),
            false => path.to_owned(),
        };
        if !valid_domain(domain) || !path.split('/').all(valid_component) || !tag.is_none_or(valid_tag) {
            return Err(Error::invalid("invalid reference format"));
        }
        if let Some(digest) = digest {
            check_digest(digest)?;
        }
        if domain.len() + 1 + path.len() > 255 {
            return Err(Error::invalid("repository name must not be more than 255 characters"));
        }
        Ok(Reference {
            domain: domain.to_owned(),
            path,
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }

    /// Reads `repository[:tag]` that names a tag: a missing tag becomes `latest`, a digest is refused.
    pub(crate) fn parse_tag(text: &str) -> Result<Reference> {
        let reference = Reference::parse(text)?;
        if reference.digest.is_some() {
            return Err(Error::invalid("refusing to create a tag with a digest reference"));
        }
        reference.check_ambiguity()?;
        Ok(reference.or_latest())
    }

    /// A name that reads as the beginning of a digest is given to nothing.
    pub(crate) fn check_ambiguity(&self) -> Result<()> {
        match self.repository() == "sha256" {
            true => Err(Error::invalid("refusing to create an ambiguous tag using digest algorithm as name")),
            false => Ok(()),
        }
    }

    /// Adds the tag `latest` to a name that has neither tag nor digest.
    pub(crate) fn or_latest(mut self) -> Reference {
        if self.tag.is_none() && self.digest.is_none() {
            self.tag = Some(DEFAULT_TAG.to_owned());
        }
        self
    }

    /// Names another tag of the repository.
    pub(crate) fn with_tag(mut self, tag: &str) -> Result<Reference> {
        if !valid_tag(tag) {
            return Err(Error::invalid("invalid tag format"));
        }
        self.tag = Some(tag.to_owned());
        self.digest = None;
        Ok(self)
    }

    /// Names a digest of the repository; a tag, if there is one, no longer counts.
    #[cfg(feature = "registry")]
    pub(crate) fn with_digest(mut self, digest: &str) -> Result<Reference> {
        check_digest(digest)?;
        self.tag = None;
        self.digest = Some(digest.to_owned());
        Ok(self)
    }

    /// The name with everything that a familiar one leaves out: `docker.io/library/busybox:latest`.
    pub(crate) fn full(&self) -> String {
        let tag = self.tag.as_deref().map(|tag| format!(":{tag}")).unwrap_or_default();
        let digest = self.digest.as_deref().map(|digest| format!("@{digest}")).unwrap_or_default();
        format!("{}/{}{tag}{digest}", self.domain, self.path)
    }

    /// The registry's host: `docker.io`, `localhost:5000`.
    #[cfg(feature = "registry")]
    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    /// The repository's path in its registry: `library/busybox`.
    #[cfg(feature = "registry")]
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The repository as people see it: `busybox`, `user/app`, `host:5000/app`.
    pub(crate) fn repository(&self) -> String {
        if self.domain != DEFAULT_DOMAIN {
            return format!("{}/{}", self.domain, self.path);
        }
        let short = self.path.strip_prefix("library/").filter(|rest| !rest.contains('/'));
        let short = short.unwrap_or(&self.path);
        // Without its host it would name something else: `docker.io/a.b/c` is not `a.b/c`, and 64 digits are an id.
        match split_domain(short).1 == short && !is_hex_id(short) {
            true => short.to_owned(),
            false => format!("{DEFAULT_DOMAIN}/{short}"),
        }
    }

    pub(crate) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub(crate) fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

/// The familiar form, which is also the form stored.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository())?;
        // As in docker, a digest wins over a tag beside it: the tag says nothing more.
        match (&self.digest, &self.tag) {
            (Some(digest), _) => write!(f, "@{digest}"),
            (None, Some(tag)) => write!(f, ":{tag}"),
            (None, None) => Ok(()),
        }
    }
}

fn split_domain(text: &str) -> (&str, &str) {
    let (domain, path) = split_registry(text);
    (domain.unwrap_or(DEFAULT_DOMAIN), path)
}

fn valid_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) => {
                if address.is_empty() || !address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':') {
                    return false;
                }
                return port.is_empty() || port.strip_prefix(':').is_some_and(valid_port);
            }
            None => return false,
        },
        None => match domain.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (domain, None),
        },
    };
    let component = |c: &str| {
        !c.is_empty()
            && !c.starts_with('-')
            && !c.ends_with('-')
            && c.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    host.split('.').all(component) && port.is_none_or(valid_port)
}

fn valid_port(port: &str) -> bool {
    port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok()
}

/// Lower-case letters and digits, between them `.`, `_`, `__` or any run of `-`.
fn valid_component(component: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return false };
    if !word(first) || !word(last) {
        return false;
    }
    component
        .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        .all(|gap| matches!(gap, "" | "." | "_" | "__") || gap.bytes().all(|b| b == b'-'))
}

fn valid_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = tag.as_bytes();
    bytes.len() <= 128
        && bytes.first().is_some_and(|&b| word(b))
        && bytes.iter().all(|&b| word(b) || b == b'.' || b == b'-')
}

fn check_digest(digest: &str) -> Result<()> {
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return Err(Error::invalid("invalid reference format"));
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return Err(Error::invalid("unsupported digest algorithm")),
    };
    if hex.len() != length {
        return Err(Error::invalid("invalid checksum digest length"));
    }
    if !is_hex(hex) {
        return Err(Error::invalid("invalid checksum digest format"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn familiar(text: &str) -> String {
        Reference::parse(text).unwrap().to_string()
    }

    #[test]
    fn names_have_one_familiar_form() {
        for (text, want) in [
            ("busybox", "busybox"),
            ("busybox:1", "busybox:1"),
            ("docker.io/busybox", "busybox"),
            ("docker.io/library/busybox:x", "busybox:x"),
            ("index.docker.io/library/busybox", "busybox"),
            ("index.docker.io/user/app:2", "user/app:2"),
            ("library/a/b", "library/a/b"),
            ("docker.io/a.b/c:1", "docker.io/a.b/c:1"),
            ("docker.io/localhost/c", "docker.io/localhost/c"),
            ("localhost/app", "localhost/app"),
            ("host:5000/app", "host:5000/app"),
            ("[::1]:5000/app:t", "[::1]:5000/app:t"),
            ("a--b__c.d_e", "a--b__c.d_e"),
            ("x.y/a:TAG", "x.y/a:TAG"),
        ] {
            assert_eq!(familiar(text), want, "{text}");
        }
        let latest = Reference::parse("busybox").unwrap().or_latest();
        assert_eq!(
            (latest.domain.as_str(), latest.path.as_str(), latest.tag()),
            ("docker.io", "library/busybox", Some("latest"))
        );
    }

    #[test]
    fn a_digest_stays_and_hides_the_tag() {
        let text = format!("busybox:1@sha256:{}", "a".repeat(64));
        assert_eq!(familiar(&text), format!("busybox@sha256:{}", "a".repeat(64)));
        assert!(Reference::parse_tag(&text).is_err());
    }

    #[test]
    fn the_parser_refuses_references_outside_the_grammar() {
        let long = format!("{}/x", "a".repeat(255));
        let tag = format!("a:{}", "t".repeat(129));
        for text in [
            "",
            ":",
            "a:",
            ":a",
            "a//b",
            "/a",
            "a/",
            "-a",
            "a-",
            "a..b",
            "a___b",
            "a:b c",
            "a@b",
            "a@sha256:12",
            "a@md5:00",
            "host:99999/x",
            "-h.x/a",
            "[zz]:1/a",
            "a.b_c/x",
            "../x",
            "a:-x",
            &long,
            &tag,
        ] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
        let message = |text: &str| Reference::parse(text).unwrap_err().message().to_owned();
        assert_eq!(message("Busybox"), "invalid reference format: repository name must be lowercase");
        assert_eq!(message("a b"), "invalid reference format");
        assert!(message(&"a".repeat(64)).contains("64-byte hexadecimal"));
    }
}
