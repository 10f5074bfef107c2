//! Files that are read again and again: kept open as long as the program has descriptors to spare.

use crate::kernel::file::{read_again, read_text};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How many descriptors all [`Files`] of the program hold.
static HELD: AtomicU64 = AtomicU64::new(0);
/// Of the descriptors that the program may have, this part at most is held: the rest is the program's own.
const SHARE: u64 = 4;
/// The most files that one reader keeps.
const FILES: u64 = 16;

/// Reads files by their names; opening costs more than reading, so they stay open where there is room.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// `None`: nothing is kept.
    open: Option<HashMap<PathBuf, File>>,
}

impl Files {
    /// For a reader that comes again: its files stay open, if the program's limit of descriptors leaves room.
    pub(crate) fn kept() -> Files {
        let most =
            nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
        let taken = HELD.fetch_add(FILES, Ordering::Relaxed);
        if taken + FILES <= most / SHARE {
            return Files { open: Some(HashMap::new()) };
        }
        HELD.fetch_sub(FILES, Ordering::Relaxed);
        Files::default()
    }

    pub(super) fn text(&mut self, path: &Path) -> io::Result<String> {
        let Some(open) = &mut self.open else { return read_text(path) };
        if let Some(file) = open.get(path) {
            match read_again(file) {
                // The group is gone; there may be a new one of the same name.
                Err(_) => open.remove(path),
                done => return done,
            };
        }
        let file = File::open(path)?;
        let text = read_again(&file)?;
        if (open.len() as u64) < FILES {
            open.insert(path.to_owned(), file);
        }
        Ok(text)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if self.open.is_some() {
            HELD.fetch_sub(FILES, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_anew_each_time_and_found_again_when_it_is_another() {
        let dir = std::env::temp_dir().join(format!("coracle-held-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("file");
        for mut files in [Files::default(), Files::kept()] {
            for text in ["1\n", "23\n", ""] {
                std::fs::write(&path, text).unwrap();
                assert_eq!(files.text(&path).unwrap(), text);
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(Files::kept().text(&path).is_err());
    }

    #[test]
    fn a_part_of_the_descriptors_is_held_at_most() {
        let many: Vec<Files> = (0..100_000).map(|_| Files::kept()).collect();
        assert!(many.iter().any(|files| files.open.is_none()) && many[0].open.is_some());
        drop(many);
        assert!(Files::kept().open.is_some());
    }
}
