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
    let held = counted();
    #[cfg(not(target_env = "gnu"))]
    let held = 0;
    held
}

/// The bytes in use, as glibc counts them. The function that counts more than 4 GiB came with glibc 2.33: it is looked up, so
/// that the program starts with an older one, too.
#[cfg(target_env = "gnu")]
fn counted() -> usize {
    // SAFETY: the name ends with a NUL.
    let newer = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
    if newer.is_null() {
        // SAFETY: no pointers.
        let info = unsafe { libc::mallinfo() };
        return info.uordblks.cast_unsigned() as usize + info.hblkhd.cast_unsigned() as usize;
    }
    // SAFETY: glibc's function of that name has this type.
    let counts = unsafe { std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> libc::mallinfo2>(newer) };
    // SAFETY: no pointers.
    let info = unsafe { counts() };
    info.uordblks + info.hblkhd
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
