//! Removing the images that nothing uses: docker's rules for `image prune`.

use super::Emit;
use super::collect::Collector;
use super::config::ImageConfig;
use super::remove::{Removal, Usage};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Filters, PruneFilter, PrunedImages, RemoveImage, bad_filter};
use crate::op::Op;
use crate::store::images::{self as rows, ImageRow};
use crate::store::{Db, Flush};
use rusqlite::Transaction;
use std::sync::Arc;

/// Removes the images that nothing uses.
pub(crate) struct Pruner {
    pub(super) db: Arc<Db>,
    pub(super) collector: Arc<Collector>,
}

impl Pruner {
    /// Removes images without a name (`dangling`, the default), or all that no container uses.
    pub(crate) fn prune(
        &self,
        filters: &Filters,
        usage: Usage<'_>,
        emit: Emit<'_>,
        op: Option<&Op>,
    ) -> Result<PrunedImages> {
        let filter = Filter::read(filters)?;
        let ((done, events, freed), gone) = self.db.write_to_free(Flush::Durable, |tx| {
            let mut removal = Removal::new(tx, usage, RemoveImage::default());
            for image in rows::all(tx)? {
                op.map_or(Ok(()), Op::check)?;
                let free = usage(&image.id)?.is_empty() && !rows::is_leased(tx, &image.id)?;
                if free && filter.takes(tx, &image)? {
                    remove(&mut removal, tx, &image)?;
                }
            }
            let freed = rows::unused_layer_bytes(tx)?;
            let gone = rows::drop_unused_layers(tx)?;
            Ok(((removal.done, removal.events, freed), gone))
        })?;
        events.into_iter().for_each(emit);
        self.collector.free(&gone)?;
        Ok(PrunedImages { images_deleted: (!done.is_empty()).then_some(done), space_reclaimed: freed })
    }
}

/// Removes an image by each of its names, or by its id. Conflicts are passed over.
fn remove(removal: &mut Removal<'_>, tx: &Transaction<'_>, image: &ImageRow) -> Result<()> {
    // The image may have gone with its child.
    if rows::get(tx, &image.id)?.is_none() {
        return Ok(());
    }
    let mut names: Vec<String> = rows::names(tx, &image.id)?.into_iter().map(|name| name.name).collect();
    if names.is_empty() {
        names.push(image.id.clone());
    }
    for name in names {
        match removal.remove(&name) {
            // A name may have gone with the repository's last tag.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {}
            other => other?,
        }
    }
    Ok(())
}

struct Filter {
    dangling: bool,
    common: PruneFilter,
}

impl Filter {
    fn read(filters: &Filters) -> Result<Filter> {
        let mut filter = Filter { dangling: true, common: PruneFilter::default() };
        for (key, values) in filters {
            match (key.as_str(), values.as_slice()) {
                ("dangling", [value]) => {
                    filter.dangling = match value.as_str() {
                        "true" | "1" => true,
                        "false" | "0" => false,
                        _ => return Err(bad_filter(key, values)),
                    }
                }
                ("dangling", values) => return Err(bad_filter(key, values)),
                (key, values) if filter.common.take(key, values)? => {}
                (other, _) => return Err(Error::invalid(format!("Invalid filter '{other}'"))),
            }
        }
        Ok(filter)
    }

    fn takes(&self, tx: &Transaction<'_>, image: &ImageRow) -> Result<bool> {
        let named = !rows::names(tx, &image.id)?.is_empty();
        if self.dangling && named || !named && rows::has_children(tx, &image.id)? {
            return Ok(false);
        }
        let config = ImageConfig::parse(&image.config).ok().and_then(|config| config.config);
        let labels = config.map(|config| config.labels).unwrap_or_default();
        Ok(self.common.takes(image.created, &labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &str, values: &[&str]) -> Result<Filter> {
        Filter::read(&[(key.to_owned(), values.iter().map(|v| (*v).to_owned()).collect())].into())
    }

    #[test]
    fn filters_are_checked() {
        assert!(read("dangling", &["true"]).unwrap().dangling && !read("dangling", &["0"]).unwrap().dangling);
        for (key, values) in
            [("dangling", &["maybe"][..]), ("dangling", &[]), ("until", &["1", "2"]), ("reference", &["x"])]
        {
            assert!(read(key, values).is_err(), "{key} {values:?}");
        }
    }
}
