//! The processes of a container as `ps` shows them, read from the host's /proc; no program is run.
//!
//! Arguments, columns, headings and values follow procps. Of the options that choose processes those are taken that
//! mean "all": the container's own are shown always. Times are in UTC.

mod args;
mod columns;
mod process;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Top;
use args::Forest;
use process::{Host, Process};
use std::collections::{BTreeMap, BTreeSet};

/// What `ps` is run with where the client says nothing.
const DEFAULT_ARGS: &str = "-ef";

/// The processes `pids` in the form that `ps_args` asks for (empty: `-ef`). Those that have ended are left out.
///
/// Errors: options that ps does not have, no column of process ids.
pub(crate) fn top(pids: &[i32], ps_args: &str) -> Result<Top> {
    let format = args::parse(if ps_args.trim().is_empty() { DEFAULT_ARGS } else { ps_args })?;
    if !format.columns.iter().any(|column| column.title == "PID") {
        return Err(failed("Couldn't find PID field in ps output"));
    }
    let host = Host::read()?;
    let mut processes: Vec<Process> = pids.iter().filter_map(|pid| Process::read(*pid)).collect();
    processes.sort_by_key(|process| process.pid);
    processes.dedup_by_key(|process| process.pid);
    if format.forest != Forest::None {
        processes = grow(processes, format.forest);
    }
    let row = |process: &Process| format.columns.iter().map(|column| column.value(process, &host)).collect();
    Ok(Top {
        titles: format.columns.iter().map(|column| column.title.clone()).collect(),
        processes: processes.iter().map(row).collect(),
    })
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Internal, message).in_area("container")
}

/// So deep is a process drawn at most: a container may nest its own as deep as it likes.
const DEEPEST: usize = 64;

/// Puts children behind their parents and draws the lines between them before their commands.
fn grow(processes: Vec<Process>, forest: Forest) -> Vec<Process> {
    let here: BTreeSet<i32> = processes.iter().map(|process| process.pid).collect();
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    let mut waiting = Vec::new();
    for process in processes {
        match here.contains(&process.ppid) {
            true => children.entry(process.ppid).or_default().push(process),
            false => waiting.push((process, Vec::new())),
        }
    }
    waiting.reverse();
    let mut grown = Vec::new();
    // Each with, for every level above it, whether more siblings follow there.
    while let Some((mut process, levels)) = waiting.pop() {
        let own = children.remove(&process.pid).unwrap_or_default();
        let last = own.len().saturating_sub(1);
        for (at, child) in own.into_iter().enumerate().rev() {
            let more = levels.iter().copied().chain([at < last]).take(DEEPEST).collect();
            waiting.push((child, more));
        }
        process.branch = lines(&levels, forest);
        grown.push(process);
    }
    // What is left descends from itself: processes were replaced while they were read.
    grown.extend(children.into_values().flatten());
    grown
}

fn lines(levels: &[bool], forest: Forest) -> String {
    let Some((_, above)) = levels.split_last() else { return String::new() };
    let level = |more: &bool| match (forest, more) {
        (Forest::Lines, true) => " |  ",
        (Forest::Lines, false) => "    ",
        _ => "  ",
    };
    above.iter().map(level).chain([if forest == Forest::Lines { " \\_ " } else { "  " }]).collect()
}

/// What ps does and this does not.
fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("ps: {what} is not supported")).in_area("container")
}

#[cfg(test)]
mod tests;
