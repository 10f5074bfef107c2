//! Commands on what containers may use, and what they do use.

use crate::args::{Command, Flag, Parsed};
use crate::create::{LIMITS, resources, restart_policy};
use crate::format::{binary, short, size};
use crate::listing::{Listing, row};
use crate::template::Subject;
use crate::{Entry, Failure, Globals, Outcome, each, emit, terminal};
use coracle::model::*;
use coracle::{Engine, Result, StatsStream};
use serde_json::json;

pub const ENTRIES: &[Entry] = &[
    Entry {
        command: Command {
            name: "update",
            usage: "[FLAGS] CONTAINER...",
            about: "Change limits and restart policy of containers",
            flags: LIMITS,
            stops_at_first: false,
        },
        run: update,
    },
    Entry {
        command: Command {
            name: "stats",
            usage: "[FLAGS] [CONTAINER...]",
            about: "What running containers use",
            flags: &[
                Flag::switch(&["all", "a"], "those that do not run, too"),
                Flag::switch(&["no-stream"], "one look, instead of one a second"),
                Flag::switch(&["no-trunc"], "whole ids"),
                Flag::value(
                    &["format"],
                    "FORMAT",
                    "table, json, table TEMPLATE or a template; fields: Container ID Name CPUPerc MemUsage MemPerc NetIO \
                     BlockIO PIDs",
                ),
            ],
            stops_at_first: false,
        },
        run: stats,
    },
];

fn update(globals: &Globals, parsed: &Parsed) -> Outcome {
    if parsed.rest.is_empty() {
        return Err(Failure::Usage("a container is needed".into()));
    }
    let restart_policy = restart_policy(parsed.last("restart").unwrap_or_default()).map_err(Failure::Usage)?;
    let body = UpdateContainer { resources: resources(parsed).map_err(Failure::Usage)?, restart_policy };
    let engine = globals.engine()?;
    each(&parsed.rest, |name| {
        let updated = engine.container_update(name, &body)?;
        updated.warnings.iter().for_each(|warning| complain!("WARNING: {warning}"));
        Ok(name.to_owned())
    })
}

fn stats(globals: &Globals, parsed: &Parsed) -> Outcome {
    let engine = globals.engine()?;
    let stream = !parsed.has("no-stream");
    let named = !parsed.rest.is_empty();
    loop {
        let names = if named { parsed.rest.clone() } else { ids(&engine, parsed.has("all"))? };
        // Two samples, a second apart: the CPU usage is the difference between them.
        let mut all = open(&engine, &names)?;
        let mut before = look(&mut all)?;
        loop {
            let mut now = look(&mut all)?;
            print(parsed, &now)?;
            if !stream {
                return Ok(0);
            }
            if now.len() != before.len() || (!named && ids(&engine, parsed.has("all"))?.len() != now.len()) {
                break;
            }
            std::mem::swap(&mut before, &mut now);
        }
        if all.is_empty() && named {
            return Ok(0);
        }
    }
}

fn ids(engine: &Engine, all: bool) -> Result<Vec<String>> {
    let list = engine.container_list(&ListContainers { all, ..ListContainers::default() })?;
    Ok(list.into_iter().map(|container| container.id).collect())
}

fn open(engine: &Engine, names: &[String]) -> Result<Vec<StatsStream>> {
    names.iter().map(|name| engine.container_stats(name, StatsQuery::default())).collect()
}

/// A sample of each; those that are removed drop out.
fn look(all: &mut Vec<StatsStream>) -> Result<Vec<ContainerStats>> {
    let mut samples = Vec::new();
    let mut failed = Ok(());
    all.retain_mut(|stream| match stream.next(None) {
        Ok(Some(sample)) => {
            samples.push(sample);
            true
        }
        Ok(None) => false,
        Err(error) => {
            failed = Err(error);
            false
        }
    });
    failed.map(|()| samples)
}

