//! Registries: credentials, and the requests of pull and push.

use super::base64::from_base64;
use super::{Filters, ImagePlatform};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How registries are reached.
///
/// ```
/// use coracle::Options;
/// use coracle::model::Mirror;
/// use std::time::Duration;
///
/// let mut options = Options::new("/var/lib/coracle");
/// options.registry.insecure = vec!["10.0.0.0/8".into()];
/// options.registry.mirrors = vec![Mirror::parse("docker.io=https://mirror.example")?];
/// options.registry.silence = Duration::from_secs(20);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryOptions {
    /// Registries (`host`, `host:port`, or networks such as `10.0.0.0/8`) whose certificates are not verified, and
    /// which may be used without TLS. This machine's loopback addresses always belong to them.
    pub insecure: Vec<String>,
    /// Directories with one directory per `host:port`, which hold authorities (`*.crt`) and client certificates
    /// (`*.cert` with `*.key`) for that registry.
    pub certs_dirs: Vec<PathBuf>,
    /// Registries that a pull asks first, in this order; the registry itself comes last.
    pub mirrors: Vec<Mirror>,
    /// Longest silence of a registry in the middle of an answer, and longest wait for a connection (at most 20 s).
    pub silence: Duration,
    /// Limit in bytes for all partial downloads that pulls leave under `root/tmp` to resume from; the oldest are
    /// removed first, and all after a week. 0: pulls leave none.
    pub parts_limit: u64,
    /// The proxies through which other machines are reached.
    pub proxies: Proxies,
}

/// Addresses of proxies, which may hold a password. Absent: read from the environment once, when the engine is opened;
/// the host program may change its environment afterwards. Empty: no proxy.
///
/// ```
/// use coracle::model::Proxies;
///
/// let mut options = coracle::Options::new("/var/lib/coracle");
/// options.registry.proxies = Proxies {
///     https: Some("http://proxy.example:3128".into()),
///     exempt: Some("localhost,.example".into()),
///     ..Default::default()
/// };
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For files without TLS (build files' `ADD`); absent: `HTTP_PROXY` or `http_proxy`.
    pub http: Option<String>,
    /// For registries, files and receivers of logs with TLS; absent: `HTTPS_PROXY` or `https_proxy`.
    pub https: Option<String>,
    /// Hosts that are used without a proxy, separated by commas; absent: `NO_PROXY` or `no_proxy`. This machine is
    /// always one of them.
    pub exempt: Option<String>,
}

/// Without the passwords.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_set = |value: &Option<String>| value.as_ref().is_some_and(|value| !value.is_empty());
        write!(f, "Proxies {{ http: {}, https: {} }}", is_set(&self.http), is_set(&self.https))
    }
}

impl Proxies {
    /// Fills in absent values from the environment.
    pub(crate) fn or_of_environment(self) -> Proxies {
        let variable = |name: &str| {
            let value = std::env::var(name).or_else(|_| std::env::var(name.to_ascii_lowercase()));
            Some(value.unwrap_or_default())
        };
        Proxies {
            http: self.http.or_else(|| variable("HTTP_PROXY")),
            https: self.https.or_else(|| variable("HTTPS_PROXY")),
            exempt: self.exempt.or_else(|| variable("NO_PROXY")),
        }
    }
}

impl Default for RegistryOptions {
    fn default() -> RegistryOptions {
        let certs_dirs = ["/etc/coracle/certs.d", "/etc/docker/certs.d"].map(PathBuf::from).to_vec();
        RegistryOptions {
            insecure: Vec::new(),
            certs_dirs,
            mirrors: Vec::new(),
            silence: Duration::from_secs(60),
            parts_limit: 4 << 30,
            proxies: Proxies::default(),
        }
    }
}

/// A mirror with a registry's content. Credentials of the registry never go there.
///
/// ```
/// use coracle::model::Mirror;
///
/// let mirror = Mirror::parse("docker.io=https://mirror.example")?;
/// assert_eq!((mirror.registry.as_str(), mirror.url.as_str()), ("docker.io", "https://mirror.example"));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// The registry's name in references: `docker.io`, `reg.example:5000`.
    pub registry: String,
    /// `https://host[:port]`, or `http://host[:port]` if it may be used without TLS.
    pub url: String,
}

