//! Container logs: reads the files that the monitor writes.

mod files;
mod format;
mod line;
mod packed;

pub use format::LogFormat;

use crate::error::Result;
use crate::kernel::watch::Watch;
use crate::model::{LogQuery, StringMap};
use crate::op::{Op, Ready, wait_fd};
use files::{LogFile, Past};
use nix::sys::inotify::AddWatchFlags;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes that are read at a time.
const CHUNK: usize = 256 << 10;
/// The greatest length of a line; a longer one is damaged.
const MAX_LINE: usize = 8 << 20;
/// This many bytes before the reading position are kept, to recognise a file that was emptied and has grown again. A
/// record ends with its time, so these bytes are practically unique.
const MEMORY: usize = 48;
/// The least and the greatest interval at which a follower checks whether the container lives, while no line is
/// written.
const BEAT: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// A standard stream.
///
/// ```
/// use coracle::Channel;
///
/// // The numbers are those of the process's descriptors.
/// assert_eq!(Channel::Stderr as u8, 2);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Channel {
    /// The process's input.
    Stdin = 0,
    /// Standard output, and everything that a terminal shows.
    Stdout = 1,
    /// The process's standard error.
    Stderr = 2,
}

/// One record of a log: a line with its newline, or a part of a line longer than 16 KiB.
///
/// ```
/// use coracle::{Channel, LogFormat, LogLine};
///
/// let line = LogLine { channel: Channel::Stdout, time_ns: 0, data: b"hello\n".to_vec(), attrs: Default::default() };
/// let mut text = Vec::new();
/// LogFormat::default().append(line.view(), &mut text);
/// assert_eq!(text, b"hello\n");
/// assert_eq!(line.view().to_line(), line);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The stream to which the process wrote it.
    pub channel: Channel,
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    /// The bytes, including the newline if the record ends a line.
    pub data: Vec<u8>,
    /// Extra attributes (`labels`, `env` options of the driver).
    pub attrs: StringMap,
}

impl LogLine {
    /// A view of this line that does not own it.
    pub fn view(&self) -> LogView<'_> {
        LogView { channel: self.channel, time_ns: self.time_ns, data: &self.data, attrs: &self.attrs }
    }
}

/// A [`LogLine`] in the reader's own memory.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::LogQuery;
///
/// // No line is copied: each is a view of the bytes that were read.
/// let mut log = engine.container_logs("clock", &LogQuery::default(), None)?;
/// let mut bytes = 0;
/// while log.next_batch(None, None, &mut |view| { bytes += view.data.len(); Ok(()) })? > 0 {}
/// println!("{bytes} bytes");
/// # Ok::<(), coracle::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogView<'a> {
    /// The stream to which the process wrote it.
    pub channel: Channel,
    /// Nanoseconds since 1970.
    pub time_ns: i64,
    /// The bytes, including the newline if the record ends a line.
    pub data: &'a [u8],
    /// Extra attributes (`labels`, `env` options of the driver).
    pub attrs: &'a StringMap,
}

impl LogView<'_> {
    /// A line that owns its text.
    pub fn to_line(self) -> LogLine {
        LogLine { channel: self.channel, time_ns: self.time_ns, data: self.data.to_vec(), attrs: self.attrs.clone() }
    }
}

/// A log being read. The container never waits for its readers: they follow its files.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::LogQuery;
///
/// let mut log = engine.container_logs("clock", &LogQuery { follow: true, ..Default::default() }, None)?;
/// while let Some(line) = log.next(None, None)? {
///     print!("{:?}: {}", line.channel, String::from_utf8_lossy(&line.data));
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
pub struct LogStream {
    path: PathBuf,
    query: LogQuery,
    alive: Box<dyn Fn() -> bool + Send>,
    /// Files to read, oldest first; the last one is being written if the log is followed.
    files: VecDeque<LogFile>,
    /// Without following: the end of the last file when the log was opened.
    limit: u64,
    /// The bytes that were read of the first file: `window[at..]` is not split into lines yet.
    window: Vec<u8>,
    at: usize,
    /// The bytes before the window.
    memory: Vec<u8>,
    /// The reader is within a line that is too long.
    oversized: bool,
    parser: line::Parser,
    skipped: u64,
    lost: u64,
    earlier: u64,
    watch: Watch,
    beat: Duration,
    ended: bool,
}

impl std::os::fd::AsFd for LogStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.fd()
    }
}

