//! Registries: credentials, what a pull and a push ask for.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// How registries are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryOptions {
    /// Registries (`host`, `host:port`, or networks such as `10.0.0.0/8`) whose certificate is not verified, and which
    /// may be spoken to without TLS. This machine's loopback addresses always are.
    pub insecure: Vec<String>,
    /// Directories with one directory per `host:port`, which hold authorities (`*.crt`) and client certificates
    /// (`*.cert` with `*.key`) for that registry.
    pub certs_dirs: Vec<PathBuf>,
}

impl Default for RegistryOptions {
    fn default() -> RegistryOptions {
        let certs_dirs = ["/etc/coracle/certs.d", "/etc/docker/certs.d"].map(PathBuf::from).to_vec();
        RegistryOptions { insecure: Vec::new(), certs_dirs }
    }
}

/// Credentials for a registry: name and password, or an identity token, or a registry token. All empty: none.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegistryAuth {
    /// User name.
    pub username: String,
    /// Its password.
    pub password: String,
    /// Both as base64 of `name:password`, where they do not stand apart.
    pub auth: String,
    /// Not used any more.
    pub email: String,
    /// The registry that they are for: a host, or a URL of it; empty: the default one.
    pub serveraddress: String,
    /// A refresh token: exchanged for access tokens.
    pub identitytoken: String,
    /// An access token: sent as it is.
    pub registrytoken: String,
}

impl RegistryAuth {
    /// Reads the header `X-Registry-Auth`: base64 (either alphabet) of this document. As in docker, what cannot be read
    /// means no credentials.
    pub fn from_header(text: &str) -> RegistryAuth {
        let document = from_base64(text).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        document.unwrap_or_default()
    }

    /// Name and password, where there are some.
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AuthStatus {
    /// `Login Succeeded`.
    pub status: String,
    /// A refresh token to use in place of the password, where the registry gives one.
    pub identity_token: String,
}

/// What a pull asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PullImage {
    /// The image: `repository[:tag][@digest]`.
    pub name: String,
    /// A tag or a digest, beside a bare repository. Neither here nor in the name: every tag of the repository.
    pub tag: String,
    /// Credentials.
    pub auth: RegistryAuth,
}

/// What a push asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PushImage {
    /// The image: `repository[:tag]`; the repository says which registry.
    pub name: String,
    /// A tag beside a bare repository. Neither here nor in the name: every tag of the repository that is here.
    pub tag: String,
    /// Credentials.
    pub auth: RegistryAuth,
}

/// Base64 of `bytes`, standard alphabet, padded.
#[cfg(any(test, feature = "registry"))]
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let all = group.iter().fold(0u32, |all, &b| all << 8 | u32::from(b)) << (8 * (3 - group.len()));
        for i in 0..4 {
            let digit = ALPHABET[(all >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Reads base64, either alphabet, padded or not; `None`: it is none.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim().trim_end_matches('=').as_bytes();
    let (mut bytes, mut all, mut bits) = (Vec::with_capacity(digits.len() * 3 / 4), 0u32, 0);
    for &digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (all, bits) = ((all << 6 | u32::from(value)) & 0xffff, bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((all >> bits) as u8);
        }
    }
    (!digits.is_empty() && bits < 6).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_there_and_back() {
        for (bytes, text) in [(&b"f"[..], "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"\xff\xfe\xfd\xfc", "//79/A==")]
        {
            assert_eq!(to_base64(bytes), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes));
            let url = text.replace('/', "_").replace('+', "-");
            assert_eq!(from_base64(url.trim_end_matches('=')).as_deref(), Some(bytes));
        }
        for bad in ["", "a", "a b", "Zg=x"] {
            assert_eq!(from_base64(bad), None, "{bad}");
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
