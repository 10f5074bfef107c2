//! Commands on the engine itself.

use crate::args::{Flag, Parsed};
use crate::listing::filled;
use crate::{Entry, Failure, Globals, Outcome, emit};
use serde_json::{Value, json};

pub const ENTRIES: &[Entry] = &[
    Entry::new("info", "[FLAGS]", "The engine, its root and its host", FORMAT, info),
    Entry::new("version", "[FLAGS]", "Versions of the library and of the API", FORMAT, version),
];

const FORMAT: &[Flag] =
    &[Flag::value(&["format", "f"], "FORMAT", "json (one line), or a template: {{.Field}}, {{json .Field}}")];

fn document(value: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|e| Failure::Here(e.to_string()))
}

fn info(globals: &Globals, parsed: &Parsed) -> Outcome {
    let info = document(&globals.engine()?.info()?)?;
    match parsed.last("format") {
        Some(format) => emit(&format!("{}\n", filled(format, &info)?)).map(|()| 0),
        None => lines(&info),
    }
}

/// Templates may also name the parts `Client` and `Server` of docker's document: here both are the library.
fn version(_: &Globals, parsed: &Parsed) -> Outcome {
    let version = document(&coracle::version())?;
    let Some(format) = parsed.last("format") else { return lines(&version) };
    let mut whole = version.clone();
    if let Some(fields) = whole.as_object_mut() {
        let mut client = version.clone();
        client["DefaultAPIVersion"] = version["ApiVersion"].clone();
        client["Context"] = json!("default");
        fields.insert("Client".into(), client);
        fields.insert("Server".into(), version);
    }
    emit(&format!("{}\n", filled(format, &whole)?)).map(|()| 0)
}

/// One line for each field that has a value.
fn lines(value: &Value) -> Outcome {
    let mut text = String::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Null => {}
            Value::String(value) if value.is_empty() => {}
            Value::String(value) => text.push_str(&format!("{key}: {value}\n")),
            value => text.push_str(&format!("{key}: {value}\n")),
        }
    }
    emit(&text).map(|()| 0)
}
