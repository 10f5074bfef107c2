//! The buffer of a log whose container never waits (`mode=non-blocking`): the worker puts records in, the log's writer
//! takes them out and writes them into the file.
//!
//! The memory is shared and outlives both processes, so that the death of either loses nothing that is in it. The worker
//! alone changes how far the ring is filled, the writer alone how far it is emptied: neither takes a lock. If the ring is
//! empty, the next record goes to the beginning of the memory, so that a ring that is never full touches few pages.

use crate::lines::{find_newline, newlines};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The shared numbers of a ring.
pub const NUMBERS: usize = 14;
/// Bytes that were ever put in.
const PUT: usize = 0;
/// Bytes that were ever taken out.
const TAKEN: usize = 1;
/// The byte, counted as those are, that stands at the beginning of the memory.
const ORIGIN: usize = 2;
/// How many bytes were taken out before the file's first byte. A file that was begun before the ring has more bytes
/// than were ever taken out: the number wraps.
const BASE: usize = 3;
/// Records that were ever put in.
const PUT_RECORDS: usize = 4;
/// Records that were ever taken out.
const TAKEN_RECORDS: usize = 5;
/// Not 0: the writer waits to be woken.
pub const RESTS: usize = 6;
/// The writer's number while it waits.
pub const RESTING: u64 = 1;
/// Not 0: the launcher waits until the ring is empty.
pub const ASKED: usize = 7;
/// Records that had no room. The worker alone raises this number.
const DROPPED: usize = 8;
/// Records that were taken out and could not be written. The writer alone raises this number.
const LOST: usize = 9;
/// The writer notes here the four numbers that follow from a write, [`TAKEN`]'s last: if the writer dies while it changes
/// them, the next one goes on with that. Nothing is noted if the last one is the same as [`TAKEN`].
const NEXT: [(usize, usize); 4] = [(10, BASE), (11, TAKEN_RECORDS), (12, LOST), (13, TAKEN)];
const NEXT_TAKEN: usize = 13;
/// So much memory an empty ring keeps: the records of the largest chunk of output.
const KEPT: u64 = 1 << 20;

/// The bytes of a ring.
pub trait Memory {
    /// How many there are.
    fn room(&self) -> usize;
    /// Writes within the room.
    fn write(&self, at: usize, data: &[u8]);
    /// Reads within the room.
    fn read(&self, at: usize, data: &mut [u8]);
    /// Gives the pages of a range back; nothing is read there before it is written again.
    fn give_back(&self, from: usize, to: usize);
}

#[derive(Clone, Copy)]
pub struct Ring<M> {
    numbers: &'static [AtomicU64; NUMBERS],
    memory: M,
    bound: Bound,
}

/// How much may wait, beside what the memory has room for.
#[derive(Clone, Copy)]
pub struct Bound {
    /// So many bytes of lines.
    pub lines: u64,
    /// So many bytes of each record are not its line.
    pub around: u64,
}

impl<M: Memory> Ring<M> {
    pub fn new(numbers: &'static [AtomicU64; NUMBERS], memory: M, bound: Bound) -> Ring<M> {
        Ring { numbers, memory, bound }
    }

    fn get(&self, number: usize) -> u64 {
        self.numbers[number].load(SeqCst)
    }

    fn set(&self, number: usize, value: u64) {
        self.numbers[number].store(value, SeqCst);
    }

    /// Bytes that wait to be taken out. The other process may be lying.
    fn waiting(&self) -> u64 {
        self.get(PUT).wrapping_sub(self.get(TAKEN)).min(self.memory.room() as u64)
    }

    pub fn is_empty(&self) -> bool {
        self.waiting() == 0
    }

    /// Records that wait to be taken out.
    pub fn records(&self) -> u64 {
        self.get(PUT_RECORDS).saturating_sub(self.get(TAKEN_RECORDS)).min(self.waiting())
    }

    /// Records that had no room, or could not be written.
    pub fn lost(&self) -> u64 {
        self.get(DROPPED).saturating_add(self.get(LOST))
    }

    /// Whether a process waits for something: with [`RESTS`] the writer to be woken, with [`ASKED`] the launcher to hear that
    /// the ring is empty. If so, the caller has to do it.
    pub fn take(&self, number: usize) -> bool {
        self.get(number) != 0 && self.numbers[number].swap(0, SeqCst) != 0
    }

