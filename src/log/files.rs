//! The files of one log: `<path>` is written, `<path>.1` came before it, `<path>.2` before that; a compressed one has
//! `.gz` after its number.
//!
//! A file of a bounded log has a mark with its place among all files of the log so far: the reader finds it again under
//! any name, compressed or not, and knows how many lines deleted files had.

use super::packed::Packed;
use crate::error::{Error, Result};
use crate::kernel::tree::get_xattr_fd;
use coracle_monitor::wire::{LOG_MARK, LOG_MARK_BEFORE, LogMark};
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind::{Interrupted, NotFound};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How often a reader retries when a monitor renames the files meanwhile.
const TRIES: usize = 1000;
/// Block size of the backward search.
const BLOCK: u64 = 64 << 10;

/// One of the files, open: its content stays readable whatever happens to its name.
pub(super) struct LogFile {
    file: File,
    id: (u64, u64),
    pub(super) mark: Option<LogMark>,
    /// The offset at which reading continues.
    pub(super) offset: u64,
    packed: Option<Packed>,
    path: PathBuf,
}

/// The fate of the bytes before the reading position.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Past {
    Same,
    /// The line at the end was begun and cut off again.
    Cut,
    /// The file was emptied.
    Gone,
}

/// The mark of a log file; `None`: there is none.
fn mark(file: BorrowedFd<'_>) -> Result<Option<LogMark>> {
    let named = |name: &CStr| get_xattr_fd(file, &name.to_string_lossy());
    let bytes = named(LOG_MARK)?.map_or_else(|| named(LOG_MARK_BEFORE), |bytes| Ok(Some(bytes)))?;
    Ok(bytes.and_then(|bytes| LogMark::from_bytes(&bytes)))
}

