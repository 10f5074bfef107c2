//! HTTP to registries: beside `src/tls.rs` the only file here that knows ureq.
//!
//! One [`Transport`] belongs to one pull or push; stopping it ends every call of its on any thread. Redirects are
//! followed here, and never take credentials to another host nor from TLS to plain HTTP.

use super::trust::{certificates, is_insecure};
use super::url::Url;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::thread;
use crate::model::{Mirror, Proxies, RegistryOptions};
use crate::tls;
use crate::walls::Wall;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::Read;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use ureq::config::Config;
use ureq::tls::TlsConfig;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, AsSendBody, SendBody, http};

const CONNECT: Duration = Duration::from_secs(20);
/// How often a wait for a thread looks whether the transport was stopped.
const LOOK: Duration = Duration::from_millis(50);
/// How many times the longest silence an answer may take to begin: a registry may digest a large upload first.
const ANSWER: u32 = 5;
const MAX_HEADERS: usize = 64 << 10;
const MAX_REDIRECTS: u32 = 5;
const AGENT: &str = concat!("coracle/", env!("CARGO_PKG_VERSION"));

/// The connections of one pull or push.
pub(crate) struct Transport {
    options: RegistryOptions,
    /// Any server may be asked, with or without TLS; none has the trust that registries were given.
    files: bool,
    stopped: AtomicBool,
    /// A request that failed may be tried elsewhere.
    halted: AtomicBool,
    origins: Mutex<HashMap<String, Origin>>,
}

/// An origin's connections, and how they are made.
#[derive(Clone)]
struct Origin {
    agent: Agent,
    proxy: Option<ureq::Proxy>,
    tls: Option<TlsConfig>,
}

/// A request.
pub(super) struct Ask<'a> {
    pub(super) method: &'static str,
    pub(super) url: Url,
    /// A server elsewhere named the address.
    pub(super) redirected: bool,
    pub(super) headers: Vec<(&'static str, String)>,
    /// The header `Authorization`: only ever sent to the origin of `url`.
    pub(super) authorization: Option<String>,
    pub(super) body: Payload<'a>,
}

impl Ask<'_> {
    /// A GET of an address that the caller named, without credentials.
    pub(super) fn get(url: Url) -> Ask<'static> {
        Ask { method: "GET", url, redirected: false, headers: vec![], authorization: None, body: Payload::None }
    }
}

pub(super) enum Payload<'a> {
    None,
    Bytes(&'a [u8]),
    /// Sent in chunks; it cannot be sent twice.
    Stream(&'a mut dyn Read),
}

/// An answer whose body is still to be read.
pub(super) struct Answer {
    pub(super) status: u16,
    /// Where it came from, after redirects.
    pub(super) url: Url,
    /// Whether a further attempt makes no sense.
    pub(super) is_last: bool,
    headers: http::HeaderMap,
    body: ureq::Body,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    /// The body, of at most `limit` bytes.
    pub(super) fn bytes(self, limit: usize) -> Result<Vec<u8>> {
        let shown = self.url.shown();
        let limit = if Wall::AnswerSizes.stands() { limit } else { limit.saturating_mul(16) };
        let mut bytes = Vec::new();
        let read = self.reader().take(limit as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|e| lost(format!("{shown}: {e}")))?;
        if bytes.len() > limit {
            return Err(Error::internal(format!("{shown}: the answer has more than {limit} bytes")));
        }
        Ok(bytes)
    }

    pub(super) fn reader(self) -> impl Read + Send + 'static {
        self.body.into_with_config().limit(u64::MAX).reader()
    }

    /// The length that the answer promises.
    pub(super) fn length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }
}

impl Transport {
    pub(crate) fn new(options: RegistryOptions) -> Transport {
        let (stopped, halted) = (AtomicBool::new(false), AtomicBool::new(false));
        Transport { options, files: false, stopped, halted, origins: Mutex::default() }
    }

    /// For files of any server: what was said about registries (client certificates, authorities, insecure ones,
    /// mirrors) does not hold for it, whatever its name.
    pub(super) fn for_files(options: &RegistryOptions) -> Transport {
        let (insecure, certs_dirs, mirrors) = Default::default();
        let options = RegistryOptions { insecure, certs_dirs, mirrors, ..options.clone() };
        Transport { files: true, ..Transport::new(options) }
    }