impl LogStream {
    /// Opens the log at `path`, with the files that rotation left beside it. `alive` says whether the container's
    /// monitor lives; a follower ends with the monitor.
    ///
    /// `tail` counts the records of both streams before `since_ns` and the choice of streams apply, as dockerd does.
    #[allow(dead_code)]
    pub(crate) fn open(path: PathBuf, query: &LogQuery, alive: Box<dyn Fn() -> bool + Send>) -> Result<LogStream> {
        let mut watch = Watch::new()?;
        if query.follow {
            // The watch begins before the first read, so no change is missed. It is on the directory, because files are
            // renamed and made.
            let mask = AddWatchFlags::IN_MODIFY
                | AddWatchFlags::IN_CREATE
                | AddWatchFlags::IN_MOVE
                | AddWatchFlags::IN_DELETE
                | AddWatchFlags::IN_CLOSE_WRITE;
            watch.path(path.parent().unwrap_or(Path::new(".")), mask)?;
        }
        let mut files = files::open_all(&path)?;
        let limit = files.last().map_or(Ok(0), LogFile::limit)?;
        let earlier = files.first().and_then(|oldest| oldest.mark).map_or(0, |mark| mark.records);
        if let Some(lines) = query.tail {
            files::keep_last_lines(&mut files, lines)?;
        }
        let memory = files.first_mut().map_or(Ok(Vec::new()), |file| file.read_before(MEMORY))?;
        Ok(LogStream {
            path,
            query: query.clone(),
            alive,
            files: files.into(),
            limit: if query.follow { u64::MAX } else { limit },
            window: Vec::new(),
            at: 0,
            memory,
            oversized: false,
            parser: line::Parser::default(),
            skipped: 0,
            lost: 0,
            earlier,
            watch,
            beat: BEAT.0,
            ended: false,
        })
    }

