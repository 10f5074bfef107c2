//! The processes of a container as `ps` shows them, read from the host's /proc; no program is run.
//!
//! Arguments, columns, headings and values follow procps. Of the processes that the options select, only the
//! container's are shown; options that mean "all" mean all of the container. Times are in UTC.

mod args;
mod columns;
mod process;
mod select;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Top;
use crate::order::Order as _;
use args::{Forest, Format};
use process::{Host, Process};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The arguments of `ps` if the client gives none.
const DEFAULT_ARGS: &str = "-ef";

/// The processes `pids` in the form that `ps_args` asks for (empty: `-ef`). Processes that have ended are left out.
///
/// Errors: options that ps does not have, no column of process ids.
pub(crate) fn top(pids: &[i32], ps_args: &str) -> Result<Top> {
    #[cfg(feature = "attacks")]
    if !crate::walls::Wall::NoHostPrograms.stands() {
        std::process::Command::new("ps").arg("-V").stdout(std::process::Stdio::null()).status()?;
    }
    let mut format = args::parse(if ps_args.trim().is_empty() { DEFAULT_ARGS } else { ps_args })?;
    if !format.columns.iter().any(|column| column.title == "PID") {
        return Err(no_pid_field());
    }
    let host = Host::read()?;
    format.select.resolve(&host)?;
    let pids: BTreeSet<i32> = pids.iter().copied().collect();
    let mut processes: Vec<Process> = match format.threads {
        true => pids.iter().flat_map(|pid| Process::threads(*pid)).collect(),
        false => pids.iter().filter_map(|pid| Process::read(*pid)).collect(),
    };
    if format.select.chooses() {
        let any = !processes.is_empty();
        processes.retain(|process| format.select.takes(process));
        // ps looks at all processes of the machine, and fails if it shows none.
        if any && processes.is_empty() && !host_processes().any(|process| format.select.takes(&process)) {
            return Err(failed("ps: exit status 1"));
        }
    }
    sort(&mut processes, &format, &host);
    if format.forest != Forest::None {
        processes = grow(processes, format.forest);
    }
    if format.environment {
        processes.iter_mut().for_each(Process::add_environment);
    }
    let row = |process: &Process| {
        let mut row: Vec<String> = format.columns.iter().map(|column| column.value(process, &host)).collect();
        // The last column is the rest of the line, its words separated by single spaces.
        if let Some(last) = row.last_mut() {
            *last = last.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        row
    };
    Ok(Top {
        titles: format.columns.iter().map(|column| column.title.clone()).collect(),
        processes: processes.iter().map(row).collect(),
    })
}

/// The treatment of rows, also without a heading.
fn no_pid_field() -> Error {
    failed("Couldn't find PID field in ps output")
}

/// All processes that can be read now, one after the other.
fn host_processes() -> impl Iterator<Item = Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?))
}

/// Sorts by the requested keys; equal rows stay in the order of process ids.
fn sort(processes: &mut Vec<Process>, format: &Format, host: &Host) {
    if format.sort.is_empty() {
        return;
    }
    let keyed = processes.drain(..).map(|process| {
        let keys: Vec<_> = format.sort.iter().map(|(column, _)| column.key(&process, host)).collect();
        (keys, process)
    });
    let mut keyed: Vec<_> = keyed.collect();
    keyed.order_by(|(a, _), (b, _)| {
        let pairs = a.iter().zip(b).zip(&format.sort);
        let orders = pairs.map(|((a, b), (_, down))| {
            let order = a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1));
            if *down { order.reverse() } else { order }
        });
        orders.fold(Ordering::Equal, Ordering::then)
    });
    processes.extend(keyed.into_iter().map(|(_, process)| process));
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Internal, message).in_area("container")
}

/// The greatest depth to which a process is drawn: a container may nest its own as deep as it likes.
const DEEPEST: usize = 64;

/// Puts children behind their parents and draws the lines between them before their commands. A process whose parent is
/// not shown is drawn as a child of the container's monitor.
fn grow(processes: Vec<Process>, forest: Forest) -> Vec<Process> {
    let here: BTreeSet<i32> = processes.iter().map(|process| process.pid).collect();
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    let mut waiting = Vec::new();
    for process in processes {
        match here.contains(&process.ppid) {
            true => children.entry(process.ppid).or_default().push(process),
            false => waiting.push((process, vec![true])),
        }
    }
    if let Some((_, levels)) = waiting.last_mut() {
        *levels = vec![false];
    }
    waiting.reverse();
    let mut grown = Vec::new();
    // Each process, with a flag for every level above it that says whether more siblings follow there.
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
    // A process that is left descends from itself: processes were replaced while they were read.
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

/// Options of ps that are not known here.
fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("ps: {what} is not supported")).in_area("container")
}

#[cfg(test)]
mod tests;
