//! The list of the caches of builds, and their prune.

use super::caches::{Caches, Listed};
use crate::error::{Error, Result};
use crate::model::{BuildCache, Filters, PrunedBuilds, bad_filter, moment};
use crate::op::Op;
use crate::time::rfc3339_nano as rfc3339;
use std::path::Path;

/// The type of these caches, as BuildKit names it.
const KIND: &str = "exec.cachemount";

/// The caches of a root.
pub(crate) fn list(root: &Path, op: Option<&Op>) -> Result<Vec<BuildCache>> {
    let all = Caches::known(root)?.map_or(Ok(Vec::new()), |caches| caches.list(op))?;
    Ok(all.into_iter().map(shown).collect())
}

fn shown(cache: Listed) -> BuildCache {
    BuildCache {
        id: cache.name,
        kind: KIND.into(),
        description: format!("cached mount {}", cache.about.id),
        in_use: cache.in_use,
        shared: false,
        size: cache.size,
        created_at: rfc3339(cache.about.created_ns),
        last_used_at: rfc3339(cache.used_ns),
    }
}

/// The caches that a prune is to remove.
#[derive(Default)]
struct Chosen {
    ids: Vec<String>,
    /// Unix nanoseconds of the last use.
    until: Option<i64>,
    /// A type is named that no cache here has.
    none: bool,
    bounds: Bounds,
}

/// How many bytes of caches a prune keeps, those that were used last. Zero: the bound is not there.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    /// So much stays in any case.
    reserved: i64,
    /// More does not stay.
    max_used: i64,
    /// So much of the file system is to be free.
    min_free: i64,
}

impl Bounds {
    /// Reads a filter that is a bound. Answers whether it is one.
    fn read(&mut self, key: &str, values: &[String]) -> Result<bool> {
        let bound = match key {
            "reserved-space" => &mut self.reserved,
            "max-used-space" => &mut self.max_used,
            "min-free-space" => &mut self.min_free,
            _ => return Ok(false),
        };
        let [value] = values else { return Err(bad_filter(key, values)) };
        *bound = value.parse().map_err(|_| bad_filter(key, values))?;
        Ok(true)
    }

    /// Computes how many of `total` bytes the prune keeps, if the file system has `free` bytes left. Without a bound the prune keeps nothing,
    /// and this answers `None`.
    /// The rules are those of BuildKit.
    fn kept(self, total: u64, free: u64) -> Option<u64> {
        let Bounds { reserved, max_used, min_free } = self;
        if self == Bounds::default() {
            return None;
        }
        let (total, free) = (i64::try_from(total).unwrap_or(i64::MAX), i64::try_from(free).unwrap_or(i64::MAX));
        let missing = min_free.saturating_sub(free);
        let most = if max_used == 0 { total } else { max_used };
        let kept = match (missing > 0, max_used, min_free) {
            (true, ..) => most.min(total - missing),
            // Only the reserved space says how much stays.
            (false, 0, 0) => 0,
            (false, ..) => most,
        };
        Some(u64::try_from(kept.max(reserved)).unwrap_or(0))
    }
}

impl Chosen {
    fn read(filters: &Filters) -> Result<Chosen> {
        let mut chosen = Chosen::default();
        for (key, values) in filters {
            match (key.as_str(), values.as_slice()) {
                ("id", values) => chosen.ids = values.to_vec(),
                ("type", values) => chosen.none = values.iter().any(|value| value != KIND),
                ("until" | "unused-for", [value]) => {
                    chosen.until = Some(moment(value).ok_or_else(|| bad_filter(key, values))?);
                }
                ("until" | "unused-for", _) => return Err(bad_filter(key, values)),
                (key, values) if chosen.bounds.read(key, values)? => {}
                _ => return Err(Error::invalid(format!("Invalid filter '{key}'"))),
            }
        }
        Ok(chosen)
    }

    fn takes(&self, cache: &Listed) -> bool {
        !self.none
            && self.until.is_none_or(|until| cache.used_ns <= until)
            && (self.ids.is_empty() || self.ids.iter().any(|id| cache.name.starts_with(id.as_str())))
    }
}

/// Removes caches that no step uses. With bounds the oldest go first, until the rest is within them.
pub(crate) fn prune(root: &Path, filters: &Filters, op: Option<&Op>) -> Result<PrunedBuilds> {
    let chosen = Chosen::read(filters)?;
    op.map_or(Ok(()), Op::check)?;
    let mut pruned = PrunedBuilds::default();
    let Some(caches) = Caches::known(root)? else { return Ok(pruned) };
    let mut all = caches.list(op)?;
    all.sort_by_key(|cache| cache.used_ns);
    let mut left: u64 = all.iter().map(|cache| cache.size).sum();
    let kept = chosen.bounds.kept(left, caches.free_bytes()?);
    for cache in all {
        op.map_or(Ok(()), Op::check)?;
        if kept.is_some_and(|kept| left <= kept) {
            break;
        }
        if chosen.takes(&cache) && caches.remove(&cache.name)? {
            left -= cache.size;
            pruned.space_reclaimed += cache.size;
            pruned.caches_deleted.push(cache.name);
        }
    }
    Ok(pruned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(reserved: i64, max_used: i64, min_free: i64) -> Bounds {
        Bounds { reserved, max_used, min_free }
    }

    /// Bounds, bytes of all caches, free bytes, bytes that stay.
    #[test]
    fn bounds_say_how_much_stays() {
        for (bounds, total, free, kept) in [
            (bounds(0, 0, 0), 100, 50, None),
            (bounds(30, 0, 0), 100, 50, Some(30)),
            (bounds(300, 0, 0), 100, 50, Some(300)),
            (bounds(0, 60, 0), 100, 50, Some(60)),
            (bounds(80, 60, 0), 100, 50, Some(80)),
            (bounds(0, 0, 70), 100, 50, Some(80)),
            (bounds(0, 0, 40), 100, 50, Some(100)),
            (bounds(0, 60, 70), 100, 50, Some(60)),
            (bounds(0, 90, 70), 100, 50, Some(80)),
            (bounds(90, 90, 70), 100, 50, Some(90)),
            (bounds(0, 0, i64::MAX), 100, 0, Some(0)),
            (bounds(-5, 0, 0), 100, 50, Some(0)),
        ] {
            assert_eq!(bounds.kept(total, free), kept, "{bounds:?}");
        }
    }
}
