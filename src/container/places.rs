//! The paths of a container's directories: `root/containers/<id>` (durable) and `run/c/<id>` (until the reboot).

use super::volumes::READ_ATTRIBUTES;
use super::{Snapshot, dirs};
use crate::error::Result;
use crate::image::Images;
use crate::kernel::{mount, tree};
use crate::store::identity::Claim;
use rusqlite::Transaction;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The number of digits of the engine's id in the names of its control groups.
const ENGINE_LENGTH: usize = 12;

/// The paths of containers on disk: the root, the run directory, the directories of each container.
pub(crate) struct Places {
    pub(super) root: PathBuf,
    /// The root's identity, and its run directory; locked as long as this is open.
    pub(super) claim: Claim,
    /// The layer below every image's.
    pub(super) base: PathBuf,
    pub(super) images: Arc<Images>,
}

impl Places {
    /// The read-only layers of a container's root, topmost first.
    pub(super) fn lower(&self, image_id: &str) -> Result<Vec<PathBuf>> {
        self.with_base(self.images.catalog.rootfs(image_id))
    }

    /// As [`Places::lower`], within a transaction.
    pub(super) fn lower_in(&self, tx: &Transaction<'_>, image_id: &str) -> Result<Vec<PathBuf>> {
        self.with_base(self.images.catalog.rootfs_in(tx, image_id))
    }

    fn with_base(&self, layers: Result<Vec<PathBuf>>) -> Result<Vec<PathBuf>> {
        let mut layers = layers?;
        layers.push(self.base.clone());
        Ok(layers)
    }

    /// The durable directory.
    pub(super) fn dir(&self, id: &str) -> PathBuf {
        self.root.join("containers").join(id)
    }

    /// The run directory.
    pub(super) fn run_dir(&self, id: &str) -> PathBuf {
        self.claim.run.join("c").join(id)
    }

    /// Opens the run directory; makes it if a reboot removed it.
    pub(super) fn open_run_dir(&self, id: &str) -> Result<File> {
        let path = self.run_dir(id);
        dirs::open(&path).or_else(|_| {
            dirs::make(&path)?;
            dirs::open(&path)
        })
    }

    /// The log's file.
    pub(super) fn log_path(&self, found: &Snapshot) -> PathBuf {
        self.dir(&found.row.id).join(dirs::log_name(found))
    }

    pub(super) fn make_dirs(&self, id: &str) -> Result<()> {
        let dir = self.dir(id);
        dirs::make(&dir)?;
        // The root of the container's tree; its users may enter it.
        dirs::make(&dir.join("upper"))?;
        std::fs::set_permissions(dir.join("upper"), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        dirs::make(&dir.join("work"))?;
        dirs::make(&self.run_dir(id))
    }

    pub(super) fn remove_dirs(&self, id: &str) -> Result<()> {
        dirs::remove(&self.run_dir(id))?;
        dirs::remove(&self.dir(id))
    }

    pub(super) fn empty(&self) -> Result<PathBuf> {
        let empty = self.root.join("tmp/empty");
        dirs::make(&empty)?;
        Ok(empty)
    }

    /// The root of a container at its start, for reading: the image's files, and the engine's own.
    pub(super) fn root_before(&self, image_id: &str) -> Result<OwnedFd> {
        let layers = self.lower(image_id)?;
        let lower: Vec<&Path> = layers.iter().map(|path| path.as_path()).collect();
        match lower.as_slice() {
            [only] => tree::open_dir(only),
            _ => mount::overlay(&lower, None, READ_ATTRIBUTES),
        }
    }

    /// The image's file system, for reading.
    pub(super) fn image_root(&self, image_id: &str) -> Result<OwnedFd> {
        let layers = self.images.catalog.rootfs(image_id)?;
        let empty = self.root.join("tmp/empty");
        dirs::make(&empty)?;
        let lower: Vec<&Path> = layers.iter().map(|path| path.as_path()).chain([empty.as_path()]).collect();
        match layers.len() {
            // A read-only overlay needs two different directories.
            0 => tree::open_dir(&empty),
            _ => mount::overlay(&lower, None, READ_ATTRIBUTES),
        }
    }

    /// The files of an image as a mount that is nowhere yet; without an image an empty directory. `label`: the one SELinux label
    /// of all files, absent: their own.
    pub(super) fn image_mount(&self, image: Option<&str>, label: Option<&str>, attributes: u64) -> Result<OwnedFd> {
        let layers = image.map_or(Ok(Vec::new()), |image| self.images.catalog.rootfs(image))?;
        let empty = self.empty()?;
        if layers.is_empty() {
            return mount::private(mount::copy_of(None, &empty, false)?, attributes);
        }
        // A read-only overlay needs two different directories.
        let lower: Vec<&Path> = layers.iter().map(|layer| layer.as_path()).chain([empty.as_path()]).collect();
        mount::overlay_labelled(&lower, label, attributes)
    }

    /// The run directory.
    pub(crate) fn run(&self) -> &Path {
        &self.claim.run
    }

    /// The beginning of the engine's id, as the names of its control groups have it.
    pub(super) fn engine(&self) -> &str {
        &self.claim.id[..ENGINE_LENGTH]
    }

    /// The engine root.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}
