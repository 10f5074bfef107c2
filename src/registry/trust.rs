//! Which registries may be spoken to without TLS, and whom to trust with it.

use super::url::host_of;
use crate::error::{Error, Result};
use crate::model::{AddressRange, RegistryOptions};
use crate::order::Order as _;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

/// Largest certificate file.
const MAX_FILE: u64 = 1 << 20;

/// Whether `authority` (`host[:port]`) is a loopback address or listed as insecure.
pub(super) fn is_insecure(authority: &str, options: &RegistryOptions) -> bool {
    let host = host_of(authority);
    let address: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        return true;
    }
    options.insecure.iter().any(|entry| {
        let entry = entry.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
        entry.eq_ignore_ascii_case(authority)
            || entry.eq_ignore_ascii_case(host)
            || address.is_some_and(|address| AddressRange::parse(entry).is_some_and(|range| range.holds(address)))
    })
}

/// The files that the certificate directories hold for a registry, as PEM texts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Certificates {
    pub(super) authorities: Vec<Vec<u8>>,
    /// Certificate and key.
    pub(super) client: Option<(Vec<u8>, Vec<u8>)>,
}

/// Reads them. A client certificate without its key is an error, as is a file that cannot be read.
pub(super) fn certificates(authority: &str, options: &RegistryOptions) -> Result<Certificates> {
    let mut found = Certificates::default();
    // The name is one component of a path: it has no slash by the grammar of names, and may not be `..`.
    if authority.starts_with('.') || authority.contains('/') {
        return Ok(found);
    }
    for dir in &options.certs_dirs {
        let Ok(entries) = fs::read_dir(dir.join(authority)) else { continue };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.order();
        for path in paths {
            match path.extension().and_then(|e| e.to_str()) {
                Some("crt") => found.authorities.push(read(&path)?),
                Some("cert") => {
                    let key = path.with_extension("key");
                    if !key.exists() {
                        return Err(Error::invalid(format!(
                            "missing key {} for client certificate {}",
                            key.display(),
                            path.display()
                        )));
                    }
                    found.client = Some((read(&path)?, read(&key)?));
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

fn read(path: &PathBuf) -> Result<Vec<u8>> {
    let failed = |e: &std::io::Error| Error::io(format_args!("read {}", path.display()), e);
    let size = fs::metadata(path).map_err(|e| failed(&e))?.len();
    if size > MAX_FILE {
        return Err(Error::invalid(format!("{}: {size} bytes are not a certificate", path.display())));
    }
    fs::read(path).map_err(|e| failed(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_what_is_listed() {
        let insecure =
            ["reg.lan:5000", "other.lan", "10.1.0.0/16", "fd00::/8", "10.9.0.0/33"].map(str::to_owned).to_vec();
        let options = RegistryOptions { insecure, ..RegistryOptions::default() };
        for (authority, want) in [
            ("localhost:5000", true),
            ("127.0.0.1", true),
            ("127.9.9.9:80", true),
            ("[::1]:5000", true),
            ("localhost.example", false),
            ("reg.lan:5000", true),
            ("reg.lan:5001", false),
            ("other.lan:1", true),
            ("10.1.2.3:5000", true),
            ("10.2.0.1", false),
            ("10.9.0.0", false),
            ("[fd12::1]:5000", true),
            ("registry-1.docker.io", false),
        ] {
            assert_eq!(is_insecure(authority, &options), want, "{authority}");
        }
    }
}
