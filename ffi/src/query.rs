//! Query documents: an object with the names of the HTTP API's query parameters.
//!
//! Values may be of their own type or as text, the way they stand in a URL (`true`, `1`, `"1"`); names that the call does not
//! know and wrong types are refused by name.

use crate::arg;
use crate::failure::{Failure, Outcome};
use engine::model::Filters;
use libc::c_char;
use serde_json::{Map, Value};

/// An object of parameters; NULL is an empty one.
pub(crate) struct Query {
    argument: &'static str,
    fields: Map<String, Value>,
}

impl Query {
    /// `known`: the names that the call takes; others are passed over where `lenient` says so.
    pub(crate) fn new(pointer: *const c_char, argument: &'static str, known: &[&str], lenient: bool) -> Outcome<Query> {
        let query = Query { argument, fields: arg::json_or_default(pointer, argument)? };
        match query.fields.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) if !lenient => {
                let line = coracle_http::stranger(name, known);
                Err(arg::unknown_member(argument, &line))
            }
            _ => Ok(query),
        }
    }

    /// A document that is filters and nothing else; NULL: none.
    pub(crate) fn filters_of(pointer: *const c_char, argument: &'static str) -> Outcome<Filters> {
        let fields: Map<String, Value> = arg::json_or_default(pointer, argument)?;
        Query { argument, fields: Map::from_iter([("filters".to_owned(), Value::Object(fields))]) }.filters()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.field(name).is_some()
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> Outcome<bool> {
        match self.field(name) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(*value),
            Some(Value::Number(number)) if number.as_i64().is_some_and(|n| n == 0 || n == 1) => {
                Ok(number.as_i64() == Some(1))
            }
            // The words that the HTTP API takes for no; all others are yes there.
            Some(Value::String(text)) => {
                Ok(!matches!(text.to_lowercase().as_str(), "" | "0" | "no" | "false" | "none"))
            }
            Some(_) => Err(self.wrong(name, "true or false")),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Outcome<Option<i64>> {
        let number = match self.field(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_i64(),
            Some(Value::String(text)) if text.is_empty() => return Ok(None),
            Some(Value::String(text)) => text.parse().ok(),
            Some(_) => None,
        };
        number.map(Some).ok_or_else(|| self.wrong(name, "a whole number"))
    }

    pub(crate) fn text(&self, name: &str) -> Outcome<String> {
        match self.field(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(self.wrong(name, "a string")),
        }
    }

    pub(crate) fn texts(&self, name: &str) -> Outcome<Vec<String>> {
        let words = match self.field(name) {
            None => return Ok(Vec::new()),
            Some(Value::String(text)) => return Ok(vec![text.clone()]),
            Some(Value::Array(items)) => items.iter().map(|item| item.as_str().map(str::to_string)).collect(),
            Some(_) => None,
        };
        words.ok_or_else(|| self.wrong(name, "a string or a list of strings"))
    }

    /// A time in seconds since 1970, whole or with a fraction, as nanoseconds.
    pub(crate) fn time_ns(&self, name: &str) -> Outcome<Option<i64>> {
        let text = match self.field(name) {
            None => return Ok(None),
            Some(Value::String(text)) if text.is_empty() => return Ok(None),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) => return Err(self.wrong(name, TIME)),
        };
        nanoseconds(&text).map(Some).ok_or_else(|| self.wrong(name, TIME))
    }

    /// `filters`: an object (or its text) of name to values; values are a list, or the older object of value to true.
    pub(crate) fn filters(&self) -> Outcome<Filters> {
        let wrong = || self.wrong("filters", "an object of lists of strings");
        let parsed = match self.field("filters") {
            None => return Ok(Filters::new()),
            Some(Value::String(text)) if text.is_empty() => return Ok(Filters::new()),
            Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| wrong())?,
            Some(value) => value.clone(),
        };
        let Value::Object(map) = parsed else { return Err(wrong()) };
        map.into_iter().map(|(name, values)| Ok((name, filter_values(values).ok_or_else(wrong)?))).collect()
    }

    fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, wanted: &str) -> Failure {
        Failure::invalid(format!("{}: {name} must be {wanted}", self.argument)).about(self.argument, name)
    }
}

const TIME: &str = "a time in seconds since 1970";

fn filter_values(values: Value) -> Option<Vec<String>> {
    match values {
        Value::String(value) => Some(vec![value]),
        Value::Array(items) => items.into_iter().map(|item| item.as_str().map(str::to_string)).collect(),
        Value::Object(map) => {
            Some(map.into_iter().filter(|(_, on)| *on != Value::Bool(false)).map(|(v, _)| v).collect())
        }
        _ => None,
    }
}

fn nanoseconds(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction = format!("{fraction:0<9}");
    let nanos: i64 = fraction.get(..9)?.parse().ok()?;
    let whole: i64 = seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?;
    if seconds.starts_with('-') { whole.checked_sub(nanos) } else { whole.checked_add(nanos) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn query(text: &str) -> Query {
        let text = CString::new(text).unwrap();
        Query::new(text.as_ptr(), "query_json", &[], true).unwrap()
    }

    #[test]
    fn values_stand_as_themselves_or_as_text() {
        let q = query(r#"{"all":"1","size":false,"stdout":0,"limit":"5","tail":7,"since":"12.5","x":null}"#);
        assert_eq!((q.flag("all", false).ok(), q.flag("size", true).ok()), (Some(true), Some(false)));
        assert_eq!((q.flag("stdout", true).ok(), q.flag("x", true).ok()), (Some(false), Some(true)));
        assert_eq!((q.number("limit").ok(), q.number("tail").ok()), (Some(Some(5)), Some(Some(7))));
        assert_eq!(q.time_ns("since").ok(), Some(Some(12_500_000_000)));
        assert_eq!(query("{\"since\":3}").time_ns("since").ok(), Some(Some(3_000_000_000)));
        assert!(Query::new(std::ptr::null(), "q", &[], false).unwrap().filters().unwrap().is_empty());
        let odd = Query::new(c"{\"al\":1}".as_ptr(), "query_json", &["all", "limit"], false).err().unwrap();
        assert_eq!(odd.message, "query_json: al is not a known member: the nearest is all");
    }

    #[test]
    fn filters_take_three_forms() {
        for form in [
            r#"{"filters":{"label":["a"]}}"#,
            r#"{"filters":{"label":{"a":true}}}"#,
            r#"{"filters":"{\"label\":[\"a\"]}"}"#,
        ] {
            assert_eq!(query(form).filters().unwrap()["label"], ["a"]);
        }
    }

    #[test]
    fn wrong_types_are_refused_by_name() {
        let q = query(r#"{"all":[],"limit":"x","since":"y","filters":3,"filter":1}"#);
        let message = |f: Option<Failure>| f.unwrap().message.clone();
        assert_eq!(message(q.flag("all", false).err()), "query_json: all must be true or false");
        assert_eq!(message(q.number("limit").err()), "query_json: limit must be a whole number");
        assert!(message(q.time_ns("since").err()).contains("since"));
        assert!(message(q.filters().err()).contains("filters"));
        assert!(message(q.text("filter").err()).contains("filter"));
    }
}
