//! Entry points for fuzzers: each takes arbitrary bytes, and must neither panic nor hang nor break its assertions.
//!
//! `fuzz/` runs them with libFuzzer; the test below gives each its corpus and mutations of it.

use crate::buildfile::fuzz as buildfile;
use crate::container::fuzz as container;
use crate::image::fuzz as image;
use crate::launch::seccomp;
use crate::model::DetachKeys;

#[cfg(test)]
#[path = "../tests/support/mutate.rs"]
mod mutate;

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// All entry points, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("reference", image::reference),
    ("instructions", image::instructions),
    ("image_config", image::config),
    ("manifest", image::manifest),
    ("tar", image::tar),
    ("compressed", image::compressed),
    ("archive", image::archive),
    ("tar_split", image::tar_split),
    ("bolt", crate::engine::docker::fuzz_bolt),
    ("create", container::create),
    ("build_file", buildfile::build_file),
    ("ignore_file", buildfile::ignore_file),
    ("journal", crate::event::fuzz),
    ("log", crate::log::fuzz),
    ("seccomp", profile),
    ("detach", detach),
    #[cfg(feature = "registry")]
    ("registry", crate::registry::fuzz),
    #[cfg(feature = "registry")]
    ("git", crate::git::fuzz),
];

/// Runs an entry point by its name; an unknown name does nothing.
pub fn run(name: &str, data: &[u8]) {
    if let Some((_, target)) = TARGETS.iter().find(|(one, _)| *one == name) {
        target(data);
    }
}

fn profile(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(Some(filter)) = seccomp::profile_filter(text, 0)
    {
        assert!(filter.len().is_multiple_of(8) && filter.len() <= 4096 * 8);
    }
}

/// The first line has the keys, the rest is the typed text.
fn detach(data: &[u8]) {
    let (keys, typed) = data.split_at(data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len()));
    let Ok(mut keys) = DetachKeys::parse(&String::from_utf8_lossy(keys)) else { return };
    let mut out = Vec::new();
    for piece in typed.chunks(3) {
        if keys.feed(piece, &mut out) {
            break;
        }
    }
    assert!(out.len() <= typed.len());
}

#[cfg(test)]
mod tests {
    use super::mutate;

    #[test]
    fn every_target_takes_anything() {
        for (name, target) in super::TARGETS {
            let count = if *name == "archive" { 60 } else { 1500 };
            mutate::each(name, count, target);
        }
    }
}
