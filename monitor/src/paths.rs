//! Paths below a container's root, and the single names in them. Bytes alone: no file is looked at here.

use core::ops::Range;

/// Bytes of the longest path, with its NUL.
const PATH_MAX: usize = 4096;

/// A path relative to the root, without slashes at either end, with a NUL behind it.
pub struct Path {
    bytes: [u8; PATH_MAX],
    length: usize,
}

impl Path {
    /// None if the path is too long.
    pub fn new(path: &[u8]) -> Option<Path> {
        let path = trim(path);
        let mut bytes = [0; PATH_MAX];
        // The NUL stands there already.
        bytes[..PATH_MAX - 1].get_mut(..path.len())?.copy_from_slice(path);
        Some(Path { bytes, length: path.len() })
    }

    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub fn cstr(&self) -> &[u8] {
        &self.bytes[..=self.length]
    }

    /// Replaces the name at `at` by the text of the link that it names. A text that begins with a slash replaces
    /// everything before the name, too. None if the path would be too long.
    pub fn follow(&mut self, link: &[u8], at: Range<usize>) -> Option<()> {
        let mut joined = [0; PATH_MAX];
        let before = if link.starts_with(b"/") { b"" } else { &self.bytes[..at.start] };
        let mut used = 0;
        for part in [before, link, &self.bytes[at.end..self.length]] {
            joined.get_mut(used..used + part.len())?.copy_from_slice(part);
            used += part.len();
        }
        *self = Path::new(&joined[..used])?;
        Some(())
    }
}

/// One component of a path, with a NUL behind it.
pub struct Name {
    bytes: [u8; 256],
    length: usize,
}

impl Name {
    /// None if the text is not the name of an entry of a directory.
    pub fn new(text: &[u8]) -> Option<Name> {
        if text.is_empty() || text.len() > 255 || text == b"." || text == b".." {
            return None;
        }
        let mut bytes = [0; 256];
        bytes[..text.len()].copy_from_slice(text);
        Some(Name { bytes, length: text.len() })
    }

    pub fn cstr(&self) -> &[u8] {
        &self.bytes[..=self.length]
    }
}

/// Where the last component of a path begins.
pub fn last_of(path: &[u8]) -> usize {
    path.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1)
}

/// A C string without the slashes at its beginning: a path beneath a directory does not begin at the root.
pub fn relative(path: &[u8]) -> &[u8] {
    let slashes = path.iter().take_while(|&&b| b == b'/').count();
    &path[slashes..]
}

/// A path without its NUL and without slashes at either end.
fn trim(path: &[u8]) -> &[u8] {
    let mut path = relative(path.strip_suffix(b"\0").unwrap_or(path));
    while let Some(rest) = path.strip_suffix(b"/") {
        path = rest;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path) -> &str {
        assert_eq!(path.cstr().strip_suffix(b"\0"), Some(path.text()));
        core::str::from_utf8(path.text()).expect("text")
    }

    #[test]
    fn a_path_has_no_slashes_at_its_ends() {
        for (given, wanted) in [("/etc/hosts\0", "etc/hosts"), ("//a//b//", "a//b"), ("/", ""), ("\0", ""), ("a", "a")]
        {
            assert_eq!(text(&Path::new(given.as_bytes()).expect(given)), wanted);
        }
        assert_eq!(relative(b"//dev/pts\0"), b"dev/pts\0");
    }

    #[test]
    fn a_path_that_has_no_room_for_its_nul_is_too_long() {
        assert!(Path::new(&[b'a'; PATH_MAX - 1]).is_some());
        assert!(Path::new(&[b'a'; PATH_MAX]).is_none());
    }

    #[test]
    fn a_link_takes_the_place_of_its_name() {
        for (path, link, at, wanted) in [
            ("etc/resolv.conf", "../run/x", 4..15, "etc/../run/x"),
            ("etc/resolv.conf", "/run/x", 4..15, "run/x"),
            ("var/run/lock", "/run", 4..7, "run/lock"),
            ("var/run/lock", "run2", 4..7, "var/run2/lock"),
        ] {
            let mut path = Path::new(path.as_bytes()).expect(path);
            assert_eq!(path.follow(link.as_bytes(), at), Some(()));
            assert_eq!(text(&path), wanted);
        }
    }

    #[test]
    fn a_link_that_makes_a_path_too_long_is_refused_and_changes_nothing() {
        let mut path = Path::new(b"a/b").expect("a path");
        assert_eq!(path.follow(&[b'x'; PATH_MAX], 0..1), None);
        assert_eq!(path.follow(&[b'x'; PATH_MAX - 2], 0..1), None);
        assert_eq!(text(&path), "a/b");
        assert_eq!(path.follow(&[b'x'; PATH_MAX - 3], 0..1), Some(()));
        assert_eq!(path.text().len(), PATH_MAX - 1);
    }

    #[test]
    fn dots_and_long_texts_are_not_names() {
        for text in [&b""[..], b".", b"..", &[b'n'; 256]] {
            assert!(Name::new(text).is_none());
        }
        for text in [&b"..."[..], b".a", &[b'n'; 255]] {
            assert_eq!(Name::new(text).expect("a name").cstr().split_last(), Some((&0, text)));
        }
    }

    #[test]
    fn the_last_component_begins_behind_the_last_slash() {
        assert_eq!(["a", "a/b", "a/b/", ""].map(|path| last_of(path.as_bytes())), [0, 2, 4, 0]);
    }
}
