//! Service accounts of Google Cloud: the file of their key, and the token that a request carries.

use crate::base64::base64url;
use crate::files;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// How long a token is good, and how long before its end another one is made.
const LIFE: i64 = 3600;
const EARLY: i64 = 300;

/// A service account, with a token.
pub(crate) struct Account {
    /// The text of the file from which it comes: a renewed key makes another account.
    text: Vec<u8>,
    /// The project of the account.
    pub(crate) project: Option<String>,
    pub(crate) token: String,
    /// Seconds since 1970.
    until: i64,
}

impl Account {
    /// The account of a file, or of that which the environment names. `before`: the account so far. `None`: there is none, or its key is
    /// damaged.
    pub(crate) fn find(file: Option<&Path>, before: Option<Account>, audience: &str, now: i64) -> Option<Account> {
        let named = || std::env::var_os("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
        let text = files::read(&file.map(Path::to_owned).or_else(named)?).ok()?;
        match before {
            Some(before) if before.text == text && before.is_good(now) => Some(before),
            _ => Account::read(text, audience, now),
        }
    }

    /// Whether the token is good. One that was made later than now was made by a wrong clock: no server takes it.
    fn is_good(&self, now: i64) -> bool {
        (self.until - LIFE..self.until - EARLY).contains(&now)
    }

    fn read(text: Vec<u8>, audience: &str, now: i64) -> Option<Account> {
        let all: Value = serde_json::from_slice(&text).ok()?;
        let word = |key: &str| all[key].as_str();
        if word("type") != Some("service_account") {
            return None;
        }
        let token = token(word("client_email")?, word("private_key_id")?, word("private_key")?, audience, now)?;
        let project = word("project_id").map(str::to_owned);
        Some(Account { text, project, token, until: now + LIFE })
    }
}

/// A token that the account signs itself: Google's services take it in the place of one from its token server.
fn token(email: &str, key_id: &str, key: &str, audience: &str, now: i64) -> Option<String> {
    let head = json!({ "alg": "RS256", "typ": "JWT", "kid": key_id });
    let claims = json!({ "iss": email, "sub": email, "aud": audience, "iat": now, "exp": now + LIFE });
    let text = format!("{}.{}", base64url(head.to_string().as_bytes()), base64url(claims.to_string().as_bytes()));
    let signature = sign(key, text.as_bytes())?;
    Some(format!("{text}.{}", base64url(&signature)))
}

#[cfg(feature = "tls")]
fn sign(key: &str, text: &[u8]) -> Option<Vec<u8>> {
    crate::tls::sign_rs256(key, text)
}

/// The signatures come with TLS.
#[cfg(not(feature = "tls"))]
fn sign(_: &str, _: &[u8]) -> Option<Vec<u8>> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_for_its_time_and_not_when_the_clock_was_set_back() {
        let path = std::env::temp_dir().join(format!("coracle-google-{}", std::process::id()));
        // No key: another token cannot be made.
        std::fs::write(&path, "{}").unwrap();
        let made = 1_800_000_000;
        let found = |now| {
            let before = Account { text: b"{}".to_vec(), project: None, token: "first".into(), until: made + LIFE };
            Account::find(Some(&path), Some(before), "a", now).map(|account| account.token)
        };
        for good in [made, made + 1, made + LIFE - EARLY - 1] {
            assert_eq!(found(good).as_deref(), Some("first"), "{good}");
        }
        for bad in [made + LIFE - EARLY, made - 1, made - 10 * 365 * 24 * 3600] {
            assert_eq!(found(bad), None, "{bad}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn files_of_other_kinds_give_no_account() {
        for text in ["", "{}", r#"{"type":"authorized_user","client_id":"x"}"#] {
            assert!(Account::read(text.into(), "a", 0).is_none(), "{text}");
        }
        let damaged = r#"{"type":"service_account","client_email":"a","private_key_id":"b","private_key":"c"}"#;
        assert!(Account::read(damaged.into(), "a", 0).is_none());
    }
}
