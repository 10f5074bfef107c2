//! The journal's file: made once, appended to by anybody, kept small.

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

/// First bytes of the file.
const MAGIC: &[u8; 8] = b"CORAEVT1";
/// The only layout so far.
const VERSION: u32 = 1;
/// Where the records begin.
pub(super) const HEADER: u64 = JOURNAL_HEAD;
/// Where the header says which record is the oldest kept.
const START_AT: u64 = 16;
/// How often an append that was cut short is tried.
const TRIES: usize = 3;
/// How often the place of the first record is read until it stays the same.
const LOOKS: usize = 1000;

/// An event as the journal has it, which takes less memory than the event.
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

/// The event journal of one run directory. Any number of these, in any number of processes, share its file.
pub(crate) struct Journal {
    path: PathBuf,
    limit: u64,
    /// Opened for appending: its writes go to the end whatever happens beside them. The lock makes the position after
    /// a write its own end.
    tail: Mutex<File>,
    /// For everything with an offset (the kernel ignores offsets of appending descriptors).
    whole: File,
    /// The header's start as last seen. It only grows, so an old value costs no more than a needless look.
    start: AtomicU64,
    /// How many streams of this journal are open.
    pub(super) listeners: AtomicUsize,
    /// The hub that streams share, while there are any.
    pub(super) hub: Mutex<Weak<Hub>>,
}

impl Journal {
    /// Opens `run_dir/events`, making it if this is the first opener.
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

    /// A description of its own for appending, for a monitor.
    pub(crate) fn appender(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(libc::O_NOFOLLOW);
        options
            .open(&self.path)
            .map_err(|e| Error::io(format_args!("open {}", self.path.display()), &e).in_area("event"))
    }

    /// Appends an event; answers its sequence number, the file offset of its end. One that is too large is cut: what it
    /// tells of is done.
    ///
    /// Errors: no memory left on the run directory's file system.
    pub(crate) fn append(&self, event: &Event) -> Result<u64> {
        self.append_written(&written(event)?)
    }

    /// Appends an event that was written before, by [`written`].
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
                // The part that was written is a torn record, which readers skip.
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

    /// How many streams of this journal are open (of this engine; other programs have their own).
    pub(crate) fn listeners(&self) -> usize {
        self.listeners.load(Ordering::Relaxed)
    }

    /// Offset after the last byte.
    pub(super) fn end(&self) -> Result<u64> {
        let length = self.whole.metadata().map_err(|e| self.unreadable(&e))?.len();
        Ok(length.max(HEADER))
    }

    /// Offset of the oldest record kept.
    pub(super) fn start(&self) -> Result<u64> {
        let mut known = self.start.load(Ordering::Acquire);
        // Nothing promises that eight bytes are read while they are being written in one piece: a new value counts
        // when it is seen twice.
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

    /// Reads what is there at `offset` into the end of `window`, at most `count` bytes; answers how many came.
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

    /// A path that names the open file whatever becomes of its name.
    pub(super) fn watch_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.whole.as_raw_fd()))
    }

    /// Drops the older half when more than the limit is kept up to `end`. Failing to do so harms nobody now, and the
    /// next append tries again.
    pub(super) fn trim_at(&self, end: u64) {
        if end.saturating_sub(self.start.load(Ordering::Acquire)) > self.limit
            && self.start().is_ok_and(|start| end.saturating_sub(start) > self.limit)
        {
            let _ = self.trim_to(end, self.limit / 2);
        }
    }

    /// Where nobody trimmed for long, monitors give back the oldest part by themselves, at four times the limit
    /// (`monitor/program/record.rs`), and leave the start where it is. Who reads sees to it before, so that one that has
    /// not read that part is told.
    pub(super) fn trim_far(&self) -> Result<()> {
        let end = self.end()?;
        if end.saturating_sub(self.start.load(Ordering::Acquire)) > 3 * self.limit {
            self.trim_at(end);
        }
        Ok(())
    }

    /// Drops the oldest records so that about `keep` bytes before `end` stay. Answers whether space was given back.
    ///
    /// `start` moves first: a reader that looks at it after it read knows whether what it read was still there.
    fn trim_to(&self, end: u64, keep: u64) -> Result<bool> {
        // The file's lock keeps other journals out, this one the other threads of this journal.
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
        // From the first record on, not from the old start: a predecessor may have been killed before it did this.
        file::punch_hole(&self.whole, HEADER, start - start % 4096 - HEADER)?;
        Ok(true)
    }

    /// Where the first whole record at or after `offset` begins.
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
