//! Volumes that containers are about to use: staged, filled, and made visible with their rows.

use super::LOCAL;
use super::copy;
use super::dirs::{DATA, Staging, VolumeDirs, own_mode};
use super::options::{self, Source, document, pairs};
use super::register::Register;
use super::remote::{RemoteVolumes, is_plugin};
use crate::error::{Error, Result};
use crate::kernel::mount;
use crate::kernel::tree::{self, Lock};
use crate::model::{CreateVolume, StringMap, VolumeOptions};
use crate::notes::{LogLevel, note};
use crate::store::Durability;
use crate::store::volumes::{self as table, VolumeRow};
use crate::walls::Wall;
use rusqlite::Transaction;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Makes volumes ready for use.
pub(crate) struct Stager {
    pub(super) dirs: Arc<VolumeDirs>,
    pub(super) register: Arc<Register>,
    pub(super) remote: Arc<RemoteVolumes>,
}

/// A volume that a container is about to use: see [`Stager::stage`].
pub(crate) struct Staged<'a> {
    name: String,
    /// Where it is new: a directory of ours that becomes it.
    staging: Option<Staging<'a>>,
    /// Where it is new: its labels and options.
    made_with: CreateVolume,
    /// Where it is new at a plugin.
    at_plugin: Option<AtPlugin>,
}

/// A volume that a plugin has made, and that has no row yet: dropping it lets the plugin remove the volume.
struct AtPlugin {
    remote: Arc<RemoteVolumes>,
    driver: String,
    name: String,
    is_kept: bool,
}

impl Drop for AtPlugin {
    fn drop(&mut self) {
        // Best effort: a plugin that is gone keeps its volume, which the next creation of that name takes.
        if !self.is_kept
            && let Err(error) = self.remote.remove(&self.driver, &self.name)
        {
            note(LogLevel::Warn, "volume", None, || {
                format!("a volume that was not created stays at its plugin: {error}")
            });
        }
    }
}

