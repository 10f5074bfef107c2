//! The json-file log: one JSON object a line of output, as dockerd writes it.
//!
//! A line longer than 16 KiB becomes several records, of which only the last ends with a newline. One write(2) a chunk
//! of output. Before a record, a file that has reached its bound gives way to the next one: so a file is at most one
//! record longer than its bound.

use crate::lines::{self, Around, find_newline, newlines};
use crate::text;
use core::sync::atomic::{AtomicU64, Ordering};

/// The longest part of a line that one record has.
pub const LINE: usize = 16 * 1024;
/// Six times the longest line, and room for the text around it; attributes come on top.
const OUT: usize = 6 * LINE + 48 * 1024;

/// The file that takes records.
pub trait Records {
    /// Whether the file has reached its bound, once `more` bytes are in it.
    fn is_full(&self, more: usize) -> bool;
    /// Begins the next file, or goes on with this one. `scratch` is memory that is free at the moment.
    fn rotate(&mut self, scratch: &mut [u8]);
    /// Appends whole records; answers how many of them could not be written.
    fn append(&mut self, records: &[u8]) -> u64;
}

/// Makes records of a container's output. It has no memory of its own: [`Log::begin`] brings it.
pub struct Log<'m, F> {
    pub file: F,
    attrs: &'m [u8],
    out: Option<&'m mut [u8]>,
    used: usize,
    /// Records that could not be written.
    pub lost: u64,
    /// How many records are on their way of each stream: they are lost with this process, and counted by the launcher.
    pub under_way: Option<&'static [AtomicU64; 2]>,
    /// The begun line of each stream.
    partial: [Partial<'m>; 2],
}

struct Partial<'m> {
    line: Option<&'m mut [u8]>,
    length: usize,
}

