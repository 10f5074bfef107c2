//! Managed plugins.

use crate::answer::{Answer, Outs};
use crate::arg::{self, Out};
use crate::call::call;
use crate::failure::Outcome;
use crate::query::Query;
use crate::registry::auth;
use crate::root::{Access, with_root};
use crate::types::*;
use crate::using::Using;
use crate::work::{Work, work};
use engine::model::{ListPlugins, PluginPrivilege, PullPlugin, RegistryAuth};
use libc::c_char;
use serde_json::{Map, Value};
use std::time::Duration;

/// Lists the installed plugins by name.
///
/// query_json: NULL, or an object with "filters": "capability" (a kind, such as volumedriver) and "enabled". *out_json: its
/// document; free it with coracle_free.
///
/// Schemas: query_json plugin-list-query, out_json plugin-list.
///
/// Errors: EINVALID (a filter).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_plugin_list(
    c: *mut coracle,
    query_json: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        let query = Query::new(query_json, "query_json", &["filters"], root.lenient())?;
        out.give_json(&root.engine().plugin_list(&ListPlugins { filters: query.filters()? })?)?;
        Ok(CORACLE_OK)
    })
}

/// Describes one installed plugin, by its name, its id or the beginning of its id.
///
/// *out_json: the document of GET /plugins/{name}/json; free it with coracle_free.
///
/// Schemas: out_json plugin.
///
/// Errors: ENOT_FOUND.
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_plugin_inspect(
    c: *mut coracle,
    name: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        out.give_json(&root.engine().plugin_inspect(arg::text(name, "name")?)?)?;
        Ok(CORACLE_OK)
    })
}

/// Lists the rights on the host that a plugin of a registry needs.
///
/// remote: repository[:tag] or repository@digest. auth_json: as for coracle_image_pull. *out_json: a list of objects with
/// "Name", "Description" and "Value"; free it with coracle_free.
///
/// Schemas: auth_json credentials, out_json plugin-privileges.
///
/// Errors: ENOT_FOUND (no such plugin, or no access), EUNAUTHORIZED (credentials are needed), EINVALID (remote, auth_json),
/// ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: until the registry answers, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_plugin_privileges(
    c: *mut coracle,
    remote: *const c_char,
    auth_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Read, op, Outs::none().json(out_json), err, &mut |root| {
        let (engine, remote) = (root.engine().clone(), arg::owned(remote, "remote")?);
        let auth = auth(auth_json, root.lenient())?;
        let ask =
            move |using: &Using| Answer::document(&using.done(engine.plugin_privileges(&remote, &auth, using.op()))?);
        work(ask).map(Work::long)
    })
}

/// Installs a plugin from a registry, disabled.
///
/// body_json: an object with "Remote", and any of "Name" (of the installation), "Privileges" (the rights that are granted: exactly those of
/// coracle_plugin_privileges; absent: all that the plugin needs) and "Auth" (as auth_json of coracle_image_pull). *out_id: the plugin's
/// id; free it with coracle_free. Progress records go to op.
///
/// Schemas: body_json plugin-pull.
///
/// Errors: ENOT_FOUND (no such plugin, or no access), EUNAUTHORIZED (credentials are needed), EINVALID (body_json; the name is
/// taken; other rights are needed), ECALLBACK, ECANCELLED, ETIMEOUT (op).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the plugin is here, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_plugin_pull(
    c: *mut coracle,
    body_json: *const c_char,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().id(out_id), err, &mut |root| {
        let engine = root.engine().clone();
        let request: PullPlugin = request(body_json, root.lenient())?;
        let pull = move |using: &Using| {
            using.done(engine.plugin_pull(&request, &mut |record| using.progress(&record), using.op()))?;
            let name = if request.name.is_empty() { &request.remote } else { &request.name };
            Answer::id(&engine.plugin_inspect(name)?.id)
        };
        work(pull).map(Work::long)
    })
}

/// Runs a plugin, and waits until it listens.
///
/// seconds: how long the plugin may take to listen; 0: 30 s.
///
/// Errors: ENOT_FOUND, ECONFLICT (the plugin is enabled), EINVALID (a mount or a device without a source), ECANCELLED, ETIMEOUT
/// (op).
///
/// Threads: any. Blocks: until the plugin listens, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_plugin_enable(
    c: *mut coracle,
    name: *const c_char,
    seconds: u32,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, name) = (root.engine().clone(), arg::owned(name, "name")?);
        let limit = Some(Duration::from_secs(seconds.into()));
        work(move |using| using.done(engine.plugin_enable(&name, limit, using.op())).map(|()| Answer::done()))
    })
}

