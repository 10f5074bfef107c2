//! Commands on the engine itself.

use crate::args::{Command, Flag, Parsed};
use crate::containers::{filters, moment};
use crate::format::fill;
use crate::{Entry, Failure, Globals, Outcome, emit, time};
use coracle::model::{Event, EventQuery};
use serde_json::Value;

pub const ENTRIES: &[Entry] = &[
    Entry {
        command: Command {
            name: "events",
            usage: "[FLAGS]",
            about: "Events of this root, caused by any program",
            flags: &[
                Flag::value(&["since"], "TIME", "from then on: unix seconds, RFC 3339, or 10m for ten minutes ago"),
                Flag::value(&["until"], "TIME", "end at that time"),
                Flag::value(&["filter", "f"], "NAME=VALUE", "only those that match"),
                Flag::value(&["format"], "TEMPLATE", "{{.Field}} or {{json .}}"),
            ],
            stops_at_first: false,
        },
        run: events,
    },
    Entry {
        command: Command {
            name: "info",
            usage: "[FLAGS]",
            about: "The engine, its root and its host",
            flags: &[Flag::value(&["format", "f"], "TEMPLATE", "{{.Field}} or {{json .}}")],
            stops_at_first: false,
        },
        run: info,
    },
    Entry {
        command: Command {
            name: "version",
            usage: "[FLAGS]",
            about: "Versions of the library and of the API",
            flags: &[Flag::value(&["format", "f"], "TEMPLATE", "{{.Field}} or {{json .}}")],
            stops_at_first: false,
        },
        run: version,
    },
];

fn events(globals: &Globals, parsed: &Parsed) -> Outcome {
    let query = EventQuery {
        since_ns: moment(parsed, "since")?,
        until_ns: moment(parsed, "until")?,
        filters: filters(parsed)?,
        ..EventQuery::default()
    };
    let mut events = globals.engine()?.events(&query)?;
    while let Some((_, event)) = events.next(None, None)? {
        let line = match parsed.last("format") {
            Some(template) => fill(template, &document(&event)?).map_err(Failure::Usage)?,
            None => line(&event),
        };
        emit(&format!("{line}\n"))?;
    }
    Ok(0)
}

/// An event as docker prints it.
fn line(event: &Event) -> String {
    let attributes: Vec<String> = event.actor.attributes.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let attributes = if attributes.is_empty() { String::new() } else { format!(" ({})", attributes.join(", ")) };
    format!("{} {} {} {}{attributes}", time::rfc3339(event.time_nano), event.kind, event.action, event.actor.id)
}

fn document(value: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|e| Failure::Here(e.to_string()))
}

fn info(globals: &Globals, parsed: &Parsed) -> Outcome {
    let info = document(&globals.engine()?.info()?)?;
    show(parsed, &info)
}

fn version(_: &Globals, parsed: &Parsed) -> Outcome {
    let version = document(&coracle::version())?;
    show(parsed, &version)
}

/// One line for each field, or the template.
fn show(parsed: &Parsed, value: &Value) -> Outcome {
    if let Some(template) = parsed.last("format") {
        return emit(&format!("{}\n", fill(template, value).map_err(Failure::Usage)?)).map(|()| 0);
    }
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
