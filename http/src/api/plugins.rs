//! Managed plugins: as API 1.24 has them, as an experiment, and as later versions do.

use super::registry::header;
use crate::answer::{Call, document, empty, gone, streamed};
use crate::message::Response;
use crate::stream;
use crate::versions::Gate;
use coracle::model::{ListPlugins, Plugin, PluginPrivilege, Progress, PullPlugin};
use coracle::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn list(call: Call) -> Result<Response> {
    let plugins = call.engine().plugin_list(&ListPlugins { filters: call.query.filters()? })?;
    match call.version.has(Gate::GrantedPlugins) {
        true => document(200, plugins),
        false => document(200, plugins.into_iter().map(first_form).collect::<Vec<_>>()),
    }
}

/// A route that 1.24 does not have.
fn later(call: &Call) -> Result<()> {
    match call.version.has(Gate::GrantedPlugins) {
        true => Ok(()),
        false => Err(Error::not_found("page not found")),
    }
}

pub(crate) fn inspect(mut call: Call) -> Result<Response> {
    if !call.version.has(Gate::GrantedPlugins) {
        // There the name is all of the path.
        call.name.push_str("/json");
        return inspect_first(call);
    }
    document(200, call.engine().plugin_inspect(&call.name)?)
}

/// The route of 1.24; later versions do not have it.
pub(crate) fn inspect_first(call: Call) -> Result<Response> {
    match call.version.has(Gate::GrantedPlugins) {
        true => Err(Error::not_found("page not found")),
        false => document(200, first_form(call.engine().plugin_inspect(&call.name)?)),
    }
}

pub(crate) fn privileges(mut call: Call) -> Result<Response> {
    if !call.version.has(Gate::GrantedPlugins) {
        // The name of a plugin like any other.
        call.name = "privileges".into();
        return inspect_first(call);
    }
    let (auth, op) = (header(&call).unwrap_or_default(), call.request.client.op()?);
    let remote = call.query.text("remote");
    document(200, call.engine().plugin_privileges(remote, &auth, op.as_ref()).map_err(of_reference)?)
}

pub(crate) fn pull(mut call: Call) -> Result<Response> {
    if !call.version.has(Gate::GrantedPlugins) {
        return pull_first(&call);
    }
    let request = PullPlugin {
        remote: call.query.text("remote").to_owned(),
        name: call.query.text("name").to_owned(),
        privileges: Some(granted(&mut call)?),
        auth: header(&call).unwrap_or_default(),
    };
    let engine = call.engine().clone();
    Ok(reported(&call, move |progress, op| engine.plugin_pull(&request, progress, op)))
}

/// The pull of 1.24: it grants all that the plugin needs, and answers that.
fn pull_first(call: &Call) -> Result<Response> {
    let (auth, op) = (header(call).unwrap_or_default(), call.request.client.op()?);
    let remote = call.query.text("name").to_owned();
    let request = PullPlugin { remote, auth, ..PullPlugin::default() };
    let engine = call.engine();
    if let Ok(there) = engine.plugin_inspect(&request.remote) {
        return Err(Error::internal(format!("{} exists", there.name)));
    }
    engine.plugin_pull(&request, &mut |_| Ok(()), op.as_ref()).map_err(of_reference)?;
    // Of the plugin that was installed: the registry may have another one by now.
    document(200, engine.plugin_privileges_of(&request.remote)?)
}

pub(crate) fn upgrade(mut call: Call) -> Result<Response> {
    later(&call)?;
    let request = PullPlugin {
        remote: call.query.text("remote").to_owned(),
        name: String::new(),
        privileges: Some(granted(&mut call)?),
        auth: header(&call).unwrap_or_default(),
    };
    let (engine, name) = (call.engine().clone(), call.name.clone());
    Ok(reported(&call, move |progress, op| engine.plugin_upgrade(&name, &request, progress, op)))
}

pub(crate) fn enable(call: Call) -> Result<Response> {
    let first = !call.version.has(Gate::GrantedPlugins);
    let text = call.query.text("timeout");
    let wrong = || Error::internal(format!("strconv.Atoi: parsing {text:?}: invalid syntax"));
    let timeout = match text {
        "" if first => None,
        text => Some(Duration::from_secs(text.parse::<u32>().map_err(|_| wrong())?.into())),
    };
    let op = call.request.client.op()?;
    match call.engine().plugin_enable(&call.name, timeout, op.as_ref()) {
        Err(error) if first && error.kind() == ErrorKind::Conflict => {
            Err(Error::internal(format!("plugin {} is already enabled", call.name)))
        }
        other => other.and_then(|()| empty(200)),
    }
}