impl Mirror {
    /// Reads `URL` (a mirror of `docker.io`) or `REGISTRY=URL`.
    pub fn parse(text: &str) -> Result<Mirror> {
        let (registry, url) = match text.split_once("=") {
            Some((registry, url)) if !registry.contains("://") => (registry, url),
            _ => ("docker.io", text),
        };
        let host = url.strip_prefix("https://").or(url.strip_prefix("http://")).map(|rest| rest.trim_end_matches('/'));
        match host {
            Some(host) if !host.is_empty() && !host.contains(['/', '@', '?', '#', ' ']) && !registry.is_empty() => {
                Ok(Mirror { registry: registry.to_owned(), url: url.trim_end_matches('/').to_owned() })
            }
            _ => Err(Error::invalid(format!("mirror {text:?}: not [REGISTRY=]http[s]://HOST[:PORT]"))),
        }
    }
}

/// An address and a number of leading bits (`10.0.0.0/8`). `None`: the text is not a network, but perhaps a host.
fn address_range(text: &str) -> Option<(IpAddr, u32)> {
    let (base, bits) = text.split_once('/')?;
    let (base, bits) = (base.parse::<IpAddr>().ok()?, bits.parse().ok()?);
    let most = if base.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((base, bits))
}

/// Whether a text is a network, and not a host.
pub(crate) fn is_address_range(text: &str) -> bool {
    address_range(text).is_some()
}

/// Addresses by their leading bits.
#[cfg(feature = "registry")]
pub(crate) struct AddressRange {
    base: IpAddr,
    bits: u32,
}

#[cfg(feature = "registry")]
impl AddressRange {
    /// `None`: the text is not a network, but perhaps a host.
    pub(crate) fn parse(text: &str) -> Option<AddressRange> {
        address_range(text).map(|(base, bits)| AddressRange { base, bits })
    }

    /// Whether an address belongs to the range.
    pub(crate) fn holds(&self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u32| self.bits == 0 || (a ^ b) >> (width - self.bits) == 0;
        match (address, self.base) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
            _ => false,
        }
    }
}

/// The registry in front of an image's name, and the rest; `None`: the default registry (`docker.io`). The first part
/// is a host only if it cannot belong to a repository.
pub fn split_registry(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
        _ => (None, name),
    }
}

/// Credentials for a registry: name and password, an identity token, or a registry token. All empty: none.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::RegistryAuth;
///
/// let auth = RegistryAuth {
///     username: "anna".into(),
///     password: "secret".into(),
///     serveraddress: "registry.example".into(),
///     ..Default::default()
/// };
/// println!("{}", engine.registry_auth(&auth, None)?.status);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegistryAuth {
    /// User name.
    pub username: String,
    /// The password of that user.
    pub password: String,
    /// Name and password as base64 of `name:password`, if they are not given separately.
    pub auth: String,
    /// Not used any more.
    pub email: String,
    /// The registry of these credentials: a host, or its URL; empty: the default registry.
    pub serveraddress: String,
    /// A refresh token: exchanged for access tokens.
    pub identitytoken: String,
    /// An access token: sent unchanged.
    pub registrytoken: String,
}

impl RegistryAuth {
    /// Reads the header `X-Registry-Auth`: base64 (either alphabet) of this document. As in docker, an unreadable
    /// header means no credentials.
    pub fn from_header(text: &str) -> RegistryAuth {
        let document = from_base64(text).and_then(|bytes| crate::document::read(&bytes).ok());
        document.unwrap_or_default()
    }

    /// Name and password, if there are any.
    pub fn basic(&self) -> Option<(String, String)> {
        if !self.username.is_empty() || !self.password.is_empty() {
            return Some((self.username.clone(), self.password.clone()));
        }
        let text = String::from_utf8(from_base64(&self.auth)?).ok()?;
        let (name, password) = text.split_once(':')?;
        Some((name.to_owned(), password.trim_end_matches('\0').to_owned()))
    }
}

/// Without the secrets.
impl fmt::Debug for RegistryAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegistryAuth for {:?} as {:?}", self.serveraddress, self.username)
    }
}

/// Answer of a login.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::RegistryAuth;
///
/// let login = RegistryAuth {
///     username: "ada".into(),
///     password: "s3cret".into(),
///     serveraddress: "registry.example".into(),
///     ..Default::default()
/// };
/// println!("{}", engine.registry_auth(&login, None)?.status);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuthStatus {
    /// `Login Succeeded`.
    pub status: String,
    /// A refresh token to use instead of the password, if the registry gives one.
    pub identity_token: String,
}

