//! Parts of blobs whose downloads were cut off: `root/tmp/part-<64 hex of the blob's digest>`, kept within bounds.

use super::layer_store::LayerStore;
use crate::error::Result;
use crate::kernel::tree::{self, Lock};
use crate::order::Order as _;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

pub(super) const PREFIX: &str = "part-";
/// How long a part is kept that nobody goes on with.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

impl LayerStore {
    /// Sweeps all parts that exist: see [`LayerStore::sweep_parts`].
    #[cfg(feature = "registry")]
    pub(crate) fn sweep_parts_now(&self, limit: u64) -> Result<()> {
        self.sweep_parts(tree::names(self.tmp())?, limit)
    }

    /// Removes parts that nobody downloads: empty ones, those that are too old, and the oldest until the others have no
    /// more than `limit` bytes.
    pub(crate) fn sweep_parts(&self, names: Vec<Vec<u8>>, limit: u64) -> Result<()> {
        let (tmp, mut found) = (self.tmp(), Vec::new());
        for name in names.into_iter().filter(|name| name.starts_with(PREFIX.as_bytes())) {
            if let Some(stat) = tree::stat_at(tmp, &name)?.filter(tree::Stat::is_file) {
                found.push((stat, name));
            }
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let oldest = i64::try_from(now.saturating_sub(LONGEST.as_secs())).unwrap_or(i64::MAX);
        // Newest first: what does not fit any more goes.
        found.order_by_key(|(stat, _)| std::cmp::Reverse((stat.mtime.seconds, stat.mtime.nanos)));
        let mut total = 0u64;
        for (stat, name) in found {
            total = total.saturating_add(stat.size);
            if stat.size > 0 && total <= limit && stat.mtime.seconds >= oldest {
                continue;
            }
            let Ok(file) = tree::open_at(tmp, &name, libc::O_RDWR, 0) else { continue };
            if tree::try_lock(file.as_fd(), Lock::Exclusive)? {
                total = total.saturating_sub(stat.size);
                let _ = tree::unlink_at(tmp, &name);
            }
        }
        Ok(())
    }
}
