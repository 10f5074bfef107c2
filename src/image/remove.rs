//! Removing images: dockerd's algorithm, in one transaction.

use super::catalog::{find, no_such};
use super::collect::Collector;
use super::digest::chain_ids;
use super::reference::Reference;
use super::{Emit, labels, stored_digest};
use crate::error::{Error, Result};
use crate::model::{Event, RemoveImage, RemovedImage, StringMap};
use crate::store::images::{self as rows, ImageRow, NameRow};
use crate::store::{Db, Flush};
use rusqlite::Transaction;
use std::sync::Arc;

/// A container that was made from an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageUser {
    /// The container's id.
    pub(crate) id: String,
    pub(crate) running: bool,
}

/// Answers who uses an image (by its id, `sha256:...`).
///
/// Asked while the database is locked for writing: it may read the database, not write it. A creation checks
/// that the image still exists in the transaction that inserts the container.
pub(crate) type Usage<'a> = &'a dyn Fn(&str) -> Result<Vec<ImageUser>>;

/// Removes names, and images that lose their last one.
pub(crate) struct Remover {
    pub(super) db: Arc<Db>,
    pub(super) collector: Arc<Collector>,
}

impl Remover {
    /// Removes the name `name`, and the image where nothing else holds it; or, named by id, the image.
    pub(crate) fn remove(
        &self,
        name: &str,
        how: RemoveImage,
        usage: Usage<'_>,
        emit: Emit<'_>,
    ) -> Result<Vec<RemovedImage>> {
        if name.trim().is_empty() {
            return Err(Error::invalid("image name cannot be blank"));
        }
        let (removal, gone) = self.db.write_to_free(Flush::Durable, |tx| {
            let mut removal = Removal::new(tx, usage, how);
            removal.remove(name)?;
            let gone = rows::drop_unused_layers(tx)?;
            Ok((Removed { done: removal.done, events: removal.events }, gone))
        })?;
        removal.events.into_iter().for_each(emit);
        self.collector.free(&gone)?;
        Ok(removal.done)
    }
}

struct Removed {
    done: Vec<RemovedImage>,
    events: Vec<Event>,
}

/// A removal under way.
pub(super) struct Removal<'a> {
    tx: &'a Transaction<'a>,
    usage: Usage<'a>,
    how: RemoveImage,
    pub(super) done: Vec<RemovedImage>,
    pub(super) events: Vec<Event>,
}

/// Which conflicts count.
#[derive(Clone, Copy)]
struct Heed {
    names: bool,
    stopped: bool,
}

/// Why an image stays.
struct Conflict {
    error: Error,
    /// A container is the reason.
    used: bool,
}

impl<'a> Removal<'a> {
    pub(super) fn new(tx: &'a Transaction<'a>, usage: Usage<'a>, how: RemoveImage) -> Removal<'a> {
        Removal { tx, usage, how, done: Vec::new(), events: Vec::new() }
    }
}

impl Removal<'_> {
    pub(super) fn remove(&mut self, name: &str) -> Result<()> {
        let found = find(self.tx, name)?;
        let image = rows::get(self.tx, &found.id)?.ok_or_else(|| no_such(name))?;
        let names = rows::names(self.tx, &image.id)?;
        let quiet = match &found.reference {
            Some(reference) => {
                if !self.remove_name(name, reference, &image, &names)? {
                    return Ok(());
                }
                true
            }
            None => {
                if is_single(&names) {
                    let heed = Heed { names: false, stopped: !self.how.force };
                    if let Some(conflict) = self.conflict(&image, heed)? {
                        return Err(conflict.error);
                    }
                    for name in names {
                        self.untag(&image, &name, true)?;
                    }
                }
                false
            }
        };
        self.delete(image, quiet)
    }

    /// Takes one name away; answers whether it was the last.
    fn remove_name(&mut self, name: &str, reference: &Reference, image: &ImageRow, names: &[NameRow]) -> Result<bool> {
        if !self.how.force
            && is_single(names)
            && let Some(user) = (self.usage)(&image.id)?.first()
        {
            let text = format!(
                "conflict: unable to remove repository reference \"{name}\" (must force) - container {} is using its \
                 referenced image {}",
                short(&user.id),
                short(&image.id)
            );
            return Err(Error::conflict(text).with_other(&user.id));
        }
        let familiar = reference.to_string();
        let Some(this) = names.iter().find(|row| row.name == familiar) else {
            return Err(no_such(name));
        };
        self.untag(image, this, true)?;
        let mut left: Vec<&NameRow> = names.iter().filter(|row| row.name != familiar).collect();
        let tagged = left.iter().any(|row| !row.is_digest && row.repository == this.repository);
        if !this.is_digest && !tagged {
            // With the last tag of a repository its digests go too.
            for row in left.iter().filter(|row| row.repository == this.repository) {
                self.untag(image, row, false)?;
            }
            left.retain(|row| row.repository != this.repository);
        }
        Ok(left.is_empty())
    }

