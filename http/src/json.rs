//! JSON on the wire: a reader that keeps numbers as written and says what is wrong in the words that clients know, and
//! the writer of answers.

use crate::schema::Shape;
use coracle::walls::Wall;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::io;

mod typed;

/// A JSON value as it stood in the text, where most of it still lies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node<'t> {
    Null,
    Bool(bool),
    /// The number's own characters: nothing is rounded before its type is known.
    Number(Cow<'t, str>),
    Text(Cow<'t, str>),
    List(Vec<Node<'t>>),
    Object(Vec<Member<'t>>),
    /// An object of more than [`FEW`] members.
    Large(Members<'t>),
}

/// A name and its value.
pub(crate) type Member<'t> = (Cow<'t, str>, Node<'t>);

/// Members that are read one by one whenever they are needed: as values they would take a multiple of their text.
#[derive(Debug, Clone)]
pub(crate) struct Members<'t> {
    /// From brace to brace; what can be read.
    text: &'t [u8],
    /// The shape that each value was found to have.
    pub(crate) of: Option<&'static Shape>,
}

impl PartialEq for Members<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// So many members of an object are held as values.
const FEW: usize = 64;

impl<'t> Members<'t> {
    /// Each in turn, as it stands in the text.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Member<'t>> + use<'t> {
        let mut reader = Reader::new(self.text);
        reader.at = 1;
        std::iter::from_fn(move || {
            // These values were counted when the document was first read.
            (reader.held, reader.all) = (0, 0);
            reader.next_member(0).ok().flatten()
        })
    }
}

impl<'t> Node<'t> {
    /// The value's kind as errors name it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "bool",
            Node::Number(_) => "number",
            Node::Text(_) => "string",
            Node::List(_) => "array",
            Node::Object(_) | Node::Large(_) => "object",
        }
    }

    /// The value with all its members in memory.
    pub(crate) fn loaded(self) -> Node<'t> {
        match self {
            Node::Large(members) => Node::Object(members.iter().collect()),
            other => other,
        }
    }
}

/// Nesting that is accepted: far above every document of the API, far below the stack.
const MAX_DEPTH: usize = 128;

/// Values that are held of one document at once, and values that become a typed request: each takes much more than its text.
/// Neither counts ports: see [`MAX_PORT_VALUES`].
pub(crate) const MAX_VALUES: usize = 100_000;

/// Values of a create that exposes and binds every port: one of the exposed port, then a list, a binding and its two texts.
/// Read one by one ([`Members`]) and packed (`coracle::model::PortMap`), they take little memory.
const MAX_PORT_VALUES: usize = 5 * 65_535;

/// Values of one document, whatever becomes of them.
const MAX_ALL: usize = MAX_VALUES + MAX_PORT_VALUES;

/// The refusal of a document that has more values.
pub(crate) fn too_many(values: usize) -> String {
    format!("a document of more than {values} values")
}

/// Reads the first value of `text`; what follows it is ignored. The error is one line.
pub(crate) fn parse(text: &[u8]) -> Result<Node<'_>, String> {
    let mut reader = Reader::new(text);
    reader.space();
    if reader.at == text.len() {
        return Err("EOF".into());
    }
    reader.value(0)
}

/// How the markup of browsers is written in strings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Markup {
    AsIs,
    Escaped,
}

/// Writes strings as Go's encoder does. Escaped text goes straight into the answer: a document is in memory once.
struct Strings(Markup);

impl serde_json::ser::Formatter for Strings {
    fn write_string_fragment<W: ?Sized + std::io::Write>(&mut self, out: &mut W, text: &str) -> std::io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, from) = rest.split_at(at);
            out.write_all(plain.as_bytes())?;
            let mut chars = from.chars();
            match chars.next() {
                Some(one @ ('<' | '>' | '&')) if self.0 == Markup::AsIs => out.write_all(&[one as u8])?,
                Some(one) => write!(out, "\\u{:04x}", one as u32)?,
                None => {}
            }
            rest = chars.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

