//! The receiver of a tar that is read: its recipe, or nothing.

use crate::error::Result;

/// Receives every byte of a tar, in order.
pub(crate) trait Recorder {
    /// Bytes that stand nowhere else.
    fn literal(&mut self, bytes: &[u8]) -> Result<()>;
    /// Bytes that stand in the unpacked tree.
    fn content(&mut self, path: &[u8], offset: u64, length: u64) -> Result<()>;
    /// The file at `path` was put aside.
    fn replaced(&mut self, path: &[u8]) -> Result<()>;
}
