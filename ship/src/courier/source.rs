//! The log of one container in the hands of a courier.

use super::pause::Pause;
use super::with_fault;
use crate::cursor::{CursorFile, Fault};
use crate::drivers::{Destination, Driver, Encoder, Frames, Rejected, Verdict};
use crate::net::{Link, Problem};
use crate::options::line_size;
use crate::outbox::{Entry, forget};
use crate::plan::Plan;
use crate::proxies::Proxies;
use crate::spool::{Batch, Place, Spool};
use crate::time::now_ns;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Requests of a log that is written slowly follow each other so far apart.
const GATHER: Duration = Duration::from_secs(1);
/// So long the beginning of a line waits for the rest, where parts of lines are joined.
const LINE: Duration = Duration::from_secs(1);

/// A log that is being delivered.
pub struct Source {
    /// The container.
    pub id: String,
    entry: Entry,
    encoder: Box<dyn Encoder>,
    /// Which file the plan was read from: a start writes another one if the facts changed.
    plan: u64,
    /// The byte that the container's monitor holds.
    slot: Option<u32>,
    /// The container was seen without a monitor, and its log not read since then.
    is_last_look: bool,
    spool: Spool,
    file: CursorFile,
    /// Up to here everything is delivered.
    done: Place,
    /// Up to here everything was sent.
    pub(super) reading: Place,
    /// There may be records behind that.
    pub(super) is_ready: bool,
    /// Nothing was left when the log was read last.
    is_read: bool,
    /// Since then the log ends with the beginning of a line.
    begun: Option<Instant>,
    /// The last request.
    asked: Option<Instant>,
    /// This log alone was refused: it is not tried before.
    held: Option<Instant>,
    pause: Pause,
}

/// A batch that was read, and where.
pub(super) struct Turn {
    start: Place,
    batch: Batch,
}

impl Turn {
    /// The place behind the batch.
    pub(super) fn end(&self, frames: &Frames) -> Place {
        let mut place = self.start;
        self.pass(&mut place, 0..self.batch.records().len(), frames);
        place
    }

    /// Moves a place over records of the batch.
    fn pass(&self, place: &mut Place, records: Range<usize>, frames: &Frames) {
        let first = records.start;
        place.pass(&self.batch.records()[records], |number| frames.leaves_out(first + number));
    }

    /// How many records of the log each record of a frame is joined from.
    pub(super) fn pieces(&self, number: usize, frames: &Frames) -> Vec<u64> {
        let first = number.checked_sub(1).map_or(0, |before| frames.frames[before].records);
        let records = self.batch.records().iter().enumerate().take(frames.frames[number].records).skip(first);
        let sent = records.filter(|(number, record)| !record.hollow && !frames.leaves_out(*number));
        sent.map(|(_, record)| record.pieces()).collect()
    }

    /// The place behind each frame; behind the last one also what the driver left out after it.
    pub(super) fn places<'a>(&'a self, frames: &'a Frames) -> impl Iterator<Item = Place> + 'a {
        let (mut place, mut passed) = (self.start, 0);
        let last = frames.frames.len() - 1;
        frames.frames.iter().enumerate().map(move |(number, frame)| {
            let through = if number == last { self.batch.records().len() } else { frame.records };
            self.pass(&mut place, passed..through, frames);
            passed = through;
            place
        })
    }
}

impl Source {
    /// Opens the log of a plan.
    pub fn open(entry: Entry, plan: &Plan, driver: &Driver) -> io::Result<Source> {
        let file = CursorFile::open(&entry.cursor_path())?;
        let place = Place::at(file.now);
        Ok(Source {
            id: plan.facts.id.clone(),
            encoder: driver.encoder(&plan.facts),
            plan: number(&entry),
            slot: plan.slot,
            is_last_look: false,
            spool: spool(&entry, plan),
            entry,
            file,
            done: place,
            reading: place,
            is_ready: true,
            is_read: false,
            begun: None,
            asked: None,
            held: None,
            pause: Pause::FIRST,
        })
    }

    /// The directory in which the log changes.
    pub(super) fn dir(&self) -> &Path {
        &self.entry.container
    }

