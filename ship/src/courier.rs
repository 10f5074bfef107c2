//! A courier brings the logs of its containers to one receiver, over one connection.
//!
//! The courier reads a batch of one container after the other, sends it, and moves cursors when the receiver has
//! acknowledged.
//! Until then only the places of records are kept in memory: what a broken connection did not bring is read again.

mod source;

use crate::cursor::{Cursor, Fault};
use crate::drivers::{Destination, Frames, Manner};
use crate::net::{Link, Problem, wait};
use crate::spool::Place;
use nix::poll::PollFlags;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
pub use source::Source;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// So many bytes may be sent and not acknowledged: a limit for the memory of their places.
const FLIGHT: u64 = 1 << 20;
/// Acknowledged bytes are held back for so long, and so many of them: a receiver that resets the connection had not read
/// all that its kernel took. One that ends it in order had.
const HELD: (Duration, u64) = (Duration::from_secs(1), 1 << 20);
/// The pause after a failure; it doubles up to the second one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// How often acknowledgements are looked for while some are awaited.
const GLANCE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(40));
/// How often all logs are looked at: for caution, and where the kernel had no watch for one.
const ROUNDS: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(1));

/// Bytes that are on their way: with their acknowledgement the log of a source is delivered up to a place.
struct Flying {
    /// In the bytes of the connection.
    end: u64,
    source: u64,
    place: Place,
}

/// Delivers to one destination.
pub struct Courier {
    to: Destination,
    link: Option<Link>,
    flying: VecDeque<Flying>,
    /// Acknowledged, since then, and not counted as delivered yet.
    held: VecDeque<(Instant, Flying)>,
    sources: BTreeMap<u64, Source>,
    next: u64,
    watch: Option<Inotify>,
    watched: Vec<(WatchDescriptor, u64)>,
    pause: Duration,
    frames: Frames,
}

impl Courier {
    /// One without logs.
    pub fn new(to: Destination) -> Courier {
        let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        Courier {
            to,
            link: None,
            flying: VecDeque::new(),
            held: VecDeque::new(),
            sources: BTreeMap::new(),
            next: 0,
            watch,
            watched: Vec::new(),
            pause: PAUSES.0,
            frames: Frames::default(),
        }
    }

    /// Adds the log of a container.
    pub fn add(&mut self, source: Source) {
        let number = self.next;
        self.next += 1;
        let what = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVE;
        let gone = AddWatchFlags::IN_DELETE_SELF;
        if let Some(watch) = &self.watch {
            // Without a watch the log is looked at in each round.
            let added = watch.add_watch(source.dir(), what | gone).ok();
            self.watched.extend(added.map(|watch| (watch, number)));
        }
        self.sources.insert(number, source);
    }

    /// Whether there is nothing to deliver from, now and later.
    pub fn is_done(&self) -> bool {
        self.sources.is_empty()
    }

    /// Delivers what there is, then waits for more: until a log changes, `wake` is readable, or a time has passed.
    /// Answers the ids of removed containers whose logs are delivered. Errors: it is to end.
    pub fn work(&mut self, wake: BorrowedFd<'_>, stop: BorrowedFd<'_>) -> Result<Vec<String>, Problem> {
        match self.round(stop) {
            Ok(true) => {}
            Ok(false) => {
                let over = self.retire();
                if !over.is_empty() {
                    return Ok(over);
                }
                if let Err(problem) = self.rest(wake, stop) {
                    self.give_up(problem, stop)?;
                }
            }
            Err(problem) => self.give_up(problem, stop)?,
        }
        Ok(Vec::new())
    }

    /// After a failure: ends the connection and waits. Errors: the courier is to end.
    fn give_up(&mut self, problem: Problem, stop: BorrowedFd<'_>) -> Result<(), Problem> {
        match problem {
            Problem::Stopped => {
                self.collect_acknowledged();
                self.release(true);
                Err(Problem::Stopped)
            }
            Problem::Failed(fault, errno) => {
                self.break_off(fault, errno);
                pause(self.pause, stop)?;
                self.pause = (self.pause * 2).min(PAUSES.1);
                Ok(())
            }
        }
    }

    /// A turn for each log that may have records; answers whether any had.
    fn round(&mut self, stop: BorrowedFd<'_>) -> Result<bool, Problem> {
        self.collect_acknowledged();
        self.check_link()?;
        let ready: Vec<u64> = self.sources.iter().filter(|(_, source)| source.is_ready).map(|(at, _)| *at).collect();
        let mut any = false;
        for at in ready {
            any |= self.turn(at, stop)?;
            self.collect_acknowledged();
            self.bound(stop)?;
        }
        Ok(any)
    }

