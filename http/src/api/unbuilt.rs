//! Routes that clients know and the engine does not have yet: they say so.

use crate::answer::Call;
use crate::message::Response;
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
    checkpoints: "checkpoints are",
}

/// A session of BuildKit, or the builder's own protocol.
pub(crate) fn buildkit(_: Call) -> Result<Response> {
    Err(Error::unsupported(
        "BuildKit sessions are not supported: set DOCKER_BUILDKIT=0, or use a builder of the docker-container driver",
    ))
}
