//! Prunes and disk usage: the space that objects take, and the removal of those that nothing uses.
// The fields are the API's own names; their meaning, units and limits stand there.
#![allow(missing_docs)]

use super::{ContainerSummary, Filters, ImageSummary, StringMap, Volume};
use crate::error::{Error, Result};
use crate::time::parse_rfc3339;
use serde::{Deserialize, Serialize};

/// The volumes that a prune removed.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let pruned = engine.volumes_prune(&Default::default(), None)?;
/// println!("{} bytes of {}", pruned.space_reclaimed, pruned.volumes_deleted.join(", "));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PrunedVolumes {
    /// Names.
    pub volumes_deleted: Vec<String>,
    /// Bytes of their files.
    pub space_reclaimed: u64,
}

/// The networks that a prune removed.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// println!("{}", engine.networks_prune(&Default::default(), None)?.networks_deleted.join(", "));
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PrunedNetworks {
    /// Names.
    pub networks_deleted: Vec<String>,
}

/// The caches of builds (`RUN --mount=type=cache`) that a prune removed.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// let pruned = engine.build_prune(&Default::default(), None)?;
/// println!("{} bytes of {} caches", pruned.space_reclaimed, pruned.caches_deleted.len());
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PrunedBuilds {
    /// Ids, as a disk usage shows them.
    pub caches_deleted: Vec<String>,
    /// Bytes of their files.
    pub space_reclaimed: u64,
}

/// A cache of builds: a directory that steps with the same `RUN --mount=type=cache` share.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::DiskUsageQuery;
///
/// let usage = engine.disk_usage(DiskUsageQuery { build_cache: true, ..Default::default() }, None)?;
/// for cache in usage.build_cache {
///     println!("{}: {} bytes", cache.description, cache.size);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct BuildCache {
    /// The name of its directory.
    #[serde(rename = "ID")]
    pub id: String,
    /// `exec.cachemount`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Which cache it is: `cached mount` and the id that the build file gives it.
    pub description: String,
    /// Whether a step uses it now: then no prune removes it.
    pub in_use: bool,
    /// Whether others depend on it: never.
    pub shared: bool,
    /// Bytes of its files.
    pub size: u64,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339.
    pub last_used_at: String,
}

/// Which objects a disk usage counts.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::DiskUsageQuery;
///
/// let usage = engine.disk_usage(DiskUsageQuery { images: true, ..Default::default() }, None)?;
/// println!("{} bytes of layers", usage.layers_size);
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskUsageQuery {
    /// Whether containers are measured.
    pub containers: bool,
    /// Whether images and layers are measured.
    pub images: bool,
    /// The files of each volume are counted, which takes as long as a walk through them.
    pub volumes: bool,
    /// The files of each cache of builds are counted.
    pub build_cache: bool,
}

impl DiskUsageQuery {
    /// All kinds of objects.
    pub const ALL: DiskUsageQuery = DiskUsageQuery { containers: true, images: true, volumes: true, build_cache: true };
}

/// Answer of a disk usage: the objects of the kinds that were requested, with their sizes.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::DiskUsageQuery;
///
/// let usage = engine.disk_usage(DiskUsageQuery::ALL, None)?;
/// println!("{} bytes of layers, {} images", usage.layers_size, usage.images.len());
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DiskUsage {
    /// Bytes of all layers of images, each counted once.
    pub layers_size: i64,
    /// With `SharedSize`, the bytes of layers that other images have, too, and `Containers`.
    pub images: Vec<ImageSummary>,
    /// With `SizeRw` and `SizeRootFs`.
    pub containers: Vec<ContainerSummary>,
    /// With `UsageData`.
    pub volumes: Vec<Volume>,
    /// The caches of builds.
    pub build_cache: Vec<BuildCache>,
}

/// `UsageData` of a volume.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::DiskUsageQuery;
///
/// let usage = engine.disk_usage(DiskUsageQuery::ALL, None)?;
/// for volume in usage.volumes {
///     if let Some(usage) = volume.usage_data {
///         println!("{} {} bytes, used by {} containers", volume.name, usage.size, usage.ref_count);
///     }
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct VolumeUsage {
    /// Bytes of its files; -1 if they are mounted only in containers (a volume with driver options).
    pub size: i64,
    /// How many containers use it.
    pub ref_count: i64,
}

/// The filters that all prunes know: `until`, `label`, `label!`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PruneFilter {
    /// Unix nanoseconds: objects that are younger stay.
    until: Option<i64>,
    labels: Vec<String>,
    not_labels: Vec<String>,
}