    /// Ends every call, now and later.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.halt();
    }

    /// Ends every call until [`Transport::revive`].
    pub(crate) fn halt(&self) {
        self.halted.store(true, Ordering::SeqCst);
        for (_, origin) in self.origins.lock().drain() {
            origin.agent.shutdown();
        }
    }

    /// Goes on after [`Transport::halt`], unless stopped.
    pub(crate) fn revive(&self) -> Result<()> {
        self.halted.store(false, Ordering::SeqCst);
        self.check()
    }

    /// The longest silence of a server.
    pub(crate) fn silence(&self) -> Duration {
        self.options.silence
    }

    /// The error of a stopped transport.
    pub(crate) fn check(&self) -> Result<()> {
        match self.stopped.load(Ordering::SeqCst) || self.halted.load(Ordering::SeqCst) {
            true => Err(Error::new(ErrorKind::Cancelled, "the operation was cancelled")),
            false => Ok(()),
        }
    }

    /// Waits, unless stopped.
    pub(crate) fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    /// Whether a registry is to be tried without TLS where it does not speak that.
    pub(super) fn may_be_plain(&self, authority: &str) -> Result<bool> {
        let vouched = !certificates(authority, &self.options)?.authorities.is_empty();
        Ok(self.is_insecure(authority) && !(vouched && Wall::PlainFallback.stands()))
    }

    fn is_insecure(&self, authority: &str) -> bool {
        !self.files && is_insecure(authority, &self.options)
    }

    /// The mirrors of a registry, in the order they are to be asked.
    pub(crate) fn mirrors(&self, domain: &str) -> Vec<Mirror> {
        self.options.mirrors.iter().filter(|mirror| mirror.registry == domain).cloned().collect()
    }

    /// Whether somebody said that there is a mirror without TLS there.
    fn is_plain_mirror(&self, url: &Url) -> bool {
        let same = |mirror: &Mirror| Url::parse(&mirror.url).is_ok_and(|mirror| mirror.same_origin(url));
        self.options.mirrors.iter().any(same)
    }

    /// Whether somebody spoke of this very server: as an insecure one, or by an authority for it.
    fn is_listed(&self, authority: &str) -> Result<bool> {
        let listed = self.options.insecure.iter().any(|entry| entry.eq_ignore_ascii_case(authority));
        Ok(listed || !certificates(authority, &self.options)?.authorities.is_empty())
    }

    /// Sends one request; GET and HEAD follow redirects. Connections that fail are [`ErrorKind::Unavailable`].
    pub(super) fn send(&self, mut ask: Ask<'_>) -> Result<Answer> {
        let first = ask.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let method = ask.method;
            let answer = self.once(&mut ask)?;
            let redirected = matches!(answer.status, 301 | 302 | 303 | 307 | 308) && matches!(method, "GET" | "HEAD");
            let Some(location) = answer.header("location").filter(|_| redirected) else { return Ok(answer) };
            let next = answer.url.join(location)?;
            if answer.url.https && !next.https {
                return Err(Error::internal(format!("{}: a redirect away from TLS is refused", answer.url.shown())));
            }
            if !next.same_origin(&first) {
                ask.authorization = None;
            }
            ask.redirected |= next.is_redirected_from(&first);
            ask.url = next;
        }
        Err(Error::internal(format!("{}: more than {MAX_REDIRECTS} redirects", first.shown())))
    }

    fn once(&self, ask: &mut Ask<'_>) -> Result<Answer> {
        self.check()?;
        let url = ask.url.clone();
        if !url.https && !self.files && !self.is_insecure(&url.authority) && !self.is_plain_mirror(&url) {
            let authority = &url.authority;
            return Err(Error::internal(format!(
                "plain HTTP to {authority} is refused: it is not listed as an insecure registry"
            )));
        }
        let origin = self.origin(&url, ask.redirected && !self.is_listed(&url.authority)?)?;
        let mut request = http::Request::builder().method(ask.method).uri(url.text());
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        if let Some(authorization) = &ask.authorization {
            request = request.header("authorization", authorization);
        }
        let malformed = |_| Error::internal(format!("{} {}: not a well-formed request", ask.method, url.shown()));
        let result = match &mut ask.body {
            Payload::None => self.run_apart(&origin, request.body(()).map_err(malformed)?)?,
            Payload::Bytes(bytes) => self.run_apart(&origin, request.body(bytes.to_vec()).map_err(malformed)?)?,
            Payload::Stream(stream) => {
                let request = request.body(SendBody::from_reader(*stream)).map_err(malformed)?;
                run(&origin, request, self.options.silence)
            }
        };
        // A stopped transport has closed the connection: that is the reason, not the failure.
        self.check()?;
        let (parts, body) = result.map_err(|e| failed(ask.method, &url, &origin, &e))?.into_parts();
        Ok(Answer { status: parts.status.as_u16(), url, is_last: false, headers: parts.headers, body })
    }

    /// An origin: each has a trust of its own. `redirected`: it is one of those that [`Elsewhere`] is for.
    fn origin(&self, url: &Url, redirected: bool) -> Result<Origin> {
        let redirected = redirected && Wall::LedAddresses.stands();
        // A proxy looks names up by itself.
        if redirected && url.address().is_some_and(is_own) {
            return Err(Error::internal(format!("{}: {OWN}", url.shown())));
        }
        let key = format!("{}://{} {redirected}", url.https, url.authority);
        if let Some(origin) = self.origins.lock().get(&key) {
            return Ok(origin.clone());
        }
        let proxy = proxy(url, self.files, &self.options.proxies)?;
        let tls = url.https.then(|| self.tls(&url.authority)).transpose()?;
        let agent = match redirected && proxy.is_none() {
            true => Agent::with_parts(tls::plain().clone(), DefaultConnector::default(), Elsewhere::default()),
            false => tls::plain_agent(),
        };
        let origin = Origin { agent, proxy, tls };
        let mut origins = self.origins.lock();
        // Not one that a stop would miss.
        self.check()?;
        Ok(origins.entry(key).or_insert(origin).clone())
    }

    /// Sends a request on a thread of its own, which is left alone once the transport is stopped: nothing ends a look-up
    /// of a name or a connect, and they take up to [`CONNECT`].
    fn run_apart<B: AsSendBody + Send + 'static>(&self, origin: &Origin, request: http::Request<B>) -> Result<Ran> {
        let (origin, silence) = (origin.clone(), self.options.silence);
        self.apart("registry-request", move || run(&origin, request, silence))
    }

    /// The result of `work`, which has a thread of its own. Errors: the transport is stopped, and `work` goes on alone.
    pub(crate) fn apart<T: Send + 'static>(&self, name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (done, end) = mpsc::channel();
        thread::spawn_worker(name, move || {
            // Nobody takes the result of a stopped transport.
            let _ = done.send(work());
        })?;
        loop {
            match end.recv_timeout(LOOK) {
                Ok(result) => return Ok(result),
                Err(RecvTimeoutError::Timeout) => self.check()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::internal(format!("{name}: its thread panicked")));
                }
            }
        }
    }

    fn tls(&self, authority: &str) -> Result<TlsConfig> {
        let own = certificates(authority, &self.options)?;
        let mut roots = tls::system_roots().to_vec();
        roots.extend(own.authorities.iter().flat_map(|pem| tls::certificates(pem)));
        let bad = || Error::invalid(format!("the client certificate for {authority} cannot be read"));
        let client = own.client.as_ref().map(|(chain, key)| tls::client(chain, key).ok_or_else(bad)).transpose()?;
        // Where an authority was given for it, an insecure registry is verified as any other.
        let verified = !own.authorities.is_empty() || !self.is_insecure(authority);
        Ok(tls::config(&roots, client, verified))
    }
}