/// Ends a plugin.
///
/// flags: CORACLE_PLUGIN_FORCE (also while volumes or networks use it), or 0.
///
/// Errors: ENOT_FOUND, ECONFLICT (the plugin is disabled, or used), EINVALID (flags), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: until the plugin has ended, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_plugin_disable(
    c: *mut coracle,
    name: *const c_char,
    flags: u64,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, name) = (root.engine().clone(), arg::owned(name, "name")?);
        let force = arg::flags(flags, CORACLE_PLUGIN_FORCE, "flags")? != 0;
        work(move |using| using.done(engine.plugin_disable(&name, force, using.op())).map(|()| Answer::done()))
    })
}

/// Removes a plugin with its files.
///
/// flags: CORACLE_PLUGIN_FORCE (also while it is enabled, or volumes or networks use it), or 0.
///
/// Errors: ENOT_FOUND, ECONFLICT (the plugin is enabled, or used), EINVALID (flags), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: until the plugin has ended, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_plugin_remove(
    c: *mut coracle,
    name: *const c_char,
    flags: u64,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, name) = (root.engine().clone(), arg::owned(name, "name")?);
        let force = arg::flags(flags, CORACLE_PLUGIN_FORCE, "flags")? != 0;
        work(move |using| using.done(engine.plugin_remove(&name, force, using.op())).map(|()| Answer::done()))
    })
}

/// Changes settings of a disabled plugin: all of them, or none.
///
/// changes_json: a list of texts, each NAME[.FIELD]=VALUE.
///
/// Schemas: changes_json strings.
///
/// Errors: ENOT_FOUND, EINVALID (changes_json), EINTERNAL (a change that the plugin does not allow; the plugin is enabled).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_plugin_set(
    c: *mut coracle,
    name: *const c_char,
    changes_json: *const c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let changes: Vec<String> = arg::json(changes_json, "changes_json")?;
        root.engine().plugin_set(arg::text(name, "name")?, &changes)?;
        Ok(CORACLE_OK)
    })
}

/// Puts another version in the place of a disabled plugin. Its settings are those of the new version.
///
/// body_json: as for coracle_plugin_pull; without "Remote" the plugin comes from where it came from before. "Name" has no effect.
/// Progress records go to op.
///
/// Schemas: body_json plugin-pull.
///
/// Errors: ENOT_FOUND (no such plugin, or no access), ECONFLICT (the plugin is enabled), EUNAUTHORIZED (credentials are needed),
/// EINVALID (body_json; other rights are needed), ECALLBACK, ECANCELLED, ETIMEOUT (op).
///
/// Threads: any; the callbacks come on the calling thread. Blocks: until the plugin is here, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_plugin_upgrade(
    c: *mut coracle,
    name: *const c_char,
    body_json: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, name) = (root.engine().clone(), arg::owned(name, "name")?);
        let request: PullPlugin = request(body_json, root.lenient())?;
        let pull = move |using: &Using| {
            let mut progress = |record: engine::model::Progress| using.progress(&record);
            using.done(engine.plugin_upgrade(&name, &request, &mut progress, using.op())).map(|()| Answer::done())
        };
        work(pull).map(Work::long)
    })
}

/// The document of an installation. Unless `lenient`: errors about members that none of its objects has.
fn request(body_json: *const c_char, lenient: bool) -> Outcome<PullPlugin> {
    const NAME: &str = "body_json";
    let request = arg::object_or_default(body_json, NAME, lenient)?;
    if lenient || body_json.is_null() {
        return Ok(request);
    }
    let members: Map<String, Value> = arg::json(body_json, NAME)?;
    if let Some(Value::Object(auth)) = members.get("Auth") {
        arg::known_members(auth, &RegistryAuth::default(), NAME, "Auth.")?;
    }
    let privileges = members.get("Privileges").and_then(Value::as_array).into_iter().flatten();
    for (number, privilege) in privileges.enumerate() {
        if let Value::Object(privilege) = privilege {
            arg::known_members(privilege, &PluginPrivilege::default(), NAME, &format!("Privileges[{number}]."))?;
        }
    }
    Ok(request)
}
