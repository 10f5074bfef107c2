//! Commands that speak with registries.

use crate::args::{Command, Flag, Parsed};
use crate::{Entry, Failure, Globals, Outcome, emit, terminal};
use coracle::model::*;
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

pub const ENTRIES: &[Entry] = &[
    Entry {
        command: Command {
            name: "pull",
            usage: "[FLAGS] REPOSITORY[:TAG|@DIGEST]",
            about: "Fetch an image from a registry",
            flags: &[
                Flag::switch(&["all-tags", "a"], "every tag of the repository"),
                Flag::switch(&["quiet", "q"], "print only the name"),
            ],
            stops_at_first: false,
        },
        run: pull,
    },
    Entry {
        command: Command {
            name: "push",
            usage: "[FLAGS] REPOSITORY[:TAG]",
            about: "Send an image to the registry that its name says",
            flags: &[
                Flag::switch(&["all-tags", "a"], "every tag of the repository that is here"),
                Flag::switch(&["quiet", "q"], "print nothing"),
            ],
            stops_at_first: false,
        },
        run: push,
    },
];

fn pull(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (name, tag) = named(parsed)?;
    let auth = credentials(&name)?;
    let quiet = parsed.has("quiet");
    let mut show = Show::new(quiet);
    let request = PullImage { name, tag, auth };
    let names = globals.engine()?.image_pull(&request, &mut |message| show.message(&message), None)?;
    if quiet {
        for name in names {
            emit(&format!("{name}\n"))?;
        }
    }
    Ok(0)
}

fn push(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (name, tag) = named(parsed)?;
    let auth = credentials(&name)?;
    let mut show = Show::new(parsed.has("quiet"));
    let request = PushImage { name, tag, auth };
    globals.engine()?.image_push(&request, &mut |message| show.message(&message), None)?;
    Ok(0)
}

/// The name, and the tag `latest` where it has none and not all are meant.
fn named(parsed: &Parsed) -> Result<(String, String), Failure> {
    let [name] = parsed.rest.as_slice() else {
        return Err(Failure::Usage("exactly one image is needed".into()));
    };
    let last = name.rsplit('/').next().unwrap_or_default();
    match (last.contains([':', '@']), parsed.has("all-tags")) {
        (true, true) => Err(Failure::Usage("a tag cannot stand with --all-tags".into())),
        (false, false) => Ok((name.clone(), "latest".into())),
        _ => Ok((name.clone(), String::new())),
    }
}

/// What `docker login` left for that registry in docker's configuration file.
fn credentials(name: &str) -> Result<RegistryAuth, Failure> {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct File {
        auths: HashMap<String, RegistryAuth>,
    }
    let home = |dir: std::ffi::OsString| PathBuf::from(dir).join(".docker");
    let dir = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from).or(std::env::var_os("HOME").map(home));
    let Some(path) = dir.map(|dir| dir.join("config.json")) else { return Ok(RegistryAuth::default()) };
    let Ok(bytes) = std::fs::read(&path) else { return Ok(RegistryAuth::default()) };
    let mut file: File = serde_json::from_slice(&bytes).map_err(|_| {
        // Not the parser's words: they may show what it read.
        Failure::Here(format!("{}: not a configuration file of docker's", path.display()))
    })?;
    let host = match name.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => "https://index.docker.io/v1/",
    };
    Ok(file.auths.remove(host).unwrap_or_default())
}

/// Shows progress: every message where somebody reads along, else without the bars.
struct Show {
    quiet: bool,
    terminal: bool,
    /// The layers, in the order of their lines.
    lines: Vec<String>,
}

impl Show {
    fn new(quiet: bool) -> Show {
        Show { quiet, terminal: terminal::stdout_is_one(), lines: Vec::new() }
    }

    fn message(&mut self, message: &Progress) -> coracle::Result<()> {
        if self.quiet || message.status.is_empty() {
            return Ok(());
        }
        if !message.progress.is_empty() && !self.terminal {
            return Ok(());
        }
        let id = if message.id.is_empty() { String::new() } else { format!("{}: ", message.id) };
        let text = format!("{id}{} {}", message.status, message.progress);
        let text = text.trim_end();
        let mut out = std::io::stdout().lock();
        // Layers keep their lines; what is about no layer stands below.
        if !self.terminal || message.progress_detail.is_none() {
            self.lines.clear();
            return Ok(writeln!(out, "{text}").and_then(|()| out.flush())?);
        }
        match self.lines.iter().position(|have| *have == message.id) {
            Some(index) => {
                let up = self.lines.len() - index;
                write!(out, "\x1b[{up}A\r\x1b[2K{text}\x1b[{up}B\r")?;
            }
            None => {
                self.lines.push(message.id.clone());
                writeln!(out, "{text}")?;
            }
        }
        Ok(out.flush()?)
    }
}
