//! Requests to the services of AWS: credentials, and the signature of version 4.

use crate::files;
use crate::http::{Site, push_request};
use crate::time::{now_ns, utc};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The name of the signature's method.
const METHOD: &str = "AWS4-HMAC-SHA256";
const KIND: &str = "application/x-amz-json-1.1";

/// The keys of an account.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) id: String,
    pub(crate) secret: String,
    /// Of temporary keys.
    pub(crate) session: Option<String>,
}

impl Credentials {
    /// Reads the keys of a file; without a file those of the environment, then those of the file of the environment or of the user.
    pub(crate) fn find(file: Option<&Path>) -> Option<Credentials> {
        let word = |key: &str| std::env::var(key).ok().filter(|word| !word.is_empty());
        let profile = word("AWS_PROFILE").unwrap_or_else(|| "default".into());
        if let Some(file) = file {
            return of_file(file, &profile);
        }
        if let (Some(id), Some(secret)) = (word("AWS_ACCESS_KEY_ID"), word("AWS_SECRET_ACCESS_KEY")) {
            return Some(Credentials { id, secret, session: word("AWS_SESSION_TOKEN") });
        }
        let named = word("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
        of_file(&named.or_else(|| Some(PathBuf::from(word("HOME")?).join(".aws/credentials")))?, &profile)
    }
}

fn of_file(path: &Path, profile: &str) -> Option<Credentials> {
    parse(std::str::from_utf8(&files::read(path).ok()?).ok()?, profile)
}

/// Reads the keys of a profile.
fn parse(text: &str, profile: &str) -> Option<Credentials> {
    let (mut is_it, mut found) = (false, [None, None, None]);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_it = name.trim() == profile;
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_it) {
            let keys = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
            if let Some(number) = keys.iter().position(|one| *one == key.trim()) {
                found[number] = Some(value.trim().to_owned());
            }
        }
    }
    let [id, secret, session] = found;
    Some(Credentials { id: id?, secret: secret?, session })
}

/// A service in a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) site: Site,
    pub(crate) region: String,
    /// As signatures name it.
    pub(crate) name: &'static str,
}

impl Service {
    /// Appends a signed request of an action. Signatures are good for five minutes.
    pub(crate) fn push(&self, out: &mut Vec<u8>, target: &str, body: &[u8], keys: &Credentials) {
        let digits = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
        let now = format!("{}Z", digits(&utc(now_ns())[..19]));
        let mut headers = vec![("Content-Type", KIND), ("Host", &*self.site.host), ("X-Amz-Date", &*now)];
        headers.extend(keys.session.as_deref().map(|session| ("X-Amz-Security-Token", session)));
        headers.push(("X-Amz-Target", target));
        let signature = self.sign(&headers, body, &now, keys);
        headers.push(("Authorization", &signature));
        push_request(out, "POST /", &headers, body);
    }

    /// The header `Authorization`. The headers stand in the order of the alphabet.
    fn sign(&self, headers: &[(&str, &str)], body: &[u8], now: &str, keys: &Credentials) -> String {
        let day = &now[..8];
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.name);
        let lower: Vec<String> = headers.iter().map(|(key, _)| key.to_ascii_lowercase()).collect();
        let names = lower.join(";");
        let lines: String =
            lines(lower.iter().zip(headers).map(|(key, (_, value))| format!("{key}:{}\n", value.trim())));
        let request = format!("POST\n/\n\n{lines}\n{names}\n{}", hex(&Sha256::digest(body)));
        let text = format!("{METHOD}\n{now}\n{scope}\n{}", hex(&Sha256::digest(request)));
        let mut key = hmac(format!("AWS4{}", keys.secret).as_bytes(), day.as_bytes());
        for part in [&*self.region, self.name, "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        let signature = hex(&hmac(&key, text.as_bytes()));
        format!("{METHOD} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", keys.id)
    }
}

fn lines(all: impl Iterator<Item = String>) -> String {
    all.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// HMAC by SHA-256.
fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_has_the_values_of_rfc_4231() {
        let of = |key: &[u8], text: &[u8]| hex(&hmac(key, text));
        assert_eq!(
            of(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            of(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn a_profile_of_a_file_has_its_keys() {
        let text =
            "[other]\naws_access_key_id = no\n[default]\naws_access_key_id=AK\n# x\naws_secret_access_key = s=1\n";
        let wanted = Credentials { id: "AK".into(), secret: "s=1".into(), session: None };
        assert!(parse(text, "default") == Some(wanted));
        assert!(parse(text, "other").is_none() && parse("", "default").is_none());
    }
}
