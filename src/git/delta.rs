//! Objects that are told as their difference to another: a list of pieces to copy, and of bytes to insert.

use super::pack::Output;
use crate::error::{Error, Result};
use std::fs::File;
use std::io::BufRead;
use std::os::unix::fs::FileExt;

/// An object whose bytes can be copied from anywhere.
pub(super) struct Body<'a> {
    pub(super) file: &'a File,
    pub(super) offset: u64,
    pub(super) size: u64,
    /// All of it, if that is little.
    pub(super) memory: Option<Vec<u8>>,
}

impl Body<'_> {
    fn copy(&self, offset: u64, size: u64, output: &mut Output<'_, '_>) -> Result<()> {
        let end = offset.checked_add(size).filter(|end| *end <= self.size).ok_or_else(damaged)?;
        if let Some(memory) = &self.memory {
            return output.write(memory.get(offset as usize..end as usize).ok_or_else(damaged)?);
        }
        let (mut at, mut buffer) = (offset, [0; 16 << 10]);
        while at < end {
            let piece = &mut buffer[..(end - at).min(16 << 10) as usize];
            self.file.read_exact_at(piece, self.offset + at).map_err(|e| Error::io("read a pack", &e))?;
            output.write(piece)?;
            at += piece.len() as u64;
        }
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
                base.copy(offset.into(), if size == 0 { 0x10000 } else { size.into() }, output)?;
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
