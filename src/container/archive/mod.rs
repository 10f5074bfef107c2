//! A container's files from outside: stat, get, put, copy, export, changes, commit.
//!
//! [`view`] assembles a container's file system for the call, as the container would see it but without its /proc, /sys
//! and /dev. [`walk`] finds everything in it by directory descriptors that cannot be led outside.

mod changes;
mod commit;
mod get;
mod owner;
mod put;
mod view;
pub(crate) mod walk;

pub use get::Archive;
pub(crate) use put::{Differences, extract};

use super::{Confinement, Finder, Freezer, Monitors, Places, Register, VolumeMounts};
use crate::image::Images;
use crate::options::Options;
use crate::volume::Volumes;
use std::sync::Arc;

/// The files of containers, seen from outside.
pub(crate) struct Files {
    pub(super) places: Arc<Places>,
    pub(super) register: Arc<Register>,
    pub(super) monitors: Arc<Monitors>,
    pub(super) finder: Arc<Finder>,
    pub(super) freezer: Arc<Freezer>,
    pub(super) confinement: Arc<Confinement>,
    pub(super) mounts: Arc<VolumeMounts>,
    pub(super) images: Arc<Images>,
    pub(super) options: Arc<Options>,
    pub(super) volumes: Arc<Volumes>,
}
