//! Commands that speak with registries.

use crate::args::{Command, Flag, Parsed};
use crate::containers::filters;
use crate::format::cut;
use crate::listing::{Listing, row};
use crate::template::Subject;
use crate::{Entry, Failure, Globals, Outcome, emit, terminal};
use coracle::Engine;
use coracle::model::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command as Process, Output, Stdio};

pub const ENTRIES: &[Entry] = &[
    Entry {
        command: Command {
            name: "pull",
            usage: "[FLAGS] REPOSITORY[:TAG|@DIGEST]",
            about: "Fetch an image from a registry",
            flags: &[
                Flag::switch(&["all-tags", "a"], "every tag of the repository"),
                Flag::value(&["platform"], "PLATFORM", "of another platform: os[/architecture[/variant]]"),
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
    Entry {
        command: Command {
            name: "search",
            usage: "[FLAGS] [REGISTRY/]TERM",
            about: "Look for images in a registry",
            flags: &[
                Flag::value(&["limit"], "N", "most results, 1 to 100 (default 25)"),
                Flag::value(&["filter", "f"], "NAME=VALUE", "is-official, is-automated, stars"),
                Flag::switch(&["no-trunc"], "whole descriptions"),
                Flag::value(
                    &["format"],
                    "FORMAT",
                    "table, json, table TEMPLATE or a template; fields: Name Description StarCount IsOfficial IsAutomated",
                ),
            ],
            stops_at_first: false,
        },
        run: search,
    },
];

/// Pulls what `run` and `create` need, with the progress on standard error.
pub fn pull_for_create(engine: &Engine, image: &str, quiet: bool) -> Result<(), Failure> {
    let (name, tag) = with_tag(image);
    let auth = credentials(&name)?;
    let mut show = Show::on_stderr(quiet);
    engine.image_pull_tags(
        &PullImage { name, tag, auth, platform: None },
        &mut |message| show.message(&message),
        None,
    )?;
    Ok(())
}

fn pull(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (name, tag) = named(parsed)?;
    let auth = credentials(&name)?;
    let quiet = parsed.has("quiet");
    let mut show = Show::new(quiet);
    let platform = parsed.last("platform").map(str::parse).transpose()?;
    let request = PullImage { name, tag, auth, platform };
    let names = globals.engine()?.image_pull_tags(&request, &mut |message| show.message(&message), None)?;
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
    globals.engine()?.image_push_tags(&request, &mut |message| show.message(&message), None)?;
    Ok(0)
}

/// The name, and the tag `latest` if it has none and `--all-tags` is not given.
fn named(parsed: &Parsed) -> Result<(String, String), Failure> {
    let [name] = parsed.rest.as_slice() else {
        return Err(Failure::Usage("exactly one image is needed".into()));
    };
    match (with_tag(name), parsed.has("all-tags")) {
        ((_, tag), true) if tag.is_empty() => Err(Failure::Usage("a tag cannot stand with --all-tags".into())),
        (_, true) => Ok((name.clone(), String::new())),
        (found, false) => Ok(found),
    }
}

/// The name, and the tag `latest` if the name has neither tag nor digest.
fn with_tag(name: &str) -> (String, String) {
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = if last.contains([':', '@']) { "" } else { "latest" };
    (name.to_owned(), tag.to_owned())
}

/// The credentials that `docker login` left for that registry, in docker's configuration file or with a credential helper.
pub fn credentials(name: &str) -> Result<RegistryAuth, Failure> {
    let Some(path) = DockerConfig::default_path() else { return Ok(RegistryAuth::default()) };
    Ok(DockerConfig::load(path)?.credentials(name, &mut ask_helper)?)
}

/// The credentials for every registry that the images here name.
pub fn all_credentials(engine: &Engine) -> Result<BTreeMap<String, RegistryAuth>, Failure> {
    let mut all = BTreeMap::new();
    for image in engine.image_list(&ListImages { all: true, ..ListImages::default() })? {
        for name in image.repo_digests.iter().flatten().filter(|name| !name.starts_with('<')) {
            let host = split_registry(name).0.unwrap_or("docker.io");
            if !all.contains_key(host) {
                all.insert(host.to_owned(), credentials(&format!("{host}/x"))?);
            }
        }
    }
    Ok(all)
}

/// Asks the helper of a library's look-up; the library takes its words apart.
fn ask_helper(program: &str, server: &str) -> coracle::Result<Vec<u8>> {
    Ok(start_helper(program, "get", server)?.stdout)
}

/// Runs a credential helper (`docker-credential-NAME`) with one word and with `input` as standard input; its standard
/// output. Errors: it cannot be run, or it fails; its own words are not repeated, because they may hold a secret.
pub fn run_helper(name: &str, word: &str, input: &str) -> Result<Vec<u8>, Failure> {
    let program = format!("docker-credential-{name}");
    if name.contains('/') {
        return Err(Failure::Here(format!("credential helper {name:?}: not the name of one")));
    }
    let output = start_helper(&program, word, input).map_err(|e| Failure::Here(format!("{program}: {e}")))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(Failure::Here(format!("{program} {word}: {}", output.status))),
    }
}

fn start_helper(program: &str, word: &str, input: &str) -> std::io::Result<Output> {
    let mut helper = Process::new(program).arg(word).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(mut pipe) = helper.stdin.take() {
        // A helper that has read enough ends the pipe.
        let _ = pipe.write_all(input.as_bytes());
    }
    helper.wait_with_output()
}

fn search(globals: &Globals, parsed: &Parsed) -> Outcome {
    let [term] = parsed.rest.as_slice() else {
        return Err(Failure::Usage("exactly one term is needed".into()));
    };
    let limit = parsed.number("limit").map_err(Failure::Usage)?;
    let request = SearchImages { term: term.clone(), limit, filters: filters(parsed)?, auth: credentials(term)? };
    let found = globals.engine()?.image_search(&request, None)?;
    let yes = |value: bool| if value { "[OK]".to_owned() } else { String::new() };
    let subject = |image: &SearchResult| {
        let text: String = image.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let document = json!({
            "Name": image.name,
            "Description": if parsed.has("no-trunc") { text } else { cut(&text, 45) },
            "StarCount": image.star_count.to_string(),
            "IsOfficial": yes(image.is_official),
            "IsAutomated": yes(image.is_automated),
        });
        row(document, None)
    };
    let rows: Vec<Subject> = found.iter().map(subject).collect();
    emit(&FOUND.text(parsed.last("format"), &rows)?).map(|()| 0)
}

const FOUND: Listing = Listing {
    titles: &[
        ("Name", "NAME"),
        ("Description", "DESCRIPTION"),
        ("StarCount", "STARS"),
        ("IsOfficial", "OFFICIAL"),
        ("IsAutomated", "AUTOMATED"),
    ],
    usual: "{{.Name}}\t{{.Description}}\t{{.StarCount}}\t{{.IsOfficial}}\t{{.IsAutomated}}",
};

/// Shows progress: every message on a terminal, else without the bars.
pub struct Show {
    quiet: bool,
    terminal: bool,
    to_stderr: bool,
    /// The layers, in the order of their lines.
    lines: Vec<String>,
}

impl Show {
    pub fn new(quiet: bool) -> Show {
        let terminal = terminal::stdout_is_one() && terminal::takes_sequences();
        Show { quiet, terminal, to_stderr: false, lines: Vec::new() }
    }

    /// For commands whose standard output belongs to a container.
    fn on_stderr(quiet: bool) -> Show {
        let terminal = terminal::stderr_is_one() && terminal::takes_sequences();
        Show { quiet, terminal, to_stderr: true, lines: Vec::new() }
    }

    pub fn message(&mut self, message: &Progress) -> coracle::Result<()> {
        if self.quiet || message.status.is_empty() {
            return Ok(());
        }
        if !message.progress.is_empty() && !self.terminal {
            return Ok(());
        }
        let id = if message.id.is_empty() { String::new() } else { format!("{}: ", message.id) };
        let text = format!("{id}{} {}", message.status, message.progress);
        let text = text.trim_end();
        let mut out: Box<dyn Write> =
            if self.to_stderr { Box::new(std::io::stderr().lock()) } else { Box::new(std::io::stdout().lock()) };
        // Layers keep their lines; other messages come below.
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
