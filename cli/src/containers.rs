//! Commands on containers that exist.

use crate::args::{Command, Flag, Parsed};
use crate::format::table;
use crate::session::{Ended, Foreground, Signals, passes_signals_on, terminal_is_needed};
use crate::{Entry, Failure, Globals, Outcome, each, emit, ports, terminal, time};
use coracle::model::*;
use coracle::{AttachOptions, Channel, Io, LogFormat};
use std::io::Write;

pub const ENTRIES: &[Entry] = &[
    Entry::new("start", "[FLAGS] CONTAINER...", "Start containers", START, start),
    Entry::new("attach", "[FLAGS] CONTAINER", "Attach to a running container's streams", ATTACH, attach),
    Entry::new("logs", "[FLAGS] CONTAINER", "What a container wrote", LOGS, logs),
    Entry {
        command: Command {
            name: "top",
            usage: "CONTAINER [PS ARGUMENTS]",
            about: "A container's processes",
            flags: &[],
            // `top NAME -eo pid,comm`: the rest is for ps.
            stops_at_first: true,
        },
        run: top,
    },
    Entry::new("stop", "[FLAGS] CONTAINER...", "Stop containers", GRACE, stop),
    Entry::new("restart", "[FLAGS] CONTAINER...", "Stop and start containers", GRACE, restart),
    Entry::new("kill", "[FLAGS] CONTAINER...", "Send containers a signal", KILL, kill),
    Entry::new("pause", "CONTAINER...", "Freeze containers", &[], pause),
    Entry::new("unpause", "CONTAINER...", "Thaw containers", &[], unpause),
    Entry::new("wait", "CONTAINER...", "Wait for the end of containers, print their exit codes", &[], wait),
    Entry::new("port", "CONTAINER [PORT[/PROTOCOL]]", "The host's ports of a running container's ports", &[], port),
    Entry::new("rename", "CONTAINER NAME", "Give a container another name", &[], rename),
    Entry::new("rm", "[FLAGS] CONTAINER...", "Remove containers", RM, rm),
];

const START: &[Flag] = &[
    Flag::switch(&["attach", "a"], "attach to its output, pass signals on, end with its exit code"),
    Flag::switch(&["interactive", "i"], "attach to its standard input"),
    Flag::value(&["detach-keys"], "KEYS", "what leaves it running (default ctrl-p,ctrl-q)"),
];
const ATTACH: &[Flag] = &[
    Flag::switch(&["no-stdin"], "do not attach to standard input"),
    Flag::switch(&["no-sig-proxy"], "do not pass signals on to it"),
    Flag::switch(&["sig-proxy"], "pass signals on to it: what attach does, unless --sig-proxy=false"),
    Flag::value(&["detach-keys"], "KEYS", "what leaves it running (default ctrl-p,ctrl-q)"),
];
const LOGS: &[Flag] = &[
    Flag::switch(&["follow", "f"], "go on until it ends"),
    Flag::switch(&["timestamps", "t"], "the time of each line"),
    Flag::switch(&["details"], "the extra attributes of each line"),
    Flag::value(&["tail", "n"], "N", "only the last N lines"),
    Flag::value(&["since"], "TIME", "only lines from then on: unix seconds, RFC 3339, or 10m for ten minutes ago"),
];
const GRACE: &[Flag] = &[Flag::value(&["time", "t"], "SECONDS", "how long it has before SIGKILL (default 10)")];
const KILL: &[Flag] = &[Flag::value(&["signal", "s"], "SIGNAL", "name or number (default KILL)")];
const RM: &[Flag] = &[
    Flag::switch(&["force", "f"], "kill it first if it runs"),
    Flag::switch(&["volumes", "v"], "its anonymous volumes, too"),
    Flag::switch(&["link"], "the link of that name, not the container"),
];

/// The arguments, at least one of them.
fn some(parsed: &Parsed) -> Result<&[String], Failure> {
    if parsed.rest.is_empty() {
        return Err(Failure::Usage("a container is needed".into()));
    }
    Ok(&parsed.rest)
}

/// The one argument.
fn one(parsed: &Parsed) -> Result<&str, Failure> {
    match parsed.rest.as_slice() {
        [one] => Ok(one),
        _ => Err(Failure::Usage("exactly one container is needed".into())),
    }
}

