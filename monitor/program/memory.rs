//! The functions that the compiler expects of a C library: the entry point, which passes on what the kernel laid out on
//! the stack, and the memory functions.

#[cfg(target_arch = "x86_64")]
use core::arch::asm;
use core::arch::global_asm;

#[cfg(target_arch = "x86_64")]
global_asm!(".globl _start", "_start:", "mov %rsp, %rdi", "xor %ebp, %ebp", "and $-16, %rsp", "call {main}", "hlt", main = sym crate::boot::main, options(att_syntax));

#[cfg(target_arch = "aarch64")]
global_asm!(".globl _start", "_start:", "mov x0, sp", "mov x29, #0", "mov x30, #0", "bl {main}", "brk #1", main = sym crate::boot::main);

/// # Safety
/// As memcpy(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller gives two ranges of that length. Assembly, because a loop would be compiled into a call of
    // itself.
    unsafe {
        asm!("rep movsb", inout("rcx") length => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        forward(to, from, length);
    }
    to
}

/// # Safety
/// As memmove(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: forward when the target does not lie in the source's tail, else backward.
    unsafe {
        if (to as usize).wrapping_sub(from as usize) >= length {
            return memcpy(to, from, length);
        }
        let mut at = length;
        while at > 0 {
            at -= 1;
            to.add(at).write_volatile(from.add(at).read_volatile());
        }
    }
    to
}

/// # Safety
/// As memset(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(to: *mut u8, value: i32, length: usize) -> *mut u8 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller gives a range of that length.
    unsafe {
        asm!("rep stosb", inout("rcx") length => _, inout("rdi") to => _, in("al") value as u8, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        for at in 0..length {
            to.add(at).write_volatile(value as u8);
        }
    }
    to
}

/// # Safety
/// As memcmp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, length: usize) -> i32 {
    for at in 0..length {
        // SAFETY: both ranges hold `length` bytes.
        let (x, y) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// # Safety
/// As bcmp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, length: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(a, b, length) }
}

/// # Safety
/// Both ranges hold `length` bytes.
#[cfg(target_arch = "aarch64")]
unsafe fn forward(to: *mut u8, from: *const u8, length: usize) {
    for at in 0..length {
        // SAFETY: both ranges hold `length` bytes.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
}

/// Named by precompiled parts of `core` that can never unwind here.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}
