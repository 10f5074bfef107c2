//! The event journal: an append-only file that engines and monitors write and any program can follow.

mod cut;
mod filter;
mod hub;
mod journal;
mod make;
mod record;

pub(crate) use cut::cut_attributes;
pub(crate) use hub::Look;
pub(crate) use journal::{Journal, written};

use crate::error::{Error, ErrorKind, Result};
use crate::kernel::watch::Watch;
use crate::model::{Event, EventQuery, Filters};
use crate::op::{Ready, wait_fd};
use crate::time::now_ns;
use nix::sys::inotify::AddWatchFlags;
use record::Found;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// A position in the journal: the events after it, past and future.
///
/// ```no_run
/// # let engine = coracle::Engine::open("/var/lib/coracle")?;
/// use coracle::model::EventQuery;
///
/// let mut query = EventQuery::default();
/// query.filters.insert("type".into(), vec!["container".into()]);
/// let mut events = engine.events(&query)?;
/// while let Some((sequence, event)) = events.next(None, None)? {
///     println!("{sequence}: {} of {}", event.action, event.actor.id);
/// }
/// # Ok::<(), coracle::Error>(())
/// ```
pub struct EventStream {
    journal: Arc<Journal>,
    filters: Filters,
    /// The earliest time of replayed events; events after `replayed` are wanted whatever their time.
    since_ns: i64,
    replayed: u64,
    until_ns: Option<i64>,
    /// The bytes that were read of the file: `window[at..]` begins at the offset `position`.
    window: Vec<u8>,
    at: usize,
    position: u64,
    gap: Option<Error>,
    ended: bool,
    watch: Watch,
    /// The hub that the engine's streams share; without it, this stream has its own watch.
    follower: Option<hub::Follower>,
    deaths: Option<Deaths>,
}

/// Without a hub: a search at every beat of the stream's own watch.
struct Deaths {
    watch: Watch,
    look: Look,
    /// The searches that remain for the last change.
    left: usize,
}

impl Deaths {
    fn check(&mut self) -> Result<()> {
        if !self.watch.is_ready() {
            return Ok(());
        }
        self.left = if self.watch.drain() { hub::LOOKS.len() } else { self.left.saturating_sub(1) };
        self.watch.set_pending(false);
        (self.look)();
        match self.left {
            0 => Ok(()),
            left => self.watch.once(hub::LOOKS[left - 1]),
        }
    }
}

impl EventStream {
    /// Opens a stream like [`EventStream::open`]. Its look, which appends the event, is called whenever a process that
    /// had the file `alive` open for writing may have ended.
    pub(crate) fn follow(
        journal: Arc<Journal>,
        query: &EventQuery,
        alive: &Path,
        look: &dyn Fn() -> Look,
    ) -> Result<EventStream> {
        if let Some(hub) = hub::Hub::of(&journal, alive, look)? {
            return EventStream::open_with(journal, query, Some(hub));
        }
        let mut stream = EventStream::open(journal, query)?;
        let mut watch = Watch::new()?;
        watch.path(alive, AddWatchFlags::IN_CLOSE_WRITE)?;
        stream.watch.nest(&watch)?;
        stream.deaths = Some(Deaths { watch, look: look(), left: 0 });
        Ok(stream)
    }

    /// Opens a stream at the query's position: after a sequence number, at the oldest event (filtered by `since_ns`),
    /// or at the end.
    ///
    /// Errors: `since_ns` after `until_ns`.
    pub(crate) fn open(journal: Arc<Journal>, query: &EventQuery) -> Result<EventStream> {
        EventStream::open_with(journal, query, None)
    }

    fn open_with(journal: Arc<Journal>, query: &EventQuery, hub: Option<Arc<hub::Hub>>) -> Result<EventStream> {
        if let (Some(since), Some(until)) = (query.since_ns, query.until_ns)
            && since > until
        {
            let (since, until) = (seconds(since), seconds(until));
            return Err(Error::invalid(format!("`since` time ({since}) cannot be after `until` time ({until})")));
        }
        let mut watch = Watch::new()?;
        // The watch begins before the end is read: later events are seen.
        let follower = hub.map(|hub| hub.join(&watch)).transpose()?;
        if follower.is_none() {
            watch.path(&journal.watch_path(), AddWatchFlags::IN_MODIFY)?;
        }
        if let Some(until) = query.until_ns {
            watch.end_at(until)?;
        }
        let end = journal.end()?;
        let replay = query.since_ns.is_some() || query.until_ns.is_some();
        let mut stream = EventStream {
            filters: query.filters.clone(),
            since_ns: query.since_ns.filter(|_| query.after.is_none()).unwrap_or(i64::MIN),
            replayed: end,
            until_ns: query.until_ns,
            window: Vec::new(),
            at: 0,
            position: if replay { journal.start()? } else { end },
            gap: None,
            ended: false,
            watch,
            follower,
            deaths: None,
            journal,
        };
        stream.journal.listeners.fetch_add(1, Ordering::Relaxed);
        if let Some(after) = query.after {
            stream.resume(after, end)?;
        }
        Ok(stream)
    }