/// A document's bytes, one newline at the end. `<`, `>` and `&` stand as they are, as dockerd answers documents.
pub(crate) fn document(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = written(value, Markup::AsIs);
    bytes.push(b'\n');
    bytes
}

/// Bytes up to which a document is made whole before it goes out.
const SMALL: usize = 16 << 10;

/// A document's bytes as of [`document`], unless it is large.
pub(crate) fn small_document(value: &impl Serialize) -> Option<Vec<u8>> {
    let mut bytes = Small(Vec::with_capacity(1024));
    match write_document(&mut bytes, value) {
        Ok(()) => Some(bytes.0),
        Err(_) if bytes.0.len() >= SMALL => None,
        Err(error) => Some(unwritten(&error)),
    }
}

/// Up to [`SMALL`] bytes; more is an error.
struct Small(Vec<u8>);

impl io::Write for Small {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(SMALL - self.0.len());
        self.0.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the bytes of [`document`], in many small pieces.
pub(crate) fn write_document(mut out: impl io::Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Strings(Markup::AsIs)))?;
    out.write_all(b"\n")
}

/// One of a stream of documents: `<`, `>` and `&` escaped, as dockerd writes streams, one newline at the end.
pub(crate) fn line(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = text(value);
    bytes.push(b'\n');
    bytes
}

/// Writes a value as [`line`] does, without the newline.
pub(crate) fn text(value: &impl Serialize) -> Vec<u8> {
    written(value, Markup::Escaped)
}

fn written(value: &impl Serialize, markup: Markup) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    match value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Strings(markup))) {
        Ok(()) => bytes,
        Err(error) => unwritten(&error),
    }
}

fn unwritten(error: &impl std::fmt::Display) -> Vec<u8> {
    let message = format!("the answer does not serialise: {error}");
    serde_json::json!({ "message": message }).to_string().into_bytes()
}

