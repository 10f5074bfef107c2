//! The settings of `serve`: its flags, and a file with more of them, which the server reads again at SIGHUP.

use crate::Failure;
use crate::args::{Command, Parsed};
use coracle::Engine;
use coracle::model::StringMap;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The default configuration file, which may be missing.
const FILE: &str = "/etc/coracle/serve.json";

/// The settings that may change while the server runs; all others wait for its next start.
const LIVE: [&str; 2] = ["label", "log-requests"];

#[derive(Clone)]
pub struct Settings(Arc<Inner>);

struct Inner {
    command: &'static Command,
    /// The command line alone.
    words: Parsed,
    /// The command line with the file's settings, as at the start.
    first: Parsed,
    log_requests: AtomicBool,
}

impl Settings {
    /// The flags, and the file that they name.
    pub fn read(command: &'static Command, words: &Parsed) -> Result<Settings, Failure> {
        let first = with_file(command, words).map_err(Failure::Usage)?;
        let log_requests = AtomicBool::new(first.has("log-requests"));
        Ok(Settings(Arc::new(Inner { command, words: words.clone(), first, log_requests })))
    }

    /// All settings, as at the start.
    pub fn now(&self) -> &Parsed {
        &self.0.first
    }

    /// Whether each request is logged.
    pub fn logs_requests(&self) -> bool {
        self.0.log_requests.load(Relaxed)
    }

    /// Reads the file again: settings of the file that may change take effect, others are named, and the engine writes
    /// an event. Errors: the file is wrong; nothing has changed then.
    pub fn read_again(&self, engine: &Engine, check: impl Fn(&Parsed) -> Result<(), Failure>) -> Result<(), String> {
        let Inner { command, words, first, log_requests } = &*self.0;
        let next = with_file(command, words)?;
        // Settings for the next start are checked now: otherwise the next start would fail, and perhaps nobody would
        // read why.
        check(&next).map_err(|failure| failure.to_string())?;
        let waits = command.flags.iter().map(|flag| flag.names[0]).filter(|name| !LIVE.contains(name));
        for name in waits.filter(|name| first.all(name) != next.all(name)) {
            complain!("coracle: {name} changes with the next start");
        }
        log_requests.store(next.has("log-requests"), Relaxed);
        let attributes = StringMap::from([("log-requests".to_owned(), next.has("log-requests").to_string())]);
        engine.reload(next.all("label"), &attributes).map_err(|error| error.to_string())?;
        complain!("coracle: the configuration was read again");
        Ok(())
    }
}

fn with_file(command: &Command, words: &Parsed) -> Result<Parsed, String> {
    let mut all = words.clone();
    let named = words.last("config");
    let path = named.unwrap_or(FILE);
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => return Ok(all),
        other => other.map_err(|error| format!("{path}: {error}"))?,
    };
    let document: Value = serde_json::from_slice(&bytes).map_err(|error| format!("{path}: {error}"))?;
    let members = document.as_object().ok_or(format!("{path}: a JSON object is needed"))?;
    if members.contains_key("config") {
        return Err(format!("{path}: a file cannot name another one"));
    }
    all.add_file(command, members).map_err(|error| format!("{path}: {error}"))?;
    Ok(all)
}
