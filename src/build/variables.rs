//! Putting the values of variables into the texts of instructions.

use crate::buildfile::{Budget, Expander, of_env};
use crate::error::Result;
use std::collections::BTreeMap;

/// The variables that a step sees.
pub(super) struct Seen {
    pub(super) env: Vec<String>,
    pub(super) args: BTreeMap<String, String>,
}

/// The rules by which variables are put in.
pub(super) struct Variables {
    pub(super) escape: char,
    /// The bytes that the variables of the current instruction may still become.
    pub(super) budget: Budget,
}

impl Variables {
    pub(super) fn put_in(&self, seen: &Seen, text: &str) -> Result<String> {
        self.expand(text, &seen.env, &seen.args)
    }

    pub(super) fn all_put_in(&self, seen: &Seen, texts: &[String]) -> Result<Vec<String>> {
        texts.iter().map(|text| self.put_in(seen, text)).collect()
    }

    /// Puts variables in: of the environment first, then arguments.
    pub(super) fn expand(&self, text: &str, env: &[String], args: &BTreeMap<String, String>) -> Result<String> {
        let look_up = look_up(env, args);
        Expander { escape: self.escape, look_up: &look_up, budget: &self.budget }.word(text)
    }

    /// Puts variables into a document, in which quotes are only quotes.
    pub(super) fn expand_document(
        &self,
        text: &str,
        env: &[String],
        args: &BTreeMap<String, String>,
    ) -> Result<String> {
        let (mut escaped, mut chars) = (String::new(), text.chars().peekable());
        while let Some(c) = chars.next() {
            match c {
                '\'' | '"' => escaped.push(self.escape),
                // Before anything but a dollar it stands for itself.
                c if c == self.escape && chars.peek() != Some(&'$') => escaped.push(c),
                _ => {}
            }
            escaped.push(c);
        }
        self.expand(&escaped, env, args)
    }
}

/// The value of a variable: of the environment first, then of the arguments.
pub(super) fn look_up<'e>(
    env: &'e [String],
    args: &'e BTreeMap<String, String>,
) -> impl Fn(&str) -> Option<String> + use<'e> {
    move |name| of_env(env, name).or_else(|| args.get(name).cloned())
}
