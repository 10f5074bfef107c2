//! Images, their names and layers.

/// This noun's tables.
pub(crate) const SCHEMA: &str = "";
