//! Decompression by magic, bounded in memory and in what it may swell to.

use crate::error::{Error, Result};
use std::io::{self, BufRead, BufReader, Read};

/// What a stream may swell to: so many bytes in any case ...
const ALWAYS: u64 = 8 << 30;
/// ... and so many times its compressed size.
const RATIO: u64 = 200;
/// Window of a decoder in bytes; xz takes twice that in all.
const WINDOW: u64 = 128 << 20;

/// How a stream is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Bzip2,
    Xz,
    Zstd,
}

impl Compression {
    /// By the first bytes of the stream (six are enough).
    pub(crate) fn of(head: &[u8]) -> Compression {
        match head {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Bzip2,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// The decompressed stream of `input`, whatever its compression; a plain stream passes as it is.
pub(crate) fn reader<'a>(mut input: impl BufRead + 'a) -> Result<Box<dyn Read + 'a>> {
    let compression = Compression::of(peek(&mut input)?);
    decoder(input, compression)
}

/// The decompressed stream of `input`, which is compressed so.
pub(crate) fn decoder<'a>(input: impl BufRead + 'a, compression: Compression) -> Result<Box<dyn Read + 'a>> {
    decoder_within(input, compression, WINDOW)
}

/// The same with a decoder whose window has at most `window` bytes.
pub(crate) fn decoder_within<'a>(
    input: impl BufRead + 'a,
    compression: Compression,
    window: u64,
) -> Result<Box<dyn Read + 'a>> {
    let counted = Counted { input, count: std::rc::Rc::default() };
    let count = counted.count.clone();
    let bounded = |decoder: Box<dyn Read + 'a>| -> Box<dyn Read + 'a> {
        Box::new(Bounded { decoder, consumed: count.clone(), produced: 0 })
    };
    Ok(match compression {
        Compression::None => Box::new(counted),
        Compression::Gzip => bounded(Box::new(flate2::bufread::MultiGzDecoder::new(counted))),
        Compression::Bzip2 => bounded(Box::new(bzip2::bufread::MultiBzDecoder::new(counted))),
        Compression::Xz => {
            // Read byte by byte at places, so buffered once more in front.
            let input = BufReader::new(counted);
            bounded(Box::new(lzma_rust2::XzReader::new_mem_limit(input, true, (window >> 9) as u32)))
        }
        Compression::Zstd => bounded(Box::new(Zstd { input: counted, frame: None, window })),
    })
}

/// The bytes that wait in `input`, at least one unless it ended.
fn peek(input: &mut impl BufRead) -> Result<&[u8]> {
    loop {
        match input.fill_buf() {
            Ok(_) => break,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::from(e)),
        }
    }
    Ok(input.fill_buf()?)
}

/// Counts what its reader takes.
struct Counted<R> {
    input: R,
    count: std::rc::Rc<std::cell::Cell<u64>>,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(out)?;
        self.count.set(self.count.get() + n as u64);
        Ok(n)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }
    fn consume(&mut self, n: usize) {
        self.count.set(self.count.get() + n as u64);
        self.input.consume(n);
    }
}

/// Ends a stream that swells beyond its budget.
struct Bounded<'a> {
    decoder: Box<dyn Read + 'a>,
    consumed: std::rc::Rc<std::cell::Cell<u64>>,
    produced: u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.decoder.read(out)?;
        self.produced += n as u64;
        if self.produced > ALWAYS.saturating_add(self.consumed.get().saturating_mul(RATIO)) {
            return Err(io::Error::other(format!(
                "the compressed data swells from {} to more than {} bytes, which is over the budget",
                self.consumed.get(),
                self.produced
            )));
        }
        Ok(n)
    }
}

/// zstd frame by frame: the crate's decoder stops at the end of one.
struct Zstd<R> {
    input: R,
    frame: Option<ruzstd::decoding::FrameDecoder>,
    window: u64,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
        let bad = |e: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::InvalidData, format!("zstd: {e}"));
        loop {
            match &mut self.frame {
                None => {
                    let Some(magic) = next_frame(&mut self.input)? else { return Ok(0) };
                    let mut frame = FrameDecoder::new();
                    frame.set_max_window_size(self.window);
                    frame.init((&magic[..]).chain(&mut self.input)).map_err(|e| bad(&e))?;
                    self.frame = Some(frame);
                }
                Some(frame) if frame.can_collect() == 0 && frame.is_finished() => {
                    let (want, got) = (frame.get_checksum_from_data(), frame.get_calculated_checksum());
                    if want.is_some() && got.is_some() && want != got {
                        return Err(bad(&"the checksum of a frame is wrong"));
                    }
                    self.frame = None;
                }
                Some(frame) => {
                    if frame.can_collect() == 0 {
                        let some = BlockDecodingStrategy::UptoBytes(out.len());
                        frame.decode_blocks(&mut self.input, some).map_err(|e| bad(&e))?;
                    }
                    let n = frame.read(out)?;
                    if n > 0 || out.is_empty() {
                        return Ok(n);
                    }
                }
            }
        }
    }
}

/// Passes skippable frames; answers the magic of the real one that follows, or `None` at the end.
fn next_frame(input: &mut impl BufRead) -> io::Result<Option<[u8; 4]>> {
    loop {
        if input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut magic = [0; 4];
        input.read_exact(&mut magic)?;
        if !matches!(magic, [0x50..=0x5f, 0x2a, 0x4d, 0x18]) {
            return Ok(Some(magic));
        }
        let mut length = [0; 4];
        input.read_exact(&mut length)?;
        let length = u64::from(u32::from_le_bytes(length));
        if io::copy(&mut input.by_ref().take(length), &mut io::sink())? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn read(data: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        // A tiny buffer, so that every boundary falls inside of something.
        reader(BufReader::with_capacity(7, data)).unwrap().read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn every_form_gives_its_content() {
        let text = b"the same text, the same text, again and again ".repeat(500);
        assert_eq!(read(&text).unwrap(), text);
        let two = [gzip(&text[..1000]), gzip(&text[1000..])].concat();
        assert_eq!(read(&two).unwrap(), text);
        let mut bz = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
        bz.write_all(&text).unwrap();
        assert_eq!(read(&bz.finish().unwrap()).unwrap(), text);
        let frame = ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
        let skippable = [0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9];
        let frames = [&skippable[..], &frame, &skippable, &frame].concat();
        assert_eq!(read(&frames).unwrap(), text.repeat(2));
    }

    #[test]
    fn what_is_cut_or_flipped_is_an_error() {
        let text: Vec<u8> = (0..40_000u32).flat_map(|i| (i * i).to_le_bytes()).collect();
        let whole = gzip(&text);
        assert!(read(&whole[..whole.len() - 9]).is_err());
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x55;
        assert!(read(&flipped).is_err());
        let frame = ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
        assert!(read(&frame[..frame.len() - 9]).is_err());
    }

    #[test]
    fn a_bomb_stops_at_its_budget() {
        struct Endless;
        impl Read for Endless {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                Ok(out.len())
            }
        }
        let mut bounded = Bounded { decoder: Box::new(Endless), consumed: Default::default(), produced: ALWAYS - 10 };
        assert!(bounded.read(&mut [0; 10]).is_ok());
        assert!(bounded.read(&mut [0; 10]).is_err());
    }
}
