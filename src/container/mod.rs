//! Containers: what they are ([`spec`]), what they are called, how they are listed and shown.

pub(crate) mod list;
pub(crate) mod names;
pub(crate) mod spec;
pub(crate) mod text;
pub(crate) mod top;
