//! Addresses of repositories, as the parameter `remote` of a build and ADD name them: `ADDRESS[#[REF][:DIRECTORY]]`, for ADD
//! with a query as well.

use super::query::Query;
use crate::error::{Error, Result};
use crate::registry::{Url, unescape, without_secrets};

/// The port of `git daemon`.
const PORT: u16 = 9418;
/// Longest name of a branch, a tag or a commit.
pub(super) const MAX_REF: usize = 1000;

/// A repository, with the commit and the directory in it that are wanted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(super) place: Place,
    /// The name of a branch, a tag or a commit; empty: the server's default.
    pub(super) wanted: String,
    /// Below the root of the repository; empty: the root.
    pub(crate) directory: String,
    /// For messages: without user and password.
    pub(crate) shown: String,
    /// The first digits of the commit's id that the query of the address names; empty: none.
    pub(crate) checksum: String,
    /// Whether the query asks for git's own files, if it says anything of them.
    pub(crate) keep_git_dir: Option<bool>,
    /// The query asks for the files without those of submodules.
    pub(crate) skips_modules: bool,
}

/// How a repository is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The URL, with a user and a password if it has them.
    Http(String),
    Daemon {
        host: String,
        port: u16,
        path: String,
    },
}

impl Remote {
    /// Reads an address. `None`: it is not that of a git repository. Errors: it is one, and cannot be fetched.
    pub(crate) fn parse(text: &str) -> Result<Option<Remote>> {
        let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
        if !is_git(address) {
            return Ok(None);
        }
        // `git@host:path` has no form in which secrets could be recognised.
        let shown = if address.starts_with("git@") { address.to_owned() } else { without_secrets(address) };
        let context = format!("remote: {shown}");
        let (wanted, directory) = fragment.split_once(':').unwrap_or((fragment, ""));
        let said = Query { wanted: wanted.into(), directory: directory.into(), ..Query::default() };
        Remote::of(address, said, shown).map(Some).map_err(|error| error.context(context))
    }

    /// Reads a source of ADD. As with BuildKit, `github.com/USER/NAME` is a path there.
    pub(crate) fn of_source(text: &str) -> Result<Option<Remote>> {
        let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
        let of_web = ["http://", "https://"].iter().any(|start| address.starts_with(start));
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let of_ssh = address.starts_with("git@") && address.contains(':') || address.starts_with("ssh://");
        if !(of_web && path.ends_with(".git") || of_ssh || address.starts_with("git://")) {
            return Ok(None);
        }
        let shown = if address.starts_with("git@") { address.to_owned() } else { without_secrets(address) };
        let context = format!("the repository {shown}");
        let (wanted, directory) = fragment.split_once(':').unwrap_or((fragment, ""));
        let read = Query::read(query, wanted, directory).and_then(|said| Remote::of(path, said, shown));
        read.map(Some).map_err(|error| error.context(context))
    }

    fn of(address: &str, said: Query, shown: String) -> Result<Remote> {
        let Query { wanted, directory, checksum, keep_git_dir, submodules } = said;
        let is_odd = |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | '?' | '*' | '[' | '\\');
        if wanted.len() > MAX_REF || wanted.contains(is_odd) || wanted.contains("..") {
            return Err(Error::invalid(format!("{wanted:?} cannot be the name of a branch, a tag or a commit")));
        }
        if directory.split('/').any(|part| part == "..") {
            return Err(Error::invalid(format!("the directory {directory:?} is not in the repository")));
        }
        let place = match address.strip_prefix("git://") {
            Some(rest) => daemon(rest)?,
            None if address.starts_with("git@") || address.starts_with("ssh://") => {
                return Err(Error::unsupported(
                    "this engine has no ssh for git: use the repository's address of https, or send the files as a tar",
                ));
            }
            None if address.starts_with("github.com/") => Place::Http(format!("https://{address}")),
            None => Place::Http(address.to_owned()),
        };
        let skips_modules = submodules == Some(false);
        Ok(Remote { place, wanted, directory, shown, checksum, keep_git_dir, skips_modules })
    }
}

fn is_git(address: &str) -> bool {
    let of_web = (address.starts_with("http://") || address.starts_with("https://")) && !address.contains('?');
    of_web && address.ends_with(".git")
        || ["git://", "github.com/", "git@", "ssh://"].iter().any(|start| address.starts_with(start))
}

