//! Networks.

use super::{Call, document, empty};
use crate::message::Response;
use crate::schema::{self, Table};
use crate::versions::Gate;
use coracle::model::{ConnectNetwork, CreateNetwork, DisconnectNetwork, ListNetworks};
use coracle::{Error, Result};
use serde::de::DeserializeOwned;

pub(crate) fn list(call: Call) -> Result<Response> {
    let query = ListNetworks { filters: call.query.filters()? };
    document(200, &call.engine().network_list(&query)?)
}

pub(crate) fn inspect(call: Call) -> Result<Response> {
    document(200, &call.engine().network_inspect(&call.name)?)
}

pub(crate) fn create(mut call: Call) -> Result<Response> {
    let body: CreateNetwork = body(&mut call, &schema::NETWORK_CREATE)?;
    document(201, &call.engine().network_create(&body)?)
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
    schema::typed(&schema::read(&text, table)?)
}
