//! Volumes: directories that outlive the containers that use them.
//!
//! A volume is its row and its directory `root/volumes/<name>/_data`. The first content of a volume is
//! staged in `root/tmp/volume-…`, which its maker holds locked, and moved to its place in the transaction that adds its
//! row; a removal moves it back there in the transaction that takes the row away. So a program killed at any point
//! leaves a volume whole or none, and what is left in `tmp/` is put right by the next open: see [`Sweeper::sweep`].
//!
//! [`Volumes::open`] makes the groups of methods, each with the handles that it needs. A group knows only groups that
//! are made before it: [`VolumeDirs`] knows no other.

mod copy;
mod create;
mod dirs;
mod list;
mod mounts;
mod names;
mod options;
mod prune;
mod register;
mod remote;
mod root_copy;
mod stage;
mod sweep;

use create::{Creator, Remover};
use dirs::VolumeDirs;
use mounts::Mounter;
pub(crate) use names::{check_name, new_name};
pub(crate) use options::{Source, check as check_options, names_label, pairs};
use prune::Pruner;
use register::Register;
use remote::RemoteVolumes;
pub(crate) use remote::is_plugin;
pub(crate) use root_copy::{copy_place, lies_elsewhere};
pub(crate) use stage::Staged;
use stage::Stager;
use sweep::Sweeper;

use crate::error::Result;
use crate::event::Journal;
use crate::options::Options;
use crate::plugin::Plugins;
use crate::store::Db;
use std::path::Path;
use std::sync::Arc;

/// The driver that is built in.
pub(crate) const LOCAL: &str = "local";

/// The volumes of one engine root: the groups of methods that others call.
pub(crate) struct Volumes {
    pub(crate) dirs: Arc<VolumeDirs>,
    pub(crate) remote: Arc<RemoteVolumes>,
    pub(crate) sweeper: Arc<Sweeper>,
    pub(crate) register: Arc<Register>,
    pub(crate) stager: Arc<Stager>,
    pub(crate) creator: Arc<Creator>,
    pub(crate) remover: Arc<Remover>,
    pub(crate) pruner: Arc<Pruner>,
    pub(crate) mounter: Arc<Mounter>,
}

impl Volumes {
    /// Opens the volumes of the existing directory `root`, and puts right what programs that ended left half done.
    pub(crate) fn open(
        root: &Path,
        db: Arc<Db>,
        journal: Arc<Journal>,
        options: &Options,
        plugins: Arc<Plugins>,
    ) -> Result<Volumes> {
        let dirs = Arc::new(VolumeDirs::open(root, options.durability)?);
        let remote = group!(RemoteVolumes = dirs plugins);
        let sweeper = group!(Sweeper = dirs db);
        let register = group!(Register = dirs db journal sweeper remote);
        let stager = group!(Stager = dirs register remote);
        let creator = group!(Creator = db register stager);
        let remover = group!(Remover = dirs db register remote);
        let pruner = group!(Pruner = dirs db register remover);
        let mounter = group!(Mounter = dirs register remote);
        sweeper.sweep()?;
        Ok(Volumes { dirs, remote, sweeper, register, stager, creator, remover, pruner, mounter })
    }
}
