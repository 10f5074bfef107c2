//! Commands on volumes.

use crate::args::{Command, Flag, Parsed};
use crate::containers::filters;
use crate::format::table;
use crate::{Entry, Failure, Globals, Outcome, each, emit};
use coracle::model::*;

pub const ENTRIES: &[Entry] = &[Entry {
    command: Command {
        name: "volume",
        usage: "create [FLAGS] [NAME] | ls [FLAGS] | inspect NAME... | rm [FLAGS] NAME...",
        about: "Make, list and remove volumes",
        flags: &[
            Flag::value(&["driver", "d"], "NAME", "create: the driver (default local)"),
            Flag::value(&["opt", "o"], "KEY=VALUE", "create: an option of the driver: type, device, o"),
            Flag::value(&["label"], "KEY=VALUE", "create: a label"),
            Flag::value(&["filter", "f"], "NAME=VALUE", "ls: only those that match"),
            Flag::switch(&["quiet", "q"], "ls: only names"),
            Flag::switch(&["force"], "rm: no error where there is none"),
        ],
        stops_at_first: false,
    },
    run: volume,
}];

fn volume(globals: &Globals, parsed: &Parsed) -> Outcome {
    let Some((what, names)) = parsed.rest.split_first() else {
        return Err(Failure::Usage("create, ls, inspect or rm is needed".into()));
    };
    match what.as_str() {
        "create" => create(globals, parsed, names),
        "ls" | "list" if names.is_empty() => list(globals, parsed),
        "inspect" | "rm" | "remove" if names.is_empty() => Err(Failure::Usage("a volume is needed".into())),
        "inspect" => inspect(globals, names),
        "rm" | "remove" => remove(globals, parsed, names),
        other => Err(Failure::Usage(format!("'volume {other}' is not a command"))),
    }
}

fn create(globals: &Globals, parsed: &Parsed, names: &[String]) -> Outcome {
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
    let list = globals.engine()?.volume_list(&ListVolumes { filters: filters(parsed)? })?;
    if parsed.has("quiet") {
        return emit(&list.volumes.iter().map(|v| format!("{}\n", v.name)).collect::<String>()).map(|()| 0);
    }
    let rows: Vec<Vec<String>> = list.volumes.into_iter().map(|v| vec![v.driver, v.name]).collect();
    emit(&table(&["DRIVER", "VOLUME NAME"], &rows)).map(|()| 0)
}

fn inspect(globals: &Globals, names: &[String]) -> Outcome {
    let engine = globals.engine()?;
    let mut found = Vec::new();
    for name in names {
        found.push(engine.volume_inspect(name)?);
    }
    let text = serde_json::to_string_pretty(&found).map_err(|e| Failure::Here(e.to_string()))?;
    emit(&format!("{text}\n")).map(|()| 0)
}

fn remove(globals: &Globals, parsed: &Parsed, names: &[String]) -> Outcome {
    let engine = globals.engine()?;
    each(names, |name| match engine.volume_remove(name) {
        Err(error) if parsed.has("force") && error.kind() == coracle::ErrorKind::NotFound => Ok(name.to_owned()),
        other => other.map(|()| name.to_owned()),
    })
}
