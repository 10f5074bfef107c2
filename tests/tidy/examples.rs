//! Public types of the library have an example in their documentation.

use crate::sources;

/// Files whose types no program is meant to name: `#[doc(hidden)]` modules.
const HIDDEN: &[&str] = &["src/bundle/", "src/fuzz.rs"];

/// The public types of a file that have no example: lines and names.
fn without_example(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let types = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(rest) = types.iter().find_map(|word| line.strip_prefix(word)) else { continue };
        let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        // Attributes of several lines are indented, or end with `)]`.
        let above = lines[..at].iter().rev();
        let above = above.take_while(|line| line.starts_with(['/', '#', ' ']) || line.starts_with(")]"));
        if !above.into_iter().any(|line| line.starts_with("/// ```")) {
            found.push((at + 1, name.to_owned()));
        }
    }
    found
}

#[test]
fn public_types_have_an_example() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for source in sources("src") {
        let file = source.path.display().to_string();
        if HIDDEN.iter().any(|hidden| file.starts_with(hidden)) {
            continue;
        }
        seen += source.text.matches("\n/// ```\n").count();
        wrong.extend(without_example(&source.text).into_iter().map(|(line, name)| format!("{file}:{line}: {name}")));
    }
    assert!(seen > 150, "{seen} examples are not all");
    assert!(wrong.is_empty(), "public types without an example:\n{}", wrong.join("\n"));
}

#[test]
fn types_without_examples_are_seen() {
    let bare = "/// A clock.\n#[derive(Debug)]\n#[serde(\n    default,\n)]\npub struct Clock {\n}\n";
    assert_eq!(without_example(bare), [(6, "Clock".to_owned())]);
    let shown = "/// A clock.\n///\n/// ```\n/// tick();\n/// ```\n#[derive(Debug)]\npub struct Clock;\n";
    assert_eq!(without_example(shown), []);
    assert_eq!(without_example("}\n\npub(crate) struct Inner;\n"), []);
    let after = "/// ```\n/// ```\npub struct A;\n\npub type B<'a> = u8;\n";
    assert_eq!(without_example(after), [(5, "B".to_owned())]);
}
