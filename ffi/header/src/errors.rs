//! The errors that the comments of functions list.

use crate::items::Item;
use std::collections::BTreeSet;

/// The codes that a function's comment lists, those of the functions that it refers to ("as coracle_x") among them.
pub fn listed(function: &Item, items: &[Item]) -> BTreeSet<String> {
    let known = |word: &str| items.iter().any(|item| item.name == format!("CORACLE_{word}"));
    let find = |name: &str| items.iter().find(|item| item.name == name && item.name != function.name);
    let mut codes = BTreeSet::new();
    for text in function.paragraphs().iter().filter_map(|text| text.strip_prefix("Errors: ")) {
        let mut refers = false;
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()) {
            match word {
                "as" => refers = true,
                _ if word.starts_with('E') && known(word) => drop(codes.insert(word.to_owned())),
                _ if refers && word.starts_with("coracle_") => {
                    codes.extend(find(word).map(|other| listed(other, items)).unwrap_or_default());
                }
                _ => refers = refers && word == "and",
            }
        }
    }
    codes
}

/// A line for each function that does not list its errors: those that have an error argument, and, if they take an
/// operation, its two.
pub fn unlisted(functions: &[&Item], items: &[Item]) -> Vec<String> {
    let mut lines = Vec::new();
    for function in functions {
        let arguments = function.arguments();
        let codes = listed(function, items);
        if arguments.iter().any(|(name, _)| name == "err")
            && !function.paragraphs().iter().any(|t| t.starts_with("Errors: "))
        {
            lines.push(format!("{}: its comment has no \"Errors: \"", function.name));
        }
        let takes_op = arguments.iter().skip(1).any(|(_, kind)| kind == "coracle_op *");
        for code in ["ECANCELLED", "ETIMEOUT"].iter().filter(|code| takes_op && !codes.contains(**code)) {
            lines.push(format!("{}: takes an operation, and does not list {code}", function.name));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_from_the_function_and_from_those_that_it_refers_to() {
        let item = |name: &str, text: &str, declared: &str| Item {
            name: name.into(),
            text: format!("/**\n * {text}\n */\n{declared}"),
        };
        let items = [
            item("CORACLE_EIO", "x", "#define CORACLE_EIO (-1)"),
            item("CORACLE_EINVALID", "x", "#define CORACLE_EINVALID (-2)"),
            item(
                "coracle_a",
                "Does.\n *\n * Errors: EIO with errno EPIPE (a reason).",
                "int coracle_a(int x, coracle_error **err);",
            ),
            item(
                "coracle_b",
                "Does.\n *\n * Errors: as coracle_a; EINVALID.",
                "int coracle_b(int x, coracle_op *op, coracle_error **err);",
            ),
            item("coracle_c", "Does.", "int coracle_c(int x, coracle_error **err);"),
        ];
        assert_eq!(listed(&items[2], &items), BTreeSet::from(["EIO".to_owned()]));
        assert_eq!(listed(&items[3], &items), BTreeSet::from(["EINVALID".to_owned(), "EIO".to_owned()]));
        let lines = unlisted(&items.iter().collect::<Vec<_>>()[2..], &items);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].contains("coracle_b") && lines[2].contains("coracle_c: its comment"), "{lines:?}");
    }
}
