//! Routes that clients know and the engine does not have yet: they say so.

use super::{Call, empty};
use crate::message::Response;
use crate::versions::Gate;
use coracle::{Error, Result};

fn unsupported(what: &str) -> Result<Response> {
    Err(Error::unsupported(format!("{what} not supported yet")))
}

macro_rules! unbuilt {
    ($($name:ident: $what:literal,)*) => {
        $(pub(crate) fn $name(_: Call) -> Result<Response> {
            unsupported($what)
        })*
    };
}

unbuilt! {
    attach_ws: "attaching over a websocket is",
    changes: "listing a container's changes is",
    export: "exporting a container is",
    archive: "copying files into and out of containers is",
    search: "searching for images is",
    commit: "committing a container is",
    build: "building images is",
    volumes: "volumes are",
    plugins: "plugins are",
    swarm: "swarm mode is",
}

/// Gone from 1.24 on, with an answer that has no body.
pub(crate) fn copy(call: Call) -> Result<Response> {
    if call.version.has(Gate::NoCopy) {
        return empty(404);
    }
    unsupported("copying files out of containers is")
}
