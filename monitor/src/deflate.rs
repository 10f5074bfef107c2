//! gzip, for the files that a rotation left: a child of the monitor compresses them (`program/gzip.rs`).
//!
//! The output is one deflate block with the fixed codes of the format. A table says where each four bytes were last
//! seen, for matches. The lines of a log repeat each other, so this shrinks them to a quarter, without tables of codes.

/// An error number.
type Result<T> = core::result::Result<T, i32>;

/// How far back a match may begin, and how long it may be.
const WINDOW: usize = 32 * 1024;
const LONGEST: usize = 258;
const SHORTEST: usize = 4;
/// Bits of the table's index.
const HASH: u32 = 15;
/// Bytes of the output that is gathered before a write, and of the table of places.
pub const BUFFER: usize = 64 * 1024;
pub const TABLE: usize = 4 << HASH;

/// Gives `input`, compressed, to `write`, with a buffer of [`BUFFER`] and a table of [`TABLE`] bytes, all zero.
#[inline(never)]
pub fn compress(
    input: &[u8],
    buffer: &mut [u8],
    table: &mut [u8],
    write: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut out = Bits { write, buffer, used: 0, bits: 0, count: 0, result: Ok(()) };
    for byte in [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255] {
        out.byte(byte);
    }
    // The last block, of fixed codes.
    out.put(0b011, 3);
    deflate(input, table, &mut out);
    out.code(0, 7);
    out.whole_bytes();
    for word in [checksum(input), input.len() as u32] {
        word.to_le_bytes().into_iter().for_each(|byte| out.byte(byte));
    }
    out.flush();
    out.result
}

fn deflate(input: &[u8], table: &mut [u8], out: &mut Bits) {
    let mut at = 0;
    // Positions count modulo 2^32, because a match must lie within the window anyway.
    while at + SHORTEST <= input.len() && out.result.is_ok() {
        let length = match find(input, at, table) {
            Some((length, distance)) => {
                out.repeat(length, distance);
                length
            }
            None => {
                out.literal(input[at]);
                1
            }
        };
        // Some places within a match are kept, too: the next line's match may begin at one of them.
        for place in (at + 1..at + length).step_by(3) {
            if place + SHORTEST <= input.len() {
                let slot = slot(table, input, place);
                slot.copy_from_slice(&(place as u32).to_ne_bytes());
            }
        }
        at += length;
    }
    input[at..].iter().for_each(|&byte| out.literal(byte));
}

/// The longest earlier match of the bytes at `at`: length and distance. Notes the place.
#[inline(never)]
fn find(input: &[u8], at: usize, table: &mut [u8]) -> Option<(usize, usize)> {
    let slot = slot(table, input, at);
    let before = u32::from_ne_bytes([slot[0], slot[1], slot[2], slot[3]]);
    slot.copy_from_slice(&(at as u32).to_ne_bytes());
    let distance = (at as u32).wrapping_sub(before) as usize;
    if distance == 0 || distance > WINDOW || distance > at {
        return None;
    }
    let most = LONGEST.min(input.len() - at);
    let (old, new) = (&input[at - distance..], &input[at..at + most]);
    let length = new.iter().zip(old).take_while(|(a, b)| a == b).count();
    (length >= SHORTEST).then_some((length, distance))
}

/// The table's place for the four bytes at `at`.
#[inline(never)]
fn slot<'a>(table: &'a mut [u8], input: &[u8], at: usize) -> &'a mut [u8] {
    let word = u32::from_le_bytes([input[at], input[at + 1], input[at + 2], input[at + 3]]);
    let index = (word.wrapping_mul(0x9e37_79b1) >> (32 - HASH)) as usize * 4;
    &mut table[index..index + 4]
}

/// Bits, the first one lowest, on their way to a file.
struct Bits<'a> {
    write: &'a mut dyn FnMut(&[u8]) -> Result<()>,
    buffer: &'a mut [u8],
    used: usize,
    bits: u64,
    count: u32,
    result: Result<()>,
}

