//! Decompression by magic, bounded in memory and in what it may swell to.

use super::layer::recipe::Packer;
use crate::error::{Error, Result};
use crate::walls::Wall;
use parking_lot::{Condvar, Mutex};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read};

/// A stream may swell to so many bytes in any case ...
const ALWAYS: u64 = 8 << 30;
/// ... and so many times its compressed size.
const RATIO: u64 = 200;
/// Windows of all decoders of one operation together, in bytes: a larger one is alone.
const TOGETHER: u64 = 32 << 20;
/// Memory that an xz decoder needs beside its dictionary, in KiB.
const XZ_OWN: u64 = 1024;

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

/// Has the decoders of an operation that work at the same time wait for each other where their windows (what they keep
/// of their output, to refer back to) would be too large together.
pub(crate) struct Gate {
    taken: Mutex<u64>,
    ended: Condvar,
    /// A decoder that is done, with its memory: one that is freed may stay the process's, and the next one's comes
    /// atop.
    spare: Mutex<Option<FrameDecoder>>,
    /// Compressors of recipes, used again: a few hundred small layers would each leave the memory of one.
    pub(crate) packers: Mutex<Vec<Packer>>,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate { taken: Mutex::new(0), ended: Condvar::new(), spare: Mutex::new(None), packers: Mutex::default() }
    }

    /// Waits until there is room for a window.
    fn enter(&self, window: u64) -> Turn<'_> {
        let bytes = window.min(TOGETHER);
        let mut taken = self.taken.lock();
        while *taken + bytes > TOGETHER {
            self.ended.wait(&mut taken);
        }
        *taken += bytes;
        Turn { gate: self, bytes }
    }
}

/// The room of one decoder; given back when dropped, also where it panics.
struct Turn<'a> {
    gate: &'a Gate,
    bytes: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.gate.taken.lock() -= self.bytes;
        self.gate.ended.notify_all();
    }
}

/// The decompressed stream of `input`, whatever its compression; a plain stream passes as it is. Its decoder's window
/// has at most `window` bytes.
pub(crate) fn reader<'a>(mut input: impl BufRead + 'a, window: u64) -> Result<Box<dyn Read + 'a>> {
    let compression = Compression::of(peek(&mut input)?);
    decoder(input, compression, window, None)
}

/// The decompressed stream of `input`, which is compressed so. With a gate it waits for its turn where its window is
/// large.
pub(crate) fn decoder<'a>(
    input: impl BufRead + 'a,
    compression: Compression,
    window: u64,
    gate: Option<&'a Gate>,
) -> Result<Box<dyn Read + 'a>> {
    #[cfg(feature = "attacks")]
    if !Wall::NoHostPrograms.stands() && compression != Compression::None {
        std::process::Command::new("xz").arg("--version").stdout(std::process::Stdio::null()).status()?;
    }
    let window = if Wall::ArchiveWindows.stands() { window } else { 128 << 20 };
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
            let most = u32::try_from((window >> 10) + XZ_OWN).unwrap_or(u32::MAX);
            let decoder = lzma_rust2::XzReader::new_mem_limit(input, true, most);
            bounded(Box::new(Xz { decoder, window, _turn: gate.map(|gate| gate.enter(TOGETHER)) }))
        }
        Compression::Zstd => bounded(Box::new(Zstd { input: counted, frame: None, window, turn: None, gate })),
    })
}

/// The error of a stream that asks for a larger window than it may have.
fn too_large(form: &str, window: u64) -> io::Error {
    let most = window >> 20;
    let text =
        format!("{form}: it was compressed with a dictionary (window) of more than {most} MiB, which is the most here");
    io::Error::new(io::ErrorKind::InvalidData, text)
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
        let budget = ALWAYS.saturating_add(self.consumed.get().saturating_mul(RATIO));
        if self.produced > budget && Wall::ArchiveSwelling.stands() {
            return Err(io::Error::other(format!(
                "the compressed data swells from {} to more than {} bytes, which is over the budget",
                self.consumed.get(),
                self.produced
            )));
        }
        Ok(n)
    }
}

/// xz with an error that says what was too much.
struct Xz<'a, R: Read> {
    decoder: lzma_rust2::XzReader<R>,
    window: u64,
    _turn: Option<Turn<'a>>,
}

impl<R: Read> Read for Xz<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(out).map_err(|error| match error.kind() {
            io::ErrorKind::OutOfMemory => too_large("xz", self.window),
            _ => error,
        })
    }
}

/// zstd frame by frame: the crate's decoder stops at the end of one.
struct Zstd<'a, R> {
    input: R,
    frame: Option<FrameDecoder>,
    window: u64,
    turn: Option<Turn<'a>>,
    gate: Option<&'a Gate>,
}

