//! The log of a container's output.

use super::Defaults;
use super::tag::{TagFacts, tag_text};
use crate::container::text::{parse_binary_size, parse_decimal_size};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{LogConfig, StringMap, parse_bool};
use crate::parts::Part;
use crate::plugin;
use coracle_ship::drivers::NAMES as DELIVERED;
use regex_lite::Regex;

/// The driver that keeps the output, with its options in their decided form. [`log_attributes`] says which labels and
/// variables go into each line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogDriver {
    /// Lines of JSON in a file of the engine: rotated at `max_size` bytes (`None`: never), with `max_file` files in
    /// all.
    JsonFile {
        max_size: Option<u64>,
        max_file: u32,
        /// Whether rotated files are compressed.
        compress: bool,
        /// Output never waits for the log: so many bytes of it wait in memory at most, and lines that have no room there
        /// are lost. `None`: output waits.
        buffer: Option<u64>,
    },
    /// A log in a file of a private format, always bounded.
    Local {
        max_size: u64,
        max_file: u32,
        compress: bool,
        buffer: Option<u64>,
    },
    /// A log whose lines are delivered to a receiver; the files are bounded as those of [`LogDriver::Local`].
    Delivered {
        max_size: u64,
        max_file: u32,
        compress: bool,
        /// The log can be read here, too.
        readable: bool,
        /// As of the others; without it, output also waits where the log is full of lines that are not delivered.
        /// Otherwise the oldest lines give way.
        buffer: Option<u64>,
    },
    None,
}

/// The driver `json-file` without options: a log without a bound.
impl Default for LogDriver {
    fn default() -> LogDriver {
        LogDriver::JsonFile { max_size: None, max_file: 1, compress: false, buffer: None }
    }
}

/// The known options of json-file.
const KNOWN: [&str; 8] = ["max-size", "max-file", "labels", "labels-regex", "env", "env-regex", "compress", "tag"];
/// Options of local.
const KNOWN_LOCAL: [&str; 3] = ["max-size", "max-file", "compress"];
/// Options of every driver.
const KNOWN_EVERYWHERE: [&str; 2] = ["mode", "max-buffer-size"];
/// The buffer of a log for which output never waits, if the request says no size, in bytes.
const BUFFER: u64 = 1_000_000;
/// The limits of `local` if the request gives none: bytes of a file, number of files.
const LOCAL: (u64, u32) = (20_000_000, 5);

/// The tag if the request has none.
const DEFAULT_TAG: &str = "{{.ID}}";

/// Drivers that keep the log here alone.
const OWN: [&str; 3] = ["json-file", "local", "none"];

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
    log_driver(&config)?;
    Ok(config)
}

/// Finds the plugin of a configuration whose driver the engine itself does not have. Errors: there is none, or it is of another kind.
pub(super) fn find_plugin(config: &LogConfig, defaults: &Defaults) -> Result<()> {
    if is_built_in(&config.kind) {
        return Ok(());
    }
    match defaults.plugins.find(&config.kind, plugin::LOG_DRIVER) {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(unknown(&config.kind)),
        Err(error) => Err(error.context(format_args!("error looking up logging plugin {}", config.kind))),
        Ok(_) => Ok(()),
    }
}

/// Whether a driver needs no plugin.
pub(crate) fn is_built_in(kind: &str) -> bool {
    OWN.contains(&kind) || DELIVERED.contains(&kind)
}

pub(crate) fn unknown(kind: &str) -> Error {
    Error::invalid(format!("logger: no log driver named '{kind}' is registered"))
}

/// Reads a log configuration. A driver that the engine itself does not have is a plugin. Errors: as for a create.
pub(crate) fn log_driver(config: &LogConfig) -> Result<LogDriver> {
    match config.kind.as_str() {
        "none" => Ok(LogDriver::None),
        "json-file" => json_file(&config.config),
        "local" => local(&config.config),
        kind if DELIVERED.contains(&kind) => delivered(kind, &config.config),
        kind if plugin::is_name_of_any(kind) => delivered(kind, &config.config),
        kind => Err(unknown(kind)),
    }
}

fn json_file(options: &StringMap) -> Result<LogDriver> {
    let buffer = buffer(options)?;
    if let Some(key) = unknown_key(options, &KNOWN) {
        return Err(Error::invalid(format!("unknown log opt '{key}' for json-file log driver")));
    }
    options.get("tag").map_or(Ok(()), |tag| super::tag::check_tag(tag))?;
    let max_size = options.get("max-size").map(|text| max_size(text, "")).transpose()?;
    let max_file = options.get("max-file").map_or(Ok(1), |text| max_file(text))?;
    let compress = flag(options, "compress", "")?.unwrap_or(false);
    if compress && (max_file < 2 || max_size.is_none()) {
        return Err(bad("compress cannot be true when max-file is less than 2 or max-size is not set"));
    }
    for key in ["labels-regex", "env-regex"] {
        pattern(options, key)?;
    }
    Ok(LogDriver::JsonFile { max_size, max_file, compress, buffer })
}

