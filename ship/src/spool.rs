//! The spool: the files of a container's log, in the form and with the marks that the monitor gives them.
//!
//! `<name>` is written, `<name>.1` came before it; a compressed file has `.gz` after its number. A mark says the number
//! of each file among all files of the log, and how many records came before it. So a file is found again under any
//! name, and records that rotation removed are counted.

mod join;

use crate::cursor::{Cursor, Position};
use crate::record::{self, Head};
use crate::sys;
use coracle_monitor::wire::{LOG_MARK, LOG_MARK_BEFORE, LOG_MARK_LEN, LogMark};
use flate2::bufread::MultiGzDecoder;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Seek};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

/// Bytes of one turn: a loud container starves nobody.
const CHUNK: usize = 256 << 10;
/// The greatest length of a record; a longer one is damaged.
const MOST: usize = 8 << 20;
/// So few bytes are looked through each time.
const SMALL: usize = 64 << 10;
/// The longest part of a line that one record has.
const PART: usize = 16 << 10;
/// So many missing numbers in a row end the search for older files: a rotation moves one file at a time.
const HOLES: u32 = 2;

/// The place of a record within a line that is longer than a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The ordinal of the line's first record.
    pub first: u64,
    /// From 1.
    pub number: u32,
    /// The record ends the line.
    pub last: bool,
}

/// One record of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The stream and the time.
    pub head: Head,
    /// Where its text is in the batch.
    from: usize,
    to: usize,
    /// Set if the line is longer than a record.
    pub part: Option<Part>,
    /// How many records the log has up to its end, with this one.
    pub ordinal: u64,
    /// The place behind it.
    after: Position,
    /// So many records of the log are in it: more than one if the parts of a line were joined.
    pieces: u64,
    /// Everything before the place behind it stands in this record or in earlier ones. It does not, while a line of the other stream is
    /// in the middle of a joined one.
    moves: bool,
    /// Damaged records between the one before and this one.
    damaged: u64,
    /// Nothing is to be delivered: it only leads over damaged records.
    pub hollow: bool,
}

impl Record {
    /// How many records of the log it is joined from.
    pub(crate) fn pieces(&self) -> u64 {
        self.pieces
    }

    /// A whole line of the log, whose text is at these places of the batch's.
    fn of(head: Head, text: Range<usize>, after: Position) -> Record {
        let (from, to, ordinal) = (text.start, text.end, after.ordinal);
        Record { head, from, to, part: None, ordinal, after, pieces: 1, moves: true, damaged: 0, hollow: false }
    }
}

/// Records that were read in one turn, in their order.
#[derive(Debug, Default)]
pub struct Batch {
    text: Vec<u8>,
    records: Vec<Record>,
}

impl Batch {
    /// The records.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The text of a record, without its newline.
    pub fn text(&self, record: &Record) -> &[u8] {
        &self.text[record.from..record.to]
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// A batch of these texts, for tests of encoders.
    #[cfg(test)]
    pub(crate) fn of(lines: &[(bool, i64, &[u8])]) -> Batch {
        let mut batch = Batch::default();
        for (number, (stderr, time_ns, text)) in lines.iter().enumerate() {
            let from = batch.text.len();
            batch.text.extend_from_slice(text);
            let head = Head { stderr: *stderr, time_ns: *time_ns, whole: true };
            let after = Position { generation: 1, offset: 0, ordinal: number as u64 + 1 };
            batch.records.push(Record::of(head, from..batch.text.len(), after));
        }
        batch
    }
}

/// The content of one file, which stays readable whatever happens to its name.
struct Open {
    mark: LogMark,
    file: File,
    packed: Option<Packed>,
}

/// A compressed file: it can only be read from start to end, so the bytes that were read last are kept.
struct Packed {
    content: MultiGzDecoder<BufReader<File>>,
    kept: Vec<u8>,
    /// The place of the kept bytes.
    from: u64,
}

/// The files of one log.
pub struct Spool {
    /// The files' directories, in the order of the search: a removal moves the files from the first to the second.
    dirs: [PathBuf; 2],
    name: String,
    open: Option<Open>,
    window: Vec<u8>,
    /// Parts of a line are joined up to so many bytes.
    joins: Option<usize>,
    /// The last read found the beginning of a line alone.
    waits: bool,
    /// Where such a line begins, and how many bytes were read of it and of those behind it.
    waited: (Position, usize),
}

/// How far a log is read: the cursor, and the begun line of each stream (its first ordinal, and how many parts came).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// The content of the cursor's file once everything up to here is delivered.
    pub cursor: Cursor,
    begun: [Option<(u64, u32)>; 2],
    /// Delivered and damaged records whose place the cursor cannot have yet.
    ahead: (u64, u64),
}

