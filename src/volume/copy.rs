//! Copying what an image has at a volume's place into the volume.

use crate::error::Result;
use crate::kernel::copy::{Attributes, TreeCopy};
use std::os::fd::BorrowedFd;

/// Copies everything in the directory `from` into the empty directory `to`, and gives `to` its owner, mode and times:
/// hard links, devices and the extended attributes that a container sees too.
///
/// Both must be opened for reading. Nothing is followed that is a link.
pub(super) fn copy_tree(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<()> {
    TreeCopy::new(Attributes::Seen, None).all(from, to)
}
