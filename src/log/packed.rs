//! A compressed file of a log, which can only be read from start to end.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufReader, Read, Seek};

/// Bytes that are read at a time.
const BLOCK: usize = 64 << 10;

pub(super) struct Packed {
    content: MultiGzDecoder<BufReader<File>>,
    /// Bytes that were unpacked and not read yet: `rest[at..]`.
    rest: Vec<u8>,
    at: usize,
    /// The content ended too early, or was never valid.
    pub(super) damaged: bool,
}

impl Packed {
    /// Reads from the file's start, wherever other descriptors of it stand.
    pub(super) fn new(mut file: File) -> Packed {
        let damaged = file.rewind().is_err();
        let content = MultiGzDecoder::new(BufReader::with_capacity(BLOCK, file));
        Packed { content, rest: Vec::new(), at: 0, damaged }
    }

    /// Appends the next bytes to `window`, at most `count`; returns how many.
    pub(super) fn read(&mut self, count: usize, window: &mut Vec<u8>) -> usize {
        if self.at == self.rest.len() {
            self.unpack();
        }
        let part = &self.rest[self.at..];
        let part = &part[..part.len().min(count)];
        window.extend_from_slice(part);
        self.at += part.len();
        part.len()
    }

    /// Skips this many lines.
    pub(super) fn skip(&mut self, mut lines: u64) {
        while lines > 0 {
            if self.at == self.rest.len() && !self.unpack() {
                return;
            }
            match memchr::memchr(b'\n', &self.rest[self.at..]) {
                Some(length) => {
                    self.at += length + 1;
                    lines -= 1;
                }
                None => self.at = self.rest.len(),
            }
        }
    }

    /// The number of remaining lines.
    pub(super) fn lines(mut self) -> u64 {
        let mut lines = 0;
        while self.unpack() {
            lines += memchr::memchr_iter(b'\n', &self.rest).count() as u64;
        }
        lines
    }

    fn unpack(&mut self) -> bool {
        self.rest.resize(BLOCK, 0);
        self.at = 0;
        let got = self.content.read(&mut self.rest);
        self.damaged |= got.is_err();
        self.rest.truncate(got.unwrap_or(0));
        !self.rest.is_empty()
    }
}
