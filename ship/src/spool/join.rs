//! The option `max-line-size`: parts of a line become one record again before they are delivered.
//!
//! A joined record stands where its line began. A line of the other stream may be in the middle of it: until that line is done, too,
//! the cursor stays before both, so that a break repeats lines and loses none.

use super::{Batch, PART, Part, Record};

/// A record of the new batch, and where it came from.
struct Made {
    record: Record,
    text: Vec<u8>,
    /// The numbers of its first and last pieces in the old batch.
    first: usize,
    last: usize,
}

/// The state of the two streams.
#[derive(Default)]
struct Joiner {
    longest: usize,
    made: Vec<Made>,
    /// The number of the record that takes the next part of each stream.
    open: [Option<usize>; 2],
    /// The number that the next joined part of each stream's line has; 0: the first one of this batch says it.
    next: [u32; 2],
}

impl Batch {
    /// Joins the parts of each line, up to so many bytes. Answers whether the end of a line is missing: the batch ends before such a line,
    /// unless `takes_all` is set.
    pub(super) fn joined(self, longest: usize, takes_all: bool) -> (Batch, bool) {
        if self.records.iter().all(|record| record.part.is_none()) {
            return (self, false);
        }
        let mut joiner = Joiner { longest, ..Joiner::default() };
        for (number, record) in self.records.iter().enumerate() {
            let part = record.part.filter(|_| !record.hollow);
            match part {
                Some(part) => joiner.take(number, record, part, self.text(record)),
                None => drop(joiner.begin(number, record, self.text(record))),
            }
        }
        let begun = joiner.open.iter().flatten().min().copied().filter(|_| !takes_all);
        (joiner.batch(&self.records, begun), begun.is_some())
    }
}

impl Joiner {
    fn take(&mut self, number: usize, record: &Record, part: Part, text: &[u8]) {
        let stream = usize::from(record.head.stderr);
        let open = self.open[stream].take().filter(|at| self.made[*at].text.len() + text.len() <= self.longest);
        let at = match open {
            Some(at) => {
                self.append(at, number, record, text);
                at
            }
            None => {
                let own = if self.next[stream] == 0 { part.number } else { self.next[stream] };
                self.next[stream] = own + 1;
                let at = self.begin(number, record, text);
                self.made[at].record.part = Some(Part { number: own, last: false, ..part });
                at
            }
        };
        let made = &mut self.made[at];
        let own = made.record.part.map_or(1, |part| part.number);
        if part.last {
            made.record.part = (own > 1).then_some(Part { number: own, ..part });
            self.next[stream] = 0;
        } else if made.text.len() + PART <= self.longest {
            self.open[stream] = Some(at);
        }
    }

    fn append(&mut self, at: usize, number: usize, record: &Record, text: &[u8]) {
        let made = &mut self.made[at];
        made.text.extend_from_slice(text);
        made.record.pieces += record.pieces;
        made.record.damaged += record.damaged;
        made.record.ordinal = record.ordinal;
        made.last = number;
    }

    fn begin(&mut self, number: usize, record: &Record, text: &[u8]) -> usize {
        self.made.push(Made { record: *record, text: text.to_vec(), first: number, last: number });
        self.made.len() - 1
    }

    /// The records before the one with the number `begun`. The old ones have the places.
    fn batch(self, old: &[Record], begun: Option<usize>) -> Batch {
        let mut batch = Batch::default();
        let firsts: Vec<usize> = self.made.iter().map(|made| made.first).chain([old.len()]).collect();
        let (mut reached, mut settled) = (0, 0);
        for (number, Made { mut record, text, last, .. }) in self.made.into_iter().enumerate() {
            if begun == Some(number) {
                break;
            }
            reached = reached.max(last);
            record.moves = reached + 1 == firsts[number + 1];
            record.after = old[reached].after;
            record.from = batch.text.len();
            batch.text.extend_from_slice(&text);
            record.to = batch.text.len();
            batch.records.push(record);
            settled = if record.moves { batch.records.len() } else { settled };
        }
        batch.records.truncate(settled);
        batch
    }
}
