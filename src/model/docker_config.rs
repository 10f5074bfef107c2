//! The file `config.json` that `docker login` writes: credentials, or the names of programs that keep them.

use super::{RegistryAuth, split_registry};
use crate::error::{Error, ErrorKind, Result};
use crate::walls::Wall;
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The greatest size of the file: an entry takes much more memory than its text.
const MAX_FILE: u64 = 512 << 10;
/// The key of the default registry's credentials in docker's file.
const DEFAULT_KEY: &str = "https://index.docker.io/v1/";
/// The user that helpers name if the secret is an identity token.
const TOKEN_USER: &str = "<token>";

/// Runs a credential helper. The library starts no programs, so the caller runs the program (`docker-credential-NAME`,
/// on the `PATH`) with the one argument `get` and with the second parameter as standard input. Answers the program's
/// standard output, also if it failed.
///
/// ```
/// use coracle::model::{CredentialHelper, DockerConfig};
///
/// let config = DockerConfig::from_json(br#"{"credsStore": "safe"}"#)?;
/// // A program would run `docker-credential-safe get` here, with the address on its standard input.
/// let helper: CredentialHelper = &mut |name, _address| {
///     assert_eq!(name, "docker-credential-safe");
///     Ok(br#"{"Username": "ada", "Secret": "s3cret"}"#.to_vec())
/// };
/// assert_eq!(config.credentials("registry.example/app", helper)?.username, "ada");
/// # Ok::<(), coracle::Error>(())
/// ```
pub type CredentialHelper<'a> = &'a mut dyn FnMut(&str, &str) -> Result<Vec<u8>>;

/// Docker's configuration file, as far as it is about credentials.
///
/// ```
/// use coracle::model::DockerConfig;
///
/// let config = DockerConfig::from_json(br#"{"auths": {"registry.example": {"auth": "YW5uYTpzZWNyZXQ="}}}"#)?;
/// let auth = config.credentials("registry.example/site:1", &mut |_program, _registry| Ok(Vec::new()))?;
/// assert_eq!(auth.auth, "YW5uYTpzZWNyZXQ=");
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DockerConfig {
    auths: HashMap<String, RegistryAuth>,
    creds_store: String,
    cred_helpers: HashMap<String, String>,
}

/// Without the secrets.
impl fmt::Debug for DockerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DockerConfig of {} registries", self.auths.len().max(self.cred_helpers.len()))
    }
}

impl DockerConfig {
    /// Where docker looks for the file: in `$DOCKER_CONFIG`, else in `$HOME/.docker`.
    pub fn default_path() -> Option<PathBuf> {
        let home = |dir: std::ffi::OsString| PathBuf::from(dir).join(".docker");
        let dir = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from).or(std::env::var_os("HOME").map(home));
        dir.map(|dir| dir.join("config.json"))
    }

    /// Reads a file; a missing one has no credentials.
    pub fn load(path: impl AsRef<Path>) -> Result<DockerConfig> {
        let path = path.as_ref();
        let failed = |e: &std::io::Error| Error::io(format_args!("read {}", path.display()), e);
        match std::fs::metadata(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(DockerConfig::default()),
            Err(e) => return Err(failed(&e)),
            Ok(found) if !found.is_file() => {
                return Err(Error::invalid(format!("{}: not a configuration file of docker's", path.display())));
            }
            Ok(_) => {}
        }
        let most = if Wall::DocumentValues.stands() { MAX_FILE + 1 } else { u64::MAX };
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
        read.map_err(|e| failed(&e))?;
        DockerConfig::from_json(&bytes).map_err(|e| e.context(path.display()))
    }

    /// Reads the file's content, of at most 512 KiB.
    pub fn from_json(bytes: &[u8]) -> Result<DockerConfig> {
        if bytes.len() as u64 > MAX_FILE && Wall::DocumentValues.stands() {
            return Err(Error::invalid(format!("a configuration file of more than {MAX_FILE} bytes")));
        }
        // Not the parser's message: it may show parts of the file.
        crate::document::read(bytes).map_err(|_| Error::invalid("not a configuration file of docker's"))
    }

    /// The credentials for an image's registry: from the helper for that registry, else from the helper for all, else
    /// from the file itself. Missing credentials are not an error.
    pub fn credentials(&self, image: &str, helper: CredentialHelper<'_>) -> Result<RegistryAuth> {
        let host = split_registry(image).0.unwrap_or("docker.io");
        let key = if matches!(host, "docker.io" | "index.docker.io") { DEFAULT_KEY } else { host };
        let own = self.cred_helpers.get(key).or_else(|| self.cred_helpers.get(host));
        if let Some(name) = own.or(Some(&self.creds_store)).filter(|name| !name.is_empty()) {
            let kept = ask(name, key, helper)?;
            if own.is_some() || kept != RegistryAuth::default() {
                return Ok(kept);
            }
        }
        let named = self.auths.get(key).or_else(|| {
            let same = |have: &&String| host_of(have) == host_of(key);
            self.auths.keys().find(same).and_then(|have| self.auths.get(have))
        });
        Ok(named.cloned().unwrap_or_default())
    }
}

