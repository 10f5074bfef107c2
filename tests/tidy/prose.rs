//! Sentences of comments and pages: a subject, a verb, an object, and a noun for each pronoun. No sentence of the project
//! has one of the shapes that lack them. A message is often a part of a sentence: of the shapes, two are looked for there.

use crate::project;
use std::path::{Path, PathBuf};

/// A sentence's shape that makes a reader look for a noun that is not there, with its name.
type Shape = (&'static str, fn(&Sentence) -> bool);

const SHAPES: &[Shape] = &[
    ("begins with What or Who and is no question", headless),
    ("begins with \"The same\"", |s| begins(s, &["The same"])),
    ("begins with a pronoun whose noun is not before it", |s| {
        s.first && begins(s, &["It", "Its", "They", "Their", "Them", "Those", "He", "His", "Such"])
    }),
    ("\"of before\", \"of who\" or \"of what\"", is_of_what),
    ("\"is no\" in place of \"is not a\"", is_no),
    ("\"who\" without the person", bare_who),
];

/// A sentence, or a part of one up to a colon or a semicolon.
struct Sentence<'a> {
    text: &'a str,
    /// The first one of its comment, paragraph or list entry.
    first: bool,
}

fn begins(sentence: &Sentence, heads: &[&str]) -> bool {
    let is_whole = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '\'' || c == '`');
    heads.iter().any(|head| sentence.text.strip_prefix(head).is_some_and(is_whole))
}

fn holds(sentence: &Sentence, phrases: &[&str]) -> bool {
    let text = format!(" {} ", words(sentence.text).join(" "));
    phrases.iter().any(|phrase| text.contains(&format!(" {phrase} ")))
}

fn is_of_what(sentence: &Sentence) -> bool {
    holds(sentence, &["of before", "of then", "of who", "of whom", "of what"])
}

fn headless(sentence: &Sentence) -> bool {
    begins(sentence, &["What", "Who", "Whoever", "Whom"]) && !sentence.text.ends_with('?')
}

fn is_no(sentence: &Sentence) -> bool {
    let words = words(sentence.text);
    words.windows(3).any(|three| {
        let [before, verb, no] = three else { return false };
        ["is", "are", "was", "were", "be", "been"].contains(verb)
            && ["no", "none", "nobody"].contains(no)
            && !before.eq_ignore_ascii_case("there")
    }) && !["no longer", "no more", "no less", "no later"].iter().any(|phrase| sentence.text.contains(phrase))
}

/// Words behind which "who" has no person to refer to.
const NO_PERSON: &[&str] = &[
    "by", "of", "for", "to", "from", "with", "and", "or", "that", "but", "when", "if", "where", "than", "as", "is",
    "are", "was", "tells", "at", "on",
];

fn bare_who(sentence: &Sentence) -> bool {
    let words = words(sentence.text);
    let after = |pair: &[&str]| NO_PERSON.contains(&pair[0]) && ["who", "whoever"].contains(&pair[1]);
    words.windows(2).any(after) || words.first().is_some_and(|word| ["who", "whoever"].contains(word))
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().map(|word| word.trim_matches(|c: char| ".,;:()!?\"".contains(c))).collect()
}

/// A comment, paragraph, list entry or cell of a table, and its line.
struct Passage {
    line: usize,
    text: String,
}

/// The sentences of a passage that have one of the shapes.
fn stumbles(passage: &Passage) -> Vec<String> {
    let marked = [". ", ": ", "; ", "? ", "! "]
        .iter()
        .fold(passage.text.clone(), |text, end| text.replace(end, &format!("{}\n", end.trim_end())));
    let sentences = marked.lines().enumerate().map(|(at, text)| Sentence { text, first: at == 0 });
    let wrong = sentences.filter_map(|s| SHAPES.iter().find(|(_, is)| is(&s)).map(|(name, _)| (name, s)));
    wrong.map(|(name, sentence)| format!("{name}: {}", sentence.text)).collect()
}

/// Joins lines into passages: an empty line or the mark of a list entry begins another one.
#[derive(Default)]
struct Passages {
    done: Vec<Passage>,
    open: bool,
    fence: bool,
}

impl Passages {
    fn push(&mut self, line: usize, text: &str) {
        let text = text.trim();
        if text.starts_with("```") {
            self.fence = !self.fence;
        }
        if self.fence || text.is_empty() || text.starts_with(['#', '`']) && text.starts_with("```") {
            self.open = false;
            return;
        }
        let entry = text.strip_prefix("- ").or(text.strip_prefix("* "));
        match (entry, self.done.last_mut()) {
            (None, Some(last)) if self.open => last.text.extend([" ", text]),
            _ => self.done.push(Passage { line, text: entry.unwrap_or(text).to_owned() }),
        }
        self.open = true;
    }

