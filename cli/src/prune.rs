//! Prunes: the removal of things that nothing uses, after a question.

use crate::args::{Flag, Parsed};
use crate::containers::filters;
use crate::format::precise;
use crate::{Entry, Failure, Globals, Outcome, emit, terminal, time};
use coracle::Engine;
use coracle::model::{Filters, RemovedImage};
use std::io::BufRead;

pub const CONTAINERS: &[Entry] =
    &[Entry::new("container prune", "[FLAGS]", "Remove the containers that do not run", PRUNE, containers)];
pub const IMAGES: &[Entry] =
    &[Entry::new("image prune", "[FLAGS]", "Remove images that nothing uses", OF_IMAGES, images)];
pub const NETWORKS: &[Entry] =
    &[Entry::new("network prune", "[FLAGS]", "Remove the networks that no container is on", PRUNE, networks)];
pub const VOLUMES: &[Entry] =
    &[Entry::new("volume prune", "[FLAGS]", "Remove volumes that no container uses", OF_VOLUMES, volumes)];
pub const BUILDS: &[Entry] = &[Entry::new(
    "builder prune",
    "[FLAGS]",
    "Remove the caches of RUN --mount=type=cache that no step uses",
    OF_BUILDS,
    builds,
)];
pub const SYSTEM: &[Entry] = &[Entry::new(
    "system prune",
    "[FLAGS]",
    "Remove containers that do not run, and networks and images that nothing uses",
    OF_ALL,
    system,
)];

const FORCE: Flag = Flag::switch(&["force", "f"], "do not ask before");
const FILTER: Flag = Flag::value(&["filter"], "NAME=VALUE", "only those that match: until, label, label!");
const PRUNE: &[Flag] = &[FORCE, FILTER];
const OF_IMAGES: &[Flag] =
    &[Flag::switch(&["all", "a"], "all that no container was made from, not only those without a name"), FORCE, FILTER];
const OF_VOLUMES: &[Flag] = &[
    Flag::switch(&["all", "a"], "also those that have a name"),
    FORCE,
    Flag::value(&["filter"], "NAME=VALUE", "only those that match: label, label!"),
];
const OF_BUILDS: &[Flag] = &[
    FORCE,
    Flag::value(
        &["filter"],
        "NAME=VALUE",
        "only those that match: id, type, until, unused-for; or a bound in bytes: reserved-space, max-used-space, \
         min-free-space",
    ),
];
const OF_ALL: &[Flag] = &[
    Flag::switch(&["all", "a"], "all images that no container was made from, not only those without a name"),
    Flag::switch(&["volumes"], "also volumes that have no name and that no container uses"),
    FORCE,
    FILTER,
];

const ALL_IMAGES: &str = "all images without at least one container associated to them";

/// The things that a prune removed, as it reports them.
struct Removed {
    text: String,
    bytes: u64,
}

impl Removed {
    fn new(title: &str, names: &[String], bytes: u64) -> Removed {
        let text = if names.is_empty() { String::new() } else { format!("{title}:\n{}\n\n", names.join("\n")) };
        Removed { text, bytes }
    }
}

fn containers(globals: &Globals, parsed: &Parsed) -> Outcome {
    let filters = chosen(parsed)?;
    if !agreed(parsed, "all stopped containers.")? {
        return Ok(0);
    }
    report(&[of_containers(&globals.engine()?, &filters)?])
}

fn images(globals: &Globals, parsed: &Parsed) -> Outcome {
    let filters = chosen(parsed)?;
    let what = if parsed.has("all") { ALL_IMAGES } else { "all dangling images" };
    if !agreed(parsed, &format!("{what}."))? {
        return Ok(0);
    }
    report(&[of_images(&globals.engine()?, filters, parsed.has("all"))?])
}

fn networks(globals: &Globals, parsed: &Parsed) -> Outcome {
    let filters = chosen(parsed)?;
    if !agreed(parsed, "all custom networks not used by at least one container.")? {
        return Ok(0);
    }
    // Networks take no space.
    emit(&of_networks(&globals.engine()?, &filters)?.text).map(|()| 0)
}

fn volumes(globals: &Globals, parsed: &Parsed) -> Outcome {
    let filters = chosen(parsed)?;
    let what = if parsed.has("all") { "all" } else { "anonymous" };
    if !agreed(parsed, &format!("{what} local volumes not used by at least one container."))? {
        return Ok(0);
    }
    report(&[of_volumes(&globals.engine()?, filters, parsed.has("all"))?])
}

fn builds(globals: &Globals, parsed: &Parsed) -> Outcome {
    let filters = chosen(parsed)?;
    if !agreed(parsed, "all caches that no build uses.")? {
        return Ok(0);
    }
    let pruned = globals.engine()?.build_prune(&filters, None)?;
    report(&[Removed::new("Deleted build caches", &pruned.caches_deleted, pruned.space_reclaimed)])
}

