//! The json-file log: one JSON object a line of output, as dockerd writes it.
//!
//! A line longer than 16 KiB becomes several records, of which only the last ends with a newline. One write(2) a chunk of
//! output. Before a record, a file that has reached its bound gives way to the next one (`rotate`): so a file is at most
//! one record longer than its bound.

use crate::logfile::LogFile;
use crate::sys::{self, *};
use crate::text;
use core::sync::atomic::{AtomicU64, Ordering};
use lines::{Around, find_newline, newlines};

const LINE: usize = 16 * 1024;
/// Six times the longest line, and room for what stands around it; attributes come on top.
const OUT: usize = 6 * LINE + 48 * 1024;

pub struct Log {
    pub file: LogFile,
    attrs: &'static [u8],
    out: Option<&'static mut [u8]>,
    used: usize,
    /// Records that could not be written.
    pub lost: u64,
    /// How many records are on their way of each stream: they are lost with this process, and counted by the launcher.
    pub under_way: Option<&'static [AtomicU64; 2]>,
    /// The begun line of each stream.
    partial: [Partial; 2],
}

struct Partial {
    line: Option<&'static mut [u8]>,
    length: usize,
}

impl Log {
    /// # Safety
    /// `place` is valid for writing, and nothing refers to it.
    pub unsafe fn init(place: *mut Log) {
        const NONE: Partial = Partial { line: None, length: 0 };
        let fresh =
            Log { file: LogFile::NONE, attrs: b"", out: None, used: 0, lost: 0, under_way: None, partial: [NONE; 2] };
        // SAFETY: the caller's contract.
        unsafe { place.write(fresh) };
    }

    /// Before the first chunk.
    pub fn begin(&mut self) -> Result<()> {
        self.lost = 0;
        self.out = Some(sys::map_memory(OUT + self.attrs.len())?);
        for partial in &mut self.partial {
            partial.line = Some(sys::map_memory(LINE)?);
        }
        Ok(())
    }

    pub fn set_attributes(&mut self, attrs: &'static [u8]) {
        self.attrs = attrs;
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

    /// Logs a chunk of a stream (0 stdout, 1 stderr).
    pub fn chunk(&mut self, stream: usize, mut data: &[u8]) {
        let mut time = [0u8; 30];
        text::rfc3339(&mut time, sys::now());
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
    pub fn end(&mut self, stream: usize) {
        if self.partial[stream].length > 0 {
            let mut time = [0u8; 30];
            text::rfc3339(&mut time, sys::now());
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
            if self.file.is_full(0) {
                // Nothing is gathered: its place serves the rotation.
                self.file.rotate(self.out.as_deref_mut().unwrap_or(&mut []));
            }
        }
        let room = lines::room(line.len(), self.attrs.len());
        if self.used + room > OUT + self.attrs.len() {
            self.flush();
        }
        let attrs = self.attrs;
        let Some(out) = self.out.as_mut() else { return };
        self.used += lines::record(&mut out[self.used..], line, whole, Around { stderr: stream != 0, attrs, time });
    }

    /// Writes what is gathered. A disk that is full loses records, not the container; they are counted.
    fn flush(&mut self) {
        let used = core::mem::take(&mut self.used);
        if let (true, Some(out)) = (used > 0, self.out.as_ref()) {
            self.lost += self.file.append(&out[..used]);
        }
    }
}
