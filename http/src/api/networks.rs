//! Networks.

use crate::answer::{Call, as_object, document, empty};
use crate::message::Response;
use crate::schema::{self, Table};
use crate::versions::{Gate, Noun};
use coracle::model::{ConnectNetwork, CreateNetwork, DisconnectNetwork, ListNetworks};
use coracle::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub(crate) fn list(call: Call) -> Result<Response> {
    let query = ListNetworks { filters: call.query.filters()? };
    let networks = call.engine().network_list(&query)?;
    let listed = |network| {
        let mut network = shown(network)?;
        call.version.lower(Noun::ListedNetwork, &mut network);
        Ok(network)
    };
    document(200, networks.iter().map(listed).collect::<Result<Vec<_>>>()?)
}

pub(crate) fn inspect(call: Call) -> Result<Response> {
    document(200, shown(&call.engine().network_inspect(&call.name)?)?)
}

/// A network under the specification's names and under those that clients read: addresses that are set aside, and what the
/// default network was made with.
fn shown(network: &impl Serialize) -> Result<Map<String, Value>> {
    let mut network = as_object(network)?;
    let pools = network.get_mut("IPAM").and_then(|ipam| ipam.get_mut("Config")).and_then(Value::as_array_mut);
    for pool in pools.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(addresses) = pool.get("AuxiliaryAddresses").cloned() {
            pool.insert("AuxAddress".into(), addresses);
        }
    }
    if network.get("Name").is_some_and(|name| name == "bridge")
        && let Some(Value::Object(options)) = network.get_mut("Options")
    {
        let twin = |(key, value): (&String, &Value)| {
            key.strip_prefix("com.docker.network.").map(|rest| (format!("com.engine.network.{rest}"), value.clone()))
        };
        let twins: Vec<_> = options.iter().filter_map(twin).collect();
        options.extend(twins);
    }
    Ok(network)
}

pub(crate) fn create(mut call: Call) -> Result<Response> {
    let body: CreateNetwork = body(&mut call, &schema::NETWORK_CREATE)?;
    document(201, call.engine().network_create(&body)?)
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
