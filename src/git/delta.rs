//! Objects that are stored as their difference to another: a list of pieces to copy, and of bytes to insert.

use super::output::{Body, Output};
use crate::error::{Error, Result};
use std::io::BufRead;
use std::os::unix::fs::FileExt;

/// The part of a base on disk that was read last: pieces of a delta are small, and mostly stand in the order of the
/// base.
struct Window<'a> {
    base: &'a Body<'a>,
    at: u64,
    bytes: Vec<u8>,
}

/// Where the pieces jump, no more than a page is read for each.
const SMALLEST: u64 = 4 << 10;
const LARGEST: u64 = 64 << 10;

impl Window<'_> {
    fn copy(&mut self, offset: u64, size: u64, output: &mut Output<'_, '_>) -> Result<()> {
        let end = offset.checked_add(size).filter(|end| *end <= self.base.size).ok_or_else(damaged)?;
        if let Some(memory) = &self.base.memory {
            return output.write(memory.get(offset as usize..end as usize).ok_or_else(damaged)?);
        }
        let mut at = offset;
        while at < end {
            if !(self.at..self.end()).contains(&at) {
                self.read(at, end - at)?;
            }
            let until = end.min(self.end());
            output.write(&self.bytes[(at - self.at) as usize..(until - self.at) as usize])?;
            at = until;
        }
        Ok(())
    }

    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Reads on from `at`, of which `wanted` bytes are needed: the more, the longer the pieces follow each other.
    fn read(&mut self, at: u64, wanted: u64) -> Result<()> {
        let follows = (self.end()..self.end() + SMALLEST).contains(&at);
        let ahead = if follows { 2 * self.bytes.len() as u64 } else { 0 };
        let size = ahead.max(wanted).clamp(SMALLEST, LARGEST).min(self.base.size - at);
        self.bytes.resize(size as usize, 0);
        let read = self.base.file.read_exact_at(&mut self.bytes, self.base.offset + at);
        read.map_err(|e| Error::io("read a pack", &e))?;
        self.at = at;
        Ok(())
    }
}

pub(super) fn damaged() -> Error {
    Error::internal("the pack has a damaged delta")
}

/// Reads the two sizes at the beginning of a delta: that of its base, and that of its result.
pub(super) fn sizes(delta: &mut impl BufRead) -> Result<(u64, u64)> {
    let mut number = || -> Result<u64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = byte(delta)?.filter(|_| shift <= 56).ok_or_else(damaged)?;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
    };
    Ok((number()?, number()?))
}

/// Does what a delta says, behind its sizes.
pub(super) fn apply(delta: &mut impl BufRead, base: &Body<'_>, output: &mut Output<'_, '_>) -> Result<()> {
    let mut window = Window { base, at: 0, bytes: Vec::new() };
    while let Some(code) = byte(delta)? {
        match code {
            0 => return Err(damaged()),
            1..=0x7f => insert(delta, usize::from(code), output)?,
            _ => {
                let mut parts = [0u8; 7];
                for (bit, part) in parts.iter_mut().enumerate() {
                    if code & 1 << bit != 0 {
                        *part = byte(delta)?.ok_or_else(damaged)?;
                    }
                }
                let [a, b, c, d, x, y, z] = parts;
                let (offset, size) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([x, y, z, 0]));
                window.copy(offset.into(), if size == 0 { 0x10000 } else { size.into() }, output)?;
            }
        }
    }
    Ok(())
}

fn insert(delta: &mut impl BufRead, count: usize, output: &mut Output<'_, '_>) -> Result<()> {
    let mut bytes = [0; 0x7f];
    delta.read_exact(&mut bytes[..count]).map_err(|_| damaged())?;
    output.write(&bytes[..count])
}

fn byte(input: &mut impl BufRead) -> Result<Option<u8>> {
    let mut byte = [0];
    match input.read(&mut byte) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(byte[0])),
        Err(_) => Err(damaged()),
    }
}
