//! Values of a template: their texts, their truth, their order.

use serde_json::{Number, Value};
use std::cmp::Ordering;

/// A number as a template has it: `10`, `0x1f`, `0b1`, `1.5`, `1e3`.
pub fn number(text: &str) -> Option<Value> {
    let plain = text.replace('_', "");
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let radix = |prefix: &str, radix| i64::from_str_radix(digits.strip_prefix(prefix)?, radix).ok();
    if let Some(whole) = radix("0x", 16).or_else(|| radix("0o", 8)).or_else(|| radix("0b", 2)) {
        return Some(Value::from(sign * whole));
    }
    if let Ok(whole) = plain.trim_start_matches('+').parse::<i64>() {
        return Some(Value::from(whole));
    }
    let is_decimal = digits.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    let float = plain.parse::<f64>().ok().filter(|float| is_decimal && float.is_finite())?;
    // Like docker: 1e3 is a whole number.
    match float.fract() == 0.0 && float.abs() < 9e15 {
        true => Some(Value::from(float as i64)),
        false => Number::from_f64(float).map(Value::Number),
    }
}

/// The text of a value, as Go's `%v` has it.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Bool(_) => value.to_string(),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => decimal(float),
            None => number.to_string(),
        },
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let pairs: Vec<String> = fields.iter().map(|(key, value)| format!("{key}:{}", text(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
    }
}

/// A number with as many digits as it needs, as Go's `%v` has it: very large and very small ones with an exponent.
pub fn decimal(float: f64) -> String {
    let size = float.abs();
    match size != 0.0 && !(1e-4..1e21).contains(&size) {
        true => exponent(&format!("{float:e}")),
        false => float.to_string(),
    }
}

/// `1e7` with a sign and two digits at least, as C and Go print it: `1e+07`.
pub fn exponent(text: &str) -> String {
    let (digits, power) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, power) = power.strip_prefix('-').map_or(('+', power), |power| ('-', power));
    format!("{digits}e{sign}{power:0>2}")
}

/// The word for a value's kind in messages.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Whether a value counts as true: everything but zero, `false`, null, and what is empty.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// The order of two values of one kind. Errors: they cannot be compared.
pub fn compare(a: &Value, b: &Value) -> Result<Ordering, String> {
    let order = match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64().partial_cmp(&b.as_f64()),
        },
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        _ => None,
    };
    order.ok_or_else(|| format!("{} and {} cannot be compared", kind(a), kind(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_as_go_writes_them() {
        for (written, text_of) in
            [("007", "7"), ("-0x1f", "-31"), ("1_000", "1000"), (".5", "0.5"), ("1e-7", "1e-07"), ("2.50", "2.5")]
        {
            assert_eq!(number(written).as_ref().map(text).as_deref(), Some(text_of), "{written}");
        }
        for bad in ["", "1x", "e3", "nan", "inf", "1e999", "0xg"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        assert_eq!(text(&json!([null, { "a": [1, true] }])), "[<nil> map[a:[1 true]]]");
    }

    #[test]
    fn emptiness_is_false() {
        for (value, is) in [(json!(0), false), (json!(0.5), true), (json!(""), false), (json!([0]), true)] {
            assert_eq!(is_true(&value), is, "{value}");
        }
    }
}