    /// Reads the next batch and makes its frames; `None`: there are no more records.
    pub(super) fn next(&mut self, frames: &mut Frames, stop: BorrowedFd<'_>) -> Result<Option<Turn>, Problem> {
        self.renew();
        let mut start = self.reading;
        let failed = |error: io::Error| Problem::OfOne(Fault::Read, error.raw_os_error().unwrap_or(libc::EIO));
        let takes_all = self.begun.is_some_and(|since| since.elapsed() >= LINE);
        let batch = self.spool.read(&mut start, takes_all).map_err(failed)?;
        if batch.is_empty() {
            (self.is_ready, self.is_read) = (false, true);
            self.begun = self.spool.waits().then(|| self.begun.unwrap_or_else(Instant::now));
            if self.reading == self.done && start != self.reading {
                // Rotation took records, and none came after them.
                self.reading = start;
                self.deliver(start);
            }
            return Ok(None);
        }
        (self.is_read, self.begun) = (false, None);
        self.encoder.prepare(stop).map_err(Problem::of_one)?;
        self.encoder.encode(&batch, frames);
        Ok(Some(Turn { start, batch }))
    }

    /// Takes the facts of another start.
    fn renew(&mut self) {
        let number = number(&self.entry);
        if number == self.plan {
            return;
        }
        self.plan = number;
        let plan = self.entry.plan();
        if let Some((plan, Ok(driver))) = plan.map(|plan| (plan.clone(), Driver::of(&plan, &self.entry.plan_path()))) {
            self.encoder = driver.encoder(&plan.facts);
            self.slot = plan.slot;
            self.spool.join(line_size(&plan.options).unwrap_or(None));
        }
    }

    /// Whether the container has ended and nothing of its log is left to send. The log is read once more after the end was
    /// seen: the last lines may have come before it.
    pub(super) fn has_ended(&mut self) -> bool {
        self.renew();
        let was_last_look = self.is_last_look;
        self.is_last_look = !self.is_ready && self.is_delivered() && !self.entry.has_monitor(self.slot);
        self.is_ready |= self.is_last_look && !was_last_look;
        self.is_last_look && was_last_look
    }

    /// How long records are gathered before the next request, if there may be any.
    pub(super) fn due(&self) -> Duration {
        let held = self.held.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        match self.asked.filter(|_| self.is_read) {
            _ if !self.is_ready => self.begun.map_or(Duration::MAX, |since| LINE.saturating_sub(since.elapsed())),
            Some(asked) => GATHER.saturating_sub(asked.elapsed()).max(held),
            None => held,
        }
    }

    /// Sends a request, and those that its answers ask for; answers which records the receiver will never take.
    pub(super) fn ask(
        &mut self,
        link: &mut Option<Link>,
        (to, proxies): (&Destination, &Proxies),
        request: &[u8],
        stop: BorrowedFd<'_>,
    ) -> Result<Rejected, Problem> {
        self.asked = Some(Instant::now());
        let mut first: Option<Vec<u8>> = None;
        loop {
            let open = match link {
                Some(open) => open,
                None => link.insert(Link::open(to, proxies, stop)?),
            };
            let answer = open.ask(first.as_deref().unwrap_or(request), stop)?;
            if answer.ends {
                *link = None;
            }
            match self.encoder.judge(&answer) {
                Verdict::Taken(refused) => return Ok(refused),
                Verdict::First(request) => first = Some(request),
                Verdict::Again => first = None,
                Verdict::Refused(problem) => return Err(problem.of_one()),
            }
        }
    }

    /// Everything up to a place is delivered, but for so many records of the log that are lost.
    pub(super) fn deliver_but(&mut self, mut place: Place, lost: u64) {
        let lost = lost.min(place.cursor.delivered - self.done.cursor.delivered);
        place.cursor.lost += lost;
        place.cursor.delivered -= lost;
        self.reading = place;
        self.deliver(place);
    }

    /// Everything up to a place is delivered.
    pub(super) fn deliver(&mut self, place: Place) {
        self.done = place;
        let now = self.file.now;
        // Rotation may have taken records, and nothing else happened.
        let is_nothing = place.cursor.delivered == now.delivered;
        let (delivered_ns, fault) = if is_nothing { (now.delivered_ns, now.fault) } else { (now_ns(), None) };
        if !is_nothing {
            (self.held, self.pause) = (None, Pause::FIRST);
        }
        let cursor = crate::cursor::Cursor { delivered_ns, fault, ..place.cursor };
        // A disk that takes no cursor means that lines come twice after the shipper's end.
        let _ = self.file.set(cursor);
    }

