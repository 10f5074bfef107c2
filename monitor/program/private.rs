//! The monitor's memory that no other process may see. A child that others can look at lets go of its copy.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::sys;

/// The start and the length of the monitor's data; 0 if there are none yet.
static DATA: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Says where the monitor's data stand.
///
/// # Safety
/// The range is a static without initial contents, of which zeroes are a value. A child between clone and exec holds
/// references into the range, of which it reads numbers alone, and none of them after [`forget`].
pub unsafe fn set(start: usize, length: usize) {
    DATA[0].store(start, Ordering::Relaxed);
    DATA[1].store(length, Ordering::Relaxed);
}

/// Lets go of the copy of the monitor's memory, but for the program itself, the stack, and `kept`.
pub fn forget(kept: &[u8]) {
    unsafe extern "C" {
        static __executable_start: u8;
        static _end: u8;
    }
    // The largest page there is.
    const PAGE: usize = if cfg!(target_arch = "x86_64") { 4 << 10 } else { 64 << 10 };
    const STACK: usize = 512 << 10;
    let here = 0u8;
    let mut from = PAGE;
    let mut keep = [
        ((&raw const __executable_start) as usize, (&raw const _end) as usize),
        (kept.as_ptr() as usize, kept.as_ptr() as usize + kept.len()),
    ];
    // Not `sort_unstable`, which is 2 kB of code.
    if keep[0] > keep[1] {
        keep.swap(0, 1);
    }
    for (start, end) in keep.into_iter().filter(|(start, end)| start < end) {
        // SAFETY: the monitor mapped all that lies between the ranges that are kept. This process does not use it any
        // more.
        unsafe { sys::unmap_range(from, start & !(PAGE - 1)) };
        from = end.next_multiple_of(PAGE);
    }
    // SAFETY: as above; below the stack.
    unsafe { sys::unmap_range(from, (&raw const here as usize).saturating_sub(STACK) & !(PAGE - 1)) };
    zero_data();
}

/// Makes the pages of the monitor's data read as zeroes. Where pages are larger than 4 KiB this does nothing.
fn zero_data() {
    const PAGE: usize = 4 << 10;
    let [start, length] = [&DATA[0], &DATA[1]].map(|number| number.load(Ordering::Relaxed));
    let (from, to) = (start.next_multiple_of(PAGE), (start + length) & !(PAGE - 1));
    // SAFETY: the caller of `set` answers for the range.
    unsafe { sys::zero_range(from, to) };
}