impl Place {
    /// The place at a cursor. A line that was begun before it counts from here on.
    pub fn at(cursor: Cursor) -> Place {
        Place { cursor, begun: [None; 2], ahead: (0, 0) }
    }

    /// Moves over records that are done. Those that are left out, by their numbers, count as neither delivered nor lost.
    pub fn pass(&mut self, done: &[Record], is_left_out: impl Fn(usize) -> bool) {
        for (number, record) in done.iter().enumerate() {
            self.ahead.0 += if record.hollow || is_left_out(number) { 0 } else { record.pieces };
            self.ahead.1 += record.damaged;
            if record.moves {
                let (delivered, damaged) = std::mem::take(&mut self.ahead);
                self.cursor.position = record.after;
                self.cursor.delivered += delivered;
                self.cursor.lost += damaged;
            }
            self.begun[usize::from(record.head.stderr)] =
                record.part.filter(|part| !part.last).map(|part| (part.first, part.number));
        }
    }
}

/// How much of a log is not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owed {
    /// Records.
    pub lines: u64,
    /// Bytes of the spool, before compression.
    pub bytes: u64,
}

impl Spool {
    /// The log `name` whose files are in one or both of these directories.
    pub fn new(dirs: [PathBuf; 2], name: &str) -> Spool {
        Spool {
            dirs,
            name: name.to_owned(),
            open: None,
            window: Vec::new(),
            joins: None,
            waits: false,
            waited: Default::default(),
        }
    }

    /// From now on parts of a line are joined up to so many bytes.
    pub fn join(&mut self, most: Option<usize>) {
        self.joins = most;
    }

    /// Gives up the memory of reads: a log that waits for its receiver has none.
    pub fn rest(&mut self) {
        (self.open, self.window) = (None, Vec::new());
    }

    /// Whether the last read found a line whose end is not there yet, and nothing before it.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// The records behind a place: those of one turn. Where rotation removed records, the place moves over them and counts
    /// them as lost. `takes_all`: also the beginning of a line whose end is not there yet.
    pub fn read(&mut self, place: &mut Place, takes_all: bool) -> io::Result<Batch> {
        place.ahead = (0, 0);
        loop {
            self.waits = false;
            let batch = self.read_open(place, takes_all)?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            let Some(next) = self.after(place.cursor.position.generation)? else {
                // A log at rest has no open file: there may be many.
                self.open = self.open.take().filter(|open| open.packed.is_some());
                return Ok(Batch::default());
            };
            // The last records of the file before may have come after it was read. No other part comes in it.
            let batch = self.read_open(place, true)?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            let cursor = &mut place.cursor;
            let ordinal = cursor.position.ordinal.max(next.mark.records);
            cursor.lost += ordinal - cursor.position.ordinal;
            cursor.position = Position { generation: next.mark.generation, offset: 0, ordinal };
            self.open = Some(next);
        }
    }

    /// How much is not delivered.
    pub fn owed(&self, cursor: &Cursor) -> io::Result<Owed> {
        let files = self.all()?;
        let (Some(oldest), Some(newest)) = (files.first(), files.last()) else { return Ok(Owed::default()) };
        let position = cursor.position;
        let current = files.iter().find(|open| open.mark.generation == position.generation);
        let before = current.map_or(oldest.mark.bytes, |open| open.mark.bytes + position.offset);
        let size = newest.file.metadata()?.len();
        let bytes = (newest.mark.bytes + size).saturating_sub(before);
        let is_newest = newest.mark.generation == position.generation;
        let from = if is_newest { position.offset } else { 0 };
        let behind = if is_newest { 0 } else { newest.mark.records.saturating_sub(position.ordinal) };
        Ok(Owed { lines: behind + newlines(&newest.file, from)?, bytes })
    }

