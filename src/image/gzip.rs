//! Writing gzip, fast also where nothing is to be gained: what other formats compressed already (pictures, archives,
//! packages) is stored as it is.
//!
//! The stream is one member. Its pieces are either deflated or stored; between the two the deflater ends its blocks at
//! a byte's border and forgets what it saw, so that nothing refers back across a stored piece.

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use std::io::{self, Write};

/// Bytes about which one decision is made.
const PIECE: usize = 64 << 10;
/// The most that one stored block holds.
const STORED: usize = 65535;
/// How much of a piece is tried where its bytes look even.
const TRIED: usize = 4 << 10;
/// A member, deflate, no name and no time, of an unknown system.
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Takes bytes, and gives their gzip form to `out`: the same for the same bytes, whatever pieces they come in.
pub(super) struct Gzip<W> {
    out: W,
    deflate: Compress,
    /// The deflater has seen something since it began anew.
    is_open: bool,
    /// Tries what stored pieces would become.
    trial: Compress,
    piece: Vec<u8>,
    made: Vec<u8>,
    crc: Crc,
}

impl<W: Write> Gzip<W> {
    /// `level`: of compression, from 1 to 9.
    pub(super) fn new(out: W, level: u32) -> Gzip<W> {
        Gzip {
            out,
            deflate: Compress::new(Compression::new(level), false),
            is_open: false,
            trial: Compress::new(Compression::new(1), false),
            piece: Vec::with_capacity(PIECE),
            made: HEAD.to_vec(),
            crc: Crc::new(),
        }
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        while !bytes.is_empty() {
            let n = bytes.len().min(PIECE - self.piece.len());
            self.piece.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if self.piece.len() == PIECE {
                self.piece()?;
            }
        }
        Ok(())
    }

    /// Ends the stream; answers where it went.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.piece()?;
        if self.is_open {
            self.deflate(&[], FlushCompress::Finish)?;
        } else {
            self.made.extend_from_slice(&[1, 0, 0, 0xff, 0xff]);
        }
        self.made.extend_from_slice(&self.crc.sum().to_le_bytes());
        self.made.extend_from_slice(&self.crc.amount().to_le_bytes());
        self.hand_on()?;
        Ok(self.out)
    }

    fn piece(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        if self.is_dense(&piece)? {
            self.store(&piece)?;
        } else if !piece.is_empty() {
            self.is_open = true;
            self.deflate(&piece, FlushCompress::None)?;
        }
        self.piece = piece;
        self.piece.clear();
        self.hand_on()
    }

    /// Whether deflating would gain next to nothing.
    fn is_dense(&mut self, piece: &[u8]) -> io::Result<bool> {
        if piece.len() < TRIED || !is_even(piece) {
            return Ok(false);
        }
        // Bytes may be even and follow each other in a pattern.
        let tried = &piece[(piece.len() - TRIED) / 2..][..TRIED];
        let mut room = [0; TRIED + 512];
        self.trial.reset();
        self.trial.compress(tried, &mut room, FlushCompress::Finish)?;
        Ok(self.trial.total_out() > (TRIED - TRIED / 32) as u64)
    }

    fn store(&mut self, piece: &[u8]) -> io::Result<()> {
        if std::mem::take(&mut self.is_open) {
            self.deflate(&[], FlushCompress::Sync)?;
            self.deflate.reset();
        }
        for block in piece.chunks(STORED) {
            // Not the last one; of this kind; how long, twice.
            let length = (block.len() as u16).to_le_bytes();
            self.made.extend_from_slice(&[0, length[0], length[1], !length[0], !length[1]]);
            self.made.extend_from_slice(block);
        }
        Ok(())
    }

    fn deflate(&mut self, mut bytes: &[u8], flush: FlushCompress) -> io::Result<()> {
        loop {
            self.made.reserve(PIECE / 4);
            let before = self.deflate.total_in();
            let status = self.deflate.compress_vec(bytes, &mut self.made, flush)?;
            bytes = &bytes[(self.deflate.total_in() - before) as usize..];
            let has_room = self.made.len() < self.made.capacity();
            match flush {
                FlushCompress::Finish if status == Status::StreamEnd => return Ok(()),
                FlushCompress::Finish => {}
                // Where room is left, there is nothing more to come.
                _ if bytes.is_empty() && has_room => return Ok(()),
                _ => {}
            }
        }
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.made)?;
        self.made.clear();
        Ok(())
    }
}

/// Whether every byte is about as frequent as any other, going by a part of the piece.
fn is_even(piece: &[u8]) -> bool {
    let mut counts = [0u32; 256];
    let mut seen = 0u64;
    for part in piece.chunks(4 << 10).step_by(3) {
        let part = &part[..part.len().min(1 << 10)];
        part.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        seen += part.len() as u64;
    }
    let squares: u64 = counts.iter().map(|count| u64::from(*count).pow(2)).sum();
    // By chance one would expect `seen + seen² / 256`.
    squares * 256 < (seen * 256 + seen * seen) * 9 / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    fn packed(pieces: &[&[u8]]) -> Vec<u8> {
        let mut gzip = Gzip::new(Vec::new(), 4);
        pieces.iter().for_each(|piece| gzip.write(piece).unwrap());
        gzip.finish().unwrap()
    }

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        // One member, and nothing behind it.
        let mut decoder = flate2::bufread::GzDecoder::new(packed);
        decoder.read_to_end(&mut all).unwrap();
        assert!(decoder.into_inner().is_empty());
        all
    }

    #[test]
    fn everything_comes_back() {
        let text: Vec<u8> = (0..60_000u32).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let random = noise(1, 700_000);
        let mixed = [&text[..100_001], &random[..333_333], &text, &random, b"end"].concat();
        let counting: Vec<u8> = (0..500_000u32).map(|n| n as u8).collect();
        for (content, most) in [
            (&b""[..], 30),
            (b"x", 40),
            (&text, text.len() / 3),
            (&random, random.len() + random.len() / 1000),
            (&mixed, mixed.len() - text.len() / 2),
            // Even, and yet to be deflated.
            (&counting, counting.len() / 20),
            (&random[..PIECE], PIECE + 50),
        ] {
            let made = packed(&[content]);
            assert!(unpacked(&made) == content, "{} bytes", content.len());
            assert!(made.len() <= most, "{} of {} bytes, at most {most}", made.len(), content.len());
            for size in [1000, 65_536, 100_003] {
                let pieces: Vec<&[u8]> = content.chunks(size).collect();
                assert!(packed(&pieces) == made, "in pieces of {size}");
            }
        }
    }
}
