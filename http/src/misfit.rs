//! A value of a document that is not of the kind of its member: where it stands, and the two kinds in words of JSON.

use crate::json::{self, Node};
use crate::schema::{Document, Shape, table_of};

/// The first value of `text` that is not of its member's kind: the path of the member, and what is wrong:
/// `must be a whole number, not the string "lots"`.
pub fn misfit(text: &[u8], document: Document) -> Option<(String, String)> {
    let mut path = String::new();
    let words = find(json::parse(text).ok()?, &Shape::Struct(table_of(document)), &mut path)?;
    Some((path, words))
}

/// Looks into a value; leaves the path of the member in `path`.
fn find(node: Node, shape: &Shape, path: &mut String) -> Option<String> {
    match (shape, node) {
        (Shape::Struct(table), Node::Object(members)) => members.into_iter().find_map(|(name, value)| {
            let (_, shape) = table.parts.iter().flat_map(|part| part.iter()).find(|(known, _)| *known == name)?;
            within(path, &format!(".{name}"), |path| find(value, shape, path))
        }),
        (Shape::Map(of) | Shape::Ports(of), Node::Object(members)) => members
            .into_iter()
            .find_map(|(name, value)| within(path, &format!(".{name}"), |path| find(value, of, path))),
        (Shape::List(of), Node::List(items)) => {
            (0..).zip(items).find_map(|(n, item)| within(path, &format!("[{n}]"), |path| find(item, of, path)))
        }
        (_, node) if fits(shape, &node) => None,
        (_, node) => Some(format!("must be {}, not {}", wanted(shape), given(&node))),
    }
}

/// Looks further with a longer path; the path stays so where something was found.
fn within(path: &mut String, part: &str, look: impl FnOnce(&mut String) -> Option<String>) -> Option<String> {
    let before = path.len();
    path.push_str(if path.is_empty() { part.trim_start_matches('.') } else { part });
    let found = look(path);
    if found.is_none() {
        path.truncate(before);
    }
    found
}

fn fits(shape: &Shape, node: &Node) -> bool {
    match (shape, node) {
        (_, Node::Null) | (Shape::Refused | Shape::Taken, _) => true,
        (Shape::Text | Shape::Named(_) | Shape::Only(_), node) => matches!(node, Node::Text(_)),
        (Shape::TextOrNumber, node) => matches!(node, Node::Text(_) | Node::Number(_)),
        (Shape::Flag | Shape::True, node) => matches!(node, Node::Bool(_)),
        (Shape::Int(_, least, most), Node::Number(number)) => {
            number.parse::<i128>().is_ok_and(|number| (*least..=*most).contains(&number))
        }
        (Shape::Int(..), _) => false,
        (Shape::Words, node) => matches!(node, Node::Text(_) | Node::List(_)),
        (Shape::List(_), node) => matches!(node, Node::List(_)),
        (Shape::Unit | Shape::Map(_) | Shape::Ports(_) | Shape::Struct(_) | Shape::Pairs, node) => {
            matches!(node, Node::Object(_) | Node::Large(_))
        }
    }
}

fn wanted(shape: &Shape) -> String {
    match shape {
        Shape::Text | Shape::Named(_) | Shape::Only(_) => "a string".into(),
        Shape::TextOrNumber => "a string or a number".into(),
        Shape::Flag | Shape::True => "true or false".into(),
        Shape::Int(_, least, most) if *least < 0 && *most >= i128::from(i64::MAX) => "a whole number".into(),
        Shape::Int(_, least, most) => format!("a whole number from {least} to {most}"),
        Shape::Words => "a string or a list of strings".into(),
        Shape::List(_) => "a list".into(),
        _ => "an object".into(),
    }
}

fn given(node: &Node) -> String {
    match node {
        Node::Null => "null".into(),
        Node::Bool(value) => value.to_string(),
        Node::Number(number) => format!("the number {number}"),
        Node::Text(text) => format!("the string {text:?}"),
        Node::List(_) => "a list".into(),
        Node::Object(_) | Node::Large(_) => "an object".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_another_kind_is_found_with_its_path() {
        let found =
            |text: &str| misfit(text.as_bytes(), Document::Create).map(|(path, words)| format!("{path} {words}"));
        for (text, wanted) in [
            (
                r#"{"HostConfig":{"Memory":"lots"}}"#,
                r#"HostConfig.Memory must be a whole number, not the string "lots""#,
            ),
            (r#"{"HostConfig":{"Memory":1.5}}"#, "HostConfig.Memory must be a whole number, not the number 1.5"),
            (
                r#"{"HostConfig":{"BlkioWeight":70000}}"#,
                "HostConfig.BlkioWeight must be a whole number from 0 to 65535, not the number 70000",
            ),
            (
                r#"{"Env":null,"HostConfig":{"Binds":["a:b",7]}}"#,
                "HostConfig.Binds[1] must be a string, not the number 7",
            ),
            (r#"{"Tty":"yes"}"#, r#"Tty must be true or false, not the string "yes""#),
            (r#"{"Labels":{"a":{}}}"#, "Labels.a must be a string, not an object"),
            (
                r#"{"HostConfig":{"Mounts":[{},{"TmpfsOptions":{"Mode":true}}]}}"#,
                "HostConfig.Mounts[1].TmpfsOptions.Mode must be a whole number from 0 to 4294967295, not true",
            ),
            ("[]", " must be an object, not a list"),
        ] {
            assert_eq!(found(text).as_deref(), Some(wanted), "{text}");
        }
        for good in ["{}", r#"{"Tty":null,"Unknown":7,"StopSignal":9,"Cmd":"x","HostConfig":{"Memory":5}}"#, "{"] {
            assert_eq!(found(good), None, "{good}");
        }
    }
}