fn daemon(rest: &str) -> Result<Place> {
    let bad = || Error::invalid("not the address of a repository: git://HOST[:PORT]/PATH");
    let url = Url::parse(&format!("http://{rest}")).map_err(|_| bad())?;
    let port = url.port().map_or(Ok(PORT), |port| port.parse().map_err(|_| bad()))?;
    let path = unescape(&url.target);
    if path.contains(char::is_control) {
        return Err(bad());
    }
    Ok(Place::Daemon { host: url.host().to_owned(), port, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Remote {
        Remote::parse(text).unwrap().unwrap()
    }

    #[test]
    fn addresses_of_repositories() {
        let web = |url: &str| Place::Http(url.into());
        assert_eq!(one("github.com/a/b").place, web("https://github.com/a/b"));
        let remote = one("https://me:secret@h/a.git#v1:sub/dir");
        assert_eq!(remote.place, web("https://me:secret@h/a.git"));
        assert_eq!((remote.wanted.as_str(), remote.directory.as_str()), ("v1", "sub/dir"));
        assert_eq!(remote.shown, "https://h/a.git");
        assert_eq!(one("https://h/a.git#:sub").directory, "sub");
        let daemon = |host: &str, port, path: &str| Place::Daemon { host: host.into(), port, path: path.into() };
        assert_eq!(one("git://h/a%20b").place, daemon("h", 9418, "/a b"));
        assert_eq!(one("git://[::1]:99/a").place, daemon("[::1]", 99, "/a"));
        for other in ["https://h/a.gitx", "https://h/git", "http://h/a?b=.git", "foo", "ftp://h/a.git"] {
            assert_eq!(Remote::parse(other).unwrap(), None, "{other}");
        }
    }

    #[test]
    fn sources_of_add() {
        let source = |text: &str| Remote::of_source(text).unwrap();
        assert_eq!(source("https://h/a.git#v1:sub").unwrap(), one("https://h/a.git#v1:sub"));
        assert_eq!(source("git://h/a").unwrap(), one("git://h/a"));
        let asked = source("https://h/a.git?ref=v1&subdir=sub&commit=abcdef0&submodules=false#:sub").unwrap();
        assert_eq!(
            (&asked.place, asked.wanted.as_str(), asked.directory.as_str()),
            (&one("https://h/a.git").place, "v1", "sub")
        );
        assert_eq!((asked.checksum.as_str(), asked.keep_git_dir, asked.skips_modules), ("abcdef0", None, true));
        for other in ["github.com/a/b", "https://h/a", "git@h", "a.git", "http://h/a?b=.git", "./git@h:a"] {
            assert_eq!(source(other), None, "{other}");
        }
        for (text, why) in [
            ("git@h:a/b", "the repository git@h:a/b: this engine has no ssh"),
            ("ssh://me:secret@h/a.git", "this engine has no ssh"),
            ("https://me:secret@h/a.git?odd=v1", ": unexpected query \"odd\""),
            ("https://h/a.git?ref=v1#v2", ": ref conflicts: \"v2\" vs \"v1\""),
            ("git://h/a?ref=a%20b", "cannot be the name"),
            ("git://h/a?subdir=../x", "is not in the repository"),
            ("git://h/a#:../x", "is not in the repository"),
        ] {
            let error = Remote::of_source(text).unwrap_err();
            assert!(error.message().contains(why), "{text}: {error}");
            assert!(error.message().starts_with("the repository "), "{error}");
            assert!(!error.message().contains("secret"), "{error}");
        }
    }

    #[test]
    fn addresses_that_are_refused() {
        for (text, why) in [
            ("git@h:a/b", "no ssh"),
            ("ssh://me:secret@h/a.git", "no ssh"),
            ("git://h:x/a", "git://HOST"),
            ("git://h/a%00b", "git://HOST"),
            ("git://h/a#a b", "cannot be the name"),
            ("git://h/a#a\nb", "cannot be the name"),
            ("git://h/a#:../x", "is not in the repository"),
        ] {
            let error = Remote::parse(text).unwrap_err();
            assert!(error.message().contains(why) && error.message().starts_with("remote: "), "{text}: {error}");
            assert!(!error.message().contains("secret"), "{error}");
        }
    }
}
