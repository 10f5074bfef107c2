//! The journal's file: made once, appended to by many processes, kept small.

use super::hub::Hub;
use super::record::{self, Found};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::file;
use crate::model::Event;
use crate::walls::Wall;
use coracle_monitor::wire::{JOURNAL_HEAD, JOURNAL_LIMIT};
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The first bytes of the file.
const MAGIC: &[u8; 8] = b"CORAEVT1";
/// The only layout so far.
const VERSION: u32 = 1;
/// The offset of the first record.
pub(super) const HEADER: u64 = JOURNAL_HEAD;
/// The offset of the header's field with the start of the oldest kept record.
const START_AT: u64 = 16;
/// How often an append that was cut short is retried.
const TRIES: usize = 3;
/// How often the start is read until two reads agree.
const LOOKS: usize = 1000;

/// An event in the journal's form, which takes less memory than the event.
pub(crate) fn written(event: &Event) -> Result<Vec<u8>> {
    let json = |event: &Event| {
        serde_json::to_vec(event).map_err(|e| Error::internal(format!("write an event: {e}")).in_area("event"))
    };
    let whole = json(event)?;
    match whole.len() > record::MAX_PAYLOAD && Wall::LargeEvents.stands() {
        true => json(&super::cut::cut(event)),
        false => Ok(whole),
    }
}

/// The event journal of one run directory. Any number of these values, in any number of processes, share its file.
pub(crate) struct Journal {
    path: PathBuf,
    limit: u64,
    /// Opened for appending: its writes go to the end, whatever others write. The lock makes the position after a write
    /// the write's own end.
    tail: Mutex<File>,
    /// For operations with an offset (the kernel ignores offsets of appending descriptors).
    whole: File,
    /// The start as last read from the header. It only grows, so an old value only costs a superfluous read.
    start: AtomicU64,
    /// The number of open streams of this journal.
    pub(super) listeners: AtomicUsize,
    /// The hub of the streams, while there are any.
    pub(super) hub: Mutex<Weak<Hub>>,
}

impl Journal {
    /// Opens `run_dir/events`; makes it if it is missing.
    pub(crate) fn open(run_dir: &Path) -> Result<Journal> {
        Journal::open_with(run_dir, JOURNAL_LIMIT)
    }