    /// Bytes that were ever taken out, by which a waiting process sees progress.
    pub fn taken(&self) -> u64 {
        self.get(TAKEN)
    }

    // The worker's side.

    /// Puts in as many of these whole records as there is room for, and one at least if the ring is empty. Answers how
    /// many bytes they have; the others are dropped.
    pub fn put(&self, records: &[u8]) -> usize {
        // The writer may take records out meanwhile. If their number were read last, those that wait would seem longer
        // than they are.
        let (count, put) = (self.records(), self.get(PUT));
        let waiting = self.waiting();
        if waiting == 0 {
            self.begin_anew(put);
        }
        let length = self.fitting(records, waiting, count);
        let (at, until_end) = self.place(put);
        let (first, second) = records[..length].split_at(until_end.min(length));
        self.memory.write(at, first);
        self.memory.write(0, second);
        self.set(PUT_RECORDS, self.get(PUT_RECORDS).wrapping_add(newlines(&records[..length])));
        self.set(PUT, put.wrapping_add(length as u64));
        if length < records.len() {
            self.set(DROPPED, self.get(DROPPED).saturating_add(newlines(&records[length..])));
        }
        length
    }

    /// How many bytes of these records fit beside those that wait, which are `count`.
    fn fitting(&self, records: &[u8], waiting: u64, count: u64) -> usize {
        let room = self.memory.room() as u64 - waiting;
        let lines = |bytes: u64, count: u64| bytes.saturating_sub(count.saturating_mul(self.bound.around));
        let left = self.bound.lines.saturating_sub(lines(waiting, count));
        let all = records.len() as u64;
        if all <= room && lines(all, newlines(records)) <= left {
            return records.len();
        }
        let (mut length, mut used) = (0, 0);
        while let Some(at) = find_newline(&records[length..]) {
            let record = at as u64 + 1;
            used += lines(record, 1);
            let is_only = waiting == 0 && length == 0;
            if length as u64 + record > room || used > left && !is_only {
                break;
            }
            length += at + 1;
        }
        length
    }

    /// The ring is empty: the writer reads nothing until more is put in, so that all memory is the worker's. A worker that
    /// was killed may have counted records that it did not put in.
    fn begin_anew(&self, put: u64) {
        self.set(PUT_RECORDS, self.get(TAKEN_RECORDS));
        let touched = put.wrapping_sub(self.get(ORIGIN)).min(self.memory.room() as u64);
        self.set(ORIGIN, put);
        if touched > KEPT {
            self.memory.give_back(KEPT as usize, touched as usize);
        }
    }

    // The writer's side.

    /// Copies whole records that wait; answers how many bytes.
    pub fn peek(&self, to: &mut [u8]) -> usize {
        let (taken, waiting) = (self.get(TAKEN), self.waiting());
        let length = to.len().min(waiting as usize);
        let (at, until_end) = self.place(taken);
        let (first, second) = to[..length].split_at_mut(until_end.min(length));
        self.memory.read(at, first);
        self.memory.read(0, second);
        to[..length].iter().rposition(|&byte| byte == b'\n').map_or(length, |at| at + 1)
    }

    /// These first bytes of those that wait were written, except so many lost records, and the file has `size` bytes now.
    pub fn took(&self, data: &[u8], size: u64, lost: u64) {
        let taken = self.get(TAKEN).wrapping_add(data.len() as u64);
        let records = self.get(TAKEN_RECORDS).wrapping_add(newlines(data));
        let next = [taken.wrapping_sub(size), records, self.get(LOST).saturating_add(lost), taken];
        NEXT.iter().zip(next).for_each(|(&(note, _), value)| self.set(note, value));
        self.take_noted();
    }

    /// Brings a change to its end that the writer had noted, if the writer died meanwhile.
    pub fn take_noted(&self) {
        if self.get(NEXT_TAKEN) != self.get(TAKEN) {
            NEXT.iter().for_each(|&(note, number)| self.set(number, self.get(note)));
        }
    }

