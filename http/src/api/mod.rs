//! The routes' functions: the request's words become calls of the engine, its answers become bodies.

pub(crate) mod archive;
pub(crate) mod build;
pub(crate) mod containers;
pub(crate) mod disk_usage;
pub(crate) mod exec;
pub(crate) mod images;
mod lowered;
pub(crate) mod networks;
pub(crate) mod plugins;
pub(crate) mod prune;
pub(crate) mod registry;
pub(crate) mod swarm;
pub(crate) mod system;
pub(crate) mod unbuilt;
pub(crate) mod volumes;

use crate::answer::Call;
use crate::message::Response;
use coracle::Result;

/// A route's function.
pub(crate) type Handler = fn(Call) -> Result<Response>;
