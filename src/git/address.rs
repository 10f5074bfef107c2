//! Addresses of repositories, as the parameter `remote` of a build names them: `ADDRESS[#[REF][:DIRECTORY]]`.

use crate::error::{Error, Result};
use crate::registry::{Url, unescape, without_secrets};

/// The port of `git daemon`.
const PORT: u16 = 9418;
/// Longest name of a branch, a tag or a commit.
const MAX_REF: usize = 1000;

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
        Remote::of(address, fragment, shown.clone())
            .map(Some)
            .map_err(|error| error.context(format_args!("remote: {shown}")))
    }

    fn of(address: &str, fragment: &str, shown: String) -> Result<Remote> {
        let (wanted, directory) = fragment.split_once(':').unwrap_or((fragment, ""));
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
        Ok(Remote { place, wanted: wanted.to_owned(), directory: directory.to_owned(), shown })
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
