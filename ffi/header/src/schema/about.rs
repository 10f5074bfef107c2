//! Descriptions of members that have no comment of their own in the source: those of query documents.

use serde_json::Value;
use std::collections::BTreeSet;
use std::error::Error;

/// The document, the member, and its description.
const MEMBERS: &[(&str, &str, &str)] = &[
    ("container-attach-query", "stderr", "Whether standard error is attached; true."),
    ("container-attach-query", "stdin", "Whether standard input is attached; false."),
    ("container-attach-query", "stdout", "Whether standard output is attached; true."),
    ("container-attach-query", "wait", "Whether the call waits for the start of a container that does not run; false."),
    ("container-commit-query", "author", "The author in the image's configuration."),
    ("container-commit-query", "changes", "Instructions of a build file that change the image's configuration."),
    ("container-commit-query", "comment", "The comment in the image's history."),
    ("container-commit-query", "pause", "Whether the container is frozen meanwhile; true."),
    ("container-commit-query", "repo", "The new image's name; empty: none."),
    ("container-commit-query", "tag", "The new image's tag; empty: latest."),
    ("container-list-query", "all", "Whether containers that do not run are listed too; false."),
    ("container-list-query", "before", "Only containers that are older than this one, by id or name."),
    ("container-list-query", "filters", "Only containers that fit; the names of filters are those of the Docker API."),
    (
        "container-list-query",
        "limit",
        "Only this many of the newest containers, those that do not run among them; 0: all.",
    ),
    ("container-list-query", "since", "Only containers that are newer than this one, by id or name."),
    ("container-list-query", "size", "Whether sizes are measured; false."),
    ("container-logs-query", "details", "Whether each line has its labels and variables; false."),
    ("container-logs-query", "follow", "Whether the stream goes on with new lines until the container ends; false."),
    ("container-logs-query", "since", "Only lines from this time on: seconds since 1970, with decimals; 0: all."),
    (
        "container-logs-query",
        "stderr",
        "Whether there are lines of standard error; true, unless stdout alone is named.",
    ),
    (
        "container-logs-query",
        "stdout",
        "Whether there are lines of standard output; true, unless stderr alone is named.",
    ),
    ("container-logs-query", "tail", "The number of last lines; \"all\" or a number below 0: all."),
    ("container-logs-query", "timestamps", "Whether each line begins with its time, RFC 3339; false."),
    (
        "container-put-archive-query",
        "copyUIDGID",
        "Whether files keep the archive's owners; else the target's owner has them; true.",
    ),
    (
        "container-put-archive-query",
        "noOverwriteDirNonDir",
        "Whether a file that would take the place of a directory, or the reverse, is an error; false.",
    ),
    (
        "container-stats-query",
        "one-shot",
        "Whether the first sample comes at once, without values of one before it; false.",
    ),
    ("container-stats-query", "stream", "Whether samples go on, one a second; true."),
    ("container-stop", "grace_ms", "Milliseconds from the signal to SIGKILL; below 0: for ever."),
    ("container-stop", "signal", "The signal by name or number; empty: the container's, or SIGTERM."),
    ("disk-usage-query", "type", "The kinds of objects that are measured: container, image, volume; none: all."),
    ("events-query", "after", "Only events after the one with this number."),
    ("events-query", "filters", "Only events that fit; the names of filters are those of the Docker API."),
    ("events-query", "since", "Only events from this time on: seconds since 1970, with decimals."),
    ("events-query", "until", "The stream ends at this time: seconds since 1970, with decimals."),
    ("http-serve-options", "Addresses", "Addresses to listen on: unix:///PATH, tcp://ADDRESS:PORT."),
    (
        "http-serve-options",
        "HostNames",
        "Names by which requests over TCP may call this server, besides its addresses.",
    ),
    ("http-serve-options", "InsecureTcp", "Whether TCP without TLS is allowed; false."),
    ("image-import-query", "changes", "Instructions of a build file that change the image's configuration."),
    ("image-import-query", "message", "The comment in the image's history."),
    ("image-import-query", "repo", "The new image's name; empty: none."),
    ("image-import-query", "tag", "The new image's tag; empty: latest."),
    ("image-import-query", "url", "The address that the archive is fetched from; empty: the caller gives it."),
    ("image-list-query", "all", "Whether images that others were built on are listed too; false."),
    ("image-list-query", "containers", "Whether the containers of each image are counted; false."),
    ("image-list-query", "digests", "Taken without an effect: digests are always there."),
    ("image-list-query", "filter", "Only images of this name; the older form of the filter reference."),
    ("image-list-query", "filters", "Only images that fit; the names of filters are those of the Docker API."),
    ("image-list-query", "shared-size", "Whether the bytes that images share are counted; false."),
    ("image-search-query", "filters", "Only images that fit: is-official, is-automated, stars."),
    ("image-search-query", "limit", "The most results, 1 to 100; 25."),
    ("image-search-query", "term", "The words; before a slash the registry's name."),
    ("network-create", "EnableIPv4", "Nothing but true is taken: networks without IPv4 are not supported."),
    ("network-create", "Scope", "Empty or local."),
    ("network-list-query", "filters", "Only networks that fit; the names of filters are those of the Docker API."),
    ("plugin-list-query", "filters", "Only plugins that fit: capability, enabled."),
    ("volume-list-query", "filters", "Only volumes that fit; the names of filters are those of the Docker API."),
];

/// Gives the members of a document their descriptions.
///
/// Errors: a member is not there, or it has a comment already.
pub fn describe(document: &str, schema: &mut Value) -> Result<(), Box<dyn Error>> {
    for (_, member, text) in MEMBERS.iter().filter(|(of, _, _)| *of == document) {
        let place = &mut schema["properties"][*member];
        if !place.is_object() || place.get("description").is_some() {
            return Err(format!("{document}: the description of {member} is not needed").into());
        }
        place["description"] = (*text).into();
    }
    Ok(())
}

/// The members of a document, at any depth, that have no description.
pub fn undescribed(schema: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let inner: Vec<&Value> = match schema {
        Value::Object(members) => members.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    inner.into_iter().for_each(|value| names.append(&mut undescribed(value)));
    for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if member.is_object() && member.get("description").is_none() {
            names.insert(name.clone());
        }
    }
    names
}