    /// Lets go of a connection that has ended.
    fn check_link(&mut self) -> Result<(), Problem> {
        let Some(link) = &self.link else { return Ok(()) };
        if link.is_old() {
            self.link = None;
            return Ok(());
        }
        let is_stream = matches!(self.to.manner, Manner::Stream | Manner::Answered);
        let Some(problem) = link.failure().filter(|_| is_stream) else { return Ok(()) };
        if is_in_order(problem) {
            self.release(true);
        }
        if !self.flying.is_empty() || !self.held.is_empty() {
            return Err(problem);
        }
        // Nothing was on its way: the next batch connects again.
        self.link = None;
        Ok(())
    }

    /// Sends one batch of a log; answers whether there was one.
    fn turn(&mut self, at: u64, stop: BorrowedFd<'_>) -> Result<bool, Problem> {
        let Some(source) = self.sources.get_mut(&at) else { return Ok(false) };
        self.frames.bytes.clear();
        self.frames.frames.clear();
        let Some(turn) = source.next(&mut self.frames)? else { return Ok(false) };
        if self.frames.frames.is_empty() {
            // Records that the driver leaves out. Those before them may be on their way.
            source.reading = turn.end();
            let held = self.held.iter().map(|(_, flying)| flying);
            if self.flying.iter().chain(held).all(|flying| flying.source != at) {
                source.deliver(source.reading);
            }
            return Ok(true);
        }
        if self.link.is_none() {
            self.link = Some(Link::open(&self.to, stop)?);
        }
        let Some(link) = self.link.as_mut() else { return Ok(false) };
        if self.to.manner == Manner::Stream {
            let from = link.sent();
            let places = turn.places(&self.frames);
            let ends = self.frames.frames.iter().map(|frame| from + frame.end as u64);
            self.flying.extend(ends.zip(places).map(|(end, place)| Flying { end, source: at, place }));
            source.reading = turn.end();
            return link.send_all(&self.frames.bytes, stop).map(|()| true);
        }
        let (count, sent) = match self.to.manner {
            Manner::Answered => link.send_answered(&self.frames, stop),
            _ => link.send_datagrams(&self.frames, stop),
        };
        if let Some(place) = count.checked_sub(1).and_then(|last| turn.places(&self.frames).nth(last)) {
            source.reading = place;
            source.deliver(place);
            self.pause = PAUSES.0;
        }
        sent.map(|()| true)
    }

    /// Takes what is acknowledged, and moves the cursors over what was acknowledged long enough ago.
    fn collect_acknowledged(&mut self) {
        if let Some(link) = self.link.as_ref().filter(|_| !self.flying.is_empty()) {
            let (acknowledged, now) = (link.acknowledged(), Instant::now());
            while let Some(flying) = self.flying.pop_front_if(|flying| flying.end <= acknowledged) {
                self.held.push_back((now, flying));
            }
        }
        self.release(false);
    }

    /// Moves the cursors over held records: over those that are old or too many, or over all.
    fn release(&mut self, all: bool) {
        let last = self.held.back().map_or(0, |(_, flying)| flying.end);
        let is_due = |since: &Instant, flying: &Flying| {
            all || since.elapsed() >= HELD.0 || last.saturating_sub(flying.end) > HELD.1
        };
        let mut places: BTreeMap<u64, Place> = BTreeMap::new();
        while let Some((_, flying)) = self.held.pop_front_if(|(since, flying)| is_due(since, flying)) {
            places.insert(flying.source, flying.place);
        }
        for (at, place) in places {
            self.pause = PAUSES.0;
            if let Some(source) = self.sources.get_mut(&at) {
                source.deliver(place);
            }
        }
    }

    /// Waits while too much is on its way.
    fn bound(&mut self, stop: BorrowedFd<'_>) -> Result<(), Problem> {
        let mut glance = GLANCE.0;
        loop {
            let Some(link) = &self.link else { return Ok(()) };
            let first = self.flying.front().map_or(u64::MAX, |flying| flying.end);
            if link.sent().saturating_sub(first) < FLIGHT || self.flying.is_empty() {
                return Ok(());
            }
            if let Some(problem) = link.failure() {
                return Err(problem);
            }
            wait(link.fd(), PollFlags::empty(), glance, stop)?;
            glance = (glance * 2).min(GLANCE.1);
            self.collect_acknowledged();
        }
    }

