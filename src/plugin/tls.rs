//! Plugins over TLS, as `TLSConfig` of their files says.

use super::http::{Answer, Failed, LONGEST, TYPE, Tls};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// `POST /method` to `host:port`.
pub(super) fn post(host: &str, tls: &Tls, method: &str, body: &str, limit: Duration) -> Result<Answer, Failed> {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(Some(limit))
        .proxy(None)
        .tls_config(config(tls).map_err(Failed::Talk)?);
    let request = ureq::http::Request::post(format!("https://{host}/{method}"))
        .header("accept", TYPE)
        .header("content-type", TYPE)
        .header("connection", "close")
        .body(body.as_bytes());
    let request = request.map_err(|e| Failed::Talk(io::Error::other(e)))?;
    let answer = config.build().new_agent().run(request).map_err(failed)?;
    let status = answer.status().as_u16();
    let body = answer.into_body().with_config().limit(LONGEST as u64).read_to_vec().map_err(failed)?;
    Ok(Answer { status, body })
}

fn config(tls: &Tls) -> io::Result<TlsConfig> {
    let roots = match &tls.ca_file {
        Some(path) => certificates(path)?,
        None => {
            let found = rustls_native_certs::load_native_certs();
            found.certs.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect()
        }
    };
    let client = match (&tls.cert_file, &tls.key_file) {
        (Some(chain), Some(key)) => {
            let bad = |e: ureq::Error| named(key, &io::Error::other(e));
            let text = std::fs::read(key).map_err(|e| named(key, &e))?;
            Some(ClientCert::new_with_certs(&certificates(chain)?, PrivateKey::from_pem(&text).map_err(bad)?))
        }
        (None, None) => None,
        _ => return Err(io::Error::other("TLSConfig: CertFile and KeyFile belong together")),
    };
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::new_with_certs(&roots))
        .client_cert(client)
        .disable_verification(tls.insecure_skip_verify)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

fn certificates(path: &Path) -> io::Result<Vec<Certificate<'static>>> {
    let text = std::fs::read(path).map_err(|e| named(path, &e))?;
    let found: Vec<Certificate<'static>> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if found.is_empty() { Err(named(path, &io::Error::other("no certificate"))) } else { Ok(found) }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn failed(error: ureq::Error) -> Failed {
    match error {
        ureq::Error::Timeout(_) => Failed::Talk(io::ErrorKind::TimedOut.into()),
        ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => Failed::Connect(io::Error::other(error)),
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => Failed::Connect(error),
        ureq::Error::Io(error) => Failed::Talk(error),
        other => Failed::Talk(io::Error::other(other)),
    }
}