    pub(super) fn open_with(run_dir: &Path, limit: u64) -> Result<Journal> {
        let path = run_dir.join("events");
        let failed = |e: &std::io::Error| Error::io(format_args!("open {}", path.display()), e).in_area("event");
        let open = |options: &mut OpenOptions| options.custom_flags(libc::O_NOFOLLOW).open(&path);
        let whole = match open(OpenOptions::new().read(true).write(true)) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                file::make_once(&path, &empty(), false).map_err(|e| e.in_area("event"))?;
                open(OpenOptions::new().read(true).write(true)).map_err(|e| failed(&e))?
            }
            other => other.map_err(|e| failed(&e))?,
        };
        check_header(&whole, &path)?;
        let tail = open(OpenOptions::new().append(true)).map_err(|e| failed(&e))?;
        let journal = Journal {
            path,
            limit,
            tail: Mutex::new(tail),
            whole,
            start: AtomicU64::new(HEADER),
            listeners: AtomicUsize::new(0),
            hub: Mutex::default(),
        };
        journal.trim_at(journal.end()?);
        Ok(journal)
    }

    /// A separate open file for appending, for a monitor.
    pub(crate) fn appender(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(libc::O_NOFOLLOW);
        options
            .open(&self.path)
            .map_err(|e| Error::io(format_args!("open {}", self.path.display()), &e).in_area("event"))
    }

    /// Appends an event; returns its sequence number, the file offset of its end. An event that is too large is
    /// shortened, because it has already happened.
    ///
    /// Errors: no memory left on the run directory's file system.
    pub(crate) fn append(&self, event: &Event) -> Result<u64> {
        self.append_written(&written(event)?)
    }

    /// Appends an event in the form of [`written`].
    pub(crate) fn append_written(&self, event: &[u8]) -> Result<u64> {
        let record = record::frame(event)?;
        let end = self.write(&record).map_err(|e| e.in_area("event"))?;
        self.trim_at(end);
        Ok(end)
    }

    fn write(&self, record: &[u8]) -> Result<u64> {
        let failed = |e: &std::io::Error| Error::io(format_args!("write {}", self.path.display()), e);
        for _ in 0..TRIES {
            let mut tail = self.tail.lock();
            match tail.write(record) {
                // A partial record is torn; readers skip it.
                Ok(written) if written < record.len() => {}
                Ok(_) => return tail.stream_position().map_err(|e| failed(&e)),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == std::io::ErrorKind::StorageFull => {
                    drop(tail);
                    if !self.trim_to(self.end()?, self.end()?.saturating_sub(self.start()?) / 2)? {
                        return Err(failed(&e));
                    }
                }
                Err(e) => return Err(failed(&e)),
            }
        }
        Err(Error::new(ErrorKind::Io, format!("write {}: cut short", self.path.display())))
    }

    /// The number of open streams of this journal (in this engine; other programs have their own).
    pub(crate) fn listeners(&self) -> usize {
        self.listeners.load(Ordering::Relaxed)
    }

    /// The offset after the last byte.
    pub(crate) fn end(&self) -> Result<u64> {
        let length = self.whole.metadata().map_err(|e| self.unreadable(&e))?.len();
        Ok(length.max(HEADER))
    }

    /// The offset of the oldest kept record.
    pub(super) fn start(&self) -> Result<u64> {
        let mut known = self.start.load(Ordering::Acquire);
        // A read of eight bytes that are being written may be torn: a new value counts when it was read twice.
        for _ in 0..LOOKS {
            let mut bytes = [0u8; 8];
            self.whole.read_exact_at(&mut bytes, START_AT).map_err(|e| self.unreadable(&e))?;
            let start = u64::from_le_bytes(bytes).max(HEADER);
            if start == known {
                self.start.fetch_max(start, Ordering::AcqRel);
                return Ok(start);
            }
            known = start;
            std::thread::yield_now();
        }
        let text = format!("{}: its first record moves each time that it is looked for", self.path.display());
        Err(Error::new(ErrorKind::Unavailable, text).in_area("event"))
    }

    /// Reads at `offset` to the end of `window`, at most `count` bytes; returns how many.
    pub(super) fn read(&self, offset: u64, count: usize, window: &mut Vec<u8>) -> Result<usize> {
        let old = window.len();
        window.resize(old + count, 0);
        let got = loop {
            match self.whole.read_at(&mut window[old..], offset) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        window.truncate(old + *got.as_ref().unwrap_or(&0));
        got.map_err(|e| self.unreadable(&e))
    }

    /// A path to the open file, whatever happens to its name.
    pub(super) fn watch_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.whole.as_raw_fd()))
    }

    /// Drops the older half if more than the limit is kept up to `end`. A failure is harmless; the next append tries
    /// again.
    pub(super) fn trim_at(&self, end: u64) {
        if end.saturating_sub(self.start.load(Ordering::Acquire)) > self.limit
            && self.start().is_ok_and(|start| end.saturating_sub(start) > self.limit)
        {
            let _ = self.trim_to(end, self.limit / 2);
        }
    }

    /// If no engine has trimmed for long, monitors free the oldest part by themselves, at four times the limit
    /// (`monitor/program/record.rs`), without moving the start. A reader trims earlier, so that readers that still need
    /// that part notice the loss.
    pub(super) fn trim_far(&self) -> Result<()> {
        let end = self.end()?;
        if end.saturating_sub(self.start.load(Ordering::Acquire)) > 3 * self.limit {
            self.trim_at(end);
        }
        Ok(())
    }

    /// Drops the oldest records so that about `keep` bytes before `end` stay. Returns whether space was freed.
    ///
    /// `start` moves first: a reader that checks it after a read knows whether the bytes were still valid.
    fn trim_to(&self, end: u64, keep: u64) -> Result<bool> {
        // The file lock excludes other journals, this one the other threads of this journal.
        let Some(_thread) = self.tail.try_lock() else { return Ok(false) };
        if !file::try_lock(&self.whole, HEADER as i64)? {
            return Ok(false);
        }
        let result = self.move_start(end.saturating_sub(keep));
        let _ = file::unlock(&self.whole, HEADER as i64);
        result
    }

    fn move_start(&self, target: u64) -> Result<bool> {
        let old = self.start()?;
        if target <= old {
            return Ok(false);
        }
        let Some(start) = self.record_from(target)? else { return Ok(false) };
        self.whole.write_all_at(&start.to_le_bytes(), START_AT).map_err(|e| self.unreadable(&e))?;
        self.start.fetch_max(start, Ordering::AcqRel);
        // From the first record on, not from the old start: an earlier trim may have been killed before this step.
        file::punch_hole(&self.whole, HEADER, start - start % 4096 - HEADER)?;
        Ok(true)
    }

    /// The offset of the first whole record at or after `offset`.
    fn record_from(&self, mut offset: u64) -> Result<Option<u64>> {
        let mut window = Vec::new();
        loop {
            let got = self.read(offset + window.len() as u64, 64 << 10, &mut window)?;
            match record::find(&window) {
                Found::Record { payload, end } => {
                    return Ok(Some(offset + (end - payload.len() - record::HEAD) as u64));
                }
                Found::Wait { .. } if got == 0 => return Ok(None),
                Found::Wait { skip } => {
                    window.drain(..skip);
                    offset += skip as u64;
                }
            }
        }
    }

    fn unreadable(&self, error: &std::io::Error) -> Error {
        Error::io(format_args!("event journal {}", self.path.display()), error).in_area("event")
    }
}

/// A file without records.
fn empty() -> Vec<u8> {
    let mut header = vec![0u8; HEADER as usize];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[16..24].copy_from_slice(&HEADER.to_le_bytes());
    header
}

fn check_header(file: &File, path: &Path) -> Result<()> {
    let mut header = [0u8; 12];
    let read = file.read_exact_at(&mut header, 0);
    if read.is_err() || !header.starts_with(MAGIC) {
        let text = format!("{} is not an event journal; remove it to start a new one", path.display());
        return Err(Error::corrupt(text).in_area("event"));
    }
    let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    if version != VERSION {
        let text = format!("{}: journal version {version}, this library knows {VERSION}", path.display());
        return Err(Error::unsupported(text).in_area("event"));
    }
    Ok(())
}