impl PruneFilter {
    /// Takes a filter, if it is one of these. Errors: its value is malformed.
    pub(crate) fn take(&mut self, key: &str, values: &[String]) -> Result<bool> {
        match (key, values) {
            ("until", [value]) => self.until = Some(moment(value).ok_or_else(|| bad_filter(key, values))?),
            ("until", [_, ..]) => return Err(Error::invalid("more than one until filter specified")),
            ("until", []) => return Err(bad_filter(key, values)),
            ("label", values) => self.labels = values.to_vec(),
            ("label!", values) => self.not_labels = values.to_vec(),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads filters that are these alone. Errors: another filter, a malformed value.
    pub(crate) fn read(filters: &Filters) -> Result<PruneFilter> {
        let mut filter = PruneFilter::default();
        for (key, values) in filters {
            if !filter.take(key, values)? {
                return Err(Error::invalid(format!("Invalid filter '{key}'")));
            }
        }
        Ok(filter)
    }

    /// Whether an object of that age (Unix nanoseconds) and these labels is meant.
    pub(crate) fn takes(&self, created_ns: i64, labels: &StringMap) -> bool {
        self.until.is_none_or(|until| created_ns <= until)
            && self.labels.iter().all(|wanted| has(labels, wanted))
            && !self.not_labels.iter().any(|not| has(labels, not))
    }
}

pub(crate) fn bad_filter(key: &str, values: &[String]) -> Error {
    Error::invalid(format!("Invalid filter '{key}=[{}]'", values.join(" ")))
}

/// `KEY` or `KEY=VALUE`.
fn has(labels: &StringMap, wanted: &str) -> bool {
    let (key, value) = wanted.split_once('=').map_or((wanted, None), |(key, value)| (key, Some(value)));
    labels.get(key).is_some_and(|have| value.is_none_or(|value| have == value))
}

/// Unix seconds, maybe with a fraction, RFC 3339 or its beginning from the day on, or a time before now: `10m`, `1h30m`. A time
/// without a zone is in UTC.
pub(crate) fn moment(text: &str) -> Option<i64> {
    const ENDS: [&str; 5] = ["", "Z", ":00Z", ":00:00Z", "T00:00:00Z"];
    if let Some(time) = ENDS.iter().find_map(|end| parse_rfc3339(format!("{text}{end}").as_bytes())) {
        return Some(time);
    }
    if let Some(before) = duration(text) {
        return crate::time::now_ns().checked_sub(before);
    }
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Nanoseconds of numbers with units, as docker's clients write them.
pub(crate) fn duration(text: &str) -> Option<i64> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit_end = rest[end..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |at| end + at);
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[end..unit_end])?;
        total += number * unit;
        rest = &rest[unit_end..];
    }
    (!text.is_empty() && total.is_finite() && total < i64::MAX as f64).then_some(total as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(key: &str, values: &[&str]) -> Result<PruneFilter> {
        PruneFilter::read(&[(key.to_owned(), values.iter().map(|v| (*v).to_owned()).collect())].into())
    }

    #[test]
    fn filters_are_checked() {
        assert_eq!(read("until", &["1.5"]).unwrap().until, Some(1_500_000_000));
        assert_eq!(read("until", &["1970-01-01T00:00:02Z"]).unwrap().until, Some(2_000_000_000));
        for (text, seconds) in [
            ("1970-01-02", 86_400),
            ("1970-01-02T01", 90_000),
            ("1970-01-02T01:01", 90_060),
            ("1970-01-02T01:01:01.5", 90_061),
        ] {
            assert_eq!(read("until", &[text]).unwrap().until.map(|ns| ns / 1_000_000_000), Some(seconds), "{text}");
        }
        for (key, values) in [
            ("until", &["1", "2"][..]),
            ("until", &[]),
            ("until", &["soon"]),
            ("until", &["1970-01"]),
            ("until", &["1970-13-01"]),
            ("reference", &["x"]),
        ] {
            assert!(read(key, values).is_err(), "{key} {values:?}");
        }
    }

    #[test]
    fn durations_are_read() {
        for (text, wanted) in [
            ("10m", Some(600_000_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1.5s", Some(1_500_000_000)),
            ("5", None),
            ("m", None),
            ("1d", None),
            ("", None),
        ] {
            assert_eq!(duration(text), wanted, "{text}");
        }
        let before = crate::time::now_ns();
        let until = read("until", &["1h"]).unwrap().until.unwrap();
        assert!(until >= before - 3_600_000_000_000 && until < crate::time::now_ns());
    }

    #[test]
    fn age_and_labels_choose() {
        let labels = StringMap::from([("a".into(), "1".into())]);
        assert!(has(&labels, "a") && has(&labels, "a=1") && !has(&labels, "a=2") && !has(&labels, "b"));
        let of = |key: &str, value: &str| read(key, &[value]).unwrap().takes(5, &labels);
        assert!(of("label", "a") && !of("label", "b") && !of("label!", "a=1") && of("label!", "a=2"));
        assert!(of("until", "1") && !of("until", "0"));
    }
}
