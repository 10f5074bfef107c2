//! Networks.

use super::swarm;
use crate::answer::{Call, as_object, document, empty};
use crate::message::Response;
use crate::schema::{self, Table};
use crate::versions::{Gate, Noun, Version};
use coracle::model::{ConnectNetwork, CreateNetwork, DisconnectNetwork, ListNetworks};
use coracle::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;

pub(crate) fn list(call: Call) -> Result<Response> {
    let query = ListNetworks { filters: call.query.filters()? };
    let networks = call.engine().network_list(&query)?;
    let listed = |network| {
        let mut network = as_object(network)?;
        call.version.lower(Noun::ListedNetwork, &mut network);
        Ok(network)
    };
    document(200, networks.iter().map(listed).collect::<Result<Vec<_>>>()?)
}

pub(crate) fn inspect(call: Call) -> Result<Response> {
    if call.query.text("scope") == "swarm" {
        return swarm::network(call);
    }
    let found = match call.engine().network_inspect(&call.name) {
        // The network may be one of a swarm.
        Err(error) if error.kind() == ErrorKind::NotFound && call.query.text("scope").is_empty() => {
            return swarm::network(call);
        }
        other => other?,
    };
    let mut network = as_object(&found)?;
    call.version.lower(Noun::Network, &mut network);
    document(200, network)
}

pub(crate) fn create(mut call: Call) -> Result<Response> {
    let body: CreateNetwork = body(&mut call, &schema::NETWORK_CREATE)?;
    let created = call.engine().network_create(&body);
    document(201, created.map_err(|error| as_described(error, &call.version))?)
}

/// Pools that are wrong are a failure of the server to the contract, and a bad request to later versions.
fn as_described(error: Error, version: &Version) -> Error {
    let of_pools = error.kind() == ErrorKind::Internal && error.facts().field == "IPAM.Config";
    match of_pools && version.has(Gate::BadPoolsAreInvalid) {
        true => Error::invalid(error.message()).in_area(error.area()).in_field("IPAM.Config"),
        false => error,
    }
}

pub(crate) fn connect(mut call: Call) -> Result<Response> {
    let body: ConnectNetwork = body(&mut call, &schema::NETWORK_CONNECT)?;
    call.engine().network_connect(&call.name, &body, call.request.client.op()?.as_ref())?;
    empty(200)
}

pub(crate) fn disconnect(mut call: Call) -> Result<Response> {
    let body: DisconnectNetwork = body(&mut call, &schema::NETWORK_DISCONNECT)?;
    call.engine().network_disconnect(&call.name, &body, call.request.client.op()?.as_ref())?;
    empty(200)
}

pub(crate) fn remove(call: Call) -> Result<Response> {
    call.engine().network_remove(&call.name)?;
    empty(if call.version.has(Gate::NetworkRemovalIsEmpty) { 204 } else { 200 })
}

fn body<T: DeserializeOwned>(call: &mut Call, table: &'static Table) -> Result<T> {
    call.check_json()?;
    let text = call.document()?;
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(Error::invalid("got EOF while reading request body"));
    }
    schema::typed(schema::read(&text, table)?)
}
