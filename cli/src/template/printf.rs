//! `print` and `printf` as Go has them.

use super::values;
use serde_json::Value;

/// The widest field: a larger one would only take memory.
pub const WIDEST: usize = 1000;

/// The values after one another, with a blank between two that are not texts.
pub fn print(all: &[Value]) -> String {
    let mut text = String::new();
    for (at, value) in all.iter().enumerate() {
        if at > 0 && !value.is_string() && !all[at - 1].is_string() {
            text.push(' ');
        }
        text.push_str(&values::text(value));
    }
    text
}

/// How a value is to be printed: `%-08.3f`.
#[derive(Default)]
struct Form {
    left: bool,
    zeros: bool,
    plus: bool,
    space: bool,
    sharp: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// The values in the places of a format. Like Go, a mistake is printed in its place: `%!d(string=a)`.
pub fn printf(format: &str, values: &[Value]) -> String {
    let mut text = String::new();
    let mut left = values.iter();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let mut form = Form::default();
        let after = form.read(after);
        let Some(verb) = after.chars().next() else {
            text.push_str("%!(NOVERB)");
            return text;
        };
        rest = &after[verb.len_utf8()..];
        match (verb, left.next().filter(|_| verb != '%')) {
            ('%', _) => text.push('%'),
            (verb, Some(value)) => text.push_str(&form.show(verb, value)),
            (verb, None) => text.push_str(&format!("%!{verb}(MISSING)")),
        }
    }
    text.push_str(rest);
    let extra: Vec<String> = left.map(|value| format!("{}={}", type_name(value), values::text(value))).collect();
    if extra.is_empty() { text } else { format!("{text}%!(EXTRA {})", extra.join(", ")) }
}

impl Form {
    /// Reads flags, width and precision; returns the text behind them.
    fn read<'a>(&mut self, text: &'a str) -> &'a str {
        let flags = text.find(|c| !"-+0 #".contains(c)).unwrap_or(text.len());
        for flag in text[..flags].chars() {
            match flag {
                '-' => self.left = true,
                '+' => self.plus = true,
                '0' => self.zeros = true,
                ' ' => self.space = true,
                _ => self.sharp = true,
            }
        }
        let (width, rest) = digits(&text[flags..]);
        self.width = width;
        let Some(rest) = rest.strip_prefix('.') else { return rest };
        let (precision, rest) = digits(rest);
        self.precision = Some(precision.unwrap_or(0));
        rest
    }

    fn show(&self, verb: char, value: &Value) -> String {
        match (verb, value) {
            ('T', value) => self.fitted(type_name(value).to_owned(), false),
            (_, Value::Array(items)) => {
                format!("[{}]", items.iter().map(|item| self.show(verb, item)).collect::<Vec<_>>().join(" "))
            }
            (_, Value::Object(fields)) => {
                let key = |key: &String| self.show(verb, &Value::String(key.clone()));
                let pairs = fields.iter().map(|(name, value)| format!("{}:{}", key(name), self.show(verb, value)));
                format!("map[{}]", pairs.collect::<Vec<_>>().join(" "))
            }
            ('v', Value::Null) => self.fitted("<nil>".into(), false),
            (_, Value::Null) => format!("%!{verb}(<nil>)"),
            ('v' | 't', Value::Bool(is)) => self.fitted(is.to_string(), false),
            (_, Value::String(text)) => match self.string(verb, text) {
                Some(text) => self.fitted(text, false),
                None => wrong(verb, value),
            },
            (_, Value::Number(number)) => {
                let shown = match (number.as_i64(), number.as_f64()) {
                    (Some(whole), _) => self.whole(verb, whole),
                    (None, Some(float)) => self.float(verb, float),
                    (None, None) => None,
                };
                shown.map_or_else(|| wrong(verb, value), |text| self.fitted(text, !matches!(verb, 'c' | 'q')))
            }
            (verb, value) => wrong(verb, value),
        }
    }

    fn string(&self, verb: char, text: &str) -> Option<String> {
        let cut: String = self.precision.map_or_else(|| text.to_owned(), |most| text.chars().take(most).collect());
        match verb {
            's' | 'v' => Some(cut),
            'q' => Some(quoted(&cut)),
            'x' => Some(cut.bytes().map(|byte| format!("{byte:02x}")).collect()),
            'X' => Some(cut.bytes().map(|byte| format!("{byte:02X}")).collect()),
            _ => None,
        }
    }

    fn whole(&self, verb: char, whole: i64) -> Option<String> {
        let size = whole.unsigned_abs();
        let digits = match verb {
            'd' | 'v' => size.to_string(),
            'x' => format!("{}{size:x}", if self.sharp { "0x" } else { "" }),
            'X' => format!("{}{size:X}", if self.sharp { "0X" } else { "" }),
            'o' => format!("{}{size:o}", if self.sharp { "0" } else { "" }),
            'b' => format!("{size:b}"),
            'c' => return Some(char::from_u32(u32::try_from(whole).ok()?)?.to_string()),
            'q' => return Some(format!("{:?}", char::from_u32(u32::try_from(whole).ok()?)?)),
            'U' => return Some(format!("U+{size:04X}")),
            _ => return None,
        };
        let least = self.precision.unwrap_or(0);
        Some(format!("{}{digits:0>least$}", self.sign(whole < 0)))
    }

    fn float(&self, verb: char, float: f64) -> Option<String> {
        let size = float.abs();
        let digits = self.precision.unwrap_or(6);
        let shown = match verb {
            'v' | 'g' => values::decimal(size),
            'f' | 'F' => format!("{size:.digits$}"),
            'e' => values::exponent(&format!("{size:.digits$e}")),
            _ => return None,
        };
        Some(format!("{}{shown}", self.sign(float < 0.0)))
    }

    fn sign(&self, negative: bool) -> &'static str {
        match () {
            () if negative => "-",
            () if self.plus => "+",
            () if self.space => " ",
            () => "",
        }
    }

    /// A text in its width.
    fn fitted(&self, text: String, is_number: bool) -> String {
        let width = self.width.unwrap_or(0);
        let missing = width.saturating_sub(text.chars().count());
        match () {
            () if self.left => format!("{text:<width$}"),
            () if self.zeros && !(is_number && self.precision.is_some() && !text.contains('.')) => {
                let at = if is_number { text.find(|c: char| !"+- ".contains(c)).unwrap_or(0) } else { 0 };
                format!("{}{}{}", &text[..at], "0".repeat(missing), &text[at..])
            }
            () => format!("{text:>width$}"),
        }
    }
}