    /// The place behind the last record.
    pub fn end(&self) -> io::Result<Position> {
        let files = self.all()?;
        let Some(Open { mark, file, .. }) = files.last() else { return Ok(Position::default()) };
        let ordinal = mark.records + newlines(file, 0)?;
        Ok(Position { generation: mark.generation, offset: file.metadata()?.len(), ordinal })
    }

    /// The whole records of the file at a place.
    fn read_open(&mut self, place: &Place, takes_all: bool) -> io::Result<Batch> {
        let at = place.cursor.position;
        if self.open.as_ref().is_none_or(|open| open.mark.generation != at.generation) {
            self.open = self.all()?.into_iter().find(|open| open.mark.generation == at.generation);
        }
        let Some(open) = self.open.as_mut() else { return Ok(Batch::default()) };
        let mut most = CHUNK;
        loop {
            self.window.clear();
            open.read(at.offset, most, &mut self.window)?;
            let is_all = self.window.len() < most;
            // Whether a log whose first line has no end yet has little more than at the last look. Such a log is not looked through at
            // each byte: the other stream may be a flood.
            let (begun, before) = self.waited;
            if !takes_all && is_all && before > SMALL && begun == at && self.window.len() < before + before / 4 {
                self.waits = true;
                return Ok(Batch::default());
            }
            let end = match memchr::memrchr(b'\n', &self.window) {
                Some(end) => end + 1,
                None if is_all => {
                    // A log that nothing is left of keeps no memory.
                    self.window = Vec::new();
                    return Ok(Batch::default());
                }
                None if most >= MOST => self.window.len(),
                None => {
                    most *= 2;
                    continue;
                }
            };
            let batch = split(&self.window[..end], place);
            let (batch, waits) = match self.joins {
                None => (batch, false),
                Some(longest) => batch.joined(longest, takes_all || (!is_all && most >= most_waiting(longest))),
            };
            if waits && batch.is_empty() && !is_all {
                most *= 2;
                continue;
            }
            self.waits = waits && batch.is_empty();
            if self.waits {
                self.waited = (at, self.window.len());
            }
            return Ok(batch);
        }
    }

    /// The oldest file behind a generation.
    fn after(&self, generation: u64) -> io::Result<Option<Open>> {
        let is_written = |open: &Open| -> io::Result<bool> {
            let (own, named) = (open.file.metadata()?, self.dirs[0].join(&self.name).symlink_metadata());
            Ok(named.is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())))
        };
        if self.open.as_ref().map_or(Ok(false), is_written)? {
            return Ok(None);
        }
        Ok(self.all()?.into_iter().find(|open| open.mark.generation > generation))
    }

    /// All files, oldest first, each once: a rotation may move one while they are opened.
    fn all(&self) -> io::Result<Vec<Open>> {
        let mut files: Vec<Open> = Vec::new();
        for dir in &self.dirs {
            let (mut number, mut missing) = (0, 0);
            while missing < HOLES {
                let plain = if number == 0 { self.name.clone() } else { format!("{}.{number}", self.name) };
                let found = match Open::file(dir.join(&plain), false)? {
                    None if number > 0 => Open::file(dir.join(format!("{plain}.gz")), true)?,
                    found => found,
                };
                missing = if found.is_some() { 0 } else { missing + 1 };
                files.extend(found);
                number += 1;
            }
        }
        files.sort_by_key(|open| open.mark.generation);
        files.dedup_by_key(|open| open.mark.generation);
        Ok(files)
    }
}

/// How many bytes are read while the end of a line is missing that is joined up to `longest` bytes.
fn most_waiting(longest: usize) -> usize {
    (CHUNK + 2 * longest).min(MOST)
}

/// The records of a window behind a place.
fn split(window: &[u8], place: &Place) -> Batch {
    let (mut batch, mut begun, mut after, mut damaged) = (Batch::default(), place.begun, place.cursor.position, 0);
    for line in window.split_inclusive(|byte| *byte == b'\n') {
        let from = batch.text.len();
        let ordinal = after.ordinal;
        after.offset += line.len() as u64;
        after.ordinal += 1;
        let Some(head) = record::parse(line.strip_suffix(b"\n").unwrap_or(line), &mut batch.text) else {
            damaged += 1;
            continue;
        };
        let to = batch.text.len();
        let begun = &mut begun[usize::from(head.stderr)];
        let part = part(*begun, head.whole, to - from, ordinal);
        *begun = part.filter(|part| !part.last).map(|part| (part.first, part.number));
        batch.records.push(Record { part, damaged: std::mem::take(&mut damaged), ..Record::of(head, from..to, after) });
    }
    batch.close(after, damaged);
    batch
}