fn start(globals: &Globals, parsed: &Parsed) -> Outcome {
    let names = some(parsed)?;
    let interactive = parsed.has("interactive");
    if !parsed.has("attach") && !interactive {
        let engine = globals.engine()?;
        return each(names, |name| engine.container_start(name, None, None).map(|_| name.to_owned()));
    }
    let name = one(parsed)?;
    let keys = DetachKeys::parse(parsed.last("detach-keys").unwrap_or_default())?;
    let signals = Signals::block(true)?;
    let engine = globals.engine()?;
    // Before the start: a container with --rm may be gone right after it.
    let config = engine.container_inspect(name, false)?.config;
    terminal_is_needed(config.tty, interactive).map_err(Failure::Here)?;
    let (rows, cols) = terminal::size();
    let started = engine.container_start(name, Some(Io { rows, cols, ..Io::default() }), None)?;
    let Some(session) = started.session else {
        return Err(Failure::Here(format!("{name} runs already: use attach")));
    };
    let ends_stdin = config.stdin_once;
    Foreground { engine: &engine, signals_to: Some(name), stdin: interactive, ends_stdin, detach_keys: keys }
        .carry(session, &signals)
        .map(Ended::code)
}

fn attach(globals: &Globals, parsed: &Parsed) -> Outcome {
    let name = one(parsed)?;
    let keys = DetachKeys::parse(parsed.last("detach-keys").unwrap_or_default())?;
    let proxy = passes_signals_on(parsed);
    let signals = Signals::block(proxy)?;
    let engine = globals.engine()?;
    let detail = engine.container_inspect(name, false)?;
    if !detail.state.running {
        return Err(Failure::Here("You cannot attach to a stopped container, start it first".into()));
    }
    let stdin = !parsed.has("no-stdin") && detail.config.open_stdin;
    terminal_is_needed(detail.config.tty, stdin).map_err(Failure::Here)?;
    let how =
        AttachOptions { streams: AttachStreams { stdin, ..AttachStreams::default() }, ..AttachOptions::default() };
    let (rows, cols) = terminal::size();
    let session = engine.container_attach(name, Io { rows, cols, ..Io::default() }, how, None)?;
    let ends_stdin = detail.config.stdin_once;
    Foreground { engine: &engine, signals_to: proxy.then_some(name), stdin, ends_stdin, detach_keys: keys }
        .carry(session, &signals)
        .map(Ended::code)
}

/// `NAME=VALUE` filters.
pub fn filters(parsed: &Parsed) -> Result<Filters, Failure> {
    let mut filters = Filters::new();
    for entry in parsed.all("filter") {
        let (name, value) =
            entry.split_once('=').ok_or(Failure::Usage(format!("invalid filter {entry:?}: NAME=VALUE")))?;
        filters.entry(name.to_owned()).or_default().push(value.to_owned());
    }
    Ok(filters)
}

fn logs(globals: &Globals, parsed: &Parsed) -> Outcome {
    let name = one(parsed)?;
    let tail = match parsed.last("tail") {
        None | Some("all") => None,
        // As in docker: a negative number means all.
        Some(_) => parsed.number::<i64>("tail").map_err(Failure::Usage)?.and_then(|tail| tail.try_into().ok()),
    };
    let query = LogQuery {
        follow: parsed.has("follow"),
        since_ns: moment(parsed, "since")?.unwrap_or(0),
        tail,
        ..LogQuery::default()
    };
    let engine = globals.engine()?;
    let mut log = engine.container_logs(name, &query, None)?;
    let format = LogFormat { timestamps: parsed.has("timestamps"), details: parsed.has("details") };
    if log.earlier() > 0 && query.tail.is_none() && query.since_ns == 0 {
        missing(log.earlier(), "were deleted by rotation (max-size, max-file)");
    }
    let mut lost = 0;
    let mut texts = [Vec::new(), Vec::new()];
    while !log.ended() {
        let mut outcome = Ok(());
        log.next_batch(None, None, &mut |line| {
            // Lines of one stream are written before lines of the other, so that a terminal shows them in their order.
            let [mine, other] = if line.channel == Channel::Stderr { [1, 0] } else { [0, 1] };
            if !texts[other].is_empty() {
                outcome = std::mem::replace(&mut outcome, Ok(())).and_then(|()| flush(&mut texts[other], other == 1));
            }
            format.append(line, &mut texts[mine]);
            Ok(())
        })?;
        for (index, text) in texts.iter_mut().enumerate() {
            outcome = outcome.and_then(|()| flush(text, index == 1));
        }
        outcome.map_err(broken)?;
        if log.lost() > lost {
            missing(log.lost() - lost, "were deleted by rotation (max-size, max-file) before they were read");
            lost = log.lost();
        }
    }
    match engine.container_inspect(name, false) {
        Ok(detail) if detail.state.log_lost > 0 => missing(detail.state.log_lost.unsigned_abs(), "could not be logged"),
        _ => {}
    }
    Ok(0)
}

