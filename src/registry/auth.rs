//! The proofs that a registry wants of its caller: basic credentials, or tokens of a token server.

use super::transport::{Answer, Ask, Payload, Transport};
use super::url::{Url, escape};
use super::{MAX_DOCUMENT, refused};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{RegistryAuth, to_base64};
use crate::walls::Wall;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Least and longest time that a token is taken to be good for in seconds, and what is kept off its end.
const LEAST_LIFE: u64 = 60;
const LONGEST_LIFE: u64 = 86_400;
const MARGIN: Duration = Duration::from_secs(10);

/// The challenge of a 401.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: String },
}

impl Challenge {
    /// The best of the headers `WWW-Authenticate`.
    pub(super) fn of<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
        let mut basic = None;
        for header in headers {
            let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
            if scheme.eq_ignore_ascii_case("bearer") {
                let values = parameters(rest);
                let value = |key: &str| values.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
                if let Some(realm) = value("realm") {
                    return Some(Challenge::Bearer { realm, service: value("service").unwrap_or_default() });
                }
            }
            if scheme.eq_ignore_ascii_case("basic") {
                basic = Some(Challenge::Basic);
            }
        }
        basic
    }
}

/// `key="value",key=value`.
fn parameters(mut text: &str) -> Vec<(String, String)> {
    let mut values = Vec::new();
    while let Some((key, rest)) = text.split_once('=') {
        let key = key.trim_start_matches([',', ' ']).trim().to_ascii_lowercase();
        let mut value = String::new();
        match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut chars = quoted.char_indices();
                let mut end = quoted.len();
                while let Some((at, c)) = chars.next() {
                    match c {
                        '\\' => value.extend(chars.next().map(|(_, c)| c)),
                        '"' => {
                            end = at + 1;
                            break;
                        }
                        c => value.push(c),
                    }
                }
                text = &quoted[end..];
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                value.push_str(rest[..end].trim());
                text = &rest[end..];
            }
        }
        values.push((key, value));
    }
    values
}

/// The credentials for one registry, and the tokens that they got.
pub(super) struct Access {
    auth: RegistryAuth,
    tokens: Mutex<HashMap<String, (String, Instant)>>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
    #[serde(default)]
    expires_in: u64,
    #[serde(default)]
    refresh_token: String,
}

impl Access {
    pub(super) fn new(auth: RegistryAuth) -> Access {
        Access { auth, tokens: Mutex::default() }
    }

    /// Whether there are credentials at all.
    pub(super) fn is_anonymous(&self) -> bool {
        self.auth.basic().is_none() && self.auth.identitytoken.is_empty() && self.auth.registrytoken.is_empty()
    }

    /// The header `Authorization` for `scope` (`repository:NAME:pull`, maybe several apart by blanks).
    pub(super) fn header(
        &self,
        transport: &Transport,
        registry: &Url,
        challenge: &Challenge,
        scope: &str,
    ) -> Result<Option<String>> {
        if !self.auth.registrytoken.is_empty() {
            return Ok(Some(format!("Bearer {}", self.auth.registrytoken)));
        }
        match challenge {
            Challenge::Basic => Ok(self.auth.basic().map(|(name, password)| basic(&name, &password))),
            Challenge::Bearer { realm, service } => {
                if let Some((token, end)) = self.tokens.lock().get(scope)
                    && Instant::now() < *end
                {
                    return Ok(Some(format!("Bearer {token}")));
                }
                let (answer, _) = self.token(transport, registry, realm, service, scope)?;
                let end = Instant::now() + life(answer.1);
                self.tokens.lock().insert(scope.to_owned(), (answer.0.clone(), end));
                Ok(Some(format!("Bearer {}", answer.0)))
            }
        }
    }

    /// Forgets the tokens: one was refused.
    pub(super) fn forget(&self) {
        self.tokens.lock().clear();
    }

    /// Fetches a token: ((it, seconds it is good for), refresh token).
    pub(super) fn token(
        &self,
        transport: &Transport,
        registry: &Url,
        realm: &str,
        service: &str,
        scope: &str,
    ) -> Result<((String, u64), String)> {
        let realm = registry.join(realm)?;
        if registry.https && !realm.https {
            return Err(Error::internal(format!("{}: a token server without TLS is refused", realm.shown())));
        }
        let answer = self.ask_for_token(transport, realm.is_redirected_from(registry), realm, service, scope)?;
        if answer.status != 200 {
            let status = answer.status;
            let error = refused(answer, "get a token");
            return Err(match status {
                400 | 401 | 403 => error.with_kind(ErrorKind::Unauthorized),
                _ => error,
            });
        }
        read_token(answer)
    }

