//! Records of the log that were lost: those that could not be written, and those that a worker had taken and not
//! written when it died.

use core::sync::atomic::{AtomicU64, Ordering};

/// The largest number of records that one worker can have taken: a worker could write any number.
const MOST_TAKEN: u64 = 1 << 32;

/// Zero at the beginning.
pub struct Lost {
    records: u64,
    /// The part of them that earlier workers lost.
    before: u64,
    /// The records of each stream that the worker has taken and not written; the worker shares these numbers.
    under_way: Option<&'static [AtomicU64; 2]>,
}

impl Lost {
    #[cfg(test)]
    pub const NONE: Lost = Lost { records: 0, before: 0, under_way: None };

    /// The shared numbers, once they are there.
    pub fn under_way(&self) -> Option<&'static [AtomicU64; 2]> {
        self.under_way
    }

    pub fn share(&mut self, under_way: &'static [AtomicU64; 2]) {
        self.under_way = Some(under_way);
    }

    /// The worker says how many records it could not write since it began.
    pub fn reported(&mut self, by_worker: u64) {
        self.records = self.records.max(self.before.saturating_add(by_worker));
    }

    /// The worker died, and with it the records that it had taken.
    pub fn worker_died(&mut self) {
        for count in self.under_way.into_iter().flatten() {
            self.records = self.records.saturating_add(count.swap(0, Ordering::AcqRel).min(MOST_TAKEN));
        }
        self.before = self.records;
    }

    pub fn records(&self) -> u64 {
        self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(counts: [u64; 2]) -> &'static [AtomicU64; 2] {
        Box::leak(Box::new(counts.map(AtomicU64::new)))
    }

    #[test]
    fn the_records_that_a_worker_had_taken_die_with_it() {
        let mut lost = Lost::NONE;
        lost.worker_died();
        assert!(lost.records() == 0 && lost.under_way().is_none(), "nothing is shared yet");
        let under_way = shared([2, 5]);
        lost.share(under_way);
        assert!(lost.under_way().is_some_and(|shared| core::ptr::eq(shared, under_way)));
        lost.worker_died();
        assert_eq!(lost.records(), 7);
        lost.worker_died();
        assert_eq!(lost.records(), 7, "each record is counted once");
    }

    #[test]
    fn each_worker_counts_from_nothing() {
        let mut lost = Lost::NONE;
        lost.reported(3);
        lost.reported(4);
        lost.reported(2);
        assert_eq!(lost.records(), 4, "a number never falls");
        lost.share(shared([1, 0]));
        lost.worker_died();
        lost.reported(2);
        assert_eq!(lost.records(), 7);
    }

    #[test]
    fn a_worker_that_lies_does_not_overflow_the_number() {
        let mut lost = Lost::NONE;
        lost.share(shared([u64::MAX, 1]));
        lost.worker_died();
        assert_eq!(lost.records(), MOST_TAKEN + 1);
        lost.reported(u64::MAX);
        assert_eq!(lost.records(), u64::MAX);
        lost.share(shared([1, 1]));
        lost.worker_died();
        assert_eq!(lost.records(), u64::MAX);
    }
}