/// Reports lines that are missing in the log.
fn missing(lines: u64, why: &str) {
    complain!("coracle: {lines} lines {why}");
}

fn flush(text: &mut Vec<u8>, is_err: bool) -> std::io::Result<()> {
    let written = match is_err {
        true => std::io::stderr().write_all(text),
        false => std::io::stdout().lock().write_all(text).and_then(|()| std::io::stdout().flush()),
    };
    text.clear();
    written
}

fn broken(error: std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::Exit(141),
        _ => Failure::Here(format!("output: {error}")),
    }
}

/// A time flag in nanoseconds since 1970.
pub fn moment(parsed: &Parsed, key: &str) -> Result<Option<i64>, Failure> {
    let parse = |text: &str| time::parse(text).ok_or(Failure::Usage(format!("invalid time {text:?} for --{key}")));
    parsed.last(key).map(parse).transpose()
}

fn top(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (name, arguments) = some(parsed)?.split_first().ok_or(Failure::Usage("a container is needed".into()))?;
    let top = globals.engine()?.container_top(name, &arguments.join(" "))?;
    let titles: Vec<&str> = top.titles.iter().map(String::as_str).collect();
    emit(&table(&titles, &top.processes)).map(|()| 0)
}

fn grace(parsed: &Parsed) -> Result<Option<i64>, Failure> {
    let seconds: Option<i64> = parsed.number("time").map_err(Failure::Usage)?;
    Ok(seconds.map(|s| s.saturating_mul(1000)))
}

fn stop(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (names, grace) = (some(parsed)?, grace(parsed)?);
    let engine = globals.engine()?;
    each(names, |name| engine.container_stop(name, grace, None).map(|_| name.to_owned()))
}

fn restart(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (names, grace) = (some(parsed)?, grace(parsed)?);
    let engine = globals.engine()?;
    each(names, |name| engine.container_restart(name, grace, None).map(|()| name.to_owned()))
}

fn kill(globals: &Globals, parsed: &Parsed) -> Outcome {
    let names = some(parsed)?;
    let engine = globals.engine()?;
    each(names, |name| engine.container_kill(name, parsed.last("signal"), None).map(|()| name.to_owned()))
}

fn pause(globals: &Globals, parsed: &Parsed) -> Outcome {
    let names = some(parsed)?;
    let engine = globals.engine()?;
    each(names, |name| engine.container_pause(name).map(|()| name.to_owned()))
}

fn unpause(globals: &Globals, parsed: &Parsed) -> Outcome {
    let names = some(parsed)?;
    let engine = globals.engine()?;
    each(names, |name| engine.container_unpause(name).map(|()| name.to_owned()))
}

fn wait(globals: &Globals, parsed: &Parsed) -> Outcome {
    let names = some(parsed)?;
    let engine = globals.engine()?;
    each(names, |name| engine.container_wait(name, None).map(|code| code.to_string()))
}

fn port(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (name, wanted) = match parsed.rest.as_slice() {
        [name] => (name, None),
        [name, port] if port.contains('/') => (name, Some(port.clone())),
        [name, port] => (name, Some(format!("{port}/tcp"))),
        _ => return Err(Failure::Usage("a container, and at most one of its ports, are needed".into())),
    };
    let detail = globals.engine()?.container_inspect(name, false)?;
    let mut text = String::new();
    for (port, bindings) in detail.network_settings.ports.iter() {
        let port = port.to_string();
        if wanted.as_ref().is_some_and(|wanted| *wanted != port) {
            continue;
        }
        let prefix = if wanted.is_some() { String::new() } else { format!("{port} -> ") };
        for (ip, host_port) in bindings.iter().flat_map(|bindings| bindings.iter()) {
            text.push_str(&format!("{prefix}{}\n", ports::address(ip.as_ref(), host_port.as_ref())));
        }
    }
    if let Some(port) = wanted.filter(|_| text.is_empty()) {
        return Err(Failure::Here(format!("No public port '{port}' published for {name}")));
    }
    emit(&text).map(|()| 0)
}

fn rename(globals: &Globals, parsed: &Parsed) -> Outcome {
    let [old, new] = parsed.rest.as_slice() else {
        return Err(Failure::Usage("a container and its new name are needed".into()));
    };
    globals.engine()?.container_rename(old, new)?;
    Ok(0)
}

fn rm(globals: &Globals, parsed: &Parsed) -> Outcome {
    let names = some(parsed)?;
    let how = RemoveContainer { force: parsed.has("force"), volumes: parsed.has("volumes"), link: parsed.has("link") };
    let engine = globals.engine()?;
    each(names, |name| engine.container_remove(name, how, None).map(|()| name.to_owned()))
}