/// The value as serde takes it. Numbers were checked against their field's type before; others become null.
pub(crate) fn to_value(node: &Node<'_>) -> Value {
    match node {
        Node::Null => Value::Null,
        Node::Bool(b) => Value::Bool(*b),
        Node::Number(n) => serde_json::from_str(n).unwrap_or(Value::Null),
        Node::Text(t) => Value::String(t.clone().into_owned()),
        Node::List(items) => Value::Array(items.iter().map(to_value).collect()),
        Node::Object(fields) => {
            Value::Object(fields.iter().map(|(k, v)| (k.clone().into_owned(), to_value(v))).collect())
        }
        Node::Large(members) => Value::Object(members.iter().map(|(k, v)| (k.into_owned(), to_value(&v))).collect()),
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// How many values are held, the one that is read among them.
    held: usize,
    /// How many values there were so far.
    all: usize,
}

type Parsed<T> = Result<T, String>;

impl<'a> Reader<'a> {
    fn new(text: &'a [u8]) -> Reader<'a> {
        Reader { text, at: 0, held: 0, all: 0 }
    }
    /// Counts one more value. Errors: there are too many.
    fn count(&mut self) -> Parsed<()> {
        self.held += 1;
        self.all += 1;
        let passed = match (self.held > MAX_VALUES, self.all > MAX_ALL) {
            (true, _) => MAX_VALUES,
            (_, true) => MAX_ALL,
            _ => return Ok(()),
        };
        if Wall::DocumentValues.stands() { Err(too_many(passed)) } else { Ok(()) }
    }
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }
    fn wrong<T>(&self, context: &str) -> Parsed<T> {
        let Some(byte) = self.peek() else { return Err("unexpected EOF".into()) };
        let shown = match byte {
            b'\'' => r"'\''".into(),
            b'"' => r#"'"'"#.into(),
            0x20..=0x7e => format!("'{}'", char::from(byte)),
            b'\n' => r"'\n'".into(),
            b'\r' => r"'\r'".into(),
            b'\t' => r"'\t'".into(),
            0xa1.. => format!("'{}'", char::from(byte)),
            _ => format!(r"'\x{byte:02x}'"),
        };
        Err(format!("invalid character {shown} {context}"))
    }
    fn value(&mut self, depth: usize) -> Parsed<Node<'a>> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".into());
        }
        self.count()?;
        self.space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Node::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Node::Bool(true)),
            Some(b'f') => self.literal("false", Node::Bool(false)),
            Some(b'n') => self.literal("null", Node::Null),
            _ => self.wrong("looking for beginning of value"),
        }
    }
    fn object(&mut self, depth: usize) -> Parsed<Node<'a>> {
        let (from, held) = (self.at, self.held);
        self.at += 1;
        let mut fields = Vec::new();
        let mut count = 0;
        while let Some(member) = self.next_member(depth)? {
            count += 1;
            match count > FEW {
                // So many members are not kept: each use reads them again.
                true => (fields, self.held) = (Vec::new(), held),
                false => fields.push(member),
            }
        }
        let text = self.text;
        Ok(match count > FEW {
            true => Node::Large(Members { text: &text[from..self.at], of: None }),
            false => Node::Object(fields),
        })
    }
    /// The next member of an object, and what separates it from the one behind it; none at the object's end.
    fn next_member(&mut self, depth: usize) -> Parsed<Option<Member<'a>>> {
        self.space();
        // A brace stands here behind the last member, whose comma would have been followed by a name.
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return self.wrong("looking for beginning of object key string");
        }
        let key = self.string()?;
        self.space();
        if self.peek() != Some(b':') {
            return self.wrong("after object key");
        }
        self.at += 1;
        let value = self.value(depth + 1)?;
        self.space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.space();
                // A name must follow.
                if self.peek() == Some(b'}') {
                    return self.wrong("looking for beginning of object key string");
                }
            }
            Some(b'}') => {}
            _ => return self.wrong("after object key:value pair"),
        }
        Ok(Some((key, value)))
    }
    fn list(&mut self, depth: usize) -> Parsed<Node<'a>> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Node::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Node::List(items));
                }
                _ => return self.wrong("after array element"),
            }
        }
    }
    fn literal(&mut self, word: &str, value: Node<'a>) -> Parsed<Node<'a>> {
        for (i, expected) in word.char_indices() {
            if self.peek() != Some(expected as u8) {
                debug_assert!(i > 0);
                return self.wrong(&format!("in literal {word} (expecting '{expected}')"));
            }
            self.at += 1;
        }
        Ok(value)
    }
    fn number(&mut self) -> Parsed<Node<'a>> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.wrong("in numeric literal"),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let text = self.text;
        Ok(Node::Number(String::from_utf8_lossy(&text[start..self.at])))
    }
    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }
    fn some_digits(&mut self, context: &str) -> Parsed<()> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return self.wrong(context);
        }
        self.digits();
        Ok(())
    }
    fn string(&mut self) -> Parsed<Cow<'a, str>> {
        self.at += 1;
        let text = self.text;
        let plain = text[self.at..].iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20)).count();
        let plain = &text[self.at..self.at + plain];
        self.at += plain.len();
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(String::from_utf8_lossy(plain));
        }
        let mut bytes = plain.to_vec();
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut bytes)?;
                }
                Some(0x20..) => {
                    bytes.push(self.text[self.at]);
                    self.at += 1;
                }
                _ => return self.wrong("in string literal"),
            }
        }
        self.at += 1;
        let text = String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
        Ok(Cow::Owned(text))
    }
    fn escape(&mut self, bytes: &mut Vec<u8>) -> Parsed<()> {
        let plain = match self.peek() {
            Some(b @ (b'"' | b'\\' | b'/')) => b,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode(bytes);
            }
            _ => return self.wrong("in string escape code"),
        };
        self.at += 1;
        bytes.push(plain);
        Ok(())
    }
    fn unicode(&mut self, bytes: &mut Vec<u8>) -> Parsed<()> {
        let high = self.hex4()?;
        let mut code = high;
        if (0xd800..0xdc00).contains(&high) && self.text[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            } else {
                self.at = back;
            }
        }
        let char = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
    fn hex4(&mut self) -> Parsed<u32> {
        let mut code = 0;
        for _ in 0..4 {
            match self.peek().and_then(|b| char::from(b).to_digit(16)) {
                Some(digit) => code = code * 16 + digit,
                None => return self.wrong("in \\u hexadecimal character escape"),
            }
            self.at += 1;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn errors_have_the_texts_that_clients_know() {
        assert_eq!(bad(""), "EOF");
        assert_eq!(bad("  \n"), "EOF");
        assert_eq!(bad("{"), "unexpected EOF");
        assert_eq!(bad("{\"a\":"), "unexpected EOF");
        assert_eq!(bad("x"), "invalid character 'x' looking for beginning of value");
        assert_eq!(bad("{a"), "invalid character 'a' looking for beginning of object key string");
        assert_eq!(bad("{\"a\" 1}"), "invalid character '1' after object key");
        assert_eq!(bad("{\"a\":1]"), "invalid character ']' after object key:value pair");
        assert_eq!(bad("[1 2]"), "invalid character '2' after array element");
        assert_eq!(bad("trux"), "invalid character 'x' in literal true (expecting 'e')");
        assert_eq!(bad("\"a\nb\""), "invalid character '\\n' in string literal");
        assert_eq!(bad("\"\\q\""), "invalid character 'q' in string escape code");
        assert_eq!(bad("-x"), "invalid character 'x' in numeric literal");
        assert_eq!(bad("1.x"), "invalid character 'x' after decimal point in numeric literal");
        assert_eq!(bad("'"), "invalid character '\\'' looking for beginning of value");
        assert_eq!(bad(&"[".repeat(100_000)), "exceeded max depth");
    }

    #[test]
    fn values_count_that_are_held_and_all_of_them() {
        let refusal = |text: &str| parse(text.as_bytes()).err();
        let list = |count: usize| format!("[{}1]", "1,".repeat(count - 1));
        // The list is a value itself.
        assert_eq!(refusal(&list(MAX_VALUES - 1)), None);
        assert_eq!(refusal(&list(MAX_VALUES)), Some(too_many(MAX_VALUES)));
        // Of large objects nothing is held, but for the member that is read.
        let object = |count: usize, value: &str| {
            let members: Vec<String> = (0..count).map(|at| format!("\"{at}\":{value}")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert_eq!(refusal(&object(MAX_ALL - 1, "1")), None);
        assert_eq!(refusal(&object(MAX_ALL, "1")), Some(too_many(MAX_ALL)));
        assert_eq!(refusal(&object(100, &list(MAX_VALUES / 70))), None);
        assert_eq!(refusal(&object(60, &list(MAX_VALUES / 50))), Some(too_many(MAX_VALUES)));
        let large = object(2, &object(MAX_VALUES, "[]"));
        let Ok(Node::Object(members)) = parse(large.as_bytes()) else { panic!("{} bytes", large.len()) };
        let Node::Large(inner) = &members[1].1 else { panic!("{:?}", members[1].0) };
        assert_eq!(inner.iter().count(), MAX_VALUES);
    }

    #[test]
    fn values() {
        let node = parse(b" {\"a\":[1.50,-0,\"\\u00e9\\ud83d\\ude00\\n\"],\"b\":null} rest").unwrap();
        let list = vec![Node::Number("1.50".into()), Node::Number("-0".into()), Node::Text("é😀\n".into())];
        assert_eq!(node, Node::Object(vec![("a".into(), Node::List(list)), ("b".into(), Node::Null)]));
    }

    #[test]
    fn markup_is_escaped() {
        let value = serde_json::json!({"a<": "x<&>y\u{2028}\""});
        assert_eq!(line(&value), b"{\"a\\u003c\":\"x\\u003c\\u0026\\u003ey\\u2028\\\"\"}\n");
        assert_eq!(document(&value), b"{\"a<\":\"x<&>y\\u2028\\\"\"}\n");
    }
}
