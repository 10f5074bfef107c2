//! Networks.

use crate::arg::{self, Out};
use crate::op::Using;
use crate::query::Query;
use crate::root::{Access, with_root};
use crate::types::*;
use coracle_http::Document;
use engine::model::{ConnectNetwork, CreateNetwork, DisconnectNetwork, ListNetworks};
use libc::c_char;

/// Lists networks by name.
///
/// query_json: NULL, or an object with "filters" (as in GET /networks). *out_json: its document; free it with
/// coracle_free.
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
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let query =
            ListNetworks { filters: Query::new(query_json, "query_json", &["filters"], root.lenient())?.filters()? };
        out.give_json(&root.engine().network_list(&query)?)?;
        Ok(CORACLE_OK)
    })
}

/// Everything about one network.
///
/// id: its name, its id, or the beginning of its id. *out_json: the document of GET /networks/{id}; free it with
/// coracle_free.
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
    with_root(c, Access::Read, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        out.give_json(&root.engine().network_inspect(arg::text(id, "id")?)?)?;
        Ok(CORACLE_OK)
    })
}

/// Makes a network.
///
/// body_json: the body of POST /networks/create. *out_json: {"Id":..., "Warning":...}; free it with coracle_free.
///
/// Errors: EINVALID (a field, named), EFORBIDDEN (a reserved name, subnets that overlap others), ECONFLICT (name),
/// ENOT_FOUND (driver), EIO (the kernel refused).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_create(
    c: *mut coracle,
    body_json: *const c_char,
    out_json: *mut *mut c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let out = Out::null(out_json, "out_json")?;
        let (body, unknown) =
            arg::document::<CreateNetwork>(body_json, "body_json", Document::Network, root.lenient())?;
        let mut created = root.engine().network_create(&body)?;
        if !unknown.is_empty() {
            created.warning = [created.warning]
                .into_iter()
                .filter(|text| !text.is_empty())
                .chain(unknown)
                .collect::<Vec<_>>()
                .join("; ");
        }
        out.give_json(&created)?;
        Ok(CORACLE_OK)
    })
}

/// Removes a network.
///
/// Errors: ENOT_FOUND, EFORBIDDEN (it is predefined, running containers are on it).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_remove(
    c: *mut coracle,
    id: *const c_char,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        root.engine().network_remove(arg::text(id, "id")?)?;
        Ok(CORACLE_OK)
    })
}

/// Puts a container on a network, running or not.
///
/// body_json: the body of POST /networks/{id}/connect: {"Container":..., "EndpointConfig":{...}}.
///
/// Errors: ENOT_FOUND, EFORBIDDEN (it is on it, its mode allows no other), EINVALID (a field, named).
///
/// Threads: any. Blocks: until the interface is there, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_connect(
    c: *mut coracle,
    id: *const c_char,
    body_json: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let (body, _) = arg::document::<ConnectNetwork>(body_json, "body_json", Document::Connect, root.lenient())?;
        let using = Using::new(op)?;
        using.done(root.engine().network_connect(arg::text(id, "id")?, &body, using.op()))?;
        Ok(CORACLE_OK)
    })
}

/// Takes a container off a network, running or not.
///
/// body_json: the body of POST /networks/{id}/disconnect: {"Container":..., "Force":...}.
///
/// Errors: ENOT_FOUND, EINTERNAL (it is not on it), EFORBIDDEN (the host's network).
///
/// Threads: any. Blocks: until the interface is gone, or op ends it. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_disconnect(
    c: *mut coracle,
    id: *const c_char,
    body_json: *const c_char,
    op: *mut coracle_op,
    err: *mut *mut coracle_error,
) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        let (body, _) =
            arg::document::<DisconnectNetwork>(body_json, "body_json", Document::Disconnect, root.lenient())?;
        let using = Using::new(op)?;
        using.done(root.engine().network_disconnect(arg::text(id, "id")?, &body, using.op()))?;
        Ok(CORACLE_OK)
    })
}

/// Takes away what the kernel has of networks that no running container is on: bridges, and the firewall's rules and the
/// settings of the host where no network is left. The next start makes them again. For who ends using a root.
///
/// Errors: EIO (the kernel refused).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_release(c: *mut coracle, err: *mut *mut coracle_error) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        root.engine().network_release()?;
        Ok(CORACLE_OK)
    })
}

/// Puts back at once what another program took of the networks of running containers: the firewall's rules (`nft flush
/// ruleset` takes all), bridges. The next start and the next coracle_open do the same.
///
/// Errors: EIO (the kernel refused).
///
/// Threads: any. Blocks: disk. Since: 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn coracle_network_repair(c: *mut coracle, err: *mut *mut coracle_error) -> coracle_status {
    with_root(c, Access::Change, err, |root| {
        root.engine().network_repair()?;
        Ok(CORACLE_OK)
    })
}
