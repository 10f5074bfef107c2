//! Registries: credentials, what a pull and a push ask for.

use super::base64::from_base64;
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

#[cfg(test)]
mod tests {
    use super::super::base64::to_base64;
    use super::*;

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
