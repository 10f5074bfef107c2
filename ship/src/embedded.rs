//! The finished program inside the library (feature `embed`).

use lzma_rust2::XzReader;
use std::io::{self, Read};

static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shipper.xz"));

/// The program, an ELF executable for the machine of this library.
pub fn program() -> io::Result<Vec<u8>> {
    let mut program = Vec::new();
    XzReader::new(PACKED, false).read_to_end(&mut program)?;
    Ok(program)
}
