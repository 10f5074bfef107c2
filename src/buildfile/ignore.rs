//! Patterns of ignore files, and the globs that sources of COPY are.

use crate::error::{Error, Result};

/// Most patterns of a file.
const MAX_PATTERNS: usize = 10_000;

/// An ignore file's patterns, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patterns(Vec<Pattern>);

#[derive(Debug, Clone)]
struct Pattern {
    /// A file that matches is not ignored after all.
    keep: bool,
    parts: Vec<String>,
}

impl Patterns {
    /// Reads an ignore file. Errors: a pattern is malformed.
    pub(crate) fn read(bytes: &[u8]) -> Result<Patterns> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut patterns = Vec::new();
        for line in String::from_utf8_lossy(bytes).lines() {
            // A comment begins its line; a blank before it makes it a name.
            let is_comment = line.starts_with('#');
            let line = line.trim();
            if line.is_empty() || is_comment {
                continue;
            }
            patterns.push(Pattern::parse(line).map_err(|error| error.context("the ignore file"))?);
            if patterns.len() > MAX_PATTERNS {
                return Err(Error::invalid(format!("the ignore file has more than {MAX_PATTERNS} patterns")));
            }
        }
        Ok(Patterns(patterns))
    }

    /// Reads the patterns of flags. Errors: a pattern is malformed.
    pub(crate) fn of_flags(texts: &[String]) -> Result<Patterns> {
        texts.iter().map(|text| Pattern::parse(text)).collect::<Result<_>>().map(Patterns)
    }

    /// Whether some pattern takes back what another ignores: then ignored directories must be looked into.
    pub(crate) fn has_exceptions(&self) -> bool {
        self.0.iter().any(|pattern| pattern.keep)
    }

    /// Whether the path (relative, clean) is ignored: the last pattern that matches it, or a directory above it, says.
    pub(crate) fn ignores(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        let mut ignored = false;
        for pattern in &self.0 {
            if pattern.keep != ignored {
                continue;
            }
            if (1..=parts.len()).any(|length| matches_path(&pattern.parts, &parts[..length])) {
                ignored = !pattern.keep;
            }
        }
        ignored
    }

    /// Whether a path is ignored, asked directory by directory as BuildKit asks. `above`: the answer for the directory
    /// that has it. A pattern that matched that directory matches all in it; another one must match the path itself.
    pub(crate) fn ignores_in(&self, path: &str, above: Option<&Matched>) -> (bool, Matched) {
        let parts: Vec<&str> = path.split('/').collect();
        let (mut ignored, mut matched) = (false, Vec::with_capacity(self.0.len()));
        for (index, pattern) in self.0.iter().enumerate() {
            let of_directory = above.is_some_and(|above| above.0.get(index) == Some(&true));
            // As there: a pattern that would change nothing is not asked, and then matches nothing below either.
            let matches = of_directory || pattern.keep == ignored && matches_path(&pattern.parts, &parts);
            if matches {
                ignored = !pattern.keep;
            }
            matched.push(matches);
        }
        (ignored, Matched(matched))
    }

    /// The answer of [`Patterns::ignores_in`] for a path of which nothing is known; for an empty one, of the tree itself.
    pub(crate) fn along(&self, path: &str) -> (bool, Matched) {
        let mut answer = (false, Matched::default());
        for end in path.match_indices('/').map(|(at, _)| at).chain([path.len()]).filter(|end| *end > 0) {
            answer = self.ignores_in(&path[..end], Some(&answer.1));
        }
        answer
    }
}

/// Which patterns of a list matched a directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matched(Vec<bool>);

impl Pattern {
    fn parse(line: &str) -> Result<Pattern> {
        let (keep, text) = match line.strip_prefix('!') {
            Some(rest) => (true, rest.trim()),
            None => (false, line),
        };
        if keep && text.is_empty() {
            return Err(Error::invalid("illegal exclusion pattern: \"!\""));
        }
        let mut parts: Vec<String> = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." if parts.last().is_some_and(|last| last != "..") => drop(parts.pop()),
                part => parts.push(part.into()),
            }
        }
        for part in &parts {
            check_glob(part).map_err(|()| Error::invalid(format!("{line:?}: syntax error in pattern")))?;
        }
        Ok(Pattern { keep, parts })
    }
}

/// Part by part; `**` stands for any number of parts.
fn matches_path(pattern: &[String], path: &[&str]) -> bool {
    // Where each beginning of the pattern may have come to in the path: no going back, so no pattern is slow.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for (index, part) in pattern.iter().enumerate() {
        let mut next = vec![false; path.len() + 1];
        if part == "**" {
            // At the end it means what lies in a directory, not the directory itself.
            let inside = index > 0 && index + 1 == pattern.len();
            let mut any = false;
            for at in 0..=path.len() {
                next[at] = any || !inside && reached[at];
                any |= reached[at];
            }
        } else {
            for at in 0..path.len() {
                // `**` as a piece of a name is a star that takes slashes too; within one part it is a star.
                next[at + 1] = reached[at] && glob(part, path[at]);
            }
        }
        reached = next;
    }
    !pattern.is_empty() && reached[path.len()]
}

