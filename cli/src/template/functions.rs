//! The functions of templates: those of Go that docker's pages use, and docker's own.

use super::{printf, values};
use serde_json::Value;
use std::cmp::Ordering;

type Answer = Result<Value, String>;

/// A function: its name, how many arguments it takes at least and at most, and its work.
struct Function {
    name: &'static str,
    least: usize,
    most: usize,
    work: fn(&[Value]) -> Answer,
}

const fn function(name: &'static str, least: usize, most: usize, work: fn(&[Value]) -> Answer) -> Function {
    Function { name, least, most, work }
}

/// As many arguments as one likes.
const ANY: usize = usize::MAX;

const FUNCTIONS: &[Function] = &[
    function("eq", 2, ANY, |all| any_equal(all).map(Value::from)),
    function("ge", 2, 2, |all| ordered(all, |order| order != Ordering::Less)),
    function("gt", 2, 2, |all| ordered(all, |order| order == Ordering::Greater)),
    function("index", 1, ANY, index),
    function("join", 2, 2, join),
    function("json", 1, 1, |all| Ok(all[0].to_string().into())),
    function("le", 2, 2, |all| ordered(all, |order| order != Ordering::Greater)),
    function("len", 1, 1, length),
    function("lower", 1, 1, |all| Ok(text("lower", &all[0])?.to_lowercase().into())),
    function("lt", 2, 2, |all| ordered(all, |order| order == Ordering::Less)),
    function("ne", 2, 2, |all| values::compare(&all[0], &all[1]).map(|order| (order != Ordering::Equal).into())),
    function("pad", 3, 3, pad),
    function("print", 0, ANY, |all| Ok(printf::print(all).into())),
    function("printf", 1, ANY, |all| Ok(printf::printf(text("printf", &all[0])?, &all[1..]).into())),
    function("println", 0, ANY, |all| {
        Ok(format!("{}\n", all.iter().map(values::text).collect::<Vec<_>>().join(" ")).into())
    }),
    function("slice", 1, 3, slice),
    function("split", 2, 2, split),
    function("title", 1, 1, |all| Ok(title(text("title", &all[0])?).into())),
    function("truncate", 2, 2, truncate),
    function("upper", 1, 1, |all| Ok(text("upper", &all[0])?.to_uppercase().into())),
];

/// Whether a function has that name.
pub fn is_one(name: &str) -> bool {
    names().any(|have| have == name)
}

/// The names of all functions.
pub fn names() -> impl Iterator<Item = &'static str> {
    ["and", "or", "not"].into_iter().chain(FUNCTIONS.iter().map(|function| function.name))
}

/// Whether a function leaves the title of a column as it is.
pub fn leaves_titles(name: &str) -> bool {
    matches!(name, "json" | "title" | "lower" | "upper" | "truncate")
}

/// Calls a function. Errors: a sentence for the user.
pub fn call(name: &str, arguments: &[Value]) -> Answer {
    let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
        return Err(format!("{name} needs arguments"));
    };
    let count = arguments.len();
    if count < function.least || count > function.most {
        let needed = match (function.least, function.most) {
            (1, 1) => "1 argument".to_owned(),
            (least, most) if least == most => format!("{least} arguments"),
            (least, ANY) => format!("at least {least}"),
            (least, most) => format!("{least} to {most} arguments"),
        };
        return Err(format!("{name} needs {needed}, not {count}"));
    }
    (function.work)(arguments)
}

fn text<'a>(function: &str, value: &'a Value) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("{function} needs a text, not {}", values::kind(value)))
}

/// Whether the first equals one of the others.
fn any_equal(all: &[Value]) -> Result<bool, String> {
    for other in &all[1..] {
        if values::compare(&all[0], other).map_err(|text| format!("eq: {text}"))? == Ordering::Equal {
            return Ok(true);
        }
    }
    Ok(false)
}

fn ordered(all: &[Value], is: fn(Ordering) -> bool) -> Answer {
    values::compare(&all[0], &all[1]).map(|order| is(order).into())
}

