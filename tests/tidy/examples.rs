//! Public types of the library and of its HTTP interface have an example in their documentation.

use crate::sources;

/// Files whose types no program is meant to name: `#[doc(hidden)]` modules.
const HIDDEN: &[&str] = &["src/bundle/", "src/fuzz.rs", "http/src/fuzz.rs"];

/// Types without an example: the file, the name, and the reason.
const EXCUSED: &[(&str, &str, &str)] = &[("http/src/server/mod.rs", "Tls", "a build without TLS has no value of it")];

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
    let mut excuses: Vec<_> = EXCUSED.iter().map(|(file, name, _)| (file.to_string(), name.to_string())).collect();
    for source in sources("src").into_iter().chain(sources("http/src")) {
        let file = source.path.display().to_string();
        if HIDDEN.iter().any(|hidden| file.starts_with(hidden)) {
            continue;
        }
        seen += source.text.matches("\n/// ```\n").count();
        for (line, name) in without_example(&source.text) {
            match excuses.iter().position(|excuse| *excuse == (file.clone(), name.clone())) {
                Some(at) => drop(excuses.swap_remove(at)),
                None => wrong.push(format!("{file}:{line}: {name}")),
            }
        }
    }
    assert!(excuses.is_empty(), "excuses that are not needed: {excuses:?}");
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