/// Whether `text` (one part of a path, or several) matches Go's `filepath.Match` pattern: `*` and `?` take no slash.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    if parse_check(&pattern).is_err() {
        return false;
    }
    let (mut p, mut t, mut star): (usize, usize, Option<(usize, usize)>) = (0, 0, None);
    loop {
        let step = match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some('*'), _) => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            (Some('?'), Some(&c)) if c != '/' => Some(p + 1),
            (Some('['), Some(&c)) if c != '/' => match class(&pattern[p + 1..], c) {
                Some((true, length)) => Some(p + 1 + length),
                _ => None,
            },
            (Some('\\'), Some(c)) if pattern.get(p + 1) == Some(c) => Some(p + 2),
            (Some(want), Some(c)) if want == c && !matches!(want, '?' | '[' | '\\') => Some(p + 1),
            _ => None,
        };
        match (step, star) {
            (Some(next), _) => (p, t) = (next, t + 1),
            (None, Some((after, from))) if text.get(from).is_some_and(|&c| c != '/') => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

fn check_glob(pattern: &str) -> std::result::Result<(), ()> {
    parse_check(&pattern.chars().collect::<Vec<_>>())
}

fn parse_check(pattern: &[char]) -> std::result::Result<(), ()> {
    let mut at = 0;
    while at < pattern.len() {
        at += match pattern[at] {
            '\\' if at + 1 == pattern.len() => return Err(()),
            '\\' => 2,
            '[' => 1 + class(&pattern[at + 1..], '\0').ok_or(())?.1,
            _ => 1,
        };
    }
    Ok(())
}

/// Whether `c` is in the class that begins `pattern` (behind its bracket), and how long the class is; `None`: `pattern`
/// does not begin with a class.
fn class(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let negated = pattern.first() == Some(&'^');
    let (mut at, mut found, mut ranges) = (usize::from(negated), false, 0);
    let member = |at: usize| match pattern.get(at)? {
        '-' | ']' => None,
        '\\' => pattern.get(at + 1).map(|&c| (c, at + 2)),
        &c => Some((c, at + 1)),
    };
    loop {
        if pattern.get(at)? == &']' && ranges > 0 {
            return Some((found != negated, at + 1));
        }
        let (low, next) = member(at)?;
        let (high, next) = if pattern.get(next) == Some(&'-') { member(next + 1)? } else { (low, next) };
        found |= low <= c && c <= high;
        ranges += 1;
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_match_says() {
        let patterns = Patterns::read(b"# comment\n*.log\n!keep.log\n/build/\n**/tmp\na/**/z\n docs/../x \n").unwrap();
        for (path, want) in [
            ("a.log", true),
            ("keep.log", false),
            ("d/a.log", false),
            ("build", true),
            ("build/deep/file", true),
            ("sub/build", false),
            ("tmp", true),
            ("a/b/tmp/c", true),
            ("a/z", true),
            ("a/b/c/z", true),
            ("x", true),
            ("other", false),
        ] {
            assert_eq!(patterns.ignores(path), want, "{path}");
        }
    }

    #[test]
    fn all_but_some() {
        let patterns = Patterns::read(b"**\n!src\n!*.md\nsrc/secret\n").unwrap();
        for (path, want) in [("a", true), ("src", false), ("src/m.rs", false), ("src/secret", true), ("r.md", false)] {
            assert_eq!(patterns.ignores(path), want, "{path}");
        }
        let patterns = Patterns::read(b"a/**\n #b\n#c\n").unwrap();
        for (path, want) in [("a", false), ("a/b", true), ("a/b/c", true), ("#b", true), ("#c", false)] {
            assert_eq!(patterns.ignores(path), want, "{path}");
        }
        assert!(Patterns::read(b"!").is_err() && Patterns::read(b"[a").is_err());
    }

    /// The answers are those of buildkitd 0.25.1.
    #[test]
    fn directories_decide_before_what_is_in_them() {
        for (texts, path, want) in [
            (vec!["**/*.txt", "!sub"], "sub/c.txt", true),
            (vec!["sub", "!sub"], "sub/c.txt", false),
            (vec!["*", "!sub/"], "sub/c.txt", false),
            (vec!["*", "!sub/d.md"], "sub/c.txt", true),
            (vec!["*", "!sub/d.md"], "sub/d.md", false),
            (vec!["*.txt"], "sub/c.txt", false),
            (vec!["sub"], "sub/deep/c.txt", true),
        ] {
            let texts: Vec<String> = texts.into_iter().map(String::from).collect();
            assert_eq!(Patterns::of_flags(&texts).unwrap().along(path).0, want, "{texts:?} {path}");
        }
    }

    #[test]
    fn globs() {
        for (pattern, text, want) in [
            ("*.go", "a.go", true),
            ("*", "a/b", false),
            ("a/*", "a/b", true),
            ("a?c", "abc", true),
            ("[a-c]x", "bx", true),
            ("[^a]x", "ax", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("*a*b*c", "xaybzc", true),
            ("[", "[", false),
        ] {
            assert_eq!(glob(pattern, text), want, "{pattern} {text}");
        }
    }
}