    /// A token server's answer. `redirected`: the registry may lead to it.
    fn ask_for_token(
        &self,
        transport: &Transport,
        redirected: bool,
        realm: Url,
        service: &str,
        scope: &str,
    ) -> Result<Answer> {
        let ask = |method, url, headers, authorization, body| {
            transport.send(Ask { method, url, redirected, headers, authorization, body })
        };
        if self.auth.identitytoken.is_empty() {
            let mut url = realm;
            if !service.is_empty() {
                url = url.with("service", service);
            }
            for scope in scope.split_whitespace() {
                url = url.with("scope", scope);
            }
            let login = self.auth.basic();
            if let Some((name, _)) = &login {
                url = url.with("account", name);
            }
            if scope.is_empty() && login.is_some() {
                url = url.with("offline_token", "true");
            }
            ask("GET", url, vec![], login.map(|(name, password)| basic(&name, &password)), Payload::None)
        } else {
            let form = [
                ("grant_type", "refresh_token"),
                ("refresh_token", &self.auth.identitytoken),
                ("service", service),
                ("scope", scope),
                ("client_id", "coracle"),
            ];
            let form: Vec<String> = form.iter().map(|(key, value)| format!("{key}={}", escape(value))).collect();
            let headers = vec![("content-type", "application/x-www-form-urlencoded".to_owned())];
            ask("POST", realm, headers, None, Payload::Bytes(form.join("&").as_bytes()))
        }
    }
}

/// A token in a server's answer.
fn read_token(answer: Answer) -> Result<((String, u64), String)> {
    let shown = answer.url.shown();
    let bytes = answer.bytes(MAX_DOCUMENT)?;
    // The parser's error may show what it read: a token.
    let answer: TokenAnswer = crate::document::read_of_server(&bytes)
        .map_err(|_| Error::internal(format!("{shown}: the answer is not a token")))?;
    let token = if answer.token.is_empty() { answer.access_token } else { answer.token };
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Error::internal(format!("{shown}: the answer has no token")));
    }
    Ok(((token, answer.expires_in), answer.refresh_token))
}

/// How long a token is used that is said to be good for so many seconds: whatever the server says.
fn life(seconds: u64) -> Duration {
    Duration::from_secs(seconds.clamp(LEAST_LIFE, LONGEST_LIFE)).saturating_sub(MARGIN)
}

/// The credentials that are meant for the registry `domain`. Those of docker's own are also kept under an address.
pub(crate) fn auth_for(auths: &BTreeMap<String, RegistryAuth>, domain: &str) -> RegistryAuth {
    auths
        .iter()
        .find(|(given, _)| is_host(given, domain) || !Wall::CredentialsByHost.stands())
        .map(|(_, auth)| auth.clone())
        .unwrap_or_default()
}

fn is_host(given: &str, domain: &str) -> bool {
    let host = given.split_once("://").map_or(given, |(_, rest)| rest).split('/').next().unwrap_or_default();
    host == domain || domain == "docker.io" && host == "index.docker.io"
}

pub(super) fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", to_base64(format!("{name}:{password}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_life_a_server_names_is_one() {
        let lives = [0, 300, u64::MAX].map(|seconds| life(seconds).as_secs());
        assert_eq!(lives, [50, 290, 86_390]);
        assert!(Instant::now().checked_add(life(u64::MAX)).is_some());
    }

    #[test]
    fn credentials_are_found_by_host() {
        let auth = |name: &str| RegistryAuth { username: name.into(), ..RegistryAuth::default() };
        let auths = BTreeMap::from([
            ("https://index.docker.io/v1/".to_owned(), auth("hub")),
            ("https://r.example:5000".to_owned(), auth("own")),
        ]);
        for (domain, want) in [("docker.io", "hub"), ("r.example:5000", "own"), ("r.example", "")] {
            assert_eq!(auth_for(&auths, domain).username, want, "{domain}");
        }
    }

    #[test]
    fn challenges_are_read() {
        let one = |text: &str| Challenge::of([text].into_iter());
        assert_eq!(one("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(one("Digest realm=\"x\""), None);
        let header = r#"Bearer realm="https://auth.example/t?x=1,2",service="a \"b\"",scope="repository:x:pull,push""#;
        let want = Challenge::Bearer { realm: "https://auth.example/t?x=1,2".into(), service: "a \"b\"".into() };
        assert_eq!(one(header), Some(want.clone()));
        assert_eq!(Challenge::of(["Basic realm=x", header].into_iter()), Some(want));
        assert_eq!(
            one("bearer realm=https://h/t"),
            Some(Challenge::Bearer { realm: "https://h/t".into(), service: String::new() })
        );
        for odd in ["", "Bearer", "Bearer realm", "Bearer =", "Bearer realm=\"open"] {
            let _ = one(odd);
        }
    }
}
