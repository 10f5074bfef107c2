//! The rows of volumes, and how clients see them.

use super::LOCAL;
use super::dirs::VolumeDirs;
use super::list::Filter;
use super::options::document;
use super::remote::RemoteVolumes;
use super::sweep::Sweeper;
use crate::error::{Error, Result};
use crate::event::Journal;
use crate::kernel::{tree, turn};
use crate::model::{Event, ListVolumes, Volume, VolumeList};
use crate::store::volumes::{self as table, VolumeRow};
use crate::store::{Db, Flush};
use rusqlite::Transaction;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::Arc;

/// The volumes that have a row.
pub(crate) struct Register {
    pub(super) dirs: Arc<VolumeDirs>,
    pub(super) db: Arc<Db>,
    pub(super) journal: Arc<Journal>,
    pub(super) sweeper: Arc<Sweeper>,
    pub(super) remote: Arc<RemoteVolumes>,
}

impl Register {
    /// Volumes by name.
    pub(crate) fn list(&self, query: &ListVolumes) -> Result<VolumeList> {
        let filter = Filter::new(query)?;
        let mut list = VolumeList::default();
        let mut found: Vec<(Volume, bool)> = Vec::new();
        let mut of_plugins: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (row, used) in self.db.read(table::all)? {
            if let Some(driver) = self.remote.driver(&row.name)? {
                of_plugins.entry(driver).or_default().push(found.len());
            }
            found.push((self.local(&row)?, used));
        }
        for (driver, places) in of_plugins {
            let volumes = found.iter_mut().enumerate().filter(|(at, _)| places.contains(at));
            let mut volumes: Vec<&mut Volume> = volumes.map(|(_, (volume, _))| volume).collect();
            self.remote.describe_all(&mut volumes, &driver);
        }
        list.volumes
            .extend(found.into_iter().filter(|(volume, used)| filter.takes(volume, *used)).map(|(volume, _)| volume));
        Ok(list)
    }

    /// The drivers of the volumes, and the one that is built in; by name.
    pub(crate) fn drivers(&self) -> Result<BTreeSet<String>> {
        let mut drivers = BTreeSet::from([LOCAL.to_owned()]);
        for (row, _) in self.db.read(table::all)? {
            drivers.extend(self.remote.driver(&row.name)?);
        }
        Ok(drivers)
    }

    /// The volume of that name.
    pub(crate) fn inspect(&self, name: &str) -> Result<Volume> {
        self.shown(&self.row(name)?)
    }

    /// Appends an event of a volume.
    pub(crate) fn event(&self, action: &str, name: &str, extras: &[(&str, &str)]) -> Result<()> {
        let driver = self.remote.driver(name)?.unwrap_or_else(|| LOCAL.into());
        self.event_of(action, name, &driver, extras)
    }

    /// Appends an event of a volume of that driver.
    pub(super) fn event_of(&self, action: &str, name: &str, driver: &str, extras: &[(&str, &str)]) -> Result<()> {
        self.journal.append(&Event::volume(action, name, driver, extras)).map(drop)
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
        let mut volume = self.local(row)?;
        if let Some(driver) = self.remote.driver(&row.name)? {
            self.remote.describe(&mut volume, &driver);
        }
        Ok(volume)
    }

    /// The document of a volume as far as the engine itself knows it.
    fn local(&self, row: &VolumeRow) -> Result<Volume> {
        let time = crate::time::rfc3339_fixed(row.created_ns);
        Ok(Volume {
            created_at: format!("{}Z", String::from_utf8_lossy(&time[..19])),
            driver: LOCAL.into(),
            labels: document(row.labels.as_deref())?,
            mountpoint: self.dirs.mountpoint(&row.name).to_string_lossy().into_owned(),
            name: row.name.clone(),
            options: document(row.options.as_deref())?,
            scope: "local".into(),
            status: None,
            usage_data: None,
        })
    }
}
