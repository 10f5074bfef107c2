//! The query of a repository's address, as BuildKit reads it: `?ref=v1&subdir=docs`.

use crate::error::{Error, Result};
use crate::model::parse_bool;
use crate::registry::unescape;

/// The query and the fragment of an address, read together. An empty text says nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    /// The name of a branch, a tag or a commit.
    pub(super) wanted: String,
    pub(super) directory: String,
    /// The first digits of the commit's id.
    pub(super) checksum: String,
    pub(super) keep_git_dir: Option<bool>,
    pub(super) submodules: Option<bool>,
}

impl Query {
    /// Reads a query beside a fragment. Errors: a word that is unknown, comes twice, has no value, or says something else than
    /// another one.
    pub(super) fn read(text: &str, wanted: &str, directory: &str) -> Result<Query> {
        let mut query = Query { wanted: wanted.into(), directory: directory.into(), ..Query::default() };
        let (mut seen, mut tag, mut branch) = (Vec::new(), None, None);
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (unescape(&name.replace('+', " ")), unescape(&value.replace('+', " ")));
            if seen.contains(&name) {
                return Err(Error::invalid(format!("query {name:?} has multiple values")));
            }
            match name.as_str() {
                "keep-git-dir" => query.keep_git_dir = Some(flag(&name, &value)?),
                "submodules" => query.submodules = Some(flag(&name, &value)?),
                "ref" | "tag" | "branch" | "subdir" | "checksum" | "commit" if value.is_empty() => {
                    return Err(Error::invalid(format!("query {name:?} has no value")));
                }
                "ref" => say(&mut query.wanted, "ref", value)?,
                "subdir" => say(&mut query.directory, "subdir", value)?,
                "checksum" | "commit" => say(&mut query.checksum, "checksum", value)?,
                "tag" => tag = Some(below("refs/tags/", value)),
                "branch" => branch = Some(below("refs/heads/", value)),
                _ => return Err(Error::invalid(format!("unexpected query {name:?}"))),
            }
            seen.push(name);
        }
        if tag.is_some() && branch.is_some() {
            return Err(Error::invalid("branch conflicts with tag"));
        }
        if let Some(name) = tag.or(branch) {
            say(&mut query.wanted, "ref", name)?;
        }
        Ok(query)
    }
}

/// Puts a value in, unless there is another one.
fn say(place: &mut String, name: &str, value: String) -> Result<()> {
    if !place.is_empty() && *place != value {
        return Err(Error::invalid(format!("{name} conflicts: {place:?} vs {value:?}")));
    }
    *place = value;
    Ok(())
}

fn below(prefix: &str, name: String) -> String {
    if name.starts_with(prefix) { name } else { format!("{prefix}{name}") }
}

/// A truth value; without one the word itself is a yes.
fn flag(name: &str, value: &str) -> Result<bool> {
    match value {
        "" => Ok(true),
        text => parse_bool(text).ok_or_else(|| Error::invalid(format!("invalid {name} value: {text:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Query {
        Query::read(text, "", "").unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn words_of_a_query() {
        let query = read("ref=v1&subdir=a%2Fb+c&checksum=abcd&keep-git-dir&submodules=0");
        assert_eq!((query.wanted.as_str(), query.directory.as_str(), query.checksum.as_str()), ("v1", "a/b c", "abcd"));
        assert_eq!((query.keep_git_dir, query.submodules), (Some(true), Some(false)));
        assert_eq!(read(""), Query::default());
        assert_eq!(read("&commit=12").checksum, "12");
        assert_eq!(read("tag=v1").wanted, "refs/tags/v1");
        assert_eq!(read("tag=refs/tags/v1&ref=refs/tags/v1").wanted, "refs/tags/v1");
        assert_eq!(read("branch=side/way").wanted, "refs/heads/side/way");
        assert_eq!(Query::read("ref=v1&subdir=d", "v1", "d").unwrap(), Query::read("", "v1", "d").unwrap());
    }

    #[test]
    fn refusals_name_the_word() {
        for (text, why) in [
            ("token=x", "unexpected query \"token\""),
            ("ref", "query \"ref\" has no value"),
            ("commit=", "query \"commit\" has no value"),
            ("ref=said&ref=said", "query \"ref\" has multiple values"),
            ("keep-git-dir=maybe", "invalid keep-git-dir value: \"maybe\""),
            ("submodules=2", "invalid submodules value: \"2\""),
            ("ref=a", "ref conflicts: \"said\" vs \"a\""),
            ("tag=said", "ref conflicts: \"said\" vs \"refs/tags/said\""),
            ("subdir=a", "subdir conflicts: \"there\" vs \"a\""),
            ("checksum=aa&commit=ab", "checksum conflicts: \"aa\" vs \"ab\""),
            ("tag=a&branch=b", "branch conflicts with tag"),
        ] {
            assert_eq!(Query::read(text, "said", "there").unwrap_err().message(), why, "{text}");
        }
    }
}
