//! Memory of a program that is the engine's alone. The library calls none of this: its host's allocator is the host's.

/// Tells the C library's allocator to hold little that is free: blocks from 128 KiB on go back to the kernel as soon as they are free,
/// whatever was freed before, and threads share two heaps. Does nothing with other C libraries than glibc. For the doors of the
/// engine, at the beginning of their program.
pub fn hold_little_memory() {
    #[cfg(target_env = "gnu")]
    for (what, value) in
        [(libc::M_MMAP_THRESHOLD, 128 << 10), (libc::M_TRIM_THRESHOLD, 128 << 10), (libc::M_ARENA_MAX, 2)]
    {
        // SAFETY: no pointers. Settings that are refused stay as they were.
        unsafe { libc::mallopt(what, value) };
    }
}

/// Bytes that the program holds of the C library's allocator; 0 with other C libraries than glibc. For the doors of the engine.
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
/// For the doors of the engine, in a program of their own.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no pointers.
    unsafe {
        libc::malloc_trim(0)
    };
}
