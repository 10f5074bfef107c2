//! To be written.

pub(crate) mod capability;
pub(crate) mod devices;