impl<R: BufRead> Zstd<'_, R> {
    /// Begins the next frame; `false`: there is none.
    fn begin(&mut self) -> io::Result<bool> {
        let Some(mut head) = next_frame(&mut self.input)?.map(Vec::from) else { return Ok(false) };
        let window = frame_window(&mut self.input, &mut head)?;
        if window > self.window {
            return Err(too_large("zstd", self.window));
        }
        self.turn = self.gate.map(|gate| gate.enter(window));
        let spare = self.gate.and_then(|gate| gate.spare.lock().take());
        let mut frame = spare.unwrap_or_default();
        frame.set_max_window_size(self.window);
        frame.reset(&head[..]).map_err(|e| bad_zstd(&e))?;
        self.frame = Some(frame);
        Ok(true)
    }
}

impl<R: BufRead> Read for Zstd<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match &mut self.frame {
                None => {
                    if !self.begin()? {
                        return Ok(0);
                    }
                }
                Some(frame) if frame.can_collect() == 0 && frame.is_finished() => {
                    let (want, got) = (frame.get_checksum_from_data(), frame.get_calculated_checksum());
                    if want.is_some() && got.is_some() && want != got {
                        return Err(bad_zstd(&"the checksum of a frame is wrong"));
                    }
                    self.turn = None;
                    match self.gate {
                        Some(gate) => *gate.spare.lock() = self.frame.take(),
                        None => self.frame = None,
                    }
                }
                Some(frame) => {
                    if frame.can_collect() == 0 {
                        // Block by block: with more than one the decoder's buffer grows to twice its window.
                        let one = BlockDecodingStrategy::UptoBlocks(1);
                        frame.decode_blocks(&mut self.input, one).map_err(|e| bad_zstd(&e))?;
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

fn bad_zstd(error: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("zstd: {error}"))
}

/// Reads a frame's header behind its magic, to the end of `head`; answers the window that it asks for.
fn frame_window(input: &mut impl Read, head: &mut Vec<u8>) -> io::Result<u64> {
    let mut take = |count: usize| -> io::Result<u64> {
        let mut bytes = [0; 8];
        input.read_exact(&mut bytes[..count])?;
        head.extend_from_slice(&bytes[..count]);
        Ok(u64::from_le_bytes(bytes))
    };
    let descriptor = take(1)?;
    let is_one_segment = descriptor & 0x20 != 0;
    let window = if is_one_segment { None } else { Some(take(1)?) };
    take([0, 1, 2, 4][(descriptor & 3) as usize])?;
    // The size of the content; where there is one segment, it is the window too.
    let size = match descriptor >> 6 {
        0 if !is_one_segment => 0,
        0 => take(1)?,
        1 => take(2)? + 256,
        2 => take(4)?,
        _ => take(8)?,
    };
    Ok(match window {
        None => size,
        Some(window) => {
            let base = 1u64 << (10 + (window >> 3));
            base + base / 8 * (window & 7)
        }
    })
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
        reader(BufReader::with_capacity(7, data), 8 << 20).unwrap().read_to_end(&mut out)?;
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
    fn a_cut_or_a_flipped_bit_is_an_error() {
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

    /// A frame of `window` bytes with one block of four bytes that are the same.
    fn frame(window: u8) -> Vec<u8> {
        [&[0x28, 0xb5, 0x2f, 0xfd, 0, window][..], &[1 | 1 << 1 | 4 << 3, 0, 0, b'x']].concat()
    }

    #[test]
    fn windows_are_bounded() {
        // 8 MiB; an eighth more; the largest that there is.
        assert_eq!(read(&frame(13 << 3)).unwrap(), b"xxxx");
        for window in [13 << 3 | 1, 0xff] {
            let error = read(&frame(window)).unwrap_err().to_string();
            assert!(error.contains("more than 8 MiB"), "{error}");
        }
        // Of one segment: the content's size is the window.
        let whole = [&[0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x10][..], &[1, 0, 0]].concat();
        assert!(read(&whole).unwrap_err().to_string().contains("more than 8 MiB"));
        // The head of an xz file whose block has a dictionary of 64 MiB, as `xz -9` writes it.
        let xz = [
            0xfdu8, b'7', b'z', b'X', b'Z', 0, 0, 4, 0xe6, 0xd6, 0xb4, 0x46, 2, 0, 0x21, 1, 28, 0, 0, 0, 0x10, 0xcf,
            0x58, 0xcc, 1, 0, 0, b'x',
        ];
        assert!(read(&xz).unwrap_err().to_string().contains("xz: it was compressed with a dictionary"));
    }

    #[test]
    fn large_windows_wait_for_each_other() {
        let (gate, order) = (Gate::new(), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            let first = [gate.enter(TOGETHER / 2), gate.enter(TOGETHER / 4)];
            let waiting = scope.spawn(|| {
                // This decoder runs alone whatever its size.
                let _turn = gate.enter(TOGETHER * 4);
                order.lock().push("last");
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            order.lock().push("first");
            drop(first);
            waiting.join().unwrap();
        });
        assert_eq!((order.into_inner(), *gate.taken.lock()), (vec!["first", "last"], 0));
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