/// Asks the helper `name` for a registry's credentials.
fn ask(name: &str, key: &str, helper: CredentialHelper<'_>) -> Result<RegistryAuth> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Answer {
        username: String,
        secret: String,
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        return Err(Error::invalid(format!("credential helper {name:?}: not the name of one")));
    }
    let program = format!("docker-credential-{name}");
    let said = helper(&program, key).map_err(|e| e.context(&program))?;
    if let Ok(answer) = crate::document::read::<Answer>(&said) {
        return Ok(match answer.username.as_str() {
            TOKEN_USER => RegistryAuth { identitytoken: answer.secret, ..RegistryAuth::default() },
            _ => RegistryAuth { username: answer.username, password: answer.secret, ..RegistryAuth::default() },
        });
    }
    let text = String::from_utf8_lossy(&said);
    if text.contains("credentials not found") {
        return Ok(RegistryAuth::default());
    }
    // The program's output is not repeated: half an answer may hold a secret.
    Err(Error::new(ErrorKind::Internal, format!("{program}: it gave no credentials for {key}")))
}

/// The host of a key, which may be a URL.
fn host_of(key: &str) -> &str {
    key.split_once("://").map_or(key, |(_, rest)| rest).split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(value: &serde_json::Value) -> DockerConfig {
        DockerConfig::from_json(value.to_string().as_bytes()).unwrap()
    }

    fn none(_: &str, _: &str) -> Result<Vec<u8>> {
        panic!("no helper is to be asked")
    }

    #[test]
    fn the_file_s_own_credentials() {
        let config = config(&serde_json::json!({ "auths": {
            "https://index.docker.io/v1/": { "auth": "dTpw" }, "reg.example:5": { "identitytoken": "t" },
            "https://old.example/v1/": { "username": "o", "password": "p" } }, "HttpHeaders": {} }));
        let of = |image: &str| config.credentials(image, &mut none).unwrap();
        for image in ["box", "team/box:1", "docker.io/library/box"] {
            assert_eq!(of(image).basic(), Some(("u".into(), "p".into())), "{image}");
        }
        assert_eq!(of("reg.example:5/x").identitytoken, "t");
        assert_eq!(of("old.example/x").username, "o");
        assert_eq!(of("other.example/x"), RegistryAuth::default());
    }

    #[test]
    fn helpers_are_asked_and_their_words_kept_to_themselves() {
        let config = config(&serde_json::json!({ "credsStore": "all", "credHelpers": { "a.example": "one" },
            "auths": { "b.example": { "username": "file", "password": "p" } } }));
        let mut asked = Vec::new();
        let mut helper = |program: &str, server: &str| {
            asked.push(format!("{program} {server}"));
            Ok(match server {
                "a.example" => br#"{"ServerURL":"a.example","Username":"<token>","Secret":"id"}"#.to_vec(),
                "c.example" => b"half a s3cret".to_vec(),
                DEFAULT_KEY => br#"{"Username":"u","Secret":"p"}"#.to_vec(),
                _ => b"credentials not found in native keychain\n".to_vec(),
            })
        };
        assert_eq!(config.credentials("a.example/x", &mut helper).unwrap().identitytoken, "id");
        assert_eq!(config.credentials("x", &mut helper).unwrap().username, "u");
        assert_eq!(config.credentials("b.example/x", &mut helper).unwrap().username, "file");
        assert_eq!(config.credentials("d.example/x", &mut helper).unwrap(), RegistryAuth::default());
        let error = config.credentials("c.example/x", &mut helper).unwrap_err();
        assert!(!error.message().contains("s3cret"), "{error}");
        assert_eq!(asked[0], "docker-credential-one a.example");
        assert_eq!(asked[1], "docker-credential-all https://index.docker.io/v1/");
        let odd = self::config(&serde_json::json!({ "credsStore": "../x" }));
        assert!(odd.credentials("x", &mut none).is_err());
        assert!(DockerConfig::from_json(b"[1]").is_err());
    }
}