type Ran = std::result::Result<http::Response<ureq::Body>, ureq::Error>;

/// Sends a request as it is.
fn run<B: AsSendBody>(origin: &Origin, request: http::Request<B>, silence: Duration) -> Ran {
    let config = origin
        .agent
        .configure_request(request)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(MAX_HEADERS)
        .timeout_connect(Some(CONNECT.min(silence)))
        .timeout_per_read(Some(silence))
        .timeout_per_write(Some(silence))
        .timeout_recv_response(Some(silence.saturating_mul(ANSWER)))
        .user_agent(AGENT)
        .proxy(origin.proxy.clone());
    let config = match &origin.tls {
        Some(tls) => config.tls_config(tls.clone()),
        None => config,
    };
    origin.agent.run(config.build())
}

/// Why an address is refused that a server elsewhere named.
const OWN: &str = "a server led there, which is this machine or its link: refused unless it is listed as insecure";

/// Whether an address is this machine's own, or one that only its link knows (where clouds keep their secrets).
fn is_own(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local() || v6.is_unspecified(),
    }
}

/// Looks names up for addresses that a server elsewhere named: none of this machine's own is found.
#[derive(Default)]
struct Elsewhere(DefaultResolver);

impl std::fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Elsewhere")
    }
}

impl Resolver for Elsewhere {
    fn resolve(
        &self,
        uri: &http::Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> std::result::Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.0.resolve(uri, config, timeout)?;
        match found.iter().any(|address| is_own(address.ip())) {
            true => Err(ureq::Error::Io(std::io::Error::new(std::io::ErrorKind::PermissionDenied, OWN))),
            false => Ok(found),
        }
    }
}