impl Staged<'_> {
    /// Adds the labels and options of a volume that is new.
    pub(crate) fn made_with(self, asked: &VolumeOptions) -> Self {
        let map = |map: &StringMap| (!map.is_empty()).then(|| map.clone());
        let driver_opts = asked.driver_config.as_ref().and_then(|driver| map(&driver.options));
        Staged {
            made_with: CreateVolume { labels: map(&asked.labels), driver_opts, ..CreateVolume::default() },
            ..self
        }
    }
    /// The volume's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Stager {
    /// Makes a volume ready for a container, before the transaction that makes it a use: a new one is staged, one that
    /// is there and empty is filled from `content`, a directory of the container's image.
    pub(crate) fn stage(&self, name: &str, content: Option<&OwnedFd>) -> Result<Staged<'_>> {
        if let Some(row) = self.register.standing(name)? {
            if let Some(content) = content {
                self.fill(&row, content)?;
            }
            return Ok(Staged {
                name: name.to_owned(),
                staging: None,
                made_with: CreateVolume::default(),
                at_plugin: None,
            });
        }
        self.stage_new(name, content, None)
    }

    /// As [`Stager::stage`]; a new volume has the driver of `body`, and a plugin makes its volume. Errors, too: the volume is
    /// there with another driver.
    pub(crate) fn stage_with(&self, name: &str, content: Option<&OwnedFd>, body: &CreateVolume) -> Result<Staged<'_>> {
        if self.register.standing(name)?.is_some() {
            let has = self.remote.driver(name)?;
            let driver = self.remote.plugins.full_name(&body.driver);
            if !driver.is_empty() && driver != has.as_deref().unwrap_or(LOCAL) {
                let text = format!("A volume named {name} already exists. Choose a different volume name.");
                return Err(Error::conflict(text));
            }
            return self.stage(name, content.filter(|_| has.is_none()));
        }
        if !is_plugin(&body.driver) {
            return self.stage_new(name, content, None);
        }
        if content.is_some() {
            return Err(Error::unsupported("a volume of a plugin begins with no files of ours"));
        }
        let options = body.driver_opts.clone().unwrap_or_default();
        let driver = self.remote.plugins.full_name(&body.driver);
        let is_new = self.remote.create(&driver, name, &options)?;
        let remote = Arc::clone(&self.remote);
        let made = AtPlugin { remote, driver: driver.clone(), name: name.to_owned(), is_kept: !is_new };
        let staged = self.stage_new(name, None, Some(&driver))?;
        Ok(Staged { at_plugin: Some(made), ..staged })
    }

    fn stage_new(&self, name: &str, content: Option<&OwnedFd>, driver: Option<&str>) -> Result<Staged<'_>> {
        let staging = self.dirs.stage()?;
        tree::mkdir_at(staging.dir.as_fd(), name, own_mode())?;
        let volume = tree::open_dir_at(staging.dir.as_fd(), name)?;
        self.dirs.make_data(&volume)?;
        if let Some(driver) = driver {
            self.remote.note(&volume, driver)?;
        }
        if let Some(content) = content {
            let data = tree::open_dir_at(volume.as_fd(), DATA)?;
            copy::copy_tree(content.as_fd(), data.as_fd())?;
        }
        if self.dirs.durability == Durability::Full {
            match content {
                Some(_) => tree::sync_fs(volume.as_fd())?,
                None => tree::sync_fd(volume.as_fd())?,
            }
        }
        let made_with = CreateVolume::default();
        Ok(Staged { name: name.to_owned(), staging: Some(staging), made_with, at_plugin: None })
    }

    /// Makes a staged volume one that `container` uses, whose row must be there. Answers whether it is new, which is to
    /// be reported by [`Register::event`].
    pub(crate) fn take(&self, tx: &Transaction<'_>, staged: &mut Staged<'_>, container: &str) -> Result<bool> {
        let body = std::mem::take(&mut staged.made_with);
        let (_, new) = self.insert_row(tx, staged, &body)?;
        table::add_use(tx, container, &staged.name)?;
        Ok(new)
    }

    /// The row of a volume, and whether it had to be added.
    pub(super) fn insert_row(
        &self,
        tx: &Transaction<'_>,
        staged: &mut Staged<'_>,
        body: &CreateVolume,
    ) -> Result<(VolumeRow, bool)> {
        let name = staged.name.as_str();
        if let Some(row) = table::get(tx, name)? {
            // Another call was faster, and the plugin has one volume for both.
            staged.at_plugin.iter_mut().for_each(|made| made.is_kept = true);
            return Ok((row, false));
        }
        let text = |map: &Option<StringMap>| {
            let text = map.as_ref().map(serde_json::to_string).transpose();
            text.map_err(|e| Error::internal(format!("write a volume's options: {e}")))
        };
        let volume = self.dirs.publish(name, staged.staging.as_ref())?;
        if let Some(volume) = volume {
            self.remote.adopt(&volume, staged.at_plugin.as_ref().map(|made| made.driver.as_str()))?;
        }
        let row = VolumeRow {
            name: name.to_owned(),
            created_ns: crate::time::now_ns(),
            options: text(&body.driver_opts)?,
            labels: text(&body.labels)?,
        };
        table::insert(tx, &row)?;
        // If the transaction fails yet, the plugin keeps an empty volume.
        staged.at_plugin.iter_mut().for_each(|made| made.is_kept = true);
        Ok((row, true))
    }

    /// Fills a volume that is empty. Only one program does that at a time.
    fn fill(&self, row: &VolumeRow, content: &OwnedFd) -> Result<()> {
        let volume = match tree::open_dir_at(self.dirs.volumes.as_fd(), &row.name) {
            // Removed meanwhile: it will be made anew, and empty.
            Err(error) if error.is(libc::ENOENT) => return Ok(()),
            other => other?,
        };
        let data = match options::source(&document(row.options.as_deref())?.unwrap_or_default())? {
            None => tree::open_dir_at(volume.as_fd(), DATA)?,
            Some(Source::Directory { path, .. }) => tree::open_dir(&path)?,
            // Files that are copied there would be gone with the mount.
            Some(source) if source.is_shared() => return Ok(()),
            Some(Source::FileSystem { kind, device, options, attributes }) => {
                let mounted = mount::file_system(&kind, &device, &pairs(&options), attributes)?;
                crate::kernel::path::openat2(
                    mounted.as_fd(),
                    ".",
                    libc::O_RDONLY | libc::O_DIRECTORY,
                    0,
                    crate::kernel::path::BENEATH_NO_LINKS,
                )?
            }
        };
        let is_empty = || tree::is_empty(data.as_fd()).map(|empty| empty || !Wall::VolumeContent.stands());
        if !is_empty()? || mount::is_read_only(data.as_fd())? {
            return Ok(());
        }
        tree::lock(volume.as_fd(), Lock::Exclusive, format_args!("volume {}", row.name))?;
        if is_empty()? {
            copy::copy_tree(content.as_fd(), data.as_fd())?;
            if self.dirs.durability == Durability::Full {
                tree::sync_fs(data.as_fd())?;
            }
        }
        Ok(())
    }
}
