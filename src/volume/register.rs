//! The rows of volumes, and how clients see them.

use super::LOCAL;
use super::dirs::VolumeDirs;
use super::list::Filter;
use super::options::document;
use super::sweep::Sweeper;
use crate::error::{Error, Result};
use crate::event::Journal;
use crate::kernel::{tree, turn};
use crate::model::{Event, ListVolumes, Volume, VolumeList};
use crate::store::volumes::{self as table, VolumeRow};
use crate::store::{Db, Flush};
use rusqlite::Transaction;
use std::os::fd::AsFd;
use std::sync::Arc;

/// The volumes that have a row.
pub(crate) struct Register {
    pub(super) dirs: Arc<VolumeDirs>,
    pub(super) db: Arc<Db>,
    pub(super) journal: Arc<Journal>,
    pub(super) sweeper: Arc<Sweeper>,
}

impl Register {
    /// Volumes by name.
    pub(crate) fn list(&self, query: &ListVolumes) -> Result<VolumeList> {
        let filter = Filter::new(query)?;
        let mut list = VolumeList::default();
        for (row, used) in self.db.read(table::all)? {
            let volume = self.shown(&row)?;
            if filter.takes(&volume, used) {
                list.volumes.push(volume);
            }
        }
        Ok(list)
    }

    /// The volume of that name.
    pub(crate) fn inspect(&self, name: &str) -> Result<Volume> {
        self.shown(&self.row(name)?)
    }

    /// Appends an event of a volume.
    pub(crate) fn event(&self, action: &str, name: &str, extras: &[(&str, &str)]) -> Result<()> {
        self.journal.append(&Event::volume(action, name, LOCAL, extras)).map(drop)
    }

    pub(super) fn row(&self, name: &str) -> Result<VolumeRow> {
        let row = self.db.read(|tx| table::get(tx, name))?;
        row.ok_or_else(|| Error::not_found(format!("get {name}: no such volume")))
    }

    /// The row of a volume that is there. One with a row, but without a directory, was taken by a removal that did not
    /// get to its end, and is put back.
    pub(super) fn standing(&self, name: &str) -> Result<Option<VolumeRow>> {
        let there = || tree::stat_at(self.dirs.volumes.as_fd(), name).map(|stat| stat.is_some());
        let row = self.db.read(|tx| table::get(tx, name))?;
        if row.is_none() || there()? {
            return Ok(row);
        }
        // Under a write transaction no removal is half way.
        let halved = |tx: &Transaction<'_>| Ok((table::get(tx, name)?, there()?));
        match self.db.write(Flush::Lazy, halved)? {
            (Some(_), false) => {}
            (row, _) => return Ok(row),
        }
        // Another may hold a lock that the sweep needs for a moment: a sweeper, or a child that the host program has
        // just forked, which has copies of all descriptors until its exec. The directory is lost only if all was looked
        // at.
        turn::wait_for(format_args!("the directory of volume {name}"), turn::LONGEST, None, || {
            let looked_at_all = self.sweeper.sweep()?;
            match self.db.write(Flush::Lazy, halved)? {
                (Some(_), false) if looked_at_all => {
                    Err(Error::corrupt(format!("the directory of volume {name} is gone")))
                }
                (Some(_), false) => Ok(None),
                (row, _) => Ok(Some(row)),
            }
        })
    }

    pub(super) fn shown(&self, row: &VolumeRow) -> Result<Volume> {
        let time = crate::time::rfc3339_fixed(row.created_ns);
        Ok(Volume {
            created_at: format!("{}Z", String::from_utf8_lossy(&time[..19])),
            driver: LOCAL.into(),
            labels: document(row.labels.as_deref())?,
            mountpoint: self.dirs.mountpoint(&row.name).to_string_lossy().into_owned(),
            name: row.name.clone(),
            options: document(row.options.as_deref())?,
            scope: "local".into(),
            usage_data: None,
        })
    }
}