/// The proxy for an address: of TLS, or of a file (which it is asked to tunnel to as well).
/// Registries without TLS are asked straight: they are on this machine or were listed.
fn proxy(url: &Url, files: bool, proxies: &Proxies) -> Result<Option<ureq::Proxy>> {
    #[cfg(feature = "attacks")]
    let proxies = &if Wall::ProxyAtOpen.stands() { proxies.clone() } else { Proxies::default().or_of_environment() };
    let (name, proxy) = match (url.https, files) {
        (true, _) => ("HTTPS_PROXY", &proxies.https),
        (false, true) => ("HTTP_PROXY", &proxies.http),
        (false, false) => return Ok(None),
    };
    // This machine needs none.
    if coracle_ship::is_exempt(url.host(), url.port_or_usual(), proxies.exempt.as_deref().unwrap_or_default()) {
        return Ok(None);
    }
    let Some(proxy) = proxy.as_deref().filter(|proxy| !proxy.is_empty()) else { return Ok(None) };
    let proxy = ureq::Proxy::new(proxy);
    // The address is not shown, because it may hold a password.
    proxy.map(Some).map_err(|_| Error::invalid(format!("{name} is not the address of a proxy")))
}

/// The error of a request. A proxy that stands between may be the reason, so it is named, without its user and
/// password.
fn failed(method: &str, url: &Url, origin: &Origin, error: &ureq::Error) -> Error {
    let what = format!("{method} {}", url.shown());
    // Some of its errors repeat the address, which may be a signed one.
    let said = match error {
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Error::internal(format!("{what}: {error}"));
        }
        // Without the words of the client and the number.
        ureq::Error::Io(error) => Error::io(&what, error).message().to_owned(),
        ureq::Error::BadUri(_) => format!("{what}: not a well-formed address"),
        other => format!("{what}: {other}"),
    };
    let proxy = origin.proxy.as_ref().map(|proxy| format!(" (through the proxy {}:{})", proxy.host(), proxy.port()));
    lost(said + &proxy.unwrap_or_default())
}

/// The error of a connection that failed: trying again may help.
fn lost(message: String) -> Error {
    Error::new(ErrorKind::Unavailable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_no_trust_of_registries() {
        let dir = std::env::temp_dir().join(format!("coracle-transport-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("reg.lan")).unwrap();
        std::fs::write(dir.join("reg.lan/ca.crt"), "an authority").unwrap();
        let mirror = Mirror { registry: "docker.io".into(), url: "http://reg.lan".into() };
        let options = RegistryOptions {
            insecure: vec!["reg.lan".into()],
            certs_dirs: vec![dir.clone()],
            mirrors: vec![mirror],
            ..RegistryOptions::default()
        };
        let (files, registries) = (Transport::for_files(&options), Transport::new(options));
        let trust = |transport: &Transport| {
            let own = certificates("reg.lan", &transport.options).unwrap().authorities.len();
            (
                transport.is_insecure("reg.lan"),
                transport.is_insecure("127.0.0.1"),
                own,
                transport.mirrors("docker.io").len(),
            )
        };
        let found = (trust(&registries), trust(&files));
        std::fs::remove_dir_all(dir).unwrap();
        assert_eq!(found, ((true, true, 1, 1), (false, false, 0, 0)));
    }
}
