//! Containers: who exists, under which name, in which slot of the state files.

/// This noun's tables.
pub(crate) const SCHEMA: &str = "";