/// The number at the beginning of a text, at most [`WIDEST`], and the text behind it.
fn digits(text: &str) -> (Option<usize>, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = (end > 0).then(|| text[..end].parse().unwrap_or(WIDEST).min(WIDEST));
    (number, &text[end..])
}

fn wrong(verb: char, value: &Value) -> String {
    format!("%!{verb}({}={})", type_name(value), values::text(value))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A text in quotes, as Go writes it.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0b' => quoted.push_str("\\v"),
            '\x0c' => quoted.push_str("\\f"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A format, its values, and the text that docker's command printed.
    #[test]
    fn formats_as_go_has_them() {
        for (format, values, text) in [
            ("%5d|%-6s|%06.2f|%q|%v|%x|%t|%T", json!([3, "ab", 2.5, "x\ny", null, "hi", true, 3]), {
                "    3|ab    |002.50|\"x\\ny\"|<nil>|6869|true|int"
            }),
            ("%d", json!(["a"]), "%!d(string=a)"),
            ("%s", json!([3]), "%!s(int=3)"),
            ("%d", json!([]), "%!d(MISSING)"),
            ("x", json!([3]), "x%!(EXTRA int=3)"),
            ("%", json!([]), "%!(NOVERB)"),
            ("%s %v %q", json!([["true"], { "a.b": "1" }, ["a", "b"]]), "[true] map[a.b:1] [\"a\" \"b\"]"),
            ("%+d %x %#X %o %b %c %U", json!([5, 255, 255, 8, 5, 65, 9731]), "+5 ff 0XFF 10 101 A U+2603"),
            ("%.2s|%8.3f|%-8d|%08d|%e", json!(["abc", 1.5, 7, -7, 1.5]), {
                "ab|   1.500|7       |-0000007|1.500000e+00"
            }),
            ("100%%", json!([]), "100%"),
        ] {
            let values = values.as_array().expect("a list");
            assert_eq!(printf(format, values), text, "{format}");
        }
    }
}
