//! The size of a tree of files.

use super::tree;
use super::walk::{Mounts, Order, Step, Walk};
use crate::error::{ErrorKind, Result};
use crate::op::Op;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Bytes of a tree's files, hard links once. Files that cannot be read do not count. Errors: `op` ends.
pub(crate) fn tree_size(dir: &Path, op: Option<&Op>) -> Result<i64> {
    let mut total = 0;
    match tree::open_dir(dir).and_then(|dir| add_sizes(&dir, &mut total, op)) {
        Err(error) if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Timeout) => Err(error),
        _ => Ok(total),
    }
}

fn add_sizes(dir: &OwnedFd, total: &mut i64, op: Option<&Op>) -> Result<()> {
    let mut seen = BTreeSet::new();
    let mut walk = Walk::new(dir.as_fd(), Order::AsRead, Mounts::Crossed)?;
    while let Some(step) = walk.next()? {
        if step == Step::Left {
            continue;
        }
        if walk.is_dir() {
            op.map_or(Ok(()), Op::check)?;
            if let Ok(Some(below)) = walk.open() {
                walk.enter(below)?;
            }
        } else if let Ok(Some(stat)) = walk.stat()
            && (stat.links == 1 || seen.insert(stat.ino))
        {
            *total = total.saturating_add(i64::try_from(stat.size).unwrap_or(i64::MAX));
        }
    }
    Ok(())
}
