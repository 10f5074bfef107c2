//! The doors of build files: see `crate::fuzz`.

use super::{Budget, Expander, Patterns, Source, glob, parse_one, parse_stages};

/// A build file: its lines, its instructions, and every line as a word with variables.
pub(crate) fn build_file(data: &[u8]) {
    let Ok(source) = Source::read(data) else { return };
    let lines = data.iter().filter(|byte| **byte == b'\n').count() + 1;
    assert!(source.lines.iter().all(|line| (1..=lines).contains(&line.number)));
    if let Ok((before, stages)) = parse_stages(&source) {
        let steps = before.len() + stages.iter().map(|stage| stage.steps.len() + 1).sum::<usize>();
        assert_eq!(steps, source.lines.len(), "a step a line");
    }
    let look_up = |name: &str| name.len().is_multiple_of(2).then(|| format!("a {name} \"b\" 'c"));
    for line in source.lines.iter().take(50) {
        let _ = parse_one(&line.text);
        let expander = Expander { escape: source.escape, look_up: &look_up, budget: &Budget::new() };
        let (word, words) = (expander.word(&line.text), expander.words(&line.text));
        assert_eq!(word.is_ok(), words.is_ok());
    }
}

/// An ignore file, and as its last line a path.
pub(crate) fn ignore_file(data: &[u8]) {
    let (file, path) = data.split_at(data.iter().rposition(|byte| *byte == b'\n').unwrap_or(data.len()));
    let path = String::from_utf8_lossy(path).trim().to_owned();
    if let Ok(patterns) = Patterns::read(file) {
        let ignored = patterns.ignores(&path);
        assert!(!ignored || patterns.ignores(&format!("{path}/below")) || patterns.has_exceptions());
    }
    for pattern in String::from_utf8_lossy(file).lines().take(50) {
        let _ = glob(pattern, &path);
    }
}
