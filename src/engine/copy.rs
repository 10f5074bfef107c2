//! A copy of the whole root, while containers run and programs use it.
//!
//! The database is copied in its state at one moment; from that moment on no image is removed, so all layers can be
//! copied. A container or a volume that is removed before its files are copied is missing in the copy, as if the copy
//! had begun later. Files that programs write meanwhile are copied one by one: as after a power cut, or consistent if
//! the container is frozen ([`CopyRoot::pause`]).

mod target;

use super::Engine;
use super::images::OnProgress;
use crate::container::{self, CopiedFiles};
use crate::error::Result;
use crate::kernel::copy::{Attributes, TreeCopy};
use crate::kernel::remove::remove_tree;
use crate::model::{CopiedContainer, CopyRoot, NotTaken, Progress, RootCopy};
use crate::op::Op;
use crate::store::containers::{self as container_rows, ContainerRow};
use crate::store::copy::DbCopy;
use crate::store::volumes::{self as volume_rows, VolumeRow};
use crate::store::{Durability, images as image_rows, plugins as plugin_rows, states};
use crate::time::now_ns;
use crate::volume;
use std::os::fd::AsFd;
use std::path::Path;
use target::Target;

/// `State.Error` in the copy for a container that ran while it was copied.
const ENDED: &str = "the container ran when its engine root was copied: this is the copy";

/// Why a plugin does not run in the copy.
const DISABLED: &str = "it is enabled in the original: it is disabled in the copy until it is enabled there";

/// Disables the plugins of a copied database, and forgets their containers, whose paths are those of the original. Answers the names of
/// the enabled ones.
fn plugins_end(tx: &rusqlite::Transaction<'_>) -> Result<Vec<String>> {
    let mut disabled = Vec::new();
    for row in plugin_rows::all(tx)? {
        row.container.iter().try_for_each(|id| container::forget_row(tx, id))?;
        if row.enabled {
            plugin_rows::set_enabled(tx, &row.id, false)?;
            disabled.push(row.name);
        }
    }
    Ok(disabled)
}

/// The content of the copied database.
struct Content {
    layers: Vec<String>,
    images: u64,
    volumes: Vec<VolumeRow>,
    containers: Vec<(ContainerRow, String)>,
}

impl Content {
    fn of(db: &mut DbCopy) -> Result<Content> {
        db.change(|tx| {
            Ok(Content {
                layers: image_rows::all_layers(tx)?,
                images: image_rows::all(tx)?.len() as u64,
                volumes: volume_rows::all(tx)?.into_iter().map(|(row, _)| row).collect(),
                containers: container_rows::each(tx, |row, spec| Ok((row, spec.to_owned())))?,
            })
        })
    }
}

/// A copy in progress.
struct Copying<'a> {
    engine: &'a Engine,
    how: CopyRoot,
    files: TreeCopy<'a>,
    progress: OnProgress<'a>,
    report: RootCopy,
    /// The slot and the record of each container.
    states: Vec<(u32, crate::store::states::State)>,
    gone: Gone,
}

/// Objects that were removed during the copy.
#[derive(Default)]
struct Gone {
    containers: Vec<String>,
    volumes: Vec<String>,
}

impl Engine {
    /// Copies the whole root into the directory `dir`, which must be empty or missing, while containers run. The copy
    /// is a root of its own, in which no container runs. A copy that fails leaves nothing; no open accepts the
    /// unfinished copy of a killed program.
    ///
    /// Each file is copied as it is when the copy reaches it. Files of programs that write meanwhile are as after a
    /// power cut, except for the order among files; with [`CopyRoot::pause`] each container is frozen while its files
    /// are copied. On a file system that shares content between files (btrfs, xfs), root and copy share it.
    ///
    /// Errors: the directory is not empty ([`crate::ErrorKind::Conflict`]) or is in the root; the disk is full; its
    /// file system cannot store an attribute, device or link; `op` ended.
    pub fn snapshot_root(
        &self,
        dir: impl AsRef<Path>,
        how: CopyRoot,
        progress: OnProgress<'_>,
        op: Option<&Op>,
    ) -> Result<RootCopy> {
        let root = self.0.containers.places.root();
        let target = Target::begin(dir.as_ref(), root)?;
        let files = TreeCopy::new(Attributes::All, op);
        let (report, states, gone) = (RootCopy::default(), Vec::new(), Gone::default());
        let copying = Copying { engine: self, how, files, progress, report, states, gone };
        copying.all(target, root, op)
    }
}