impl<'m, F: Records> Log<'m, F> {
    /// One that cannot log yet.
    pub const fn new(file: F) -> Log<'m, F> {
        let partial = [const { Partial { line: None, length: 0 } }; 2];
        Log { file, attrs: b"", out: None, used: 0, lost: 0, under_way: None, partial }
    }

    /// How much memory records are gathered in.
    pub fn room(&self) -> usize {
        OUT + self.attrs.len()
    }

    /// How many bytes of the record of a line are not the line, whose newline is written as two.
    pub fn around(&self) -> usize {
        const MEMBERS: &str = r#"{"log":"\n","stream":"stdout","time":"1970-01-01T00:00:00.000000000Z"}"#;
        MEMBERS.len() + self.attrs.len()
    }

    /// Before the first chunk: memory of [`Log::room`] bytes, and of [`LINE`] for the begun line of each stream.
    pub fn begin(&mut self, out: &'m mut [u8], begun: [&'m mut [u8]; 2]) {
        self.lost = 0;
        self.out = Some(out);
        self.partial = begun.map(|line| Partial { line: Some(line), length: 0 });
    }

    /// Members that each record has, each with a comma behind it.
    pub fn set_attributes(&mut self, attrs: &'m [u8]) {
        self.attrs = attrs;
    }

    /// Between two chunks: begins the next file, if this one has reached its bound.
    pub fn rotate_full(&mut self) {
        if self.file.is_full(0) {
            self.file.rotate(self.out.as_deref_mut().unwrap_or(&mut []));
        }
    }

    fn note(&self, stream: usize, records: u64) {
        if let Some(counts) = self.under_way {
            counts[stream].store(records, Ordering::Release);
        }
    }

    /// Something may be read of a stream: it counts as a record until it is known.
    pub fn reading(&self, stream: usize) {
        self.note(stream, u64::from(self.partial[stream].length > 0) + 1);
    }

    /// Nothing was read.
    pub fn rests(&self, stream: usize) {
        self.note(stream, u64::from(self.partial[stream].length > 0));
    }

    /// Logs a chunk of a stream (0 stdout, 1 stderr) that came at `now`, in nanoseconds since 1970.
    pub fn chunk(&mut self, stream: usize, mut data: &[u8], now: i64) {
        let mut time = [0u8; 30];
        text::rfc3339(&mut time, now);
        // Lines that are too long are several records.
        self.note(stream, newlines(data) + (data.len() / LINE) as u64 + 1);
        while !data.is_empty() {
            let newline = find_newline(data);
            let begun = self.partial[stream].length;
            let take = newline.unwrap_or(data.len()).min(LINE - begun);
            let whole = newline == Some(take);
            if begun == 0 && (whole || take == LINE) {
                self.record(stream, &data[..take], whole, &time);
            } else {
                self.keep(stream, &data[..take]);
                if whole || begun + take == LINE {
                    self.record_partial(stream, whole, &time);
                }
            }
            data = &data[take + usize::from(whole)..];
        }
        self.flush();
        self.rests(stream);
    }

    /// The stream ended: a begun line is logged as it is.
    pub fn end(&mut self, stream: usize, now: i64) {
        if self.partial[stream].length > 0 {
            let mut time = [0u8; 30];
            text::rfc3339(&mut time, now);
            self.record_partial(stream, false, &time);
            self.flush();
            self.rests(stream);
        }
    }

    fn keep(&mut self, stream: usize, data: &[u8]) {
        let partial = &mut self.partial[stream];
        if let Some(line) = partial.line.as_mut() {
            line[partial.length..partial.length + data.len()].copy_from_slice(data);
            partial.length += data.len();
        }
    }

    fn record_partial(&mut self, stream: usize, whole: bool, time: &[u8; 30]) {
        let partial = &mut self.partial[stream];
        let length = core::mem::take(&mut partial.length);
        if let Some(line) = partial.line.take() {
            self.record(stream, &line[..length], whole, time);
            self.partial[stream].line = Some(line);
        }
    }

    fn record(&mut self, stream: usize, line: &[u8], whole: bool, time: &[u8; 30]) {
        if self.file.is_full(self.used) {
            self.flush();
            // Nothing is gathered: the place of records serves the rotation.
            self.rotate_full();
        }
        let room = lines::room(line.len(), self.attrs.len());
        if self.used + room > self.room() {
            self.flush();
        }
        let attrs = self.attrs;
        let Some(out) = self.out.as_mut() else { return };
        self.used += lines::record(&mut out[self.used..], line, whole, Around { stderr: stream != 0, attrs, time });
    }

    /// Writes the gathered records. A disk that is full loses records, not the container; they are counted.
    fn flush(&mut self) {
        let used = core::mem::take(&mut self.used);
        if let (true, Some(out)) = (used > 0, self.out.as_ref()) {
            self.lost += self.file.append(&out[..used]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Memory(Vec<u8>);

    impl Records for Memory {
        fn is_full(&self, _: usize) -> bool {
            false
        }
        fn rotate(&mut self, _: &mut [u8]) {
            unreachable!("it is never full");
        }
        fn append(&mut self, records: &[u8]) -> u64 {
            self.0.extend_from_slice(records);
            0
        }
    }

    /// The lines of stdout that come of chunks, and how many records were on their way after each chunk.
    fn logged(chunks: &[&[u8]]) -> (Vec<String>, Vec<u64>) {
        static COUNTS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
        let (mut log, mut under_way) = (Log::new(Memory::default()), Vec::new());
        let (mut out, mut begun) = (vec![0; log.room()], [vec![0; LINE], vec![0; LINE]]);
        let [first, second] = &mut begun;
        log.begin(&mut out, [first, second]);
        log.under_way = Some(&COUNTS);
        for chunk in chunks {
            log.reading(0);
            assert!(COUNTS[0].load(Ordering::Acquire) > 0, "what is read now may be a record");
            log.chunk(0, chunk, 0);
            under_way.push(COUNTS[0].load(Ordering::Acquire));
        }
        log.end(0, 0);
        assert_eq!([0, 1].map(|stream| COUNTS[stream].load(Ordering::Acquire)), [0, 0]);
        let text = String::from_utf8(log.file.0).expect("text");
        let end = "\",\"stream\":\"stdout\",\"time\":\"1970-01-01T00:00:00.000000000Z\"}";
        let inner = |record: &str| {
            record.strip_prefix("{\"log\":\"").and_then(|rest| rest.strip_suffix(end)).map(str::to_owned)
        };
        (text.lines().map(|record| inner(record).expect("a record")).collect(), under_way)
    }

    #[test]
    fn a_begun_line_waits_for_its_end_and_counts_as_on_its_way() {
        let (lines, under_way) = logged(&[b"one\ntw", b"o", b"\n\n", b"rest"]);
        assert_eq!(lines, ["one\\n", "two\\n", "\\n", "rest"]);
        assert_eq!(under_way, [1, 1, 0, 1]);
    }

    #[test]
    fn a_record_is_its_line_and_the_rest_around_it() {
        let mut log = Log::new(Memory::default());
        log.set_attributes(b"\"attrs\":{\"a\":\"1\"},");
        let (mut out, mut begun) = (vec![0; log.room()], [vec![0; LINE], vec![0; LINE]]);
        let [first, second] = &mut begun;
        log.begin(&mut out, [first, second]);
        log.chunk(1, b"abc\n", 0);
        assert_eq!(log.file.0.len(), b"abc\n".len() + log.around());
    }

    #[test]
    fn a_long_line_is_several_records_of_which_the_last_has_the_newline() {
        let long = [b"a".repeat(2 * LINE + 3), b"\n".to_vec()].concat();
        for (first, second) in [(0, long.len()), (5, long.len()), (LINE, long.len()), (LINE + 7, long.len())] {
            let (lines, _) = logged(&[&long[..first], &long[first..second]]);
            assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [LINE, LINE, 5]);
            assert!(lines[2].ends_with("\\n") && !lines[0].ends_with("\\n"));
        }
        let (lines, _) = logged(&[&[b"a".repeat(LINE), b"\n".to_vec()].concat()]);
        assert_eq!((lines.len(), lines[0].len()), (1, LINE + 2), "a newline that comes along is the record's");
    }
}
