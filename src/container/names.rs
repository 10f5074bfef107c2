//! Ids and names of containers.

mod words;

use crate::error::{Error, Result};
use words::{ADJECTIVES, SURNAMES};

/// How often a name is made up before the beginning of the id is used.
const TRIES: usize = 6;
/// The name that is never made up: Steve Wozniak is not boring.
const FORBIDDEN: &str = "boring_wozniak";

/// A name without its optional leading slash. Errors: the name has a character or a length that names must not have.
pub(crate) fn check_name(name: &str) -> Result<&str> {
    let bare = name.strip_prefix('/').unwrap_or(name);
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let good = bare.bytes().all(inner) && bare.bytes().next().is_some_and(first);
    match good {
        true => Ok(bare),
        false => {
            Err(Error::invalid(format!("Invalid container name ({name}), only [a-zA-Z0-9_][a-zA-Z0-9_.-]* is allowed")))
        }
    }
}

/// A new id: 64 hex digits of 256 random bits. Its first 12 digits are never all decimal, because they serve as a host
/// name, which must not be a number.
pub(crate) fn new_id() -> Result<String> {
    loop {
        let id = crate::hex::random_id()?;
        if !id.bytes().take(12).all(|byte| byte.is_ascii_digit()) {
            return Ok(id);
        }
    }
}

/// Finds a name for the container `id`: `take` reserves a name and returns whether it was free.
pub(crate) fn make_up_name(id: &str, mut take: impl FnMut(&str) -> Result<bool>) -> Result<String> {
    for attempt in 0..TRIES {
        let name = candidate(random()?, attempt);
        if name != FORBIDDEN && take(&name)? {
            return Ok(name);
        }
    }
    let name = short_id(id);
    match take(&name)? {
        true => Ok(name),
        false => Err(Error::conflict(format!("no free name was found for the container {id}"))),
    }
}

/// The first twelve characters of an id: a container's host name, and the id as clients show it.
pub(crate) fn short_id(id: &str) -> String {
    id.chars().take(12).collect()
}

/// `adjective_surname`; with a digit from the second attempt on.
fn candidate(random: [u8; 8], attempt: usize) -> String {
    let pick = |list: &[&'static str], at: usize| list[number(&random[at..at + 2]) % list.len()];
    let digit = if attempt > 0 { (number(&random[4..6]) % 10).to_string() } else { String::new() };
    format!("{}_{}{digit}", pick(&ADJECTIVES, 0), pick(&SURNAMES, 2))
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Error::internal(format!("random bytes: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_that_are_and_are_not() {
        for (name, bare) in
            [("a", "a"), ("/a", "a"), ("_", "_"), ("_ab", "_ab"), ("a.b", "a.b"), ("0_-.", "0_-."), ("A-", "A-")]
        {
            assert_eq!(check_name(name).unwrap(), bare);
        }
        for name in ["", "/", "-", ".", "..", "//ab", "-ab", ".ab", "a b", "a/b", "\u{e9}\u{e9}", "ab\n", "ab\0"] {
            let error = check_name(name).expect_err(name);
            let text = format!("Invalid container name ({name}), only [a-zA-Z0-9_][a-zA-Z0-9_.-]* is allowed");
            assert_eq!((error.http_status(), error.message()), (400, text.as_str()));
        }
    }

    #[test]
    fn ids_are_random_and_no_numbers() {
        let ids: BTreeSet<String> = (0..2000).map(|_| new_id().unwrap()).collect();
        assert_eq!(ids.len(), 2000);
        for id in ids {
            assert!(id.len() == 64 && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{id}");
            assert!(id[..12].bytes().any(|byte| byte.is_ascii_lowercase()), "{id}");
        }
    }

    #[test]
    fn made_up_names_are_names() {
        let mut tried = Vec::new();
        let name = make_up_name("0123456789abcdef", |name| {
            tried.push(name.to_owned());
            Ok(tried.len() == 7)
        });
        assert_eq!(name.unwrap(), "0123456789ab");
        assert!(tried[0].bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{tried:?}");
        assert!(tried[1..6].iter().all(|name| name.ends_with(|c: char| c.is_ascii_digit())), "{tried:?}");
        assert!(make_up_name("0123456789abcdef", |_| Ok(false)).is_err());
        assert!(make_up_name("x", |_| Err(Error::internal("store"))).is_err());
        let first = make_up_name("x", |_| Ok(true)).unwrap();
        assert_eq!(check_name(&first).unwrap(), first);
        assert_eq!(first.split('_').count(), 2);
    }

    #[test]
    fn the_words_are_plain_sorted_and_different() {
        for list in [&ADJECTIVES[..], &SURNAMES[..]] {
            assert!(list.is_sorted_by(|a, b| a < b));
            assert!(list.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())));
        }
        assert!(ADJECTIVES.len() >= 100 && SURNAMES.len() >= 200);
        let (adjective, surname) = FORBIDDEN.split_once('_').unwrap();
        assert!(ADJECTIVES.contains(&adjective) && SURNAMES.contains(&surname));
    }
}
