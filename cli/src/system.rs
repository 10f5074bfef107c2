//! Commands on the engine itself.

use crate::args::{Flag, Parsed};
use crate::listing::filled;
use crate::{Entry, Failure, Globals, Outcome, described, emit};
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
        None => {
            emit(&described::info(&info))?;
            // As docker does, beside the output.
            info["Warnings"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .for_each(|text| complain!("{text}"));
            Ok(0)
        }
    }
}

/// Templates may also name the parts `Client` and `Server` of docker's document: here both are the library.
fn version(_: &Globals, parsed: &Parsed) -> Outcome {
    let version = document(&coracle::version())?;
    let Some(format) = parsed.last("format") else {
        return emit(&described::version(&version)).map(|()| 0);
    };
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
