//! Volumes in a copy of the root.

use super::dirs::own_mode;
use super::options::{self, document};
use crate::error::Result;
use crate::kernel::tree;
use crate::store::volumes::VolumeRow;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Whether a volume's options say that its data lie elsewhere.
pub(crate) fn lies_elsewhere(row: &VolumeRow) -> Result<bool> {
    let asked = document(row.options.as_deref())?.unwrap_or_default();
    Ok(options::source(&asked)?.is_some())
}

/// Makes the directory for the volumes of a copy.
pub(crate) fn copy_place(root: &Path) -> Result<OwnedFd> {
    tree::make_dir(&root.join("volumes"), own_mode())
}
