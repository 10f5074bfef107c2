//! Build arguments: which are allowed where, and what they are.

use crate::buildfile::check_all;
use crate::error::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Allowed without an ARG, and kept out of the history.
const PREDEFINED: [&str; 8] =
    ["FTP_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ftp_proxy", "http_proxy", "https_proxy", "no_proxy"];

/// The arguments as a stage sees them.
#[derive(Clone)]
pub(super) struct Args<'a> {
    given: &'a BTreeMap<String, Option<String>>,
    /// By ARG in this stage: their defaults.
    allowed: BTreeMap<String, Option<String>>,
    /// By ARG before the first stage.
    meta: BTreeMap<String, Option<String>>,
    referenced: BTreeSet<String>,
}

impl<'a> Args<'a> {
    pub(super) fn new(given: &'a BTreeMap<String, Option<String>>) -> Args<'a> {
        Args { given, allowed: BTreeMap::new(), meta: BTreeMap::new(), referenced: BTreeSet::new() }
    }

    /// The arguments at the beginning of a stage.
    pub(super) fn for_stage(&self) -> Args<'a> {
        Args { allowed: BTreeMap::new(), ..self.clone() }
    }

    pub(super) fn add(&mut self, name: &str, default: Option<String>) {
        self.allowed.insert(name.to_owned(), default);
        self.referenced.insert(name.to_owned());
    }

    pub(super) fn add_meta(&mut self, name: &str, default: Option<String>) {
        self.add(name, default.clone());
        self.meta.insert(name.to_owned(), default);
    }

    /// Refuses values that take too much together.
    pub(super) fn check(&self) -> Result<()> {
        let values = self.allowed.values().chain(self.meta.values()).flatten().map(String::as_str);
        check_all("the values of ARG", values.chain(self.referenced.iter().map(String::as_str)))
    }

    /// Remembers what a stage referred to.
    pub(super) fn merge(&mut self, stage: &Args<'_>) {
        self.referenced.extend(stage.referenced.iter().cloned());
    }

    /// The values of variables in FROM.
    pub(super) fn all_meta(&self) -> BTreeMap<String, String> {
        self.values(&self.meta)
    }

    /// The arguments that are allowed here and that `env` (`name=value`) does not have.
    pub(super) fn beside(&self, env: &[String]) -> BTreeMap<String, String> {
        let mut all = self.values(&self.allowed);
        // Both may be long: each name is looked up once.
        for name in env.iter().filter_map(|entry| entry.split('=').next()) {
            all.remove(name);
        }
        all
    }

    /// Whether an argument belongs to the history and so to the cache.
    pub(super) fn is_in_history(&self, name: &str) -> bool {
        self.allowed.contains_key(name) || !PREDEFINED.contains(&name)
    }

    /// Arguments that were given, and no ARG asked for.
    pub(super) fn unused(&self) -> Vec<String> {
        let unused = |name: &&String| !self.referenced.contains(*name) && !PREDEFINED.contains(&name.as_str());
        self.given.keys().filter(unused).cloned().collect()
    }

    fn values(&self, defaults: &BTreeMap<String, Option<String>>) -> BTreeMap<String, String> {
        let names = defaults.keys().map(String::as_str).chain(PREDEFINED);
        names.filter_map(|name| Some((name.to_owned(), self.value(name, defaults)?))).collect()
    }

    fn value(&self, name: &str, defaults: &BTreeMap<String, Option<String>>) -> Option<String> {
        let given = self.given.get(name).cloned().flatten();
        given.or_else(|| defaults.get(name).cloned().flatten()).or_else(|| self.meta.get(name).cloned().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_argument_wins_where_the_file_allows_the_argument() {
        let given = BTreeMap::from([
            ("a".to_owned(), Some("given".to_owned())),
            ("http_proxy".to_owned(), Some("p".to_owned())),
            ("unused".to_owned(), Some("u".to_owned())),
        ]);
        let mut args = Args::new(&given);
        args.add_meta("m", Some("meta".into()));
        let mut stage = args.for_stage();
        let env = ["c=env".to_owned()];
        assert_eq!(stage.beside(&env).into_keys().collect::<Vec<_>>(), ["http_proxy"]);
        stage.add("a", Some("default".into()));
        stage.add("b", None);
        stage.add("c", Some("hidden".into()));
        stage.add("m", None);
        let all = stage.beside(&env);
        assert_eq!((all.get("a"), all.get("b"), all.get("c")), (Some(&"given".to_owned()), None, None));
        assert_eq!(all["m"], "meta");
        assert!(!stage.is_in_history("http_proxy") && stage.is_in_history("a"));
        args.merge(&stage);
        assert_eq!(args.unused(), ["unused"]);
    }
}