    /// The delivery broke: what was sent and not delivered is read again.
    pub(super) fn fail(&mut self, fault: Fault, errno: i32) {
        self.reading = self.done;
        self.is_ready = true;
        self.spool.rest();
        let now = self.file.now;
        let _ = self.file.set(with_fault(now, fault, errno));
    }

    /// The delivery of this log alone failed. Records on their way stay there.
    pub(super) fn hold(&mut self, fault: Fault, errno: i32) {
        self.held = Some(Instant::now() + self.pause.take());
        self.is_ready = true;
        self.spool.rest();
        let now = self.file.now;
        let _ = self.file.set(with_fault(now, fault, errno));
    }

    /// Whether the container was removed and everything is delivered. Its delivery is forgotten then.
    pub(super) fn is_over(&self) -> bool {
        self.is_delivered() && self.entry.is_orphan() && forget(&self.entry).is_ok()
    }

    fn is_delivered(&self) -> bool {
        self.reading == self.done && self.begun.is_none()
    }
}

fn spool(entry: &Entry, plan: &Plan) -> Spool {
    let mut spool = entry.spool(&plan.log);
    // A create refused a wrong size.
    spool.join(line_size(&plan.options).unwrap_or(None));
    spool
}

/// The inode of the plan's file; 0: there is none.
fn number(entry: &Entry) -> u64 {
    entry.plan_path().metadata().map_or(0, |facts| facts.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::{self, Cursor};
    use crate::options::Options;
    use std::os::fd::AsFd;

    #[test]
    fn a_place_behind_nothing_delivers_nothing() {
        let root = std::env::temp_dir().join(format!("coracle-source-{}", std::process::id()));
        let entry = Entry::new(&root, "i");
        std::fs::create_dir_all(&entry.own).unwrap();
        let driver = Driver::parse("journald", &Options::new()).unwrap();
        let mut source = Source::open(entry.clone(), &Plan::default(), &driver).unwrap();
        source.fail(Fault::Connect, libc::ECONNREFUSED);
        let mut place = source.done;
        place.cursor.position.generation = 1;
        source.deliver(place);
        let read = || cursor::read(&entry.cursor_path()).unwrap().unwrap();
        let fault = Some((Fault::Connect, libc::ECONNREFUSED));
        assert_eq!(read(), Cursor { position: place.cursor.position, fault, ..Cursor::default() });
        place.cursor.delivered = 1;
        source.deliver(place);
        assert!(read().delivered_ns > 0 && read().fault.is_none());
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_rejected_joined_line_is_lost_with_all_its_parts() {
        let root = std::env::temp_dir().join(format!("coracle-rejected-{}", std::process::id()));
        let entry = Entry::new(&root, "i");
        std::fs::create_dir_all(&entry.own).unwrap();
        std::fs::create_dir_all(&entry.container).unwrap();
        let long = "x".repeat(16 << 10);
        let line =
            |text: &str| format!("{{\"log\":\"{text}\",\"stream\":\"stdout\",\"time\":\"2026-11-21T12:20:28Z\"}}\n");
        let lines = ["a\\n", &long, &long, "end\\n", "b\\n"].map(line).concat();
        std::fs::write(entry.container.join("log"), lines).unwrap();
        let driver = Driver::parse("otlp", &Options::new()).unwrap();
        let options = Options::from([("max-line-size".to_owned(), "1m".to_owned())]);
        let plan = Plan { log: "log".into(), options, ..Plan::default() };
        let (stop, _keep) = std::io::pipe().unwrap();
        for (rejected, counts) in [
            (Rejected::NONE, (5, 0)),
            (Rejected::These(vec![1]), (2, 3)),
            (Rejected::These(vec![0, 2, 9]), (3, 2)),
            (Rejected::Some(1), (2, 3)),
            (Rejected::Some(9), (0, 5)),
        ] {
            let _ = std::fs::remove_file(entry.cursor_path());
            let mut source = Source::open(entry.clone(), &plan, &driver).unwrap();
            let mut frames = Frames::default();
            let turn = source.next(&mut frames, stop.as_fd()).unwrap().unwrap();
            source.deliver_but(turn.end(&frames), rejected.pieces(|| turn.pieces(0, &frames)));
            let cursor = cursor::read(&entry.cursor_path()).unwrap().unwrap();
            assert_eq!((cursor.delivered, cursor.lost), counts, "{rejected:?}");
            assert_eq!(cursor.position.ordinal, 5);
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
}
