//! Writes gzip into a file; `src/deflate.rs` makes the codes.

use crate::deflate::{self, BUFFER, TABLE};
use crate::sys::{self, Result};

/// Writes `input`, compressed, to the file `output`.
pub fn compress(input: &[u8], output: i32) -> Result<()> {
    let (buffer, table) = (sys::map_memory(BUFFER)?, sys::map_memory(TABLE)?);
    deflate::compress(input, buffer, table, &mut |bytes| sys::write_all(output, bytes))
}
