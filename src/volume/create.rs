//! Making and removing volumes on request.

use super::LOCAL;
use super::dirs::VolumeDirs;
use super::names::{check_name, new_name};
use super::options;
use super::register::Register;
use super::remote::{RemoteVolumes, is_plugin};
use super::stage::Stager;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::tree;
use crate::model::{CreateVolume, StringMap, Volume};
use crate::notes::{LogLevel, note};
use crate::store::volumes as table;
use crate::store::{Db, Flush};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Makes volumes.
pub(crate) struct Creator {
    pub(super) db: Arc<Db>,
    pub(super) register: Arc<Register>,
    pub(super) stager: Arc<Stager>,
}

impl Creator {
    /// Makes a volume; one that is there already is answered as it is.
    pub(crate) fn create(&self, body: &CreateVolume) -> Result<Volume> {
        self.create_with(body, None)
    }

    /// As [`Creator::create`]; a new volume begins with the files of `content`.
    pub(crate) fn create_with(&self, body: &CreateVolume, content: Option<&OwnedFd>) -> Result<Volume> {
        let name = match body.name.as_str() {
            "" => new_name()?,
            name => name.to_owned(),
        };
        let wrong = |error: Error| error.context(format_args!("create {name}"));
        check_name(&name).map_err(wrong)?;
        if !is_plugin(&body.driver) {
            options::check(body.driver_opts.as_ref().unwrap_or(&StringMap::new())).map_err(wrong)?;
        }
        let of_plugin = |error: Error| match is_plugin(&body.driver) && error.kind() != ErrorKind::Conflict {
            true => wrong(error),
            false => error,
        };
        let mut staged = self.stager.stage_with(&name, content, body).map_err(of_plugin)?;
        let row =
            self.db.write(Flush::Durable, |tx| self.stager.insert_row(tx, &mut staged, body).map(|(row, _)| row))?;
        self.register.event("create", &name, &[])?;
        // As dockerd: a plugin's own facts are in the answers of inspects alone.
        Ok(Volume { status: None, ..self.register.shown(&row)? })
    }
}

/// Removes volumes.
pub(crate) struct Remover {
    pub(super) dirs: Arc<VolumeDirs>,
    pub(super) db: Arc<Db>,
    pub(super) register: Arc<Register>,
    pub(super) remote: Arc<RemoteVolumes>,
}

impl Remover {
    /// Removes a volume that no container uses. Of what cannot be removed its event says so. `force`: also if its plugin does not
    /// remove it.
    pub(crate) fn remove(&self, name: &str, force: bool) -> Result<()> {
        let driver = self.remote.driver(name)?;
        if let Some(driver) = &driver {
            // The plugin is asked outside of the transaction, which nothing may hold up. A container that takes the volume
            // meanwhile fails at its start.
            if self.db.read(|tx| table::users(tx, name))?.is_empty() {
                match self.remote.remove(driver, name) {
                    Err(error) if force => {
                        note(LogLevel::Warn, "volume", None, || format!("removed without its plugin: {error}"));
                    }
                    other => other?,
                }
            }
        }
        let driver = driver.unwrap_or_else(|| LOCAL.into());
        let staging = self.dirs.stage()?;
        self.db.write(Flush::Durable, |tx| {
            table::delete(tx, name)?;
            match tree::rename_at(self.dirs.volumes.as_fd(), name, staging.dir.as_fd(), name) {
                Err(error) if error.is(libc::ENOENT) => Ok(()),
                other => other,
            }
        })?;
        let place = self.dirs.staged_at(&staging.name);
        staging.clear()?;
        let left = self.dirs.leftovers.said_of(&[&place]);
        let extras: Vec<(&str, &str)> = left.iter().map(|left| ("leftover", left.as_str())).collect();
        self.register.event_of("destroy", name, &driver, &extras)
    }
}
