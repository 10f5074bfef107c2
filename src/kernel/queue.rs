//! A lock that waiters get in the order in which they asked for it.
//!
//! A lock that waiters poll goes to the one that asks at the right moment: of many callers some wait for minutes. So a
//! caller that finds the lock taken locks a second byte, its ticket, whose offset is the time of its arrival. The first
//! of the line is the caller in front of whose ticket no byte is locked; one system call finds out. The kernel also frees
//! the ticket of a killed program, so the line needs no cleaning.

use super::file;
use super::turn;
use crate::error::{Error, Result};
use crate::op::Op;
use nix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long the lock may stay free while another caller is first: that caller may be a stopped program, which is then
/// passed over.
const PATIENCE: Duration = Duration::from_millis(100);

/// A lock of one byte, and the range of its waiters' tickets.
pub(crate) struct Queue<'a> {
    pub(crate) file: &'a File,
    /// The byte of the lock.
    pub(crate) at: u64,
    /// One byte for each microsecond: at least twice [`turn::LONGEST`]. Later times start again at the beginning.
    pub(crate) tickets: Range<u64>,
}

impl Queue<'_> {
    /// Waits for the lock; the open file description of the file owns it then.
    ///
    /// # Errors
    /// `op` ended; others held the lock for [`turn::LONGEST`] (the error names `what`).
    pub(crate) fn wait(&self, what: impl std::fmt::Display, op: Option<&Op>) -> Result<()> {
        if !file::range_is_locked(self.file, self.tickets.clone())? && file::try_lock_byte(self.file, self.at)? {
            return Ok(());
        }
        let ticket = self.ticket(since_boot()?)?;
        let mut free_since = None;
        turn::wait_for(&what, turn::LONGEST, op, || Ok(self.may_ask(&ticket, &mut free_since)?.then_some(())))?;
        turn::wait_for(&what, turn::LONGEST, op, || Ok(file::try_lock_byte(self.file, self.at)?.then_some(())))
    }

    /// A ticket for that time, or for the next free one.
    fn ticket(&self, now: Duration) -> Result<Ticket<'_>> {
        let count = self.tickets.end - self.tickets.start;
        let mut after = now.as_micros() as u64 % count;
        while !file::try_lock_byte(self.file, self.tickets.start + after)? {
            after = (after + 1) % count;
        }
        Ok(Ticket { queue: self, at: self.tickets.start + after })
    }

    /// Whether the owner of the ticket may try the lock: nobody came before, or the first caller does not take it.
    fn may_ask(&self, ticket: &Ticket<'_>, free_since: &mut Option<Instant>) -> Result<bool> {
        if !self.is_anybody_before(ticket)? {
            return Ok(true);
        }
        if file::byte_is_locked(self.file, self.at)? {
            *free_since = None;
            return Ok(false);
        }
        Ok(free_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE)
    }

    /// Whether a ticket exists in the half turn of the clock before this one.
    fn is_anybody_before(&self, ticket: &Ticket<'_>) -> Result<bool> {
        let Range { start, end } = self.tickets;
        let (half, after) = ((end - start) / 2, ticket.at - start);
        let older = end - half.saturating_sub(after)..end;
        Ok(file::range_is_locked(self.file, ticket.at - half.min(after)..ticket.at)?
            || file::range_is_locked(self.file, older)?)
    }
}

/// A place in the line, until it is dropped or its program ends.
struct Ticket<'a> {
    queue: &'a Queue<'a>,
    at: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        // The lock on the byte ends with the file at the latest.
        let _ = file::unlock_byte(self.queue.file, self.at);
    }
}

