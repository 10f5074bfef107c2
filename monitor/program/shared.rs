//! The ring of a log, in memory that processes forked from this one share with it.

use crate::lines::newlines;
use crate::ring::{Memory, RESTING, RESTS, Ring};
use crate::sys::{self, *};
use core::sync::atomic::AtomicU64;

/// The ring, and the way to wake the writer: by a number in the shared memory, because a write to a descriptor that the
/// worker has, too, could be made to block.
#[derive(Clone, Copy)]
pub struct LogRing {
    pub bytes: Ring<SharedBytes>,
    /// Bytes of the longest record.
    pub longest: usize,
}

impl LogRing {
    /// Puts whole records in; answers how many had no room.
    pub fn append(&self, records: &[u8]) -> u64 {
        let taken = self.bytes.put(records);
        if self.bytes.take(RESTS) {
            self.wake();
        }
        newlines(&records[taken..])
    }

    /// Wakes the writer, also where its wake-up is somebody else's who may have died meanwhile.
    pub fn wake(&self) {
        self.bytes.take(RESTS);
        sys::wake_one(self.bytes.resting());
    }

    /// The writer waits until somebody wakes it.
    pub fn wait(&self) {
        sys::wait_while(self.bytes.resting(), RESTING);
    }
}

/// Zeroed numbers that all these processes see, and so many bytes behind them, at least. Pages
/// that nobody writes to take no memory.
pub fn map<const N: usize>(bytes: usize) -> Result<(&'static [AtomicU64; N], SharedBytes)> {
    const NUMBERS: usize = 64 << 10;
    const SHARED_WITHOUT_RESERVE: usize = 1 | 0x20 | 0x4000;
    let length = bytes.max(1).checked_next_multiple_of(NUMBERS).ok_or(ENOMEM)?;
    let at = sys!(MMAP, 0, NUMBERS + length, 3, SHARED_WITHOUT_RESERVE, -1isize, 0)?;
    // SAFETY: zeroed memory that is never unmapped, with room for the numbers; they are atomic.
    let numbers = unsafe { &*(at as *const [AtomicU64; N]) };
    Ok((numbers, SharedBytes { at: (at + NUMBERS) as *mut u8, length }))
}

/// Memory that processes share. It is copied, never referred to, because the other process may change it at any time.
#[derive(Clone, Copy)]
pub struct SharedBytes {
    at: *mut u8,
    length: usize,
}

impl Memory for SharedBytes {
    fn room(&self) -> usize {
        self.length
    }

    fn write(&self, at: usize, data: &[u8]) {
        if at <= self.length && data.len() <= self.length - at {
            // SAFETY: within the mapping, which is never unmapped; `data` lies elsewhere.
            unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), self.at.add(at), data.len()) }
        }
    }

    fn read(&self, at: usize, data: &mut [u8]) {
        if at <= self.length && data.len() <= self.length - at {
            // SAFETY: as above.
            unsafe { core::ptr::copy_nonoverlapping(self.at.add(at), data.as_mut_ptr(), data.len()) }
        }
    }

    fn give_back(&self, from: usize, to: usize) {
        const REMOVE: usize = 9;
        // The largest page there is.
        const PAGE: usize = 64 << 10;
        let (from, to) = (from.next_multiple_of(PAGE), to.next_multiple_of(PAGE).min(self.length));
        if from < to {
            // An error leaves the memory as it is.
            let _ = sys!(MADVISE, self.at.wrapping_add(from), to - from, REMOVE);
        }
    }
}
