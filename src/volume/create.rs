//! Making and removing volumes on request.

use super::dirs::VolumeDirs;
use super::names::{check_driver, check_name, new_name};
use super::options;
use super::register::Register;
use super::stage::Stager;
use crate::error::{Error, Result};
use crate::kernel::tree;
use crate::model::{CreateVolume, StringMap, Volume};
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
        check_driver(&body.driver).map_err(wrong)?;
        check_name(&name).map_err(wrong)?;
        options::check(body.driver_opts.as_ref().unwrap_or(&StringMap::new())).map_err(wrong)?;
        let mut staged = self.stager.stage(&name, content)?;
        let row =
            self.db.write(Flush::Durable, |tx| self.stager.insert_row(tx, &mut staged, body).map(|(row, _)| row))?;
        self.register.event("create", &name, &[])?;
        self.register.shown(&row)
    }
}

/// Removes volumes.
pub(crate) struct Remover {
    pub(super) dirs: Arc<VolumeDirs>,
    pub(super) db: Arc<Db>,
    pub(super) register: Arc<Register>,
}

impl Remover {
    /// Removes a volume that no container uses. Of what cannot be removed its event says so.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
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
        self.register.event("destroy", name, &extras)
    }
}
