//! A container's files from outside: stat, get, put, copy, export, changes, commit.
//!
//! [`view`] puts a container's file system together for the call, as the container would see it but without its /proc,
//! /sys and /dev; everything in it is found by [`walk`], by directory descriptors that cannot be led out of it.

mod changes;
mod commit;
mod get;
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

/// The files of containers, from outside.
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