impl Bits<'_> {
    #[inline(never)]
    fn literal(&mut self, byte: u8) {
        match u32::from(byte) {
            byte @ 0..144 => self.code(0x30 + byte, 8),
            byte => self.code(0x190 + byte - 144, 9),
        }
    }

    /// A match. Lengths and distances come in classes: twice as large, one more bit after the class.
    #[inline(never)]
    fn repeat(&mut self, length: usize, distance: usize) {
        let (class, extra, bits) = match length as u32 - 3 {
            255 => (28, 0, 0),
            small @ 0..8 => (small, 0, 0),
            value => {
                let bits = value.ilog2() - 2;
                (4 * bits + (value >> bits), value & ((1 << bits) - 1), bits)
            }
        };
        if class < 23 {
            self.code(class + 1, 7)
        } else {
            self.code(0xc0 + class - 23, 8)
        }
        self.put(extra, bits);
        let (class, extra, bits) = match distance as u32 - 1 {
            small @ 0..4 => (small, 0, 0),
            value => {
                let bits = value.ilog2() - 1;
                (2 * bits + (value >> bits), value & ((1 << bits) - 1), bits)
            }
        };
        self.code(class, 5);
        self.put(extra, bits);
    }

    /// A code: its highest bit comes first.
    #[inline(never)]
    fn code(&mut self, code: u32, length: u32) {
        self.put(code.reverse_bits() >> (32 - length), length);
    }

    #[inline(never)]
    fn put(&mut self, value: u32, count: u32) {
        self.bits |= u64::from(value) << self.count;
        self.count += count;
        if self.count >= 32 {
            if self.used + 4 > self.buffer.len() {
                self.flush();
            }
            self.buffer[self.used..self.used + 4].copy_from_slice(&(self.bits as u32).to_le_bytes());
            self.used += 4;
            self.bits >>= 32;
            self.count -= 32;
        }
    }

    /// Fills the last byte with zeros.
    fn whole_bytes(&mut self) {
        let count = self.count.div_ceil(8) as usize;
        self.count = 0;
        let bytes = core::mem::take(&mut self.bits).to_le_bytes();
        bytes.into_iter().take(count).for_each(|byte| self.byte(byte));
    }

    #[inline(never)]
    fn byte(&mut self, byte: u8) {
        if self.used == self.buffer.len() {
            self.flush();
        }
        self.buffer[self.used] = byte;
        self.used += 1;
    }

    #[inline(never)]
    fn flush(&mut self) {
        let used = core::mem::take(&mut self.used);
        if self.result.is_ok() {
            self.result = (self.write)(&self.buffer[..used]);
        }
    }
}

/// CRC-32 as gzip has it, a table's entry a byte.
#[inline(never)]
fn checksum(data: &[u8]) -> u32 {
    let mut table = [0u32; 256];
    for (index, entry) in table.iter_mut().enumerate() {
        *entry = (0..8).fold(index as u32, |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 });
    }
    !data.iter().fold(!0u32, |crc, &byte| crc >> 8 ^ table[(crc as u8 ^ byte) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::inflate;

    fn compressed_by(room: usize, input: &[u8]) -> Vec<u8> {
        let (mut buffer, mut table, mut out) = (vec![0; room], vec![0; TABLE], Vec::new());
        let done = compress(input, &mut buffer, &mut table, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        });
        assert_eq!(done, Ok(()));
        out
    }

    fn restored(file: &[u8]) -> Vec<u8> {
        inflate(&file[10..file.len() - 8]).expect("one block of fixed codes")
    }

    #[test]
    fn an_empty_file_is_a_header_an_empty_block_and_zeros() {
        let expected = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(compressed_by(BUFFER, b""), expected);
    }

    #[test]
    fn the_checksum_is_that_of_gzip() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
        let file = compressed_by(BUFFER, b"123456789");
        assert_eq!(file[file.len() - 8..], [0x26, 0x39, 0xf4, 0xcb, 9, 0, 0, 0]);
    }

    #[test]
    fn matches_of_every_length_are_restored() {
        for length in 0..=2 * LONGEST + 2 {
            let input = [b"-".repeat(length), b"end".to_vec()].concat();
            assert_eq!(restored(&compressed_by(BUFFER, &input)), input, "{length}");
        }
        // The longest one has a code of its own: 3 bits of the block's head, 8 of the literal, 8 + 5 of the match, 7 of the end.
        assert_eq!(compressed_by(BUFFER, &[b'-'; 1 + LONGEST]).len(), 10 + 4 + 8);
        let lines = b"{\"log\":\"the same line\\n\",\"stream\":\"stdout\"}\n".repeat(1000);
        assert!(compressed_by(BUFFER, &lines).len() < lines.len() / 50);
    }

    #[test]
    fn matches_reach_to_the_edge_of_the_window_and_not_beyond() {
        // The table notes each four bytes of the word once, and the zeros in one other place.
        let word = b"ABCDEFGHIJKL".as_slice();
        let size = |distance: usize| {
            let input = [word, &vec![0; distance - word.len()], word].concat();
            let file = compressed_by(BUFFER, &input);
            assert_eq!(restored(&file), input, "{distance}");
            file.len()
        };
        assert!(size(WINDOW) < size(WINDOW + 1));
    }

    #[test]
    fn every_byte_and_a_small_buffer_give_the_same_file() {
        let all: Vec<u8> = (0..=255).rev().chain(0..=255).collect();
        let file = compressed_by(BUFFER, &all);
        assert_eq!(restored(&file), all);
        assert_eq!(compressed_by(8, &all), file);
    }

    #[test]
    fn the_first_failed_write_is_the_answer() {
        let (mut buffer, mut table, mut count) = (vec![0; 8], vec![0; TABLE], 0);
        let done = compress(&[7; 4000], &mut buffer, &mut table, &mut |_| {
            count += 1;
            if count == 2 { Err(28) } else { Ok(()) }
        });
        assert_eq!((done, count), (Err(28), 2));
    }
}