    fn untag(&mut self, image: &ImageRow, name: &NameRow, emits: bool) -> Result<()> {
        rows::remove_name(self.tx, &name.name)?;
        self.done.push(RemovedImage::Untagged(name.name.clone()));
        if emits {
            self.events.push(Event::image("untag", &image.id, &image.id, &labels(&image.config)));
        }
        Ok(())
    }

    /// Deletes the image, then its parents as long as nothing holds them. `quiet`: its last name is gone already, and
    /// an image that is still needed stays without an error.
    fn delete(&mut self, image: ImageRow, mut quiet: bool) -> Result<()> {
        let (mut force, mut next) = (self.how.force, Some(image));
        while let Some(image) = next.take() {
            if let Some(conflict) = self.conflict(&image, Heed { names: !force, stopped: !force })? {
                let named = !rows::names(self.tx, &image.id)?.is_empty();
                let dangling = !named && !rows::has_children(self.tx, &image.id)?;
                return if quiet && (!dangling || conflict.used) { Ok(()) } else { Err(conflict.error) };
            }
            for name in rows::names(self.tx, &image.id)? {
                self.untag(&image, &name, true)?;
            }
            self.delete_one(&image)?;
            if self.how.no_prune {
                return Ok(());
            }
            next = match &image.parent {
                Some(parent) => rows::get(self.tx, parent)?,
                None => None,
            };
            (force, quiet) = (false, true);
        }
        Ok(())
    }

    fn delete_one(&mut self, image: &ImageRow) -> Result<()> {
        let layers = rows::layers(self.tx, &image.id)?;
        rows::remove(self.tx, &image.id)?;
        // Without its labels: it is gone by then, as dockerd has it.
        self.events.push(Event::image("delete", &image.id, &image.id, &StringMap::new()));
        self.done.push(RemovedImage::Deleted(image.id.clone()));
        let diff_ids = layers.iter().map(|id| stored_digest(id)).collect::<Result<Vec<_>>>()?;
        for (diff_id, chain_id) in layers.iter().zip(chain_ids(&diff_ids)).rev() {
            if rows::layer_is_used(self.tx, diff_id)? {
                break;
            }
            self.done.push(RemovedImage::Deleted(chain_id.to_string()));
        }
        Ok(())
    }

    fn conflict(&self, image: &ImageRow, heed: Heed) -> Result<Option<Conflict>> {
        let because = |how: &str, why: String| {
            let id = short(&image.id);
            Error::conflict(format!("conflict: unable to delete {id} ({how}) - {why}"))
        };
        let conflict = |how: &str, why: String, used: bool| Ok(Some(Conflict { error: because(how, why), used }));
        let in_use = |how: &str, state: &str, user: &str| {
            let why = format!("image is being used by {state} container {}", short(user));
            Ok(Some(Conflict { error: because(how, why).with_other(user), used: true }))
        };
        const HARD: &str = "cannot be forced";
        const SOFT: &str = "must be forced";
        if rows::has_children(self.tx, &image.id)? {
            return conflict(HARD, "image has dependent child images".into(), false);
        }
        if rows::is_leased(self.tx, &image.id)? {
            return conflict(HARD, "image is being used by a running build".into(), true);
        }
        let users = (self.usage)(&image.id)?;
        if let Some(user) = users.iter().find(|user| user.running) {
            return in_use(HARD, "running", &user.id);
        }
        if heed.names && !rows::names(self.tx, &image.id)?.is_empty() {
            return conflict(SOFT, "image is referenced in multiple repositories".into(), false);
        }
        if heed.stopped
            && let Some(user) = users.first()
        {
            return in_use(SOFT, "stopped", &user.id);
        }
        Ok(None)
    }
}

/// At most one tag, and all names of one repository.
fn is_single(names: &[NameRow]) -> bool {
    let Some(first) = names.first() else { return true };
    let tags = names.iter().filter(|name| !name.is_digest).count();
    tags <= 1 && names.iter().all(|name| name.repository == first.repository)
}

/// An id as people are shown it.
fn short(id: &str) -> &str {
    let hex = id.strip_prefix("sha256:").unwrap_or(id);
    hex.get(..12).unwrap_or(hex)
}
