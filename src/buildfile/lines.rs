//! Build files as lines: directives, comments, continuations, heredocs.

use super::expand::split_words;
use crate::error::{Error, Result};
use std::collections::{HashMap, HashSet};

/// Longest line that is taken, as docker's parser has it.
const MAX_LINE: usize = 64 << 10;

/// Most lines and instructions of a build file, and most words of all its instructions: each takes much more than its
/// text.
const MAX_LINES: usize = 50_000;
const MAX_INSTRUCTIONS: usize = 10_000;
const MAX_WORDS: usize = 100_000;

/// A build file, split.
pub(crate) struct Source {
    pub(crate) lines: Vec<Line>,
    /// The character that escapes, and goes on with the next line.
    pub(crate) escape: char,
    /// For the user, once the build runs.
    pub(crate) warnings: Vec<String>,
}

/// One instruction's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// Where it begins, counted from 1.
    pub(crate) number: usize,
    pub(crate) heredocs: Vec<Heredoc>,
}

/// A document that stands behind its instruction's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heredoc {
    pub(crate) name: String,
    /// As it stands there, each line with its end.
    pub(crate) content: String,
    /// Variables are put in: its name stood in no quotes.
    pub(crate) expand: bool,
    /// Tabs at the beginning of lines are taken away.
    pub(crate) chomp: bool,
}

impl Source {
    /// Errors: a directive that is wrong or comes twice, a line that is too long, no instruction at all.
    pub(crate) fn read(bytes: &[u8]) -> Result<Source> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = String::from_utf8_lossy(bytes);
        if text.lines().nth(MAX_LINES).is_some() {
            return Err(Error::invalid(format!("a build file of more than {MAX_LINES} lines")));
        }
        let all: Vec<&str> = text.lines().collect();
        if all.iter().any(|line| line.len() >= MAX_LINE) {
            return Err(Error::invalid("dockerfile line greater than maximum allowed size of 65535"));
        }
        let mut source = Source { lines: Vec::new(), escape: '\\', warnings: Vec::new() };
        let mut directives = Directives::default();
        let mut ends = None;
        let (mut at, mut words) = (0, 0);
        while at < all.len() {
            let line = all[at].trim_start();
            let number = at + 1;
            at += 1;
            if let Some(escape) = directives.read(line)? {
                source.escape = escape;
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (mut line, mut open) = continued(line, source.escape);
            let mut blank = false;
            while open && at < all.len() {
                let next = all[at];
                at += 1;
                if next.trim_start().starts_with('#') {
                    continue;
                }
                if next.trim().is_empty() {
                    blank = true;
                    continue;
                }
                let (part, more) = continued(next, source.escape);
                line.push_str(&part);
                open = more;
            }
            if blank {
                source.warnings.push(format!("[WARNING]: Empty continuation line found in:\n    {line}"));
            }
            words += 1 + line.bytes().filter(|byte| byte.is_ascii_whitespace() || *byte == b',').count();
            if words > MAX_WORDS || source.lines.len() >= MAX_INSTRUCTIONS {
                return Err(Error::invalid(format!(
                    "line {number}: more than {MAX_INSTRUCTIONS} instructions, or more than {MAX_WORDS} words in them"
                )));
            }
            let heredocs = heredocs(&line, source.escape, &all, &mut ends, &mut at);
            source.lines.push(Line { text: line, number, heredocs });
        }
        if source.lines.is_empty() {
            return Err(Error::invalid("file with no instructions"));
        }
        if !source.warnings.is_empty() {
            let last = "[WARNING]: Empty continuation lines will become errors in a future release.";
            source.warnings.push(last.into());
        }
        Ok(source)
    }
}

/// The line without its continuation mark, and whether it had one.
fn continued(line: &str, escape: char) -> (String, bool) {
    match line.trim_end_matches([' ', '\t']).strip_suffix(escape) {
        Some(part) => (part.to_owned(), true),
        None => (line.to_owned(), false),
    }
}

/// `# name=value` before everything else.
#[derive(Default)]
struct Directives {
    over: bool,
    seen: HashSet<String>,
}

impl Directives {
    /// Reads a line; answers a new escape character.
    fn read(&mut self, line: &str) -> Result<Option<char>> {
        if self.over {
            return Ok(None);
        }
        let directive = line.strip_prefix('#').and_then(|rest| rest.split_once('='));
        let name = directive.map(|(name, _)| name.trim().to_ascii_lowercase()).unwrap_or_default();
        let value = directive.map(|(_, value)| value.trim()).unwrap_or_default();
        if !matches!(name.as_str(), "escape" | "syntax") || value.is_empty() {
            self.over = true;
            return Ok(None);
        }
        if !self.seen.insert(name.clone()) {
            return Err(Error::invalid(format!("only one {name} parser directive can be used")));
        }
        match (name.as_str(), value) {
            ("escape", "\\") => Ok(Some('\\')),
            ("escape", "`") => Ok(Some('`')),
            ("escape", other) => Err(Error::invalid(format!("invalid escape token '{other}' does not match ` or \\"))),
            (_, reader) if is_this_language(reader) => Ok(None),
            (_, reader) => Err(Error::unsupported(format!(
                "syntax={reader}: files of docker/dockerfile are read here, and of no other frontend"
            ))),
        }
    }
}

/// Whether a frontend, a reference of an image, is docker's own, whose language this is.
fn is_this_language(reader: &str) -> bool {
    let name = reader.strip_prefix("docker.io/").unwrap_or(reader);
    let end = name.find([':', '@']).unwrap_or(name.len());
    matches!(&name[..end], "docker/dockerfile" | "docker/dockerfile-upstream")
}

