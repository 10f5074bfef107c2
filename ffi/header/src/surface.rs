//! The surface of the C interface as a list: every constant, type and function with its declaration, a line each, every function
//! with the version of its symbol, and every struct with its size and the places of its members. The list of the last release is
//! the baseline (`tests/abi/baseline`): a change since then must stand in CHANGELOG.md.

use crate::items::Item;
use std::collections::BTreeMap;

/// The version node of the functions' symbols.
pub const NODE: &str = "CORACLE_1.0";

/// The items' declarations, each on one line, by name; layouts and symbols by the name and what they are of it.
pub fn surface(items: &[Item]) -> BTreeMap<String, String> {
    let mut surface = BTreeMap::new();
    for item in items {
        let declaration = line(item.declaration());
        if item.is_function() {
            surface.insert(format!("{} symbol", item.name), format!("{}@@{NODE}", item.name));
        }
        if let Some(layout) = Layout::of(&declaration) {
            surface.insert(format!("{} layout", item.name), layout.to_string());
        }
        surface.insert(item.name.clone(), declaration);
    }
    surface
}

/// A struct on a machine of 64 bits.
pub struct Layout {
    size: usize,
    /// The name and the place of each member.
    members: Vec<(String, usize)>,
}

impl Layout {
    /// The layout of a declaration on one line; `None`: it is of no struct with members.
    pub fn of(declaration: &str) -> Option<Layout> {
        let (members, _) = declaration.strip_prefix("typedef struct { ")?.rsplit_once('}')?;
        let (mut layout, mut widest) = (Layout { size: 0, members: Vec::new() }, 1);
        for member in members.split(';').map(str::trim).filter(|member| !member.is_empty()) {
            let name = member.rsplit([' ', '*']).next()?;
            let width = width(member.strip_suffix(name)?.trim())?;
            let place = layout.size.next_multiple_of(width);
            layout.members.push((name.to_owned(), place));
            layout.size = place + width;
            widest = widest.max(width);
        }
        layout.size = layout.size.next_multiple_of(widest);
        Some(layout)
    }

    /// Assertions about the layout, for a compiler of C.
    pub fn facts(&self, name: &str) -> String {
        let place = |(member, place): &(String, usize)| {
            format!("_Static_assert(offsetof({name}, {member}) == {place}, \"{name}.{member}\");\n")
        };
        let members: String = self.members.iter().map(place).collect();
        format!("_Static_assert(sizeof({name}) == {}, \"{name}\");\n{members}", self.size)
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "size {}", self.size)?;
        self.members.iter().try_for_each(|(name, place)| write!(f, ", {name} at {place}"))
    }
}

/// How wide a type is, which is also how it is aligned.
fn width(kind: &str) -> Option<usize> {
    match kind {
        "size_t" | "int64_t" | "uint64_t" => Some(8),
        "int32_t" | "uint32_t" | "coracle_status" => Some(4),
        "int16_t" | "uint16_t" => Some(2),
        _ => kind.ends_with('*').then_some(8),
    }
}

/// A program in C that a compiler takes only if the structs of the header have their layouts.
pub fn layouts(items: &[Item]) -> String {
    let facts: String = items
        .iter()
        .filter_map(|item| Layout::of(&line(item.declaration())).map(|layout| layout.facts(&item.name)))
        .collect();
    format!("#include \"coracle.h\"\n#include <stddef.h>\n{facts}")
}

/// The list as a text.
pub fn text(surface: &BTreeMap<String, String>) -> String {
    surface.iter().map(|(name, declaration)| format!("{name}: {declaration}\n")).collect()
}

/// A line for each name that is other than in the baseline, and that the change log does not mention.
pub fn unmentioned(surface: &BTreeMap<String, String>, baseline: &str, changes: &str) -> Vec<String> {
    let before: BTreeMap<&str, &str> = baseline.lines().filter_map(|line| line.split_once(": ")).collect();
    let mentioned = |name: &str| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        changes.split(|c: char| !is_part(c)).any(|word| word == name)
    };
    let gone = before.keys().filter(|name| !surface.contains_key(**name)).map(|name| (*name, "is gone"));
    let other = surface.iter().filter_map(|(name, declaration)| match before.get(name.as_str()) {
        None => Some((name.as_str(), "is new")),
        Some(declared) if declared != declaration => Some((name.as_str(), "has another declaration")),
        Some(_) => None,
    });
    let item = |name: &str| name.split(' ').next().unwrap_or_default().to_owned();
    let silent = gone.chain(other).filter(|(name, _)| !mentioned(&item(name)));
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
            item("coracle_b", "typedef struct {\n  /** A member. */\n  int32_t x;\n  const char *y;\n} coracle_b;"),
        ];
        let now = surface(&items);
        assert_eq!(
            text(&now),
            "coracle_a: int coracle_a(int x, int y);\ncoracle_a symbol: coracle_a@@CORACLE_1.0\n\
             coracle_b: typedef struct { int32_t x; const char *y; } coracle_b;\n\
             coracle_b layout: size 16, x at 0, y at 8\n"
        );
        assert!(layouts(&items).contains("_Static_assert(offsetof(coracle_b, y) == 8, \"coracle_b.y\");"));
        assert!(unmentioned(&now, &text(&now), "").is_empty());
        let before = "coracle_a: int coracle_a(int x);\ncoracle_a symbol: coracle_a@@CORACLE_1.0\n\
                      coracle_gone: void coracle_gone(void);\ncoracle_b layout: size 8, x at 0\n";
        let silent = unmentioned(&now, before, "`coracle_b` and coracle_a_b");
        assert_eq!(silent.len(), 2, "{silent:?}");
        assert!(silent[0].starts_with("coracle_gone is gone") && silent[1].starts_with("coracle_a has another"));
        assert!(unmentioned(&now, before, "coracle_a coracle_gone")[1].starts_with("coracle_b layout has another"));
        assert!(unmentioned(&now, before, "coracle_a, coracle_b; coracle_gone").is_empty());
    }
}
