//! Where a container's output goes.

use super::Defaults;
use super::tag::{TagFacts, tag_text};
use crate::container::text::parse_decimal_size;
use crate::error::{Error, Result};
use crate::model::{LogConfig, StringMap};
use regex_lite::Regex;

/// What keeps the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogDriver {
    /// Lines of JSON in a file of the engine: rotated at `max_size` bytes (`None`: never), `max_file` files in all.
    JsonFile {
        max_size: Option<u64>,
        max_file: u32,
    },
    /// The same in a file that is the engine's affair alone, always bounded.
    Local {
        max_size: u64,
        max_file: u32,
    },
    None,
}

/// A log configuration as decided. Which labels and variables go into each line: [`log_attributes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogOptions {
    pub driver: LogDriver,
}

/// Options of json-file that are understood.
const KNOWN: [&str; 8] = ["max-size", "max-file", "labels", "labels-regex", "env", "env-regex", "compress", "tag"];
/// Options of local.
const KNOWN_LOCAL: [&str; 3] = ["max-size", "max-file", "compress"];
/// What local keeps where the request does not say: bytes of a file, files.
const LOCAL: (u64, u32) = (20_000_000, 5);

/// Drivers of the field's engines that this one does not have.
const ELSEWHERE: [&str; 8] = ["awslogs", "etwlogs", "fluentd", "gcplogs", "gelf", "journald", "splunk", "syslog"];

/// The configuration that a new container gets: the engine's driver where the request names none, and that driver's
/// engine-wide options under its own. Errors: unknown driver, unknown option, bad value.
pub(super) fn effective(asked: &LogConfig, defaults: &Defaults) -> Result<LogConfig> {
    let mut config = asked.clone();
    if config.kind.is_empty() {
        config.kind.clone_from(&defaults.log_driver);
    }
    if config.kind == defaults.log_driver {
        for (key, value) in &defaults.log_options {
            config.config.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    log_options(&config)?;
    Ok(config)
}

/// Reads a log configuration. Errors as for a create.
pub(crate) fn log_options(config: &LogConfig) -> Result<LogOptions> {
    match config.kind.as_str() {
        "none" => Ok(LogOptions { driver: LogDriver::None }),
        "json-file" => json_file(&config.config),
        "local" => local(&config.config),
        kind if ELSEWHERE.contains(&kind) => {
            Err(Error::unsupported(format!("LogConfig: the log driver {kind} is not supported yet")))
        }
        kind => Err(Error::not_found(format!("error looking up logging plugin {kind}: plugin \"{kind}\" not found"))),
    }
}

fn json_file(options: &StringMap) -> Result<LogOptions> {
    if let Some(key) = options.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(Error::invalid(format!("unknown log opt '{key}' for json-file log driver")));
    }
    options.get("tag").map_or(Ok(()), |tag| super::tag::check_tag(tag))?;
    let (max_size, max_file) = bounds(options)?;
    for key in ["labels-regex", "env-regex"] {
        pattern(options, key)?;
    }
    Ok(LogOptions { driver: LogDriver::JsonFile { max_size, max_file: max_file.unwrap_or(1) } })
}

fn local(options: &StringMap) -> Result<LogOptions> {
    if let Some(key) = options.keys().find(|key| !KNOWN_LOCAL.contains(&key.as_str())) {
        return Err(Error::invalid(format!("unknown log opt '{key}' for log-driver local")));
    }
    let (max_size, max_file) = bounds(options)?;
    let (size, files) = LOCAL;
    let driver = LogDriver::Local { max_size: max_size.unwrap_or(size), max_file: max_file.unwrap_or(files) };
    Ok(LogOptions { driver })
}

/// max-size and max-file; compress may be switched off.
fn bounds(options: &StringMap) -> Result<(Option<u64>, Option<u32>)> {
    let max_size = options.get("max-size").map(|text| max_size(text)).transpose()?;
    let max_file = options.get("max-file").map(|text| max_file(text)).transpose()?;
    match options.get("compress").map_or("false", String::as_str) {
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok((max_size, max_file)),
        "1" | "t" | "T" | "true" | "TRUE" | "True" => {
            Err(Error::unsupported("LogConfig: the option compress is not supported yet"))
        }
        text => Err(bad(format!("strconv.ParseBool: parsing {text:?}: invalid syntax"))),
    }
}

fn bad(message: impl std::fmt::Display) -> Error {
    Error::invalid(format!("failed to initialize logging driver: {message}"))
}

fn max_size(text: &str) -> Result<u64> {
    match parse_decimal_size(text) {
        None => Err(bad(format!("invalid size: '{text}'"))),
        Some(0) => Err(bad("max-size must be a positive number")),
        Some(size) => Ok(size),
    }
}

fn max_file(text: &str) -> Result<u32> {
    match text.parse::<i64>() {
        Err(_) => Err(bad(format!("strconv.Atoi: parsing {text:?}: invalid syntax"))),
        Ok(..1) => Err(bad("max-file cannot be less than 1")),
        Ok(count) => Ok(u32::try_from(count).unwrap_or(u32::MAX)),
    }
}

fn pattern(options: &StringMap, key: &str) -> Result<Option<Regex>> {
    let Some(text) = options.get(key).filter(|text| !text.is_empty()) else { return Ok(None) };
    Regex::new(text).map(Some).map_err(|error| bad(format!("error parsing regexp: {error}")))
}

/// The attributes that every line of the container's log carries: the labels and variables that its options name, and
/// its tag.
pub(crate) fn log_attributes(facts: &TagFacts<'_>) -> Result<StringMap> {
    let spec = facts.spec;
    let options = &spec.host_config.log_config.config;
    let listed = |key: &str| options.get(key).map_or_else(Vec::new, |list| list.split(',').collect());
    let chosen = |names: &[&str], regex: &Option<Regex>, key: &str| {
        names.contains(&key) || regex.as_ref().is_some_and(|regex| regex.is_match(key))
    };
    let mut attributes = StringMap::new();
    let (names, regex) = (listed("labels"), pattern(options, "labels-regex")?);
    for (key, value) in spec.config.labels.iter().filter(|(key, _)| chosen(&names, &regex, key)) {
        attributes.insert(key.clone(), value.clone());
    }
    let (names, regex) = (listed("env"), pattern(options, "env-regex")?);
    for (key, value) in spec.config.env.iter().flatten().filter_map(|entry| entry.split_once('=')) {
        if chosen(&names, &regex, key) {
            attributes.insert(key.to_owned(), value.to_owned());
        }
    }
    let tag = options.get("tag").map_or(Ok(String::new()), |tag| tag_text(tag, facts))?;
    if !tag.is_empty() {
        attributes.insert("tag".to_owned(), tag);
    }
    Ok(attributes)
}