impl Copying<'_> {
    fn all(mut self, target: Target, root: &Path, op: Option<&Op>) -> Result<RootCopy> {
        let inner = &self.engine.0;
        let images = inner.images.copies.begin()?;
        let mut db = inner.containers.register.db().copy_to(&target.database(), |tx| images.hold_all(tx))?;
        // The containers of builds are deleted, because their builds are not in the copy.
        db.change(|tx| container_rows::of_builds(tx)?.iter().try_for_each(|(id, _)| container::forget_row(tx, id)))?;
        let disabled = db.change(plugins_end)?;
        disabled.iter().for_each(|name| self.left("plugin", name, DISABLED));
        db.forget_work()?;
        let content = Content::of(&mut db)?;
        let layers = target.make("layers")?;
        for layer in &content.layers {
            images.layer(layer, layers.as_fd(), &mut self.files)?;
            self.report("layer", layer)?;
        }
        drop(images);
        self.volumes(&target, &content)?;
        self.containers(&target, &content)?;
        self.reconcile(&mut db, &content)?;
        states::write_copy(target.path(), &self.states)?;
        for name in &self.gone.containers {
            remove_tree(target.make("containers")?.as_fd(), name)?;
        }
        for name in &self.gone.volumes {
            remove_tree(target.make("volumes")?.as_fd(), name)?;
        }
        db.finish()?;
        op.map_or(Ok(()), Op::check)?;
        target.finish(root, inner.options.durability != Durability::Off)?;
        let copied = self.files.copied;
        (self.report.files, self.report.bytes, self.report.shared) = (copied.names, copied.bytes, copied.shared);
        (self.report.images, self.report.layers) = (content.images, content.layers.len() as u64);
        Ok(self.report)
    }

    fn volumes(&mut self, target: &Target, content: &Content) -> Result<()> {
        let to = volume::copy_place(target.path())?;
        let inner = &self.engine.0;
        for row in &content.volumes {
            let users = match self.how.pause {
                true => inner.containers.register.db().read(|tx| volume_rows::users(tx, &row.name))?,
                false => Vec::new(),
            };
            let files = &mut self.files;
            let copy = || inner.volumes.dirs.copy_to(&row.name, to.as_fd(), files);
            let is_there = inner.containers.copies.while_still(&users, copy)?;
            if is_there && let Some(driver) = inner.volumes.remote.driver(&row.name)? {
                let reason = format!("its data lie with the plugin {driver}: only its name was copied");
                self.left("volume", &row.name, &reason);
            } else if is_there && volume::lies_elsewhere(row)? {
                let reason = "its data lie where its options say, outside of the root: only its name was copied";
                self.left("volume", &row.name, reason);
            }
            self.report("volume", &row.name)?;
        }
        Ok(())
    }

    fn containers(&mut self, target: &Target, content: &Content) -> Result<()> {
        let to = container::copy_place(target.path())?;
        let path = target.path().join("containers");
        let all = &self.engine.0.containers;
        for (row, spec) in &content.containers {
            let frozen = if self.how.pause { std::slice::from_ref(&row.id) } else { &[] };
            let files = &mut self.files;
            let copied = all
                .copies
                .while_still(frozen, || all.copies.copy_files(&row.id, spec, (to.as_fd(), &path), files))
                .map_err(|error| error.context(format_args!("container {}", row.name)))?;
            if copied == CopiedFiles::Unbounded {
                let reason =
                    "the file system of the copy has no project quotas: the container's storage is not limited there";
                self.left("container", &row.name, reason);
            }
            let (state, ran) = all.copies.state_for_copy(row.slot, &row.id, now_ns())?;
            self.states.push((row.slot, state));
            self.report.containers.push(CopiedContainer { id: row.id.clone(), name: row.name.clone(), ran });
            self.report("container", &row.name)?;
        }
        Ok(())
    }

    /// Deletes from the copy the objects that were removed meanwhile, and marks running containers as ended.
    fn reconcile(&mut self, db: &mut DbCopy, content: &Content) -> Result<()> {
        self.gone = self.engine.0.containers.register.db().read(|tx| {
            let mut gone = Gone::default();
            for (row, _) in &content.containers {
                if !container_rows::is_there(tx, &row.id)? {
                    gone.containers.push(row.id.clone());
                }
            }
            for row in &content.volumes {
                if volume_rows::get(tx, &row.name)?.is_none_or(|now| now.created_ns != row.created_ns) {
                    gone.volumes.push(row.name.clone());
                }
            }
            Ok(gone)
        })?;
        let (gone, report) = (&self.gone, &mut self.report);
        report.containers.retain(|container| !gone.containers.contains(&container.id));
        let volumes = content.volumes.iter().map(|row| row.name.clone());
        report.volumes = volumes.filter(|name| !gone.volumes.contains(name)).collect();
        db.change(|tx| {
            gone.containers.iter().try_for_each(|id| container::forget_row(tx, id))?;
            gone.volumes.iter().try_for_each(|name| volume_rows::delete(tx, name))?;
            let ran = report.containers.iter().filter(|container| container.ran);
            ran.map(|container| &container.id).try_for_each(|id| container_rows::set_error(tx, id, ENDED))
        })
    }

    fn report(&mut self, kind: &str, name: &str) -> Result<()> {
        let (id, status) = (format!("{kind} {name}"), "copied".to_owned());
        (self.progress)(Progress { id, status, ..Progress::default() })
    }

    fn left(&mut self, kind: &str, name: &str, reason: &str) {
        self.report.left.push(NotTaken { kind: kind.into(), name: name.into(), reason: reason.into() });
    }
}
