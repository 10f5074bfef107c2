//! Files of a container's groups that are read repeatedly: kept open as long as the program has spare descriptors.

use crate::kernel::file::read_piece;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The descriptors that all [`Files`] of the program hold.
static OPEN: AtomicU64 = AtomicU64::new(0);
/// At most this part of the program's limit of descriptors is held: the rest belongs to the program.
const SHARE: u64 = 4;
/// The most files that one reader keeps; its owner holds one more descriptor.
const FILES: u64 = 15;

/// Reads files by their names. Opening costs more than reading, so they stay open if the limit permits.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// By their names, which are unique over all groups; without a file: the kernel has none. `None`: no files are
    /// kept.
    open: Option<Vec<(&'static str, Option<File>)>>,
    buffer: Vec<u8>,
}

impl Files {
    /// For a repeated reader: its files stay open, if the program's limit of descriptors permits.
    pub(crate) fn cached() -> Files {
        let most =
            nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
        let taken = OPEN.fetch_add(FILES + 1, Ordering::Relaxed);
        if taken + FILES < most / SHARE {
            return Files { open: Some(Vec::new()), buffer: Vec::new() };
        }
        OPEN.fetch_sub(FILES + 1, Ordering::Relaxed);
        Files::default()
    }

    /// Whether files may stay open.
    pub(crate) fn is_cached(&self) -> bool {
        self.open.is_some()
    }

    /// Closes the open files, because the groups were replaced.
    pub(crate) fn forget(&mut self) {
        self.open.iter_mut().for_each(Vec::clear);
    }

    pub(super) fn text(&mut self, dir: &Path, name: &'static str) -> io::Result<&str> {
        let filled = match self.reread(name) {
            Some(done) => done?,
            None => self.anew(dir, name)?,
        };
        let text = self.buffer.get(..filled).unwrap_or_default();
        std::str::from_utf8(text).map_err(|e| io::Error::new(ErrorKind::InvalidData, e))
    }

    /// Reads from the open file, if there is one.
    fn reread(&mut self, name: &str) -> Option<io::Result<usize>> {
        let open = self.open.as_mut()?;
        let at = open.iter().position(|(known, _)| *known == name)?;
        let Some(file) = &open[at].1 else { return Some(Err(ErrorKind::NotFound.into())) };
        match read_piece(file, &mut self.buffer) {
            // The group is gone; a new one may have the same name.
            Err(_) => {
                open.swap_remove(at);
                None
            }
            done => Some(done),
        }
    }

    fn anew(&mut self, dir: &Path, name: &'static str) -> io::Result<usize> {
        let opened = File::open(dir.join(name));
        let keep = self.open.as_mut().filter(|open| (open.len() as u64) < FILES);
        match opened {
            Ok(file) => {
                let filled = read_piece(&file, &mut self.buffer)?;
                if let Some(open) = keep {
                    open.push((name, Some(file)));
                }
                Ok(filled)
            }
            Err(error) => {
                if let Some(open) = keep.filter(|_| error.kind() == ErrorKind::NotFound) {
                    open.push((name, None));
                }
                Err(error)
            }
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if self.open.is_some() {
            OPEN.fetch_sub(FILES + 1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_anew_each_time_and_another_is_found_once_the_first_is_forgotten() {
        let dir = std::env::temp_dir().join(format!("coracle-files-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("file");
        for mut files in [Files::default(), Files::cached()] {
            for text in ["1\n".to_owned(), "23\n".repeat(4096), String::new()] {
                std::fs::write(&path, &text).unwrap();
                assert_eq!(files.text(&dir, "file").unwrap(), text);
            }
            assert!(files.text(&dir, "other").is_err());
            std::fs::write(dir.join("other"), "4").unwrap();
            files.forget();
            assert_eq!(files.text(&dir, "other").unwrap(), "4");
            std::fs::remove_file(dir.join("other")).unwrap();
        }
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(Files::cached().text(&dir, "file").is_err());
    }

    #[test]
    fn a_part_of_the_descriptors_is_held_at_most() {
        let many: Vec<Files> = (0..100_000).map(|_| Files::cached()).collect();
        assert!(many.iter().any(|files| !files.is_cached()) && many[0].is_cached());
        drop(many);
        assert!(Files::cached().is_cached());
    }
}
