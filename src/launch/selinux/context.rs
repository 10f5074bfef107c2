//! An SELinux label, in its parts: `user:role:type[:level]`.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    pub user: String,
    pub role: String,
    /// The type.
    pub kind: String,
    /// Sensitivity and categories, or a range; empty: the policy has no levels.
    pub level: String,
}

impl Context {
    /// This label with another level; unchanged if the policy has no levels.
    pub(super) fn with_level(&self, level: &str) -> Context {
        let level = if self.level.is_empty() { String::new() } else { level.to_owned() };
        Context { level, ..self.clone() }
    }

    /// The (lower) sensitivity of the level.
    pub(super) fn sensitivity(&self) -> Option<&str> {
        self.level.split([':', '-']).next().filter(|text| !text.is_empty())
    }
}

impl FromStr for Context {
    type Err = Error;

    fn from_str(text: &str) -> Result<Context> {
        let wrong = || Error::invalid(format!("{text:?} is not an SELinux label (user:role:type:level)"));
        let mut parts = text.splitn(4, ':');
        let mut name = || parts.next().filter(|part| is_name(part)).map(str::to_owned).ok_or_else(wrong);
        let (user, role, kind) = (name()?, name()?, name()?);
        let level = match parts.next() {
            Some(level) if is_level(level) => level.to_owned(),
            Some(_) => return Err(wrong()),
            None => String::new(),
        };
        Ok(Context { user, role, kind, level })
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context { user, role, kind, level } = self;
        write!(f, "{user}:{role}:{kind}")?;
        if level.is_empty() { Ok(()) } else { write!(f, ":{level}") }
    }
}

/// Whether a text can be the name of a user, a role or a type.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// Whether a text can be a level, or a range of two.
pub(super) fn is_level(text: &str) -> bool {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    [low, high].into_iter().all(is_single)
}

/// `s0`, or with categories `s0:c1,c4.c6`.
fn is_single(level: &str) -> bool {
    let (sensitivity, categories) = level.split_once(':').map_or((level, None), |(s, c)| (s, Some(c)));
    let numbered = |text: &str, letter: char| {
        text.strip_prefix(letter).is_some_and(|digits| {
            !digits.is_empty() && digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let run = |part: &str| {
        let (first, last) = part.split_once('.').unwrap_or((part, part));
        numbered(first, 'c') && numbered(last, 'c')
    };
    numbered(sensitivity, 's') && categories.is_none_or(|list| list.split(',').all(run))
}