/// The documents that a line names; `at` is moved behind them. Where one has no end, the line has none: to older
/// builders it is a line as any other.
fn heredocs<'a>(
    line: &str,
    escape: char,
    all: &[&'a str],
    ends: &mut Option<Ends<'a>>,
    at: &mut usize,
) -> Vec<Heredoc> {
    let word = line.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    if !matches!(word.as_str(), "RUN" | "COPY" | "ADD") || !line.contains("<<") {
        return Vec::new();
    }
    let (mut found, mut next) = (Vec::new(), *at);
    for word in split_words(line, escape) {
        let Some(doc) = opening(&word) else { continue };
        let ends = ends.get_or_insert_with(|| Ends::of(all));
        let Some(end) = ends.behind(next, &doc) else { return Vec::new() };
        found.push((doc, next..end));
        next = end + 1;
    }
    *at = next;
    let filled = found.into_iter().map(|(mut doc, lines)| {
        for line in &all[lines] {
            doc.content.push_str(if doc.chomp { line.trim_start_matches('\t') } else { line });
            doc.content.push('\n');
        }
        doc
    });
    filled.collect()
}

/// Where lines stand that may end documents, by what they say: no file is slow, whatever its documents are called.
struct Ends<'a> {
    plain: HashMap<&'a str, Vec<usize>>,
    /// Of lines that begin with tabs: without them.
    chomped: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Ends<'a> {
    fn of(all: &[&'a str]) -> Ends<'a> {
        let mut ends = Ends { plain: HashMap::new(), chomped: HashMap::new() };
        for (index, line) in all.iter().enumerate() {
            let line = line.trim_end_matches('\r');
            ends.plain.entry(line).or_default().push(index);
            if line.starts_with('\t') {
                ends.chomped.entry(line.trim_start_matches('\t')).or_default().push(index);
            }
        }
        ends
    }

    /// The line that ends a document which begins at line `from`.
    fn behind(&self, from: usize, doc: &Heredoc) -> Option<usize> {
        let first = |lines: &HashMap<&str, Vec<usize>>| {
            let lines = lines.get(doc.name.as_str())?;
            lines.get(lines.partition_point(|&line| line < from)).copied()
        };
        let chomped = first(&self.chomped).filter(|_| doc.chomp);
        [first(&self.plain), chomped].into_iter().flatten().min()
    }
}

/// `<<NAME`, `<<-NAME`, `3<<"NAME"`.
fn opening(word: &str) -> Option<Heredoc> {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix("<<")?;
    let (chomp, rest) = match rest.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let quoted = |q: char| rest.strip_prefix(q).and_then(|rest| rest.strip_suffix(q));
    let name = quoted('"').or(quoted('\'')).unwrap_or(rest);
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_name = !name.is_empty() && name.chars().all(plain);
    is_name.then(|| Heredoc { name: name.into(), content: String::new(), expand: name == rest, chomp })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<(usize, String)> {
        Source::read(text.as_bytes()).unwrap().lines.into_iter().map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn lines_know_where_they_begin() {
        let text = "\u{feff}# a comment\n\nFROM x\n  RUN a \\\n# inside\n  b \\  \n  c\nCMD d";
        let want = [(3, "FROM x".into()), (4, "RUN a   b   c".into()), (8, "CMD d".into())];
        assert_eq!(texts(text), want);
    }

    #[test]
    fn files_of_other_frontends_are_refused_by_name() {
        let read = |reader: &str| Source::read(format!("# syntax={reader}\nFROM x\n").as_bytes()).map(drop);
        for own in [
            "docker/dockerfile",
            "docker/dockerfile:1.7-labs",
            "docker.io/docker/dockerfile:1@sha256:0a",
            "docker/dockerfile-upstream:master",
        ] {
            read(own).unwrap();
        }
        for other in ["tonistiigi/dockerfile:1", "docker/dockerfiles", "lan:5000/docker/dockerfile:1"] {
            let error = read(other).unwrap_err();
            assert!(error.kind() == crate::ErrorKind::Unsupported && error.message().contains(other), "{error}");
        }
    }

    #[test]
    fn directives_stand_first_and_once() {
        let source = Source::read(b"# syntax=docker/dockerfile:1\n#Escape = `\nFROM x\nRUN a `\n b\\\n").unwrap();
        assert_eq!((source.escape, source.lines[1].text.as_str()), ('`', "RUN a  b\\"));
        assert_eq!(Source::read(b"# first\n# escape=`\nFROM x").unwrap().escape, '\\');
        let wrong = |text: &str| Source::read(text.as_bytes()).err().unwrap().message().to_owned();
        assert_eq!(wrong("# escape=x\nFROM y"), "invalid escape token 'x' does not match ` or \\");
        assert_eq!(wrong("# escape=`\n# escape=\\\nFROM y"), "only one escape parser directive can be used");
        assert_eq!(wrong("# nothing\n"), "file with no instructions");
    }

    #[test]
    fn blank_lines_in_a_continuation_are_warned_of() {
        let source = Source::read(b"FROM x\nRUN a \\\n\n b").unwrap();
        assert_eq!(source.lines[1].text, "RUN a  b");
        assert_eq!(source.warnings.len(), 2);
    }

    #[test]
    fn heredocs_follow_their_line() {
        let text = "FROM x\nRUN <<EOF cat <<-\"E2\"\na $b\nEOF\n\tc\n\tE2\nCMD d\nRUN echo <<none\nRUN x";
        let lines = Source::read(text.as_bytes()).unwrap().lines;
        assert_eq!(lines.len(), 5);
        let docs = &lines[1].heredocs;
        assert_eq!((docs[0].content.as_str(), docs[0].expand), ("a $b\n", true));
        assert_eq!((docs[1].content.as_str(), docs[1].expand), ("c\n", false));
        assert_eq!(lines[2].number, 7);
        assert!(lines[3].heredocs.is_empty());
    }
}
