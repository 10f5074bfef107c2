//! The log of one container in the hands of a courier.

use super::with_fault;
use crate::cursor::{CursorFile, Fault};
use crate::drivers::{Driver, Encoder, Frames};
use crate::net::Problem;
use crate::outbox::{Entry, forget};
use crate::plan::Plan;
use crate::spool::{Batch, Place, Spool};
use crate::time::now_ns;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A log that is being delivered.
pub struct Source {
    /// The container.
    pub id: String,
    entry: Entry,
    encoder: Box<dyn Encoder>,
    /// Which file the plan was read from: a start writes another one if the facts changed.
    plan: u64,
    spool: Spool,
    file: CursorFile,
    /// Up to here everything is delivered.
    done: Place,
    /// Up to here everything was sent.
    pub(super) reading: Place,
    /// There may be records behind that.
    pub(super) is_ready: bool,
}

/// A batch that was read, and where.
pub(super) struct Turn {
    start: Place,
    batch: Batch,
}

impl Turn {
    /// The place behind the batch.
    pub(super) fn end(&self) -> Place {
        let mut place = self.start;
        place.pass(self.batch.records());
        place
    }

    /// The place behind each frame; behind the last one also what the driver left out after it.
    pub(super) fn places<'a>(&'a self, frames: &'a Frames) -> impl Iterator<Item = Place> + 'a {
        let (mut place, mut passed) = (self.start, 0);
        let (records, last) = (self.batch.records(), frames.frames.len() - 1);
        frames.frames.iter().enumerate().map(move |(number, frame)| {
            let through = if number == last { records.len() } else { frame.records };
            place.pass(&records[passed..through]);
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
            spool: entry.spool(&plan.log),
            entry,
            file,
            done: place,
            reading: place,
            is_ready: true,
        })
    }

    /// The directory in which the log changes.
    pub(super) fn dir(&self) -> &Path {
        &self.entry.container
    }

    /// Reads the next batch and makes its frames; `None`: there are no more records.
    pub(super) fn next(&mut self, frames: &mut Frames) -> Result<Option<Turn>, Problem> {
        self.renew();
        let mut start = self.reading;
        let failed = |error: io::Error| Problem::Failed(Fault::Read, error.raw_os_error().unwrap_or(libc::EIO));
        let batch = self.spool.read(&mut start).map_err(failed)?;
        if batch.is_empty() {
            self.is_ready = false;
            if self.reading == self.done && start != self.reading {
                // Rotation took records, and none came after them.
                self.reading = start;
                self.deliver(start);
            }
            return Ok(None);
        }
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
        if let Some((plan, Ok(driver))) = plan.map(|plan| (plan.clone(), Driver::parse(&plan.driver, &plan.options))) {
            self.encoder = driver.encoder(&plan.facts);
        }
    }

    /// Everything up to a place is delivered.
    pub(super) fn deliver(&mut self, place: Place) {
        self.done = place;
        let now = self.file.now;
        // Rotation may have taken records, and nothing else happened.
        let is_nothing = place.cursor.delivered == now.delivered;
        let (delivered_ns, fault) = if is_nothing { (now.delivered_ns, now.fault) } else { (now_ns(), None) };
        let cursor = crate::cursor::Cursor { delivered_ns, fault, ..place.cursor };
        // A disk that takes no cursor means that lines come twice after the shipper's end.
        let _ = self.file.set(cursor);
    }

    /// The delivery broke: what was sent and not delivered is read again.
    pub(super) fn fail(&mut self, fault: Fault, errno: i32) {
        self.reading = self.done;
        self.is_ready = true;
        let now = self.file.now;
        let _ = self.file.set(with_fault(now, fault, errno));
    }

    /// Whether the container was removed and everything is delivered. Its delivery is forgotten then.
    pub(super) fn is_over(&self) -> bool {
        self.reading == self.done && self.entry.is_orphan() && forget(&self.entry).is_ok()
    }
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
}
