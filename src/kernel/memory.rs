//! The memory of a program that only serves the engine. The library itself calls none of these functions, because the
//! allocator belongs to its host program.

/// Makes the C library's allocator keep little free memory: blocks from 128 KiB on go back to the kernel as soon as
/// they are free, whatever was freed before, and threads share two heaps. Does nothing with other C libraries than
/// glibc. For the engine's own programs, at their beginning.
pub fn hold_little_memory() {
    #[cfg(target_env = "gnu")]
    for (what, value) in
        [(libc::M_MMAP_THRESHOLD, 128 << 10), (libc::M_TRIM_THRESHOLD, 128 << 10), (libc::M_ARENA_MAX, 2)]
    {
        // SAFETY: no pointers. Settings that are refused stay as they were.
        unsafe { libc::mallopt(what, value) };
    }
}

/// Bytes that the program has from the C library's allocator; 0 with other C libraries than glibc. For the engine's own
/// programs.
#[must_use]
pub fn held_memory() -> usize {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers.
    let held = {
        let info = unsafe { libc::mallinfo2() };
        info.uordblks + info.hblkhd
    };
    #[cfg(not(target_env = "gnu"))]
    let held = 0;
    held
}

/// Returns unused pages to the kernel, also those between used pages. Does nothing with other C libraries than glibc.
/// For the engine's own programs.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers.
    unsafe {
        libc::malloc_trim(0)
    };
}
