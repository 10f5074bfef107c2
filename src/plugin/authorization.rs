//! Authorization plugins: each is asked about a request, and about its answer.

use super::{Plugin, Plugins};
use crate::error::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The kind, as a plugin's activation says it.
const KIND: &str = "authz";

/// A chain of authorization plugins, as [`crate::Engine::authorization`] makes it: a request needs the consent of each.
///
/// A plugin that is missing, hangs, dies or answers anything else than consent denies: the chain fails closed. A host
/// program with an HTTP server of its own may ask the chain itself; `coracle_http::Router` does it for each request.
///
/// ```no_run
/// let engine = coracle::Engine::open("/var/lib/app")?;
/// let chain = engine.authorization(&["opa-docker-authz".to_owned()]);
/// chain.check()?;
/// let question = serde_json::json!({ "User": "alice", "RequestMethod": "GET", "RequestUri": "/v1.24/info" });
/// if let Err(error) = chain.ask_request(&question) {
///     println!("{} {error}", error.http_status());
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug)]
pub struct Authorization {
    plugins: Plugins,
    names: Vec<String>,
    /// The plugins that were found and have said that they are of this kind.
    active: Mutex<BTreeMap<String, Plugin>>,
}

/// A plugin's answer. Members that are missing deny.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Verdict {
    allow: bool,
    msg: Option<String>,
}

impl Authorization {
    /// A chain of the plugins with these names, in their order. A name that comes again is passed over, as dockerd does.
    pub(crate) fn new(plugins: Plugins, names: &[String]) -> Authorization {
        let mut once: Vec<String> = Vec::new();
        for name in names {
            if !once.contains(name) {
                once.push(name.clone());
            }
        }
        Authorization { plugins, names: once, active: Mutex::default() }
    }

    /// The names of the plugins, in the order in which they are asked.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Finds every plugin of the chain. Errors: one is not there, or is of another kind.
    pub fn check(&self) -> Result<()> {
        for name in &self.names {
            self.active(name).map_err(|error| error.context("validate authorization plugin"))?;
        }
        Ok(())
    }

    /// Asks about a request (`AuthZPlugin.AuthZReq`). `question`: the members of docker's authorization request.
    ///
    /// Errors: a plugin denies ([`ErrorKind::Forbidden`]), or one failed ([`ErrorKind::Internal`]).
    pub fn ask_request(&self, question: &Value) -> Result<()> {
        self.ask("AuthZPlugin.AuthZReq", question)
    }

    /// Asks about an answer (`AuthZPlugin.AuthZRes`), as [`Authorization::ask_request`] does about a request.
    pub fn ask_response(&self, question: &Value) -> Result<()> {
        self.ask("AuthZPlugin.AuthZRes", question)
    }

    fn ask(&self, method: &str, question: &Value) -> Result<()> {
        self.names.iter().try_for_each(|name| self.ask_one(name, method, question))
    }

    fn ask_one(&self, name: &str, method: &str, question: &Value) -> Result<()> {
        let verdict = self.active(name).and_then(|plugin| plugin.call::<Verdict>(method, question));
        let verdict = verdict.map_err(|error| {
            // The plugin may come back at another address.
            self.active.lock().remove(name);
            error.context(format_args!("plugin {name} failed with error")).with_kind(ErrorKind::Internal)
        })?;
        if verdict.allow {
            return Ok(());
        }
        let why = verdict.msg.unwrap_or_default();
        Err(Error::new(ErrorKind::Forbidden, format!("authorization denied by plugin {name}: {why}")).in_area("plugin"))
    }

    fn active(&self, name: &str) -> Result<Plugin> {
        if let Some(plugin) = self.active.lock().get(name) {
            return Ok(plugin.clone());
        }
        // The lock is not held here: a plugin that hangs delays its caller alone.
        let plugin = self.plugins.find(name, KIND)?;
        self.active.lock().insert(name.to_owned(), plugin.clone());
        Ok(plugin)
    }
}
