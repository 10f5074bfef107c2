//! Removing the images that nothing uses: docker's rules for `image prune`.

use super::Emit;
use super::collect::Collector;
use super::config::ImageConfig;
use super::remove::{Removal, Usage};
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Filters, PrunedImages, RemoveImage, StringMap};
use crate::store::images::{self as rows, ImageRow};
use crate::store::{Db, Flush};
use crate::time::parse_rfc3339;
use rusqlite::Transaction;
use std::sync::Arc;

/// Removes the images that nothing uses.
pub(crate) struct Pruner {
    pub(super) db: Arc<Db>,
    pub(super) collector: Arc<Collector>,
}

impl Pruner {
    /// Removes images without a name (`dangling`, the default), or all that no container uses.
    pub(crate) fn prune(&self, filters: &Filters, usage: Usage<'_>, emit: Emit<'_>) -> Result<PrunedImages> {
        let filter = Filter::read(filters)?;
        let ((done, events, freed), gone) = self.db.write_to_free(Flush::Durable, |tx| {
            let mut removal = Removal::new(tx, usage, RemoveImage::default());
            for image in rows::all(tx)? {
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
    /// Unix nanoseconds.
    until: Option<i64>,
    labels: Vec<String>,
    not_labels: Vec<String>,
}

impl Filter {
    fn read(filters: &Filters) -> Result<Filter> {
        let mut filter = Filter { dangling: true, until: None, labels: Vec::new(), not_labels: Vec::new() };
        for (key, values) in filters {
            let bad = || Error::invalid(format!("Invalid filter '{key}=[{}]'", values.join(" ")));
            match (key.as_str(), values.as_slice()) {
                ("dangling", [value]) => {
                    filter.dangling = match value.as_str() {
                        "true" | "1" => true,
                        "false" | "0" => false,
                        _ => return Err(bad()),
                    }
                }
                ("until", [value]) => filter.until = Some(moment(value).ok_or_else(bad)?),
                ("until", [_, ..]) => return Err(Error::invalid("more than one until filter specified")),
                ("dangling", _) | ("until", []) => return Err(bad()),
                ("label", values) => filter.labels = values.to_vec(),
                ("label!", values) => filter.not_labels = values.to_vec(),
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
        if self.until.is_some_and(|until| image.created > until) {
            return Ok(false);
        }
        let config = ImageConfig::parse(&image.config).ok().and_then(|config| config.config);
        let labels = config.map(|config| config.labels).unwrap_or_default();
        Ok(self.labels.iter().all(|wanted| has(&labels, wanted))
            && !self.not_labels.iter().any(|not| has(&labels, not)))
    }
}

/// `KEY` or `KEY=VALUE`.
fn has(labels: &StringMap, wanted: &str) -> bool {
    let (key, value) = wanted.split_once('=').map_or((wanted, None), |(key, value)| (key, Some(value)));
    labels.get(key).is_some_and(|have| value.is_none_or(|value| have == value))
}

/// Unix seconds, maybe with a fraction, or RFC 3339.
fn moment(text: &str) -> Option<i64> {
    if let Some(time) = parse_rfc3339(text.as_bytes()) {
        return Some(time);
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &str, values: &[&str]) -> Result<Filter> {
        Filter::read(&[(key.to_owned(), values.iter().map(|v| (*v).to_owned()).collect())].into())
    }

    #[test]
    fn filters_are_checked() {
        assert!(read("dangling", &["true"]).unwrap().dangling);
        assert_eq!(read("until", &["1.5"]).unwrap().until, Some(1_500_000_000));
        assert_eq!(read("until", &["1970-01-01T00:00:02Z"]).unwrap().until, Some(2_000_000_000));
        for (key, values) in [
            ("dangling", &["maybe"][..]),
            ("dangling", &[]),
            ("until", &["1", "2"]),
            ("until", &["soon"]),
            ("reference", &["x"]),
        ] {
            assert!(read(key, values).is_err(), "{key} {values:?}");
        }
    }

    #[test]
    fn labels_by_key_and_value() {
        let labels = StringMap::from([("a".into(), "1".into())]);
        assert!(has(&labels, "a") && has(&labels, "a=1") && !has(&labels, "a=2") && !has(&labels, "b"));
    }
}
