//! Networks.

use crate::answer::{Answer, Outs};
use crate::arg::{self, Out};
use crate::call::call;
use crate::query::Query;
use crate::root::{Access, with_root};
use crate::types::*;
use crate::work::work;
use coracle_http::Document;
use engine::model::{ConnectNetwork, CreateNetwork, DisconnectNetwork, ListNetworks};
use libc::c_char;

/// Lists networks by name.
///
/// query_json: NULL, or an object with "filters" (as in GET /networks). *out_json: its document; free it with
/// coracle_free.
///
/// Schemas: query_json network-list-query, out_json network-list.
///
/// Errors: EINVALID (a filter).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_list(
    c: *mut coracle,
    query_json: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        let query =
            ListNetworks { filters: Query::new(query_json, "query_json", &["filters"], root.lenient())?.filters()? };
        out.give_json(&root.engine().network_list(&query)?)?;
        Ok(CORACLE_OK)
    })
}

/// Describes one network in full.
///
/// id: its name, its id, or the beginning of its id. *out_json: the document of GET /networks/{id}; free it with
/// coracle_free.
///
/// Schemas: out_json network.
///
/// Errors: ENOT_FOUND, EINVALID (several fit).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_inspect(
    c: *mut coracle,
    id: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let out = Out::null(out_json);
    with_root(c, Access::Read, err, |root| {
        out.check("out_json")?;
        out.give_json(&root.engine().network_inspect(arg::text(id, "id")?)?)?;
        Ok(CORACLE_OK)
    })
}

/// Creates a network.
///
/// body_json: the body of POST /networks/create. *out_id: the network's id; free it with coracle_free. *out_json (may be
/// NULL): {"Id":..., "Warning":...}; free it with coracle_free.
///
/// Schemas: body_json network-create, out_json network-created.
///
/// Errors: EINVALID (a field, named), EFORBIDDEN (a reserved name, subnets that overlap others), ECONFLICT (name),
/// ENOT_FOUND (driver), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk; until the driver's plugin answers. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_create(
    c: *mut coracle,
    body_json: *const c_char,
    op: *mut coracle_op,
    out_id: *mut *mut c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    let outs = Outs::none().id(out_id).optional_json(out_json);
    call(c, Access::Change, op, outs, err, &mut |root| {
        let (body, unknown): (CreateNetwork, _) =
            arg::document(body_json, "body_json", Document::Network, root.lenient())?;
        let engine = root.engine().clone();
        work(move |using| {
            let mut created = using.done(engine.network_create(&body))?;
            for line in unknown {
                let between = if created.warning.is_empty() { "" } else { "; " };
                created.warning += &format!("{between}{line}");
            }
            Answer::id(&created.id)?.and_document(&created)
        })
    })
}

/// Removes a network.
///
/// Errors: ENOT_FOUND, EFORBIDDEN (the network is predefined, or running containers are on the network), ECANCELLED, ETIMEOUT
/// (op).
///
/// Threads: any. Blocks: disk; until the driver's plugin answers. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_remove(
    c: *mut coracle,
    id: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        work(move |using| using.done(engine.network_remove(&id)).map(|()| Answer::done()))
    })
}

/// Connects a container to a network. The container may run.
///
/// body_json: the body of POST /networks/{id}/connect: {"Container":..., "EndpointConfig":{...}}.
///
/// Schemas: body_json network-connect.
///
/// Errors: ENOT_FOUND, EFORBIDDEN (the container is connected already, or its network mode allows no other), EINVALID (a field,
/// named), ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: until the interface is there, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_connect(
    c: *mut coracle,
    id: *const c_char,
    body_json: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (body, _): (ConnectNetwork, _) = arg::document(body_json, "body_json", Document::Connect, root.lenient())?;
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        work(move |using| using.done(engine.network_connect(&id, &body, using.op())).map(|()| Answer::done()))
    })
}

/// Disconnects a container from a network. The container may run.
///
/// body_json: the body of POST /networks/{id}/disconnect: {"Container":..., "Force":...}.
///
/// Schemas: body_json network-disconnect.
///
/// Errors: ENOT_FOUND, EINTERNAL (the container is not connected), EFORBIDDEN (the host's network), EINVALID (a field, named),
/// ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: until the interface is gone, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_disconnect(
    c: *mut coracle,
    id: *const c_char,
    body_json: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let (body, _): (DisconnectNetwork, _) =
            arg::document(body_json, "body_json", Document::Disconnect, root.lenient())?;
        let (engine, id) = (root.engine().clone(), arg::owned(id, "id")?);
        work(move |using| using.done(engine.network_disconnect(&id, &body, using.op())).map(|()| Answer::done()))
    })
}

/// Removes the kernel's parts of networks without running containers: bridges; and, if no network is left, the rules of
/// the firewall and the settings of the host. The next start makes them again. For a host that ends its use of a root.
///
/// Errors: ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_release(
    c: *mut coracle,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let engine = root.engine().clone();
        work(move |using| using.done(engine.network_release()).map(|()| Answer::done()))
    })
}

/// Puts back at once the parts of the networks of running containers that another program removed: rules of the firewall
/// (`nft flush ruleset` removes all), bridges. The next start and the next coracle_open do the same.
///
/// Errors: ECANCELLED, ETIMEOUT (op).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_repair(
    c: *mut coracle,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none(), err, &mut |root| {
        let engine = root.engine().clone();
        work(move |using| using.done(engine.network_repair()).map(|()| Answer::done()))
    })
}

/// Removes networks that no running container is on, except for the predefined ones.
///
/// filters_json: NULL, or an object of lists: "until" (Unix seconds, RFC 3339 or a time before now: networks that are younger
/// stay), "label" and "label!". *out_json: an object with "NetworksDeleted" (a list of names); free it with coracle_free.
///
/// Schemas: filters_json filters, out_json network-prune.
///
/// Errors: EINVALID (a filter), ECANCELLED, ETIMEOUT (op). Objects that were removed before an error stay removed.
///
/// Threads: any. Blocks: until all networks were looked at, or op ends the call. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_prune(
    c: *mut coracle,
    filters_json: *const c_char,
    op: *mut coracle_op,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    call(c, Access::Change, op, Outs::none().json(out_json), err, &mut |root| {
        let filters = Query::filters_of(filters_json, "filters_json")?;
        let engine = root.engine().clone();
        work(move |using| Answer::document(&using.done(engine.networks_prune(&filters, using.op()))?))
    })
}
