//! The generated header, taken apart: the text before its items, the items, and the text after them.

use std::error::Error;

/// The line after which the items begin, of `after_includes` in `cbindgen.toml`.
const BEGIN: &str = "extern \"C\" {\n#endif\n";
/// The line before which the items end, of `trailer` there.
const END: &str = "#ifdef __cplusplus\n}\n#endif\n";

/// A header in three parts.
pub struct Header {
    /// The comment at the top, the includes, the beginning of `extern "C"`.
    pub before: String,
    /// Constants, types and functions, each with its comment.
    pub items: Vec<Item>,
    /// The end of `extern "C"` and of the header.
    pub after: String,
}

/// A constant, a type or a function.
pub struct Item {
    /// The name in C.
    pub name: String,
    /// The comment and the declaration, without empty lines around them.
    pub text: String,
}

impl Header {
    /// Takes a header apart. Every item begins with a comment `/**` at the beginning of a line.
    pub fn of(generated: &str) -> Result<Header, Box<dyn Error>> {
        let text = tidy(generated);
        let (before, rest) = text.split_once(BEGIN).ok_or("no beginning of extern \"C\"")?;
        let (middle, after) = rest.rsplit_once(END).ok_or("no end of extern \"C\"")?;
        let mut items = Vec::new();
        for piece in middle.split("\n/**").map(str::trim).filter(|piece| !piece.is_empty()) {
            items.push(Item::of(&format!("/**{}{piece}", if piece.starts_with('*') { "\n " } else { " " }))?);
        }
        Ok(Header { before: format!("{before}{BEGIN}"), items, after: format!("{END}{after}") })
    }
}

impl Item {
    fn of(text: &str) -> Result<Item, Box<dyn Error>> {
        let declared = text.split_once("*/\n").map(|(_, declared)| declared).unwrap_or_default();
        let name = name_of(declared).ok_or_else(|| format!("an item without a name or a comment:\n{text}"))?;
        Ok(Item { name: name.to_owned(), text: text.to_owned() })
    }

    /// Whether the item is a function, and no type of functions.
    pub fn is_function(&self) -> bool {
        let declared = self.declaration();
        declared.contains('(') && !declared.starts_with("typedef") && !declared.starts_with("#define")
    }

    /// The declaration.
    pub fn declaration(&self) -> &str {
        self.text.split_once("*/\n").map(|(_, declared)| declared).unwrap_or_default()
    }

    /// The comment before the declaration.
    pub fn comment(&self) -> &str {
        self.text.split_once("*/\n").map(|(comment, _)| comment).unwrap_or_default()
    }

    /// The paragraphs of the comment, each on one line.
    pub fn paragraphs(&self) -> Vec<String> {
        let text: Vec<&str> = self
            .comment()
            .lines()
            .map(|line| line.trim().trim_start_matches("/**").trim_end_matches("*/").trim_start_matches('*').trim())
            .collect();
        let joined = text.split(|line| line.is_empty()).map(|lines| lines.join(" "));
        joined.filter(|paragraph| !paragraph.is_empty()).collect()
    }

    /// The arguments of a function: the name and the type of each.
    pub fn arguments(&self) -> Vec<(String, String)> {
        let declared = self.declaration().split_whitespace().collect::<Vec<_>>().join(" ");
        let list = declared.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or("", |(list, _)| list);
        let split = |argument: &str| {
            let name = argument.rsplit([' ', '*']).next()?.to_owned();
            Some((name.clone(), argument.strip_suffix(&name)?.trim().to_owned()))
        };
        list.split(',').map(str::trim).filter(|argument| *argument != "void").filter_map(split).collect()
    }

    /// The type of the answer of a function.
    pub fn answer(&self) -> &str {
        self.declaration().split_once(&self.name).map_or("", |(answer, _)| answer.trim())
    }
}

/// The name that a declaration gives: after `#define`, in `(*name)`, before the list of arguments, or at the end.
fn name_of(declared: &str) -> Option<&str> {
    let name = if let Some(rest) = declared.strip_prefix("#define ") {
        rest.split([' ', '(']).next()?
    } else if let Some((_, rest)) = declared.split_once("(*") {
        rest.split_once(')')?.0
    } else {
        let before = match declared.split_once('(') {
            Some((before, _)) if !declared.starts_with("typedef") => before,
            _ => declared.trim_end().strip_suffix(';')?,
        };
        before.rsplit([' ', '*']).next()?
    };
    (name.starts_with("coracle") || name.starts_with("CORACLE_")).then_some(name)
}

/// One-line comments on one line, numbers below 0 in parentheses, at most one empty line.
fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut tidied: Vec<String> = Vec::new();
    let mut i = 0;
    while let Some(&line) = lines.get(i) {
        let indent = &line[..line.len() - line.trim_start().len()];
        let one = lines.get(i + 1).and_then(|l| l.trim_start().strip_prefix("* "));
        let closed = lines.get(i + 2).is_some_and(|l| l.trim() == "*/");
        i += 1;
        if line.trim() == "/**"
            && closed
            && let Some(one) = one
        {
            tidied.push(format!("{indent}/** {one} */"));
            i += 2;
        } else if let Some((define, number)) = line.split_once(" -7").filter(|_| line.starts_with("#define")) {
            tidied.push(format!("{define} (-7{number})"));
        } else if !line.is_empty() || tidied.last().is_some_and(|last| !last.is_empty()) {
            tidied.push(line.to_string());
        }
    }
    tidied.join("\n") + "\n"
}
