//! TLS clients for registries and plugins: authorities, client certificates, the provider.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// The TLS configuration for a server: the trusted authorities, our certificate. The provider is passed along, never
/// installed for the process.
pub(crate) fn config(roots: &[Certificate<'static>], client: Option<ClientCert>, verified: bool) -> TlsConfig {
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::new_with_certs(roots))
        .client_cert(client)
        .disable_verification(!verified)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

/// Distributions' files of authorities: all in one file, else one in each.
const FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
const DIRECTORIES: [&str; 2] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];

/// The paths of the authorities.
struct Places {
    file: Option<PathBuf>,
    directories: Vec<PathBuf>,
}

impl Places {
    /// The paths in `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    fn of_environment() -> Places {
        let directories = std::env::var_os("SSL_CERT_DIR");
        Places {
            file: std::env::var_os("SSL_CERT_FILE").map(PathBuf::from),
            directories: directories.iter().flat_map(std::env::split_paths).collect(),
        }
    }

    fn or_usual(&self) -> Vec<(Option<PathBuf>, Option<PathBuf>)> {
        let file = self.file.clone().map(|file| (Some(file), None));
        let said: Vec<_> =
            file.into_iter().chain(self.directories.iter().map(|dir| (None, Some(dir.clone())))).collect();
        if !said.is_empty() {
            return said;
        }
        let there = |places: &[&str]| places.iter().map(PathBuf::from).find(|place| place.exists());
        match there(&FILES) {
            Some(file) => vec![(Some(file), None)],
            None => vec![(None, there(&DIRECTORIES))],
        }
    }
}

static PLACES: OnceLock<Places> = OnceLock::new();

/// Reads the variables that name the machine's authorities, at the first open of a root: later the host program may be
/// changing its environment on another thread.
pub(crate) fn read_environment() {
    PLACES.get_or_init(Places::of_environment);
    plain_agent();
}

/// An agent with connections of its own, without a proxy. ureq reads proxies from the environment whenever it makes a
/// configuration, even if none is wanted: so all agents share one.
pub(crate) fn plain_agent() -> ureq::Agent {
    plain().new_agent()
}

/// The configuration of such agents.
pub(crate) fn plain() -> &'static ureq::config::Config {
    static PLAIN: OnceLock<ureq::config::Config> = OnceLock::new();
    PLAIN.get_or_init(|| ureq::Agent::config_builder().proxy(None).build())
}

/// The machine's authorities, read once.
pub(crate) fn system_roots() -> &'static [Certificate<'static>] {
    static ROOTS: OnceLock<Vec<Certificate<'static>>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let places = PLACES.get_or_init(Places::of_environment).or_usual();
        let found = places.iter().flat_map(|(file, directory)| {
            rustls_native_certs::load_certs_from_paths(file.as_deref(), directory.as_deref()).certs
        });
        found.map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect()
    })
}

/// The certificates of a PEM text; malformed ones are skipped.
pub(crate) fn certificates(pem: &[u8]) -> impl Iterator<Item = Certificate<'static>> + '_ {
    parse_pem(pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    })
}

/// This side's certificate and key, from PEM texts. `None`: one of the texts has none.
pub(crate) fn client(chain: &[u8], key: &[u8]) -> Option<ClientCert> {
    let chain: Vec<Certificate<'static>> = certificates(chain).collect();
    let key = PrivateKey::from_pem(key).ok()?;
    (!chain.is_empty()).then(|| ClientCert::new_with_certs(&chain, key))
}
