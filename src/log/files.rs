//! The files of one log: `<path>` being written, `<path>.1` before it, `<path>.2` before that.

use crate::error::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind::{Interrupted, NotFound};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How often a look at names that a monitor is renaming is tried.
const TRIES: usize = 1000;
/// Block of the search backwards.
const BLOCK: u64 = 64 << 10;

/// One of the files, open: it keeps its content whatever becomes of its name.
pub(super) struct LogFile {
    file: File,
    id: (u64, u64),
    /// Where reading goes on.
    pub(super) offset: u64,
    path: PathBuf,
}

impl LogFile {
    /// Opens a file of the log; `None`: there is none of that name.
    fn open(path: &Path) -> Result<Option<LogFile>> {
        // Not through a link, and without waiting for the other end of a fifo: the directory is the engine's own, but
        // nothing is lost by being careful.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == NotFound => return Ok(None),
            Err(e) => return Err(failed(path, &e)),
        };
        let facts = file.metadata().map_err(|e| failed(path, &e))?;
        if !facts.is_file() {
            return Err(Error::corrupt(format!("log {}: not a regular file", path.display())).in_area("log"));
        }
        Ok(Some(LogFile { file, id: (facts.dev(), facts.ino()), offset: 0, path: path.to_path_buf() }))
    }

    /// Its size now.
    pub(super) fn size(&self) -> Result<u64> {
        self.file.metadata().map(|facts| facts.len()).map_err(|e| failed(&self.path, &e))
    }

    /// Appends what is there at `offset` to `window`, at most `count` bytes; answers how many came.
    pub(super) fn read_at(&self, offset: u64, count: usize, window: &mut Vec<u8>) -> Result<usize> {
        let old = window.len();
        window.resize(old + count, 0);
        let got = loop {
            match self.file.read_at(&mut window[old..], offset) {
                Err(e) if e.kind() == Interrupted => {}
                other => break other,
            }
        };
        window.truncate(old + *got.as_ref().unwrap_or(&0));
        got.map_err(|e| failed(&self.path, &e))
    }

    /// Sets `offset` so that `wanted` whole lines follow, or as many as there are; answers how many are still wanted.
    fn seek_back(&mut self, wanted: u64) -> Result<u64> {
        let mut block = Vec::new();
        let mut end = self.size()?;
        let mut newlines = 0;
        while end > 0 {
            let from = end.saturating_sub(BLOCK);
            block.clear();
            self.read_at(from, (end - from) as usize, &mut block)?;
            for at in memchr::memrchr_iter(b'\n', &block) {
                // The newline before the first line wanted.
                if newlines == wanted {
                    self.offset = from + at as u64 + 1;
                    return Ok(0);
                }
                newlines += 1;
            }
            end = from;
        }
        self.offset = 0;
        Ok(wanted - newlines)
    }
}

/// All files of the log, oldest first. Empty: none was made yet.
pub(super) fn open_all(path: &Path) -> Result<Vec<LogFile>> {
    for _ in 0..TRIES {
        let mut files: Vec<LogFile> = Vec::new();
        let mut number = 0;
        while let Some(file) = LogFile::open(&name(path, number))? {
            files.push(file);
            number += 1;
        }
        // Renamed meanwhile: one was seen twice, or a name was free for a moment.
        let mut ids: Vec<_> = files.iter().map(|file| file.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let hole = LogFile::open(&name(path, number + 1))?.is_some();
        let moved = files.first().is_some_and(|file| id_of(path).ok().flatten() != Some(file.id));
        if ids.len() == files.len() && !hole && !moved {
            files.reverse();
            return Ok(files);
        }
        std::thread::yield_now();
    }
    // A monitor was killed while it renamed: what is there, with the hole.
    let numbers = (0..=highest(path)).rev();
    numbers.filter_map(|number| LogFile::open(&name(path, number)).transpose()).collect()
}

/// Drops and positions files (oldest first) so that `wanted` whole lines are left to read.
pub(super) fn keep_last_lines(files: &mut Vec<LogFile>, mut wanted: u64) -> Result<()> {
    for index in (0..files.len()).rev() {
        wanted = files[index].seek_back(wanted)?;
        if wanted == 0 {
            files.drain(..index);
            return Ok(());
        }
    }
    Ok(())
}

/// The file that took over from `current`; `None`: it is still the one being written.
///
/// When `current` was dropped altogether, the oldest one left is the next.
pub(super) fn successor(path: &Path, current: &LogFile) -> Result<Option<LogFile>> {
    if id_of(path)? == Some(current.id) {
        return Ok(None);
    }
    for _ in 0..TRIES {
        let top = highest(path);
        let mut place = None;
        for number in 0..=top {
            if id_of(&name(path, number))? == Some(current.id) {
                place = Some(number);
                break;
            }
        }
        let next = match place {
            Some(0) => return Ok(None),
            Some(number) => number - 1,
            None => top,
        };
        let found = LogFile::open(&name(path, next))?;
        let settled = match place {
            Some(number) => id_of(&name(path, number))? == Some(current.id),
            None => highest(path) == top,
        };
        match found {
            // The old name is given up before the new file is made: there is none yet.
            None if next == 0 => return Ok(None),
            Some(file) if settled && file.id != current.id => return Ok(Some(file)),
            _ => std::thread::yield_now(),
        }
    }
    Ok(None)
}

/// `<path>.<number>`; 0 is the file being written.
fn name(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if number > 0 {
        name.push(format!(".{number}"));
    }
    name.into()
}

/// The highest number in use, over a hole of one.
fn highest(path: &Path) -> usize {
    let there = |number| name(path, number).symlink_metadata().is_ok();
    let mut number = 0;
    while there(number + 1) || there(number + 2) {
        number += 1;
    }
    number
}

fn id_of(path: &Path) -> Result<Option<(u64, u64)>> {
    match path.symlink_metadata() {
        Ok(facts) => Ok(Some((facts.dev(), facts.ino()))),
        Err(e) if e.kind() == NotFound => Ok(None),
        Err(e) => Err(failed(path, &e)),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::io(format_args!("read log {}", path.display()), error).in_area("log")
}
