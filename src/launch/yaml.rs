//! YAML files as the values of JSON: one document, without anchors, tags and repeated names, which no specification of devices
//! needs. The bounds keep a file from taking more memory than its own size allows.

use crate::error::{Error, Result};
use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// How deep lists and maps may lie in one another: a specification has 6.
const MAX_DEPTH: usize = 32;
/// How many values a document may have: a specification of 100 devices has some thousands.
const MAX_VALUES: usize = 200_000;

/// Reads the one document of `text`; nothing at all is null.
pub(crate) fn read(text: &str) -> Result<Value> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, place) = event.map_err(|error| Error::invalid(error.to_string()))?;
        let at = |error: Error| error.context(format_args!("line {}", place.start.line()));
        reader.take(event).map_err(at)?;
    }
    Ok(reader.whole.unwrap_or_default())
}

/// A list or a map that is not at its end.
enum Open {
    List(Vec<Value>),
    /// The members, and the name of the next one.
    Map(Map<String, Value>, Option<String>),
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    whole: Option<Value>,
    values: usize,
}

impl Reader {
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        let refused = |what: &str| Err(Error::invalid(format!("{what} are not supported")));
        match event {
            Event::Alias(_) => refused("aliases"),
            Event::Scalar(_, _, anchor, _) | Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                refused("anchors")
            }
            Event::Scalar(.., Some(_)) | Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                refused("tags")
            }
            Event::DocumentStart(_) if self.whole.is_some() => refused("several documents"),
            Event::Scalar(text, style, ..) => self.scalar(&text, style),
            Event::SequenceStart(..) => self.begin(Open::List(Vec::new())),
            Event::MappingStart(..) => self.begin(Open::Map(Map::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(items)) => self.put(items.into()),
                Some(Open::Map(members, _)) => self.put(members.into()),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn begin(&mut self, open: Open) -> Result<()> {
        if let Some(Open::Map(_, None)) = self.open.last() {
            return Err(Error::invalid("a list or a map is the name of a member"));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(Error::invalid(format!("lists and maps lie more than {MAX_DEPTH} deep in one another")));
        }
        self.open.push(open);
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle) -> Result<()> {
        match self.open.last_mut() {
            Some(Open::Map(members, name @ None)) => {
                if members.contains_key(text) {
                    return Err(Error::invalid(format!("{text:?} is there twice")));
                }
                *name = Some(text.to_owned());
                Ok(())
            }
            _ => self.put(if style == ScalarStyle::Plain { plain(text) } else { text.into() }),
        }
    }

    /// A value that is at its end goes to its place.
    fn put(&mut self, value: Value) -> Result<()> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(Error::invalid(format!("there are more than {MAX_VALUES} values")));
        }
        match self.open.last_mut() {
            None => self.whole = Some(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Map(members, name)) => {
                let name = name.take().ok_or_else(|| Error::invalid("a value has no name"))?;
                members.insert(name, value);
            }
        }
        Ok(())
    }
}

/// A scalar without quotes: null, a flag, a number or a text. Numbers that begin with 0 are octal, as the readers of
/// specifications in other languages have them.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return true.into(),
        "false" | "False" | "FALSE" => return false.into(),
        _ => {}
    }
    let octal = text.strip_prefix("0o").or_else(|| text.strip_prefix('0').filter(|rest| !rest.is_empty()));
    let digits = |text: &str, base: u32| {
        let all = !text.is_empty() && text.bytes().all(|byte| char::from(byte).is_digit(base));
        all.then(|| i64::from_str_radix(text, base).ok()).flatten()
    };
    let whole = octal
        .and_then(|rest| digits(rest, 8))
        .or_else(|| text.strip_prefix("0x").and_then(|rest| digits(rest, 16)))
        .or_else(|| text.parse().ok());
    if let Some(whole) = whole {
        return whole.into();
    }
    let begins = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.');
    let number = text.starts_with(begins).then(|| text.parse().ok().and_then(Number::from_f64)).flatten();
    number.map_or_else(|| text.into(), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_are_those_of_json() {
        let text = "# of a vendor\ncdiVersion: 0.6.0\nkind: \"v.com/x\"\ndevices:\n- name: \"0\"\n  containerEdits:\n    \
                    deviceNodes:\n    - path: /dev/a\n      fileMode: 0660\n      uid: 5\n    env: [A=b, 'C=d e']\n    mounts: []\n";
        let wanted = json!({ "cdiVersion": "0.6.0", "kind": "v.com/x", "devices": [{ "name": "0", "containerEdits": {
            "deviceNodes": [{ "path": "/dev/a", "fileMode": 432, "uid": 5 }], "env": ["A=b", "C=d e"], "mounts": [] } }] });
        assert_eq!(read(text).unwrap(), wanted);
        let others = "a: ~\nb: true\nc: -1.5\nd: 0x1f\ne: 0o17\nf: 1.2.3\ng: |\n  one\n  two\nh: 08\ni: .inf\n";
        let wanted = json!({ "a": null, "b": true, "c": -1.5, "d": 31, "e": 15, "f": "1.2.3", "g": "one\ntwo\n", "h": 8,
            "i": ".inf" });
        assert_eq!(read(others).unwrap(), wanted);
        assert_eq!(read("").unwrap(), Value::Null);
        assert_eq!(read("{\"a\": [1, {\"b\": \"c\"}]}").unwrap(), json!({ "a": [1, { "b": "c" }] }));
    }

    #[test]
    fn parts_that_json_lacks_are_refused_with_their_line() {
        let said = |text: &str| read(text).unwrap_err().message().to_owned();
        assert_eq!(said("a: 1\nb: &x 5\n"), "line 2: anchors are not supported");
        assert_eq!(said("a: !!str 5\n"), "line 1: tags are not supported");
        assert_eq!(said("a: 1\na: 2\n"), "line 2: \"a\" is there twice");
        assert_eq!(said("a: 1\n---\nb: 2\n"), "line 2: several documents are not supported");
        assert_eq!(said("? [a]\n: 1\n"), "line 1: a list or a map is the name of a member");
        assert!(said(&"[".repeat(MAX_DEPTH + 1)).contains("deep in one another"));
        assert!(said("[0,").contains("line"));
        let many = format!("[{}]", "0,".repeat(MAX_VALUES + 1));
        assert!(said(&many).contains("values"));
    }

    /// Cut and changed files are read or refused.
    #[test]
    fn no_text_ends_the_reader() {
        let good = "kind: v/c\ndevices:\n- name: \"d\"\n  containerEdits: {env: [A=b, 'c'], deviceNodes: [{path: /dev/x}]}\n# end\n";
        for cut in 0..good.len() {
            let _ = read(&good[..cut]);
            for odd in [
                "\t", "\"", "'", "[", "}", "- ", "? ", ": ", "&a ", "*a", "!x ", "|", ">", "---\n", "\u{feff}", "\0",
                "%",
            ] {
                let _ = read(&format!("{}{odd}{}", &good[..cut], &good[cut..]));
            }
        }
    }
}