/// One clock for all programs of this machine.
fn since_boot() -> Result<Duration> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(|errno| Error::os("read the clock", errno as i32))?;
    Ok(now.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    const TICKETS: Range<u64> = 1000..2000;

    struct LockFile(std::path::PathBuf);

    impl LockFile {
        fn new(name: &str) -> LockFile {
            let path = std::env::temp_dir().join(format!("coracle-queue-{name}-{}", std::process::id()));
            std::fs::write(&path, "").unwrap();
            LockFile(path)
        }

        fn open(&self) -> File {
            File::options().read(true).write(true).open(&self.0).unwrap()
        }
    }

    impl Drop for LockFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn queue(file: &File) -> Queue<'_> {
        Queue { file, at: 7, tickets: TICKETS }
    }

    #[test]
    fn the_first_ticket_is_the_first_of_the_line() {
        let lock = LockFile::new("first");
        let files = [lock.open(), lock.open(), lock.open()];
        let [first, second, third] = files.each_ref().map(queue);
        let holder = lock.open();
        file::lock_byte(&holder, 7, "it").unwrap();
        let time = Duration::from_micros(3_000_500);
        // Both came at one moment: the second one takes the next byte.
        let tickets = [first.ticket(time).unwrap(), second.ticket(time).unwrap(), third.ticket(time).unwrap()];
        let [one, two, three] = tickets;
        assert_eq!([one.at, two.at, three.at], [1500, 1501, 1502]);
        assert!(first.may_ask(&one, &mut None).unwrap());
        assert!(!second.may_ask(&two, &mut None).unwrap());
        assert!(!third.may_ask(&three, &mut None).unwrap());
        drop(two);
        assert!(!third.may_ask(&three, &mut None).unwrap());
        drop(one);
        assert!(third.may_ask(&three, &mut None).unwrap());
    }

    #[test]
    fn the_clock_begins_again() {
        let lock = LockFile::new("clock");
        let files = [lock.open(), lock.open(), lock.open()];
        let [old, new, of_another_turn] = files.each_ref().map(queue);
        let before = old.ticket(Duration::from_micros(3_900)).unwrap();
        let after = new.ticket(Duration::from_micros(4_100)).unwrap();
        assert_eq!([before.at, after.at], [1900, 1100]);
        assert!(old.may_ask(&before, &mut None).unwrap());
        assert!(new.is_anybody_before(&after).unwrap());
        drop(before);
        assert!(!new.is_anybody_before(&after).unwrap());
        let late = of_another_turn.ticket(Duration::from_micros(4_650)).unwrap();
        assert!(!of_another_turn.is_anybody_before(&late).unwrap(), "more than half a turn ago");
    }

    #[test]
    fn a_first_one_that_does_not_take_a_free_lock_is_passed() {
        let lock = LockFile::new("passed");
        let (stopped, waiting) = (lock.open(), lock.open());
        let first = queue(&stopped);
        let ticket = first.ticket(Duration::ZERO).unwrap();
        queue(&waiting).wait("it", None).unwrap();
        assert!(file::byte_is_locked(&stopped, 7).unwrap());
        drop(ticket);
    }

    #[test]
    fn one_that_takes_it_again_at_once_does_not_keep_others_out() {
        let lock = LockFile::new("greedy");
        // Tickets for a longer time than any waiter here: no waiter mistakes an old one for one of the next turn.
        fn queue(file: &File) -> Queue<'_> {
            Queue { file, at: 7, tickets: 1000..1 << 40 }
        }
        let (over, turns, holds) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let file = lock.open();
                    queue(&file).wait("it", None).unwrap();
                    turns.fetch_add(1, Ordering::SeqCst);
                    holds.store(true, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            while !holds.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let mut turns_meanwhile = Vec::new();
            for _ in 0..20 {
                let file = lock.open();
                let before = turns.load(Ordering::SeqCst);
                queue(&file).wait("it", None).unwrap();
                turns_meanwhile.push(turns.load(Ordering::SeqCst) - before);
            }
            over.store(true, Ordering::SeqCst);
            // The try that was under way, one between the two calls, and one after each PATIENCE in which the machine
            // does not run this thread. Without a line there are thousands.
            let all: usize = turns_meanwhile.iter().sum();
            assert!(all < 1000, "somebody else had {turns_meanwhile:?} turns meanwhile");
        });
    }
}
