//! A template's text cut into literal pieces and actions, and an action cut into words.

use super::Mistake;

/// A piece of a template.
pub enum Piece {
    /// Printed as it stands.
    Text(String),
    /// The words between `{{` and `}}`, and the offset of the first one.
    Action(usize, Vec<Token>),
}

/// A word of an action, and its offset in the template.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// The offset.
    pub at: usize,
    /// The word.
    pub word: Word,
    /// Whether white space is before the word: `.a .b` are two values, `.a.b` is one.
    pub apart: bool,
}

/// The kinds of words.
#[derive(Debug, Clone, PartialEq)]
pub enum Word {
    /// A name: a keyword or a function.
    Name(String),
    /// `.Name`
    Field(String),
    /// `.` alone
    Dot,
    /// `$name`, or `$`: an empty name.
    Variable(String),
    /// A quoted text.
    Text(String),
    /// A number as it is written, or the code of a quoted character.
    Number(String),
    /// One of `| ( ) , := =`
    Sign(&'static str),
}

/// Cuts a template.
pub fn cut(source: &str) -> Result<Vec<Piece>, Mistake> {
    let mut pieces = Vec::new();
    let (mut at, mut trims) = (0, false);
    while let Some(found) = source[at..].find("{{") {
        let begin = at + found;
        let inside = begin + 2;
        let trims_before = source[inside..].strip_prefix('-').is_some_and(begins_with_space);
        push_text(&mut pieces, &source[at..begin], trims, trims_before);
        let start = if trims_before { inside + 1 } else { inside };
        let (tokens, end) = match comment(source, start, begin)? {
            Some(end) => (None, end),
            None => {
                let (tokens, end) = words(source, start, begin)?;
                (Some(tokens), end)
            }
        };
        if let Some(tokens) = tokens {
            let first = tokens.first().map_or(begin, |token| token.at);
            pieces.push(Piece::Action(first, tokens));
        }
        trims = source[..end].ends_with("-}}");
        at = end;
    }
    push_text(&mut pieces, &source[at..], trims, false);
    Ok(pieces)
}

fn push_text(pieces: &mut Vec<Piece>, text: &str, trims_start: bool, trims_end: bool) {
    let text = if trims_start { text.trim_start_matches(is_space) } else { text };
    let text = if trims_end { text.trim_end_matches(is_space) } else { text };
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn begins_with_space(text: &str) -> bool {
    text.starts_with(is_space)
}

/// The end of the comment that an action is, behind its `}}`.
fn comment(source: &str, start: usize, begin: usize) -> Result<Option<usize>, Mistake> {
    let text = source[start..].trim_start_matches(is_space);
    if !text.starts_with("/*") {
        return Ok(None);
    }
    let from = source.len() - text.len();
    let Some(length) = text.find("*/") else { return Err(Mistake::new(begin, "a comment without its end */")) };
    let end = from + length + 2;
    match source[end..].strip_prefix("}}").or_else(|| closing(&source[end..])) {
        Some(rest) => Ok(Some(source.len() - rest.len())),
        None => Err(Mistake::new(end, "a comment stands alone between {{ and }}")),
    }
}

/// The text behind ` -}}`.
fn closing(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(is_space);
    (rest.len() < text.len()).then(|| rest.strip_prefix("-}}")).flatten()
}

/// The words of an action up to its `}}`, and the offset behind that.
fn words(source: &str, start: usize, begin: usize) -> Result<(Vec<Token>, usize), Mistake> {
    let mut tokens = Vec::new();
    let mut at = start;
    loop {
        let rest = &source[at..];
        let trimmed = rest.trim_start_matches(is_space);
        let apart = trimmed.len() < rest.len();
        if let Some(after) = trimmed.strip_prefix("}}").or_else(|| closing(rest)) {
            return Ok((tokens, source.len() - after.len()));
        }
        at = source.len() - trimmed.len();
        if trimmed.is_empty() {
            return Err(Mistake::new(begin, "{{ without }}"));
        }
        let (word, length) = word(trimmed).map_err(|text| Mistake::new(at, text))?;
        tokens.push(Token { at, word, apart });
        at += length;
    }
}

/// The first word of a text, and its length.
fn word(text: &str) -> Result<(Word, usize), String> {
    let name_of = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let first = text.chars().next().unwrap_or_default();
    let second = text[first.len_utf8()..].chars().next().unwrap_or_default();
    for sign in [":=", "|", "(", ")", ",", "="] {
        if text.starts_with(sign) {
            return Ok((Word::Sign(sign), sign.len()));
        }
    }
    match first {
        '.' if second.is_alphabetic() || second == '_' => {
            let length = 1 + name_of(&text[1..]);
            Ok((Word::Field(text[1..length].to_owned()), length))
        }
        '.' if !second.is_ascii_digit() => Ok((Word::Dot, 1)),
        '$' => {
            let length = 1 + name_of(&text[1..]);
            Ok((Word::Variable(text[1..length].to_owned()), length))
        }
        '"' => quoted(text),
        '`' => match text[1..].find('`') {
            Some(length) => Ok((Word::Text(text[1..=length].to_owned()), length + 2)),
            None => Err("a text without its closing quote".into()),
        },
        '\'' => character(text),
        c if c.is_ascii_digit() || (matches!(c, '+' | '-' | '.') && (second.is_ascii_digit() || second == '.')) => {
            let is_part = |(at, c): &(usize, char)| {
                c.is_ascii_alphanumeric() || matches!(c, '.' | '_') || (matches!(c, '+' | '-') && exponent(text, *at))
            };
            let length = text.char_indices().take_while(is_part).count();
            Ok((Word::Number(text[..length].to_owned()), length))
        }
        c if c.is_alphabetic() || c == '_' => {
            let length = name_of(text);
            Ok((Word::Name(text[..length].to_owned()), length))
        }
        c => Err(format!("unexpected {c:?}")),
    }
}

/// Whether a sign at `at` begins a number or its exponent.
fn exponent(text: &str, at: usize) -> bool {
    at == 0 || (matches!(text.as_bytes()[at - 1], b'e' | b'E') && !text.starts_with("0x"))
}

fn quoted(text: &str) -> Result<(Word, usize), String> {
    let mut result = String::new();
    let mut rest = &text[1..];
    loop {
        let Some(c) = rest.chars().next().filter(|c| *c != '\n') else {
            return Err("a text without its closing quote".into());
        };
        if c == '"' {
            return Ok((Word::Text(result), text.len() - rest.len() + 1));
        }
        let (c, length) = if c == '\\' { escape(rest)? } else { (c, c.len_utf8()) };
        result.push(c);
        rest = &rest[length..];
    }
}

/// A quoted character is the number of its code.
fn character(text: &str) -> Result<(Word, usize), String> {
    let first = text[1..].chars().next().unwrap_or_default();
    let (c, length) = if first == '\\' { escape(&text[1..])? } else { (first, first.len_utf8()) };
    match text.get(1 + length..).is_some_and(|rest| rest.starts_with('\'')) && first != '\'' {
        true => Ok((Word::Number(u32::from(c).to_string()), length + 2)),
        false => Err("a character without its closing quote".into()),
    }
}

/// The character that a backslash at the beginning stands for, and the length of both.
fn escape(text: &str) -> Result<(char, usize), String> {
    let code = |digits: usize, radix: u32, skip: usize| {
        let digits = text.get(skip..skip + digits)?;
        char::from_u32(u32::from_str_radix(digits, radix).ok()?)
    };
    let bad = || "a backslash before a character that it does not go with".to_owned();
    match text[1..].chars().next() {
        Some('n') => Ok(('\n', 2)),
        Some('t') => Ok(('\t', 2)),
        Some('r') => Ok(('\r', 2)),
        Some('a') => Ok(('\x07', 2)),
        Some('b') => Ok(('\x08', 2)),
        Some('f') => Ok(('\x0c', 2)),
        Some('v') => Ok(('\x0b', 2)),
        Some(c @ ('\\' | '"' | '\'')) => Ok((c, 2)),
        Some('x') => Ok((code(2, 16, 2).filter(char::is_ascii).ok_or_else(bad)?, 4)),
        Some('u') => Ok((code(4, 16, 2).ok_or_else(bad)?, 6)),
        Some('U') => Ok((code(8, 16, 2).ok_or_else(bad)?, 10)),
        Some('0'..='7') => Ok((code(3, 8, 1).filter(char::is_ascii).ok_or_else(bad)?, 4)),
        _ => Err(bad()),
    }
}
