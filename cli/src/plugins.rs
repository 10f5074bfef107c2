//! `plugin`: commands on managed plugins.

use crate::args::{Flag, Parsed};
use crate::containers::filters;
use crate::format::short;
use crate::inspect::{OF_A_NOUN, shown};
use crate::listing::{Listing, row};
use crate::registry::{Show, credentials};
use crate::template::Subject;
use crate::{Entry, Failure, Globals, Outcome, each, emit};
use coracle::model::*;
use serde_json::json;
use std::time::Duration;

pub const ENTRIES: &[Entry] = &[
    Entry::new("plugin ls", "[FLAGS]", "List plugins", LIST, list),
    Entry::new("plugin install", "[FLAGS] PLUGIN [KEY=VALUE...]", "Install a plugin, and enable it", INSTALL, install),
    Entry::new("plugin inspect", "[FLAGS] PLUGIN...", "Everything about plugins", OF_A_NOUN, inspect),
    Entry::new("plugin enable", "[FLAGS] PLUGIN", "Start a plugin", ENABLE, enable),
    Entry::new("plugin disable", "[FLAGS] PLUGIN", "End a plugin", &[FORCE], disable),
    Entry::new("plugin set", "PLUGIN KEY=VALUE...", "Change settings of a disabled plugin", &[], set),
    Entry::new(
        "plugin upgrade",
        "[FLAGS] PLUGIN [REMOTE]",
        "Put another version in a plugin's place",
        UPGRADE,
        upgrade,
    ),
    Entry::new("plugin rm", "[FLAGS] PLUGIN...", "Remove plugins", &[FORCE], remove),
];

const LIST: &[Flag] = &[
    Flag::value(&["filter", "f"], "NAME=VALUE", "only those: enabled, capability"),
    Flag::switch(&["quiet", "q"], "ids only"),
    Flag::switch(&["no-trunc"], "whole ids and descriptions"),
    Flag::value(
        &["format"],
        "FORMAT",
        "table, json, table TEMPLATE or a template; fields: ID Name Description Enabled PluginReference",
    ),
];
const PLUGINS: Listing = Listing {
    titles: &[
        ("ID", "ID"),
        ("Name", "NAME"),
        ("Description", "DESCRIPTION"),
        ("Enabled", "ENABLED"),
        ("PluginReference", "REFERENCE"),
    ],
    usual: "{{.ID}}\t{{.Name}}\t{{.Description}}\t{{.Enabled}}",
};
/// Longer descriptions are cut in lists.
const DESCRIPTION: usize = 30;

const GRANT: Flag = Flag::switch(&["grant-all-permissions"], "grant the rights that the plugin needs");
const INSTALL: &[Flag] = &[
    Flag::value(&["alias"], "NAME", "the name of the installation (default PLUGIN)"),
    Flag::switch(&["disable"], "do not enable it"),
    GRANT,
    Flag::switch(&["quiet", "q"], "no progress"),
];
const UPGRADE: &[Flag] = &[GRANT, Flag::switch(&["quiet", "q"], "no progress")];
const ENABLE: &[Flag] = &[Flag::value(&["timeout"], "SECONDS", "how long the plugin may take to listen (default 30)")];
const FORCE: Flag = Flag::switch(&["force", "f"], "also while it is used or enabled");

fn list(globals: &Globals, parsed: &Parsed) -> Outcome {
    if !parsed.rest.is_empty() {
        return Err(Failure::Usage("plugin ls takes no arguments".into()));
    }
    let plugins = globals.engine()?.plugin_list(&ListPlugins { filters: filters(parsed)? })?;
    let whole = parsed.has("no-trunc");
    let id = |plugin: &Plugin| if whole { plugin.id.clone() } else { short(&plugin.id).to_owned() };
    if parsed.has("quiet") {
        return emit(&plugins.iter().map(|one| format!("{}\n", id(one))).collect::<String>()).map(|()| 0);
    }
    let subject = |plugin: &Plugin| {
        let text: String = plugin.config["Description"].as_str().unwrap_or_default().replace('\n', " ");
        let cut: String = text.chars().take(DESCRIPTION - 1).chain(['…']).collect();
        let document = json!({
            "ID": id(plugin),
            "Name": plugin.name,
            "Description": if whole || text.chars().count() <= DESCRIPTION { text } else { cut },
            "Enabled": plugin.enabled.to_string(),
            "PluginReference": plugin.plugin_reference,
        });
        row(document, None)
    };
    let rows: Vec<Subject> = plugins.iter().map(subject).collect();
    emit(&PLUGINS.text(parsed.last("format"), &rows)?).map(|()| 0)
}

