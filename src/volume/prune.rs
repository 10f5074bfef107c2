//! Removing the volumes that nothing uses, and how large volumes are.

use super::create::Remover;
use super::dirs::VolumeDirs;
use super::options::document;
use super::register::Register;
use crate::error::{ErrorKind, Result};
use crate::kernel::size::tree_size;
use crate::model::{Filters, PruneFilter, PrunedVolumes, Volume, VolumeUsage, bad_filter};
use crate::notes::{LogLevel, note};
use crate::op::Op;
use crate::store::Db;
use crate::store::volumes::{self as table, VolumeRow};
use std::sync::Arc;

/// Removes volumes that nothing uses, and measures volumes.
pub(crate) struct Pruner {
    pub(super) dirs: Arc<VolumeDirs>,
    pub(super) db: Arc<Db>,
    pub(super) register: Arc<Register>,
    pub(super) remover: Arc<Remover>,
}

impl Pruner {
    /// Removes volumes that no container uses: those that nobody named, or all. One that a container takes meanwhile stays.
    pub(crate) fn prune(&self, filters: &Filters, op: Option<&Op>) -> Result<PrunedVolumes> {
        let mut filters = filters.clone();
        let all = match filters.remove("all") {
            None => false,
            Some(values) => match values.as_slice() {
                [value] if matches!(value.as_str(), "true" | "1") => true,
                [value] if matches!(value.as_str(), "false" | "0") => false,
                values => return Err(bad_filter("all", values)),
            },
        };
        // dockerd knows no age of volumes either.
        if let Some(values) = filters.get("until") {
            return Err(bad_filter("until", values));
        }
        let filter = PruneFilter::read(&filters)?;
        let mut pruned = PrunedVolumes::default();
        for (row, used) in self.db.read(table::all)? {
            op.map_or(Ok(()), Op::check)?;
            let labels = document(row.labels.as_deref())?.unwrap_or_default();
            if used || !all && !is_unnamed(&row.name) || !filter.takes(row.created_ns, &labels) {
                continue;
            }
            let size = self.size(&row, op)?;
            match self.remover.remove(&row.name, false) {
                Ok(()) => {
                    pruned.space_reclaimed += u64::try_from(size).unwrap_or(0);
                    pruned.volumes_deleted.push(row.name);
                }
                Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {}
                // The plugin of one volume does not keep the others.
                Err(error) if self.remover.remote.driver(&row.name)?.is_some() => {
                    note(LogLevel::Error, "volume", None, || format!("a prune leaves volume {}: {error}", row.name));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pruned)
    }

    /// Volumes by name, each with its size and the number of containers that use it. No lock is held while files are
    /// counted.
    pub(crate) fn list_with_usage(&self, op: Option<&Op>) -> Result<Vec<Volume>> {
        let rows = self.db.read(|tx| {
            let rows = table::all(tx)?.into_iter();
            rows.map(|(row, _)| table::users(tx, &row.name).map(|users| (row, users.len()))).collect::<Result<Vec<_>>>()
        })?;
        let with_usage = |(row, users): (VolumeRow, usize)| {
            let usage = VolumeUsage { size: self.size(&row, op)?, ref_count: i64::try_from(users).unwrap_or(i64::MAX) };
            Ok(Volume { usage_data: Some(usage), ..self.register.shown(&row)? })
        };
        rows.into_iter().map(with_usage).collect()
    }

    /// Bytes of a volume's files; -1 if they are not in its directory.
    fn size(&self, row: &VolumeRow, op: Option<&Op>) -> Result<i64> {
        match row.options {
            Some(_) => Ok(-1),
            None if self.remover.remote.driver(&row.name)?.is_some() => Ok(-1),
            None => tree_size(&self.dirs.mountpoint(&row.name), op),
        }
    }
}

/// Whether the engine made up the name.
fn is_unnamed(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
