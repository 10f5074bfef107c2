//! Swarm, services, nodes and tasks. The program `coracle-swarm` answers them; outside of a swarm every route says that it is.

use crate::answer::{Call, refusal};
use crate::message::{BodyOut, Response};
use crate::target::{split, split_version};
use crate::versions::Gate;
use coracle::{Error, ErrorKind, Result, SwarmAnswer, SwarmRequest};
use std::io::Read;

const NO_MANAGER: &str = "This node is not a swarm manager. Use \"docker swarm init\" or \"docker swarm join\" to connect this \
                          node to swarm and try again.";
/// The greatest size of an error's body, in bytes.
const LONGEST_ERROR: u64 = 64 << 10;

/// A route for members of a swarm, or for its managers.
pub(crate) fn members(call: Call) -> Result<Response> {
    passed_on(call, false, NO_MANAGER)
}

/// Updates a volume of a cluster.
pub(crate) fn update_volume(call: Call) -> Result<Response> {
    match call.version.has(Gate::ClusterVolumes) {
        true => members(call),
        false => Err(Error::not_found("page not found")),
    }
}

pub(crate) fn leave(call: Call) -> Result<Response> {
    passed_on(call, false, "This node is not part of a swarm")
}

/// Beginning a swarm, or joining one.
pub(crate) fn enter(call: Call) -> Result<Response> {
    passed_on(call, true, NO_MANAGER)
}

/// A network of the swarm: outside of one there is none.
pub(crate) fn network(call: Call) -> Result<Response> {
    let missing = Error::not_found(format!("network {} not found", call.name));
    match sent(&call, &[], false)? {
        Some(answer) => shown(&call, answer),
        None => Err(missing),
    }
}

/// The answer of the swarm's program. Outside of a swarm it is 406 with `outside` to 1.24, which is specified; 503 to clients of later
/// versions, and to those that name none, as they know it.
fn passed_on(mut call: Call, enters: bool, outside: &str) -> Result<Response> {
    let body = match call.request.method.as_str() {
        "POST" if !call.request.body.is_empty() => Some(call.document()?),
        _ => None,
    };
    match sent(&call, body.as_deref().unwrap_or_default(), enters)? {
        Some(answer) => shown(&call, answer),
        None => {
            let kind = if call.version.has(Gate::NoSwarm) { ErrorKind::Unavailable } else { ErrorKind::NotAcceptable };
            Err(Error::new(kind, outside))
        }
    }
}

/// Sends a request as it came, with its version.
fn sent(call: &Call, body: &[u8], enters: bool) -> Result<Option<SwarmAnswer>> {
    let (path, query) = split(&call.request.target);
    let (_, rest) = split_version(path);
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let target = format!("/v{}{rest}{query}", call.version);
    let registry_auth = call.request.headers.get("X-Registry-Auth");
    call.engine().swarm_request(&SwarmRequest {
        method: &call.request.method,
        target: &target,
        registry_auth,
        body,
        enters,
    })
}

/// The program's answer, which is read while it goes out; an error in the form of the call's version.
fn shown(call: &Call, answer: SwarmAnswer) -> Result<Response> {
    if answer.status >= 400 {
        return Ok(refusal(&call.version, answer.status, &message(answer)?));
    }
    let mut made = Response::new(answer.status, Vec::new());
    let Some(media) = answer.content_type else { return Ok(made) };
    let mut body = answer.body;
    made.body = BodyOut::Document(Box::new(move |out| std::io::copy(&mut body, out).map(drop)));
    Ok(made.with("Content-Type", media))
}

/// The text of an error.
fn message(answer: SwarmAnswer) -> Result<String> {
    let mut text = String::new();
    let read = answer.body.take(LONGEST_ERROR).read_to_string(&mut text);
    read.map_err(|error| Error::io("read the answer of coracle-swarm", &error))?;
    let document: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(document["message"].as_str().map_or_else(|| text.trim().to_owned(), str::to_owned))
}
