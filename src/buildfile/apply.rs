//! The changes that instructions make to a configuration: as steps of a build, of a commit and of an import.

use super::budget::check_all;
use super::expand::Expander;
use super::go_format::{quoted, quoted_list, shown_duration, shown_list};
use super::instruction::{Command, Instruction};
use crate::error::{Error, Result};
use crate::kernel::path::clean;
use crate::kernel::signal::{parse_signal, signal_exists};
use crate::model::{ContainerConfig, Empty, Healthcheck};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

const SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// The shell that a configuration runs command lines by.
pub(crate) fn shell(config: &ContainerConfig) -> Vec<String> {
    let own = config.shell.clone().filter(|shell| !shell.is_empty());
    own.unwrap_or_else(|| SHELL.map(str::to_owned).to_vec())
}

/// The value of a variable in an environment.
pub(crate) fn of_env(env: &[String], name: &str) -> Option<String> {
    env.iter().find_map(|entry| {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        (key == name).then(|| value.to_owned())
    })
}

impl Command {
    /// The words that a command line becomes: one for the shell that says nothing is the shell alone.
    pub(crate) fn argv(&self, config: &ContainerConfig) -> Vec<String> {
        match self.shell {
            true => [shell(config), self.words.clone()].concat(),
            false => self.words.clone(),
        }
    }
}

impl Instruction {
    /// Changes `config` as the instruction says; answers how the history describes it. `None`: it is one that does more
    /// than change a configuration, and nothing was done.
    ///
    /// `cmd_set`: CMD stood here before, so ENTRYPOINT leaves it.
    pub(crate) fn apply(
        &self,
        config: &mut ContainerConfig,
        cmd_set: &mut bool,
        expander: &Expander<'_>,
    ) -> Result<Option<String>> {
        Ok(Some(match self {
            Instruction::Cmd(command) => {
                *cmd_set |= !command.words.is_empty();
                cmd(config, command)
            }
            Instruction::Entrypoint(command) => entrypoint(config, command, *cmd_set),
            Instruction::Env(pairs) => {
                let list = config.env.get_or_insert_default();
                let mut variables = Variables::of(list);
                let comment = expand_pairs("ENV", pairs, expander, |name, value| variables.set(name, value))?;
                check_all("the environment", list.iter().map(String::as_str))?;
                comment
            }
            Instruction::Expose(words) => expose(config, words, expander)?,
            Instruction::Healthcheck(check) => {
                config.healthcheck = Some(inherit(check, config.healthcheck.take().unwrap_or_default()));
                format!("HEALTHCHECK {}", shown_check(check))
            }
            Instruction::Label { pairs, literal: true } => {
                config.labels.extend(pairs.iter().cloned());
                pairs.iter().fold("LABEL".into(), |text, (key, value)| format!("{text} {key}={value}"))
            }
            Instruction::Label { pairs, literal: false } => expand_pairs("LABEL", pairs, expander, |key, value| {
                config.labels.insert(key.to_owned(), value.to_owned());
            })?,
            Instruction::OnBuild(text) => {
                config.on_build.get_or_insert_default().push(text.clone());
                format!("ONBUILD {text}")
            }
            Instruction::Shell(words) => {
                config.shell = Some(words.clone());
                format!("SHELL {}", shown_list(words))
            }
            Instruction::StopSignal(text) => stop_signal(config, expander.word(text)?)?,
            Instruction::User(text) => {
                config.user = expander.word(text)?;
                format!("USER {}", config.user)
            }
            Instruction::Volume(paths) => volume(config, paths, expander)?,
            Instruction::Workdir(path) => workdir(config, expander.word(path)?)?,
            Instruction::Add(_)
            | Instruction::Arg(_)
            | Instruction::Copy(_)
            | Instruction::Maintainer(_)
            | Instruction::NotHere(_)
            | Instruction::Run(_) => return Ok(None),
        }))
    }
}

fn cmd(config: &mut ContainerConfig, command: &Command) -> String {
    let words = command.argv(config);
    let comment = format!("CMD {}", quoted_list(&words));
    config.cmd = Some(words);
    comment
}

/// `keeps_cmd`: the command was set beside this entry point; an earlier one belonged to another entry point.
fn entrypoint(config: &mut ContainerConfig, command: &Command, keeps_cmd: bool) -> String {
    let words = if command.words.is_empty() { Vec::new() } else { command.argv(config) };
    let comment = format!("ENTRYPOINT {}", quoted_list(&words));
    config.entrypoint = if words.is_empty() { None } else { Some(words) };
    if !keeps_cmd {
        config.cmd = None;
    }
    comment
}

fn expose(config: &mut ContainerConfig, words: &[String], expander: &Expander<'_>) -> Result<String> {
    let mut ports = Vec::new();
    for word in words {
        ports.extend(expander.words(word)?);
    }
    config.exposed_ports.extend(exposed(&ports)?);
    Ok(format!("EXPOSE {}", ports.join(" ")))
}

fn stop_signal(config: &mut ContainerConfig, signal: String) -> Result<String> {
    if !parse_signal(&signal).is_ok_and(signal_exists) {
        return Err(Error::invalid(format!("Invalid signal: {signal}")));
    }
    let comment = format!("STOPSIGNAL {signal}");
    config.stop_signal = signal;
    Ok(comment)
}