    /// A descriptor that is readable while a line may be waiting (level-triggered), and once the log has ended. It is always there.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.fd())
    }

    /// The next line; waits at most `timeout` (absent: for ever). `None`: the timeout passed, or the end
    /// (see [`LogStream::ended`]).
    pub fn next(&mut self, timeout: Option<Duration>, op: Option<&Op>) -> Result<Option<LogLine>> {
        let mut line = None;
        self.advance(timeout, op, 1, &mut |view| {
            line = Some(view.to_line());
            Ok(())
        })?;
        Ok(line)
    }

    /// Passes the available lines to `take`, at most those of one read; waits for the first as [`LogStream::next`]
    /// does. Returns their number; 0 has the meaning of `None` there.
    ///
    /// Errors: those of `take`, after which the stream continues with the next line.
    pub fn next_batch(
        &mut self,
        timeout: Option<Duration>,
        op: Option<&Op>,
        take: &mut dyn FnMut(LogView<'_>) -> Result<()>,
    ) -> Result<usize> {
        self.advance(timeout, op, usize::MAX, take)
    }

    /// Whether the log is read to its end (never while it is followed and its container runs).
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The number of damaged lines that were left out.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// How many lines, of both streams, this reader missed, because rotation deleted them (`max-size`, `max-file`)
    /// before the reader read them. A follower that is always slower than the container loses lines, because the
    /// container does not wait for it. There are no other gaps.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How many lines, of both streams, rotation had deleted when the log was opened.
    pub fn earlier(&self) -> u64 {
        self.earlier
    }

    fn advance(
        &mut self,
        timeout: Option<Duration>,
        op: Option<&Op>,
        most: usize,
        take: &mut dyn FnMut(LogView<'_>) -> Result<()>,
    ) -> Result<usize> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        loop {
            if let Some(op) = op {
                op.check()?;
            }
            let taken = self.lines(most, take);
            if self.ended || !matches!(taken, Ok(0)) {
                self.watch.set_pending(true);
                return taken;
            }
            if self.fill()? {
                continue;
            }
            self.watch.set_pending(false);
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if !wait_fd(self.watch.fd(), Ready::Read, left, op)? {
                return Ok(0);
            }
        }
    }

    /// Passes at most `most` of the whole lines in the window.
    fn lines(&mut self, most: usize, take: &mut dyn FnMut(LogView<'_>) -> Result<()>) -> Result<usize> {
        let mut count = 0;
        while count < most
            && let Some(length) = memchr::memchr(b'\n', &self.window[self.at..])
        {
            let line = &self.window[self.at..self.at + length];
            self.at += length + 1;
            if std::mem::take(&mut self.oversized) {
                continue;
            }
            let Some(view) = whole_or_rest(&mut self.parser, line, &mut self.skipped) else { continue };
            let wanted = match view.channel {
                Channel::Stdout => self.query.stdout,
                Channel::Stderr => self.query.stderr,
                Channel::Stdin => false,
            };
            if wanted && (self.query.since_ns == 0 || view.time_ns >= self.query.since_ns) {
                count += 1;
                take(view)?;
            }
        }
        Ok(count)
    }

    /// Reads more; returns whether there is anything new (including the end).
    fn fill(&mut self) -> Result<bool> {
        let changed = self.watch.drain();
        // Read first, so that all lines of a monitor's life are seen.
        let alive = !self.query.follow || (self.alive)();
        if self.read()? {
            self.beat = BEAT.0;
            return Ok(true);
        }
        if self.files.len() > 1 {
            let left = self.files.pop_front();
            self.skipped += u64::from(left.is_some_and(|file| file.is_damaged()));
            self.forget();
            return Ok(true);
        }
        if !self.query.follow {
            return Ok(self.end());
        }
        if self.look_for_next()? {
            return Ok(true);
        }
        if !alive {
            return Ok(self.end());
        }
        self.beat = if changed { BEAT.0 } else { (self.beat * 2).min(BEAT.1) };
        self.watch.beat(self.beat)?;
        Ok(false)
    }

    /// Reads more of the first file; returns whether bytes came or the file had changed.
    fn read(&mut self) -> Result<bool> {
        self.compact();
        let last = self.files.len() == 1;
        let Some(file) = self.files.front_mut() else { return Ok(false) };
        let most = if last { self.limit.saturating_sub(file.offset) } else { u64::MAX };
        let (begun, end) = (self.window.len(), file.offset);
        let got = file.read(CHUNK.min(most as usize), &mut self.window)?;
        if !last || !self.query.follow {
            return Ok(got > 0);
        }
        match file.past(end, &self.memory, &self.window[..begun])? {
            Past::Same => return Ok(got > 0),
            Past::Cut => {
                file.offset = end - begun as u64;
                self.window.clear();
            }
            Past::Gone => {
                file.offset = 0;
                self.window.truncate(begun);
                self.forget();
            }
        }
        Ok(true)
    }

    /// Drops the lines that were passed on, and a line that exceeds the limit.
    fn compact(&mut self) {
        remember(&mut self.memory, &self.window[..self.at]);
        self.window.drain(..self.at);
        self.at = 0;
        if self.window.len() > MAX_LINE {
            remember(&mut self.memory, &self.window);
            self.window = Vec::new();
            self.skipped += u64::from(!self.oversized);
            self.oversized = true;
        }
    }

    /// Opens the files after the last one, or the first ones at all.
    fn look_for_next(&mut self) -> Result<bool> {
        let found = match self.files.front() {
            Some(current) => {
                let found = files::after(&self.path, current)?;
                self.lost += found.first().map_or(Ok(0), |next| files::between(current, next))?;
                found
            }
            None => {
                let found = files::open_all(&self.path)?;
                // The query wants the whole log, and there was no file before.
                self.lost += found.first().and_then(|oldest| oldest.mark).map_or(0, |mark| mark.records);
                found
            }
        };
        let any = !found.is_empty();
        // The previous file is read to its end once more: its last lines may have come after our last read.
        self.files.extend(found);
        Ok(any)
    }

    /// Leaves a file: the bytes after its last newline are a torn line.
    fn forget(&mut self) {
        self.skipped += u64::from(!self.window[self.at..].is_empty() && !self.oversized);
        self.window.clear();
        self.at = 0;
        self.memory.clear();
        self.oversized = false;
    }

    fn end(&mut self) -> bool {
        if (self.alive)() {
            // The last line is not torn but being written.
            self.window.clear();
            self.at = 0;
        }
        self.forget();
        self.ended = true;
        true
    }
}

/// The record of a line, or the one that begins within a torn line.
fn whole_or_rest<'a>(parser: &'a mut line::Parser, line: &'a [u8], skipped: &mut u64) -> Option<LogView<'a>> {
    if let Some(parts) = parser.parse(line) {
        return Some(parser.view(line, parts));
    }
    *skipped += 1;
    let (line, parts) = line::later_openings(line).find_map(|at| Some((&line[at..], parser.parse(&line[at..])?)))?;
    Some(parser.view(line, parts))
}

fn remember(memory: &mut Vec<u8>, read: &[u8]) {
    memory.extend_from_slice(&read[read.len().saturating_sub(MEMORY)..]);
    let surplus = memory.len().saturating_sub(MEMORY);
    memory.drain(..surplus);
}

/// Lines of a log file, of any bytes. See `crate::fuzz`.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(data: &[u8]) {
    let mut parser = line::Parser::default();
    for line in data.split(|byte| *byte == b'\n') {
        if let Some(parts) = parser.parse(line) {
            let view = parser.view(line, parts);
            assert!(view.data.len() <= 3 * line.len());
        }
    }
}

#[cfg(test)]
mod tests;