    /// A writer begins, with a file of `size` bytes: bytes of the ring that an earlier writer wrote and did not take out
    /// are taken out. `scratch` is memory that is free at the moment.
    pub fn resume(&self, size: u64, scratch: &mut [u8]) {
        self.take_noted();
        let mut written = size.wrapping_sub(self.get(TAKEN).wrapping_sub(self.get(BASE)));
        if written > self.waiting() {
            // Another file.
            written = 0;
        }
        while written > 0 {
            let most = scratch.len().min(usize::try_from(written).unwrap_or(usize::MAX));
            let length = self.peek(&mut scratch[..most]);
            if length == 0 {
                // The worker lies.
                break;
            }
            written -= length as u64;
            self.took(&scratch[..length], size.wrapping_sub(written), 0);
        }
        self.begin(size);
    }

    /// The file has `size` bytes before the first of those that wait.
    pub fn begin(&self, size: u64) {
        self.set(BASE, self.get(TAKEN).wrapping_sub(size));
    }

    /// The number at which the writer waits while it is [`RESTING`].
    pub fn resting(&self) -> &'static AtomicU64 {
        &self.numbers[RESTS]
    }

    /// The writer is about to wait. Answers whether it may: nothing came meanwhile.
    pub fn rest(&self) -> bool {
        self.set(RESTS, RESTING);
        if self.is_empty() && self.get(ASKED) == 0 {
            return true;
        }
        self.set(RESTS, 0);
        false
    }

    // The launcher's side.

    /// Asks the writer to tell when the ring is empty. The writer has to be woken then.
    pub fn ask(&self) {
        self.set(ASKED, 1);
    }

    /// Where a byte is in the memory, and how many bytes the memory has from there.
    fn place(&self, byte: u64) -> (usize, usize) {
        let at = (byte.wrapping_sub(self.get(ORIGIN)) % self.memory.room() as u64) as usize;
        (at, self.memory.room() - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU8;

    struct Bytes(Vec<AtomicU8>);

    impl Memory for Bytes {
        fn room(&self) -> usize {
            self.0.len()
        }
        fn write(&self, at: usize, data: &[u8]) {
            self.0[at..][..data.len()].iter().zip(data).for_each(|(place, byte)| place.store(*byte, SeqCst));
        }
        fn read(&self, at: usize, data: &mut [u8]) {
            data.iter_mut().zip(&self.0[at..]).for_each(|(byte, place)| *byte = place.load(SeqCst));
        }
        fn give_back(&self, from: usize, to: usize) {
            self.0[from..to].iter().for_each(|place| place.store(b'?', SeqCst));
        }
    }

    /// Memory of a ring whose worker empties it after a number of reads.
    struct Lies<'r> {
        ring: &'r Ring<Bytes>,
        after: core::cell::Cell<u32>,
    }

    impl Memory for Lies<'_> {
        fn room(&self) -> usize {
            self.ring.memory.room()
        }
        fn write(&self, at: usize, data: &[u8]) {
            self.ring.memory.write(at, data);
        }
        fn read(&self, at: usize, data: &mut [u8]) {
            self.ring.memory.read(at, data);
            // Each peek reads twice: up to the end of the memory, and from its beginning.
            self.after.set(self.after.get() + 1);
            if self.after.get() == 3 {
                self.ring.set(PUT, self.ring.get(TAKEN).wrapping_add(4));
            }
        }
        fn give_back(&self, from: usize, to: usize) {
            self.ring.memory.give_back(from, to);
        }
    }

    fn ring(lines: u64, room: usize) -> Ring<Bytes> {
        ring_of(Bound { lines, around: 0 }, room)
    }

    fn ring_of(bound: Bound, room: usize) -> Ring<Bytes> {
        let numbers = Box::leak(Box::new([const { AtomicU64::new(0) }; NUMBERS]));
        Ring::new(numbers, Bytes((0..room).map(|_| AtomicU8::new(0)).collect()), bound)
    }

    /// Takes what waits, as a writer whose file takes everything does.
    fn take(ring: &Ring<Bytes>, room: usize, file: &mut Vec<u8>) -> usize {
        let mut buffer = vec![0; room];
        let length = ring.peek(&mut buffer);
        file.extend_from_slice(&buffer[..length]);
        ring.took(&buffer[..length], file.len() as u64, 0);
        length
    }

    #[test]
    fn records_come_out_as_they_went_in_and_the_rest_is_dropped() {
        let ring = ring(10, 20);
        assert_eq!(ring.put(b"one\ntwo\nthree\n"), 8);
        assert_eq!((ring.records(), ring.put(b"x\n"), ring.put(b"y\n")), (2, 2, 0));
        let mut file = Vec::new();
        assert_eq!((take(&ring, 6, &mut file), take(&ring, 99, &mut file)), (4, 6));
        assert_eq!(file, b"one\ntwo\nx\n");
        assert!(ring.is_empty() && ring.records() == 0 && ring.taken() == 10);
    }

    #[test]
    fn an_empty_ring_takes_one_record_that_is_longer_than_its_bound() {
        for lines in [0, 3] {
            let ring = ring(lines, 20);
            assert_eq!(ring.put(b"longer\nx\n"), 7);
            assert_eq!(ring.put(b"x\n"), 0);
            assert_eq!(take(&ring, 99, &mut Vec::new()), 7);
            assert_eq!(ring.put(b"x\n"), 2);
        }
    }

    #[test]
    fn the_bound_counts_lines_and_the_memory_is_a_bound_of_its_own() {
        // Records of five bytes, of which two are the line.
        let ring = ring_of(Bound { lines: 5, around: 3 }, 12);
        assert_eq!((ring.put(b"{ab}\n"), ring.put(b"{cd}\n{ef}\n")), (5, 5));
        take(&ring, 5, &mut Vec::new());
        assert_eq!((ring.put(b"{}\n"), ring.put(b"{}\n{}\n")), (3, 3), "of the memory one byte is left");
        let ring = ring_of(Bound { lines: 5, around: 3 }, 99);
        assert_eq!(ring.put(b"{ab}\n{cd}\n{}\n{}\n{}\n{ef}\n"), 19);
    }

    #[test]
    fn a_ring_goes_on_at_its_beginning_and_an_empty_one_begins_there() {
        let ring = ring(12, 12);
        let mut file = Vec::new();
        assert_eq!(ring.put(b"12345\n789\n"), 10);
        assert_eq!(take(&ring, 7, &mut file), 6);
        assert_eq!(ring.put(b"abcdef\n"), 7);
        assert_eq!(ring.place(ring.get(PUT)).0, 5, "behind its end");
        while take(&ring, 99, &mut file) > 0 {}
        assert_eq!(file, b"12345\n789\nabcdef\n");
        assert_eq!(ring.put(b"new\n"), 4);
        assert_eq!(ring.place(ring.get(PUT)).0, 4);
    }

    #[test]
    fn an_empty_ring_gives_most_of_its_memory_back() {
        let ring = ring(4 * KEPT, 4 * KEPT as usize);
        let line = [vec![b'a'; 9999], vec![b'\n']].concat();
        for _ in 0..200 {
            assert_eq!(ring.put(&line), 10_000);
        }
        let mut file = Vec::new();
        while take(&ring, 1 << 20, &mut file) > 0 {}
        assert_eq!(ring.put(b"x\n"), 2);
        let given = ring.memory.0.iter().filter(|place| place.load(SeqCst) == b'?').count();
        assert_eq!(given, 2_000_000 - KEPT as usize);
        assert_eq!(take(&ring, 99, &mut file), 2);
        assert!(file.ends_with(b"a\nx\n"));
    }

    #[test]
    fn a_writer_goes_on_where_the_one_before_died() {
        let mut scratch = [0; 5];
        // Dead before the write, within it, between the write and the note about it.
        for written in 0..=8_u64 {
            let ring = ring(99, 99);
            ring.begin(1000);
            ring.put(b"one\ntwo\nthree\n");
            ring.resume(1000 + written, &mut scratch);
            let mut rest = [0; 99];
            let length = ring.peek(&mut rest);
            assert_eq!(&rest[..length], &b"one\ntwo\nthree\n"[written as usize..]);
            assert_eq!(ring.records(), 3 - written / 4);
            ring.took(&rest[..length], 1014, 0);
            ring.resume(1014, &mut scratch);
            assert!(ring.is_empty());
        }
    }

    #[test]
    fn a_writer_begins_with_a_file_that_is_not_the_one_before() {
        let ring = ring(99, 99);
        ring.put(b"one\ntwo\n");
        let mut file = Vec::new();
        take(&ring, 4, &mut file);
        for size in [0, 3, 90, u64::MAX] {
            ring.resume(size, &mut [0; 9]);
            assert_eq!(ring.records(), 1, "{size}");
        }
    }

    #[test]
    fn lost_records_leave_the_file_and_the_ring_in_step() {
        let ring = ring(99, 99);
        ring.put(b"one\ntwo\nthree\n");
        // The first is written, the second is not.
        ring.took(b"one\n", 4, 0);
        ring.took(b"two\n", 4, 1);
        ring.resume(4, &mut [0; 9]);
        let mut rest = [0; 99];
        assert_eq!((ring.peek(&mut rest), ring.records(), ring.lost()), (6, 1, 1));
    }

    #[test]
    fn a_writer_that_dies_at_any_number_leaves_right_counts() {
        // The last record is lost: so many of the eight numbers were set when the writer died.
        for set in 0..=8 {
            let ring = ring(99, 99);
            ring.put(b"one\ntwo\nthree\n");
            ring.took(b"one\n", 4, 0);
            let before: [u64; NUMBERS] = core::array::from_fn(|number| ring.get(number));
            ring.took(b"two\nthree\n", 8, 1);
            let after: [u64; NUMBERS] = core::array::from_fn(|number| ring.get(number));
            (0..NUMBERS).for_each(|number| ring.set(number, before[number]));
            let order = NEXT.iter().map(|&(note, _)| note).chain(NEXT.iter().map(|&(_, number)| number));
            order.take(set).for_each(|number| ring.set(number, after[number]));
            ring.resume(8, &mut [0; 9]);
            // Without a note the next writer finds what was written, and meets the lost record itself.
            let noted = set >= 4;
            assert_eq!((ring.records(), ring.lost()), (u64::from(!noted), u64::from(noted)), "{set}");
            assert_eq!(ring.peek(&mut [0; 99]), if noted { 0 } else { 6 }, "{set}");
        }
    }

    #[test]
    fn the_count_of_a_worker_that_was_killed_is_right_again_when_the_ring_is_empty() {
        let ring = ring(99, 99);
        // Counted, and not put in.
        ring.set(PUT_RECORDS, 3);
        assert_eq!((ring.put(b"one\n"), ring.records()), (4, 1));
    }

    #[test]
    fn records_without_room_are_counted() {
        let ring = ring(10, 20);
        ring.put(b"one\ntwo\nthree\nx\n");
        ring.put(b"12345\n");
        assert_eq!(ring.lost(), 3);
    }

    #[test]
    fn a_worker_that_takes_records_back_does_not_hold_the_next_writer() {
        let ring = ring(99, 99);
        ring.put(b"one\ntwo\n");
        let lies = Lies { ring: &ring, after: core::cell::Cell::new(1) };
        Ring::new(ring.numbers, lies, Bound { lines: 99, around: 0 }).resume(8, &mut [0; 4]);
    }

    #[test]
    fn a_writer_rests_while_nothing_waits_and_is_woken_once() {
        let ring = ring(99, 99);
        assert!(!ring.take(RESTS) && ring.rest());
        assert_eq!(ring.resting().load(SeqCst), RESTING);
        ring.put(b"one\n");
        assert!(ring.take(RESTS) && !ring.take(RESTS) && !ring.rest());
        assert!(!ring.take(ASKED));
        take(&ring, 99, &mut Vec::new());
        ring.ask();
        assert!(!ring.rest(), "the launcher waits for an answer");
        assert!(ring.take(ASKED) && !ring.take(ASKED) && ring.rest());
    }

    #[test]
    fn numbers_of_a_process_that_lies_stay_within_the_memory() {
        for (put, taken) in [(u64::MAX, 0), (0, 1), (7, u64::MAX)] {
            let ring = ring(99, 50);
            ring.set(PUT, put);
            ring.set(TAKEN, taken);
            ring.set(ORIGIN, 3);
            ring.set(PUT_RECORDS, u64::MAX);
            assert!(ring.records() <= 50 && ring.peek(&mut [0; 99]) <= 50);
            assert!(ring.put(b"one\n") <= 4);
            ring.resume(12345, &mut [0; 9]);
        }
    }
}
