//! One layer: from a tar to an unpacked tree and a recipe, and back.

mod describe;
pub(crate) mod entry;
pub(crate) mod later;
mod pipeline;
pub(crate) mod recipe;
pub(crate) mod recorder;
mod unpack;
pub(crate) mod write;

pub(crate) use describe::describe;
pub(crate) use pipeline::{Room, Stage, Staged, Workers};