    /// Ends the connection. Records that it did not bring are read again.
    fn break_off(&mut self, fault: Fault, errno: i32) {
        self.collect_acknowledged();
        self.release(is_in_order(Problem::Failed(fault, errno)));
        self.flying.clear();
        self.held.clear();
        self.link = None;
        for source in self.sources.values_mut() {
            source.fail(fault, errno);
        }
    }

    /// Waits for records, or for acknowledgements.
    fn rest(&mut self, wake: BorrowedFd<'_>, stop: BorrowedFd<'_>) -> Result<(), Problem> {
        let are_watched = self.watched.len() >= self.sources.len();
        let until = Instant::now() + if are_watched { ROUNDS.0 } else { ROUNDS.1 };
        let mut glance = GLANCE.0;
        while Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            let held = self.held.front().map_or(left, |(since, _)| HELD.0.saturating_sub(since.elapsed()).min(left));
            let time = if self.flying.is_empty() { held } else { glance };
            glance = (glance * 2).min(GLANCE.1);
            let waits = !self.flying.is_empty() || !self.held.is_empty();
            if self.sleep(time, wake, stop)? {
                return Ok(());
            }
            self.collect_acknowledged();
            self.check_link()?;
            if waits && self.flying.is_empty() && self.held.is_empty() {
                // Logs of removed containers may be over now.
                return Ok(());
            }
        }
        self.sources.values_mut().for_each(|source| source.is_ready = true);
        Ok(())
    }

    /// Answers whether something happened.
    fn sleep(&mut self, time: Duration, wake: BorrowedFd<'_>, stop: BorrowedFd<'_>) -> Result<bool, Problem> {
        use nix::poll::{PollFd, PollTimeout, poll};
        let time = PollTimeout::from(u16::try_from(time.as_millis().max(1)).unwrap_or(u16::MAX));
        let mut set = vec![PollFd::new(stop, PollFlags::POLLIN), PollFd::new(wake, PollFlags::POLLIN)];
        if let Some(watch) = &self.watch {
            set.push(PollFd::new(watch.as_fd(), PollFlags::POLLIN));
        }
        if poll(&mut set, time).is_err() {
            return Ok(false);
        }
        let ready: Vec<bool> = set.iter().map(|one| one.any().unwrap_or(false)).collect();
        if ready[0] {
            return Err(Problem::Stopped);
        }
        if ready.get(2) == Some(&true) {
            self.take_events();
        }
        Ok(ready[1..].contains(&true))
    }

    fn take_events(&mut self) {
        let events = self.watch.as_ref().and_then(|watch| watch.read_events().ok()).unwrap_or_default();
        let overflown = events.iter().any(|event| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW));
        for (watch, number) in &self.watched {
            if let Some(source) = self.sources.get_mut(number)
                && (overflown || events.iter().any(|event| event.wd == *watch))
            {
                source.is_ready = true;
            }
        }
    }

    /// Forgets the logs of removed containers that are delivered.
    fn retire(&mut self) -> Vec<String> {
        let done = |(at, source): (&u64, &Source)| (!source.is_ready && source.is_over()).then_some(*at);
        let over: Vec<u64> = self.sources.iter().filter_map(done).collect();
        let mut ids = Vec::new();
        for at in over {
            self.watched.retain(|(_, number)| *number != at);
            ids.extend(self.sources.remove(&at).map(|source| source.id));
        }
        ids
    }
}

/// Whether the receiver ended the connection in order: after it had read all that its kernel acknowledged. Then the kernel
/// answers data with `EPIPE`, and otherwise with a reset.
fn is_in_order(problem: Problem) -> bool {
    problem == Problem::Failed(Fault::Send, libc::EPIPE)
}

/// Waits for a time with a share of chance: couriers that lost one receiver do not come back all at once.
fn pause(time: Duration, stop: BorrowedFd<'_>) -> Result<(), Problem> {
    let share = u32::try_from(crate::time::now_ns().rem_euclid(256)).unwrap_or(0);
    let until = Instant::now() + time - time * share / 1024;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        wait(stop, PollFlags::POLLIN, left.max(Duration::from_millis(1)), stop)?;
    }
    Ok(())
}

/// The cursor of a source that cannot be delivered from, for inspection.
pub(crate) fn with_fault(cursor: Cursor, fault: Fault, errno: i32) -> Cursor {
    Cursor { fault: Some((fault, errno)), ..cursor }
}