/// The part of a line that a record is; `None`: it is the whole line.
fn part(begun: Option<(u64, u32)>, whole: bool, length: usize, ordinal: u64) -> Option<Part> {
    // A shorter record without a newline is the end of the output.
    let last = whole || length < PART;
    match begun {
        None if last => None,
        None => Some(Part { first: ordinal, number: 1, last }),
        Some((first, number)) => Some(Part { first, number: number + 1, last }),
    }
}

fn newlines(file: &File, mut at: u64) -> io::Result<u64> {
    let (mut block, mut count) = (vec![0; CHUNK], 0);
    loop {
        match file.read_at(&mut block, at)? {
            0 => return Ok(count),
            got => {
                count += memchr::memchr_iter(b'\n', &block[..got]).count() as u64;
                at += got as u64;
            }
        }
    }
}

impl Batch {
    /// Damaged records at the end count with the record before, or alone.
    fn close(&mut self, after: Position, damaged: u64) {
        if damaged == 0 {
            return;
        }
        match self.records.last_mut() {
            Some(last) => {
                (last.ordinal, last.after, last.damaged) = (after.ordinal, after, last.damaged + damaged);
            }
            None => {
                let head = Head { stderr: false, time_ns: 0, whole: true };
                self.records.push(Record { damaged, hollow: true, ..Record::of(head, 0..0, after) });
            }
        }
    }
}

impl Open {
    /// `None`: no file has that name.
    fn file(path: PathBuf, packed: bool) -> io::Result<Option<Open>> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        // The monitor gives the first file its mark after it made the file.
        let first = LogMark { generation: 1, records: 0, bytes: 0 };
        let named = |name| sys::attribute::<LOG_MARK_LEN>(file.as_fd(), name);
        let mark = named(LOG_MARK).or_else(|| named(LOG_MARK_BEFORE));
        let mark = mark.and_then(|bytes| LogMark::from_bytes(&bytes)).unwrap_or(first);
        let packed = packed.then(|| Packed::new(&file)).transpose()?;
        Ok(Some(Open { mark, file, packed }))
    }

    /// Appends at most `most` bytes from `offset` on.
    fn read(&mut self, offset: u64, most: usize, window: &mut Vec<u8>) -> io::Result<()> {
        if let Some(packed) = &mut self.packed {
            return packed.read(&self.file, offset, most, window);
        }
        // A log that is written slowly needs little room.
        let left = self.file.metadata()?.len().saturating_sub(offset);
        let most = most.min(usize::try_from(left).unwrap_or(most));
        window.resize(most, 0);
        let mut got = 0;
        while got < most {
            match self.file.read_at(&mut window[got..], offset + got as u64) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        window.truncate(got);
        Ok(())
    }
}

impl Packed {
    fn new(file: &File) -> io::Result<Packed> {
        let mut file = file.try_clone()?;
        file.rewind()?;
        let content = MultiGzDecoder::new(BufReader::with_capacity(CHUNK, file));
        Ok(Packed { content, kept: Vec::new(), from: 0 })
    }

    fn read(&mut self, file: &File, offset: u64, most: usize, window: &mut Vec<u8>) -> io::Result<()> {
        if offset < self.from {
            *self = Packed::new(file)?;
        }
        let mut block = vec![0; 64 << 10];
        while self.from + (self.kept.len() as u64) < offset + most as u64 {
            // A file that ends too early, or is damaged, has no more.
            let got = self.content.read(&mut block).unwrap_or(0);
            if got == 0 {
                break;
            }
            self.kept.extend_from_slice(&block[..got]);
            let surplus = usize::try_from(offset.saturating_sub(self.from)).unwrap_or(0).min(self.kept.len());
            self.kept.drain(..surplus);
            self.from += surplus as u64;
        }
        let start = usize::try_from(offset - self.from).unwrap_or(usize::MAX).min(self.kept.len());
        let end = (start + most).min(self.kept.len());
        window.extend_from_slice(&self.kept[start..end]);
        Ok(())
    }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
