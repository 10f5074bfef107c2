//! Progress bars in docker's form.

use super::digest::Digest;
use crate::model::{Progress, ProgressDetail};

const WIDTH: u64 = 50;

/// A message about one layer, with numbers and a bar.
pub(crate) fn bar(status: &str, id: &str, current: u64, total: u64) -> Progress {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    Progress {
        status: status.into(),
        id: id.into(),
        progress_detail: Some(ProgressDetail { current: signed(current), total: signed(total) }),
        progress: drawn(current, total),
        ..Progress::default()
    }
}

/// A message about one layer without numbers, as docker has them: `progressDetail` is there and empty.
#[cfg(feature = "registry")]
pub(super) fn step(status: &str, id: &str) -> Progress {
    Progress {
        status: status.into(),
        id: id.into(),
        progress_detail: Some(ProgressDetail::default()),
        ..Progress::default()
    }
}

/// A message about one part of the store.
pub(super) fn said(status: &str, id: &str) -> Progress {
    Progress { status: status.into(), id: id.into(), ..Progress::default() }
}

/// A message of one line.
#[cfg(feature = "registry")]
pub(super) fn line(status: String, id: &str) -> Progress {
    Progress { status, id: id.into(), ..Progress::default() }
}

fn drawn(current: u64, total: u64) -> String {
    let now = human_size(current);
    if total == 0 {
        return format!("{now:>8}");
    }
    let done =
        if current >= total { WIDTH } else { (u128::from(current) * u128::from(WIDTH) / u128::from(total)) as u64 };
    let (filled, empty) = ("=".repeat(done as usize), " ".repeat((WIDTH - done) as usize));
    format!("[{filled}>{empty}] {now:>8}/{}", human_size(total))
}

/// Four significant digits, decimal units.
fn human_size(size: u64) -> String {
    let (mut value, mut unit) = (size as f64, 0);
    while value >= 1000.0 && unit < 6 {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match value {
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{}", ["B", "kB", "MB", "GB", "TB", "PB", "EB"][unit])
}

/// A layer loaded: its bar at the end.
pub(super) fn loaded(diff_id: &Digest, size: u64) -> Progress {
    bar("Loading layer", &diff_id.short(), size, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_docker_writes_them() {
        for (size, want) in [(0, "0B"), (512, "512B"), (1000, "1kB"), (1_578_496, "1.578MB"), (99_990_000, "99.99MB")] {
            assert_eq!(human_size(size), want);
        }
    }

    #[test]
    fn bars_are_fifty_wide() {
        assert!(drawn(1024, 1024).ends_with("=>]  1.024kB/1.024kB"));
        assert_eq!(drawn(25, 100).matches('=').count(), 12);
        assert_eq!(drawn(1, 100).len(), drawn(99, 100).len());
        assert_eq!(drawn(7, 0), "      7B");
    }
}
