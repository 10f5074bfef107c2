//! `ps`: the list of containers.

use crate::args::{Flag, Parsed};
use crate::containers::filters;
use crate::format::{cut, short, size};
use crate::listing::{Listing, joined, row};
use crate::template::{Subject, quoted};
use crate::{Entry, Failure, Globals, Outcome, emit, ports, time};
use coracle::model::{ContainerSummary, ListContainers};
use serde_json::json;

pub const ENTRIES: &[Entry] = &[Entry::new("ps", "[FLAGS]", "List containers", PS, ps)];

const PS: &[Flag] = &[
    Flag::switch(&["all", "a"], "those that do not run, too"),
    Flag::switch(&["quiet", "q"], "only ids"),
    Flag::value(&["filter", "f"], "NAME=VALUE", "only those that match"),
    Flag::value(&["last", "n"], "N", "the newest N, in any state"),
    Flag::switch(&["latest", "l"], "the newest, in any state"),
    Flag::switch(&["no-trunc"], "whole ids and commands"),
    Flag::switch(&["size", "s"], "sizes, too"),
    Flag::value(
        &["format"],
        "FORMAT",
        "table, json, table TEMPLATE or a template; fields: ID Image Command CreatedAt RunningFor Status State Ports Names \
         Labels Size Mounts LocalVolumes Networks, and {{.Label \"name\"}}",
    ),
];

/// The list without sizes, and with them.
pub const CONTAINERS: Listing = Listing {
    titles: &[
        ("ID", "CONTAINER ID"),
        ("Image", "IMAGE"),
        ("Command", "COMMAND"),
        ("CreatedAt", "CREATED AT"),
        ("RunningFor", "CREATED"),
        ("Status", "STATUS"),
        ("State", "STATE"),
        ("Ports", "PORTS"),
        ("Names", "NAMES"),
        ("Labels", "LABELS"),
        ("Size", "SIZE"),
        ("Mounts", "MOUNTS"),
        ("LocalVolumes", "LOCAL VOLUMES"),
        ("Networks", "NETWORKS"),
    ],
    usual: "{{.ID}}\t{{.Image}}\t{{.Command}}\t{{.RunningFor}}\t{{.Status}}\t{{.Ports}}\t{{.Names}}",
};
const WITH_SIZES: Listing = Listing {
    titles: CONTAINERS.titles,
    usual: "{{.ID}}\t{{.Image}}\t{{.Command}}\t{{.RunningFor}}\t{{.Status}}\t{{.Ports}}\t{{.Names}}\t{{.Size}}",
};

fn ps(globals: &Globals, parsed: &Parsed) -> Outcome {
    if !parsed.rest.is_empty() {
        return Err(Failure::Usage("ps takes no arguments".into()));
    }
    let format = parsed.last("format");
    let last = parsed.number("last").map_err(Failure::Usage)?.unwrap_or(0);
    let query = ListContainers {
        all: parsed.has("all"),
        limit: if parsed.has("latest") { 1 } else { last },
        // As in docker: a template that shows sizes has them.
        size: parsed.has("size") || format.is_some_and(|format| format.contains(".Size")),
        filters: filters(parsed)?,
        ..ListContainers::default()
    };
    let list = globals.engine()?.container_list(&query)?;
    let whole = parsed.has("no-trunc");
    if parsed.has("quiet") {
        let ids: String =
            list.iter().map(|c| format!("{}\n", if whole { c.id.clone() } else { short(&c.id) })).collect();
        return emit(&ids).map(|()| 0);
    }
    let rows: Vec<Subject> = list.iter().map(|container| subject(container, whole)).collect();
    let listing = if query.size { WITH_SIZES } else { CONTAINERS };
    emit(&listing.text(format, &rows)?).map(|()| 0)
}

/// A container as the templates name its fields.
pub fn subject(c: &ContainerSummary, whole: bool) -> Subject {
    let names: Vec<&str> = c.names.iter().map(|n| n.trim_start_matches('/')).collect();
    let created = c.created.saturating_mul(1_000_000_000);
    let mounts = c.mounts.iter().map(|mount| if mount.name.is_empty() { &mount.source } else { &mount.name });
    let mounts = mounts.map(|name| if whole { name.clone() } else { cut(name, 15) });
    let written = size(c.size_rw.unwrap_or(0));
    let document = json!({
        "ID": if whole { c.id.clone() } else { short(&c.id) },
        "Image": c.image,
        "Command": if whole { quoted(&c.command) } else { quoted(&cut(&c.command, 20)) },
        "CreatedAt": time::stamp(created),
        "RunningFor": time::ago(created),
        "Status": c.status,
        "State": c.state,
        "Ports": ports::shown(c.ports.iter()),
        "Names": names.join(","),
        "Labels": joined(Some(&c.labels)),
        "Size": c.size_root_fs.map_or_else(|| written.clone(), |all| format!("{written} (virtual {})", size(all))),
        "Mounts": mounts.collect::<Vec<_>>().join(","),
        "LocalVolumes": c.mounts.iter().filter(|mount| mount.driver == "local").count().to_string(),
        "Networks": c.network_settings.networks.keys().cloned().collect::<Vec<_>>().join(","),
    });
    row(document, Some(&c.labels))
}
