//! The log of a container's output.

use super::Defaults;
use super::tag::{TagFacts, tag_text};
use crate::container::text::parse_decimal_size;
use crate::error::{Error, Result};
use crate::model::{LogConfig, StringMap, parse_bool};
use regex_lite::Regex;

/// The driver that keeps the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogDriver {
    /// Lines of JSON in a file of the engine: rotated at `max_size` bytes (`None`: never), with `max_file` files in
    /// all.
    JsonFile {
        max_size: Option<u64>,
        max_file: u32,
        /// Whether rotated files are compressed.
        compress: bool,
    },
    /// A log in a file of a private format, always bounded.
    Local {
        max_size: u64,
        max_file: u32,
        compress: bool,
    },
    None,
}

/// A log configuration in its decided form. [`log_attributes`] says which labels and variables go into each line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogOptions {
    pub driver: LogDriver,
}

/// The known options of json-file.
const KNOWN: [&str; 9] =
    ["max-size", "max-file", "labels", "labels-regex", "env", "env-regex", "compress", "tag", "mode"];
/// Options of local.
const KNOWN_LOCAL: [&str; 4] = ["max-size", "max-file", "compress", "mode"];
/// The limits of `local` if the request gives none: bytes of a file, number of files.
const LOCAL: (u64, u32) = (20_000_000, 5);

/// Drivers of dockerd that this engine lacks.
const ELSEWHERE: [&str; 8] = ["awslogs", "etwlogs", "fluentd", "gcplogs", "gelf", "journald", "splunk", "syslog"];

/// The configuration for a new container: the engine's driver if the request names none, and that driver's engine-wide
/// options, which those of the request override. Errors: unknown driver, unknown option, bad value.
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

/// Reads a log configuration. Errors: as for a create.
pub(crate) fn log_options(config: &LogConfig) -> Result<LogOptions> {
    match config.kind.as_str() {
        "none" => Ok(LogOptions { driver: LogDriver::None }),
        "json-file" => json_file(&config.config),
        "local" => local(&config.config),
        kind if ELSEWHERE.contains(&kind) => {
            Err(Error::unsupported(format!("LogConfig: the log driver {kind} is not supported yet")))
        }
        kind => Err(Error::invalid(format!("logger: no log driver named '{kind}' is registered"))),
    }
}

fn json_file(options: &StringMap) -> Result<LogOptions> {
    mode(options)?;
    if let Some(key) = options.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(Error::invalid(format!("unknown log opt '{key}' for json-file log driver")));
    }
    options.get("tag").map_or(Ok(()), |tag| super::tag::check_tag(tag))?;
    let max_size = options.get("max-size").map(|text| max_size(text, "")).transpose()?;
    let max_file = options.get("max-file").map_or(Ok(1), |text| max_file(text))?;
    let compress = flag(options, "")?.unwrap_or(false);
    if compress && (max_file < 2 || max_size.is_none()) {
        return Err(bad("compress cannot be true when max-file is less than 2 or max-size is not set"));
    }
    for key in ["labels-regex", "env-regex"] {
        pattern(options, key)?;
    }
    Ok(LogOptions { driver: LogDriver::JsonFile { max_size, max_file, compress } })
}

fn local(options: &StringMap) -> Result<LogOptions> {
    mode(options)?;
    if let Some(key) = options.keys().find(|key| !KNOWN_LOCAL.contains(&key.as_str())) {
        return Err(Error::invalid(format!("unknown log opt '{key}' for log driver local")));
    }
    let named =
        |key: &str| options.get(key).map_or_else(String::new, |text| format!("invalid value for {key}: {text}: "));
    let max_size = options.get("max-size").map_or(Ok(LOCAL.0), |text| max_size(text, &named("max-size")))?;
    let max_file = match options.get("max-file").map(|text| whole_number(text, &named("max-file"))).transpose()? {
        Some(..0) => return Err(bad("max file count cannot be less than 0")),
        Some(count) => u32::try_from(count).unwrap_or(u32::MAX),
        None => LOCAL.1,
    };
    let compress = flag(options, "error reading compress log option: ")?.unwrap_or(true);
    if compress && max_file < 2 {
        return Err(bad("compression cannot be enabled when max file count is 1"));
    }
    Ok(LogOptions { driver: LogDriver::Local { max_size, max_file, compress } })
}

/// The option `mode` of every driver: output waits for the log. The other mode, a buffer that drops lines, is not here.
fn mode(options: &StringMap) -> Result<()> {
    match options.get("mode").map_or("", String::as_str) {
        "" | "blocking" if options.contains_key("max-buffer-size") => {
            Err(Error::invalid("logger: max-buffer-size option is only supported with 'mode=non-blocking'"))
        }
        "" | "blocking" => Ok(()),
        "non-blocking" => Err(Error::unsupported(
            "LogConfig: mode=non-blocking is not supported: output waits for the log's file alone, and no other reader",
        )),
        other => Err(Error::invalid(format!("logger: logging mode not supported: {other}"))),
    }
}

/// The option `compress`; `before` begins the error's text.
fn flag(options: &StringMap, before: &str) -> Result<Option<bool>> {
    let Some(text) = options.get("compress") else { return Ok(None) };
    let wrong = || bad(format!("{before}strconv.ParseBool: parsing {text:?}: invalid syntax"));
    parse_bool(text).map(Some).ok_or_else(wrong)
}

fn bad(message: impl std::fmt::Display) -> Error {
    Error::invalid(format!("failed to initialize logging driver: {message}"))
}

/// A number of bytes; `before` begins the error's text.
fn max_size(text: &str, before: &str) -> Result<u64> {
    match parse_decimal_size(text) {
        None => Err(bad(format!("{before}invalid size: '{text}'"))),
        Some(0) => Err(bad("max-size must be a positive number")),
        Some(size) => Ok(size),
    }
}

fn max_file(text: &str) -> Result<u32> {
    match whole_number(text, "")? {
        ..1 => Err(bad("max-file cannot be less than 1")),
        count => Ok(u32::try_from(count).unwrap_or(u32::MAX)),
    }
}

fn whole_number(text: &str, before: &str) -> Result<i64> {
    text.parse().map_err(|_| bad(format!("{before}strconv.Atoi: parsing {text:?}: invalid syntax")))
}

fn pattern(options: &StringMap, key: &str) -> Result<Option<Regex>> {
    let Some(text) = options.get(key).filter(|text| !text.is_empty()) else { return Ok(None) };
    Regex::new(text).map(Some).map_err(|error| bad(format!("error parsing regexp: {error}")))
}

/// The attributes of every line in the container's log: the labels and variables that its options name, and its tag.
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
