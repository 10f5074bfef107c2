//! Swarm, services, nodes and tasks, on a host that is outside of a swarm: every route says so.

use crate::answer::Call;
use crate::message::Response;
use crate::versions::Gate;
use coracle::{Error, ErrorKind, Result};

/// A route for members of a swarm, or for its managers.
pub(crate) fn members(call: Call) -> Result<Response> {
    const TEXT: &str = "This node is not a swarm manager. Use \"docker swarm init\" or \"docker swarm join\" to connect this \
                        node to swarm and try again.";
    outside(&call, TEXT)
}

/// Updates a volume of a cluster.
pub(crate) fn update_volume(call: Call) -> Result<Response> {
    match call.version.has(Gate::ClusterVolumes) {
        true => members(call),
        false => Err(Error::not_found("page not found")),
    }
}

pub(crate) fn leave(call: Call) -> Result<Response> {
    outside(&call, "This node is not part of a swarm")
}

/// Beginning a swarm, or joining one.
pub(crate) fn enter(call: Call) -> Result<Response> {
    outside(&call, "This node cannot become part of a swarm: swarm mode is not supported yet")
}

/// 406 to 1.24, which is specified; 503 to clients of later versions, and to those that name none, as they know it.
fn outside(call: &Call, text: &str) -> Result<Response> {
    let kind = if call.version.has(Gate::NoSwarm) { ErrorKind::Unavailable } else { ErrorKind::NotAcceptable };
    Err(Error::new(kind, text))
}
