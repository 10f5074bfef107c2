//! Plugins over TLS, with the `TLSConfig` of their files.

use super::call::{Answer, Failed, LONGEST, TYPE, Tls};
use crate::tls;
use std::io;
use std::path::Path;
use std::time::Duration;
use ureq::tls::TlsConfig;

/// `POST /method` to `host:port`.
pub(super) fn post(host: &str, said: &Tls, method: &str, body: &str, limit: Duration) -> Result<Answer, Failed> {
    let trust = config(said).map_err(Failed::Talk)?;
    let request = ureq::http::Request::post(format!("https://{host}/{method}"))
        .header("accept", TYPE)
        .header("content-type", TYPE)
        .header("connection", "close")
        .body(body.as_bytes());
    let request = request.map_err(|e| Failed::Talk(io::Error::other(e)))?;
    let agent = tls::plain_agent();
    let request = agent
        .configure_request(request)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(Some(limit))
        .tls_config(trust)
        .build();
    let answer = agent.run(request).map_err(failed)?;
    let status = answer.status().as_u16();
    let body = answer.into_body().with_config().limit(LONGEST as u64).read_to_vec().map_err(failed)?;
    Ok(Answer { status, body })
}

fn config(said: &Tls) -> io::Result<TlsConfig> {
    let bad = |path: &Path, what: &str| named(path, &io::Error::other(what));
    let roots = match &said.ca_file {
        None => tls::system_roots().to_vec(),
        Some(path) => {
            let roots: Vec<_> = tls::certificates(&read(path)?).collect();
            if roots.is_empty() {
                return Err(bad(path, "no certificate"));
            }
            roots
        }
    };
    let client = match (&said.cert_file, &said.key_file) {
        (Some(chain), Some(key)) => {
            let client = tls::client(&read(chain)?, &read(key)?);
            Some(client.ok_or_else(|| bad(chain, &format!("no certificate, or no key in {}", key.display())))?)
        }
        (None, None) => None,
        _ => return Err(io::Error::other("TLSConfig: CertFile and KeyFile belong together")),
    };
    Ok(tls::config(&roots, client, !said.insecure_skip_verify))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| named(path, &e))
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