/// A position that a value names.
fn position(function: &str, value: &Value) -> Result<usize, String> {
    let position = value.as_u64().and_then(|position| usize::try_from(position).ok());
    position.ok_or_else(|| format!("{function}: {value} is not a position"))
}

/// The entry of a list or an object, by its positions or keys one after the other.
fn index(all: &[Value]) -> Answer {
    let mut value = all[0].clone();
    for key in &all[1..] {
        let beyond = |at: usize, len: usize| format!("index: {at} is beyond the {len} entries");
        value = match (&value, key) {
            (Value::Array(items), key) => {
                let at = position("index", key)?;
                items.get(at).cloned().ok_or_else(|| beyond(at, items.len()))?
            }
            (Value::Object(fields), Value::String(name)) => match fields.get(name) {
                Some(value) => value.clone(),
                // Objects of texts are labels and the like: a key that is not there has an empty text, as in Go.
                None if fields.values().all(Value::is_string) => "".into(),
                None => Value::Null,
            },
            (Value::String(text), key) => {
                let at = position("index", key)?;
                text.as_bytes().get(at).map(|byte| (*byte).into()).ok_or_else(|| beyond(at, text.len()))?
            }
            (Value::Object(_), key) => return Err(format!("index: {} is not a key", values::kind(key))),
            (other, _) => return Err(format!("index: {} has no entries", values::kind(other))),
        };
    }
    Ok(value)
}

fn length(all: &[Value]) -> Answer {
    match &all[0] {
        Value::String(text) => Ok(text.len().into()),
        Value::Array(items) => Ok(items.len().into()),
        Value::Object(fields) => Ok(fields.len().into()),
        other => Err(format!("len: {} has no length", values::kind(other))),
    }
}

fn join(all: &[Value]) -> Answer {
    let items = match &all[0] {
        Value::Array(items) => items.as_slice(),
        Value::Null => &[],
        other => return Err(format!("join needs a list, not {}", values::kind(other))),
    };
    let texts: Vec<String> = items.iter().map(values::text).collect();
    Ok(texts.join(text("join", &all[1])?).into())
}

fn split(all: &[Value]) -> Answer {
    let (whole, between) = (text("split", &all[0])?, text("split", &all[1])?);
    match between {
        "" => Ok(whole.chars().map(String::from).collect()),
        between => Ok(whole.split(between).collect()),
    }
}

fn slice(all: &[Value]) -> Answer {
    let bounds = |len: usize| {
        let begin = all.get(1).map_or(Ok(0), |value| position("slice", value))?;
        let end = all.get(2).map_or(Ok(len), |value| position("slice", value))?;
        let outside = || format!("slice: {begin} to {end} is not inside of {len} entries");
        (begin <= end && end <= len).then_some(begin..end).ok_or_else(outside)
    };
    match &all[0] {
        Value::String(text) => {
            let part = text.get(bounds(text.len())?);
            part.map(Value::from).ok_or_else(|| "slice: a position is inside of a character".to_owned())
        }
        Value::Array(items) => Ok(items[bounds(items.len())?].to_vec().into()),
        other => Err(format!("slice: {} has no entries", values::kind(other))),
    }
}

/// Blanks before and behind a text that is not empty.
fn pad(all: &[Value]) -> Answer {
    let source = text("pad", &all[0])?;
    let (before, behind) = (position("pad", &all[1])?, position("pad", &all[2])?);
    match source {
        "" => Ok("".into()),
        _ if before.max(behind) > printf::WIDEST => Err(format!("pad: more than {} blanks", printf::WIDEST)),
        source => Ok(format!("{}{source}{}", " ".repeat(before), " ".repeat(behind)).into()),
    }
}

fn truncate(all: &[Value]) -> Answer {
    let most = position("truncate", &all[1])?;
    Ok(text("truncate", &all[0])?.chars().take(most).collect::<String>().into())
}

/// Each word with a capital.
fn title(text: &str) -> String {
    let mut inside = false;
    let capital = |c: char| {
        let was_inside = std::mem::replace(&mut inside, c.is_alphanumeric() || c == '_');
        if was_inside { c.to_string() } else { c.to_uppercase().collect() }
    };
    text.chars().map(capital).collect()
}
