//! Query strings and the kinds of their values.

use crate::json::{self, Node};
use coracle::model::Filters;
use coracle::{Error, Result};

/// The parameters of a request, decoded, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Query> {
        let mut pairs = Vec::new();
        for pair in text.split('&').filter(|p| !p.is_empty()) {
            if pair.contains(';') {
                return Err(Error::invalid("invalid semicolon separator in query"));
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(key, true)?, decode(value, true)?));
        }
        Ok(Query(pairs))
    }
    /// The first value; empty where there is none.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or("")
    }
    /// The first value, where the parameter is given (it may be empty).
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
    /// Every value of a repeated parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }
    /// True unless absent, empty, `0`, `no`, `false` or `none` (any case, spaces around).
    pub(crate) fn flag(&self, key: &str) -> bool {
        !matches!(self.text(key).trim().to_lowercase().as_str(), "" | "0" | "no" | "false" | "none")
    }
    /// A whole number; absent or empty: none.
    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>> {
        match self.text(key) {
            "" => Ok(None),
            text => atoi(text).map(Some),
        }
    }
    /// A time `seconds[.fraction]` as (seconds, nanoseconds); absent or empty: none.
    pub(crate) fn time(&self, key: &str) -> Result<Option<(i64, i64)>> {
        match self.text(key) {
            "" => Ok(None),
            text => timestamp(text).map(Some),
        }
    }
    /// `filters`, in either of its two encodings: `{"k":["a"]}`, `{"k":{"a":true}}`.
    pub(crate) fn filters(&self) -> Result<Filters> {
        match self.text("filters") {
            "" => Ok(Filters::new()),
            text => filters(text),
        }
    }
}

/// Percent-decodes; in a query `+` is a space. Errors: a `%` without two hexadecimal digits.
pub(crate) fn decode(text: &str, query: bool) -> Result<String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let hex = |i: usize| bytes.get(i).and_then(|b| char::from(*b).to_digit(16));
                let (Some(high), Some(low)) = (hex(at + 1), hex(at + 2)) else {
                    let shown = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 3)]).into_owned();
                    return Err(Error::invalid(format!("invalid URL escape {shown:?}")));
                };
                out.push((high * 16 + low) as u8);
                at += 2;
            }
            b'+' if query => out.push(b' '),
            byte => out.push(byte),
        }
        at += 1;
    }
    Ok(String::from_utf8(out).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

fn atoi(text: &str) -> Result<i64> {
    number(text, "Atoi")
}

fn number(text: &str, function: &str) -> Result<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let why = if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        "invalid syntax"
    } else if let Ok(value) = text.parse() {
        return Ok(value);
    } else {
        "value out of range"
    };
    Err(Error::invalid(format!("strconv.{function}: parsing {text:?}: {why}")))
}

fn timestamp(text: &str) -> Result<(i64, i64)> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds = number(seconds, "ParseInt")?;
    if fraction.is_empty() {
        return Ok((seconds, 0));
    }
    let parsed = number(fraction, "ParseInt")?;
    // The fraction is digits of a decimal: `.5` is 500 ms. Digits beyond nanoseconds are dropped.
    let nanos = match fraction.get(..9) {
        Some(nine) => number(nine, "ParseInt")?,
        None => parsed * 10i64.pow(9 - fraction.len() as u32),
    };
    Ok((seconds, nanos))
}

fn filters(text: &str) -> Result<Filters> {
    let mismatch = |node: &Node<'_>, of: &str| {
        Error::invalid(format!("json: cannot unmarshal {} into Go value of type {of}", node.kind()))
    };
    let fields = match json::parse(text.as_bytes()).map_err(Error::invalid)?.loaded() {
        Node::Object(fields) => fields,
        Node::Null => Vec::new(),
        other => return Err(mismatch(&other, "map[string]map[string]bool")),
    };
    let mut filters = Filters::new();
    for (name, values) in fields {
        let values = match values.loaded() {
            Node::Null => Vec::new(),
            Node::Object(set) => set.into_iter().map(|(value, _)| value.into_owned()).collect(),
            Node::List(items) => items
                .into_iter()
                .map(|item| match item {
                    Node::Text(text) => Ok(text.into_owned()),
                    other => Err(mismatch(&other, "string")),
                })
                .collect::<Result<_>>()?,
            other => return Err(mismatch(&other, "map[string]bool")),
        };
        filters.insert(name.into_owned(), values);
    }
    Ok(filters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::parse(text).unwrap()
    }
    fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().message().to_owned()
    }

    #[test]
    fn pairs_are_decoded() {
        let q = query("a=x%20y+z&b&c=&a=2&d=%2B");
        assert_eq!((q.text("a"), q.get("b"), q.get("c"), q.get("x")), ("x y z", Some(""), Some(""), None));
        assert_eq!(q.all("a").collect::<Vec<_>>(), ["x y z", "2"]);
        assert_eq!(q.text("d"), "+");
        assert_eq!(message(Query::parse("a=%zz1")), "invalid URL escape \"%zz\"");
        assert_eq!(message(Query::parse("a=%1")), "invalid URL escape \"%1\"");
    }

    #[test]
    fn flags() {
        for text in ["0", "no", "False", " NONE ", ""] {
            assert!(!query(&format!("a={}", text.replace(' ', "%20"))).flag("a"), "{text}");
        }
        for text in ["1", "true", "yes", "x"] {
            assert!(query(&format!("a={text}")).flag("a"), "{text}");
        }
        assert!(!query("").flag("a"));
    }

    #[test]
    fn numbers() {
        assert_eq!(query("n=-5").number("n").unwrap(), Some(-5));
        assert_eq!(query("n=").number("n").unwrap(), None);
        assert_eq!(message(query("n=a").number("n")), "strconv.Atoi: parsing \"a\": invalid syntax");
        let big = "99999999999999999999";
        let text = format!("strconv.Atoi: parsing \"{big}\": value out of range");
        assert_eq!(message(query(&format!("n={big}")).number("n")), text);
    }

    #[test]
    fn times() {
        assert_eq!(query("t=12.5").time("t").unwrap(), Some((12, 500_000_000)));
        assert_eq!(query("t=12.000000001").time("t").unwrap(), Some((12, 1)));
        assert_eq!(query("t=12.0000000019").time("t").unwrap(), Some((12, 1)));
        assert_eq!(message(query("t=x").time("t")), "strconv.ParseInt: parsing \"x\": invalid syntax");
    }

    #[test]
    fn filters_have_two_encodings() {
        let both: [&str; 2] = ["{\"k\":[\"a\",\"b\"]}", "{\"k\":{\"a\":true,\"b\":true}}"];
        for text in both {
            assert_eq!(filters(text).unwrap()["k"], ["a", "b"]);
        }
        assert!(filters("null").unwrap().is_empty());
        assert_eq!(message(filters("x")), "invalid character 'x' looking for beginning of value");
        assert_eq!(
            message(filters("5")),
            "json: cannot unmarshal number into Go value of type map[string]map[string]bool"
        );
        assert_eq!(
            message(filters("{\"a\":5}")),
            "json: cannot unmarshal number into Go value of type map[string]bool"
        );
        assert_eq!(message(filters("{\"a\":[5]}")), "json: cannot unmarshal number into Go value of type string");
    }
}