fn volume(config: &mut ContainerConfig, paths: &[String], expander: &Expander<'_>) -> Result<String> {
    let paths = paths.iter().map(|path| expander.word(path)).collect::<Result<Vec<_>>>()?;
    if paths.iter().any(String::is_empty) {
        return Err(Error::invalid("VOLUME specified can not be an empty string"));
    }
    config.volumes.get_or_insert_default().extend(paths.iter().map(|path| (path.clone(), Empty {})));
    Ok(format!("VOLUME {}", shown_list(&paths)))
}

fn workdir(config: &mut ContainerConfig, path: String) -> Result<String> {
    config.working_dir = match path.chars().next() {
        None => return Err(Error::invalid("cannot normalise nothing")),
        // As it was written; containers of the image have it in its final form.
        Some('/') => path,
        Some(_) => clean(&format!("{}/{path}", config.working_dir)),
    };
    Ok(format!("WORKDIR {}", config.working_dir))
}

/// Puts variables into pairs, hands them on, and answers how the history describes them.
fn expand_pairs(
    word: &str,
    pairs: &[(String, String)],
    expander: &Expander<'_>,
    mut take: impl FnMut(&str, &str),
) -> Result<String> {
    let mut comment = word.to_owned();
    for (name, value) in pairs {
        let (name, value) = (expander.word(name)?, expander.word(value)?);
        comment.push_str(&format!(" {name}={value}"));
        take(&name, &value);
    }
    Ok(comment)
}

/// An environment that gets variables. Many pairs and a long environment take no longer together than one after the other.
struct Variables<'e> {
    env: &'e mut Vec<String>,
    /// The first entry of each name.
    places: HashMap<String, usize>,
}

impl Variables<'_> {
    fn of(env: &mut Vec<String>) -> Variables<'_> {
        let mut places = HashMap::new();
        for (place, entry) in env.iter().enumerate() {
            places.entry(name_of(entry).to_owned()).or_insert(place);
        }
        Variables { env, places }
    }

    /// Sets a variable in its place, or adds it.
    fn set(&mut self, name: &str, value: &str) {
        let entry = format!("{name}={value}");
        match self.places.entry(name_of(&entry).to_owned()) {
            Entry::Occupied(place) => self.env[*place.get()] = entry,
            Entry::Vacant(place) => {
                place.insert(self.env.len());
                self.env.push(entry);
            }
        }
    }
}

fn name_of(entry: &str) -> &str {
    entry.split_once('=').map_or(entry, |(name, _)| name)
}

/// Times that the instruction does not give are inherited, as in every container.
fn inherit(check: &Healthcheck, before: Healthcheck) -> Healthcheck {
    let first = |own, inherited| if own == 0 { inherited } else { own };
    Healthcheck {
        test: check.test.clone(),
        interval: first(check.interval, before.interval),
        timeout: first(check.timeout, before.timeout),
        retries: first(check.retries, before.retries),
        start_period: first(check.start_period, before.start_period),
        start_interval: first(check.start_interval, before.start_interval),
    }
}

/// The ports that words of EXPOSE name (`80`, `80-82/udp`), each as `port/protocol`.
fn exposed(words: &[String]) -> Result<Vec<String>> {
    let mut ports = Vec::new();
    for word in words {
        let bad = || Error::invalid(format!("Invalid containerPort: {word}"));
        let (numbers, protocol) = word.split_once('/').unwrap_or((word, "tcp"));
        let protocol = protocol.to_ascii_lowercase();
        if !matches!(protocol.as_str(), "tcp" | "udp" | "sctp") {
            return Err(Error::invalid(format!("Invalid proto: {protocol}")));
        }
        let (low, high) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let port = |text: &str| text.parse::<u16>().map_err(|_| bad());
        let (low, high) = (port(low)?, port(high)?);
        if low > high {
            return Err(bad());
        }
        ports.extend((low..=high).map(|port| format!("{port}/{protocol}")));
    }
    Ok(ports)
}

/// A health check as the history shows it.
fn shown_check(check: &Healthcheck) -> String {
    let time = |ns: i64| quoted(&shown_duration(ns));
    let count = u32::try_from(check.retries).unwrap_or(0);
    let count = match char::from_u32(count) {
        Some(c @ (' '..='&' | '('..='[' | ']'..='~')) => format!("'{c}'"),
        Some('\'') => "'\\''".into(),
        Some('\\') => "'\\\\'".into(),
        Some('\n') => "'\\n'".into(),
        Some('\t') => "'\\t'".into(),
        Some('\r') => "'\\r'".into(),
        Some('\u{7}') => "'\\a'".into(),
        Some('\u{8}') => "'\\b'".into(),
        Some('\u{b}') => "'\\v'".into(),
        Some('\u{c}') => "'\\f'".into(),
        _ if count < 0x80 => format!("'\\x{count:02x}'"),
        _ => format!("'\\u{count:04x}'"),
    };
    let (interval, timeout, start) = (time(check.interval), time(check.timeout), time(check.start_period));
    format!("&{{{} {interval} {timeout} {start} {count}}}", quoted_list(&check.test))
}
