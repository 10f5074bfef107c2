//! Text that the C caller is to own: NUL-terminated, in memory from malloc.

use crate::failure::{Failure, Outcome};
use engine::ErrorKind;
use libc::c_char;
use serde::Serialize;
use std::ffi::CString;
use std::io::Write;

/// Room for a small document at once.
const DOCUMENT: usize = 1024;

/// The text, until the caller has it.
pub(crate) struct Text(Block);

impl Text {
    /// A copy of `text`.
    pub(crate) fn new(text: &str) -> Outcome<Text> {
        let mut block = Block::default();
        block.write_all(text.as_bytes()).and_then(|()| block.write_all(&[0])).map_err(|_| out_of_memory())?;
        Ok(Text(block))
    }

    /// The JSON text of a document.
    pub(crate) fn json(document: &impl Serialize) -> Outcome<Text> {
        let mut block = Block::default();
        block.grow(DOCUMENT).map_err(|_| out_of_memory())?;
        let written = serde_json::to_writer(&mut block, document).map_err(std::io::Error::from);
        written.and_then(|()| block.write_all(&[0])).map_err(|error| match error.kind() {
            std::io::ErrorKind::OutOfMemory => out_of_memory(),
            _ => Failure::new(ErrorKind::Internal, format!("writing JSON: {error}")),
        })?;
        Ok(Text(block))
    }

    /// The caller's pointer.
    pub(crate) fn into_raw(mut self) -> *mut c_char {
        std::mem::replace(&mut self.0.start, std::ptr::null_mut()).cast()
    }
}

/// The text without NULs, which no message of ours has and a foreign name in it may.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Memory from malloc that is being filled.
struct Block {
    start: *mut u8,
    length: usize,
    room: usize,
}

// SAFETY: the block has one owner, and malloc's memory belongs to no thread.
unsafe impl Send for Block {}

impl Default for Block {
    fn default() -> Block {
        Block { start: std::ptr::null_mut(), length: 0, room: 0 }
    }
}

impl Block {
    #[cold]
    fn grow(&mut self, more: usize) -> std::io::Result<()> {
        let room = (2 * self.room).max(self.length + more).max(64);
        // SAFETY: the block is malloc's, or NULL.
        let start = unsafe { libc::realloc(self.start.cast(), room) };
        if start.is_null() {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        (self.start, self.room) = (start.cast(), room);
        Ok(())
    }
}

impl Write for Block {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.write_all(data).map(|()| data.len())
    }

    // JSON comes in pieces of a few bytes: the loop of the trait's own one took a sixth of a list's time.
    #[inline]
    fn write_all(&mut self, data: &[u8]) -> std::io::Result<()> {
        if self.room - self.length < data.len() {
            self.grow(data.len())?;
        }
        // SAFETY: there is room for the data behind the filled part.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.start.add(self.length), data.len()) };
        self.length += data.len();
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: malloc's, or NULL after it was given away.
        unsafe { libc::free(self.start.cast()) };
    }
}

fn out_of_memory() -> Failure {
    Failure::new(ErrorKind::NoMemory, "memory ran out")
}