fn system(globals: &Globals, parsed: &Parsed) -> Outcome {
    let filters = chosen(parsed)?;
    let with_volumes = parsed.has("volumes");
    if with_volumes && filters.contains_key("until") {
        return Err(Failure::Usage("the filter until cannot stand with --volumes: volumes have no age".into()));
    }
    if !agreed(parsed, &all_of_it(parsed))? {
        return Ok(0);
    }
    let engine = globals.engine()?;
    let mut removed = vec![of_containers(&engine, &filters)?, of_networks(&engine, &filters)?];
    if with_volumes {
        removed.push(of_volumes(&engine, filters.clone(), false)?);
    }
    removed.push(of_images(&engine, filters, parsed.has("all"))?);
    report(&removed)
}

/// The list of the things that `system prune` removes.
fn all_of_it(parsed: &Parsed) -> String {
    let mut lines = vec!["all stopped containers", "all networks not used by at least one container"];
    if parsed.has("volumes") {
        lines.push("all anonymous volumes not used by at least one container");
    }
    lines.push(if parsed.has("all") { ALL_IMAGES } else { "all dangling images" });
    let mut text = lines.iter().fold(":\n".to_owned(), |text, line| format!("{text}  - {line}\n"));
    let filters = parsed.all("filter");
    if !filters.is_empty() {
        text.push_str("\n  Items to be pruned will be filtered with:\n");
        filters.iter().for_each(|filter| text.push_str(&format!("  - {filter}\n")));
    }
    text
}

/// Asks whether to go on. Without a terminal an answer may come through a pipe; if none comes, nothing is removed.
fn agreed(parsed: &Parsed, what: &str) -> Result<bool, Failure> {
    if parsed.has("force") {
        return Ok(true);
    }
    let between = if what.starts_with(':') { "" } else { " " };
    emit(&format!("WARNING! This will remove{between}{what}\nAre you sure you want to continue? [y/N] "))?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    let length = read.map_err(|e| Failure::Here(format!("standard input: {e}")))?;
    if length == 0 {
        emit("\n")?;
    }
    if length == 0 && !terminal::stdin_is_one() {
        return Err(Failure::Here("nobody answered, nothing was removed: --force (-f) does not ask".into()));
    }
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}

/// The filters, with moments as the engine takes them.
fn chosen(parsed: &Parsed) -> Result<Filters, Failure> {
    if !parsed.rest.is_empty() {
        return Err(Failure::Usage("a prune takes no arguments".into()));
    }
    let mut filters = filters(parsed)?;
    for value in filters.get_mut("until").into_iter().flatten() {
        let moment = time::parse(value).ok_or_else(|| Failure::Usage(format!("until={value}: not a time")))?;
        *value = format!("{}.{:09}", moment.div_euclid(1_000_000_000), moment.rem_euclid(1_000_000_000));
    }
    Ok(filters)
}

fn of_containers(engine: &Engine, filters: &Filters) -> Result<Removed, Failure> {
    let pruned = engine.containers_prune(filters, None)?;
    Ok(Removed::new("Deleted Containers", &pruned.containers_deleted, pruned.space_reclaimed))
}

fn of_images(engine: &Engine, mut filters: Filters, all: bool) -> Result<Removed, Failure> {
    if all {
        filters.insert("dangling".into(), vec!["false".into()]);
    }
    let pruned = engine.images_prune(&filters, None)?;
    let line = |item: RemovedImage| match item {
        RemovedImage::Untagged(name) => format!("untagged: {name}"),
        RemovedImage::Deleted(id) => format!("deleted: {id}"),
    };
    let lines: Vec<String> = pruned.images_deleted.unwrap_or_default().into_iter().map(line).collect();
    Ok(Removed::new("Deleted Images", &lines, pruned.space_reclaimed))
}

fn of_networks(engine: &Engine, filters: &Filters) -> Result<Removed, Failure> {
    Ok(Removed::new("Deleted Networks", &engine.networks_prune(filters, None)?.networks_deleted, 0))
}

fn of_volumes(engine: &Engine, mut filters: Filters, all: bool) -> Result<Removed, Failure> {
    if all {
        filters.insert("all".into(), vec!["true".into()]);
    }
    let pruned = engine.volumes_prune(&filters, None)?;
    Ok(Removed::new("Deleted Volumes", &pruned.volumes_deleted, pruned.space_reclaimed))
}

fn report(removed: &[Removed]) -> Outcome {
    let bytes: u64 = removed.iter().map(|removed| removed.bytes).sum();
    let lists: String = removed.iter().map(|removed| removed.text.as_str()).collect();
    let bytes = precise(i64::try_from(bytes).unwrap_or(i64::MAX));
    emit(&format!("{lists}Total reclaimed space: {bytes}\n")).map(|()| 0)
}
