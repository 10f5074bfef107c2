//! TLS of clients: authorities, certificates of our own, the provider. For registries and for plugins.

use std::sync::{Arc, OnceLock};
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// How a server is spoken to: whom to trust, who we are. The provider is passed along, never installed for the process.
pub(crate) fn config(roots: &[Certificate<'static>], client: Option<ClientCert>, verified: bool) -> TlsConfig {
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::new_with_certs(roots))
        .client_cert(client)
        .disable_verification(!verified)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

/// The machine's authorities, read once.
pub(crate) fn system_roots() -> &'static [Certificate<'static>] {
    static ROOTS: OnceLock<Vec<Certificate<'static>>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        found.certs.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect()
    })
}

/// The certificates of a PEM text; what is none, or cannot be read, is passed over.
pub(crate) fn certificates(pem: &[u8]) -> impl Iterator<Item = Certificate<'static>> + '_ {
    parse_pem(pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    })
}

/// Who we are, from PEM texts. `None`: one of them holds nothing of it.
pub(crate) fn client(chain: &[u8], key: &[u8]) -> Option<ClientCert> {
    let chain: Vec<Certificate<'static>> = certificates(chain).collect();
    let key = PrivateKey::from_pem(key).ok()?;
    (!chain.is_empty()).then(|| ClientCert::new_with_certs(&chain, key))
}