pub(crate) fn disable(call: Call) -> Result<Response> {
    let first = !call.version.has(Gate::GrantedPlugins);
    let op = call.request.client.op()?;
    match call.engine().plugin_disable(&call.name, call.query.flag("force"), op.as_ref()) {
        Err(_) if first && call.engine().plugin_inspect(&call.name).is_ok_and(|plugin| !plugin.enabled) => {
            Err(Error::internal(format!("plugin {} is already disabled", call.name)))
        }
        Err(error) if first && error.kind() == ErrorKind::Conflict => Err(error.with_kind(ErrorKind::Internal)),
        other => other.and_then(|()| empty(200)),
    }
}

pub(crate) fn remove(call: Call) -> Result<Response> {
    let first = !call.version.has(Gate::GrantedPlugins);
    let op = call.request.client.op()?;
    match call.engine().plugin_remove(&call.name, call.query.flag("force"), op.as_ref()) {
        Err(_) if first && call.engine().plugin_inspect(&call.name).is_ok_and(|plugin| plugin.enabled) => {
            Err(Error::internal(format!("plugin {} is active", call.name)))
        }
        Err(error) if first && error.kind() == ErrorKind::Conflict => Err(error.with_kind(ErrorKind::Internal)),
        other => other.and_then(|()| empty(200)),
    }
}

pub(crate) fn set(mut call: Call) -> Result<Response> {
    let changes: Vec<String> = serde_json::from_slice(&call.document()?)
        .map_err(|_| Error::invalid("the body is not a list of texts, each NAME=VALUE"))?;
    call.engine().plugin_set(&call.name, &changes)?;
    empty(204)
}

pub(crate) fn create(call: Call) -> Result<Response> {
    later(&call)?;
    Err(Error::unsupported("making plugins is not supported: docker makes and pushes them"))
}

pub(crate) fn push(_: Call) -> Result<Response> {
    Err(Error::unsupported("pushing plugins is not supported: docker makes and pushes them"))
}

/// The privileges of a request's body.
fn granted(call: &mut Call) -> Result<Vec<PluginPrivilege>> {
    let wrong = |why: &str| Error::internal(format!("failed to parse privileges: {why}"));
    // dockerd takes a body that is not called JSON for none.
    if call.check_json().is_err() || call.request.body.is_empty() {
        return Err(wrong("EOF"));
    }
    serde_json::from_slice::<Option<Vec<PluginPrivilege>>>(&call.document()?)
        .map(Option::unwrap_or_default)
        .map_err(|_| wrong("the body is not a list of privileges"))
}

/// A wrong reference is an error of the server, as with dockerd.
fn of_reference(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Invalid => error.with_kind(ErrorKind::Internal),
        _ => error,
    }
}

/// Streams the messages of a pull. An error before the first one is an ordinary answer.
fn reported(
    call: &Call,
    work: impl FnOnce(&mut dyn FnMut(Progress) -> Result<()>, Option<&coracle::Op>) -> Result<()> + Send + 'static,
) -> Response {
    let client = call.request.client.clone();
    streamed(call, Some("application/json"), move |sink| {
        let op = client.op()?;
        let mut report = |message: Progress| sink.write_all(&stream::progress(&message)).map_err(gone);
        match work(&mut report, op.as_ref()) {
            Ok(()) => Ok(()),
            Err(error) if sink.started() && error.kind() != ErrorKind::Cancelled => {
                sink.write_all(&stream::failure(&error)).map_err(gone)
            }
            Err(error) => Err(error),
        }
    })
}

/// The document of 1.24.
fn first_form(plugin: Plugin) -> Value {
    let (name, tag) = plugin.name.rsplit_once(':').unwrap_or((&plugin.name, "latest"));
    let (config, settings) = (&plugin.config, &plugin.settings);
    json!({
        "Id": plugin.id,
        "Name": name,
        "Tag": tag,
        "Active": plugin.enabled,
        "Config": {
            "Mounts": settings.mounts,
            "Env": settings.env,
            "Args": settings.args,
            "Devices": settings.devices,
        },
        "Manifest": {
            "ManifestVersion": "v0",
            "Description": config["Description"],
            "Documentation": config["Documentation"],
            "Interface": { "Types": config["Interface"]["Types"], "Socket": config["Interface"]["Socket"] },
            "Entrypoint": config["Entrypoint"],
            "Workdir": config["WorkDir"],
            "User": config["User"],
            "Network": config["Network"],
            "Capabilities": config["Linux"]["Capabilities"],
            "Mounts": config["Mounts"],
            "Devices": config["Linux"]["Devices"],
            "Env": config["Env"],
            "Args": config["Args"],
        },
    })
}