impl LogFile {
    /// Opens a file of the log; `None`: no file has that name.
    fn open(path: PathBuf) -> Result<Option<LogFile>> {
        // Not through a link, and without waiting for the other end of a fifo: the directory is the engine's own, so
        // this is only caution.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == NotFound => return Ok(None),
            Err(e) => return Err(failed(&path, &e)),
        };
        let facts = file.metadata().map_err(|e| failed(&path, &e))?;
        if !facts.is_file() {
            return Err(Error::corrupt(format!("log {}: not a regular file", path.display())).in_area("log"));
        }
        let mark = mark(file.as_fd())?;
        Ok(Some(LogFile { file, id: (facts.dev(), facts.ino()), mark, offset: 0, packed: None, path }))
    }

    /// The file with that number; 0 is the one being written.
    fn numbered(path: &Path, number: usize) -> Result<Option<LogFile>> {
        let plain = LogFile::open(name(path, number, ""))?;
        if plain.is_some() || number == 0 {
            return Ok(plain);
        }
        let Some(mut file) = LogFile::open(name(path, number, ".gz"))? else { return Ok(None) };
        let content = file.file.try_clone().map_err(|e| failed(&file.path, &e))?;
        file.packed = Some(Packed::new(content));
        Ok(Some(file))
    }

    /// The end of reading if later lines are not wanted.
    pub(super) fn limit(&self) -> Result<u64> {
        if self.packed.is_some() { Ok(u64::MAX) } else { self.size() }
    }

    /// The present size of the file.
    fn size(&self) -> Result<u64> {
        self.file.metadata().map(|facts| facts.len()).map_err(|e| failed(&self.path, &e))
    }

    /// Appends the next bytes to `window`, at most `count`; returns how many.
    pub(super) fn read(&mut self, count: usize, window: &mut Vec<u8>) -> Result<usize> {
        let got = match &mut self.packed {
            Some(packed) => packed.read(count, window),
            None => self.read_at(self.offset, count, window)?,
        };
        self.offset += got as u64;
        Ok(got)
    }

    /// Whether the content ended too early.
    pub(super) fn is_damaged(&self) -> bool {
        self.packed.as_ref().is_some_and(|packed| packed.damaged)
    }

    fn read_at(&self, offset: u64, count: usize, window: &mut Vec<u8>) -> Result<usize> {
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

    /// The bytes before the reading position, at most this many. A file that is shorter was emptied: it is read from
    /// its start.
    pub(super) fn read_before(&mut self, most: usize) -> Result<Vec<u8>> {
        let mut memory = Vec::new();
        if self.packed.is_some() {
            return Ok(memory);
        }
        let length = self.offset.min(most as u64);
        self.read_at(self.offset - length, length as usize, &mut memory)?;
        if (memory.len() as u64) < length {
            self.offset = 0;
            memory.clear();
        }
        Ok(memory)
    }

    /// The fate of `memory` and `begun`, which stood in this order before `end`. A rotation with a single file emptied
    /// the file (older monitors), and a monitor that cannot write a whole record on a full disk cuts off its part.
    pub(super) fn past(&self, end: u64, memory: &[u8], begun: &[u8]) -> Result<Past> {
        if self.packed.is_some() {
            return Ok(Past::Same);
        }
        let length = memory.len() + begun.len();
        let mut now = Vec::with_capacity(length);
        self.read_at(end - length as u64, length, &mut now)?;
        Ok(match now.strip_prefix(memory) {
            Some(rest) if rest == begun => Past::Same,
            Some(_) => Past::Cut,
            None => Past::Gone,
        })
    }

    /// The number of lines.
    pub(super) fn lines(&self) -> Result<u64> {
        if self.packed.is_some() {
            let content = self.file.try_clone().map_err(|e| failed(&self.path, &e))?;
            return Ok(Packed::new(content).lines());
        }
        let (mut at, mut lines, mut block) = (0, 0, Vec::new());
        loop {
            block.clear();
            match self.read_at(at, BLOCK as usize, &mut block)? {
                0 => return Ok(lines),
                got => at += got as u64,
            }
            lines += memchr::memchr_iter(b'\n', &block).count() as u64;
        }
    }

    /// Positions the file so that `wanted` whole lines follow, or as many as it has; returns how many are still
    /// missing. `lines`: the number of its lines, if known.
    fn seek_back(&mut self, wanted: u64, lines: Option<u64>) -> Result<u64> {
        if let Some(all) = lines.filter(|&all| all <= wanted) {
            return Ok(wanted - all);
        }
        if self.packed.is_none() {
            return self.search_back(wanted);
        }
        let lines = lines.map_or_else(|| self.lines(), Ok)?;
        if let Some(packed) = self.packed.as_mut() {
            packed.skip(lines.saturating_sub(wanted));
        }
        Ok(wanted.saturating_sub(lines))
    }

    fn search_back(&mut self, wanted: u64) -> Result<u64> {
        let mut block = Vec::new();
        let mut end = self.size()?;
        let mut newlines = 0;
        while end > 0 {
            let from = end.saturating_sub(BLOCK);
            block.clear();
            self.read_at(from, (end - from) as usize, &mut block)?;
            for at in memchr::memrchr_iter(b'\n', &block) {
                // The newline before the first wanted line.
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

/// All files of the log, oldest first. Empty: none exists yet.
pub(super) fn open_all(path: &Path) -> Result<Vec<LogFile>> {
    for _ in 0..TRIES {
        let mut files: Vec<LogFile> = Vec::new();
        while let Some(file) = LogFile::numbered(path, files.len())? {
            files.push(file);
        }
        let hole = LogFile::numbered(path, files.len() + 1)?.is_some();
        if !hole && is_a_run(&files) && files.first().map(|file| file.id) == id_of(path)? {
            files.reverse();
            return Ok(files);
        }
        std::thread::yield_now();
    }
    // A monitor was killed during a rename: the existing files, without the missing one.
    let numbers = (0..=highest(path)).rev();
    numbers.filter_map(|number| LogFile::numbered(path, number).transpose()).collect()
}

/// Whether no file was renamed while they were opened, newest first: otherwise one may be listed twice, or missing.
fn is_a_run(files: &[LogFile]) -> bool {
    let mut ids: Vec<_> = files.iter().map(|file| file.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let follows = |pair: &[LogFile]| match (pair[0].mark, pair[1].mark) {
        (Some(newer), Some(older)) => newer.generation == older.generation + 1,
        _ => true,
    };
    ids.len() == files.len() && files.windows(2).all(follows)
}

/// Drops and positions files (oldest first) so that `wanted` whole lines are left to read.
pub(super) fn keep_last_lines(files: &mut Vec<LogFile>, mut wanted: u64) -> Result<()> {
    for index in (0..files.len()).rev() {
        let next = files.get(index + 1).and_then(|next| next.mark);
        let lines = files[index].mark.zip(next).and_then(|(own, next)| next.records.checked_sub(own.records));
        wanted = files[index].seek_back(wanted, lines)?;
        if wanted == 0 {
            files.drain(..index);
            return Ok(());
        }
    }
    Ok(())
}

/// The files after `current`, oldest first: the next one, or all that exist if the next one was deleted. Empty:
/// `current` is still being written.
pub(super) fn after(path: &Path, current: &LogFile) -> Result<Vec<LogFile>> {
    let Some(mark) = current.mark else { return Ok(successor(path, current)?.into_iter().collect()) };
    if let Some(newest) = LogFile::numbered(path, 0)? {
        let Some(newest_mark) = newest.mark else { return Ok(successor(path, current)?.into_iter().collect()) };
        match newest_mark.generation.saturating_sub(mark.generation) {
            0 => return Ok(Vec::new()),
            1 => return Ok(vec![newest]),
            more => {
                let next = LogFile::numbered(path, usize::try_from(more - 1).unwrap_or(usize::MAX))?;
                let is_next = |file: &LogFile| file.mark.is_some_and(|next| next.generation == mark.generation + 1);
                if let Some(next) = next.filter(is_next) {
                    return Ok(vec![next]);
                }
            }
        }
    }
    let mut files = open_all(path)?;
    files.retain(|file| file.mark.is_some_and(|other| other.generation > mark.generation));
    Ok(files)
}

/// The number of lines in deleted files between two files.
pub(super) fn between(current: &LogFile, next: &LogFile) -> Result<u64> {
    match (current.mark, next.mark) {
        (Some(own), Some(next)) if next.generation > own.generation + 1 => {
            Ok(next.records.saturating_sub(own.records + current.lines()?))
        }
        _ => Ok(0),
    }
}

/// The successor of a file without a mark (older monitors); `None`: the file is still being written. If the file was
/// deleted meanwhile, the oldest remaining one follows.
fn successor(path: &Path, current: &LogFile) -> Result<Option<LogFile>> {
    if id_of(path)? == Some(current.id) {
        return Ok(None);
    }
    for _ in 0..TRIES {
        let top = highest(path);
        let mut place = None;
        for number in 0..=top {
            if id_of(&name(path, number, ""))? == Some(current.id) {
                place = Some(number);
                break;
            }
        }
        let next = match place {
            Some(0) => return Ok(None),
            Some(number) => number - 1,
            None => top,
        };
        let found = LogFile::numbered(path, next)?;
        let is_current = match place {
            Some(number) => id_of(&name(path, number, ""))? == Some(current.id),
            None => highest(path) == top,
        };
        match found {
            // The old name is removed before the new file is made: there is no new one yet.
            None if next == 0 => return Ok(None),
            Some(file) if is_current && file.id != current.id => return Ok(Some(file)),
            _ => std::thread::yield_now(),
        }
    }
    Ok(None)
}

/// `<path>.<number><form>`; 0 is the file being written.
fn name(path: &Path, number: usize, form: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if number > 0 {
        name.push(format!(".{number}{form}"));
    }
    name.into()
}

/// The highest number in use; a single missing number is skipped.
fn highest(path: &Path) -> usize {
    let there = |number| ["", ".gz"].iter().any(|form| name(path, number, form).symlink_metadata().is_ok());
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
