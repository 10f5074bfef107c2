//! Commits, tags, and the lists of names that are directories.

use super::pack::{Kind, Object, Pack};
use super::{Id, parse_id};
use crate::error::{Error, Result};
use crate::hex;
use crate::walls::Wall;
use std::io::Read;

/// Largest commit and tag, and most tags behind each other.
pub(super) const MAX_WORDS: u64 = 1 << 20;
const MAX_TAGS: usize = 10;
/// Longest name of a file: the kernel's.
const MAX_NAME: usize = 255;

/// A commit: its id, its directory, and its time in seconds since 1970.
pub(super) struct Root {
    pub(super) commit: Id,
    pub(super) tree: Id,
    pub(super) time: u64,
}

/// A file's kind, as a directory states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    File,
    Program,
    Link,
    Directory,
    /// A commit of another repository.
    Module,
}

/// A file of a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) mode: Mode,
    pub(super) name: &'a [u8],
    pub(super) id: Id,
}

impl Pack {
    /// The commit that an object is, or leads to as a tag.
    pub(crate) fn commit(&self, id: &Id) -> Result<Id> {
        Ok(self.root(id)?.commit)
    }

    /// An object of a kind.
    pub(super) fn of_kind(&self, id: &Id, kind: Kind) -> Result<&Object> {
        match self.find(id) {
            Some(object) if object.kind == Some(kind) => Ok(object),
            Some(_) => Err(Error::internal(format!("the object {} is of another kind", hex::encode(id)))),
            None => Err(Error::internal(format!("the server did not send the object {}", hex::encode(id)))),
        }
    }

    /// The content of an object that has at most `most` bytes.
    pub(super) fn bytes(&self, object: &Object, most: u64) -> Result<Vec<u8>> {
        if object.size > most {
            return Err(Error::invalid(format!("an object of {} bytes: at most {most} of its kind", object.size)));
        }
        let mut bytes = Vec::new();
        self.content(object).read_to_end(&mut bytes).map_err(|e| Error::io("read a pack", &e))?;
        Ok(bytes)
    }

    /// The directory of a commit, or of the commit that a tag leads to.
    pub(super) fn root(&self, id: &Id) -> Result<Root> {
        let mut id = *id;
        for _ in 0..=MAX_TAGS {
            let missing = || Error::internal(format!("the server did not send the object {}", hex::encode(&id)));
            let object = self.find(&id).ok_or_else(missing)?;
            let (word, is_last) = match object.kind {
                Some(Kind::Commit) => ("tree ", true),
                Some(Kind::Tag) => ("object ", false),
                _ => return Err(Error::invalid(format!("{} is not a commit", hex::encode(&id)))),
            };
            let text = self.bytes(object, MAX_WORDS)?;
            let mut lines = text.split(|byte| *byte == b'\n');
            let first = lines.next().and_then(|line| line.strip_prefix(word.as_bytes())).and_then(parse_id);
            let next = first.ok_or_else(|| Error::internal("the pack is damaged: a commit without files"))?;
            if is_last {
                let line = lines.take_while(|line| !line.is_empty()).find_map(|line| line.strip_prefix(b"committer "));
                return Ok(Root { commit: id, tree: next, time: line.and_then(time).unwrap_or(0) });
            }
            id = next;
        }
        Err(Error::invalid(format!("more than {MAX_TAGS} tags before a commit")))
    }
}

/// The time in `NAME <ADDRESS> SECONDS ZONE`.
fn time(line: &[u8]) -> Option<u64> {
    let mut words = line.rsplit(|byte| *byte == b' ');
    let seconds = std::str::from_utf8(words.nth(1)?).ok()?.parse::<u64>().ok()?;
    // A tar's head holds no larger number.
    Some(seconds).filter(|seconds| *seconds < 1 << 33)
}

/// The names of a directory: sorted, each once, none that means a place elsewhere.
pub(super) struct List {
    bytes: Vec<u8>,
    at: usize,
    /// The last name, and with a slash behind it if it was a directory's.
    last: Vec<u8>,
    /// Names of files, each the beginning of the next: a directory of such a name may still come.
    files: Vec<Vec<u8>>,
}

