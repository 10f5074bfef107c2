//! Commands on volumes.

use crate::args::{Flag, Parsed};
use crate::containers::filters;
use crate::listing::{Listing, joined, row};
use crate::template::Subject;
use crate::{Entry, Failure, Globals, Outcome, each, emit};
use coracle::model::*;
use serde_json::json;

pub const ENTRIES: &[Entry] = &[
    Entry::new("volume create", "[FLAGS] [NAME]", "Make a volume", CREATE, create),
    Entry::new("volume ls", "[FLAGS]", "List volumes", LIST, list),
    Entry::new("volume rm", "[FLAGS] VOLUME...", "Remove volumes", REMOVE, remove),
];

const CREATE: &[Flag] = &[
    Flag::value(&["driver", "d"], "NAME", "the driver (default local)"),
    Flag::value(&["opt", "o"], "KEY=VALUE", "an option of the driver: type, device, o"),
    Flag::value(&["label"], "KEY=VALUE", "a label"),
];
const LIST: &[Flag] = &[
    Flag::value(&["filter", "f"], "NAME=VALUE", "only those that match"),
    Flag::switch(&["quiet", "q"], "only names"),
    Flag::value(
        &["format"],
        "FORMAT",
        "table, json, table TEMPLATE or a template; fields: Driver Name Scope Mountpoint Labels, and {{.Label \"name\"}}",
    ),
];
const VOLUMES: Listing = Listing {
    titles: &[
        ("Driver", "DRIVER"),
        ("Name", "VOLUME NAME"),
        ("Scope", "SCOPE"),
        ("Mountpoint", "MOUNTPOINT"),
        ("Labels", "LABELS"),
    ],
    usual: "{{.Driver}}\t{{.Name}}",
};
const REMOVE: &[Flag] =
    &[Flag::switch(&["force", "f"], "no error where there is none, or where the plugin of a volume fails")];

/// The arguments, at least one of them.
fn some(parsed: &Parsed) -> Result<&[String], Failure> {
    if parsed.rest.is_empty() {
        return Err(Failure::Usage("a volume is needed".into()));
    }
    Ok(&parsed.rest)
}

fn create(globals: &Globals, parsed: &Parsed) -> Outcome {
    let names = &parsed.rest;
    if names.len() > 1 {
        return Err(Failure::Usage("at most one name".into()));
    }
    let pairs = |key: &str| {
        parsed.some(key).map(|all| {
            let pair = |text: String| match text.split_once('=') {
                Some((key, value)) => (key.to_owned(), value.to_owned()),
                None => (text, String::new()),
            };
            all.into_iter().map(pair).collect::<StringMap>()
        })
    };
    let body = CreateVolume {
        name: names.first().cloned().unwrap_or_default(),
        driver: parsed.last("driver").unwrap_or_default().into(),
        driver_opts: pairs("opt"),
        labels: pairs("label"),
    };
    let volume = globals.engine()?.volume_create(&body)?;
    emit(&format!("{}\n", volume.name)).map(|()| 0)
}

fn list(globals: &Globals, parsed: &Parsed) -> Outcome {
    if !parsed.rest.is_empty() {
        return Err(Failure::Usage("volume ls takes no arguments".into()));
    }
    let list = globals.engine()?.volume_list(&ListVolumes { filters: filters(parsed)? })?;
    if parsed.has("quiet") {
        return emit(&list.volumes.iter().map(|v| format!("{}\n", v.name)).collect::<String>()).map(|()| 0);
    }
    let subject = |volume: &Volume| {
        let labels = volume.labels.as_ref();
        let document = json!({
            "Driver": volume.driver,
            "Name": volume.name,
            "Scope": volume.scope,
            "Mountpoint": volume.mountpoint,
            "Labels": joined(labels),
        });
        row(document, labels)
    };
    let rows: Vec<Subject> = list.volumes.iter().map(subject).collect();
    emit(&VOLUMES.text(parsed.last("format"), &rows)?).map(|()| 0)
}

fn remove(globals: &Globals, parsed: &Parsed) -> Outcome {
    let names = some(parsed)?;
    let engine = globals.engine()?;
    if !parsed.has("force") {
        return each(names, |name| engine.volume_remove(name).map(|()| name.to_owned()));
    }
    each(names, |name| match engine.volume_remove_by_force(name) {
        Err(error) if error.kind() == coracle::ErrorKind::NotFound => Ok(name.to_owned()),
        other => other.map(|()| name.to_owned()),
    })
}
