//! One layer: from a tar to an unpacked tree and a recipe, and back.

pub(crate) mod entry;
mod pipeline;
pub(crate) mod recipe;
mod unpack;

pub(crate) use pipeline::{Room, Stage, Staged, Workers};