impl List {
    pub(super) fn new(bytes: Vec<u8>) -> List {
        List { bytes, at: 0, last: Vec::new(), files: Vec::new() }
    }

    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The next file. Errors: a name that a directory cannot have, or has twice.
    pub(super) fn next(&mut self) -> Result<Option<Named<'_>>> {
        let damaged = || Error::internal("the pack is damaged: a directory that cannot be read");
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let space = rest.iter().take(8).position(|byte| *byte == b' ').ok_or_else(damaged)?;
        let end = rest.iter().position(|byte| *byte == 0).filter(|end| *end > space).ok_or_else(damaged)?;
        let (mode, name) = (&rest[..space], &rest[space + 1..end]);
        let id: Id = rest.get(end + 1..end + 21).and_then(|id| id.try_into().ok()).ok_or_else(damaged)?;
        self.at += end + 21;
        let mode = match mode {
            b"100644" | b"100664" => Mode::File,
            b"100755" => Mode::Program,
            b"120000" => Mode::Link,
            b"40000" => Mode::Directory,
            b"160000" => Mode::Module,
            _ => return Err(Error::invalid(format!("{}: the mode {} is not one of git's", shown(name), shown(mode)))),
        };
        if let Some(why) = fault(name).filter(|_| Wall::GitNames.stands()) {
            return Err(Error::invalid(format!("a file is named {}: {why}", shown(name))));
        }
        in_order(&mut self.last, &mut self.files, name, mode == Mode::Directory)?;
        Ok(Some(Named { mode, name, id }))
    }
}

/// Checks the place of a name among the others. Directories are sorted as if their names ended with a slash.
fn in_order(last: &mut Vec<u8>, files: &mut Vec<Vec<u8>>, name: &[u8], is_directory: bool) -> Result<()> {
    let key = if is_directory { [name, b"/"].concat() } else { name.to_vec() };
    while files.last().is_some_and(|file| !name.starts_with(file)) {
        files.pop();
    }
    if !last.is_empty() && key <= *last || files.last().is_some_and(|file| file == name) {
        return Err(Error::invalid(format!("a directory has {} twice, or not in its order", shown(name))));
    }
    if !is_directory {
        files.push(name.to_vec());
    }
    *last = key;
    Ok(())
}

/// Why no file may have a name.
fn fault(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("that is not a name"),
        b"." | b".." => Some("that is another directory"),
        _ if name.contains(&b'/') => Some("that is a path"),
        _ if name.eq_ignore_ascii_case(b".git") => Some("that is git's own"),
        _ if name.len() > MAX_NAME => Some("that is too long"),
        _ => None,
    }
}

/// A name for messages.
pub(super) fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    format!("{:?}", text.chars().take(300).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[(&str, &str)]) -> Result<Vec<String>> {
        let bytes = names.iter().flat_map(|(mode, name)| [mode.as_bytes(), b" ", name.as_bytes(), &[0; 21]].concat());
        let (mut list, mut found) = (List::new(bytes.collect()), vec![]);
        while let Some(named) = list.next()? {
            found.push(String::from_utf8_lossy(named.name).into_owned());
        }
        Ok(found)
    }

    #[test]
    fn lists_of_names() {
        let plain = [("100644", "a"), ("100755", "a.b"), ("120000", "a0"), ("40000", "b"), ("160000", "b0")];
        assert_eq!(list(&plain).unwrap(), ["a", "a.b", "a0", "b", "b0"]);
        assert_eq!(list(&[("40000", "a"), ("100644", "a0")]).unwrap(), ["a", "a0"]);
    }

    #[test]
    fn names_that_no_list_has() {
        for (names, why) in [
            (&[("100644", "..")][..], "another directory"),
            (&[("40000", ".")], "another directory"),
            (&[("100644", "")], "not a name"),
            (&[("100644", "a/b")], "a path"),
            (&[("100644", "/etc/passwd")], "a path"),
            (&[("40000", ".git")], "git's own"),
            (&[("120000", ".GIT")], "git's own"),
            (&[("100644", "a"), ("100644", "a")], "twice"),
            (&[("120000", "a"), ("100644", "a.b"), ("40000", "a")], "twice"),
            (&[("100644", "b"), ("100644", "a")], "not in its order"),
            (&[("104755", "a")], "not one of git's"),
            (&[("100000000644", "a")], "cannot be read"),
        ] {
            let error = list(names).unwrap_err();
            assert!(error.message().contains(why), "{names:?}: {error}");
        }
        let long = "a".repeat(256);
        assert!(list(&[("100644", &long)]).unwrap_err().message().contains("too long"));
    }

    #[test]
    fn times_of_commits() {
        assert_eq!(time(b"A B <a@b> 1700000000 +0100"), Some(1_700_000_000));
        assert_eq!(time(b"A B <a@b> -5 +0100"), None);
        assert_eq!(time(b"x"), None);
    }
}