fn local(options: &StringMap) -> Result<LogDriver> {
    let buffer = buffer(options)?;
    if let Some(key) = unknown_key(options, &KNOWN_LOCAL) {
        return Err(Error::invalid(format!("unknown log opt '{key}' for log driver local")));
    }
    let (max_size, max_file, compress) = bounds(options, "")?;
    Ok(LogDriver::Local { max_size, max_file, compress, buffer })
}

fn unknown_key<'a>(options: &'a StringMap, known: &[&str]) -> Option<&'a String> {
    options.keys().find(|key| !known.contains(&key.as_str()) && !KNOWN_EVERYWHERE.contains(&key.as_str()))
}

/// The bounds of a log that always has some: bytes of a file, files, whether rotated files are compressed. The names of
/// their options begin with `prefix`.
fn bounds(options: &StringMap, prefix: &str) -> Result<(u64, u32, bool)> {
    let option = |key: &str| options.get_key_value(&format!("{prefix}{key}"));
    let named = |key: &str, text: &str| format!("invalid value for {key}: {text}: ");
    let max_size = option("max-size").map_or(Ok(LOCAL.0), |(key, text)| max_size(text, &named(key, text)))?;
    let max_file = match option("max-file").map(|(key, text)| whole_number(text, &named(key, text))).transpose()? {
        Some(..0) => return Err(bad("max file count cannot be less than 0")),
        Some(count) => u32::try_from(count).unwrap_or(u32::MAX),
        None => LOCAL.1,
    };
    let compress =
        flag(options, &format!("{prefix}compress"), &format!("error reading {prefix}compress log option: "))?;
    // A single file has nothing to compress; for a delivered log that counts only with the option.
    let compress = compress.unwrap_or(prefix.is_empty() || max_file > 1);
    if compress && max_file < 2 {
        return Err(bad("compression cannot be enabled when max file count is 1"));
    }
    Ok((max_size, max_file, compress))
}

/// The options `mode` and `max-buffer-size`: the size of the buffer, if output never waits for the log.
fn buffer(options: &StringMap) -> Result<Option<u64>> {
    let size = options.get("max-buffer-size");
    match options.get("mode").map_or("", String::as_str) {
        "" | "blocking" if size.is_some() => {
            Err(Error::invalid("logger: max-buffer-size option is only supported with 'mode=non-blocking'"))
        }
        "" | "blocking" => Ok(None),
        "non-blocking" => size.map_or(Ok(BUFFER), |text| buffer_size(text)).map(Some),
        other => Err(Error::invalid(format!("logger: logging mode not supported: {other}"))),
    }
}

fn buffer_size(text: &str) -> Result<u64> {
    let wrong = || Error::invalid(format!("error parsing option max-buffer-size: invalid size: '{text}'"));
    parse_binary_size(text).ok_or_else(wrong)
}

/// A driver that delivers. Its options `cache-...` bound the log as those of the driver local do.
fn delivered(kind: &str, options: &StringMap) -> Result<LogDriver> {
    Part::Ship.need()?;
    let checked = match DELIVERED.contains(&kind) {
        true => coracle_ship::check(kind, options),
        false => coracle_ship::check_spool(options),
    };
    checked.map_err(|error| Error::invalid(error.0))?;
    options.get("tag").map_or(Ok(()), |tag| super::tag::check_tag(tag))?;
    for key in ["labels-regex", "env-regex"] {
        pattern(options, key)?;
    }
    let (max_size, max_file, compress) = bounds(options, "cache-")?;
    let readable = !options.get("cache-disabled").and_then(|text| parse_bool(text)).unwrap_or(false);
    Ok(LogDriver::Delivered { max_size, max_file, compress, readable, buffer: buffer(options)? })
}

/// A truth value; `before` begins the error's text.
fn flag(options: &StringMap, key: &str, before: &str) -> Result<Option<bool>> {
    let Some(text) = options.get(key) else { return Ok(None) };
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
    let mut attributes = log_extras(facts)?;
    let tag = facts.spec.host_config.log_config.config.get("tag");
    let tag = tag.map_or(Ok(String::new()), |tag| tag_text(tag, facts))?;
    if !tag.is_empty() {
        attributes.insert("tag".to_owned(), tag);
    }
    Ok(attributes)
}

/// The tag of the lines that a container's driver delivers: without the option the first digits of the container's id.
pub(crate) fn log_tag(facts: &TagFacts<'_>) -> Result<String> {
    let tag = facts.spec.host_config.log_config.config.get("tag").map_or("", String::as_str);
    tag_text(if tag.is_empty() { DEFAULT_TAG } else { tag }, facts)
}

/// The labels and variables that the container's options name.
pub(crate) fn log_extras(facts: &TagFacts<'_>) -> Result<StringMap> {
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
    Ok(attributes)
}
