//! The surface of the C interface as a list: every constant, type and function with its declaration, a line each. The list
//! of the last release is the baseline (`tests/abi/baseline`): a change since then must stand in CHANGELOG.md.

use crate::items::Item;
use std::collections::BTreeMap;

/// The items' declarations, each on one line, by name.
pub fn surface(items: &[Item]) -> BTreeMap<&str, String> {
    items.iter().map(|item| (item.name.as_str(), line(item.declaration()))).collect()
}

/// The list as a text.
pub fn text(surface: &BTreeMap<&str, String>) -> String {
    surface.iter().map(|(name, declaration)| format!("{name}: {declaration}\n")).collect()
}

/// A line for each name that is other than in the baseline, and that the change log does not mention.
pub fn unmentioned(surface: &BTreeMap<&str, String>, baseline: &str, changes: &str) -> Vec<String> {
    let before: BTreeMap<&str, &str> = baseline.lines().filter_map(|line| line.split_once(": ")).collect();
    let mentioned = |name: &str| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        changes.split(|c: char| !is_part(c)).any(|word| word == name)
    };
    let gone = before.keys().filter(|name| !surface.contains_key(*name)).map(|name| (*name, "is gone"));
    let other = surface.iter().filter_map(|(name, declaration)| match before.get(name) {
        None => Some((*name, "is new")),
        Some(declared) if declared != declaration => Some((*name, "has another declaration")),
        Some(_) => None,
    });
    let silent = gone.chain(other).filter(|(name, _)| !mentioned(name));
    silent.map(|(name, what)| format!("{name} {what}: CHANGELOG.md does not mention it")).collect()
}

/// A declaration without comments and line breaks.
fn line(declaration: &str) -> String {
    let mut text = String::new();
    let mut rest = declaration;
    while let Some((before, after)) = rest.split_once("/*") {
        text += before;
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    text += rest;
    text.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_must_be_mentioned() {
        let item = |name: &str, text: &str| Item { name: name.into(), text: format!("/** A comment. */\n{text}") };
        let items = [
            item("coracle_a", "int coracle_a(int x,\n              int y);"),
            item("coracle_b", "typedef struct {\n  /** A member. */\n  int x;\n} coracle_b;"),
        ];
        let now = surface(&items);
        assert_eq!(
            text(&now),
            "coracle_a: int coracle_a(int x, int y);\ncoracle_b: typedef struct { int x; } coracle_b;\n"
        );
        assert!(unmentioned(&now, &text(&now), "").is_empty());
        let before = "coracle_a: int coracle_a(int x);\ncoracle_gone: void coracle_gone(void);\n";
        let silent = unmentioned(&now, before, "`coracle_b` and coracle_a_b");
        assert_eq!(silent.len(), 2, "{silent:?}");
        assert!(silent[0].starts_with("coracle_gone is gone") && silent[1].starts_with("coracle_a has another"));
        assert!(unmentioned(&now, before, "coracle_a, coracle_b; coracle_gone").is_empty());
    }
}
