//! Volumes in a copy of the root.

use super::{DATA, Volumes, document, options, own_mode};
use crate::error::Result;
use crate::kernel::copy::TreeCopy;
use crate::kernel::tree;
use crate::store::volumes::VolumeRow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

impl Volumes {
    /// Copies a volume's directory into `to`; answers whether it is there still.
    pub(crate) fn copy_to(&self, name: &str, to: BorrowedFd<'_>, copy: &mut TreeCopy<'_>) -> Result<bool> {
        let volume = match tree::open_dir_at(self.dir.as_fd(), name) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(false),
            volume => volume?,
        };
        tree::mkdir_at(to, name, own_mode())?;
        let made = tree::open_dir_at(to, name)?;
        let data = match tree::open_dir_at(volume.as_fd(), DATA) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(true),
            data => data?,
        };
        tree::mkdir_at(made.as_fd(), DATA, 0o755)?;
        let place = tree::open_dir_at(made.as_fd(), DATA)?;
        copy.all(data.as_fd(), place.as_fd()).map_err(|error| error.context(format_args!("volume {name}")))?;
        Ok(true)
    }
}

/// Whether a volume's options say that its data lie elsewhere.
pub(crate) fn lies_elsewhere(row: &VolumeRow) -> Result<bool> {
    let asked = document(row.options.as_deref())?.unwrap_or_default();
    Ok(options::source(&asked)?.is_some())
}

/// Makes the directory for the volumes of a copy.
pub(crate) fn copy_place(root: &Path) -> Result<OwnedFd> {
    tree::make_dir(&root.join("volumes"), own_mode())
}