    /// The next line belongs to another passage.
    fn end(&mut self) {
        self.open = false;
    }
}

/// The comments of a file of code.
fn comments(text: &str, marks: &[&str]) -> Vec<Passage> {
    let mut passages = Passages::default();
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        let code = line.trim_start();
        match marks.iter().find_map(|mark| code.strip_prefix(mark)) {
            Some(rest) => passages.push(number, rest.trim_start_matches(['/', '!', '*']).trim_end_matches("*/")),
            None => {
                passages.end();
                passages.fence = false;
                let behind = marks.iter().find_map(|mark| line.split_once(&format!(" {mark} ")));
                if let Some((_, rest)) = behind.filter(|(code, _)| code.matches('"').count() % 2 == 0) {
                    passages.push(number, rest.trim_end_matches("*/"));
                    passages.end();
                }
            }
        }
    }
    passages.done
}

/// The paragraphs, list entries and cells of a page.
fn paragraphs(text: &str) -> Vec<Passage> {
    let mut passages = Passages::default();
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        if line.starts_with('#') {
            passages.end();
        } else if line.starts_with('|') {
            for cell in line.split(" | ") {
                passages.end();
                passages.push(number, cell.trim_matches(['|', ' ']));
            }
            passages.end();
        } else {
            passages.push(number, line);
        }
    }
    passages.done
}

fn passages(path: &Path, text: &str) -> Vec<Passage> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs" | "js" | "go" | "java" | "cs") => comments(text, &["//"]),
        Some("c" | "h") => comments(text, &["//", "/*", "*"]),
        Some("md") => paragraphs(text),
        Some("py" | "sh") => comments(text, &["#"]),
        None if text.starts_with("#!") => comments(text, &["#"]),
        _ => Vec::new(),
    }
}

/// Every text file of the project.
fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("list a directory of the project").flatten() {
        let (path, name) = (entry.path(), entry.file_name().display().to_string());
        match path.is_dir() {
            true if name.starts_with('.') || ["target", "corpus", "grown", "node_modules"].contains(&&*name) => {}
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// The sentences of the project that have one of the shapes, each with its file, line and shape, and the number of all
/// passages.
pub(crate) fn all_stumbles() -> (Vec<String>, usize) {
    let mut paths = Vec::new();
    files(project(), &mut paths);
    paths.sort();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in paths {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let path = path.strip_prefix(project()).expect("below the project");
        for passage in passages(path, &text) {
            seen += 1;
            let of = stumbles(&passage).into_iter();
            wrong.extend(of.map(|wrong| format!("{}:{}: {wrong}", path.display(), passage.line)));
        }
    }
    (wrong, seen)
}

#[test]
fn sentences_have_a_subject() {
    let (wrong, seen) = all_stumbles();
    assert!(seen > 10_000, "only {seen} passages were found");
    assert!(wrong.is_empty(), "{} sentences:\n{}", wrong.len(), wrong.join("\n"));
}

/// The texts in quotes of a line of code that are sentences, or parts of some.
fn texts(line: &str) -> impl Iterator<Item = &str> {
    let code = if line.trim_start().starts_with("//") { "" } else { line };
    code.split('"').skip(1).step_by(2).filter(|text| text.split(' ').count() > 2)
}

/// The two shapes that are wrong in a part of a sentence, too: those of `is_no` and of `is_of_what`. The others need the whole
/// sentence.
#[test]
fn messages_have_their_nouns() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for source in
        ["src", "ship/src", "http/src", "ffi/src", "cli/src", "monitor"].iter().flat_map(|dir| crate::sources(dir))
    {
        let path = source.path.to_string_lossy();
        for (number, line) in source.lines() {
            for text in texts(line) {
                seen += 1;
                let text = Sentence { text, first: false };
                if is_no(&text) || is_of_what(&text) {
                    wrong.push(format!("{path}:{number}: {}", text.text));
                }
            }
        }
    }

    assert!(wrong.is_empty(), "{} messages:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 2000, "only {seen} messages were found");
}

#[test]
fn the_shapes_are_seen() {
    let seen = |text: &str| stumbles(&Passage { line: 1, text: text.to_owned() }).len();
    for text in [
        "What a container had.",
        "Whoever asks gets it.",
        "The same for volumes.",
        "It runs.",
        "The path of before.",
        "A name that is no expression is compared.",
        "Removed by who works on it.",
        "A path: who asks gets it.",
    ] {
        assert_eq!(seen(text), 1, "{text}");
    }
    for text in
        ["What is a container?", "There is no container.", "The user who asks gets it.", "A thing is no longer."]
    {
        assert_eq!(seen(text), 0, "{text}");
    }
}