fn inspect(globals: &Globals, parsed: &Parsed) -> Outcome {
    shown(globals, parsed, &["plugin"])
}

fn install(globals: &Globals, parsed: &Parsed) -> Outcome {
    let Some((remote, settings)) = parsed.rest.split_first() else {
        return Err(Failure::Usage("a plugin is needed".into()));
    };
    let engine = globals.engine()?;
    let request = PullPlugin {
        name: parsed.last("alias").unwrap_or_default().into(),
        ..granted(&engine, remote, parsed.has("grant-all-permissions"))?
    };
    let mut show = Show::new(parsed.has("quiet"));
    engine.plugin_pull(&request, &mut |message| show.message(&message), None)?;
    let name = if request.name.is_empty() { remote } else { &request.name };
    if !settings.is_empty() {
        engine.plugin_set(name, settings)?;
    }
    if !parsed.has("disable") {
        engine.plugin_enable(name, None, None)?;
    }
    emit(&format!("{name}\n")).map(|()| 0)
}

/// The request of an installation. Errors: the plugin needs rights that the command line does not grant.
fn granted(engine: &coracle::Engine, remote: &str, all: bool) -> Result<PullPlugin, Failure> {
    let auth = credentials(remote)?;
    let needed = engine.plugin_privileges(remote, &auth, None)?;
    if !needed.is_empty() && !all {
        let rights: Vec<String> = needed.iter().map(|one| format!("{}: {}", one.name, one.value.join(", "))).collect();
        let text =
            format!("{remote} needs these rights: {}; grant them with --grant-all-permissions", rights.join("; "));
        return Err(coracle::Error::new(coracle::ErrorKind::Forbidden, text).into());
    }
    Ok(PullPlugin { remote: remote.into(), privileges: Some(needed), auth, ..PullPlugin::default() })
}

/// The only argument.
fn one(parsed: &Parsed) -> Result<&str, Failure> {
    match parsed.rest.as_slice() {
        [name] => Ok(name),
        _ => Err(Failure::Usage("exactly one plugin is needed".into())),
    }
}

fn enable(globals: &Globals, parsed: &Parsed) -> Outcome {
    let name = one(parsed)?;
    let timeout =
        parsed.number("timeout").map_err(Failure::Usage)?.map(|seconds: u32| Duration::from_secs(seconds.into()));
    globals.engine()?.plugin_enable(name, timeout, None)?;
    emit(&format!("{name}\n")).map(|()| 0)
}

fn disable(globals: &Globals, parsed: &Parsed) -> Outcome {
    let name = one(parsed)?;
    globals.engine()?.plugin_disable(name, parsed.has("force"), None)?;
    emit(&format!("{name}\n")).map(|()| 0)
}

fn set(globals: &Globals, parsed: &Parsed) -> Outcome {
    match parsed.rest.split_first() {
        Some((name, changes)) if !changes.is_empty() => {
            globals.engine()?.plugin_set(name, changes)?;
            Ok(0)
        }
        _ => Err(Failure::Usage("a plugin and KEY=VALUE are needed".into())),
    }
}

fn upgrade(globals: &Globals, parsed: &Parsed) -> Outcome {
    let (name, remote) = match parsed.rest.as_slice() {
        [name] => (name, None),
        [name, remote] => (name, Some(remote.clone())),
        _ => return Err(Failure::Usage("a plugin is needed, and at most one reference".into())),
    };
    let engine = globals.engine()?;
    let remote = match remote {
        Some(remote) => remote,
        None => engine.plugin_inspect(name)?.plugin_reference,
    };
    let request = granted(&engine, &remote, parsed.has("grant-all-permissions"))?;
    let mut show = Show::new(parsed.has("quiet"));
    engine.plugin_upgrade(name, &request, &mut |message| show.message(&message), None)?;
    emit(&format!("{name}\n")).map(|()| 0)
}

fn remove(globals: &Globals, parsed: &Parsed) -> Outcome {
    if parsed.rest.is_empty() {
        return Err(Failure::Usage("a plugin is needed".into()));
    }
    let engine = globals.engine()?;
    each(&parsed.rest, |name| engine.plugin_remove(name, parsed.has("force"), None).map(|()| name.to_owned()))
}
