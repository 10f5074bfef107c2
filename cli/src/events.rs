//! `events`: a line an event.

use crate::args::{Command, Flag, Parsed};
use crate::containers::{filters, moment};
use crate::format::short;
use crate::listing::{Listing, row};
use crate::{Entry, Failure, Globals, Outcome, emit, terminal, time};
use coracle::model::{Event, EventQuery};
use serde_json::Value;

pub const ENTRIES: &[Entry] = &[Entry {
    command: Command {
        name: "events",
        usage: "[FLAGS]",
        about: "Events of this root, caused by any program",
        flags: &[
            Flag::value(&["since"], "TIME", "from then on: unix seconds, RFC 3339, or 10m for ten minutes ago"),
            Flag::value(&["until"], "TIME", "end at that time"),
            Flag::value(&["filter", "f"], "NAME=VALUE", "only those that match"),
            Flag::switch(&["no-trunc"], "on a terminal: the whole line that a pipe gets"),
            Flag::value(
                &["format"],
                "FORMAT",
                "json, or a template; fields: Type Action Actor.ID Actor.Attributes time timeNano, and for containers and \
                 images status id from",
            ),
        ],
        stops_at_first: false,
    },
    run: events,
}];

/// The names of filters.
const FILTERS: &[&str] = &["container", "daemon", "event", "image", "label", "network", "plugin", "type", "volume"];

/// Events have no table: their end is not known.
const EVENTS: Listing = Listing { titles: &[], usual: "" };

fn events(globals: &Globals, parsed: &Parsed) -> Outcome {
    let format = parsed.last("format");
    if format.is_some_and(|format| format.starts_with("table")) {
        return Err(Failure::Usage("--format: events have no table".into()));
    }
    // A wrong template is reported before an event comes.
    EVENTS.text(format, &[])?;
    let filters = filters(parsed)?;
    // The engine passes over names that it does not know, as dockerd does: the command refuses them, as its lists do.
    if let Some(name) = filters.keys().find(|name| !FILTERS.contains(&name.as_str())) {
        return Err(Failure::Here(format!("Invalid filter '{name}'")));
    }
    let query = EventQuery {
        since_ns: moment(parsed, "since")?,
        until_ns: moment(parsed, "until")?,
        filters,
        ..EventQuery::default()
    };
    let for_people = terminal::stdout_is_one() && !parsed.has("no-trunc");
    let mut events = globals.engine()?.events(&query)?;
    while let Some((_, event)) = events.next(None, None)? {
        let text = match format {
            Some(format) => EVENTS.text(Some(format), &[row(document(&event, format)?, None)])?,
            None if for_people => format!("{}\n", short_line(&event, terminal::has_colours())),
            None => format!("{}\n", line(&event)),
        };
        emit(&text)?;
    }
    Ok(0)
}

/// An event for a template: fields that only some kinds of objects have are empty texts there, as in docker's command. In JSON they are
/// absent.
fn document(event: &Event, format: &str) -> Result<Value, Failure> {
    let mut document = serde_json::to_value(event).map_err(|e| Failure::Here(e.to_string()))?;
    if let Some(fields) = document.as_object_mut().filter(|_| format != "json") {
        for name in ["status", "id", "from"] {
            fields.entry(name).or_insert_with(|| "".into());
        }
    }
    Ok(document)
}

/// An event as docker prints it.
fn line(event: &Event) -> String {
    let attributes: Vec<String> = event.actor.attributes.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let attributes = if attributes.is_empty() { String::new() } else { format!(" ({})", attributes.join(", ")) };
    format!("{} {} {} {}{attributes}", time::rfc3339(event.time_nano), event.kind, event.action, event.actor.id)
}

/// The attributes that a short line shows: those of the event, not those of its object.
const SHOWN: &[&str] = &["image", "exitCode", "signal", "oldName", "container", "driver", "type", "reclaimed"];

/// An event for people: the time to a millisecond, the name in place of the id, the attributes that describe the event.
fn short_line(event: &Event, colours: bool) -> String {
    let attributes = &event.actor.attributes;
    let named = attributes.get("name").filter(|name| !name.is_empty() && !name.starts_with("sha256:"));
    let object = named.cloned().unwrap_or_else(|| match event.actor.id.len() {
        64.. => short(&event.actor.id),
        _ => event.actor.id.clone(),
    });
    let of_an_id = |value: &String| if value.len() == 64 { short(value) } else { value.clone() };
    let shown = SHOWN.iter().filter_map(|key| Some((key, attributes.get(*key)?)));
    let shown: String = shown.map(|(key, value)| format!("  {key}={}", of_an_id(value))).collect();
    let clock = time::rfc3339(event.time_nano);
    let action = format!("{:<12}", event.action);
    let action = match (colours, colour(&event.action)) {
        (true, Some(code)) => format!("\x1b[{code}m{action}\x1b[0m"),
        _ => action,
    };
    format!("{} {:<9} {action} {object}{shown}", clock[..23].replace('T', " "), event.kind)
}

/// Green for what begins, red for what ends in an unusual way, yellow for other ends.
fn colour(action: &str) -> Option<u8> {
    match action.split(':').next().unwrap_or_default() {
        "start" | "unpause" | "create" | "pull" | "load" => Some(32),
        "oom" | "kill" | "exec_die" => Some(31),
        "die" | "stop" | "destroy" | "delete" | "untag" | "pause" | "prune" => Some(33),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle::model::Actor;

    #[test]
    fn lines_for_people_and_for_programs() {
        let attributes = [("image", "busybox"), ("name", "boat"), ("exitCode", "3"), ("com.example.label", "x")];
        let attributes = attributes.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let event = Event {
            kind: "container".into(),
            action: "die".into(),
            actor: Actor { id: "0123456789abcdef".repeat(4), attributes },
            time_nano: 1_700_000_000_123_456_789,
            ..Event::default()
        };
        assert_eq!(
            short_line(&event, false),
            "2023-11-14 22:13:20.123 container die          boat  image=busybox  exitCode=3"
        );
        assert!(short_line(&event, true).contains("\x1b[33mdie         \x1b[0m boat"));
        assert!(line(&event).starts_with("2023-11-14T22:13:20.123456789Z container die 0123456789abcdef"));
        assert!(line(&event).ends_with("(com.example.label=x, exitCode=3, image=busybox, name=boat)"));
    }
}