fn print(parsed: &Parsed, samples: &[ContainerStats]) -> std::result::Result<(), Failure> {
    let rows: Vec<Subject> = samples.iter().map(|sample| subject(sample, parsed.has("no-trunc"))).collect();
    // On a terminal each look takes the place of the one before.
    let clear = if terminal::stdout_is_one() && !parsed.has("no-stream") { "\x1b[2J\x1b[H" } else { "" };
    emit(&format!("{clear}{}", STATS.text(parsed.last("format"), &rows)?))
}

const STATS: Listing = Listing {
    titles: &[
        ("Container", "CONTAINER"),
        ("ID", "CONTAINER ID"),
        ("Name", "NAME"),
        ("CPUPerc", "CPU %"),
        ("MemUsage", "MEM USAGE / LIMIT"),
        ("MemPerc", "MEM %"),
        ("NetIO", "NET I/O"),
        ("BlockIO", "BLOCK I/O"),
        ("PIDs", "PIDS"),
    ],
    usual: "{{.ID}}\t{{.Name}}\t{{.CPUPerc}}\t{{.MemUsage}}\t{{.MemPerc}}\t{{.NetIO}}\t{{.BlockIO}}\t{{.PIDs}}",
};

/// A sample as the templates name its fields, worked out as docker does.
fn subject(sample: &ContainerStats, whole: bool) -> Subject {
    let memory = &sample.memory_stats;
    let cache = ["total_inactive_file", "inactive_file"].iter().find_map(|name| memory.stats.get(*name));
    let usage = memory.usage.unwrap_or(0);
    let used = usage.saturating_sub(cache.copied().filter(|cache| *cache < usage).unwrap_or(0));
    let limit = memory.limit.unwrap_or(0);
    let network = sample.networks.iter().flat_map(|all| all.values());
    let (received, sent) = network.fold((0, 0), |(rx, tx), one| (rx + one.rx_bytes, tx + one.tx_bytes));
    let blocks = |kind: char| -> u64 {
        let all = sample.blkio_stats.io_service_bytes_recursive.iter().flatten();
        all.filter(|one| one.op.to_lowercase().starts_with(kind)).map(|one| one.value).sum()
    };
    let id = if whole { sample.id.clone() } else { short(&sample.id) };
    let document = json!({
        "Container": id,
        "ID": id,
        "Name": sample.name.trim_start_matches('/'),
        "CPUPerc": format!("{:.2}%", cpu_percent(sample)),
        "MemUsage": format!("{} / {}", binary(used), binary(limit)),
        "MemPerc": format!("{:.2}%", if limit == 0 { 0.0 } else { used as f64 / limit as f64 * 100.0 }),
        "NetIO": format!("{} / {}", decimal(received), decimal(sent)),
        "BlockIO": format!("{} / {}", decimal(blocks('r')), decimal(blocks('w'))),
        "PIDs": sample.pids_stats.current.to_string(),
    });
    row(document, None)
}

/// The part of one processor that the container used between the sample and the one before.
fn cpu_percent(sample: &ContainerStats) -> f64 {
    let (now, before) = (&sample.cpu_stats, &sample.precpu_stats);
    let own = now.cpu_usage.total_usage.saturating_sub(before.cpu_usage.total_usage) as f64;
    let host = now.system_cpu_usage.saturating_sub(before.system_cpu_usage) as f64;
    if host > 0.0 { own / host * now.online_cpus as f64 * 100.0 } else { 0.0 }
}

fn decimal(bytes: u64) -> String {
    size(i64::try_from(bytes).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_of_what_happened_between() {
        let mut sample = ContainerStats::default();
        sample.cpu_stats.cpu_usage.total_usage = 600;
        sample.precpu_stats.cpu_usage.total_usage = 100;
        sample.cpu_stats.system_cpu_usage = 3000;
        sample.precpu_stats.system_cpu_usage = 1000;
        sample.cpu_stats.online_cpus = 2;
        sample.memory_stats.usage = Some(200);
        sample.memory_stats.limit = Some(400);
        sample.memory_stats.stats.insert("total_inactive_file".into(), 100);
        let row = subject(&sample, false).document;
        assert_eq!((row["CPUPerc"].as_str(), row["MemPerc"].as_str()), (Some("50.00%"), Some("25.00%")));
        assert_eq!(row["MemUsage"], "100B / 400B");
    }
}
