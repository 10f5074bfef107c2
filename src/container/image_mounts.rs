//! The images that containers mount: found at the creation, mounted at the start, kept as long as the container exists.

use super::Snapshot;
use super::spec::{Mount, MountKind, Spec};
use super::volumes::{READ_ATTRIBUTES, VolumeMounts, images};
use crate::error::{Error, Result};
use crate::kernel::mount;
use crate::launch::plan;
use crate::store::image_mounts as table;
use rusqlite::Transaction;
use std::os::fd::{AsFd, OwnedFd};

/// Programs of a mounted image can be executed; its devices and set-user-ID programs have no effect.
const ATTRIBUTES: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID;

impl VolumeMounts {
    /// Gives the mounts of images the ids of these. Errors: no such image; the container has a user namespace, in which the
    /// files of an image would belong to nobody.
    pub(super) fn find_images(&self, spec: &mut Spec) -> Result<()> {
        if images(spec).next().is_some() && self.confinement.users(spec).is_some() {
            return Err(Error::unsupported(
                "Mounts: an image cannot be mounted in a container with a user namespace of its own",
            ));
        }
        for mount in spec.mounts.iter_mut().filter(|mount| mount.kind == MountKind::Image) {
            // A mount of another container, which this one takes over, has its image already.
            if mount.source.is_empty() {
                mount.source = self.places.images.catalog.config(&mount.name)?.0;
            }
        }
        Ok(())
    }

    /// Keeps the images of a container whose row is there. Errors: an image has been removed meanwhile.
    pub(super) fn take_images(&self, tx: &Transaction<'_>, id: &str, spec: &Spec) -> Result<()> {
        for mount in images(spec) {
            if !self.places.images.catalog.is_there(tx, &mount.source)? {
                return Err(Error::not_found(format!("No such image: {}", mount.name)));
            }
            table::put(tx, id, &mount.source)?;
        }
        Ok(())
    }

    /// The mount of an image in the form of the plan.
    pub(super) fn image_mount(&self, found: &Snapshot, mount: Mount) -> Result<plan::Mount> {
        Ok(plan::Mount::Volume {
            index: self.held_place(&found.spec, &mount)?,
            name: mount.source,
            target: mount.target,
            part: mount.part,
            attributes: mount.flags | ATTRIBUTES,
            own_ids: false,
        })
    }

    /// A mount namespace with nothing but the files of an image, under the label that the container may read.
    pub(super) fn image_alone(&self, spec: &Spec, image: &str) -> Result<OwnedFd> {
        mount::alone(
            self.places.image_mount(Some(image), self.labels.volume_label(spec)?.as_deref(), ATTRIBUTES)?.as_fd(),
        )
    }

    /// The files of an image for a view of a container: the whole, or a part of it.
    pub(super) fn image_to_read(&self, mount: &Mount) -> Result<OwnedFd> {
        let root = self.places.image_mount(Some(&mount.source), None, READ_ATTRIBUTES)?;
        match mount.part.as_str() {
            "" => Ok(root),
            part => mount::root_of(mount::alone(root.as_fd())?.as_fd(), part),
        }
    }
}
