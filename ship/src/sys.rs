//! The calls of the kernel and of the C library that have no safe form elsewhere.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// How many of the bytes that were sent the other side's kernel has not acknowledged; `None`: unknown.
pub(crate) fn unacknowledged(socket: BorrowedFd<'_>) -> Option<u64> {
    let mut count: libc::c_int = 0;
    // SAFETY: the request writes one int, which `count` is; the descriptor is open as long as it is borrowed.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    (done == 0).then(|| u64::try_from(count).unwrap_or(0))
}

/// A time of the host's own zone.
pub(crate) struct Local {
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub year: i64,
    /// Seconds east of UTC.
    pub offset: i64,
}

/// Seconds since 1970 in the host's zone.
pub(crate) fn local(seconds: i64) -> Local {
    // SAFETY: a structure of numbers and a pointer, for which zero is a value.
    let mut found: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to values of this frame; the call keeps neither. A failure leaves zeros.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut found) };
    Local {
        month: i64::from(found.tm_mon) + 1,
        day: i64::from(found.tm_mday),
        hour: i64::from(found.tm_hour),
        minute: i64::from(found.tm_min),
        second: i64::from(found.tm_sec),
        year: i64::from(found.tm_year) + 1900,
        offset: found.tm_gmtoff,
    }
}

/// An attribute of an open file; `None`: it has none of that name and size.
pub(crate) fn attribute<const N: usize>(file: BorrowedFd<'_>, name: &std::ffi::CStr) -> Option<[u8; N]> {
    let mut value = [0; N];
    // SAFETY: the name ends with a zero byte, and the call writes at most as many bytes as `value` has.
    let length = unsafe { libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), value.as_mut_ptr().cast(), N) };
    (usize::try_from(length) == Ok(N)).then_some(value)
}

/// Milliseconds since the other side of a TCP connection acknowledged anything; `None`: no TCP connection.
pub(crate) fn silence_ms(socket: BorrowedFd<'_>) -> Option<u32> {
    // The field `tcpi_last_ack_recv` of `struct tcp_info` ends here.
    const END: usize = 60;
    let mut facts = [0_u8; END];
    let mut length = END as libc::socklen_t;
    // SAFETY: the call writes at most `length` bytes into `facts`, and the length.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            facts.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let last: [u8; 4] = facts[END - 4..].try_into().ok()?;
    (done == 0 && length as usize == END).then(|| u32::from_ne_bytes(last))
}