/// A request for a pull.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::PullImage;
///
/// let pull = PullImage { name: "busybox:1.36".into(), ..Default::default() };
/// let id = engine.image_pull(&pull, &mut |progress| { println!("{}", progress.status); Ok(()) }, None)?;
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PullImage {
    /// The image: `repository[:tag][@digest]`.
    pub name: String,
    /// A tag or a digest for a bare repository. If neither this nor the name has one: `latest`, or, for
    /// [`crate::Engine::image_pull_tags`], every tag of the repository.
    pub tag: String,
    /// Credentials.
    pub auth: RegistryAuth,
    /// The platform whose image is meant, if the name is that of a list; absent: this machine's. An image of another platform
    /// is stored like any other; it runs only if the kernel can (`binfmt_misc`).
    pub platform: Option<ImagePlatform>,
}

/// A request for a search.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::SearchImages;
///
/// let search = SearchImages { term: "busybox".into(), limit: Some(5), ..Default::default() };
/// for found in engine.image_search(&search, None)? {
///     println!("{}", found.name);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchImages {
    /// The words to look for; `host[:port]/words` asks that registry.
    pub term: String,
    /// The greatest number of results, 1 to 100; absent: 25.
    pub limit: Option<i64>,
    /// `is-official`, `is-automated` (true or false), `stars` (at least this many).
    pub filters: Filters,
    /// Credentials.
    pub auth: RegistryAuth,
}

/// One image that a search found.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::SearchImages;
///
/// for found in engine.image_search(&SearchImages { term: "busybox".into(), ..Default::default() }, None)? {
///     println!("{} {} stars: {}", found.name, found.star_count, found.description);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SearchResult {
    /// The number of users who like it.
    pub star_count: i64,
    /// Whether the registry's owner vouches for it.
    pub is_official: bool,
    /// Repository.
    pub name: String,
    /// An older name of `is_automated`.
    pub is_trusted: bool,
    /// Whether the registry built it.
    pub is_automated: bool,
    /// One line about it.
    pub description: String,
}

/// A request for a push.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::PushImage;
///
/// let push = PushImage { name: "registry.example/site:1".into(), ..Default::default() };
/// println!("{}", engine.image_push(&push, &mut |_progress| Ok(()), None)?.digest);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PushImage {
    /// The image: `repository[:tag]`; the repository says which registry.
    pub name: String,
    /// A tag for a bare repository. If neither this nor the name has one: `latest`, or, for [`crate::Engine::image_push_tags`],
    /// every local tag of the repository.
    pub tag: String,
    /// Credentials.
    pub auth: RegistryAuth,
}

/// The manifest that a push left at the registry.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::PushImage;
///
/// let pushed = engine.image_push(&PushImage::of("registry.example/site:1"), &mut |_progress| Ok(()), None)?;
/// println!("registry.example/site@{}", pushed.digest);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Pushed {
    /// The image's tag.
    pub tag: String,
    /// The digest, by which the image can be pulled.
    pub digest: String,
    /// The manifest's bytes.
    pub size: u64,
}

#[cfg(test)]
mod tests {
    use super::super::base64::to_base64;
    use super::*;

    #[test]
    fn mirrors_name_a_registry_and_an_address() {
        let mirror = |registry: &str, url: &str| Mirror { registry: registry.into(), url: url.into() };
        assert_eq!(Mirror::parse("https://m.example/").unwrap(), mirror("docker.io", "https://m.example"));
        assert_eq!(Mirror::parse("r.example:5=http://m:1").unwrap(), mirror("r.example:5", "http://m:1"));
        for bad in ["", "m.example", "ftp://m", "https://", "https://u:p@m", "https://m/path", "=https://m"] {
            assert!(Mirror::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_header_has_two_forms_and_shows_no_secret() {
        let login = RegistryAuth::from_header(&to_base64(br#"{"username":"u","password":"p:w","email":"e"}"#));
        assert_eq!(login.basic(), Some(("u".into(), "p:w".into())));
        let token = RegistryAuth::from_header(&to_base64(br#"{"registrytoken":"t"}"#));
        assert_eq!((token.registrytoken.as_str(), token.basic()), ("t", None));
        assert_eq!(RegistryAuth::from_header("not base64"), RegistryAuth::default());
        let packed = RegistryAuth { auth: to_base64(b"u:p:w"), ..RegistryAuth::default() };
        assert_eq!(packed.basic(), login.basic());
        assert!(!format!("{login:?} {token:?} {packed:?}").contains("p:w"));
    }
}