    /// A descriptor that is readable while an event may be waiting (level-triggered), and once the query's end is
    /// reached. [`EventStream::next`] with a timeout of zero does not wait.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.watch.fd()
    }

    /// Makes the descriptor readable every `period`, for a reader that also looks at something that no event tells.
    pub(crate) fn beat(&mut self, period: Duration) -> Result<()> {
        self.watch.beat(period)
    }

    /// The next event with its sequence number; waits at most `timeout` (absent: for ever) and answers `None` when it
    /// passed or when the query's end is reached (see [`EventStream::ended`]).
    ///
    /// Errors: [`ErrorKind::Unavailable`] once for each loss, when events after the stream's place (where it was
    /// opened, the query's `after`, the last one read) are no longer kept; the stream then continues with the oldest
    /// kept. `op` ended.
    pub fn next(&mut self, timeout: Option<Duration>, op: Option<&crate::Op>) -> Result<Option<(u64, Event)>> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        loop {
            if let Some(op) = op {
                op.check()?;
            }
            if self.ended {
                return Ok(None);
            }
            // Read first, so that every event before the end is seen.
            let over = self.until_ns.is_some_and(|until| now_ns() > until);
            if let Some(found) = self.pull()? {
                self.watch.set_pending(true);
                return Ok(Some(found));
            }
            self.watch.set_pending(false);
            if over {
                self.ended = true;
                return Ok(None);
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if !wait_fd(self.watch.fd(), Ready::Read, left, op)? {
                return Ok(None);
            }
        }
    }

    /// Whether the query's `until` is reached: no event will come any more.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The position in the journal: a query with this `after` continues here.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes to the position after a sequence number of an earlier stream.
    fn resume(&mut self, after: u64, end: u64) -> Result<()> {
        let start = self.journal.start()?;
        self.position = after;
        let mut next = Vec::new();
        if (start..end).contains(&after) {
            self.journal.read(after, 4, &mut next)?;
        }
        // A number from another boot's journal: most likely no record begins there.
        if !(start..=end).contains(&after) || !record::MAGIC.to_le_bytes().starts_with(&next) {
            self.lose(start);
        }
        Ok(())
    }

    /// The next wanted event in the file, without waiting.
    fn pull(&mut self) -> Result<Option<(u64, Event)>> {
        loop {
            if let Some(gap) = self.gap.take() {
                return Err(gap);
            }
            match record::find(&self.window[self.at..]) {
                Found::Record { payload, end } => {
                    // A complete record without an event was written by a newer library: skipped.
                    let event = serde_json::from_slice::<Event>(payload).ok();
                    self.skip(end);
                    if let Some(event) = event.filter(|event| self.wants(event)) {
                        return Ok(Some((self.position, event)));
                    }
                }
                Found::Wait { skip } => {
                    self.skip(skip);
                    if !self.fill()? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn wants(&self, event: &Event) -> bool {
        (self.position > self.replayed || event.time_nano >= self.since_ns)
            && self.until_ns.is_none_or(|until| event.time_nano <= until)
            && filter::matches(&self.filters, event)
    }

    fn skip(&mut self, count: usize) {
        self.at += count;
        self.position += count as u64;
    }

    /// Reads more of the file; returns whether there is anything new.
    fn fill(&mut self) -> Result<bool> {
        self.watch.drain();
        self.follower.as_ref().map_or(Ok(()), hub::Follower::drain)?;
        self.deaths.as_mut().map_or(Ok(()), Deaths::check)?;
        self.window.drain(..self.at);
        self.at = 0;
        self.journal.trim_far()?;
        let offset = self.position + self.window.len() as u64;
        let got = self.journal.read(offset, CHUNK, &mut self.window)?;
        // Monitors only append: their followers keep the file small.
        self.journal.trim_at(offset + got as u64);
        // Read afterwards: if the bytes were dropped meanwhile, the start shows it.
        let start = self.journal.start()?;
        let lost = start > self.position;
        if lost {
            self.lose(start);
        }
        Ok(lost || got > 0)
    }

    /// Goes to `start`, because the events before it are no longer kept. The next read reports the loss, also if no
    /// event was read yet: the lost events came after the stream was opened.
    fn lose(&mut self, start: u64) {
        let text =
            format!("events were lost: the oldest one kept begins at {start}, the reader stood at {}", self.position);
        self.gap = Some(Error::new(ErrorKind::Unavailable, text).in_area("event"));
        self.position = start;
        self.window.clear();
        self.at = 0;
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.journal.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A time in queries: seconds, with a fraction if there is one.
fn seconds(time_ns: i64) -> String {
    let (whole, part) = (time_ns.div_euclid(1_000_000_000), time_ns.rem_euclid(1_000_000_000));
    if part == 0 { whole.to_string() } else { format!("{whole}.{part:09}") }
}

/// Reads arbitrary bytes as the journal's records: found records must lie inside, and the search must end. See
/// `crate::fuzz`.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(data: &[u8]) {
    let mut rest = data;
    while let record::Found::Record { payload, end } = record::find(rest) {
        assert!(!payload.is_empty() && end <= rest.len());
        let _ = serde_json::from_slice::<crate::model::Event>(payload);
        rest = &rest[end..];
    }
    if let record::Found::Wait { skip } = record::find(rest) {
        assert!(skip <= rest.len());
    }
}

#[cfg(test)]
mod tests;
