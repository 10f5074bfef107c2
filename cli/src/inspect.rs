//! `inspect`, and its like below nouns: everything about things, as JSON or by a template.

use crate::args::{Flag, Parsed};
use crate::listing::filled;
use crate::{Entry, Failure, Globals, Outcome, emit};
use coracle::{Engine, Error, ErrorKind};
use serde::Serialize;
use serde_json::Value;

pub const ANY: &[Entry] = &[Entry::new(
    "inspect",
    "[FLAGS] NAME...",
    "Everything about containers, images, networks or volumes",
    INSPECT,
    inspect,
)];
pub const NETWORKS: &[Entry] =
    &[Entry::new("network inspect", "[FLAGS] NETWORK...", "Everything about networks", OF_A_NOUN, of_networks)];
pub const VOLUMES: &[Entry] =
    &[Entry::new("volume inspect", "[FLAGS] VOLUME...", "Everything about volumes", OF_A_NOUN, of_volumes)];

const FORMAT: Flag =
    Flag::value(&["format", "f"], "FORMAT", "json (one line), or a template: {{.Field}}, {{json .Field}}");
const INSPECT: &[Flag] = &[
    Flag::switch(&["size", "s"], "sizes, too"),
    Flag::value(&["type"], "KIND", "container, image, network or volume"),
    FORMAT,
];
pub const OF_A_NOUN: &[Flag] = &[FORMAT];

/// The kinds of things, in the order in which a name is looked up.
const KINDS: &[&str] = &["container", "image", "network", "volume"];

fn inspect(globals: &Globals, parsed: &Parsed) -> Outcome {
    let kinds = match parsed.last("type") {
        None => KINDS,
        Some(kind) => match KINDS.iter().position(|have| *have == kind) {
            Some(at) => &KINDS[at..=at],
            None => {
                let text = format!("invalid value {kind:?} for --type: container, image, network or volume");
                return Err(Failure::Usage(text));
            }
        },
    };
    shown(globals, parsed, kinds)
}

fn of_networks(globals: &Globals, parsed: &Parsed) -> Outcome {
    shown(globals, parsed, &["network"])
}

fn of_volumes(globals: &Globals, parsed: &Parsed) -> Outcome {
    shown(globals, parsed, &["volume"])
}

/// Prints the documents of all names that are found; an error of one does not hide the others.
pub fn shown(globals: &Globals, parsed: &Parsed, kinds: &[&str]) -> Outcome {
    if parsed.rest.is_empty() {
        let what = if kinds.len() == 1 { kinds[0] } else { "name" };
        let article = if what == "image" { "an" } else { "a" };
        return Err(Failure::Usage(format!("{article} {what} is needed")));
    }
    let engine = globals.engine()?;
    let (mut found, mut code) = (Vec::new(), 0);
    for name in &parsed.rest {
        match look_up(&engine, name, kinds, parsed.has("size")) {
            Ok(document) => found.push(document),
            Err(error) => {
                complain!("coracle: {error}");
                code = 1;
            }
        }
    }
    match parsed.last("format") {
        Some("json") => emit(&format!("{}\n", Value::from(found)))?,
        Some(format) => {
            for document in &found {
                emit(&format!("{}\n", filled(format, document)?))?;
            }
        }
        None => emit(&format!("{:#}\n", Value::from(found)))?,
    }
    Ok(code)
}

fn look_up(engine: &Engine, name: &str, kinds: &[&str], sizes: bool) -> coracle::Result<Value> {
    let mut last = None;
    for kind in kinds {
        let found = match *kind {
            "container" => engine.container_inspect(name, sizes).and_then(document),
            "image" => engine.image_inspect(name).and_then(document),
            "network" => engine.network_inspect(name).and_then(document),
            "plugin" => engine.plugin_inspect(name).and_then(document),
            _ => engine.volume_inspect(name).and_then(document),
        };
        match found {
            Err(error) if error.kind() == ErrorKind::NotFound => last = Some(error),
            other => return other,
        }
    }
    let nothing = || Error::not_found(format!("No such object: {name}"));
    Err(last.filter(|_| kinds.len() == 1).unwrap_or_else(nothing))
}

fn document(value: impl Serialize) -> coracle::Result<Value> {
    serde_json::to_value(value).map_err(|e| Error::internal(e.to_string()))
}
